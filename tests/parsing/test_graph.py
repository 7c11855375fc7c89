"""`vs.parsing.graph` against enumeration of all trees."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import valuesparse as vs
from tests.tree_arcs import pair_triples, score, trees, with_pairs

Array = npt.NDArray[Any]
CONSTRAINTS = ["tree", "projective", "flow"]


def sentence(seed: int, n: int, forbidden: float, pairs: float, scale: float = 1.0) -> Any:
    """Return scores, and siblings and grandparents over arcs that are there."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n + 1, n + 1)) * scale
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    scores[0, 1:] = rng.normal(size=n)
    np.fill_diagonal(scores, np.nan)
    scores[:, 0] = np.inf
    found = []
    for triples in pair_triples(scores):
        some = triples[rng.random(len(triples)) < pairs]
        found.append((some, rng.normal(size=len(some)) * scale))
    return scores, *found


def enumerated(
    scores: Array, siblings: Any, grandparents: Any, projective: bool, single_root: bool
) -> tuple[float, Array, float]:
    """Return log Z, the marginals of arcs and the best score."""
    n = len(scores) - 1
    p, log_z, best = np.zeros(scores.shape), -np.inf, -np.inf
    for heads in trees(n, projective, single_root):
        x = score(scores, heads) + with_pairs(heads, siblings, grandparents)
        log_z, best = np.logaddexp(log_z, x), max(best, x)
    for heads in trees(n, projective, single_root):
        x = score(scores, heads) + with_pairs(heads, siblings, grandparents)
        for m, h in enumerate(heads, 1):
            p[h, m] += np.exp(x - log_z) if log_z > -np.inf else 0.0
    return log_z, p, best


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 3),
    single_root=st.booleans(),
    forbidden=st.sampled_from([0.0, 0.3]),
)
@examples(25)
def test_exact_answers_are_those_of_all_trees(
    constraint: Any, seed: int, n: int, single_root: bool, forbidden: float
) -> None:
    scores, siblings, grandparents = sentence(seed, n, forbidden, 0.7)
    graph = vs.parsing.graph(scores, siblings, grandparents, constraint, single_root)
    projective = constraint == "projective"
    log_z, p, best = enumerated(scores, siblings, grandparents, projective, single_root)
    if log_z == -np.inf:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(graph, method="exact")
        return
    r = vs.infer(graph, method="exact")
    assert r.log_z == pytest.approx(log_z, abs=1e-9)
    for name in graph.names:
        if isinstance(name[0], int):
            assert r[name][1] == pytest.approx(p[name], abs=1e-9)
    assert vs.decode(graph).score == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("constraint", ["tree", "projective"])
@pytest.mark.parametrize("single_root", [False, True])
def test_messages_are_exact_where_pairs_close_no_cycle(constraint: Any, single_root: bool) -> None:
    for seed in range(5):
        scores, _, _ = sentence(seed, 4, 0.2, 0.0, 3.0)
        graph = vs.parsing.graph(scores, None, None, constraint, single_root)
        log_z, p, best = enumerated(scores, None, None, constraint == "projective", single_root)
        r = vs.infer(graph, method="bp")
        assert r.log_z == pytest.approx(log_z, abs=1e-9)
        for name in graph.names:
            assert r[name][1] == pytest.approx(p[name], abs=1e-10)
        assert vs.decode(graph, method="bp").score == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("constraint", ["tree", "flow"])
def test_the_linear_program_is_exact_where_integral_and_never_below(constraint: Any) -> None:
    integral = 0
    for seed in range(12):
        scores, siblings, grandparents = sentence(seed, 2 + seed % 3, 0.1, 0.5)
        single_root = bool(seed % 2)
        graph = vs.parsing.graph(scores, siblings, grandparents, constraint, single_root)
        _, _, best = enumerated(scores, siblings, grandparents, False, single_root)
        d = vs.decode(graph, method="lp")
        assert d.upper >= best - 1e-7
        assert d.score <= best + 1e-7
        if d.integral:
            integral += 1
            assert d.score == pytest.approx(best, abs=1e-7)
    assert integral > 5


def test_both_programs_have_one_optimum() -> None:
    for seed in range(3):
        scores, siblings, grandparents = sentence(seed, 4, 0.2, 0.6, 2.0)
        tree, flow = (
            vs.decode(vs.parsing.graph(scores, siblings, grandparents, c), method="lp").upper
            for c in ("tree", "flow")
        )
        assert tree == pytest.approx(flow, abs=1e-6)


def test_variables_are_named_by_arcs_and_factors_are_in_order() -> None:
    scores = np.zeros((4, 4))
    scores[3, 1] = -np.inf
    graph = vs.parsing.graph(
        scores, ([(0, 3, 1), (2, 1, 3)], [0.5, -0.5]), ([(1, 2, 3)], [-np.inf])
    )
    assert graph.names == ((0, 1), (2, 1), (0, 2), (1, 2), (3, 2), (0, 3), (1, 3), (2, 3))
    assert graph.variable((2, 1)) == 1
    assert graph.n_factors == 8 + 1 + 3
    assert [f.scope for f in graph.factors[9:]] == [(5, 0), (1, 7), (3, 7)]
    assert graph.factors[11].table([2, 2]).tolist() == [[0.0, 0.0], [0.0, -np.inf]]
    with pytest.raises(ValueError, match=r"no variable named \(3, 1\)"):
        graph.variable((3, 1))
    flow = vs.parsing.graph(scores, constraint="flow")
    assert flow.names[:8] == graph.names
    assert {n[0] for n in flow.names[8:]} == {"path", "flow"}
    for made in (graph, flow):
        copy = pickle.loads(pickle.dumps(made))
        assert copy.names == made.names
    known = vs.infer(graph, evidence={(2, 1): 1, (0, 2): 1})
    assert known[0, 1][1] == 0.0


def test_wrong_triples_are_named() -> None:
    scores = np.zeros((4, 4))
    scores[2, 3] = -np.inf
    for triples, words in [
        ([(0, 1, 2), (0, 2, 1)], r"\[0\]\[1\] is \(0, 2, 1\): the same pair as siblings\[0\]\[0\]"),
        ([(0, 1, 2), (2, 1, 3)], r"\[1\] is \(2, 1, 3\): there is no arc \(2, 3\), its score is"),
        ([(0, 1, 1)], r"\[0\] is \(0, 1, 1\): \(h, m, s\) are three different words"),
        ([(0, 1, 4)], r"\[0\] is \(0, 1, 4\): words of \(h, m, s\) count from 0 to 3"),
        ([(-1, 1, 2)], r"count from 0 to 3"),
        ([(1, 0, 2)], r"no arc \(1, 0\), the root has no head"),
        ([(0, 1)], r"whole numbers of shape \(m, 3\)"),
        ([(0.5, 1, 2)], r"whole numbers of shape \(m, 3\), got float64"),
    ]:
        with pytest.raises(ValueError, match=words):
            vs.parsing.graph(scores, (triples, np.zeros(len(triples))))
    for triples, words in [
        ([(0, 1, 2), (0, 1, 2)], r"the same pair as grandparents\[0\]\[0\]"),
        ([(1, 2, 1)], r"three different words"),
        ([(1, 2, 3)], r"no arc \(2, 3\)"),
        ([(1, 0, 3)], r"no arc \(1, 0\), the root has no head"),
    ]:
        with pytest.raises(ValueError, match=words):
            vs.parsing.graph(scores, grandparents=(triples, np.zeros(len(triples))))
    for weights, words in [
        ([np.nan, 0.0], r"siblings\[1\]\[0\] is NaN"),
        ([0.0, np.inf], r"siblings\[1\]\[1\] is \+inf"),
        ([0.0], r"a number for each of 2 triples"),
    ]:
        with pytest.raises(ValueError, match=words):
            vs.parsing.graph(scores, ([(0, 1, 2), (0, 1, 3)], weights))
    with pytest.raises(ValueError, match=r"siblings must be a pair of arrays"):
        vs.parsing.graph(scores, 3)
    with pytest.raises(ValueError, match="constraint must be one of tree, projective, flow"):
        vs.parsing.graph(scores, constraint="planar")


def test_wrong_scores_are_named() -> None:
    for value, shown in ((np.nan, "NaN"), (np.inf, r"\+inf"), (-1e15, r"-1e\+15")):
        scores = np.zeros((3, 3))
        scores[0, 2] = value
        with pytest.raises(ValueError, match=rf"scores\[0, 2\] is {shown}"):
            vs.parsing.graph(scores)
    with pytest.raises(ValueError, match="scores must be square"):
        vs.parsing.graph(np.zeros((2, 3)))
    with pytest.raises(TypeError, match="scores must hold real numbers"):
        vs.parsing.graph(np.zeros((2, 2), dtype=complex))
    scores = np.zeros((3, 3))
    scores[:, 2] = -np.inf
    for constraint in CONSTRAINTS:
        with pytest.raises(vs.InfeasibleError, match="word 2 has no head"):
            vs.parsing.graph(scores, constraint=constraint)
    scores = np.full((3, 3), -np.inf)
    scores[1, 2] = scores[2, 1] = 0.0
    for constraint in CONSTRAINTS:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(vs.parsing.graph(scores, constraint=constraint))
