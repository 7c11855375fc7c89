"""Settings, and rows that are kept: the common part of the scripts about parsing.

A row is measured once: it lies in WORK/rows/TABLE.json under a name that holds all it depends on,
and models in WORK/models. So a run that was interrupted goes on, and one with other settings adds
rows. The steps of a run:

accuracy  trains and parses; may share the machine
times     wants a machine that does nothing else
tables    writes what is there as CSV and PNG, and prints it; the rest is "not measured"
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _machine import describe
from _treebanks import TREEBANKS, evaluation_file, first, lessons_file, trained

from valuesparse.parsing import Parser, Sentence

STEPS = ("accuracy", "times", "tables")
Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """The settings of a run; None: all there is."""

    treebanks: Path
    work: Path
    out: Path
    languages: tuple[str, ...]
    steps: tuple[str, ...]
    train: int | None
    longest: int | None
    epochs: int
    sentences: int | None
    timed: int | None
    samples: int
    again: bool = False

    @property
    def size(self) -> str:
        """The size of the training set, as the name of the parser's file has it."""
        return f"{self.train or 'all'}-{self.longest or 'any'}-{self.epochs}"

    def parser(self, language: str, kind: str, **how: Any) -> Parser:
        """Return a language's parser of some kind, trained on one thread unless it has been."""
        path = self.work / "models" / f"{language}-{kind}-{self.size}.parser"
        how = {"epochs": self.epochs, "ignore": TREEBANKS[language].ignore, "threads": 1, **how}
        return trained(path, lambda: self.lessons(language), **how)

    def unpruned(self, language: str) -> Parser:
        """Return the parser of order 2 that was trained on all arcs and pairs: RS10 and RSM10."""
        return self.parser(language, "unpruned-2", order=2, prune=False)

    def lessons(self, language: str) -> list[Sentence]:
        """Return what parsers learn from."""
        path = lessons_file(self.treebanks, language)
        return first(path, self.train, self.longest, check="training")

    def gold(self, language: str, timed: bool = False) -> list[Sentence]:
        """Return what parsers are measured on, or those sentences that are timed."""
        count = self.timed if timed else self.sentences
        return first(evaluation_file(self.treebanks, language), count)

    def row(
        self, step: str, table: str, name: str, measure: Callable[[], Row], drawn: bool = False
    ) -> Row:
        """Return a row; measured now where it is not there and this is the step.

        It is empty where it cannot be measured, which is not kept: it may be possible later.
        A row of `drawn` scores depends on no treebank.
        """
        path = self.work / "rows" / f"{table}.json"
        rows: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
        if not drawn:
            name = f"{name}, trained on {self.size}, {step} of {self._some(step)}"
        if step in self.steps and (self.again or name not in rows):
            found = measure()
            if not found:
                return {}
            found["measured"] = time.strftime("%Y-%m-%d")
            rows = json.loads(path.read_text()) if path.exists() else {}
            rows[name] = found
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
            temporary.replace(path)
            print(f"{table}: {name}", flush=True)
        return rows.get(name, {})

    def _some(self, step: str) -> str:
        count = self.timed if step == "times" else self.sentences
        return f"{count or 'all'} sentences"

    def about(self, *packages: str) -> str:
        """Return what has to stand beside the numbers."""
        return "\n".join(
            [
                *describe(packages),
                f"trained on {self.train or 'all'} sentences of {self.longest or 'any number of'}"
                f" words at most, {self.epochs} epochs; accuracy of {self._some('accuracy')},"
                f" times of {self._some('times')}, one thread",
            ]
        )


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script's command line."""
    p = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("treebanks", type=Path, help="folder of the files that _treebanks.py names")
    p.add_argument("work", type=Path, help="folder of models and rows that are kept")
    p.add_argument("--out", type=Path, default=Path("docs/images"), help="of CSV and PNG files")
    p.add_argument("--languages", nargs="*", default=list(TREEBANKS), choices=list(TREEBANKS))
    p.add_argument("--steps", nargs="*", default=list(STEPS), choices=STEPS)
    p.add_argument("--train", type=int, help="only so many sentences")
    p.add_argument("--longest", type=int, help="only sentences of so many words to learn from")
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--sentences", type=int, help="only so many of the test file")
    p.add_argument("--timed", type=int, help="only so many of it are timed")
    p.add_argument("--samples", type=int, default=7, help="of each time, after one to warm up")
    p.add_argument("--again", action="store_true", help="measure rows that are there, too")
    return p


def run_of(given: argparse.Namespace) -> Run:
    """Return the settings that a command line gives."""
    return Run(
        given.treebanks, given.work, given.out, tuple(given.languages), tuple(given.steps),
        given.train, given.longest, given.epochs, given.sentences, given.timed, given.samples,
        given.again,
    )  # fmt: skip


def main(about: str | None, make: Callable[[Run], None]) -> None:
    """Run one script by itself."""
    make(run_of(arguments(about).parse_args()))


def alternating(calls: dict[str, Callable[[], object]], samples: int) -> dict[str, float]:
    """Return the median processor time of each call, all of them in turn, `samples` times."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for sample in range(samples + 1):
        for name, call in calls.items():
            begun = time.process_time()
            call()
            if sample > 0:
                took[name].append(time.process_time() - begun)
    return {name: float(np.median(times)) for name, times in took.items()}


def publish(
    run: Run, name: str, rows: Sequence[Row], *packages: str, about: str | None = None
) -> None:
    """Write rows as CSV and print them as a table, under what is `about` them.

    None is what was not measured, a key that is missing what a row does not have.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    run.out.mkdir(parents=True, exist_ok=True)
    temporary = run.out / f"{name}.tmp.csv"
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(run.out / f"{name}.csv")
    print(f"\n{name}\n{about or run.about(*packages)}\n")
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for row in rows:
        print("| " + " | ".join(cell(row.get(key, "–")) for key in columns) + " |")


def cell(value: object) -> str:
    """Return a number or text as tables show it."""
    if value is None:
        return "not measured"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
