"""``valuesparse tag``: tag corpora of any size."""

from __future__ import annotations

from pathlib import Path

import click

from valuesparse.cli._models import one_line_errors
from valuesparse.cli._options import quiet_option, shards_options
from valuesparse.cli._progress import progress_bar
from valuesparse.cli._reading import reading
from valuesparse.corpora._backends import BACKENDS, REGISTERED
from valuesparse.crf.corpora.tagging import MARGINALS

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("model", type=_EXISTING)
@click.argument("inputs", type=_EXISTING, nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--output", "-o", type=click.Path(file_okay=False, path_type=Path), required=True,
    metavar="OUTDIR", help="The folder of the output; it is made if need be.",
)  # fmt: skip
@reading("the input", "what MODEL was trained with, else words")
@click.option(
    "--marginals", type=click.Choice(MARGINALS), default="best", show_default=True,
    help="Write the probability of the tag, of every label, or none.",
)  # fmt: skip
@click.option(
    "--zeta", "-z", type=click.FloatRange(0, 1), default=1.0, metavar="ζ",
    help="Below 1, marginals are faster and approximate; valuesparse tune recommends.",
)  # fmt: skip
@click.option(
    "--backend", type=click.Choice([b for b in BACKENDS if b not in REGISTERED]),
    default="threads", show_default=True,
    help="Who does the work: threads or processes (loky) of this machine, or a cluster. Ray and "
    "Spark: from Python.",
)  # fmt: skip
@shards_options("Shards")
@quiet_option
def tag(
    model: Path,
    inputs: tuple[Path, ...],
    output: Path,
    features: str | None,
    input_format: str | None,
    word: str | None,
    marginals: str,
    zeta: float,
    backend: str,
    jobs: int | None,
    scheduler: str | None,
    quiet: bool,
) -> None:
    """Tag every INPUT with MODEL: the same files, with tags and marginals, in OUTDIR.

    CoNLL, TSV and attribute files get columns, CoNLL-U gets entries of MISC, Parquet (a row per
    sentence, lists of words) gets columns of lists. Memory does not grow with the input. Large
    files are cut into shards; run the same command again after an interruption, and it goes on
    with the shards that are missing.
    """
    from valuesparse.crf.corpora import tag_corpus

    with one_line_errors(None), progress_bar("Tagging", quiet) as update:
        report = tag_corpus(
            model, inputs, output, features=features, input_format=input_format, word=word,
            marginals=marginals, zeta=zeta, backend=backend, jobs=jobs, scheduler=scheduler,
            progress=update,
        )  # fmt: skip
    files = "file" if len(report.outputs) == 1 else "files"
    before = f"; {report.skipped:,} shards were there already" if report.skipped else ""
    click.echo(
        f"{report.sentences:,} sentences, {report.tokens:,} tokens tagged into "
        f"{len(report.outputs):,} {files}{before}"
    )
