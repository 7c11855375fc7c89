"""Attribute files and CoNLL-U: what is read, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuesparse.io import ModelFormatError, TextFormatError
from valuesparse.io._corpora import read_attribute_file, read_conllu


def attributes(text: str) -> list[tuple[list[dict[str, float]], list[str]]]:
    return [tuple(sequence) for sequence in read_attribute_file(text.encode())]


def test_sequences_and_values() -> None:
    text = "N\ta\tb:2\tc:-1.5e1\n\nV\ta\tb:\n\n\n\nN\n"
    assert attributes(text) == [
        ([{"a": 1.0, "b": 2.0, "c": -15.0}], ["N"]),
        ([{"a": 1.0, "b": 1.0}], ["V"]),
        ([{}], ["N"]),
    ]
    assert attributes("") == attributes("\n\n") == []


def test_escapes_repeats_and_line_ends() -> None:
    text = "A\\:B\tw=\\:\tp\\\\:2\ta\ta:2\t\tw=\\n\r\n\r\n#\t#\r\n"
    assert attributes(text) == [
        ([{"w=:": 1.0, "p\\": 2.0, "a": 3.0, "w=n": 1.0}], ["A:B"]),
        ([{"#": 1.0}], ["#"]),
    ]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1, max_size=5)


@given(
    st.lists(
        st.lists(
            st.tuples(
                NAMES, st.dictionaries(NAMES, st.floats(allow_nan=False, allow_infinity=False))
            ),
            min_size=1,
            max_size=4,
        ),
        max_size=4,
    )
)
def test_what_is_written_is_read(sequences: list[list[tuple[str, dict[str, float]]]]) -> None:
    def escaped(name: str) -> str:
        return name.replace("\\", "\\\\").replace(":", "\\:")

    lines = []
    for sequence in sequences:
        for label, item in sequence:
            fields = [f"{escaped(name)}:{value!r}" for name, value in item.items()]
            lines.append("\t".join([escaped(label), *fields]))
        lines.append("")
    expected = [([item for _, item in s], [label for label, _ in s]) for s in sequences]
    assert attributes("\n".join(lines)) == expected


@given(st.binary(max_size=60) | st.text("\\:\t\n aN1", max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_attribute_file, read_conllu):
        with contextlib.suppress(ModelFormatError):
            list(read(data))


@pytest.mark.parametrize("value", ["b", "2:", "nan", "inf", "1e999", "0x1"])
def test_values_that_are_no_numbers(value: str) -> None:
    with pytest.raises(TextFormatError, match=r"line 3, attribute 'a': .* is not a finite number"):
        attributes(f"N\tb\n\nN\ta:{value}\n")


def test_text_that_is_not_utf8() -> None:
    for read in (read_attribute_file, read_conllu):
        with pytest.raises(TextFormatError, match="line 2, text: not UTF-8"):
            list(read(b"\n\tb\xff\n"))


CONLLU = """# sent_id = 1
1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\tE\t_\t2\tcase\t_\t_
2\til\til\tDET\tRD\t_\t0\troot\t_\t_
2.1\tnulla\t_\t_\t_\t_\t_\t_\t_\t_

# sent_id = 2
1\tno thing\tx\tPRON\tP\t_\t0\troot\t_\t_
"""


def test_conllu(tmp_path: Path) -> None:
    path = tmp_path / "it.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    for source in (CONLLU.encode(), path):
        first, second = read_conllu(source)
        assert first == (["de", "il"], ["ADP", "DET"], ["E", "RD"])
        assert second == (["no thing"], ["PRON"], ["P"])


@pytest.mark.parametrize(
    ("line", "words"),
    [("1\ta\tb", "3 columns"), ("1\t\t_\t_\t_\t_\t_\t_\t_\t_", "the word, is empty")],
)
def test_lines_that_are_not_conllu(line: str, words: str) -> None:
    with pytest.raises(TextFormatError, match=f"line 2, sentence: .*{words}"):
        list(read_conllu(f"# a\n{line}\n".encode()))


def test_repeats_score_as_in_crfsuite(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="has no wheel for this Python")
    from valuesparse.io import read_crfsuite

    path = tmp_path / "model.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.append([["a", "b"], ["b"]], ["N", "V"])
    trainer.train(str(path))
    model = read_crfsuite(path)
    [sequence] = read_attribute_file(b"N\ta\tb\ta\nV\tb:0.5\n")
    np.testing.assert_allclose(
        model.unary(sequence.items), model.unary([["a", "b", "a"], {"b": 0.5}]), rtol=1e-15
    )
