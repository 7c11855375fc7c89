"""Why exact inference is refused: no configuration is possible, or tables do not fit in memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from valuesparse import _junction
from valuesparse.errors import InfeasibleError, MemoryLimitError
from valuesparse.inference import _memory
from valuesparse.inference._memory import show_bytes
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import tables_to_make

__all__ = [
    "ADVICE",
    "JOINTS",
    "MASS",
    "SAMPLES",
    "STATE_BYTES",
    "SearchGivenUp",
    "as_graph",
    "bytes_of",
    "check_memory",
    "check_states",
    "first_names",
    "impossible",
    "made_bytes",
    "outputs",
    "too_large",
]

#: Bytes for each state: its marginal, the sum that this is read from, and the list of those left.
STATE_BYTES = 32

#: Variables of a clique that an error names.
_SHOWN = 12

ADVICE = "give evidence, raise memory_limit, or approximate with method='bp' (infer, decode)"
#: The same where no method of theirs answers: for log Z, joints and samples.
MASS = "give evidence, raise memory_limit, or take infer(method='bp').log_z or vs.bounds.log_z"
JOINTS = "give evidence or raise memory_limit"
SAMPLES = f"{JOINTS}; samples are exact, and no method approximates them"


def first_names(graph: FactorGraph, scope: Sequence[int]) -> str:
    """Return the names of the first variables of a factor, for an error."""
    names = [repr(graph.names[v]) for v in scope[:3]]
    return ", ".join([*names, "..."] if len(scope) > 3 else names)


class SearchGivenUp(MemoryLimitError):
    """The search for a tree was given up: its tables are far beyond the limit."""


def as_graph(graph: Any) -> FactorGraph:
    """Return a factor graph; TypeError for anything else."""
    if not isinstance(graph, FactorGraph):
        raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
    return graph


def impossible(graph: FactorGraph, evidence: bool, variable: int = -1) -> InfeasibleError:
    """Return the error that no configuration is left; `variable`: the one without states."""
    what = "agrees with the evidence" if evidence else "has positive weight"
    blame = f": variable {graph.names[variable]!r} has no state left" if variable >= 0 else ""
    return InfeasibleError(0, variable, message=f"no configuration of the graph {what}{blame}")


def check_memory(
    tree: _junction.CliqueTree | _junction.Segments,
    graph: FactorGraph,
    limit: int,
    more: float = 0.0,
    advice: str = ADVICE,
) -> None:
    """Raise MemoryLimitError when `tree`, and `more` bytes, need more than `limit` bytes."""
    refusal = too_large(tree, graph, limit, more)
    if refusal is not None:
        raise MemoryLimitError(f"{refusal}: {advice}")


def too_large(
    tree: _junction.CliqueTree | _junction.Segments,
    graph: FactorGraph,
    limit: int,
    more: float = 0.0,
) -> str | None:
    """Return why `tree` does not fit in `limit` bytes, or None when it does."""
    _, _, bytes_, _, clique, entries, _ = tree.cost()
    bytes_ += outputs(graph) + more
    if bytes_ <= limit:
        return None
    names = [str(graph.names[v]) for v in clique]
    shown = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown += f" and {len(names) - _SHOWN} more"
    # Cliques have been merged: this one may be larger than `width` says.
    blame = f"; its largest clique, after merging, has {entries:.3g} entries, over {shown}"
    blame = blame if names else ""
    made = tables_to_make(graph)
    if made.number:
        blame += f"; tables made of {made.number} factors take {bytes_of(made.size)} of it"
    return (
        f"the junction tree needs {bytes_of(bytes_)}, above memory_limit={bytes_of(limit)}{blame}"
    )


def check_states(graph: FactorGraph, limit: int, each: int = STATE_BYTES) -> None:
    """Raise MemoryLimitError when `each` bytes for every state exceed the limit or the default.

    A limit below the default holds for tables alone: `check_memory` refuses what exceeds it.
    """
    limit = max(limit, _memory.default_memory_limit())
    size = each * graph.n_states
    if size > limit:
        v = int(graph.cards.argmax())
        raise MemoryLimitError(
            f"the marginals alone need {bytes_of(size)}, above memory_limit={bytes_of(limit)}: "
            f"there are {graph.n_states:,} states, {graph.cardinalities[v]:,} of them of "
            f"variable {graph.names[v]!r}; give variables fewer states or raise memory_limit"
        )


def outputs(graph: FactorGraph) -> int:
    """Return the bytes of marginals, of what they are read from, and of tables to be made."""
    return STATE_BYTES * graph.n_states + made_bytes(graph)


def made_bytes(graph: FactorGraph) -> int:
    """Return the bytes of the tables that factors have to make."""
    made = tables_to_make(graph)
    return int(min(made.size, sys.float_info.max)) if made.number else 0


def bytes_of(size: float) -> str:
    """Return a number of bytes as an error states it: exactly, and in larger units."""
    return f"{size:.3g} bytes" + (f" ({show_bytes(size)})" if 1024 <= size < 2**50 else "")
