"""Every command through a pipe, against the same through files; what each says and refuses."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import threading
from pathlib import Path

import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from command_line import NER, TEXT, out, run

from tests.parsing.treebank import treebank
from valuesparse.cli._group import COMMANDS
from valuesparse.crf import evaluate, tag_corpus, tag_file, train_corpus
from valuesparse.parsing import write_conll

NETWORK = "MARKOV\n2\n2 2\n1\n2 0 1\n4\n0.1 0.2 0.3 0.4\n"


def test_train(source: Path, tmp_path: Path) -> None:
    out("train", source, "-o", tmp_path / "file", "-p", "max_iterations=3", "--dev", source)
    options = ("-p", "max_iterations=3", "--dev", source)
    out("train", "-", "-o", tmp_path / "piped", *options, given=source)
    assert out("train", "-", "-o", "-", *options, given=source) == (
        (tmp_path / "file").read_bytes()
    )
    for end in ("", ".json"):
        left, right = (tmp_path / f"{name}{end}" for name in ("file", "piped"))
        assert left.read_bytes() == right.read_bytes()
    packed = gzip.compress(source.read_bytes())
    options = ("-p", "max_iterations=3", "--dev", "-")
    out("train", source, "-o", tmp_path / "dev", *options, given=packed)
    assert (tmp_path / "dev").read_bytes() == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("kind", ["conll", "conllu", "tsv", "attributes", "jsonl", "text"])
@pytest.mark.parametrize("options", [(), ("--n-best", 2), ("--output-format", "jsonl")])
def test_tag(model: Path, tmp_path: Path, kind: str, options: tuple[object, ...]) -> None:
    texts = {
        "conll": TEXT,
        "conllu": "# s\n1\tthe\tthe" + "\t_" * 7 + "\n2\tdog\tdog" + "\t_" * 7 + "\n\n",
        "tsv": "form\tnote\nthe\tx\ndog\ty\n\nran\tz\n",
        "attributes": "DET\tw=the\nNOUN\tw=dog\n\n",
        "jsonl": '{"id": 7, "words": ["the", "dog"]}\n\n{"tokens": ["ran"]}\n',
        "text": "the dog\n\nran\n",
    }
    source, target = tmp_path / f"a.{kind}", tmp_path / "out"
    source.write_text(texts[kind])
    words = ("--input-format", kind, "--features", "words", *options)
    said = run("tag", model, source, "-o", target, *words)
    assert said.exit_code == 0, said.output
    whole = target.read_bytes()
    assert whole == out("tag", model, source, *words)
    assert whole == out("tag", model, "-", "-o", "-", *words, given=source)
    assert whole == out("tag", model, *words, given=gzip.compress(source.read_bytes()))
    assert whole == out("tag", "-", source, *words, given=model)
    out("tag", model, source, "-o", f"{tmp_path}/folder/", *words)
    (made,) = [path for path in (tmp_path / "folder").glob("a.*")]
    assert made.read_bytes() == whole
    written = (
        {"text": "conll"}.get(kind, kind) if not options or options[0] == "--n-best" else "jsonl"
    )
    assert made.suffix == f".{written}"


def test_a_model_from_a_pipe_says_what_it_lacks(model: Path, source: Path) -> None:
    whole = out("tag", model, source, "--features", "words")
    silent = run("tag", "-", source, "--features", "words", given=model)
    assert silent.stdout_bytes == whole
    assert "MODEL.json" not in silent.stderr
    told = run("tag", "-", source, given=model)
    assert told.stdout_bytes == whole
    assert "--features" in told.stderr
    assert "--constraints" in told.stderr


def test_tag_writes_the_label_as_one_column(model: Path, source: Path, tmp_path: Path) -> None:
    tagged = out("tag", model, source).decode().splitlines()
    assert tagged[0].split(" ")[:3] == ["the", "DET", "DET"]
    assert [len(line.split(" ")) for line in tagged[:4]] == [4, 4, 4, 1]
    assert out("tag", model, source, "--marginals", "none").decode().startswith("the DET DET\n")
    # A file's name tells how it is written.
    out("tag", model, source, "-o", tmp_path / "b.jsonl")
    record = json.loads((tmp_path / "b.jsonl").read_text().splitlines()[0])
    assert record["words"] == ["the", "dog", "ran"]
    assert record["predicted"] == ["DET", "NOUN", "VERB"]
    assert [f"{p:.6f}" for p in record["probability"]] == [row.split(" ")[3] for row in tagged[:3]]
    every = json.loads(
        out("tag", model, tmp_path / "b.jsonl", "--marginals", "all").splitlines()[0]
    )
    assert sum(every["marginals"][0].values()) == pytest.approx(1)
    best = json.loads(out("tag", model, tmp_path / "b.jsonl", "--n-best", 30).splitlines()[0])[
        "n_best"
    ]
    assert len(best) == 27
    assert sum(one["probability"] for one in best) == pytest.approx(1)
    three = out("tag", model, source, "--n-best", 3, "--marginals", "none").decode().splitlines()
    assert three[0].split(" ")[2:] == [one["labels"][0] for one in best[:3]]
    few = out("tag", model, "--n-best", 4, given=b"the\n").decode()
    assert few.split()[-2:] == ["_", "0.000000"]


@pytest.mark.parametrize("kind", ["jsonl", "text"])
def test_lines_are_cut_into_shards(model: Path, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "a.jsonl"
    lines = ["the dog ran", "", "a cat", "x" * 90, "the \u5b57"] * 3
    if kind == "jsonl":
        lines = [json.dumps({"words": line.split()}) if line else "" for line in lines]
    source.write_text("\n".join(lines), encoding="utf-8")
    tag_file(model, source, tmp_path / "whole", input_format=kind)
    for size in (1, 40, 1000):
        folder = tmp_path / str(size)
        report = tag_corpus(model, source, folder, input_format=kind, shard_bytes=size, jobs=1)
        assert len(report.outputs) > 1 or size == 1000
        assert b"".join(path.read_bytes() for path in report.outputs) == (
            (tmp_path / "whole").read_bytes()
        )


def test_constraints(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conll", tmp_path / "m"
    source.write_text(NER)
    options = ("-p", "max_iterations=3", "--constraints", "BIO")
    out("train", source, "-o", model, *options, "--dev", source)
    wanted = b"Lee\nLee\nran\nLee\n"
    plain = ("tag", model, "--marginals", "none")
    free = out(*plain, "--constraints", "none", given=wanted).decode().split()[1::2]
    held = out(*plain, given=wanted)  # the model was trained under it
    assert free[0] == "I-PER"
    assert held.decode().split()[1] != "I-PER"
    assert held == out(*plain, "--constraints", "BIO", given=wanted)
    assert held == out(*plain, "--features", "words", given=wanted)
    beside = tmp_path / "m.json"
    assert json.loads(beside.read_text())["constraints"] == "BIO"
    (tmp_path / "words").write_bytes(wanted)
    folder = tmp_path / "folder"
    words = {"input_format": "conll", "marginals": "none"}
    report = tag_corpus(model, tmp_path / "words", folder, **words)
    assert report.outputs[0].read_bytes() == held
    with pytest.raises(ValueError, match="with other constraints"):
        tag_corpus(model, tmp_path / "words", folder, constraints="none", **words)
    kept = beside.read_text()
    beside.write_text(kept.replace('"BIO"', '"BILOU"'))
    result = run(*plain, given=wanted)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {beside}: 'constraints' must be one of BIO, BIOES, IOB1, not 'BILOU'\n"
    )
    beside.write_text(kept.replace('"model_sha256": "', '"model_sha256": "0'))
    told = ("--features", "words", "--word", 1)  # of a file that is another model's nothing is used
    assert out(*plain, *told, given=wanted).decode().split()[1::2] == free
    beside.write_text(kept)
    result = run("train", source, "-o", model, "--constraints", "BIOES")
    assert result.exit_code == 1, result.output
    source.write_text("Lee I-PER\n")
    result = run("train", source, "-o", model, *options)
    assert (result.exit_code, "I-PER" in result.stderr) == (1, True), result.output


def test_dump(model: Path, tmp_path: Path) -> None:
    out("dump", model, "-o", tmp_path / "text")
    whole = (tmp_path / "text").read_bytes()
    assert whole.startswith(b"FILEHEADER = {\n  magic: lCRF\n")
    assert whole == out("dump", model) == out("dump", "-", "-o", "-", given=model)


def test_models_of_graphs(tmp_path: Path) -> None:
    source, evidence = tmp_path / "m.uai", tmp_path / "m.evid"
    source.write_text(NETWORK)
    evidence.write_text("1 0 1\n")
    piped = ("-", "--input-format", "uai", "-q")
    for task in ("MAR", "PR", "MPE"):
        whole = out("solve", source, "-k", task, "-e", evidence, "-q")
        out("solve", source, "-k", task, "-e", evidence, "-o", tmp_path / "answer", "-q")
        assert whole == (tmp_path / "answer").read_bytes()
        assert whole == out("solve", *piped, "-k", task, "-e", evidence, "-o", "-", given=source)
        assert whole == out("solve", source, "-k", task, "-e", "-", "-q", given=evidence)
    json_evidence = b' {"0": 1}'
    assert out("solve", source, "-e", "-", "-q", given=json_evidence) == out(
        "solve", source, "-e", evidence, "-q"
    )
    answer = out("solve", *piped, "-f", "json", given=source)
    assert answer == out("solve", source, "-f", "json", "-q")
    first, _, rest = out("info", source).partition(b"\n")
    other, _, piped_rest = out("info", *piped[:-1], given=source).partition(b"\n")
    assert (first, other) == (b"m.uai", b"-")
    kept = [
        [line for line in text.splitlines() if not line.startswith(b"time")]
        for text in (rest, piped_rest)
    ]
    assert kept[0] == kept[1]
    result = run("solve", "-", given=source)
    assert (result.exit_code, "the name '-' does not tell" in result.stderr) == (2, True)
    result = run("solve", "-", "--input-format", "fg", given=source)
    assert (result.exit_code, result.stderr[:9]) == (1, "Error: -:"), result.output


def test_convert(tmp_path: Path) -> None:
    source = tmp_path / "m.uai"
    source.write_text(NETWORK)
    out("convert", source, tmp_path / "m.fg")
    whole = (tmp_path / "m.fg").read_bytes()
    formats = ("--input-format", "uai", "--output-format", "fg")
    assert whole == out("convert", "-", "-", *formats, given=source)
    out("convert", tmp_path / "m.fg", tmp_path / "back.uai")
    out("convert", tmp_path / "back.uai", tmp_path / "again.fg")
    assert (tmp_path / "again.fg").read_bytes() == whole
    assert (tmp_path / "back.uai").read_text().startswith("MARKOV\n")
    network = (
        "network n {}\nvariable a { type discrete [ 2 ] { yes, no }; }\n"
        "variable b { type discrete [ 2 ] { u, v }; }\n"
        "probability ( a ) { table 0.25, 0.75; }\n"
        "probability ( b | a ) { (yes) 0.5, 0.5; (no) 1.0, 0.0; }\n"
    )
    (tmp_path / "n.bif").write_text(network)
    out("convert", tmp_path / "n.bif", tmp_path / "n.uai")
    out("convert", tmp_path / "n.bif", tmp_path / "m.bif")
    assert (tmp_path / "n.uai").read_text().startswith("BAYES\n")
    for name in ("n.bif", "n.uai", "m.bif"):
        answer = out("solve", tmp_path / name, "-q").split()[1:]
        expected = [2, 2, 0.25, 0.75, 2, 0.875, 0.125]
        assert [float(x) for x in answer] == pytest.approx(expected)
    out("convert", tmp_path / "n.bif", tmp_path / "markov.uai")
    text = (tmp_path / "markov.uai").read_text()
    (tmp_path / "bayes.uai").write_text(text.replace("MARKOV", "BAYES"))
    out("convert", tmp_path / "bayes.uai", tmp_path / "b.bif")
    assert "table 0.25, 0.75;" in (tmp_path / "b.bif").read_text()
    out("convert", tmp_path / "b.bif", tmp_path / "b.uai")
    assert (tmp_path / "b.uai").read_text() == text
    piped = ("--input-format", "bif", "--output-format", "bif")
    whole = out("convert", "-", "-", *piped, given=tmp_path / "n.bif")
    assert whole == (tmp_path / "m.bif").read_bytes()
    result = run("convert", source, tmp_path / "m2.bif")
    assert result.exit_code == 1, result.output  # it is no Bayesian network
    result = run("convert", source, tmp_path / "x")
    assert (result.exit_code, "say --output-format uai|fg|bif" in result.stderr) == (2, True)


def test_parse(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conllu", tmp_path / "model"
    write_conll(treebank(12), source)
    options = ("--order", 1, "--epochs", 1, "-t", 1)
    out("parse", "train", source, "-o", model, *options)
    assert out("parse", "train", "-", "-o", "-", *options, given=source) == model.read_bytes()
    parsed = tmp_path / "b.conllu"
    out("parse", "predict", model, source, "-o", parsed)
    whole = parsed.read_bytes()
    assert whole == out("parse", "predict", model, source)
    assert whole == out("parse", "predict", model, given=source)
    assert whole == out("parse", "predict", "-", source, "-o", "-", given=model)
    out("parse", "predict", model, source, "-o", f"{tmp_path}/folder/")
    assert whole == (tmp_path / "folder" / "a.conllu").read_bytes()
    for extra in ((), ("--json",)):
        scores = out("parse", "evaluate", source, parsed, *extra)
        assert scores == out("parse", "evaluate", "-", parsed, *extra, given=source)
        assert scores == out("parse", "evaluate", source, "-", *extra, given=parsed)


def test_tune_reads_pipes(model: Path, source: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the command line needs the cli extra")
    options = ("--zeta", 0.9, "-t", 1, "-o", tmp_path / "a.png")
    result = run("tune", model, "-", *options, given=source)
    assert result.exit_code in (0, 1), result.output  # 1: nothing is fast and right enough
    assert result.stdout.startswith("-\n")
    assert "40 sequences, 100 tokens, 3 labels" in result.stdout


def test_a_pipe_is_named_with_the_line(model: Path) -> None:
    text = b"the DET\n\n" * 3000 + b"dog NOUN\nran\n"
    result = run("tag", model, given=text)
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: -: line 6002, sentence: 1 columns, the tokens before it have 2\n"
    )
    assert result.stdout.startswith("the DET DET ")
    result = run("tag", model, "--input-format", "jsonl", given=b'{"words": ["a"]}\n{"words": 1}\n')
    assert "-: line 2, sentence: 'words' must be a list of texts" in result.stderr
    for bad, said in (
        (b"[1]", "not an object such as"), (b"{", "no JSON"), (b"{}", "no 'words' or 'tokens'"),
        (b'{"words": ["\\ud800"]}', "half of a character"),
        (b'{"words": ["a", ""]}', "word 2 of 'words' is empty: leave it out, and its label"),
        (b'{"words": ["a", 1]}', "'words' must be a list of texts"),
    ):  # fmt: skip
        assert said in run("tag", model, "--input-format", "jsonl", given=bad).stderr
    for label, said in (
        ("", "label 2 of 'tags' is empty: write"),
        (1, "'tags' must be a list"),
    ):
        text = json.dumps({"words": ["a", "b"], "tags": ["X", label]}).encode()
        result = run("eval", "-", model, "--input-format", "jsonl", given=text)
        assert f"-: sentence 1: gold_column: {said}" in result.stderr
    tabs = b'{"words": ["a\\tb"]}'
    result = run("tag", model, "--input-format", "jsonl", "--output-format", "conll", given=tabs)
    assert "word 1, 'a\\tb', cannot stand in a column" in result.stderr
    result = run("tag", model, "--input-format", "parquet", given=b"PAR1")
    assert (result.exit_code, result.stderr[:11]) == (1, "Error: -: P"), result.output
    assert "valuesparse-" not in result.stderr
    result = run("train", "-", "-o", model.with_name("no"), "--input-format", "text", given=b"a\n")
    assert "plain text has no labels" in result.stderr


def test_dev_stops_and_keeps_the_best(source: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.conll"
    dev.write_text("the DET\ncat NOUN\n\nzebra ZZ\n\n")
    result = run("train", source, "-o", tmp_path / "m", "--dev", dev, "--patience", 2, "-t", 1)
    assert result.exit_code == 0, result.output
    told = [line for line in result.stderr.splitlines() if line.startswith("iteration ")]
    assert told[0].startswith("iteration 1, loss ")
    assert told[0].endswith("accuracy 66.67% on --dev")
    assert "(no better on --dev)" in result.stdout
    assert "accuracy 66.67% on --dev after iteration" in result.stdout
    assert b"zebra" not in (tmp_path / "m").read_bytes()
    assert b"ZZ" not in (tmp_path / "m").read_bytes()
    state = tmp_path / "state"
    result = run("train", source, "-o", tmp_path / "m", "--dev", dev, "--checkpoint", state)
    assert (result.exit_code, "dev cannot go with checkpoint" in result.stderr) == (1, True)
    result = run("train", source, "-o", dev, "--dev", dev)
    assert (result.exit_code, "would be lost" in result.stderr) == (1, True)


def test_no_model_is_replaced_by_answers(model: Path, source: Path, tmp_path: Path) -> None:
    """A name that stands twice in a line must not cost the model."""
    network, known, trees = tmp_path / "g.uai", tmp_path / "g.evid", tmp_path / "t.conllu"
    network.write_text(NETWORK)
    known.write_text("1 0 1\n")
    write_conll(treebank(), trees)
    parser = tmp_path / "parser"
    out("parse", "train", trees, "-o", parser, "--epochs", 1, "--order", 1)
    for files, command in (
        ((model, model.with_name(f"{model.name}.json")), ("tag", model, source)),
        ((parser,), ("parse", "predict", parser, trees)),
        ((network, known), ("solve", network, "--evidence", known)),
        ((network,), ("convert", network, "--output-format", "uai")),
        ((model, model.with_name(f"{model.name}.json")), ("dump", model)),
        ((model, model.with_name(f"{model.name}.json"), source), ("tune", model, source)),
    ):
        for file in files:
            before = file.read_bytes()
            result = run(*command, *([] if command[0] == "convert" else ["-o"]), file)
            assert (result.exit_code, "would be lost" in result.stderr) == (1, True), result.output
            assert file.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes a pipe, which Windows lacks")
def test_named_pipes_are_read_once(model: Path, source: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.conll"
    os.mkfifo(pipe)

    def fill() -> threading.Thread:
        thread = threading.Thread(target=pipe.write_text, args=(TEXT,))
        thread.start()
        return thread

    writer = fill()
    train_corpus([pipe], tmp_path / "m", params={"max_iterations": 5})
    writer.join()
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    writer = fill()
    tag_file(model, pipe, tmp_path / "piped", input_format="conll")
    writer.join()
    tag_file(model, source, tmp_path / "file")
    assert (tmp_path / "piped").read_bytes() == (tmp_path / "file").read_bytes()
    assert evaluate(source, source).accuracy == 1


def test_the_help_names_every_command() -> None:
    text = run("--help").output
    for name, line in COMMANDS.items():
        assert line in text
        found = run(name, "--help")
        assert found.exit_code == 0, found.output
        assert len(line) <= 45
    assert run("nonsense").exit_code == 2


def test_a_copy_of_the_standard_input_goes_where_arguments_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for wrong in (["-"], ["--damping", "2"], ["--none"]):
        assert run("parse", "predict", "-", *wrong, given=b"no model").exit_code == 2
        assert list(tmp_path.iterdir()) == []
