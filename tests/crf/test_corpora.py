"""Corpora: formats, features, arguments."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from corpus_files import as_conll, as_conllu, make_model, sentences
from joblib.parallel import ThreadingBackend

from valuesparse.crf import tag_corpus, tag_file, train_corpus
from valuesparse.crf.corpora._features import word_attributes
from valuesparse.crf.corpora._templates import compile_template
from valuesparse.crf.corpora.evaluation import evaluate
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io import read_crfsuite
from valuesparse.io.errors import ModelFormatError, TextFormatError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def tagger(model: Path) -> Tagger:
    tagger = Tagger()
    tagger.open(model)
    return tagger


def parsed(text: str, apart: str | None = "\t") -> list[list[list[str]]]:
    return [[line.split(apart) for line in block.split("\n")]
            for block in text.strip("\n").split("\n\n")]  # fmt: skip


@pytest.mark.parametrize("apart", ["\t", " "])
@pytest.mark.parametrize("marginals", ["best", "all", "none"])
def test_conll(model: Path, tagger: Tagger, tmp_path: Path, apart: str, marginals: str) -> None:
    data = sentences(600, seed=1)
    source = tmp_path / "a.conll"
    source.write_text(as_conll(data, apart))
    report = tag_corpus(model, [source], tmp_path / "out", marginals=marginals)
    assert report == ((tmp_path / "out" / "a.conll",), 600, sum(len(w) for w, _ in data), 0)
    blocks = parsed(report.outputs[0].read_text(), apart)
    assert len(blocks) == 600
    for (words, tags), rows in zip(data, blocks, strict=True):
        xseq = word_attributes(words)
        expected, table = tagger.tag(xseq), tagger.marginals(xseq)
        assert [row[:3] for row in rows] == [list(r) for r in zip(words, tags, expected,
                                                                  strict=True)]  # fmt: skip
        numbers = np.array([[float(x) for x in row[3:]] for row in rows])
        assert numbers.shape[1] == {"best": 1, "all": 6, "none": 0}[marginals]
        if marginals != "none":
            best = [table[i, tagger.labels().index(tag)] for i, tag in enumerate(expected)]
            np.testing.assert_allclose(numbers[:, 0], best, atol=5.1e-7)
        if marginals == "all":
            np.testing.assert_allclose(numbers[:, 1:], table, atol=5.1e-7)


@pytest.mark.parametrize("packed", [False, True])
def test_conllu(model: Path, tagger: Tagger, tmp_path: Path, packed: bool) -> None:
    data = sentences(30, seed=2)
    source = tmp_path / ("a.conllu" + ".gz" * packed)
    raw = as_conllu(data).encode()
    source.write_bytes(gzip.compress(raw) if packed else raw)
    [output] = tag_corpus(model, [source], tmp_path / "out", shard_bytes=10**9).outputs
    assert output.name == source.name
    text = (gzip.decompress(output.read_bytes()) if packed else output.read_bytes()).decode()
    before = as_conllu(data).split("\n")
    after = text.split("\n")
    assert len(before) == len(after)
    predicted = itertools.chain.from_iterable(tagger.tag(word_attributes(w)) for w, _ in data)
    for one, other in zip(before, after, strict=True):
        if not one[:1].isdigit() or one.startswith("1-2"):
            assert one == other
            continue
        columns = other.split("\t")
        assert columns[:9] == one.split("\t")[:9]
        *kept, tag, probability = columns[9].split("|")
        assert kept == (["A=b"] if one.startswith("1\t") else [])
        assert tag == f"Predicted={next(predicted)}"
        assert 0.2 < float(probability.removeprefix("Probability=")) <= 1


@pytest.mark.smoke
def test_tsv(tmp_path: Path) -> None:
    data = sentences(40, seed=3)
    text = "id\tlabel\tword\n" + "".join(
        "".join(f"{i}\t{t}\t{w}\n" for i, (w, t) in enumerate(zip(*s, strict=True))) + "\n"
        for s in data
    )
    source = tmp_path / "a.tsv"
    source.write_text(text)
    model = tmp_path / "m.crfsuite"
    train_corpus([source], model, params={"max_iterations": 10})
    whole = tag_corpus(model, [source], tmp_path / "out", marginals="all")
    parts = tag_corpus(model, [source], tmp_path / "parts", marginals="all", shard_bytes=100)
    lines = whole.outputs[0].read_text().split("\n")
    assert lines[0].split("\t")[:5] == ["id", "label", "word", "predicted", "probability"]
    assert lines[0].split("\t")[5].startswith("p(")
    rows = [line.split("\t") for line in lines[1:] if line]
    assert [row[3] for row in rows] == [t for _, tags in data for t in tags]
    assert len(parts.outputs) > 5
    texts = [path.read_text().split("\n", 1) for path in parts.outputs]
    assert {heading for heading, _ in texts} == {lines[0]}
    assert "".join(body for _, body in texts) == "\n".join(lines[1:])
    source.write_text("word\ttag\na\n")
    with pytest.raises(TextFormatError, match=r"a\.tsv: line 2, sentence: 1 columns"):
        tag_corpus(model, [source], tmp_path / "wrong")


def test_attribute_files(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("N\tw=\\:\tlength:3\nV\tw=go\n\nV\tw=go\n")
    model = tmp_path / "m.crfsuite"
    train_corpus([source], model, params={"c2": 0.01})
    assert json.loads((tmp_path / "m.crfsuite.json").read_text())["features"] == "attributes"
    [output] = tag_corpus(model, [source], tmp_path / "out").outputs
    rows = parsed(output.read_text())
    assert [[row[:2] for row in s] for s in rows] == [[["N", "N"], ["V", "V"]], [["V", "V"]]]
    words = tmp_path / "b.conll"
    words.write_text("go\n")
    with pytest.raises(ValueError, match="say with features="):
        tag_corpus(model, [words], tmp_path / "wrong")


@pytest.mark.smoke
def test_parquet(model: Path, tagger: Tagger, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    import pyarrow.parquet as pq

    data = [*sentences(300, seed=4), ([], [])]
    table = pyarrow.table({"id": range(301), "words": [w for w, _ in data],
                           "tags": [t for _, t in data]})  # fmt: skip
    source = tmp_path / "a.parquet"
    pq.write_table(table, source, row_group_size=100)
    report = tag_corpus(model, [source], tmp_path / "out", marginals="all")
    assert [path.name for path in report.outputs] == [
        f"a-{i:05d}-of-00004.parquet" for i in range(4)
    ]
    found = pyarrow.concat_tables([pq.read_table(path) for path in report.outputs])
    assert found.select(["id", "words", "tags"]).equals(table)
    assert pq.read_table(tmp_path / "out").equals(found), "the folder is a data set"
    for row, (words, _) in zip(found.to_pylist(), data, strict=True):
        marginals = tagger.marginals(word_attributes(words))
        assert row["predicted"] == tagger.tag()
        np.testing.assert_allclose(np.reshape(row["marginals"], marginals.shape), marginals,
                                   atol=1e-12)  # fmt: skip
    train_corpus([source], tmp_path / "m", params={"max_iterations": 3})
    with pytest.raises(ValueError, match=r"word: no column 'w' in a\.parquet among id, words"):
        tag_corpus(model, [source], tmp_path / "wrong", word="w")
    for bad in (0, ""):  # neither is what was not said
        with pytest.raises((TypeError, ValueError), match="word"):
            tag_corpus(model, [source], tmp_path / "wrong", word=bad)  # type: ignore[arg-type]


def test_templates(tmp_path: Path) -> None:
    rows = [("The", "D"), ("dog", "N"), ("ran", "V")]
    text = (
        "# CRF++\nU00:%x[-2,0]\nU01:%x[0,0]/%x[1,1]\nB\n"
        '# Wapiti\nu:low=%X[0,0]\nu:cap=%t[0,0,"^\\u"]\nu:pre=%m[0,0,"^.."]\nu:end=%x[@-1,0]\n'
    )
    found = compile_template(text)(rows)
    assert found[0] == ["U00:_B-2", "U01:The/N", "u:low=the", "u:cap=true", "u:pre=Th",
                        "u:end=ran"]  # fmt: skip
    assert found[2][:2] == ["U00:The", "U01:ran/_B+1"]
    for wrong, message in (
        ("B01:%x[0,0]", "line 1: 'B01.*pairs of labels"),
        ("*:%x[0,0]", "pairs of labels"),
        ("\nU:%x[0]", r"line 2: '%x\[0\]' is no macro"),
        ('U:%m[0,0,"[a--b]"]', "line 1: .* has no meaning of its own in Wapiti"),
        ("X:%x[0,0]", "neither U nor B"),
        ('U:%t[0,0,"*"]', "nothing before it"),
        (f'U:%t[0,0,"{"(" * 5000}{")" * 5000}"]', "template, line 1: "),
        (f'U:%t[0,0,"a{{{"9" * 20}}}"]', "line 1: .*has no meaning"),
        ("U:%t[0,0]", "need a regex"),
    ):
        with pytest.raises(ValueError, match=message):
            compile_template(wrong)
    with pytest.raises(ValueError, match="token 1 of the sentence has 2 columns"):
        compile_template("U:%x[0,5]")(rows)
    # Trained with a template, a model finds it again, and refuses another.
    template, source = tmp_path / "t.template", tmp_path / "a.conll"
    template.write_text("U00:%x[0,0]\nU01:%x[-1,0]\n")
    source.write_text(as_conll(sentences(50)))
    model = tmp_path / "m.crfsuite"
    train_corpus([source], model, features=f"template:{template}")
    assert json.loads((tmp_path / "m.crfsuite.json").read_text()) == {
        "features": "template:t.template", "word": None, "tags": None,
        "template": template.read_text(),
        "template_sha256": hashlib.sha256(template.read_bytes()).hexdigest(),
        "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
    }  # fmt: skip
    [output] = tag_corpus(model, [source], tmp_path / "out").outputs
    assert all(row[1] == row[2] for s in parsed(output.read_text()) for row in s)
    # The model has its own template, so a change of the given one does not matter.
    template.write_text("U00:%x[0,0]\n")
    [again] = tag_corpus(model, [source], tmp_path / "other").outputs
    assert again.read_bytes() == output.read_bytes()
    # A template that was edited in the same process is the one that trains.
    train_corpus([source], model, features=f"template:{template}")
    assert not any(name.startswith("U01") for name in read_crfsuite(model).attributes)
    tag_corpus(model, [source], tmp_path / "again")


def test_functions_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_for_test.py").write_text(
        "def f(words):\n    return [{'w': w} for w in words]\ndef g(words):\n    return []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    source, model = tmp_path / "a.conll", tmp_path / "m.crfsuite"
    source.write_text(as_conll(sentences(50)))
    train_corpus([source], model, features="mine_for_test:f", params={"c2": 0.01})
    assert json.loads(model.with_name("m.crfsuite.json").read_text())["features"] == (
        "mine_for_test:f"
    )
    tag_corpus(model, [source], tmp_path / "out", features="mine_for_test:f")
    for name, message in (
        ("mine_for_test:g", ": 0 items of"),
        ("mine_for_test:h", "cannot be imported"),
        ("other", "there are words, cantonese"),
    ):
        with pytest.raises(ValueError, match=message):
            tag_corpus(model, [source], tmp_path / "wrong", features=name)


def test_backends_that_return_lists_only(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as Ray's and Spark's: progress comes in waves."""

    class ListsOnly(ThreadingBackend):
        supports_return_generator = False

    monkeypatch.setitem(joblib.parallel.BACKENDS, "ray", ListsOnly)
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(600)))
    whole = tag_corpus(model, [source], tmp_path / "whole")
    seen: list[int] = []
    report = tag_corpus(
        model, [source], tmp_path / "out", backend="ray", jobs=2, shard_bytes=500,
        progress=lambda done, total: seen.append(done),
    )  # fmt: skip
    assert len(report.outputs) > 40
    assert (report.sentences, report.tokens) == (whole.sentences, whole.tokens)
    assert b"".join(p.read_bytes() for p in report.outputs) == whole.outputs[0].read_bytes()
    assert len(set(seen)) == len(report.outputs) + 1


def test_bad_arguments(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text("a\n")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"backend": "mpi"}, "backend must be one of threads"),
        ({"marginals": "some"}, "marginals must be one of"),
        ({"input_format": "csv"}, "input_format must be one of"),
        ({"scheduler": "tcp://x"}, "scheduler is for"),
        ({"shard_bytes": 0}, "shard_bytes"),
        ({"jobs": 0}, "jobs"),
        ({"word": "form"}, "a.conll: word: 'form' must be the number of a column"),
        ({"word": "-1"}, "a.conll: word: '-1' must be the number of a column, from 1"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            tag_corpus(model, [source], tmp_path / "out", **arguments)
    with pytest.raises(ValueError, match="there is no file"):
        tag_corpus(model, [], tmp_path / "out")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.conll").write_text("b\n")
    with pytest.raises(ValueError, match=r"two files would be written to a\.conll"):
        tag_corpus(model, [source, tmp_path / "b" / "a.conll"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    packed = tmp_path / "c.conll.gz"
    packed.write_bytes(gzip.compress(b"a\n" * 1000)[:-9])
    with pytest.raises(ModelFormatError, match="damaged"):
        tag_corpus(model, [packed], tmp_path / "damaged")
    assert not list((tmp_path / "damaged").glob("*c.conll*"))
    (tmp_path / "d.conll").write_text("\n")
    with pytest.raises(ValueError, match="no sentence"):
        train_corpus([tmp_path / "d.conll"], tmp_path / "m")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the DET\ndog\n\n", r"a\.conll: line 2, sentence: 1 columns, the tokens before it have 2"),
        ("a DET\n\nthe D DET\ndog NOUN\n", r"line 4, .*2 columns, the tokens before it have 3"),
        ("the DET\n\ndog\n", r"a\.conll: sentence 2: tags: column 1 of 1, as of 'dog', is that of"),
    ],
)
def test_columns_that_are_missing_are_no_labels(text: str, message: str, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(text)
    with pytest.raises(ValueError, match=message):
        train_corpus([source], tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.conll", None), ("a.tsv", None), ("a.crfsuite.txt", None), ("a.txt", "text")],
)
def test_lines_that_end_with_carriage_returns_are_refused(
    name: str, kind: str | None, model: Path, tmp_path: Path
) -> None:
    source = tmp_path / name
    source.write_bytes(b"word\ttag\rthe\tDET\rdog\tNOUN\r\r")
    with pytest.raises(TextFormatError, match=r"line 1, .*: a carriage return within it"):
        tag_corpus(model, [source], tmp_path / "out", input_format=kind)
    if kind is None:
        with pytest.raises(TextFormatError, match=r"line 1, .*: a carriage return within it"):
            train_corpus([source], tmp_path / "m")
    source.write_bytes(b"word\ttag\r\nthe\tDET\r\ndog\tNOUN\r\n\r\n")
    assert tag_corpus(model, [source], tmp_path / "right", input_format=kind).tokens


def test_a_file_is_tagged_in_place_where_nothing_is_lost(model: Path, tmp_path: Path) -> None:
    conll, tsv = tmp_path / "a.conll", tmp_path / "a.tsv"
    conll.write_text("a X\n")
    tag_file(model, conll, conll)
    assert conll.read_text().startswith("a X ")
    tsv.write_text("word\ttag\na\tX\n")
    tag_file(model, tsv, tsv)
    assert tsv.read_text().startswith("word\ttag\tpredicted\tprobability\na\tX\t")
    link = tmp_path / "link.crfsuite.txt"
    attributes = tmp_path / "a.crfsuite.txt"
    attributes.write_text("X\tw=a\n")
    link.hardlink_to(attributes)
    for path, target, kind in (
        (attributes, attributes, None), (attributes, link, None), (tsv, tsv, "jsonl"),
        (conll, conll, "tsv"),
    ):  # fmt: skip
        before = path.read_bytes()
        problem = rf"{target.name} is the input, of which not all is written, and would be lost"
        with pytest.raises(ValueError, match=problem):
            tag_file(model, path, target, output_format=kind)
        assert path.read_bytes() == before


def test_damaged_files_are_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a\n")
    damaged = tmp_path / "m.crfsuite"
    weighed = tmp_path / "weighed.txt"
    weighed.write_text("@weight:2\nX\ta\n")
    with pytest.raises(TextFormatError, match=r"weighed.txt: line 1, .* weights of sequences are"):
        train_corpus([weighed], tmp_path / "m")
    damaged.write_bytes(model.read_bytes()[:-8])
    with pytest.raises(ModelFormatError, match=r"m\.crfsuite: header at byte 4"):
        tag_corpus(damaged, [tmp_path / "a.conll"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for text, message in (
        ('{"features": 5}', r"m\.crfsuite\.json: 'features' must be text, not int"),
        ("[]", "must hold an object, not list"),
        ("{", "is not JSON"),
    ):
        damaged.with_name("m.crfsuite.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            tag_corpus(damaged, [tmp_path / "a.conll"], tmp_path / "out")


def test_parquet_of_other_types(model: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    lists = pyarrow.list_(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    for words, tags, message in (
        (["a dog"], [["X"]], "word: column 'words' of a.parquet must hold lists of str, not str"),
        ([[1, 2]], [["X", "Y"]], "word: column .* lists of str, not list<.*int64>"),
        ([["a"], ["b", None]], [["X"], ["X", "Y"]], "word: a.parquet, row 1: a null in column"),
        ([["a"]], ["X"], "tags: column 'tags' of a.parquet must hold lists of str, not string"),
        ([["a"], ["b"]], [["X"], [None]], "tags: a.parquet, row 1: a null in column 'tags'"),
        ([["a", "b"]], [["X"]], r"a\.parquet: sentence 1: .*\|x\| = 2, \|y\| = 1"),
    ):
        parquet.write_table(pyarrow.table({"words": words, "tags": tags}), path)
        with pytest.raises(ValueError, match=message):
            train_corpus([path], tmp_path / "m")
        if message.startswith("word"):
            with pytest.raises(ValueError, match=message):
                tag_corpus(model, [path], tmp_path / "out")
    words = pyarrow.array([["a", "dog"], None, []], lists)
    parquet.write_table(pyarrow.table({"words": words}), path)
    assert tag_corpus(model, [path], tmp_path / "fine").tokens == 2


def test_one_path_is_a_file_and_files_without_attributes_are_refused(
    model: Path, tmp_path: Path
) -> None:
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(3, seed=12)))
    one = tag_corpus(model, str(source), tmp_path / "one").outputs
    two = tag_corpus(model, [source], tmp_path / "two").outputs
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    train_corpus(source, tmp_path / "m", params={"max_iterations": 2})
    words = tmp_path / "words.txt"
    words.write_text("the\ndog\n\n")
    with pytest.raises(ValueError, match="no token has an attribute; say --input-format"):
        train_corpus(words, tmp_path / "n", input_format="attributes")
    template = tmp_path / "t.template"
    template.write_text("B\n")
    with pytest.raises(ValueError, match=r"template:.*t\.template give no token an attribute"):
        train_corpus(source, tmp_path / "n", features=f"template:{template}")
    assert not (tmp_path / "n").exists()


def test_files_of_text_are_refused_by_name(model: Path, tmp_path: Path) -> None:
    text, source = io.StringIO("a\n"), io.BytesIO(b"a\n")
    with tempfile.NamedTemporaryFile("w+") as wrapped, (tmp_path / "a").open("w+") as file:
        for bad in (text, wrapped, file):
            kind = type(bad).__name__
            with pytest.raises(TypeError, match=f"source: a binary file .* {kind} .* mode 'rb'"):
                tag_file(model, bad, io.BytesIO())
            with pytest.raises(TypeError, match=f"target: a binary file .* {kind} .* mode 'wb'"):
                tag_file(model, source, bad)
    with pytest.raises(TypeError, match="target: a path or a binary file is needed, not int"):
        tag_file(model, source, 5)
    assert source.read() == b"a\n"  # nothing was read
    for name in ("gold", "system"):
        with pytest.raises(TypeError, match=f"{name}: a binary file is needed"):
            evaluate(**{"gold": source, "system": source, name: text})
    with pytest.raises(TypeError, match=r"inputs\[1\]: a binary file is needed"):
        train_corpus([source, text], tmp_path / "n")
    with pytest.raises(TypeError, match="dev: a binary file is needed"):
        train_corpus(source, tmp_path / "n", dev=text)
    with tempfile.TemporaryFile() as binary, tempfile.SpooledTemporaryFile() as other:
        assert tag_file(model, io.BytesIO(b"a\n"), binary).tokens == 1
        assert tag_file(model, io.BytesIO(b"a\n"), other).tokens == 1
