"""Hostile corpora: sentences without an end, text that explodes, damaged Parquet."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import children
import pytest
from corpus_files import as_conll, make_model, sentences

from valuesparse.corpora import _blocks, _text
from valuesparse.crf import tag_corpus, tag_file, train_corpus
from valuesparse.crf.corpora import _formats, _parquet, _shard
from valuesparse.crf.corpora._reader import Extraction, Reader, line_format
from valuesparse.crf.corpora._regex import longest_text
from valuesparse.io import ModelFormatError, TextFormatError
from valuesparse.io import _files as files

WORDS = Extraction("words", None, None, None)
LINES = {
    "attributes": "N\ta\n", "conll": "a N\n", "tsv": "a\tN\n",
    "conllu": "1\ta\t_\tN\t_\t_\t_\t_\t_\t_\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("apart", ["\t", " "])
def test_a_line_has_so_many_columns(apart: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(apart.join(["a"] * 4096) + "\n")
    assert len(next(iter(Reader(path, "conll", WORDS))).rows[0]) == 4096
    path.write_text("a b\n" + apart.join(["a"] * 4097) + "\n")
    with pytest.raises(TextFormatError, match="line 2, sentence: more than 4,096 columns"):
        list(Reader(path, "conll", WORDS))
    path = tmp_path / "a.tsv"
    path.write_text("\t".join(["a"] * 4097) + "\n")
    with pytest.raises(ValueError, match=r"a\.tsv: the first line has more than 4,096 columns"):
        list(Reader(path, "tsv", WORDS))


@pytest.mark.parametrize(
    ("kind", "marginals", "most"),
    [("conll", "best", 2047), ("tsv", "none", 4094), ("conllu", "best", 2047),
     ("attributes", "best", 2047)],
)  # fmt: skip
def test_label_sequences_fit_into_the_columns_of_a_line(
    kind: str, marginals: str, most: int, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_text("word\ttag\n" * (kind == "tsv") + LINES[kind])
    options = {"input_format": kind, "marginals": marginals}
    for n in (most + 1, 10**14):
        problem = rf"{n:,}, and columns of {kind} have room for {most:,}"
        with pytest.raises(ValueError, match=problem):
            tag_file(model, path, tmp_path / "out", n_best=n, **options)
        with pytest.raises(ValueError, match=problem):
            tag_corpus(model, path, tmp_path / "folder", n_best=n, **options)
    assert not (tmp_path / "out").exists()
    if kind == "conll":
        tag_file(model, path, tmp_path / "out.conll", n_best=most)
        [sentence] = Reader(tmp_path / "out.conll", None, WORDS)
        assert len(sentence.rows[0]) == 4096
        # Objects have as many label sequences as there are.
        tag_file(model, path, tmp_path / "out.jsonl", n_best=10**14)
        found = json.loads((tmp_path / "out.jsonl").read_text())
        assert len(found["n_best"]) == len({tuple(one["labels"]) for one in found["n_best"]}) > 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", LINES)
def test_a_sentence_has_an_end(
    kind: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_blocks, "LONGEST", 100)
    path = tmp_path / (f"a.{kind}" + ".gz" * packed)
    head = "word\ttag\n" if kind == "tsv" else ""

    def write(text: str) -> None:
        raw = (head + text).encode()
        path.write_bytes(gzip.compress(raw) if packed else raw)

    write((LINES[kind] * 100 + "\n") * 2)
    assert [len(s.rows) for s in Reader(path, kind, WORDS)] == [100, 100]
    write(LINES[kind] + "\n" + LINES[kind] * 101)
    line = 103 + bool(head)
    message = (
        rf"{re.escape(str(path))}: line {line}, sentence: a sentence of more than 100 lines; a"
    )
    with pytest.raises(TextFormatError, match=message):
        list(Reader(path, kind, WORDS))
    monkeypatch.setattr(_text, "_LARGEST", 1 << 20)
    monkeypatch.setattr(_blocks, "LONGEST", 10**9)
    monkeypatch.setattr(files, "_GZIP_FREE", 10 << 20)
    write(LINES[kind] * ((1 << 20) // len(LINES[kind]) + 3))
    with pytest.raises(TextFormatError, match="a sentence of more than 1 MiB of text"):
        list(Reader(path, kind, WORDS))


@pytest.mark.parametrize("kind", LINES)
def test_gzip_data_grow_40_fold_at_most(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path
) -> None:
    monkeypatch.setattr(files, "_GZIP_FREE", 10_000)
    path = tmp_path / f"a.{kind}.gz"
    head = "word\ttag\n" if kind == "tsv" else ""
    path.write_bytes(gzip.compress((head + (LINES[kind] + "\n") * 100_000).encode()))
    with pytest.raises(ModelFormatError, match="bytes of text, as a damaged or hostile") as i:
        list(Reader(path, kind, WORDS))
    assert str(i.value).startswith(f"{path}: gzip data")
    with pytest.raises(ModelFormatError, match="decompress it first"):
        tag_corpus(model, [path], tmp_path / "out", features="words")
    # Text as it really is grows less.
    path.write_bytes(gzip.compress(as_conll(sentences(3000)).encode()))
    assert sum(1 for _ in Reader(path, "conll", WORDS)) == 3000


def test_a_line_of_gzip_data_is_bounded_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.conll.gz"
    monkeypatch.setattr(files, "_GZIP_FREE", 10 << 20)
    path.write_bytes(gzip.compress(b"a" * (2 << 20)))
    with pytest.raises(TextFormatError, match=r"line 1, line: longer than 1 MiB.*decompress it"):
        list(Reader(path, None, WORDS))
    rng = random.Random(0)
    long = bytes(rng.choices(range(97, 123), k=1_000_000))
    path.write_bytes(gzip.compress(long + b" N\n"))
    assert [len(s.rows[0][0]) for s in Reader(path, None, WORDS)] == [1_000_000]
    monkeypatch.setattr(_text, "_LARGEST", 1 << 20)
    plain = tmp_path / "a.conll"
    plain.write_bytes(long * 2)
    with pytest.raises(TextFormatError, match=r"line 1, line: longer than 1 MiB$"):
        list(Reader(plain, None, WORDS))


MEASURED = """
import sys
from pathlib import Path
from valuesparse.crf import tag_corpus
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
model, source, other, out = sys.argv[1:]
tag_corpus(model, [other], out + "1")  # what is imported, once
Path("/proc/self/clear_refs").write_text("5")
before, said = peak(), "tagged"
try:
    tag_corpus(model, [source], out + "2", jobs=1)
except ValueError as error:
    said = str(error)
print(said)
print(peak() - before)
"""

LINE = b"a N\n"
MADE = {
    "one sentence": ("a.conll", LINE * 900_000, "a sentence of more than 16,000 lines; a blank"),
    "one sentence, packed": ("a.conll.gz", LINE * 900_000, "decompress it first"),
    "the longest, packed": ("a.conll.gz", (LINE * 16_000 + b"\n") * 2, "tagged"),
    "many sentences, packed": ("a.conll.gz", (LINE + b"\n") * 3_000_000, "decompress it first"),
    "blank lines": ("a.conll", b"\n" * 4_000_000, "tagged"),
    "blank lines, packed": ("a.conll.gz", b"\n" * 60_000_000, "decompress it first"),
    "long words, packed": (
        "a.conll.gz", ("𐐀".encode() + b"x" * 400_000 + b" N\n\n") * 2, "tagged",
    ),
}  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="reads its memory where Linux tells it")
@pytest.mark.parametrize("what", MADE)
def test_a_file_takes_no_more_than_it_may(what: str, model: Path, tmp_path: Path) -> None:
    """Sentences of a million lines took 1.7 GB, and kilobytes of gzip data a minute."""
    name, text, expected = MADE[what]
    source, other = tmp_path / name, tmp_path / "other.conll"
    source.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    other.write_text(as_conll(sentences(50)))
    child = subprocess.run(
        [sys.executable, "-c", MEASURED, model, source, other, tmp_path / "out"],
        env=children.environment(), cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=True,
    )  # fmt: skip
    message, kib = child.stdout.splitlines()
    assert message == "tagged" or message.startswith(f"{source}: ")
    assert expected in message
    assert int(kib) * 1024 < 64 * source.stat().st_size + (64 << 20)


def test_batches_are_bounded_by_their_tokens(tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(("the DET\n" * 10_000 + "\n") * 3 + as_conll(sentences(600)))
    form = line_format(source, "conll", WORDS)
    found = list(_blocks.batches(form.blocks(_text.lines(source), 1 << 26), _formats.size_of))
    assert [len(batch) for batch in found] == [1, 1, 1, 256, 256, 88]
    assert sum(len(block.rows) for batch in found for block in batch) == sum(
        bool(line) for line in source.read_text().split("\n")
    )


def parquet_of(path: Path, words: list, **options: object) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    import pyarrow.parquet as parquet

    tags = [["N"] * len(some) for some in words]
    parquet.write_table(pyarrow.table({"words": words, "tags": tags}), path, **options)


def test_rows_of_parquet_have_an_end(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_parquet, "LONGEST", 100)
    path = tmp_path / "a.parquet"
    parquet_of(path, [["a"]] * 5 + [["a"] * 101])
    with pytest.raises(ModelFormatError, match="row 5: a sentence of more than 100 words; what is"):
        tag_corpus(model, [path], tmp_path / "out")
    with pytest.raises(ModelFormatError, match="row 5: a sentence of more than 100 words"):
        train_corpus([path], tmp_path / "m")
    parquet_of(path, [["a"] * 101])  # known before a value is read
    with pytest.raises(ModelFormatError, match="row group 0: more than 100 values a row") as info:
        tag_corpus(model, [path], tmp_path / "out")
    assert str(info.value).startswith(f"{path}: Parquet data")
    monkeypatch.setattr(_parquet, "_LARGEST", 1 << 20)
    parquet_of(path, [["a"], ["ab" * (1 << 20)]])
    with pytest.raises(ModelFormatError, match="row 1: a sentence of more than 1 MiB of text"):
        tag_corpus(model, [path], tmp_path / "out")
    monkeypatch.setattr(_parquet, "LONGEST", 10**9)
    monkeypatch.setattr(_parquet, "_FREE", 10_000)
    parquet_of(path, [["a"] * 100_000])
    with pytest.raises(ModelFormatError, match=r"far too many values.*smaller row groups"):
        tag_corpus(model, [path], tmp_path / "out")


@pytest.mark.parametrize("seed", range(3))
def test_damaged_parquet_is_one_line(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    data = [words for words, _ in sentences(200, seed)]
    parquet_of(path, data, compression=["none", "snappy", "zstd"][seed])
    good = path.read_bytes()
    rng = random.Random(seed)
    said = []
    for i in range(60):
        bad = bytearray(good)
        if i % 3 == 0:
            del bad[rng.randrange(len(bad)) :]
        else:
            for _ in range(rng.randint(1, 8)):
                # Half of them in the footer, which says where everything is.
                low = len(bad) * 2 // 3 if i % 2 else 0
                bad[rng.randrange(low, len(bad))] = rng.randrange(256)
        path.write_bytes(bad)
        try:
            for _ in Reader(path, None, WORDS):
                pass
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 20
    for text in said:
        assert "\n" not in text
        assert "a.parquet" in text
        assert len(text) < len(str(path)) + 400


def test_damage_in_parquet_has_its_name(model: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    import pyarrow.parquet as parquet

    path = tmp_path / "a.parquet"
    for data in (b"", b"PAR1", b"nothing of it\n" * 100, b"PAR1" + b"\0" * 100 + b"PAR1"):
        path.write_bytes(data)
        with pytest.raises(
            ModelFormatError, match=r"Parquet data at byte 0: cannot be read: "
        ) as i:
            tag_corpus(model, [path], tmp_path / "out")
        assert str(i.value).startswith(f"{path}: ")
        assert "\n" not in str(i.value)
    bad = pyarrow.array([b"\xff\xfe"]).cast(pyarrow.string(), safe=False)
    words = pyarrow.ListArray.from_arrays(pyarrow.array([0, 1], pyarrow.int32()), bad)
    parquet.write_table(pyarrow.table({"words": words}), path)
    with pytest.raises(ModelFormatError, match=r"cannot be read: 'utf-8' codec can't decode"):
        tag_corpus(model, [path], tmp_path / "out")
    with pytest.raises(FileNotFoundError) as info:
        train_corpus([tmp_path / "nothing.parquet"], tmp_path / "m")
    assert info.value.filename == str(tmp_path / "nothing.parquet")


def own_template(model: Path, folder: Path, text: str) -> Path:
    """Return a copy of a model that brings this template."""
    copy = folder / "m.crfsuite"
    copy.write_bytes(model.read_bytes())
    kept = json.loads(Path(f"{model}.json").read_text())
    kept |= {"features": "template:t.txt", "template": text}
    Path(f"{copy}.json").write_text(json.dumps(kept))
    return copy


@pytest.mark.parametrize(
    ("macro", "line"),
    [
        ("%x[0,0]", "x" * 100_000 + " N\n"),
        pytest.param("%X[0,0]", "x" * 100_000 + " N\n", marks=pytest.mark.slow),
        ("\nU", "x N\n" * 16_000),
        pytest.param("%x[0,0]\nU", "x N\n" * 16_000, marks=pytest.mark.slow),
    ],
    ids=["value", "other value", "lines", "values in lines"],
)
def test_attributes_of_a_template_have_an_end(
    model: Path, tmp_path: Path, macro: str, line: str
) -> None:
    """A line of 84 kB on a word of 100 kB took 2.3 GB."""
    source = tmp_path / "a.conll"
    bad = own_template(model, tmp_path, "U:" + macro * 12_000)
    source.write_text(line)
    tracemalloc.start()
    with pytest.raises(ValueError, match="of a sentence take more than 40 MiB; cut") as info:
        tag_corpus(bad, [source], tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(info.value).startswith(f"{source}: ")
    assert str(bad) in str(info.value)
    assert peak < 64 << 20


def test_much_that_a_template_makes_is_tagged_in_parts(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_template(model, tmp_path, "U:%x[0,0]\nU%x[1,0]")
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(50)))
    tag_corpus(own, [source], tmp_path / "out")
    monkeypatch.setattr(_shard, "_WEIGHT", 1)
    tag_corpus(own, [source], tmp_path / "out2")
    assert (tmp_path / "out/a.conll").read_bytes() == (tmp_path / "out2/a.conll").read_bytes()


SLOW = ["a?" * 40 + "a" * 40, "a*a*a*a*b", ".*" * 9 + "b", r"\l*\w*\a*\l*\d", "a?" * 25 + "$"]
QUICK = [r"^\u", "..$", "^.?.?.?", r"\d\d*", r"^\u\l*$", "-", "^Mrs?\\.?$", r"\p", r"^\u*\d*$",
         r"^\d*\p?\d*$", r"\w*-\w*$", ".\\p.", "^.?.?.?.?"]  # fmt: skip
OTHER = ["(a+)+$", "ab|c", "(.*){9}b", r"(.)\1", "(?=a)b", "(?>a)b"]


@pytest.mark.parametrize("pattern", SLOW)
def test_an_expression_of_a_stranger_ends(pattern: str, model: Path, tmp_path: Path) -> None:
    bad = own_template(model, tmp_path, f'U:%t[0,0,"{pattern}"]')
    source = tmp_path / "a.conll"
    source.write_text("a" * 60 + "! N\n")
    with pytest.raises(ValueError, match="may take too long for the 61 characters of token 1") as i:
        tag_corpus(bad, [source], tmp_path / "out")
    assert str(i.value).startswith(f"{source}: template, line 1")
    assert "give it yourself, --features template:FILE" in str(i.value)
    assert str(bad) in str(i.value)


@pytest.mark.parametrize("pattern", QUICK)
def test_what_is_quick_is_matched(pattern: str, model: Path, tmp_path: Path) -> None:
    own = own_template(model, tmp_path, f'U:%t[0,0,"{pattern}"]')
    source = tmp_path / "a.conll"
    source.write_text("a" * 60 + "! N\n")
    assert tag_corpus(own, [source], tmp_path / "out").tokens == 1


@pytest.mark.parametrize("pattern", OTHER[: 5 + (sys.version_info >= (3, 11))])
def test_nothing_is_known_of_what_templates_have_not(pattern: str) -> None:
    assert longest_text(pattern) == -1


def test_a_template_that_is_given_may_do_anything(model: Path, tmp_path: Path) -> None:
    own = own_template(model, tmp_path, 'U:%t[0,0,"a*a*a*a*$"]')
    given = tmp_path / "t.txt"
    given.write_text('U:%t[0,0,"b*b*b*b*$"]')
    source = tmp_path / "a.conll"
    source.write_text("a" * 60 + " N\n")
    with pytest.raises(ValueError, match="may take too long"):
        tag_corpus(own, [source], tmp_path / "out")
    report = tag_corpus(own, [source], tmp_path / "out2", features=f"template:{given}")
    assert report.tokens == 1


def test_the_bound_on_expressions_is_one() -> None:
    """The pattern that backtracks most is counted, at the lengths that it is allowed."""
    # Far beyond the bound some of them would take hours: then the child is ended.
    code = "import re, sys; re.search(sys.argv[1], 'a' * int(sys.argv[2]) + '!')"
    for pattern in ("a*a*a*b", "a?" * 12 + "b", ".*?.*?.*?.*?x", r"\w*?[a-z]*?a*?b", "a?a*?$"):
        longest = longest_text(pattern)
        assert longest >= 0
        done = children.run(code, pattern, str(min(longest, 10_000)), timeout=60)
        assert done.returncode == 0, done.stderr


def test_numbers_of_macros_have_an_end(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text("a N\n")
    for row, column in (("0", "9" * 20), ("9" * 5000, "0"), ("0", "9" * 5000)):
        bad = own_template(model, tmp_path, f"U:%x[{row},{column}]")
        with pytest.raises(ValueError, match="is no macro") as info:
            tag_corpus(bad, [source], tmp_path / "out")
        assert str(info.value).startswith(f"{bad}.json: template:t.txt: template, line 1: ")
        assert len(str(info.value)) < 500
    bad = own_template(model, tmp_path, "U:%x[0,999999999]")
    with pytest.raises(ValueError, match="token 1 of the sentence has 2 columns") as info:
        tag_corpus(bad, [source], tmp_path / "out")
    assert str(info.value).startswith(f"{source}: ")
    assert str(bad) in str(info.value)


def test_half_a_character_beside_a_model_is_named(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text("a N\n")
    bad = own_template(model, tmp_path, "U:\ud800%x[0,0]")
    with pytest.raises(ValueError, match=r"'template' holds '\\ud800', half of a char") as info:
        tag_corpus(bad, [source], tmp_path / "out")
    assert str(info.value).startswith(f"{bad}.json: ")
