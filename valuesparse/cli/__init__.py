"""The command line: ``valuesparse solve``, ``train``, ``tag``, ``parse`` and others.

Where things are:

- ``_group``: the click group; a new command is registered in ``_valuesparse.py``, which imports
  nothing of this package before a command is called.
- ``solve``, ``info``: questions to model files; ``_models``: what they share;
  ``_graphs``: every call into inference on graphs.
- ``tune``: which ζ suits a model and data; ``_sequences`` reads them, ``_choice`` recommends.
- ``train``, ``tag``: whole files, by ``valuesparse.crf.corpora``; ``_reading``: what they share.
- ``parse``: dependency parsers, by ``valuesparse.parsing``.
- ``demo``: ``valuesparse demo``, which calls the modules below in order.
- ``_corpus``: the Hong Kong Cantonese Corpus and its split; ``_features``: attributes of words.
- ``_training``: a CRF trained on every core; ``_measure``: speed, agreement and errors.
- ``_report``: what the terminal shows; ``_plots``: the PNG.

Only ``_group`` and the command modules need click, so importing this package needs nothing
beyond valuesparse itself.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from valuesparse._extras import MissingExtraError, require

if TYPE_CHECKING:
    import click

__all__ = ["command", "main", "require_extra"]

# Modules with another name than their command.
_MODULES = {"eval": "evaluate"}


def require_extra() -> None:
    """End the process with a line that says how to get the extra ``cli``, where it is missing."""
    try:
        require("cli", "click", "rich")
    except MissingExtraError as error:
        sys.exit(f"valuesparse: {error}")


def command(name: str) -> click.Command:
    """Return a command by its name."""
    module = _MODULES.get(name, name)
    found: click.Command = getattr(import_module(f"valuesparse.cli.{module}"), module)
    return found


def main() -> None:
    """Run the ``valuesparse`` command; the process exits with its status."""
    require_extra()
    from valuesparse.cli._group import valuesparse

    valuesparse(prog_name="valuesparse")
