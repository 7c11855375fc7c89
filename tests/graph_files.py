"""Graphs to write and read: random ones, and those that the project keeps beside the repository."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import hypothesis.strategies as st
import numpy as np

import valuesparse as vs
from valuesparse.factors import Table

#: Instances with references, where the project keeps its data.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "uai"

PROBABILITIES = st.one_of(
    st.just(0.0),
    st.floats(0.0, 1.0, exclude_min=True),
    st.floats(1e-300, 1e300),
    st.integers(0, 20).map(lambda i: i / 10),
)
#: Products of a few are neither very large nor very small.
MODERATE = st.one_of(st.just(0.0), st.floats(0.125, 4.0))
LOGS = st.one_of(st.just(-np.inf), st.floats(-700, 700), st.integers(-3, 3).map(float))

#: A small network, as text.
UAI_MODEL = b"""MARKOV
3
2 2 3
2
2 0 1
3 1 0 2

4
 0.436 0.564
 0.128 0.872

12
 0.210 0.333 0.457 0.811 0.000 0.189
 0.2 0.3 0.5 1e-3 2E+2 .5
"""


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    logs: bool = False,
    evidence: bool = True,
    numbers: st.SearchStrategy[float] = PROBABILITIES,
) -> vs.FactorGraph:
    """Draw a graph of up to 5 variables: logs of numbers, or any log-potentials."""
    cards = draw(st.lists(st.integers(1, 4), min_size=0, max_size=5))
    graph = vs.FactorGraph(cards)
    for _ in range(draw(st.integers(0, 5))):
        scope = draw(st.lists(st.sampled_from(range(len(cards))), unique=True, max_size=3)
                     if cards else st.just([]))  # fmt: skip
        shape = [cards[v] for v in scope]
        size = int(np.prod(shape))
        kind = LOGS if logs else numbers
        values = np.array(draw(st.lists(kind, min_size=size, max_size=size)), dtype=np.float64)
        with np.errstate(divide="ignore"):
            graph.add(scope, (values if logs else np.log(values)).reshape(shape))
    if evidence and cards:
        known = draw(st.lists(st.sampled_from(range(len(cards))), unique=True))
        graph.set_evidence({v: draw(st.integers(0, cards[v] - 1)) for v in known})
    return graph


def weights(graph: vs.FactorGraph) -> np.ndarray:
    """Return the weight of every configuration by enumeration, evidence included."""
    states = list(product(*map(range, graph.cardinalities)))
    scores = np.zeros(len(states))
    for factor in graph.factors:
        assert isinstance(factor, Table)
        scores += [factor.log_table[tuple(s[v] for v in factor.scope)] for s in states]
    for v, known in graph.evidence.items():
        scores += [
            (0.0 if s[v] == known else -np.inf) if isinstance(known, int) else known[s[v]]
            for s in states
        ]
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(scores).reshape(graph.cardinalities)


def assert_same_tables(a: vs.FactorGraph, b: vs.FactorGraph) -> None:
    """Check that two graphs have the same variables and bit for bit the same tables."""
    assert a.cardinalities == b.cardinalities
    assert a.n_factors == b.n_factors
    for f, g in zip(a.factors, b.factors, strict=True):
        assert isinstance(f, Table)
        assert isinstance(g, Table)
        assert f.scope == g.scope
        assert f.log_table.shape == g.log_table.shape
        assert f.log_table.tobytes() == g.log_table.tobytes()
