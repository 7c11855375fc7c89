"""Entities of label sequences, counted as seqeval counts them; and the tally of labels."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

import pytest

from valuesparse.crf.metrics import (
    SCHEMES,
    Entity,
    Tally,
    entities,
    entity_f1_score,
    entity_scores,
)

LETTERS = {
    "IOB1": "BI", "IOB2": "BI", "BIO": "BI", "BIOES": "BIES", "IOBES": "BIES", "BILOU": "BILU"
}  # fmt: skip


def sequences(scheme: str, seed: int, count: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield random labels, well formed or not, and others that agree with many of them."""
    rng = random.Random(f"{scheme}, {seed}")
    labels = ["O", *(f"{p}-{t}" for p in LETTERS[scheme] for t in ("X", "Y-Z")), "B", "I"]
    for _ in range(count):
        true = [rng.choice(labels) for _ in range(rng.randrange(1, 12))]
        yield true, [tag if rng.random() < 0.7 else rng.choice(labels) for tag in true]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_are_those_of_seqeval(scheme: str) -> None:
    """1,000 sequences of each scheme: each alone, all together, by type, and read leniently."""
    metrics = pytest.importorskip("seqeval.metrics", reason="compares with seqeval")
    from seqeval import scheme as schemes
    from seqeval.metrics.sequence_labeling import get_entities

    theirs = getattr(schemes, {"BIO": "IOB2", "BIOES": "IOBES"}.get(scheme, scheme))
    pairs = list(sequences(scheme, 0, 1000))
    found = 0
    for true, _ in pairs:
        strict = schemes.Tokens(true, theirs).entities
        assert entities(true, scheme) == [Entity(e.tag, e.start, e.end) for e in strict]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loose = get_entities(true)
        assert entities(true) == [Entity(kind, begin, end + 1) for kind, begin, end in loose]
        found += len(strict)
    assert found > 500
    y_true, y_pred = map(list, zip(*pairs, strict=True))
    options = {"mode": "strict", "scheme": theirs}
    assert entity_f1_score(y_true, y_pred, scheme) == metrics.f1_score(y_true, y_pred, **options)
    report = metrics.classification_report(y_true, y_pred, output_dict=True, **options)
    for name, score in entity_scores(y_true, y_pred, scheme).items():
        assert score.f1 == pytest.approx(report[name]["f1-score"], abs=1e-15)
        assert (score.precision, score.recall, score.support) == (
            report[name]["precision"], report[name]["recall"], report[name]["support"]
        )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert entity_f1_score(y_true, y_pred) == metrics.f1_score(y_true, y_pred)


def test_f1_of_each_pair_is_that_of_seqeval() -> None:
    metrics = pytest.importorskip("seqeval.metrics", reason="compares with seqeval")
    for scheme in ("IOB1", "BIO", "BIOES"):
        for true, predicted in sequences(scheme, 1, 100):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = metrics.f1_score([true], [predicted])
            assert entity_f1_score([true], [predicted]) == pytest.approx(expected, abs=1e-15)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="scheme must be None or one of IOB1, IOB2"):
        entities(["O"], "BIOX")
    with pytest.raises(ValueError, match="item 1: 'E-X' is no label of BIO, whose labels begin"):
        entities(["O", "E-X"], "BIO")
    with pytest.raises(ValueError, match=r"y_pred\[0\]: item 0: '' is no label"):
        entity_f1_score([["O"]], [[""]])
    with pytest.raises(ValueError, match=r"y_true\[0\] has 1 labels, y_pred\[0\] has 2"):
        entity_f1_score([["O"]], [["O", "O"]])
    assert entity_f1_score([["O"]], [["O"]]) == 0
    assert entity_scores([], []) == {}


def test_a_tally_knows_whether_labels_are_those_of_entities() -> None:
    tally = Tally()
    assert (tally.accuracy, tally.all_entities()) == (0, None)
    tally.add(["O", "B-X"], ["O", "B-X"])
    total = tally.all_entities()
    assert total is not None
    assert total.f1 == 1
    tally.add(["NOUN"], ["B-X"])
    assert (tally.entities(), tally.all_entities()) == (None, None)
    assert (tally.sequences, tally.items, tally.right, tally.whole) == (2, 3, 2, 1)
    assert tally.labels()["B-X"][:3] == (0.5, 1, 2 / 3)
    strict = Tally("BIO")
    with pytest.raises(ValueError, match="item 0: 'NOUN' is no label of BIO"):
        strict.add(["NOUN"], ["O"])
    with pytest.raises(ValueError, match="1 right labels, 2 predicted ones"):
        strict.add(["O"], ["O", "O"])
    assert (strict.items, strict.entities()) == (0, {})
