"""RSM10's Algorithm 1: which factors, and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from relaxed_oracle import marginals, pairs_of_six, random_graph, scores

import valuesparse as vs
from valuesparse.factors import Features
from valuesparse.relaxed import largest, smallest_within

seeds = st.integers(0, 2**32 - 1)
gains = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0, 3.0, np.inf]), max_size=40)


@given(gains, st.integers(0, 45))
def test_largest(values: list[float], m: int) -> None:
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert largest(np.array(values), m).tolist() == sorted(order[:m])


@given(gains, st.sampled_from([0.0, 0.1, 0.25, 1.0, 5.0, 100.0]))
def test_smallest_within(values: list[float], total: float) -> None:
    spent = np.cumsum(sorted(values))
    assert smallest_within(np.array(values), total) == int((spent <= total).sum())


@pytest.mark.parametrize("choose", [largest, smallest_within])
def test_gains_are_numbers_in_a_row(choose: Any) -> None:
    values = [0.5, 0.1, 0.5, 0.9]
    assert np.array_equal(choose(values, 2), choose(np.array(values), 2))
    for wrong, error in ((["a"], TypeError), ([[1.0]], ValueError), (None, TypeError)):
        with pytest.raises(error, match=r"^gains must "):
            choose(wrong, 2)


def test_halving_equals_sorting() -> None:
    rng = np.random.default_rng(0)
    for total in (0.0, 1e-3, 10.0, 1e4, 1e9):
        values = rng.exponential(size=100_000) * rng.choice([1e-6, 1.0], 100_000)
        want = int((np.cumsum(np.sort(values)) <= total).sum())
        assert abs(smallest_within(values, total) - want) <= 1


def test_three_objectives_choose_the_same_set_at_equal_size() -> None:
    graph = pairs_of_six()
    seed = vs.infer(graph, factors=range(6))
    g = np.sort(vs.gain(graph, range(6, 21), seed))
    for m in range(16):
        a = vs.select(graph, min_divergence=m)
        b = vs.select(graph, min_size=float(g[: 15 - m].sum()) * (1 + 1e-12))
        # The first result is made of single variables, here by a junction tree: bits may differ.
        c = vs.select(graph, min_joint=float(g[15 - m]) * (1 - 1e-12) if m else 1e9)
        assert a.factors.size == 6 + m
        assert a.factors.tolist() == b.factors.tolist() == c.factors.tolist()
        assert (a.stats["first"], a.stats["candidates"], a.stats["added"]) == (6, 15, m)
        assert a.graph is graph
        assert a.rigorous


def test_min_size_keeps_the_factor_that_would_cross() -> None:
    graph = pairs_of_six()
    seed = vs.infer(graph, factors=range(6))
    g = np.sort(vs.gain(graph, range(6, 21), seed))
    assert vs.select(graph, min_size=float(g[0]) * (1 - 1e-9)).factors.size == 21
    assert vs.select(graph, min_size=float(g[0]) * (1 + 1e-9)).factors.size == 20
    assert vs.select(graph, min_size=1e9).factors.size == 6


@given(seeds)
def test_marginals_are_those_of_the_chosen_graph(seed: int) -> None:
    graph, kept = random_graph(np.random.default_rng(seed))
    r = vs.select(graph, first=kept, min_divergence=2)
    assert set(kept) <= set(r.factors.tolist())
    assert r.factors.size == min(graph.n_factors, kept.size + 2)
    for got, want in zip(r.marginals, marginals(scores(graph, r.factors)), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-10)


@pytest.mark.smoke
def test_evidence_and_solver() -> None:
    graph = pairs_of_six()
    calls = []

    def solve(part: vs.FactorGraph, previous):
        calls.append((part.n_factors, previous))
        return vs.infer(part)

    a = vs.select(graph, min_divergence=3, evidence={0: 1}, solver=solve)
    b = vs.select(graph, min_divergence=3, evidence={0: 1}, solver="junction_tree")
    assert a.factors.tolist() == b.factors.tolist()
    assert a[0].tolist() == [0.0, 1.0]
    assert [n for n, _ in calls] == [6, 9]
    assert calls[0][1] is None
    assert calls[1][1].factors.tolist() == list(range(6))
    vs.select(graph, min_divergence=0, solver=solve)
    assert len(calls) == 3  # nothing changed: the seed's result is the answer


def test_many_candidates_in_columns() -> None:
    rng = np.random.default_rng(1)
    n, m = 300, 200_000
    graph = vs.FactorGraph([2] * n)
    for v in range(n):
        graph.add([v], [0.0, rng.normal()])
    a = rng.integers(0, n, m)
    b = (a + rng.integers(1, n, m)) % n
    weights = np.concatenate([rng.normal(0, 0.01, m - 5), np.full(5, 3.0)])
    graph.add_features(Features(np.stack([a, b], 1), weights))
    r = vs.select(graph, min_divergence=5)
    p = np.array([x[1] for x in r.marginals])
    assert r.factors[-5:].tolist() == list(range(n + m - 5, n + m))
    assert p.shape == (n,)
    seed = vs.infer(graph, factors=range(n))
    p = np.array([x[1] for x in seed.marginals])
    off = 1 - p[a] + p[a] * (1 - p[b])
    want = vs.relaxed.feature_gain(p[a] * p[b], weights, off)
    np.testing.assert_allclose(vs.gain(graph, range(n, n + m), seed), want, rtol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "exactly one of min_size, min_divergence and min_joint must be given, got none"),
        ({"min_size": 1.0, "min_joint": 1.0}, "got min_size and min_joint"),
        ({"min_size": -1.0}, "min_size must be a number >= 0"),
        ({"min_joint": np.nan}, "min_joint must be a number >= 0"),
        ({"min_divergence": 1.5}, "min_divergence must be an integer >= 0"),
        ({"min_joint": 1.0, "first": [99]}, r"first\[0\] is 99"),
        ({"min_joint": 1.0, "solver": "magic"}, "solver must be one of"),
    ],
)
def test_refusals(arguments, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        vs.select(pairs_of_six(), **arguments)


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match=r"graph must be a valuesparse\.FactorGraph"):
        vs.select(3, min_joint=1.0)
    with pytest.raises(TypeError, match=r"solver must return what valuesparse\.infer does"):
        vs.select(pairs_of_six(), min_joint=1.0, solver=lambda graph, previous: 3)
