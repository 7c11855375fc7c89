"""The installed command, in a process of its own: what it refuses to start with, all it does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from children import environment, run

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

COMMAND = """
import sys
from importlib.metadata import entry_points
(command,) = entry_points(group="console_scripts", name="valuesparse")
sys.argv[0] = "valuesparse"
command.load()()
"""
SENTENCES = "the DET\ndog NOUN\nran VERB\n\na DET\ncat NOUN\n\n" * 20
NETWORK = "MARKOV\n2\n2 2\n1\n2 0 1\n4\n0.1 0.2 0.3 0.4\n"


def valuesparse(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONIOENCODING": "utf-8", **env}
    return run(COMMAND, *map(str, arguments), timeout=300, **env)


def output(*arguments: object) -> str:
    """Return what a command that succeeds says."""
    done = valuesparse(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VALUESPARSE_NUM_THREADS", "abc"),
        ("VALUESPARSE_NUM_THREADS", "0"),
        ("VALUESPARSE_SIMD", "nonsense"),
    ],
)
def test_a_setting_that_is_refused_is_one_line(name: str, value: str) -> None:
    done = valuesparse("dump", "--help", **{name: value})
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"valuesparse: {name}={value!r} ")
    module = subprocess.run(
        [sys.executable, "-m", "valuesparse", "dump", "--help"],
        env={**os.environ, name: value}, cwd=tempfile.gettempdir(), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert (module.returncode, module.stdout, module.stderr) == (2, "", done.stderr)


def test_what_else_cannot_be_imported_keeps_its_traceback() -> None:
    done = run(f"import sys; sys.modules['valuesparse.cli'] = None\n{COMMAND}", "dump")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.smoke
def test_version_and_help() -> None:
    assert output("--version").startswith("valuesparse, version ")
    for command in ("solve", "info", "train", "tag", "eval", "dump", "convert", "tune", "demo"):
        assert f"Usage: valuesparse {command} " in output(command, "--help")


def test_what_the_standard_output_cannot_write_is_no_error(tmp_path: Path) -> None:
    source, plot = tmp_path / "a.conll", tmp_path / "plot.png"
    source.write_text("a \u540d\nb \u03b6\n\n", encoding="utf-8")
    np.savez(tmp_path / "m.npz", transition=np.zeros((2, 2)))
    np.savez(tmp_path / "d.npz", unary=np.zeros((3, 2)))
    tune = ("tune", tmp_path / "m.npz", tmp_path / "d.npz", "-z", "0.5", "-t", 1, "-o", plot)
    for command, said in (
        (("--help",), r"Measure which \u03b6 suits"),
        (("tune", "--help"), r"\u03b6"),
        (("eval", source, source), r"\u540d"),
        (tune, r"\u03b6 = 0.5"),
    ):
        done = valuesparse(*command, PYTHONIOENCODING="iso8859-5")  # Cyrillic, else ASCII
        assert "Traceback" not in done.stderr
        assert said in done.stdout, done.stderr
    assert plot.exists()


HELP = """
import sys
import valuesparse
before = set(sys.modules)
from valuesparse.cli import main
sys.argv = ["valuesparse", "--help"]
try:
    main()
finally:
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    print(sorted(new & {"rich", "matplotlib", "scipy", "joblib", "pandas", "numpy"}))
    print(sorted(name for name in set(sys.modules) - before if name.startswith("valuesparse.")))
"""


QUICK = """
import sys
import _valuesparse
sys.argv = ["valuesparse", sys.argv[1]]
try:
    _valuesparse.main()
finally:
    names = {name.partition(".")[0] for name in sys.modules}
    print(sorted(names & {"numpy", "rich", "scipy", "valuesparse"}))
"""


@pytest.mark.parametrize("option", ["--help", "-h", "--version", "nonsense"])
def test_the_help_of_all_imports_click_alone(option: str) -> None:
    done = run(QUICK, option)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.returncode == (2 if option == "nonsense" else 0)


def test_names_of_commands_are_completed_without_them() -> None:
    program = QUICK.replace('sys.argv = ["valuesparse", sys.argv[1]]', 'sys.argv = ["valuesparse"]')
    asked = {"_VALUESPARSE_COMPLETE": "bash_complete", "COMP_WORDS": "valuesparse t"}
    done = run(program, COMP_CWORD="1", **asked)
    *names, packages = done.stdout.splitlines()
    assert names == ["plain,train", "plain,tag", "plain,tune"]
    assert packages == "[]"


@pytest.mark.parametrize("command", ["train", "tag", "eval", "dump"])
def test_the_help_of_a_command_does_not_wait_for_scipy(command: str) -> None:
    code = "import json, sys\nfrom valuesparse.cli import command\ncommand(sys.argv[1])\n"
    done = run(code + "print(json.dumps([name for name in sys.modules]))", command)
    names = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not names & {"scipy", "joblib", "rich", "pandas", "pyarrow", "matplotlib", "sklearn"}


def test_help_imports_little() -> None:
    *text, packages, own = run(HELP).stdout.splitlines()
    assert packages == "[]"
    assert own == "['valuesparse.cli', 'valuesparse.cli._group']"
    assert {line.split()[0] for line in text if line.startswith("  ") and line[2] != " "} >= {
        "train", "tag", "eval", "dump", "tune", "parse", "solve", "info", "convert", "demo"
    }  # fmt: skip
    assert all(len(line) <= 80 and not line.endswith("...") for line in text[1:])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell with pipes")
def test_a_reader_that_goes_ends_a_command_quietly(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conll", tmp_path / "m.crfsuite"
    source.write_text(SENTENCES * 100)
    output("train", source, "-o", model, "-p", "max_iterations=2", "-t", 1)
    (tmp_path / "run.py").write_text(COMMAND)
    command = f"{sys.executable} -P {tmp_path / 'run.py'} tag {model}"
    for line in (f"{command} {source} | head -n 2", f"cat {source} | {command} | head -n 2"):
        done = subprocess.run(
            ["bash", "-c", f"{line}; echo ${{PIPESTATUS[*]}}"], capture_output=True, text=True,
            cwd=tmp_path, env=environment(), timeout=300, check=True,
        )  # fmt: skip
        *text, status = done.stdout.splitlines()
        assert [row.split()[0] for row in text] == ["the", "dog"]
        assert done.stderr == ""
        assert status.split()[-2:] == ["1", "0"]


@pytest.mark.smoke
def test_train_and_tag(tmp_path: Path) -> None:
    source, model, folder = tmp_path / "a.conll", tmp_path / "m.crfsuite", tmp_path / "out"
    source.write_text(SENTENCES)
    assert "iterations (" in output("train", source, "-o", model, "-p", "c2=0.1", "-t", 1)
    assert "40 sentences, 100 tokens tagged" in output("tag", model, source, "-o", f"{folder}/")
    rows = [line.split(" ") for line in (folder / "a.conll").read_text().split("\n") if line]
    assert [row[1] for row in rows] == [row[2] for row in rows]


@pytest.mark.smoke
def test_shards_on_several_workers(tmp_path: Path) -> None:
    sources = [tmp_path / f"{i}.conll" for i in range(3)]
    for source in sources:
        source.write_text(SENTENCES)
    model = tmp_path / "m.crfsuite"
    output("train", *sources, "-o", model, "-p", "c2=0.1", "-t", 1)
    for backend in ("threads", "loky"):
        arguments = ["--backend", backend, "-j", 2, "-o", tmp_path / backend]
        assert "tagged into 3 files" in output("tag", model, *sources, *arguments)


@pytest.mark.smoke
def test_solve_and_info(tmp_path: Path) -> None:
    model = tmp_path / "model.uai"
    model.write_text(NETWORK)
    kind, _, numbers = output("solve", model).partition("\n")
    assert kind == "MAR"
    assert [float(x) for x in numbers.split()] == pytest.approx([2, 2, 0.3, 0.7, 2, 0.4, 0.6])
    assert re.search(r"variables +2 ", output("info", model, "--memory-limit", "1GiB"))


@pytest.mark.smoke
def test_tune(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("matplotlib", reason="the command line needs the cli extra")
    model, data, plot = tmp_path / "model.npz", tmp_path / "data.npz", tmp_path / "plot.png"
    np.savez(model, transition=rng.normal(size=(3, 3)))
    np.savez(data, unary=rng.normal(size=(20, 3)), lengths=[12, 8])
    done = valuesparse("tune", model, data, "--zeta", "0.9", "-t", 1, "-o", plot)
    assert done.returncode in (0, 1), done.stderr  # 1: nothing is fast and right enough
    assert "2 sequences, 20 tokens, 3 labels, float64" in done.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")
