"""Decoding by a linear program and by dual decomposition, against enumeration."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from relaxation_graphs import random_graph, sentence
from scipy.sparse import csr_array
from strategies import examples
from structured_oracle import AnyOf, configurations, enumerated

import valuesparse as vs
from valuesparse.factors import Structured

METHODS = ["lp", "ad3"]


@pytest.mark.parametrize("method", METHODS)
@given(st.integers(0, 100_000), st.integers(0, 6), st.booleans())
@examples(200)
def test_exact_when_integral_and_never_below(
    method: str, seed: int, variable: int, state: bool
) -> None:
    graph = random_graph(seed)
    for evidence in ({}, {variable: int(state)}):
        best = enumerated(graph, evidence)[3]
        if best == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                vs.decode(graph, method=method, evidence=evidence)
            continue
        d = vs.decode(graph, method=method, evidence=evidence)
        # `enumerated` adds scores up in another order.
        assert d.upper >= best - 1e-13 * (1.0 + abs(best))
        assert d.upper >= d.score
        assert -np.inf < d.score <= best + 1e-9
        if d.integral:
            assert d.score == pytest.approx(best, abs=1e-6)
        for f in graph.factors:
            if isinstance(f, Structured):
                assert f.log_potential(d.states[None, list(f.scope)])[0] == 0.0
        assert [p.sum() for p in d.relaxed] == pytest.approx([1.0] * 7)
        if not evidence:
            assert vs.log_prob(graph, d.states) == pytest.approx(
                float(d.score) - vs.infer(graph).log_z, abs=1e-8
            )


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("constraint", ["tree", "flow"])
def test_small_sentences(constraint: str, method: str) -> None:
    integral = 0
    for seed in range(1000 if constraint == "tree" else 100):
        rng = np.random.default_rng(seed)
        words, pair = int(rng.integers(2, 5)), float(rng.uniform(0.0, 2.0))
        graph, tree = (
            sentence(words, np.random.default_rng(seed), pair=pair, constraint=c)
            for c in (constraint, "tree")
        )
        rows = configurations(tree.factor(tree.n_factors - 1))
        others = [tree.factor(i) for i in range(tree.n_factors - 1)]
        best = max(sum(f.log_potential(rows[:, list(f.scope)]) for f in others))
        d = vs.decode(graph, method=method)
        assert d.upper >= best - 1e-13 * (1.0 + abs(best))
        assert -np.inf < d.score <= best + 1e-9
        assert not d.integral or d.score == pytest.approx(best, abs=1e-6)
        integral += bool(d.integral)
    assert integral > seed / 2


@pytest.mark.parametrize("method", METHODS)
def test_fractional_points_and_large_scores(method: str) -> None:
    graph = vs.FactorGraph([2] * 3)
    for edge in [(0, 1), (1, 2), (0, 2)]:  # three variables that want to differ
        graph.add(edge, [[0.0, 1.0], [1.0, 0.0]])
    d = vs.decode(graph, method=method)
    assert not d.integral
    assert d.upper == pytest.approx(3.0)
    assert 0.0 <= d.score <= 2.0  # of a fractional point that says nothing
    with pytest.raises(vs.DeadlineError):
        vs.decode(graph, method=method, deadline=1e-9)
    copy = pickle.loads(pickle.dumps(d))
    assert (copy.integral, copy.upper) == (d.integral, d.upper)
    np.testing.assert_array_equal(copy.relaxed, d.relaxed)
    graph = vs.FactorGraph([2] * 4)
    for v, x in enumerate([10_000.0, -10_000.0, 9_999.0, 0.0]):
        graph.add([v], [0.0, x])
    graph.add(vs.factors.Budget(0, 1, 2, 3, budget=1))
    d = vs.decode(graph, method=method)
    assert d.integral
    assert d.states.tolist() == [1, 0, 0, 0]
    assert d.score == 10_000.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(10))
def test_graphs_without_cycles_are_integral(seed: int, method: str) -> None:
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2] * 40)
    for v in range(40):
        graph.add([v], rng.normal(0.0, 1.0, 2))
    for v in range(1, 30):
        graph.add((int(rng.integers(v)), v), rng.normal(0.0, 1.0, (2, 2)))
    graph.add(vs.factors.OrOut(*range(30, 38), 0, negated=[1]))
    d, exact = vs.decode(graph, method=method), vs.decode(graph)
    assert d.integral
    assert d.score == pytest.approx(float(exact.score), abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_refusals(method: str) -> None:
    graph = vs.FactorGraph([2, 3])
    with pytest.raises(ValueError, match="variable 1 has 3 states"):
        vs.decode(graph, method=method)
    graph = vs.FactorGraph([2, 2])
    graph.add(AnyOf((0, 1)))
    with pytest.raises(ValueError, match=r"factor 0, an AnyOf over 2 variables, has none"):
        vs.decode(graph, method="lp")
    graph = vs.FactorGraph([2] * 3)
    graph.add(vs.factors.Xor(0, 1))
    graph.add(vs.factors.Xor(1, 2))
    graph.add(vs.factors.Xor(0, 2))  # fractional points only
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, method=method)
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, method=method, evidence={0: 1, 1: 1})


@pytest.mark.parametrize("method", ["lp", "ad3"])
def test_a_graph_without_variables(method: str) -> None:
    d = vs.decode(vs.FactorGraph([]), method=method)
    assert d.states.size == 0
    assert d.relaxed == []
    assert d.integral
    assert d.score == 0.0
    assert 0.0 <= d.upper < 1e-300


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> vs.FactorGraph:
    """Return a graph whose linear program takes more than half of a machine with little memory."""
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 100_000)
    graph = vs.FactorGraph([2] * 9, names=list("abcdefghi"))
    graph.add((0, 1), np.eye(2))
    graph.add_feature(range(1, 9), [1] * 8, 2.0)
    return graph


def test_a_program_beyond_the_memory_is_refused(little_memory: vs.FactorGraph) -> None:
    told = (
        r"method='lp' needs about \d+ KiB .*half of what the machine has \(97.7 KiB\); the largest "
        r"is that of factor 1, a Feature over 8 variables \('b', 'c', 'd', ...\), with 256 entries"
        r"; method='ad3' takes it, with 10.1 KiB; or use factors of fewer variables"
    )
    with pytest.raises(vs.MemoryLimitError, match=told):
        vs.decode(little_memory, method="lp")
    assert vs.decode(little_memory, method="ad3").score == 3.0
    little_memory.add(range(9), np.zeros((2,) * 9))
    with pytest.raises(vs.MemoryLimitError, match=r"'lp' needs .* factor 2, a Table over 9 var"):
        vs.decode(little_memory, method="lp")


@pytest.mark.usefixtures("little_memory")
def test_dual_decomposition_beyond_the_memory_is_refused() -> None:
    graph = vs.FactorGraph([2] * 12)
    graph.add_feature(range(12), [1] * 12, 1.0)
    told = r"method='ad3' needs about 160 KiB .* factor 0, a Feature over 12 .* 4,096 entries; use"
    for method in METHODS:
        with pytest.raises(vs.MemoryLimitError, match=told.replace("ad3", method)):
            vs.decode(graph, method=method)


def test_states_are_searched_for_where_no_program_fits(little_memory: vs.FactorGraph) -> None:
    for edge in [(0, 1), (1, 2), (0, 2)]:
        little_memory.add(vs.factors.Xor(*edge))  # fractional points only
    with pytest.raises(vs.InfeasibleError):
        vs.decode(little_memory, method="ad3")


def test_impossible_entries_of_a_table_take_no_memory() -> None:
    table = np.full((2,) * 18, -np.inf)
    table[(0,) * 18], table[(1,) * 18], table[(0, 1) * 9] = 0.0, 1.0, 3.0
    graph = vs.FactorGraph([2] * 18)
    graph.add(range(18), table)
    tracemalloc.start()
    d = vs.decode(graph, method="lp")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert d.states.tolist() == [0, 1] * 9
    assert peak < 8 * table.nbytes


class Told(AnyOf):
    """Any of some variables, with the polytope that it is told."""

    told: object = None

    def polytope(self) -> object:
        return self.told


_ROWS = (np.full((1, 3), -1.0), [-1.0], np.zeros((0, 3)), [])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, "a tuple of 5, got None"),
        (_ROWS, "a tuple of 5"),
        ((*_ROWS, -1), "auxiliary columns there are, a whole number >= 0, got -1"),
        ((*_ROWS, 0.5), "auxiliary columns there are, a whole number >= 0, got 0.5"),
        ((*_ROWS, 1), r"3 variables and 1 auxiliary ones, got shapes \(1, 3\) and \(1,\)"),
        ((np.ones((1, 9)), [1.0], *_ROWS[2:], 0), r"A_ub .* got shapes \(1, 9\) and \(1,\)"),
        ((np.ones((1, 2)), [1.0], *_ROWS[2:], 0), r"A_ub .* got shapes \(1, 2\) and \(1,\)"),
        ((_ROWS[0], np.ones(3), *_ROWS[2:], 0), r"A_ub .* got shapes \(1, 3\) and \(3,\)"),
        ((*_ROWS[:2], np.ones((2, 3)), [1.0], 0), r"A_eq .* got shapes \(2, 3\) and \(1,\)"),
        ((*_ROWS[:2], np.ones((1, 3)), 1.0, 0), r"A_eq .* got shapes \(1, 3\) and \(\)"),
        ((None, None, *_ROWS[2:], 0), "real numbers in b_ub, got None"),
        ((None, [1.0], *_ROWS[2:], 0), "real numbers in A_ub, got None"),
        ((*_ROWS[:2], np.ones((1, 3), complex), [1.0], 0), "real numbers in A_eq, got array"),
        ((*_ROWS[:2], [[1.0, np.nan, 1.0]], [1.0], 0), "finite numbers in A_eq and b_eq"),
        ((_ROWS[0], [np.inf], *_ROWS[2:], 0), "finite numbers in A_ub and b_ub"),
    ],
)
def test_a_polytope_of_users_is_checked(told: object, words: str) -> None:
    factor = Told((1, 2, 3))
    graph = vs.FactorGraph([2] * 4)
    graph.add(factor)
    graph.add_many([[0], [1], [2], [3]], np.tile([0.0, -1.0], (4, 1)))
    factor.told = (*_ROWS, 0)
    assert vs.decode(graph, method="lp").score == pytest.approx(-1.0)
    factor.told = told
    with pytest.raises(ValueError, match=rf"polytope of Told\(1, 2, 3\) must return .*{words}"):
        vs.decode(graph, method="lp")


def test_sparse_rows_that_contradict_themselves_are_refused() -> None:
    rows = csr_array(_ROWS[0])
    rows.indptr = np.array([0, 10**6], np.int32)
    factor = Told((0, 1, 2))
    factor.told = (rows, *_ROWS[1:], 0)
    graph = vs.FactorGraph([2] * 3)
    graph.add(factor)
    with pytest.raises(ValueError, match=r"A_ub of polytope of Told.* is no sound csr array"):
        vs.decode(graph, method="lp")


def test_points_are_probabilities() -> None:
    """HiGHS has -0.0, and may be off by its tolerance: a point is within [0, 1] all the same."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        graph = vs.FactorGraph([2] * 8)
        graph.add_many(np.arange(8)[:, None], rng.normal(size=(8, 2)))
        for _ in range(12):
            graph.add(rng.choice(8, 2, replace=False).tolist(), rng.normal(size=(2, 2)))
        graph.add(vs.factors.Xor(0, 1, 2))
        point = np.concatenate(vs.decode(graph, method="lp").relaxed)
        assert not np.signbit(point).any()
        assert point.max() <= 1.0
