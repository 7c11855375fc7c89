"""The plans that `infer` would run, and those that it ran."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import TracebackType
from typing import Any, overload

from valuesparse import _forest, _pool
from valuesparse._validation import as_flag
from valuesparse.inference import JunctionTree
from valuesparse.models import Chain, FactorGraph, SecondOrderChain, SegmentChain, Tree
from valuesparse.models._blocks import structured_factors
from valuesparse.schedule._tasks import Plan
from valuesparse.threads import resolve

__all__ = ["Recording", "plan", "record"]


class Recording(Sequence[Plan]):
    """The plans that ran in a ``with`` block, in the order in which they ran: see `record`.

    Pickles and copies hold the plans so far, and record no more.
    """

    _recorder: _pool.Recorder | _Copied

    def __init__(self, *, serial: bool = False) -> None:
        self._recorder = _pool.Recorder(as_flag("serial", serial))
        self._plans: dict[int, Plan] = {}  # those that somebody asked for

    def __enter__(self) -> Recording:
        self._recorder.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._recorder.stop()

    def __len__(self) -> int:
        return len(self._recorder)

    @overload
    def __getitem__(self, at: int) -> Plan: ...
    @overload
    def __getitem__(self, at: slice) -> list[Plan]: ...
    def __getitem__(self, at: int | slice) -> Plan | list[Plan]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        try:
            i = operator.index(at)
        except TypeError:
            raise TypeError(
                f"plans of a recording are asked for by an integer or a slice, not by a "
                f"{type(at).__name__}"
            ) from None
        size = len(self)
        if not -size <= i < size:
            raise IndexError(f"plan {i} of a recording that has {size}")
        i %= size
        if i not in self._plans:
            found = self._recorder.get(i)
            self._plans.setdefault(i, found if isinstance(found, Plan) else Plan.of(found))
        return self._plans[i]

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (list(self),)

    def __repr__(self) -> str:
        return f"Recording({list(self)})"


class _Copied:
    """The plans of a copy, which stand in the place of a recorder."""

    def __init__(self, plans: list[Plan]) -> None:
        self._plans = plans

    def start(self) -> None:
        raise RuntimeError("this is a copy of a recording: make another for each block")

    stop = start

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, i: int) -> Plan:
        return self._plans[i]


def _copy(plans: list[Plan]) -> Recording:
    made = Recording()
    made._recorder = _Copied(plans)
    return made


def record(*, serial: bool = False) -> Recording:
    """Record what the calling thread runs in a ``with`` block: its plans, and when each task ran.

    Every engine is recorded: inference, decoding, sampling, training. A call is a sequence of
    plans, each of which began when the one before had ended; islands are found as they go, so they
    are a plan for each step. Results are the same bits as without. Plans that other Python threads
    run are not recorded, nor what a task runs within itself. Where blocks stand within each other,
    the inner one records what runs in it, and the outer one does not.

    Parameters
    ----------
    serial : bool
        Run all tasks on the calling thread, one after the other. The plans are those for the
        ``threads`` of the call, and no task's time is disturbed by another.

    Returns
    -------
    Recording
        A sequence of `Plan`, with ``start``, ``measured`` and ``worker``; it grows until the block
        ends, by an error, too.

    Raises
    ------
    RuntimeError
        If a recording is begun while it runs, or ended on another thread.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((1000, 20)), np.zeros((20, 20)))
    >>> with vs.schedule.record(serial=True) as run:
    ...     r = vs.infer(chain, threads=2)
    >>> [plan.label for plan in run]
    ['pack', 'exact']
    >>> vs.schedule.simulate(run, 2, costs="measured").speedup > 1
    True
    """
    return Recording(serial=serial)


def plan(model: Chain | Tree | FactorGraph | JunctionTree, *, threads: int | None = None) -> Plan:
    """Return the plan that ``infer(model, threads=threads)`` runs for marginals, with ``zeta=1``.

    It is made by the code that runs it, and run as it stands: on one thread in the order of its
    tasks, on several by the pool, on virtual cores by `simulate`. A call packs its tables
    before, and repeats in wider arithmetic what underflowed; islands are found on the way:
    `record` shows all of that. Factor graphs that `infer` sends to another engine are shown
    as the junction tree that exact inference would take. Where a structured factor is too large to
    have a table there is none, and only `record` shows what runs.

    Parameters
    ----------
    model : Chain, Tree, FactorGraph or JunctionTree
        The model, or the tree compiled for one, with the evidence it was built with.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. Long chains are cut into
        chunks, as they stand, on any number of threads; one that is not, and long beside the work
        of one thread, is cut into four half passes that meet in its middle. The plans of trees
        and of graphs are cut by cost alone and do not depend on it.

    Returns
    -------
    Plan
        The tasks and the order of what they work on.

    Raises
    ------
    ValueError
        A structured factor has no table.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((1000, 20)), np.zeros((20, 20)))
    >>> p = vs.schedule.plan(chain, threads=2)
    >>> p
    Plan('exact', n_tasks=4, total_cost=1998, span=999)
    >>> vs.schedule.simulate(p, 2).speedup
    2.0
    """
    if not isinstance(model, Chain | Tree | FactorGraph | JunctionTree):
        raise TypeError(
            "model must be a Chain, Tree, FactorGraph or JunctionTree of valuesparse, got "
            f"{_described(model)}"
        )
    workers = resolve(threads)
    with Recording() as shown:
        if isinstance(model, Chain | Tree):
            _forest.show(model.forest, workers)
        else:
            tree = model if isinstance(model, JunctionTree) else _tree_of(model)
            tree._show_plan(workers)
    return shown[-1]


def _described(model: object) -> str:
    """Return the type of what has no plan to show, and where its plans are to be seen."""
    said = type(model).__name__
    if isinstance(model, SecondOrderChain):
        said += ", which is what vs.Chain(..., order=2) makes"
    if isinstance(model, SecondOrderChain | SegmentChain):
        said += "; run infer(model) in a block of vs.schedule.record() to see its plans"
    return said


def _tree_of(graph: FactorGraph) -> JunctionTree:
    """Return the junction tree of a graph; ValueError where it has none."""
    for i, factor in structured_factors(graph).items():
        if not factor.has_table:
            raise ValueError(
                f"model has no junction tree to plan: factor {i}, {factor.described}, is "
                "too large for a table; run infer(model) in a block of vs.schedule.record() to "
                "see its plans"
            )
    return JunctionTree(graph)
