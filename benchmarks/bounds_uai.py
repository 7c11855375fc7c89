"""UAI instances that have a reference, without exact inference: answers, convergence and bounds.

``python benchmarks/bounds_uai.py FOLDER... [--out FILE]`` reads every NAME.uai with its
NAME.uai.evid, NAME.uai.PR (log10 of Z) and, where there is one, NAME.uai.MAR (marginals). For each
it shows what `infer` answers when exact tables get no memory, and the bounds of
`bounds.log_z(exact=False)`: do they hold, how far apart are they, how long do they take.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _tables import write_csv
from _wanted import named, wanted

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
    answer: str
    converged: bool
    answer_seconds: float
    mean_error: float
    answer_lower: float
    answer_upper: float


def mean_error(r: vs.Result | None, path: Path) -> float:
    """Return the mean over variables of the largest error of their marginals; NaN without any."""
    if r is None or not path.exists():
        return float("nan")
    words = iter(path.read_text().split()[1:])
    errors = []
    for v in range(int(next(words))):
        reference = np.array([float(next(words)) for _ in range(int(next(words)))])
        errors.append(np.abs(r.marginals[v] - reference).max())
    return float(np.mean(errors))


def row(path: Path, i_bound: int, iterations: int) -> Row:
    graph = vs.read_uai(path, evidence=path.with_name(path.name + ".evid"))
    word = path.with_name(path.name + ".PR").read_text().split()[1]
    reference = float(word) * np.log(10.0)
    digits = 0.51 * 10.0 ** -len(word.partition(".")[2]) * np.log(10.0)
    start = time.perf_counter()
    try:
        r = vs.infer(graph, memory_limit=0)
    except vs.InfeasibleError:  # messages left a variable no state: a wrong answer, and shown
        r = None
    answer_seconds = time.perf_counter() - start
    start = time.perf_counter()
    b = vs.bounds.log_z(graph, exact=False, i_bound=i_bound, iterations=iterations)
    seconds = time.perf_counter() - start
    low, high = reference + digits, reference - digits
    answer_lower, answer_upper = (
        (r.log_z_lower, r.log_z_upper) if r is not None else (-np.inf, np.inf)
    )
    holds = max(b.lower, answer_lower) <= low and min(b.upper, answer_upper) >= high
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
        "InfeasibleError" if r is None else r.method,
        r is not None and r.converged,
        answer_seconds,
        mean_error(r, path.with_name(path.name + ".MAR")),
        answer_lower,
        answer_upper,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", nargs="*", help="names of instances")
    parser.add_argument("--i-bound", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = []
    for folder in args.folders:
        paths = sorted(wanted(folder, "give folders of UAI instances").glob("*.uai"))
        if not paths:
            parser.error(f"{folder} has no file that ends in .uai")
        found += paths
    named(parser, "--only", args.only or (), [path.stem for path in found])
    rows = []
    for path in found:
        if args.only and path.stem not in args.only:
            continue
        r = row(path, args.i_bound, args.iterations)
        rows.append(r)
        print(
            f"{r.instance:20} n={r.variables:5} ref={r.reference:11.4f} "
            f"[{r.lower:11.4f} {r.lower_method:>21}, {r.upper:11.4f} {r.upper_method:>13}] "
            f"{r.seconds:6.1f} s {'' if r.holds else 'VIOLATED'} {r.answer} "
            f"{'converged' if r.converged else 'not converged'}, mean error "
            f"{r.mean_error:.4f}, [{r.answer_lower:.4f}, {r.answer_upper:.4f}], "
            f"{r.answer_seconds:.2f} s",
            flush=True,
        )
    if args.out:
        write_csv(rows, args.out)


if __name__ == "__main__":
    main()
