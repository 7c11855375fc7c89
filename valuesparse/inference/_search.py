"""How long to search for an elimination order."""

from __future__ import annotations

import functools
from typing import NamedTuple

__all__ = ["Search", "within"]

_ENTRY = 8  # bytes

# When the first orders are this many times too large, more of them hardly ever help.
_FAR = 1e6


class Search(NamedTuple):
    """The search for an elimination order; see :class:`valuesparse.JunctionTree`."""

    effort: float = 1.0
    seed: int = 0
    fits: float = float("inf")  # entries: beyond them a longer search is no use
    most: float = float("inf")  # entries: the search ends when the first orders all have more


@functools.lru_cache(maxsize=16)
def within(
    memory_limit: int, *, effort: float = 1.0, seed: int = 0, give_up: bool = False
) -> Search:
    """Return a search for tables of `memory_limit` bytes; `give_up`: end when far off."""
    fits = memory_limit / _ENTRY
    return Search(effort, seed, fits, _FAR * max(1.0, fits) if give_up else float("inf"))
