"""Every call of the command line into inference on graphs, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from valuesparse import FactorGraph

__all__ = ["Plan", "best_states", "marginals", "plan"]

# Table entries per second and thread, roughly: what the predicted time is made of.
_SPEED = 5e8
# No real limit: asks what a refused junction tree would cost.
_UNLIMITED = 2**63 - 1


class Plan(NamedTuple):
    """What exact inference would cost, and whether it would be done."""

    width: int
    table_size: int  # entries of all cliques
    memory: int  # bytes
    flops: float
    seconds: float
    method: str | None  # None: refused
    reason: str


def plan(graph: FactorGraph, memory_limit: int | None) -> Plan:
    """Return what `infer` would do, without doing it."""
    import valuesparse as vs

    engine: Any = vs  # the names below are checked by the tests of inference
    try:
        tree = engine.JunctionTree(graph, memory_limit=memory_limit)
        refusal = None
    except engine.MemoryLimitError as error:
        tree = engine.JunctionTree(graph, memory_limit=_UNLIMITED)
        refusal = " ".join(str(error).split())
    if refusal is not None:
        method, reason = None, refusal
    elif tree.width <= 1:
        method, reason = "exact", "the graph is a tree: two passes over it are exact"
    else:
        method, reason = "junction_tree", "the tables of its cliques fit in the memory allowed"
    return Plan(
        int(tree.width),
        int(tree.table_size),
        int(tree.memory),
        float(tree.flops),
        float(tree.flops) / _SPEED,
        method,
        reason,
    )


def marginals(
    graph: FactorGraph,
    *,
    zeta: float | None,
    threads: int | None,
    memory_limit: int | None,
    progress: Callable[[int, int], object] | None,
) -> Any:
    """Return the result of `infer`: ``marginals``, ``log_z``, ``method`` and ``reason``."""
    import valuesparse as vs

    infer: Any = vs.infer
    # Only what was asked for is passed on: the defaults are infer's own.
    wanted = {"zeta": zeta, "memory_limit": memory_limit, "progress": progress}
    given = {name: value for name, value in wanted.items() if value is not None}
    return infer(graph, threads=threads, **given)


def best_states(graph: FactorGraph, *, threads: int | None, memory_limit: int | None) -> Any:
    """Return the result of `decode`: ``states`` and ``score``."""
    import valuesparse as vs

    decode: Any = vs.decode
    given = {} if memory_limit is None else {"memory_limit": memory_limit}
    return decode(graph, threads=threads, **given)
