"""`valuesparse parse`, as a user would call it; a stub stands for the parser where that will do."""

from __future__ import annotations

import json
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import stub_parser

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from click.testing import CliRunner, Result

from tests.parsing.treebank import treebank
from valuesparse import parsing
from valuesparse.cli import parse
from valuesparse.cli._group import valuesparse
from valuesparse.parsing import Sentence, read_conll, write_conll

GOLD = [Sentence(["Dogs", "bark", "."], heads=[2, 0, 2], labels=["nsubj", "root", "punct"])]
BAD = "1\trefuse-me" + "\t_" * 8 + "\n\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(valuesparse, ["parse", *map(str, arguments)])


def test_evaluate(tmp_path: Path) -> None:
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    write_conll(GOLD, gold)
    write_conll([GOLD[0].parsed([2, 0, 1], ["obj", "root", "punct"])], system)
    result = run("evaluate", gold, system)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[1:] == [
        ["UAS", "66.67%", "100.00%"], ["LAS", "33.33%", "50.00%"], ["words", "3", "2"],
    ]  # fmt: skip
    found = json.loads(run("evaluate", gold, system, "--json").stdout)
    assert found["uas"] == 2 / 3
    assert {k: found[k] for k in ("las", "uas_no_punct", "las_no_punct", "words", "arcs")} == {
        "las": 1 / 3, "uas_no_punct": 1, "las_no_punct": 0.5, "words": 3, "arcs": 1,
    }  # fmt: skip


def test_sentences_that_differ_end_in_status_1(tmp_path: Path) -> None:
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    write_conll(GOLD, gold)
    write_conll([Sentence(["Dogs", "barked", "."], heads=[2, 0, 2])], system)
    result = run("evaluate", gold, system)
    assert result.exit_code == 1
    assert result.output == (
        f"Error: sentence 1: word 2 is 'bark' in {gold}, 'barked' in {system}\n"
    )
    system.write_text("1\tDogs\n")
    result = run("evaluate", gold, system)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {system}: line 1, sentence: 2 columns apart by tabs")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the model of a stub, which `valuesparse parse predict` loads."""
    (tmp_path / "model").write_text("x")
    monkeypatch.setattr(parsing, "load", stub_parser.load)
    return tmp_path / "model"


def test_predict_one_file(model: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "a.conllu", tmp_path / "b.conllu"
    write_conll(GOLD * 3, source)
    result = run("predict", model, source, "-o", target, "--method", "exact", "-t", 1)
    assert result.exit_code == 0, result.output
    assert result.output == f"3 sentences, 9 words parsed into {target}\n"
    assert [s.heads.tolist() for s in read_conll(target)] == [[2, 3, 0]] * 3
    assert "HeadProbability=0.500000" in target.read_text()
    assert stub_parser.seen == {
        "method": "exact", "threshold": 1e-4, "max_rounds": 1, "constraint": None,
        "single_root": None, "prune": True, "threads": 1,
    }  # fmt: skip
    options = ["--threshold", 0.5, "--max-rounds", 3, "--constraint", "projective"]
    result = run("predict", model, source, "-o", target, *options, "--multi-root", "--no-prune")
    assert result.exit_code == 0, result.output
    assert stub_parser.seen == {
        "method": "auto", "threshold": 0.5, "max_rounds": 3, "constraint": "projective",
        "single_root": False, "prune": False, "threads": None,
    }  # fmt: skip
    result = run("predict", model, source, "-o", target, "--min-joint", 0.25, "--damping", 0.5)
    assert result.exit_code == 0, result.output
    assert (stub_parser.seen["min_joint"], stub_parser.seen["damping"]) == (0.25, 0.5)
    source.write_text("")
    result = run("predict", model, source, "-o", target)
    assert result.output == f"0 sentences, 0 words parsed into {target}\n"
    assert target.read_bytes() == b""


def test_predict_does_not_write_over_the_model(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conllu"
    source.write_text("1\tDogs\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    result = run("predict", model, source, "-o", model)
    assert result.exit_code == 1
    assert f"--output: {model} is the model, and would be lost" in result.output
    assert model.read_text() == "x"


@pytest.mark.parametrize("named", ["itself", "symbolic link", "hard link"])
def test_predict_does_not_write_over_its_input(model: Path, tmp_path: Path, named: str) -> None:
    source = other = tmp_path / "a.conllu"
    write_conll(GOLD, source)
    if named != "itself":
        other = tmp_path / "b.conllu"
        (other.symlink_to if named == "symbolic link" else other.hardlink_to)(source)
    before = source.read_bytes()
    for read, written in ((source, other), (other, source)):
        result = run("predict", model, read, "-o", written)
        assert result.exit_code == 1
        assert f"--output: {written} is the input, and would be lost" in result.output
        assert source.read_bytes() == before


def test_a_model_and_its_checkpoint_are_two_files(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conllu", tmp_path / "m"
    write_conll(GOLD, source)
    (tmp_path / "folder").mkdir()
    for name in (model, tmp_path / "folder" / ".." / "m"):
        result = run("train", source, "-o", model, "--checkpoint", name)
        assert result.exit_code == 1
        assert f"checkpoint: {name} is the model, and would be lost" in result.output
        assert not model.exists()


def test_predict_into_a_folder(model: Path, tmp_path: Path) -> None:
    sources = [tmp_path / "a.conllu", tmp_path / "b.conllx"]
    for source in sources:
        write_conll(GOLD, source)
    out = tmp_path / "out"
    again = ("--output-dir", out, "--jobs", 2, "--threads", 1)
    result = run("predict", model, *sources, *again)
    assert result.exit_code == 0, result.output
    assert result.output == "2 sentences, 6 words parsed into 2 files\n"
    assert [s.heads.tolist() for s in read_conll(out / "b.conllx")] == [[2, 3, 0]]
    result = run("predict", model, *sources, *again, "--backend", "threads", "-q")
    assert result.output == "nothing to do: 2 files are there already\n"
    result = run("predict", model, *sources, *again, "--method", "exact")
    assert result.exit_code == 1
    assert "holds the output of a run with other method" in result.output


def test_predict_stops_at_what_is_wrong_or_says_so(model: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "a.conllu", tmp_path / "b.conllu"
    write_conll(GOLD, source)
    source.write_text(source.read_text() + "1\tno\n\n" + BAD * 7)
    result = run("predict", model, source, "-o", target)
    assert (result.exit_code, target.exists()) == (1, False)
    assert result.output == (
        f"Error: {source}: line 5, sentence: 2 columns apart by tabs, CoNLL-U has 10\n"
    )
    for where in (("-o", target), ("--output-dir", tmp_path / "out")):
        result = run("predict", model, source, *where, "--on-error", "skip")
        assert result.exit_code == 0, result.output
        told = result.output.splitlines()
        assert told[0] == (
            f"Left as it was: {source}: line 5, sentence: 2 columns apart by tabs, CoNLL-U has 10"
        )
        assert len(told) == 7
        assert told[4].startswith(f"Left as it was: {source}: line 13, sentence: ")
        assert told[5] == "Left as they were: 8 sentences in all"
        assert told[6].startswith("1 sentence, 3 words parsed into ")
    assert target.read_bytes() == (tmp_path / "out" / "a.conllu").read_bytes()
    assert target.read_text().endswith("1\tno\n\n" + BAD * 7)


def test_predict_says_how_it_is_called(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conllu"
    write_conll(GOLD, source)
    for arguments, message in (
        ([source, "-o", tmp_path / "b", "--output-dir", tmp_path], "say one of them"),
        ([source, source], "several INPUT go to a folder"),
        ([source, source, "-o", source], "a.conllu is a file"),
        ([source, "-o", tmp_path / "b", "--jobs", 2], "end --output with a slash"),
        (["-", "-o", tmp_path], "text from a pipe goes to a file"),
        ([source, "-o", tmp_path, "--output-format", "conllx"], "a folder keeps the formats"),
        ([source, "-o", tmp_path / "none" / "b"], "does not exist"),
        ([source, "--method", "bp", "--threshold", 1e-4], "--threshold: method 'bp' makes no use"),
        ([source, "--method", "lp", "--max-rounds", 1], "--max-rounds: method 'lp' makes no use"),
        ([source, "--method", "ad3", "--damping", 0], "--damping: method 'ad3' makes no use"),
        ([source, "--min-size", 1, "--threshold", 1], "--min-size takes the place of --threshold"),
    ):
        result = run("predict", model, *arguments)
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())
    model.write_text("")
    result = run("predict", model, source, "-o", tmp_path / "b")
    assert (result.exit_code, result.output) == (1, f"Error: {model} is no model\n")


def test_beta_is_above_0(tmp_path: Path) -> None:
    write_conll(GOLD, tmp_path / "a.conllu")
    result = run("train", tmp_path / "a.conllu", "-o", tmp_path / "m", "--beta", 0)
    assert result.exit_code == 2
    assert "0.0 is not in the range x>0" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("command", "option", "value", "complaint"),
    [
        ("train", "--beta", "nan", "'nan' is no number"),
        ("train", "--gamma", "nan", "'nan' is no number"),
        ("train", "--seed", "-1", "-1 is not in the range x>=0"),
        ("predict", "--threshold", "nan", "'nan' is no number"),
        ("predict", "--damping", "nan", "'nan' is no number"),
    ],
)
def test_numbers_are_numbers(
    model: Path, tmp_path: Path, command: str, option: str, value: str, complaint: str
) -> None:
    write_conll(GOLD, tmp_path / "a.conllu")
    first = [model] if command == "predict" else []
    result = run(command, *first, tmp_path / "a.conllu", "-o", tmp_path / "m", option, value)
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("command", "function", "names"),
    [
        ("train", parsing.train, ["beta", "gamma", "epochs"]),
        ("predict", parsing.Parser.parse, ["max_iterations", "damping"]),
    ],
)
def test_the_help_tells_the_defaults_of_the_package(
    command: str, function: Any, names: list[str]
) -> None:
    options = {p.name: p for p in parse.parse.commands[command].params}
    for name in names:
        default = signature(function).parameters[name].default
        assert f"[default: {default:g}]" in options[name].help


def test_train_hands_its_options_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, model, seen = tmp_path / "a.conllu", tmp_path / "model", {}

    def train(sources: list[Path], **options: Any) -> stub_parser.StubParser:
        options.pop("progress")("epoch 1")
        seen.update(options, sources=sources)
        return stub_parser.StubParser("x")

    monkeypatch.setattr(parsing, "train", train)
    write_conll(GOLD, source)
    result = run("train", source, source, "-o", model)
    assert result.exit_code == 0, result.output
    assert result.output == f"Parser written to {model}\n"
    assert model.read_text() == "x"
    assert seen == {
        "sources": [source, source], "order": 2, "ignore": (), "seed": 0,
        "checkpoint": None, "constraint": None, "single_root": None, "prune": True,
        "threads": None, "features": "hashed", "nonprojective": False,
    }  # fmt: skip
    options = ["--order", 2, "--beta", "inf", "--gamma", 1, "--ignore", "xpos", "--ignore", "FEATS"]
    options += ["--epochs", 3, "--seed", 7, "--checkpoint", tmp_path / "state", "-t", 2]
    options += ["--features", "supported", "--nonprojective"]
    options += ["--constraint", "tree", "--single-root", "--no-prune"]
    result = run("train", source, "-o", model, *options)
    assert result.exit_code == 0, result.output
    assert seen == {
        "sources": [source], "order": 2, "beta": float("inf"), "gamma": 1,
        "ignore": ("XPOS", "FEATS"), "epochs": 3, "seed": 7, "checkpoint": tmp_path / "state",
        "features": "supported", "nonprojective": True,
        "constraint": "tree", "single_root": True, "prune": False, "threads": 2,
    }  # fmt: skip
    for arguments, words in (
        ([], "--nonprojective wants --beta inf: it has no marginals"),
        (
            ["--order", 1],
            "--nonprojective wants --order 2 and --constraint tree, not --order 1",
        ),
    ):
        result = run("train", source, "-o", model, "--nonprojective", *arguments)
        assert result.exit_code == 2
        assert words in " ".join(result.output.split())
    for arguments in (["-o", source], ["-o", model, "--checkpoint", source]):
        before = source.read_bytes()
        result = run("train", source, *arguments)
        assert result.exit_code == 1
        assert "is one of the inputs, and would be lost" in " ".join(result.output.split())
        assert source.read_bytes() == before


@pytest.mark.smoke
def test_from_a_treebank_to_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As large a table of weights as usual would take seconds.
    monkeypatch.setattr(parsing, "train", partial(parsing.train, bits=6))
    train, gold, model = tmp_path / "train.conllu", tmp_path / "gold.conllu", tmp_path / "model"
    write_conll(treebank(30), train)
    write_conll(treebank(40, seed=1), gold)
    result = run("train", train, "-o", model, "--order", 1, "--epochs", 3)
    assert result.exit_code == 0, result.output
    outputs = []
    for name, options in {
        "one": ["-t", 1], "three": ["-t", 3], "all": ["--no-prune", "--method", "exact"],
    }.items():  # fmt: skip
        outputs.append(tmp_path / f"{name}.conllu")
        result = run("predict", model, gold, "-o", outputs[-1], *options)
        assert result.exit_code == 0, result.output
        found = json.loads(run("evaluate", gold, outputs[-1], "--json").stdout)
        assert found["uas"] > 0.95
        assert found["las"] > 0.95
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    result = run("predict", model, gold, "--output-dir", tmp_path / "out", "--backend", "loky")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "gold.conllu").read_bytes() == outputs[0].read_bytes()


def test_what_is_no_model_is_one_line(tmp_path: Path) -> None:
    source = tmp_path / "a.conllu"
    write_conll(GOLD, source)
    for where in (("-o", tmp_path / "b"), ("--output-dir", tmp_path / "out")):
        result = run("predict", source, source, *where)
        assert result.exit_code == 1
        assert result.output.startswith(f"Error: {source}: ")
        assert result.output.count("\n") == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.conllu"]


def test_trees_of_a_treebank_are_checked(tmp_path: Path) -> None:
    source = tmp_path / "a.conllu"
    lines = [f"{i}\tw\t_\t_\t_\t_\t{head}\tx\t_\t_" for i, head in ((1, 2), (2, 1))]
    source.write_text("\n".join(lines) + "\n")
    result = run("train", source, "-o", tmp_path / "model", "--order", 1)
    assert result.exit_code == 1
    assert result.output == (
        f"Error: {source}: line 1, sentence: HEADs go round in a circle: 1, 2\n"
    )
    assert not (tmp_path / "model").exists()


def test_names_are_those_of_the_package() -> None:
    from valuesparse.parsing._corpora import ON_ERROR
    from valuesparse.parsing._dictionary import FEATURES
    from valuesparse.parsing._encoding import IGNORABLE
    from valuesparse.parsing._parser import METHODS
    from valuesparse.parsing._sentences import FORMATS

    assert (parse.FEATURES, parse.METHODS, parse.FORMATS) == (FEATURES, METHODS, FORMATS)
    assert tuple(IGNORABLE) == parse.COLUMNS
    assert ON_ERROR == ("stop", "skip")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--min-size", "1", "--min-joint", "1"), "one of --min-size and --min-joint"),
        (("--min-size", "1", "--max-rounds", "2"), "leave --max-rounds out"),
    ],
)
def test_objectives_exclude_each_other_and_rounds(
    options: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    for name in ("m", "a.conllu"):
        (tmp_path / name).write_text("")
    result = run("predict", tmp_path / "m", tmp_path / "a.conllu", *options)
    assert result.exit_code == 2, result.output
    assert problem in result.output
