"""`valuesparse train` and `valuesparse tag`, as a user would call them."""

from __future__ import annotations

import sys
from pathlib import Path

import children
import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from click.testing import CliRunner, Result

from valuesparse.cli._group import valuesparse

TEXT = "the DET\ndog NOUN\nran VERB\n\na DET\ncat NOUN\n\n" * 20


def run(*arguments: object) -> Result:
    return CliRunner().invoke(valuesparse, [str(a) for a in arguments])


def test_algorithms_are_those_of_the_package() -> None:
    from valuesparse.cli import train
    from valuesparse.crf.training._parameters import ALGORITHMS, ALIASES

    assert [ALIASES.get(name, name) for name in train.ALGORITHMS] == list(ALGORITHMS)


def test_train_and_tag(tmp_path: Path) -> None:
    source, model, out = tmp_path / "a.conll", tmp_path / "m.crfsuite", tmp_path / "out"
    source.write_text(TEXT)
    result = run("train", source, "-o", model, "-p", "c2=0.1", "-t", 1)
    assert result.exit_code == 0, result.output
    assert "iterations (" in result.output
    assert (tmp_path / "m.crfsuite.json").exists()
    result = run("tag", model, source, "-o", f"{out}/")
    assert result.exit_code == 0, result.output
    assert "40 sentences, 100 tokens tagged into 1 file" in result.output
    rows = [line.split(" ") for line in (out / "a.conll").read_text().split("\n") if line]
    assert [row[1] for row in rows] == [row[2] for row in rows]
    result = run("tag", model, source, "-o", out, "-q")
    assert result.output == "nothing to do: 1 file is there already\n"
    (out / "a.conll").unlink()
    other = tmp_path / "b.conll"
    other.write_text("a DET\n")
    both = [source, other]
    assert run("tag", model, *both, "-o", tmp_path / "both").exit_code == 0
    (tmp_path / "both" / "b.conll").unlink()
    result = run("tag", model, *both, "-o", tmp_path / "both")
    assert result.output == ("1 sentence, 1 token tagged into 2 files; 1 shard was there already\n")


def test_a_run_that_goes_on_counts_all_its_iterations(tmp_path: Path) -> None:
    source, model, saved = tmp_path / "a.conll", tmp_path / "m.crfsuite", tmp_path / "state"
    source.write_text(TEXT)
    for most in (12, 13, 13, 5):  # checkpoints are those of iteration 10
        arguments = [source, "-o", model, "-t", 1, "-p", f"max_iterations={most}", "-a", "ap"]
        result = run("train", *arguments, "--checkpoint", saved)
        assert result.exit_code == 0, result.output
        assert f"{max(most, 10)} iterations (max_iterations)" in result.output


def test_errors_are_one_line(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conllu", tmp_path / "m.crfsuite"
    source.write_text("1\tshort\n")
    result = run("train", source, "-o", model)
    assert result.exit_code == 1
    assert "a.conllu: line 1, sentence: 2 columns apart by tabs, CoNLL-U has 10" in result.output
    source.write_bytes(b"no model")
    result = run("tag", source, source, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "header at byte 0" in result.output
    result = run("train", source, "-o", model, "-p", "c2")
    assert result.exit_code == 2
    assert "'c2' is not NAME=VALUE" in result.output
    source.write_text("")
    result = run("train", source, "-o", model, "-p", "c3=1")
    assert result.exit_code == 1
    assert "Parameter not found: c3 = 1; lbfgs has feature.minfreq, " in result.output
    assert ", c1, c2, " in result.output


def test_messages_name_the_file_once_and_the_function(tmp_path: Path, monkeypatch) -> None:
    good, bad = tmp_path / "good.conll", tmp_path / "bad.conll"
    good.write_text("a N\nb V\n\n")
    bad.write_text("a N\nb\n\n")
    (tmp_path / "attributes_of.py").write_text(
        "def number(words): return 5\n"
        "def numbers(words): return [3 for _ in words]\n"
        "def few(words): return [['a']]\n"
        "def broken(words): return [w.nothing for w in words]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    model = tmp_path / "m.crfsuite"

    def error(*arguments: object) -> str:
        result = run(*arguments)
        assert result.exit_code == 1, result.output
        return result.stderr.strip()

    problem = "line 2, sentence: 1 columns, the tokens before it have 2"
    assert error("train", good, bad, "-o", model) == f"Error: {bad}: {problem}"
    for name, text in {
        "number": "must return a list with an item for each word, not int",
        "numbers": "sentence 1: xseq[0]: an item must be a list, set or dict of attributes",
        "few": "1 items of 2 words",
        "broken": "of 'a b': AttributeError(\"'str' object has no attribute 'nothing'\")",
    }.items():
        said = error("train", good, "-o", model, "--features", f"attributes_of:{name}")
        assert text in said
        assert said.count("good.conll") <= 1
    assert not model.exists()


def test_labels_that_break_a_scheme_are_named_with_their_file(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.conll", tmp_path / "bad.conll"
    good.write_text("a O\n\nb S-X\n\n")
    bad.write_text("c O\n\na O\nb B-X\nc O\n\n")
    for files, name, number in (((good, bad), "bad", 2), ((bad, good), "bad", 2)):
        result = run("train", *files, "-o", tmp_path / "m", "--constraints", "BIOES")
        assert result.exit_code == 1, result.output
        assert result.stderr == (
            f"Error: {name}.conll: sentence {number}, token 3: 'O' after 'B-X', which "
            "constraints='BIOES' forbids; correct the labels or the constraint\n"
        )


def test_models_of_many_labels_are_asked_for(tmp_path: Path) -> None:
    source, model = tmp_path / "a.crfsuite.txt", tmp_path / "m.crfsuite"
    source.write_text("".join(f"T{i}\ta{i % 3}\n\n" for i in range(1100)))
    assert run("train", source, "-o", model, "-q", "-p", "max_iterations=1").exit_code == 0
    tune = ("tune", model, source, "-t", 1, "-z", 0.5, "--tokens", 9, "-o", tmp_path / "a.png")
    for command in (("dump", model), ("tag", model, source, "--marginals", "none"), tune):
        result = run(*command)
        assert (result.exit_code, "--max-labels 1100" in result.stderr) == (1, True), result.output
        result = run(*command, "--max-labels", 1100)
        assert result.exit_code == 0, result.output
        assert result.stdout


FULL = """
import resource, sys
from click.testing import CliRunner
from valuesparse.cli._group import valuesparse
limit, *arguments = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
result = CliRunner().invoke(valuesparse, arguments)
print(result.exit_code, result.stderr.strip())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    source, model, out = tmp_path / "a.conll", tmp_path / "m.crfsuite", tmp_path / "out"
    source.write_text(TEXT)
    said = f"1 Error: {model}: File too large\n"
    assert children.run(FULL, "1000", "train", str(source), "-o", str(model)).stdout == said
    state = tmp_path / "state"
    arguments = ["train", str(source), "-o", str(model), "--checkpoint", str(state)]
    done = children.run(FULL, "500", *arguments, "-a", "aggressive", "-p", "epsilon=0")
    assert done.stdout == f"1 Error: {state}: File too large\n"
    assert run("train", source, "-o", model, "-q").exit_code == 0
    done = children.run(FULL, "1000", "tag", str(model), str(source), "-o", f"{out}/")
    assert done.stdout == f"1 Error: {out / 'a.conll'}: File too large\n"
    assert {path.name for path in tmp_path.iterdir()} == {
        "a.conll", "m.crfsuite", "m.crfsuite.json", "out"
    }  # fmt: skip


def test_where_a_model_cannot_go_is_said_at_once(tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(TEXT)
    (tmp_path / "m.json").mkdir()
    model = tmp_path / "none" / "m"
    for options, said in (
        (["-o", model], f"{model}: there is no such folder"),
        (["-o", tmp_path / "m"], f"{tmp_path / 'm.json'}: "),
        (["-o", tmp_path / "x", "--checkpoint", model], f"{model}: there is no such folder"),
    ):
        result = run("train", source, *options)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1), result.output
        assert result.stderr.startswith(f"Error: {said}")
    damaged = tmp_path / "state.npz"
    damaged.write_bytes(b"")  # what a power cut may leave
    result = run("train", source, "-o", tmp_path / "x", "--checkpoint", damaged, "-q")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1), result.output
    assert f"{damaged} is not a checkpoint, or it is cut off" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("tag", "m", "a", "--n-best", "3", "--marginals", "all"), "--marginals (marginals=)"),
        (("tag", "m", "a", "--n-best", "3", "-z", "0.9"), "leave --zeta (zeta=) at 1"),
    ],
)
def test_options_that_exclude_each_other_are_mistakes_of_the_command_line(
    arguments: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    for name in "am":
        (tmp_path / name).write_text(TEXT)
    result = run(*(tmp_path / x if x in ("a", "m") else x for x in arguments))
    assert result.exit_code == 2, result.output
    assert problem in result.output


def test_patience_is_for_held_out_sentences(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conll", tmp_path / "m.crfsuite"
    source.write_text(TEXT)
    result = run("train", source, "-o", model, "--patience", 3)
    assert (result.exit_code, "--patience needs --dev" in result.output) == (2, True)
    assert not model.exists()


def test_an_empty_name_is_no_output(tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(TEXT)
    result = run("train", source, "-o", "")
    assert result.exit_code == 2
    assert "Invalid value for '--output' / '-o': the name is empty: name a file" in result.output


def test_exit_codes_are_those_of_the_pages(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conll", tmp_path / "m.crfsuite"
    source.write_text(TEXT)
    assert run("train", source, "-o", model, "-t", 1).exit_code == 0
    lost, inside = tmp_path / "lost", tmp_path / "lost" / "file"
    for code, *command in (
        (2, "tag", model, lost),
        (2, "train", lost, "-o", model),
        (2, "tag", model, tmp_path),
        (2, "tag", model, source, "-o", inside),
        (2, "dump", model, "-o", inside),
        (1, "train", source, "-o", inside),
        (1, "tag", model, source, "-o", f"{source / 'folder'}/"),
        (1, "tag", source, source),
    ):
        result = run(*command)
        assert result.exit_code == code, (command, result.output)
        assert ("Usage: " in result.output) == (code == 2)
