"""``valuesparse tag``: tag corpora of any size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from valuesparse.cli._models import one_line_errors, usage_errors
from valuesparse.cli._options import (
    FloatRange,
    as_writable,
    constraints_option,
    max_labels_option,
    quiet_option,
    shards_options,
)
from valuesparse.cli._progress import progress_bar
from valuesparse.cli._reading import reading
from valuesparse.cli._streams import (
    Input,
    Spooled,
    folder_asked,
    given,
    is_copy,
    is_standard,
    opened,
    say,
)
from valuesparse.corpora._backends import BACKENDS, REGISTERED
from valuesparse.crf.corpora._outputs import CONVERTED
from valuesparse.crf.corpora.tagging import MARGINALS

if TYPE_CHECKING:
    from valuesparse.corpora import CorpusReport


@click.command()
@click.argument("model", type=Spooled())
@click.argument("inputs", type=Input(), nargs=-1, metavar="[INPUT]...")
@click.option(
    "--output", "-o", metavar="OUTPUT",
    help="A file, or a folder: one that is there, a name that ends in a slash, or where there are "
    "several INPUT. [default: -, the standard output]",
)  # fmt: skip
@reading("the input", "what MODEL was trained with, else words")
@click.option(
    "--output-format", type=click.Choice(CONVERTED),
    help="Format of the output. [default: what OUTPUT's name tells, else that of the input; of "
    "plain text CoNLL]",
)  # fmt: skip
@click.option(
    "--marginals", type=click.Choice(MARGINALS), default="best", show_default=True,
    help="Write the probability of the label, of every label, or none.",
)  # fmt: skip
@click.option(
    "--n-best", type=click.IntRange(min=1), metavar="N",
    help="Write the N best label sequences, each with its own probability.",
)  # fmt: skip
@constraints_option("Tag", "that of MODEL's training")
@click.option(
    "--zeta", "-z", type=FloatRange(0, 1), default=1.0, metavar="ζ",
    help="Below 1, marginals are faster and approximate; valuesparse tune recommends.",
)  # fmt: skip
@max_labels_option
@click.option(
    "--threads", "-t", type=click.IntRange(min=1), metavar="N",
    help="Threads for one file. The output is the same for any number. [default: every core]",
)  # fmt: skip
@click.option(
    "--backend", type=click.Choice([b for b in BACKENDS if b not in REGISTERED]),
    help="Who fills a folder: threads or processes (loky) of this machine, or a cluster. Ray and "
    "Spark: from Python. [default: threads]",
)  # fmt: skip
@shards_options("Shards of a folder")
@quiet_option
def tag(
    model: Path,
    inputs: tuple[Any, ...],
    output: str | None,
    backend: str | None,
    jobs: int | None,
    scheduler: str | None,
    threads: int | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Tag INPUT with MODEL: the same text, with a label and its probability for each word.

    \b
    Examples:
      valuesparse tag ner.crfsuite news.conll -o news.tagged.conll
      cat news.txt | valuesparse tag ner.crfsuite --input-format text > news.conll
      valuesparse tag ner.crfsuite archive/*.conll -o tagged/

    CoNLL, TSV and attribute files get columns, CoNLL-U gets entries of MISC, JSON Lines get lists;
    Parquet (a row per sentence, lists of words) gets columns of lists. Without INPUT, or for -, the
    standard input is tagged as it comes, by default as CoNLL. Memory does not grow with the input.

    In a folder large files are cut into shards; run the same command again after an interruption,
    and it goes on with the shards that are missing.
    """  # noqa: D301 (click takes the backspace itself)
    from valuesparse.crf.corpora import tag_corpus, tag_file
    from valuesparse.crf.corpora.tagging import require_together

    with usage_errors():
        require_together(options["n_best"], options["marginals"], options["zeta"])
    if is_copy(model) and options["features"] is None:
        click.echo(
            "note: a model from a pipe comes without its MODEL.json: words get the plain "
            "features, and no scheme holds; say --features and --constraints if it was trained "
            "with others",
            err=True,
        )
    sources = given(inputs)
    folder = folder_asked(output, sources, bool(backend or jobs or scheduler))
    if folder is None:
        target = None if output is None else as_writable(Path(output))
        hidden = quiet or is_standard(target)  # it would stand among the answers
        with one_line_errors(None), progress_bar("Tagging", hidden) as update:
            counts = tag_file(
                model, sources[0], opened(target), threads=threads, progress=update, **options
            )
        if not (quiet and is_standard(target)):
            where = "" if is_standard(target) else f" into {target}"
            say(target, f"{_counted(counts.sentences, counts.tokens)} tagged{where}")
        return
    if threads is not None:
        raise click.UsageError("--threads is for one file; a folder takes --jobs")
    with one_line_errors(None), progress_bar("Tagging", quiet) as update:
        report = tag_corpus(
            model, sources, folder, backend=backend or "threads", jobs=jobs, scheduler=scheduler,
            progress=update, **options,
        )  # fmt: skip
    say(folder, report_line(report, _counted(report.sentences, report.tokens), "tagged"))


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: 1 file, 2 files."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _counted(sentences: int, tokens: int) -> str:
    return f"{counted(sentences, 'sentence')}, {counted(tokens, 'token')}"


def report_line(report: CorpusReport, amount: str, done: str) -> str:
    """Return what a run over a corpus did, in words."""
    number = len(report.outputs)
    files = counted(number, "file")
    if report.skipped and not (report.sentences or report.tokens):
        return f"nothing to do: {files} {'is' if number == 1 else 'are'} there already"
    shards = f"{counted(report.skipped, 'shard')} {'was' if report.skipped == 1 else 'were'}"
    before = f"; {shards} there already" if report.skipped else ""
    return f"{amount} {done} into {files}{before}"
