"""Gain and selection over ten million candidates: CPU seconds of `select` as a whole, one thread.

``python benchmarks/selection.py`` prints the median of ``--repeat`` runs for each objective:
inference in the seed, all gains, the choice, inference in what was chosen. The graph is made anew
for each run, which is not timed. Candidates are features of random pairs with Laplace-distributed
weights, of which a thousand are chosen. Seeds: the unary factors; those and a chain through all
variables.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from _machine import describe

import valuesparse as vs
from valuesparse.factors import Features

EQUAL = np.eye(2, dtype=bool)


def model(
    n: int, pairs: np.ndarray, weights: np.ndarray, chain: bool
) -> tuple[vs.FactorGraph, int]:
    """Return the graph, candidates last, and the size of the seed."""
    rng = np.random.default_rng(1)
    graph = vs.FactorGraph([2] * n)
    graph.add_features(Features(np.arange(n)[:, None], rng.normal(0.0, 2.0, n)))
    if chain:
        links = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
        graph.add_features(Features(links, 1.0, fires=EQUAL))
    seed = graph.n_factors
    graph.add_features(Features(pairs, weights))
    return graph, seed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=10_000_000)
    parser.add_argument("--variables", type=int, default=1000)
    parser.add_argument("--keep", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    n, m = args.variables, args.candidates
    first = rng.integers(0, n, m, dtype=np.int32)
    second = ((first + rng.integers(1, n, m)) % n).astype(np.int32)
    pairs, weights = np.stack([first, second], axis=1), rng.laplace(0.0, 0.3, m)
    print("\n".join(describe()))
    for chain in (False, True):
        graph, seed = model(n, pairs, weights, chain)
        r = vs.infer(graph, factors=range(seed), method="bp")
        gains = vs.gain(graph, range(seed, seed + m), r)
        ranked = np.partition(gains, m - args.keep)
        objectives = {
            "MinJoint": {"min_joint": float(ranked[m - args.keep])},
            "MinDivergence": {"min_divergence": args.keep},
            "MinSize": {"min_size": float(ranked[: m - args.keep].sum())},
        }
        for name, objective in objectives.items():
            times = []
            for _ in range(args.repeat):
                graph, seed = model(n, pairs, weights, chain)
                begin = time.process_time()
                r = vs.select(graph, first=range(seed), solver="bp", threads=1, **objective)
                times.append(time.process_time() - begin)
            what = "chain" if chain else "unary"
            print(f"{what} seed, {name:14} {statistics.median(times):6.2f} s, "
                  f"{r.stats['added']} of {m} added")  # fmt: skip


if __name__ == "__main__":
    main()
