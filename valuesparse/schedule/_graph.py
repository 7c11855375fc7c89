"""Tasks and what they wait for, as flat arrays."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Kind", "Schedule"]


class Kind(enum.IntEnum):
    """Kinds of tasks of a `Schedule`: what they do with its positions ``[begin, end)``.

    ``FORWARD`` sends the messages that reach these positions from the left, in increasing order;
    ``BACKWARD`` those that reach them from the right, in decreasing order; ``SEGMENT`` runs both
    passes between its first and its last position; ``COMBINE`` multiplies what has come in and
    normalises.

    In trees and graphs positions count through nodes or cliques: ``UPWARD`` sends their messages
    to the root, ``DOWNWARD`` those to the leaves, with marginals on the way. A large clique's rows
    are cut: ``SPLIT`` gathers what they meet, ``ROWS`` runs some of them, ``MERGE`` adds up; where
    that takes long, too, ``PIECE`` does a part of it, before the rows or after them.
    """

    FORWARD = 0
    BACKWARD = 1
    SEGMENT = 2
    COMBINE = 3
    UPWARD = 4
    DOWNWARD = 5
    SPLIT = 6
    ROWS = 7
    MERGE = 8
    PIECE = 9


_DTYPES: dict[str, type[np.generic]] = {
    "kind": np.int8,
    "begin": np.int64,
    "end": np.int64,
    "cost": np.float64,
    "waits": np.int32,
    "succ_ptr": np.int64,
    "succ": np.int64,
}


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """Tasks in topological order, with their costs and successors.

    Every array is stored C-contiguous and read-only with the dtype below, so that native code can
    take the buffers as they are. Schedules are immutable and pickle.

    Parameters
    ----------
    kind : (n,) int8
        A `Kind` for each task.
    begin, end : (n,) int64
        The half-open range of positions that the task works on.
    cost : (n,) float64
        Work of the task, finite and not negative; the unit is one full K*K message.
    waits : (n,) int32
        Number of tasks that must be finished before this one may start.
    succ_ptr : (n + 1,) int64
        Successors of task ``t`` are ``succ[succ_ptr[t]:succ_ptr[t + 1]]``.
    succ : (m,) int64
        Successors, each larger than the task it follows.

    Raises
    ------
    ValueError
        If shapes, ranges or counts disagree, or if the order is not topological; the message names
        the array and the index. A cyclic plan has no topological order and cannot be written down.
    TypeError
        If an array does not hold real numbers.

    Examples
    --------
    >>> from valuesparse.schedule import Kind, Schedule
    >>> plan = Schedule.from_edges(
    ...     kind=[Kind.FORWARD, Kind.BACKWARD, Kind.COMBINE], begin=[1, 0, 0], end=[3, 2, 3],
    ...     cost=[2.0, 2.0, 0.5], before=[0, 1], after=[2, 2])
    >>> plan
    Schedule(n_tasks=3, n_messages=4, total_cost=4.5, span=2.5)
    >>> plan.waits.tolist(), plan.succ.tolist()
    ([0, 0, 2], [2, 2])
    """

    kind: NDArray[np.int8]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    cost: NDArray[np.float64]
    waits: NDArray[np.int32]
    succ_ptr: NDArray[np.int64]
    succ: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, _frozen(name, getattr(self, name), dtype))
        _check(self)

    @classmethod
    def from_edges(
        cls,
        *,
        kind: ArrayLike,
        begin: ArrayLike,
        end: ArrayLike,
        cost: ArrayLike,
        before: ArrayLike = (),
        after: ArrayLike = (),
    ) -> Schedule:
        """Build a schedule from a list of dependencies.

        Parameters
        ----------
        kind, begin, end, cost : (n,) array_like
            As in `Schedule`.
        before, after : (m,) array_like of int
            Task ``before[j]`` must be finished before task ``after[j]`` starts.

        Returns
        -------
        Schedule
            The schedule, with ``waits``, ``succ_ptr`` and ``succ`` filled in.

        Raises
        ------
        ValueError
            As `Schedule`, and if ``before`` and ``after`` differ in length or name no task.

        Examples
        --------
        >>> from valuesparse.schedule import Schedule
        >>> Schedule.from_edges(kind=[0, 0], begin=[1, 2], end=[2, 3], cost=[1, 1],
        ...                     before=[0], after=[1]).span
        2.0
        """
        n = np.size(np.asarray(kind))
        source = _frozen("before", before, np.int64)
        target = _frozen("after", after, np.int64)
        if source.shape != target.shape:
            raise ValueError(
                f"before has {source.size} entries and after has {target.size}: give one of each "
                "per dependency"
            )
        for name, ends in (("before", source), ("after", target)):
            _check_range(name, ends, n)
        order = np.lexsort((target, source))
        return cls(
            kind=kind,  # type: ignore[arg-type]
            begin=begin,  # type: ignore[arg-type]
            end=end,  # type: ignore[arg-type]
            cost=cost,  # type: ignore[arg-type]
            waits=np.bincount(target, minlength=n).astype(np.int32),
            succ_ptr=np.concatenate(([0], np.cumsum(np.bincount(source, minlength=n)))),
            succ=target[order],
        )

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.kind.size)

    @property
    def n_messages(self) -> int:
        """Number of messages that all tasks together send, full and sparse; a root's sum is one."""
        size = self.end - self.begin
        one = (Kind.FORWARD, Kind.BACKWARD, Kind.UPWARD, Kind.DOWNWARD, Kind.MERGE)
        passes = np.isin(self.kind, one)
        both = self.kind == Kind.SEGMENT
        return int(size[passes].sum() + 2 * (size[both] - 1).sum())

    @cached_property
    def total_cost(self) -> float:
        """Work: the sum of all costs, which is the time one core takes."""
        return float(self.cost.sum())

    @cached_property
    def span(self) -> float:
        """Length of the critical path: the time that no number of cores can beat."""
        return float(self.path_costs().max(initial=0.0))

    def path_costs(self, costs: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Cost of the dearest path from the start of each task to the end of the plan.

        Parameters
        ----------
        costs : (n,) float64, optional
            Cost of each task, by default the schedule's own.

        Returns
        -------
        (n,) float64
            The task's own cost included.

        Examples
        --------
        >>> from valuesparse.schedule import chain_schedule
        >>> chain_schedule([4]).path_costs().tolist()
        [3.0, 2.0, 1.0, 3.0, 2.0, 1.0]
        """
        own = self.cost if costs is None else costs
        path: list[float] = own.tolist()
        succ, ptr = self.succ.tolist(), self.succ_ptr.tolist()
        # Successors stand behind their task, so one sweep from the end sees each of them finished.
        for task in range(self.n_tasks - 1, -1, -1):
            first, last = ptr[task], ptr[task + 1]
            if last > first:
                path[task] += max(path[follower] for follower in succ[first:last])
        return np.asarray(path, dtype=np.float64)

    def __repr__(self) -> str:
        return (
            f"Schedule(n_tasks={self.n_tasks}, n_messages={self.n_messages}, "
            f"total_cost={self.total_cost:g}, span={self.span:g})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructor checks the arrays that are loaded, and makes them read-only again.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def _frozen(name: str, values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """Copy `values` into a read-only vector of `dtype`, refusing what would be rounded."""
    raw = np.asarray(values)
    if raw.ndim != 1:
        raise ValueError(f"{name} has {raw.ndim} dimensions: give a vector, one entry per task")
    if raw.size == 0:
        raw = raw.astype(dtype)
    if raw.dtype.kind not in "biuf" or (raw.dtype.kind == "f" and dtype is not np.float64):
        raise TypeError(f"{name} has dtype {raw.dtype}: give {np.dtype(dtype).name} values")
    if dtype is not np.float64 and raw.size:
        info = np.iinfo(np.dtype(dtype))
        beyond = np.flatnonzero((raw < info.min) | (raw > info.max))
        if beyond.size:
            at = int(beyond[0])
            raise ValueError(f"{name}[{at}] = {raw[at]} does not fit {np.dtype(dtype).name}")
    frozen = np.array(raw, dtype=dtype, order="C")
    frozen.flags.writeable = False
    return frozen


def _check_range(name: str, tasks: NDArray[np.int64], n: int) -> None:
    wrong = np.flatnonzero((tasks < 0) | (tasks >= n))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"{name}[{at}] = {tasks[at]} is no task: there are {n}")


def _check(plan: Schedule) -> None:
    n = plan.kind.size
    for name in ("begin", "end", "cost", "waits"):
        size = getattr(plan, name).size
        if size != n:
            raise ValueError(f"{name} has {size} entries for {n} tasks")
    _check_each("kind", plan.kind, ~np.isin(plan.kind, list(Kind)), "is no schedule.Kind")
    _check_each("begin", plan.begin, plan.begin < 0, "is negative")
    _check_each("end", plan.end, plan.end < plan.begin, "lies before begin")
    bad_cost = ~np.isfinite(plan.cost) | (plan.cost < 0)
    _check_each("cost", plan.cost, bad_cost, "is not a finite number >= 0")

    ptr = plan.succ_ptr
    if ptr.size != n + 1:
        raise ValueError(f"succ_ptr has {ptr.size} entries for {n} tasks: give {n + 1}")
    if ptr[0] != 0 or ptr[-1] != plan.succ.size:
        raise ValueError(
            f"succ_ptr runs from {ptr[0]} to {ptr[-1]}: it must run from 0 to {plan.succ.size}, "
            "the length of succ"
        )
    counts = np.diff(ptr)
    _check_each("succ_ptr", ptr[1:], counts < 0, "is smaller than the entry before it", offset=1)
    _check_range("succ", plan.succ, n)
    source = np.repeat(np.arange(n), counts)
    behind = np.flatnonzero(plan.succ <= source)
    if behind.size:
        at = int(behind[0])
        raise ValueError(
            f"succ[{at}] = {plan.succ[at]} follows task {source[at]}: tasks must stand in "
            "topological order, every successor behind its task"
        )
    degree = np.bincount(plan.succ, minlength=n)
    wrong = np.flatnonzero(plan.waits != degree)
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(
            f"waits[{at}] = {plan.waits[at]}, but {degree[at]} entries of succ name task {at}"
        )


def _check_each(
    name: str, values: NDArray[Any], wrong: NDArray[np.bool_], what: str, offset: int = 0
) -> None:
    found = np.flatnonzero(wrong)
    if found.size:
        at = int(found[0])
        raise ValueError(f"{name}[{at + offset}] = {values[at]} {what}")
