"""The schedule that `infer` runs for a model, as data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from valuesparse import _chain
from valuesparse.models import Chain
from valuesparse.schedule._graph import Kind, Schedule
from valuesparse.threads import resolve

__all__ = ["Plan", "plan"]

# The native kinds: whole sequences; half passes that store their messages; half passes that meet
# stored messages and write marginals.
_KINDS = np.array(
    [Kind.SEGMENT, Kind.FORWARD, Kind.BACKWARD, Kind.FORWARD, Kind.BACKWARD], dtype=np.int8
)


@dataclass(frozen=True)
class Plan:
    """What an exact call runs on the pool.

    Attributes
    ----------
    schedule : Schedule
        The tasks; positions count through the sequences in the order of `order`.
    order : ndarray of int64, shape (at most B,)
        Non-empty sequences, longest first.
    """

    schedule: Schedule
    order: npt.NDArray[np.int64]


def plan(model: Chain, *, threads: int | None = None) -> Plan:
    """Return the schedule that ``infer(model, threads=threads)`` runs, with ``zeta=1``.

    Calls with islands have no plan: what they run is found on the way. `chain_schedule` has the
    schedule of their messages afterwards. This one is built by the code that runs it: with one
    thread the tasks are done in order, with more the pool drains them, and `simulate` runs the same
    arrays on virtual cores.

    Parameters
    ----------
    model : Chain
        The model.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. A chain that is long beside
        the work of one thread is cut into four half passes that meet in its middle.

    Returns
    -------
    Plan
        The schedule and the order of the sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> from valuesparse.schedule import plan, simulate
    >>> chain = vs.Chain(np.zeros((1000, 20)), np.zeros((20, 20)))
    >>> p = plan(chain, threads=2)
    >>> p.schedule.n_tasks
    4
    >>> simulate(p.schedule, 2).speedup
    2.0
    """
    if not isinstance(model, Chain):
        raise TypeError(f"model must be a valuesparse.Chain, got {type(model).__name__}")
    order, kind, first, last, messages, waits, succ_ptr, succ = (
        np.asarray(a) for a in _chain.plan(model._batch, resolve(threads))
    )
    order = order.astype(np.int64)
    length = model.lengths[order]
    offset = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    kind, first, last = (a.astype(np.int64) for a in (kind, first, last))
    begin, end = offset[first], offset[last]
    middle = begin + (end - begin) // 2
    left = (kind == 1) | (kind == 4)
    right = (kind == 2) | (kind == 3)
    schedule = Schedule(
        kind=_KINDS[kind],
        begin=np.where(right, middle, begin),
        end=np.where(left, middle, end),
        cost=messages.astype(np.float64),
        waits=waits.astype(np.int32),
        succ_ptr=succ_ptr.astype(np.int64),
        succ=succ.astype(np.int64),
    )
    return Plan(schedule, order)
