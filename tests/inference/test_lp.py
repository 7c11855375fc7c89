"""Decoding by a linear program, against enumeration."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from structured_oracle import ALLOWED, AnyOf, enumerated, make

import valuesparse as vs
from valuesparse.factors import Structured

KINDS = sorted(ALLOWED)


def random_graph(seed: int) -> vs.FactorGraph:
    """Return a graph of binary variables with tables, forbidden entries and structured factors."""
    rng = np.random.default_rng(seed)
    n = 7
    graph = vs.FactorGraph([2] * n)
    for v in range(n):
        graph.add([v], rng.normal(0.0, 1.0, 2))
    for _ in range(5):
        table = rng.normal(0.0, 2.0, (2, 2))
        table[rng.random((2, 2)) < 0.1] = -np.inf
        graph.add(rng.choice(n, 2, replace=False), table)
    graph.add(rng.choice(n, 3, replace=False), rng.normal(0.0, 1.0, (2, 2, 2)))
    for _ in range(int(rng.integers(3))):
        negated = np.flatnonzero(rng.random(4) < 0.4).tolist()
        graph.add(make(str(rng.choice(KINDS)), rng.choice(n, 4, replace=False).tolist(), negated))
    return graph


@given(st.integers(0, 100_000), st.integers(0, 6), st.booleans())
@examples(400)
def test_exact_when_integral_and_never_below(seed: int, variable: int, state: bool) -> None:
    graph = random_graph(seed)
    for evidence in ({}, {variable: int(state)}):
        best = enumerated(graph, evidence)[3]
        if best == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                vs.decode(graph, method="lp", evidence=evidence)
            continue
        d = vs.decode(graph, method="lp", evidence=evidence)
        assert d.upper >= best - 1e-6
        assert d.upper >= d.score
        assert -np.inf < d.score <= best + 1e-9
        assert d.converged
        if d.integral:
            assert d.score == pytest.approx(best, abs=1e-6)
        for f in graph.factors:
            if isinstance(f, Structured):
                assert f.log_potential(d.states[None, list(f.scope)])[0] == 0.0
        assert [p.sum() for p in d.relaxed] == pytest.approx([1.0] * 7)
        held = vs.FactorGraph([2] * 7)
        for f in graph.factors:
            held.add(f)
        if not evidence:
            assert vs.log_prob(held, d.states) == pytest.approx(
                float(d.score) - vs.infer(held).log_z, abs=1e-8
            )


def test_fractional_points_and_large_scores() -> None:
    graph = vs.FactorGraph([2] * 3)
    for edge in [(0, 1), (1, 2), (0, 2)]:  # three variables that want to differ
        graph.add(edge, [[0.0, 1.0], [1.0, 0.0]])
    d = vs.decode(graph, method="lp")
    assert not d.integral
    assert d.upper == pytest.approx(3.0)
    assert 0.0 <= d.score <= 2.0  # of a fractional point that says nothing
    with pytest.raises(vs.DeadlineError):
        vs.decode(graph, method="lp", deadline=1e-9)
    copy = pickle.loads(pickle.dumps(d))
    assert (copy.integral, copy.upper) == (d.integral, d.upper)
    np.testing.assert_array_equal(copy.relaxed, d.relaxed)
    graph = vs.FactorGraph([2] * 4)
    for v, x in enumerate([10_000.0, -10_000.0, 9_999.0, 0.0]):
        graph.add([v], [0.0, x])
    graph.add(vs.factors.Budget(0, 1, 2, 3, budget=1))
    d = vs.decode(graph, method="lp")
    assert d.integral
    assert d.states.tolist() == [1, 0, 0, 0]
    assert d.score == 10_000.0


@pytest.mark.parametrize("seed", range(10))
def test_graphs_without_cycles_are_integral(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2] * 40)
    for v in range(40):
        graph.add([v], rng.normal(0.0, 1.0, 2))
    for v in range(1, 30):
        graph.add((int(rng.integers(v)), v), rng.normal(0.0, 1.0, (2, 2)))
    graph.add(vs.factors.OrOut(*range(30, 38), 0, negated=[1]))
    d, exact = vs.decode(graph, method="lp"), vs.decode(graph)
    assert d.integral
    assert d.score == pytest.approx(float(exact.score), abs=1e-8)


def test_refusals() -> None:
    graph = vs.FactorGraph([2, 3])
    with pytest.raises(ValueError, match="variable 1 has 3 states"):
        vs.decode(graph, method="lp")
    graph = vs.FactorGraph([2, 2])
    graph.add(AnyOf((0, 1)))
    with pytest.raises(ValueError, match=r"factor 0, a AnyOf over 2 variables, has none"):
        vs.decode(graph, method="lp")
    graph = vs.FactorGraph([2] * 3)
    graph.add(vs.factors.Xor(0, 1))
    graph.add(vs.factors.Xor(1, 2))
    graph.add(vs.factors.Xor(0, 2))  # fractional points only
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, method="lp")
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, method="lp", evidence={0: 1, 1: 1})
