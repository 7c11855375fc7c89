"""Run a schedule on virtual cores."""

from __future__ import annotations

import heapq
import operator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valuesparse.schedule._graph import Schedule

__all__ = ["Simulation", "simulate"]


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


def simulate(schedule: Schedule, cores: int, *, costs: str | ArrayLike | None = None) -> Simulation:
    """Run a schedule on virtual cores, greedily.

    No core idles while a task is ready. The ready task with the longest path still
    before it goes first, and of equal ones the lowest index; so the outcome is a function of the
    arguments.

    Parameters
    ----------
    schedule : Schedule
        The plan.
    cores : int
        Number of virtual cores, at least 1.
    costs : {None, "unit"} or (n,) array_like, optional
        Time each task takes: None takes ``schedule.cost``, ``"unit"`` gives every task 1, an array
        gives measured times, finite and not negative.

    Returns
    -------
    Simulation
        Makespan, speed-up and utilisation, and where and when each task ran.

    Raises
    ------
    ValueError
        If `cores` is below 1, or `costs` is an unknown word, has the wrong length or a bad entry.
    TypeError
        If `cores` is not an integer or `costs` does not hold real numbers.

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
    An exact chain is two passes, so more than two cores do not help (SMM11, section 2):

    >>> from valuesparse.schedule import chain_schedule, simulate
    >>> plan = chain_schedule([128])
    >>> [simulate(plan, cores).speedup for cores in (1, 2, 16)]
    [1.0, 2.0, 2.0]
    """
    try:
        n_cores = operator.index(cores)
    except TypeError:
        raise TypeError(f"cores has type {type(cores).__name__}: give an integer") from None
    if n_cores < 1:
        raise ValueError(f"cores = {n_cores}: give at least 1")
    cost = _task_costs(schedule, costs)
    path = schedule.path_costs(cost)
    n = schedule.n_tasks
    by_rank = np.lexsort((np.arange(n), -path))
    rank = np.empty(n, dtype=np.int64)
    rank[by_rank] = np.arange(n)
    start, finish, core = _run(schedule, cost, by_rank.tolist(), rank.tolist(), n_cores)
    return Simulation(
        cores=n_cores,
        makespan=float(finish.max(initial=0.0)),
        work=float(cost.sum()),
        span=float(path.max(initial=0.0)),
        busy=np.bincount(core, weights=cost, minlength=n_cores).astype(np.float64),
        start=start,
        finish=finish,
        core=core,
    )


def _task_costs(schedule: Schedule, costs: str | ArrayLike | None) -> NDArray[np.float64]:
    n = schedule.n_tasks
    if costs is None:
        return schedule.cost
    if isinstance(costs, str):
        if costs != "unit":
            raise ValueError(f"costs = {costs!r}: give 'unit', an array of {n} times or None")
        return np.ones(n)
    raw = np.asarray(costs)
    if raw.dtype.kind not in "biuf":
        raise TypeError(f"costs has dtype {raw.dtype}: give real numbers")
    if raw.shape != (n,):
        raise ValueError(f"costs has shape {raw.shape}: give ({n},), one entry per task")
    wrong = np.flatnonzero(~np.isfinite(raw) | (raw < 0))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"costs[{at}] = {raw[at]} is not a finite number >= 0")
    return raw.astype(np.float64)


def _run(
    schedule: Schedule,
    costs: NDArray[np.float64],
    by_rank: list[int],
    rank: list[int],
    n_cores: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
    """Play the events in order of time; plain lists, which are faster here than array elements."""
    n = schedule.n_tasks
    cost: list[float] = costs.tolist()
    waits: list[int] = schedule.waits.tolist()
    succ: list[int] = schedule.succ.tolist()
    ptr: list[int] = schedule.succ_ptr.tolist()
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
