"""Learning from labels that are known in part: sets of labels, one of which each item has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.crf import Constraints, Trainer, constraints
from valuesparse.crf.crfsuite import Tagger
from valuesparse.crf.training._data import Dataset
from valuesparse.crf.training._features import FeatureSet, generate
from valuesparse.crf.training._objective import Objective

LABELS = ["O", "B-P", "I-P", "B-L", "I-L"]


def weights_of_pairs(features: FeatureSet, w: np.ndarray) -> np.ndarray:
    """Return the weights of transitions as a table (K, K), 0 where there is none."""
    k = len(features.start) - 1
    table = np.zeros((k, k))
    table[features.source, features.target] = w[len(features.label) :]
    return table


@pytest.mark.simd
@pytest.mark.parametrize("scheme", [None, "BIO"])
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_are_those_of_enumeration(seed: int, scheme: str | None) -> None:
    rng = np.random.default_rng(seed)
    found = None if scheme is None else constraints(LABELS, scheme)
    data = Dataset()
    for name in LABELS:
        data.labels[name]
    cases = []
    for s in range(7):
        every = [
            y for y in itertools.product(range(5), repeat=int(rng.integers(1, 4)))
            if found is None or (
                found.allowed_start[y[0]] and found.allowed_end[y[-1]]
                and all(found.allowed_transitions[a, b] for a, b in itertools.pairwise(y))
            )
        ]  # fmt: skip
        gold = every[rng.integers(len(every))]
        x = [{f"a{a}": float(rng.normal()) for a in rng.integers(4, size=3)} for _ in gold]
        if s % 3 == 0:
            data.append(x, [LABELS[k] for k in gold], 0)
            cases.append((every, [{k} for k in gold]))
            continue
        sets = [
            None if rng.random() < 0.4 else {k, *rng.integers(5, size=rng.integers(3)).tolist()}
            for k in gold
        ]
        known = [None if one is None else [LABELS[k] for k in one] for one in sets]
        data.append(x, None, 0, known)
        cases.append((every, [set(range(5)) if one is None else one for one in sets]))
    corpus = data.corpus()
    features = generate(
        corpus, len(data.attributes), 5, possible_states=seed % 2 == 0,
        allowed=None if found is None else found.allowed_transitions,
    )  # fmt: skip
    w = rng.normal(size=features.n_weights)
    objective = Objective(corpus, features, 1 + seed % 3, found)

    def enumerated(w: np.ndarray) -> float:
        table, total = weights_of_pairs(features, w), 0.0
        for s, (every, sets) in enumerate(cases):
            unary = objective.scores(s, w)
            scores = [
                sum(unary[i, k] for i, k in enumerate(y))
                + sum(table[a, b] for a, b in itertools.pairwise(y))
                for y in every
            ]
            held = [
                score for y, score in zip(every, scores, strict=True)
                if all(k in one for k, one in zip(y, sets, strict=True))
            ]  # fmt: skip
            total += np.logaddexp.reduce(scores) - np.logaddexp.reduce(held)
        return total

    gradient = np.full_like(w, np.nan)
    loss = objective(w, gradient)
    assert loss == pytest.approx(enumerated(w), rel=1e-10)
    assert objective(w) == pytest.approx(loss, rel=1e-12)
    steps = np.eye(len(w)) * 1e-5
    numeric = [(enumerated(w + h) - enumerated(w - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)
    # A step of gradient descent on each sequence alone.
    taken, losses = np.zeros_like(w), 0.0
    for s in range(len(cases)):
        vector = w.copy()
        part, factor, _ = objective.descend(np.array([s]), vector, eta=1.0)
        taken += w - factor * vector
        losses += part
    np.testing.assert_allclose(taken, gradient, atol=1e-10)
    assert losses == pytest.approx(loss, rel=1e-10)


@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (2.0, 1.0), (np.inf, 1.0), (np.inf, 0.0)])
def test_losses_of_one_online_step(beta: float, gamma: float) -> None:
    """The loss of the family of MSFXM10 where the cost counts labels outside of the sets."""
    rng = np.random.default_rng(3)
    data = Dataset()
    data.append([["a", "b"], ["b"], ["a"]], ["X", "Y", "Z"], 0)
    data.append([["a"], ["b"], ["b", "c"], ["a"]], None, 0, ["X", None, ["Y", "Z"], None])
    corpus = data.corpus()
    features = generate(corpus, 3, 3, possible_states=True)
    objective = Objective(corpus, features, 1)
    w = rng.normal(size=features.n_weights)
    unary, table = objective.scores(1, w), objective.transitions(w)
    sets = [{0}, {0, 1, 2}, {1, 2}, {0, 1, 2}]
    scores, cost = [], []
    for y in itertools.product(range(3), repeat=4):
        scores.append(unary[range(4), y].sum() + sum(table[a, b] for a, b in itertools.pairwise(y)))
        cost.append(sum(k not in one for k, one in zip(y, sets, strict=True)))
    every, costs = np.array(scores), np.array(cost)
    if np.isinf(beta):
        wanted = (every + gamma * costs).max() - every[costs == 0].max()
    else:
        wanted = np.logaddexp.reduce(beta * (every + gamma * costs))
        wanted = (wanted - np.logaddexp.reduce(beta * every[costs == 0])) / beta
    late, touched = np.zeros_like(w), np.zeros(len(w), bool)
    values = {"beta": beta, "gamma": gamma, "longest": 0.0}
    loss, _ = objective.learn(3, values, np.array([1]), w.copy(), late, touched, 0)
    assert loss == pytest.approx(wanted, rel=1e-10, abs=1e-12)


def walk(rng: np.random.Generator, count: int) -> list[tuple[list, list[str]]]:
    """Return sentences of a hidden Markov chain that likes to stay."""
    data = []
    for _ in range(count):
        y = [int(rng.integers(4))]
        while len(y) < 8:
            y.append(y[-1] if rng.random() < 0.8 else int(rng.integers(4)))
        x = [[f"w={k * 10 + rng.integers(10) if rng.random() < 0.8 else rng.integers(40)}", "bias"]
             for k in y]  # fmt: skip
        data.append((x, [f"L{k}" for k in y]))
    return data


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow", "aggressive"])
def test_half_of_the_labels_teach_nearly_as_much(algorithm: str, rng: np.random.Generator) -> None:
    data, test = walk(rng, 150), walk(rng, 100)
    accuracy, models = [], []
    for hidden, threads in ((False, 1), (True, 1), (True, 2)):
        params = {"max_iterations": 15}
        trainer = Trainer(algorithm, params, verbose=False, threads=threads)
        hide = np.random.default_rng(1)
        for x, y in data:
            known = [None if hide.random() < 0.5 else k for k in y]
            if hidden:
                trainer.append(x, allowed=known)
            else:
                trainer.append(x, y)
        models.append(trainer.train_inmemory())
        tagger = Tagger()
        tagger.open_inmemory(models[-1])
        tags = tagger.tag_batch([x for x, _ in test])
        accuracy.append(np.mean([a == b for y, (_, z) in zip(tags, test, strict=True)
                                 for a, b in zip(y, z, strict=True)]))  # fmt: skip
    assert models[1] == models[2]
    assert accuracy[0] > 0.85
    assert accuracy[1] > accuracy[0] - 0.06, accuracy


def test_sets_of_one_label_are_that_label() -> None:
    models = []
    for form in (0, 1, 2):
        trainer = Trainer(verbose=False)
        y = ["A", "B", "B"]
        known = {"yseq": y} if form == 0 else {"allowed": y if form == 1 else [[k] for k in y]}
        trainer.append([["a"], ["b"], ["c"]], **known)  # type: ignore[arg-type]
        models.append(trainer.train_inmemory())
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, ValueError, "give yseq"),
        ({"yseq": ["A"], "allowed": ["A"]}, ValueError, "give yseq"),
        ({"allowed": "A"}, TypeError, "an entry for each item"),
        ({"allowed": [[]]}, ValueError, r"allowed\[0\] is empty"),
        ({"allowed": [[3]]}, TypeError, r"allowed\[0\]: a label must be str"),
        ({"allowed": [3]}, TypeError, r"allowed\[0\] must be None"),
        ({"allowed": np.ones((1, 2), bool)}, TypeError, r"allowed\[0\] must be None"),
        ({"allowed": [None, "A"]}, ValueError, "numbers of items and labels differ"),
    ],
)
def test_bad_sets(arguments: dict, error: type, words: str) -> None:
    trainer = Trainer(verbose=False)
    with pytest.raises(error, match=words):
        trainer.append([["a"]], **arguments)


def test_nothing_at_all_is_known() -> None:
    trainer = Trainer(verbose=False)
    trainer.append([["a"], ["b"]], allowed=[None, None])
    with pytest.raises(ValueError, match="no label is known"):
        trainer.train_inmemory()


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "pa"])
def test_empty_sequences_beside_sets(algorithm: str) -> None:
    trainer = Trainer(algorithm, {"max_iterations": 3}, verbose=False, constraints="BIO")
    trainer.append([], [])
    trainer.append([["a"], ["b"]], allowed=[None, "B-X"])
    trainer.append([], allowed=[])
    tagger = Tagger(constraints="BIO")
    tagger.open_inmemory(trainer.train_inmemory())
    assert tagger.tag([["a"]]) == ["B-X"]


def test_sets_cannot_be_held_out() -> None:
    trainer = Trainer(verbose=False)
    trainer.append([["a"]], ["A"])
    trainer.append([["a"]], allowed=[None], group=1)
    with pytest.raises(ValueError, match="sequence 1 of the holdout group"):
        trainer.train_inmemory(holdout=1)


def test_the_estimator_learns_from_sets(rng: np.random.Generator) -> None:
    pytest.importorskip("sklearn", reason="the estimator needs scikit-learn")
    from valuesparse.crf import CRF

    X, y = zip(*walk(rng, 40), strict=True)
    known = [[None if i % 2 else k for i, k in enumerate(one)] for one in y]
    crf = CRF(max_iterations=10).fit(X, allowed=known)
    assert crf.score(X, y) > 0.6
    with pytest.raises(ValueError, match="not both"):
        crf.fit(X, y, allowed=known)
    with pytest.raises(ValueError, match=r"X\[1\], allowed\[1\]: .*differ"):
        crf.fit(X, allowed=[known[0], known[1][:2]])


@pytest.mark.parametrize("keep", [0.05, 0.97])
def test_many_labels_of_which_few_pairs_are_free(keep: float, rng: np.random.Generator) -> None:
    """Messages read pairs alone, whatever is the rule: that a pair is banned, or has no weight."""
    k, names = 130, [f"L{i}" for i in range(130)]
    may = (rng.random((k, k)) < keep) | np.eye(k, dtype=bool)
    found = Constraints(may, rng.random(k) < 0.9, rng.random(k) < 0.9)
    data, masks = Dataset(), []
    for name in names:
        data.labels[name]
    while len(data) < 30:
        y = [int(rng.choice(np.flatnonzero(found.allowed_start)))]
        while len(y) < 8:
            y.append(int(rng.choice(np.flatnonzero(may[y[-1]]))))
        if not found.allowed_end[y[-1]]:
            continue
        x = [[f"a{i % 40}", f"b{rng.integers(9)}"] for i in y]
        hide = rng.random(8) < (0.4 if len(data) % 3 else 0.0)
        data.append(x, None, 0, [{names[i], names[(i + 1) % k]} if h else names[i]
                                 for i, h in zip(y, hide, strict=True)])  # fmt: skip
        mask = np.zeros((8, k), bool)
        mask[range(8), y] = True
        mask[range(8), (np.array(y) + 1) % k] |= hide
        masks.append(mask)
    corpus = data.corpus()
    features = generate(corpus, len(data.attributes), k, allowed=may)
    w = rng.normal(size=features.n_weights)
    gradients = []
    for threads in (1, 2):
        gradient = np.full_like(w, np.nan)
        loss = Objective(corpus, features, threads, found)(w, gradient)
        gradients.append(gradient)
    assert np.array_equal(*gradients)
    objective = Objective(corpus, features, 1, found)
    unary = np.concatenate([objective.scores(s, w) for s in range(30)])
    table, start, end = found.log_potentials()
    table += weights_of_pairs(features, w)
    # Another table for each edge: nothing is listed.
    tables, sums = np.tile(table, (30 * 7, 1, 1)), []
    for allowed in (None, np.concatenate(masks)):
        chain = vs.Chain(unary, tables, [8] * 30, start=start, end=end, allowed=allowed)
        sums.append((vs.infer(chain), allowed))
    (free, _), (held, _) = sums
    assert loss == pytest.approx((free.log_z - held.log_z).sum(), rel=1e-10)
    moves = (free.pairwise() - held.pairwise()).sum(axis=0)[features.source, features.target]
    np.testing.assert_allclose(gradients[0][len(features.label) :], moves, atol=1e-9)
    states = objective.decode(w)
    chain = vs.Chain(unary, tables, [8] * 30, start=start, end=end)
    assert np.array_equal(states, vs.decode(chain).states)
