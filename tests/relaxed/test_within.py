"""Gains of a few variables within structured factors, against enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import (
    AtMostOne,
    Budget,
    Feature,
    Features,
    OrOut,
    ProjectiveTree,
    Table,
    Tree,
    Xor,
)
from valuesparse.relaxed import feature_gain

WORDS = 3
ARCS = [(h, m) for m in range(1, WORDS + 1) for h in range(WORDS + 1) if h != m]
PAIRS = np.array(list(itertools.combinations(range(len(ARCS)), 2)))


def trees(projective: bool) -> np.ndarray:
    """Return every tree of three words, a row of states of the arcs for each."""
    found = []
    for heads in itertools.product(range(WORDS + 1), repeat=WORDS):
        on = [(h, m) for m, h in enumerate(heads, 1)]
        reached = {0}
        for _ in range(WORDS):
            reached |= {m for h, m in on if h in reached}
        spans = [tuple(sorted(arc)) for arc in on]
        crossing = any(a < c < b < d for (a, b), (c, d) in itertools.permutations(spans, 2))
        if len(reached) == WORDS + 1 and not (projective and crossing):
            found.append([arc in on for arc in ARCS])
    return np.array(found, dtype=np.int64)


def seed(scores: np.ndarray, kind: type = Tree) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * len(ARCS))
    graph.add_features(Features(np.arange(len(ARCS))[:, None], scores))
    graph.add(kind(ARCS, range(len(ARCS))))
    return graph


def gain_by_hand(factor: vs.factors.Factor, states: np.ndarray, p: np.ndarray) -> float:
    x = factor.log_potential(states[:, list(factor.scope)])
    top = x.max()
    return float(top + np.log(p @ np.exp(x - top)) - p @ x)


@pytest.mark.parametrize("kind", [Tree, ProjectiveTree])
@pytest.mark.parametrize("size", [0.5, 3.9, 4.1, 30.0])
def test_gains_are_those_of_all_trees(kind: type, size: float) -> None:
    rng = np.random.default_rng(int(10 * size))
    scores = rng.normal(scale=3.0, size=len(ARCS))
    graph = seed(scores, kind)
    r = vs.infer(graph)
    states = trees(kind is ProjectiveTree)
    p = np.exp(states @ scores - np.logaddexp.reduce(states @ scores))
    weights = rng.choice([-size, size], size=len(PAIRS))
    fires = np.array([[True, False], [False, True]])
    blocks = [
        Features(PAIRS, weights),
        Features(PAIRS[:, ::-1], weights, assignments=rng.integers(0, 2, size=PAIRS.shape)),
        Features(PAIRS, weights, fires=fires),
    ]
    for block in blocks:
        want = [gain_by_hand(block[i], states, p) for i in range(len(block))]
        np.testing.assert_allclose(vs.gain(graph, block, r), want, atol=2e-9 + 1e-12 * size)
    tables = [Table(pair, rng.uniform(-size / 2, size / 2, size=(2, 2))) for pair in PAIRS.tolist()]
    want = [gain_by_hand(table, states, p) for table in tables]
    np.testing.assert_allclose(vs.gain(graph, tables, r), want, atol=2e-9 + 1e-12 * size)
    whole = graph.copy()
    first = whole.n_factors
    whole.add_many(PAIRS, np.array([table.log_table for table in tables]))
    inside = vs.gain(whole, range(first, whole.n_factors), vs.infer(whole, factors=range(first)))
    np.testing.assert_allclose(inside, want, atol=2e-9 + 1e-12 * size)


@pytest.mark.parametrize("columns", ["features", "tables", "objects"])
@pytest.mark.parametrize("threshold", [1e-1, 1e-3, 1e-6])
def test_no_pair_is_missed_where_bounds_decide(columns: str, threshold: float) -> None:
    rng = np.random.default_rng(3)
    for scale in (1.0, 6.0):
        graph = seed(rng.normal(scale=scale, size=len(ARCS)))
        first = range(graph.n_factors)
        weights = rng.normal(scale=rng.choice([0.05, 0.5, 5.0], size=len(PAIRS)))
        whole = graph.copy()
        if columns == "features":
            whole.add_features(Features(PAIRS, weights))
        elif columns == "tables":
            whole.add_many(PAIRS, weights[:, None, None] * np.array([[0.0, 0.0], [0.0, 1.0]]))
        else:
            for pair, weight in zip(PAIRS.tolist(), weights.tolist(), strict=True):
                whole.add(Feature(pair, (1, 1), weight))
        rest = range(graph.n_factors, whole.n_factors)
        gains = vs.gain(whole, rest, vs.infer(whole, factors=first))
        chosen = [*first, *(np.flatnonzero(gains > threshold) + graph.n_factors).tolist()]
        solver = vs.BP(max_iterations=3)
        r = vs.relax(whole, threshold=threshold, max_rounds=1, solver=solver)
        assert r.factors.tolist() == chosen
        same = vs.select(whole, min_joint=float(np.nextafter(threshold, 1.0)), solver=solver)
        assert same.factors.tolist() == chosen
        if columns == "features":
            lazy = vs.relax(
                graph, candidates=lambda _, w=weights: [Features(PAIRS, w)], threshold=threshold,
                max_rounds=1, solver=solver,
            )  # fmt: skip
            assert lazy.stats["added"] == r.stats["added"] == len(chosen) - len(first)
            np.testing.assert_allclose(lazy.flat_marginals(), r.flat_marginals(), atol=1e-12)


def test_evidence_and_two_structured_factors() -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(size=len(ARCS))
    graph = seed(scores)
    heads = [i for i, (_, m) in enumerate(ARCS) if m == 1]
    graph.add(Xor(*heads))  # which the tree says, too: a cycle
    states = trees(projective=False)
    held, free = heads[1], [i for i in range(len(ARCS)) if i not in heads]
    states = states[states[:, held] == 1]
    p = np.exp(states @ scores - np.logaddexp.reduce(states @ scores))
    r = vs.infer(graph, method="bp", evidence={held: 1})
    assert r.converged
    pairs = np.array(list(itertools.combinations(free, 2)))
    got = vs.gain(graph, Features(pairs, 2.0), r)
    want = feature_gain([p @ states[:, pair].all(axis=1) for pair in pairs], 2.0)
    np.testing.assert_allclose(got, want, atol=1e-9)
    assert (got > 0.0).any()


KINDS = [
    lambda n: Xor(*range(n), negated=[0]),
    lambda n: AtMostOne(*range(n)),
    lambda n: OrOut(*range(n)),
    lambda n: Budget(*range(n), budget=2),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 4])
def test_gains_of_more_variables_are_those_of_all_configurations(
    kind: Callable[[int], vs.factors.Structured], size: int
) -> None:
    rng = np.random.default_rng(size)
    n = 5
    factor = kind(n)
    scores = rng.normal(size=n)
    graph = vs.FactorGraph([2] * n)
    graph.add_features(Features(np.arange(n)[:, None], scores))
    graph.add(factor)
    states = np.array(list(itertools.product((0, 1), repeat=n)))
    states = states[factor.log_potential(states) == 0.0]
    p = np.exp(states @ scores - np.logaddexp.reduce(states @ scores))
    scopes = np.array(list(itertools.permutations(range(n), size)))
    scopes = scopes[rng.choice(len(scopes), 12, replace=False)]
    block = Features(scopes, rng.normal(size=12), assignments=rng.integers(0, 2, size=scopes.shape))
    fires = Features(scopes, rng.normal(size=12), fires=rng.random((2,) * size) < 0.4)
    tables = [Table(scope, rng.normal(size=(2,) * size)) for scope in scopes.tolist()]
    tables.append(Table(scopes[0].tolist(), np.where(rng.random((2,) * size) < 0.3, -900.0, 0.0)))
    r = vs.infer(graph)
    for asked in (block, fires, tables):
        want = [gain_by_hand(asked[i], states, p) for i in range(len(asked))]
        np.testing.assert_allclose(vs.gain(graph, asked, r), want, rtol=1e-9, atol=1e-11)
        ranked = np.unique(want)
        at = int(np.diff(ranked).argmax())
        chosen = vs.relax(
            graph, candidates=lambda _, a=asked: a if a is tables else [a], max_rounds=1,
            threshold=float(ranked[at : at + 2].mean()),
        )  # fmt: skip
        assert chosen.stats["added"] == sum(np.array(want) > ranked[at : at + 2].mean())


@pytest.mark.parametrize("leaf", ["table", "structured"])
@pytest.mark.parametrize("core", ["table", "structured"])
def test_more_variables_of_a_factor_on_a_cycle(core: str, leaf: str) -> None:
    """The same model, whatever its factors are: a cycle, and a leaf that hangs on it."""
    graph = vs.FactorGraph([2] * 6)
    for v in range(5):
        graph.add([v], [0.0, 0.3 * v])
    inner, outer = AtMostOne(0, 1, 2, 3), vs.factors.Nand(3, 5)
    graph.add(inner if core == "structured" else Table(inner.scope, inner.table([2] * 4)))
    graph.add([0, 4], [[0.0, 1.0], [1.0, 0.0]])
    graph.add([1, 4], [[0.0, 1.0], [1.0, 0.0]])
    graph.add(outer if leaf == "structured" else Table(outer.scope, outer.table([2, 2])))
    used = range(graph.n_factors)
    features = [
        graph.add_feature([0, 1, 2], [1, 1, 1], -np.inf),
        graph.add_feature([0, 1, 2], [1, 0, 0], 3.0),
    ]
    r = vs.infer(graph, factors=used)
    p = r.joint([0, 1, 2])[1, [1, 0], [1, 0]]
    np.testing.assert_allclose(r.expectations(), p, atol=1e-13)
    want = [0.0, feature_gain([p[1]], 3.0)[0]]
    np.testing.assert_allclose(vs.gain(graph, features, r), want, atol=1e-11)
    assert r.rigorous
    assert features[0] not in vs.relax(graph, first=used).factors
