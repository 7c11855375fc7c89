"""Trees as factors: every verb against all trees, and in the engines."""

from __future__ import annotations

import itertools
import pickle
import re

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from strategies import examples
from structured_oracle import (
    as_tables,
    best_of,
    check_joints,
    check_sums,
    configurations,
    enumerated,
    messages_of,
)

import valuesparse as vs
from valuesparse.factors import ProjectiveTree, Structured, Tree

SCHEDULES = ["flooding", "residual", "rounds", "tree"]


def all_arcs(n: int) -> list[tuple[int, int]]:
    return [(h, m) for h, m in itertools.product(range(n + 1), range(1, n + 1)) if h != m]


@st.composite
def cases(draw):
    """Return a tree factor, with some arcs missing, and messages."""
    n = draw(st.integers(1, 4))
    arcs = draw(st.lists(st.sampled_from(all_arcs(n)), unique=True, min_size=n))
    # A word without arcs gets one from the root.
    arcs += [(0, m) for m in range(1, n + 1) if m not in {x for _, x in arcs}]
    kind = draw(st.sampled_from([Tree, ProjectiveTree]))
    factor = kind(arcs, range(len(arcs)), single_root=draw(st.booleans()))
    return factor, draw(messages_of(factor))


@given(cases())
@examples(500)
def test_marginals_have_all_digits_of_both_sides(case) -> None:
    check_sums(*case)


@given(cases())
@examples(500)
def test_best_and_max_marginals(case) -> None:
    factor, messages = case
    score, states = factor.best(messages)
    wanted = best_of(factor, messages)
    np.testing.assert_allclose(score, wanted.max(), rtol=1e-12, atol=1e-12)
    if score > -np.inf:
        assert factor.log_potential(states[None])[0] == 0.0
    if isinstance(factor, Tree):
        with pytest.raises(NotImplementedError, match="Tree has no max_marginals"):
            factor.max_marginals(messages)
    else:
        found = factor.max_marginals(messages)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@given(cases())
@examples(200)
def test_joints_of_two(case) -> None:
    check_joints(*case)


@pytest.mark.parametrize("step", [5.0, 60.0, 200.0, 232.0])
def test_joints_of_two_where_all_differences_vanish(step: float) -> None:
    # Both factors of a minor lose all their digits: the product of what they lost is not nothing.
    arcs = [(h, m) for h, m in all_arcs(4) if (h, m) != (3, 1)]
    steps = np.array([0, -2, 1, -1, 0, 1, 1, -1, 2, 0, 1, 0, 1, 0, 1.0])
    scores = dict(zip(sorted(arcs), step * steps, strict=True))
    factor = Tree(arcs, range(len(arcs)))
    odds = np.array([scores[arc] for arc in arcs])
    check_joints(factor, np.stack([np.zeros(len(arcs)), odds], axis=1))


@pytest.mark.parametrize("seed", range(20))
def test_joints_of_two_where_scores_are_far_apart_and_tied(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arcs = all_arcs(4)
    factor = Tree(arcs, range(len(arcs)), single_root=bool(seed % 2))
    odds = rng.choice([40.0, 60.0, 200.0]) * np.round(rng.normal(size=len(arcs)))
    check_joints(factor, np.stack([np.zeros(len(arcs)), odds], axis=1))


@given(cases())
@examples(60)
def test_log_potentials_are_those_of_trees(case) -> None:
    factor, _ = case
    k = len(factor.scope)
    allowed = {tuple(row) for row in configurations(factor).tolist()}
    rows = np.random.default_rng(k).integers(0, 2, (200, k))
    rows = np.concatenate([rows, configurations(factor)])
    found = factor.log_potential(rows)
    assert [x == 0.0 for x in found] == [tuple(row) in allowed for row in rows.tolist()]


@given(cases(), st.integers(0, 2**32 - 1))
@examples(60)
def test_polytopes_and_projections(case, seed: int) -> None:
    factor, _ = case
    k = len(factor.scope)
    vertices = configurations(factor)
    if not len(vertices):
        return
    rng = np.random.default_rng(seed)
    point = rng.normal(0.3, 1.0, k)
    found = factor.project(point)
    assert ((vertices - found) @ (point - found)).max() <= 1e-8
    upper, below, equal, right, more = factor.polytope()
    gain = rng.normal(size=k)
    bounds = [(0, 1)] * k + [(0, None)] * more
    cost = np.append(-gain, np.zeros(more))
    lp = linprog(cost, upper, below, equal, right, bounds=bounds, method="highs")
    assert -lp.fun == pytest.approx(factor.best(np.stack([np.zeros(k), gain], axis=1))[0], abs=1e-8)


def test_numbers_of_trees_of_forty_words() -> None:
    n = 40
    arcs = all_arcs(n)
    zeros = np.zeros((len(arcs), 2))
    log_mass, p, _ = Tree(arcs, range(len(arcs))).sum_product(zeros)
    assert log_mass == pytest.approx((n - 1) * np.log(n + 1), rel=1e-12)
    assert p.sum() == pytest.approx(n)
    log_mass = Tree(arcs, range(len(arcs)), single_root=True).sum_product(zeros)[0]
    assert log_mass == pytest.approx((n - 1) * np.log(n), rel=1e-12)


def graph_of(factor: Structured, seed: int, *, cycles: bool) -> vs.FactorGraph:
    rng = np.random.default_rng(seed)
    k = len(factor.scope)
    graph = vs.FactorGraph([2] * (k + 1))
    for v in range(k + 1):
        graph.add([v], rng.normal(0.0, 1.5, 2))
    graph.add(factor)
    graph.add((k - 1, k), rng.normal(0.0, 1.0, (2, 2)))
    for a, b in itertools.pairwise(range(k)) if cycles else ():
        graph.add((a, b), rng.normal(0.0, 0.5, (2, 2)))
    return graph


def flat(r: vs.results.GraphResult) -> np.ndarray:
    return np.concatenate(r.marginals)


@pytest.mark.parametrize("kind", [Tree, ProjectiveTree])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_in_graphs_with_cycles_they_are_their_tables(kind: type, schedule: str) -> None:
    for seed in range(4):
        graph = graph_of(kind(all_arcs(3), range(9), seed % 2 == 0), seed, cycles=True)
        options = {"damping": 0.3, "tolerance": 1e-11, "max_iterations": 3000}
        one, *others = (
            vs.infer(graph, method=vs.BP(schedule=schedule, **options), threads=t)
            for t in (1, 2, 3, 8)
        )
        table = vs.infer(as_tables(graph), method=vs.BP(**options))
        assert one.converged
        assert table.converged
        np.testing.assert_allclose(flat(one), flat(table), rtol=0, atol=1e-7)
        assert one.log_z == pytest.approx(table.log_z, abs=1e-6)
        for r in others:
            assert_same_bits(flat(r), flat(one))
        lower = vs.infer(graph, method="structured_mean_field").log_z
        upper = vs.inference.trw_dual_bound(graph, method=vs.TRW(max_iterations=50)).upper
        assert lower <= enumerated(graph)[0] <= upper


@given(st.integers(0, 1000), st.booleans(), st.integers(0, 9), st.booleans())
@examples(60)
def test_without_cycles_they_are_exact(seed: int, projective: bool, at: int, state: bool) -> None:
    kind = ProjectiveTree if projective else Tree
    graph = graph_of(kind(all_arcs(3), range(9)), seed, cycles=False)
    for evidence in ({}, {at: int(state)}, {at: 1, (at + 3) % 9: 1}):
        log_z, marginals, entropy, best = enumerated(graph, evidence)
        if log_z == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                vs.infer(graph, evidence=evidence)
            continue
        r = vs.infer(graph, evidence=evidence)
        assert r.exact
        assert r.log_z == pytest.approx(log_z, abs=1e-8)
        np.testing.assert_allclose(flat(r), np.concatenate(marginals), rtol=0, atol=1e-8)
        assert r.entropy() == pytest.approx(entropy, abs=1e-8)
        for method in ("auto", "bp"):
            d = vs.decode(graph, method=method, evidence=evidence)
            assert d.score == pytest.approx(best, abs=1e-8)


def test_decoding_by_messages_refuses_a_tree_on_a_cycle() -> None:
    graph = graph_of(Tree(all_arcs(3), range(9)), 0, cycles=True)
    for method in ("bp", "trw"):
        with pytest.raises(ValueError, match="factor 10, a Tree over 9 variables, has no max-marg"):
            vs.decode(graph, method=method)
    with pytest.raises(ValueError, match="cycles; method='ad3' takes it, and bounds the best"):
        vs.decode(graph, method="bp")
    assert vs.decode(graph, method="ad3").upper >= enumerated(graph)[3]
    graph = graph_of(ProjectiveTree(all_arcs(3), range(9)), 0, cycles=True)
    assert vs.decode(graph, method="bp").score <= enumerated(graph)[3] + 1e-9


@pytest.mark.parametrize("states", [2, 3])
@pytest.mark.parametrize("kind", [Tree, ProjectiveTree])
def test_what_needs_a_table_names_a_method_that_works(kind: type, states: int) -> None:
    arcs = all_arcs(6)
    graph = vs.FactorGraph([2] * len(arcs) + [states])
    index = graph.add(kind(arcs, range(len(arcs))))
    for i in (0, 1):
        graph.add([i, len(arcs)], np.eye(2, states))
    with pytest.raises(ValueError, match=f"factor {index}, a {kind.__name__} over 36") as told:
        vs.decode(graph)
    [advised] = re.findall(r"fit; (?:only )?(.*?) takes it", str(told.value))
    method = {
        (2, Tree): "method='ad3'", (2, ProjectiveTree): "method='ad3'",
        (3, ProjectiveTree): "method='bp'", (3, Tree): "infer(method='bp')",
    }  # fmt: skip
    assert advised == method[states, kind]
    ask = vs.infer if "infer" in advised else vs.decode
    assert ask(graph, method=advised.split("'")[1])
    with pytest.raises(ValueError, match=r"fit; infer\(method='bp'\) takes it"):
        vs.log_prob(graph, [0] * (len(arcs) + 1))


def test_refusals_and_pickles() -> None:
    factor = Tree([(0, 1), (1, 2)], [5, 3], single_root=True)
    assert repr(factor) == "Tree([(0, 1), (1, 2)], [5, 3], single_root=True)"
    copy = pickle.loads(pickle.dumps(factor))
    assert repr(copy) == repr(factor)
    for arcs, variables, words in [
        ([(0, 1), (0, 1)], [0, 1], r"arcs\[1\] is \(0, 1\), as arcs\[0\]"),
        ([(0, 1), (2, 2)], [0, 1], r"arcs\[1\] is \(2, 2\)"),
        ([(0, 1), (1, 0)], [0, 1], r"arcs\[1\] is \(1, 0\)"),
        ([(0, 1), (-1, 1)], [0, 1], r"arcs\[1\] is \(-1, 1\)"),
        ([(0, 1), (0, 3)], [0, 1], "none does to 2"),
        ([(0, 1)], [0, 1], "arcs must be 2 pairs"),
        ([(0.0, 1.0)], [0], "arcs must be 1 pairs"),
        ([(0, 1), (1, 2)], [4, 4], "variable 4 twice"),
    ]:
        with pytest.raises(ValueError, match=words):
            Tree(arcs, variables)
