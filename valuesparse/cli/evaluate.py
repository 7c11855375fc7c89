"""``valuesparse eval``: compare labels with the right ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from valuesparse.cli._models import one_line_errors
from valuesparse.cli._streams import Input
from valuesparse.cli.tag import counted
from valuesparse.crf._entities import SCHEMES
from valuesparse.crf.corpora._formats import FORMATS, told_format

if TYPE_CHECKING:
    from valuesparse.crf.corpora import Evaluation
    from valuesparse.crf.metrics import Score

_FORMATS = [kind for kind in FORMATS if kind != "text"]  # it has no labels


@click.command("eval")
@click.argument("gold", type=Input())
@click.argument("system", type=Input())
@click.option(
    "--gold", "gold_column", metavar="COLUMN",
    help="Name or number of the labels of GOLD. [default: the last; UPOS in CoNLL-U]",
)  # fmt: skip
@click.option(
    "--system", "system_column", metavar="COLUMN",
    help="Name or number of the labels of SYSTEM. [default: those that tag wrote, or the last]",
)  # fmt: skip
@click.option("--word", metavar="COLUMN", help="Name or number, from 1, of the column of words.")
@click.option(
    "--train", type=Input(), multiple=True, metavar="FILE",
    help="Data trained on: words that are not there are counted apart.",
)  # fmt: skip
@click.option(
    "--scheme", type=click.Choice(SCHEMES),
    help="Count strictly: what breaks the rules of this scheme is no entity.",
)  # fmt: skip
@click.option(
    "--input-format", type=click.Choice(_FORMATS), metavar="|".join(_FORMATS),
    help="Format of both, or of - where the other's name tells its own. [default: what names "
    "tell, else conll]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, of shares.")
def evaluate(
    gold: Any, system: Any, as_json: bool, input_format: str | None, **options: Any
) -> None:
    """Compare the labels of SYSTEM with those of GOLD, which has the same sentences.

    \b
    Examples:
      valuesparse eval gold.conll tagged.conll
      valuesparse tag ner.crfsuite gold.conll | valuesparse eval gold.conll -
      valuesparse eval gold.conll tagged.conll --system 3 --json

    Entities, of labels such as B-PER, are counted as seqeval does.
    """  # noqa: D301 (click takes the backspace itself)
    from valuesparse.crf.corpora import evaluate as compare

    # Where one of the two is a pipe, and the name of the other tells, it is meant for the pipe.
    formats = {
        name: None if _told(one) and not isinstance(other, Path) else input_format
        for name, one, other in (("gold", gold, system), ("system", system, gold))
    }
    with one_line_errors(None):
        found = compare(
            gold, system, gold_format=formats["gold"], system_format=formats["system"], **options
        )
    click.echo(_as_json(found) if as_json else _as_text(found))


def _told(source: Any) -> bool:
    """Return whether the name of a file tells its format."""
    return isinstance(source, Path) and told_format(source) is not None


def _as_json(found: Evaluation) -> str:
    def rows(scores: dict[str, Score]) -> dict[str, dict[str, float]]:
        return {name: score._asdict() for name, score in scores.items()}

    answer = found._asdict()
    answer["labels"] = rows(found.labels)
    if found.entities is not None:
        answer["entities"] = rows(found.entities)
    return json.dumps(answer, ensure_ascii=False)


def _as_text(found: Evaluation) -> str:
    lines = [
        f"{counted(found.sentences, 'sentence')}, {counted(found.tokens, 'token')}",
        f"accuracy           {found.accuracy:8.2%}",
        f"whole sentences    {found.sentence_accuracy:8.2%}",
    ]
    if found.unknown is not None:
        share = "" if found.unknown_accuracy is None else f"{found.unknown_accuracy:8.2%}"
        lines.append(f"unknown words      {share or '       -'}   of {found.unknown:,}")
    if found.entity_f1 is not None:
        lines.append(f"entity F1          {found.entity_f1:8.2%}")
    for title, scores in (("entity", found.entities), ("label", found.labels)):
        if scores:
            width = max(len(title), *map(len, scores))
            lines += ["", f"{title:<{width}}  precision   recall       F1  support"]
            lines += [
                f"{name:<{width}}  {s.precision:9.2%} {s.recall:8.2%} {s.f1:8.2%} {s.support:8,}"
                for name, s in scores.items()
            ]
    return "\n".join(lines)
