"""Compiled junction trees, kept beside the snapshot of a graph that was asked.

A call takes a tree away while it asks, and gives it back once it has its answer: another call at
the same time, or one whose tree was lost to an error, compiles its own. Trees go with their graph,
and another factor makes it another graph.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.inference._search import Search
from valuesparse.models._blocks import Stamp
from valuesparse.models._evidence import Known

__all__ = ["KeptTree", "Key", "give_back", "key_of", "take"]

#: Trees of one graph, each for other evidence; the last ones that were asked.
_MOST = 4
#: Bytes of tables that are kept between questions: those of larger trees are made again.
_MOST_BYTES = 64 << 20

#: Evidence, limit and search that a tree was compiled with.
Key = tuple[Any, ...]


class KeptTree(NamedTuple):
    """A tree that fits, what was compiled, and what it costs."""

    tree: _junction.CliqueTree
    snapshot: _junction.Snapshot
    held: npt.NDArray[np.int64]
    search: Search
    cost: tuple[Any, ...]


#: The trees of all graphs with the same factors.
_KEPT: weakref.WeakKeyDictionary[Stamp, dict[Key, KeptTree]] = weakref.WeakKeyDictionary()


def key_of(known: Known, limit: int, barren: bool) -> Key:
    """Return what tells the trees of a graph apart; not the numbers of soft evidence."""
    return known.held.tobytes(), tuple(sorted(v for v, _ in known.soft)), limit, barren


def take(stamp: Stamp, key: Key) -> KeptTree | None:
    """Return a tree that nobody else asks until it is given back, or None."""
    trees = _KEPT.get(stamp)
    return None if trees is None else trees.pop(key, None)


def give_back(stamp: Stamp, key: Key, kept: KeptTree) -> None:
    """Keep a tree for later questions."""
    if kept.tree.bytes() > _MOST_BYTES:
        kept.tree.release()
    trees = _KEPT.setdefault(stamp, {})
    trees[key] = kept
    for old in list(trees)[:-_MOST]:
        trees.pop(old, None)
