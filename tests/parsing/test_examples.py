"""Parts, their features and the gradients of losses, against enumeration and differences."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from tests.parsing.treebank import treebank
from tests.tree_arcs import Enumerated, trees
from valuesparse import InfeasibleError
from valuesparse.learning import Aggressive, Online, Together, loss_and_gradient, supported
from valuesparse.parsing import Examples, Sentence
from valuesparse.parsing._encoding import encode, heads_of, projective_and_single

Array = npt.NDArray[Any]
BITS = 5
CONSTRAINTS = pytest.mark.parametrize("constraint", ["tree", "projective"])
ROOTS = pytest.mark.parametrize("single_root", [False, True])


class Walked(Aggressive):
    """The same rule, which the engine does not know."""


def learned_both_ways(
    examples: Examples, beta: float, gamma: float, batch: int
) -> tuple[Array, Array, Array, Array]:
    """Return the weights of native passes and of walks, which agree, and what each touched."""
    learned = []
    for rule in (Aggressive(beta, gamma), Walked(beta, gamma)):
        learner = Online(examples, rule, epochs=2, seed=4, batch=batch)
        losses = [(epoch.loss, epoch.updates) for epoch in learner]
        learned.append((losses, learner.result(), learner.touched))
    (a, fast, touched), (b, slow, also) = learned
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-4)
    assert np.abs(fast).max() > 0.01
    np.testing.assert_allclose(fast, slow, atol=1e-4)
    return fast, slow, touched, also


def four_words() -> list[Sentence]:
    return [
        Sentence(["a", "b", "c", "d"], upos=["X", "NOUN", "VERB", "X"], heads=[2, 3, 0, 3]),
        Sentence(["b"], upos=["NOUN"], heads=[0]),
        Sentence(["d", "b"], upos=["X", "NOUN"], heads=[2, 0]),
    ]


def dense(examples: Examples, i: int, potentials: Array, forbidden: float = -np.inf) -> Array:
    """Return the potentials of arcs as (n + 1, n + 1)."""
    _, nodes = examples.parts(i)
    n = int(nodes[:, 1].max(initial=0))
    scores = np.full((n + 1, n + 1), forbidden)
    scores[nodes[:, 0], nodes[:, 1]] = potentials
    return scores


def some_weights(examples: Examples, seed: int, scale: float = 0.3) -> Array:
    return np.random.default_rng(seed).normal(size=examples.n_weights) * scale


@CONSTRAINTS
@ROOTS
def test_marginals_and_the_best_tree_agree_with_enumeration(
    constraint: str, single_root: bool
) -> None:
    examples = Examples(four_words(), 1, constraint, single_root, bits=BITS)
    weights = some_weights(examples, 1)
    for i in range(len(examples)):
        scores = examples.scores(i, weights)
        assert np.ptp(scores) > 0.1 or len(scores) == 1
        exact = Enumerated(dense(examples, i, scores), constraint == "projective", single_root)
        log_z, p = examples.marginals(i, scores)
        assert abs(log_z - exact.log_z) < 1e-11
        _, nodes = examples.parts(i)
        np.testing.assert_allclose(p, [exact.p(h, m) for h, m, _ in nodes], atol=1e-11)
        table = dense(examples, i, scores)
        n = len(table) - 1
        best = max(
            trees(n, constraint == "projective", single_root),
            key=lambda t: sum(table[h, m] for m, h in enumerate(t, 1)),
        )
        assert examples.best(i, scores).tolist() == [float(best[m - 1] == h) for h, m, _ in nodes]


@CONSTRAINTS
@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (1.0, 1.0), (3.0, 0.5)])
def test_the_loss_agrees_with_enumeration_and_its_gradient_with_differences(
    constraint: str, beta: float, gamma: float
) -> None:
    examples = Examples(four_words(), 1, constraint, True, bits=BITS)
    weights = some_weights(examples, 2)
    i, gold = 0, (2, 3, 0, 3)
    loss, indices, values = loss_and_gradient(examples, i, weights, beta, gamma)
    table = dense(examples, i, examples.scores(i, weights))

    def value(heads: tuple[int, ...]) -> float:
        wrong = 2 * sum(h != g for h, g in zip(heads, gold, strict=True))
        arcs = sum(table[h, m] for m, h in enumerate(heads, 1))
        return beta * (float(arcs) + gamma * wrong)

    every = [value(t) for t in trees(4, constraint == "projective", True)]
    exact = (np.logaddexp.reduce(every) - value(gold)) / beta
    assert abs(loss - exact) < 1e-10
    assert len(np.unique(indices)) == len(indices)
    step = 1e-5
    largest = np.argsort(-np.abs(values))[:40]
    for at, slope in zip(indices[largest], values[largest], strict=True):
        shifted = weights.copy()
        shifted[at] += step
        above = loss_and_gradient(examples, i, shifted, beta, gamma)[0]
        shifted[at] -= 2 * step
        below = loss_and_gradient(examples, i, shifted, beta, gamma)[0]
        assert abs((above - below) / (2 * step) - slope) < 1e-6
    direction = np.random.default_rng(3).normal(size=len(weights))
    above = loss_and_gradient(examples, i, weights + step * direction, beta, gamma)[0]
    below = loss_and_gradient(examples, i, weights - step * direction, beta, gamma)[0]
    assert abs((above - below) / (2 * step) - direction[indices] @ values) < 1e-6


def test_scores_are_linear_in_the_weights() -> None:
    examples = Examples(treebank(3), bits=BITS)
    for i in range(3):
        weights = some_weights(examples, i)
        scores = examples.scores(i, weights)
        for part in range(0, len(scores), 7):
            one = np.zeros(len(scores))
            one[part] = 1.0
            indices, values = examples.gradient(i, one)
            assert abs(weights[indices] @ values - scores[part]) < 1e-11


def test_parts_are_the_arcs_in_order() -> None:
    examples = Examples(four_words(), bits=BITS)
    kinds, nodes = examples.parts(2)
    assert kinds.tolist() == [0] * 4
    assert nodes.tolist() == [[0, 1, -1], [2, 1, -1], [0, 2, -1], [1, 2, -1]]
    assert examples.gold(2).tolist() == [0.0, 1.0, 1.0, 0.0]
    p, q = examples.cost(2)
    assert float(p @ examples.gold(2)) + q == 0.0
    assert float(p @ [1, 0, 0, 1]) + q == 4.0


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (np.inf, 1.0)])
def test_a_native_pass_is_the_walk_of_batches(batch: int, beta: float, gamma: float) -> None:
    examples = Examples(treebank(9), bits=BITS, least=1e-9)
    fast, _, touched, also = learned_both_ways(examples, beta, gamma, batch)
    # Where the parts of a gradient cancel, their sum is 0 in one order and 1e-19 in another.
    assert np.abs(fast[touched & ~also]).max(initial=0.0) < 1e-15


def test_a_batch_is_one_example_of_all_its_parts() -> None:
    examples = Examples(treebank(4), bits=BITS)
    weights = some_weights(examples, 5)
    loss, indices, values = loss_and_gradient(Together(examples, [2, 0]), 0, weights, 1.0, 1.0)
    total, gradient = 0.0, np.zeros(examples.n_weights)
    for i in (2, 0):
        own, at, value = loss_and_gradient(examples, i, weights, 1.0, 1.0)
        total += own
        gradient[at] += value
    assert abs(loss - total) < 1e-10
    np.testing.assert_allclose(gradient[indices], values, atol=1e-12)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_do_not_show_in_what_is_learned(threads: int) -> None:
    results = []
    for workers in (1, threads):
        examples = Examples(treebank(20), bits=BITS, threads=workers)
        learner = Online(examples, Aggressive(), epochs=2, seed=1, batch=7)
        losses = [epoch.loss for epoch in learner]
        results.append((losses, learner.weights.tobytes(), learner.result().tobytes()))
    assert results[0] == results[1]


def test_for_the_best_tree_only_parts_of_trees_get_weights() -> None:
    """MSFXM10, section 5: the active set has the features of right trees and of wrong guesses."""
    examples = Examples(treebank(8), bits=8)
    found = supported(examples)
    assert 0 < found.sum() < examples.n_weights
    crf = Online(examples, Aggressive(), epochs=1)
    svm = Online(examples, Aggressive(np.inf, 1.0), epochs=1)
    for learner in (crf, svm):
        list(learner)
    assert svm.touched.sum() < crf.touched.sum()


@pytest.mark.parametrize("column", ["LEMMA", "UPOS", "XPOS", "FEATS"])
def test_a_column_that_is_ignored_does_not_count(column: str) -> None:
    name = {"LEMMA": "lemmas", "UPOS": "upos", "XPOS": "xpos", "FEATS": "feats"}[column]
    cells = {
        "lemmas": ["l"] * 2,
        "upos": ["NOUN", "VERB"],
        "xpos": ["NN", "VB"],
        "feats": ["A"] * 2,
    }
    sentences = [
        Sentence(["Dogs", "bark"], heads=[2, 0], **cells),
        Sentence(["Dogs", "bark"], heads=[2, 0], **{**cells, name: ["other", "cells"]}),
    ]
    seen = Examples(sentences, bits=BITS)
    weights = some_weights(seen, 6)
    assert np.abs(seen.scores(0, weights) - seen.scores(1, weights)).max() > 1e-3
    blind = Examples(sentences, bits=BITS, ignore=[column.lower()])
    assert blind.scores(0, weights).tolist() == blind.scores(1, weights).tolist()


def test_features_see_the_words_around_and_the_distance() -> None:
    words = ["w"] * 7
    plain = Examples([Sentence(words, upos=["X"] * 7, heads=[0] * 7)], 1, "tree", False, bits=BITS)
    weights = some_weights(plain, 7)
    base = dense(plain, 0, plain.scores(0, weights), 0.0)
    other = Sentence(words, upos=["X", "X", "X", "Y", "X", "X", "X"], heads=[0] * 7)
    changed = Examples([other], 1, "tree", False, bits=BITS)
    moved = dense(changed, 0, changed.scores(0, weights), 0.0) != base
    assert moved[2, 6]  # a tag between
    assert moved[3, 1]  # the word after the head
    assert moved[1, 5]  # the word before the modifier
    assert not moved[0, 1]
    assert not moved[7, 6] or moved[5, 6]
    assert len({base[1, m] for m in range(2, 7)}) > 3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 7))
def test_what_a_treebank_allows_agrees_with_its_definition(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    heads = [0] * n
    order = rng.permutation(n) + 1
    for k in range(n):
        heads[order[k] - 1] = 0 if k == 0 else int(rng.choice([0, *order[:k]]))
    found = [Sentence(["w"] * n, heads=heads)]
    offset = encode(found).offset
    projective, single = projective_and_single(heads_of(found), offset)
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, 1)]
    assert single == (heads.count(0) == 1)
    assert projective == (not any(a < c < b < d for a, b in arcs for c, d in arcs))


def test_nearly_projective_treebanks_count_as_projective() -> None:
    straight, crossed = treebank(1), Sentence(["w"] * 4, heads=[3, 4, 0, 3])
    many = [crossed, *straight * 200]
    assert Examples(many, bits=BITS).constraint == "projective"
    assert Examples(many[:20], bits=BITS).constraint == "tree"
    assert Examples(many, constraint="tree", bits=BITS).constraint == "tree"
    assert Examples(straight, bits=BITS).single_root


def test_long_and_odd_strings_are_words() -> None:
    forms = ["", "ß" * 100, "x" * 1000, "\0", "字", "\U0001f600" * 5, "ÀÉ"]
    sentence = Sentence([form or "_" for form in forms], heads=[0] * len(forms))
    examples = Examples([sentence, Sentence(["_"], heads=[0])], bits=BITS)
    scores = examples.scores(0, some_weights(examples, 8))
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) > len(scores) // 2


def test_errors_say_what_is_wrong() -> None:
    fine = four_words()
    with pytest.raises(ValueError, match="order must be"):
        Examples(fine, 7)
    with pytest.raises(ValueError, match="constraint must be 'tree' or 'projective'"):
        Examples(fine, constraint="flow")
    with pytest.raises(ValueError, match="ignore: 'FORM' is none of LEMMA"):
        Examples(fine, ignore=["FORM"])
    with pytest.raises(ValueError, match="bits must be 4 to 20"):
        Examples(fine, bits=30)
    with pytest.raises(ValueError, match=r"sentences\[1\], word 2: HEADs go round"):
        Examples([fine[0], Sentence(["a", "b"], heads=[0, 2])])
    with pytest.raises(ValueError, match=r"sentences\[0\], word 1: no HEAD"):
        Examples([Sentence(["a"])])
    examples = Examples(fine, bits=BITS)
    with pytest.raises(TypeError, match="Examples do not pickle: pickle the sentences"):
        pickle.dumps(examples)
    with pytest.raises(IndexError, match="there are 3 sentences"):
        examples.gold(3)
    with pytest.raises(ValueError, match="an array of 4 numbers"):
        examples.marginals(2, np.zeros(3))
    with pytest.raises(ValueError, match="numbers is wanted"):
        examples.scores(0, np.zeros(3))
    with pytest.raises(InfeasibleError, match="sentence 2"):
        examples.marginals(2, np.full(4, -np.inf))
    with pytest.raises(InfeasibleError, match="sentence 2"):
        examples.best(2, np.full(4, -np.inf))
    with pytest.raises(ValueError, match="order must be 0, 1 or 2, not 3"):
        Examples(fine, 3)
    for bad, problem in (
        (["a"], r"sentences\[0\] must be a Sentence, not str"),
        (None, "sentences must be an iterable of Sentence, not NoneType$"),
        (fine[0], "an iterable of Sentence, not Sentence; put it into a list"),
    ):
        with pytest.raises(TypeError, match=problem):
            Examples(bad)  # type: ignore[arg-type]
    assert len(Examples(iter(fine), bits=BITS)) == 3
    for index in (1.0, "a"):
        with pytest.raises(TypeError, match="i must be the index of a sentence, not"):
            examples.parts(index)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [1, 2])
def test_what_is_no_number_is_refused_by_its_index(order: int) -> None:
    examples = Examples(four_words(), order, bits=BITS)
    size = len(examples.gold(0))
    for bad, shown in ((np.nan, "NaN"), (np.inf, r"\+inf"), (1e308, r"\+1e\+308")):
        potentials = np.zeros(size)
        potentials[5] = bad
        for method in (examples.marginals, examples.best):
            with pytest.raises(ValueError, match=rf"potentials\[5\] is {shown}; .* or -inf"):
                method(0, potentials)
        if bad == 1e308:  # no score, but a number
            continue
        with pytest.raises(ValueError, match=rf"residual\[5\] is {shown}"):
            examples.gradient(0, potentials)
        weights = np.zeros(examples.n_weights)
        (at, *_), _ = examples.gradient(0, np.ones(size))
        weights[at] = bad
        with pytest.raises(ValueError, match=rf"weights\[{at}\] is {shown}; weights must be"):
            examples.scores(0, weights)
        with pytest.raises(ValueError, match=rf"weights\[{at}\] is {shown}; weights must be"):
            examples.prune(weights)


def test_a_pruner_takes_weights_of_any_kind() -> None:
    examples = Examples(treebank(9), 0, bits=BITS)
    learner = Online(examples, Aggressive(), epochs=2)
    list(learner)
    weights = learner.result()
    expected = [x.tolist() for x in examples.prune(weights.astype(np.float32))]
    every = sum(len(s) ** 2 for s in treebank(9))
    assert len(expected[1]) < every
    for same in (weights, weights.astype(">f4"), np.repeat(weights, 2)[::2], weights.tolist()):
        assert [x.tolist() for x in examples.prune(same)] == expected
    for bad in (weights[:1], np.zeros(0), weights[:, None]):
        with pytest.raises(ValueError, match=f"weights: an array of {len(weights)} numbers"):
            examples.prune(bad)
    with pytest.raises(TypeError, match="weights must hold real numbers"):
        examples.prune(weights.astype(complex))
    weights[3] = 1e39
    with pytest.raises(ValueError, match=r"weights\[3\] is \+inf"):
        examples.prune(weights)


def test_what_the_engine_reads_stays_as_it_is() -> None:
    examples = Examples(treebank(5), bits=BITS)
    for array in examples.arrays:
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        examples.arrays = ()  # type: ignore[misc, assignment]
    n = examples.n_weights
    examples.n_weights = 3
    with pytest.raises(ValueError, match=f"weights: an array of {n} numbers is wanted"):
        examples.scores(0, np.ones(3))


def test_passes_check_what_they_change() -> None:
    examples = Examples(treebank(5), bits=BITS)
    n = examples.n_weights
    fixed = np.zeros(n)
    fixed.flags.writeable = False

    def sweep(**changed: Any) -> tuple[float, Any]:
        given = {
            "order": np.arange(5), "weights": np.zeros(n), "late": np.zeros(n),
            "touched": np.zeros(n, bool), "time": 0, "batch": 2, **changed,
        }  # fmt: skip
        return examples.sweep(Aggressive(), **given), given["weights"].tolist()

    expected = sweep()
    assert sweep(order=np.arange(5, dtype=np.int32)) == sweep(order=list(range(5))) == expected
    assert sweep(batch=2**62) == sweep(batch=5)
    for changed, error, problem in (
        ({"order": [0, 5]}, ValueError, r"order\[1\] is 5; there are 5 sentences, from 0"),
        ({"order": [-1]}, ValueError, r"order\[0\] is -1"),
        ({"order": [0.5]}, ValueError, "order must be whole numbers, .* got float64"),
        ({"batch": 0}, ValueError, "batch must be an integer >= 1, got 0"),
        ({"time": -1}, ValueError, "time must be an integer >= 0, got -1"),
        ({"weights": np.zeros(5)}, ValueError, f"weights: an array of {n} numbers is wanted"),
        ({"late": np.zeros(n, np.float32)}, TypeError, "late must be an array of float64, not fl"),
        ({"touched": np.zeros(n)}, TypeError, "touched must be an array of bool, not float64"),
        ({"weights": [0.0] * n}, TypeError, "weights must be an array of float64, not list"),
        ({"weights": np.zeros(2 * n)[::2]}, ValueError, "weights must be contiguous"),
        ({"late": fixed}, ValueError, "late is read-only, and would be changed"),
    ):
        with pytest.raises(error, match=problem):
            sweep(**changed)


def pairs_graph(examples: Examples, i: int, potentials: Array) -> vs.FactorGraph:
    """Return the factor graph of all parts of sentence i: a tree factor, and tables."""
    kinds, nodes = examples.parts(i)
    arcs = {(int(h), int(m)): k for k, (h, m, _) in enumerate(nodes[kinds == 0])}
    graph = vs.FactorGraph([2] * len(arcs))
    for k in range(len(arcs)):
        graph.add((k,), np.array([0.0, potentials[k]]))
    for kind, (a, b, c), score in zip(kinds, nodes.tolist(), potentials, strict=True):
        if kind:
            both = ((a, b), (a, c)) if kind == 1 else ((a, b), (b, c))
            graph.add([arcs[arc] for arc in both], np.array([[0.0, 0.0], [0.0, score]]))
    factor = vs.factors.Tree if examples.constraint == "tree" else vs.factors.ProjectiveTree
    graph.add(factor(list(arcs), list(range(len(arcs))), single_root=examples.single_root))
    return graph


@CONSTRAINTS
@ROOTS
def test_beliefs_of_pairs_are_those_of_the_factor_graph(constraint: str, single_root: bool) -> None:
    examples = Examples(four_words(), 2, constraint, single_root, bits=BITS)
    weights = some_weights(examples, 4, 0.02)
    for i in range(len(examples)):
        potentials = examples.scores(i, weights)
        log_z, beliefs = examples.marginals(i, potentials)
        graph = pairs_graph(examples, i, potentials)
        found = vs.infer(
            graph, method=vs.BP(schedule="flooding", max_iterations=10, tolerance=1e-4)
        )
        kinds, _ = examples.parts(i)
        arcs = int((kinds == 0).sum())
        np.testing.assert_allclose(beliefs[:arcs], [p[1] for p in found.marginals], atol=1e-4)
        assert abs(log_z - found.log_z) < 1e-4
        tables = found.factor_marginals()
        for k in range(arcs, len(kinds)):
            table = tables[k]
            assert abs(beliefs[k] - table[1, 1]) < 1e-4


def test_parts_of_order_2_are_all_pairs_in_order() -> None:
    examples = Examples(four_words(), 2, "tree", False, bits=BITS)
    for i, n in enumerate((4, 1, 2)):
        kinds, nodes = examples.parts(i)
        arcs = [(h, m) for m in range(1, n + 1) for h in range(n + 1) if h != m]
        siblings = [
            (h, m, s) for h in range(n + 1) for m in range(1, n + 1) for s in range(m + 1, n + 1)
            if h not in (m, s)
        ]  # fmt: skip
        grandparents = [
            (g, h, m) for g in range(n + 1) for h in range(1, n + 1) for m in range(1, n + 1)
            if len({g, h, m}) == 3
        ]  # fmt: skip
        assert [tuple(x) for x in nodes[kinds == 0].tolist()] == [(*a, -1) for a in arcs]
        assert [tuple(x) for x in nodes[kinds == 1].tolist()] == siblings
        assert [tuple(x) for x in nodes[kinds == 2].tolist()] == grandparents
        heads = examples_heads(examples, i)
        gold = {
            *((h, m, -1) for m, h in enumerate(heads, 1)),
            *((h, m, s) for h, m, s in siblings if heads[m - 1] == heads[s - 1] == h),
        }
        under = {(g, h, m) for g, h, m in grandparents if (heads[h - 1], heads[m - 1]) == (g, h)}
        for kind, node, on in zip(kinds, nodes.tolist(), examples.gold(i), strict=True):
            assert on == (tuple(node) in (under if kind == 2 else gold))


def examples_heads(examples: Examples, i: int) -> list[int]:
    _, offset, heads = examples.arrays
    return [int(h) for h in heads[offset[i] : offset[i + 1]]]


def test_scores_of_pairs_are_linear_and_their_gradient_is_that_of_the_parts() -> None:
    examples = Examples(four_words(), 2, bits=BITS)
    weights = some_weights(examples, 9)
    scores = examples.scores(0, weights)
    for part in range(len(scores)):
        one = np.zeros(len(scores))
        one[part] = 1.0
        indices, values = examples.gradient(0, one)
        assert abs(weights[indices] @ values - scores[part]) < 1e-11


@pytest.mark.parametrize("scale", [50.0, 1e4, 1e8])
def test_beliefs_are_numbers_at_any_scores(scale: float) -> None:
    for constraint in ("tree", "projective"):
        examples = Examples(four_words(), 2, constraint, True, bits=BITS)
        for i in range(len(examples)):
            size = len(examples.gold(i))
            rng = np.random.default_rng(i)
            potentials = rng.normal(size=size) * scale
            log_z, beliefs = examples.marginals(i, potentials)
            assert np.isfinite(log_z)
            assert ((beliefs >= 0.0) & (beliefs <= 1.0)).all()
            kinds, _ = examples.parts(i)
            potentials[(kinds > 0) & (rng.random(size) < 0.5)] = -np.inf
            log_z, beliefs = examples.marginals(i, potentials)
            assert np.isfinite(log_z)
            assert ((beliefs >= 0.0) & (beliefs <= 1.0)).all()
            assert not beliefs[potentials == -np.inf].any()
