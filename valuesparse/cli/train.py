"""``valuesparse train``: train a tagger on files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from valuesparse.cli._models import one_line_errors
from valuesparse.cli._options import quiet_option
from valuesparse.cli._reading import reading

ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow", "aggressive")
_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


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
@click.argument("data", type=_EXISTING, nargs=-1, required=True, metavar="DATA...")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), required=True,
    metavar="MODEL", help="Where the model goes; MODEL.json says how its data were read.",
)  # fmt: skip
@reading("DATA", "words; attribute files have theirs", tags="UPOS in CoNLL-U, else the last")
@click.option(
    "--algorithm", "-a", type=click.Choice(ALGORITHMS), default="lbfgs", show_default=True,
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
    data: tuple[Path, ...],
    output: Path,
    features: str | None,
    input_format: str | None,
    word: str | None,
    tags: str | None,
    algorithm: str,
    params: dict[str, str],
    threads: int | None,
    checkpoint: Path | None,
    quiet: bool,
) -> None:
    """Train MODEL, a file that CRFsuite opens, on the labelled sentences of DATA.

    DATA may be CoNLL (columns, blank lines between sentences), CoNLL-U, TSV whose first line names
    the columns, Parquet with lists of words and tags, or CRFsuite's attribute files. The same data
    and parameters give the same model, bit for bit, for any number of threads.
    """
    from rich.console import Console

    from valuesparse.crf.corpora import train_corpus

    console = Console(stderr=True, highlight=False, quiet=quiet)
    with (
        one_line_errors(None),
        console.status("Reading") as status,
    ):

        def watch(progress: Any) -> None:
            status.update(f"Training: iteration {progress.number}, loss {progress.loss:.6g}")

        trainer = train_corpus(
            data, output, features=features, input_format=input_format, word=word, tags=tags,
            algorithm=algorithm, params=params, threads=threads, callback=watch,
            checkpoint=checkpoint,
        )  # fmt: skip
    log = trainer.logparser
    assert log is not None
    click.echo(
        f"{len(log.iterations):,} iterations ({trainer.reason}), "
        f"{log.featgen_num_features:,} features; model written to {output}"
    )
