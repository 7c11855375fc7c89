"""Preconditioner bounds (RL05) against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from bound_models import pairwise_model
from graph_oracle import graph_of, log_joint, log_sum, marginal, probabilities

import valuesparse as vs
from valuesparse.bounds._quadratic import Quadratic, helmert, interaction, shift
from valuesparse.bounds._support_tree import schur, support_tree

KINDS = ["spanning_tree", "support_tree", "sparsifier"]


def hold(seed: int, most: int = 8) -> None:
    """Check every kind on one random model: log Z, and the probability of an event."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 3]
    cards = "binary" if rng.random() < 0.6 else "equal" if kind == "support_tree" else "mixed"
    k, factors = pairwise_model(rng, most, cards=cards)
    full = log_joint(k, factors, {})
    exact = log_sum(full)
    b = vs.bounds.preconditioner(graph_of(k, factors), kind, width=2)
    assert np.isfinite([b.lower, b.upper]).all()
    assert b.lower <= exact <= b.upper
    chosen = rng.choice(len(k), int(rng.integers(1, min(3, len(k)) + 1)), replace=False)
    event = {int(v): int(rng.integers(k[v])) for v in chosen}
    low, high = b.event(event)
    p = marginal(probabilities(full), list(event))[tuple(event.values())]
    assert 0.0 <= low <= p * (1 + 1e-12)
    assert p * (1 - 1e-12) <= high <= 1.0


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold(seed: int) -> None:
    hold(seed, 7)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_bounds_hold_10000(block: int) -> None:
    for seed in range(1000 + 100 * block, 1000 + 100 * (block + 1)):
        hold(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_condition_holds_for_every_configuration(kind: str) -> None:
    # Eq. 6, not only its consequence: each bounding model bounds every score.
    rng = np.random.default_rng(5)
    k, factors = pairwise_model(rng, 7)
    graph = graph_of(k, factors)
    full = log_joint(k, factors, {})
    b = vs.bounds.preconditioner(graph, kind)
    for sign, model in zip((-1, 1), b._sides, strict=True):
        tables = [((v,), u) for v, u in enumerate(model.unary)] + list(model.tables)
        scores = log_joint([len(u) for u in model.unary], tables, {})
        hidden = tuple(range(len(k), scores.ndim))
        top = scores.max(axis=hidden, keepdims=True)
        own = np.log(np.exp(scores - top).sum(axis=hidden)) + top.reshape(full.shape)
        assert (sign * (own + model.constant - full) >= -model.margin - 1e-9).all()


@pytest.mark.smoke
def test_exact_where_the_graph_is_the_preconditioner() -> None:
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([3, 2, 4])
    graph.add((0, 1), rng.normal(size=(3, 2)))
    graph.add((2, 1), rng.normal(size=(4, 2)))
    exact = float(vs.infer(graph).log_z)
    b = vs.bounds.preconditioner(graph)
    assert b.edges == ((0, 1), (1, 2))
    assert b.upper - b.lower < 1e-6
    assert b.lower <= exact <= b.upper


@pytest.mark.parametrize("seed", range(6))
def test_a_sparsifier_tightens_both_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    side = 4 + seed % 3
    low, high = [(-1, 1), (0, 1), (-1, 0)][seed % 3]
    graph = vs.FactorGraph([2] * side * side)
    for i in range(side * side):
        if seed >= 3:
            graph.add([i], [0.0, rng.normal()])
        for j in [i + 1] * (i % side < side - 1) + [i + side] * (i + side < side * side):
            graph.add((i, j), rng.uniform(low, high) * np.eye(2))
    exact = float(vs.infer(graph).log_z)
    tree = vs.bounds.preconditioner(graph)
    more = vs.bounds.preconditioner(graph, "sparsifier", width=3)
    assert tree.lower < more.lower <= exact <= more.upper < tree.upper
    assert more.upper - more.lower < 0.9 * (tree.upper - tree.lower)
    assert len(more.edges) > len(tree.edges) == side * side - 1
    inside = vs.infer(graph).joint([0, 1])[1, 0]
    assert tree.event({0: 1, 1: 0})[0] <= inside <= tree.event({0: 1, 1: 0})[1]
    assert more.event({0: 1, 1: 0})[0] <= inside <= more.event({0: 1, 1: 0})[1]


@pytest.mark.smoke
def test_marginals_and_evidence() -> None:
    graph = vs.FactorGraph([2, 2, 2], names=["a", "b", "c"], states=[["no", "yes"]] * 3)
    for pair in (("a", "b"), ("b", "c"), ("a", "c")):
        graph.add(pair, [[0.5, 0.0], [-0.2, 0.7]])
    graph.set_evidence({"a": "yes"})
    b = vs.bounds.preconditioner(graph)
    r = vs.infer(graph)
    assert b.lower <= float(r.log_z) <= b.upper
    lower, upper = b.marginals()
    for v in range(3):
        assert (lower[v] <= r.marginals[v] + 1e-12).all()
        assert (upper[v] >= r.marginals[v] - 1e-12).all()
    assert b.event({"a": "no"}) == (0.0, 0.0)
    assert b.event({"a": "yes"}) == (1.0, 1.0)
    assert b.event({}) == (1.0, 1.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_any_size(kind: str, scale: float) -> None:
    rng = np.random.default_rng(3)
    k, factors = [2] * 5, []
    for i in range(5):
        for j in range(i):
            factors.append(((j, i), rng.normal(0.0, scale, (2, 2))))
    exact = log_sum(log_joint(k, factors, {}))
    b = vs.bounds.preconditioner(graph_of(k, factors), kind)
    assert np.isfinite([b.lower, b.upper]).all()
    assert b.lower <= exact <= b.upper


@pytest.mark.parametrize("k", [1, 2, 5])
def test_helmert_is_a_basis_of_what_sums_to_zero(k: int) -> None:
    h = helmert(k)
    np.testing.assert_allclose(h.T @ h, np.eye(k - 1), atol=1e-15)
    np.testing.assert_allclose(h.sum(axis=0), 0.0, atol=1e-15)


def test_the_shift_is_enough_and_not_more() -> None:
    rng = np.random.default_rng(2)
    target = rng.normal(size=(6, 6))
    target += target.T
    d = rng.uniform(0.5, 2.0, 6)
    t, lack = shift(target, [], d)
    least = np.linalg.eigvalsh((t + lack) * np.diag(d) - target).min()
    assert abs(least) < 1e-12
    assert 0.0 < lack < 1e-10


def test_gershgorin_above_the_dense_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valuesparse.bounds._quadratic.DENSE", 2)
    rng = np.random.default_rng(4)
    target = rng.normal(size=(6, 6))
    target += target.T
    t, _ = shift(target, [], np.ones(6))
    assert np.linalg.eigvalsh(t * np.eye(6) - target).min() >= 0.0


def test_steiner_nodes_are_eliminated_as_by_a_schur_complement() -> None:
    rng = np.random.default_rng(6)
    w = rng.uniform(size=(7, 7)) * (rng.random((7, 7)) < 0.6)
    w = np.triu(w, 1) + np.triu(w, 1).T
    parent, weight = support_tree(w)
    size = len(parent)
    full = np.zeros((size, size))
    for v, up in enumerate(parent):
        if up >= 0:
            full[[v, up], [v, up]] += weight[v]
            full[v, up] -= weight[v]
            full[up, v] -= weight[v]
    a, b, c = full[:7, :7], full[:7, 7:], full[7:, 7:]
    np.testing.assert_allclose(schur(7, parent, weight), a - b @ np.linalg.pinv(c) @ b.T, atol=1e-9)


def test_interaction_is_centred() -> None:
    table = np.random.default_rng(7).normal(size=(3, 4))
    kernel, rows, columns = interaction(table)
    np.testing.assert_allclose(kernel + rows[:, None] + columns, table)
    np.testing.assert_allclose(kernel.sum(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(kernel.sum(axis=1), 0.0, atol=1e-14)


def test_moduli_make_edges_semidefinite() -> None:
    kernel, _, _ = interaction(np.random.default_rng(8).normal(size=(3, 4)))
    q = Quadratic([3, 4], [(0, 1)], [kernel])
    w, g = q.matrices(np.ones(1, dtype=bool))
    assert np.linalg.eigvalsh(g + w).min() > -1e-12
    assert np.linalg.eigvalsh(g - w).min() > -1e-12


@pytest.mark.parametrize("field", [600.0, 720.0, 2000.0, 1e6])
def test_events_next_to_impossible(field: float) -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add((0,), [0.0, field])
    graph.add((0, 1), [[0.0, 0.3], [0.1, 0.0]])
    b = vs.bounds.preconditioner(graph)
    # exp(-field), or 0 where even that is below the smallest number
    truth = np.exp(-field) * (1.0 + np.exp(0.3)) / (1.0 + np.exp(0.1))
    low, high = b.event({0: 0})
    assert 0.0 <= low <= truth <= high < 1e-200
    low, high = b.event({0: 1})
    assert 1.0 - 1e-9 < low <= 1.0 == high


def test_no_edges_no_variables() -> None:
    graph = vs.FactorGraph([2, 3])
    graph.add((1,), [0.0, 1.0, 2.0])
    exact = float(vs.infer(graph).log_z)
    for kind in ["spanning_tree", "sparsifier"]:
        b = vs.bounds.preconditioner(graph, kind)
        assert b.lower <= exact <= b.upper
        assert b.upper - b.lower < 1e-6
    for kind in KINDS:
        b = vs.bounds.preconditioner(vs.FactorGraph([]), kind)
        assert b.lower <= 0.0 <= b.upper


def test_refusals() -> None:
    graph = vs.FactorGraph([2, 2, 3])
    graph.add((0, 1), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="kind must be one of spanning_tree"):
        vs.bounds.preconditioner(graph, "best")
    with pytest.raises(ValueError, match="width must be an integer >= 1, got 0"):
        vs.bounds.preconditioner(graph, "sparsifier", width=0)
    with pytest.raises(ValueError, match=r"equal cardinality, got \[2, 3\]"):
        vs.bounds.preconditioner(graph, "support_tree")
    with pytest.raises(TypeError, match=r"must be a valuesparse\.FactorGraph, got list"):
        vs.bounds.preconditioner([])
    with pytest.raises(ValueError, match=r"states\[0\] must be one state"):
        vs.bounds.preconditioner(graph).event({0: [0.0, -1.0]})
    with pytest.raises(ValueError, match=r"states\[0\]: variable 0 has no state 9"):
        vs.bounds.preconditioner(graph).event({0: 9})
    graph.add((0, 2), np.full((2, 3), -np.inf))
    with pytest.raises(ValueError, match="factor 1 has an entry of -inf"):
        vs.bounds.preconditioner(graph)
    graph = vs.FactorGraph([2, 2, 2])
    graph.add((0, 1, 2), np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="factor 0 has 3 variables"):
        vs.bounds.preconditioner(graph)
    graph = vs.FactorGraph([2, 2, 2])
    graph.add(vs.factors.Or(0, 1, 2))
    with pytest.raises(ValueError, match="factor 0, an Or over 3 variables, has 3 variables"):
        vs.bounds.preconditioner(graph)
    graph = vs.FactorGraph([2, 2])
    graph.add(vs.factors.Xor(0, 1))
    with pytest.raises(ValueError, match=r"factor 0, an? Xor over 2 variables, has an entry"):
        vs.bounds.preconditioner(graph)
