"""Run a schedule: on the calling thread, or on the pool."""

from __future__ import annotations

from collections.abc import Callable

from valuesparse import _pool
from valuesparse.schedule._graph import Schedule
from valuesparse.threads import resolve

__all__ = ["execute_pool", "execute_serial"]


def execute_serial(schedule: Schedule, run_task: Callable[[int], object]) -> None:
    """Run every task of a schedule once, each after everything it waits for.

    Parameters
    ----------
    schedule : Schedule
        The plan.
    run_task : callable
        Called with a task's index; what it returns is dropped. Look up the rest in the schedule's
        arrays.

    Raises
    ------
    Exception
        Whatever `run_task` raises; the tasks behind are then not run.

    Examples
    --------
    >>> from valuesparse.schedule import chain_schedule, execute_serial
    >>> plan, order = chain_schedule([3]), []
    >>> execute_serial(plan, order.append)
    >>> [(plan.kind[t].item(), plan.begin[t].item()) for t in order]
    [(0, 1), (0, 2), (1, 1), (1, 0)]
    """
    # Tasks stand in topological order, so counting off what each waits for would change nothing.
    for task in range(schedule.n_tasks):
        run_task(task)


def execute_pool(
    schedule: Schedule, run_task: Callable[[int, int], object], *, threads: int | None = None
) -> None:
    """Run every task of a schedule once on the native pool, each after everything it waits for.

    Parameters
    ----------
    schedule : Schedule
        The plan.
    run_task : callable
        Called as ``run_task(task, worker)``, from several threads at a time; worker 0 is the
        calling thread. It holds the GIL while it runs Python code.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`.

    Raises
    ------
    Exception
        The first that `run_task` raises; tasks that have not started are then not run.

    Examples
    --------
    >>> from valuesparse.schedule import chain_schedule, execute_pool
    >>> plan, done = chain_schedule([3]), []
    >>> execute_pool(plan, lambda task, worker: done.append(task), threads=2)
    >>> sorted(done)
    [0, 1, 2, 3]
    """
    _pool.run_schedule(schedule.waits, schedule.succ_ptr, schedule.succ, run_task, resolve(threads))
