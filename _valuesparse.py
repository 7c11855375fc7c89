"""The ``valuesparse`` command: outside of the package, which takes a while to import.

The help of all commands needs click alone. A command imports the package, which may refuse that.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click
    import click.shell_completion

__all__ = ["COMMANDS", "Unheard", "group", "main"]

#: The line of each command in the help of all; its module is imported when it is called.
COMMANDS = {
    "train": "Train a tagger.",
    "tag": "Tag files, or what comes through a pipe.",
    "eval": "Compare labels with the right ones.",
    "dump": "Show what a tagger's model holds.",
    "tune": "Measure which ζ suits a tagger and data.",
    "parse": "Train, use and compare dependency parsers.",
    "solve": "Answer a question about a model file.",
    "info": "Say what a model file holds and costs.",
    "convert": "Write a model file in another format.",
    "demo": "Tag Cantonese, exactly and ever faster.",
}


class Unheard:
    """A stream of notes: a command whose work is done does not fail where nobody can read them."""

    def __init__(self, stream: IO[Any]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> Unheard:
        """The stream of bytes."""
        return Unheard(self._stream.buffer)  # type: ignore[attr-defined]

    def write(self, text: Any) -> int:
        """Write what can be written."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def writelines(self, texts: Iterable[Any]) -> None:
        """Write what can be written of each."""
        for text in texts:
            self.write(text)

    def flush(self) -> None:
        """Have what can be written written."""
        with suppress(OSError):
            self._stream.flush()


class _Closed(io.TextIOBase):
    """The standard output where there is none: an error once something is written to it."""

    encoding, errors = "utf-8", "strict"

    @property
    def buffer(self) -> Any:
        raise OSError(errno.EBADF, "the standard output is closed")

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "the standard output is closed")


class _Output(io.FileIO):
    """The standard output, which errors name."""

    def write(self, data: Any, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "the standard output"
            raise


def _prepare_streams() -> None:
    """Put something in the place of streams that are closed, and of those of answers and notes.

    A character that the encoding of the standard output lacks is written by its number.
    """
    if sys.stdout is None:
        sys.stdout = _Closed()
    _name_output()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stderr, Unheard):
        stream = io.StringIO() if sys.stderr is None else sys.stderr
        sys.stderr = cast("IO[str]", Unheard(stream))


def _name_output() -> None:
    """Have errors of the standard output say that they are; of terminals and on Windows, not."""
    old = sys.stdout
    # Type by type: pytest and others put their own here.
    if os.name == "nt" or old is not sys.__stdout__ or type(old) is not io.TextIOWrapper:
        return
    raw: Any = getattr(old.buffer, "raw", old.buffer)  # the latter where nothing is buffered
    if type(raw) is not io.FileIO or old.isatty():
        return
    old.flush()
    new: Any = _Output(raw.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        new if raw is old.buffer else io.BufferedWriter(new), old.encoding, old.errors,
        line_buffering=old.line_buffering, write_through=old.write_through,
    )  # fmt: skip


def _say_error(error: OSError) -> None:
    """Say in a line what is wrong, unless the reader went, and drop what cannot be written."""
    sys.stdout = cast("IO[str]", Unheard(sys.stdout))
    if error.errno != errno.EPIPE:
        where = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"Error: {where}{error.strerror or error}\n")


def group(check: bool = False) -> click.Group:
    """Return the group that every command belongs to.

    Parameters
    ----------
    check : bool
        Whether a command looks first whether the packages are there that all of them need.

    Raises
    ------
    ImportError
        click is not installed.
    """
    import click

    class Lazy(click.Group):
        """A group that imports a command when it is called."""

        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in COMMANDS:
                return None
            from valuesparse.cli import command, require_extra

            if check:
                require_extra()
            return command(cmd_name)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl(list(COMMANDS.items()))

        def shell_complete(
            self, ctx: click.Context, incomplete: str
        ) -> list[click.shell_completion.CompletionItem]:
            from click.shell_completion import CompletionItem

            names = [name for name in COMMANDS if name.startswith(incomplete)]
            found = [CompletionItem(name, help=COMMANDS[name]) for name in names]
            return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

        def main(self, *args: Any, **extra: Any) -> Any:
            if not extra.get("standalone_mode", True):
                return super().main(*args, **extra)
            _prepare_streams()
            try:
                try:
                    super().main(*args, **extra)
                except SystemExit as end:
                    if not end.code:
                        sys.stdout.flush()
                    raise
            except OSError as error:
                _say_error(error)
                sys.exit(1)

    @click.group(
        cls=Lazy,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    @click.version_option(package_name="valuesparse", prog_name="valuesparse")
    def valuesparse() -> None:
        """Taggers, parsers and graphical models: train, use and measure them.

        A file named - is the standard input or output. valuesparse COMMAND --help says more.
        """

    return valuesparse


def main() -> None:
    """Run the command; the process exits with its status, 2 where a setting is refused."""
    _prepare_streams()
    try:
        try:
            commands = group(check=True)
        except ImportError:
            from valuesparse.cli import require_extra

            require_extra()  # says how to get click
            raise
        commands(prog_name="valuesparse")
    except ImportError as error:
        if not (error.name or "").startswith("VALUESPARSE_"):
            raise
        sys.stderr.write(f"valuesparse: {error}\n")
        sys.exit(2)
