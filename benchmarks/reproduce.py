"""All tables and figures about parsing, and the rivals, by one command that can be interrupted.

    python benchmarks/reproduce.py TREEBANKS WORK

Models and rows are kept in WORK: what is there is not made again. CSV and PNG files go to
docs/images, or --out. The whole run takes hours; --train, --longest, --epochs, --sentences and
--timed make a smaller one, which the tables say. --only names scripts. Where a machine is shared,
`--steps accuracy` may run beside other work, and `--steps times` wants to be alone.
"""

from __future__ import annotations

import sys

import msfxm10_tables
import parsers
import parsing
import rs10_figure1
import rs10_tables
import rsm10_figure2
import rsm10_table1
from _reproduction import Run, arguments, run_of


def trees(run: Run) -> None:
    """Time sums and maxima over trees against numpy, ufal.chu-liu-edmonds and torch-struct."""
    if "times" in run.steps:
        parsing.main(["--samples", str(max(7, run.samples))])


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
