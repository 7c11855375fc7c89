"""The common part of commands on model files: reading them, their options, their errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from valuesparse._extras import MissingExtraError
from valuesparse.cli._group import Command
from valuesparse.cli._streams import STANDARD, Spooled, is_standard, plain_names

if TYPE_CHECKING:
    from valuesparse import FactorGraph

    IntParam = click.ParamType[int]
else:
    IntParam = click.ParamType  # click < 8.4 has one type for all

__all__ = [
    "FORMATS",
    "format_told",
    "load",
    "model_options",
    "one_line_errors",
    "read",
    "spare",
    "usage_errors",
]

FORMATS = ("uai", "fg", "bif")

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
#: The advice of the API where evidence looks like probabilities.
_LIKELIHOOD = re.compile(r"write likelihood=\{.*: \.\.\.\} instead, or the logarithms")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)


class Size(IntParam):
    """A number of bytes with a unit: 800MB, 8GB, 7.5GiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        size = 0
        if match is not None:
            power = _UNITS[match[2].lower()]
            # 8GB counts in thousands, 8GiB and 8G in 1024s.
            decimal = (match[3] or "").lower() == "b"
            size = int(float(match[1]) * (1000 ** (power // 10) if decimal else 1 << power))
        if size < 1:
            self.fail(f"{value!r} is not a size; write for example 800MB or 8GiB", param, ctx)
        return size


def model_options(command: Command) -> Command:
    """Add what describes the model and its evidence: an argument and options."""
    existing = Spooled()
    for decorate in reversed(
        [
            click.argument("model", type=existing),
            click.option(
                "--evidence", "-e", type=existing, metavar="FILE",
                help="Known states: a UAI evidence file, or JSON as {\"rain\": \"yes\"}.",
            ),
            click.option(
                "--sample", type=click.IntRange(min=0), metavar="N",
                help="Which sample of an evidence file that holds several, from 0.",
            ),
            click.option(
                "--input-format", type=click.Choice(FORMATS), metavar="|".join(FORMATS),
                help="Format of MODEL, where its name does not tell, as of -.",
            ),
            click.option(
                "--memory-limit", "-m", type=Size(), metavar="SIZE",
                help="The memory that exact inference may use, e.g. 8GiB. Beyond it marginals are "
                "approximated, and other tasks refused. [default: half of the machine's]",
            ),
        ]
    ):  # fmt: skip
        command = decorate(command)
    return command


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError about options into one of the command line, with exit code 2."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def one_line_errors(path: Path | None) -> Iterator[None]:
    """Turn what can go wrong with a file into a message of one line and exit code 1.

    `path` stands before what does not name its file; None where everything does.
    """
    from valuesparse.io import ModelFormatError

    before = "" if path is None else f"{path}: "
    try:
        yield
    except BrokenPipeError:  # nobody reads the output any more: click ends the command quietly
        raise
    except MissingExtraError as error:
        raise click.ClickException(
            f"{before}{' and '.join(error.modules)} is needed to read this; install it with: "
            f'python -m pip install "valuesparse[{error.extra}]"'
        ) from error
    except ModelFormatError as error:
        text = str(error)  # with the file's name, if the reader knew it
        text = plain_names(text if error.path else before + text)
        raise click.ClickException(text) from error
    except OSError as error:
        # Python's own text begins with the number of the error.
        where = before if error.filename is None else f"{error.filename}: "
        raise click.ClickException(plain_names(f"{where}{error.strerror or error}")) from error
    except (ValueError, MemoryError) as error:
        from valuesparse.inference._refusals import ADVICE, JOINTS, MASS, SAMPLES

        text = " ".join(str(error).split()) or "not enough memory"
        for advice in (ADVICE, MASS, SAMPLES, JOINTS):
            text = text.replace(advice, "give evidence or raise --memory-limit")
        text = text.replace("choose one with sample=", "choose one with --sample ")
        text = _LIKELIHOOD.sub("write their logarithms (of 0 a number such as -1000)", text)
        named = path is not None and text.startswith((f"{path.name}: ", f"{path}: "))
        raise click.ClickException(plain_names(text if named else before + text)) from error


def spare(output: Path | None, read: Mapping[Any, str]) -> None:
    """Refuse to write where something is read, as `require_spared`; a stream is no such place."""
    from valuesparse.io._files import require_spared

    if output is not None and not is_standard(output):
        with one_line_errors(None):
            require_spared("--output", output, read)


def read(model: Path, input_format: str | None) -> FactorGraph:
    """Read a model."""
    import valuesparse as vs

    kind = input_format or format_told(model, "--input-format")
    reader: Callable[[Path], FactorGraph] = {
        "uai": vs.read_uai,
        "fg": vs.read_fg,
        "bif": vs.read_bif,
    }[kind]  # type: ignore[assignment]
    with one_line_errors(model):
        return reader(model)


def load(
    model: Path, evidence: Path | None, sample: int | None, input_format: str | None
) -> FactorGraph:
    """Read a model and its evidence."""
    if sample is not None and (evidence is None or _is_json(evidence)):
        raise click.UsageError(
            "--sample chooses from a UAI evidence file: give one with --evidence"
        )
    graph = read(model, input_format)
    if evidence is not None:
        with one_line_errors(evidence):
            graph.set_evidence(_evidence(graph, evidence, sample))
    return graph


def format_told(model: Path, option: str) -> str:
    """Return the format that a name tells; `option` is how to say it otherwise."""
    suffixes = [suffix.lower().lstrip(".") for suffix in model.suffixes]
    if suffixes and suffixes[-1] == "gz":
        suffixes.pop()
    if not suffixes or suffixes[-1] not in FORMATS:
        raise click.UsageError(
            f"the name {model.name!r} does not tell the format of the model; say "
            f"{option} {'|'.join(FORMATS)}"
        )
    return suffixes[-1]


def _is_json(evidence: Path) -> bool:
    """Return whether evidence is JSON, by its name; what comes through a pipe begins like it."""
    if evidence.name != STANDARD:
        return evidence.suffix.lower() == ".json"
    with open(evidence, "rb") as file:
        return file.read(1 << 16).lstrip().startswith(b"{")


def _evidence(graph: FactorGraph, path: Path, sample: int | None) -> dict[Any, Any]:
    """Return evidence by the graph's names, from numbers or from JSON."""
    from valuesparse.io import read_uai_evidence

    if _is_json(path):
        return _json_evidence(graph, path)
    found: dict[Any, Any] = {}
    for v, state in read_uai_evidence(path, sample=sample, graph=graph).items():
        states = graph.states[v]
        found[graph.names[v]] = state if states is None else states[state]
    return found


def _json_evidence(graph: FactorGraph, path: Path) -> dict[Any, Any]:
    from valuesparse.io._json import read_json

    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f'{path}: expected an object such as {{"rain": "yes"}}')
    # Keys of JSON are text, names of variables and states may be numbers.
    names = {str(name): name for name in graph.names}
    found = {}
    for key, value in content.items():
        if key not in names:
            raise ValueError(f"{path}: there is no variable {key!r}")
        states = graph.states[graph.variable(names[key])]
        known = {str(state): state for state in states or ()}
        found[names[key]] = value if isinstance(value, list) else known.get(str(value), value)
    try:
        graph.resolve_evidence(found)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None  # what a file holds is never a TypeError
    return found
