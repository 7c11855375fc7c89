"""The text of a model, written and read back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import noting

from valuesparse.crf._dump import CRFsuiteDumpParser, dump_lines, header_of_model, parse
from valuesparse.io.crfsuite import CrfsuiteModel


def model(labels: list[str], attributes: list[str], seed: int = 0) -> CrfsuiteModel:
    rng = np.random.default_rng(seed)
    return CrfsuiteModel(
        labels=labels,
        attributes=attributes,
        transition=rng.normal(size=(len(labels), len(labels))) * rng.integers(0, 2),
        state_weights=rng.normal(size=(len(attributes), len(labels))) * 1e3,
    )


def read(parser: Any, lines: list[str]) -> Any:
    for line in lines:
        parser.feed(line)
    return parser.result


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_dump_is_read_back(end: str) -> None:
    for seed in range(4):
        shown = model(["noun", "verb ", "好"], ["a", "b:c", "w=1.5", "x: y "], seed)
        header = header_of_model(shown)
        lines = [line.rstrip("\n") + end for line in dump_lines(shown, header)]
        assert read(CRFsuiteDumpParser(), lines) == parse(shown, header)


def test_the_original_reads_the_same() -> None:
    theirs = pytest.importorskip("pycrfsuite._dumpparser", reason="needs python-crfsuite")
    shown = model(["noun", "verb"], ["a", "b:c", "  indented", "tail "])
    lines = list(dump_lines(shown, header_of_model(shown)))
    expected = read(theirs.CRFsuiteDumpParser(), lines)
    assert vars(read(CRFsuiteDumpParser(), lines)) == vars(expected)


def test_subclasses_are_called_as_those_of_the_original() -> None:
    theirs = pytest.importorskip("pycrfsuite._dumpparser", reason="needs python-crfsuite")
    shown = model(["noun", "verb"], ["a", "b:c"], seed=5)
    assert shown.transition.all()
    lines = list(dump_lines(shown, header_of_model(shown)))
    told: list[Any] = []
    for kind in (theirs.CRFsuiteDumpParser, CRFsuiteDumpParser):
        calls: list[Any] = []
        watched = noting(kind, "parse_", calls)
        read(watched(), lines)
        told.append(calls)
    assert told[0] == told[1]
    assert {name for name, *_ in told[0]} == {name for name in dir(watched) if "parse_" in name}


def test_names_may_hold_arrows() -> None:
    shown = model(["x", "a --> x", "x --> x"], ["a", "a --> a --> x", "b --> "])
    header = header_of_model(shown)
    expected = parse(shown, header)
    # "a --> a --> x" may be told in two ways; the longest attribute that is known is taken.
    assert len(expected.state_features) == 9
    found = read(CRFsuiteDumpParser(), list(dump_lines(shown, header)))
    assert found.transitions.keys() <= expected.transitions.keys()
    assert ("b --> ", "x --> x") in found.state_features
    assert found.state_features[("a --> a --> x", "x")] == pytest.approx(
        expected.state_features[("a --> a --> x", "x")]
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["noun"], "'noun' cannot stand outside of all parts of a CRFsuite dump"),
        (["LABELS = {", "noun"], "'noun' cannot stand in LABELS"),
        (["TRANSITIONS = {", "(1) a --> b: 1.0"], "cannot stand in TRANSITIONS"),
        (["LABELS = {", "0: a", "}", "TRANSITIONS = {", "(1) a --> a"], "cannot stand in TRANS"),
    ],
)
def test_other_lines_are_refused(lines: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(CRFsuiteDumpParser(), lines)


class Counting(dict):
    """A dictionary that counts how often it is asked: each time costs the length of the name."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


def test_of_many_arrows_few_are_tried() -> None:
    arrows = " --> a" * 200_000
    parser = CRFsuiteDumpParser()
    for line in ("LABELS = {", "  0: a", "}", "ATTRIBUTES = {", f"  0: a{arrows}", "}"):
        parser.feed(line)
    parser.result.labels = labels = Counting(parser.result.labels)
    parser.result.attributes = attributes = Counting(parser.result.attributes)
    parser.feed("STATE_FEATURES = {")
    parser.feed(f"  (0) a{arrows} --> a: 0.500000")
    assert parser.result.state_features == {(f"a{arrows}", "a"): 0.5}
    for end in (" --> b: 0.500000", ": x"):
        with pytest.raises(ValueError, match="cannot stand in STATE_FEATURES"):
            parser.feed(f"  (0) a{arrows}{end}")
    assert labels.asked + attributes.asked <= 6, "each of 200,000 arrows was tried"
