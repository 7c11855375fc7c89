"""Tasks and what they wait for, as flat arrays."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuesparse import _pool
from valuesparse._fork import cached_attribute
from valuesparse._validation import as_array

__all__ = ["Kind", "Plan"]


class Kind(enum.IntEnum):
    """The kind of a task: what it does with its item of a `Plan`.

    ``PIECE`` does a part ``[first, last)`` of a loop whose parts do not wait for each other: the
    plan's label says of which. All others work on ``order[first:last]`` unless said otherwise.

    Chains: ``SEQUENCES`` runs both passes of whole sequences (or the way to their best states and
    back). A long one is cut into chunks, which ``CHUNKS`` runs; items count through these, chain by
    chain. One in which influence does not die
    is cut in its middle: ``FORWARD`` and ``BACKWARD`` send messages to it from both ends,
    ``FORWARD_MEET`` and ``BACKWARD_MEET`` go on from there and write marginals. Sequences of hidden
    Markov models with few states, which items count themselves, have ``SEQUENCES`` as well, or the
    directions apart; the pieces that these wait for make local factors of rows.

    Trees and junction trees: ``UPWARD`` sends messages of nodes or cliques to the root,
    ``DOWNWARD`` those to the leaves, with marginals on the way. A large clique is cut; the item is
    then (clique, piece). ``BEFORE_ROWS`` is all that comes before its rows, or ``RESERVE``,
    ``ABSORB``, ``SPREAD`` if that takes long; ``ROWS`` runs a block of its rows; ``AFTER_ROWS`` is
    the rest, or ``MERGE``, ``GATHER``, ``PROJECT``, ``NESTED``, ``DIVIDE``, ``DECIDE``, ``SCALE``
    and ``RELEASE``. All tasks of the way up stand before those of the way down.
    """

    PIECE = 0
    SEQUENCES = 1
    FORWARD = 2
    BACKWARD = 3
    FORWARD_MEET = 4
    BACKWARD_MEET = 5
    UPWARD = 6
    DOWNWARD = 7
    BEFORE_ROWS = 8
    RESERVE = 9
    ABSORB = 10
    SPREAD = 11
    ROWS = 12
    MERGE = 13
    GATHER = 14
    PROJECT = 15
    NESTED = 16
    DIVIDE = 17
    DECIDE = 18
    SCALE = 19
    RELEASE = 20
    AFTER_ROWS = 21
    CHUNKS = 22


_DTYPES: dict[str, type[np.generic]] = {
    "kind": np.int8,
    "item": np.int64,
    "cost": np.float64,
    "waits": np.int32,
    "succ_ptr": np.int64,
    "succ": np.int64,
    "order": np.int64,
    "start": np.int64,
    "measured": np.int64,
    "worker": np.int32,
}


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Tasks in topological order, with their costs and successors: what the pool runs.

    `plan` and `record` return the arrays of the native plan as they stand. Plans are immutable,
    their arrays C-contiguous and read-only, and they pickle. One made by hand is checked.

    Parameters
    ----------
    kind : (n,) int8
        A `Kind` for each task.
    item : (n, 2) int64
        The thing that the task works on; `Kind` says how it is read.
    cost : (n,) float64
        Chains and trees: how many messages the task sends, K*K operations each counted as one.
        Junction trees: estimated nanoseconds. All else: 0. Not negative, with a finite sum.
    waits : (n,) int32
        Number of tasks that must be finished before this one may start.
    succ_ptr : (n + 1,) int64
        Successors of task ``t`` are ``succ[succ_ptr[t]:succ_ptr[t + 1]]``.
    succ : (m,) int64
        Successors, each larger than the task it follows.
    order : int64 array
        The things that items count through: the non-empty sequences of chains, longest first; the
        nodes of trees, as they lie in blocks; cliques (`JunctionTree.cliques`), as tasks name them.
    label : str
        Which of the plans of a call this is.
    round : int
        Which round of islands, -1 where there are none.
    threads : int
        At most this number of threads run it; at least 1, or 0 where there are no tasks.
    start, measured : (n,) int64
        In a plan that was recorded: nanoseconds from the start of the recording to that of the
        task, and that the task took; -1: it was not run.
    worker : (n,) int32
        The thread that ran it; 0 is the calling one.

    Raises
    ------
    ValueError
        If shapes, ranges or counts disagree, or if the order is not topological; the message names
        the array and the index. A cyclic plan has no topological order and cannot be written down.
    TypeError
        If an array does not hold real numbers, `label` is no str, or `round` or `threads` no int.

    Examples
    --------
    >>> from valuesparse.schedule import Kind, Plan
    >>> Plan(kind=[Kind.FORWARD, Kind.BACKWARD, Kind.PIECE], item=[(0, 1), (0, 1), (0, 3)],
    ...      cost=[2.0, 2.0, 0.5], waits=[0, 0, 2], succ_ptr=[0, 1, 2, 2], succ=[2, 2])
    Plan(n_tasks=3, total_cost=4.5, span=2.5)
    """

    kind: NDArray[np.int8]
    item: NDArray[np.int64]
    cost: NDArray[np.float64]
    waits: NDArray[np.int32]
    succ_ptr: NDArray[np.int64]
    succ: NDArray[np.int64]
    order: NDArray[np.int64] | None = None
    start: NDArray[np.int64] | None = None
    measured: NDArray[np.int64] | None = None
    worker: NDArray[np.int32] | None = None
    label: str = ""
    round: int = -1
    threads: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise TypeError(f"label must be a str, not {type(self.label).__name__}")
        for name in ("round", "threads"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
        for name, dtype in _DTYPES.items():
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, _frozen(name, values, dtype))
        _check(self)

    @classmethod
    def of(cls, record: _pool.Record) -> Plan:
        """Return a native plan, whose arrays are seen and not copied."""
        if not isinstance(record, _pool.Record):
            raise TypeError(f"record must be a native plan, not {type(record).__name__}")
        plan = object.__new__(cls)
        for name, array in zip(_DTYPES, record.arrays(), strict=True):
            here = array.size or name in ("kind", "item", "cost", "waits", "succ_ptr", "succ")
            object.__setattr__(plan, name, array if here else None)
        for name, value in zip(("label", "round", "threads"), record.about(), strict=True):
            object.__setattr__(plan, name, value)
        return plan

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.kind.size)

    @cached_attribute
    def total_cost(self) -> float:
        """Work: the sum of all costs, which is the time one core takes."""
        return float(self.cost.sum())

    @cached_attribute
    def span(self) -> float:
        """Length of the critical path: the time that no number of cores can beat."""
        return float(self.path_costs().max(initial=0.0))

    def path_costs(self, costs: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Cost of the dearest path from the start of each task to the end of the plan.

        Parameters
        ----------
        costs : (n,) float64, optional
            Cost of each task, by default the plan's own.

        Returns
        -------
        (n,) float64
            The task's own cost included.
        """
        own = self.cost if costs is None else _frozen("costs", costs, np.float64)
        if own.size != self.n_tasks:
            raise ValueError(f"costs has {own.size} entries for {self.n_tasks} tasks")
        path: list[float] = own.tolist()
        succ, ptr = self.succ.tolist(), self.succ_ptr.tolist()
        # Successors stand behind their task, so one sweep from the end sees each of them finished.
        for task in range(self.n_tasks - 1, -1, -1):
            first, last = ptr[task], ptr[task + 1]
            if last > first:
                path[task] += max(path[follower] for follower in succ[first:last])
        return np.asarray(path, dtype=np.float64)

    def __repr__(self) -> str:
        label = f"{self.label!r}, " if self.label else ""
        time = ""
        if self.measured is not None:
            time = f", measured={1e-3 * self.measured.clip(0).sum():.4g} us"
        return (
            f"Plan({label}n_tasks={self.n_tasks}, total_cost={self.total_cost:g}, "
            f"span={self.span:g}{time})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructor checks the arrays that are loaded, and makes them read-only again.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def _frozen(name: str, values: ArrayLike, dtype: type[np.generic]) -> NDArray[Any]:
    """Copy `values` into a read-only vector of `dtype`, refusing what would be rounded."""
    raw = as_array(name, values)
    if raw.size == 0:
        raw = raw.astype(dtype).reshape((0, 2) if name == "item" else 0)
    if name == "item" and (raw.ndim != 2 or raw.shape[1] != 2):
        raise ValueError(f"item has shape {raw.shape}: give (n, 2), two numbers per task")
    if name != "item" and raw.ndim != 1:
        raise ValueError(f"{name} has {raw.ndim} dimensions: give a vector, one entry per task")
    if raw.dtype.kind not in "biuf" or (raw.dtype.kind == "f" and dtype is not np.float64):
        raise TypeError(f"{name} has dtype {raw.dtype}: give {np.dtype(dtype).name} values")
    if dtype is not np.float64 and raw.size:
        info = np.iinfo(np.dtype(dtype))
        beyond = raw[(raw < info.min) | (raw > info.max)]
        if beyond.size:
            raise ValueError(f"{name} holds {beyond[0]}, which does not fit {np.dtype(dtype).name}")
    frozen = np.array(raw, dtype=dtype, order="C")
    frozen.flags.writeable = False
    return frozen


def require_finite_sum(name: str, costs: NDArray[np.float64]) -> None:
    """Raise ValueError where costs, each of them finite, are too large to be added up."""
    with np.errstate(over="ignore"):
        total = costs.sum()
    if not np.isfinite(total):
        raise ValueError(
            f"the entries of {name} add up to more than a float64 holds: give smaller numbers"
        )


def _check(plan: Plan) -> None:
    n = plan.kind.size
    for name in ("item", "cost", "waits", "start", "measured", "worker"):
        values = getattr(plan, name)
        if values is not None and len(values) != n:
            raise ValueError(f"{name} has {len(values)} entries for {n} tasks")
    _check_each("kind", plan.kind, ~np.isin(plan.kind, list(Kind)), "is no schedule.Kind")
    _check_each("item", plan.item, plan.item.min(axis=1, initial=0) < 0, "is negative")
    bad_cost = ~np.isfinite(plan.cost) | (plan.cost < 0)
    _check_each("cost", plan.cost, bad_cost, "is not a finite number >= 0")
    require_finite_sum("cost", plan.cost)
    if plan.threads < min(n, 1):
        raise ValueError(f"threads = {plan.threads}: give at least 1")

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
    _check_each("succ", plan.succ, (plan.succ < 0) | (plan.succ >= n), f"is no task: there are {n}")
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
