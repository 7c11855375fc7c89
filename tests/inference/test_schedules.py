"""The order in which messages are sent, the kernel of binary pairs, and decoding by messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import method_of
from graph_files import DATA
from graph_oracle import Factors, graph_of, log_joint, log_sum, marginal, probabilities
from loopy_oracle import (
    SCHEDULES,
    SHARP,
    enumerated_bp,
    libdai,
    random_graph,
    random_grid,
    random_tree,
)

import valuesparse as vs

pytestmark = pytest.mark.simd


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
