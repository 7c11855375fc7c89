"""Options of the commands that read corpora."""

from __future__ import annotations

from collections.abc import Callable

import click

from valuesparse.cli._group import Command
from valuesparse.crf.corpora._formats import FORMATS

__all__ = ["reading"]


def reading(
    data: str, default: str, tags: str | None = None, more: tuple[str, ...] = ()
) -> Callable[[Command], Command]:
    """Add ``--features``, ``--input-format`` and ``--word``, with `tags` ``--tags``.

    `default` and `tags` are the defaults that help texts tell; `more` are further formats.
    """
    formats = (*FORMATS, *more)
    options = [
        click.option(
            "--features", metavar="NAME",
            help="How words become attributes: words, cantonese, template:FILE (CRF++, Wapiti) or "
            f"package.module:function. [default: {default}]",
        ),
        click.option(
            "--input-format", type=click.Choice(formats), metavar="|".join(formats),
            help=f"Format of {data}. [default: what the name or first sentence tells; - is conll]",
        ),
        click.option(
            "--word", metavar="COLUMN", help="Name or number, from 1, of the column of words."
        ),
    ]  # fmt: skip
    if tags is not None:
        text = f"Name or number of the column of labels. [default: {tags}]"
        options.append(click.option("--tags", metavar="COLUMN", help=text))

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
