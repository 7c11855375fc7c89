"""The schedule that `infer` runs for a model, as data."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from valuesparse import _chain, _tree
from valuesparse.inference import JunctionTree
from valuesparse.models import Chain, FactorGraph, Tree
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
    """The tasks that an exact call runs on the pool.

    Attributes
    ----------
    schedule : Schedule
        The tasks; positions count through the sequences, nodes or cliques of `order`. Costs are
        messages for chains, and estimated nanoseconds for trees and graphs.
    order : ndarray of int64
        Chains: the non-empty sequences, longest first. Trees: the nodes, as they lie in blocks.
        Graphs: numbers of cliques (`JunctionTree.cliques`), as tasks name them.
    """

    schedule: Schedule
    order: npt.NDArray[np.int64]


def plan(model: Chain | Tree | FactorGraph | JunctionTree, *, threads: int | None = None) -> Plan:
    """Return the schedule that ``infer(model, threads=threads)`` runs, with ``zeta=1``.

    Calls with islands have no plan: what they run is found on the way. `chain_schedule` has the
    schedule of their messages afterwards. This one is built by the code that runs it: with one
    thread the tasks are done in order, with more the pool drains them, and `simulate` runs the same
    arrays on virtual cores.

    Parameters
    ----------
    model : Chain, Tree, FactorGraph or JunctionTree
        The model, or the tree compiled for one, with the evidence it was built with.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. A chain that is long beside
        the work of one thread is cut into four half passes that meet in its middle. The schedules
        of trees and of graphs are cut by cost alone and do not depend on it.

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
    if isinstance(model, (FactorGraph, JunctionTree)):
        return _of_graph(model if isinstance(model, JunctionTree) else JunctionTree(model))
    if isinstance(model, Tree):
        return _of_tree(model)
    if not isinstance(model, Chain):
        raise TypeError(
            "model must be a Chain, Tree, FactorGraph or JunctionTree of valuesparse, got "
            f"{type(model).__name__}"
        )
    order, kind, first, last, messages, waits, succ_ptr, succ = (
        np.asarray(a) for a in _chain.plan(model.batch, resolve(threads))
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


def _of_tree(model: Tree) -> Plan:
    """Blocks of nodes: all upward passes, children first, then the downward ones."""
    node, up, first, last, nanoseconds, waits, succ_ptr, succ = _tree.plan(model.forest)
    schedule = Schedule(
        kind=np.where(up, Kind.UPWARD, Kind.DOWNWARD).astype(np.int8),
        begin=first,
        end=last,
        cost=nanoseconds,
        waits=waits,
        succ_ptr=succ_ptr,
        succ=succ,
    )
    return Plan(schedule, node.astype(np.int64))


def _of_graph(jt: JunctionTree) -> Plan:
    """Return the way up, the sum at the roots, and the way down."""
    order: list[int] = []
    kind: list[int] = []
    begin: list[int] = []
    end: list[int] = []
    cost: list[float] = []
    before: list[int] = []
    after: list[int] = []
    middle = -1
    for up, tasks in zip((True, False), jt._schedules(), strict=True):
        kinds, first, last, cliques, nanoseconds, waits, succ_ptr, succ = tasks
        whole = Kind.UPWARD if up else Kind.DOWNWARD
        offset, base = len(kind), len(order)
        order += cliques
        for native, a, b in zip(kinds, first, last, strict=True):
            kind.append((whole, Kind.SPLIT, Kind.ROWS, Kind.MERGE, Kind.PIECE)[native])
            if native:
                a, b = len(order) - base, len(order) - base + 1
                order.append(first[len(kind) - 1 - offset])
            begin.append(base + a)
            end.append(base + b)
        cost += nanoseconds
        for task, (a, b) in enumerate(itertools.pairwise(succ_ptr)):
            before += [offset + task] * (b - a)
            after += [offset + t for t in succ[a:b]]
            if up and a == b:  # roots
                before.append(offset + task)
                after.append(len(kinds))
            if not up and waits[task] == 0:
                before.append(middle)
                after.append(offset + task)
        if up:
            middle = len(kind)
            kind.append(Kind.COMBINE)
            begin.append(0)
            end.append(0)
            cost.append(0.0)
    schedule = Schedule.from_edges(
        kind=kind, begin=begin, end=end, cost=cost, before=before, after=after
    )
    return Plan(schedule, np.array(order, dtype=np.int64))
