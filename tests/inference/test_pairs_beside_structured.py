"""Pairs keep their lanes, and plain ratios, beside structured factors."""

from __future__ import annotations

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import AtMostOne, Features, Or, OrOut, ProjectiveTree, Tree, Xor, XorOut


def sentence(
    words: int, kind: type = Tree, scale: float = 1.0, left_out: frozenset[int] = frozenset()
) -> vs.FactorGraph:
    """Return a tree with all pairs of modifiers of a head; words that are left out have one arc."""
    rng = np.random.default_rng(words)
    arcs = [
        (h, m)
        for m in range(1, words + 1)
        for h in range(words + 1)
        if h != m and (m not in left_out or h == 0)
    ]
    graph = vs.FactorGraph([2] * len(arcs))
    variables = np.arange(len(arcs))
    graph.add_features(Features(variables[:, None], rng.normal(scale=scale, size=len(arcs))))
    graph.add(kind(arcs, range(len(arcs))))
    pairs = [
        (i, j)
        for i, (h, m) in enumerate(arcs)
        for j, (g, s) in enumerate(arcs)
        if (h == g and m < s) or g == m
    ]
    graph.add_features(Features(pairs, rng.normal(scale=0.3, size=len(pairs))))
    return graph


#: So small a damping changes no number, but has messages as logarithms.
LOGARITHMS = 1e-300


@pytest.mark.parametrize("kind", [Tree, ProjectiveTree])
@pytest.mark.parametrize("scale", [1.0, 40.0, 150.0])
@pytest.mark.parametrize("iterations", [1, 2, 10])
@pytest.mark.simd
def test_ratios_are_as_good_as_logarithms(kind: type, scale: float, iterations: int) -> None:
    graph = sentence(5, kind, scale)  # at 150 messages of the tree leave the range of ratios
    a, b = (
        vs.infer(graph, method=vs.BP(max_iterations=iterations, tolerance=0.0, damping=d))
        for d in (0.0, LOGARITHMS)
    )
    np.testing.assert_allclose(a.flat_marginals(), b.flat_marginals(), atol=1e-11)
    np.testing.assert_allclose(a.log_z, b.log_z, rtol=1e-11)
    both = min(len(a.residuals), len(b.residuals))  # one may end when nothing moves any more
    np.testing.assert_allclose(a.residuals[:both], b.residuals[:both], rtol=1e-6, atol=1e-9)
    for p, q in zip(a.factor_marginals(), b.factor_marginals(), strict=True):
        np.testing.assert_allclose(p, q, atol=1e-10)


def test_arcs_that_have_to_be_leave_the_ratios() -> None:
    graph = sentence(5, left_out=frozenset({2, 4}))  # their messages are infinite
    a, b = (vs.infer(graph, method=vs.BP(max_iterations=10, damping=d)) for d in (0.0, LOGARITHMS))
    np.testing.assert_allclose(a.flat_marginals(), b.flat_marginals(), atol=1e-11)
    np.testing.assert_allclose(a.log_z, b.log_z, rtol=1e-11)


def test_many_structured_factors_share_the_room() -> None:
    rng = np.random.default_rng(0)
    n = 12
    graph = vs.FactorGraph([2] * n)
    graph.add_features(Features(np.arange(n)[:, None], rng.normal(scale=60.0, size=n)))
    for i in range(n - 3):
        graph.add((Xor if i % 2 else AtMostOne)(i, i + 1, i + 2, i + 3))
    graph.add_features(Features([(i, (i + 5) % n) for i in range(n)], rng.normal(size=n)))
    a, b = (
        vs.infer(graph, method=vs.BP(max_iterations=6, tolerance=0.0, damping=d))
        for d in (0.0, LOGARITHMS)
    )
    np.testing.assert_allclose(a.flat_marginals(), b.flat_marginals(), atol=1e-10)


def test_a_run_goes_on_from_messages_of_another() -> None:
    graph = sentence(6)
    whole = vs.infer(graph, method=vs.BP(max_iterations=7, tolerance=0.0))
    half = vs.infer(graph, method=vs.BP(max_iterations=4, tolerance=0.0))
    rest = vs.infer(graph, method=vs.BP(max_iterations=3, tolerance=0.0, start=half))
    np.testing.assert_allclose(rest.flat_marginals(), whole.flat_marginals(), atol=1e-11)


def test_bits_are_those_of_one_thread() -> None:
    graph = sentence(15)  # more than 4,096 pairs, which several threads take
    method = vs.BP(max_iterations=5, tolerance=0.0)
    found = [vs.infer(graph, method=method, threads=t) for t in (1, 2, 3, 8)]
    assert graph.n_factors > 4096
    for r in found[1:]:
        assert r.flat_marginals().tobytes() == found[0].flat_marginals().tobytes()
        assert r.log_z == found[0].log_z


@pytest.mark.parametrize("schedule", ["flooding", "residual", "rounds", "tree"])
def test_messages_that_grow_round_a_cycle_forbid_nothing(schedule: str) -> None:
    """They end before infinity, which would be the message of an impossible value."""
    for seed in (118, 133, 203, 244, 267):
        rng = np.random.default_rng(seed)
        graph = vs.FactorGraph([2] * 4)
        graph.add([0, 1], rng.normal(size=(2, 2)))
        for _ in range(3):
            scope = rng.permutation(4)[:3].tolist()
            kind = (OrOut, AtMostOne, XorOut, Xor, Or)[rng.integers(5)]
            graph.add(kind(*scope, negated=np.flatnonzero(rng.random(3) < 0.4).tolist()))
        for v in range(4):
            graph.add([v], rng.normal(size=2))
        assert np.isfinite(vs.infer(graph).log_z)
        r = vs.infer(graph, method=vs.BP(schedule=schedule))
        assert np.isfinite(r.log_z)
        for p in r.marginals:
            np.testing.assert_allclose(p.sum(), 1.0)
