"""Every kind of structured factor in the engines, against tables and enumeration."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import examples
from structured_oracle import ALLOWED, as_tables, enumerated, make

import valuesparse as vs
from valuesparse.inference import trw_dual_bound

SCHEDULES = ["flooding", "residual", "rounds", "tree"]
KINDS = sorted(ALLOWED)


def kind_of(rng: np.random.Generator, scope: list[int]) -> vs.factors.Structured:
    """Return a random kind with random negations."""
    negated = np.flatnonzero(rng.random(len(scope)) < 0.4).tolist()
    return make(str(rng.choice(KINDS)), scope, negated, budget=int(rng.integers(1, 4)))


def cyclic(seed: int, scale: float = 1.5) -> vs.FactorGraph:
    """Return a possible graph of eight binary variables with three structured factors and pairs."""
    rng = np.random.default_rng(seed)
    while True:
        graph = vs.FactorGraph([2] * 8)
        for v in range(8):
            graph.add([v], rng.normal(0.0, scale, 2))
        for scope in ([0, 1, 2, 3], [5, 4, 3, 2], [6, 7, 0, 5]):
            graph.add(kind_of(rng, scope))
        for a, b in [(0, 4), (1, 6), (7, 3), (1, 2)]:
            graph.add((a, b), rng.normal(0.0, 0.7, (2, 2)))
        if enumerated(graph)[0] > -np.inf:
            return graph


def forest(seed: int, kind: str) -> vs.FactorGraph:
    """Return a graph without cycles with this kind and two of any."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2] * 9)
    for v in range(9):
        graph.add([v], rng.normal(0.0, 2.0, 2))
    graph.add(make(kind, [0, 1, 2, 3], np.flatnonzero(rng.random(4) < 0.5).tolist(), 1))
    graph.add(kind_of(rng, [5, 4, 3]))
    graph.add(kind_of(rng, [4, 6, 7]))
    graph.add((7, 8), rng.normal(0.0, 1.0, (2, 2)))
    return graph


def flat(r: vs.results.GraphResult) -> np.ndarray:
    return np.concatenate(r.marginals)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_messages_are_those_of_tables(schedule: str) -> None:
    compared = 0
    for seed in range(25):
        graph = cyclic(seed)
        table = as_tables(graph)
        few = vs.BP(max_iterations=12, tolerance=0.0, damping=0.2)
        if schedule == "flooding":
            a, b = vs.infer(graph, method=few), vs.infer(table, method=few)
            np.testing.assert_allclose(flat(a), flat(b), rtol=0, atol=1e-7)
        options = {"damping": 0.4, "tolerance": 1e-11, "max_iterations": 3000}
        rho = {"edge_probabilities": np.full(graph.n_factors, 0.6)}
        for kind, more in ((vs.BP, {}), (vs.TRW, rho)):
            a = vs.infer(graph, method=kind(schedule=schedule, **options, **more))
            b = vs.infer(table, method=kind(**options, **more))
            if a.converged and b.converged:
                compared += 1
                np.testing.assert_allclose(flat(a), flat(b), rtol=0, atol=1e-7)
                assert a.log_z == pytest.approx(b.log_z, abs=1e-6)
                assert a.entropy() == pytest.approx(b.entropy(), abs=1e-5)
    assert compared > 35


@given(st.integers(0, 10_000), st.sampled_from(KINDS), st.integers(0, 8), st.booleans())
@examples(300)
def test_graphs_without_cycles_are_exact(seed: int, kind: str, variable: int, state: bool) -> None:
    graph = forest(seed, kind)
    for evidence in ({}, {variable: int(state)}):
        log_z, marginals, entropy, best = enumerated(graph, evidence)
        if log_z == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                vs.infer(graph, evidence=evidence)
            with pytest.raises(vs.InfeasibleError):
                vs.decode(graph, evidence=evidence)
            continue
        r = vs.infer(graph, evidence=evidence)
        assert r.exact
        assert r.log_z == pytest.approx(log_z, abs=1e-8)
        np.testing.assert_allclose(flat(r), np.concatenate(marginals), rtol=0, atol=1e-8)
        assert r.entropy() == pytest.approx(entropy, abs=1e-8)
        assert vs.decode(graph, evidence=evidence).score == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_large_scores_and_forbidden_states_stay_right(kind: str) -> None:
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(40):
        graph = vs.FactorGraph([2] * 6)
        for v in range(6):
            graph.add([v], rng.choice([0.0, 1.0, 1e4, -1e4, 1e4 - 1, -np.inf], 2))
        graph.add(make(kind, range(6), np.flatnonzero(rng.random(6) < 0.3).tolist()))
        log_z, marginals, _, best = enumerated(graph)
        if log_z == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                vs.infer(graph, method="bp")
            continue
        compared += 1
        for method in ["auto", *(vs.BP(schedule=s) for s in SCHEDULES)]:
            r = vs.infer(graph, method=method)
            np.testing.assert_allclose(flat(r), np.concatenate(marginals), rtol=0, atol=1e-8)
            assert r.log_z == pytest.approx(log_z, rel=1e-11, abs=1e-8)
        assert vs.decode(graph, method="bp").score == pytest.approx(best, rel=1e-12)
    assert compared > 5


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_never_show(schedule: str) -> None:
    for seed in range(5):
        graph = cyclic(seed)
        method = vs.BP(schedule=schedule, damping=0.3, max_iterations=40)
        one, *others = (vs.infer(graph, method=method, threads=t) for t in (1, 2, 3, 8))
        for r in others:
            assert_same_bits(flat(r), flat(one))
            assert r.log_z == one.log_z


def test_bounds_decoding_and_relaxing() -> None:
    for seed in range(20):
        graph = cyclic(seed)
        log_z, _, _, best = enumerated(graph)
        assert trw_dual_bound(graph, method=vs.TRW(max_iterations=50, optimise=2)).upper >= log_z
        d = vs.decode(graph, method=vs.TRW(max_iterations=100))
        assert d.score <= best + 1e-9
        assert d.upper >= best - 1e-9
        relaxed = vs.relax(graph, threshold=1e-6, solver=vs.BP(damping=0.4))
        assert {8, 9, 10} <= set(relaxed.factors.tolist())
        r = pickle.loads(pickle.dumps(vs.infer(graph, method=vs.BP(damping=0.4))))
        assert [x.shape for x in r.factor_marginals()[8:11]] == [
            (len(graph.factors[i].scope),) for i in (8, 9, 10)
        ]


@given(st.integers(0, 1000), st.sampled_from(KINDS))
@examples(40)
def test_structured_mean_field_keeps_several_factors_of_one_component(seed: int, kind: str) -> None:
    graph = forest(seed, kind)
    log_z, _, entropy, _ = enumerated(graph)
    assume(log_z > -np.inf)
    q = vs.infer(graph, method="structured_mean_field")
    assert q.log_z == pytest.approx(log_z, abs=1e-8)
    assert q.entropy() == pytest.approx(entropy, abs=1e-8)
    rng = np.random.default_rng(seed)
    for a, b in [(0, 8), (1, 5), (0, 1)]:
        graph.add((a, b), rng.normal(0.0, 1.0, (2, 2)))
    r = vs.infer(graph, method="structured_mean_field")
    log_z = enumerated(graph)[0]
    assert log_z - 1.5 < r.log_z <= log_z + 1e-12
    again = vs.infer(graph, method=vs.StructuredMeanField(start=r))
    assert again.log_z >= r.log_z - 1e-9
    bounded = vs.infer(graph, memory_limit=0)
    assert bounded.log_z_lower <= log_z <= bounded.log_z_upper


def test_a_start_with_another_kind_over_the_same_variables_is_refused() -> None:
    first, second = vs.FactorGraph([2] * 3), vs.FactorGraph([2] * 3)
    first.add(vs.factors.Xor(0, 1, 2))
    second.add(vs.factors.Or(0, 1, 2))
    r = vs.infer(first, method="structured_mean_field")
    with pytest.raises(ValueError, match="start has a factor"):
        vs.infer(second, method=vs.StructuredMeanField(start=r))


@pytest.mark.parametrize("schedule", ["flooding", "residual"])
def test_messages_that_grow_round_a_cycle_forbid_nothing(schedule: str) -> None:
    """Two factors that say the same make each other surer, without end."""
    graph = vs.FactorGraph([2, 2, 2])
    graph.add([0], [0.0, 32.5])
    graph.add(vs.factors.Budget(2, 0, 1, budget=2))
    graph.add(vs.factors.XorOut(2, 0, negated=(0,)))
    graph.add([0, 2, 1], np.random.default_rng(0).normal(size=(2, 2, 2)) * 30)
    graph.add(vs.factors.Xor(2, 1, 0, negated=(1,)))
    exact = vs.infer(graph, method="junction_tree")
    r = vs.infer(graph, method=vs.BP(schedule=schedule))
    for found, expected in zip(r.marginals, exact.marginals, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("pairs", [False, True])
def test_free_energies_survive_messages_that_grow_round_a_cycle(pairs: bool) -> None:
    """One configuration is left: its score, whatever messages of 1e150 stand beside it."""
    graph = vs.FactorGraph([2] * 4)
    for v, odds in enumerate([-0.3, -0.2, 0.9, -0.8]):
        graph.add([v], [0.5, 0.5 + odds])
    if pairs:
        graph.add((1, 2), [[0.0, 0.3], [0.0, 0.0]])
    graph.add(vs.factors.XorOut(3, 1, 0, negated=(0, 2)))
    graph.add(vs.factors.Tree([(0, 1), (2, 1), (0, 2), (1, 2)], [2, 3, 0, 1]))
    exact = vs.infer(graph, method="junction_tree")
    r = vs.infer(graph, method=vs.BP(schedule="residual", max_iterations=1000))
    assert r.converged
    np.testing.assert_allclose(r.log_z, exact.log_z, atol=1e-8)
    assert r.entropy() == pytest.approx(0.0, abs=1e-8)


def test_equal_factors_are_told_apart_where_mean_field_begins_anew() -> None:
    graph = vs.FactorGraph([2] * 3)
    graph.add([0, 1], np.eye(2))
    graph.add([1, 2], [[0.0, 0.3], [0.2, 0.0]])
    for _ in range(3):
        graph.add(vs.factors.Or(0))
    r = vs.infer(graph, method="structured_mean_field")
    assert r.log_z == pytest.approx(vs.infer(graph).log_z)
    again = vs.infer(graph, method=vs.StructuredMeanField(start=r))
    assert again.log_z == pytest.approx(r.log_z)
    chosen = vs.select(graph, min_divergence=1, solver="structured_mean_field")
    assert len(chosen.factors) == 4


def test_a_joint_that_two_passes_do_not_know_names_what_does() -> None:
    graph = vs.FactorGraph([2] * 3)
    graph.add(vs.factors.Xor(0, 1))
    graph.add([1, 2], np.eye(2))
    r = vs.infer(graph)
    assert r.exact
    with pytest.raises(ValueError, match=r"such as factor 0, a Xor.*method='junction_tree'"):
        r.joint([0, 2])
    found = vs.infer(graph, method="junction_tree").joint([0, 2])
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_factors_that_share_no_variable_decide_their_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2] * 11)
    graph.add_many(np.arange(11)[:, None], rng.normal(size=(11, 2)))
    graph.add(vs.factors.Tree([(0, 1), (0, 2), (1, 2), (2, 1)], [7, 0, 3, 9]))
    graph.add(vs.factors.Budget(1, 5, 8, budget=1))
    graph.add([2, 10], rng.normal(size=(2, 2)))
    evidence = {5: 1} if seed % 2 else {}
    d = vs.decode(graph, evidence=evidence)
    exact = vs.decode(as_tables(graph), evidence=evidence)
    np.testing.assert_array_equal(d.states, exact.states)
    assert d.score == pytest.approx(exact.score, rel=1e-14)
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, evidence={7: 0, 0: 0})


def test_best_is_asked_once_for_all_variables_of_a_factor() -> None:
    calls = []

    class Counting(vs.factors.Xor):
        def best(self, messages: np.ndarray) -> tuple[float, np.ndarray]:
            calls.append(len(messages))
            return super().best(messages)

        def max_marginals(self, messages: np.ndarray) -> Any:
            return NotImplemented

    k = 60
    graph = vs.FactorGraph([2] * k)
    scores = np.random.default_rng(0).normal(size=(k, 2))
    graph.add_many(np.arange(k)[:, None], scores)
    graph.add(Counting(*range(k)))
    d = vs.decode(graph)
    assert np.flatnonzero(d.states).tolist() == [int((scores[:, 1] - scores[:, 0]).argmax())]
    assert len(calls) <= 4, "at most two for the first variable, and one for all"


class Even(vs.factors.Structured):
    """An even number of variables is on; `missing` says how it leaves out what it can."""

    def __init__(self, scope: Any, missing: Callable[[], Any]) -> None:
        super().__init__(scope)
        object.__setattr__(self, "_missing", missing)

    def _all(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        k = len(self.scope)
        states = np.array([s for s in itertools.product((0, 1), repeat=k) if sum(s) % 2 == 0])
        return states, messages[np.arange(k), states].sum(axis=1)

    def log_potential(self, states: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(states).sum(axis=1) % 2 == 0, 0.0, -np.inf)

    def sum_product(self, messages: np.ndarray) -> Any:
        states, scores = self._all(messages)
        mass = np.logaddexp.reduce(scores)
        p = np.exp(scores - mass)
        return mass, p @ states, p @ (1 - states)

    def best(self, messages: np.ndarray) -> Any:
        states, scores = self._all(messages)
        return scores.max(), states[scores.argmax()]

    def max_marginals(self, messages: np.ndarray) -> Any:
        return self._missing()

    def joint(self, messages: np.ndarray, pairs: Any) -> Any:
        return self._missing()

    def polytope(self) -> Any:
        return self._missing()


def raises() -> Any:
    raise NotImplementedError


@pytest.mark.parametrize("missing", [lambda: NotImplemented, raises])
def test_verbs_that_a_kind_leaves_out(missing: Callable[[], Any]) -> None:
    rng = np.random.default_rng(3)
    graph = vs.FactorGraph([2] * 4)
    graph.add_many(np.arange(4)[:, None], rng.normal(size=(4, 2)))
    graph.add(Even(range(4), missing))
    exact = as_tables(graph)
    for method in ("exact", "bp", "ad3"):
        d = vs.decode(graph, method=method)
        np.testing.assert_array_equal(d.states, vs.decode(exact).states)
    with pytest.raises(ValueError, match="needs the polytope of every structured factor"):
        vs.decode(graph, method="lp")
    pair = vs.factors.Feature((0, 2), (1, 1), 0.5)
    gain = vs.gain(graph, [pair], vs.infer(graph))
    assert gain[0] == pytest.approx(vs.gain(exact, [pair], vs.infer(exact))[0])
