"""Treebanks: what is read, what is refused by line, and that what is written is what was read."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.io import ModelFormatError, TextFormatError
from valuesparse.parsing import Sentence, read_conll, write_conll
from valuesparse.parsing._conll import text_of

DATA = Path(__file__).parents[3] / "shared" / "data" / "ud"

TEXT = """\
# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|X=1-2
1\tvamos\tir\tVERB\tV\tA=b|C=d\t0\troot\t0:root|2:x\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\tHeadProbability=0.5|Y=z
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\tA=b
4.1\te\t_\t_\t_\t_\t_\t_\t1:x\t_
4.2\te\t_\t_\t_\t_\t_\t_\t_\t_
5\tmar mar\u0301\tmar\tNOUN\t_\t_\t1\tobl\t_\t_

0.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_
1\t_\t_\tX\t_\t_\t_\t_\t_\t_

# nothing but this

"""


def row(number: object, form: str = "w", head: object = 0) -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\tx\t_\t_"


@pytest.mark.smoke
def test_what_is_read_is_in_columns() -> None:
    one, two, three = read_conll(TEXT.splitlines(keepends=True))
    assert one.forms == ["vamos", "nos", "a", "el", "mar mar\u0301"]
    assert one.lemmas == ["ir", "nosotros", "a", "el", "mar"]
    assert one.upos == ["VERB", "PRON", "ADP", "DET", "NOUN"]
    assert (one.xpos, one.feats) == (["V", *"____"], ["A=b|C=d", *"____"])
    assert one.heads.tolist() == [0, 1, 5, 5, 1]
    assert one.heads.dtype == np.int64
    assert one.labels == ["root", "obj", "case", "det", "obl"]
    assert one.deps == ["0:root|2:x", *"____"]
    assert one.misc == ["_", "HeadProbability=0.5|Y=z", "_", "A=b", "_"]
    assert one.comments == ["# sent_id = 1", "# text = vámonos al mar"]
    assert [before for before, _ in one.others] == [0, 0, 0, 2, 4, 4]
    assert one.confidence is None
    assert len(two) == 1
    assert two.heads.tolist() == [-1]
    assert (len(three), three.comments) == (0, ["# nothing but this"])
    kept = pickle.loads(pickle.dumps(one))
    assert (kept.forms, kept.others, kept.heads.tolist()) == (
        one.forms,
        one.others,
        [0, 1, 5, 5, 1],
    )


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_written_is_what_was_read(packed: bool, tmp_path: Path) -> None:
    end = ".gz" * packed
    source, target = tmp_path / f"a.conllu{end}", tmp_path / f"b.conllu{end}"
    source.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    write_conll(read_conll(source), target)
    found = target.read_bytes()
    assert (gzip.decompress(found) if packed else found) == TEXT.encode()
    # Over itself, too: the old file is read until the new one is whole.
    write_conll(read_conll(source), source)
    assert source.read_bytes() == found


def test_line_ends_marks_and_blank_lines_are_not_kept(tmp_path: Path) -> None:
    source, target = tmp_path / "a.conllu", tmp_path / "b.conllu"
    body = TEXT.rstrip("\n").replace("\n\n", "\n\n\n").replace("\n", "\r\n")
    source.write_bytes(b"\xef\xbb\xbf" + body.encode())
    write_conll(read_conll(source), target)
    assert target.read_bytes() == TEXT.encode()
    lines = ("\ufeff" + body).split("\n")
    write_conll(read_conll(lines), target)
    assert target.read_bytes() == TEXT.encode()


def test_empty_files_make_empty_files(tmp_path: Path) -> None:
    for content in (b"", b"\n\n", b"\xef\xbb\xbf\r\n"):
        (tmp_path / "a.conllu").write_bytes(content)
        write_conll(read_conll(tmp_path / "a.conllu"), tmp_path / "b.conllu")
        assert (tmp_path / "b.conllu").read_bytes() == b""


def test_a_parsed_sentence_has_no_columns_of_the_old_tree(tmp_path: Path) -> None:
    sentences = list(read_conll(TEXT.splitlines()))
    n = len(sentences[0])
    found = sentences[0].parsed([2, 0, 2, 2, 2], list("abcde"), np.linspace(0.97, 1, n))
    write_conll([found, *sentences[1:]], tmp_path / "a.conllu")
    text = (tmp_path / "a.conllu").read_text()
    assert text.split("\n\n", 1)[1] == TEXT.split("\n\n", 1)[1]
    before = TEXT.split("\n\n")[0].split("\n")
    after = text.split("\n\n")[0].split("\n")
    words = [i for i, line in enumerate(before) if line.split("\t")[0].isdecimal()]
    assert [line for i, line in enumerate(after) if i not in words] == [
        line for i, line in enumerate(before) if i not in words
    ]
    cells = [after[i].split("\t") for i in words]
    assert [c[:6] for c in cells] == [before[i].split("\t")[:6] for i in words]
    assert [c[6:9] for c in cells] == [[h, a, "_"] for h, a in zip("20222", "abcde", strict=True)]
    assert [c[9] for c in cells] == [
        "HeadProbability=0.970000", "Y=z|HeadProbability=0.977500", "HeadProbability=0.985000",
        "A=b|HeadProbability=0.992500", "HeadProbability=1.000000",
    ]  # fmt: skip
    # Without a confidence, that of an earlier parse is not kept.
    assert sentences[0].parsed([0] * n, ["x"] * n).misc == ["_", "Y=z", "_", "A=b", "_"]


def test_conllx(tmp_path: Path) -> None:
    text = "1\ta\ta\tN\tNN\t_\t2\tx\t3\ty\n2\tb\tb\tV\tVV\t_\t0\troot\t0\troot\n\n"
    path = tmp_path / "a.conll"
    path.write_text(text)
    [found] = read_conll(path)
    assert (found.format, found.deps, found.misc) == ("conllx", ["3", "0"], ["y", "root"])
    write_conll([found], tmp_path / "b.conllx")
    assert (tmp_path / "b.conllx").read_text() == text
    again = found.parsed([0, 1], ["p", "q"], [0.5, 0.5])
    write_conll([again], tmp_path / "b.conll.gz")
    assert gzip.decompress((tmp_path / "b.conll.gz").read_bytes()).decode() == (
        "1\ta\ta\tN\tNN\t_\t0\tp\t_\t_\n2\tb\tb\tV\tVV\t_\t1\tq\t_\t_\n\n"
    )
    # Columns that mean something else in the other format are left out.
    write_conll([found, again], tmp_path / "c.conllu")
    lines = (tmp_path / "c.conllu").read_text().split("\n")
    assert lines[0] == "1\ta\ta\tN\tNN\t_\t2\tx\t_\t_"
    assert lines[4] == "2\tb\tb\tV\tVV\t_\t1\tq\t_\tHeadProbability=0.500000"
    write_conll(read_conll(TEXT.splitlines()), tmp_path / "d.conllx")
    kept = (tmp_path / "d.conllx").read_text()
    assert "1-2" not in kept
    assert "4.1" not in kept
    assert kept.startswith("# sent_id = 1\n")
    assert len(list(read_conll(tmp_path / "d.conllx"))) == 3
    # The argument tells the format of lines, and of files whose names say nothing.
    with pytest.raises(
        TextFormatError, match="line 3, sentence: ID '1-2' is not the number of a w"
    ):
        list(read_conll(TEXT.splitlines(), format="conllx"))


BAD = {
    "The dog barks.": "line 2, sentence: no tab; CoNLL-U has a word a line, in 10 columns",
    "1\ta": "line 2, sentence: 2 columns apart by tabs, CoNLL-U has 10",
    row(1) + "\t_": "line 2, sentence: 11 columns apart",
    row(1).replace("\t", " "): "line 2, sentence: no tab; CoNLL-U has a word a line",
    " ": "line 2, sentence: no tab; CoNLL-U has a word a line",
    row(1, ""): "line 2, sentence: FORM is empty",
    row(2): "line 2, sentence: ID '2' is out of order, 1 is next",
    row("01"): "ID '01' is out of order, 1 is next",
    row("9" * 99): "ID '9{40}...' is out of order",
    row("one"): "ID 'one' is not the number of a word, a range such as 3-4 or an empty node",
    row("\u0661"): "is not the number of a word",
    row(""): "ID '' is not the number of a word",
    row(1) + "\n" + row(1): "line 3, sentence: ID '1' is out of order, 2 is next",
    row(1) + "\n" + row(3): "line 3, sentence: ID '3' is out of order, 2 is next",
    row(1, head="x"): "HEAD 'x' is neither the number of a word nor _",
    row(1, head="-1"): "HEAD '-1' is neither",
    row(1, head="01"): "HEAD '01' is neither",
    row(1, head="1.0"): "HEAD '1.0' is neither",
    row(1, head=""): "HEAD '' is neither",
    row(1, head="9" * 5000): "HEAD '9{40}...' is neither",
    row("2-3") + "\n" + row(1): "the range '2-3' is out of order, before word 1",
    row("1-2") + "\n" + row(1): "line 2, sentence: the range '1-2' reaches beyond the last word, 1",
    row("1-1") + "\n" + row("1-1") + "\n" + row(1): "line 3, sentence: the range '1-1' is out of",
    row("2-1") + "\n" + row(1): "the range '2-1' is out of order",
    row(1) + "\n" + row("1.2"): "the empty node '1.2' is out of order, 1.1 is next",
    row(1) + "\n" + row("1.1") + "\n" + row("1.1"): "line 4, .*'1.1' is out of order, 1.2 is next",
    row("1.1") + "\n" + row(1): "the empty node '1.1' is out of order, 0.1 is next",
    row("1." + "9" * 5000): "the empty node .* is out of order",
}
TREES = {
    row(1, head="_"): "line 2, sentence: no HEAD, which training needs",
    row(1, head=2): "line 2, sentence: HEAD 2 is beyond the last word, 1",
    row(1, head=1): "line 2, sentence: HEADs go round in a circle: 1$",
    "\n".join([row(1), row(2, head=4), row(3, head=2), row(4, head=3)]): (
        "line 3, sentence: HEADs go round in a circle: 2, 4, 3$"
    ),
    "\n".join(row(i, head=i % 20 + 1) for i in range(1, 21)): "2, 3, 4, 5, 6, 7, 8, ...$",
}


@pytest.mark.parametrize("text", BAD | TREES)
def test_what_is_wrong_has_its_line(text: str, tmp_path: Path) -> None:
    message = (BAD | TREES)[text]
    check = "training" if text in TREES else None
    path = tmp_path / "a.conllu"
    path.write_text("# c\n" + text + "\n")
    for source in (path, path.read_text().split("\n")):
        with pytest.raises(TextFormatError, match=message) as info:
            list(read_conll(source, check=check))
        assert len(str(info.value)) < len(str(path)) + 200
        assert str(info.value).startswith(f"{path}: line " if source is path else "line ")
        assert str(pickle.loads(pickle.dumps(info.value))).endswith(info.value.problem)
    line = info.value.line
    # Further down, behind another sentence and blank lines.
    path.write_text("# c\n" + row(1) + "\n\n\n\n" + text + "\n")
    with pytest.raises(TextFormatError) as info:
        list(read_conll(path, check=check))
    assert info.value.line == line + 4
    if text in TREES:
        [*_, last] = read_conll(path)
        write_conll([last], tmp_path / "b.conllu")
        assert (tmp_path / "b.conllu").read_text() == text + "\n\n"


def test_training_wants_words() -> None:
    lines = ["# a", "", row(1), "", "# b"]
    assert [len(s) for s in read_conll(lines)] == [0, 1, 0]
    assert [len(s) for s in read_conll(lines, check="training")] == [1]


def test_arguments_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format must be one of conllu, conllx, not 'x'"):
        read_conll([], format="x")
    with pytest.raises(ValueError, match="check must be None or 'training', not 'x'"):
        read_conll([], check="x")
    with pytest.raises(FileNotFoundError):
        read_conll(tmp_path / "none.conllu")
    with pytest.raises(TypeError, match="line 1 is bytes"):
        list(read_conll([b"1"]))  # type: ignore[list-item]
    (tmp_path / "a.conllu").write_bytes(b"1\t\xff")
    with pytest.raises(TextFormatError, match="line 1, text: not UTF-8"):
        list(read_conll(tmp_path / "a.conllu"))
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(ModelFormatError, match=r"a\.conllu\.gz: gzip data at byte 0: damaged"):
        list(read_conll(tmp_path / "a.conllu.gz"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"forms": ["a", ""]}, r"forms\[1\] is empty"),
        ({"forms": ["a"], "upos": ["X", "Y"]}, "upos has 2 entries, forms has 1"),
        ({"forms": ["a"], "heads": [1, 2]}, r"heads must have the shape \(1,\), not \(2,\)"),
        ({"forms": ["a"], "heads": [-2]}, r"heads\[0\] is -2; -1 stands for none"),
        ({"forms": ["a"], "confidence": [0.5, 0.5]}, r"confidence must have the shape \(1,\)"),
        ({"forms": ["a"], "format": "x"}, "format must be one of conllu, conllx"),
    ],
)
def test_sentences_are_checked(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sentence(**fields)


def test_heads_that_have_changed_are_checked(tmp_path: Path) -> None:
    made = Sentence(["a", "b"], heads=[2, 0])
    made.heads[1] = -3
    problem = r"sentences\[0\]: heads\[1\] is -3; -1 stands for none"
    with pytest.raises(ValueError, match=problem):
        write_conll([made], tmp_path / "a.conllu")
    with pytest.raises(ValueError, match=problem):
        vs.parsing.Examples([made], bits=4)


def test_heads_are_whole_numbers() -> None:
    with pytest.raises(TypeError, match="heads must be whole numbers, not float64"):
        Sentence(["a"], heads=np.array([0.5]))
    assert Sentence(["a"], heads=np.array([0], np.uint8)).heads.dtype == np.int64
    assert Sentence([]).heads.tolist() == []


def test_columns_are_lists_of_text(tmp_path: Path) -> None:
    made = Sentence(np.array(["a", "b"]), upos=("X", "Y"))  # type: ignore[arg-type]
    assert made.forms == ["a", "b"]
    assert made.upos == ["X", "Y"]
    assert {type(cell) for cell in made.forms} == {str}
    for bad, kind in (("ab", "str"), (b"ab", "bytes"), (3, "int"), ({"a", "b"}, "set")):
        with pytest.raises(TypeError, match=f"forms must be a list of str, not {kind}"):
            Sentence(bad)  # type: ignore[arg-type]
    for bad, problem in (
        (Sentence(["a", 3]), r"sentences\[1\].forms\[1\] must be a str, not int"),  # type: ignore[list-item]
        (Sentence(["a"], misc=[None]), r"sentences\[1\].misc\[0\] must be a str"),  # type: ignore[list-item]
        ("a", r"sentences\[1\] must be a Sentence, not str"),
    ):
        with pytest.raises(TypeError, match=problem):
            write_conll([made, bad], tmp_path / "a.conllu")  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"sentences\[0\].forms\[0\] is .*: UTF-8 has no bytes"):
        write_conll([Sentence(["\ud800"])], tmp_path / "a.conllu")
    assert not (tmp_path / "a.conllu").exists()


@pytest.mark.parametrize(("misc", "written"), [("", ""), ("_", ""), ("A=b", "A=b|")])
def test_probabilities_are_entries_of_their_own(misc: str, written: str) -> None:
    row = text_of(Sentence(["a"], misc=[misc], confidence=np.ones(1)))
    assert row.split("\t")[-1] == f"{written}HeadProbability=1.000000\n\n"


@pytest.mark.parametrize("cell", ["a\tb", "a\nb", "\n"])
def test_cells_that_would_be_two_are_not_written(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text("before")
    for bad in (
        Sentence([cell]),
        Sentence(["a"], misc=[cell]),
        Sentence(["a"], others=[(0, cell)]),
    ):
        if bad.others and "\t" in cell:
            continue  # a line of its own may have tabs
        with pytest.raises(ValueError, match=r"sentences\[1\]: a cell or a line beside the words"):
            write_conll([Sentence(["a"]), bad], path)
        assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.conllu"]


def test_a_carriage_return_at_the_end_of_a_line_is_not_written(tmp_path: Path) -> None:
    """Readers take it for a part of the end."""
    for bad in (Sentence(["a"], misc=["x\r"]), Sentence(["a"], others=[(0, "# a\r")])):
        with pytest.raises(ValueError, match="holds a tab or the end of a line"):
            write_conll([bad], tmp_path / "a.conllu")
    write_conll([Sentence(["a\rb"])], tmp_path / "a.conllu")
    assert next(iter(read_conll(tmp_path / "a.conllu"))).forms == ["a\rb"]


@pytest.mark.parametrize("text", [row(1) + "\r", "# c\r", f"{row('1-2')}\r\n{row(1)}\n{row(2)}"])
def test_what_could_not_be_written_is_not_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    whole = f"# first\r\n{row(1)}\r\n\r\n# second\r\n" + text.replace("\r", "\r\r") + "\r\n"
    path.write_bytes(whole.encode())
    for source in (path, whole.split("\n")):
        found = read_conll(source)
        assert len(next(found)) == 1
        with pytest.raises(TextFormatError, match=r"line 5, sentence: it ends in a carriage"):
            next(found)
    # An old Mac file is one line, a comment.
    path.write_bytes(TEXT.replace("\n", "\r").encode())
    with pytest.raises(TextFormatError, match=r"line 1, .*; lines end in LF or CR LF, not in CR"):
        list(read_conll(path))
    with pytest.raises(TextFormatError, match="line 2, sentence: it holds the end of a line"):
        list(read_conll(["# a", "# b\n# c"]))


@given(st.lists(st.text("#w\t_\r\n 1", max_size=30).map(lambda s: s.replace("w", row(1)))))
def test_all_that_is_read_can_be_written(
    tmp_path_factory: pytest.TempPathFactory, found: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "read.conllu"
    path.write_bytes("".join(found).encode())
    try:
        read = list(read_conll(path))
    except TextFormatError:
        return
    write_conll(read, path)
    again = list(read_conll(path))
    assert [list(s.others) for s in again] == [list(s.others) for s in read]
    assert [(s.forms, s.misc) for s in again] == [(s.forms, s.misc) for s in read]


CELLS = st.text(
    st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=4
)


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    n = draw(st.integers(0, 5))
    column = st.lists(CELLS, min_size=n, max_size=n)
    heads = draw(st.lists(st.integers(-1, 9), min_size=n, max_size=n))
    others = [(0, "#" + draw(CELLS))] * draw(st.booleans() if n else st.just(True))
    return Sentence(
        *[draw(column) for _ in range(5)], np.array(heads, np.int64),
        *[draw(column) for _ in range(3)], None, others,
    )  # fmt: skip


@given(st.lists(sentences(), max_size=4))
def test_any_cells_come_back(tmp_path_factory: pytest.TempPathFactory, found: list) -> None:
    path = tmp_path_factory.getbasetemp() / "any.conllu"
    write_conll(found, path)
    again = list(read_conll(path))
    assert len(again) == len(found)
    for one, other in zip(found, again, strict=True):
        for name in ("forms", "lemmas", "upos", "xpos", "feats", "labels", "deps", "misc"):
            assert getattr(one, name) == getattr(other, name)
        assert one.heads.tolist() == other.heads.tolist()
        assert list(one.others) == list(other.others)


@pytest.mark.skipif(not DATA.is_dir(), reason="the treebanks are not on this machine")
@pytest.mark.parametrize("name", ["en_ewt-test", "da_cdt-dev", "it_partut-test", "pt_bosque-test"])
def test_treebanks(name: str, tmp_path: Path) -> None:
    source = DATA / f"{name}.conllu.gz"
    found = list(vs.parsing.read_conll(source, check="training"))
    assert len(found) > 100
    write_conll(found, tmp_path / "a.conllu")
    assert (tmp_path / "a.conllu").read_bytes() == gzip.decompress(source.read_bytes())
