"""Refusals of exact inference: what is impossible, and what does not fit in memory."""

from __future__ import annotations

from valuesparse import _graph
from valuesparse.errors import InfeasibleError, MemoryLimitError
from valuesparse.inference import _memory
from valuesparse.inference._memory import show_bytes
from valuesparse.models import FactorGraph

__all__ = [
    "ADVICE",
    "STATE_BYTES",
    "Hopeless",
    "bytes_of",
    "check_memory",
    "check_states",
    "impossible",
    "outputs",
    "too_large",
]

#: Of a state: its marginal, what its variable hears, and whether it is possible at all.
STATE_BYTES = 32

#: Variables of a clique that a message names.
_SHOWN = 12

ADVICE = "give evidence, raise memory_limit, or approximate with infer(method='bp')"


class Hopeless(MemoryLimitError):
    """The search for a tree was given up, its tables being beyond any memory."""


def impossible(graph: FactorGraph, evidence: bool, variable: int = -1) -> InfeasibleError:
    """Return the error that says no configuration is left, and for which variable no state."""
    what = "agrees with the evidence" if evidence else "has positive weight"
    blame = f": variable {graph.names[variable]!r} has no state left" if variable >= 0 else ""
    return InfeasibleError(0, variable, message=f"no configuration of the graph {what}{blame}")


def check_memory(
    tree: _graph.Tree, graph: FactorGraph, limit: int, more: float = 0.0, advice: str = ADVICE
) -> None:
    """Raise MemoryLimitError when `tree`, and `more` bytes, need more than `limit` bytes."""
    refusal = too_large(tree, graph, limit, more)
    if refusal is not None:
        raise MemoryLimitError(f"{refusal}: {advice}")


def too_large(tree: _graph.Tree, graph: FactorGraph, limit: int, more: float = 0.0) -> str | None:
    """Return why `tree` does not fit in `limit` bytes, or None when it does."""
    _, _, bytes_, _, clique, entries, _ = tree.cost()
    bytes_ += outputs(graph) + more
    if bytes_ <= limit:
        return None
    names = [str(graph.names[v]) for v in clique]
    shown = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown += f" and {len(names) - _SHOWN} more"
    # Said, since `width` is that of the triangulation.
    blame = f"; its largest clique, after merging, has {entries:.3g} entries, over {shown}"
    blame = blame if names else ""
    return (
        f"the junction tree needs {bytes_of(bytes_)}, above memory_limit={bytes_of(limit)}{blame}"
    )


def check_states(graph: FactorGraph, limit: int, each: int = STATE_BYTES) -> None:
    """Raise MemoryLimitError when so many bytes for `each` state are more than there are.

    A `limit` below the default is for tables: what exceeds it is refused with them.
    """
    limit = max(limit, _memory.default_memory_limit())
    size = each * int(graph.cards.sum())
    if size > limit:
        v = int(graph.cards.argmax())
        raise MemoryLimitError(
            f"the marginals alone need {bytes_of(size)}, above memory_limit={bytes_of(limit)}: "
            f"there are {int(graph.cards.sum()):,} states, {graph.cardinalities[v]:,} of them of "
            f"variable {graph.names[v]!r}; give variables fewer states or raise memory_limit"
        )


def outputs(graph: FactorGraph) -> int:
    """Return the bytes of the marginals, and of what variables hear while they are made."""
    return STATE_BYTES * int(graph.cards.sum())


def bytes_of(size: float) -> str:
    """Return a number of bytes for a message, and what that is in larger units."""
    return f"{size:.3g} bytes" + (f" ({show_bytes(size)})" if 1024 <= size < 2**50 else "")
