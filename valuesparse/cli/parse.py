"""``valuesparse parse``: train dependency parsers, parse with them, and compare trees."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from valuesparse.cli._group import Command
from valuesparse.cli._models import one_line_errors, spare, usage_errors
from valuesparse.cli._options import FloatRange, as_writable, quiet_option, shards_options, writable
from valuesparse.cli._progress import progress_bar
from valuesparse.cli._streams import (
    Input,
    Spooled,
    Target,
    delivering,
    folder_asked,
    given,
    is_standard,
    opened,
    say,
)
from valuesparse.cli.tag import counted, report_line
from valuesparse.corpora._backends import BACKENDS, REGISTERED

if TYPE_CHECKING:
    from valuesparse.corpora._jobs import WrittenCounts
    from valuesparse.corpora._run import CorpusReport

# Copies of what the package has, so that help does not wait for it.
FEATURES = ("hashed", "supported", "complete")
METHODS = ("auto", "exact", "bp", "relaxed", "lp", "ad3")
FORMATS = ("conllu", "conllx")
COLUMNS = ("LEMMA", "UPOS", "XPOS", "FEATS")
_FILE = click.Path(dir_okay=False, path_type=Path)

# Options that the parser has its own defaults for, and those that some methods make no use of.
_SELDOM = ("min_size", "min_divergence", "min_joint", "max_iterations", "damping")
_TUNING = ("threshold", "max_rounds", *_SELDOM)
# The number of sentences whose notes say why they were left as they were.
_TOLD = 5


def _trees(default: str) -> Callable[[Command], Command]:
    """Add the options that say which trees there are; `default` is who decides otherwise."""
    options = [
        click.option(
            "--constraint", type=click.Choice(["tree", "projective"]),
            help=f"Which trees there are. [default: {default}]",
        ),
        click.option(
            "--single-root/--multi-root", default=None,
            help=f"Whether exactly one word is attached to the root. [default: {default}]",
        ),
        click.option(
            "--no-prune", "prune", flag_value=False, default=True,
            help="Look at all arcs, not only at those that an arc-factored model thinks possible.",
        ),
        click.option(
            "--threads", "-t", type=click.IntRange(min=1), metavar="N",
            help="Threads. The output is the same for any number. [default: every core]",
        ),
    ]  # fmt: skip

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _as_option(name: str, value: object) -> str:
    """Return an option and its value as a user gives them."""
    return f"--{name}" if value is True else f"--{name} {value}"


def _require_apart(model: Path, checkpoint: Path | None) -> None:
    """Refuse a checkpoint and a model of one name: neither need be there yet."""
    if checkpoint is None or is_standard(model):
        return
    if os.path.realpath(model) == os.path.realpath(checkpoint):
        raise ValueError(
            f"checkpoint: {checkpoint} is the model, and would be lost; name another file"
        )


@click.group()
def parse() -> None:
    """Dependency trees of sentences, in CoNLL-U and CoNLL-X."""


@parse.command(short_help="Train a parser.")
@click.argument("treebanks", type=Spooled(), nargs=-1, required=True, metavar="TRAIN...")
@click.option(
    "--output", "-o", type=Target(), required=True, callback=writable, metavar="MODEL",
    help="Where the model goes, - for the standard output.",
)  # fmt: skip
@click.option(
    "--order", type=click.Choice(["1", "2"]), default="2", show_default=True,
    help="1: arcs alone. 2: pairs of arcs, too.",
)  # fmt: skip
@click.option(
    "--beta", type=FloatRange(min=0, min_open=True), metavar="β",
    help="1 learns as a CRF does, inf as an SVM; that takes up to 4 times as long with --order 2. "
    "[default: 1]",
)  # fmt: skip
@click.option(
    "--gamma", type=FloatRange(min=0), metavar="γ",
    help="The cost of a wrong arc while learning. [default: 3]",
)  # fmt: skip
@click.option(
    "--ignore", type=click.Choice(COLUMNS, case_sensitive=False), multiple=True, metavar="COLUMN",
    help=f"Make no features of this column: {', '.join(COLUMNS)}. Several are fine.",
)  # fmt: skip
@click.option(
    "--features", type=click.Choice(FEATURES), default="hashed", show_default=True,
    help="Hashed, or a dictionary of those in the trees of TRAIN (supported) or in all candidates.",
)  # fmt: skip
@click.option(
    "--nonprojective", is_flag=True,
    help="Features of non-projective arcs: order 2, β = inf, parsed by ad3 or lp. Training "
    "takes 20 to 30 times as long, an hour for a treebank.",
)  # fmt: skip
@click.option(
    "--epochs", type=click.IntRange(min=1), metavar="N", help="Passes over TRAIN. [default: 6]"
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the order of sentences.",
)
@click.option(
    "--checkpoint", type=_FILE, callback=writable, metavar="FILE",
    help="Keep the state here, and go on from it when it is there. With more --epochs than before "
    "MODEL is that of so many from the start; fewer than the state has are refused.",
)  # fmt: skip
@_trees("what TRAIN has")
@quiet_option
def train(
    treebanks: tuple[Path, ...],
    output: Path,
    order: str,
    ignore: tuple[str, ...],
    beta: float | None,
    gamma: float | None,
    epochs: int | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Train a parser on the sentences of TRAIN, and write it to MODEL.

    The same sentences and options give the same model, bit for bit, for any number of threads.
    """
    from rich.console import Console

    from valuesparse import parsing
    from valuesparse.io._files import require_spared
    from valuesparse.parsing._examples import require_nonprojective

    try:
        constraint = options["constraint"] or "tree"
        require_nonprojective(options["nonprojective"], int(order), constraint, beta, _as_option)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with one_line_errors(None):
        for name, what in (("model", output), ("checkpoint", options["checkpoint"])):
            if what is not None and not is_standard(what):
                require_spared(name, what, dict.fromkeys(treebanks, "one of the inputs"))
        _require_apart(output, options["checkpoint"])
    # The package has the defaults of these.
    chosen = {"beta": beta, "gamma": gamma, "epochs": epochs}
    options |= {name: value for name, value in chosen.items() if value is not None}
    console = Console(stderr=True, highlight=False, quiet=quiet)
    with one_line_errors(None), console.status("Reading") as status:

        def watch(progress: Any) -> None:
            status.update(f"Training: {progress}")

        parser = parsing.train(
            list(treebanks), order=int(order), ignore=ignore, progress=watch, **options
        )
        with delivering(output) as path:
            parser.save(path)
    if not (quiet and is_standard(output)):
        say(output, f"Parser written to {output}")


@parse.command(short_help="Parse files, or what comes through a pipe.")
@click.argument("model", type=Spooled())
@click.argument("inputs", type=Input(), nargs=-1, metavar="[INPUT]...")
@click.option(
    "--output", "-o", metavar="OUTPUT",
    help="A file, or a folder: one that is there, a name that ends in a slash, or where there are "
    "several INPUT. [default: -, the standard output]",
)  # fmt: skip
@click.option(
    "--output-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="As --output, of a folder.",
)  # fmt: skip
@click.option(
    "--input-format", type=click.Choice(FORMATS),
    help="Format of INPUT, where its name does not tell. [default: conllu]",
)  # fmt: skip
@click.option(
    "--output-format", type=click.Choice(FORMATS),
    help="Format of one OUTPUT. [default: what its name tells, else that of INPUT]",
)  # fmt: skip
@click.option(
    "--method", type=click.Choice(METHODS), default="auto", show_default=True,
    help="How trees are found: relaxed passes messages of pairs of arcs that matter, bp of all; "
    "ad3 solves a linear program, slower and often better, lp the same one, slower by far; exact "
    "is for parsers of order 1. auto is relaxed, but ad3 after --nonprojective.",
)  # fmt: skip
@click.option(
    "--threshold", type=FloatRange(min=0), default=1e-4, show_default=True, metavar="ε",
    help="The least gain for which relaxed parsing adds a pair of arcs.",
)  # fmt: skip
@click.option(
    "--max-rounds", type=click.IntRange(min=0), default=1, show_default=True, metavar="R",
    help="How often relaxed parsing adds pairs.",
)  # fmt: skip
@click.option(
    "--min-size", type=FloatRange(min=0), metavar="ε",
    help="Instead of --threshold: add the fewest pairs of arcs that leave out a gain of at most ε.",
)  # fmt: skip
@click.option(
    "--min-divergence", type=click.IntRange(min=0), metavar="N",
    help="Instead of --threshold: add the N pairs of arcs of greatest gain.",
)  # fmt: skip
@click.option(
    "--min-joint", type=FloatRange(min=0), metavar="λ",
    help="Instead of --threshold: add the pairs of arcs of a gain of at least λ.",
)  # fmt: skip
@click.option(
    "--max-iterations", type=click.IntRange(min=1), metavar="N",
    help="Iterations of belief propagation at most. [default: 10]",
)  # fmt: skip
@click.option(
    "--damping", type=FloatRange(0, 1, max_open=True), metavar="D",
    help="Share of the old message that a new one keeps. [default: 0]",
)  # fmt: skip
@click.option(
    "--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True,
    help="Stop at a sentence that cannot be parsed, or copy it as it is.",
)  # fmt: skip
@_trees("what MODEL was trained with")
@click.option(
    "--backend", type=click.Choice([b for b in BACKENDS if b not in REGISTERED]),
    help="Who fills a folder: threads or processes (loky) of this machine, or a cluster. "
    "[default: threads]",
)  # fmt: skip
@shards_options("Shards of a folder")
@quiet_option
def predict(
    model: Path,
    inputs: tuple[Any, ...],
    output: str | None,
    output_dir: Path | None,
    input_format: str | None,
    output_format: str | None,
    on_error: str,
    threads: int | None,
    backend: str | None,
    jobs: int | None,
    scheduler: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Parse INPUT with MODEL: the same text with heads, labels and probabilities of heads.

    \b
    Examples:
      valuesparse parse predict en.parser news.conllu -o news.parsed.conllu
      zcat news.conllu.gz | valuesparse parse predict en.parser > news.parsed.conllu
      valuesparse parse predict en.parser archive/*.conllu -o parsed/

    Without INPUT, or for -, the standard input is parsed as it comes. In a folder large files are
    cut into shards; run the same command again after an interruption, and it goes on with the
    shards that are missing.
    """  # noqa: D301 (click takes the backspace itself)
    from rich.console import Console

    from valuesparse import parsing
    from valuesparse.parsing._corpora import parse_corpus, parse_file
    from valuesparse.parsing._parser import require_used

    if output is not None and output_dir is not None:
        raise click.UsageError("--output and --output-dir: say one of them")
    source_of = click.get_current_context().get_parameter_source
    said = [name for name in _TUNING if source_of(name) is not ParameterSource.DEFAULT]
    with usage_errors():
        require_used(options["method"], said, lambda name: f"--{name.replace('_', '-')}")
    sources = given(inputs)
    where = output if output_dir is None else f"{output_dir}{os.sep}"
    folder = folder_asked(where, sources, bool(backend or jobs or scheduler))
    for name in _SELDOM:
        if options[name] is None:
            del options[name]
    left = _Left()
    if folder is None:
        target = None if output is None else as_writable(Path(output))
        hidden = quiet or is_standard(target)  # it would stand among the sentences
        console = Console(stderr=True, highlight=False, quiet=hidden)
        with one_line_errors(None), console.status("Loading") as status:

            def watch(so_far: WrittenCounts) -> None:
                status.update(f"Parsing: {_counted(so_far)}")

            spare(target, {**dict.fromkeys(sources, "the input"), model: "the model"})
            counts = parse_file(
                parsing.load(model), sources[0], opened(target), input_format=input_format,
                output_format=output_format, options={**options, "threads": threads},
                on_error=on_error, progress=watch,
            )  # fmt: skip
        left(counts)
        left.tell()
        into = "" if is_standard(target) else f" into {target}"
        if not (quiet and is_standard(target)):
            say(target, f"{_counted(counts)} parsed{into}")
        return
    if output_format is not None:
        raise click.UsageError("--output-format is for one file; a folder keeps the formats")
    with one_line_errors(None), progress_bar("Parsing", quiet) as update:
        report = parse_corpus(
            parsing.load, model, sources, folder, input_format=input_format, options=options,
            on_error=on_error, threads=threads, backend=backend or "threads", jobs=jobs,
            scheduler=scheduler, progress=update, tell=left,
        )  # fmt: skip
    left.tell()
    say(folder, report_line(report, _counted(report), "parsed"))


def _counted(counts: WrittenCounts | CorpusReport) -> str:
    return f"{counted(counts.sentences, 'sentence')}, {counted(counts.tokens, 'word')}"


class _Left:
    """Sentences that were left as they were, of all shards."""

    def __init__(self) -> None:
        self.count = 0
        self.notes: tuple[str, ...] = ()

    def __call__(self, counts: WrittenCounts) -> None:
        self.count += counts.left
        self.notes = (*self.notes, *counts.notes)[:_TOLD]

    def tell(self) -> None:
        """Say it on the standard error: how many, and why, of the first."""
        for note in self.notes:
            click.echo(f"Left as it was: {note}", err=True)
        if self.count > len(self.notes):
            click.echo(f"Left as they were: {self.count:,} sentences in all", err=True)


@parse.command(short_help="Compare trees with the right ones.")
@click.argument("gold", type=Spooled())
@click.argument("system", type=Spooled())
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
