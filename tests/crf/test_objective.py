"""The loss of a corpus and its gradient, against enumeration and finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.crf import Trainer
from valuesparse.crf.training._data import Corpus, Dataset
from valuesparse.crf.training._features import FeatureSet, generate
from valuesparse.crf.training._objective import Objective

pytestmark = pytest.mark.simd


def random_dataset(
    rng: np.random.Generator, sequences: int, longest: int, k: int, attributes: int, plain: bool
) -> Dataset:
    """Return sequences whose attributes tell something of the labels."""
    data = Dataset()
    for _ in range(sequences):
        y = rng.integers(k, size=rng.integers(0, longest + 1))
        xseq = []
        for label in y:
            names = [f"a{(a * (label + 1)) % attributes}" for a in rng.integers(attributes, size=3)]
            names.append("bias")
            xseq.append(names if plain else {n: float(rng.normal()) for n in names})
        data.append(xseq, [f"L{label}" for label in y], 0)
    return data


def problem(data: Dataset, **options: float) -> tuple[Corpus, FeatureSet]:
    corpus = data.corpus()
    return corpus, generate(corpus, len(data.attributes), len(data.labels.names), **options)


def moves_of(features: FeatureSet) -> np.ndarray:
    """Return the weight of each transition (K, K), -1 where it has none."""
    k = len(features.start) - 1
    moves = np.full((k, k), -1)
    moves[features.source, features.target] = range(len(features.label), features.n_weights)
    return moves


def dense(corpus: Corpus, features: FeatureSet, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return unary (N, K) and transition (K, K) scores, one term at a time."""
    k = len(features.start) - 1
    weights = {(a, y): w[f] for f, (a, y) in
               enumerate(zip(features.attribute, features.label, strict=True))}  # fmt: skip
    unary = np.zeros((corpus.n_items, k))
    for i in range(corpus.n_items):
        for m in range(corpus.item[i], corpus.item[i + 1]):
            value = 1.0 if corpus.values is None else corpus.values[m]
            for y in range(k):
                unary[i, y] += value * weights.get((corpus.ids[m], y), 0.0)
    moves = moves_of(features)
    transition = np.where(moves >= 0, w[moves], 0.0)
    return unary, transition


def enumerated(corpus: Corpus, features: FeatureSet, w: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the loss and its gradient from all label sequences."""
    unary, transition = dense(corpus, features, w)
    k = len(features.start) - 1
    expected_unary, expected_moves, loss = np.zeros_like(unary), np.zeros((k, k)), 0.0
    for s in range(corpus.n_sequences):
        at = np.arange(corpus.offset[s], corpus.offset[s + 1])
        every = [np.array(y, int) for y in itertools.product(range(k), repeat=len(at))]
        scores = [unary[at, y].sum() + transition[y[:-1], y[1:]].sum() for y in every]
        log_z = np.logaddexp.reduce(scores)
        gold = corpus.gold[at]
        loss += log_z - unary[at, gold].sum() - transition[gold[:-1], gold[1:]].sum()
        for y, score in zip([*every, gold], [*scores, None], strict=True):
            p = -1.0 if score is None else np.exp(score - log_z)
            expected_unary[at, y] += p
            np.add.at(expected_moves, (y[:-1], y[1:]), p)
    gradient = np.zeros(features.n_weights)
    for i in range(corpus.n_items):
        for m in range(corpus.item[i], corpus.item[i + 1]):
            value = 1.0 if corpus.values is None else corpus.values[m]
            for f in range(features.first[corpus.ids[m]], features.first[corpus.ids[m] + 1]):
                gradient[f] += value * expected_unary[i, features.label[f]]
    gradient[len(features.label) :] = expected_moves[features.source, features.target]
    return loss, gradient


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 4),
    plain=st.booleans(),
    every=st.booleans(),
    threads=st.integers(1, 3),
)
def test_loss_and_gradient_of_small_corpora_are_those_of_enumeration(
    seed: int, k: int, plain: bool, every: bool, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    data = random_dataset(rng, 6, 4, k, 5, plain)
    corpus, features = problem(data, possible_states=every, possible_transitions=every)
    w = rng.normal(size=features.n_weights) * 3
    gradient = np.full_like(w, np.nan)
    loss = Objective(corpus, features, threads)(w, gradient)
    expected_loss, expected = enumerated(corpus, features, w)
    assert loss == pytest.approx(expected_loss, rel=1e-11, abs=1e-10)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 300.0])
def test_many_labels_with_few_transitions(scale: float, rng: np.random.Generator) -> None:
    """Messages and sums read the pairs that have a weight: the same as with a table per edge."""
    corpus, features = problem(random_dataset(rng, 40, 15, 110, 40, False))
    k = len(features.start) - 1  # labels that occur
    assert k > 96
    assert len(features.source) < k * k / 16
    w = scale * rng.normal(size=features.n_weights)
    gradients = []
    for threads in (1, 2, 3):
        gradient = np.full_like(w, np.nan)
        loss = Objective(corpus, features, threads)(w, gradient)
        gradients.append(gradient)
        assert np.array_equal(gradient, gradients[0])
    unary, table = dense(corpus, features, w)
    lengths = np.diff(corpus.offset)
    edges = int(np.maximum(lengths - 1, 0).sum())
    chain = vs.Chain(unary, np.broadcast_to(table, (edges, k, k)), lengths)
    r = vs.infer(chain)
    gold = corpus.gold
    score = unary[np.arange(gold.size), gold].sum()
    expected = r.pairwise().sum(axis=0)
    for s in range(corpus.n_sequences):
        at = np.arange(corpus.offset[s], corpus.offset[s + 1])
        score += table[gold[at[:-1]], gold[at[1:]]].sum()
        np.add.at(expected, (gold[at[:-1]], gold[at[1:]]), -1.0)
    assert loss == pytest.approx(r.log_z.sum() - score, rel=1e-11, abs=1e-8)
    moves = gradients[0][len(features.label) :]
    np.testing.assert_allclose(
        moves, expected[features.source, features.target], rtol=1e-9, atol=1e-9
    )
    residual = r.marginals - (np.arange(k) == gold[:, None])
    for f in range(0, len(features.label), 17):
        value = sum(
            corpus.values[m] * residual[i, features.label[f]]
            for i in range(corpus.n_items)
            for m in range(corpus.item[i], corpus.item[i + 1])
            if corpus.ids[m] == features.attribute[f]
        )
        assert gradients[0][f] == pytest.approx(value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("k", [2, 5, 9, 33])
def test_gradient_agrees_with_finite_differences(k: int, rng: np.random.Generator) -> None:
    corpus, features = problem(random_dataset(rng, 30, 12, k, 20, False))
    objective = Objective(corpus, features, 2)
    w = rng.normal(size=features.n_weights)
    gradient = np.empty_like(w)
    objective(w, gradient)
    for f in rng.choice(features.n_weights, size=12, replace=False):
        step = np.zeros_like(w)
        step[f] = 1e-5
        slope = (objective(w + step) - objective(w - step)) / 2e-5
        assert slope == pytest.approx(gradient[f], rel=1e-5, abs=1e-5)


def test_loss_at_zero_counts_the_label_sequences(rng: np.random.Generator) -> None:
    corpus, features = problem(random_dataset(rng, 50, 9, 4, 10, True))
    loss = Objective(corpus, features, 1)(np.zeros(features.n_weights))
    assert loss == pytest.approx(corpus.n_items * np.log(4), rel=1e-14)


@pytest.mark.parametrize(("k", "every"), [(3, False), (3, True), (40, False)])
def test_threads_never_show(k: int, every: bool, rng: np.random.Generator) -> None:
    # Several chunks and ranges: a chunk has 128 items at least.
    data = random_dataset(rng, 900, 15, k, 400, True)
    corpus, features = problem(data, possible_states=every)
    w = rng.normal(size=features.n_weights)
    answers = []
    for threads in (1, 2, 3, 8, 2):
        gradient = np.empty_like(w)
        objective = Objective(corpus, features, threads)
        answers.append((objective(w, gradient), gradient, objective.decode(w)))
    for loss, gradient, states in answers[1:]:
        assert loss == answers[0][0]
        np.testing.assert_array_equal(gradient, answers[0][1])
        np.testing.assert_array_equal(states, answers[0][2])


@pytest.mark.parametrize("scale", [1e4, 1e7])
def test_large_scores_are_finite(scale: float, rng: np.random.Generator) -> None:
    corpus, features = problem(random_dataset(rng, 40, 10, 3, 10, True))
    w = rng.choice([-scale, scale], size=features.n_weights)
    gradient = np.empty_like(w)
    loss = Objective(corpus, features, 2)(w, gradient)
    assert np.isfinite(loss)
    assert loss >= 0.0
    assert np.isfinite(gradient).all()


def test_scores_beyond_float64_are_an_infinite_loss(rng: np.random.Generator) -> None:
    corpus, features = problem(random_dataset(rng, 4, 5, 3, 10, True))
    w = np.full(features.n_weights, 1e300)
    assert Objective(corpus, features, 1)(w, np.empty_like(w)) == np.inf


def test_the_held_out_sequence_with_scores_beyond_float64_is_named() -> None:
    data = Dataset()
    for xseq, yseq in (([["a"]], ["X"]), ([], []), ([["a"], ["b"]], ["X", "Y"])):
        data.append(xseq, yseq, 0)
    corpus, features = problem(data)
    w = np.zeros(features.n_weights)
    w[features.first[1]] = 1e300  # the only weight of b
    with pytest.raises(ValueError, match=r"^held-out sequence 2: scores too large for float64"):
        Objective(corpus, features, 1).decode(w)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("c2", [0.0, 1.0])
def test_weights_whose_square_is_beyond_float64_are_an_error_alone(passes: int, c2: float) -> None:
    """No warning before it, and no model of zeros."""
    trainer = Trainer("l2sgd", {"max_iterations": passes, "c2": c2}, verbose=False)
    trainer.append([{"a": 1e200}], ["A"])
    trainer.append([{"b": 1e308}], ["B"])
    with pytest.raises(ValueError, match=r"^pass 1: scores too large for float64; scale the attr"):
        trainer.train_inmemory()


def test_a_corpus_without_sequences_or_features_costs_nothing() -> None:
    data = Dataset()
    corpus, features = problem(data)
    assert Objective(corpus, features, 2)(np.zeros(0), np.zeros(0)) == 0.0
    data.append([], [], 0)
    data.append([[]], ["only"], 0)
    corpus, features = problem(data)
    assert features.n_weights == 0
    assert Objective(corpus, features, 2)(np.zeros(0), np.zeros(0)) == 0.0


def test_blocks_of_a_long_corpus_agree_with_one_sequence_at_a_time(
    rng: np.random.Generator,
) -> None:
    # 700 labels: blocks hold 1,497 items, so that this corpus has several.
    k, n = 700, 900
    data = Dataset()
    for label in range(k):
        data.labels[f"L{label}"]
    for _ in range(3):
        y = rng.integers(k, size=n)
        xseq = [[f"a{label % 50}", f"b{rng.integers(30)}"] for label in y]
        data.append(xseq, [f"L{label}" for label in y], 0)
    corpus, features = problem(data)
    w = rng.normal(size=features.n_weights)
    gradient, total = np.empty_like(w), np.zeros_like(w)
    loss = Objective(corpus, features, 2)(w, gradient)
    parts = 0.0
    for s in range(3):
        one = data.corpus(np.arange(3) == s)
        part = np.empty_like(w)
        parts += Objective(one, features, 1)(w, part)
        total += part
    assert loss == pytest.approx(parts, rel=1e-12)
    np.testing.assert_allclose(gradient, total, rtol=1e-9, atol=1e-9)


def test_arrays_that_the_engine_would_run_past_are_refused() -> None:
    data = random_dataset(np.random.default_rng(4), 6, 5, 3, 7, True)
    corpus, features = problem(data)
    objective = Objective(corpus, features, 1)
    n = objective.n_weights
    good, frozen = np.zeros(n), np.zeros(n)
    frozen.flags.writeable = False
    order, touched = np.arange(corpus.n_sequences), np.zeros(n, bool)
    assert objective(good, np.empty(n)) == objective(frozen)
    for bad in (
        np.zeros(n - 1), np.zeros(n + 1), np.zeros(n, np.float32), np.zeros(2 * n)[::2],
        np.zeros((1, n)), [0.0] * n, None,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must be a contiguous"):
            objective(bad)
        if bad is not None:
            with pytest.raises(ValueError, match="gradient must be a contiguous writable"):
                objective(good, bad)
        for call in (
            objective.decode,
            objective.transitions,
            lambda w: objective.scores(0, w),
            lambda w: objective.learn(0, {}, order, w, good, touched, 0),
            lambda w: objective.learn(0, {}, order, good, w, touched, 0),
            lambda w: objective.learn(0, {}, order, good, good, w, 0),
            lambda w: objective.learn(2, {"variance": w}, order, good, good, touched, 0),
            lambda w: objective.descend(order, w),
        ):
            with pytest.raises(ValueError, match="must be a contiguous"):
                call(bad)
    with pytest.raises(ValueError, match="must be a contiguous writable"):
        objective.descend(order, frozen)
    for wrong in ([-1], [corpus.n_sequences], [[0]]):
        with pytest.raises(ValueError, match="order must be numbers of sequences, from 0 to 5"):
            objective.descend(wrong, good)
    for sequence in (-1, corpus.n_sequences):
        with pytest.raises(IndexError, match="there is no sequence"):
            objective.scores(sequence, good)
    with pytest.raises(ValueError, match="residual must be a contiguous"):
        objective.pull(0, np.zeros(1000))
