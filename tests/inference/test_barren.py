"""Barren variables of Bayesian networks: leaving them out changes no answer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from graph_oracle import log_joint, log_sum, marginal, probabilities
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.inference import _barren
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.io._tables import graph_of


def _network(rng: np.random.Generator, zeros: float = 0.2):
    """A random network of up to 8 variables, and its tables for the oracle."""
    n = int(rng.integers(1, 9))
    cards = [int(c) for c in rng.integers(1, 4, n)]
    tables = []
    for v in range(n):
        parents = rng.permutation(v)[: rng.integers(0, 3)].tolist()
        scope = [*parents, v]
        values = rng.random([cards[u] for u in scope])
        values[rng.random(values.shape) < zeros] = 0.0
        values[..., 0] += values.sum(axis=-1) == 0
        tables.append((scope, values / values.sum(axis=-1, keepdims=True), f"table {v}"))
    order = rng.permutation(n)  # children before parents, too
    tables = [tables[i] for i in order]
    graph = graph_of(list(range(n)), [None] * n, cards, tables, directed=True)
    return graph, cards, [(f.scope, f.log_table) for f in graph.factors]


def _evidence(rng: np.random.Generator, cards: list[int]):
    known = {}
    for v, card in enumerate(cards):
        dice = rng.random()
        if dice < 0.2:
            known[v] = int(rng.integers(card))
        elif dice < 0.3:
            known[v] = rng.normal(0, 1, card)
    return known


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1))
def test_answers_are_those_of_the_whole_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, cards, factors = _network(rng)
    jt = vs.JunctionTree(graph)
    for _ in range(3):
        evidence = _evidence(rng, cards)
        full = log_joint(cards, factors, evidence)
        some = rng.permutation(len(cards))[: rng.integers(1, 4)].tolist()
        if full.max() == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                jt.log_z(evidence)
            with pytest.raises(vs.InfeasibleError):
                jt.joint(some, evidence)
            continue
        assert jt.log_z(evidence) == pytest.approx(log_sum(full), rel=1e-10, abs=1e-10)
        hard = {v: x for v, x in evidence.items() if isinstance(x, int)}
        for v, x in hard.items():  # the tree for the same variables, in other states
            other = {**evidence, v: (x + 1) % cards[v]}
            expected = log_sum(log_joint(cards, factors, other))
            if expected > -np.inf:
                assert jt.log_z(other) == pytest.approx(expected, rel=1e-10, abs=1e-10)
        p = probabilities(full)
        np.testing.assert_allclose(jt.joint(some, evidence), marginal(p, some), rtol=0, atol=1e-10)
        r = vs.infer(graph, evidence=evidence)
        np.testing.assert_allclose(r.joint(some), marginal(p, some), rtol=0, atol=1e-10)
        for v in range(len(cards)):
            np.testing.assert_allclose(r.marginals[v], marginal(p, [v]), rtol=0, atol=1e-10)


def _gone(graph: vs.FactorGraph, known=(), wanted=(), soft=()) -> set[int]:
    held = np.full(graph.n_variables, -1)
    held[list(known)] = 1
    _, after = _barren.prune(snapshot_of(graph), held, soft, wanted)
    return set(np.flatnonzero(after != held).tolist())


def _chain_of(n: int, rows: float = 1.0) -> vs.FactorGraph:
    """0 -> 1 -> ... -> n - 1; `rows`: what the rows sum to."""
    tables = [([0], np.array([0.3, 0.7]), "root")]
    tables += [
        ([v, v + 1], rows * np.array([[0.9, 0.1], [0.2, 0.8]]), f"{v}") for v in range(n - 1)
    ]
    return graph_of(list(range(n)), [None] * n, [2] * n, tables, directed=True)


def test_what_is_barren() -> None:
    graph = _chain_of(5)
    assert _gone(graph) == {0, 1, 2, 3, 4}
    assert _gone(graph, known=[2]) == {3, 4}
    assert _gone(graph, wanted=[3]) == {4}
    assert _gone(graph, soft=[1], wanted=[0]) == {2, 3, 4}
    assert _gone(graph, known=[4]) == set()


def test_only_where_tables_are_conditional() -> None:
    assert _gone(_chain_of(5, rows=1 + 1e-6)) == set()
    plain = vs.FactorGraph([2, 2])
    plain.add([0], np.log([0.3, 0.7]))
    plain.add([0, 1], np.log([[0.9, 0.1], [0.2, 0.8]]))
    assert _gone(plain) == set()


def test_a_table_added_later_keeps_its_variables() -> None:
    graph = _chain_of(4)
    jt = vs.JunctionTree(graph)
    assert jt.log_z() == pytest.approx(0.0, abs=1e-12)
    graph.add([2], [1.0, -1.0])
    assert _gone(graph) == {3}
    assert jt.log_z() == pytest.approx(0.0, abs=1e-12)  # a tree keeps the graph it was built of
    expected = vs.infer(graph).log_z
    assert expected != pytest.approx(0.0, abs=0.1)
    assert vs.JunctionTree(graph).log_z() == pytest.approx(expected, abs=1e-12)
    again = pickle.loads(pickle.dumps(graph))
    assert _gone(again) == {3}


def test_a_wide_network_answers_where_its_tree_does_not_fit() -> None:
    """A grid of arrows, and a question near its beginning."""
    rng, side = np.random.default_rng(0), 40
    tables = []
    for v in range(side * side):
        scope = [u for u, ok in ((v - 1, v % side), (v - side, v >= side)) if ok] + [v]
        values = rng.random([2] * len(scope))
        tables.append((scope, values / values.sum(axis=-1, keepdims=True), str(v)))
    names = list(range(side * side))
    graph = graph_of(names, [None] * len(names), [2] * len(names), tables, directed=True)
    jt = vs.JunctionTree(graph, effort=0, memory_limit=1 << 20)
    with pytest.raises(vs.MemoryLimitError):
        jt.infer({side + 1: 1})
    corner = [0, 1, side, side + 1]
    small = graph_of([0, 1, 2, 3], [None] * 4, [2] * 4, _renumbered(tables, corner), directed=True)
    expected = vs.infer(small, evidence={3: 1})
    assert jt.log_z({side + 1: 1}) == pytest.approx(expected.log_z, abs=1e-12)
    found = jt.joint([0, side], {side + 1: 1})
    np.testing.assert_allclose(found, expected.joint([0, 2]), atol=1e-12)
    with pytest.raises(vs.MemoryLimitError):
        jt.log_z({side * side - 1: 1})


def _renumbered(tables, kept):
    number = {v: i for i, v in enumerate(kept)}
    return [([number[u] for u in tables[v][0]], tables[v][1], str(v)) for v in kept]


def test_log_prob_of_a_network_is_its_score() -> None:
    graph = _chain_of(4)
    assert float(vs.log_prob(graph, [0, 0, 1, 1])) == pytest.approx(
        np.log(0.3 * 0.9 * 0.1 * 0.8), abs=1e-12
    )


def test_readers_mark_networks() -> None:
    text = b"""network n {}
variable a { type discrete [ 2 ] { no, yes }; }
variable b { type discrete [ 3 ] { x, y, z }; }
probability ( a ) { table 0.33, 0.66; }
probability ( b | a ) { (no) 0.2, 0.3, 0.5; (yes) 0.1, 0.0, 0.9; }
"""
    graph = vs.read_bif(text)
    assert graph.conditional == {0: 0, 1: 1}
    assert _gone(graph, wanted=[0]) == {1}
    jt = vs.JunctionTree(graph)
    assert jt.joint(["a"]).tolist() == pytest.approx([1 / 3, 2 / 3])
    gum = pytest.importorskip("pyagrum", reason="pyAgrum's networks are converted")
    assert len(vs.from_pyagrum(gum.fastBN("a->b{x|y|z}<-c")).conditional) == 3
