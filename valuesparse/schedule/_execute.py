"""Run a schedule on the calling thread."""

from __future__ import annotations

from collections.abc import Callable

from valuesparse.schedule._graph import Schedule

__all__ = ["execute_serial"]


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
