"""How long to look for an elimination order."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Search", "within"]

_ENTRY = 8  # bytes

# Orders this many times too large: when the first tries are, more of them hardly ever help.
_TOO_LARGE = 1e6


class Search(NamedTuple):
    """What the engine is told; see :class:`valuesparse.JunctionTree`."""

    effort: float = 1.0
    seed: int = 0
    fits: float = float("inf")  # entries: beyond them a longer search is no use
    hopeless: float = float("inf")  # entries: first orders beyond them end the search


def within(memory_limit: int, *, effort: float = 1.0, seed: int = 0, quit: bool = False) -> Search:
    """Return a search for tables of `memory_limit` bytes; `quit`: give up where it is hopeless."""
    fits = memory_limit / _ENTRY
    return Search(effort, seed, fits, _TOO_LARGE * max(1.0, fits) if quit else float("inf"))
