"""Loopy belief propagation against enumeration and an implementation that enumerates messages."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from checks import METHODS, method_of
from graph_files import DATA
from graph_oracle import Factors, graph_of, log_joint, log_sum, marginal, probabilities
from loopy_oracle import (
    SHARP,
    enumerated_bp,
    random_grid,
    random_tree,
)

import valuesparse as vs
from valuesparse.inference import trw_dual_bound

pytestmark = pytest.mark.simd


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


@pytest.mark.parametrize(
    ("states", "side", "method"),
    [
        (3, 70, vs.BP(max_iterations=12)),
        (2, 70, vs.BP(max_iterations=12)),
        (2, 140, vs.BP(max_iterations=7)),
        (2, 140, vs.BP(max_iterations=7, damping=0.2)),
        (2, 140, vs.TRW(max_iterations=7)),
        (2, 140, vs.BP(schedule="residual", max_iterations=1)),
    ],
)
def test_threads_never_show(states: int, side: int, method: Any) -> None:
    cards, factors = random_grid(np.random.default_rng(8), side, states)
    graph = graph_of(cards, factors)
    first = vs.infer(graph, method=method, threads=1)
    for threads in (2, 3, 8):
        again = vs.infer(graph, method=method, threads=threads)
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
    assert seen[-1] == (9, 9)


@pytest.mark.parametrize(
    ("method", "total"),
    [(vs.BP(damping=0.5), 1000), (vs.TRW(optimise=2, max_iterations=300), 900),
     (vs.MeanField(max_iterations=70), 70), (vs.StructuredMeanField(max_iterations=80), 80)],
)  # fmt: skip
def test_progress_ends_where_messages_converge(method: Any, total: int) -> None:
    cards, factors = random_grid(np.random.default_rng(3), 12, 2)
    graph = graph_of(cards, factors)
    seen: list[tuple[int, int]] = []
    r = vs.infer(graph, method=method, progress=lambda a, b: seen.append((a, b)))
    assert r.stats["iterations"] < method.max_iterations
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
    if isinstance(method, (vs.BP, vs.TRW)) and not getattr(method, "optimise", 0):
        seen.clear()
        vs.decode(graph, method=method, progress=lambda a, b: seen.append((a, b)))
        assert seen == sorted(seen)
        assert seen[-1] == (total, total)


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
