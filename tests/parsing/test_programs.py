"""Learning by the best structure: that of order 1 is exact, that of order 2 a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from checks import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from tests.parsing.test_examples import (
    CONSTRAINTS,
    ROOTS,
    dense,
    four_words,
    pairs_graph,
    some_weights,
)
from tests.parsing.treebank import treebank
from tests.tree_arcs import trees
from valuesparse import InfeasibleError
from valuesparse.learning import Aggressive, Online, loss_and_gradient
from valuesparse.parsing import Examples, train
from valuesparse.parsing._model import bytes_of

Array = npt.NDArray[Any]


def structures(examples: Examples, i: int) -> list[Array]:
    """Return every tree of sentence i as which parts it has."""
    kinds, nodes = examples.parts(i)
    n = int(nodes[kinds == 0, 1].max())
    found = []
    for tree in trees(n, examples.constraint == "projective", examples.single_root):
        heads = [-1, *tree]
        on = np.zeros(len(kinds))
        for k, (kind, (a, b, c)) in enumerate(zip(kinds, nodes.tolist(), strict=True)):
            first = heads[b] == a
            on[k] = first and (kind == 0 or heads[c] == (a if kind == 1 else b))
        found.append(on)
    return found


@CONSTRAINTS
@ROOTS
@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.5])
def test_the_loss_of_order_1_is_that_of_the_worst_tree(
    constraint: str, single_root: bool, gamma: float
) -> None:
    examples = Examples(four_words(), 1, constraint, single_root, bits=5)
    weights = some_weights(examples, 6)
    gold = (2, 3, 0, 3)
    loss, indices, values = loss_and_gradient(examples, 0, weights, np.inf, gamma)
    table = dense(examples, 0, examples.scores(0, weights))

    def score(heads: tuple[int, ...]) -> float:
        wrong = 2 * sum(h != g for h, g in zip(heads, gold, strict=True))
        return float(sum(table[h, m] for m, h in enumerate(heads, 1))) + gamma * wrong

    every = [score(t) for t in trees(4, constraint == "projective", single_root)]
    assert abs(loss - (max(every) - score(gold))) < 1e-10
    step = 1e-6
    direction = np.random.default_rng(3).normal(size=len(weights))
    above = loss_and_gradient(examples, 0, weights + step * direction, np.inf, gamma)[0]
    assert abs((above - loss) / step - direction[indices] @ values) < 1e-4


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.02, 0.1, 0.5]),
    projective=st.booleans(),
    single_root=st.booleans(),
)
def test_the_point_of_order_2_is_never_below_the_best_tree(
    seed: int, scale: float, projective: bool, single_root: bool
) -> None:
    constraint = "projective" if projective else "tree"
    examples = Examples(four_words(), 2, constraint, single_root, bits=5)
    potentials = examples.scores(0, some_weights(examples, seed, scale))
    point = examples.best(0, potentials)
    every = structures(examples, 0)
    best = max(float(on @ potentials) for on in every)
    slack = 1e-3 * (1.0 + abs(best))
    assert point @ potentials >= best - slack
    assert ((point > -1e-3) & (point < 1.001)).all()
    if np.abs(point - point.round()).max() < 1e-6:
        assert any((on == point.round()).all() for on in every)
        assert abs(point @ potentials - best) < slack


def test_the_point_is_the_optimum_of_the_graph() -> None:
    fractional = 0
    for seed in range(6):
        examples = Examples(four_words(), 2, "tree", bool(seed % 2), bits=5)
        potentials = examples.scores(0, some_weights(examples, seed, 1.0))
        point = examples.best(0, potentials)
        exact = vs.decode(pairs_graph(examples, 0, potentials), method="lp")
        assert exact.upper is not None
        assert abs(point @ potentials - exact.upper) < 1e-3 * (1.0 + abs(exact.upper))
        fractional += not exact.integral
    assert fractional


@CONSTRAINTS
def test_the_loss_of_order_2_is_that_of_the_linear_program(constraint: str) -> None:
    for seed in range(3):
        examples = Examples(four_words(), 2, constraint, bool(seed % 2), bits=5)
        weights = some_weights(examples, seed, 0.5)
        loss, *_ = loss_and_gradient(examples, 0, weights, np.inf, 2.0)
        potentials = examples.scores(0, weights)
        p, q = examples.cost(0)
        exact = vs.decode(pairs_graph(examples, 0, potentials + 2.0 * p), method="lp")
        assert exact.upper is not None
        wanted = exact.upper + 2.0 * q - potentials @ examples.gold(0)
        assert loss == pytest.approx(wanted, abs=1e-3 * (1.0 + abs(exact.upper)))
        # A pass over this sentence alone, in the engine.
        arrays = (np.zeros_like(weights), np.zeros(len(weights), bool))
        one = np.zeros(1, np.int64)
        told = examples.sweep(Aggressive(np.inf, 2.0), one, weights.copy(), *arrays, 0, 1)
        assert told is not None
        assert told[0] == pytest.approx(loss, abs=1e-12)


class Slow(Aggressive):
    """A rule that the engine does not know."""


def test_passes_by_linear_programs_have_the_same_bits_on_any_number_of_threads() -> None:
    sentences = treebank(20, seed=3)
    found = []
    for threads in (1, 2, 3, 8):
        examples = Examples(sentences, 2, bits=5, threads=threads, least=0.0)
        learner = Online(examples, Aggressive(np.inf, 1.0), epochs=2, batch=4)
        found.append(([epoch.loss for epoch in learner], learner.weights, learner.result()))
    for losses, weights, mean in found[1:]:
        assert losses == found[0][0]
        assert_same_bits(weights, found[0][1])
        assert_same_bits(mean, found[0][2])
    slow = Online(Examples(sentences, 2, bits=5), Slow(np.inf, 1.0), epochs=2, batch=4)
    np.testing.assert_allclose([epoch.loss for epoch in slow], found[0][0], rtol=1e-5)
    np.testing.assert_allclose(slow.weights, found[0][1], atol=1e-5)


def test_what_cannot_be_is_told() -> None:
    examples = Examples(four_words(), 2, bits=5)
    potentials = np.zeros(len(examples.gold(0)))
    kinds, nodes = examples.parts(0)
    potentials[(kinds == 0) & (nodes[:, 0] == 2)] = -np.inf
    point = examples.best(0, potentials)
    assert not point[potentials == -np.inf].any()
    assert point[kinds == 0].sum() == pytest.approx(4.0, abs=1e-3)
    with pytest.raises(InfeasibleError, match="sentence 0: the potentials allow no tree"):
        examples.best(0, np.full(len(potentials), -np.inf))


def test_pairs_are_learned_by_linear_programs() -> None:
    sentences = treebank(12, seed=6)
    examples = Examples(sentences, 2, bits=5)
    learner = Online(examples, Aggressive(np.inf, 1.0), epochs=4, batch=3)
    losses = [epoch.loss for epoch in learner]
    assert losses[-1] < 0.2 * losses[0]
    made = [
        train(sentences, 2, beta=np.inf, gamma=1.0, epochs=1, features="complete", threads=threads)
        for threads in (1, 2)
    ]
    assert bytes_of(made[0].model) == bytes_of(made[1].model)
    assert vs.parsing.evaluate(sentences, made[0].parse(sentences, method="ad3")).uas > 0.9
