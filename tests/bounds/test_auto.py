"""The words of "auto" about log Z when it ends in loopy inference."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from bound_models import pairwise_model
from graph_oracle import graph_of, log_joint, log_sum, random_model

import valuesparse as vs
from valuesparse.inference import _auto, _loopy, trw_dual_bound


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:
        k, factors, evidence = random_model(rng, 7)
    else:
        (k, factors), evidence = pairwise_model(rng, 8, zeros=0.1 * (seed % 4), cards="mixed"), {}
    exact = log_sum(log_joint(k, factors, evidence))
    graph = graph_of(k, factors)
    try:
        r = vs.infer(graph, evidence=evidence, memory_limit=0)
        whole = vs.infer(graph, evidence=evidence)
    except vs.InfeasibleError:
        assert exact == -np.inf
        return
    if r.method == "bp":
        assert r.log_z_lower <= exact <= r.log_z_upper < np.inf
        assert f"between {r.log_z_lower:.6g} (structured mean field)" in r.reason
        assert f"and {r.log_z_upper:.6g} (TRW dual)" in r.reason
        naive = vs.infer(graph, evidence=evidence, method="mean_field").log_z
        assert naive == -np.inf or r.log_z_lower >= naive - 1e-8 * max(1.0, abs(naive))
        assert (r.log_z_lower == -np.inf) == ("avoids the zeros" in r.reason)
    assert whole.log_z_lower <= exact <= whole.log_z_upper
    assert whole.log_z_upper - whole.log_z_lower < 1e-9 * max(1.0, abs(exact))
    again = pickle.loads(pickle.dumps(r))
    assert (again.log_z_lower, again.log_z_upper) == (r.log_z_lower, r.log_z_upper)


def triangle() -> vs.FactorGraph:
    graph = vs.FactorGraph([2, 2, 2])
    for edge in [(0, 1), (1, 2), (0, 2)]:
        graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    return graph


@pytest.mark.smoke
def test_other_methods_say_what_they_prove() -> None:
    graph = triangle()
    exact = float(vs.infer(graph).log_z)
    bp = vs.infer(graph, method="bp")
    assert (bp.log_z_lower, bp.log_z_upper) == (-np.inf, np.inf)
    field = vs.infer(graph, method="mean_field")
    assert field.log_z_lower == field.log_z <= exact
    assert field.log_z_upper == np.inf
    islands = vs.infer(graph, zeta=0.5)
    assert islands.log_z_lower <= exact
    assert islands.log_z_upper == np.inf
    part = vs.infer(graph, factors=[0, 1, 2], memory_limit=0)
    assert part.log_z_lower <= exact <= part.log_z_upper


def test_what_cannot_be_afforded_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = triangle()
    with monkeypatch.context() as m:
        m.setattr(_auto, "_MOST_FACTORS", 2)
        r = vs.infer(graph, memory_limit=0)
    assert (r.log_z_lower, r.log_z_upper) == (-np.inf, np.inf)
    assert "more than 2 factors of two and more variables" in r.reason

    def late(*_, **__):
        raise vs.DeadlineError("late")

    monkeypatch.setattr(_auto, "trw_dual_bound", late)
    r = vs.infer(graph, memory_limit=0, deadline=60.0)
    assert "the deadline left no time" in r.reason
    assert np.isfinite(r.log_z_lower)
    assert r.log_z_upper == np.inf


def test_lower_bounds_are_far_above_naive_mean_field() -> None:
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([2] * 144)
    for v in range(144):
        for u in [v + 1] * (v % 12 < 11) + [v + 12] * (v < 132):
            graph.add((v, u), rng.normal(0.0, 0.5, (2, 2)))
    exact = float(vs.infer(graph, method="exact").log_z)
    naive = float(vs.infer(graph, method="mean_field").log_z)
    r = vs.infer(graph, memory_limit=0)
    assert naive < exact - 0.2 * (exact - naive) < r.log_z_lower <= exact <= r.log_z_upper


def test_no_bound_is_said_and_so_are_other_messages() -> None:
    # Messages do not see that two states are not enough for three variables that all differ.
    graph = vs.FactorGraph([2, 2, 2])
    for edge in [(0, 1), (1, 2), (0, 2)]:
        graph.add(edge, [[-np.inf, 0.0], [0.0, -np.inf]])
    r = vs.infer(graph, memory_limit=0)
    assert r.log_z_lower == -np.inf
    assert r.reason.endswith("avoids the zeros (vs.bounds.log_z looks further)")


def plain_auto() -> vs.GraphResult:
    """Return what auto finds where belief propagation converges."""
    graph = vs.FactorGraph([2] * 3)
    for i, j in [(0, 1), (1, 2), (2, 0)]:
        graph.add([i, j], 0.3 * np.eye(2))
    return vs.infer(graph, memory_limit=0)


def test_tree_reweighted_messages_are_not_called_bethe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "; log_z is the Bethe free energy; log Z lies" in plain_auto().reason
    monkeypatch.setattr(_auto, "_WANDERING", 0.0)
    plain = _loopy.infer

    def stubborn(model, method, *rest):
        r = plain(model, method, *rest)
        if method.name == "bp":  # as if it had wandered to the end
            r = r.replaced(converged=False, residuals=np.full_like(r.residuals, 9.0))
        return r

    monkeypatch.setattr(_loopy, "infer", stubborn)
    r = vs.infer(triangle(), memory_limit=0)
    assert r.method == "trw"
    assert "in the end tree-reweighted messages, since it did not converge, log_z is" in r.reason
    assert "Bethe" not in r.reason


def swinging() -> vs.FactorGraph:
    """Return a graph on which undamped messages do not converge."""
    rng = np.random.default_rng(3)
    graph = vs.FactorGraph([2] * 8)
    for i in range(8):
        graph.add([i], rng.normal(0.0, 0.5, 2))
        for j in range(i):
            graph.add([i, j], 3.0 * rng.normal() * np.eye(2))
    return graph


def test_damping_is_tried_where_messages_do_not_converge() -> None:
    graph = swinging()
    plain = vs.infer(graph, method="bp")
    assert not plain.converged
    r = vs.infer(graph, memory_limit=0)
    assert (r.method, r.converged) == ("bp", True)
    assert "damped, since it did not converge without" in r.reason
    # Who asks for belief propagation gets that, however little it comes to.
    asked = vs.infer(graph, memory_limit=0, method=vs.BP(damping=0.0))
    assert asked.residuals.tolist() == plain.residuals.tolist()


def test_what_messages_forbid_is_impossible() -> None:
    graph = swinging()
    graph.add([0, 1], [[-np.inf, -np.inf], [0.0, -np.inf]])
    graph.add([1, 2], [[-np.inf, -np.inf], [0.0, 0.0]])
    for limit in (None, 0):
        with pytest.raises(vs.InfeasibleError, match="no configuration"):
            vs.infer(graph, memory_limit=limit)


def sentence(words: int, constraint: str) -> vs.FactorGraph:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(words + 1, words + 1))
    siblings = [
        (h, m, s)
        for h in range(words + 1)
        for m in range(1, words + 1)
        for s in range(m + 1, words + 1)
        if h not in (m, s)
    ]
    weights = 0.1 * rng.normal(size=len(siblings))
    return vs.parsing.graph(scores, siblings=(siblings, weights), constraint=constraint)


@pytest.mark.parametrize("constraint", ["tree", "projective"])
def test_auto_bounds_a_sentence_from_above_alone(constraint: str) -> None:
    """Structured mean field of so many arcs takes a thousand times as long as messages."""
    graph = sentence(10, constraint)
    r = vs.infer(graph)
    assert r.method == "bp"
    assert r.converged
    assert r.log_z_lower == -np.inf
    assert r.log_z - 1.0 < r.log_z_upper < r.log_z + 25.0
    assert "log Z is at most" in r.reason
    assert "a lower bound by structured mean field would take far longer" in r.reason
    few = vs.infer(sentence(4, constraint), memory_limit=0)
    assert few.log_z_lower <= few.log_z_upper < np.inf
    assert few.log_z_lower > -np.inf


@pytest.mark.parametrize("words", [8, 12])
def test_dual_bounds_of_projective_trees_are_near_those_of_all_trees(words: int) -> None:
    """Messages diverge with the default damping; more of it, or none of them, gives a bound."""
    projective = trw_dual_bound(sentence(words, "projective")).upper
    every = trw_dual_bound(sentence(words, "tree")).upper
    exact = vs.infer(sentence(words, "projective"), method="bp").log_z
    assert exact - 1.0 < projective < every + 1.0
