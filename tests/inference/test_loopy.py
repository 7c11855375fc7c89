"""Loopy belief propagation against enumeration and an implementation that enumerates messages."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from checks import METHODS, method_of
from graph_files import DATA
from graph_oracle import Factors, graph_of, log_joint, log_sum, marginal, probabilities

import valuesparse as vs
from valuesparse.inference import _spanning, trw_dual_bound
from valuesparse.inference._network import Network
from valuesparse.inference._watch import NOBODY

pytestmark = pytest.mark.simd

#: A fixed point to the last digit, and how many iterations one may take.
SHARP = {"tolerance": 1e-13, "max_iterations": 5000}


def random_tree(rng: np.random.Generator, zeros: bool = True) -> tuple[list[int], Factors]:
    """A factor graph without cycles, scopes of 1 to 3, zeros, scores of very different size."""
    n = int(rng.integers(1, 8))
    cards = [int(c) for c in rng.integers(1, 5, n)]
    scale = float(rng.choice([1.0, 3.0, 3000.0]))
    factors: Factors = [((v,), rng.normal(0.0, scale, cards[v])) for v in range(n)]
    v = 1
    while v < n:
        scope = [int(rng.integers(v)), v]
        v += 1
        if v < n and rng.random() < 0.4:
            scope.append(v)
            v += 1
        scope = [int(u) for u in rng.permutation(scope)]
        table = rng.normal(0.0, scale, [cards[u] for u in scope])
        if zeros and rng.random() < 0.4:
            table = np.where(rng.random(table.shape) < 0.3, -np.inf, table)
        factors.append((tuple(scope), table))
    return cards, factors


def random_grid(
    rng: np.random.Generator, side: int, states: int, strength: float = 0.7
) -> tuple[list[int], Factors]:
    factors: Factors = []
    for v in range(side * side):
        factors.append(((v,), rng.normal(0.0, 1.0, states)))
        if v % side:
            factors.append(((v - 1, v), rng.normal(0.0, strength, (states, states))))
        if v >= side:
            factors.append(((v, v - side), rng.normal(0.0, strength, (states, states))))
    return [states] * (side * side), factors


def enumerated_bp(
    cards: list[int], factors: Factors, iterations: int = 1000
) -> tuple[list[np.ndarray], float]:
    """Beliefs and Bethe free energy; every message by a loop over all entries of a table."""
    edges = [(f, i) for f, (scope, _) in enumerate(factors) for i in range(len(scope))]
    down = {(f, i): np.ones(cards[factors[f][0][i]]) for f, i in edges}
    at = [[(f, i) for f, i in edges if factors[f][0][i] == v] for v in range(len(cards))]
    up = dict(down)
    for _ in range(iterations):
        for f, i in edges:
            v = factors[f][0][i]
            others = [down[e] for e in at[v] if e != (f, i)]
            up[f, i] = np.prod(others, axis=0) * np.ones(cards[v])
            up[f, i] /= up[f, i].sum()
        change = 0.0
        for f, i in edges:
            scope, table = factors[f]
            new = np.zeros(cards[scope[i]])
            for state in itertools.product(*(range(cards[v]) for v in scope)):
                w = np.exp(table[state])
                for j, x in enumerate(state):
                    if j != i:
                        w *= up[f, j][x]
                new[state[i]] += w
            new /= new.sum()
            change = max(change, abs(new - down[f, i]).max())
            down[f, i] = new
        if change < 1e-15:
            break
    beliefs = []
    for v in range(len(cards)):
        b = np.prod([down[e] for e in at[v]], axis=0) * np.ones(cards[v])
        beliefs.append(b / b.sum())
    energy = 0.0
    for f, (scope, table) in enumerate(factors):
        b = np.exp(table)
        for i, v in enumerate(scope):
            b = b * up[f, i].reshape([-1 if j == i else 1 for j in range(len(scope))])
            assert v < len(cards)
        b = b / b.sum()
        live = b > 0
        energy += float((b[live] * (table[live] - np.log(b[live]))).sum())
    for v, b in enumerate(beliefs):
        live = b > 0
        energy += (len(at[v]) - 1) * float((b[live] * np.log(b[live])).sum())
    return beliefs, energy


def merged(factors: Factors) -> Factors:
    """Tables of the same variables summed up."""
    found: dict[tuple[int, ...], np.ndarray] = {}
    for scope, table in factors:
        key = tuple(sorted(scope))
        found[key] = found.get(key, 0.0) + table.transpose([scope.index(v) for v in key])
    return list(found.items())


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(200))
def test_exact_without_cycles(seed: int) -> None:
    cards, factors = random_tree(np.random.default_rng(seed))
    full = log_joint(cards, factors, {})
    graph = graph_of(cards, factors)
    if full.max() == -np.inf:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(graph, method="bp")
        return
    r = vs.infer(graph, method="bp")
    assert r.converged
    assert r.residuals[-1] < 1e-9
    expected = log_sum(full)
    assert abs(r.log_z - expected) <= 1e-10 * max(1.0, abs(expected))
    p = probabilities(full)
    for v in range(len(cards)):
        np.testing.assert_allclose(r.marginals[v], marginal(p, [v]), atol=1e-10)
    for f, (scope, _) in enumerate(factors):
        found = r.factor_marginals()[f]
        np.testing.assert_allclose(found, marginal(p, list(scope)), atol=1e-10)


@pytest.mark.parametrize(("side", "states", "seed"), [(4, 2, 0), (3, 3, 1), (4, 2, 2), (3, 4, 3)])
def test_fixed_points_of_grids(side: int, states: int, seed: int) -> None:
    cards, factors = random_grid(np.random.default_rng(seed), side, states)
    beliefs, energy = enumerated_bp(cards, factors)
    r = vs.infer(graph_of(cards, factors), method=vs.BP(**SHARP))
    assert r.converged
    assert r.log_z == pytest.approx(energy, abs=1e-8)
    for got, want in zip(r.marginals, beliefs, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_fixed_points_with_wide_scopes_and_zeros(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards = [int(c) for c in rng.integers(2, 4, 6)]
    factors: Factors = [((v,), rng.normal(0.0, 0.5, cards[v])) for v in range(6)]
    for size in (2, 2, 3, 3, 4):
        scope = tuple(int(v) for v in rng.permutation(6)[:size])
        table = rng.normal(0.0, 0.5, [cards[v] for v in scope])
        table[rng.random(table.shape) < 0.1] = -np.inf
        factors.append((scope, table))
    beliefs, energy = enumerated_bp(cards, merged(factors))
    r = vs.infer(graph_of(cards, factors), method=vs.BP(**SHARP))
    assert r.converged
    assert r.log_z == pytest.approx(energy, abs=1e-8)
    for got, want in zip(r.marginals, beliefs, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.parametrize("method", ["bp", "trw"])
def test_tables_of_one_set_of_variables_are_one(method: str) -> None:
    """Without cycles but for those, the answer is exact."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cards, factors = random_tree(rng, zeros=False)
        for scope, table in list(factors):
            if len(scope) > 1 and rng.random() < 0.7:
                axes = rng.permutation(len(scope))
                again = rng.normal(0.0, 1.0, table.shape)
                factors.append((tuple(scope[a] for a in axes), again.transpose(axes)))
        full = log_joint(cards, factors, {})
        graph = graph_of(cards, factors)
        r = vs.infer(graph, method=method_of(method, **SHARP))
        expected = log_sum(full)
        assert r.converged
        assert abs(r.log_z - expected) <= 1e-9 * max(1.0, abs(expected))
        p = probabilities(full)
        for (scope, _), found in zip(factors, r.factor_marginals(), strict=True):
            np.testing.assert_allclose(found, marginal(p, list(scope)), atol=1e-8)
        again = vs.infer(graph_of(cards, factors[::-1]), method=method_of(method, start=r, **SHARP))
        assert again.converged
        assert again.log_z == pytest.approx(r.log_z, rel=1e-9)


@pytest.mark.parametrize("method", ["bp", "trw", "junction_tree"])
def test_factor_marginals_are_derivatives_of_log_z(method: str) -> None:
    """By every entry of every table: the Bethe, the reweighted and the exact one."""
    cards, factors = random_grid(np.random.default_rng(5), 3, 2)
    asked = method if method == "junction_tree" else method_of(method, **SHARP)
    r = vs.infer(graph_of(cards, factors), method=asked)
    step = 1e-5
    for f, found in enumerate(r.factor_marginals()):
        for entry in np.ndindex(found.shape):
            ends = []
            for sign in (1, -1):
                moved = [(s, t.copy()) for s, t in factors]
                moved[f][1][entry] += sign * step
                ends.append(vs.infer(graph_of(cards, moved), method=asked).log_z)
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(found[entry], abs=1e-6)


@pytest.mark.parametrize("method", ["bp", "trw", "structured_mean_field"])
def test_log_z_is_the_expected_score_and_the_entropy(method: str) -> None:
    """For tables of the same variables, too, in any order of theirs and among others."""
    cards, factors = random_grid(np.random.default_rng(21), 3, 2)
    factors = [((1, 0), np.eye(2)), *factors, ((0, 1), -np.eye(2))]
    factors += [((4, 1, 0), np.arange(8.0).reshape(2, 2, 2) / 9), ((0, 4, 1), np.zeros((2, 2, 2)))]
    r = vs.infer(graph_of(cards, factors), method=method_of(method, tolerance=1e-12))
    assert r.converged
    for result in (r, pickle.loads(pickle.dumps(r))):
        beliefs = result.factor_marginals()
        score = sum((p * t).sum() for p, (_, t) in zip(beliefs, factors, strict=True))
        assert result.log_z == pytest.approx(score + result.entropy(), abs=1e-8)


def test_damping_reaches_the_same_fixed_point() -> None:
    cards, factors = random_grid(np.random.default_rng(6), 5, 3)
    graph = graph_of(cards, factors)
    plain = vs.infer(graph, method=vs.BP(**SHARP))
    damped = vs.infer(graph, method=vs.BP(damping=0.5, **SHARP))
    assert damped.iterations > plain.iterations
    assert damped.log_z == pytest.approx(plain.log_z, abs=1e-9)


def test_zeros_stay_exact_under_damping() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    for edge in [(0, 1), (1, 2), (0, 2)]:
        graph.add(edge, [[0.3, -np.inf], [-np.inf, 0.0]])
    graph.add([0], [0.0, -np.inf])
    r = vs.infer(graph, method=vs.BP(damping=0.9))
    assert [m.tolist() for m in r.marginals] == [[1.0, 0.0]] * 3


@pytest.mark.parametrize("scale", [1.0, 10_000.0])
def test_never_nan(scale: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cards, factors = random_grid(rng, 4, 2, scale)
        graph = graph_of(cards, factors)
        r = vs.infer(graph, method=vs.BP(damping=0.3, max_iterations=50))
        assert np.isfinite(r.log_z)
        assert all(np.isfinite(m).all() and abs(m.sum() - 1) < 1e-12 for m in r.marginals)
        assert np.isfinite(r.residuals).all()


@pytest.mark.parametrize("states", [2, 3])
def test_threads_never_show(states: int) -> None:
    cards, factors = random_grid(np.random.default_rng(8), 70, states)
    graph = graph_of(cards, factors)
    first = vs.infer(graph, method=vs.BP(max_iterations=12), threads=1)
    for threads in (2, 3, 8):
        again = vs.infer(graph, method=vs.BP(max_iterations=12), threads=threads)
        assert again.log_z == first.log_z
        np.testing.assert_array_equal(again.residuals, first.residuals)
        for a, b in zip(first.marginals, again.marginals, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("known", [{0: 1}, {4: 0, 5: [0.3, -np.inf]}, {3: [-1.0, 2.0]}])
def test_evidence(known: dict[int, Any]) -> None:
    cards, factors = random_grid(np.random.default_rng(9), 3, 2)
    r = vs.infer(graph_of(cards, factors), method=vs.BP(**SHARP), evidence=known)
    extra = []
    for v, value in known.items():
        row = np.where(np.arange(2) == value, 0.0, -np.inf) if isinstance(value, int) else value
        extra.append(((v,), np.array(row)))
    beliefs, energy = enumerated_bp(cards, factors + extra)
    assert r.log_z == pytest.approx(energy, abs=1e-8)
    for got, want in zip(r.marginals, beliefs, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.smoke
def test_warm_starts() -> None:
    cards, factors = random_grid(np.random.default_rng(10), 6, 2)
    graph = graph_of(cards, factors)
    cold = vs.infer(graph, method="bp")
    assert vs.infer(graph, method=vs.BP(start=cold)).iterations == 1
    held = vs.infer(graph, method=vs.BP(start=cold), evidence={0: 1})
    back = vs.infer(graph, method=vs.BP(start=held, **SHARP), evidence={0: 0})
    fresh = vs.infer(graph, method=vs.BP(**SHARP), evidence={0: 0})
    assert back.log_z == pytest.approx(fresh.log_z, abs=1e-9)
    revived = pickle.loads(pickle.dumps(cold))
    assert revived.log_z == cold.log_z
    more = graph_of(cards, [*factors, ((0, 35), np.eye(2))])
    warm = vs.infer(more, method=vs.BP(start=revived, **SHARP))
    assert warm.log_z == pytest.approx(vs.infer(more, method=vs.BP(**SHARP)).log_z, abs=1e-9)


def test_warm_starts_from_pickled_parts() -> None:
    """Messages are those of the factors that were used, in the graph as it was then."""
    cards, factors = random_grid(np.random.default_rng(10), 5, 2)
    graph = graph_of(cards, factors)
    kept = [f for f, (scope, _) in enumerate(factors) if len(scope) == 1 or f % 3]
    part = vs.infer(graph, method="bp", factors=kept)
    whole = vs.infer(graph, method="bp")
    graph.add((0, 24), np.eye(2))
    graph.add((0, 6, 12), np.zeros((2, 2, 2)))
    revived = pickle.loads(pickle.dumps(part))
    assert vs.infer(graph, method=vs.BP(start=revived), factors=kept).iterations == 1
    for start in (part, whole):
        live = vs.infer(graph, method=vs.BP(start=start))
        again = vs.infer(graph, method=vs.BP(start=pickle.loads(pickle.dumps(start))))
        assert again.log_z == live.log_z
        np.testing.assert_array_equal(again.residuals, live.residuals)


@pytest.mark.parametrize("cards", [[3, 2], [2, 3, 2], [2]])
def test_warm_starts_are_of_the_same_variables(cards: list[int]) -> None:
    graph, other = vs.FactorGraph([2, 3]), vs.FactorGraph(cards)
    graph.add((0, 1), np.zeros((2, 3)))
    start = vs.infer(other, method="bp")
    with pytest.raises(ValueError, match="start must be a result of a graph with the same"):
        vs.infer(graph, method=vs.BP(start=start))


def test_a_stale_zero_is_forgotten() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    for edge in [(0, 1), (1, 2), (0, 2)]:
        graph.add(edge, [[0.0, -np.inf], [-np.inf, 0.0]])
    held = vs.infer(graph, method="bp", evidence={0: 1})
    r = vs.infer(graph, method=vs.BP(start=held), evidence={0: 0})
    assert r.marginals[2].tolist() == [1.0, 0.0]


def test_impossible_is_said() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add((0, 1), [[0.0, -np.inf], [-np.inf, 0.0]])
    with pytest.raises(vs.InfeasibleError, match="agrees with the evidence"):
        vs.infer(graph, method="bp", evidence={0: 0, 1: 1})


def test_joint_knows_scopes_only() -> None:
    cards, factors = random_grid(np.random.default_rng(11), 3, 2)
    r = vs.infer(graph_of(cards, factors), method=vs.BP(**SHARP))
    np.testing.assert_allclose(r.joint([1, 0]), r.joint([0, 1]).T, atol=1e-15)
    np.testing.assert_allclose(r.joint([1, 0]).sum(axis=1), r.marginals[1], atol=1e-9)
    with pytest.raises(ValueError, match=r"no factor has the variables \[0, 8\]"):
        r.joint([0, 8])


def test_auto_ends_in_bp() -> None:
    cards, factors = random_grid(np.random.default_rng(12), 30, 3)
    r = vs.infer(graph_of(cards, factors), memory_limit=1 << 20)
    assert r.method == "bp"
    assert "junction tree" in r.reason
    assert "Bethe" in r.reason
    assert r.converged


def test_what_did_not_converge_says_so() -> None:
    cards, factors = random_grid(np.random.default_rng(13), 4, 2)
    r = vs.infer(graph_of(cards, factors), method=vs.BP(max_iterations=2))
    assert not r.converged
    assert r.iterations == len(r.residuals) == 2
    assert "after 2 iterations" in r.reason


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("bp", {"damping": 1.0}, "damping must lie in"),
        ("bp", {"damping": float("nan")}, "damping must lie in"),
        ("mean_field", {"tolerance": -1.0}, "tolerance must be"),
        ("structured_mean_field", {"max_iterations": 0}, "max_iterations must be"),
        ("trw", {"schedule": "random"}, "schedule must be one of"),
        ("bp", {"schedule": ["tree"]}, "schedule must be one of"),
        ("bp", {"start": 3}, "start must be a result of loopy inference"),
        ("mean_field", {"start": 3}, "start must be a result of a graph, got int"),
        ("trw", {"edge_probabilities": "even"}, "must be 'uniform' or an array"),
        ("trw", {"edge_probabilities": [[0.5]]}, r"must have shape \(factors,\)"),
        ("trw", {"optimise": -1}, "optimise must be an integer"),
        ("trw", {"seed": 1.5}, "seed must be an integer"),
        ("mean_field", {"restarts": -1}, "restarts must be an integer"),
        ("structured_mean_field", {"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_options(name: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        method_of(name, **given)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(vs.BP, "optimise"), (vs.BP, "seed"), (vs.TRW, "restarts"), (vs.MeanField, "damping"),
     (vs.MeanField, "schedule"), (vs.StructuredMeanField, "edge_probabilities")],
)  # fmt: skip
def test_methods_have_their_own_options_only(kind: Any, name: str) -> None:
    with pytest.raises(TypeError, match=name):
        kind(**{name: 1})


def test_methods_are_records() -> None:
    method = vs.TRW(edge_probabilities=np.array([0.5, 1.0]), tolerance=np.float32(0.5))
    assert method == vs.TRW(edge_probabilities=[0.5, 1.0], tolerance=0.5)
    assert method != vs.TRW()
    assert len({method, pickle.loads(pickle.dumps(method))}) == 1
    start = vs.infer(graph_of([2, 2], [((0, 1), np.eye(2))]), method="bp")
    assert vs.BP(start=start) == vs.BP(start=start) != vs.BP()
    assert hash(vs.BP(start=start)) == hash(vs.BP(start=start))
    with pytest.raises(AttributeError):
        method.damping = 0.1  # type: ignore[misc]
    for name, kind in METHODS.items():
        cards, factors = random_grid(np.random.default_rng(3), 3, 2)
        asked = [vs.infer(graph_of(cards, factors), method=m) for m in (name, kind())]
        assert asked[0].method == asked[1].method == name
        assert asked[0].log_z == asked[1].log_z


def test_options_of_the_dual_bound() -> None:
    cards, factors = random_grid(np.random.default_rng(3), 3, 2)
    graph = graph_of(cards, factors)
    exact = vs.infer(graph).log_z
    begun = vs.infer(graph, method=vs.TRW(max_iterations=3))
    for method in (vs.TRW(schedule="residual", max_iterations=2), vs.TRW(start=begun)):
        assert trw_dual_bound(graph, method=method).upper >= exact
    # It begins where `start` ended.
    once = [trw_dual_bound(graph, method=vs.TRW(max_iterations=1, start=r)) for r in (None, begun)]
    assert once[1].upper < once[0].upper
    uniform = np.ones(len(factors))
    with pytest.raises(ValueError, match="edge_probabilities has no meaning in trw_dual_bound"):
        trw_dual_bound(graph, method=vs.TRW(edge_probabilities=uniform))
    with pytest.raises(ValueError, match=r"method must be a valuesparse\.TRW, got BP"):
        trw_dual_bound(graph, method=vs.BP())


def test_options_are_for_graphs() -> None:
    with pytest.raises(ValueError, match="method must be one of auto, exact, islands, got BP"):
        vs.infer(vs.Chain([[0.0, 1.0]], np.eye(2)), method=vs.BP(damping=0.5))


def test_deadline_and_progress() -> None:
    cards, factors = random_grid(np.random.default_rng(14), 60, 3)
    graph = graph_of(cards, factors)
    with pytest.raises(vs.DeadlineError):
        vs.infer(graph, method=vs.BP(tolerance=0.0, max_iterations=10**9), deadline=0.05)
    seen: list[tuple[int, int]] = []
    vs.infer(graph, method=vs.BP(max_iterations=9), progress=lambda a, b: seen.append((a, b)))
    assert all(total == 9 for _, total in seen)


def random_graph(rng: np.random.Generator) -> tuple[list[int], Factors]:
    """Attractive, repulsive, mixed; sometimes zeros, more states and scopes of three."""
    n = int(rng.integers(2, 8))
    cards = [int(c) for c in rng.integers(2, 4, n)]
    scale = float(rng.choice([0.3, 1.0, 3.0]))
    sign = int(rng.integers(3))
    factors: Factors = [((v,), rng.normal(0.0, 1.0, cards[v])) for v in range(n)]
    for _ in range(int(rng.integers(1, 2 * n + 1))):
        size = min(n, 3 if rng.random() < 0.25 else 2)
        scope = tuple(int(v) for v in rng.permutation(n)[:size])
        table = rng.normal(0.0, scale, [cards[v] for v in scope])
        if sign < 2 and size == 2:
            table = (1 - 2 * sign) * abs(table[0, 0]) * np.eye(*table.shape)
        if rng.random() < 0.2:
            table = np.where(rng.random(table.shape) < 0.25, -np.inf, table)
        factors.append((scope, table))
    return cards, factors


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


def wide_and_fast(
    cards: list[int], factors: Factors, method: str, evidence: Any = None, **options: Any
) -> tuple[vs.GraphResult, vs.GraphResult]:
    """Results of the general kernel and of that of binary pairs.

    A constant over three variables keeps the general kernel; its weight is 1.
    """
    known = options.pop("edge_probabilities", None)
    results = []
    for more in ([((0, 1, 2), np.zeros((2, 2, 2)))], []):
        if known is not None:
            options["edge_probabilities"] = np.append(known, np.ones(len(more)))
        asked = method_of(method, **options)
        graph = graph_of(cards, [*factors, *more])
        results.append(vs.infer(graph, method=asked, evidence=evidence))
    return results[0], results[1]


def assert_same(a: vs.GraphResult, b: vs.GraphResult) -> None:
    assert a.log_z == pytest.approx(b.log_z, rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(a.residuals, b.residuals, rtol=1e-6, atol=1e-9)
    for x, y in zip(a.marginals, b.marginals, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-11)


@pytest.mark.parametrize("strength", [0.7, 3.0, 60.0])
@pytest.mark.parametrize("options", [{}, {"damping": 0.3}, {"evidence": {0: 1, 7: 0, 12: [0, -9]}}])
@pytest.mark.parametrize("method", ["bp", "trw"])
def test_one_number_a_message_is_the_same_as_two(
    method: str, options: dict[str, Any], strength: float
) -> None:
    """Plain ratios, log-ratios where scores are large, and infinite fields."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        cards, factors = random_grid(rng, 5, 2, strength)
        if method == "trw":
            options = options | {"edge_probabilities": rng.uniform(0.3, 1.0, len(factors))}
        assert_same(*wide_and_fast(cards, factors, method=method, max_iterations=7, **options))


def test_pairs_in_many_chunks() -> None:
    """More pairs than a chunk takes, in any order, with variables that have none."""
    rng = np.random.default_rng(0)
    cards, factors = random_grid(rng, 70, 2)
    cards += [2, 2]
    factors = [factors[i] for i in rng.permutation(len(factors))]
    assert_same(*wide_and_fast(cards, factors, method="bp", max_iterations=5))


def test_warm_starts_of_pairs_from_zeros() -> None:
    """Messages of minus infinity begin anew."""
    cards, factors = random_grid(np.random.default_rng(1), 4, 2)
    zeros = [(scope, np.where(np.eye(2) > 0, 0.0, -np.inf)) for scope, t in factors if t.ndim == 2]
    held = vs.infer(graph_of(cards, zeros), method="bp", evidence={0: 1})
    graph = graph_of(cards, factors)
    warm = vs.infer(graph, method=vs.BP(start=held, **SHARP))
    assert warm.log_z == pytest.approx(vs.infer(graph, method=vs.BP(**SHARP)).log_z, abs=1e-9)


SCHEDULES = ["flooding", "residual", "rounds", "tree"]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("side", "states"), [(4, 2), (3, 3)])
def test_fixed_points_of_every_schedule(schedule: str, side: int, states: int) -> None:
    cards, factors = random_grid(np.random.default_rng(side), side, states)
    beliefs, energy = enumerated_bp(cards, factors)
    r = vs.infer(graph_of(cards, factors), method=vs.BP(schedule=schedule, **SHARP))
    assert r.converged
    assert r.residuals[-1] <= 1e-13
    assert r.log_z == pytest.approx(energy, abs=1e-8)
    for got, want in zip(r.marginals, beliefs, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-8)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_schedules_of_reweighted_messages(schedule: str, damping: float) -> None:
    for states in (2, 3):
        cards, factors = random_grid(np.random.default_rng(states), 4, states)
        graph = graph_of(cards, factors)
        want = vs.infer(graph, method=vs.TRW(**SHARP))
        got = vs.infer(graph, method=vs.TRW(schedule=schedule, damping=damping, **SHARP))
        assert got.converged
        assert got.log_z == pytest.approx(want.log_z, abs=1e-9)
        for a, b in zip(got.marginals, want.marginals, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
def test_schedules_are_exact_without_cycles(schedule: str) -> None:
    for seed in range(60):
        cards, factors = random_tree(np.random.default_rng(seed))
        full = log_joint(cards, factors, {})
        graph = graph_of(cards, factors)
        if full.max() == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                vs.infer(graph, method=vs.BP(schedule=schedule))
            continue
        once = {"max_iterations": 1} if schedule == "tree" else {}
        r = vs.infer(graph, method=vs.BP(schedule=schedule, **once))
        expected = log_sum(full)
        assert abs(r.log_z - expected) <= 1e-9 * max(1.0, abs(expected))
        p = probabilities(full)
        for v in range(len(cards)):
            np.testing.assert_allclose(r.marginals[v], marginal(p, [v]), atol=1e-9)


def hard_grid(seed: int) -> vs.FactorGraph:
    """Mixed couplings of 30 x 30 binary variables, about as strong as flooding can bear."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2] * 900)
    for v in range(900):
        graph.add([v], rng.normal(0.0, 1.0, 2))
        for u in ([v - 1] if v % 30 else []) + ([v - 30] if v >= 30 else []):
            j = rng.uniform(-1.0, 1.0)
            graph.add([u, v], [[j, -j], [-j, j]])
    return graph


@pytest.mark.parametrize("seed", range(3))
def test_urgent_messages_first_take_fewer(seed: int) -> None:
    """Each message that is computed counts; the same fixed point comes out."""
    graph = hard_grid(seed)
    flooding = vs.infer(graph, method="bp")
    assert flooding.converged
    for schedule, share in (("residual", 0.5), ("rounds", 0.5)):
        r = vs.infer(graph, method=vs.BP(schedule=schedule))
        assert r.converged
        assert r.stats["messages"] <= share * flooding.stats["messages"]
        assert r.log_z == pytest.approx(flooding.log_z, abs=1e-6)
        # No message would move further than the tolerance.
        once = vs.infer(graph, method=vs.BP(start=r, max_iterations=1))
        assert once.residuals[0] <= 1e-6


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("states", [2, 3])
def test_threads_never_show_in_schedules(schedule: str, states: int) -> None:
    cards, factors = random_grid(np.random.default_rng(8), 30, states)
    graph = graph_of(cards, factors)
    method = vs.TRW(schedule=schedule, max_iterations=5)
    first = vs.infer(graph, threads=1, method=method)
    for threads in (1, 2, 3, 8):
        again = vs.infer(graph, threads=threads, method=method)
        assert again.log_z == first.log_z
        assert again.stats == first.stats
        np.testing.assert_array_equal(again.residuals, first.residuals)
        for a, b in zip(first.marginals, again.marginals, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("states", [2, 3])
def test_iterations_are_as_many_messages_as_there_are(schedule: str, states: int) -> None:
    cards, factors = random_grid(np.random.default_rng(9), 8, states, 1.0)
    graph = graph_of(cards, factors)
    n = 2 * sum(len(scope) == 2 for scope, _ in factors)
    r = vs.infer(graph, method=vs.BP(schedule=schedule, tolerance=0.0, max_iterations=3))
    assert not r.converged
    assert r.iterations == len(r.residuals) == 3
    assert "after 3 iterations" in r.reason
    r = vs.infer(graph, method=vs.BP(schedule=schedule))
    assert r.converged
    assert r.residuals[-1] <= 1e-6
    assert r.iterations == -(-r.stats["messages"] // n) or schedule == "tree"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("states", [2, 3])
def test_schedules_keep_deadlines(schedule: str, states: int) -> None:
    cards, factors = random_grid(np.random.default_rng(14), 40, states, 4.0)
    graph = graph_of(cards, factors)
    with pytest.raises(vs.DeadlineError):  # instead of days
        vs.infer(
            graph,
            method=vs.BP(schedule=schedule, tolerance=0.0, max_iterations=10**6),
            deadline=0.05,
        )
    seen: list[tuple[int, int]] = []
    vs.infer(
        graph,
        method=vs.BP(schedule=schedule, tolerance=0.0, max_iterations=9),
        progress=lambda a, b: seen.append((a, b)),
    )
    assert seen
    assert all(0 <= done <= total == 9 for done, total in seen)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_without_factors(schedule: str) -> None:
    graph = vs.FactorGraph([2, 3])
    graph.add([0], [0.0, 1.0])
    r = vs.infer(graph, method=vs.BP(schedule=schedule))
    assert r.converged
    assert r.log_z == pytest.approx(np.log(3 * (1 + np.e)))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("method", ["bp", "trw"])
def test_decoding_is_exact_without_cycles(schedule: str, method: str) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        cards, factors = random_tree(rng)
        if seed % 3 == 0:  # ties everywhere
            factors = [(s, np.where(np.isinf(t), t, np.sign(np.round(t)))) for s, t in factors]
        full = log_joint(cards, factors, {})
        graph = graph_of(cards, factors)
        if full.max() == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                vs.decode(graph, method=method_of(method, schedule=schedule))
            continue
        d = vs.decode(graph, method=method_of(method, schedule=schedule, tolerance=1e-9))
        best = float(full.max())
        assert d.converged
        assert d.score == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert d.score == pytest.approx(full[tuple(d.states)], rel=1e-12, abs=1e-12)
        assert (d.upper is None) == (method == "bp")
        if method == "trw":
            assert best <= d.upper <= best + 1e-5 * max(1.0, abs(best))


def test_decoding_with_cycles() -> None:
    for seed in range(40):
        cards, factors = random_graph(np.random.default_rng(seed))
        full = log_joint(cards, factors, {})
        graph = graph_of(cards, factors)
        for method in ("bp", "trw"):
            try:
                d = vs.decode(graph, method=method_of(method, max_iterations=200, damping=0.3))
            except vs.InfeasibleError:
                assert full.max() == -np.inf
                continue
            score = full[tuple(d.states)]
            assert d.score == score or d.score == pytest.approx(score, abs=1e-9)
            if d.upper is not None:
                assert d.upper >= full.max()


def test_decoding_options() -> None:
    cards, factors = random_grid(np.random.default_rng(3), 4, 2)
    graph = graph_of(cards, factors)
    best = vs.decode(graph)
    assert vs.decode(graph, method="exact").score == best.score
    assert best.converged
    assert best.upper is None
    known = {0: 1 - int(best.states[0])}
    assert vs.decode(graph, method="bp", evidence=known).states[0] == known[0]
    first = vs.decode(graph, method=vs.TRW(max_iterations=3))
    assert not first.converged
    for threads in (2, 8):
        again = vs.decode(graph, method=vs.TRW(max_iterations=3), threads=threads)
        assert again.upper == first.upper
        assert again.states.tolist() == first.states.tolist()
    with pytest.raises(ValueError, match="method must be one of auto, exact, lp, ad3, bp, trw"):
        vs.decode(graph, method="mean_field")
    for option in ({"start": vs.infer(graph, method="bp")}, {"optimise": 1}):
        with pytest.raises(ValueError, match=f"{next(iter(option))} has no meaning in decode"):
            vs.decode(graph, method=vs.TRW(**option))
    with pytest.raises(ValueError, match=r"method must be one of .*, got MeanField"):
        vs.decode(graph, method=vs.MeanField())
    with pytest.raises(ValueError, match="method can be given with a FactorGraph only"):
        vs.decode(vs.Chain([[0.0, 1.0]], np.eye(2)), method="bp")
    hard = graph_of(*random_grid(np.random.default_rng(14), 40, 3, 4.0))
    with pytest.raises(vs.DeadlineError):
        vs.decode(hard, method=vs.BP(tolerance=0.0, max_iterations=10**9), deadline=0.05)


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
    for scope, table in zip(field.forest, field.table, strict=True):
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
    for where in (r.state.node, *r.state.table):
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


def libdai() -> dict[str, np.ndarray]:
    """The P(x = 1) of every variable that libDAI reports for its own test, by method."""
    file = DATA / "loopy" / "libdai_testfast_marginals.tsv"
    if not file.exists():
        pytest.skip("the instances are not beside the repository")
    rows = [line.rstrip("\n").split("\t") for line in file.read_text().splitlines()[1:]]
    return {row[0]: np.array([float(x) for x in row[7:]]) for row in rows}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_libdai_reports_for_bp(schedule: str) -> None:
    """Four digits, and its error of log Z against the exact one."""
    expected = libdai()
    graph = vs.read_uai(DATA / "loopy" / "libdai_testfast.uai")
    r = vs.infer(graph, method=vs.BP(schedule=schedule, tolerance=1e-12))
    exact = vs.infer(graph)
    for found, name in ((r, "BP"), (exact, "EXACT")):
        np.testing.assert_allclose([p[1] for p in found.marginals], expected[name], atol=1e-4)
    assert r.log_z - exact.log_z == pytest.approx(7.187e-4, abs=1e-6)


def test_what_libdai_reports_for_mean_field() -> None:
    expected = libdai()
    graph = vs.read_uai(DATA / "loopy" / "libdai_testfast.uai")
    exact = vs.infer(graph).log_z
    r = vs.infer(graph, method=vs.MeanField(tolerance=1e-12))
    np.testing.assert_allclose([p[1] for p in r.marginals], expected["MF"], atol=1e-4)
    assert r.log_z - exact == pytest.approx(-1.235, abs=1e-3)
    structured = vs.infer(graph, method="structured_mean_field")
    assert r.log_z <= structured.log_z <= exact


@pytest.mark.parametrize("name", ["c432.isc.cnf", "c880.isc.cnf"])
def test_messages_that_outgrow_all_scores_are_no_proof(name: str) -> None:
    """Logarithms that grow without end must not become the zero of an impossible value."""
    path = DATA / "hard" / f"{name}.uai"
    if not path.exists():
        pytest.skip("the instances are not beside the repository")
    r = vs.infer(vs.read_uai(path), method=vs.BP(max_iterations=1000))
    assert not r.converged
    assert np.isfinite(r.log_z)
    for p in r.marginals:
        np.testing.assert_allclose(p.sum(), 1.0)


@pytest.mark.parametrize("method", ["bp", "trw", "mean_field", "structured_mean_field"])
def test_a_constant_that_forbids_everything(method: str) -> None:
    graph = vs.FactorGraph([2, 2, 2])
    for edge in [(0, 1), (1, 2), (0, 2)]:
        graph.add(edge, np.eye(2))
    graph.add([], -np.inf)
    with pytest.raises(vs.InfeasibleError):
        vs.infer(graph, method=method)
    if method in ("bp", "trw"):
        with pytest.raises(vs.InfeasibleError):
            vs.decode(graph, method=method)
