"""Compiled trees are kept beside a graph: later questions compile nothing, with the same bits."""

from __future__ import annotations

import gc
import itertools
import pickle
import threading
import weakref

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _junction
from valuesparse.inference import _kept

CARDS = [2, 3, 2, 4, 2, 3]
SCOPES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4), (2,), (5,)]


def make(scale: float = 1.0, zeros: bool = False) -> vs.FactorGraph:
    rng = np.random.default_rng(3)
    graph = vs.FactorGraph(CARDS)
    for scope in SCOPES:
        table = rng.normal(size=[CARDS[v] for v in scope]) * scale
        if zeros and len(scope) > 1:
            table[0, 1] = -np.inf
        graph.add(scope, table)
    return graph


QUESTIONS = {
    "infer": lambda g, **e: [p.tolist() for p in vs.infer(g, **e).marginals],
    "log_z": lambda g, **e: float(vs.infer(g, **e).log_z),
    "decode": lambda g, **e: (vs.decode(g, **e).states.tolist(), float(vs.decode(g, **e).score)),
    "sample": lambda g, **e: vs.sample(g, 20, rng=4, **e).tolist(),
    "log_prob": lambda g, **e: vs.log_prob(g, [1, 2, 0, 3, 1, 0], **e).tolist(),
    "joint of a factor": lambda g, **e: vs.infer(g, **e).joint([3, 2]).tolist(),
    "joint": lambda g, **e: vs.infer(g, **e).joint([0, 3]).tolist(),
}


class Compiled:
    """Counts the trees that are compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, real = 0, _junction.CliqueTree

        def counted(*args):
            self.count += 1
            return real(*args)

        monkeypatch.setattr(_junction, "CliqueTree", counted)


@pytest.mark.smoke
@pytest.mark.parametrize("evidence", [{}, {1: 2}, {0: [0.0, 1.5], 4: 1}])
@pytest.mark.parametrize("scale", [1.0, 500.0])
def test_answers_do_not_depend_on_what_was_asked_before(evidence, scale: float) -> None:
    fresh = {name: ask(make(scale), evidence=evidence) for name, ask in QUESTIONS.items()}
    graph = make(scale)
    for name in [*QUESTIONS, *reversed(QUESTIONS), *QUESTIONS]:
        assert QUESTIONS[name](graph, evidence=evidence) == fresh[name], name


def test_a_tree_is_compiled_once(monkeypatch) -> None:
    compiled, graph = Compiled(monkeypatch), make()
    vs.infer(graph)
    assert compiled.count == 1
    for name, ask in QUESTIONS.items():
        ask(graph)
        ask(graph.copy())
        assert compiled.count == (1 if name != "joint" else 3), name  # of two without a clique
    vs.infer(graph, method="junction_tree")
    assert compiled.count == 3
    vs.infer(graph, evidence={0: 1})
    assert compiled.count == 4
    for x in range(3):  # numbers of likelihoods are no part of the tree
        vs.infer(graph, evidence={0: [0.0, x + 1.5]})
    assert compiled.count == 5
    graph.add([0], [0.0, 1.0])
    vs.decode(graph)
    assert compiled.count == 6
    vs.infer(pickle.loads(pickle.dumps(graph)))
    assert compiled.count == 7


def test_few_are_kept_and_large_ones_without_tables(monkeypatch) -> None:
    graph = make()
    for v in range(6):
        vs.infer(graph, evidence={v: 0})
    assert len(_kept._KEPT[graph.stamp]) == 4
    monkeypatch.setattr(_kept, "_MOST_BYTES", 0)
    fresh, released = make(), make()
    for _ in range(2):
        for ask in QUESTIONS.values():
            assert ask(released) == ask(fresh)


def test_trees_go_with_their_graph() -> None:
    graph = make()
    r = vs.infer(graph)
    r.joint([0, 1])
    (kept,) = _kept._KEPT[graph.stamp].values()
    stamp = weakref.ref(graph.stamp)
    del graph, r, kept
    gc.collect()
    assert stamp() is None


@pytest.mark.parametrize("question", ["infer", "decode", "sample"])
def test_a_tree_that_was_stopped_is_not_kept(question: str) -> None:
    graph, fresh = make(), QUESTIONS[question](make())
    vs.infer(graph)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    more = {"size": 20, "rng": 4} if question == "sample" else {}
    with pytest.raises(KeyboardInterrupt):
        getattr(vs, question)(graph, progress=stop, **more)
    assert not _kept._KEPT[graph.stamp]
    assert QUESTIONS[question](graph) == fresh


def test_a_question_within_a_question_has_a_tree_of_its_own() -> None:
    graph = make()
    before, found = vs.infer(graph), []
    after = vs.infer(graph, progress=lambda *_: found.append(float(vs.infer(graph).log_z)))
    assert found
    assert set(found) == {float(before.log_z)} == {float(after.log_z)}


def test_threads_ask_at_once() -> None:
    graph = make()
    fresh = {name: ask(make()) for name, ask in QUESTIONS.items()}
    wrong: list[str] = []

    def work() -> None:
        for _ in range(3):
            wrong.extend(name for name, ask in QUESTIONS.items() if ask(graph) != fresh[name])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("evidence", [{}, {1: 2}, {0: [0.0, 1.5], 4: 1}])
def test_joints_of_cliques_against_enumeration(scale: float, zeros: bool, evidence) -> None:
    graph = make(scale, zeros)
    states = np.array(list(itertools.product(*map(range, CARDS))))
    score = sum(f.log_potential(states[:, list(f.scope)]) for f in graph.factors)
    for v, known in evidence.items():
        score = score + (
            np.where(states[:, v] == known, 0.0, -np.inf)
            if isinstance(known, int)
            else np.array(known)[states[:, v]]
        )
    p = np.exp(score - score.max()).reshape(CARDS)
    p /= p.sum()
    tree = vs.JunctionTree(graph)
    before = tree.infer(evidence)
    for wanted in [(0,), (1, 0), (4, 1), (1, 4, 0), (3, 0), (5, 2, 0, 3)]:
        rest = tuple(v for v in range(6) if v not in wanted)
        kept = sorted(wanted)
        expected = p.sum(axis=rest).transpose([kept.index(v) for v in wanted])
        for found in (tree.joint(wanted, evidence), before.joint(wanted)):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    after = tree.infer(evidence)
    assert before.flat_marginals().tolist() == after.flat_marginals().tolist()


def test_log_prob_adds_what_factors_say() -> None:
    graph = make(zeros=True)
    log_z = float(vs.infer(graph).log_z)
    for states in ([1, 2, 0, 3, 1, 0], [0, 1, 0, 0, 0, 0]):
        y = np.array([states])
        score = sum(float(f.log_potential(y[:, list(f.scope)])[0]) for f in graph.factors)
        assert float(vs.log_prob(graph, states)) == score - log_z
    assert score == -np.inf


def test_networks_answer_alike_with_a_tree_and_without() -> None:
    """Variables that nothing depends on are left out of some trees, and not of others."""

    def network() -> vs.FactorGraph:
        graph = vs.FactorGraph([2] * 8)
        graph.add([0], np.log([0.25, 0.75]))
        for v in range(1, 8):
            graph.add([(v - 1) // 2, v], np.log([[0.125 * v, 1 - 0.125 * v], [0.5, 0.5]]))
        for f in range(8):
            graph.mark_conditional(f)
        assert len(graph.conditional) == 8
        return graph

    asked = network()
    vs.infer(asked)
    for evidence in ({}, {3: 1}, {7: 0, 4: 1}):
        for ask in (
            lambda g, e: float(vs.log_prob(g, [0] * 8, evidence=e)),
            lambda g, e: vs.decode(g, evidence=e).states.tolist(),
            lambda g, e: vs.infer(g, evidence=e).joint([0, 1]).tolist(),
            lambda g, e: vs.infer(g, evidence=e).joint([3, 6]).tolist(),
        ):
            assert ask(asked, evidence) == ask(network(), evidence) == ask(asked, evidence)
