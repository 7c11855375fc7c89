"""Mixtures of normal distributions as emissions."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count
from valuesparse.hmm._base import BaseHMM
from valuesparse.hmm._covariances import (
    ROWS_AT_ONCE,
    Fault,
    covariance,
    from_template,
    log_densities,
    refuse_kind,
    require_factors,
)
from valuesparse.hmm._estimator import centres
from valuesparse.hmm._passes import Passes, logarithm
from valuesparse.hmm._sampling import FromMixtures
from valuesparse.hmm._settings import Setting, as_doubles, rows_within

__all__ = ["GMMHMM"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

_log = logging.getLogger(__name__)


class MixtureRows:
    """The rows of X, and how much each component of a state takes of each."""

    def __init__(self, X: Array, k: int, m: int) -> None:
        self.rows: Floats = np.ascontiguousarray(X, dtype=np.float64)
        self.share: Floats = np.empty((len(X), k, m))


class GMMHMM(BaseHMM):
    """A hidden Markov model whose states emit mixtures of normal vectors, as hmmlearn's.

    Parameters
    ----------
    n_components : int
        Number of states K.
    n_mix : int
        Number of normal distributions of each state M.
    min_covar : float
        Added to the diagonal of the initial covariances.
    startprob_prior, transmat_prior, weights_prior : float or array
        Parameters of Dirichlet priors.
    means_prior, means_weight : float or array
        Mean and precision of the normal prior of ``means_``.
    covars_prior, covars_weight : float or array, optional
        Parameters of the prior of the covariances. A number is added to every entry of a matrix;
        ``c * numpy.eye(n_features)`` prevents that it becomes singular. By default, there is no
        prior, except that of hmmlearn for 'spherical': ``covars_prior`` is -(n_mix + 2) / 2, with
        which sums of squares are divided by n_features * count + n_features - n_mix. Where `n_mix`
        is above `n_features` that makes variances of small components too large, or leaves them as
        they were; -(n_features + 2) / 2 is no prior.
    covariance_type : {'diag', 'spherical', 'full', 'tied'}
        The kind of each component; 'tied': one matrix for the components of a state.
    algorithm, random_state, n_iter, tol, verbose, implementation, n_restarts, threads
        As in :class:`BaseHMM`.
    params, init_params : str
        Letters of what a fit changes, and sets before: 's' start, 't' transitions, 'm' means,
        'c' covariances, 'w' weights. The first means are those of k-means, which needs
        scikit-learn.

    Attributes
    ----------
    startprob_, transmat_, monitor_
        As in :class:`BaseHMM`.
    weights_ : ndarray of shape (K, M)
        Weight of each component.
    means_ : ndarray of shape (K, M, n_features)
        Mean of each.
    covars_ : ndarray
        (K, M), (K, M, F), (K, M, F, F), or (K, F, F) when tied.

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.hmm import GMMHMM
    >>> model = GMMHMM(1, n_mix=2)
    >>> model.startprob_, model.transmat_ = [1.0], [[1.0]]
    >>> model.weights_, model.means_ = [[0.5, 0.5]], [[[-1.0], [1.0]]]
    >>> model.covars_ = [[[1.0], [1.0]]]
    >>> round(model.score(np.zeros((1, 1))), 4)
    -1.4189
    """

    _letters: ClassVar[dict[str, str]] = {
        **BaseHMM._letters, "w": "weights_", "m": "means_", "c": "covars_"
    }  # fmt: skip

    weights_: Any
    means_: Any
    covars_: Any

    def __init__(
        self,
        n_components: int = 1,
        n_mix: int = 1,
        min_covar: float = 1e-3,
        startprob_prior: npt.ArrayLike = 1.0,
        transmat_prior: npt.ArrayLike = 1.0,
        weights_prior: npt.ArrayLike = 1.0,
        means_prior: npt.ArrayLike = 0.0,
        means_weight: npt.ArrayLike = 0.0,
        covars_prior: npt.ArrayLike | None = None,
        covars_weight: npt.ArrayLike | None = None,
        algorithm: str = "viterbi",
        covariance_type: str = "diag",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stmcw",
        init_params: str = "stmcw",
        implementation: str = "log",
        *,
        n_restarts: int = 1,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, n_restarts=n_restarts, threads=threads,
        )  # fmt: skip
        self.n_mix = n_mix
        self.min_covar = min_covar
        self.weights_prior = weights_prior
        self.means_prior = means_prior
        self.means_weight = means_weight
        self.covars_prior = covars_prior
        self.covars_weight = covars_weight
        self.covariance_type = covariance_type

    def _hyperparameters(self) -> dict[str, Setting]:
        k, m, n = self.n_components, self.n_mix, self.n_features
        by_kind: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
            "spherical": ((k, m), (k, m)), "diag": ((k, m, n), (k, m, n)),
            "full": ((k, m, n, n), (k, m)), "tied": ((k, n, n), (k,)),
        }  # fmt: skip
        prior, weight = by_kind[self.covariance_type]
        return {
            **super()._hyperparameters(), "min_covar": Setting((), 0.0),
            "weights_prior": Setting((k, m), 0.0), "means_prior": Setting((k, m, n)),
            "means_weight": Setting((k, m), 0.0), "covars_prior": Setting(prior, optional=True),
            "covars_weight": Setting(weight, optional=True),
        }  # fmt: skip

    def _init(self, X: Array, lengths: Any = None) -> None:
        refuse_kind(self.covariance_type)
        as_count("n_mix", self.n_mix, at_least=1)
        rows_within(X)
        super()._init(X, lengths)
        k, m, n = self.n_components, self.n_mix, self.n_features
        matrix = covariance(X) + self.min_covar * np.eye(n)
        if self._needs_init("w", "weights_"):
            self.weights_ = np.full((k, m), 1.0 / m)
        if self._needs_init("m", "means_"):
            self.means_ = self._first_means(X, matrix)
        if self._needs_init("c", "covars_"):
            shape = (k, 1) if self.covariance_type == "tied" else (k, m)
            self.covars_ = from_template(matrix, self.covariance_type, shape)

    def _first_means(self, X: Array, matrix: Floats) -> Floats:
        """Return the centres of clusters within those of states."""
        k, m = self.n_components, self.n_mix
        seed = self.random_state if self._restarted is None else self._restarted
        times = 10 if self._restarted is None else 1  # restarts are to differ
        middles, label = centres(X, k, seed, "means_", times)
        means = []
        for state in range(k):
            rows = X[label == state]
            if len(rows) >= m:
                means.append(centres(rows, m, seed, "means_", times)[0])
            else:
                drawn = self._source().multivariate_normal(middles.mean(axis=0), matrix, size=m)
                means.append(np.clip(drawn, X.min(axis=0), X.max(axis=0)))
        return np.stack(means)

    def _check(self) -> None:
        super()._check()
        refuse_kind(self.covariance_type)
        k, m = self.n_components, self.n_mix
        self._check_distribution("weights_", (k, m), "(n_components, n_mix)")
        self.means_ = as_doubles("means_", self.means_)
        self.covars_ = as_doubles("covars_", self.covars_)
        if not hasattr(self, "n_features") and self.means_.ndim == 3:
            self.n_features = self.means_.shape[2]
        n = getattr(self, "n_features", 0)
        if self.means_.shape != (k, m, n):
            raise ValueError(
                f"means_ must have shape (n_components, n_mix, n_features) = {(k, m, n)}, got "
                f"{self.means_.shape}"
            )
        shapes = {"spherical": (k, m), "diag": (k, m, n), "full": (k, m, n, n), "tied": (k, n, n)}
        wanted = shapes[self.covariance_type]
        if self.covars_.shape != wanted:
            raise ValueError(
                f"{self.covariance_type!r} covars_ must have shape {wanted}, got "
                f"{self.covars_.shape}"
            )
        for name in ("means_", "covars_"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} must be finite")
        self._check_covariances()

    def _check_covariances(self) -> None:
        if self.covariance_type in ("spherical", "diag"):
            if (self.covars_ < 0.0).any():
                raise ValueError(f"{self.covariance_type!r} covars_ must be non-negative")
            if (self.covars_ == 0.0).any():
                _log.warning("Degenerate mixture covariance")
            return
        for at in np.ndindex(self.covars_.shape[:-2]):
            matrix = self.covars_[at]
            if not np.allclose(matrix, matrix.T):
                raise ValueError(f"covars_{list(at)} is not symmetric")
            least = np.linalg.eigvalsh(matrix).min()
            if least < -1e-12 * max(1.0, np.abs(matrix).max()):
                raise ValueError(f"covars_{list(at)} is not positive definite")

    def _check_last(self) -> None:
        tied = self.covariance_type == "tied"
        require_factors(self.covars_, self.covariance_type, self._fault(1 if tied else self.n_mix))

    def _fault(self, m: int) -> Fault:
        """Return what names a singular matrix, where a state has `m` in a row."""
        if self.covariance_type == "tied":
            return lambda i: f"state {i // m} has become singular"
        return lambda i: f"state {i // m} has become singular, in component {i % m}"

    def _get_n_fit_scalars_per_param(self) -> dict[str, int]:
        k, m, n = self.n_components, self.n_mix, self.n_features
        matrix = n * (n + 1) // 2
        covars = {
            "spherical": k * m, "diag": k * m * n, "full": k * m * matrix, "tied": k * matrix
        }  # fmt: skip
        more = {"m": k * m * n, "c": covars[self.covariance_type], "w": k * (m - 1)}
        return {**super()._get_n_fit_scalars_per_param(), **more}

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Floats:
        return self._emitter(random_state)(state)

    def _emitter(self, random: np.random.RandomState) -> FromMixtures:
        shape, n = self.means_.shape[:2], self.n_features
        covars = self.covars_
        if self.covariance_type == "tied":
            covars = covars[:, None]
        elif self.covariance_type != "full":
            covars = (covars[..., None] if covars.ndim == 2 else covars)[..., None] * np.eye(n)
        whole = np.broadcast_to(covars, (*shape, n, n))
        return FromMixtures(self.weights_, self.means_, whole, random)

    def _compute_log_likelihood(self, X: Array) -> Floats:
        scores = np.empty((len(X), self.n_components))
        self._fill(self._prepared(X), scores, 1)
        return scores

    def _prepared(self, X: Array) -> MixtureRows:
        if X.shape[1] != self.means_.shape[2]:
            raise ValueError(
                f"X has {X.shape[1]} columns, but means_ has {self.means_.shape[2]} features"
            )
        return MixtureRows(rows_within(X), self.n_components, self.n_mix)

    def _fill(self, data: MixtureRows, scores: Floats, threads: int) -> None:
        k, m, n = self.means_.shape
        kind, covars = self.covariance_type, self.covars_
        if kind == "tied":
            kind, covars = "full", np.repeat(covars, m, axis=0)
        flat = covars.reshape(k * m, *covars.shape[1 if self.covariance_type == "tied" else 2 :])
        share = data.share
        log_densities(
            data.rows, self.means_.reshape(k * m, n), flat, kind, share.reshape(len(share), k * m),
            threads, self._fault(m),
        )  # fmt: skip
        share += logarithm(self.weights_)
        most = share.max(axis=2, keepdims=True)
        share -= most
        with np.errstate(under="ignore"):
            np.exp(share, out=share)
        sums = share.sum(axis=2, keepdims=True)
        share /= sums
        np.add(np.log(sums[:, :, 0]), most[:, :, 0], out=scores)

    def _accumulate(self, data: MixtureRows, passes: Passes, threads: int) -> dict[str, Any]:
        k, m, n = self.means_.shape
        share, rows = data.share, data.rows
        share *= passes.posteriors[:, :, None]
        flat = share.reshape(len(share), k * m)
        stats: dict[str, Any] = {"post_mix_sum": flat.sum(axis=0).reshape(k, m)}
        stats["post_sum"] = stats["post_mix_sum"].sum(axis=1)
        means = self.means_.reshape(k * m, n)
        if "c" in self.params and self.covariance_type in ("full", "tied"):
            away, outer = _scatter(flat, rows, means)
            outer = outer.reshape(k, m, n, n)
            stats["c_n"] = outer.sum(axis=1) if self.covariance_type == "tied" else outer
        else:
            away, squares = _squares(flat, rows, means)
            one = self.covariance_type == "spherical"
            stats["c_n"] = (squares.sum(axis=1) if one else squares).reshape(k, m, *[n][one:])
        stats["m_n"] = away.reshape(k, m, n)
        return stats

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        k, m, n = self.means_.shape
        weight = np.broadcast_to(self.means_weight, (k, m))
        prior = np.broadcast_to(self.means_prior, (k, m, n))
        counts = stats["post_mix_sum"]
        if "w" in self.params:
            # Where a prior takes more away than there is, 0 is left.
            share = np.maximum(counts + (np.broadcast_to(self.weights_prior, (k, m)) - 1.0), 0.0)
            total = share.sum(axis=1, keepdims=True)
            seen = total > 0.0
            self.weights_ = np.where(seen, share / np.where(seen, total, 1.0), self.weights_)
        if "m" in self.params:
            total = (counts + weight)[:, :, None]
            seen = total > 0.0
            # By the way from the mean before: rows that are equal have that very mean.
            away = stats["m_n"] + weight[:, :, None] * (prior - self.means_)
            self.means_ = self.means_ + np.where(seen, away / np.where(seen, total, 1.0), 0.0)
        if "c" in self.params:
            self._set_covariances(stats, counts, weight, self.means_ - prior)

    def _set_covariances(
        self, stats: dict[str, Any], counts: Floats, weight: Floats, away: Floats
    ) -> None:
        k, m, n = self.means_.shape
        kind = self.covariance_type
        defaults = {
            "spherical": (-(m + 2.0) / 2.0, 0.0),
            "diag": (-1.5, 0.0),
            "full": (0.0, -(n + 2.0)),
            "tied": (0.0, -(m + n + 1.0)),
        }[kind]
        first: Any = defaults[0] if self.covars_prior is None else self.covars_prior
        second: Any = defaults[1] if self.covars_weight is None else self.covars_weight
        outer = away[..., :, None] * away[..., None, :] if kind in ("full", "tied") else away**2
        if kind == "full":
            psi = np.broadcast_to(first, (k, m, n, n)).swapaxes(2, 3)
            above = psi + weight[:, :, None, None] * outer + stats["c_n"]
            below = (counts + 1.0 + np.broadcast_to(second, (k, m)) + n + 1.0)[:, :, None, None]
        elif kind == "diag":
            above = weight[:, :, None] * outer + 2.0 * np.broadcast_to(second, (k, m, n))
            above = above + stats["c_n"]
            below = counts[:, :, None] + 1.0 + 2.0 * (np.broadcast_to(first, (k, m, n)) + 1.0)
        elif kind == "spherical":
            above = weight * outer.sum(axis=2) + 2.0 * np.broadcast_to(second, (k, m))
            above = above + stats["c_n"]
            below = n * (counts + 1.0) + 2.0 * (np.broadcast_to(first, (k, m)) + 1.0)
        else:
            psi = np.broadcast_to(first, (k, n, n)).swapaxes(1, 2)
            above = np.einsum("km,kmij->kij", weight, outer) + psi + stats["c_n"]
            below = stats["post_sum"] + m + np.broadcast_to(second, (k,)) + n + 1.0
            below = below[:, None, None]
        seen = below > 0.0  # a component that nobody visits keeps its covariance
        found = above / np.where(seen, below, 1.0)
        self.covars_ = np.where(seen, found, self.covars_)


def _squares(weights: Floats, rows: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Return weighted sums (C, F) of distances from means (C, F), and of their squares."""
    sums, squares = np.zeros(means.shape), np.zeros(means.shape)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        here = slice(first, first + ROWS_AT_ONCE)
        part, some = rows[here], weights[here]
        for f in range(means.shape[1]):
            away = part[:, f, None] - means[:, f]
            sums[:, f] += np.einsum("nc,nc->c", some, away)
            away *= away
            squares[:, f] += np.einsum("nc,nc->c", some, away)
    return sums, squares


def _scatter(weights: Floats, rows: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Return weighted sums (C, F) of distances from means (C, F), and of outer products."""
    sums, outer = np.empty(means.shape), np.empty((*means.shape, means.shape[1]))
    for c in range(len(means)):
        away = rows - means[c]
        sums[c] = weights[:, c] @ away
        outer[c] = (away * weights[:, c, None]).T @ away
    return sums, outer
