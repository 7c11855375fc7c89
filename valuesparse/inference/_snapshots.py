"""Native snapshots of factor graphs, kept as long as a graph with these factors is."""

from __future__ import annotations

import sys
import weakref

from valuesparse import _junction
from valuesparse.errors import MemoryLimitError
from valuesparse.factors._base import FEWER
from valuesparse.inference import _memory
from valuesparse.inference._refusals import first_names
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import Stamp, all_tables, tables_to_make

__all__ = ["magnitude_made", "require_memory", "snapshot_of"]

#: Snapshots, and the magnitude of the tables that were made for each.
_KEPT: weakref.WeakKeyDictionary[Stamp, tuple[_junction.Snapshot, float]]
_KEPT = weakref.WeakKeyDictionary()


def snapshot_of(graph: FactorGraph) -> _junction.Snapshot:
    """Return the native snapshot of a graph's variables and factors."""
    kept = _KEPT.get(graph.stamp)
    # Tables that factors made themselves may be too large beside the evidence of this graph.
    if kept is None or (kept[1] and not graph.fits(kept[1])):
        require_memory(graph)
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


def require_memory(graph: FactorGraph, advice: str = FEWER) -> None:
    """Refuse to make the tables of factors that have none, if they do not fit in memory."""
    asked, limit = tables_to_make(graph), _memory.default_memory_limit()
    if asked.size > limit:
        size = min(asked.size, sys.float_info.max)
        raise MemoryLimitError(
            f"the tables to be made of {asked.number} factors need {size:.3g} bytes, above "
            f"half of what the machine has ({limit:.3g}); the largest is that of a {asked.kind} "
            f"over {len(asked.scope)} variables ({first_names(graph, asked.scope)}); {advice}"
        )
