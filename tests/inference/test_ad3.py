"""Dual decomposition with quadratic steps, beside the linear program that it solves."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from relaxation_graphs import random_graph, sentence
from structured_oracle import ALLOWED, AnyOf, configurations, enumerated, make

import valuesparse as vs
from valuesparse import _messages
from valuesparse.inference._network import LoopyCall
from valuesparse.inference._watch import NOBODY


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("constraint", ["tree", "flow"])
def test_reaches_the_optimum_of_the_linear_program(constraint: str, seed: int) -> None:
    words = 7 if constraint == "tree" else 5
    graph = sentence(words, np.random.default_rng(seed), pair=1.0, constraint=constraint)
    lp, ad3 = (vs.decode(graph, method=method) for method in ("lp", "ad3"))
    assert ad3.converged
    assert ad3.upper == pytest.approx(lp.upper, rel=1e-5)
    if lp.integral:
        assert ad3.score == pytest.approx(float(lp.score), rel=1e-6)
    states = [int(p[1] > 0.5) for p in ad3.relaxed]
    assert not ad3.integral or states == ad3.states.tolist()


def lacking(graph: vs.FactorGraph, d: vs.Decoding) -> float:
    """Return what is missing from the arc that leads into each set of words, at most."""
    tree = graph.factor(graph.n_factors - 1)
    assert isinstance(tree, vs.factors.Tree)
    assert d.relaxed is not None
    arcs = list(zip(tree.arcs, tree.scope, strict=True))
    words = max(m for (_, m), _ in arcs)
    missing = 0.0
    for kept in itertools.product((False, True), repeat=words):
        inside = {m for m in range(1, words + 1) if kept[m - 1]}
        into = sum(d.relaxed[v][1] for (h, m), v in arcs if m in inside and h not in inside)
        missing = max(missing, 1.0 - into if inside else 0.0)
    for word in range(1, words + 1):
        own = sum(d.relaxed[v][1] for (_, m), v in arcs if m == word)
        missing = max(missing, abs(1.0 - own))
    if tree.single_root:
        missing = max(missing, abs(1.0 - sum(d.relaxed[v][1] for (h, _), v in arcs if h == 0)))
    return missing


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    words=st.integers(1, 7),
    pair=st.sampled_from([0.3, 1.0, 3.0]),
    single=st.booleans(),
    known=st.integers(0, 3),
)
@example(seed=3, words=3, pair=0.3, single=True, known=0)
def test_fractional_points_are_points_of_trees(
    seed: int, words: int, pair: float, single: bool, known: int
) -> None:
    rng = np.random.default_rng(seed)
    graph = sentence(words, rng, pair=pair)
    if single:
        arcs = graph.factor(graph.n_factors - 1).arcs  # type: ignore[attr-defined]
        other = vs.FactorGraph([2] * graph.n_variables)
        for i in range(graph.n_factors - 1):
            other.add(graph.factor(i))
        other.add(vs.factors.Tree(arcs, range(len(arcs)), True))
        graph = other
    # Evidence that a tree fulfils: arcs that it lacks, and one that it has.
    tree = vs.decode(graph, method="ad3").states
    evidence = {v: int(tree[v]) for v in rng.permutation(len(tree))[:known].tolist()}
    lp, d = (vs.decode(graph, method=method, evidence=evidence) for method in ("lp", "ad3"))
    assert d.converged
    scale = max(1.0, abs(lp.upper))
    assert lp.upper - 1e-9 * scale <= d.upper <= lp.upper + 2e-5 * scale
    assert lacking(graph, d) <= 2e-5


def random_trees(count: int, pair: float) -> Iterator[tuple[vs.FactorGraph, float]]:
    """Yield graphs of sentences of four words, and the best score of a tree."""
    rows, score = None, 0.0
    for seed in range(count):
        graph = sentence(4, np.random.default_rng(seed), pair=pair)
        if rows is None:
            rows = configurations(graph.factor(graph.n_factors - 1))
        others = [graph.factor(i) for i in range(graph.n_factors - 1)]
        score = max(sum(f.log_potential(rows[:, list(f.scope)]) for f in others))
        yield graph, score


@pytest.mark.parametrize(
    ("method", "count"),
    [("ad3", 1000), ("lp", 50), pytest.param("lp", 1000, marks=pytest.mark.slow)],
)
def test_small_sentences_beside_all_trees(method: str, count: int) -> None:
    integral = above = 0
    for graph, best in random_trees(count, 0.5):
        d = vs.decode(graph, method=method)
        assert d.upper >= best - 1e-9
        assert d.score <= best + 1e-9
        if d.integral:
            assert d.score == pytest.approx(best, abs=1e-9)
            integral += 1
        above += d.upper > best + 1e-3
    assert integral + above <= count
    assert integral > count / 2
    assert above > 0


def test_flows_and_trees_have_one_optimum() -> None:
    graphs = [
        sentence(6, np.random.default_rng(5), pair=0.7, constraint=c) for c in ("tree", "flow")
    ]
    tree, flow = (vs.decode(graph, method=vs.AD3(tolerance=1e-7)).upper for graph in graphs)
    assert flow == pytest.approx(tree, rel=1e-6)


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_last_digits(seed: int, trees: bool) -> None:
    rng = np.random.default_rng(seed)
    if trees:
        graph = sentence(8, rng, pair=1.0)
    else:  # frustrated pairs, and tables of three
        graph = vs.FactorGraph([2] * 20)
        for v in range(20):
            graph.add([v], [0.0, rng.normal()])
        for _ in range(60):
            graph.add(rng.choice(20, 2, replace=False), 3.0 * rng.normal(size=(2, 2)))
        for _ in range(0 if seed == 0 else 5):
            graph.add(rng.choice(20, 3, replace=False), rng.normal(size=(2, 2, 2)))
    lp = vs.decode(graph, method="lp")
    ad3 = vs.decode(graph, method=vs.AD3(tolerance=1e-7))
    assert ad3.converged
    assert ad3.integral == lp.integral
    assert ad3.upper == pytest.approx(lp.upper, rel=2e-7)


@pytest.mark.parametrize("seed", range(3))
def test_projective_trees(seed: int) -> None:
    graph = sentence(4, np.random.default_rng(seed), pair=1.0, constraint="projective")
    best = enumerated_trees(graph)
    lp, ad3 = (vs.decode(graph, method=method) for method in ("lp", "ad3"))
    assert ad3.upper == pytest.approx(lp.upper, rel=1e-5)
    for d in (lp, ad3):
        assert d.upper >= best - 1e-10
        assert d.score <= best + 1e-10
        assert not d.integral or d.score == pytest.approx(best)


@pytest.mark.parametrize("single_root", [False, True])
def test_the_program_of_a_projective_tree_is_the_best_one(single_root: bool) -> None:
    rng = np.random.default_rng(5)
    for words in (2, 5, 9):
        scores = rng.normal(size=(words + 1, words + 1))
        scores[rng.random(scores.shape) < 0.3] = -np.inf
        scores[0, 1:] = rng.normal(-1.0, 1.0, words)
        graph = vs.parsing.graph(scores, constraint="projective", single_root=single_root)
        best = vs.parsing.best_trees([scores], projective=True, single_root=single_root)
        found = vs.decode(graph, method="lp")
        assert found.integral
        assert found.upper == pytest.approx(float(best.score[0]), abs=1e-8)
        assert found.score == pytest.approx(float(best.score[0]), abs=1e-12)


def enumerated_trees(graph: vs.FactorGraph) -> float:
    """Return the best score among the trees of the last factor."""
    rows = configurations(graph.factor(graph.n_factors - 1))
    others = [graph.factor(i) for i in range(graph.n_factors - 1)]
    return max(sum(f.log_potential(rows[:, list(f.scope)]) for f in others))


@pytest.mark.parametrize("iterations", [1, 2, 5, 11, 40])
def test_a_bound_after_any_number_of_iterations(iterations: int) -> None:
    method = vs.AD3(max_iterations=iterations)
    for seed in range(10):
        graph = random_graph(seed)
        best = enumerated(graph)[3]
        if best == -np.inf:
            continue
        d = vs.decode(graph, method=method)
        assert d.upper >= best - 1e-12
        assert d.score > -np.inf
    graph = sentence(8, np.random.default_rng(0), pair=2.0)
    d = vs.decode(graph, method=method)
    assert not d.converged
    assert d.upper > vs.decode(graph, method="lp").upper


def fixes(graph: vs.FactorGraph) -> bool:
    """Say whether some pair leaves a variable one state, so that the dual knows more."""
    pairs = [
        f.log_table for f in graph.factors if isinstance(f, vs.factors.Table) and len(f.scope) == 2
    ]
    return any((t == -np.inf).all(axis=a).any() for t in pairs for a in range(2))


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e-8, 1e12])
def test_bounds_are_rounded_up(scale: float) -> None:
    for seed in range(25):
        graph = random_graph(seed, scale)
        task = LoopyCall.of(graph, {}, NOBODY)
        laid = task.network.native
        dual = _messages.Dual(laid, task.local, None, None)
        if not dual.possible or len(laid.wide) != len(np.unique(laid.group)) or fixes(graph):
            continue  # tables of one scope are one factor there
        rng = np.random.default_rng(seed)
        share = scale * rng.normal(0.0, 1.0, laid.ptr[-1])
        wide = dict(zip(laid.wide.tolist(), laid.group.tolist(), strict=True))
        given = {i: share[laid.ptr[g] : laid.ptr[g + 1]].tolist() for i, g in wide.items()}
        found, exact = dual.bound(share, None, None), exact_bound(graph, given)
        assert Fraction(found) >= exact
        assert found <= float(exact) + 1e-11 * scale


def exact_bound(graph: vs.FactorGraph, share: dict[int, list[float]]) -> Fraction:
    """Return the dual value in rational numbers; what factors leave of each variable is its own."""
    left = [Fraction(0)] * graph.n_variables
    total = Fraction(0)
    for i, f in enumerate(graph.factors):
        scope = list(f.scope)
        rows = np.array(list(itertools.product(range(2), repeat=len(scope))))
        score = f.log_potential(rows).tolist()
        if i not in share:
            total += Fraction(score[0])
            left[scope[0]] += Fraction(score[1]) - Fraction(score[0])
            continue
        total += max(
            Fraction(x) + sum(Fraction(s) for s, y in zip(share[i], row, strict=True) if y)
            for row, x in zip(rows.tolist(), score, strict=True)
            if x > -np.inf
        )
        for v, s in zip(scope, share[i], strict=True):
            left[v] -= Fraction(s)
    return total + sum(max(x, Fraction(0)) for x in left)


def test_scores_of_very_different_sizes() -> None:
    rng = np.random.default_rng(1)
    for sign in (1.0, -1.0):
        graph = sentence(6, rng, pair=0.5)
        arcs = graph.n_variables
        for v in rng.choice(arcs, 4, replace=False).tolist():
            graph.add([v], [0.0, sign * 10_000.0])
        lp, ad3 = (vs.decode(graph, method=method) for method in ("lp", "ad3"))
        assert ad3.upper == pytest.approx(lp.upper, rel=1e-5)
        assert ad3.score == pytest.approx(float(lp.score), rel=1e-4)


@pytest.mark.parametrize("kind", sorted(ALLOWED))
def test_one_factor_alone(kind: str) -> None:
    rng = np.random.default_rng(0)
    for negated in ([], [0], [1, 3], [0, 1, 2, 3]):
        for scale in (1.0, 10_000.0):
            graph = vs.FactorGraph([2] * 4)
            for v in range(4):
                graph.add([v], scale * rng.normal(size=2))
            graph.add(make(kind, range(4), negated))
            for evidence in ({}, {1: 0}, {0: 1, 1: 1}):
                best = enumerated(graph, evidence)[3]
                if best == -np.inf:
                    with pytest.raises(vs.InfeasibleError):
                        vs.decode(graph, method="ad3", evidence=evidence)
                    continue
                d = vs.decode(graph, method="ad3", evidence=evidence)
                assert d.integral
                assert d.score == pytest.approx(best, rel=1e-12)
                assert d.upper == pytest.approx(best, rel=1e-8)


def test_what_needs_no_iteration() -> None:
    d = vs.decode(vs.FactorGraph([]), method="ad3")
    assert (d.states.tolist(), float(d.score), d.integral, d.converged) == ([], 0.0, True, True)
    graph = vs.FactorGraph([2, 2, 2])
    graph.add([0], [0.0, 3.0])
    graph.add([1], [-np.inf, -1.0])
    graph.add(vs.factors.Xor(2))
    graph.add((), 5.0)
    d = vs.decode(graph, method="ad3")
    assert d.states.tolist() == [1, 1, 1]
    assert float(d.score) == 7.0
    assert d.upper == pytest.approx(7.0)
    soft = vs.decode(graph, method="ad3", evidence={0: [2.0, -4.0]})
    assert soft.states.tolist() == [0, 1, 1]
    assert float(soft.score) == 6.0
    graph.add([1], [0.0, -np.inf])
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, method="ad3")


@pytest.mark.parametrize("kind", [vs.factors.Tree, vs.factors.ProjectiveTree])
def test_a_first_point_is_no_optimum(kind: type[vs.factors.Tree]) -> None:
    """Before an iteration all variables are at ½, where this score is the bound: no tree is."""
    graph = vs.FactorGraph([2] * 3)
    graph.add(kind([(2, 1), (0, 2), (1, 2)], range(3)))
    graph.add((0, 1), [[0.0, 0.0], [0.0, -1.0]])
    d = vs.decode(graph, method="ad3")
    assert d.states.tolist() == [1, 1, 0]
    assert d.integral
    assert d.upper == pytest.approx(-1.0, abs=1e-9)


def test_gaps_are_a_share_of_the_score() -> None:
    """They are a share of the score itself, though single numbers are ten times as large."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        graph = sentence(3, rng, pair=1.0, constraint="projective")
        lp, ad3 = (vs.decode(graph, method=method) for method in ("lp", "ad3"))
        assert ad3.upper == pytest.approx(lp.upper, rel=1e-5, abs=1e-6)


def test_tables_that_fix_variables_one_after_the_other() -> None:
    n = 200
    graph = vs.FactorGraph([2] * n)
    for v in range(1, n):
        graph.add((v - 1, v), [[0.0, -np.inf], [-np.inf, 1.0]])
    graph.add([n // 2], [0.0, -np.inf])
    d = vs.decode(graph, method="ad3")
    assert d.states.sum() == 0
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, method="ad3", evidence={0: 1})


def test_kinds_written_in_python() -> None:
    rng = np.random.default_rng(3)
    graph = vs.FactorGraph([2] * 6)
    for v in range(6):
        graph.add([v], [0.0, rng.normal(-1.0)])
    for edge in itertools.combinations(range(6), 2):
        graph.add(edge, rng.normal(size=(2, 2)))
    own = vs.FactorGraph([2] * 6)
    for f in graph.factors:
        own.add(f)
    graph.add(vs.factors.Or(0, 1, 2))
    own.add(AnyOf((0, 1, 2)))
    a, b = (vs.decode(g, method="ad3") for g in (graph, own))
    assert b.upper == pytest.approx(a.upper, rel=1e-4)
    assert float(b.score) == pytest.approx(float(a.score))

    class Broken(AnyOf):
        def best(self, messages):
            raise RuntimeError("enough")

    own.add(Broken((3, 4)))
    with pytest.raises(RuntimeError, match="enough"):
        vs.decode(own, method="ad3")


def test_no_states_where_only_fractions_are_possible() -> None:
    graph = vs.FactorGraph([2] * 3)
    for pair in itertools.combinations(range(3), 2):
        graph.add(AnyOf(pair))
        graph.add(vs.factors.Nand(*pair))
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, method="ad3")


@pytest.mark.parametrize("seed", range(12))
def test_parities_where_rounding_fails(seed: int) -> None:
    rng = np.random.default_rng(seed)
    even = np.where(np.add.outer(np.add.outer([0, 1], [0, 1]), [0, 1]) % 2, -np.inf, 0.0)
    graph = vs.FactorGraph([2] * 9)
    hidden = rng.integers(0, 2, 9)
    for _ in range(8):
        scope = rng.choice(9, 3, replace=False)
        graph.add(scope, even if hidden[scope].sum() % 2 == 0 else even[::-1])
    for v in range(9):
        graph.add([v], [0.0, rng.normal()])
    best = enumerated(graph)[3]
    for method in ("lp", "ad3"):
        d = vs.decode(graph, method=method)
        assert -np.inf < d.score <= best + 1e-9
        assert d.upper >= best - 1e-12


@pytest.mark.parametrize("trees", [False, True])
def test_bits_for_any_number_of_threads(trees: bool) -> None:
    rng = np.random.default_rng(0)
    if trees:
        graph = sentence(20, rng, pair=1.0)
    else:  # large enough for several threads
        graph = vs.FactorGraph([2] * 6000)
        for pair in rng.choice(6000, (6000, 2)).tolist():
            if pair[0] != pair[1]:
                graph.add(pair, rng.normal(size=(2, 2)))
        for v in range(0, 6000, 3):
            graph.add(vs.factors.Xor(v, v + 1, v + 2))
    found = [
        vs.decode(graph, method=vs.AD3(max_iterations=60), threads=threads)
        for threads in (1, 2, 3, 8)
    ]
    for other in found[1:]:
        assert (other.upper, float(other.score)) == (found[0].upper, float(found[0].score))
        assert other.states.tolist() == found[0].states.tolist()
        assert np.array_equal(other.relaxed, found[0].relaxed)


def test_several_calls_at_once() -> None:
    graph = sentence(7, np.random.default_rng(0), pair=1.0)
    expected = vs.decode(graph, method="ad3").upper
    found: list[float] = []
    calls = [
        threading.Thread(target=lambda: found.append(vs.decode(graph, method="ad3").upper))
        for _ in range(4)
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert found == [expected] * 4


def test_options() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], np.eye(2))
    for bad in (-1.0, np.nan, np.inf, "1", None):
        with pytest.raises(ValueError, match="tolerance must be a number >= 0"):
            vs.AD3(tolerance=bad)
    for bad in (0, 1.5):
        with pytest.raises((ValueError, TypeError), match="max_iterations"):
            vs.AD3(max_iterations=bad)
    assert vs.AD3() == vs.AD3(tolerance=1e-5, max_iterations=5000)
    with pytest.raises(ValueError, match="method must be one of"):
        vs.infer(graph, method=vs.AD3())
    with pytest.raises(ValueError, match="n_best is for chains"):
        vs.decode(graph, method="ad3", n_best=2)
    with pytest.raises(ValueError, match=r"method='ad3' takes binary variables only: variable 1"):
        vs.decode(vs.FactorGraph([2, 3]), method=vs.AD3())
    seen: list[tuple[int, int]] = []
    vs.decode(graph, method="ad3", progress=lambda *at: seen.append(at))
    assert seen[-1] == (5000, 5000)
