"""Whole files parsed: streams, shards, what is skipped, and what an interruption leaves."""

from __future__ import annotations

import gzip
import io
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stub_parser import StubParser, load

from valuesparse.corpora._files import fingerprint
from valuesparse.corpora._jobs import Halt, Halted, WrittenCounts, jobs_of, text_spans
from valuesparse.corpora._lock import locked
from valuesparse.corpora._run_file import RUN
from valuesparse.parsing import Sentence, evaluate, read_conll
from valuesparse.parsing._corpora import ParseSettings, parse_corpus, parse_file, parse_shard

WORDS = ["the", "dog", "barks", ".", "字"]


def block(rng: random.Random, number: int) -> str:
    lines = [f"# sent_id = {number}"]
    for i in range(1, rng.randint(1, 6) + 1):
        if i == 2:
            lines.append("1.1\te" + "\t_" * 8)
        lines.append(f"{i}\t{rng.choice(WORDS)}\t_\tX\t_\t_\t_\t_\t1:x\tA=b")
    return "\n".join(lines) + "\n\n"


def treebank(count: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    return "".join(block(rng, i) for i in range(count))


def expected(text: str, label: str = "x") -> str:
    """Return what the stub makes of a text, line by line."""
    blocks = []
    for part in text.removesuffix("\n\n").split("\n\n"):
        lines = part.split("\n")
        words = [i for i, line in enumerate(lines) if line.split("\t")[0].isdecimal()]
        for number, i in enumerate(words, 1):
            cells = lines[i].split("\t")
            head = 0 if number == len(words) else number + 1
            share = 0.5 + 0.5 * (number - 1) / (len(words) - 1) if len(words) > 1 else 0.5
            misc = f"A=b|HeadProbability={share:.6f}"
            lines[i] = "\t".join([*cells[:6], str(head), label, "_", misc])
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_text("x")
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_one_file(packed: bool, tmp_path: Path) -> None:
    text = treebank(700) + "# only this\n\n"
    end = ".gz" * packed
    source, target = tmp_path / f"a.conllu{end}", tmp_path / f"b.conllu{end}"
    source.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    parser, told = StubParser("x"), []
    counts = parse_file(parser, source, target, options={"threads": 1}, progress=told.append)
    found = target.read_bytes()
    assert (gzip.decompress(found) if packed else found).decode() == (
        expected(text.removesuffix("# only this\n\n")) + "# only this\n\n"
    )
    words = sum(line[:1].isdigit() and line[1] == "\t" for line in text.split("\n"))
    assert counts == told[-1] == WrittenCounts(700, words)
    assert parser.sizes == [0, 256, 256, 188]
    assert evaluate(target, target).uas == 1
    # On several threads files are read ahead: nothing shows of it.
    parse_file(StubParser("x"), source, target, options={"threads": 3})
    assert target.read_bytes() == found
    # In place, too.
    parse_file(parser, source, source, options={})
    assert source.read_bytes() == found


def test_files_of_text_are_refused_by_name() -> None:
    for name in ("source", "target"):
        files = {"source": io.BytesIO(), "target": io.BytesIO(), name: io.StringIO()}
        with pytest.raises(TypeError, match=f"{name}: a binary file is needed, and StringIO is"):
            parse_file(StubParser("x"), files["source"], files["target"], options={})


def test_sentences_that_are_solved_one_by_one_are_told_so(tmp_path: Path) -> None:
    class Slow(StubParser):
        def parse(self, sentences: list[Sentence], **options: Any) -> Iterator[Sentence]:
            return super().parse(sentences, **{**options, "method": "exact"})

    source, target, told = tmp_path / "a.conllu", tmp_path / "b.conllu", []
    source.write_text(treebank(300))
    counts = parse_file(
        Slow("x"), source, target, options={"method": "lp", "threads": 1}, progress=told.append
    )
    assert sorted({so_far.sentences for so_far in told}) == list(range(1, 301))
    assert told == sorted(told)
    assert told[-1] == counts


def test_a_shard_ends_between_two_sentences(tmp_path: Path, model: Path) -> None:
    halt, done = Halt(), []
    ender = threading.Thread(target=halt.end)

    class Ended(StubParser):
        def parse(self, sentences: list[Sentence], **options: Any) -> Iterator[Sentence]:
            for sentence in super().parse(sentences, **options):
                done.append(sentence)
                if len(done) == 3:
                    ender.start()
                    ender.join(0.05)  # it waits for this shard
                yield sentence

    source = tmp_path / "a.conllu"
    source.write_text(treebank(20))
    settings = ParseSettings(Ended, str(model), fingerprint(model), {}, "stop", 1)
    (job,) = jobs_of(source, "conllu", tmp_path, text_spans(source, 1 << 20), settings)
    with pytest.raises(Halted):
        parse_shard(job, halt)
    assert len(done) == 3


def test_an_empty_input_is_an_empty_output(tmp_path: Path, model: Path) -> None:
    for content in (b"", b"\n\n\n"):
        (tmp_path / "a.conllu").write_bytes(content)
        parse_file(StubParser("x"), tmp_path / "a.conllu", tmp_path / "b.conllu", options={})
        assert (tmp_path / "b.conllu").read_bytes() == b""
        parse_corpus(load, model, tmp_path / "a.conllu", tmp_path / f"o{len(content)}", options={})
        assert (tmp_path / f"o{len(content)}" / "a.conllu").read_bytes() == b""


BAD = {
    "1\tno": "2 columns apart by tabs, CoNLL-U has 10",
    "2\ta\t_\t_\t_\t_\t_\t_\t_\t_": "ID '2' is out of order, 1 is next",
    "1\trefuse-me\t_\t_\t_\t_\t_\t_\t_\t_": "has no tree",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bad", BAD)
def test_what_is_wrong_ends_the_run_or_is_copied(
    bad: str, threads: int, tmp_path: Path, model: Path
) -> None:
    options = {"threads": threads}
    before, after = treebank(300), treebank(5, seed=1)
    source, target = tmp_path / "a.conllu", tmp_path / "b.conllu"
    text = f"{before}# bad\n{bad}\n\n{after}"
    source.write_text(text)
    target.write_text("as it was")
    line = before.count("\n") + 1 + (BAD[bad] != "has no tree")
    message = rf"a\.conllu: line {line}, sentence: .*{BAD[bad]}"
    with pytest.raises(ValueError, match=message):
        parse_file(StubParser("x"), source, target, options=options)
    assert target.read_text() == "as it was"
    counts = parse_file(StubParser("x"), source, target, options=options, on_error="skip")
    middle = f"# bad\n{bad}\n\n"
    assert target.read_text() == expected(before) + middle + expected(after)
    assert (counts.sentences, counts.left) == (305, 1)
    [note] = counts.notes
    assert note.startswith(f"{source}: line {line}, sentence: ")
    assert BAD[bad] in note
    with pytest.raises(ValueError, match=message):
        parse_corpus(load, model, source, tmp_path / "out", options={})
    assert not (tmp_path / "out" / "a.conllu").exists()
    told: list[WrittenCounts] = []
    parse_corpus(
        load, model, source, tmp_path / "out", options={}, on_error="skip", tell=told.append
    )
    assert (tmp_path / "out" / "a.conllu").read_bytes() == target.read_bytes()
    assert told == [counts]


@pytest.mark.parametrize("bad", ["# bad\r", "1\ta" + "\t_" * 8 + "\r", "# c\n\r"])
def test_what_could_not_be_written_is_copied_byte_for_byte(
    bad: str, tmp_path: Path, model: Path
) -> None:
    source, target = tmp_path / "a.conllu", tmp_path / "b.conllu"
    middle = bad.replace("\r", "\r\r") + "\n\n"
    source.write_bytes((treebank(2) + middle + treebank(3)).encode())
    line = treebank(2).count("\n") + 1 + bad.count("\n")
    with pytest.raises(ValueError, match=rf"a\.conllu: line {line}, sentence: "):
        parse_file(StubParser("x"), source, target, options={})
    assert not target.exists()
    counts = parse_file(StubParser("x"), source, target, options={}, on_error="skip")
    assert (counts.sentences, counts.left) == (5, 1)
    whole = (expected(treebank(2)) + middle + expected(treebank(3))).encode()
    assert target.read_bytes() == whole
    parse_corpus(load, model, source, tmp_path / "out", options={}, on_error="skip")
    assert (tmp_path / "out" / "a.conllu").read_bytes() == whole


def test_the_first_sentence_that_is_wrong_is_told(tmp_path: Path) -> None:
    """Also where a later one of the same batch cannot even be read."""
    source = tmp_path / "a.conllu"
    refused = "1\trefuse-me" + "\t_" * 8 + "\n\n"
    source.write_text(treebank(1) + refused + refused + "1\tno\n\n" + refused)
    line = treebank(1).count("\n") + 1
    with pytest.raises(ValueError, match=f"line {line}, sentence: .*has no tree"):
        parse_file(StubParser("x"), source, tmp_path / "b", options={})
    source.write_text(treebank(1) + "1\tno\n\n" + refused)
    with pytest.raises(ValueError, match=f"line {line}, sentence: 2 columns"):
        parse_file(StubParser("x"), source, tmp_path / "b", options={})
    source.write_text("1\tno\n\n" * 700)
    counts = parse_file(StubParser("x"), source, tmp_path / "b", options={}, on_error="skip")
    assert (counts.sentences, counts.left) == (0, 700)
    assert [note.split(",")[0] for note in counts.notes] == [
        f"{source}: line {number}" for number in (1, 3, 5, 7, 9)
    ]


def test_options_are_wrong_before_a_sentence_is(tmp_path: Path, model: Path) -> None:
    source = tmp_path / "a.conllu"
    source.write_text(treebank(2))
    for options, on_error, message in (
        ({"method": "none"}, "skip", "^method must be auto or exact, not 'none'"),
        ({}, "go on", "^on_error must be one of stop, skip, not 'go on'"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_file(StubParser("x"), source, tmp_path / "b", options=options, on_error=on_error)
        with pytest.raises(ValueError, match=message):
            parse_corpus(load, model, source, tmp_path / "out", options=options, on_error=on_error)
    model.write_text("")
    with pytest.raises(ValueError, match="is no model"):
        parse_corpus(load, model, source, tmp_path / "out", options={})
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileNotFoundError):
        parse_file(StubParser("x"), tmp_path / "none", tmp_path / "b", options={})
    model.write_text("x")
    with pytest.raises(ValueError, match="there is no file"):
        parse_corpus(load, model, [], tmp_path / "out", options={})


def test_an_interruption_leaves_the_old_output(tmp_path: Path) -> None:
    class Interrupted(StubParser):
        def parse(self, sentences: list[Sentence], **options: object) -> Iterator[Sentence]:
            if len(self.sizes) == 2:
                raise KeyboardInterrupt
            return super().parse(sentences, **options)

    source, target = tmp_path / "a.conllu", tmp_path / "b.conllu"
    source.write_text(treebank(700))
    target.write_text("as it was")
    for threads in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            parse_file(Interrupted("x"), source, target, options={"threads": threads})
        assert target.read_text() == "as it was"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.conllu", "b.conllu"]
    assert not [t for t in threading.enumerate() if "ThreadPool" in t.name]


@pytest.mark.parametrize("backend", ["threads", "loky", "dask"])
def test_shards_are_the_file(backend: str, tmp_path: Path, model: Path) -> None:
    source, other = tmp_path / "a.conllu", tmp_path / "b.conll"
    source.write_text(treebank(400))
    other.write_text("1\ta\t_\t_\t_\t_\t0\tx\t3\ty\n\n")
    sources, out = [source, other], tmp_path / "out"

    def run() -> tuple[Path, ...]:
        report = parse_corpus(
            load, model, sources, out, options={"method": "exact"}, backend=backend, jobs=2,
            shard_bytes=4000,
        )  # fmt: skip
        assert report.sentences == 401
        return report.outputs

    if backend == "dask":
        distributed = pytest.importorskip("distributed", reason="needs the extra dask")
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster),
        ):
            outputs = run()
    else:
        outputs = run()
    assert len(outputs) > 5
    assert outputs[1].name == f"a-00001-of-{len(outputs) - 1:05d}.conllu"
    whole = "".join(path.read_text() for path in outputs[:-1])
    assert whole == expected(source.read_text())
    # CoNLL-X has no column for a probability, and others of the old tree.
    assert outputs[-1].read_text() == "1\ta\t_\t_\t_\t_\t0\tx\t_\t_\n\n"


def test_a_run_goes_on_where_it_was_cut(tmp_path: Path, model: Path) -> None:
    source, out = tmp_path / "a.conllu", tmp_path / "out"
    source.write_text(treebank(400))
    options = {"options": {"method": "exact"}, "shard_bytes": 4000}

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parse_corpus(load, model, source, out, jobs=1, progress=stop, **options)
    assert not list(out.glob(".*"))
    report = parse_corpus(load, model, source, out, **options)
    assert 0 < report.skipped < len(report.outputs)
    assert report.sentences < 400
    assert sum(1 for path in report.outputs for _ in read_conll(path)) == 400
    told = json.loads((out / RUN).read_text())
    assert (told["method"], told["on_error"]) == ("exact", "stop")
    again = parse_corpus(load, model, source, out, **options)
    assert (again.skipped, again.sentences) == (len(again.outputs), 0)
    for changed, message in (
        ({"options": {"method": "auto"}}, "a run with other method;"),
        ({"on_error": "skip"}, "a run with other on_error;"),
        ({"shard_bytes": 4001}, "a run with other shard_bytes;"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_corpus(load, model, source, out, **{**options, **changed})
    model.write_text("another")
    with pytest.raises(ValueError, match="a run with other model_sha256;"):
        parse_corpus(load, model, source, out, **options)
    with locked(out.resolve()), pytest.raises(ValueError, match="another run writes there"):
        parse_corpus(load, model, source, out, **options)


def test_a_model_that_changes_meanwhile_is_noticed(tmp_path: Path, model: Path) -> None:
    source, out = tmp_path / "a.conllu", tmp_path / "out"
    source.write_text(treebank(100))

    def change(done: int, total: int) -> None:
        model.write_text("another")

    # Other processes load it themselves.
    with pytest.raises(ValueError, match="is not the model that the run began with"):
        parse_corpus(
            load, model, source, out, options={}, backend="loky", jobs=2, shard_bytes=1000,
            progress=change,
        )  # fmt: skip


def test_an_input_that_changes_meanwhile_is_an_error(tmp_path: Path, model: Path) -> None:
    source, out = tmp_path / "a.conllu", tmp_path / "out"
    text = treebank(300)
    source.write_text(text)

    def change(done: int, total: int) -> None:
        if done and len(source.read_text()) == len(text):
            source.write_text(text[: len(text) // 2])

    with pytest.raises(ValueError, match=r"a\.conllu: it changed while it was read"):
        parse_corpus(
            load, model, source, out, options={}, jobs=1, shard_bytes=2000, progress=change
        )
    source.write_text(text)
    report = parse_corpus(load, model, source, out, options={}, jobs=1, shard_bytes=2000)
    assert report.skipped == 1
    assert "".join(path.read_text() for path in report.outputs) == expected(text)
