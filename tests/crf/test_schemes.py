"""Tagging schemes and forbidden pairs: data, answers, training."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.crf import Constraints, Trainer, constraints
from valuesparse.crf.crfsuite import Tagger
from valuesparse.crf.training._possible import ImpossibleSequenceError
from valuesparse.io.crfsuite import CrfsuiteModel

LABELS = ["O", "B-P", "I-P", "B-L", "I-L"]
FORBIDDEN = [("O", "B-L"), (None, "B-L"), ("B-P", None)]
ALGORITHMS = ["lbfgs", "l2sgd", "ap", "pa", "arow", "aggressive"]


def possible(found: Constraints, y: tuple[int, ...]) -> bool:
    """Return whether constraints allow a sequence."""
    pairs = all(found.allowed_transitions[a, b] for a, b in itertools.pairwise(y))
    return bool(pairs and found.allowed_start[y[0]] and found.allowed_end[y[-1]])


def spans_of(tags: list[str], scheme: str) -> list[str] | None:
    """Return the tags that the spans of `tags` have in the scheme, None where they have none."""
    begin, inside = ("BS", "IE") if scheme == "BIOES" else ("B", "I")
    spans: list[tuple[int, int, str]] = []
    at = 0
    while at < len(tags):
        prefix, _, kind = tags[at].partition("-")
        if prefix == "O":
            at += 1
            continue
        end = at + 1
        if scheme == "IOB1" or scheme == "BIO":
            while end < len(tags) and tags[end] == f"I-{kind}":
                end += 1
        else:
            while end < len(tags) and tags[end] in (f"I-{kind}", f"E-{kind}"):
                end += 1
                if tags[end - 1][0] == "E":
                    break
        spans.append((at, end, kind))
        at = end
    made = ["O"] * len(tags)
    for j, (first, last, kind) in enumerate(spans):
        touches = j > 0 and spans[j - 1][1:] == (first, kind)
        for i in range(first, last):
            if scheme == "BIO":
                prefix = begin if i == first else inside
            elif scheme == "IOB1":
                prefix = "B" if i == first and touches else "I"
            elif last - first == 1:
                prefix = "S"
            else:
                prefix = "B" if i == first else "E" if i == last - 1 else "I"
            made[i] = f"{prefix}-{kind}"
    return made


@pytest.mark.parametrize(("scheme", "prefixes"), [("BIO", "BI"), ("BIOES", "BIES"), ("IOB1", "BI")])
def test_a_scheme_allows_what_spans_are_written_as(scheme: str, prefixes: str) -> None:
    """A sequence is possible where reading its spans and writing them again changes nothing."""
    labels = ["O", *(f"{p}-{kind}" for kind in "XY" for p in prefixes)]
    found = constraints(labels, scheme)
    for y in itertools.product(range(len(labels)), repeat=3):
        tags = [labels[k] for k in y]
        assert possible(found, y) == (spans_of(tags, scheme) == tags), tags


def test_pairs_and_a_scheme_add_up() -> None:
    found = constraints(LABELS, "BIO", forbidden=FORBIDDEN)
    plain = constraints(LABELS, "BIO")
    assert (plain.allowed_transitions & ~found.allowed_transitions).nonzero() == ([0], [3])
    assert not found.allowed_start[3]
    assert found.allowed_end.tolist() == [True, False, True, True, True]
    table, start, end = found.log_potentials()
    chain = vs.Chain(np.zeros((3, 5)), table, start=start, end=end)
    count = sum(possible(found, y) for y in itertools.product(range(5), repeat=3))
    assert np.exp(vs.infer(chain).log_z) == pytest.approx(count)


@pytest.mark.parametrize(
    ("labels", "scheme", "forbidden", "error", "words"),
    [
        (["O", "NP"], "BIO", (), ValueError, "'NP' is none of BIO"),
        (["O", "E-P"], "BIO", (), ValueError, "'E-P'"),
        (["O"], "IOB3", (), ValueError, "BIO, BIOES, IOB1"),
        (["O", "O"], None, (), ValueError, "1 of 2 names"),
        (["O"], None, [("O", "X")], ValueError, r"forbidden\[0\]: 'X' is no label"),
        (["O"], None, [("O", "O"), (None, None)], TypeError, r"forbidden\[1\]"),
        (["O"], None, [("O", 3)], TypeError, r"forbidden\[0\]"),
        (["O"], None, "OO", TypeError, "pairs of labels, not str"),
        ("OB", "BIO", (), TypeError, "labels must be a sequence of labels, got 'OB'"),
        (["O", 1], "BIO", (), TypeError, r"labels\[1\] must be str, not int"),
        (["O"], ["BIO"], (), ValueError, r"constraints must be one of .* not \['BIO'\]"),
    ],
)
def test_bad_constraints(
    labels: list[str], scheme: str, forbidden: object, error: type, words: str
) -> None:
    with pytest.raises(error, match=words):
        constraints(labels, scheme, forbidden=forbidden)  # type: ignore[arg-type]


@pytest.mark.simd
def test_all_answers_of_a_tagger_are_those_of_enumeration(rng: np.random.Generator) -> None:
    model = CrfsuiteModel(LABELS, ["a", "b", "c"], rng.normal(size=(5, 5)), rng.normal(size=(3, 5)))
    told = Tagger.from_model(model, constraints="BIO", forbidden=FORBIDDEN)
    tagger = pickle.loads(pickle.dumps(told))
    found = constraints(LABELS, "BIO", forbidden=FORBIDDEN)
    xseq = [["a"], ["b"], ["c"], ["a", "c"]]
    u, t = model.unary(xseq), model.transition
    scores = {
        y: u[range(4), y].sum() + sum(t[a, b] for a, b in itertools.pairwise(y))
        for y in itertools.product(range(5), repeat=4)
        if possible(found, y)
    }
    log_z = np.logaddexp.reduce(list(scores.values()))
    best = [[LABELS[k] for k in y] for y in sorted(scores, key=lambda y: -scores[y])]
    marginals, pairs = np.zeros((4, 5)), np.zeros((3, 5, 5))
    for y, score in scores.items():
        marginals[range(4), y] += np.exp(score - log_z)
        pairs[range(3), y[:-1], y[1:]] += np.exp(score - log_z)
    assert tagger.tag(xseq) == best[0]
    assert tagger.tag_batch([xseq, xseq])[1] == best[0]
    assert tagger.tag(xseq, n_best=10_000) == best
    np.testing.assert_allclose(tagger.marginals(xseq), marginals, atol=1e-12)
    np.testing.assert_allclose(tagger.marginals_batch([xseq])[0], marginals, atol=1e-12)
    np.testing.assert_allclose(tagger.pairwise(), pairs, atol=1e-12)
    assert tagger.marginal("O", 1) == pytest.approx(marginals[1, 0])
    for y in (best[0], best[-1]):
        p = np.exp(scores[tuple(LABELS.index(k) for k in y)] - log_z)
        assert tagger.probability(y) == pytest.approx(p)
    assert tagger.probability(["O", "I-P", "O", "O"]) == 0.0
    assert tagger.tag(xseq, allowed=["O", None, None, "I-P"])[2] in ("B-P", "I-P")
    with pytest.raises(vs.InfeasibleError):
        tagger.tag([["a"]], allowed=["B-L"])
    with pytest.raises(ValueError, match="'NP' is none of BIO"):
        Tagger.from_model(CrfsuiteModel(["NP"], ["a"], [[0.0]], [[0.0]]), constraints="BIO")


def sentences(rng: np.random.Generator, count: int) -> list[tuple[list, list[str]]]:
    """Return sentences with the chunks that a random walk under BIO makes."""
    found = constraints(LABELS, "BIO")
    data = []
    for _ in range(count):
        y: list[int] = []
        for i in range(int(rng.integers(2, 7))):
            may = found.allowed_transitions[y[-1]] if i else found.allowed_start
            y.append(int(rng.choice(np.flatnonzero(may))))
        x = [[f"w={k if rng.random() < 0.6 else rng.integers(5)}", "bias"] for k in y]
        data.append((x, [LABELS[k] for k in y]))
    return data


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_training_under_constraints(algorithm: str, rng: np.random.Generator) -> None:
    """Same bits for any number of threads; files stay as they are read; other weights than free."""
    data = sentences(rng, 40)
    models = []
    for options in ({"threads": 1}, {"threads": 3}, None):
        told = {"threads": 1} if options is None else {**options, "constraints": "BIO"}
        trainer = Trainer(algorithm, {"max_iterations": 8}, verbose=False, **told)  # type: ignore[arg-type]
        for x, y in data:
            trainer.append(x, y)
        models.append(trainer.train_inmemory())
    assert models[0] == models[1]
    assert models[0] != models[2]
    tagger = Tagger(constraints="BIO")
    tagger.open_inmemory(models[0])
    found = constraints(tagger.labels(), "BIO")
    tags = tagger.tag_batch([x for x, _ in data])
    assert all(possible(found, tuple(map(tagger.labels().index, y))) for y in tags)
    right = sum(a == b for y, (_, z) in zip(tags, data, strict=True)
                for a, b in zip(y, z, strict=True))  # fmt: skip
    assert right > 0.5 * sum(len(y) for y in tags)
    free = Tagger()
    free.open_inmemory(models[0])  # a file as any other


@pytest.mark.parametrize(
    ("y", "options", "words"),
    [
        (["O", "I-P"], {"constraints": "BIO"}, "sequence 1, item 1: 'I-P' after 'O'.*'BIO'"),
        (["I-P", "O"], {"constraints": "BIO"}, "sequence 1, item 0: 'I-P' begins"),
        (["O", "B-P"], {"forbidden": [("B-P", None)]}, "item 1: 'B-P' ends .*forbidden"),
        (["O", "O"], {"forbidden": [("O", "X")]}, "'X' is no label"),
    ],
)
def test_labels_that_a_constraint_forbids_are_named(
    y: list[str], options: dict, words: str
) -> None:
    trainer = Trainer(verbose=False, **options)
    trainer.append([["a"], ["b"]], ["B-P", "I-P"] if "X" not in words else ["O", "O"])
    trainer.append([["a"], ["b"]], y)
    with pytest.raises(ValueError, match=words):
        trainer.train_inmemory()


def test_sets_that_leave_no_choice_are_named() -> None:
    trainer = Trainer(verbose=False, constraints="BIO")
    trainer.append([["a"], ["b"]], ["B-P", "I-P"])
    trainer.append([["a"], ["b"], ["c"]], allowed=["O", None, ["I-P", "I-L"]])
    trainer.append([["a"], ["b"], ["c"]], allowed=[None, "O", ["I-P", "I-L"]])
    with pytest.raises(ImpossibleSequenceError, match=r"sequence 2, item 2: .* leaves none") as it:
        trainer.train_inmemory()
    again = pickle.loads(pickle.dumps(it.value))
    assert (again.sequence, again.item, str(again)) == (2, 2, str(it.value))


def test_held_out_sequences_that_have_no_tags() -> None:
    trainer = Trainer(verbose=False, constraints="BIOES")
    trainer.append([["a"], ["b"]], ["B-P", "E-P"])
    trainer.append([["a"], ["b"], ["a"]], ["B-P", "E-P", "E-P"], group=1)
    with pytest.raises(ValueError, match="held-out sequence of 3 items"):
        trainer.train_inmemory(holdout=1)


def test_the_estimator_trains_and_answers_under_constraints(rng: np.random.Generator) -> None:
    pytest.importorskip("sklearn", reason="the estimator needs scikit-learn")
    from sklearn.base import clone

    from valuesparse.crf import CRF

    X, y = zip(*sentences(rng, 30), strict=True)
    crf = clone(CRF(constraints="BIO", forbidden=[("O", "B-L")], max_iterations=5))
    with pytest.raises(ValueError, match=r"sequence .*'B-L' after 'O'"):
        crf.fit(X, y)
    crf.set_params(forbidden=None).fit(X, y)
    found = constraints(crf.classes_, "BIO")
    index = {name: k for k, name in enumerate(crf.classes_)}
    tags = pickle.loads(pickle.dumps(crf)).predict(X)
    assert all(possible(found, tuple(index[k] for k in one)) for one in tags)
    crf.set_params(forbidden=[("O", "O")])
    assert not any(("O", "O") in itertools.pairwise(one) for one in crf.predict(X))
    assert crf.predict_proba(X[:1])[0].shape == (len(X[0]), len(index))
    crf.set_params(forbidden=[])
    pair = next(p for one in crf.predict(X) for p in itertools.pairwise(one))
    crf.forbidden.append(pair)
    assert not any(pair in itertools.pairwise(one) for one in crf.predict(X))
