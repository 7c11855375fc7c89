"""Bounds on log Z of UAI instances that have a reference: do they hold, how far apart, how long.

``python bounds_uai.py FOLDER... [--out FILE]`` reads every NAME.uai with its NAME.uai.evid and
NAME.uai.PR (log10 of Z); exact inference is left out, so that what is shown is the bounds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _tables import write_csv

import valuesparse as vs


@dataclass(frozen=True)
class Row:
    """One instance; natural logarithms, the reference to `digits`."""

    instance: str
    variables: int
    reference: float
    digits: float
    lower: float
    lower_method: str
    upper: float
    upper_method: str
    seconds: float
    holds: bool


def row(path: Path, i_bound: int, iterations: int) -> Row:
    graph = vs.read_uai(path, evidence=path.with_name(path.name + ".evid"))
    word = path.with_name(path.name + ".PR").read_text().split()[1]
    reference = float(word) * np.log(10.0)
    digits = 0.51 * 10.0 ** -len(word.partition(".")[2]) * np.log(10.0)
    start = time.perf_counter()
    b = vs.bounds.log_z(graph, exact=False, i_bound=i_bound, iterations=iterations)
    seconds = time.perf_counter() - start
    holds = b.lower <= reference + digits and b.upper >= reference - digits
    return Row(
        path.stem,
        graph.n_variables,
        reference,
        digits,
        b.lower,
        b.lower_method,
        b.upper,
        b.upper_method,
        seconds,
        bool(holds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", nargs="*", help="names of instances")
    parser.add_argument("--i-bound", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    for folder in args.folders:
        for path in sorted(folder.glob("*.uai")):
            if args.only and path.stem not in args.only:
                continue
            r = row(path, args.i_bound, args.iterations)
            rows.append(r)
            print(
                f"{r.instance:20} n={r.variables:5} ref={r.reference:11.4f} "
                f"[{r.lower:11.4f} {r.lower_method:>21}, {r.upper:11.4f} {r.upper_method:>13}] "
                f"{r.seconds:6.1f} s {'' if r.holds else 'VIOLATED'}",
                flush=True,
            )
    if args.out and rows:
        write_csv(rows, args.out)


if __name__ == "__main__":
    main()
