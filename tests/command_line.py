"""The command line, called in this process: what it says and gives; two small corpora."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from valuesparse.cli._group import valuesparse

TEXT = "the DET\ndog NOUN\nran VERB\n\na DET\ncat NOUN\n\n" * 20
NER = "Ann B-PER\nLee I-PER\nran O\n\nin O\nRome B-LOC\n\n" * 10


def run(*arguments: object, given: bytes | Path | None = None) -> Result:
    data = given.read_bytes() if isinstance(given, Path) else given
    return CliRunner().invoke(valuesparse, [str(a) for a in arguments], input=data)


def out(*arguments: object, given: bytes | Path | None = None) -> bytes:
    result = run(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes
