"""The click group that every command of valuesparse belongs to."""

from __future__ import annotations

import click

from valuesparse.cli.demo import demo
from valuesparse.cli.info import info
from valuesparse.cli.parse import parse
from valuesparse.cli.solve import solve
from valuesparse.cli.tag import tag
from valuesparse.cli.train import train
from valuesparse.cli.tune import tune


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="valuesparse", prog_name="valuesparse")
def valuesparse() -> None:
    """Marginals of discrete models: every core, and work only where it is still uncertain."""


for command in (solve, info, train, tag, tune, parse, demo):
    valuesparse.add_command(command)
