"""``-``, the standard input or output, wherever a file is expected."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import click

from _valuesparse import Unheard

__all__ = [
    "STANDARD", "Input", "Spooled", "Target", "delivering", "folder_asked", "given", "is_standard",
    "opened", "plain_names", "say", "standard_input", "standard_output",
]  # fmt: skip

#: The name of the standard input and of the standard output.
STANDARD = "-"
_READ = "valuesparse.standard_input"
_SPOOLED = "valuesparse.spooled"


def is_standard(path: Path | None) -> bool:
    """Return whether a path stands for the standard output; None does, too."""
    return path is None or str(path) == STANDARD


class Input(click.Path):
    """A file that is there, or a stream for ``-``: what is read once, from its beginning."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or the stream."""
        if value == STANDARD:
            return self.standard(param, ctx)
        return super().convert(value, param, ctx)

    def standard(self, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what stands for the standard input."""
        from valuesparse.corpora._stream import Stream

        return Stream(_once(self, param, ctx), STANDARD)


class Spooled(Input):
    """A file that is there; ``-`` is copied to one, for what is read more than once."""

    def standard(self, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a file with what the standard input has, which goes when the command ends."""
        if ctx is None or ctx.resilient_parsing:  # a shell asks how to complete a line
            return Path(STANDARD)
        source = _once(self, param, ctx)
        # A command whose other arguments are wrong does not end its own context.
        ends = ctx.find_root()
        folder = ends.with_resource(tempfile.TemporaryDirectory(prefix="valuesparse-"))
        path = Path(folder, STANDARD)
        with open(path, "wb") as file:
            shutil.copyfileobj(source, file)
        ctx.meta[_SPOOLED] = path
        return path


def _once(kind: Input, param: click.Parameter | None, ctx: click.Context | None) -> IO[bytes]:
    if ctx is not None:
        if ctx.meta.get(_READ):
            kind.fail("the standard input can be read once alone", param, ctx)
        ctx.meta[_READ] = True
    return standard_input()


def plain_names(text: str) -> str:
    """Return a message in which a copy of the standard input is called ``-``."""
    ctx = click.get_current_context(silent=True)
    spooled = None if ctx is None else ctx.meta.get(_SPOOLED)
    return text if spooled is None else text.replace(str(spooled), STANDARD)


def is_copy(path: Path) -> bool:
    """Say whether a file is the copy of the standard input."""
    return click.get_current_context().meta.get(_SPOOLED) == path


class Target(click.Path):
    """A file to write, or ``-``."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, allow_dash=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":  # as a path it would be the working folder
            self.fail("the name is empty: name a file, or - for the standard output", param, ctx)
        return super().convert(value, param, ctx)


def standard_input() -> IO[bytes]:
    """Return the standard input, as bytes."""
    if sys.stdin is None:
        raise click.ClickException("the standard input is closed: name a file instead")
    return sys.stdin.buffer


def standard_output() -> IO[bytes]:
    """Return the standard output, as bytes."""
    sys.stdout.flush()
    return sys.stdout.buffer


def given(inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the inputs; where there are none the standard input, unless that is a terminal."""
    if inputs:
        return inputs
    if standard_input().isatty():
        raise click.UsageError("no INPUT: name files, or - for the standard input")
    return [Input().convert(STANDARD, None, click.get_current_context())]


def folder_asked(output: str | None, inputs: Sequence[Any], spread: bool) -> Path | None:
    """Return the folder that output goes to, None where it goes to a file.

    It goes to one that is there, to a name that ends in a slash, and where there are several
    inputs; `spread` says whether somebody wants it done side by side.
    """
    several = len(inputs) > 1
    ends = tuple(filter(None, (os.sep, os.altsep)))
    if output is None or output == STANDARD:
        if several:
            raise click.UsageError("several INPUT go to a folder: name one with --output")
        folder = None
    elif several or output.endswith(ends) or os.path.isdir(output):
        folder = Path(output)
        if folder.exists() and not folder.is_dir():
            raise click.UsageError(f"output goes to a folder here, and {output} is a file")
        if not all(isinstance(source, Path) for source in inputs):
            raise click.UsageError("text from a pipe goes to a file, not to a folder")
    else:
        folder = None
    if folder is None and spread:
        raise click.UsageError(
            "--backend, --jobs and --scheduler fill a folder: end --output with a slash"
        )
    return folder


def opened(output: Path | None) -> Path | IO[bytes]:
    """Return what a library function writes to."""
    return standard_output() if output is None or is_standard(output) else output


@contextmanager
def delivering(output: Path | None) -> Iterator[Path]:
    """Give the file to write; for the standard output one that is copied there once it is done."""
    if output is not None and not is_standard(output):
        yield output
        return
    standard_output()  # one that is closed is an error before the work, not after it
    with tempfile.TemporaryDirectory(prefix="valuesparse-") as folder:
        path = Path(folder, "output")
        yield path
        with open(path, "rb") as file:
            shutil.copyfileobj(file, standard_output())
        standard_output().flush()


def say(output: Path | None, text: str) -> None:
    """Say what was done, on the standard error where the standard output has the answer.

    The work is done, and that nobody can read this is no error.
    """
    if not is_standard(output):
        sys.stdout = cast("IO[str]", Unheard(sys.stdout))
    click.echo(text, err=is_standard(output))
