"""Options of the commands that read corpora."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from valuesparse.crf.corpora._formats import FORMATS

__all__ = ["reading"]

Command = TypeVar("Command", bound=Callable[..., Any])


def reading(data: str, default: str) -> Callable[[Command], Command]:
    """Add ``--features``, ``--input-format`` and ``--word``; `default` is said of the first."""
    options = (
        click.option(
            "--features", metavar="NAME",
            help="How words become attributes: words, cantonese, template:FILE (CRF++, Wapiti) or "
            f"package.module:function. [default: {default}]",
        ),
        click.option(
            "--input-format", type=click.Choice(FORMATS), metavar="|".join(FORMATS),
            help=f"Format of {data}, where names do not tell.",
        ),
        click.option(
            "--word", metavar="COLUMN", help="Name or number, from 1, of the column of words."
        ),
    )  # fmt: skip

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
