"""``valuesparse info``: what a model file holds, and what inference on it would cost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from valuesparse.cli._models import load, model_options, one_line_errors
from valuesparse.cli._options import FloatRange

if TYPE_CHECKING:
    from rich.table import Table

    from valuesparse import FactorGraph, JunctionTree
    from valuesparse.cli._graphs import Forecast
    from valuesparse.inference import Division


@click.command()
@model_options
@click.option(
    "--zeta", "-z", type=FloatRange(0, 1), metavar="ζ",
    help="The ζ that infer would be called with; 1 is exact. [default: 1]",
)  # fmt: skip
def info(
    model: Path,
    evidence: Path | None,
    sample: int | None,
    input_format: str | None,
    memory_limit: int | None,
    zeta: float | None,
) -> None:
    """Say what MODEL holds, what exact inference costs, and what infer would choose and why.

    MODEL is a .uai, .fg or .bif file, or one of them as .gz. Nothing is computed but the plan.

    \b
    Shown:
      width          variables of the largest clique, less one, after evidence; the search for
                     a junction tree is given up where its tables are beyond any memory
      clique tables  entries of all tables of the junction tree
      conditioned on variables whose states are tried one by one, where the tree does not fit;
                     memory is then that of the largest slice, and time that of all
      time           of one thread, estimated from the plan; finding the plan comes on top
      infer would    what runs with these options, and why; costs are those of the exact answer
    """  # noqa: D301 (click takes the backspace itself)
    from rich.console import Console

    from valuesparse.cli import _graphs

    graph = load(model, evidence, sample, input_format)
    working = Console(stderr=True).status("Looking for a junction tree")
    with one_line_errors(model), working:
        plan = _graphs.forecast(graph, memory_limit, zeta)
    console = Console(highlight=False, emoji=False)
    console.print(model.name, style="bold", markup=False, soft_wrap=True)
    console.print(_table(graph, plan))


def _table(graph: FactorGraph, plan: Forecast) -> Table:
    from rich.table import Table
    from rich.text import Text

    from valuesparse.inference._memory import show_bytes

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")

    def row(name: str, value: str, style: str = "") -> None:
        # Text, not markup: names in files may hold brackets.
        table.add_row(name, Text(value, style=style))

    cards = graph.cardinalities
    row("variables", f"{len(cards):,}")
    if cards:
        low, high = min(cards), max(cards)
        row("states", f"{low} each" if low == high else f"{low} to {high}, {sum(cards):,} in all")
    sizes, zeros = _sizes(graph)
    row("factors", f"{len(sizes):,}, over at most {_variables(_widest(graph))}")
    entries = sum(sizes)
    if entries:
        share = f", {100 * zeros / entries:.0f} % zeros" if zeros else ""
        row("table entries", f"{entries:,}, at most {max(sizes):,} in one{share}")
    row("evidence", _variables(len(graph.evidence)) if graph.evidence else "none")
    table.add_row("", "")
    tree = plan.tree
    if tree is None:
        row("width", f"unknown: the search was given up after {_seconds(plan.compiling)}")
    else:
        row("width", f"{tree.width}")
        row("clique tables", f"{_count(tree.table_size)} entries")
        cost: Division | JunctionTree = plan.division or tree
        if plan.division is not None and plan.division.slices > 1:
            names = ", ".join(str(name) for name in plan.division.conditioned)
            row("conditioned on", f"{names}: {plan.division.slices} slices, one after the other")
        row("memory", show_bytes(cost.memory))
        row("time", f"about {_seconds(cost.seconds)}, and {_seconds(plan.compiling)} for the plan")
    table.add_row("", "")
    if plan.method is None:
        row("infer would", "refuse", "bold red")
    else:
        row("infer would", f"run {plan.method}", "bold green")
    row("because", plan.reason)
    return table


def _sizes(graph: FactorGraph) -> tuple[list[int], int]:
    """Return the entries of each factor's table, and how many are zeros of the tables that are."""
    import numpy as np

    from valuesparse.factors import Table

    sizes = [math.prod(graph.cardinalities[v] for v in f.scope) for f in graph.factors]
    zeros = sum(
        int(np.count_nonzero(np.isneginf(f.log_table))) for f in graph.factors if type(f) is Table
    )
    return sizes, zeros


def _variables(n: int) -> str:
    return f"{n:,} variable" if n == 1 else f"{n:,} variables"


def _widest(graph: FactorGraph) -> int:
    return max((len(f.scope) for f in graph.factors), default=0)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number < 1e12 else f"{number:.2e}"


def _seconds(seconds: float) -> str:
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:,.0f} days"
