"""Parts of non-projective arcs: some word between the ends does not descend from the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from checks import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from tests.parsing.test_examples import four_words, some_weights
from tests.parsing.treebank import treebank
from tests.tree_arcs import pair_triples, score, trees, with_pairs
from valuesparse.learning import Aggressive, Online, loss_and_gradient
from valuesparse.parsing import Examples, train
from valuesparse.parsing._graph import parts_graph
from valuesparse.parsing._model import bytes_of

Array = npt.NDArray[Any]
GIVEN: dict[str, Any] = {"order": 2, "beta": np.inf, "gamma": 1.0, "nonprojective": True}


def descends(heads: tuple[int, ...], word: int, above: int) -> bool:
    while word not in (0, above):
        word = heads[word - 1]
    return word == above


def crossing(heads: tuple[int, ...]) -> set[tuple[int, int]]:
    """Return the non-projective arcs of a tree, by looking at every word between their ends."""
    return {
        (h, m)
        for m, h in enumerate(heads, 1)
        if any(not descends(heads, k, h) for k in range(min(h, m) + 1, max(h, m)))
    }


def examples_of(n: int = 5, **how: Any) -> Examples:
    """Return one sentence of n words."""
    sentence = vs.parsing.Sentence(
        [f"w{k}" for k in range(n)], upos=["NOUN"] * n, heads=[0, *[1] * (n - 1)]
    )
    return Examples([sentence], 2, "tree", nonprojective=True, bits=5, **how)


def worth(examples: Examples, i: int, potentials: Array) -> dict[tuple[int, ...], float]:
    """Return the score of every tree, with that of its non-projective arcs."""
    kinds, nodes = examples.parts(i)
    n = int(nodes[kinds == 0, 1].max())
    table = np.full((n + 1, n + 1), -np.inf)
    table[nodes[kinds == 0, 0], nodes[kinds == 0, 1]] = potentials[kinds == 0]
    cost = {
        (h, m): x
        for (h, m, _), x in zip(nodes[kinds == 3].tolist(), potentials[kinds == 3], strict=True)
    }
    pairs = [(nodes[kinds == k], potentials[kinds == k]) for k in (1, 2)]
    return {
        heads: score(table, heads)
        + with_pairs(heads, *pairs)
        + sum(cost[arc] for arc in crossing(heads))
        for heads in trees(n, False, examples.single_root)
    }


def test_which_parts_a_tree_has() -> None:
    examples = examples_of()
    kinds, nodes = examples.parts(0)
    assert sorted(set(kinds.tolist())) == [0, 1, 2, 3]
    wanted = {(h, m) for h in range(1, 6) for m in range(1, 6) if abs(h - m) > 1}
    assert {(h, m) for h, m, _ in nodes[kinds == 3].tolist()} == wanted
    rng = np.random.default_rng(0)
    every = trees(5)
    for at in rng.choice(len(every), 60, replace=False):
        heads = every[at]
        sentence = vs.parsing.Sentence(["a"] * 5, heads=list(heads))
        found = Examples([sentence], 2, "tree", nonprojective=True, bits=4).gold(0)
        on = {(h, m) for h, m, _ in nodes[(kinds == 3) & (found > 0.5)].tolist()}
        assert on == crossing(heads)


@pytest.mark.parametrize("single_root", [False, True])
def test_the_graph_is_exact_for_trees(single_root: bool) -> None:
    rng = np.random.default_rng(3)
    n = 4
    scores = rng.normal(size=(n + 1, n + 1))
    arcs = [(h, m) for h in range(1, n + 1) for m in range(1, n + 1) if abs(h - m) > 1]
    weights = rng.normal(0.0, 2.0, len(arcs))
    siblings, grandparents = pair_triples(scores)
    pairs = [(x, rng.normal(size=len(x))) for x in (siblings, grandparents)]
    graph = vs.parsing.graph(scores, *pairs, "flow", single_root, (arcs, weights))
    assert graph.names[-1] == ("nonprojective", *arcs[-1])
    cost = dict(zip(arcs, weights.tolist(), strict=True))
    every = trees(n, False, single_root)
    some = rng.choice(len(every), 10, replace=False)
    for heads in [every[i] for i in some]:
        wanted = score(scores, heads) + with_pairs(heads, *pairs)
        wanted += sum(cost[arc] for arc in crossing(heads))
        # With the tree known the rest has one possible configuration.
        known = {(h, m): heads[m - 1] == h for h, m in graph.names[: n * n]}
        found = vs.decode(graph, method="lp", evidence={a: int(on) for a, on in known.items()})
        assert found.score == pytest.approx(wanted)


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.05, 0.3, 1.0]),
    single_root=st.booleans(),
    least=st.sampled_from([0.0, -2.0]),
)
def test_the_point_is_the_optimum_of_the_flow_program(
    seed: int, scale: float, single_root: bool, least: float
) -> None:
    examples = examples_of(single_root=single_root)
    kinds, nodes = examples.parts(0)
    potentials = examples.scores(0, some_weights(examples, seed, scale))
    potentials[kinds == 3] += least
    point = examples.best(0, potentials)
    graph = parts_graph(5, kinds, nodes, potentials, "flow", single_root)
    exact = vs.decode(graph, method="lp")
    assert exact.upper is not None
    slack = 1e-3 * (1.0 + abs(exact.upper))
    assert point @ potentials == pytest.approx(exact.upper, abs=slack)
    every = worth(examples, 0, potentials)
    best = max(every.values())
    assert point @ potentials >= best - slack
    if np.abs(point - point.round()).max() < 1e-6:
        heads = [0] * 5
        for (h, m, _), z in zip(nodes[kinds == 0].tolist(), point[kinds == 0], strict=True):
            heads[m - 1] = h if z > 0.5 else heads[m - 1]
        assert every[tuple(heads)] == pytest.approx(best, abs=slack)
        on = {(h, m) for h, m, _ in nodes[(kinds == 3) & (point > 0.5)].tolist()}
        assert on == crossing(tuple(heads))


def test_the_loss_is_that_of_the_linear_program() -> None:
    for seed in range(3):
        examples = Examples(four_words(), 2, "tree", False, bits=5, nonprojective=True)
        weights = some_weights(examples, seed, 0.5)
        loss, *_ = loss_and_gradient(examples, 0, weights, np.inf, 2.0)
        potentials, (p, q) = examples.scores(0, weights), examples.cost(0)
        kinds, nodes = examples.parts(0)
        exact = vs.decode(
            parts_graph(4, kinds, nodes, potentials + 2.0 * p, "flow", False), method="lp"
        )
        assert exact.upper is not None
        wanted = exact.upper + 2.0 * q - potentials @ examples.gold(0)
        assert loss == pytest.approx(wanted, abs=1e-3 * (1.0 + abs(exact.upper)))


def test_passes_have_the_same_bits_on_any_number_of_threads() -> None:
    sentences = treebank(12, seed=3, crossing=True)
    found = []
    for threads in (1, 2, 3, 8):
        examples = Examples(sentences, 2, bits=5, threads=threads, nonprojective=True)
        assert examples.constraint == "tree"
        learner = Online(examples, Aggressive(np.inf, 1.0), epochs=2, batch=4)
        found.append(([epoch.loss for epoch in learner], learner.weights))
    for losses, weights in found[1:]:
        assert losses == found[0][0]
        assert_same_bits(weights, found[0][1])


@pytest.mark.parametrize("features", ["hashed", "supported"])
def test_a_parser_with_such_features(features: str, tmp_path: Path) -> None:
    sentences = treebank(30, seed=1, crossing=True)
    parser = train(sentences, epochs=3, bits=6, prune=False, features=features, **GIVEN)
    assert parser.nonprojective
    assert parser.constraint == "tree"
    parser.save(tmp_path / "model")
    again = vs.parsing.load(tmp_path / "model")
    assert again.nonprojective
    assert bytes_of(again.model) == bytes_of(parser.model)
    test = treebank(12, seed=2, crossing=True)
    first = list(again.parse(test, threads=1))
    assert vs.parsing.evaluate(test, first).uas > 0.9
    parses = again.parse(test, "ad3", threads=3)
    for a, b in zip(first, parses, strict=True):
        np.testing.assert_array_equal(a.heads, b.heads)
        np.testing.assert_array_equal(a.confidence, b.confidence)
    assert parses.summary.integral > 6
    # By HiGHS, on the graph of flows.
    for sentence, found in zip(test[:2], first, strict=False):
        lp = again.parse([sentence], "lp")
        (other,) = lp
        if lp.summary.integral:
            np.testing.assert_array_equal(other.heads, found.heads)
        graph = again.graph(sentence)
        assert any(name[0] == "path" for name in graph.names)


def test_what_is_refused() -> None:
    sentences = treebank(6, seed=1, crossing=True)
    for wrong in ({"order": 1}, {"constraint": "projective"}, {"beta": 1.0}):
        with pytest.raises(ValueError, match="nonprojective=True wants"):
            train(sentences, **{**GIVEN, **wrong})
    examples = Examples(sentences, 2, bits=4, nonprojective=True)
    with pytest.raises(ValueError, match="non-projective arcs have no marginals"):
        examples.marginals(0, examples.gold(0))
    with pytest.raises(ValueError, match="non-projective arcs have no marginals"):
        list(Online(examples, Aggressive(1.0, 1.0), epochs=1))
    parser = train(sentences, epochs=1, bits=5, **GIVEN)
    for method in ("bp", "relaxed"):
        with pytest.raises(ValueError, match=f"method '{method}' has no paths"):
            parser.parse(sentences, method)
    with pytest.raises(ValueError, match="constraint must be 'tree'"):
        parser.parse(sentences, constraint="projective")
    with pytest.raises(ValueError, match="constraint must be 'flow'"):
        parser.graph(sentences[0], "tree")
    zeros, one = np.zeros((5, 5)), [0.0]
    with pytest.raises(ValueError, match="nonprojective wants constraint 'flow'"):
        vs.parsing.graph(zeros, nonprojective=([(1, 3)], one))
    for arc, why in (
        ((0, 3), "can fail to descend from 0"),
        ((2, 3), "can fail to descend from 2"),
        ((1, 5), "count from 0 to 4"),
        ((2, 2), "no such arc"),
    ):
        with pytest.raises(ValueError, match=why):
            vs.parsing.graph(zeros, constraint="flow", nonprojective=([arc], one))
    with pytest.raises(ValueError, match="list it once"):
        vs.parsing.graph(zeros, constraint="flow", nonprojective=([(1, 3), (1, 3)], [0.0, 1.0]))


def test_programs_that_are_cut_short_are_counted() -> None:
    """Long sentences whose non-projective arcs pay want flows of more words than are given."""
    rng = np.random.default_rng(0)
    n = 16
    heads = [0, *(int(rng.integers(1, k)) for k in range(2, n + 1))]
    sentences = [
        vs.parsing.Sentence([f"w{k}" for k in rng.integers(0, 9, n)], heads=np.array(heads))
        for _ in range(3)
    ]
    told: list[Any] = []
    examples = Examples(sentences, 2, "tree", nonprojective=True, bits=5, threads=2)
    learner = Online(examples, Aggressive(np.inf, 1.0), epochs=2)
    learner.weights[:] = rng.normal(size=examples.n_weights)
    next(iter(learner))
    assert 0 < examples.cut_short <= len(sentences)
    few = treebank(3)
    train(few, prune=False, epochs=1, bits=5, progress=told.append, **GIVEN)
    assert [p.cut_short for p in told] == [0] * len(told)
    assert "cut short" not in str(told[-1])
    assert str(told[-1]._replace(cut_short=2)).endswith(", 2 programs cut short")
