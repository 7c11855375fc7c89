"""Windows of chains that are too dear as a whole: messages enter them from bounds.

The message that comes from the left of a window is a sum over rows of the table, with weights that
are not known, whatever the chain has there. So its entry for label k lies between the least and
the largest of column k, times a factor that all labels share: an enclosure whose radius is the
widest range of a column. Likewise from the right. Messages inside forget that radius (CERTIFICATES,
section 2), and what is proved a few positions from the ends is as narrow as in a whole pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from valuesparse import _supports as native
from valuesparse._buffers import empty
from valuesparse.inference._certified import largest_scores
from valuesparse.inference._local import ends_of, own_scores
from valuesparse.inference._supports import Array, Floats, Integers, Mask, Supports
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain

__all__ = ["Found", "windows"]

#: Positions that a window answers, and how many beside these it has at each end.
_CORE, _MARGIN = 128, 16
#: Radii beyond this are not forgotten.
_LARGEST_RADIUS = 25.0
#: The first of the windows, so many, say whether others pay.
_FEW = 4
_TOL = 0.1


class Found(NamedTuple):
    """Some positions as windows prove them."""

    positions: Integers  # (m,) ascending
    marginals: Array  # (m, K)
    radius: Floats  # (m,)
    slack: Floats
    error: Floats


def windows(
    supports: Supports, wanted: Mask, left: float, error: Floats, workers: int, watch: Watch
) -> list[Found]:
    """Answer parts of the chains that are `wanted` (B,), for at most `left` multiply-adds.

    `error` (N,) is what is proved without. `supports` counts the entries that are read.
    """
    model = supports.model
    if not isinstance(model, Chain):
        return []
    table = model.transition.astype(np.float64)
    columns, rows = ((table.min(axis=axis), table.max(axis=axis)) for axis in (0, 1))
    if not np.isfinite(columns[0]).all():
        return []  # forbidden pairs are infinitely far from the others
    sides = [((low + high) / 2, float((high - low).max()) + 1e-6) for low, high in (columns, rows)]
    if not all(radius < _LARGEST_RADIUS for _, radius in sides):
        return []
    queue, size, k = _places(model, wanted, error), _FEW, model.n_labels
    found: list[Found] = []
    while len(queue):
        cost = np.cumsum(2 * (queue[:size, 1] - queue[:size, 0] - 1) * (k // 2))
        fit = int(np.searchsorted(cost, left / k, side="right"))
        if fit == 0:
            break
        some, before = queue[:fit], supports.read
        part = _answer(supports, some, sides, error, workers, watch)
        left -= (supports.read - before) * k
        found.extend(part)
        if 2 * sum(x.positions.size for x in part) < int((some[:, 1] - some[:, 0]).sum()):
            break  # radii are not forgotten, or supports do not pay
        queue, size = queue[fit:], 2 * size
    return found


def _places(model: Chain, wanted: Mask, error: Floats) -> Integers:
    """Return the first position of windows, and the end, those with the largest errors first."""
    places, worst = [], []
    for number in np.flatnonzero(wanted & (model.lengths > _CORE + 2 * _MARGIN)):
        first, end = int(model.offset[number]), int(model.offset[number + 1])
        for core in range(first, end, _CORE):
            places.append((max(first, core - _MARGIN), min(end, core + _CORE + _MARGIN)))
            worst.append(float(error[core : min(end, core + _CORE)].mean()))
    order = np.argsort(-np.array(worst), kind="stable")
    return np.array(places, dtype=np.int64).reshape(-1, 2)[order]


def _answer(
    supports: Supports,
    some: Integers,
    sides: list[tuple[Floats, float]],
    error: Floats,
    workers: int,
    watch: Watch,
) -> list[Found]:
    """Return what windows say better than `error`."""
    model, k = supports.model, supports.model.n_labels
    assert isinstance(model, Chain)
    scores = ends_of(model)
    starts, ends = set(model.offset[:-1].tolist()), set(model.offset[1:].tolist())
    lengths = some[:, 1] - some[:, 0]
    offset = np.concatenate([[0], np.cumsum(lengths)])
    unary = np.empty((int(offset[-1]), k))
    # Adding scores rounds, too.
    entered = np.full((len(some), 2), 2.0**-50 * sum(largest_scores(model)))
    for i, (first, end) in enumerate(some.tolist()):
        at = slice(int(offset[i]), int(offset[i + 1]))
        unary[at] = own_scores(model, slice(first, end), scores)
        if first not in starts:
            unary[at.start] += sides[0][0]
            entered[i, 0] += sides[0][1]
        if end not in ends:
            unary[at.stop - 1] += sides[1][0]
            entered[i, 1] += sides[1][1]
    marginals = empty((len(unary), k), np.dtype(np.float64))
    radius, slack, off = (np.empty(len(unary)) for _ in range(3))
    budget = 2 * (lengths - 1) * (k // 2)
    taken, counts = native.infer(
        supports.table, native.Order(offset), unary, None, None, None, np.arange(len(some)), _TOL,
        supports.price(len(some)), workers, marginals, radius, slack, off, np.zeros((2, len(some))),
        watch.left(), None, watch.late, budget, entered,
    )  # fmt: skip
    supports.counts += counts.sum(axis=0)
    found = []
    for number in np.flatnonzero(taken):
        own = np.arange(offset[number], offset[number + 1])
        place = some[number, 0] + own - offset[number]
        better = off[own] < error[place]
        own, place = own[better], place[better]
        error[place] = off[own]
        rows = marginals[own].astype(model.dtype)
        found.append(Found(place, rows, radius[own], slack[own], off[own]))
    return found
