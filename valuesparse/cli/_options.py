"""Options that several commands have: where output goes, shards, and the ladder of ζ."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from valuesparse.cli._group import Command
from valuesparse.cli._measure import TOLS, ZETAS
from valuesparse.cli._streams import is_standard
from valuesparse.crf._schemes import SCHEMES

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "FloatRange",
    "as_writable",
    "constraints_option",
    "max_labels_option",
    "plot_option",
    "quiet_option",
    "shards_options",
    "tell_plot",
    "tols_option",
    "writable",
    "zetas_option",
]


class FloatRange(click.FloatRange):
    """Numbers within limits, which `nan` passes in its base class."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


def writable(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refuse what cannot be written before the work, not after it."""
    return None if value is None else as_writable(value)


def as_writable(value: Path) -> Path:
    """Return a path, once it is certain that it can be written."""
    from valuesparse.io._files import check_target

    if is_standard(value):
        return value
    if not value.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {value.absolute().parent} does not exist")
    try:
        check_target(value)
    except OSError as error:
        raise click.BadParameter(f"{value} cannot be written: {error.strerror}") from error
    return value


def plot_option(default: str) -> Callable[[Command], Command]:
    """Add ``--output``, where the plot goes."""
    return click.option(
        "--output", "-o",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path(default), show_default=True, callback=writable,
        help="Where the plot goes (PNG). An existing file is replaced.",
    )  # fmt: skip


def zetas_option(command: Command) -> Command:
    """Add ``--zeta``, as often as wanted."""
    return click.option(
        "--zeta", "-z", "zetas", type=FloatRange(0, 1), multiple=True, metavar="ζ",
        help="Threshold to try, between 0 and 1; give it several times for several. "
        f"[default: {', '.join(f'{zeta:g}' for zeta in ZETAS)}]",
    )(command)  # fmt: skip


def tols_option(command: Command) -> Command:
    """Add ``--tol``, as often as wanted."""
    return click.option(
        "--tol", "tols", type=FloatRange(0, 1, min_open=True), multiple=True, metavar="ε",
        help="Tolerance to try, between 0 and 1: no marginal is off by more, proved; give it "
        f"several times for several. [default: {', '.join(f'{tol:g}' for tol in TOLS)}]",
    )(command)  # fmt: skip


def quiet_option(command: Command) -> Command:
    """Add ``--quiet``."""
    return click.option("--quiet", "-q", is_flag=True, help="Show no progress.")(command)


def constraints_option(verb: str, default: str | None = None) -> Callable[[Command], Command]:
    """Add ``--constraints``; with a `default`, which help tells, "none" is a choice too."""
    names = list(SCHEMES) if default is None else [*SCHEMES, "none"]
    more = "" if default is None else f" [default: {default}]"
    return click.option(
        "--constraints", type=click.Choice(names),
        help=f"{verb} so that no labels break this scheme, as I-PER after O does in BIO.{more}",
    )  # fmt: skip


def max_labels_option(command: Command) -> Command:
    """Add ``--max-labels``."""
    return click.option(
        "--max-labels", type=click.IntRange(min=1), metavar="N",
        help="The most labels that MODEL may have. [default: 1024, more where its file is large]",
    )(command)  # fmt: skip


def shards_options(shards: str) -> Callable[[Command], Command]:
    """Add ``--jobs`` and ``--scheduler``; `shards` names what is done side by side."""

    def add(command: Command) -> Command:
        command = click.option(
            "--scheduler", metavar="ADDRESS", help="Dask's scheduler, as tcp://10.0.0.1:8786."
        )(command)
        return click.option(
            "--jobs", "-j", type=click.IntRange(min=1), metavar="N",
            help=f"{shards} at a time. [default: every core, or worker]",
        )(command)  # fmt: skip

    return add


def tell_plot(console: Console, path: Path) -> None:
    """Say where the plot is, in one piece, however long: a wrapped path cannot be copied."""
    console.print("Plot written to", style="bold", end=" ")
    console.print(str(path), soft_wrap=True)
