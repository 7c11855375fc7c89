"""ζ = 0.9 on grids: how long islands take, against compiling a junction tree and asking it.

    python benchmarks/graph_islands.py
    python benchmarks/graph_islands.py --sizes 12 --seeds 5

One thread. Couplings are attractive, |N(0, 1)|; the states of a variable score -s and s, of either
sign: `mixed` takes 2 or 0.5 and a little noise, `sure` 2 and noise, `unsure` 0.5 and much noise.
Each run has a graph of its own, of which nothing is kept; `again` is the same graph once more. The
shortest of some runs counts, and of the seeds the median, the largest and the smallest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from _machine import describe

import valuesparse as vs

#: Sizes of s, and the deviation of what is added.
KINDS: dict[str, tuple[tuple[float, ...], float]] = {
    "mixed": ((2.0, 0.5), 0.3), "sure": ((2.0,), 0.5), "unsure": ((0.5,), 1.0),
}  # fmt: skip
#: Exact inference on wider grids takes too long, or too much memory.
EXACT = 20


def grid_edges(n: int) -> np.ndarray:
    """Return the pairs of neighbours of an n x n grid."""
    cells = np.arange(n * n).reshape(n, n)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    right = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    return np.concatenate([down, right])


def grid(n: int, kind: str, seed: int) -> vs.FactorGraph:
    """Return an n x n grid of binary variables."""
    rng = np.random.default_rng(seed)
    sizes, noise = KINDS[kind]
    s = rng.choice(sizes, n * n) * rng.choice([-1.0, 1.0], n * n) + noise * rng.normal(size=n * n)
    edges = grid_edges(n)
    graph = vs.FactorGraph([2] * (n * n))
    graph.add_many(np.arange(n * n)[:, None], np.stack([-s, s], axis=1))
    w = np.abs(rng.normal(size=len(edges)))
    graph.add_many(edges, w[:, None, None] * np.eye(2))
    return graph


def shortest(call: Callable[[vs.FactorGraph], object], graphs: list[vs.FactorGraph]) -> float:
    """Return the shortest time in seconds, of a call for each graph."""
    times = []
    for graph in graphs:
        begin = time.perf_counter()
        call(graph)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[12, 20, 30, 60])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--zeta", type=float, default=0.9)
    options = parser.parse_args()
    vs.set_num_threads(1)
    print("\n".join(describe()))
    columns = "seconds: median (least to most) | again | times compile and ask"
    print(f"| grid | scores | islands | {columns} |")
    print("|---|---|---:|---:|---:|---:|")
    for n in options.sizes:
        for kind in KINDS:
            seconds, again, shares, ratios, refused = [], [], [], [], 0
            for seed in range(options.seeds):
                graphs = [grid(n, kind, seed) for _ in range(5 if n <= 20 else 2)]

                def islands(graph: vs.FactorGraph) -> vs.Result:
                    return vs.infer(graph, zeta=options.zeta)

                try:
                    found = islands(grid(n, kind, seed))
                except vs.MemoryLimitError:
                    refused += 1
                    continue
                shares.append(float((found.islands >= 0).mean()))
                seconds.append(shortest(islands, graphs))
                again.append(shortest(islands, graphs))
                if n <= EXACT:
                    exact = shortest(lambda g: vs.JunctionTree(g).infer(), graphs)
                    ratios.append(seconds[-1] / exact)
            row = f"| {n} × {n} | {kind} |"
            if seconds:
                row += f" {statistics.mean(shares):.0%} | {statistics.median(seconds):.3g} "
                row += f"({min(seconds):.3g} to {max(seconds):.3g})"
                row += f" | {statistics.median(again):.3g}"
            row += f"; {refused} refused |" if refused else " |"
            print(row + (f" {statistics.median(ratios):.2f} |" if ratios else " – |"))


if __name__ == "__main__":
    main()
