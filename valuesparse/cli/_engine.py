"""Every call of the command line into inference on graphs, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from valuesparse.cli._models import show_bytes

if TYPE_CHECKING:
    from valuesparse import Decoding, FactorGraph, Result

__all__ = ["Plan", "best_states", "marginals", "plan"]

# Operations per second of one thread, roughly: what the predicted time is made of.
_SPEED = 1e9


class Plan(NamedTuple):
    """What exact inference would cost, and whether it would be done."""

    width: int
    table_size: float  # entries of all cliques
    memory: int  # bytes
    flops: float
    seconds: float
    method: str | None  # None: refused
    reason: str


def plan(graph: FactorGraph, memory_limit: int | None) -> Plan:
    """Return what `infer` would do, without doing it."""
    import valuesparse as vs

    tree = vs.JunctionTree(graph, memory_limit=memory_limit)
    # In the same order as infer decides.
    if tree.memory > tree.memory_limit:
        method = None
        reason = (
            f"it needs {show_bytes(tree.memory)}, and {show_bytes(tree.memory_limit)} are allowed; "
            "give evidence, raise --memory-limit or choose an approximation"
        )
    elif tree.width <= 1:
        method, reason = "exact", "a graph without cycles is solved exactly by two passes"
    else:
        method = "junction_tree"
        reason = f"its tables fit in the {show_bytes(tree.memory_limit)} allowed: exact"
    return Plan(
        tree.width,
        tree.table_size,
        tree.memory,
        tree.flops,
        tree.flops / _SPEED,
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
) -> Result:
    """Return the result of `infer`: ``marginals``, ``log_z``, ``method`` and ``reason``."""
    import valuesparse as vs

    return vs.infer(
        graph,
        zeta=1.0 if zeta is None else zeta,
        threads=threads,
        memory_limit=memory_limit,
        progress=progress,
    )


def best_states(graph: FactorGraph, *, threads: int | None, memory_limit: int | None) -> Decoding:
    """Return the result of `decode`: ``states`` and ``score``."""
    import valuesparse as vs

    return vs.decode(graph, threads=threads, memory_limit=memory_limit)
