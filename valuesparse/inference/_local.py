"""Marginals of variables' own scores, which cost no messages, and how far these can be off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.inference import _certified, _forest
from valuesparse.inference._pieces import owner_of, sizes_of
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Proof, interval, over_rows

__all__ = ["ends_of", "local", "own_scores"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Ends = list[tuple[Array, Integers]]


def local(
    model: Chain | Tree,
    wanted: Mask,
    block: int,
    workers: int,
    take: Callable[[slice | Integers, Array], None],
) -> Proof:
    """Give marginals of some variables' own scores, some rows at a time, and return their proof.

    Nothing is proved of components whose variables are not `wanted` (N,), but that their own
    scores leave something possible.
    A message is a sum over rows of a table: its logarithms differ by no more than those of a row,
    so each neighbour adds the table's range to the radius.
    """
    n, k, count = model.forest.shape
    sizes, owner = sizes_of(model), owner_of(model)
    degree = np.zeros(n, dtype=np.int64)
    for side in _forest.ends(model):
        degree += np.bincount(side, minlength=n)
    low, high = _forest.limits_of(model)
    lost = _certified.table_loss(model) * _certified.U32  # of entries as they were given
    low, high = low - lost, high + lost
    with np.errstate(invalid="ignore", over="ignore"):
        node, edge = _certified.largest_scores(model)
        rounding = 16 * (k + 800 + node + edge) * _certified.U32
        spread = high - low if np.isfinite(low) else np.inf
        radius = np.where(degree > 0, degree * spread, 0.0) + rounding
    slack = np.where(np.isfinite(radius), _certified.SLACK64, 1.0)
    mass, error, ends = np.zeros(n), np.ones(n), ends_of(model)
    for first in range(0, n, block):
        rows = slice(first, min(first + block, n))
        scores = own_scores(model, rows, ends)
        top = over_rows(np.maximum, scores)
        if np.isneginf(top).any():
            _forest.log_z(model, workers)  # raises the error that names where nothing is left
        some = np.flatnonzero(wanted[rows])
        if some.size == 0:
            continue
        own: slice | Integers = rows  # slices are not copied
        if some.size < top.size:
            scores, top, own = scores[some], top[some], some + first
        scores -= top[:, None]
        weights = np.exp(scores, out=scores)
        sums = over_rows(np.add, weights)
        mass[own] = top + np.log(sums)
        weights /= sums[:, None]
        marginals = weights.astype(model.dtype, copy=False)
        lower, upper = interval(marginals, radius[own], slack[own])
        above, below = upper - marginals, marginals - lower
        error[own] = over_rows(np.maximum, np.maximum(above, below, out=above))
        take(own, marginals)
    base = np.bincount(owner, weights=mass, minlength=count)
    edges = np.maximum(sizes - 1, 0)
    margin = 16 * _certified.U64 * (sizes + 1.0) * (k + 800 + node + edge)
    with np.errstate(invalid="ignore"):
        log_z_lower = base + np.where(edges > 0, edges * low, 0.0) - margin
        log_z_upper = base + np.where(edges > 0, edges * high, 0.0) + margin
    error = np.minimum(error + 2.0**-53, 1.0)
    return Proof(radius, slack, error, log_z_lower, log_z_upper, alike=False)


def ends_of(model: Chain | Tree) -> Ends:
    """Return scores of ends of chains, with the variables, ascending, that have them beside own."""
    if not isinstance(model, Chain):
        return []
    full = np.flatnonzero(model.lengths)
    both = ((model.start, model.offset[full]), (model.end, model.offset[full + 1] - 1))
    return [(more, at) for more, at in both if more is not None]


def own_scores(model: Chain | Tree, rows: slice, ends: Ends) -> Floats:
    """Return the scores of some variables, those of the ends of chains included."""
    scores = model.unary[rows].astype(np.float64)
    for more, at in ends:
        scores[at[slice(*np.searchsorted(at, (rows.start, rows.stop)))] - rows.start] += more
    if model.allowed is not None:
        scores[~model.allowed[rows]] = -np.inf
    return scores
