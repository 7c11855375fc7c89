"""Standard streams that are closed or full: one line where the answer is lost, else no error."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from children import environment

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from tests.parsing.treebank import treebank
from valuesparse.parsing import write_conll

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes streams")
full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is always full, as Linux has"
)

NO_INPUT = "Error: the standard input is closed: name a file instead\n"
NO_OUTPUT = "Error: the standard output is closed\n"
NO_SPACE = "Error: the standard output: No space left on device\n"


@pytest.fixture
def folder(model: Path, source: Path, tmp_path: Path) -> Path:
    for end in ("", ".json"):
        (tmp_path / f"m{end}").write_bytes(Path(f"{model}{end}").read_bytes())
    (tmp_path / "m.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n0.1 0.2 0.3 0.4\n")
    assert source.parent == tmp_path
    return tmp_path


def shell(line: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command, `line` with its redirections."""
    command = f"{shlex.quote(sys.executable)} -P -m valuesparse {line}"
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=folder,
        env=environment(**env), timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "tag m",
        "tag - a.conll",
        "train - -o x",
        "eval a.conll -",
        "dump -",
        "convert - x.fg --input-format uai",
        "solve - --input-format uai",
    ],
)
def test_a_closed_input_is_one_line(command: str, folder: Path) -> None:
    done = shell(f"{command} <&-", folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", NO_INPUT)
    assert not {"x", "x.fg"} & {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("end", "message"), [(">&-", NO_OUTPUT), pytest.param(">/dev/full", NO_SPACE, marks=full)]
)
@pytest.mark.parametrize(
    "command",
    [
        "tag m a.conll",
        "train a.conll -o - -p max_iterations=1",
        "dump m",
        "eval a.conll a.conll",
        "solve m.uai",
        "info m.uai",
        "convert m.uai - --output-format fg",
        "parse evaluate a.conllu a.conllu",
        "--help",
        "--version",
    ],
)
def test_an_answer_that_is_lost_is_one_line(
    command: str, end: str, message: str, folder: Path
) -> None:
    if command.startswith("parse"):
        write_conll(treebank(), folder / "a.conllu")
    done = shell(f"{command} {end}", folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


@pytest.mark.parametrize("end", ["2>&-", pytest.param("2>/dev/full", marks=full)])
@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("tag m a.conll", None),
        ("tag m a.conll -o x", "x"),
        ("train a.conll -o x -p max_iterations=1 --dev a.conll", "x"),
        ("solve m.uai", None),
        ("solve m.uai -o x", "x"),
        ("info m.uai", None),
    ],
)
def test_notes_that_nobody_can_read_fail_nothing(
    command: str, made: str | None, end: str, folder: Path
) -> None:
    done = shell(f"{command} {end}", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert made is None or (folder / made).stat().st_size
    assert done.stdout or command.startswith("solve m.uai -o")


@pytest.mark.parametrize("end", [">&-", pytest.param(">/dev/full", marks=full), "| true"])
@pytest.mark.parametrize(
    "command", ["tag m a.conll -o x", "tag m a.conll -o x/", "train a.conll -o x"]
)
def test_the_line_that_says_what_was_done_is_a_note(command: str, end: str, folder: Path) -> None:
    done = shell(f"{command} {end}; exit ${{PIPESTATUS[0]}}", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "x").exists()


@pytest.mark.parametrize("end", ["2>&-", pytest.param("2>/dev/full", marks=full)])
def test_a_code_of_an_error_is_kept_where_nobody_can_read_the_error(end: str, folder: Path) -> None:
    assert shell(f"solve a.conll --input-format uai {end}", folder).returncode == 1
    assert shell(f"solve nothing.uai {end}", folder).returncode == 2
    assert shell(f"dump m {end}", folder, VALUESPARSE_NUM_THREADS="abc").returncode == 2


def test_a_reader_that_goes_ends_an_answer_quietly(folder: Path) -> None:
    line = "eval a.conll a.conll | true; exit ${PIPESTATUS[0]}"
    done = shell(line, folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
