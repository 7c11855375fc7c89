"""The negative log-likelihood of a corpus as a function of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _training
from valuesparse.crf.training._data import Corpus
from valuesparse.crf.training._features import Features

__all__ = ["Objective"]

Weights = npt.NDArray[np.float64]

_TOO_LARGE = "scores too large for float64; scale the attributes' values down"


class Objective:
    """Σ log Z − score of the gold labels, over the sequences of a corpus, and its gradient.

    Marginals and summed edge marginals are exact. The same weights give the same bits for any
    number of threads.

    Parameters
    ----------
    corpus : Corpus
        N items in B sequences, with gold labels.
    features : Features
        The weights that the model has.
    threads : int
        At least 1.
    """

    def __init__(self, corpus: Corpus, features: Features, threads: int) -> None:
        self.corpus = corpus
        self.features = features
        self.threads = threads
        self.n_weights = features.n_weights
        self.n_labels = len(features.move)
        self._engine = _training.Engine(
            self.n_labels,
            corpus.item,
            corpus.ids,
            corpus.values,
            corpus.offset,
            corpus.edge,
            corpus.gold,
            features.first,
            features.label,
            features.move,
            self.n_weights,
        )

    def __call__(self, weights: Weights, gradient: Weights | None = None) -> float:
        """Return the loss, +inf where scores are too large; fill `gradient` if it is given."""
        loss, overflow = self._engine.evaluate(weights, gradient, self.threads)
        return np.inf if overflow >= 0 else loss

    def decode(self, weights: Weights) -> npt.NDArray[np.int64]:
        """Return the best labels (N,) of all sequences, end to end."""
        states = np.empty(self.corpus.n_items, np.int64)
        overflow = self._engine.decode(weights, states, self.threads)
        if overflow >= 0:
            raise ValueError(f"item {overflow} of the held-out sequences: {_TOO_LARGE}")
        return states

    def scores(self, sequence: int, weights: Weights) -> npt.NDArray[np.float64]:
        """Return the (n, K) scores of the labels of one sequence."""
        offset = self.corpus.offset
        unary = np.empty((int(offset[sequence + 1] - offset[sequence]), self.n_labels))
        self._engine.scores(sequence, weights, unary)
        return unary

    def transitions(self, weights: Weights) -> npt.NDArray[np.float64]:
        """Return the (K, K) scores of transitions, 0 where there is no feature."""
        table = np.empty((self.n_labels, self.n_labels))
        self._engine.transitions(weights, table)
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
        loss, updates, overflow = self._engine.learn(
            np.ascontiguousarray(order, np.int64), weights, late, touched, time, rule,
            values.get("beta", 1.0), values.get("gamma", 0.0), values.get("longest", np.inf),
            values.get("kind", 1), values.get("c", 1.0), values.get("error_sensitive", True),
            values.get("variance"),
        )  # fmt: skip
        if overflow >= 0:
            raise ValueError(f"item {overflow}: {_TOO_LARGE}")
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
        loss, factor, time, overflow = self._engine.descend(
            np.ascontiguousarray(order, np.int64), vector, factor, time, decay, t0, eta, step
        )
        return np.inf if overflow >= 0 else loss, factor, time

    def pull(self, sequence: int, residual: npt.NDArray[np.float64]) -> tuple[Any, Any]:
        """Return state features, once each, and Σ residual (n, K) × value of each."""
        return self._engine.pull(sequence, residual)
