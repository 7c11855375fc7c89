"""The click group that every command of valuesparse belongs to."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["COMMANDS", "valuesparse"]

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
# Modules with another name than their command.
_MODULES = {"eval": "evaluate"}


class _Lazy(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = _MODULES.get(cmd_name, cmd_name)
        found = getattr(import_module(f"valuesparse.cli.{module}"), module)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="valuesparse", prog_name="valuesparse")
def valuesparse() -> None:
    """Taggers, parsers and graphical models: train, use and measure them.

    A file named - is the standard input or output. valuesparse COMMAND --help says more.
    """
