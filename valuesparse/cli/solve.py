"""``valuesparse solve``: answer a question about a model file."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from valuesparse.cli._models import load, model_options, one_line_errors, spare
from valuesparse.cli._options import FloatRange, writable
from valuesparse.cli._streams import Target, is_standard

if TYPE_CHECKING:
    from valuesparse import FactorGraph
    from valuesparse.io import UaiResult


@click.command()
@model_options
@click.option(
    "--task", "-k", type=click.Choice(["MAR", "PR", "MPE"], case_sensitive=False), default="MAR",
    metavar="MAR|PR|MPE", show_default=True,
    help="MAR: the marginals of all variables; PR: log10 of the partition function (for a "
    "Bayesian network, of the probability of the evidence); MPE: the most probable states.",
)  # fmt: skip
@click.option(
    "--zeta", "-z", type=FloatRange(0, 1), metavar="ζ",
    help="Hold variables that are this certain at one value; 1 is exact. [default: 1]",
)  # fmt: skip
@click.option(
    "--threads", "-t", type=click.IntRange(min=1), metavar="N",
    help="Threads to use; results do not depend on it. [default: all cores]",
)  # fmt: skip
@click.option(
    "--format", "-f", "output_format", type=click.Choice(["uai", "json"]), default="uai",
    show_default=True, help="UAI result format, or JSON with names, method and log_z.",
)  # fmt: skip
@click.option(
    "--output", "-o", type=Target(), metavar="FILE", callback=writable,
    help="Where the answer goes, instead of the terminal; .gz is compressed. It appears only "
    "once it is complete.",
)  # fmt: skip
@click.option(
    "--quiet", "-q", is_flag=True,
    help="No progress on the terminal, and no summary unless a fallback that is not exact ran.",
)  # fmt: skip
def solve(
    model: Path,
    evidence: Path | None,
    sample: int | None,
    input_format: str | None,
    memory_limit: int | None,
    task: str,
    zeta: float | None,
    threads: int | None,
    output_format: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Answer a question about MODEL: a .uai, .fg or .bif file, or one of them as .gz.

    \b
    Examples:
      valuesparse solve Grids_11.uai --evidence Grids_11.uai.evid
      valuesparse solve asia.bif --evidence symptoms.json --format json
      valuesparse solve model.fg --task PR --memory-limit 4GiB

    The answer goes to standard output, or to a file; what was done goes to standard error. An
    answer that is not exact says so there, and in JSON.
    """  # noqa: D301 (click takes the backspace itself)
    from valuesparse.cli import _graphs
    from valuesparse.io._files import write_text
    from valuesparse.results._factors import EXACT

    task = task.upper()
    if zeta is not None and task == "MPE":
        raise click.UsageError("--zeta has no meaning for --task MPE")
    spare(output, {model: "the model", evidence: "the evidence"})
    graph = load(model, evidence, sample, input_format)
    begin = time.perf_counter()
    found: Any
    common: dict[str, Any]
    with one_line_errors(model), _progress(quiet) as progress:
        common = {"threads": threads, "memory_limit": memory_limit, "progress": progress}
        if task == "MPE":
            found = _graphs.best_states(graph, **common)
        elif task == "PR" and (zeta is None or zeta == 1.0):
            found = _graphs.mass(graph, **common)
        else:
            found = _graphs.marginals(graph, zeta=zeta, **common)
    seconds = time.perf_counter() - begin
    with one_line_errors(model):
        answer = _as_json(graph, task, found) if output_format == "json" else _as_uai(task, found)
    if output is None or is_standard(output):
        output = None
        click.echo(answer, nl=False)
    else:
        with one_line_errors(output):
            write_text(output, answer)
    # ζ was asked for, a fallback was not; and UAI's format cannot say that its answer is one.
    fallback = zeta is None and task == "MAR" and found.method not in EXACT
    if fallback or not quiet:
        click.echo(_summary(task, found, seconds, output), err=True)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Give a callback that draws a bar on standard error, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("Inference"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _as_uai(task: str, found: Any) -> str:
    from valuesparse.io.uai_result import UaiResult, format_uai_result

    result: UaiResult
    if task == "PR":
        result = UaiResult(task, log10_z=_log10_z(found))
    elif task == "MAR":
        result = UaiResult(task, marginals=found.marginals)
    else:
        result = UaiResult(task, states=[int(state) for state in found.states])
    return format_uai_result(result)


def _as_json(graph: FactorGraph, task: str, found: Any) -> str:
    from valuesparse.results._factors import CONDITIONED

    answer: dict[str, Any] = {"task": task}
    if task == "MPE":
        answer["method"], answer["reason"] = "junction_tree", "the best configuration, exactly"
        if found.conditioned:
            answer["method"] = CONDITIONED
            answer["reason"] += f"; {_conditioned(found)}"
        answer["score"] = float(found.score)
        answer["variables"] = [
            {"name": _plain(name), "state": _plain(states[int(k)]) if states else int(k)}
            for name, states, k in zip(graph.names, graph.states, found.states, strict=True)
        ]
    else:
        answer["method"], answer["reason"] = found.method, found.reason
        answer["log_z"], answer["log10_z"] = float(found.log_z), _log10_z(found)
    if task == "MAR":
        answer["variables"] = [
            {
                "name": _plain(name),
                "states": [_plain(state) for state in states or range(len(marginal))],
                "marginal": [float(p) for p in marginal],
            }
            for name, states, marginal in zip(
                graph.names, graph.states, found.marginals, strict=True
            )
        ]
    head = {name: value for name, value in answer.items() if name != "variables"}
    lines = [f"  {json.dumps(name)}: {_dump(value)}" for name, value in head.items()]
    if "variables" in answer:
        # A line for each variable: long answers stay readable, and small.
        rows = ",\n".join(f"    {_dump(row)}" for row in answer["variables"])
        lines.append(f'  "variables": [\n{rows}\n  ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _conditioned(found: Any) -> str:
    return f"conditioned on {', '.join(str(name) for name in found.conditioned)}"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _plain(name: Any) -> Any:
    return name if isinstance(name, (str, int)) else str(name)


def _log10_z(found: Any) -> float:
    return float(found.log_z) / math.log(10.0)


def _summary(task: str, found: Any, seconds: float, output: Path | None) -> str:
    if task == "MPE":
        words = [f"log-score {float(found.score):.6g}"]
        if found.conditioned:
            words.append(_conditioned(found))
    else:
        words = [
            f"log10 Z {_log10_z(found):.6g} (log Z {float(found.log_z):.6g})",
            f"{found.method} ({found.reason})",
        ]
    words.append(f"{seconds:.3g} s")
    if output is not None:
        words.append(f"written to {output}")
    return "; ".join(words)
