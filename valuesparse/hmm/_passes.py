"""The questions of a hidden Markov model to the engine of chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest, _hmm
from valuesparse._validation import as_lengths, require_room
from valuesparse.errors import InfeasibleError

__all__ = ["Passes", "Symbols", "logarithm"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def logarithm(p: Floats) -> Floats:
    """Return log p, −inf where p is 0."""
    with np.errstate(divide="ignore"):
        return np.log(p)


class Symbols(NamedTuple):
    """A symbol in each row (N,), and the probability of each in each state (K, V)."""

    of_row: Integers
    table: Floats


def _sequences(lengths: Any, n: int) -> Integers:
    """Return lengths (B,), all at least 1, that sum to the number of rows."""
    if lengths is None:
        return np.array([n], dtype=np.int64)
    try:
        sizes = as_lengths(np.atleast_1d(lengths), n)
    except ValueError as error:
        raise ValueError(str(error).replace("unary has", "X has")) from None
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        raise ValueError(
            f"lengths[{empty[0]}] is 0: a sequence has at least one row of X; leave empty ones out"
        )
    return sizes


class Passes:
    """Sequences laid end to end, and what one pass after the other writes about them.

    Parameters
    ----------
    n : int
        Rows of X.
    k : int
        States.
    lengths : array_like of int, shape (B,), optional
        Lengths of the sequences.

    Attributes
    ----------
    scores : ndarray of float64, shape (N, K)
        To be filled with the log-likelihood of each row in each state, before a pass.
    posteriors : ndarray of float64, shape (N, K)
        Those of the last pass that was asked for them.
    log_z : ndarray of float64, shape (B,)
        Log-likelihood of each sequence.
    first : ndarray of int64, shape (B,)
        The first row of each sequence.
    """

    def __init__(self, n: int, k: int, lengths: Any) -> None:
        self.lengths = _sequences(lengths, n)
        count = self.lengths.size
        self._offset = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=self._offset[1:])
        self._edge = self._offset - np.arange(count + 1)
        self.first = self._offset[:-1]
        require_room("n_components", k, n)
        self.scores = np.empty((n, k))
        self.posteriors = np.empty((n, k))
        self.log_z = np.empty(count)
        width = _hmm.width(k)
        #: Rows of the passes for few states; None where there are more.
        self._work = np.empty((3, n, width)) if width else None
        self._top = np.empty(n if width else 0)

    def _forest(self, startprob: Floats, transmat: Floats) -> _forest.Forest:
        return _forest.Forest(
            self.scores, logarithm(transmat), None, logarithm(startprob), None, self._offset,
            self._edge,
        )  # fmt: skip

    def starts(self) -> Floats:
        """Return the expected number of sequences that start in each state, (K,)."""
        if self.first.size == 1:
            return self.posteriors[0].copy()
        return np.asarray(self.posteriors[self.first].sum(axis=0))

    def likelihood(
        self, startprob: Floats, transmat: Floats, threads: int, fill: Callable[[Floats], None],
        symbols: Symbols | None = None,
    ) -> float:  # fmt: skip
        """Return the log-likelihood of all sequences, −inf where one is impossible."""
        if self._few(startprob, transmat, threads, fill, symbols, None, None):
            return float(self.log_z.sum())
        forest = self._forest(startprob, transmat)
        infeasible, _ = _forest.infer(forest, threads, self.log_z)
        return -np.inf if infeasible is not None else float(self.log_z.sum())

    def expect(
        self, startprob: Floats, transmat: Floats, threads: int, fill: Callable[[Floats], None],
        transitions: bool, symbols: Symbols | None = None,
    ) -> Floats | None:  # fmt: skip
        """Fill `posteriors` and `log_z`; return the expected number of each transition (K, K).

        `fill` fills the scores. Where `symbols` say what they come from, few states need none.
        """
        k = self.scores.shape[1]
        sums = np.zeros((k, k)) if transitions else None
        if self._few(startprob, transmat, threads, fill, symbols, self.posteriors, sums):
            return sums
        if sums is not None:
            sums.fill(0.0)
        forest = self._forest(startprob, transmat)
        infeasible, _ = _forest.infer(
            forest, threads, self.log_z, self.posteriors, expectations=sums
        )
        self._require(infeasible)
        return sums

    def _few(
        self, startprob: Floats, transmat: Floats, threads: int, fill: Callable[[Floats], None],
        symbols: Symbols | None, posteriors: Floats | None, sums: Floats | None,
    ) -> bool:  # fmt: skip
        """Ask the passes for few states, which refuse what doubles cannot hold.

        False: they do, or there are more states, and the scores are filled.
        """
        if self._work is None:
            fill(self.scores)
            return False
        rows, table = symbols or (None, None)
        if symbols is None:
            fill(self.scores)
        done = _hmm.expect(
            self._offset, None if symbols else self.scores, rows, table, startprob, transmat,
            self._work, self._top, posteriors, self.log_z, sums, threads,
        )  # fmt: skip
        if symbols is not None and not done:
            fill(self.scores)
        return done

    def best(self, startprob: Floats, transmat: Floats, threads: int) -> tuple[Floats, Integers]:
        """Return the most probable states (N,), and their log-probability by sequence (B,)."""
        n, count = self.scores.shape[0], self.lengths.size
        states, scores = np.empty((1, n), dtype=np.int64), np.empty((1, count))
        if self._work is not None and _hmm.best(
            self._offset, self.scores, logarithm(startprob), logarithm(transmat), self._work,
            states[0], scores[0], threads,
        ):  # fmt: skip
            return scores[0], states[0]
        infeasible = _forest.decode(self._forest(startprob, transmat), 1, threads, states, scores)
        self._require(infeasible)
        return scores[0], states[0]

    def _require(self, infeasible: tuple[int, int] | None) -> None:
        if infeasible is None:
            return
        sequence, at = infeasible
        row = int(self.first[sequence]) + at
        raise InfeasibleError(
            sequence,
            at,
            message=f"sequence {sequence} cannot come from this model: at X[{row}], its row {at}, "
            "no state is left; look for zeros in startprob_, transmat_ and the emissions",
        )
