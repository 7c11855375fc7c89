"""``valuesparse demo``: islands on a real corpus with a real CRF, in a minute or so."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from valuesparse._extras import MissingExtraError, require
from valuesparse.cli._measure import ZETAS
from valuesparse.cli._models import one_line_errors
from valuesparse.cli._options import plot_option, tell_plot, tols_option, zetas_option

if TYPE_CHECKING:
    from rich.console import Console

    from valuesparse.cli._corpus import CorpusSize, Utterance
    from valuesparse.cli._measure import Measurements
    from valuesparse.cli._report import TaggedSentence


class _Tagging(NamedTuple):
    """The held-out sentences, measured and tagged."""

    measurements: Measurements
    sentences: list[TaggedSentence]
    zeta: float
    labels: Sequence[str]
    n_tokens: int
    scoring: float
    unproved: str | None = None


@click.command()
@plot_option("valuesparse-demo.png")
@zetas_option
@tols_option
@click.option(
    "--threads", "-t", type=click.IntRange(min=1), default=1, show_default=True,
    help="Threads of ours; CRFsuite always uses one, so 1 compares like with like.",
)  # fmt: skip
@click.option(
    "--sentences", "-n", type=click.IntRange(min=20), default=None, metavar="N",
    help="Use N sentences of the corpus only: quicker, and a worse tagger.",
)  # fmt: skip
@click.option(
    "--show", type=click.IntRange(min=0), default=5, show_default=True, metavar="N",
    help="How many tagged sentences to show.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
    help="Seed of the split into 90 % to train on and 10 % to tag.",
)  # fmt: skip
def demo(
    output: Path,
    zetas: tuple[float, ...],
    tols: tuple[float, ...],
    threads: int,
    sentences: int | None,
    show: int,
    seed: int,
) -> None:
    """Tag Cantonese: exact, and with ever more words held deterministic (islands).

    Trains a part-of-speech CRF with 95 tags on 90 % of the Hong Kong Cantonese Corpus (shipped
    by pycantonese), reads the model file and tags the other 10 % exactly, at several
    thresholds ζ, where a word whose best tag has probability ζ or more becomes an island
    and its messages cost K instead of K² operations, and at several tolerances, with a
    proof that no marginal is off by more.

    \b
    Measured, in a table and in a plot:
      tokens/s  log-potentials in, marginals out: a warm-up, then the median of 7
                alternating runs. Turning attributes into log-potentials is not
                counted, for anyone.
      × python-crfsuite, × our exact
                CRFsuite is asked for every marginal of 200 of the sentences
                ("set" + one call per position and label, minus "set"). "its C
                core" is "set" + one marginal, minus "set": the forward-backward
                without Python's calls.
      agree     share of the words whose best tag is that of exact inference
      gold      share of the words whose best tag is the one in the corpus
      error     the largest absolute error of a marginal, and what is proved of it
      islands   share of the words held deterministic in the end
      full msgs share of the messages that cost K² operations; the rest cost K

    Then a few sentences with the tags marked that no island has decided.
    """  # noqa: D301 - the backslash-b is a character that click looks for
    try:
        require("demo", "rich", "pycrfsuite", "matplotlib")
        _run(output, zetas or ZETAS, tols or None, threads, sentences, show, seed)
    except MissingExtraError as error:
        raise click.ClickException(str(error)) from error


def _run(
    output: Path,
    zetas: Sequence[float],
    tols: Sequence[float] | None,
    threads: int,
    limit: int | None,
    show: int,
    seed: int,
) -> None:
    """Do what the command says, step by step."""
    from rich.console import Console

    from valuesparse.cli import _corpus, _report
    from valuesparse.cli._plots import write_tradeoff

    # Colours are chosen below; rich's guesses at numbers and paths would compete with them.
    console = Console(highlight=False, emoji=False)
    begin = time.perf_counter()

    corpus = _corpus.load_hkcancor()
    size = _corpus.size_of(corpus)
    if limit is not None:
        corpus = corpus[:limit]
    train, test = _corpus.split(corpus, seed)
    console.print(f"[bold]{_corpus.SOURCE}[/bold]")
    console.print(_describe(size, len(train), len(test)))
    if size != _corpus.EXPECTED:
        expected = _corpus.EXPECTED
        console.print(
            f"[yellow]This version of the corpus differs from the {expected.tokens:,} tokens and "
            f"{expected.tags} tags that our documentation reports on.[/yellow]"
        )
    with tempfile.TemporaryDirectory(prefix="valuesparse-demo-") as folder:
        model_path = Path(folder) / "hkcancor.crfsuite"
        _train(console, train, model_path)
        tagging = _tag(console, model_path, test, zetas, tols, threads)
    measurements = tagging.measurements
    console.print()
    console.print(_report.results_table(measurements))
    console.print(_report.notes(measurements, threads, tagging.scoring))
    if tagging.unproved is not None:
        console.print(f"[yellow]{tagging.unproved}[/yellow]")
    console.print()
    if show:
        chosen = _report.pick_sentences(tagging.sentences, show)
        console.print(_report.sentences_block(chosen, tagging.labels, tagging.zeta))
    with one_line_errors(output):
        written = write_tradeoff(
            measurements.rows,
            output,
            title="Marginals of a Cantonese part-of-speech CRF: exact, islands, certificates",
            subtitle=f"{len(tagging.labels)} tags, {tagging.n_tokens:,} held-out words of the Hong "
            f"Kong Cantonese Corpus, {threads} thread{'s' if threads > 1 else ''}; "
            "log-potentials in, marginals out",
            best=_report.recommended(measurements.rows),
            rival=measurements.rival,
        )
    tell_plot(console, written)
    console.print(f"[dim]Done in {time.perf_counter() - begin:.0f} s.[/dim]")


def _describe(size: CorpusSize, n_train: int, n_test: int) -> str:
    return (
        f"{size.sentences:,} utterances, {size.tokens:,} tokens, {size.tags} tags: "
        f"{n_train:,} utterances to train on, {n_test:,} to tag"
    )


def _train(console: Console, train: Sequence[Utterance], path: Path) -> None:
    """Train, with a progress bar."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from valuesparse.cli._features import cantonese_attributes
    from valuesparse.cli._training import PARAMETERS, train_crf

    epochs = int(PARAMETERS["max_iterations"])
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=console,
        expand=console.width <= 100,
    ) as progress:
        task = progress.add_task("Training a CRF", total=epochs + 1, state="reading words")
        progress.refresh()

        def on_epoch(epoch: int, loss: float) -> None:
            state = f"epoch {epoch} of {epochs}" if epoch else "finding a step size"
            progress.update(task, completed=epoch + 1, state=state, refresh=True)

        train_crf(
            (cantonese_attributes(sentence.words) for sentence in train),
            (sentence.tags for sentence in train),
            path,
            on_epoch=on_epoch,
        )


def _tag(
    console: Console,
    model_path: Path,
    test: Sequence[Utterance],
    zetas: Sequence[float],
    tols: Sequence[float] | None,
    threads: int,
) -> _Tagging:
    """Read the model, tag the held-out sentences with every engine, and keep one's answers."""
    import numpy as np

    import valuesparse as vs
    from valuesparse.cli._features import cantonese_attributes
    from valuesparse.cli._measure import ROUNDS, measure, provable
    from valuesparse.cli._report import TaggedSentence, recommended
    from valuesparse.io.crfsuite import read_crfsuite

    with console.status("Reading the model and scoring the held-out words"):
        model = read_crfsuite(model_path)
        attributes = [cantonese_attributes(sentence.words) for sentence in test]
        begin = time.perf_counter()
        unary, lengths = model.unary_batch(attributes)
        scoring = 1e6 * (time.perf_counter() - begin) / len(unary)
        chain = vs.Chain(unary, model.transition, lengths=lengths)
        number = {label: k for k, label in enumerate(model.labels)}
        gold = np.array([number[tag] for sentence in test for tag in sentence.tags])
    console.print(
        f"Read the model: {len(model.labels)} labels, {len(model.attributes):,} attributes. "
        f"Tagging {len(unary):,} words"
    )
    unproved = None
    if tols is not None:
        tols, unproved = provable(chain, tols)
    with console.status("Measuring") as status:
        turns = iter(range(1, ROUNDS + 2))

        def on_round() -> None:
            status.update(f"Measuring: round {next(turns)} of {ROUNDS + 1} done")

        measurements = measure(
            model_path, attributes, chain, model.labels, gold, zetas, threads, on_round, tols
        )
    best = recommended(measurements.rows)
    result = measurements.results[best]
    ends = np.cumsum(lengths)
    tagged = [
        TaggedSentence(
            sentence, result.marginals[end - length : end], result.islands[end - length : end] < 0
        )
        for sentence, end, length in zip(test, ends, lengths, strict=True)
    ]
    zeta = measurements.rows[best].zeta
    return _Tagging(
        measurements, tagged, 1.0 if zeta is None else zeta, model.labels, len(unary), scoring,
        unproved,
    )  # fmt: skip
