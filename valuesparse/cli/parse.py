"""``valuesparse parse``: dependency parsers."""

from __future__ import annotations

import json
from pathlib import Path

import click

from valuesparse.cli._models import one_line_errors

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def parse() -> None:
    """Dependency trees of sentences, in CoNLL-U and CoNLL-X."""


@parse.command()
@click.argument("gold", type=_EXISTING)
@click.argument("system", type=_EXISTING)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, of shares.")
def evaluate(gold: Path, system: Path, as_json: bool) -> None:
    """Compare the trees of SYSTEM with those of GOLD, which has the same sentences.

    UAS is the share of words with the right head, LAS that of words with the right head and label.
    Punctuation is a word whose characters are all punctuation to Unicode.
    """
    from valuesparse.parsing import evaluate as compare

    with one_line_errors(None):
        found = compare(gold, system)
    if as_json:
        click.echo(json.dumps(found._asdict()))
        return
    click.echo(f"{'':<5}{'all words':>12}{'without punctuation':>22}")
    click.echo(f"{'UAS':<5}{found.uas:>12.2%}{found.uas_no_punct:>22.2%}")
    click.echo(f"{'LAS':<5}{found.las:>12.2%}{found.las_no_punct:>22.2%}")
    click.echo(f"{'words':<5}{found.words:>12,}{found.words_no_punct:>22,}")
