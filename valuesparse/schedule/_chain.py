"""Schedules of chains, exact and cut at islands."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuesparse.schedule._graph import Kind, Schedule

__all__ = ["chain_schedule"]

Granularity = Literal["message", "pass", "segment"]


def chain_schedule(
    lengths: int | ArrayLike,
    islands: ArrayLike | None = None,
    *,
    n_labels: int | None = None,
    sparse_cost: float | None = None,
    combine_cost: float | None = None,
    granularity: Granularity = "message",
) -> Schedule:
    """Plan the messages of exact chains, or of chains whose islands are known (SMM11, section 3).

    Islands cut a chain into segments. In each segment one forward and one backward pass run, each
    of them in sequence and independent of everything else; the messages into the islands at either
    end are sent too, because an island's own marginal m' needs them. So every edge carries two
    messages, islands or not. One that leaves an ordinary variable costs 1, one that leaves an
    island `sparse_cost`.

    Parameters
    ----------
    lengths : int or (B,) array_like of int
        Positions of each sequence, laid end to end; N in all. Length 0 adds nothing.
    islands : (N,) array_like, optional
        Either bool, True at islands, or integers as in ``Result.islands``, -1 where there is none.
    n_labels : int, optional
        Number of labels K, for the default of `sparse_cost`.
    sparse_cost : float, optional
        Cost of a message that leaves an island, by default ``1 / n_labels``: one row instead of K.
    combine_cost : float, optional
        Cost per position of combining the messages that came in; None plans no such tasks.
    granularity : {"message", "pass", "segment"}, optional
        The unit of a task: a message, a pass of a segment, or both passes of a segment. The
        `combine_cost` tasks are then single positions, or islands and what lies between them.

    Returns
    -------
    Schedule
        Segment by segment from the left, forward before backward, combining last.

    Raises
    ------
    ValueError
        If a length is negative, `islands` has the wrong length, a cost is negative or not finite,
        or there are islands and neither `n_labels` nor `sparse_cost`.
    TypeError
        If `lengths` are not integers, or `islands` neither integers nor bools.

    Examples
    --------
    Ten positions with an island in the middle are four passes instead of two:

    >>> from valuesparse.schedule import chain_schedule
    >>> chain_schedule([10])
    Schedule(n_tasks=18, n_messages=18, total_cost=18, span=9)
    >>> islands = [-1] * 4 + [7] + [-1] * 5
    >>> plan = chain_schedule([10], islands, n_labels=10, granularity="pass")
    >>> plan
    Schedule(n_tasks=4, n_messages=18, total_cost=16.2, span=5)
    >>> plan.cost.round(1).tolist()
    [4.0, 3.1, 4.1, 5.0]
    """
    if granularity not in ("message", "pass", "segment"):
        raise ValueError(f"granularity = {granularity!r}: give 'message', 'pass' or 'segment'")
    sizes = _lengths(lengths)
    island = _islands(islands, int(sizes.sum()))
    if combine_cost is not None:
        _check_cost("combine_cost", combine_cost)
    cut = _cut(sizes, island, _sparse_cost(sparse_cost, n_labels, bool(island.any())))
    if granularity == "message":
        tasks, before, after = _by_message(cut)
    elif granularity == "pass":
        tasks, before, after = _by_pass(cut), _NOTHING, _NOTHING
    else:
        tasks, before, after = _by_segment(cut), _NOTHING, _NOTHING
    kind, begin, end, cost = tasks.kind, tasks.begin, tasks.end, tasks.cost
    if combine_cost is not None:
        unit_begin, unit_end = _units(cut, single=granularity == "message")
        waits_for, waiter = _combine_edges(cut, tasks, unit_begin, unit_end)
        kind = np.concatenate((kind, np.full(unit_begin.size, Kind.COMBINE)))
        begin = np.concatenate((begin, unit_begin))
        end = np.concatenate((end, unit_end))
        cost = np.concatenate((cost, combine_cost * (unit_end - unit_begin)))
        before = np.concatenate((before, waits_for))
        after = np.concatenate((after, waiter))
    return Schedule.from_edges(
        kind=kind, begin=begin, end=end, cost=cost, before=before, after=after
    )


_NOTHING: NDArray[np.int64] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class _Cut:
    """Edges of all chains from left to right, and the segments they fall into."""

    island: NDArray[np.bool_]  # (N,)
    starts: NDArray[np.bool_]  # (N,) first position of a sequence
    left: NDArray[np.int64]  # (E,) left end of each edge
    edge: NDArray[np.int64]  # (N,) the edge that leaves a position to the right, -1 where none does
    segment: NDArray[np.int64]  # (E,) the segment of each edge
    first: NDArray[np.int64]  # (S,) first edge of each segment
    size: NDArray[np.int64]  # (S,) edges of each segment
    forward: NDArray[np.float64]  # (E,) cost of the message that crosses to the right
    backward: NDArray[np.float64]  # (E,) and of the one to the left


@dataclass(frozen=True)
class _Tasks:
    """Message tasks, and which of them carries each edge's two messages."""

    kind: NDArray[np.int8]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    cost: NDArray[np.float64]
    forward: NDArray[np.int64]  # (E,)
    backward: NDArray[np.int64]  # (E,)


def _cut(sizes: NDArray[np.int64], island: NDArray[np.bool_], sparse: float) -> _Cut:
    n = island.size
    starts = np.zeros(n, dtype=np.bool_)
    starts[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
    left = np.flatnonzero(~starts[1:]) if n else _NOTHING
    edge = np.full(n, -1, dtype=np.int64)
    edge[left] = np.arange(left.size)
    opens = starts[left] | island[left]
    first = np.flatnonzero(opens)
    return _Cut(
        island=island,
        starts=starts,
        left=left,
        edge=edge,
        segment=np.cumsum(opens) - 1,
        first=first,
        size=np.diff(np.append(first, left.size)),
        forward=np.where(island[left], sparse, 1.0),
        backward=np.where(island[left + 1], sparse, 1.0),
    )


def _by_message(cut: _Cut) -> tuple[_Tasks, NDArray[np.int64], NDArray[np.int64]]:
    edges = np.arange(cut.left.size)
    # A segment of L edges holds 2 L tasks: L forward ones, then L backward ones from its right end.
    first, size = cut.first[cut.segment], cut.size[cut.segment]
    forward = edges + first
    backward = 3 * first + 2 * size - 1 - edges
    kind = np.empty(2 * edges.size, dtype=np.int8)
    begin = np.empty(2 * edges.size, dtype=np.int64)
    cost = np.empty(2 * edges.size)
    kind[forward], kind[backward] = Kind.FORWARD, Kind.BACKWARD
    begin[forward], begin[backward] = cut.left + 1, cut.left
    cost[forward], cost[backward] = cut.forward, cut.backward
    goes_on = edges + 1 < first + size
    before = np.concatenate((forward[goes_on], backward[edges > first]))
    tasks = _Tasks(kind, begin, begin + 1, cost, forward, backward)
    return tasks, before, before + 1


def _by_pass(cut: _Cut) -> _Tasks:
    n = cut.first.size
    kind = np.tile(np.array([Kind.FORWARD, Kind.BACKWARD], dtype=np.int8), n)
    begin = np.repeat(cut.left[cut.first], 2)
    begin[::2] += 1
    cost = np.stack((_sums(cut.forward, cut), _sums(cut.backward, cut)), axis=1).reshape(-1)
    return _Tasks(
        kind, begin, begin + np.repeat(cut.size, 2), cost, 2 * cut.segment, 2 * cut.segment + 1
    )


def _by_segment(cut: _Cut) -> _Tasks:
    kind = np.full(cut.first.size, Kind.SEGMENT, dtype=np.int8)
    begin = cut.left[cut.first]
    cost = _sums(cut.forward, cut) + _sums(cut.backward, cut)
    return _Tasks(kind, begin, begin + cut.size + 1, cost, cut.segment, cut.segment)


def _sums(costs: NDArray[np.float64], cut: _Cut) -> NDArray[np.float64]:
    return np.add.reduceat(costs, cut.first) if cut.first.size else np.empty(0)


def _units(cut: _Cut, *, single: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions that are combined together: one by one, or islands and the runs between them."""
    n = cut.island.size
    if single:
        return np.arange(n), np.arange(n) + 1
    opens = cut.starts | cut.island
    opens[1:] |= cut.island[:-1]
    begin = np.flatnonzero(opens)
    return begin, np.append(begin[1:], n)[: begin.size]


def _combine_edges(
    cut: _Cut, tasks: _Tasks, begin: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each unit waits for the last message into it from either side."""
    units = np.arange(begin.size) + tasks.kind.size
    last = end - 1
    from_left = ~cut.starts[last]
    from_right = cut.edge[begin] >= 0
    pairs = np.concatenate(
        (
            np.stack((tasks.forward[cut.edge[last[from_left] - 1]], units[from_left]), axis=1),
            np.stack((tasks.backward[cut.edge[begin[from_right]]], units[from_right]), axis=1),
        )
    )
    # One segment task brings both messages: it is waited for once.
    pairs = np.unique(pairs, axis=0)
    return pairs[:, 0], pairs[:, 1]


def _lengths(lengths: int | ArrayLike) -> NDArray[np.int64]:
    raw = np.atleast_1d(np.asarray(lengths))
    if raw.size == 0:
        return _NOTHING
    if raw.ndim != 1:
        raise ValueError(f"lengths has {raw.ndim} dimensions: give one integer per sequence")
    if raw.dtype.kind not in "iu":
        raise TypeError(f"lengths has dtype {raw.dtype}: give integers")
    negative = np.flatnonzero(raw < 0)
    if negative.size:
        at = int(negative[0])
        raise ValueError(f"lengths[{at}] = {raw[at]} is negative")
    return raw.astype(np.int64)


def _islands(islands: ArrayLike | None, n: int) -> NDArray[np.bool_]:
    if islands is None:
        return np.zeros(n, dtype=np.bool_)
    raw = np.asarray(islands)
    if raw.size and raw.dtype.kind not in "biu":
        raise TypeError(f"islands has dtype {raw.dtype}: give bools, or integers with -1 for none")
    if raw.shape != (n,):
        raise ValueError(
            f"islands has shape {raw.shape}: give ({n},), one entry per position of all sequences"
        )
    return raw.astype(np.bool_) if raw.dtype.kind == "b" else raw >= 0


def _sparse_cost(sparse_cost: float | None, n_labels: int | None, needed: bool) -> float:
    if sparse_cost is not None:
        _check_cost("sparse_cost", sparse_cost)
        return float(sparse_cost)
    if n_labels is not None:
        try:
            count = operator.index(n_labels)
        except TypeError:
            raise TypeError(
                f"n_labels has type {type(n_labels).__name__}: give an integer"
            ) from None
        if count < 1:
            raise ValueError(f"n_labels = {count}: give at least 1")
        return 1.0 / count
    if needed:
        raise ValueError("islands need n_labels or sparse_cost: the cost of a message leaving one")
    return 1.0


def _check_cost(name: str, cost: float) -> None:
    if not isinstance(cost, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} has type {type(cost).__name__}: give a number")
    if not np.isfinite(cost) or cost < 0:
        raise ValueError(f"{name} = {cost} is not a finite number >= 0")
