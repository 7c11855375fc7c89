"""Parts of a graph as the inner loop solves them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from relaxed_oracle import pairs_of_six

import valuesparse as vs
from valuesparse.factors import Feature, Features
from valuesparse.inference import _graphs
from valuesparse.models._blocks import wide_tables
from valuesparse.relaxed._solver import independent

seeds = st.integers(0, 2**32 - 1)


def mixed_graph(rng: np.random.Generator) -> vs.FactorGraph:
    """Return factors of no and of one variable: tables, features, blocks of either kind."""
    k = [int(c) for c in rng.integers(1, 4, int(rng.integers(1, 7)))]
    if rng.random() < 0.3:
        k = [k[0]] * len(k)
    n = len(k)
    graph = vs.FactorGraph(k)
    graph.add([], 0.25)
    for v in range(n):
        graph.add([v], rng.normal(0, 3, k[v]))
        graph.add_feature([v], [int(rng.integers(k[v]))], rng.normal())
    graph.add_features(Features(np.empty((2, 0), dtype=int), [0.5, -1.0]))
    some = rng.integers(0, n, 5)
    states = np.array([[int(rng.integers(k[v]))] for v in some])
    graph.add_features(Features(some[:, None], rng.normal(size=5), assignments=states))
    alike = np.flatnonzero(np.array(k) == k[0])
    fires = rng.random(k[0]) < 0.5
    graph.add_features(Features(alike[:, None], rng.normal(size=alike.size), fires=fires))
    return graph


@given(seeds)
def test_independent_variables_are_solved_as_by_the_exact_engine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = mixed_graph(rng)
    n = graph.n_variables
    for v in rng.choice(n, int(rng.integers(0, n + 1)), replace=False).tolist():
        cards = graph.cardinalities[v]
        hard = rng.random() < 0.5
        graph.set_evidence(
            {**graph.evidence, v: int(rng.integers(cards)) if hard else rng.normal(size=cards)}
        )
    if rng.random() < 0.5:
        assert len(graph.factors) == graph.n_factors  # objects made of blocks change nothing
    want, got = vs.infer(graph, method="exact"), independent(graph)
    assert float(got.log_z) == pytest.approx(float(want.log_z), rel=1e-12, abs=1e-12)
    for p, q in zip(got.marginals, want.marginals, strict=True):
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-14)


@pytest.mark.parametrize("scope", [[0], []])
def test_impossible_seeds(scope: list[int]) -> None:
    graph = vs.FactorGraph([2])
    graph.add(scope, np.full([2] * len(scope), -np.inf))
    with pytest.raises(vs.InfeasibleError):
        vs.select(graph, min_joint=1.0)


def test_no_variables() -> None:
    graph = vs.FactorGraph([])
    graph.add([], 2.0)
    assert (float(independent(graph).log_z), independent(graph).marginals) == (2.0, [])


@given(seeds)
def test_tables_of_a_block_are_those_of_its_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, 6)
    m, k = int(rng.integers(0, 6)), int(rng.integers(0, 4))
    scopes = rng.permuted(np.tile(np.arange(6), (m, 1)), axis=1)[:, :k]
    weights = rng.normal(size=m)
    weights[rng.random(m) < 0.2] = -np.inf
    states = (rng.random((m, k)) * cards[scopes]).astype(int)
    blocks = [Features(scopes, weights, assignments=states)]
    if k < 3:
        cards[:] = 3
        blocks.append(Features(scopes, weights, fires=rng.random((3,) * k) < 0.5))
        blocks.append(Features(scopes, weights, assignments=states))
    for block in blocks:
        tables = block.tables(cards)
        assert len(tables) == m
        for i, table in enumerate(tables):
            want = block[i].log_potential
            every = np.indices(table.shape).reshape(k, table.size).T
            np.testing.assert_array_equal(table.ravel(), want(every))
            assert table.flags.c_contiguous
            np.testing.assert_array_equal(block[i].table(cards[scopes[i]]), table)


def test_a_part_keeps_blocks_and_makes_no_objects() -> None:
    graph = vs.FactorGraph([2] * 5)
    graph.add([0], [0.0, 1.0])
    graph.add_features(Features([[0, 1], [1, 2], [2, 3], [3, 4]], [1.0, 2.0, 3.0, 4.0]))
    graph.add_features(Features([[1], [2]], [-1.0, 1.0]))
    for kept in ([0, 1, 2, 3], [2, 4, 5], [0, 6], [4], [], list(range(7))):
        whole = vs.infer(graph, factors=kept)
        part = whole.part()
        assert sum(f is not None for f in graph._factors) == 1
        assert part.n_factors == len(kept)
        assert sum(map(len, wide_tables(part))) == sum(1 <= i <= 4 for i in kept)
        by_hand = vs.FactorGraph([2] * 5)
        for i in kept:
            by_hand.add(graph.copy().factor(i))
        assert sum(map(len, wide_tables(by_hand))) == sum(map(len, wide_tables(part)))
        want = vs.infer(by_hand)
        assert float(whole.log_z) == pytest.approx(float(want.log_z), rel=1e-13)
        for p, q in zip(whole.marginals, want.marginals, strict=True):
            np.testing.assert_allclose(p, q, atol=1e-14)


@pytest.mark.parametrize(
    "method", ["bp", "trw", "mean_field", "structured_mean_field", "exact", "junction_tree"]
)
def test_solvers_by_name(method: str) -> None:
    graph = pairs_of_six()
    r = vs.relax(graph, solver=method, threshold=0.05)
    assert r.method == ("junction_tree" if method == "exact" else method)
    assert r.stats["rounds"] >= 1
    used = vs.infer(graph, factors=r.factors, method=method)
    for p, q in zip(r.marginals, used.marginals, strict=True):
        np.testing.assert_allclose(p, q, atol=1e-4)
    assert r.rigorous == (method in ("exact", "junction_tree"))


def test_solvers_with_options() -> None:
    graph = pairs_of_six()
    given = vs.BP(damping=0.3, max_iterations=1)
    assert not vs.relax(graph, solver=given, threshold=0.05).converged
    r = vs.select(graph, solver=vs.TRW(max_iterations=2, tolerance=0.0), min_divergence=3)
    assert (r.method, r.iterations) == ("trw", 2)
    with pytest.raises(ValueError, match="solver must be one of auto, exact"):
        vs.relax(graph, solver="loopy")


def grid(side: int, rng: np.random.Generator) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * side * side)
    for v in range(side * side):
        graph.add([v], [0.0, 2.0 * rng.normal()])
        right, below = [v + 1] * (v % side < side - 1), [v + side] * (v + side < side * side)
        for u in right + below:
            graph.add(Feature((v, u), np.eye(2, dtype=bool), rng.laplace(0.0, 0.8)))
    return graph


@pytest.mark.parametrize("method", ["auto", "bp", "trw", "structured_mean_field", "mean_field"])
def test_rounds_begin_from_the_messages_of_the_round_before(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    plain = _graphs.infer

    def infer(part: vs.FactorGraph, zeta, rounds, threads, method, *rest, start=None, **options):
        begun.append((part, start))
        assert method == "auto" or start is None or method.start is start
        return plain(part, zeta, rounds, threads, method, *rest, start=start, **options)

    graph = grid(16, np.random.default_rng(3))
    with monkeypatch.context() as patch:
        patch.setattr(_graphs, "infer", infer)
        # With nothing for exact tables "auto" is belief propagation, too.
        r = vs.relax(graph, solver=method, threshold=0.02, memory_limit=0)
    assert len(begun) == r.stats["rounds"] >= 2
    assert begun[0][1] is None
    for (before, _), (_, start) in itertools.pairwise(begun):
        assert start._model is before
        assert (start.state is None) == (method == "mean_field")
    cold = vs.infer(graph, factors=r.factors, method="bp" if method == "auto" else method)
    assert r.iterations < cold.iterations
    if method.endswith("mean_field"):
        # Both are optima, not the same one.
        assert float(r.log_z) == pytest.approx(float(cold.log_z), rel=1e-3)
        return
    for p, q in zip(r.marginals, cold.marginals, strict=True):
        np.testing.assert_allclose(p, q, atol=1e-4)


def test_a_solver_must_solve_the_graph_that_it_is_given() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.0, 1.0])
    graph.add([0, 1], np.eye(2))
    other = vs.FactorGraph([2, 2])
    other.add([0], [0.0, 9.0])
    answers = {
        "another graph": lambda g, _: vs.infer(other),
        "other evidence": lambda g, _: vs.infer(g, evidence={0: 1}),
        "0 of its 1 factors": lambda g, _: vs.infer(g, factors=[]),
    }
    for what, solver in answers.items():
        with pytest.raises(ValueError, match=f"got one of {what}"):
            vs.relax(graph, solver=solver)
    for method in ("exact", "junction_tree", "bp"):
        r = vs.relax(graph, solver=lambda g, _, m=method: vs.infer(g, method=m))
        assert r.rigorous == (method != "bp")
    tree = vs.relax(graph, solver=lambda g, _: vs.JunctionTree(g).infer(), evidence={1: 0})
    assert tree.evidence == {1: 0}


@pytest.mark.parametrize("looked_at", ["the graph", "its copy", "none"])
def test_a_solver_may_solve_a_copy(looked_at: str) -> None:
    graph = vs.FactorGraph([2, 2, 2])
    graph.add([0], [0.0, 1.0])
    graph.add_features(vs.factors.Features(np.array([[0, 1], [1, 2]]), np.array([2.0, -3.0])))

    def solver(part: vs.FactorGraph, _: object) -> vs.GraphResult:
        copy = part.copy()
        # Features of a block become objects when somebody asks, in each graph its own.
        if looked_at != "none":
            assert (part if looked_at == "the graph" else copy).factors
        return vs.infer(copy)

    assert vs.relax(graph, solver=solver).factors.tolist() == [0, 1, 2]


@pytest.mark.parametrize("ask", [vs.relax, lambda g, **more: vs.select(g, min_size=1.0, **more)])
def test_too_many_states_are_refused_before_anything_is_allocated(ask, monkeypatch) -> None:
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 2**33)
    graph = vs.FactorGraph([2**31 - 1, 2])
    graph.add_feature([0, 1], [5, 1], 1.0)
    with pytest.raises(
        vs.MemoryLimitError, match=r"marginals alone need \S+ bytes .* of variable 0"
    ):
        ask(graph, memory_limit=10**6)
