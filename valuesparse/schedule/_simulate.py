"""Run plans on virtual cores."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuesparse._validation import as_array, as_items, require_room
from valuesparse.schedule._tasks import Plan, require_finite_sum

__all__ = ["Simulation", "simulate"]

#: Plans whose costs are counted, so that 0 is one; those without a label are made by hand.
_COUNTED = frozenset(("", "exact", "up and down"))


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A run on virtual cores; times are in the unit of the costs.

    Attributes
    ----------
    cores : int
        Number of cores P.
    makespan : float
        Time at which the last task ends.
    work : float
        Sum of all costs.
    span : float
        Cost of the critical path.
    busy : (P,) float64
        Time each core spent working.
    start, finish : (n,) float64
        When each task starts and ends.
    core : (n,) int32
        The core each task ran on.
    """

    cores: int
    makespan: float
    work: float
    span: float
    busy: NDArray[np.float64]
    start: NDArray[np.float64]
    finish: NDArray[np.float64]
    core: NDArray[np.int32]

    @property
    def speedup(self) -> float:
        """Time on one core over the time taken; 1 where there is nothing to do."""
        return self.work / self.makespan if self.makespan > 0 else 1.0

    @property
    def utilisation(self) -> float:
        """Share of the cores' time that was spent working: ``speedup / cores``."""
        return self.speedup / self.cores

    def __repr__(self) -> str:
        return (
            f"Simulation(cores={self.cores}, makespan={self.makespan:g}, "
            f"speedup={self.speedup:.3g}, utilisation={self.utilisation:.3g})"
        )


def simulate(
    plan: Plan | Sequence[Plan], cores: int, *, costs: str | ArrayLike = "messages"
) -> Simulation:
    """Run a plan on virtual cores, greedily, or several, one after the other.

    No core idles while a task is ready. The ready task with the longest path still
    before it goes first, and of equal ones the lowest index; so the outcome is a function of the
    arguments. Each of several plans begins when the one before has ended, as in a call.

    Parameters
    ----------
    plan : Plan or sequence of Plan
        The plan, or those of a recording.
    cores : int
        Number of virtual cores, at least 1.
    costs : {"messages", "measured"} or (n,) array_like, optional
        Time each task takes: "messages" takes ``plan.cost``, "measured" the nanoseconds that were
        recorded, an array gives other times, not negative, with a finite sum, for all plans in a
        row.

    Returns
    -------
    Simulation
        Makespan, speed-up and utilisation, and where and when each task ran. Tasks of several plans
        stand in a row.

    Raises
    ------
    ValueError
        If `cores` is below 1, or `costs` is an unknown word, has the wrong length or a bad entry;
        if it is "measured" and a task was not recorded, or "messages" where none are counted.
    TypeError
        If `plan` is none, `cores` is not an integer or `costs` does not hold real numbers.

    Notes
    -----
    With work W and span S, greedy list scheduling keeps ``max(S, W / P) <= makespan <= W / P + (1 -
    1 / P) S`` and is therefore never worse than ``2 - 1 / P`` times the best schedule [1]_. Tasks
    move between cores freely and handing one over costs nothing: add that to `costs` to count it.

    References
    ----------
    .. [1] R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied
       Mathematics 17(2), 1969.

    Examples
    --------
    A chain is two passes, so more than two cores do not help exact inference (SMM11, section 2):

    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((2000, 20)), np.zeros((20, 20)))
    >>> plan = vs.schedule.plan(chain, threads=16)
    >>> [vs.schedule.simulate(plan, cores).speedup for cores in (1, 2, 16)]
    [1.0, 2.0, 2.0]
    """
    try:
        n_cores = operator.index(cores)
    except TypeError:
        raise TypeError(f"cores has type {type(cores).__name__}: give an integer") from None
    if n_cores < 1:
        raise ValueError(f"cores = {n_cores}: give at least 1")
    require_room("cores", n_cores, 1)
    plans = [plan] if isinstance(plan, Plan) else as_items("plan", plan, "a Plan or several")
    for i, one in enumerate(plans):
        if not isinstance(one, Plan):
            raise TypeError(f"plan[{i}] must be a Plan, not {type(one).__name__}")
    cost = _task_costs(plans, costs)
    require_finite_sum("costs", cost)
    ends = np.cumsum([0, *(p.n_tasks for p in plans)])
    start, finish = np.zeros(cost.size), np.zeros(cost.size)
    core = np.zeros(cost.size, dtype=np.int32)
    now = span = 0.0
    for one, first, last in zip(plans, ends[:-1], ends[1:], strict=True):
        of, at = cost[first:last], slice(first, last)
        path = one.path_costs(of)
        by_rank = np.lexsort((np.arange(of.size), -path))
        rank = np.empty(of.size, dtype=np.int64)
        rank[by_rank] = np.arange(of.size)
        start[at], finish[at], core[at] = _run(one, of, by_rank.tolist(), rank.tolist(), n_cores)
        start[at] += now
        finish[at] += now
        now = float(finish[at].max(initial=now))
        span += float(path.max(initial=0.0))
    return Simulation(
        cores=n_cores,
        makespan=now,
        work=float(cost.sum()),
        span=span,
        busy=np.bincount(core, weights=cost, minlength=n_cores).astype(np.float64),
        start=start,
        finish=finish,
        core=core,
    )


def _task_costs(plans: list[Plan], costs: str | ArrayLike) -> NDArray[np.float64]:
    if isinstance(costs, str):
        if costs not in ("messages", "measured"):
            raise ValueError(f"costs = {costs!r}: give 'messages', 'measured' or an array of times")
        pick = _messages if costs == "messages" else _measured
        return np.concatenate([np.empty(0), *pick(plans)])
    n = sum(p.n_tasks for p in plans)
    raw = as_array("costs", costs)
    if raw.dtype.kind not in "biuf":
        raise TypeError(f"costs has dtype {raw.dtype}: give real numbers")
    if raw.shape != (n,):
        raise ValueError(f"costs has shape {raw.shape}: give ({n},), one entry per task")
    wrong = np.flatnonzero(~np.isfinite(raw) | (raw < 0))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"costs[{at}] = {raw[at]} is not a finite number >= 0")
    return raw.astype(np.float64)


def _messages(plans: list[Plan]) -> list[NDArray[np.float64]]:
    if any(p.label.startswith("islands") for p in plans):
        raise ValueError(
            "costs = 'messages', but islands are found on the way, and their messages not counted "
            "by task: give 'measured'"
        )
    costs = [p.cost for p in plans]
    busy = {p.label for p in plans if p.n_tasks}
    if busy and busy.isdisjoint(_COUNTED) and not any(cost.any() for cost in costs):
        raise ValueError(
            f"costs = 'messages', but tasks of {min(busy)!r} count none: give 'measured', or an "
            "array of times"
        )
    return costs


def _measured(plans: list[Plan]) -> list[NDArray[np.float64]]:
    times = []
    for i, p in enumerate(plans):
        measured = p.measured if p.n_tasks else np.empty(0)  # no task needs no recording
        if measured is None:
            raise ValueError(
                f"costs = 'measured', but plan {i} was not run: record it with "
                "valuesparse.schedule.record()"
            )
        lost = np.flatnonzero(measured < 0)
        if lost.size:
            raise ValueError(
                f"costs = 'measured', but task {lost[0]} of plan {i} was not run: the call was "
                "stopped before"
            )
        times.append(measured.astype(np.float64))
    return times


def _run(
    plan: Plan,
    costs: NDArray[np.float64],
    by_rank: list[int],
    rank: list[int],
    n_cores: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
    """Play the events in order of time; plain lists, which are faster here than array elements."""
    n = plan.n_tasks
    cost: list[float] = costs.tolist()
    waits: list[int] = plan.waits.tolist()
    succ: list[int] = plan.succ.tolist()
    ptr: list[int] = plan.succ_ptr.tolist()
    start, finish, core = [0.0] * n, [0.0] * n, [0] * n
    push, pop = heapq.heappush, heapq.heappop

    ready = [rank[task] for task in range(n) if waits[task] == 0]
    heapq.heapify(ready)
    # No more cores are ever used than there are tasks; the rest stay idle and need no entry.
    idle = list(range(min(n_cores, n)))
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and idle:
            task = by_rank[pop(ready)]
            core[task] = pop(idle)
            start[task] = now
            finish[task] = now + cost[task]
            push(running, (finish[task], task))
        now = running[0][0]
        # Everything that ends now ends before anything starts: what starts must see all of it.
        while running and running[0][0] == now:
            task = pop(running)[1]
            push(idle, core[task])
            for follower in succ[ptr[task] : ptr[task + 1]]:
                waits[follower] -= 1
                if waits[follower] == 0:
                    push(ready, rank[follower])
    return np.asarray(start), np.asarray(finish), np.asarray(core, dtype=np.int32)
