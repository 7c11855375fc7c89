"""Structured factors in pendant trees: exact without a table, against enumeration."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from structured_oracle import AnyOf

import valuesparse as vs
from valuesparse.factors import Structured, Xor

SCORES = st.one_of(
    st.floats(-3.0, 3.0), st.sampled_from([0.0, -np.inf, 10_000.0, -10_000.0, 9_999.5])
)
METHODS = ["auto", "exact", "junction_tree"]


def enumerated(graph: vs.FactorGraph, evidence: dict[int, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return all configurations and their scores."""
    rows = np.array(list(itertools.product(*map(range, graph.cardinalities))))
    score = np.zeros(len(rows))
    for factor in graph.factors:
        score = score + factor.log_potential(rows[:, list(factor.scope)])
    for v, x in evidence.items():
        if isinstance(x, int):
            score = np.where(rows[:, v] == x, score, -np.inf)
        else:
            score = score + np.asarray(x)[rows[:, v]]
    return rows, score


@st.composite
def graphs(draw: Any) -> tuple[vs.FactorGraph, dict[int, Any]]:
    """Return a graph with cycles, pendant structured factors, and evidence."""
    cycle = draw(st.integers(3, 4))
    n = cycle + draw(st.integers(1, 12 - cycle))
    graph = vs.FactorGraph([2] * n)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    for v in range(cycle):
        graph.add((v, (v + 1) % cycle), rng.normal(0.0, 1.5, (2, 2)))
    used, free = list(range(cycle)), list(range(cycle, n))
    while free:
        new = [free.pop() for _ in range(draw(st.integers(1, len(free))))]
        root = [draw(st.sampled_from(used))] if draw(st.booleans()) else []
        kind = draw(st.sampled_from(["xor", "own", "table"]))
        scope = tuple(rng.permutation(root + new).tolist())
        if kind == "table" and len(scope) <= 3:
            graph.add(scope, rng.normal(0.0, 1.5, (2,) * len(scope)))
        elif kind == "own":
            graph.add(AnyOf(scope))
        else:
            places = st.lists(st.integers(0, len(scope) - 1), unique=True)
            graph.add(Xor(*scope, negated=draw(places)))
        used += new
    for v in draw(st.lists(st.integers(0, n - 1), unique=True)):
        graph.add((v,), [draw(SCORES), draw(SCORES)])
    evidence: dict[int, Any] = {}
    for v in draw(st.lists(st.integers(0, n - 1), unique=True, max_size=3)):
        soft = draw(st.booleans())
        evidence[v] = [draw(SCORES), draw(SCORES)] if soft else draw(st.integers(0, 1))
    return graph, evidence


@pytest.mark.simd
@given(graphs(), st.sampled_from(METHODS))
@examples(400)
def test_every_answer_is_that_of_enumeration(case: Any, method: str) -> None:
    graph, evidence = case
    rows, score = enumerated(graph, evidence)
    if score.max() == -np.inf:
        for ask in (
            lambda: vs.infer(graph, method=method, evidence=evidence),
            lambda: vs.decode(graph, evidence=evidence),
            lambda: vs.log_prob(graph, rows[0], evidence=evidence),
        ):
            with pytest.raises(vs.InfeasibleError):
                ask()
        return
    log_z = np.logaddexp.reduce(score)
    p = np.exp(score - log_z)
    r = vs.infer(graph, method=method, evidence=evidence)
    assert r.exact
    assert r.method in ("exact", "junction_tree")
    scale = max(1.0, np.abs(score[score > -np.inf]).max())
    assert abs(r.log_z - log_z) <= 1e-12 * scale + 1e-10
    assert r.log_z_lower <= log_z <= r.log_z_upper
    for v in range(graph.n_variables):
        np.testing.assert_allclose(r.marginals[v][1], p[rows[:, v] == 1].sum(), atol=1e-9)
    for factor, found in zip(graph.factors, r.factor_marginals(), strict=True):
        if isinstance(factor, Structured) and found.ndim == 1:
            wanted = p @ rows[:, list(factor.scope)]
        else:
            wanted = np.zeros(found.shape)
            np.add.at(wanted, tuple(rows[:, list(factor.scope)].T), p)
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    some = p[p > 0.0]
    assert r.entropy() == pytest.approx(-(some * np.log(some)).sum(), abs=1e-11 * scale + 1e-8)
    copy = pickle.loads(pickle.dumps(r))
    assert copy.entropy() == pytest.approx(r.entropy(), abs=1e-11 * scale + 1e-8)
    d = vs.decode(graph, evidence=evidence)
    assert d.score == pytest.approx(score.max(), abs=1e-12 * scale + 1e-9)
    at = int((rows == d.states).all(axis=1).argmax())
    assert score[at] == pytest.approx(score.max(), abs=1e-12 * scale + 1e-9)
    log_p = vs.log_prob(graph, d.states, evidence=evidence)
    assert log_p == pytest.approx(score[at] - log_z, abs=1e-12 * scale + 1e-9)


def grid_with(xor: Structured, n: int, seed: int = 0) -> vs.FactorGraph:
    """Return a 3x3 grid of the first nine variables, and a structured factor."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2] * n)
    for v in range(n):
        graph.add([v], rng.normal(0.0, 2.0, 2))
    for v in range(9):
        if v % 3 < 2:
            graph.add((v, v + 1), rng.normal(0.0, 1.0, (2, 2)))
        if v < 6:
            graph.add((v, v + 3), rng.normal(0.0, 1.0, (2, 2)))
    graph.add(xor)
    return graph


@pytest.mark.parametrize("attached", [True, False])
def test_a_thousand_variables_beside_a_grid(attached: bool) -> None:
    first = 4 if attached else 9
    scope = (first, *range(10, 1009))
    graph = grid_with(Xor(*scope), 1009)
    r = vs.infer(graph)
    assert (r.method, r.exact) == ("junction_tree", True)
    # By hand: where the first is off, exactly one of the 999 others is on, else none.
    unary = np.array([graph.factors[v].log_table for v in range(10, 1009)])
    off = unary[:, 0].sum()
    odds = np.logaddexp.reduce(unary[:, 1] - unary[:, 0])
    kept = [i for i, f in enumerate(graph.factors[:-1]) if max(f.scope) < 10]
    plain, best = vs.FactorGraph([2] * 10), vs.FactorGraph([2] * 10)
    for i in kept:
        plain.add(graph.factors[i])
        best.add(graph.factors[i])
    plain.add([first], [off + odds, off])
    best.add([first], [off + (unary[:, 1] - unary[:, 0]).max(), off])
    q = vs.infer(plain)
    assert r.log_z == pytest.approx(q.log_z, rel=1e-12)
    for v in range(10):
        np.testing.assert_allclose(r.marginals[v], q.marginals[v], atol=1e-12)
    share = np.exp(unary[:, 1] - unary[:, 0] - odds) * q.marginals[first][0]
    np.testing.assert_allclose([r.marginals[v][1] for v in range(10, 1009)], share, atol=1e-12)
    inner = np.exp(unary[:, 1] - unary[:, 0] - odds)
    more = q.marginals[first][0] * -(inner * np.log(inner)).sum()
    assert r.entropy() == pytest.approx(q.entropy() + more, abs=1e-9)
    d = vs.decode(graph)
    assert d.score == pytest.approx(vs.decode(best).score, rel=1e-12)
    assert d.score == pytest.approx(float(vs.log_prob(graph, d.states)) + r.log_z, abs=1e-9)
    np.testing.assert_allclose(r.joint([0, 8]), q.joint([0, 8]), atol=1e-12)
    with pytest.raises(ValueError, match="gives no joint of the variables"):
        r.joint([500, 501])
    with pytest.raises(ValueError, match=r"factor \d+: Xor over 1000 variables has no table"):
        vs.sample(graph, 1)


@pytest.mark.parametrize("size", [3, 30])
@pytest.mark.parametrize("ring", [False, True])
def test_an_error_of_a_joint_names_what_has_it(size: int, ring: bool) -> None:
    names = [f"x{v}" for v in range(size + 2)]
    graph = vs.FactorGraph([2] * (size + 2), names=names)
    graph.add(Xor(*range(size)))
    edges = [(size - 1, size), (size, size + 1), *([(size - 1, size + 1)] if ring else [])]
    for edge in edges:
        graph.add(edge, [[0.0, 0.4], [-1.0, 1.0]])
    r = vs.infer(graph)
    assert r.method == ("junction_tree" if ring else "exact")
    joint = np.array(
        [vs.infer(graph, evidence={"x0": x})[f"x{size + 1}"] * r["x0", x] for x in range(2)]
    )
    for pair, words in (
        (["x0", names[-1]], r"'x0', '.*'\] in its scope"),
        (["x0", "x1"], "gives no"),
    ):
        with pytest.raises(ValueError, match=words) as error:
            r.joint(pair)
        assert "method 'junction_tree' knows" not in str(error.value)
        assert f"factor 0, a Xor over {size} variables" in str(error.value)
        if size == 3:
            assert "infer(method='junction_tree') has that of any variables" in str(error.value)
            found = vs.infer(graph, method="junction_tree").joint(["x0", names[-1]])
            np.testing.assert_allclose(found, joint, atol=1e-12)
        else:
            assert "infer with evidence on 'x0', one state after the other" in str(error.value)


def test_reasons_and_what_evidence_takes_apart() -> None:
    graph = grid_with(Xor(0, 8, *range(9, 60)), 60)  # on a cycle, through the grid
    index = graph.n_factors - 1
    r = vs.infer(graph)
    assert (r.method, r.exact) == ("bp", False)
    assert f"factor {index}, a Xor over 53 variables" in r.reason
    for ask, advice in (
        (lambda: vs.infer(graph, method="exact"), r"method='bp'"),
        (lambda: vs.infer(graph, method="junction_tree"), r"method='bp'"),
        (lambda: vs.decode(graph), r"method='ad3'"),
        (lambda: vs.log_prob(graph, np.zeros(60, dtype=np.int64)), r"infer\(method='bp'\)"),
    ):
        words = f"factor {index}, a Xor over 53 variables, lies on a cycle .*{advice} takes it"
        with pytest.raises(ValueError, match=words):
            ask()
    cut = vs.infer(graph, evidence={8: 0})  # now it is pendant at variable 0
    assert cut.exact
    assert "3 factors of two and more variables are in pendant trees" in cut.reason
    same = grid_with(Xor(0, *range(9, 60)), 60)
    np.testing.assert_allclose(
        cut.flat_marginals(), vs.infer(same, evidence={8: 0}).flat_marginals(), atol=1e-12
    )


def test_a_core_that_does_not_fit_is_refused_or_approximated() -> None:
    graph = grid_with(Xor(0, *range(9, 60)), 60)
    with pytest.raises(vs.MemoryLimitError, match="junction tree needs"):
        vs.infer(graph, method="exact", memory_limit=1)
    r = vs.infer(graph, memory_limit=1)
    assert (r.method, r.exact) == ("bp", False)


def test_bits_depend_neither_on_threads_nor_on_what_was_asked_before() -> None:
    graph = grid_with(Xor(0, *range(9, 200)), 200)
    first = vs.infer(graph, threads=1)
    for threads in (2, 3, 8, 1):
        again = vs.infer(graph, threads=threads)
        assert again.log_z == first.log_z
        assert_same_bits(again.flat_marginals(), first.flat_marginals())
    with pytest.raises(vs.DeadlineError):
        vs.infer(graph, deadline=1e-9)


def test_selection_of_factors_goes_on_from_exact_rounds() -> None:
    graph = vs.FactorGraph([2] * 8)
    rng = np.random.default_rng(3)
    for v in range(8):
        graph.add([v], rng.normal(0.0, 1.0, 2))
    graph.add(Xor(2, *range(3, 8)))
    for a, b in [(0, 1), (1, 2), (0, 2)]:
        graph.add_feature([a, b], [1, 1], float(rng.normal(1.0, 0.5)))
    r = vs.relax(graph, threshold=0.0)
    np.testing.assert_allclose(r.flat_marginals(), vs.infer(graph).flat_marginals(), atol=1e-9)
    assert r.factors.size == graph.n_factors
