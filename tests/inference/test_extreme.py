"""Scores of any size on trees and graphs: answered rightly up to 1e17 in all, refused above."""

from __future__ import annotations

import copy
import itertools
import pickle
import re

import numpy as np
import pytest
from graph_oracle import graph_of, log_joint, log_sum

import valuesparse as vs
from valuesparse.bounds._log_z import METHODS
from valuesparse.factors import Factor, Feature, Features, Table
from valuesparse.inference import trw_dual_bound

pytestmark = pytest.mark.simd


def tied(s):
    """Three configurations share the best score, s; the fourth has 0."""
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0, s])
    graph.add([1], [0, s])
    graph.add([0, 1], [[-s, 0], [0, -s]])
    return graph


def cancelling(s):
    """Scores of +-s, the best sum of which is 0: of (1, 0) and of (1, 1) it is -s and -3 s."""
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0, -s])
    graph.add([1], [0, -s])
    graph.add([0, 1], [[0, s], [0, -s]])
    return graph


def three(s):
    graph = vs.FactorGraph([2, 2, 2])
    for v, u in enumerate([[-s, s], [-s, 0.0], [-s, s]]):
        graph.add([v], u)
    graph.add([0, 1], [[-s, s], [0, 0]])
    graph.add([1, 2], [[s, -s], [0, s]])
    return graph


def branching(s, dtype=np.float64):
    """The tree of the best configuration (1, 1, 2), s better than any other."""
    u = [[-s, 10 * s, 0], [-s, 0, -10 * s], [0, 0, -s]]
    t = [[s, 10 * s, s], [-10 * s, s, 10 * s], [-10 * s, -10 * s, 0]]
    return vs.Tree([-1, 0, 0], np.array(u, dtype), np.array(t, dtype))


@pytest.mark.parametrize("s", [1e15, 3.3e16])
def test_ties_of_huge_scores(s):
    graph = tied(s)
    r = vs.infer(graph)
    assert r.log_z == pytest.approx(s)
    for p in r.marginals:
        assert p == pytest.approx([1 / 3, 2 / 3], abs=1e-10)
    joint = np.array([[0, 1], [1, 1]]) / 3
    assert r.joint([0, 1]) == pytest.approx(joint, abs=1e-10)
    assert r.entropy() == pytest.approx(np.log(3), abs=1e-9)
    b = vs.bounds.log_z(graph)
    assert b.lower <= s + np.log(3) <= b.upper
    x = vs.sample(graph, 300, 0)
    assert {tuple(y) for y in x.tolist()} == {(0, 1), (1, 0), (1, 1)}
    for method in METHODS:
        b = vs.bounds.log_z(graph, methods=[method])
        assert b.lower <= s + np.log(3) <= b.upper, method


@pytest.mark.parametrize("s", [1e15, 3.3e16])
def test_scores_that_cancel(s):
    graph = cancelling(s)
    r = vs.infer(graph)
    # (0, 0) and (0, 1) share the best score, 0.
    assert r.log_z == pytest.approx(np.log(2), abs=1e-10)
    assert r.marginals[1] == pytest.approx([0.5, 0.5], abs=1e-10)
    assert r.log_z_lower <= np.log(2) <= r.log_z_upper
    b = vs.bounds.log_z(graph)
    assert b.lower <= np.log(2) <= b.upper


@pytest.mark.parametrize("s", [1e14, 1e15, 1e16])
def test_a_best_configuration_far_above_the_others(s):
    graph = three(s)
    r = vs.infer(graph)
    best = vs.decode(graph)
    assert best.score == pytest.approx(3 * s)
    assert r.log_z == pytest.approx(3 * s)
    assert [int(p.argmax()) for p in r.marginals] == best.states.tolist()
    assert all(p.max() == 1.0 for p in r.marginals)
    b = vs.bounds.log_z(graph)
    assert b.lower <= 3 * s <= b.upper
    assert vs.sample(graph, 5, 0).tolist() == [best.states.tolist()] * 5
    assert vs.log_prob(graph, best.states) == pytest.approx(0.0, abs=64 * np.spacing(7 * s))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("s", [1e13, 1e15])
def test_a_branching_tree(s, dtype):
    tree = branching(s, dtype)
    for zeta in (1.0, 0.9):
        r = vs.infer(tree, zeta=zeta)
        assert r.marginals.argmax(axis=1).tolist() == [1, 1, 2]
        assert r.log_z == pytest.approx(20 * s, rel=1e-6)
    assert vs.decode(tree).states.tolist() == [1, 1, 2]
    assert vs.sample(tree, 2, 0).tolist() == [[1, 1, 2]] * 2
    assert vs.log_prob(tree, [1, 1, 2]) == pytest.approx(0.0, abs=20 * s * 1e-6)


REFUSED = r"(sum to|must lie between).*1e\+17.*to forbid, use -inf"


@pytest.mark.parametrize("s", [3.4e16, 1e18, 1e19, 1e20, 1e30, 1e289, 1e300])
def test_graphs_are_refused_by_name(s):
    """Models that once gave NaN, a false InfeasibleError, a wrong log_z or a false bound."""
    for make in (tied, cancelling, three):
        with pytest.raises(ValueError, match=rf"^factor \d: log_table\[\d.*{REFUSED}"):
            make(s)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("s", [2.6e15, 1e18, 1e19, 1e27])
def test_trees_are_refused_by_name(s, dtype):
    with pytest.raises(ValueError, match=rf"^(unary|pairwise)\[\d, \d\].*{REFUSED}"):
        branching(s, dtype)


def test_the_limit_itself():
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.5e17, -np.inf])
    graph.add([0, 1], [[-0.25e17, 0], [0, 0]])
    graph.add([1], [0, 0.25e17])
    assert vs.infer(graph).log_z == 0.75e17
    before = graph.n_factors
    with pytest.raises(ValueError, match=r"^factor 3: log_table\[1\] is -100: .*" + REFUSED):
        graph.add([1], [0.0, -100.0])
    assert graph.n_factors == before  # as it was
    assert vs.infer(graph).log_z == 0.75e17
    for other in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        with pytest.raises(ValueError, match=REFUSED):
            other.add([1], [0.0, -100.0])
        other.add([1], [0.0, -np.inf])  # which forbids
        assert vs.decode(other).states.tolist() == [0, 0]


def test_digits_show_what_is_too_large():
    graph, above = vs.FactorGraph([2]), np.nextafter(1e17, np.inf)
    with pytest.raises(ValueError, match=rf"sum to {re.escape(repr(float(above)))}, above 1e\+17"):
        graph.add([0], [0.0, above])
    graph.set_evidence({0: [0.0, 1e17]})
    with pytest.raises(ValueError, match=r"sum to 1\.0000\d+e\+17, above 1e\+17"):
        graph.add([0], [0.0, 1e10])
    far = np.array([[-np.nextafter(1e290, np.inf), 0.0]])
    with pytest.raises(ValueError, match=r"is -1\.0000\d+e\+290; .* between -1e\+290 and 1e\+290"):
        vs.Chain(far, np.zeros((2, 2)))


def test_trees_count_what_they_use():
    half = np.zeros((2, 2))
    half[0, 0] = 0.5e17
    vs.Tree([-1, -1], half, np.full((2, 2), 1e17))  # no edge has the table
    rows = np.array([np.full((2, 2), 1e20), np.full((2, 2), 0.5e17)])
    vs.Tree([-1, 0], half, rows)  # the row of a root is none
    tables = np.array([np.full((2, 2), 0.5e17), np.full((2, 2), 3e17)])
    vs.Tree([-1, 0], half, tables, edge_type=[0, 0])
    with pytest.raises(ValueError, match=r"^pairwise\[1, 0, 0\] is 3e\+17.*" + REFUSED):
        vs.Tree([-1, 0], half, tables, edge_type=[0, 1])
    u = np.array([[0, 3e16], [0, -3e16], [0, -5e16]])
    with pytest.raises(ValueError, match=r"^unary\[2, 1\] is -5e\+16.*" + REFUSED):
        vs.Tree([-1, 0, 0], u, np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"^pairwise\[0, 1\] is 4e\+16.*" + REFUSED):
        vs.Tree([-1, 0, 0, 0], np.zeros((4, 2)), [[0, 4e16], [0, 0]])


def test_every_way_to_give_scores():
    class Own(Factor):
        def __init__(self, scope, size):
            self.scope, self.size = scope, size

        def log_potential(self, states):
            return np.where(states[:, 0] == 0, self.size, 0.0)

    graph = vs.FactorGraph([2, 2])
    with pytest.raises(ValueError, match=r"^factor 0: log_table\[0\].*" + REFUSED):
        graph.add(Table((0,), np.array([2e17, 0.0])))
    with pytest.raises(ValueError, match=r"^weight of factor 0 is -1e\+18.*" + REFUSED):
        graph.add_feature([0], [1], -1e18)
    with pytest.raises(ValueError, match=r"^weight of factor 0 is -1e\+18.*" + REFUSED):
        graph.add(Feature((0,), (1,), -1e18))
    with pytest.raises(ValueError, match=r"^weights\[1\] is 6e\+16.*" + REFUSED):
        graph.add_features(Features([[0], [1]], [-5e16, 6e16]))
    graph.add_features(Features([[0], [1]], [-np.inf, 6e16]))
    with pytest.raises(ValueError, match=r"^evidence\[0\]\[1\] is -5e\+16.*" + REFUSED):
        graph.set_evidence({0: [0.0, -5e16]})
    with pytest.raises(ValueError, match=r"^evidence\[0\]\[1\] is -5e\+16.*" + REFUSED):
        vs.infer(graph, evidence={0: [0.0, -5e16]})
    graph.set_evidence({0: [0.0, -3e16]})
    with pytest.raises(ValueError, match=r"^factor 2: log_table\[0\] is 2e\+16.*" + REFUSED):
        graph.add([0], [2e16, 0.0])
    jt = vs.JunctionTree(graph)
    with pytest.raises(ValueError, match=r"^evidence\[1\]\[0\] is 3e\+16.*" + REFUSED):
        jt.infer(evidence={1: [3e16, 0.0]})
    assert jt.infer(evidence={1: [0.5e16, 0.0]}).marginals[1].tolist() == [0.0, 1.0]
    graph.add(Own((0,), 0.5e16))  # known when its table is asked for
    assert vs.infer(graph).marginals[0].tolist() == [1.0, 0.0]
    graph.add(Own((1,), -1e16))
    with pytest.raises(ValueError, match=r"^factor 3: table\[0\] is -1e\+16.*" + REFUSED):
        vs.infer(graph)


def test_candidates_of_relax_count():
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"^factor 1: log_table\[1\].*" + REFUSED):
        graph.add([0], [0.0, 1e18])
    with pytest.raises(ValueError, match=REFUSED):
        vs.gain(graph, [Table((0,), np.array([0.0, 1e18]))], vs.infer(graph))
    with pytest.raises(ValueError, match=REFUSED):
        vs.gain(graph, [Feature((0,), (1,), -1e18)], vs.infer(graph))
    with pytest.raises(ValueError, match=REFUSED):
        vs.relax(graph, candidates=lambda result: [Table((0,), np.array([0.0, 1e18]))])


def test_many_factors_of_one_variable_that_cancel():
    """Their sum rounds away no more than every bound allows for."""
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], [[0.0, 1.0], [0.0, 0.0]])
    graph.add([0], [4e16, 4e16])
    for _ in range(999):
        graph.add([0], [3.0, 3.0])  # less than half of the last digit of 4e16
    graph.add([0], [-4e16, -4e16])
    truth = 999 * 3.0 + np.log(3 + np.e)
    r = vs.infer(graph)
    assert r.log_z_lower <= truth <= r.log_z_upper
    assert r.marginals[0] == pytest.approx([(1 + np.e) / (3 + np.e), 2 / (3 + np.e)], abs=1e-10)
    for method in METHODS:
        b = vs.bounds.log_z(graph, methods=[method])
        assert b.lower <= truth <= b.upper, method
    assert trw_dual_bound(graph).upper >= truth
    for method in ("mean_field", "structured_mean_field"):
        assert vs.infer(graph, method=method).log_z_lower <= truth


def random_tables(rng, s):
    n = int(rng.integers(2, 5))
    cards = rng.integers(1, 4, n).tolist()
    factors = []
    for _ in range(int(rng.integers(n, n + 4))):
        scope = rng.choice(n, int(rng.integers(1, min(3, n) + 1)), replace=False).tolist()
        shape = [cards[v] for v in scope]
        table = rng.choice([0.0, s, -s, -np.inf], shape, p=[0.5, 0.2, 0.2, 0.1])
        factors.append((tuple(scope), table))
    size = sum(s * bool((np.abs(t) == s).any()) for _, t in factors)
    return cards, factors, size


@pytest.mark.parametrize("s", [1e4, 1e10, 1e15, 5e15, 1e16])
def test_random_graphs_of_huge_scores(s):
    """Which configurations win, the sum of all and its bounds; whatever is accepted is right."""
    rng = np.random.default_rng(int(np.log10(s)))
    run = 0
    for _ in range(60):
        cards, factors, size = random_tables(rng, s)
        if size > 1e17:
            with pytest.raises(ValueError, match=REFUSED):
                graph_of(cards, factors)
            continue
        graph = graph_of(cards, factors)
        best = best_of(graph)
        if best is None:
            with pytest.raises(vs.InfeasibleError):
                vs.infer(graph)
            continue
        run += 1
        score, mass, states = best
        r = vs.infer(graph)
        slack = 64 * np.finfo(float).eps * size
        assert abs(r.log_z - (score + np.log(mass))) <= 1e-9 + slack
        assert r.log_z_lower <= score + np.log(mass) <= r.log_z_upper
        for v, p in enumerate(r.marginals):
            want = np.bincount(states[:, v], minlength=p.size) / mass
            assert p == pytest.approx(want, abs=1e-9)
        assert vs.decode(graph).score == pytest.approx(score, abs=slack)
        b = vs.bounds.log_z(graph, exact=False)
        assert b.lower <= score + np.log(mass) <= b.upper
        assert np.isfinite(r.entropy())
        assert vs.sample(graph, 2, 0).tolist() in [
            [a, b] for a, b in itertools.product(states.tolist(), repeat=2)
        ]
    assert run >= 5


def best_of(graph):
    """Return the best score of graphs of scores 0 and +-s, how many have it, and which."""
    states = np.array(list(itertools.product(*map(range, graph.cardinalities))))
    scores = np.zeros(len(states))
    for f in graph.factors:
        scores += f.log_potential(states[:, list(f.scope)])
    top = scores.max()
    if top == -np.inf:
        return None
    mine = states[scores == top]
    return top, len(mine), mine


def test_the_oracle_agrees_where_nothing_is_huge():
    cards, factors, _ = random_tables(np.random.default_rng(1), 1.0)
    want = log_sum(log_joint(cards, factors, {}))
    assert vs.infer(graph_of(cards, factors)).log_z == pytest.approx(want)


@pytest.mark.parametrize("scale", [1e4, 1e8, 1e12])
def test_no_probability_is_above_one(scale: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        unary, table = scale * rng.normal(size=(30, 2)), scale * rng.normal(size=(2, 2))
        for model in (vs.Chain(unary, table), vs.Tree(np.arange(30) - 1, unary, table)):
            found = vs.log_prob(model, vs.decode(model).states)
            assert -1.0 < found[0] <= 0.0
