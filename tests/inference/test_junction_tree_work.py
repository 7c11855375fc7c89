"""Junction trees: the search for one, cost, memory, threads, and messages that are kept."""

from __future__ import annotations

import sys

import children
import numpy as np
import pytest
from checks import assert_same_bits
from graph_files import DATA
from graph_oracle import (
    graph_of,
)
from scipy.special import logsumexp

import valuesparse as vs
from valuesparse import _forest
from valuesparse.cli import _graphs
from valuesparse.schedule import Kind, plan


def test_samples_do_not_depend_on_the_blocks_they_are_drawn_in(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    graph = _grid(rng, 4, 3)
    for evidence in (None, {3: np.array([0.0, 1.0, 2.0])}, {3: np.array([0.0, -8000.0, 9000.0])}):
        x = vs.sample(graph, 50, rng=1, evidence=evidence)
        monkeypatch.setattr("valuesparse.inference._questions._UNIFORMS", 100)
        assert (vs.sample(graph, 50, rng=1, evidence=evidence) == x).all()
        monkeypatch.undo()


def _grid(rng: np.random.Generator, side: int, states: int) -> vs.FactorGraph:
    graph = vs.FactorGraph([states] * side * side)
    for v in range(side * side):
        graph.add([v], rng.normal(0, 1, states))
        if v % side:
            graph.add([v - 1, v], rng.normal(0, 1, (states, states)))
        if v >= side:
            graph.add([v - side, v], rng.normal(0, 1, (states, states)))
    return graph


def test_a_tree_that_cannot_run_is_not_searched_for_at_length(rng: np.random.Generator) -> None:
    graph = _grid(rng, 20, 2)
    long = vs.JunctionTree(graph)
    short = vs.JunctionTree(graph, memory_limit=2**16)
    assert short._tree.cost()[6] == 3
    assert short.table_size > 2**13
    assert long._tree.cost()[6] > 10
    assert vs.JunctionTree(graph, effort=0)._tree.cost()[6] == 1


def test_auto_gives_up_on_a_tree_that_is_far_too_large(rng: np.random.Generator) -> None:
    graph = _grid(rng, 40, 2)
    r = vs.infer(graph, memory_limit=2**20)
    assert r.method == "bp"
    assert "tree of a short search needs more than 1.05e+12 bytes (977 GiB), far above" in r.reason
    assert "(method='exact' searches longer)" in r.reason
    with pytest.raises(vs.MemoryLimitError, match=r"largest clique, after merging, has .* entries"):
        vs.infer(graph, memory_limit=2**20, method="junction_tree")


def test_auto_does_not_give_up_when_only_the_first_order_is_too_large() -> None:
    """Min-fill alone is a million times over: 7.7e16 entries, and 4.2e10 in the end."""
    file = DATA / "hard" / "linkage_11.uai"
    if not file.exists():
        pytest.skip(f"{file.name} is not in {DATA / 'hard'}")
    graph = vs.read_uai(file)
    # The reason is about the best tree that was found, not about a search without one.
    assert "the junction tree has width 31" in _graphs.forecast(graph, 10**10, None).reason


def test_same_bits_for_any_threads(rng: np.random.Generator) -> None:
    """Large enough for cliques that are cut into blocks, and for many tasks."""
    graph = _grid(rng, 9, 5)
    runs = [vs.infer(graph, threads=t, evidence={3: 1}) for t in (1, 2, 3, 8)]
    assert runs[0].stats["table_entries"] > 5_000_000
    for r in runs[1:]:
        assert r.log_z == runs[0].log_z
        assert all(
            a.tobytes() == b.tobytes() for a, b in zip(r.marginals, runs[0].marginals, strict=True)
        )


@pytest.mark.parametrize("scale", [1.0, 800.0])
def test_same_samples_for_any_threads(rng: np.random.Generator, scale: float) -> None:
    """Plain numbers and wide ones; enough samples to be drawn in many tasks, and too few."""
    graph = vs.FactorGraph([3] * 40)
    for v in range(1, 40):
        graph.add((v - 1, v), scale * rng.integers(0, 2, (3, 3)))
        graph.add((max(0, v - 3), v), scale * rng.integers(0, 2, (3, 3)))
    jt = vs.JunctionTree(graph)
    assert jt.infer().stats["widened"] == (scale > 1.0)
    for size in (0, 1, 2, 3000):
        first = jt.sample(size, 5, threads=1)
        for threads in (2, 3, 8):
            assert (jt.sample(size, 5, threads=threads) == first).all()
    assert len(np.unique(first, axis=0)) > 10


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_samples_are_drawn_on_all_threads() -> None:
    """The propagation itself is too small for more than one."""
    found = children.run(
        """
import os, numpy as np, valuesparse as vs
graph = vs.FactorGraph([3] * 40)
for v in range(39):
    graph.add((v, v + 1), np.eye(3))
jt = vs.JunctionTree(graph)
jt.infer(threads=3)
before = len(os.listdir("/proc/self/task"))
jt.sample(3, 0, threads=3)
few = len(os.listdir("/proc/self/task"))
jt.sample(5000, 0, threads=3)
print(few - before, len(os.listdir("/proc/self/task")) - before)
"""
    )
    assert found.stdout.split() == ["0", "2"], found.stderr


@pytest.mark.parametrize("seen", [{}, {3: 1}])
def test_components_of_different_size(rng: np.random.Generator, seen: dict) -> None:
    """Large ones for several threads beside small ones: same bits, and what each says alone."""
    sizes = [(5, 6), (6, 4), (1, 3), (7, 3), (1, 2)]
    cards, factors, parts = [], [], []
    for side, values in sizes:
        part = _grid(rng, side, values)
        parts.append(part)
        n = len(cards)
        factors += [([n + v for v in f.scope], f.log_table) for f in part.factors]
        cards += list(part.cardinalities)
    jt = vs.JunctionTree(graph_of(cards, factors), evidence=seen)
    runs = []
    for threads in (1, 2, 3, 8, 2):
        jt._tree.forget()
        runs.append(jt.infer(threads=threads))
    for r in runs[1:]:
        assert r.log_z == runs[0].log_z
        for a, b in zip(r.marginals, runs[0].marginals, strict=True):
            assert a.tobytes() == b.tobytes()
    # One by one they say the same: alone, and in one thread.
    alone = [vs.infer(p, threads=1, evidence=seen if p is parts[0] else {}) for p in parts]
    assert runs[0].log_z == pytest.approx(sum(r.log_z for r in alone), rel=1e-12)
    flat = [x for r in alone for x in r.marginals]
    for a, b in zip(runs[1].marginals, flat, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_nothing_possible_in_a_large_tree(rng: np.random.Generator) -> None:
    """No task of the way down meets messages that say nothing."""
    graph = _grid(rng, 9, 5)
    for v in (0, 1):
        graph.add([80, 79 - v], np.where(np.eye(5, dtype=bool), 0.0, -np.inf))
    graph.add([79, 78], np.where(np.eye(5, dtype=bool), -np.inf, 0.0))
    for threads in (1, 2, 8):
        with pytest.raises(vs.InfeasibleError):
            vs.infer(graph, threads=threads)


@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_pieces_of_large_separators(rng: np.random.Generator, spread: float) -> None:
    """A separator of 280,000 entries that contains three others, each within the next."""
    cards = [6] * 8 + [4, 3, 3, 2]
    scopes = [tuple(range(8)), (*range(7), 8), (0, 1, 2, 9), (0, 1, 10), (0, 11)]
    tables = [rng.normal(0, spread, [cards[v] for v in scope]) for scope in scopes]
    tables[1][rng.random(tables[1].shape) < 0.3] = -np.inf
    graph = graph_of(cards, list(zip(scopes, tables, strict=True)))
    kinds = plan(vs.JunctionTree(graph)).kind
    assert (kinds == Kind.DIVIDE).sum() > 5
    assert set(kinds) >= {Kind.RESERVE, Kind.SPREAD, Kind.PROJECT, Kind.SCALE, Kind.RELEASE}
    threads = (1, 2, 3, 8) if spread == 1.0 else (1, 3)
    runs = [vs.infer(graph, threads=t) for t in threads]
    best = [vs.decode(graph, threads=t) for t in threads]
    for r, d in zip(runs[1:], best[1:], strict=True):
        assert r.log_z == runs[0].log_z
        assert d.states.tolist() == best[0].states.tolist()
        for a, b in zip(r.marginals, runs[0].marginals, strict=True):
            assert a.tobytes() == b.tobytes()
    # Each table's sum over all but the first eight variables.
    own = [logsumexp(t, axis=-1) for t in tables[1:]]
    full = tables[0] + own[0][..., None]
    for part in own[1:]:
        full += part.reshape(part.shape + (1,) * (8 - part.ndim))
    assert runs[0].log_z == pytest.approx(logsumexp(full), rel=1e-12)
    p = np.exp(full - logsumexp(full))
    for v in range(8):
        expected = p.sum(axis=tuple(u for u in range(8) if u != v))
        np.testing.assert_allclose(runs[0].marginals[v], expected, rtol=0, atol=1e-10)
    for scope, table in zip(scopes[1:], tables[1:], strict=True):
        shared = p.sum(axis=tuple(u for u in range(8) if u not in scope))
        given = np.exp(table - np.maximum(table.max(axis=-1, keepdims=True), -1e300))
        given /= np.maximum(given.sum(axis=-1, keepdims=True), 1e-300)
        expected = (shared[..., None] * given).sum(axis=tuple(range(len(scope) - 1)))
        np.testing.assert_allclose(runs[0].marginals[scope[-1]], expected, rtol=0, atol=1e-10)
    most = tables[0] + tables[1].max(axis=-1)[..., None]
    for table in tables[2:]:
        part = table.max(axis=-1)
        most += part.reshape(part.shape + (1,) * (8 - part.ndim))
    assert best[0].score == pytest.approx(most.max(), rel=1e-12)


def test_simd_levels_agree(rng: np.random.Generator) -> None:
    graph = _grid(rng, 6, 3)
    before = _forest.simd_level()
    found = []
    try:
        for level in ("scalar", "x86-64-v2", "x86-64-v3", "x86-64-v4", "neon"):
            if _forest.set_simd_level(level):
                found.append(vs.infer(graph))
    finally:
        _forest.set_simd_level(before)
    assert len(found) >= 2
    for r in found[1:]:
        assert r.log_z == pytest.approx(found[0].log_z, rel=1e-13)
        for a, b in zip(r.marginals, found[0].marginals, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_messages_below_which_nothing_changed_are_kept(rng: np.random.Generator) -> None:
    graph = vs.FactorGraph([4] * 60)
    for i in range(1, 60):
        graph.add([i - 1, i], rng.normal(0, 1, (4, 4)))
    jt = vs.JunctionTree(graph)
    assert jt._tree.reused() == 0
    jt.infer({59: 1})
    first = jt.infer({59: 2})
    assert 0 < jt._tree.reused() < jt._tree.n_cliques()
    _same(first, vs.infer(graph, evidence={59: 2}))
    jt.infer({59: 2})
    assert jt._tree.reused() == jt._tree.n_cliques()
    _same(jt.infer({59: 2, 0: 1}), vs.infer(graph, evidence={59: 2, 0: 1}))
    _same(jt.infer({5: rng.normal(0, 1, 4)}), jt.infer({5: rng.normal(0, 1, 4)}), equal=False)


def test_soft_evidence_renews_what_it_changes(rng: np.random.Generator) -> None:
    graph = _grid(rng, 6, 3)
    jt = vs.JunctionTree(graph)
    soft = {v: rng.normal(size=3) for v in range(graph.n_variables)}
    jt.infer(soft)
    for v in (0, 20, 35, 20):
        soft[v] = rng.normal(size=3)
        found = jt.infer(soft)
        assert 0 < jt._tree.reused() < jt._tree.n_cliques()
        fresh = vs.JunctionTree(graph).infer(soft)
        assert found.log_z == fresh.log_z
        for a, b in zip(found.marginals, fresh.marginals, strict=True):
            assert_same_bits(a, b)
    jt.infer(dict(soft))
    assert jt._tree.reused() == jt._tree.n_cliques()


def _same(a: vs.Result, b: vs.Result, equal: bool = True) -> None:
    gap = max(abs(x - y).max() for x, y in zip(a.marginals, b.marginals, strict=True))
    assert bool(gap < 1e-12) is equal


def test_cost_is_known_before_anything_is_allocated(rng: np.random.Generator) -> None:
    graph = _grid(rng, 40, 3)
    jt = vs.JunctionTree(graph, effort=0)
    assert jt.memory > 1e12
    assert jt.table_size > 3.0**40
    with pytest.raises(vs.MemoryLimitError, match=r"has \d\S+ entries, over \d+, ") as caught:
        jt.infer()
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(vs.MemoryLimitError, match=r"memory_limit=1e\+03 bytes; .*: give evidence"):
        vs.infer(_grid(rng, 5, 3), method="junction_tree", memory_limit=1000)


def test_memory_is_not_far_from_what_is_said(rng: np.random.Generator) -> None:
    """At least the messages and their copies; a small multiple of the entries at most."""
    jt = vs.JunctionTree(_grid(rng, 8, 4))
    assert jt.memory < 8 * 3 * jt.table_size


def test_restarts_find_smaller_tables(rng: np.random.Generator) -> None:
    graph = _grid(rng, 12, 3)
    sizes = [vs.JunctionTree(graph, effort=e, seed=1).table_size for e in (0, 0.1, 1)]
    assert sizes[0] >= sizes[1] >= sizes[2]
    assert sizes[2] < sizes[0]
    same = vs.JunctionTree(graph, effort=0.1, seed=1).table_size
    assert same == sizes[1]


def test_tree_shaped_graphs_of_any_size() -> None:
    n = 200_000
    graph = vs.FactorGraph([2] * n)
    table = np.log([[0.9, 0.1], [0.2, 0.8]])
    graph.add([0], np.log([0.3, 0.7]))
    for i in range(1, n):
        graph.add([(i - 1) // 3, i], table)
    r = vs.infer(graph)
    assert (r.method, r.stats["width"] <= 5) == ("exact", True)
    assert r.log_z == pytest.approx(0.0, abs=1e-9)
    assert r.marginals[1].tolist() == pytest.approx([0.3 * 0.9 + 0.7 * 0.2, 0.3 * 0.1 + 0.7 * 0.8])


def test_a_hub_with_many_leaves() -> None:
    n = 30_000
    graph = vs.FactorGraph([3] + [2] * n)
    rng = np.random.default_rng(0)
    tables = rng.normal(0, 1, (n, 3, 2))
    tables[5, 1] = -np.inf
    for i in range(n):
        graph.add([0, i + 1], tables[i])
    r = vs.infer(graph)
    log = np.logaddexp.reduce(tables, axis=2).sum(axis=0)
    assert r.marginals[0].tolist() == pytest.approx(np.exp(log - np.logaddexp.reduce(log)).tolist())
    assert r.log_z == pytest.approx(np.logaddexp.reduce(log))


def test_deadline_and_progress(rng: np.random.Generator) -> None:
    graph = _grid(rng, 10, 4)
    with pytest.raises(vs.DeadlineError):
        vs.infer(graph, deadline=1e-3)
    seen = []
    vs.infer(_grid(rng, 9, 4), progress=lambda done, total: seen.append((done, total)))
    assert all(0 <= done <= total for done, total in seen)


def test_joints_keep_to_the_memory_limit() -> None:
    graph = vs.FactorGraph([2] * 26)
    for i in range(25):
        graph.add([i, i + 1], [[1.0, 0.0], [0.0, 1.0]])
    jt = vs.JunctionTree(graph, memory_limit=20_000_000)
    with pytest.raises(vs.MemoryLimitError, match="joint of 26 variables needs"):
        jt.joint(range(26))
    assert jt.joint(range(8)).shape == (2,) * 8
    wide = vs.JunctionTree(vs.FactorGraph([10_000, 10_000]), memory_limit=1_000_000)
    with pytest.raises(vs.MemoryLimitError, match="joint of 2 variables"):
        wide.joint([0, 1], {0: 1, 1: 2})
    with pytest.raises(vs.MemoryLimitError):
        vs.infer(vs.FactorGraph([10**6] * 3), method="junction_tree", memory_limit=10**6)
    many = vs.JunctionTree(vs.FactorGraph([2] * 70))
    with pytest.raises(ValueError, match="variables must be 64 at most"):
        many.joint(range(70), dict.fromkeys(range(70), 0))


@pytest.mark.parametrize("n", [2, 3, 23, 24, 25, 26, 60, 3000])
def test_many_factors_of_one_clique(n: int, rng: np.random.Generator) -> None:
    """Tables are multiplied two by two, of which those that are compared are few."""
    cards = (3, 2, 4)
    graph = vs.FactorGraph(cards)
    total = np.zeros(cards)
    for i in range(n):
        scope = sorted(rng.choice(3, size=1 + i % 3, replace=False))
        table = rng.normal(size=[cards[v] for v in scope])
        graph.add(scope, table)
        total += table.reshape([cards[v] if v in scope else 1 for v in range(3)])
    r = vs.infer(graph)
    p = np.exp(total - total.max())
    np.testing.assert_allclose(r.log_z, np.log(p.sum()) + total.max(), rtol=1e-12)
    p /= p.sum()
    for v in range(3):
        others = tuple(u for u in range(3) if u != v)
        np.testing.assert_allclose(r.marginals[v], p.sum(axis=others), atol=1e-10)


def _features(k: int = 50, each: int = 20) -> vs.FactorGraph:
    """Features of one state each over the same pairs: every one becomes a whole table."""
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([k] * 4)
    pairs = np.repeat([[0, 1], [1, 2], [2, 3], [0, 3]], each, axis=0)
    states = rng.integers(0, k, pairs.shape)
    graph.add_features(vs.factors.Features(pairs, rng.normal(size=len(pairs)), assignments=states))
    return graph


def test_tables_of_features_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, tables = _features(), 80 * 8 * 50**2
    whole = vs.JunctionTree(graph)
    few = vs.JunctionTree(_features(each=1))
    assert few.memory + 70 * 8 * 50**2 < whole.memory < few.memory + tables
    exact = vs.infer(graph, memory_limit=whole.memory)
    assert exact.method == "junction_tree"
    assert exact.log_z == vs.infer(graph).log_z
    divided = vs.JunctionTree(graph, memory_limit=whole.memory - 1).divide()
    assert divided.slices > 1
    assert tables < divided.memory < whole.memory
    words = (
        r"tables to be made of 80 factors need 1.6e\+06 bytes, above memory_limit=1.6e\+06 bytes"
    )
    made = []
    monkeypatch.setattr(vs.factors.Features, "stack", lambda *_: made.append(1))
    for ask in (
        vs.JunctionTree,
        vs.decode,
        lambda g, **more: vs.sample(g, 1, 0, **more),
        lambda g, **more: vs.log_prob(g, [0] * 4, **more),
    ):
        with pytest.raises(vs.MemoryLimitError, match=words):
            ask(_features(), memory_limit=tables - 1)
    with pytest.raises(vs.MemoryLimitError, match=words):
        vs.infer(_features(), zeta=0.9, memory_limit=tables - 1)
    assert not made
    monkeypatch.undo()
    found = vs.infer(_features(), memory_limit=tables - 1)
    assert found.method == "bp"
    assert "tables to be made of 80 factors" in found.reason


def test_a_refusal_says_how_much_of_it_are_tables() -> None:
    tree = vs.JunctionTree(_features(), memory_limit=80 * 8 * 50**2)
    with pytest.raises(
        vs.MemoryLimitError, match=r"made of 80 factors take 1.6e\+06 bytes .* of it"
    ):
        tree.infer()


def test_no_memory_for_tables_names_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(self: object, cards: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(vs.factors.Features, "stack", lacking)
    for method in ("auto", "bp"):
        with pytest.raises(
            vs.MemoryLimitError, match=r"no room; .* of 80 factors need 1.6e\+06 byt"
        ):
            vs.infer(_features(), method=method)


def test_a_limit_above_the_default_is_one_for_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = vs.infer(_features())
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 10**6)
    with pytest.raises(vs.MemoryLimitError, match="half of what the machine has"):
        vs.log_prob(_features(), [0] * 4)
    more = {"memory_limit": 10**8}
    assert vs.infer(_features(), **more).log_z == exact.log_z
    assert vs.infer(_features(), method="bp", **more).method == "bp"
    assert vs.decode(_features(), **more).states.shape == (4,)
    assert vs.decode(_features(), method="bp", **more).states.shape == (4,)
    assert vs.log_prob(_features(), [0] * 4, **more) < 0.0
