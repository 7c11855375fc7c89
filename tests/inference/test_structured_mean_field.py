"""Mean field from a given start, and structured mean field: bounds, and steps that only climb."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from graph_files import DATA
from graph_oracle import Factors, graph_of, log_joint, log_sum, marginal, probabilities
from loopy_oracle import (
    libdai,
    random_graph,
    random_grid,
    random_tree,
)

import valuesparse as vs
from valuesparse.inference._network import Network

pytestmark = pytest.mark.simd


@pytest.mark.parametrize("known", [{}, {4: 1}])
def test_mean_field_begins_where_it_is_told(known: dict[int, int]) -> None:
    cards, factors = random_grid(np.random.default_rng(23), 5, 2)
    graph = graph_of(cards, factors)
    first = vs.infer(graph, method=vs.MeanField(tolerance=1e-9))
    again = vs.infer(graph, method=vs.MeanField(start=pickle.loads(pickle.dumps(first))))
    assert again.iterations == 1
    assert again.log_z == pytest.approx(first.log_z, abs=1e-9)
    exact = vs.infer(graph, evidence=known)
    held = vs.infer(graph, method=vs.MeanField(start=exact), evidence=known)
    cold = vs.infer(graph, method="mean_field", evidence=known)
    assert held.log_z <= exact.log_z
    assert held.stats["messages"] <= cold.stats["messages"]
    with pytest.raises(ValueError, match="start must be a result of a graph with the same"):
        vs.infer(vs.FactorGraph([2, 3]), method=vs.MeanField(start=first))


def test_a_start_that_mean_field_cannot_leave_is_not_the_only_one() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add((0, 1), [[0.0, -np.inf], [-np.inf, 1.0]])
    free = vs.infer(vs.FactorGraph([2, 2]))
    r = vs.infer(graph, method=vs.MeanField(start=free))
    assert r.log_z == vs.infer(graph, method="mean_field").log_z > -np.inf


def test_mean_field_is_a_fixed_point() -> None:
    cards, factors = random_grid(np.random.default_rng(22), 4, 3)
    r = vs.infer(graph_of(cards, factors), method=vs.MeanField(tolerance=1e-12))
    assert r.converged
    full = log_joint(cards[:0], [], {})
    assert full.shape == ()
    for v in range(len(cards)):
        score = np.zeros(cards[v])
        for scope, table in factors:
            if v in scope:
                for state in np.ndindex(table.shape):
                    others = [
                        r.marginals[u][x] for u, x in zip(scope, state, strict=True) if u != v
                    ]
                    score[state[scope.index(v)]] += np.prod(others) * table[state]
        expected = np.exp(score - score.max())
        np.testing.assert_allclose(r.marginals[v], expected / expected.sum(), atol=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_structured_mean_field_bounds(seed: int) -> None:
    """Exact without cycles, below log Z always, and never below naive mean field."""
    rng = np.random.default_rng(seed)
    without_cycles = seed % 3 == 0
    cards, factors = random_tree(rng, zeros=False) if without_cycles else random_graph(rng)
    exact = log_sum(log_joint(cards, factors, {}))
    graph = graph_of(cards, factors)
    try:
        r = vs.infer(graph, method="structured_mean_field")
    except vs.InfeasibleError:
        assert exact == -np.inf
        return
    naive = vs.infer(graph, method="mean_field")
    assert r.method == "structured_mean_field"
    assert r.log_z <= exact
    assert r.log_z >= naive.log_z - 1e-9 * max(1.0, abs(naive.log_z)) or naive.log_z == -np.inf
    if without_cycles:
        assert r.log_z == pytest.approx(exact, rel=1e-9, abs=1e-9)
        p = probabilities(log_joint(cards, factors, {}))
        for v in range(len(cards)):
            np.testing.assert_allclose(r.marginals[v], marginal(p, [v]), atol=1e-8)
    for (scope, _), found in zip(factors, r.factor_marginals(), strict=True):
        for axis, v in enumerate(scope):
            rest = tuple(a for a in range(len(scope)) if a != axis)
            np.testing.assert_allclose(found.sum(axis=rest), r.marginals[v], atol=1e-12)


def distribution(cards: list[int], r: vs.GraphResult) -> np.ndarray:
    """The distribution of a result of structured mean field, by listing all configurations."""
    field = r.state
    nodes = np.split(field.node, np.cumsum(cards)[:-1])
    own: Factors = [((v,), p) for v, p in enumerate(nodes)]
    for scope, table in field.factors():
        own.append((scope, table.reshape([cards[v] for v in scope])))
    return probabilities(log_joint(cards, own, {}))


def free_energy(cards: list[int], factors: Factors, q: np.ndarray) -> float:
    full = log_joint(cards, factors, {})
    live = q > 0
    return float((q[live] * (full[live] - np.log(q[live]))).sum())


@pytest.mark.parametrize("seed", range(12))
def test_structured_mean_field_is_worth_what_it_says(seed: int) -> None:
    """And no step of its parameters is better: the derivative vanishes."""
    rng = np.random.default_rng(seed)
    cards, factors = random_grid(rng, 3, 2, 1.0)
    if seed % 2:
        factors += [((0, 4, 8), rng.normal(0.0, 0.5, (2, 2, 2)))]
    r = vs.infer(
        graph_of(cards, factors), method=vs.StructuredMeanField(tolerance=1e-9, max_iterations=5000)
    )
    q = distribution(cards, r)
    for v in range(len(cards)):
        np.testing.assert_allclose(r.marginals[v], marginal(q, [v]), atol=1e-10)
    for (scope, _), found in zip(factors, r.factor_marginals(), strict=True):
        if len(scope) == 2:
            np.testing.assert_allclose(found, marginal(q, list(scope)), atol=1e-10)
    assert r.log_z == pytest.approx(free_energy(cards, factors, q), abs=1e-9)
    step = 1e-4
    for where in (r.state.node, r.state.table):
        for i, kept in enumerate(where.tolist()):
            ends = []
            for sign in (1, -1):
                where[i] = kept + sign * step
                ends.append(free_energy(cards, factors, distribution(cards, r)))
            where[i] = kept
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(0.0, abs=1e-6)


def test_structured_mean_field_climbs_from_its_start() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        cards, factors = random_grid(rng, 4, 2, 1.5)
        graph = graph_of(cards, factors)
        pairs = [f for f in range(len(factors)) if len(factors[f][0]) == 2]
        tree = vs.FactorGraph(cards)
        network = Network(graph)
        for g in network.forest(rng.permutation(len(pairs))):
            tree.add(network.scope(int(g)), rng.normal(0.0, 1.0, (2, 2)))
        for v in range(16):
            tree.add([v], rng.normal(0.0, 1.0, 2))
        exact = vs.infer(tree)
        last = -np.inf
        for steps in (1, 2, 5, 50):
            r = vs.infer(graph, method=vs.StructuredMeanField(start=exact, max_iterations=steps))
            assert r.log_z >= last - 1e-9
            last = r.log_z
        # The value of the start itself: E_q[score] + H(q).
        score = sum(
            float((found * table).sum())
            for (_, table), found in zip(
                factors, [exact.joint(list(s)) for s, _ in factors], strict=True
            )
        )
        entropy = exact.log_z - sum(
            float((found * factor.log_table).sum())
            for factor, found in zip(tree.factors, exact.factor_marginals(), strict=True)
        )
        own = vs.infer(graph, method=vs.StructuredMeanField(start=exact, max_iterations=1))
        assert own.log_z >= score + entropy - 1e-9
        more = vs.infer(graph, method=vs.StructuredMeanField(start=r))
        assert more.log_z >= r.log_z - 1e-9
        naive = vs.infer(graph, method="mean_field")
        again = vs.infer(graph, method=vs.StructuredMeanField(start=naive))
        assert again.log_z >= naive.log_z - 1e-9
        revived = pickle.loads(pickle.dumps(more))
        assert (
            revived.factor_marginals()[pairs[0]].tolist()
            == more.factor_marginals()[pairs[0]].tolist()
        )


def test_structured_mean_field_is_told_what_is_wrong() -> None:
    cards, factors = random_grid(np.random.default_rng(0), 3, 2)
    graph = graph_of(cards, factors)
    cyclic = vs.infer(graph)
    field = vs.StructuredMeanField
    with pytest.raises(ValueError, match="without cycles"):
        vs.infer(graph, method=field(start=cyclic))
    with pytest.raises(ValueError, match="got one of method 'bp'"):
        vs.infer(graph, method=field(start=vs.infer(graph, method="bp")))
    with pytest.raises(ValueError, match="the same variables"):
        vs.infer(graph, method=field(start=vs.infer(vs.FactorGraph([2, 3]))))
    other = vs.FactorGraph(cards)
    other.add((0, 8), np.eye(2))
    with pytest.raises(ValueError, match=r"variables \[0, 8\], and the graph has none"):
        vs.infer(graph, method=field(start=vs.infer(other)))
    hard = graph_of(*random_grid(np.random.default_rng(14), 40, 3, 4.0))
    with pytest.raises(vs.DeadlineError):
        vs.infer(hard, deadline=0.05, method=field(restarts=0))
    known = vs.infer(graph, evidence={0: 1}, method=field())
    assert known.marginals[0].tolist() == [0.0, 1.0]
    assert known.log_z <= vs.infer(graph, evidence={0: 1}).log_z


def test_what_libdai_reports_for_mean_field() -> None:
    expected = libdai()
    graph = vs.read_uai(DATA / "loopy" / "libdai_testfast.uai")
    exact = vs.infer(graph).log_z
    r = vs.infer(graph, method=vs.MeanField(tolerance=1e-12))
    np.testing.assert_allclose([p[1] for p in r.marginals], expected["MF"], atol=1e-4)
    assert r.log_z - exact == pytest.approx(-1.235, abs=1e-3)
    structured = vs.infer(graph, method="structured_mean_field")
    assert r.log_z <= structured.log_z <= exact


def test_evidence_is_one_hot_to_the_bit() -> None:
    rng = np.random.default_rng(14)
    for _ in range(20):
        graph = vs.FactorGraph([2, 3, 2])
        for a, b in ((0, 1), (1, 2), (2, 0)):
            graph.add([a, b], rng.normal(size=(graph.cardinalities[a], graph.cardinalities[b])))
        r = vs.infer(graph, method="structured_mean_field", evidence={1: 2})
        assert r.marginals[1].tolist() == [0.0, 0.0, 1.0]


def test_features_within_a_structured_factor() -> None:
    """Expectations and gains ask the distribution for joints of two of its variables."""
    rng = np.random.default_rng(5)
    for other in (vs.factors.Or(2, 3, 4), None):
        graph = vs.FactorGraph([2] * 5)
        graph.add_many(np.arange(5)[:, None], rng.normal(size=(5, 2)))
        graph.add(vs.factors.Xor(0, 1, 2))
        if other is not None:
            graph.add(other)
        base = range(graph.n_factors)
        pairs = [([0, 1], [1, 0]), ([0, 2], [0, 0]), ([3, 4], [1, 1])]
        added = [graph.add_feature(pair, fires, 0.7) for pair, fires in pairs]
        for r in (
            vs.infer(graph, method="structured_mean_field"),
            vs.infer(graph, method="structured_mean_field", factors=base),
        ):
            again = pickle.loads(pickle.dumps(r))
            q = vs.infer(r.state.graph(graph), method="junction_tree")
            expected = [q.joint(pair)[tuple(fires)] for pair, fires in pairs]
            np.testing.assert_allclose(r.expectations(), expected, atol=1e-9)
            np.testing.assert_array_equal(again.expectations(), r.expectations())
        mass = np.log1p(np.array(expected) * np.expm1(0.7)) - 0.7 * np.array(expected)
        np.testing.assert_allclose(vs.gain(graph, added, r), mass, atol=1e-9)


def test_the_forest_that_a_graph_keeps_is_that_of_no_evidence() -> None:
    """Whatever was asked before, answers are those of a new graph."""
    cards, factors = random_grid(np.random.default_rng(29), 5, 2)
    questions = [{}, {0: 1, 7: 0}, {}, {12: [0.9, 0.1]}, {3: 1}, {}]
    parts = [None, list(range(0, len(factors), 2))]
    graph = graph_of(cards, factors)
    for known in questions:
        for part in parts:
            ask = {"method": "structured_mean_field", "factors": part}
            ask["evidence"] = {v: k for v, k in known.items() if isinstance(k, int)}
            ask["likelihood"] = {v: k for v, k in known.items() if not isinstance(k, int)}
            r, new = (vs.infer(g, **ask) for g in (graph, graph_of(cards, factors)))
            assert r.log_z == new.log_z
            for one, other in zip(r.marginals, new.marginals, strict=True):
                assert one.tobytes() == other.tobytes()
