"""All tables and figures about parsing, and the rivals, by one command that can be interrupted.

    python benchmarks/reproduce.py TREEBANKS WORK

Models and rows are kept in WORK: what is there is not made again. CSV and PNG files go to
docs/images, or --out. The whole run takes hours; --train, --longest, --epochs, --sentences and
--timed make a smaller one, which the tables say. --only names scripts. Where a machine is shared,
`--steps accuracy` may run beside other work, and `--steps times` wants to be alone.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys

import msfxm10_tables
import parsers
import parsing
import rs10_figure1
import rs10_tables
import rsm10_figure2
import rsm10_table1
from _machine import describe, pinned
from _reproduction import Row, Run, arguments, publish, run_of
from paired import LEAST


def trees(run: Run) -> None:
    """Time sums and maxima over trees against numpy, ufal.chu-liu-edmonds and torch-struct."""
    samples = max(LEAST, run.samples)

    def measure(words: int) -> Row:
        with pinned(0):
            return {"rows": list(parsing.against(words, parsing.BATCH, samples))}

    rows = []
    for words in parsing.LENGTHS:
        name = f"{words} words, rivals: {', '.join(installed())}"
        found = run.row("times", "trees", name, lambda words=words: measure(words), drawn=True)
        rows += found.get("rows", [])
    if rows and "tables" in run.steps:
        drawn = f"batches of {parsing.BATCH} sentences with drawn scores, one thread"
        about = "\n".join([*describe(parsing.PACKAGES), drawn])
        publish(run, "trees-rivals", rows, about=about)


def installed() -> list[str]:
    """Return the rivals that are there."""
    found = []
    for package in parsing.PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{package} {importlib.metadata.version(package)}")
    return found


SCRIPTS = {
    "rs10_tables": rs10_tables.make,
    "rs10_figure1": rs10_figure1.make,
    "rsm10_table1": rsm10_table1.make,
    "rsm10_figure2": rsm10_figure2.make,
    "msfxm10_tables": msfxm10_tables.make,
    "parsers": parsers.make,
    "trees": trees,
}


def main() -> int:
    p = arguments(__doc__)
    p.add_argument("--only", nargs="*", default=list(SCRIPTS), choices=list(SCRIPTS))
    given = p.parse_args()
    run = run_of(given)
    for name in given.only:
        SCRIPTS[name](run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
