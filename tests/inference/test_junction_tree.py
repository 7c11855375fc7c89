"""`vs.JunctionTree`, and `infer`, `decode`, `sample` on factor graphs, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from graph_oracle import (
    graph_of,
    log_joint,
    log_sum,
    marginal,
    models,
    nothing_to_decode,
    probabilities,
    random_model,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import valuesparse as vs


def _close(r: vs.Result, p: np.ndarray, tolerance: float = 1e-10) -> None:
    for v, found in enumerate(r.marginals):
        np.testing.assert_allclose(found, marginal(p, [v]), rtol=0, atol=tolerance)


@settings(max_examples=400)
@given(model=models())
def test_marginals_and_log_z(model) -> None:
    cards, factors, evidence = model
    full = log_joint(cards, factors, evidence)
    if full.max() == -np.inf:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(graph_of(cards, factors), evidence=evidence)
        return
    r = vs.infer(graph_of(cards, factors), evidence=evidence)
    assert r.log_z == pytest.approx(log_sum(full), rel=1e-10, abs=1e-10)
    _close(r, probabilities(full))
    for v, known in evidence.items():
        if isinstance(known, int):
            assert r.marginals[v].tolist() == [float(x == known) for x in range(cards[v])]


@settings(max_examples=150)
@given(model=models(most=8), data=st.data())
def test_one_tree_many_questions(model, data: st.DataObject) -> None:
    """Evidence on a compiled tree, changing, gives what a fresh tree gives."""
    cards, factors, evidence = model
    graph = graph_of(cards, factors)
    try:
        jt = vs.JunctionTree(graph)
    except vs.InfeasibleError:
        return
    for _ in range(3):
        some = {v: x for v, x in evidence.items() if data.draw(st.booleans())}
        full = log_joint(cards, factors, some)
        if full.max() == -np.inf:
            with pytest.raises(vs.InfeasibleError):
                jt.infer(some)
            continue
        r = jt.infer(some)
        assert r.log_z == pytest.approx(log_sum(full), rel=1e-10, abs=1e-10)
        _close(r, probabilities(full))


@settings(max_examples=150)
@given(model=models(most=8), data=st.data())
def test_joint_of_any_variables(model, data: st.DataObject) -> None:
    cards, factors, evidence = model
    full = log_joint(cards, factors, evidence)
    if full.max() == -np.inf:
        return
    chosen = data.draw(st.permutations(range(len(cards))))[: data.draw(st.integers(1, 4))]
    r = vs.infer(graph_of(cards, factors), evidence=evidence)
    np.testing.assert_allclose(
        r.joint(chosen), marginal(probabilities(full), list(chosen)), rtol=0, atol=1e-10
    )


@settings(max_examples=200)
@given(model=models())
def test_decode(model) -> None:
    cards, factors, evidence = model
    full = log_joint(cards, factors, evidence)
    graph = graph_of(cards, factors)
    if nothing_to_decode(graph, evidence, full):
        return
    d = vs.decode(graph, evidence=evidence)
    assert d.score == pytest.approx(full.max(), rel=1e-12, abs=1e-10)
    assert full[tuple(d.states)] == pytest.approx(full.max(), rel=1e-12, abs=1e-10)


def test_samples_follow_the_posterior(rng: np.random.Generator) -> None:
    cards, factors = (
        [3, 2, 3],
        [
            ((0, 1), rng.normal(0, 1, (3, 2))),
            ((1, 2), np.where(rng.random((2, 3)) < 0.3, -np.inf, rng.normal(0, 1, (2, 3)))),
            ((0, 2), rng.normal(0, 1, (3, 3))),
        ],
    )
    evidence = {0: np.array([0.0, 1.0, -1.0])}
    p = probabilities(log_joint(cards, factors, evidence)).ravel()
    x = vs.sample(graph_of(cards, factors), 20_000, rng=1, evidence=evidence)
    seen = np.bincount(np.ravel_multi_index(tuple(x.T), cards), minlength=p.size)
    assert seen[p == 0].sum() == 0
    assert stats.chisquare(seen[p > 0], 20_000 * p[p > 0]).pvalue > 1e-4
    again = vs.sample(graph_of(cards, factors), 20_000, rng=1, evidence=evidence, threads=2)
    assert (x == again).all()


@pytest.mark.smoke
def test_log_prob() -> None:
    cards, factors, _ = random_model(np.random.default_rng(3), 6)
    full = log_joint(cards, factors, {})
    graph = graph_of(cards, factors)
    states = vs.decode(graph).states
    assert float(vs.log_prob(graph, states)) == pytest.approx(full.max() - log_sum(full))


@settings(max_examples=100)
@given(model=models(most=8, scale=2000.0))
def test_scores_far_beyond_the_range_of_a_double(model) -> None:
    cards, factors, evidence = model
    full = log_joint(cards, factors, evidence)
    if full.max() == -np.inf:
        return
    r = vs.infer(graph_of(cards, factors), evidence=evidence)
    assert r.log_z == pytest.approx(log_sum(full), rel=1e-10)
    _close(r, probabilities(full), 1e-9)


def test_a_chain_that_underflows_is_solved_in_a_wider_range(rng: np.random.Generator) -> None:
    unary, transition = rng.normal(0, 900, (40, 3)), rng.normal(0, 900, (3, 3))
    graph = vs.FactorGraph([3] * 40)
    for i in range(40):
        graph.add([i], unary[i])
        if i:
            graph.add([i - 1, i], transition)
    r, chain = vs.infer(graph), vs.infer(vs.Chain(unary, transition))
    assert r.stats["widened"] == 1
    assert r.log_z == pytest.approx(chain.log_z[0], rel=1e-12)
    np.testing.assert_allclose(np.array(r.marginals), chain.marginals, atol=1e-9)


def _extreme_model(rng: np.random.Generator):
    """Up to 7 variables, tables whose entries are ten thousand apart, zeros, changing evidence."""
    n = int(rng.integers(2, 8))
    cards = rng.integers(2, 4, n)
    levels = rng.choice([100.0, 400.0, 700.0, 10_000.0], 3)
    factors = []
    for i in range(1, n):  # connected, so that one question's losses meet the other's evidence
        scopes = [(int(rng.integers(i)), i)] + ([(i,)] if rng.random() < 0.5 else [])
        for scope in scopes:
            shape = [cards[v] for v in scope]
            table = rng.normal(0, 1, shape) + rng.choice([-1, 0, 1], shape) * rng.choice(levels)
            table[rng.random(shape) < 0.15] = -np.inf
            factors.append((scope, table))
    return [int(c) for c in cards], factors


def test_no_reachable_entry_is_lost() -> None:
    """Plain numbers, or wide ones where plain ones would lose something: right either way."""
    widened = []
    for seed in range(600):
        rng = np.random.default_rng(seed)
        cards, factors = _extreme_model(rng)
        try:
            jt = vs.JunctionTree(graph_of(cards, factors))
        except vs.InfeasibleError:
            continue
        for _ in range(4):  # messages that are kept have lost what they have lost
            seen = rng.permutation(len(cards))[: rng.integers(0, 3)]
            evidence = {int(v): int(rng.integers(cards[v])) for v in seen}
            full = log_joint(cards, factors, evidence)
            if full.max() == -np.inf:
                with pytest.raises(vs.InfeasibleError):
                    jt.infer(evidence)
                continue
            r = jt.infer(evidence)
            assert r.log_z == pytest.approx(log_sum(full), rel=1e-12, abs=1e-10)
            p = probabilities(full)
            _close(r, p, 1e-10)
            widened.append(r.stats["widened"])
            states = jt.sample(5, seed, evidence=evidence)
            assert (p[tuple(states.T)] > 1e-15).all()
    assert 0.05 < np.mean(widened) < 0.95  # both are tested


def test_an_entry_that_underflows_on_the_way_up_may_be_all_there_is() -> None:
    """The leaf prefers state 0 by e^800, three times; what the root knows forbids it, or nearly."""
    for against in (-np.inf, -10_000.0):
        graph = vs.FactorGraph([2, 2, 2, 2, 2])
        for leaf in (1, 2, 3):
            graph.add([0, leaf], [[800.0, 799.0], [0.0, 1.0]])
        graph.add([0, 4], [[against, against], [0.0, 2.0]])
        r = vs.infer(graph)
        each = np.logaddexp(0, 1)
        assert r.log_z == pytest.approx(3 * each + np.logaddexp(0, 2), rel=1e-12)
        assert r.marginals[0].tolist() == pytest.approx([0, 1], abs=1e-12)
        assert r.marginals[1].tolist() == pytest.approx([1 - np.exp(1 - each), np.exp(1 - each)])
        x = vs.sample(graph, 2000, rng=0)
        assert (x[:, 0] == 1).all()
        assert x[:, 1].mean() == pytest.approx(np.exp(1 - each), abs=0.05)


def test_many_operands_of_moderate_range_stay_in_plain_numbers(rng: np.random.Generator) -> None:
    """Their minima add up to far less than any product comes to."""
    cards = [2] * 12
    factors = [
        ((i, j), rng.permutation([0.0, 2.0, 12.0, 16.0]).reshape(2, 2))
        for i in range(12)
        for j in range(i)
    ]
    full = log_joint(cards, factors, {})
    r = vs.infer(graph_of(cards, factors))
    assert sum(float(np.ptp(t)) for _, t in factors) / np.log(2) > 1500
    assert r.stats["widened"] == 0
    assert r.log_z == pytest.approx(log_sum(full), rel=1e-12)
    _close(r, probabilities(full))


def test_counting() -> None:
    """With unit potentials the sum is the number of configurations: proper 3-colourings."""
    graph = vs.FactorGraph([3] * 10)
    differ = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)
    for i in range(10):
        graph.add([i, (i + 1) % 10], differ)
    assert np.exp(vs.infer(graph).log_z) == pytest.approx(2**10 + 2)


@pytest.mark.smoke
def test_names_and_reason() -> None:
    graph = vs.FactorGraph([2, 2, 2], names=["a", "b", "c"], states=[["n", "y"], None, None])
    for pair in (["a", "b"], ["b", "c"], ["a", "c"]):
        graph.add(pair, [[1.0, 0.0], [0.0, 1.0]])
    r = vs.infer(graph, evidence={"a": "y"})
    assert r["a"].tolist() == [0.0, 1.0]
    assert r["b"].tolist() == r.marginals[1].tolist()
    assert r.joint(["c", "a"]).shape == (2, 2)
    assert (r.method, r.converged) == ("exact", True)
    r = vs.infer(graph)
    assert r.method == "junction_tree"
    assert "width 2" in r.reason
    assert vs.infer(graph, method="junction_tree").reason.endswith("was asked for")
    with pytest.raises(ValueError, match="no variable named 'd'"):
        r["d"]


def test_arguments() -> None:
    graph = vs.FactorGraph([2, 2])
    with pytest.raises(ValueError, match="n_best is for chains"):
        vs.decode(graph, n_best=2)
    with pytest.raises(ValueError, match="evidence can be given with a FactorGraph only"):
        vs.infer(vs.Chain(np.zeros((2, 2)), np.zeros((2, 2))), evidence={0: 1})
    with pytest.raises(TypeError, match="graph must be a valuesparse"):
        vs.JunctionTree("asia")
    with pytest.raises(ValueError, match="effort must be a number >= 0"):
        vs.JunctionTree(graph, effort=-1)
    with pytest.raises(ValueError, match="contradicts what the tree was built"):
        vs.JunctionTree(graph, evidence={0: 1}).infer({0: 0})
    with pytest.raises(ValueError, match="twice"):
        vs.JunctionTree(graph).joint([0, 0])
    graph.add([0], [-np.inf, -np.inf])
    with pytest.raises(vs.InfeasibleError, match="variable 0 has no state left"):
        vs.infer(graph)


def test_empty_graph() -> None:
    r = vs.infer(vs.FactorGraph([]))
    assert (r.marginals, r.log_z) == ([], 0.0)
    r = vs.infer(vs.FactorGraph([1, 3]))
    assert [m.tolist() for m in r.marginals] == [[1.0], [pytest.approx(1 / 3)] * 3]
    assert r.log_z == pytest.approx(np.log(3))


def test_answers_are_about_the_graph_that_was_asked() -> None:
    graph = vs.FactorGraph([2, 2], names=["a", "b"])
    graph.add(["a", "b"], np.log([[4.0, 1.0], [1.0, 4.0]]))
    graph.add(["a"], np.log([4.0, 1.0]))
    jt = vs.JunctionTree(graph)
    r = vs.infer(graph)
    before = r.joint(["a", "b"])
    graph.add(["a"], [0.0, 5.0])
    np.testing.assert_array_equal(r.joint(["a", "b"]), before)
    np.testing.assert_allclose(jt.infer()["a"], before.sum(axis=1))
    np.testing.assert_allclose(jt.infer().joint(["a", "b"]), before)
    assert vs.infer(graph)["a"][1] > before.sum(axis=1)[1]


@pytest.mark.parametrize("call", ["infer", "log_z", "decode"])
def test_arguments_of_questions_are_checked(call: str) -> None:
    jt = vs.JunctionTree(vs.FactorGraph([2, 2]))
    for bad in (-1, float("nan"), "x"):
        with pytest.raises((TypeError, ValueError), match="deadline"):
            getattr(jt, call)(deadline=bad)
    with pytest.raises(ValueError, match="progress must be callable"):
        getattr(jt, call)(progress=3)


def test_log_prob_given_evidence() -> None:
    graph = vs.FactorGraph([2, 2], names=["a", "b"], states=[["no", "yes"], None])
    graph.add(["a", "b"], np.log([[4.0, 1.0], [1.0, 4.0]]))
    assert np.exp(vs.log_prob(graph, [1, 1])) == pytest.approx(0.4)
    assert np.exp(vs.log_prob(graph, [1, 1], evidence={"a": "yes"})) == pytest.approx(0.8)
    assert vs.log_prob(graph, [0, 1], evidence={"a": "yes"}) == -np.inf
    soft = {"b": np.log([0.5, 0.25])}
    assert np.exp(vs.log_prob(graph, [1, 0], evidence=soft)) == pytest.approx(0.5 / 3.75)
    assert graph.evidence == {}
    with pytest.raises(vs.MemoryLimitError):
        vs.log_prob(graph, [0, 1], memory_limit=1)
    with pytest.raises(ValueError, match="FactorGraph only"):
        vs.log_prob(vs.Chain(np.zeros((2, 2)), np.zeros((2, 2))), [0, 1], evidence={0: 1})


@pytest.mark.parametrize("names", [None, ["a", "b", "c"]])
def test_states_are_those_of_a_variable_that_there_is(names: list[str] | None) -> None:
    graph = vs.FactorGraph([2, 2, 3], names=names)
    graph.add([2], [0.0, -np.inf, 0.0])
    tree = vs.JunctionTree(graph)
    assert tree.possible_states(2) == tree.possible_states(np.int64(2)) == [0, 2]
    if names:
        assert tree.possible_states("c") == [0, 2]
    for bad in (-1, 3, "x", 10**6, 10**12, 10**30, None):
        with pytest.raises(ValueError, match="variable"):
            tree.possible_states(bad)
