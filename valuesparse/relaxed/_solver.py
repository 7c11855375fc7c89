"""The solver in the inner loop: a method of ours, or anybody's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.inference import _graphs, _loopy
from valuesparse.inference.junction_tree import impossible
from valuesparse.inference.marginals import infer
from valuesparse.models import FactorGraph
from valuesparse.models.factor_graph import Evidence
from valuesparse.results import GraphResult

Solve = Callable[[FactorGraph, GraphResult | None], GraphResult]

#: Engines that begin from the messages of an earlier result.
_STARTING = ("auto", *(m for m, names in _loopy.OPTIONS.items() if "start" in names))


def solver_of(solver: Any) -> str | Solve:
    """Return a solver; ValueError when it is neither a method of ours nor callable."""
    if callable(solver):
        return solver
    if not isinstance(solver, str) or solver not in _graphs.METHODS:
        raise ValueError(
            f"solver must be one of {', '.join(_graphs.METHODS)}, or a callable, got {solver!r}"
        )
    return solver


class Solver:
    """Marginals of parts of one graph."""

    def __init__(
        self,
        graph: FactorGraph,
        solve: str | Solve,
        evidence: Evidence | None,
        threads: int | None,
        memory_limit: int | None,
    ) -> None:
        if not isinstance(graph, FactorGraph):
            raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
        self.graph, self.solve = graph, solve
        self.threads, self.memory_limit = threads, memory_limit
        self.evidence = evidence
        self.known = graph.evidence if evidence is None else graph.resolve_evidence(evidence)

    def __call__(self, kept: npt.NDArray[np.int64], previous: GraphResult | None) -> GraphResult:
        """Return the result with these factors of the graph."""
        result: Any
        part = self.graph._part(kept)
        part.evidence = dict(self.known)
        if isinstance(self.solve, str) and not part._wide_scopes():
            result = independent(part)
        elif isinstance(self.solve, str):
            result = infer(
                part,
                method=self.solve,
                threads=self.threads,
                memory_limit=self.memory_limit,
                start=carried(previous, part, kept) if self.solve in _STARTING else None,
            )
        else:
            result = self.solve(part, previous)
        if not isinstance(result, GraphResult):
            raise TypeError(
                f"solver must return what valuesparse.infer does, got {type(result).__name__}"
            )
        return result._of(self.graph, kept)


def independent(graph: FactorGraph) -> GraphResult:
    """Return the result of a graph in which no factor has two variables: what any engine finds."""
    local, log_z = graph._local()
    cards = graph._cards
    ends = np.cumsum(cards)
    for v, known in graph.evidence.items():
        row = local[ends[v] - cards[v] : ends[v]]
        if isinstance(known, int):
            row[np.arange(row.size) != known] = -np.inf
        else:
            row += known
    parts: list[npt.NDArray[np.float64]] = []
    if cards.size:
        first = ends - cards
        top = np.maximum.reduceat(local, first)
        if top.min() == -np.inf:
            raise impossible(graph, bool(graph.evidence))
        p = np.exp(local - np.repeat(top, cards))
        mass = np.add.reduceat(p, first)
        p /= np.repeat(mass, cards)
        log_z += float((top + np.log(mass)).sum())
        same = bool((cards == cards[0]).all())
        parts = list(p.reshape(-1, cards[0])) if same else np.split(p, ends[:-1])
    if log_z == -np.inf:
        raise impossible(graph, bool(graph.evidence))
    reason = "no factor has two variables, so each variable is on its own: exact"
    return GraphResult(graph, dict(graph.evidence), parts, log_z, "exact", reason, {})


def carried(
    previous: GraphResult | None, part: FactorGraph, kept: npt.NDArray[np.int64]
) -> GraphResult | None:
    """Return a result to start from: messages of the factors that the part before had, too."""
    if previous is None or previous._state is None:
        return None
    state, layout = previous._state, _loopy.layout_of(part)
    old = state.layout or _loopy.layout_of(previous._part())
    # Where the messages of a factor begin, and end, in either layout.
    ours, theirs = kept[layout.factors], previous.factors[old.factors]
    _, i, j = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    ends = [
        x.engine.edge_at[np.concatenate([[0], np.cumsum([len(s) for s in x.scopes])])]
        for x in (layout, old)
    ]
    messages = np.zeros(layout.engine.entries)
    size = ends[0][i + 1] - ends[0][i]
    step = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    messages[np.repeat(ends[0][i], size) + step] = state.messages[
        np.repeat(ends[1][j], size) + step
    ]
    local = layout.with_evidence(part.evidence)
    return previous._with(
        _state=_loopy.State(layout, local, messages, None, state.best), _model=part, _bounds=None
    )


def default_seed(graph: FactorGraph) -> npt.NDArray[np.int64]:
    """Return the factors of at most one variable."""
    in_block = np.zeros(graph.n_factors, dtype=np.bool_)
    local = np.zeros(graph.n_factors, dtype=np.bool_)
    for start, block in graph._blocks:
        in_block[start : start + len(block)] = True
        local[start : start + len(block)] = block.scopes.shape[1] <= 1
    for i in np.flatnonzero(~in_block).tolist():
        local[i] = len(graph._factor(i).scope) <= 1
    return np.flatnonzero(local)
