"""Counts as emissions."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.hmm._base import BaseHMM
from valuesparse.hmm._passes import Passes
from valuesparse.hmm._settings import ROWS, Setting, as_doubles

__all__ = ["PoissonHMM"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


class CountRows(NamedTuple):
    """The counts, log x! summed over each row (N, 1), and a one before the counts."""

    rows: Floats
    factorials: Floats
    moments: Floats


class PoissonHMM(BaseHMM):
    """A hidden Markov model whose states emit Poisson counts, with hmmlearn's surface.

    Parameters
    ----------
    n_components : int
        Number of states K.
    startprob_prior, transmat_prior : float or array
        Parameters of Dirichlet priors.
    lambdas_prior, lambdas_weight : float or array
        Shape and rate of the gamma prior of ``lambdas_``.
    algorithm, random_state, n_iter, tol, verbose, implementation, n_restarts, threads
        As in :class:`BaseHMM`.
    params, init_params : str
        Letters of what a fit changes, and sets before: 's' start, 't' transitions, 'l' lambdas.

    Attributes
    ----------
    startprob_, transmat_, monitor_
        As in :class:`BaseHMM`.
    lambdas_ : ndarray of shape (K, n_features)
        Mean of each count in each state.

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.hmm import PoissonHMM
    >>> X = np.array([[0], [1], [0], [9], [12], [10], [1], [0]])
    >>> model = PoissonHMM(2, init_params="st", random_state=1)
    >>> model.lambdas_ = np.array([[1.0], [8.0]])
    >>> model.fit(X).lambdas_.round(2).tolist()
    [[0.4], [10.33]]
    """

    _letters: ClassVar[dict[str, str]] = {**BaseHMM._letters, "l": "lambdas_"}

    lambdas_: Any

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: npt.ArrayLike = 1.0,
        transmat_prior: npt.ArrayLike = 1.0,
        lambdas_prior: npt.ArrayLike = 0.0,
        lambdas_weight: npt.ArrayLike = 0.0,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "stl",
        init_params: str = "stl",
        implementation: str = "log",
        *,
        n_restarts: int = 1,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, n_restarts=n_restarts, threads=threads,
        )  # fmt: skip
        self.lambdas_prior = lambdas_prior
        self.lambdas_weight = lambdas_weight

    def _hyperparameters(self) -> dict[str, Setting]:
        mean = Setting((self.n_components, self.n_features), 0.0)
        return {**super()._hyperparameters(), "lambdas_prior": mean, "lambdas_weight": mean}

    def _init(self, X: Array, lengths: Any = None) -> None:
        _require_counts(X)
        super()._init(X, lengths)
        if self._needs_init("l", "lambdas_"):
            mean, variance = float(X.mean()), float(X.var())
            shape = (self.n_components, self.n_features)
            if mean > 0.0 and variance > 0.0:  # as the moments of a gamma distribution have it
                self.lambdas_ = self._source().gamma(mean**2 / variance, variance / mean, shape)
            else:
                self.lambdas_ = np.full(shape, mean)

    def _check(self) -> None:
        super()._check()
        lambdas = np.atleast_2d(as_doubles("lambdas_", self.lambdas_))
        wanted = (self.n_components, getattr(self, "n_features", lambdas.shape[1]))
        if lambdas.shape != wanted or lambdas.size == 0:
            raise ValueError(
                f"lambdas_ must have shape (n_components, n_features) = {wanted}, got "
                f"{lambdas.shape}"
            )
        if not (np.isfinite(lambdas) & (lambdas >= 0.0)).all():
            raise ValueError("lambdas_ must be finite and at least 0")
        self.lambdas_, self.n_features = lambdas, lambdas.shape[1]

    def _get_n_fit_scalars_per_param(self) -> dict[str, int]:
        more = {"l": self.n_components * self.n_features}
        return {**super()._get_n_fit_scalars_per_param(), **more}

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Array:
        return random_state.poisson(self.lambdas_[state])

    def _compute_log_likelihood(self, X: Array) -> Floats:
        scores = np.empty((len(X), self.n_components))
        self._fill(self._prepared(X), scores, 1)
        return scores

    def _prepared(self, X: Array) -> CountRows:
        from scipy.special import gammaln

        rows = X.astype(np.float64)
        if rows.shape[1] != self.n_features:
            raise ValueError(f"X has {rows.shape[1]} columns, but lambdas_ has {self.n_features}")
        _require_counts(X)
        factorials = gammaln(rows + 1.0).sum(axis=1, keepdims=True)
        return CountRows(rows, factorials, np.column_stack([np.ones(len(rows)), rows]))

    def _fill(self, data: CountRows, scores: Floats, threads: int) -> None:
        zero = self.lambdas_ == 0.0
        np.matmul(data.rows, np.log(np.where(zero, 1.0, self.lambdas_)).T, out=scores)
        scores -= self.lambdas_.sum(axis=1)
        scores -= data.factorials
        if zero.any():  # which emits nothing but 0
            scores[data.rows @ zero.T.astype(np.float64) > 0.0] = -np.inf

    def _accumulate(self, data: CountRows, passes: Passes, threads: int) -> dict[str, Any]:
        if "l" not in self.params:
            return {}
        sums = passes.posteriors.T @ data.moments
        return {"post": sums[:, :1], "obs": sums[:, 1:]}

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        if "l" not in self.params:
            return
        count = stats["post"]
        seen = count > 0.0  # a state that nobody visits keeps its lambdas
        mean = np.where(seen, stats["obs"] / np.where(seen, count, 1.0), self.lambdas_)
        total = count.sum()
        # hmmlearn's: the prior weighs against all rows, not those of the state.
        found = (self.lambdas_prior + total * mean) / (self.lambdas_weight + total)
        self.lambdas_ = np.where(seen, found, self.lambdas_)


def _require_counts(X: Array) -> None:
    bad = np.argwhere((X < 0) | (np.floor(X) != X))
    if bad.size:
        at = tuple(int(i) for i in bad[0])
        raise ValueError(f"X{list(at)} is {X[at]}; counts are integers from 0")
    if X.max() > ROWS:
        at = tuple(int(i) for i in np.unravel_index(X.argmax(), X.shape))
        raise ValueError(f"X{list(at)} is {X[at]:g}; counts must be at most {ROWS:g}")
