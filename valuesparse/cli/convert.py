"""``valuesparse convert``: write a model file in another format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from valuesparse.cli._models import FORMATS, format_told, one_line_errors, read, spare
from valuesparse.cli._options import writable
from valuesparse.cli._streams import Spooled, Target, delivering, is_standard

if TYPE_CHECKING:
    from valuesparse import FactorGraph


@click.command()
@click.argument("model", type=Spooled())
@click.argument("output", type=Target(), callback=writable)
@click.option(
    "--input-format", type=click.Choice(FORMATS), metavar="|".join(FORMATS),
    help="Format of MODEL, where its name does not tell, as of -.",
)  # fmt: skip
@click.option(
    "--output-format", type=click.Choice(FORMATS), metavar="|".join(FORMATS),
    help="Format of OUTPUT, where its name does not tell, as of -.",
)  # fmt: skip
def convert(model: Path, output: Path, input_format: str | None, output_format: str | None) -> None:
    """Read MODEL and write it to OUTPUT, between .uai, .fg and .bif, plain or as .gz.

    \b
    Examples:
      valuesparse convert asia.bif asia.uai
      zcat grid.uai.gz | valuesparse convert - - --input-format uai --output-format fg

    Factors keep their order and all digits; tables of BIF have that of their variables. UAI and
    .fg have no names: they are lost. A UAI file says BAYES where every variable of MODEL has a
    conditional table, and there is nothing else.
    """  # noqa: D301 (click takes the backspace itself)
    import valuesparse as vs

    kind = output_format or format_told(output, "--output-format")
    spare(output, {model: "the model"})
    write = {"uai": _write_uai, "fg": vs.write_fg, "bif": vs.write_bif}[kind]
    graph = read(model, input_format)
    with one_line_errors(None if is_standard(output) else output), delivering(output) as path:
        write(graph, path)


def _write_uai(graph: FactorGraph, path: Path) -> None:
    """Write a graph, as a Bayesian network where it is one."""
    import valuesparse as vs

    try:
        graph.conditional_tables("BAYES")
    except ValueError:
        return vs.write_uai(graph, path)
    return vs.write_uai(graph, path, kind="BAYES")
