"""Native snapshots of factor graphs, kept as long as a graph with these factors is."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator

from valuesparse import _junction
from valuesparse.errors import MemoryLimitError
from valuesparse.factors._base import FEWER
from valuesparse.inference import _memory
from valuesparse.inference._refusals import bytes_of, first_names
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import Stamp, all_tables, tables_to_make

__all__ = ["beyond_memory", "magnitude_made", "making", "require_memory", "snapshot_of"]

#: Snapshots, and the magnitude of the tables that were made for each.
_KEPT: weakref.WeakKeyDictionary[Stamp, tuple[_junction.Snapshot, float]]
_KEPT = weakref.WeakKeyDictionary()


def snapshot_of(graph: FactorGraph, limit: int | None = None) -> _junction.Snapshot:
    """Return the native snapshot of a graph's variables and factors.

    Tables to be made may take `limit` bytes, whoever made them; without one, those that are made
    now the default.
    """
    if limit is not None and tables_to_make(graph).size > limit:
        require_memory(graph, limit=limit)
    kept = _KEPT.get(graph.stamp)
    # Tables that factors made themselves may be too large beside the evidence of this graph.
    if kept is None or (kept[1] and not graph.fits(kept[1])):
        if limit is None:
            require_memory(graph)
        with making(graph):
            laid = all_tables(graph)
        conditional = {} if graph.as_read else graph.conditional
        snapshot = _junction.Snapshot(
            graph.cards, laid.scopes, laid.tables, conditional, laid.stacks
        )
        kept = _KEPT[graph.stamp] = snapshot, laid.made
    return kept[0]


def magnitude_made(graph: FactorGraph) -> float:
    """Return the magnitude of tables that factors made themselves: 0 where none was asked for."""
    kept = _KEPT.get(graph.stamp)
    return 0.0 if kept is None else kept[1]


def require_memory(graph: FactorGraph, advice: str = FEWER, limit: int | None = None) -> None:
    """Refuse to make the tables of factors that have none, if they do not fit in `limit` bytes."""
    refusal = beyond_memory(graph, limit)
    if refusal is not None:
        more = "" if limit in (None, _memory.default_memory_limit()) else "raise memory_limit, or "
        raise MemoryLimitError(f"{refusal}; {more}{advice}")


def beyond_memory(graph: FactorGraph, limit: int | None = None) -> str | None:
    """Return why tables are not made of factors that have none, or None where they fit."""
    asked, default = tables_to_make(graph), _memory.default_memory_limit()
    limit = default if limit is None else limit
    if asked.size <= limit:
        return None
    size = min(asked.size, sys.float_info.max)
    above = f"memory_limit={bytes_of(limit)}"
    if limit == default:
        above = f"half of what the machine has ({limit:.3g})"
    return (
        f"the tables to be made of {asked.number} factors need {size:.3g} bytes, above {above}; "
        f"the largest is that of a {asked.kind} over {len(asked.scope)} variables "
        f"({first_names(graph, asked.scope)})"
    )


@contextlib.contextmanager
def making(graph: FactorGraph) -> Iterator[None]:
    """Make the tables of factors; an error of memory says what all of them take."""
    try:
        yield
    except MemoryError as error:
        asked = tables_to_make(graph)
        if asked.number < 2:
            raise
        raise MemoryLimitError(
            f"{error}; the tables to be made of {asked.number} factors need "
            f"{bytes_of(asked.size)} together"
        ) from None
