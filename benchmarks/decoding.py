"""The best states and the n best of chains, in nanoseconds a position.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --labels 9 49 --dtype float32 --n-best 1 2 10

Scores are N(0, 1). A batch has chains of 25 positions; the long chain has as many in all. One
thread; the least of some rounds.
"""

from __future__ import annotations

import argparse

import numpy as np
from _costs import fastest
from _machine import describe, require_quiet

import valuesparse as vs

LENGTH = 25


def main() -> None:
    """Print a row for each number of labels."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 9, 16, 25, 49, 256, 1000])
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--n-best", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--allow-busy", action="store_true", help="measure beside other work")
    options = parser.parse_args()
    require_quiet(options.allow_busy)
    print("\n".join(describe()))
    rng = np.random.default_rng(0)
    for k in options.labels:
        n = max(800, min(200_000, int(1e8 / k**2))) // LENGTH * LENGTH
        unary = rng.normal(size=(n, k)).astype(options.dtype)
        table = rng.normal(size=(k, k)).astype(options.dtype)
        batch = vs.Chain(unary, table, lengths=np.full(n // LENGTH, LENGTH))
        cells = []
        for name, model in (("batch", batch), ("long", vs.Chain(unary, table))):
            for best in options.n_best:
                took = fastest(
                    lambda model=model, best=best: vs.decode(model, n_best=best, threads=1),
                    options.rounds,
                )
                cells.append(f"{name} {best} best {1e9 * took / n:.1f}")
        print(f"{k} labels: " + ", ".join(cells) + " ns a position", flush=True)


if __name__ == "__main__":
    main()
