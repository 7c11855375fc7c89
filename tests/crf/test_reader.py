"""The one reader of labelled sentences: what is read, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuesparse.crf.corpora._reader import (
    Extraction,
    Reader,
    Sentence,
    extraction_of,
    kind_of,
    line_format,
)
from valuesparse.io import ModelFormatError, TextFormatError

WORDS = Extraction("words", None, None, None)


def read(data: bytes, kind: str, how: Extraction = WORDS, labelled: bool = True) -> list[Sentence]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data")
        path.write_bytes(data)
        return list(Reader(path, kind, how, labelled))


def attributes(text: str) -> list[tuple[list[dict[str, float]], list[str]]]:
    return [(s.items, s.labels) for s in read(text.encode(), "attributes")]


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
    for kind in ("attributes", "conllu", "conll", "tsv"):
        with contextlib.suppress(ModelFormatError, ValueError):
            read(data, kind)


@pytest.mark.parametrize("value", ["b", "2:", "nan", "inf", "1e999", "0x1"])
def test_values_that_are_no_numbers(value: str) -> None:
    with pytest.raises(TextFormatError, match=r"data: line 3, attribute 'a': .* is not a finite"):
        attributes(f"N\tb\n\nN\ta:{value}\n")


def test_text_that_is_not_utf8() -> None:
    for kind in ("attributes", "conllu", "conll"):
        with pytest.raises(TextFormatError, match="data: line 2, text: not UTF-8"):
            read(b"\n\tb\xff\n", kind)


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
    for column, tags in ((None, [["ADP", "DET"], ["PRON"]]), ("xpos", [["E", "RD"], ["P"]])):
        how = WORDS._replace(tags=column)
        found = read(CONLLU.encode(), "conllu", how)
        assert list(Reader(path, None, how)) == found
        assert [[row[1] for row in s.rows] for s in found] == [["de", "il"], ["no thing"]]
        assert [s.labels for s in found] == tags


def test_sentences_without_labels(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pyarrow.table({"words": [["a", "b"], [], ["c"]]}), path)
    assert [(s.rows, s.labels) for s in Reader(path, None, WORDS, labelled=False)] == [
        ([["a"], ["b"]], None), ([["c"]], None)
    ]  # fmt: skip
    for how, labelled in ((WORDS, True), (WORDS._replace(tags="upos"), False)):
        with pytest.raises(ValueError, match=r"no column '(tags|upos)' (in \S+ )?among words"):
            list(Reader(path, None, how, labelled))


def test_how_a_model_was_trained_is_found_beside_it(tmp_path: Path) -> None:
    model = tmp_path / "m.crfsuite"
    assert extraction_of(model, None, None) == WORDS
    model.write_bytes(b"a model")
    kept = {"features": "cantonese", "word": "2", "tags": "xpos"}
    kept["model_sha256"] = hashlib.sha256(b"a model").hexdigest()
    (tmp_path / "m.crfsuite.json").write_text(json.dumps(kept))
    places = [f"{name!r} in {tmp_path / 'm.crfsuite.json'}" for name in ("word", "tags")]
    found = extraction_of(model, None, None)
    assert found == Extraction("cantonese", None, "2", "xpos", places=(places[0], places[1]))
    assert extraction_of(model, None, None, "4").places == (places[0], "tags")
    assert extraction_of(model, "words", "1", "4") == Extraction("words", None, "1", "4")
    with pytest.raises(ValueError, match="there are words, cantonese"):
        extraction_of(model, "other", None)


@pytest.mark.parametrize(
    ("line", "words"),
    [("1\ta\tb", "3 columns"), ("1\t\t_\t_\t_\t_\t_\t_\t_\t_", "no column 2, the word")],
)
def test_lines_that_are_not_conllu(line: str, words: str) -> None:
    with pytest.raises(TextFormatError, match=f"data: line 2, sentence: .*{words}"):
        read(f"# a\n{line}\n".encode(), "conllu")


def test_repeats_score_as_in_crfsuite(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    from valuesparse.io import read_crfsuite

    path = tmp_path / "model.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.append([["a", "b"], ["b"]], ["N", "V"])
    trainer.train(str(path))
    model = read_crfsuite(path)
    [sequence] = read(b"N\ta\tb\ta\nV\tb:0.5\n", "attributes")
    np.testing.assert_allclose(
        model.unary(sequence.items), model.unary([["a", "b", "a"], {"b": 0.5}]), rtol=1e-15
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"word\ttag\xff\n", r"line 1, text: not UTF-8"),
        (b"\n", "a.tsv(.gz)?: the first line of a TSV file must name its columns"),
        (b"id\n", "a.tsv(.gz)?: word: 'form' must be the number of a column"),
    ],
)
def test_a_bad_heading_has_its_file(
    head: bytes, message: str, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("a.tsv" + ".gz" * packed)
    path.write_bytes(gzip.compress(head) if packed else head)
    for read in (lambda: list(Reader(path, None, WORDS._replace(word="form"))),
                 lambda: line_format(path, "tsv", WORDS._replace(word="form"))):  # fmt: skip
        with pytest.raises(ValueError, match=message) as info:
            read()
        assert path.name in str(info.value)


def test_tsv_whose_first_line_names_no_column(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"EU\tB-ORG\nrejects\tO\n")
    with pytest.raises(ValueError, match=r"a\.tsv: the first line .* has 'EU, B-ORG': add a line"):
        list(Reader(path, None, WORDS))
    path.write_bytes(b"surface\tclass\nrejects\tO\n")
    [sentence] = Reader(path, None, WORDS._replace(word="surface"))
    assert sentence.labels == ["O"]


@pytest.mark.parametrize("space", list("\u00a0\u2009\u3000\u0085\u2028\x0b\x0c\x1c"))
def test_only_spaces_and_tabs_part_words(space: str, tmp_path: Path) -> None:
    word = f"10{space}000"
    text = f"  {word}  NUM \n{space} X\nend{space} {space}Y\n"
    wanted = [[word, "NUM"], [space, "X"], [f"end{space}", f"{space}Y"]]
    assert [s.rows for s in read(text.encode(), "conll")] == [wanted]
    [sentence] = read(f"{word}\t a \t {space}\n".encode(), "text", labelled=False)
    assert sentence.rows == [[word], ["a"], [space]]
    path = tmp_path / "data"
    path.write_text(f"{space}\tw={space}\nN\tw=a\tb\n")  # a label, not a blank line
    assert kind_of(path) == "attributes"


def test_a_word_that_is_empty_is_said_to_be() -> None:
    for kind, text in (("tsv", "word\ttag\n\tO\n"), ("conll", "\tO\n")):
        with pytest.raises(TextFormatError, match="sentence: no column 1, the word: it is empty"):
            read(text.encode(), kind)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "conll"),
        ("\n\nthe DET\ndog NOUN\n", "conll"),
        ("the\ndog\n", "conll"),
        ("DET\tw=the\nNOUN\tw=dog\n", "attributes"),
        ("DET\tthe\nNOUN\tdog\tend\n", "attributes"),
        ("DET\tage:2\n", "attributes"),
        ("the\tDET\n:\t:\n\nDET\tw=the\n", None),
        ("the\tDET\t_\ndogs\tNOUN\tNumber=Plur\n", None),
    ],
)
def test_the_first_sentence_tells_where_a_name_does_not(
    text: str, kind: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    for data in (text.encode(), gzip.compress(text.encode())):
        path.write_bytes(data)
        if kind is None:
            with pytest.raises(ValueError, match="data: neither the name nor the text tells"):
                kind_of(path)
        else:
            assert kind_of(path) == kind
    assert kind_of(tmp_path / "a.conllu") == "conllu"
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"data: line 1"):
        kind_of(path)


def conllu(*rows: str) -> str:
    """Return lines of ten columns, the rest of which hold features, as attributes would."""
    return "".join(f"{row}\tlemma\tX\t_\tCase=Nom\t0\troot\t_\tSpaceAfter=No\n" for row in rows)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("# sent_id = 1\n# text = a b\n" + conllu("1\ta", "2\tb"), "conllu"),
        ("# newdoc\n" + conllu("1\ta") + "# text\twith a tab\n", "conllu"),
        (conllu("1\ta", "2\tb"), "conllu"),
        (conllu("1-2\tab", "1\ta", "1.1\tc", "2\tb"), "conllu"),
        ("# sent_id = 1\n" + conllu("1\ta", "3\tb").replace("=", ""), None),
        ("# sent_id = 1\n" + conllu("1\ta", "2\tb").replace("\tlemma", "").replace("=", ""), None),
        ("# sent_id = 1\n" + conllu("1\ta", "3\tb"), None),
        ("# a comment\nthe\tDET\ndog\tNOUN\n", None),
        ("#\tw=#\tshort\nNN\tw=dog\n", "attributes"),
        ("#\tw=#\n#\tw=#\n", "attributes"),
        ("1" + 9 * "\tw=a" + "\n2" + 9 * "\tw=b" + "\n", "attributes"),
        ("0" + 9 * "\t1" + "\n", None),
    ],
)
def test_comments_do_not_tell_the_format(tmp_path: Path, text: str, kind: str | None) -> None:
    path = tmp_path / "train.txt"
    path.write_text(text + "\n")
    if kind is None:
        with pytest.raises(ValueError, match="conllu if its first column is a number"):
            kind_of(path)
    else:
        assert kind_of(path) == kind
