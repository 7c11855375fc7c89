"""Symbols as emissions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse import _hmm
from valuesparse._validation import LARGEST_COUNT, as_count
from valuesparse.hmm._base import BaseHMM
from valuesparse.hmm._fitting import normalised
from valuesparse.hmm._passes import Passes, Symbols, logarithm
from valuesparse.hmm._sampling import FromTable
from valuesparse.hmm._settings import Setting

__all__ = ["CategoricalHMM"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Symbols of a model that is not told their number: 2 GiB of probabilities for each state.
_MOST_SYMBOLS = 2**28


class CategoricalHMM(BaseHMM):
    """A hidden Markov model whose states emit symbols, with hmmlearn's surface.

    X has shape (N, 1) and holds symbols, integers from 0.

    Parameters
    ----------
    n_components : int
        Number of states K.
    startprob_prior, transmat_prior, emissionprob_prior : float or array
        Parameters of Dirichlet priors.
    n_features : int, optional
        Number of symbols; by default, those up to the largest of the first X.
    algorithm, random_state, n_iter, tol, verbose, implementation, n_restarts, threads
        As in :class:`BaseHMM`.
    params, init_params : str
        Letters of what a fit changes, and sets before: 's' start, 't' transitions, 'e' emissions.

    Attributes
    ----------
    startprob_, transmat_, monitor_
        As in :class:`BaseHMM`.
    emissionprob_ : ndarray of shape (K, n_features)
        Probability of each symbol in each state. A 0 stays 0 in a fit, unless
        ``emissionprob_prior`` is above 1 there.

    Examples
    --------
    >>> from valuesparse.hmm import CategoricalHMM
    >>> model = CategoricalHMM(2)  # rainy and sunny days
    >>> model.startprob_ = [0.6, 0.4]
    >>> model.transmat_ = [[0.7, 0.3], [0.4, 0.6]]
    >>> model.emissionprob_ = [[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]]  # walk, shop, clean
    >>> model.predict([[0], [1], [2]]).tolist()
    [1, 0, 0]
    >>> model.predict_proba([[0], [1], [2]]).round(2).tolist()
    [[0.23, 0.77], [0.62, 0.38], [0.86, 0.14]]
    """

    _letters: ClassVar[dict[str, str]] = {**BaseHMM._letters, "e": "emissionprob_"}

    emissionprob_: Any

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: npt.ArrayLike = 1.0,
        transmat_prior: npt.ArrayLike = 1.0,
        *,
        emissionprob_prior: npt.ArrayLike = 1.0,
        n_features: int | None = None,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = "ste",
        init_params: str = "ste",
        implementation: str = "log",
        n_restarts: int = 1,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            n_components, startprob_prior, transmat_prior, algorithm, random_state, n_iter, tol,
            verbose, params, init_params, implementation, n_restarts=n_restarts, threads=threads,
        )  # fmt: skip
        self.emissionprob_prior = emissionprob_prior
        self.n_features = n_features

    def _hyperparameters(self) -> dict[str, Setting]:
        shape = (self.n_components, int(self.n_features or 0))
        return {**super()._hyperparameters(), "emissionprob_prior": Setting(shape, 0.0)}

    def _init(self, X: Array, lengths: Any = None) -> None:
        super()._init(X, lengths)
        if self._needs_init("e", "emissionprob_"):
            drawn = self._source().rand(self.n_components, self.n_features)
            self.emissionprob_ = drawn / drawn.sum(axis=1, keepdims=True)

    def _check(self) -> None:
        super()._check()
        shape = np.shape(self.emissionprob_)
        if self.n_features is None and len(shape) == 2:
            self.n_features = shape[1]
        wanted = (self.n_components, int(self.n_features or 0))
        self._check_distribution("emissionprob_", wanted, "(n_components, n_features)")

    def _check_and_set_n_features(self, X: Array) -> None:
        if self.n_features is not None:
            most = LARGEST_COUNT // 8 // max(self.n_components, 1)
            as_count("n_features", self.n_features, at_least=1, at_most=most)
        largest = self._largest(X)
        if self.n_features is None:
            if largest >= _MOST_SYMBOLS:
                at = int(np.argmax(X.ravel()))
                raise ValueError(
                    f"X[{at}] is symbol {largest}: the model would have a probability for each "
                    "symbol up to it; number them by numpy.unique(X, return_inverse=True), or give "
                    "n_features"
                )
            self.n_features = largest + 1
        elif largest >= self.n_features:
            at = int(np.argmax(X.ravel() == largest))
            raise ValueError(
                f"X[{at}] is symbol {largest}, but the model emits symbols 0 to "
                f"{self.n_features - 1}; give n_features"
            )

    def _largest(self, X: Array) -> int:
        """Return the largest symbol, after a look at all of them."""
        if not np.issubdtype(X.dtype, np.integer):
            raise ValueError(f"Symbols should be integers: X has dtype {X.dtype}")
        least = int(X.min())
        if least < 0:
            at = int(np.argmin(X))
            raise ValueError(f"Symbols should be nonnegative: X[{at}] is {least}")
        return int(X.max())

    def _get_n_fit_scalars_per_param(self) -> dict[str, int]:
        more = {"e": self.n_components * (self.n_features - 1)}
        return {**super()._get_n_fit_scalars_per_param(), **more}

    def _generate_sample_from_state(self, state: int, random_state: Any) -> list[int]:
        return self._emitter(random_state)(state)

    def _emitter(self, random: np.random.RandomState) -> FromTable:
        return FromTable(self.emissionprob_, random)

    def _compute_log_likelihood(self, X: Array) -> Floats:
        return logarithm(self.emissionprob_.T)[self._prepared(X)]

    def _prepared(self, X: Array) -> Integers:
        if X.shape[1] != 1:
            raise ValueError(
                f"X must have shape (N, 1), a symbol in each row, got {X.shape}; X.reshape(-1, 1) "
                "makes rows of what is one sequence"
            )
        self._check_and_set_n_features(X)
        return X[:, 0].astype(np.int64)

    def _symbols(self, data: Integers) -> Symbols:
        return Symbols(data, self.emissionprob_)

    def _fill(self, data: Integers, scores: Floats, threads: int) -> None:
        table = np.ascontiguousarray(logarithm(self.emissionprob_.T))
        np.take(table, data, axis=0, out=scores, mode="clip")  # all of them are in range

    def _accumulate(self, data: Integers, passes: Passes, threads: int) -> dict[str, Any]:
        if "e" not in self.params:
            return {}
        sums = np.empty(self.emissionprob_.shape)
        _hmm.by_symbol(data, passes.posteriors, sums)
        return {"obs": sums}

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        if "e" in self.params:
            self.emissionprob_ = normalised(
                self.emissionprob_prior, stats["obs"], self.emissionprob_
            )
