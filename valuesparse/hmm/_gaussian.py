"""Normal emissions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse._fork import cached_attribute
from valuesparse.hmm._base import BaseHMM
from valuesparse.hmm._covariances import (
    ROWS_AT_ONCE,
    as_covariances,
    as_matrices,
    covariance,
    from_template,
    log_densities,
    refuse_kind,
    require_factors,
)
from valuesparse.hmm._estimator import centres
from valuesparse.hmm._passes import Passes
from valuesparse.hmm._sampling import FromNormals
from valuesparse.hmm._settings import Setting, as_doubles, rows_within

__all__ = ["GaussianHMM"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

#: Products of two features are made once where there are no more than these.
_MOST_PRODUCTS = 64
#: A state is far from the centre of all rows where the square of the way there has this share in
#: that of the distances of its rows: about 1e6 variances.
_FAR = 1.0 - 1e-6
#: Rows with less of a state add nothing to it, and subnormal numbers are slow.
_LEAST_SHARE = 1e-200


class NormalRows:
    """The rows of X, and moments around their mean, where second ones lose fewer digits."""

    def __init__(self, X: Array) -> None:
        self.rows: Floats = np.ascontiguousarray(X, dtype=np.float64)

    @cached_attribute
    def centre(self) -> Floats:
        """The mean of the rows, (F,)."""
        return self.rows.mean(axis=0)

    @cached_attribute
    def moments(self) -> Floats:
        """One, each feature and its square, (N, 1 + 2 F): one product sums them all."""
        rows = self.rows - self.centre
        return np.column_stack([np.ones(len(rows)), rows, rows**2])

    @property
    def centred(self) -> Floats:
        """The rows around their mean, (N, F)."""
        return self.moments[:, 1 : 1 + self.rows.shape[1]]

    @cached_attribute
    def products(self) -> Floats | None:
        """The products of two features, (N, F (F + 1) / 2), where that is not much memory."""
        first, second = np.triu_indices(self.rows.shape[1])
        if first.size > _MOST_PRODUCTS:
            return None
        return self.centred[:, first] * self.centred[:, second]


class GaussianHMM(BaseHMM):
    """A hidden Markov model whose states emit normal vectors, with hmmlearn's surface.

    Parameters
    ----------
    n_components : int
        Number of states K.
    covariance_type : {'diag', 'spherical', 'full', 'tied'}
        A variance for each feature; one variance; a matrix; one matrix for all states.
    min_covar : float
        Added to the diagonal of the initial covariances.
    startprob_prior, transmat_prior : float or array
        Parameters of Dirichlet priors.
    means_prior, means_weight : float or array
        Mean and precision of the normal prior of ``means_``.
    covars_prior, covars_weight : float or array
        Parameters of the prior of the covariances: inverse gamma, or inverse Wishart for matrices.
        As in hmmlearn, a number is added to every entry of a matrix, which may become singular
        nonetheless: ``c * numpy.eye(n_features)`` prevents that.
    algorithm, random_state, n_iter, tol, verbose, implementation, n_restarts, threads
        As in :class:`BaseHMM`.
    params, init_params : str
        Letters of what a fit changes, and sets before: 's' start, 't' transitions, 'm' means,
        'c' covariances. The first means are those of k-means, which needs scikit-learn.

    Attributes
    ----------
    startprob_, transmat_, monitor_
        As in :class:`BaseHMM`.
    means_ : ndarray of shape (K, n_features)
        Mean of each state.
    covars_ : ndarray of shape (K, n_features, n_features)
        Covariances as matrices. Assign them in the shape of the kind: (K,), (K, F), (K, F, F),
        or (F, F) when tied.
    n_features : int
        Number of features F.

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.hmm import GaussianHMM
    >>> X = np.array([[0.1], [-0.2], [0.0], [5.1], [4.9], [5.2], [0.2], [-0.1]])
    >>> model = GaussianHMM(2, init_params="stc", random_state=0)
    >>> model.means_ = np.array([[0.0], [5.0]])
    >>> model.fit(X).predict(X).tolist()
    [0, 0, 0, 1, 1, 1, 0, 0]
    >>> model.means_.round(2).tolist()
    [[0.0], [5.07]]
    """

    _letters: ClassVar[dict[str, str]] = {**BaseHMM._letters, "m": "means_", "c": "_covars_"}

    means_: Any
    _covars_: Floats

    def __init__(
        self,
        n_components: int = 1,
        covariance_type: str = "diag",
        min_covar: float = 1e-3,
        startprob_prior: npt.ArrayLike = 1.0,
        transmat_prior: npt.ArrayLike = 1.0,
        means_prior: npt.ArrayLike = 0,
        means_weight: npt.ArrayLike = 0,
        covars_prior: npt.ArrayLike = 1e-2,
        covars_weight: float = 1,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stmc",
        init_params: str = "stmc",
        implementation: str = "log",
        *,
        n_restarts: int = 1,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, n_restarts=n_restarts, threads=threads,
        )  # fmt: skip
        self.covariance_type = covariance_type
        self.min_covar = min_covar
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight

    @property
    def covars_(self) -> Floats:
        """Covariances as matrices, (K, F, F)."""
        self._require_fitted("_covars_")
        n = self.n_features if hasattr(self, "n_features") else np.shape(self.means_)[1]
        return as_matrices(self._covars_, self.covariance_type, self.n_components, n)

    @covars_.setter
    def covars_(self, covars: npt.ArrayLike) -> None:
        self._covars_ = as_covariances(covars, self.covariance_type, self.n_components)

    def _hyperparameters(self) -> dict[str, Setting]:
        k, n = self.n_components, self.n_features
        covars = {"full": Setting((k, n, n)), "tied": Setting((n, n))}
        return {
            **super()._hyperparameters(), "min_covar": Setting((), 0.0), "covars_weight": Setting(),
            "means_prior": Setting((k, n)), "means_weight": Setting((k, n), 0.0),
            "covars_prior": covars.get(self.covariance_type, Setting((k, n), 0.0)),
        }  # fmt: skip

    def _init(self, X: Array, lengths: Any = None) -> None:
        refuse_kind(self.covariance_type)
        rows_within(X)
        super()._init(X, lengths)
        if self._needs_init("m", "means_"):
            seed = self.random_state if self._restarted is None else self._restarted
            times = 10 if self._restarted is None else 1  # restarts are to differ
            self.means_, _ = centres(X, self.n_components, seed, "means_", times)
        if self._needs_init("c", "_covars_"):
            matrix = covariance(X) + self.min_covar * np.eye(X.shape[1])
            self._covars_ = from_template(matrix, self.covariance_type, (self.n_components,))

    def _check(self) -> None:
        super()._check()
        refuse_kind(self.covariance_type)
        k = self.n_components
        self.means_ = as_doubles("means_", self.means_)
        if self.means_.ndim != 2 or len(self.means_) != k:
            raise ValueError(
                f"means_ must have shape (n_components, n_features), got {self.means_.shape}"
            )
        if not np.isfinite(self.means_).all():
            raise ValueError("means_ must be finite")
        n = self.n_features = self.means_.shape[1]
        shapes = {"spherical": (k,), "diag": (k, n), "full": (k, n, n), "tied": (n, n)}
        self._covars_ = as_doubles("covars_", self._covars_)  # hmmlearn's users set it, too
        wanted, found = shapes[self.covariance_type], self._covars_.shape
        if found != wanted:
            raise ValueError(
                f"covars_ of {self.covariance_type!r} must have shape {wanted} for means_ of shape "
                f"{self.means_.shape}, got {found}"
            )
        if not np.isfinite(self._covars_).all():
            raise ValueError("covars_ must be finite")

    def _check_last(self) -> None:
        require_factors(self._covars_, self.covariance_type)

    def _get_n_fit_scalars_per_param(self) -> dict[str, int]:
        k, n = self.n_components, self.n_features
        matrix = n * (n + 1) // 2
        covars = {"spherical": k, "diag": k * n, "full": k * matrix, "tied": matrix}
        more = {"m": k * n, "c": covars[self.covariance_type]}
        return {**super()._get_n_fit_scalars_per_param(), **more}

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Floats:
        return self._emitter(random_state)(state)

    def _emitter(self, random: np.random.RandomState) -> FromNormals:
        return FromNormals(self.means_, self.covars_, random)

    def _compute_log_likelihood(self, X: Array) -> Floats:
        scores = np.empty((len(X), self.n_components))
        self._fill(self._prepared(X), scores, 1)
        return scores

    def _prepared(self, X: Array) -> NormalRows:
        if X.shape[1] != self.means_.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} columns, but means_ has {self.means_.shape[1]} features"
            )
        return NormalRows(rows_within(X))

    def _fill(self, data: NormalRows, scores: Floats, threads: int) -> None:
        log_densities(data.rows, self.means_, self._covars_, self.covariance_type, scores, threads)

    def _accumulate(self, data: NormalRows, passes: Passes, threads: int) -> dict[str, Any]:
        posteriors, n = passes.posteriors, data.rows.shape[1]
        sums = posteriors.T @ data.moments
        stats: dict[str, Any] = {
            "centre": data.centre, "post": sums[:, :1], "obs": sums[:, 1 : 1 + n],
            "obs**2": sums[:, 1 + n :],
        }  # fmt: skip
        if "c" in self.params and self.covariance_type in ("full", "tied"):
            stats["obs*obs.T"] = _outer(posteriors, data)
        _recentre(stats, posteriors, data.rows, self._least_scatter())
        return stats

    def _least_scatter(self) -> Floats:
        """Return what the prior adds to each diagonal."""
        prior = np.asarray(self.covars_prior, dtype=np.float64)
        matrices = self.covariance_type in ("full", "tied") and prior.ndim > 1
        return np.diagonal(prior, axis1=-2, axis2=-1) if matrices else prior

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        weight = np.asarray(self.means_weight, dtype=np.float64)
        prior = self.means_prior - stats["centre"]
        count = stats["post"]
        if "m" in self.params:
            total = weight + count
            seen = total > 0.0  # a state that nobody visits keeps its mean
            means = (weight * prior + stats["obs"]) / np.where(seen, total, 1.0)
            self.means_ = np.where(seen, means + stats["centre"], self.means_)
        else:
            means = self.means_ - stats["centre"]
        if "c" not in self.params:
            return
        away = means - prior
        if self.covariance_type in ("spherical", "diag"):
            scatter = stats["obs**2"] - 2.0 * means * stats["obs"] + means**2 * count
            scatter = np.maximum(scatter, 0.0) + weight * away**2
            total = np.maximum(max(self.covars_weight - 1.0, 0.0) + count, 1e-5)
            found = (self.covars_prior + scatter) / total
            self._covars_ = found.mean(axis=1) if self.covariance_type == "spherical" else found
            return
        cross = stats["obs"][:, :, None] * means[:, None, :]
        scatter = stats["obs*obs.T"] - cross - cross.transpose(0, 2, 1)
        scatter += means[:, :, None] * means[:, None, :] * count[:, :, None]
        scatter += np.atleast_1d(weight)[..., None] * away[:, :, None] * away[:, None, :]
        least = max(self.covars_weight - self.n_features, 0.0)
        if self.covariance_type == "tied":
            self._covars_ = (self.covars_prior + scatter.sum(axis=0)) / (least + count.sum())
            return
        total = least + count[:, :, None]
        seen = total > 0.0
        found = (self.covars_prior + scatter) / np.where(seen, total, 1.0)
        self._covars_ = np.where(seen, found, self._covars_)


def _recentre(stats: dict[str, Any], weights: Floats, rows: Floats, prior: Floats) -> None:
    """Take the sums of states far from the centre of all rows again, around their own means.

    Scatter is a difference of sums, which cancel where the way to the centre is much longer than
    the deviation.
    """
    count, first, second = stats["post"], stats["obs"], stats["obs**2"]
    means = first / np.maximum(count, 1e-300)
    far = means * first > _FAR * (second + prior)
    if not far.any():
        return
    stats["centre"] = centres = np.tile(stats["centre"], (len(means), 1))
    for state in np.flatnonzero(far.any(axis=1)):
        centres[state] += means[state]
        own = np.flatnonzero(weights[:, state] > _LEAST_SHARE * count[state])
        sums: list[Any] = [0.0, 0.0, 0.0]
        for start in range(0, own.size, ROWS_AT_ONCE):
            part = own[start : start + ROWS_AT_ONCE]
            weight, around = weights[part, state], rows[part] - centres[state]
            sums[0] += weight @ around
            sums[1] += weight @ around**2
            if "obs*obs.T" in stats:
                sums[2] += (around * weight[:, None]).T @ around
        first[state], second[state] = sums[:2]
        if "obs*obs.T" in stats:
            stats["obs*obs.T"][state] = sums[2]


def _outer(weights: Floats, data: NormalRows) -> Floats:
    """Return the sum over rows of weight (N, K) times outer product, (K, F, F)."""
    rows, products = data.centred, data.products
    k, n = weights.shape[1], rows.shape[1]
    sums = np.empty((k, n, n))
    if products is not None:
        first, second = np.triu_indices(n)
        sums[:, first, second] = sums[:, second, first] = weights.T @ products
        return sums
    for state in range(k):
        sums[state] = (rows * weights[:, state, None]).T @ rows
    return sums
