"""`valuesparse demo` on a corner of the corpus, as a user would call it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("pycantonese", reason="the demo needs the demo extra")
pytest.importorskip("pycrfsuite", reason="the demo needs the demo extra")

from click.testing import CliRunner, Result

from valuesparse import _extras
from valuesparse.cli._corpus import EXPECTED, load_hkcancor, size_of, split
from valuesparse.cli._group import valuesparse


def run(*arguments: str) -> Result:
    return CliRunner().invoke(valuesparse, ["demo", *arguments])


def test_the_corpus_is_the_one_we_report_on() -> None:
    corpus = load_hkcancor()
    assert size_of(corpus) == EXPECTED
    train, test = split(corpus, seed=0)
    assert len(train) + len(test) == len(corpus)
    assert len(test) == pytest.approx(len(corpus) / 10, abs=len(corpus) * 1e-3)
    assert split(corpus, seed=0) == (train, test)
    assert split(corpus, seed=1) != (train, test)


@pytest.mark.smoke
def test_demo(tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    result = run(
        "--sentences", "400", "--output", str(plot), "--zeta", "0.9", "--zeta", "0.5",
        "--show", "2", "--tol", "0.01", "--tol", "1e-14",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    text = result.output
    rows = [line.split() for line in text.splitlines()]
    exact = next(r for r in rows if r[:1] == ["exact"])
    assert exact[3:5] == ["1.00", "100.00"]
    assert 40 < float(exact[5]) <= 100  # accuracy of a tagger trained on very little
    for zeta in ("0.9", "0.5"):
        row = next(r for r in rows if r[:3] == ["ζ", "=", zeta])
        assert 90 < float([x for x in row[3:] if x != "◀"][3]) <= 100
    assert any(r[:3] == ["tol", "=", "0.01"] for r in rows)
    assert "Not measured: tol = 1e-14. Rounding leaves" in " ".join(text.split())
    differ = re.search(r"differ by at most\s+(\S+?)\.\n", text)
    assert differ
    assert float(differ.group(1)) < 1e-10
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert str(plot) in text.replace("\n", "")
    assert [p.name for p in tmp_path.iterdir()] == ["plot.png"]
    assert max(map(len, text.splitlines())) <= max(80, len(str(plot)) + 16)
    assert "…" not in text.split("k tok per s")[0]  # no column is cut


def test_help_says_what_is_measured() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for word in ("tokens/s", "agree", "gold", "islands", "--threads", "--zeta"):
        assert word in result.output
    assert "\\b" not in result.output
    # The table keeps its lines.
    lines = [line.strip() for line in result.output.splitlines()]
    for start in ("tokens/s ", "agree ", "gold ", "error ", "islands ", "full msgs "):
        assert any(line.startswith(start) for line in lines), start


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--zeta", "1.5"], "zeta"),
        (["--threads", "0"], "threads"),
        (["--output", "no/such/folder/x.png"], "folder"),
        (["--sentences", "3"], "sentences"),
    ],
)
def test_bad_options(arguments: list[str], word: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert word in result.output


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_extras, "find_spec", lambda name: None)
    result = run("--sentences", "50")
    assert result.exit_code == 1
    assert 'pip install "valuesparse[demo]"' in result.output
