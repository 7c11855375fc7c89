"""How a tree is made to fit in memory: by a longer search, or by conditioning on variables."""

from __future__ import annotations

from valuesparse import _junction
from valuesparse.inference._conditioning import (
    LONG,
    WHOLE,
    Question,
    Slices,
    divide,
    refuse_division,
)
from valuesparse.inference._refusals import outputs, too_large
from valuesparse.inference._search import Search
from valuesparse.models import FactorGraph

__all__ = ["longer", "slices_of"]


def slices_of(
    question: Question, graph: FactorGraph, limit: int, budget: float, more: float = 0.0
) -> Slices | str:
    """Return how a tree, and `more` bytes, fit in `limit`, or why not at all.

    `budget`: seconds, as predicted for one thread, that conditioning may take.
    """
    refusal = too_large(question.tree, graph, limit, more)
    if refusal is None:
        return WHOLE
    found = divide(question, graph.names, limit - outputs(graph) - more, budget)
    if isinstance(found, str):
        return f"{refusal}; {found}" if found else refusal
    return found


def longer(
    tree: _junction.CliqueTree, graph: FactorGraph, search: Search, limit: int, budget: float
) -> Search | None:
    """Return a longer search for a tree that does not fit, where slices of it may; else None."""
    if search.effort == 0.0 or search.fits >= LONG or too_large(tree, graph, limit) is None:
        return None
    if refuse_division(tree, limit - outputs(graph), budget) is not None:
        return None
    return search._replace(fits=LONG)
