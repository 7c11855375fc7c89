"""Relaxed parsing chooses the pairs of arcs that `vs.select` chooses on the whole graph (RSM10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from tests.parsing.test_relaxed import LONG, TIGHT, by_chance, of_words, parts_of
from valuesparse.parsing import Parser, Sentence
from valuesparse.parsing._encoding import encode
from valuesparse.parsing._parser import _choice

Array = npt.NDArray[Any]


def chosen(parser: Parser, sentence: Sentence, **objective: Any) -> tuple[list[Any], Array]:
    """Return the parts that took part, and beliefs."""
    how = (*_choice(0.0, objective), 1, LONG, TIGHT, 0.0)
    trees = (parser.constraint == "projective", parser.single_root)
    _, kinds, nodes, beliefs, rounds, _ = parser._predictor.beliefs(
        encode([sentence]).words, how, False, trees
    )
    assert rounds <= 1
    return [(int(k), *n) for k, n in zip(kinds, nodes.tolist(), strict=True)], beliefs


def gains_of(graph: vs.FactorGraph) -> Array:
    arcs = graph.n_variables
    start = vs.infer(graph, factors=range(arcs + 1), method=vs.BP(tolerance=TIGHT))
    return vs.gain(graph, range(arcs + 1, graph.n_factors), start)


def check(parser: Parser, sentence: Sentence, name: str, amount: float) -> int:
    """Compare with `vs.select`; return how many pairs were chosen."""
    graph = parser.graph(sentence, prune=False)
    solver = vs.BP(max_iterations=LONG, tolerance=TIGHT)
    expected = vs.select(graph, solver=solver, **{name: amount})  # type: ignore[arg-type]
    used, beliefs = chosen(parser, sentence, **{name: amount})
    every, arcs = parts_of(parser, sentence), graph.n_variables
    gains = dict(enumerate(gains_of(graph).tolist(), arcs))
    # `select` adds pairs without a gain where it is asked for so many.
    kept = [k for k in expected.factors.tolist() if gains.get(k - 1, 1.0) > 0.0]
    assert used == [every[k - (k > arcs)] for k in kept if k != arcs]
    if len(kept) < expected.factors.size:
        expected = vs.infer(graph, factors=kept, method=solver)
    p = np.array([m[1] for m in expected.marginals])
    np.testing.assert_allclose(beliefs[:arcs], p, rtol=0.0, atol=1e-9)
    return len(used) - arcs


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 7),
    arcs=st.sampled_from([0.3, 1.0, 3.0]),
    projective=st.booleans(),
    single_root=st.booleans(),
    objective=st.one_of(
        st.tuples(st.just("min_joint"), st.floats(-7.0, -1.0).map(lambda e: 10.0**e)),
        st.tuples(st.just("min_size"), st.floats(-5.0, 1.0).map(lambda e: 10.0**e)),
        st.tuples(st.just("min_divergence"), st.integers(0, 300)),
    ),
)
def test_any_sentence(
    seed: int, n: int, arcs: float, projective: bool, single_root: bool, objective: tuple[str, Any]
) -> None:
    constraint = "projective" if projective else "tree"
    parser = by_chance(seed, 0.03, arcs, constraint, single_root)
    check(parser, of_words(n, seed), *objective)


def test_objectives_at_their_edges() -> None:
    parser, sentence = by_chance(3, 0.03), of_words(5)
    gains = np.sort(gains_of(parser.graph(sentence, prune=False)))
    assert gains[0] > 0.0
    assert check(parser, sentence, "min_size", 0.0) == gains.size
    assert check(parser, sentence, "min_size", 2.0 * gains.sum()) == 0
    assert check(parser, sentence, "min_size", np.inf) == 0
    assert check(parser, sentence, "min_divergence", 0) == 0
    assert check(parser, sentence, "min_divergence", 7) == 7
    assert check(parser, sentence, "min_divergence", 10**12) == gains.size
    assert check(parser, sentence, "min_joint", 0.0) == gains.size
    assert check(parser, sentence, "min_joint", np.inf) == 0


def test_a_gain_of_the_weight_of_size_counts() -> None:
    """MinJoint keeps g >= γ, RS10 g > ε; the engine's own gains lie a rounding from those."""
    parser, sentence = by_chance(3, 0.03), of_words(5)
    gains = np.sort(gains_of(parser.graph(sentence, prune=False)))
    for k in (3, 20):
        arcs = sum(not kind for kind, *_ in parts_of(parser, sentence))
        middle = 0.5 * (gains[-k] + gains[-k - 1])
        assert len(chosen(parser, sentence, min_joint=middle)[0]) - arcs == k
        assert len(chosen(parser, sentence, min_joint=gains[-k] * (1 - 1e-9))[0]) - arcs == k
        assert len(chosen(parser, sentence, min_joint=gains[-k] * (1 + 1e-9))[0]) - arcs == k - 1
    assert (
        _choice(1e-4, {"min_joint": 0.25})[1]
        < 0.25
        == np.nextafter(_choice(1e-4, {"min_joint": 0.25})[1], 1.0)
    )


@pytest.mark.parametrize(
    "objective", [{"min_size": 0.05}, {"min_divergence": 9}, {"min_joint": 1e-3}]
)
def test_threads_do_not_show_and_the_summary_counts(objective: dict[str, Any]) -> None:
    parser = by_chance(4, 0.05, constraint="projective")
    sentences = [of_words(n % 9 + 1, n) for n in range(30)]
    outputs = []
    for threads in (1, 2, 3, 8):
        parses = parser.parse(sentences, prune=False, threads=threads, **objective)
        told = [(s.heads.tolist(), s.confidence.tolist()) for s in parses]
        outputs.append((told, parses.summary))
    assert all(other == outputs[0] for other in outputs)
    summary = outputs[0][1]
    used = 0
    for sentence in sentences:
        kinds = [kind for kind, *_ in chosen(parser, sentence, **objective)[0]]
        used += sum(kind > 0 for kind in kinds)
    assert summary.used == used > 0
    assert summary.rounds <= 30


def test_min_divergence_looks_at_few() -> None:
    parser = by_chance(1, 0.003, 5.0)
    parses = parser.parse([of_words(12)], prune=False, min_divergence=1)
    list(parses)
    assert parses.summary.used == 1
    assert parses.summary.scored < parses.summary.pairs // 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_size": -1.0}, "min_size must be a number >= 0"),
        ({"min_joint": np.nan}, "min_joint must be a number >= 0"),
        ({"min_divergence": -1}, "min_divergence"),
        ({"min_divergence": 1, "min_size": 1.0}, "one of min_size and min_divergence"),
        ({"min_joint": 1.0, "method": "bp"}, "method 'relaxed'"),
        ({"min_joint": 1.0, "max_rounds": None}, "once"),
        ({"min_joint": 1.0, "threshold": 0.5}, "min_joint takes the place of threshold: give one"),
        ({"method": "bp", "threshold": 0.5}, "threshold: method 'bp' makes no use of it"),
        ({"method": "ad3", "max_rounds": None}, "max_rounds: method 'ad3' makes no use of it"),
        ({"method": "lp", "damping": 0.5}, "damping: method 'lp' makes no use of it, methods"),
    ],
)
def test_wrong_objectives(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        by_chance(0, 0.1).parse([], **wrong)
