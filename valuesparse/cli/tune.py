"""``valuesparse tune``: which ζ suits a model and data of one's own."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from valuesparse._extras import MissingExtraError, require
from valuesparse.cli._choice import (
    MEASURES,
    CostLimit,
    choose,
    error_of,
    microseconds,
    on_front,
)
from valuesparse.cli._measure import ROUNDS, ZETAS, Ladder, Row, provable, sample_seconds
from valuesparse.cli._models import one_line_errors, spare
from valuesparse.cli._options import (
    FloatRange,
    max_labels_option,
    plot_option,
    tell_plot,
    tols_option,
    zetas_option,
)
from valuesparse.cli._reading import reading
from valuesparse.cli._sequences import NPZ, Scored, is_arrays, load_arrays, load_text
from valuesparse.cli._streams import Spooled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Below this share of known attributes the model was hardly trained on such data.
_FEW_KNOWN = 0.2
# Quartiles of the times this far apart mean that the machine was busy.
_UNSTEADY = 1.5


_EXISTING = Spooled()


@click.command()
@click.argument("model", type=_EXISTING)
@click.argument("data", type=_EXISTING)
@click.option(
    "--time-budget", type=FloatRange(min=0, min_open=True), metavar="US",
    help="Microseconds per token: recommend the setting of least error within them.",
)  # fmt: skip
@click.option(
    "--error-budget", type=FloatRange(min=0), metavar="E",
    help="Recommend the fastest setting whose error is at most E.",
)  # fmt: skip
@click.option(
    "--error", "measure", type=click.Choice(list(MEASURES)), default="mean", show_default=True,
    help="Which error counts: of the marginals the mean over tokens or the largest, or the share "
    "of tokens whose best tag changes.",
)  # fmt: skip
@zetas_option
@tols_option
@click.option(
    "--threads", "-t", type=click.IntRange(min=1), metavar="N",
    help="Threads to measure with. [default: every core]",
)  # fmt: skip
@reading(
    "DATA", "what MODEL was trained with, else words", more=(NPZ,),
    tags="as trained; in CoNLL-U UPOS or XPOS, whichever MODEL knows",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(min=1), default=100_000, show_default=True, metavar="N",
    help="Measure on about this many tokens: whole sequences, evenly spaced.",
)  # fmt: skip
@max_labels_option
@plot_option("valuesparse-tune.png")
def tune(
    model: Path,
    data: Path,
    time_budget: float | None,
    error_budget: float | None,
    measure: str,
    zetas: tuple[float, ...],
    tols: tuple[float, ...],
    threads: int | None,
    features: str | None,
    input_format: str | None,
    word: str | None,
    tags: str | None,
    tokens: int,
    max_labels: int | None,
    output: Path,
) -> None:
    """Measure exact inference and ladders of ζ and tol on your own MODEL and DATA; recommend one.

    MODEL is a CRFsuite model and DATA what valuesparse tag and valuesparse train read: CoNLL,
    CoNLL-U, TSV, Parquet or attribute files; how words become attributes is kept beside MODEL.

    \b
    Or both are .npz files with the scores of any model:
      DATA   unary (N, K), and if there are several sequences lengths (B,);
             gold (N,) is optional: labels from 0, -1 for one that MODEL lacks
      MODEL  transition (K, K), and if there are any start (K,) and end (K,)
    \b
    Measured, in a table and in a plot:
      µs/token  log-potentials in, marginals out: a warm-up, then the median of 7
                alternating runs. Turning attributes into log-potentials is not
                counted.
      speed-up  over our exact
      agree     share of the tokens whose best tag is that of exact inference
      gold      share of the tokens whose best tag is the one in DATA
      error     a token's largest absolute error of a marginal: mean, max over
                tokens, and the largest that is proved for these tokens: with tol by
                the result itself, with ζ by certify()
      islands   share of the tokens held deterministic
      full msgs share of the messages that cost K² operations; the rest cost K
    Settings beaten in both time and error are dim.

    A result with tol proves its error on any data; the other errors are those of the tokens
    measured, not bounds for others. The exit code is 1 when no
    setting keeps within the budgets.
    """  # noqa: D301 - the backslash-b is a character that click looks for
    from valuesparse.crf.corpora._beside import beside

    budget = CostLimit(time_budget, error_budget, measure)
    try:
        require("cli", "rich", "matplotlib")
    except MissingExtraError as error:
        raise click.ClickException(str(error)) from error
    arrays = input_format == NPZ or (input_format is None and is_arrays(data))
    if arrays != is_arrays(model):
        raise click.UsageError(
            "scores and a model go together: give both as .npz files, or a CRFsuite model and text"
        )
    if arrays and not features is word is tags is None:
        raise click.UsageError("--features, --word and --tags are for words, not for .npz files")
    if arrays and max_labels is not None:
        raise click.UsageError("--max-labels is for CRFsuite models, not for .npz files")

    spare(
        output,
        {model: "the model", beside(model): "what the model was trained with", data: "the data"},
    )

    def load() -> Scored:  # with None, what is called names the files itself
        if arrays:
            with one_line_errors(None):
                return load_arrays(model, data, tokens)
        with one_line_errors(model):
            from valuesparse.corpora._files import fingerprint
            from valuesparse.crf.corpora._beside import constraints_of
            from valuesparse.crf.corpora._features import files_behind
            from valuesparse.crf.corpora._reader import extraction_of
            from valuesparse.io.crfsuite import read_crfsuite

            crfsuite = read_crfsuite(model, max_labels=max_labels)
        with one_line_errors(None):
            extraction = extraction_of(model, features, word, tags)
            scheme = constraints_of(model.resolve(), None, fingerprint(model))
        spare(output, files_behind(features))
        return load_text(crfsuite, data, input_format, extraction, tokens, scheme)

    _run(model, data, load, budget, zetas or ZETAS, tols or None, threads, output)


def _run(
    model: Path,
    data: Path,
    load: Callable[[], Scored],
    budget: CostLimit,
    zetas: Sequence[float],
    tols: Sequence[float] | None,
    threads: int | None,
    output: Path,
) -> None:
    """Do what the command says, step by step."""
    from rich.console import Console

    from valuesparse.cli._plots import write_tradeoff

    console = Console(highlight=False, emoji=False)
    begin = time.perf_counter()
    with console.status("Reading"), one_line_errors(data):
        scored = load()
    with console.status("Measuring") as status, one_line_errors(data):
        turns = iter(range(1, ROUNDS + 2))
        chosen_tols, unproved = (
            (None, None) if tols is None else provable(scored.chain, list(dict.fromkeys(tols)))
        )
        ladder = Ladder(scored.chain, list(dict.fromkeys(zetas)), threads, chosen_tols)
        samples = sample_seconds(
            ladder.functions,
            on_round=lambda: status.update(f"Measuring: round {next(turns)} of {ROUNDS + 1} done"),
        )
    rows = ladder.rows(
        {name: statistics.median(times) for name, times in samples.items()}, scored.gold
    )
    chosen = choose(rows, budget)
    # The plot comes first, so that both it and the table are there where one of them fails.
    chain = scored.chain
    cores = {None: "every core", 1: "1 thread"}.get(threads, f"{threads} threads")
    written, problem = output, None
    try:
        with one_line_errors(output):
            written = write_tradeoff(
                rows,
                output,
                title=f"Exact inference, islands and certificates: {model.name}",
                subtitle=f"{chain.n_labels} labels, {chain.n_positions:,} tokens of {data.name}, "
                f"{cores}; log-potentials in, marginals out",
                best=0 if chosen is None else chosen,
            )
    except click.ClickException as error:
        problem = error
    _describe(console, data, scored)
    console.print(_table(rows, budget, chosen))
    if unproved is not None:
        console.print(f"\n[yellow]{unproved}[/yellow]")
    if max(map(_spread, samples.values())) > _UNSTEADY:
        console.print(
            "\n[yellow]Times vary much from run to run: something else uses this machine. Do not "
            "trust the speed-ups; run it again when it is quiet.[/yellow]"
        )
    if problem is not None:
        raise problem
    console.print()
    tell_plot(console, written)
    if chosen is None:
        raise click.ClickException(_refusal(rows, budget))
    console.print(_recommendation(rows, chosen, budget))
    console.print(f"[dim]Done in {time.perf_counter() - begin:.0f} s.[/dim]")


def _spread(times: Sequence[float]) -> float:
    """Return the third quartile over the first."""
    low, _, high = statistics.quantiles(times, n=4)
    return high / low


def _describe(console: Console, data: Path, scored: Scored) -> None:
    chain = scored.chain
    sequences = f"{chain.n_sequences:,}"
    if chain.n_sequences < scored.total:
        sequences += f" of {scored.total:,}"
    console.print(data.name, style="bold", markup=False, soft_wrap=True)
    size = f"{chain.n_positions:,} tokens, {chain.n_labels} labels, {chain.dtype}"
    console.print(f"{sequences} sequences, {size}")
    if scored.known < _FEW_KNOWN:
        console.print(
            f"[yellow]The model knows only {scored.known:.0%} of the attributes: marginals, and "
            "with them the best ζ, may be others on data like those it was trained on.[/yellow]"
        )


def _table(rows: Sequence[Row], budget: CostLimit, chosen: int | None) -> Table:
    """Return the table of all settings; it fits into 80 columns."""
    from rich import box
    from rich.table import Table

    from valuesparse.cli._report import proved

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False, header_style="bold")
    table.add_column("setting", no_wrap=True, min_width=12)
    with_gold = not math.isnan(rows[0].accuracy)
    headings = ["µs a\ntoken", "speed-\nup", "agree\n%", "gold\n%", "mean\nerror", "max\nerror"]
    headings += ["prov-\ned", "isl-\nands", "full\nmsgs"]
    for heading in headings:
        if with_gold or heading != "gold\n%":
            table.add_column(heading, justify="right", no_wrap=True)
    front = on_front(rows, budget.measure)
    for i, row in enumerate(rows):
        cells = [_three(microseconds(row)), f"{row.speed / rows[0].speed:.2f}"]
        cells.append(f"{100 * row.agreement:.2f}")
        if with_gold:
            cells.append(f"{100 * row.accuracy:.2f}")
        cells += [_short(row.mean_error), _short(row.max_error), proved(row)]
        cells += [f"{100 * row.islands:.0f}", f"{100 * row.full:.0f}"]
        style = "bold green" if i == chosen else None if front[i] else "dim"
        table.add_row(row.name + (" ◀" if i == chosen else ""), *cells, style=style)
    return table


def _recommendation(rows: Sequence[Row], chosen: int, budget: CostLimit) -> str:
    row = rows[chosen]
    setting = f"zeta={1.0 if row.zeta is None else row.zeta:g}"
    if row.tol is not None:
        setting = f"tol={row.tol:g}"
    why = {
        (True, True): "the fastest within both budgets",
        (True, False): "the smallest error within the time budget",
        (False, True): "the fastest within the error budget",
        (False, False): "the fastest that changes at most one best tag in a thousand",
    }[budget.microseconds is not None, budget.error is not None]
    cost = f"{microseconds(row):.3g} µs per token, {row.speed / rows[0].speed:.2f}x exact"
    return (
        f"[bold]Recommended: {setting}[/bold] ({why}): {cost}, "
        f"{MEASURES[budget.measure]} {_number(error_of(row, budget.measure))} on these tokens"
    )


def _refusal(rows: Sequence[Row], budget: CostLimit) -> str:
    """Say that nothing fits, and what comes nearest."""
    fastest = min(rows, key=microseconds)
    parts = []
    if budget.microseconds is not None:
        parts.append(
            f"the fastest, {fastest.name}, takes {microseconds(fastest):.3g} µs per token "
            f"of {budget.microseconds:g}"
        )
    if budget.error is not None:
        within = [row for row in rows if error_of(row, budget.measure) <= budget.error]
        best = min(within, key=microseconds)  # exact is always among them
        parts.append(
            f"the fastest of error {budget.error:g} or less, {best.name}, takes "
            f"{microseconds(best):.3g} µs"
        )
    return f"no setting keeps within the budget: {'; '.join(parts)}"


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.1e}" if value < 0.001 else f"{value:.4f}"


def _three(value: float) -> str:
    """Return a time with three decimals, or fewer where it is large: in five characters."""
    return f"{value:.{3 if value < 10 else 1 if value < 1000 else 0}f}"


def _short(value: float) -> str:
    """Return an error in at most six characters: a column of the table has no more."""
    text = _number(value).replace("e-0", "e-")
    return text if len(text) <= 6 else f"{value:.0e}"
