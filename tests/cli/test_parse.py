"""`valuesparse parse`, as a user would call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from click.testing import CliRunner, Result

from valuesparse.cli._group import valuesparse
from valuesparse.parsing import Sentence, write_conll

GOLD = [Sentence(["Dogs", "bark", "."], heads=[2, 0, 2], labels=["nsubj", "root", "punct"])]


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
