"""Pairs of arcs with and without a tree factor: ten BP iterations, `relax` and `select`.

    python benchmarks/pairs_in_trees.py [--words 12 25 40] [--pairs 0 25000]

Scores are random: one head of each word stands out by 7; pairs have a standard deviation of 0.1,
and 2 % of them 20 times as much. Calls take turns; medians of `--samples`, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

import valuesparse as vs
from valuesparse.factors import Features, Tree

TEN = vs.BP(max_iterations=10, tolerance=0.0)


def sentence(words: int, count: int, *, tree: bool) -> tuple[vs.FactorGraph, Features]:
    """Return the arcs of a sentence, under a tree factor or not, and pairs (0: all) of them."""
    rng = np.random.default_rng(words)
    arcs = [(h, m) for m in range(1, words + 1) for h in range(words + 1) if h != m]
    number = {arc: i for i, arc in enumerate(arcs)}
    scores = rng.normal(size=len(arcs)) - 4.0
    for m in range(words):
        scores[m * words + rng.integers(words)] += 7.0
    graph = vs.FactorGraph([2] * len(arcs))
    graph.add_features(Features(np.arange(len(arcs))[:, None], scores))
    if tree:
        graph.add(Tree(arcs, range(len(arcs))))
    pairs = [
        (number[h, m], number[h, s])
        for h, m in arcs
        for s in range(m + 1, words + 1)
        if h != s
    ] + [(number[g, h], number[h, m]) for h, m in arcs if h for g in range(words + 1)
         if g not in (h, m)]  # fmt: skip
    chosen = np.array(pairs)
    if count and count < len(chosen):
        chosen = chosen[np.sort(rng.choice(len(chosen), count, replace=False))]
    weights = rng.normal(scale=0.1, size=len(chosen))
    weights[rng.random(len(chosen)) < 0.02] *= 20.0
    return graph, Features(chosen, weights)


def medians(calls: Sequence[Callable[[], object]], samples: int) -> list[float]:
    """Return the milliseconds of each call; they take turns."""
    times = np.empty((samples + 1, len(calls)))
    for row in times:
        for i, call in enumerate(calls):
            begun = time.perf_counter()
            call()
            row[i] = 1e3 * (time.perf_counter() - begun)
    return np.median(times[1:], axis=0).tolist()


def main() -> None:
    """Print a row for each length and number of pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, nargs="+", default=[12, 25, 40])
    parser.add_argument("--pairs", type=int, nargs="+", default=[0, 25000])
    parser.add_argument("--samples", type=int, default=9)
    options = parser.parse_args()
    vs.set_num_threads(1)
    print("words   pairs     bp  bp+tree  ratio  relax, lazy  relax, in graph  select    ms")
    for words in options.words:
        for count in options.pairs:
            graphs = []
            for tree in (False, True):
                graph, pairs = sentence(words, count, tree=tree)
                if len(pairs) < count:
                    break
                graph.add_features(pairs)
                graphs.append(graph)
            if len(graphs) < 2:
                continue
            plain, whole = graphs
            arcs = sentence(words, count, tree=True)[0]
            found = medians(
                [
                    lambda g=plain: vs.infer(g, method=TEN),
                    lambda g=whole: vs.infer(g, method=TEN),
                    lambda g=arcs, p=pairs: vs.relax(
                        g, candidates=lambda _: [p], max_rounds=1, solver=TEN
                    ),
                    lambda g=whole: vs.relax(g, max_rounds=1, solver=TEN),
                    lambda g=whole: vs.select(g, min_joint=1e-4, solver=TEN),
                ],
                options.samples,
            )
            without, with_tree, lazy, inside, select = found
            print(
                f"{words:5d} {len(pairs):7d} {without:6.2f} {with_tree:8.2f} "
                f"{with_tree / without:6.2f} {lazy:12.2f} {inside:16.2f} {select:7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
