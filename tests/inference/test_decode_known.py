"""decode by "lp" and "ad3" where variables that are not binary are known, or have one state."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import AtMostOne, Or, Xor

METHODS = ["lp", "ad3"]


def draw(seed: int) -> tuple[vs.FactorGraph, dict[int, Any]]:
    """A graph of variables of one to three states, and evidence on all of three."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    cards = [int(k) for k in rng.choice([1, 2, 2, 2, 3], size=n)]
    graph = vs.FactorGraph(cards, names=[f"x{v}" for v in range(n)] if seed % 3 == 0 else None)
    for _ in range(int(rng.integers(0, 8))):
        scope = rng.choice(n, int(rng.integers(0, min(n, 4) + 1)), replace=False).tolist()
        table = rng.normal(size=[cards[v] for v in scope])
        numbers = [graph.names[v] for v in scope]
        if seed % 5 == 0 and scope:
            graph.add_feature(numbers, table < 0.0, float(rng.normal()))
        else:
            graph.add(numbers, np.where(rng.random(table.shape) < 0.15, -np.inf, table))
    binary = [v for v in range(n) if cards[v] == 2]
    for kind in (Xor, AtMostOne, Or)[seed % 4 :] if len(binary) > 1 else ():
        size = int(rng.integers(2, len(binary) + 1))
        graph.add(kind(*rng.choice(binary, size, replace=False).tolist()))
    evidence: dict[int, Any] = {}
    for v, k in enumerate(cards):
        if k == 3 or rng.random() < 0.2:
            evidence[v] = int(rng.integers(k))
        elif rng.random() < 0.2:
            evidence[v] = rng.normal(size=k)
    return graph, {graph.names[v]: x for v, x in evidence.items()}


def scored(graph: vs.FactorGraph, states: Any) -> float:
    y = np.array([states])
    total = sum(float(f.log_potential(y[:, list(f.scope)])[0]) for f in graph.factors)
    for v, x in graph.evidence.items():
        total += (0.0 if states[v] == x else -np.inf) if isinstance(x, int) else x[states[v]]
    return total


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(120))
def test_against_enumeration(seed: int, method: str) -> None:
    graph, evidence = draw(seed)
    known = graph.copy()
    known.set_evidence(evidence)
    every = itertools.product(*map(range, graph.cardinalities))
    best = max(scored(known, y) for y in every)
    if best == -np.inf:
        words = "agrees with the evidence" if evidence else "has positive weight"
        with pytest.raises(vs.InfeasibleError, match=words):
            vs.decode(graph, method=method, evidence=evidence)
        return
    d = vs.decode(graph, method=method, evidence=evidence)
    assert d.score == pytest.approx(scored(known, d.states), abs=1e-9)
    assert d.score <= best + 1e-9
    assert d.upper is not None
    assert d.upper >= best - 1e-9
    assert d.relaxed is not None
    if d.integral:
        assert d.score == pytest.approx(best, abs=1e-5)
        assert d.upper == pytest.approx(best, abs=1e-4)
    for v, k in enumerate(graph.cardinalities):
        assert d.relaxed[v].shape == (k,)
        assert d.relaxed[v].sum() == pytest.approx(1.0)
        if k != 2:
            assert d.relaxed[v].tolist() == np.eye(k)[d.states[v]].tolist()


@pytest.mark.parametrize("method", METHODS)
def test_names_likelihoods_and_what_is_still_refused(method: str) -> None:
    graph = vs.FactorGraph({"a": ["u", "v"], "b": ["x", "y", "z"], "c": ["only"]})
    graph.add(["b", "a"], [[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    graph.add(["c", "b"], [[1.0, 2.0, 4.0]])
    d = vs.decode(graph, method=method, evidence={"b": "y"}, likelihood={"c": [0.5], "a": [1, 4]})
    assert dict(d) == {"a": "u", "b": "y", "c": "only"}
    assert d.score == pytest.approx(2.0 + 2.0 - np.log(2))
    assert d.graph is graph
    for evidence in ({}, {"b": [0.0, -np.inf, -np.inf]}):
        words = f"method='{method}' takes binary variables only: variable 'b' has 3 states"
        with pytest.raises(ValueError, match=words):
            vs.decode(graph, method=method, evidence=evidence)
