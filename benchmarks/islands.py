"""The cost of islands on random peaked chains and trees, in multiples of exact inference.

    python benchmarks/islands.py
    python benchmarks/islands.py --labels 49 --zeta 0.9 --dtype float32

Scores are N(0, 1); in four of five rows one score is larger by 0, 3, 6 or 10. Chains are batches of
5 to 40 positions; a node of the tree hangs below one of the 50 before it. One thread; exact and
islands are asked in turn, and medians divided.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from _machine import describe, require_quiet

import valuesparse as vs

PEAKS = (0.0, 3.0, 6.0, 10.0)


def scores(
    n: int, n_labels: int, peak: float, rng: np.random.Generator, dtype: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return unary (n, K) and one shared table (K, K)."""
    unary = rng.normal(size=(n, n_labels))
    hot = np.flatnonzero(rng.random(n) < 0.8)
    unary[hot, rng.integers(0, n_labels, len(hot))] += peak
    return unary.astype(dtype), rng.normal(size=(n_labels, n_labels)).astype(dtype)


def chain(n: int, n_labels: int, peak: float, rng: np.random.Generator, dtype: str) -> vs.Chain:
    """Return a batch of chains of 5 to 40 positions."""
    lengths = rng.integers(5, 41, size=max(1, n // 22))
    unary, table = scores(int(lengths.sum()), n_labels, peak, rng, dtype)
    return vs.Chain(unary, table, lengths=lengths)


def tree(n: int, n_labels: int, peak: float, rng: np.random.Generator, dtype: str) -> vs.Tree:
    """Return one random tree."""
    unary, table = scores(n, n_labels, peak, rng, dtype)
    parent = np.arange(n) - 1 - rng.integers(0, 50, size=n)
    parent[1:] = np.maximum(parent[1:], 0)
    parent[0] = -1
    return vs.Tree(parent, unary, table)


MODELS = {"chains": chain, "tree": tree}


def in_turn(
    calls: Sequence[Callable[..., object]], rounds: int, fresh: Callable[[], tuple] = tuple
) -> list[float]:
    """Return the median time of each call in seconds; `fresh` makes its arguments before."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call(*fresh())
    for _ in range(rounds):
        for call, taken in zip(calls, times, strict=True):
            arguments = fresh()
            begin = time.perf_counter()
            call(*arguments)
            taken.append(time.perf_counter() - begin)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--labels", type=int, nargs="+", default=[49, 95, 256])
    parser.add_argument("--zeta", type=float, nargs="+", default=[0.5, 0.9, 0.99])
    parser.add_argument("--models", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--peak", type=float, nargs="+", default=PEAKS)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--allow-busy", action="store_true")
    options = parser.parse_args()
    require_quiet(options.allow_busy)
    vs.set_num_threads(1)
    print("\n".join(describe(())))
    head = [f"ζ = {z} (islands)" for z in options.zeta]
    print(f"| model | labels | peak | exact, ms | {' | '.join(head)} |")
    print("|---|---:|---:|---:|" + "---:|" * len(head))
    for kind in options.models:
        for n_labels in options.labels:
            for peak in options.peak:
                n = max(2000, min(20000, int(2e7 / n_labels**2)))
                model = MODELS[kind](
                    n, n_labels, peak, np.random.default_rng(n_labels), options.dtype
                )
                zetas = [1.0, *options.zeta]
                calls = [lambda m=model, z=z: vs.infer(m, zeta=z).marginals for z in zetas]
                exact, *sparse = in_turn(calls, options.rounds)
                cells = []
                for z, seconds in zip(options.zeta, sparse, strict=True):
                    share = float((vs.infer(model, zeta=z).islands >= 0).mean())
                    cells.append(f"{seconds / exact:.2f} ({share:.0%})")
                print(
                    f"| {kind} | {n_labels} | {peak:g} | {exact * 1e3:.2f} | {' | '.join(cells)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
