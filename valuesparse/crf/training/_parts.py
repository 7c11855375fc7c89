"""The sequences of a corpus as a :class:`valuesparse.learning.PartModel`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse.crf.training._objective import AROW, Objective
from valuesparse.inference.decoding import decode
from valuesparse.learning import Aggressive, Arow, PassiveAggressive, Perceptron
from valuesparse.models import Chain

__all__ = ["ChainParts"]

Array = npt.NDArray[np.float64]

# The rules that the engine knows, by the numbers it has for them.
_RULES = {Perceptron: 0, PassiveAggressive: 1, Arow: AROW, Aggressive: 3}


class ChainParts:
    """Parts of a sequence of n items: n × K labels at items, then K × K transitions, counted.

    Parameters
    ----------
    objective : Objective
        The corpus and its features.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.n_weights = objective.n_weights
        self._k = objective.n_labels
        features = objective.features
        self._parts = features.source * self._k + features.target  # transitions that have a weight
        self._moves = len(features.label) + np.arange(len(features.source))

    def __len__(self) -> int:
        # Without labels there are no parts, however many empty sequences.
        return self.objective.corpus.n_sequences if self._k else 0

    def labels(self, i: int) -> npt.NDArray[np.int32]:
        """Return the gold labels of sequence i."""
        corpus = self.objective.corpus
        return corpus.gold[corpus.offset[i] : corpus.offset[i + 1]]

    def scores(self, i: int, weights: Array) -> Array:
        """Return the scores of labels and transitions."""
        unary = self.objective.scores(i, weights)
        return np.concatenate([unary.ravel(), self.objective.transitions(weights).ravel()])

    def gold(self, i: int) -> Array:
        """Return the counts of the gold labels."""
        return self._structure(self.labels(i))

    def cost(self, i: int) -> tuple[Array, float]:
        """Return the number of wrong labels as p and q: half the Hamming distance of the parts."""
        y = self.labels(i)
        p = np.zeros((len(y) + self._k) * self._k)
        p[: len(y) * self._k] = 0.5
        p[np.arange(len(y)) * self._k + y] = -0.5
        return p, 0.5 * len(y)

    def marginals(self, i: int, potentials: Array) -> tuple[float, Array]:
        """Return log Z, the marginals and the expected counts of transitions."""
        unary, transition = self._split(potentials)
        chain = Chain(unary, transition)
        n = len(unary)
        structure = np.zeros(len(potentials))
        log_z = np.empty(1)
        # Marginals and expected counts in one pass; both are written where they belong.
        infeasible, _ = _forest.infer(
            chain.forest, 1, log_z, structure[: n * self._k].reshape(n, self._k),
            expectations=structure[n * self._k :].reshape(self._k, self._k),
        )  # fmt: skip
        assert infeasible is None  # scores are finite: nothing is forbidden
        return float(log_z[0]), structure

    def best(self, i: int, potentials: Array) -> Array:
        """Return the counts of the best labels."""
        unary, transition = self._split(potentials)
        if len(unary) == 0:
            return np.zeros(len(potentials))
        return self._structure(decode(Chain(unary, transition), threads=1).states)

    def gradient(self, i: int, residual: Array) -> tuple[Any, Any]:
        """Return the features with a share in `residual`, and it."""
        n = len(residual) // self._k - self._k
        features, values = self.objective.pull(i, residual[: n * self._k])
        moved = residual[n * self._k :][self._parts]
        alive = np.flatnonzero(moved)
        return (
            np.concatenate([features, self._moves[alive]]),
            np.concatenate([values, moved[alive]]),
        )

    def sweep(
        self,
        rule: Any,
        order: npt.NDArray[np.int64],
        weights: Array,
        late: Array,
        touched: npt.NDArray[np.bool_],
        time: int,
        batch: int,
    ) -> tuple[float, int] | None:
        """Take a pass in the engine, where the rule is one that it knows: not a subclass."""
        kind = _RULES.get(type(rule))
        if kind is None or batch != 1:
            if not self.objective.plain:
                raise ValueError(
                    "constraints and sets of labels can be learnt with the rules of "
                    "valuesparse.learning themselves, one sequence at a time"
                )
            return None
        return self.objective.learn(kind, vars(rule), order, weights, late, touched, time)

    def _split(self, potentials: Array) -> tuple[Array, Array]:
        n = len(potentials) // self._k - self._k
        return (
            potentials[: n * self._k].reshape(n, self._k),
            potentials[n * self._k :].reshape(self._k, self._k),
        )

    def _structure(self, y: npt.NDArray[Any]) -> Array:
        k, n = self._k, len(y)
        structure = np.zeros((n + k) * k)
        structure[np.arange(n) * k + y] = 1.0
        if n > 1:
            step = y[:-1].astype(np.int64) * k + y[1:]
            structure[n * k :] = np.bincount(step, minlength=k * k)
        return structure
