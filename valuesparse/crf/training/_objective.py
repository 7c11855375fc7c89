"""The negative log-likelihood of a corpus as a function of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._crf import Evaluator
from valuesparse.crf._schemes import Constraints
from valuesparse.crf.training._data import Corpus
from valuesparse.crf.training._features import FeatureSet

__all__ = ["AROW", "Objective"]

Weights = npt.NDArray[np.float64]

#: The number of the one rule that has variances.
AROW = 2


# The evaluator never checks: an array that is too short would be read, or written, past its end.
def _demand(name: str, array: Any, shape: tuple[int, ...], dtype: type, *, filled: bool) -> None:
    """Raise ValueError unless an array is one that the evaluator may be handed."""
    good = isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape
    if not (good and array.flags.c_contiguous and (array.flags.writeable or not filled)):
        what = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array)
        raise ValueError(
            f"{name} must be a contiguous{' writable' if filled else ''} array of "
            f"{np.dtype(dtype)} of shape {shape}, not {what}"
        )


_TOO_LARGE = "scores too large for float64; scale the attributes' values down"


class Objective:
    """Σ log Z − score of the gold labels, over the sequences of a corpus, and its gradient.

    Marginals and summed edge marginals are exact. The same weights give the same bits for any
    number of threads.

    Parameters
    ----------
    corpus : Corpus
        N items in B sequences, with gold labels.
    features : FeatureSet
        The weights that the model has.
    threads : int
        At least 1.
    constraints : Constraints, optional
        Only label sequences that they allow are possible. They must leave some that agree with what
        is known of each sequence: :func:`valuesparse.crf.training._possible.require_possible`.

    Notes
    -----
    Where labels are known by their sets alone, the loss of a sequence is log Z − log Z of all label
    sequences that agree with them.
    """

    def __init__(
        self,
        corpus: Corpus,
        features: FeatureSet,
        threads: int,
        constraints: Constraints | None = None,
    ) -> None:
        self.corpus = corpus
        self.features = features
        self.threads = threads
        self.n_weights = features.n_weights
        self.n_labels = len(features.start) - 1
        banned, start, end = None, None, None
        if constraints is not None:
            _, start, end = constraints.log_potentials()
            banned = np.ascontiguousarray(~constraints.allowed_transitions)
        self._evaluator = Evaluator(
            self.n_labels,
            corpus.item,
            corpus.ids,
            corpus.values,
            corpus.offset,
            corpus.edge,
            corpus.gold,
            features.first,
            features.label,
            features.start,
            features.target.astype(np.int32),
            self.n_weights,
            corpus.sets,
            corpus.members,
            banned,
            start,
            end,
        )
        #: Whether all labels are known, and all label sequences possible.
        self.plain = constraints is None and corpus.sets is None

    def _vector(self, name: str, vector: Any, *, filled: bool = False) -> None:
        _demand(name, vector, (self.n_weights,), np.float64, filled=filled)

    def _order(self, order: Any) -> npt.NDArray[np.int64]:
        numbers = np.ascontiguousarray(order, np.int64)
        n = self.corpus.n_sequences
        if numbers.ndim != 1 or (numbers.size and not 0 <= numbers.min() <= numbers.max() < n):
            raise ValueError(f"order must be numbers of sequences, from 0 to {n - 1}")
        return numbers

    def _sequence(self, sequence: int) -> int:
        if not 0 <= sequence < self.corpus.n_sequences:
            raise IndexError(f"there is no sequence {sequence} of {self.corpus.n_sequences}")
        offset = self.corpus.offset
        return int(offset[sequence + 1] - offset[sequence])

    def _sequence_of(self, item: int) -> int:
        """Return the sequence of an item of the corpus."""
        return int(np.searchsorted(self.corpus.offset, item, side="right")) - 1

    def __call__(
        self,
        weights: Weights,
        gradient: Weights | None = None,
        *,
        most: Weights | None = None,
        scores: Weights | None = None,
        went: npt.NDArray[np.bool_] | None = None,
    ) -> float:
        """Return the loss, +inf where scores are too large; fill `gradient` if it is given.

        Sequences whose scores, of an item and of a transition together, are at most `most` (B,) go
        in float32. `scores` and `went` (B,) are filled with what they are and where that was so.
        """
        self._vector("weights", weights)
        if gradient is not None:
            self._vector("gradient", gradient, filled=True)
        shape = (self.corpus.n_sequences,)
        if most is not None:
            _demand("most", most, shape, np.float64, filled=False)
            _demand("scores", scores, shape, np.float64, filled=True)
            _demand("went", went, shape, np.bool_, filled=True)
        loss, overflow = self._evaluator.evaluate(
            weights, gradient, self.threads, most, scores, went
        )
        return np.inf if overflow >= 0 else loss

    def decode(self, weights: Weights) -> npt.NDArray[np.int64]:
        """Return the best labels (N,) of all sequences, end to end."""
        self._vector("weights", weights)
        states = np.empty(self.corpus.n_items, np.int64)
        overflow = self._evaluator.decode(weights, states, self.threads)
        if overflow >= 0:
            raise ValueError(f"held-out sequence {self._sequence_of(overflow)}: {_TOO_LARGE}")
        return states

    def scores(self, sequence: int, weights: Weights) -> npt.NDArray[np.float64]:
        """Return the (n, K) scores of the labels of one sequence."""
        self._vector("weights", weights)
        unary = np.empty((self._sequence(sequence), self.n_labels))
        self._evaluator.scores(sequence, weights, unary)
        return unary

    def transitions(self, weights: Weights) -> npt.NDArray[np.float64]:
        """Return the (K, K) scores of transitions: 0 without a feature, −inf where banned."""
        self._vector("weights", weights)
        table = np.empty((self.n_labels, self.n_labels))
        self._evaluator.transitions(weights, table)
        return table

    def learn(
        self,
        rule: int,
        values: Mapping[str, Any],
        order: npt.NDArray[np.int64],
        weights: Weights,
        late: Weights,
        touched: npt.NDArray[np.bool_],
        time: int,
    ) -> tuple[float, int]:
        """Take one pass of an online learner; return its loss and the number of updates."""
        variance = values.get("variance")
        self._vector("weights", weights, filled=True)
        self._vector("late", late, filled=True)
        _demand("touched", touched, (self.n_weights,), np.bool_, filled=True)
        if variance is not None or rule == AROW:
            self._vector("variance", variance, filled=True)
        loss, updates, overflow = self._evaluator.learn(
            self._order(order), weights, late, touched, time, rule,
            values.get("beta", 1.0), values.get("gamma", 0.0), values.get("longest", np.inf),
            values.get("kind", 1), values.get("c", 1.0), values.get("error_sensitive", True),
            variance,
        )  # fmt: skip
        if overflow >= 0:
            raise ValueError(
                f"sequence {self._sequence_of(overflow)} of those to train on: {_TOO_LARGE}"
            )
        return loss, updates

    def descend(
        self,
        order: npt.NDArray[np.int64],
        vector: Weights,
        factor: float = 1.0,
        time: int = 0,
        decay: float = 0.0,
        t0: float = 0.0,
        eta: float = 0.0,
        step: bool = True,
    ) -> tuple[float, float, int]:
        """Take one pass of gradient descent; return its loss, the factor and the time.

        The loss is +inf where scores are too large.
        """
        self._vector("vector", vector, filled=step)
        loss, factor, time, overflow = self._evaluator.descend(
            self._order(order), vector, factor, time, decay, t0, eta, step
        )
        return np.inf if overflow >= 0 else loss, factor, time

    def pull(self, sequence: int, residual: npt.NDArray[np.float64]) -> tuple[Any, Any]:
        """Return state features, once each, and Σ residual (n, K) × value of each."""
        size = self._sequence(sequence) * self.n_labels
        if residual.ndim == 2:
            residual = residual.reshape(-1)
        _demand("residual", residual, (size,), np.float64, filled=False)
        return self._evaluator.pull(sequence, residual)
