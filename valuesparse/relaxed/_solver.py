"""The solver in the inner loop: a method of ours, or anybody's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_indices
from valuesparse.inference import _graphs
from valuesparse.inference._memory import as_limit
from valuesparse.inference._methods import Loopy, name_of, record_of
from valuesparse.inference._pendant import TreesApart
from valuesparse.inference._refusals import check_states, impossible
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import (
    is_wide,
    local_tables,
    same_factors,
    structured_factors,
)
from valuesparse.models._evidence import Evidence, Known, known_of
from valuesparse.results import GraphResult
from valuesparse.threads import resolve

Solve = Callable[[FactorGraph, GraphResult | None], GraphResult]


def solver_of(solver: Any) -> str | Loopy | Solve:
    """Return a solver; ValueError when it is neither a method of ours nor callable."""
    if callable(solver):
        return solver
    # Islands need a zeta, which only a callable can give.
    names = [name for name in _graphs.METHODS if name != "islands"]
    if not isinstance(solver, (str, Loopy)) or name_of(solver) not in names:
        raise ValueError(f"solver must be one of {', '.join(names)}, or a callable, got {solver!r}")
    return solver


class PartSolver:
    """Marginals of parts of one graph."""

    def __init__(
        self,
        graph: FactorGraph,
        solve: str | Loopy | Solve,
        evidence: Evidence | Known | None,
        threads: int | None,
        memory_limit: int | None,
    ) -> None:
        if not isinstance(graph, FactorGraph):
            raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
        self.graph, self.solve = graph, solve
        self.threads, self.memory_limit = threads, memory_limit
        self.evidence = evidence
        check_states(graph, as_limit(memory_limit))
        self.known = known_of(graph, evidence).given

    def __call__(self, kept: npt.NDArray[np.int64], previous: GraphResult | None) -> GraphResult:
        """Return the result with these factors of the graph."""
        result: Any
        part = self.graph.part(kept)
        part.know(self.known)
        if not isinstance(self.solve, (str, Loopy)):
            result = self.solve(part, previous)
            _check(result, part)
        elif not is_wide(part):
            result = independent(part)
        else:
            method, start = self.solve, self._start(previous)
            loopy = record_of(method)
            if loopy is not None and start is not None:
                method = replace(loopy, start=start)
            result = _graphs.infer(
                part, 1.0, -1, resolve(self.threads), method, None, None,
                memory_limit=self.memory_limit, start=start,
            )  # fmt: skip
        return result.of_whole(self.graph, kept)

    def _start(self, previous: GraphResult | None) -> GraphResult | None:
        """Return the round before where loopy inference can begin from what it has."""
        if previous is None:
            return None
        nothing = previous.state is None or isinstance(previous.state, TreesApart)
        if nothing and previous.method != "mean_field":
            return None
        # As it was solved: messages belong to factors of that part.
        return previous.replaced(_model=previous.part())


def _check(result: Any, part: FactorGraph) -> None:
    """Raise unless a solver's result is one of the graph that it was given, all of it."""
    if not isinstance(result, GraphResult):
        raise TypeError(
            f"solver must return what valuesparse.infer does, got {type(result).__name__}"
        )
    other, what = result.graph, ""
    if other is not part and not same_factors(part, other):
        what = "another graph"
    elif len(result.factors) != part.n_factors:
        what = f"{len(result.factors)} of its {part.n_factors} factors"
    elif result.evidence.keys() != part.evidence.keys() or not all(
        np.array_equal(x, part.evidence[v]) for v, x in result.evidence.items()
    ):
        what = "other evidence"
    if what:
        raise ValueError(
            f"solver must return the result of the graph that it was given, got one of {what}"
        )


def _local(graph: FactorGraph) -> tuple[npt.NDArray[np.float64], float]:
    """Return the scores of all states, flat, where no factor has two variables, and a constant."""
    local, constant = local_tables(graph)
    cards = graph.cards
    ends = np.cumsum(cards)
    for v, known in graph.evidence.items():
        row = local[ends[v] - cards[v] : ends[v]]
        if isinstance(known, int):
            row[np.arange(row.size) != known] = -np.inf
        else:
            row += known
    return local, constant


def log_beliefs(graph: FactorGraph) -> npt.NDArray[np.float64]:
    """Return the log-marginals, flat, of a graph in which no factor has two variables."""
    local, _ = _local(graph)
    cards = graph.cards
    if not cards.size:
        return local
    mass = np.logaddexp.reduceat(local, np.cumsum(cards) - cards)
    return np.asarray(local - np.repeat(mass, cards))


def independent(graph: FactorGraph) -> GraphResult:
    """Return the result of a graph in which no factor has two variables: what any engine finds."""
    local, log_z = _local(graph)
    cards = graph.cards
    p: npt.NDArray[np.float64] = np.empty(0)
    if cards.size:
        first = np.cumsum(cards) - cards
        # Where all are alike a row for each state: whole columns at a time.
        same = bool((cards == cards[0]).all())
        x = np.ascontiguousarray(local.reshape(-1, cards[0]).T) if same else local
        top = x.max(axis=0) if same else np.maximum.reduceat(x, first)
        if top.min() == -np.inf:
            raise impossible(graph, bool(graph.evidence))
        p = np.exp(x - (top if same else np.repeat(top, cards)))
        mass = p.sum(axis=0) if same else np.add.reduceat(p, first)
        p /= mass if same else np.repeat(mass, cards)
        p = p.T.ravel()
        log_z += float((top + np.log(mass)).sum())
    if log_z == -np.inf:
        raise impossible(graph, bool(graph.evidence))
    reason = "no factor has two variables, so each variable is on its own: exact"
    return GraphResult(graph, dict(graph.evidence), None, log_z, "exact", reason, {}, flat=p)


def first_factors(graph: FactorGraph, first: Iterable[int] | None) -> npt.NDArray[np.int64]:
    """Return the factors to start with, checked: structured ones have no gain, and are all used."""
    if first is None:
        return local_factors(graph)
    kept = as_indices("first", first, graph.n_factors)
    for i, factor in structured_factors(graph).items():
        if i not in kept:
            raise ValueError(
                f"first leaves out factor {i}, {factor.described}: structured factors have no "
                "gain, and have to be used from the start"
            )
    return kept


def local_factors(graph: FactorGraph) -> npt.NDArray[np.int64]:
    """Return the factors of at most one variable, and structured ones."""
    local = np.zeros(graph.n_factors, dtype=np.bool_)
    for start, block in graph.blocks:
        local[start : start + len(block)] = block.scopes.shape[1] <= 1
    single = graph.alone()
    local[single] = [len(graph.factor(i).scope) <= 1 for i in single.tolist()]
    local[list(structured_factors(graph))] = True
    return np.flatnonzero(local)
