"""``valuesparse train``: train a tagger on files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from valuesparse.cli._models import one_line_errors
from valuesparse.cli._options import constraints_option, quiet_option
from valuesparse.cli._reading import reading
from valuesparse.cli._streams import Input, Target, delivering, is_standard, say

# A copy of what the package has, so that help does not wait for it.
ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow", "aggressive")


def _pairs(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{value!r} is not NAME=VALUE")
        found[name] = text
    return found


@click.command()
@click.argument("data", type=Input(), nargs=-1, required=True, metavar="DATA...")
@click.option(
    "--output", "-o", type=Target(), required=True, metavar="MODEL",
    help="Where the model goes, with MODEL.json, which says how its data were read; to - goes the "
    "model alone.",
)  # fmt: skip
@click.option(
    "--dev", type=Input(), metavar="FILE",
    help="Held-out sentences: tell how well they are labelled, stop when that gets no better, and "
    "keep the best model.",
)  # fmt: skip
@click.option(
    "--patience", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
    help="Stop after N iterations that brought nothing better for --dev.",
)  # fmt: skip
@reading("DATA", "words; attribute files have theirs", tags="UPOS in CoNLL-U, else the last")
@constraints_option("Train a tagger")
@click.option(
    "--algorithm", "-a", type=click.Choice(ALGORITHMS), default="lbfgs", show_default=True,
    help="How weights are found.",
)  # fmt: skip
@click.option(
    "--param", "-p", "params", multiple=True, callback=_pairs, metavar="NAME=VALUE",
    help="A parameter of the algorithm, such as c2=0.1 or max_iterations=100; several are fine.",
)  # fmt: skip
@click.option(
    "--threads", "-t", type=click.IntRange(min=1), metavar="N",
    help="Threads to train on. [default: every core]",
)  # fmt: skip
@click.option(
    "--checkpoint", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Keep the state here, and go on from it when it is there.",
)  # fmt: skip
@quiet_option
def train(
    data: tuple[Any, ...],
    output: Path,
    dev: Any | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Train MODEL, a file that CRFsuite opens, on the labelled sentences of DATA.

    \b
    Examples:
      valuesparse train train.conll -o ner.crfsuite --dev dev.conll
      valuesparse train train.conllu -o pos.crfsuite -p c2=0.1 -p max_iterations=100
      zcat big.conll.gz | valuesparse train - -o ner.crfsuite -a ap

    DATA may be CoNLL (columns, blank lines between sentences), CoNLL-U, TSV whose first line names
    the columns, JSON Lines or Parquet with lists of words and tags, or CRFsuite's attribute files.
    The same data and parameters give the same model, bit for bit, for any number of threads.
    """  # noqa: D301 (click takes the backspace itself)
    from rich.console import Console

    from valuesparse.crf.corpora import train_corpus

    source = click.get_current_context().get_parameter_source("patience")
    if dev is None and source is not ParameterSource.DEFAULT:
        raise click.UsageError("--patience needs --dev, the held-out sentences")
    console = Console(stderr=True, highlight=False, quiet=quiet)
    with one_line_errors(None), console.status("Reading") as status:

        def watch(progress: Any) -> None:
            line = f"iteration {progress.number}, loss {progress.loss:.6g}"
            status.update(f"Training: {line}")
            if dev is not None:
                console.print(f"{line}, {_scores(progress.info)}")

        with delivering(output) as path:
            trainer = train_corpus(data, path, callback=watch, dev=dev, **options)
    log = trainer.logparser
    assert log is not None
    words = [
        f"{trainer.iterations:,} iterations ({_REASONS.get(str(trainer.reason), trainer.reason)})",
        f"{log.featgen_num_features:,} features",
    ]
    if trainer.accuracy is not None:
        words.append(f"accuracy {trainer.accuracy:.2%} on DATA")
    best = trainer.best
    if best is not None:
        info = {"dev_accuracy": best.accuracy}
        if best.entity_f1 is not None:
            info["dev_entity_f1"] = best.entity_f1
        words.append(f"{_scores(info)} after iteration {best.iteration}, which is kept")
    if not (quiet and is_standard(output)):
        say(output, f"{'; '.join(words)}; model written to {output}")


#: Why training ended, where the library has no word for it.
_REASONS = {"dev": "no better on --dev"}


def _scores(info: dict[str, float]) -> str:
    """Return what is known of the held-out sentences, in words."""
    text = f"accuracy {info['dev_accuracy']:.2%}"
    if "dev_entity_f1" in info:
        text += f", entity F1 {info['dev_entity_f1']:.2%}"
    return f"{text} on --dev"
