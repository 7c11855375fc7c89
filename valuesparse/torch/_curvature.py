"""Products of the second derivative of log Z with a vector: how marginals change."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.inference._forest import pairwise
from valuesparse.models import Chain
from valuesparse.results._base import BLOCK_ENTRIES
from valuesparse.results._chain import edges_of

__all__ = ["Curvature", "Scores", "curvature"]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]


class Scores(NamedTuple):
    """A direction in the space of a chain's scores, or a derivative by them; float64."""

    unary: Float64  # (N, K)
    transition: Float64  # (K, K)
    start: Float64  # (K,)
    end: Float64  # (K,)


class Curvature(NamedTuple):
    """The answer of `curvature`."""

    expected: Float64  # (B,) the direction's expected score under each posterior
    product: Scores  # sum over sequences of weight * (second derivative of log Z) * direction


def curvature(
    model: Chain, marginals: Array, direction: Scores, weights: Float64, workers: int
) -> Curvature:
    r"""Return the product of the second derivative of ``log_z`` with a direction.

    Parameters
    ----------
    model : Chain
        Sequences without an empty one among them; its transition is shared, (K, K).
    marginals : ndarray of shape (N, K)
        Marginals of `model`.
    direction : Scores
        With what to multiply.
    weights : ndarray of float64, shape (B,)
        The weight of each sequence in the sum.
    workers : int
        Threads for the pairwise marginals.

    Notes
    -----
    Write :math:`s(y)` for the direction's score of y. The product is the covariance of s with
    the indicators of labels and of pairs of labels:

    .. math::

        p(y_i = k) \, (E[s \mid y_i = k] - E[s]), \quad
        p(y_i = l, y_{i+1} = k) \, (E[s \mid y_i = l, y_{i+1} = k] - E[s]).

    Given :math:`y_i`, what lies before it and what lies after it are independent, so that the
    conditional expectations are sums of two that one pass in each direction computes with the
    posterior's own transition probabilities: no term can overflow or cancel as weights do.
    Takes :math:`O(N K^2)` time in numpy, and pairwise marginals of some sequences at a time.
    """
    n, k = model.n_positions, model.n_labels
    offset = model.offset
    out = Scores(np.zeros((n, k)), np.zeros((k, k)), np.zeros(k), np.zeros(k))
    expected = np.zeros(model.n_sequences)
    first = 0
    while first < model.n_sequences:
        fits = int(offset[first]) + max(1, BLOCK_ENTRIES // k**2)
        last = max(first + 1, int(np.searchsorted(offset, fits, side="right")) - 1)
        _block(model, marginals, direction, weights, workers, first, last, expected, out)
        first = last
    return Curvature(expected, out)


def _block(
    model: Chain,
    marginals: Array,
    v: Scores,
    weights: Float64,
    workers: int,
    first: int,
    last: int,
    expected: Float64,
    out: Scores,
) -> None:
    """Do sequences [first, last), longest first, so that those under way are always a prefix."""
    k = model.n_labels
    lengths = model.lengths[first:last]
    order = np.argsort(-lengths, kind="stable")
    begin = model.offset[first:last][order]
    length = lengths[order]
    low, high = int(model.edge[first]), int(model.edge[last])
    pairs = np.empty((0, k, k))
    if high > low:
        piece, edge = edges_of(model, low, high)
        pairs = pairwise(piece, workers, (low - edge, high - edge)).astype(np.float64)
    edge_begin = model.edge[first:last][order] - low
    steps = int(length[0])
    under_way = np.searchsorted(-length, -np.arange(steps), side="left")  # at each step

    before = np.zeros((order.size, steps, k))  # E[score up to step i | label at i]
    after = np.zeros((order.size, steps, k))  # E[score of what follows step i | label at i]
    before[:, 0] = v.unary[begin] + v.start
    after[np.arange(order.size), length - 1] = v.end
    for i in range(1, steps):
        m = under_way[i]
        p = pairs[edge_begin[:m] + i - 1]
        p = _over(p, p.sum(axis=1, keepdims=True))
        before[:m, i] = v.unary[begin[:m] + i]
        before[:m, i] += np.einsum("blk,bl->bk", p, before[:m, i - 1])
        before[:m, i] += np.einsum("blk,lk->bk", p, v.transition)
    for i in range(steps - 1, 0, -1):
        m = under_way[i]
        p = pairs[edge_begin[:m] + i - 1]
        p = _over(p, p.sum(axis=2, keepdims=True))
        after[:m, i - 1] = np.einsum("blk,bk->bl", p, after[:m, i] + v.unary[begin[:m] + i])
        after[:m, i - 1] += np.einsum("blk,lk->bl", p, v.transition)

    ends = begin + length - 1
    tail = before[np.arange(order.size), length - 1] + v.end
    mean = np.einsum("bk,bk->b", marginals[ends].astype(np.float64), tail)
    expected[first + order] = mean
    weight = weights[first:last][order]
    for i in range(steps):
        m = under_way[i]
        at = begin[:m] + i
        centred = before[:m, i] + after[:m, i] - mean[:m, None]
        out.unary[at] = weight[:m, None] * marginals[at] * centred
        if i == 0:
            continue
        p = pairs[edge_begin[:m] + i - 1] * weight[:m, None, None]
        left = before[:m, i - 1] - mean[:m, None]
        right = after[:m, i] + v.unary[at]
        total = np.einsum("blk,bl->lk", p, left) + np.einsum("blk,bk->lk", p, right)
        np.add(out.transition, total + p.sum(axis=0) * v.transition, out=out.transition)
    np.add(out.start, out.unary[begin].sum(axis=0), out=out.start)
    np.add(out.end, out.unary[ends].sum(axis=0), out=out.end)


def _over(p: Float64, total: Float64) -> Float64:
    """Return p / total, zero where `total` is."""
    return np.divide(p, total, out=np.zeros_like(p), where=total > 0.0)
