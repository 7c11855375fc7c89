"""Upper and lower bounds of log Z, spanning trees, and the dual: against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from graph_oracle import Factors, graph_of, log_joint, log_sum
from loopy_oracle import (
    SHARP,
    random_graph,
    random_grid,
    random_tree,
)

import valuesparse as vs
from valuesparse.inference import _spanning, trw_dual_bound
from valuesparse.inference._network import Network
from valuesparse.inference._watch import NOBODY

pytestmark = pytest.mark.simd


def check_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards, factors = random_graph(rng)
    exact = log_sum(log_joint(cards, factors, {}))
    graph = graph_of(cards, factors)
    # Valid at any iterate: sometimes only one is made.
    most = int(rng.choice([1, 3, 100]))
    try:
        bound = trw_dual_bound(
            graph, trees=int(rng.integers(1, 6)),
            method=vs.TRW(optimise=int(rng.integers(3)), seed=seed, max_iterations=most),
        )  # fmt: skip
        lower = vs.infer(graph, method=vs.MeanField(seed=seed, max_iterations=most, restarts=1))
    except vs.InfeasibleError:
        assert exact == -np.inf
        return
    assert bound.upper >= exact, seed
    assert lower.log_z <= exact, seed
    assert sum(weight for weight, _ in bound.trees) == pytest.approx(1.0)
    held = {f for _, tree in bound.trees for f in tree}
    assert held == {f for f, (scope, _) in enumerate(factors) if len(scope) > 1}


@pytest.mark.parametrize("block", range(5))
def test_bounds_hold(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        check_bounds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_bounds_hold_on_many(block: int) -> None:
    for seed in range(1000 + 500 * block, 1500 + 500 * block):
        check_bounds(seed)


def test_bounds_are_tight_without_cycles() -> None:
    cards, factors = random_tree(np.random.default_rng(3), zeros=False)
    graph = graph_of(cards, factors)
    exact = vs.infer(graph).log_z
    assert trw_dual_bound(graph).upper == pytest.approx(exact, abs=1e-6)
    assert vs.infer(graph, method=vs.TRW(**SHARP)).log_z == pytest.approx(exact, abs=1e-9)


def test_the_dual_meets_the_free_energy() -> None:
    """At a fixed point, with the probabilities of the same forests."""
    cards, factors = random_grid(np.random.default_rng(20), 4, 2)
    graph = graph_of(cards, factors)
    bound = trw_dual_bound(graph, method=vs.TRW(tolerance=1e-12, max_iterations=5000))
    rho = np.zeros(len(factors))
    for weight, tree in bound.trees:
        rho[tree] += weight
    r = vs.infer(
        graph, method=vs.TRW(edge_probabilities=np.minimum(rho, 1.0) + (rho == 0), **SHARP)
    )
    assert r.converged
    assert r.log_z == pytest.approx(bound.upper, abs=1e-7)
    exact = vs.infer(graph).log_z
    assert exact < r.log_z
    better = trw_dual_bound(graph, method=vs.TRW(optimise=10, tolerance=1e-9, max_iterations=1000))
    assert exact <= better.upper < bound.upper


def network_of(cards: list[int], factors: Factors) -> Network:
    return Network(graph_of(cards, factors))


@pytest.mark.parametrize("wide", [False, True])
def test_groups_are_sets_of_variables(wide: bool) -> None:
    """Pairs alone, and pairs beside a table of three variables."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 7))
        scopes = [tuple(rng.permutation(n)[:2].tolist()) for _ in range(int(rng.integers(1, 20)))]
        scopes += [(2, 0, 1)] * wide
        network = network_of([2] * n, [(s, np.zeros((2,) * len(s))) for s in scopes])
        sets = [frozenset(s) for s in scopes]
        every = list(dict.fromkeys(sets))
        assert network.native.group.tolist() == [every.index(s) for s in sets]
        assert [frozenset(network.scope(g)) for g in range(network.n_groups)] == every


def enumerated_probabilities(n: int, edges: list[tuple[int, int]]) -> np.ndarray:
    """How often each edge is in a spanning forest, by listing all of them."""
    trees = []
    for size in range(n, -1, -1):
        for chosen in itertools.combinations(range(len(edges)), size):
            root = list(range(n))
            for e in chosen:
                u, v = (root[x] for x in edges[e])
                if u == v:
                    break
                root = [u if r == v else r for r in root]
            else:
                trees.append(np.isin(np.arange(len(edges)), chosen))
        if trees:
            break
    return np.mean(trees, axis=0)


@pytest.mark.parametrize("seed", range(10))
def test_uniform_spanning_trees(seed: int) -> None:
    """Components, bridges and variables of their own included."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    every = list(itertools.combinations(range(n), 2))
    edges = [e for e in every if rng.random() < 0.6] or every[:1]
    network = network_of([2] * n, [(e, np.zeros((2, 2))) for e in edges])
    found = _spanning.spanning_tree_probabilities(network)
    np.testing.assert_allclose(found, enumerated_probabilities(n, edges), atol=1e-12)
    for tree in _spanning.cover(network, 2, seed, NOBODY):
        assert network.forest(tree).tolist() == tree.tolist()
        assert tree.size == round(found.sum())


def test_spanning_trees_of_a_grid() -> None:
    cards, factors = random_grid(np.random.default_rng(0), 30, 2)
    network = network_of(cards, factors)
    found = _spanning.spanning_tree_probabilities(network)
    assert found.sum() == pytest.approx(899.0)
    u, v = network.native.scope.reshape(-1, 2).T
    laplacian = np.zeros((900, 900))
    np.add.at(laplacian, (np.r_[u, v, u, v], np.r_[u, v, v, u]), np.repeat([1.0, -1.0], 2 * u.size))
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    expected = np.diag(inverse)[u] + np.diag(inverse)[v] - 2.0 * inverse[u, v]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_trw_on_a_grid_is_an_upper_bound_that_optimising_lowers() -> None:
    cards, factors = random_grid(np.random.default_rng(21), 4, 2)
    graph = graph_of(cards, factors)
    r = vs.infer(graph, method="trw")
    assert r.converged
    assert "upper bound" in r.reason
    better = vs.infer(graph, method=vs.TRW(optimise=10))
    assert vs.infer(graph).log_z < better.log_z < r.log_z


def test_optimising_never_makes_the_bound_larger() -> None:
    """A step of the conditional gradient may; the smallest bound is returned, with its beliefs."""
    larger = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        graph = vs.FactorGraph([2, 3, 2])
        for a, b in ((0, 1), (1, 2), (0, 2)):
            graph.add((a, b), rng.normal(size=(graph.cardinalities[a], graph.cardinalities[b])))
        found = [
            vs.infer(graph, method=vs.TRW(optimise=steps, tolerance=1e-10, max_iterations=20_000))
            for steps in range(4)
        ]
        assert all(r.converged for r in found)
        bounds = [r.log_z for r in found]
        assert bounds == sorted(bounds, reverse=True)
        for before, after in itertools.pairwise(found):
            if after.log_z == before.log_z:
                larger += 1
                np.testing.assert_array_equal(after[1], before[1])
                np.testing.assert_array_equal(after.residuals, before.residuals)
        joint = found[-1].joint((0, 1))  # of the messages and the probabilities that are returned
        np.testing.assert_allclose(joint.sum(axis=1), found[-1][0], atol=1e-6)
        np.testing.assert_allclose(joint.sum(axis=0), found[-1][1], atol=1e-6)
    assert larger > 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([0.5], r"must have shape \(2,\)"),
        ([1.0, 0.0], r"edge_probabilities\[1\] is 0"),
    ],
)
def test_bad_edge_probabilities(given: list[float], words: str) -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.0, 1.0])
    graph.add((0, 1), np.eye(2))
    with pytest.raises(ValueError, match=words):
        vs.infer(graph, method=vs.TRW(edge_probabilities=given))


def test_forests_are_drawn_once_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    cards, factors = random_grid(np.random.default_rng(1), 4, 2)
    graph = graph_of(cards, [*factors, ((0, 1, 4), np.zeros((2, 2, 2)))])
    drawn, cover = [], _spanning.cover

    def counted(network: Network, least: int, seed: int, watch: Any) -> list[np.ndarray]:
        drawn.append(seed)
        return cover(network, least, seed, watch)

    monkeypatch.setattr(_spanning, "cover", counted)
    found = [vs.infer(graph, method=vs.TRW(seed=seed)).log_z for seed in (1, 1, 2, 2, 1)]
    assert drawn == [1, 2, 1]
    assert found[0] == found[1] == found[4] != found[2] == found[3]
