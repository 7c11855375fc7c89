"""Junction trees beyond `memory_limit`, conditioned on a few variables, against enumeration."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from graph_files import DATA
from graph_oracle import graph_of, log_joint, log_sum, marginal, models, probabilities
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from scipy import stats

import valuesparse as vs
from valuesparse.inference import _compiled, _conditioning
from valuesparse.inference._refusals import outputs

METHOD = "conditioned_junction_tree"


def _below(graph: vs.FactorGraph, share: float, evidence: Any = None) -> int:
    """A limit that leaves a tree this share of the bytes of its tables."""
    rest = outputs(graph)
    return rest + int(share * (vs.JunctionTree(graph, evidence=evidence).memory - rest))


def _grid(side: int, states: int = 3, seed: int = 0, zeros: float = 0.0) -> vs.FactorGraph:
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([states] * side * side)
    for v in range(side * side):
        graph.add([v], rng.normal(0, 1, states))
        for near, inside in ((v - 1, v % side), (v - side, v >= side)):
            if inside:
                table = rng.normal(0, 1, (states, states))
                table[rng.random(table.shape) < zeros] = -np.inf
                graph.add([near, v], table)
    return graph


def _close(r: vs.Result, p: np.ndarray) -> None:
    for v, found in enumerate(r.marginals):
        np.testing.assert_allclose(found, marginal(p, [v]), rtol=0, atol=1e-10)


@settings(max_examples=400)
@given(
    model=models(most=9),
    share=st.floats(0.1, 0.95),
    data=st.data(),
)
def test_every_question_against_enumeration(model, share: float, data: st.DataObject) -> None:
    """With evidence of the tree, and more of it in each question, on any variable."""
    cards, factors, evidence = model
    graph = graph_of(cards, factors)
    try:
        limit = _below(graph, share, evidence)
        jt = vs.JunctionTree(graph, evidence=evidence, memory_limit=limit)
    except vs.InfeasibleError:
        assert log_joint(cards, factors, evidence).max() == -np.inf
        return
    # Trees of a single small clique are not made smaller by anything.
    assume(not isinstance(jt._own_slices(), str))
    division = jt.divide()
    assume(division.slices > 1)
    assert division.memory <= limit
    assert len(division.conditioned) >= 1
    event(f"{len(division.conditioned)} variables")
    for _ in range(2):
        more: dict[int, Any] = {}
        for v in range(len(cards)):
            kind = data.draw(st.sampled_from(["", "", "", "soft", "hard"]))
            if kind == "soft":
                values = st.sampled_from([-np.inf, -1.0, 0.5, 2.0])
                more[v] = data.draw(st.lists(values, min_size=cards[v], max_size=cards[v]))
            elif kind == "hard" and not isinstance(evidence.get(v), int):
                more[v] = data.draw(st.integers(0, cards[v] - 1))
        if data.draw(st.booleans()):
            more = {}
        full = log_joint(cards, factors, evidence) + log_joint(cards, [], more)
        if full.max() == -np.inf:
            questions = (jt.infer, jt.log_z, jt.decode, lambda e: jt.sample(3, 0, evidence=e))
            for ask in questions:
                with pytest.raises((vs.InfeasibleError, ValueError)):
                    ask(more)
            continue
        p = probabilities(full)
        try:
            r = jt.infer(more)
        except vs.MemoryLimitError:
            # Soft evidence is a table: it may be what is too much.
            assert more
            continue
        if not more:
            assert r.method == METHOD
            assert r.stats["slices"] == jt.divide().slices
        assert r.log_z == pytest.approx(log_sum(full), rel=1e-10, abs=1e-10)
        assert jt.log_z(more) == pytest.approx(log_sum(full), rel=1e-10, abs=1e-10)
        _close(r, p)
        d = jt.decode(more)
        states, score = d.states, d.score
        assert score == pytest.approx(full.max(), rel=1e-10, abs=1e-10)
        assert full[tuple(states)] == pytest.approx(full.max(), rel=1e-10, abs=1e-10)
        for x in jt.sample(5, 1, evidence=more):
            assert p[tuple(x)] > 0.0


@settings(max_examples=100)
@given(model=models(most=7), share=st.floats(0.1, 0.95), data=st.data())
def test_joints_of_any_variables(model, share: float, data: st.DataObject) -> None:
    cards, factors, evidence = model
    graph = graph_of(cards, factors)
    full = log_joint(cards, factors, evidence)
    if full.max() == -np.inf:
        return
    n = len(cards)
    wanted = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, min(n, 3)))]
    jt = vs.JunctionTree(graph, evidence=evidence, memory_limit=_below(graph, share, evidence))
    try:
        found = jt.joint(wanted)
    except vs.MemoryLimitError:
        event("refused")
        return
    event(f"fits: {jt.memory <= jt.memory_limit}")
    np.testing.assert_allclose(found, marginal(probabilities(full), wanted), rtol=0, atol=1e-10)


@pytest.mark.smoke
def test_joints_are_conditioned_too() -> None:
    """The tree of the joint of two corners, and its table, do not fit; parts of it do."""
    graph = _grid(6)
    whole = vs.JunctionTree(graph)
    jt = vs.JunctionTree(graph, memory_limit=_below(graph, 0.5))
    assert jt.divide().slices > 1
    for wanted in ([0, 35], [35, 0, 17]):
        expected = whole.joint(wanted, {4: 1})
        np.testing.assert_allclose(jt.joint(wanted, {4: 1}), expected, rtol=0, atol=1e-12)
    with pytest.raises(vs.MemoryLimitError, match="the joint of 12 variables needs"):
        jt.joint(range(12))


def test_the_limit_may_change() -> None:
    graph = _grid(6)
    limit = _below(graph, 0.5)
    jt = vs.JunctionTree(graph, memory_limit=limit)
    expected, few = jt.infer(), jt.divide().slices
    jt.memory_limit = 10**9
    assert (jt.divide().slices, jt.divide().conditioned) == (1, ())
    assert jt.infer().method == "junction_tree"
    jt.memory_limit = _below(graph, 0.2)
    r = jt.infer()
    assert r.stats["slices"] == jt.divide().slices > few
    assert jt.divide().memory <= jt.memory_limit
    jt.memory_limit = limit
    assert jt.divide().slices == few
    _same(jt.infer(), expected)


def test_messages_of_earlier_questions_do_not_count_twice() -> None:
    """Memory of one kind of question is freed where it and the next may not fit together."""
    graph = _grid(6)
    evidence = {3: [0.1, 0.2, 0.3]}
    whole = vs.JunctionTree(graph)
    for limit, kept in ((whole.memory, False), (10**9, True)):
        jt = vs.JunctionTree(graph, memory_limit=limit)
        first = jt.infer(evidence)
        assert jt._tree.reused() == 0
        score = jt.decode(evidence).score
        _same(jt.infer(evidence), first)
        assert (jt._tree.reused() > 0) == kept
        assert jt.log_z(evidence) == pytest.approx(first.log_z, rel=1e-12)
        assert score == vs.JunctionTree(graph).decode(evidence).score


def test_what_to_condition_on_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grid(6)
    jt = vs.JunctionTree(graph, memory_limit=_below(graph, 0.5))
    calls = []

    original = _conditioning._divide

    def divide(*arguments: Any) -> Any:
        calls.append(1)
        return original(*arguments)

    monkeypatch.setattr("valuesparse.inference._conditioning._divide", divide)
    for ask in (jt.log_z, jt.infer, jt.decode):
        calls.clear()
        for state in (0, 0, 1):
            ask({0: [0.1, 0.2, 0.3 * state]})
        assert len(calls) <= 1


def test_what_ran_is_said() -> None:
    graph = _grid(7)
    limit = _below(graph, 0.4)
    jt = vs.JunctionTree(graph, memory_limit=limit)
    assert jt.divide().slices == 3 ** len(jt.divide().conditioned)
    shown = ", ".join(str(v) for v in jt.divide().conditioned)
    words = f"; conditioned on {shown}: {jt.divide().slices} slices of at most "
    for method in ("auto", "exact", "junction_tree"):
        r = vs.infer(graph, method=method, memory_limit=limit)
        assert r.method == METHOD
        assert words in r.reason
        assert r.reason.startswith("the junction tree has width ")
        assert r.stats["slices"] == jt.divide().slices
        assert r.stats["table_entries"] > jt.table_size
    whole = vs.JunctionTree(graph)
    assert (whole.divide().conditioned, whole.divide().slices) == ((), 1)
    assert vs.decode(graph).conditioned == ()
    best = vs.decode(graph, memory_limit=limit)
    assert best.conditioned == jt.divide().conditioned
    assert best.score == pytest.approx(vs.decode(graph).score, abs=1e-10)
    assert vs.sample(graph, 3, 0, memory_limit=limit).shape == (3, 49)
    states = [0] * 49
    expected = vs.log_prob(graph, states)
    assert vs.log_prob(graph, states, memory_limit=limit) == pytest.approx(expected, abs=1e-10)
    assert (whole.width, whole.table_size) == (jt.width, jt.table_size)
    assert jt.divide().memory <= limit < whole.memory
    assert jt.divide().seconds > whole.seconds
    assert "slices" not in whole.infer().stats
    again = pickle.loads(pickle.dumps(jt))
    assert again.divide() == jt.divide()
    _same(again.infer(), jt.infer())


def _same(a: vs.Result, b: vs.Result) -> None:
    assert a.log_z == b.log_z
    for x, y in zip(a.marginals, b.marginals, strict=True):
        assert x.tobytes() == y.tobytes()


def test_nothing_is_conditioned_that_fits() -> None:
    graph = _grid(5)
    whole = vs.JunctionTree(graph)
    exactly = vs.JunctionTree(graph, memory_limit=whole.memory)
    assert exactly.divide().slices == 1
    _same(exactly.infer({3: 1}), whole.infer({3: 1}))
    assert vs.JunctionTree(graph, memory_limit=whole.memory - 1).divide().slices > 1
    less = vs.JunctionTree(graph, memory_limit=_below(graph, 0.7))
    # Evidence makes it fit, and it is the same tree.
    held = {v: 0 for v in range(10, 15)}
    r = less.infer(held)
    assert r.method == "junction_tree"
    _same(r, whole.infer(held))
    assert less.infer({20: [0.0, 0.1, 0.2]}).method == METHOD


def test_same_bits_for_any_threads_and_any_history() -> None:
    graph = _grid(9, 4, zeros=0.1)
    limit = _below(graph, 0.3)
    evidence = {3: 1, 40: [0.3, -0.2, -np.inf, 0.0]}
    jt = vs.JunctionTree(graph, memory_limit=limit)
    assert jt.divide().slices > 4
    first, states = jt.infer(evidence, threads=1), jt.sample(20, 5, evidence=evidence, threads=1)
    best, mass = jt.decode(evidence, threads=1), jt.log_z(evidence, threads=1)
    for threads in (2, 3, 8):
        other = vs.JunctionTree(graph, memory_limit=limit)
        other.infer({7: 2}, threads=threads)
        _same(other.infer(evidence, threads=threads), first)
        assert other.log_z(evidence, threads=threads) == mass
        assert (other.sample(20, 5, evidence=evidence, threads=threads) == states).all()
        again = other.decode(evidence, threads=threads)
        assert again.score == best.score
        assert (again.states == best.states).all()


def test_samples_follow_the_posterior() -> None:
    cards, factors = [2, 3, 2, 2], []
    rng = np.random.default_rng(3)
    for scope in ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2)):
        factors.append((scope, rng.normal(0, 1, [cards[v] for v in scope])))
    factors[1][1][0, 0] = -np.inf
    graph = graph_of(cards, factors)
    evidence = {3: [0.0, 0.7]}
    jt = vs.JunctionTree(graph, evidence=evidence, memory_limit=_below(graph, 0.7, evidence))
    assert jt.divide().slices > 1
    p = probabilities(log_joint(cards, factors, evidence))
    rng = np.random.default_rng(1)
    x = np.array([jt.sample(10, rng) for _ in range(2000)])  # more at once do not fit
    pair = x[:, :2, jt.divide().conditioned[0]]
    x = x.reshape(-1, 4)
    seen = np.zeros(p.shape)
    np.add.at(seen, tuple(x.T), 1)
    assert (seen[p == 0] == 0).all()
    assert stats.chisquare(seen[p > 0], 20_000 * p[p > 0]).pvalue > 1e-4
    # Neighbours in the order of drawing are independent, whatever slice they come from.
    share = marginal(p, [jt.divide().conditioned[0]])
    both = np.zeros((share.size, share.size))
    np.add.at(both, tuple(pair.T), 1)
    assert stats.chisquare(both, 2000 * np.outer(share, share), axis=None).pvalue > 1e-4
    assert jt.sample(0, 1).shape == (0, 4)
    assert (jt.sample(9, 1) == jt.sample(9, 1)).all()


def test_slices_without_mass_and_graphs_without_any() -> None:
    """Parity: every third state of the variable conditioned on is impossible, seen or unseen."""
    graph = _grid(5, 3)
    table = np.zeros((3, 3))
    table[1] = -np.inf
    full = vs.FactorGraph([3] * 25)
    for f in graph.factors:
        full.add(f.scope, f.log_table)
    jt = vs.JunctionTree(graph, memory_limit=_below(graph, 0.5))
    v = jt.divide().conditioned[0]
    # Soft evidence is not looked at before the messages: the slice is found to be empty.
    r = jt.infer({v: [0.0, -np.inf, 0.5]})
    expected = vs.infer(graph, evidence={v: [0.0, -np.inf, 0.5]})
    assert r.log_z == pytest.approx(expected.log_z, abs=1e-10)
    assert r.marginals[v][1] == 0.0
    for a, b in zip(r.marginals, expected.marginals, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert (jt.sample(50, 0, evidence={v: [0.0, -np.inf, 0.5]})[:, v] != 1).all()
    assert jt.decode({v: [0.0, -np.inf, 0.5]}).states[v] != 1
    nothing = {v: [-np.inf] * 3}
    for ask in (jt.infer, jt.log_z, jt.decode, lambda e: jt.sample(2, 0, evidence=e)):
        with pytest.raises(vs.InfeasibleError, match="no configuration of the graph agrees"):
            ask(nothing)
    assert jt.infer().method == METHOD


def test_scores_of_any_size() -> None:
    graph = _grid(5, 3)
    for v, weight in ((3, 1e4), (17, -1e4), (21, 3e3)):
        graph.add([v, v + 1], np.eye(3) * weight)
    expected = vs.infer(graph)
    r = vs.infer(graph, memory_limit=_below(graph, 0.5))
    assert r.method == METHOD
    assert r.log_z == pytest.approx(expected.log_z, rel=1e-12)
    for a, b in zip(r.marginals, expected.marginals, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)
        assert a.sum() == pytest.approx(1.0, abs=1e-12)


def test_shares_of_slices_add_up_to_one_where_log_z_is_large() -> None:
    graph = _grid(4)
    graph.add([0], np.full(3, 1.4e8))
    r = vs.infer(graph, method="exact", memory_limit=_below(graph, 0.3))
    assert r.method == METHOD
    for found in r.marginals:
        assert abs(found.sum() - 1.0) < 1e-14


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_and_deadline(threads: int) -> None:
    graph = _grid(9, 4)
    jt = vs.JunctionTree(graph, memory_limit=_below(graph, 0.3))
    questions: list[Any] = [
        jt.infer, jt.log_z, jt.decode, lambda **options: jt.sample(10, 0, **options)
    ]  # fmt: skip
    for ask in questions:
        seen: list[tuple[int, int]] = []
        ask(threads=threads, progress=lambda *at, to=seen: to.append(at))
        assert len({total for done, total in seen if done}) == 1
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1][0] == seen[-1][1] > 0
        with pytest.raises(vs.DeadlineError, match="no answer within"):
            ask(threads=threads, deadline=1e-3)

        def stop(done: int, total: int) -> None:
            if done > total // 2:
                raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            ask(threads=threads, progress=stop)
    _same(jt.infer(), vs.JunctionTree(graph, memory_limit=_below(graph, 0.3)).infer())


def test_attributes_and_repr_do_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grid(8, 4)
    whole = vs.JunctionTree(graph)
    jt = vs.JunctionTree(graph, memory_limit=_below(graph, 0.5))
    seen: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(_compiled, "slices_of", None)
        patch.setattr(jt, "_lock", None)
        patch.setattr(vs.JunctionTree, "_prepare", None)
        assert (jt.memory, jt.seconds) == (whole.memory, whole.seconds)
        assert (jt.width, jt.table_size) == (whole.width, whole.table_size)
        assert repr(jt) == repr(whole)
        assert f"memory={whole.memory:.3g}" in repr(jt)
    # From within a question, too.
    jt.infer(progress=lambda *_: seen.append(f"{jt!r} {jt.memory} {jt.seconds}"))
    assert set(seen) == {f"{jt!r} {jt.memory} {jt.seconds}"}


def test_a_division_is_what_questions_are_made_of() -> None:
    graph = _grid(8, 4)
    jt = vs.JunctionTree(graph, memory_limit=_below(graph, 0.5))
    division = jt.divide()
    assert division.slices == jt.infer().stats["slices"] > 1
    assert division.memory <= jt.memory_limit < jt.memory
    assert jt.decode().conditioned == division.conditioned
    # A tree that fits because of evidence is in one piece.
    held = dict.fromkeys(range(0, 32), 0)
    assert jt.decode(held).conditioned == ()
    whole = vs.JunctionTree(graph)
    assert (whole.divide().conditioned, whole.divide().slices) == ((), 1)
    assert (whole.divide().memory, whole.divide().seconds) == (whole.memory, whole.seconds)


def test_refusals_say_what_was_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grid(8, 4)
    few = outputs(graph) + 1000
    with pytest.raises(vs.MemoryLimitError, match="not make it small enough: give evidence"):
        vs.infer(graph, method="exact", memory_limit=few)
    jt = vs.JunctionTree(graph, memory_limit=few)
    with pytest.raises(vs.MemoryLimitError, match="not make it small enough: give evidence"):
        jt.divide()
    assert jt.memory > 1_000_000
    many = outputs(graph) + 4000
    with pytest.raises(
        vs.MemoryLimitError,
        match=r"conditioned on .*: \d+ slices, it would still need .* KiB: give",
    ):
        vs.JunctionTree(graph, memory_limit=many).infer()
    half = _below(graph, 0.5)
    assert vs.infer(graph, memory_limit=half).method == METHOD
    monkeypatch.setattr("valuesparse.inference._graphs.AUTO", 1e-5)
    r = vs.infer(graph, memory_limit=half)
    assert r.method == "bp"
    assert "on one thread, above 1e-05 s; so loopy belief propagation" in r.reason
    # Where exactness was asked for there is more time.
    assert vs.infer(graph, memory_limit=half, method="exact").method == METHOD
    jt = vs.JunctionTree(graph, memory_limit=half)
    jt._budget = jt.seconds / 1000
    jt._found_own, jt._found = None, {}
    with pytest.raises(
        vs.MemoryLimitError,
        match=r"variables, it would take about \S+ s on one thread, above \S+ s: give evidence",
    ):
        jt.infer()
    # Bounds do not take that time.
    b = vs.bounds.log_z(graph, memory_limit=half)
    assert "above memory_limit=" in b.methods["exact"].note


def test_one_factor_beyond_the_limit_is_divided() -> None:
    """A single clique: there are no separators."""
    rng = np.random.default_rng(0)
    table = rng.normal(0, 1, [4] * 6)
    graph = graph_of([4] * 6, [(tuple(range(6)), table)])
    jt = vs.JunctionTree(graph, memory_limit=_below(graph, 0.5))
    try:
        division = jt.divide()
    except vs.MemoryLimitError:
        with pytest.raises(vs.MemoryLimitError, match="conditioned on"):
            jt.infer()
        return
    assert division.slices > 1
    assert jt.infer().log_z == pytest.approx(log_sum(table), rel=1e-12)


@pytest.mark.slow
def test_linkage_11_within_8_gb() -> None:
    """34 GB of tables: PR to the six digits of its reference."""
    file = DATA / "hard" / "linkage_11.uai"
    if not file.exists():
        pytest.skip(f"{file.name} is not in {DATA / 'hard'}")
    expected = float(file.with_suffix(".uai.PR").read_text().split()[1])
    jt = vs.JunctionTree(vs.read_uai(file), memory_limit=8 * 10**9)
    assert jt.divide().slices == 8
    assert jt.divide().memory < 8e9
    assert jt.log_z() / math.log(10.0) == pytest.approx(expected, abs=5e-5)
