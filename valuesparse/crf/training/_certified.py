"""The loss of a corpus and its gradient, with a bound on their error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.crf.training._data import Corpus
from valuesparse.crf.training._objective import Objective
from valuesparse.inference import _certified

__all__ = ["CertifiedObjective"]

Floats = npt.NDArray[np.float64]

#: Fewer labels gain less from float32 than changing the type of scores costs.
_LEAST_LABELS = 32


class CertifiedObjective:
    """An objective whose marginals may be off by `tol`, and what follows for its gradient.

    A sequence goes in float32 where that proves its marginals, and those of its edges, to `tol`;
    else in float64.

    Parameters
    ----------
    objective : Objective
        The exact one.
    tol : float
        In [0, 1], at least what float64 can prove.

    Attributes
    ----------
    exact : bool
        Whether all sequences go in float64 from now on.
    loss_error, gradient_error : float
        The largest error of the last loss, and of the last gradient as a vector.
    narrow : int
        How many sequences went in float32.

    Raises
    ------
    ValueError
        When `tol` is below what can be proved.

    Notes
    -----
    No event has a probability that is off by more than the error e of the sequence, so that the
    errors of a variable's marginals, or of an edge's, sum up to 2 e at most, and an item with
    values v adds at most 2 e ‖v‖ to the error of the gradient, an edge 2 e. Where labels are known
    in part, a gradient is the difference of two. Sums round as well: the score of an item is one
    over its attributes, an entry of the gradient one over all items with an attribute.
    """

    def __init__(self, objective: Objective, tol: float) -> None:
        self.objective, self.tol = objective, tol
        self.exact = False
        self.loss_error = self.gradient_error = 0.0
        self.narrow = 0
        corpus, k = objective.corpus, objective.n_labels
        self._sizes = np.diff(corpus.offset)
        least = float(_certified.double_errors(
            _certified.double_radius(self._sizes, k, 0.0)
        ).max(initial=0.0))  # fmt: skip
        if tol < least:
            raise ValueError(
                f"tol={tol:g} is below {least:.3g}, what rounding leaves to prove for sequences of "
                f"this length and {k} labels; ask for at least that"
            )
        # Scores lose this much: twice the largest of an item and of a transition.
        self._most = np.full(len(self._sizes), -1.0)
        if k >= _LEAST_LABELS:
            self._most = _certified.most_given(self._sizes, k, tol) / 2
        self._never = np.full_like(self._most, -1.0)
        self._scores, self._went = np.zeros_like(self._most), np.zeros(len(self._most), bool)
        self._weight = np.add.reduceat(
            np.append(_lengths(corpus), 0.0), corpus.offset[:-1]
        ) if len(self._sizes) else np.zeros(0)  # fmt: skip
        self._weight[self._sizes == 0] = 0.0
        edges = 0
        if len(objective.features.source):
            self._weight += np.maximum(self._sizes - 1, 0)
            edges = int(np.maximum(self._sizes - 1, 0).sum())
        self._parts = 1 if corpus.sets is None else 2
        # Sums round so much, in units of U64: scores by the largest weight, and the gradient.
        self._adds, self._summed = _sums(corpus)
        self._summed += (edges + 2.0) * edges

    def refine(self) -> None:
        """Let all sequences go in float64 from now on."""
        self.exact = True

    def __call__(self, weights: Floats, gradient: Floats) -> float:
        """Return the loss, +inf where scores are too large, and fill the gradient."""
        loss = self.objective(
            weights, gradient, most=self._never if self.exact else self._most,
            scores=self._scores, went=self._went,
        )  # fmt: skip
        if not math.isfinite(loss):
            self.loss_error = self.gradient_error = math.inf
            return loss
        k, went, scores = self.objective.n_labels, self._went, self._scores
        self.narrow = int(np.count_nonzero(went))
        largest = float(np.abs(weights).max(initial=0.0))
        added = 2 * _certified.U64 * largest * self._adds * self._sizes
        radius = _certified.double_radius(self._sizes, k, scores) + added
        error = _certified.double_errors(radius)
        slack: Any = _certified.SLACK64
        if self.narrow:
            steps = _certified.roundings(k) + _certified.OTHER32
            wide = _certified.single_radius(self._sizes, steps, 2 * scores) + added
            radius = np.where(went, wide, radius)
            error = np.where(went, _certified.single_radius_errors(wide, k), error)
            slack = np.where(went, _certified.SLACK32, slack)
        most = self._sizes * (scores + math.log(k)) if k else scores  # of |log Z|, and of a score
        margin = _certified.log_z_margin(radius, slack, self._sizes, scores, most)
        margin += 4 * _certified.U64 * (self._sizes + 2) * most + added
        self.loss_error = self._parts * float(margin.sum()) * (1 + 1e-9)
        self.gradient_error = 2 * self._parts * float(self._weight @ error) * (1 + 1e-9)
        self.gradient_error += 2 * self._parts * _certified.U64 * self._summed
        return loss


def _sums(corpus: Corpus) -> tuple[Floats, float]:
    """Return how many numbers are added up, times what their magnitudes sum up to.

    The first for the scores of an item of each sequence (B,), the largest, with weights of 1; the
    second for the gradient, as a norm over attributes.
    """
    counts = np.diff(corpus.item)
    sizes = np.ones(len(corpus.ids)) if corpus.values is None else np.abs(corpus.values)
    item = np.repeat(np.arange(len(counts)), counts)
    own = counts * np.bincount(item, sizes, minlength=len(counts))
    starts = corpus.offset[:-1]
    adds = np.maximum.reduceat(np.append(own, 0.0), starts) if len(starts) else np.zeros(0)
    adds[np.diff(corpus.offset) == 0] = 0.0
    times = np.bincount(corpus.ids) + 2.0
    return adds, float(np.linalg.norm(times * np.bincount(corpus.ids, sizes)))


def _lengths(corpus: Corpus) -> Floats:
    """Return at least the norm of the values (N,) of each item."""
    counts = np.diff(corpus.item)
    values = np.ones(len(corpus.ids)) if corpus.values is None else corpus.values
    item = np.repeat(np.arange(len(counts)), counts)
    squares = np.bincount(item, values * values, minlength=len(counts))
    # The values of an attribute that an item has several times are added up.
    order = np.lexsort((corpus.ids, item))
    twice = (np.diff(item[order]) == 0) & (np.diff(corpus.ids[order]) == 0)
    again = np.zeros(len(counts), bool)
    again[item[order[1:]][twice]] = True
    sums = np.bincount(item, np.abs(values), minlength=len(counts))
    return np.where(again, sums, np.sqrt(squares))
