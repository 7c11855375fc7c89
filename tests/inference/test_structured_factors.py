"""Structured factors in every engine, against the same factors as tables and enumeration."""

from __future__ import annotations

import pickle
import signal
import time

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from structured_oracle import AnyOf, as_tables, enumerated

import valuesparse as vs
from valuesparse.factors import Xor
from valuesparse.inference import _snapshots, trw_dual_bound

SCHEDULES = ["flooding", "residual", "rounds", "tree"]


def cyclic(seed: int, *, wide: bool = False, kind: type = Xor) -> vs.FactorGraph:
    """Return a graph of binary variables with cycles; `wide`: with a table of three, too."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2] * 7)
    for v in range(7):
        graph.add([v], rng.normal(0.0, 2.0, 2))
    if kind is Xor:
        graph.add(Xor(0, 1, 2, 3))
        graph.add(Xor(2, 4, 5, negated=[1]))
        graph.add(Xor(6, 3, 5, negated=[0, 2]))
    else:
        graph.add(kind((0, 1, 2, 3)))
        graph.add(kind((2, 4, 5)))
    for a, b in [(0, 4), (1, 5), (6, 0), (3, 4), (1, 2)]:
        graph.add((a, b), rng.normal(0.0, 1.0, (2, 2)))
    if wide:
        graph.add((0, 4, 6), rng.normal(0.0, 1.0, (2, 2, 2)))
    return graph


def forest(seed: int) -> vs.FactorGraph:
    """Return a graph without cycles."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2, 2, 2, 2, 2, 2, 3])
    for v, k in enumerate(graph.cardinalities):
        graph.add([v], rng.normal(0.0, 2.0, k))
    graph.add(Xor(0, 1, 2, negated=[int(rng.integers(3))]))
    graph.add(Xor(3, 2, 4))
    graph.add((4, 5), rng.normal(0.0, 1.0, (2, 2)))
    graph.add((5, 6), rng.normal(0.0, 1.0, (2, 3)))
    return graph


def assert_close(a: vs.results.GraphResult, b: vs.results.GraphResult, atol: float) -> None:
    assert a.converged
    assert b.converged
    for p, q in zip(a.marginals, b.marginals, strict=True):
        np.testing.assert_allclose(p, q, rtol=0, atol=atol)
    assert a.log_z == pytest.approx(b.log_z, abs=10 * atol)
    assert a.entropy() == pytest.approx(b.entropy(), abs=100 * atol)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_messages_are_those_of_the_table(schedule: str, wide: bool) -> None:
    for seed in range(6):
        graph = cyclic(seed, wide=wide)
        options = {"damping": 0.4, "tolerance": 1e-12, "max_iterations": 5000}
        table = as_tables(graph)
        a = vs.infer(graph, method=vs.BP(schedule=schedule, **options))
        assert_close(a, vs.infer(table, method=vs.BP(**options)), 1e-8)
        rho = np.full(graph.n_factors, 0.6)
        a = vs.infer(graph, method=vs.TRW(schedule=schedule, edge_probabilities=rho, **options))
        assert_close(a, vs.infer(table, method=vs.TRW(edge_probabilities=rho, **options)), 1e-8)


@given(st.integers(0, 1000))
@examples(60)
def test_a_graph_without_cycles_is_exact(seed: int) -> None:
    graph = forest(seed)
    log_z, marginals, entropy, best = enumerated(graph)
    r = vs.infer(graph)
    assert (r.method, r.exact, r.converged) == ("exact", True, True)
    assert "without cycles" in r.reason
    assert r.log_z == pytest.approx(log_z, abs=1e-10)
    for p, q in zip(r.marginals, marginals, strict=True):
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-10)
    assert r.entropy() == pytest.approx(entropy, abs=1e-9)
    d = vs.decode(graph)
    assert d.score == pytest.approx(best, abs=1e-10)
    assert vs.log_prob(graph, d.states) == pytest.approx(best - log_z, abs=1e-10)
    assert vs.decode(graph, method="bp").score == pytest.approx(best, abs=1e-10)


@given(st.integers(0, 1000), st.integers(0, 5), st.booleans())
@examples(60)
def test_evidence_that_cuts_cycles_and_evidence_that_is_forbidden(
    seed: int, variable: int, state: bool
) -> None:
    graph = forest(seed)
    graph.add((0, 4), np.random.default_rng(seed).normal(0.0, 1.0, (2, 2)))  # closes a cycle at 2
    evidence = {2: int(state), variable: 1} if variable != 2 else {2: int(state)}
    log_z, marginals, *_ = enumerated(graph, evidence)
    if log_z == -np.inf:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(graph, evidence=evidence)
        return
    r = vs.infer(graph, evidence=evidence)
    assert r.exact
    assert r.log_z == pytest.approx(log_z, abs=1e-8)
    for p, q in zip(r.marginals, marginals, strict=True):
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-8)


@pytest.mark.parametrize("top", [10_000.0, 700.0])
def test_large_scores_stay_right(top: float) -> None:
    n = 6
    graph = vs.FactorGraph([2] * n)
    score = np.array([top, top - 1.0, -top, 0.0, -top, 3.0])
    for v in range(n):
        graph.add([v], [0.0, score[v]])
    graph.add(Xor(*range(n)))
    weights = np.exp(score - score.max())
    for method in ["auto", *(vs.BP(schedule=s) for s in SCHEDULES)]:
        r = vs.infer(graph, method=method)
        on = np.array([p[1] for p in r.marginals])
        np.testing.assert_allclose(on, weights / weights.sum(), rtol=1e-9, atol=1e-300)
        assert r.log_z == pytest.approx(score.max() + np.log(weights.sum()), rel=1e-12)


def test_a_thousand_variables_and_pairs_in_their_lanes() -> None:
    rng = np.random.default_rng(3)
    n = 1000
    graph = vs.FactorGraph([2] * n)
    for v in range(n):
        graph.add([v], rng.normal(0.0, 1.0, 2))
    graph.add(Xor(*range(n)))
    r = vs.infer(graph)
    assert r.method == "exact"
    assert sum(p[1] for p in r.marginals) == pytest.approx(1.0, abs=1e-12)
    for a in range(0, n - 1, 2):
        graph.add((a, a + 1), rng.normal(0.0, 0.3, (2, 2)))
    r = vs.infer(graph)
    assert r.method == "bp"
    assert "factor 1000, a Xor over 1000 variables, has no table" in r.reason
    for schedule in SCHEDULES:
        other = vs.infer(graph, method=vs.BP(schedule=schedule, tolerance=1e-10))
        assert other.converged
        np.testing.assert_allclose(
            np.concatenate(other.marginals), np.concatenate(r.marginals), rtol=0, atol=1e-5
        )
    (on,) = (x for x in r.factor_marginals() if len(x) == n)
    np.testing.assert_allclose(on, [p[1] for p in r.marginals], atol=1e-5)
    assert len(r.pairwise()) == n // 2
    assert vs.decode(graph, method="bp").score > -np.inf


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_never_show(schedule: str) -> None:
    graph = cyclic(4)
    results = [
        vs.infer(graph, method=vs.BP(schedule=schedule, damping=0.3), threads=t)
        for t in (1, 2, 3, 8)
    ]
    for r in results[1:]:
        assert_same_bits(np.concatenate(r.marginals), np.concatenate(results[0].marginals))
        assert r.log_z == results[0].log_z


@pytest.mark.parametrize("wide", [False, True])
def test_threads_never_show_where_they_share_the_work(wide: bool) -> None:
    rng = np.random.default_rng(0)
    n = 6000
    graph = vs.FactorGraph([2] * n)
    graph.add_features(vs.factors.Features(np.arange(n)[:, None], rng.normal(size=n)))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(9000)])
    equal = np.eye(2, dtype=bool)
    weights = rng.normal(0.0, 0.3, len(pairs))
    graph.add_features(vs.factors.Features(pairs, weights, fires=equal))
    for first in range(0, 5000, 1000):
        graph.add(Xor(*range(first, first + 1000)))
    if wide:  # beside which pairs are tables
        graph.add((0, 1500, 5900), rng.normal(size=(2, 2, 2)))
    for schedule in ("flooding", "rounds"):
        method = vs.BP(schedule=schedule, damping=0.3, max_iterations=5)
        one, *others = (vs.infer(graph, method=method, threads=t) for t in (1, 2, 3))
        for r in others:
            assert_same_bits(np.concatenate(r.marginals), np.concatenate(one.marginals))
            assert r.log_z == one.log_z


def test_bounds_and_decoding_hold() -> None:
    for seed in range(8):
        graph = cyclic(seed)
        log_z, _, _, best = enumerated(graph)
        dual = trw_dual_bound(graph, method=vs.TRW(max_iterations=50, optimise=2))
        assert dual.upper >= log_z
        d = vs.decode(graph, method=vs.TRW(max_iterations=100))
        assert d.score <= best + 1e-9
        assert d.upper >= best - 1e-9
        assert vs.log_prob(graph, vs.decode(graph, method="bp").states) > -np.inf


def test_structured_mean_field_keeps_the_factor_whole() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        graph = vs.FactorGraph([2] * 7)
        for v in range(7):
            graph.add([v], rng.normal(0.0, 2.0, 2))
        graph.add(Xor(0, 1, 2, 3, negated=[seed % 4]))
        graph.add(Xor(3, 4, 5, 6))
        alone, _, entropy, _ = enumerated(graph)
        q = vs.infer(graph, method="structured_mean_field")
        assert q.log_z == pytest.approx(alone, abs=1e-9)
        assert q.entropy() == pytest.approx(entropy, abs=1e-8)
        for a, b in [(0, 1), (1, 2), (0, 4), (5, 6), (2, 6)]:
            graph.add((a, b), rng.normal(0.0, 1.0, (2, 2)))
        log_z = enumerated(graph)[0]
        r = vs.infer(graph, method="structured_mean_field")
        assert log_z - 1.0 < r.log_z <= log_z + 1e-12
        again = vs.infer(graph, method=vs.StructuredMeanField(start=r))
        assert again.log_z >= r.log_z - 1e-9
        assert [x.shape for x in r.factor_marginals()[7:9]] == [(4,), (4,)]
        bounded = vs.infer(graph, memory_limit=0)
        assert bounded.log_z_lower <= log_z <= bounded.log_z_upper


def test_factors_on_a_cycle_are_refused_by_structured_mean_field() -> None:
    graph = vs.FactorGraph([2] * 4)
    graph.add(Xor(0, 1, 2))
    graph.add(Xor(0, 1, 3))
    with pytest.raises(
        ValueError, match=r"factor 1, a Xor over 3 variables, is on a cycle .* method='bp' works"
    ):
        vs.infer(graph, method="structured_mean_field")
    graph = vs.FactorGraph([2] * 4)
    graph.add(Xor(0, 1, 2, 3))
    graph.add((0, 1, 2), np.random.default_rng(0).normal(size=(2, 2, 2)))
    with pytest.raises(ValueError, match=r"factor 0, a Xor over 4 variables, is on a cycle"):
        vs.infer(graph, method="structured_mean_field")


def test_what_needs_a_table_of_a_large_factor_names_it() -> None:
    graph = vs.FactorGraph([2] * 30)
    graph.add([0], [0.0, 1.0])
    graph.add(Xor(*range(30)))
    words = r"factor 1: Xor over 30 variables has no table.*method='bp'"
    assert vs.infer(graph, method="junction_tree").exact  # messages need none
    for ask in (
        lambda: vs.infer(graph, zeta=0.9),
        lambda: vs.JunctionTree(graph),
        lambda: vs.sample(graph, 1),
        lambda: vs.write_uai(graph, "never.uai"),
    ):
        with pytest.raises(ValueError, match=words):
            ask()
    for bound in (vs.bounds.log_z, vs.bounds.preconditioner):
        with pytest.raises(ValueError, match=r"factor 1, a Xor over 30 .*trw_dual_bound from ab"):
            bound(graph)
    with pytest.raises(ValueError, match=r"within factor 1, a Xor .*structured_mean_field"):
        vs.infer(graph, method="mean_field")
    r = vs.infer(graph)
    words = r"factor 1, a Xor over 30 variables, gives no joint of the variables \[0, 3\]"
    for result in (r, vs.infer(graph, method="structured_mean_field")):
        with pytest.raises(ValueError, match=words):
            result.joint([0, 3])
    np.testing.assert_array_equal(r.joint([3]), r.marginals[3])


def test_a_small_one_in_a_junction_tree_is_its_table() -> None:
    graph = cyclic(2)
    log_z, marginals, entropy, best = enumerated(graph)
    r = vs.infer(graph)
    assert r.method == "junction_tree"
    assert r.log_z == pytest.approx(log_z, abs=1e-10)
    assert r.entropy() == pytest.approx(entropy, abs=1e-9)
    assert vs.decode(graph).score == pytest.approx(best)
    np.testing.assert_allclose(
        r.factor_marginals()[7], [marginals[v][1] for v in range(4)], atol=1e-10
    )
    assert set(r.pairwise()) == {(0, 4), (1, 5), (6, 0), (3, 4), (1, 2)}


def test_results_pickle_and_start_others() -> None:
    graph = cyclic(1)
    r = vs.infer(graph, method=vs.BP(damping=0.4, tolerance=1e-10))
    copy = pickle.loads(pickle.dumps(r))
    for a, b in zip(r.factor_marginals(), copy.factor_marginals(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert copy.entropy() == r.entropy()
    again = vs.infer(graph, method=vs.BP(damping=0.4, tolerance=1e-9, start=copy))
    assert again.iterations < r.iterations
    held = vs.infer(graph, method=vs.BP(damping=0.4, start=r), evidence={2: 1})
    fresh = vs.infer(graph, method=vs.BP(damping=0.4), evidence={2: 1})
    np.testing.assert_allclose(
        np.concatenate(held.marginals), np.concatenate(fresh.marginals), atol=1e-5
    )


def test_relax_and_select_use_them_from_the_start() -> None:
    graph = cyclic(3)
    relaxed = vs.relax(graph, threshold=1e-6)
    assert {7, 8, 9} <= set(relaxed.factors.tolist())
    assert {7, 8, 9} <= set(vs.select(graph, min_divergence=1).factors.tolist())
    with pytest.raises(ValueError, match="first leaves out factor 7, a Xor"):
        vs.relax(graph, first=range(7))
    # Exact gains of pairs within one factor, which keeps no two of them on.
    small = vs.FactorGraph([2] * 30)
    for v in range(30):
        small.add([v], [0.0, 0.1 * v])
    small.add(Xor(*range(30)))
    within = small.add_feature((3, 4), [1, 1], 2.0)
    one = small.add_feature((3, 4), [1, 0], 2.0)
    r = vs.infer(small, factors=range(31))
    never, some = vs.gain(small, [within, one], r)
    mu = r.marginals[3][1]
    assert never == pytest.approx(0.0, abs=1e-12)
    assert some == pytest.approx(np.log(1 - mu + mu * np.exp(2.0)) - 2.0 * mu, rel=1e-9)


def test_a_structured_factor_has_no_gain() -> None:
    graph = vs.FactorGraph([2] * 40)
    graph.add([0], [0.0, 1.0])
    index = graph.add(Xor(*range(40)))
    r = vs.infer(graph, factors=[0])
    with pytest.raises(ValueError, match="a Xor over 40 variables has no gain"):
        vs.gain(graph, [index], r)
    with pytest.raises(ValueError, match="has no gain"):
        r.bounds()


def test_check_tells_what_they_forbid() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    graph.add(Xor(0))
    graph.add(Xor(1, 2))
    graph.add(Xor(1, 2))
    kinds = [(f.kind, f.factor) for f in graph.check()]
    assert kinds == [("duplicate", 2), ("impossible states", 0)]


def test_a_kind_written_in_python_runs_everywhere() -> None:
    for seed in range(3):
        graph = cyclic(seed, kind=AnyOf)
        table = as_tables(graph)
        options = {"damping": 0.4, "tolerance": 1e-11, "max_iterations": 3000}
        for schedule in SCHEDULES:
            a = vs.infer(graph, method=vs.BP(schedule=schedule, **options), threads=2)
            assert_close(a, vs.infer(table, method=vs.BP(**options)), 1e-7)
        log_z, _, _, best = enumerated(graph)
        assert trw_dual_bound(graph, method=vs.TRW(max_iterations=30)).upper >= log_z
        assert vs.decode(graph, method="bp").score <= best + 1e-9
        assert vs.infer(graph, method="structured_mean_field").log_z <= log_z
        assert vs.infer(graph).log_z == pytest.approx(log_z)
        relaxed = vs.relax(graph, solver=vs.BP(damping=0.4))
        assert {7, 8} <= set(relaxed.factors.tolist())


def test_a_kind_written_in_python_keeps_messages_that_probabilities_lose() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.0, -10_000.0])
    graph.add([1], [0.0, -9_990.0])
    graph.add(AnyOf((0, 1)))
    r = vs.infer(graph)
    assert r.method == "exact"
    assert r.marginals[0][1] == pytest.approx(1.0 / (1.0 + np.exp(10.0)), rel=1e-9)


class Broken(AnyOf):
    """Raises, or returns what it must not."""

    what = "raise"

    def sum_product(self, messages: np.ndarray):
        if self.what == "raise":
            raise KeyError("mine")
        if self.what == "shape":
            return 0.0, np.ones(1), np.ones(1)
        return np.nan, *super().sum_product(messages)[1:]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_errors_of_a_kind_written_in_python_reach_the_caller(schedule: str) -> None:
    graph = vs.FactorGraph([2, 2, 3])
    factor = Broken((0, 1))
    graph.add(factor)
    graph.add((1, 2), np.zeros((2, 3)))
    for what, error, words in [
        ("raise", KeyError, "mine"),
        ("shape", ValueError, r"sum_product of Broken\(0, 1\) must return shape \(2,\)"),
        ("nan", ValueError, "must return a log mass"),
    ]:
        factor.what = what
        with pytest.raises(error, match=words):
            vs.infer(graph, method=vs.BP(schedule=schedule))


class Slow(AnyOf):
    """Takes a while for each call."""

    delay = 0.01
    asked = staticmethod(lambda kind: None)

    def sum_product(self, messages: np.ndarray):
        self.asked(self)
        time.sleep(self.delay)
        return super().sum_product(messages)


def test_deadlines_are_heard_between_factors() -> None:
    graph = vs.FactorGraph([2] * 60)
    for v in range(0, 60, 2):
        graph.add(Slow((v, v + 1)))
    with pytest.raises(vs.DeadlineError):
        vs.infer(graph, method=vs.BP(max_iterations=1_000_000, tolerance=0.0), deadline=0.3)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this platform")
def test_ctrl_c_is_heard_while_beliefs_of_factors_are_computed() -> None:
    graph = vs.FactorGraph([2] * 400)
    kinds = [Slow((v, v + 1)) for v in range(0, 400, 2)]
    for kind in kinds:
        kind.delay = 0.0
        graph.add(kind)
    r = vs.infer(graph, method=vs.BP(max_iterations=1))
    calls = []

    def count(kind: Slow) -> None:  # masses come first, then beliefs
        calls.append(kind)
        kind.delay = 0.02 if len(calls) > len(kinds) else 0.0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    Slow.asked = staticmethod(count)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            r.factor_marginals()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        Slow.asked = staticmethod(lambda kind: None)
    assert len(kinds) < len(calls) < 1.5 * len(kinds)


@pytest.mark.parametrize("lanes", [False, True])
def test_deadlines_are_heard_while_beliefs_of_factors_are_computed(lanes: bool) -> None:
    graph = vs.FactorGraph([2] * 400 + [2 if lanes else 3])
    for v in range(0, 400, 2):
        graph.add(Slow((v, v + 1)))
        graph.factors[-1].delay = 0.0
    graph.add((0, 400), np.zeros((2, 2 if lanes else 3)))
    calls = []

    def count(kind: Slow) -> None:  # the messages of the one iteration come first
        calls.append(kind)
        kind.delay = 0.02 if len(calls) > 200 else 0.0

    Slow.asked = staticmethod(count)
    try:
        with pytest.raises(vs.DeadlineError):
            vs.infer(graph, method=vs.BP(max_iterations=1), deadline=0.5)
    finally:
        Slow.asked = staticmethod(lambda kind: None)
    assert 200 < len(calls) < 400


def test_results_of_messages_make_no_second_copy_of_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = cyclic(0)
    r = vs.infer(graph, method=vs.BP(damping=0.4))

    def refuse(*_: object) -> None:
        raise AssertionError("a junction tree's copy of the graph")

    monkeypatch.setattr(_snapshots._junction, "Snapshot", refuse)
    assert np.isfinite(r.entropy())
    assert len(r.pairwise()) == 5
    assert len(r.factor_marginals()) == graph.n_factors
    assert r.joint([0, 4]).shape == (2, 2)
