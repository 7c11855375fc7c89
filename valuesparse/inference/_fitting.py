"""How a tree is made to fit in memory: a longer search, or slices that it is conditioned on."""

from __future__ import annotations

from valuesparse import _junction
from valuesparse.inference._conditioning import LONG, WHOLE, Case, Slices, divide, hopeless
from valuesparse.inference._refusals import outputs, too_large
from valuesparse.inference._search import Search
from valuesparse.models import FactorGraph

__all__ = ["longer", "slices_of"]


def slices_of(
    case: Case, graph: FactorGraph, limit: int, patience: float, more: float = 0.0
) -> Slices | str:
    """Return how a tree, and `more` bytes, fit in `limit`, or why not at all.

    `patience`: seconds, as predicted for one thread, that conditioning may take.
    """
    refusal = too_large(case.tree, graph, limit, more)
    if refusal is None:
        return WHOLE
    room = limit - outputs(graph) - more
    found = divide(case, graph.names, room, patience)
    if isinstance(found, str):
        return f"{refusal}; {found}" if found else refusal
    return found


def longer(
    tree: _junction.CliqueTree, graph: FactorGraph, search: Search, limit: int, patience: float
) -> Search | None:
    """Return a longer search for a tree that does not fit, where parts of it may."""
    if search.effort == 0.0 or search.fits >= LONG or too_large(tree, graph, limit) is None:
        return None
    if hopeless(tree, limit - outputs(graph), patience) is not None:
        return None
    return search._replace(fits=LONG)
