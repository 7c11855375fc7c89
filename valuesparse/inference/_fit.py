"""Conditional tables from data: counts, and expected counts where values are missing (EM)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count, as_threshold
from valuesparse.errors import InfeasibleError, MemoryLimitError
from valuesparse.inference._frames import codes_of
from valuesparse.inference._refusals import as_graph
from valuesparse.inference._watch import Watch
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.models import FactorGraph
from valuesparse.models._network import Fit
from valuesparse.threads import resolve

__all__ = ["fit"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

#: Probabilities that EM drives below this are 0: products of several have to be numbers.
_LEAST = 1e-100
#: How far tables with equal entries are shaken before EM, which would stay at them.
_SHAKEN = 0.2
#: The least probability that it starts from.
_START = 1e-6
#: The largest prior: times logarithms of many probabilities it is still a number.
_PRIOR = 1e200


class _Family(NamedTuple):
    """A conditional table: its factor, variables (the child last), and shape."""

    factor: int
    scope: tuple[int, ...]
    shape: tuple[int, ...]

    def places(self, codes: Codes) -> npt.NDArray[np.int64]:
        """Return the entry of each row, −1 where one of the variables is unknown."""
        at = np.zeros(codes.shape[0], dtype=np.int64)
        unknown = np.zeros(codes.shape[0], dtype=np.bool_)
        for v, k in zip(self.scope, self.shape, strict=True):
            at = at * k + codes[:, v]
            unknown |= codes[:, v] < 0
        at[unknown] = -1
        return at

    def counts(self, codes: Codes) -> Floats:
        """Return how often each entry is seen."""
        at = self.places(codes)
        found = np.bincount(at[at >= 0], minlength=math.prod(self.shape))
        return found.astype(np.float64).reshape(self.shape)


def fit(
    graph: Any,
    frame: Any,
    *,
    prior: float,
    max_iterations: int,
    tol: float,
    seed: int,
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[list[tuple[int, Floats]], Fit]:
    """Return the log-table of every factor, learnt, and how it went: see `FactorGraph.fit`."""
    network = as_graph(graph)
    prior, tol = as_threshold("prior", prior), as_threshold("tol", tol)
    if not math.isfinite(prior):
        raise ValueError(f"prior must be a finite number, got {prior!r}")
    if prior > _PRIOR:
        raise ValueError(
            f"prior must be at most {_PRIOR:g}, got {prior!r}: sums of larger ones overflow"
        )
    rounds = as_count("max_iterations", max_iterations, at_least=1)
    seed, workers = as_count("seed", seed, at_least=0), resolve(threads)
    watch = Watch(None, progress)
    families = _families(network)
    codes = codes_of(network, frame)
    rows = codes.shape[0]
    if rows == 0:
        raise ValueError("frame has no rows")
    old = [np.exp(network.table_of(network.factor(f.factor), f.factor)) for f in families]
    seen = [f.counts(codes) for f in families]
    if (codes >= 0).all():
        tables = [_table(n, prior, before) for n, before in zip(seen, old, strict=True)]
        total = _objective(seen, tables)
        return _logs(families, tables), Fit(rows, 0, [total], True)
    generator = np.random.default_rng(seed)
    # Nothing may be impossible before the data are seen: EM never makes a 0 possible again.
    start = [
        _table(n, max(prior, 1.0), before) if n.any() else _shaken(before, generator)
        for n, before in zip(seen, old, strict=True)
    ]
    return _em(network, families, codes, start, old, prior, rounds, tol, workers, watch)


def _families(graph: FactorGraph) -> list[_Family]:
    """Return the conditional tables of a Bayesian network; ValueError where it is none."""
    graph.conditional_tables("fit")
    if graph.evidence:
        name = graph.names[next(iter(graph.evidence))]
        raise ValueError(
            f"the graph has evidence of its own, on {name!r}: put it into the frame, and fit "
            "graph.with_evidence({})"
        )
    return [
        _Family(f, graph.factor(f).scope, tuple(graph.cards[list(graph.factor(f).scope)].tolist()))
        for f in range(graph.n_factors)
    ]


def _table(counts: Floats, prior: float, before: Floats) -> Floats:
    """Return a table from counts; rows without any stay as they were."""
    sums = (counts + prior).sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.where(sums > 0.0, (counts + prior) / sums, before)


def _shaken(table: Floats, generator: np.random.Generator) -> Floats:
    """Return a table that EM can start from: positive, and not with equal rows of equal entries."""
    if table.max() - table.min() < 1e-12:
        table = table * (1.0 + _SHAKEN * generator.random(table.shape))
    table = np.maximum(table, _START)
    return table / table.sum(axis=-1, keepdims=True)


def _objective(counts: list[Floats], tables: list[Floats]) -> float:
    """Return the sum of counts times log-probabilities."""
    total = 0.0
    for n, p in zip(counts, tables, strict=True):
        total += float((n[n > 0.0] * np.log(p[n > 0.0])).sum())
    return total


def _logs(families: list[_Family], tables: list[Floats]) -> list[tuple[int, Floats]]:
    with np.errstate(divide="ignore"):
        return [(f.factor, np.log(p)) for f, p in zip(families, tables, strict=True)]


def _em(
    graph: FactorGraph,
    families: list[_Family],
    codes: Codes,
    tables: list[Floats],
    old: list[Floats],
    prior: float,
    rounds: int,
    tol: float,
    workers: int,
    watch: Watch,
) -> tuple[list[tuple[int, Floats]], Fit]:
    """Learn with missing values: expected counts, tables from these, until nothing changes."""
    rows = codes.shape[0]
    steps = _Expectation(graph, families, tables, workers)
    found: list[float] = []
    best = -math.inf
    # A prior counts as data: it has seen every row.
    seen = [np.full((*p.shape[:-1], 1), prior > 0.0) for p in tables]
    converged = False
    for done in range(rounds + 1):
        likelihood, counts = steps.run(codes, tables, watch)
        found.append(likelihood)
        seen = [s | n.any(axis=-1, keepdims=True) for s, n in zip(seen, counts, strict=True)]
        best, before = likelihood + _penalty(tables, prior), best
        converged = done > 0 and best - before <= tol * rows
        if converged or done == rounds:
            break
        tables = [_table(n, prior, p) for n, p in zip(counts, tables, strict=True)]
        for p in tables:
            p[p < _LEAST] = 0.0
        if watch.progress is not None:
            watch.progress(done + 1, rounds)
    if converged:
        watch.finish(rounds)
    # Rows that no data reach started from numbers that are nobody's.
    tables = [np.where(s, p, q) for s, p, q in zip(seen, tables, old, strict=True)]
    return _logs(families, tables), Fit(rows, done, found, converged)


def _penalty(tables: list[Floats], prior: float) -> float:
    """Return the prior times the sum of log-probabilities; those that are 0 were below `_LEAST`."""
    if not prior:
        return 0.0
    return prior * sum(float(np.log(np.maximum(p, _LEAST)).sum()) for p in tables)


class _Expectation:
    """The junction tree of a network, whose tables change from round to round."""

    def __init__(
        self, graph: FactorGraph, families: list[_Family], tables: list[Floats], workers: int
    ) -> None:
        started = graph.copy()
        for f, logs in _logs(families, tables):
            started.replace_table(f, logs)
        tree = JunctionTree(started)
        native = tree.tables_for_many(workers)
        if native is None:
            raise MemoryLimitError(
                f"the junction tree of width {tree.width} does not fit in memory for expected "
                "counts: leave out rows with missing values"
            )
        self.native, self.graph, self.families, self.workers = native, graph, families, workers
        sizes = [math.prod(f.shape) for f in families]
        self.ends = np.cumsum(sizes)
        self.places = np.empty(len(families), dtype=np.int64)
        self.places[[f.factor for f in families]] = self.ends - sizes

    def run(self, codes: Codes, tables: list[Floats], watch: Watch) -> tuple[float, list[Floats]]:
        """Return the log-likelihood of all rows, and the expected counts of each table."""
        logs: list[Any] = [None] * len(self.families)
        for f, table in _logs(self.families, tables):
            logs[f] = np.ascontiguousarray(table)
        if not self.native.load(logs):
            raise ValueError(
                "probabilities of one clique are further apart than numbers reach: fit with a "
                "prior > 0"
            )
        rows = codes.shape[0]
        log_z, answers = np.empty(rows), np.empty(rows, dtype=np.uint8)
        counts = np.zeros(int(self.ends[-1]))
        self.native.run(
            codes, log_z, answers, None, self.places, counts, self.workers, watch.left(), None,
            watch.late,
        )  # fmt: skip
        if (answers == 1).any():
            row = int((answers == 1).argmax())
            raise InfeasibleError(
                0, -1, message=f"row {row} of frame is impossible: fit with a prior > 0"
            )
        if answers.any():
            row = int(answers.argmax())
            raise ValueError(
                f"row {row} of frame is less probable than numbers reach: fit with a prior > 0"
            )
        split = np.split(counts, self.ends[:-1])
        return float(log_z.sum()), [
            n.reshape(f.shape) for n, f in zip(split, self.families, strict=True)
        ]
