"""RS10's scheme on grids and random graphs: size, time and marginal error against the threshold.

Beside it stands the baseline of the paper's Table 2: leaving out what has a small |weight|, at the
same sizes. The solver is the junction tree, so that errors are against the exact marginals of the
whole graph. Weights are Laplace-distributed: most are small, as in a trained model.

Error: the mean over variables of |p − exact| (RS10), and the largest. Time: all inferences of a
run, gains included, over one of the whole graph; the median of --repeat runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from _machine import describe
from _tables import write_csv

import valuesparse as vs

mpl.use("Agg")
import matplotlib.pyplot as plt

THRESHOLDS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)


@dataclass(frozen=True)
class Row:
    """Means over the instances of one kind of graph, at one threshold, by one scheme."""

    graph: str
    scheme: str
    threshold: float
    size: float
    time: float
    rounds: float
    mean_error: float
    largest_error: float
    divergence_bound: float


def equal(a: int, b: int) -> bool:
    return a == b


def grid(rng: np.random.Generator, side: int, field: float) -> vs.FactorGraph:
    """Return a square grid of binary variables."""
    edges = [
        (i * side + j, k)
        for i in range(side)
        for j in range(side)
        for k in ([i * side + j + 1] * (j + 1 < side) + [(i + 1) * side + j] * (i + 1 < side))
    ]
    return weighted(rng, side * side, edges, field)


def random_graph(rng: np.random.Generator, n: int, degree: float, field: float) -> vs.FactorGraph:
    """Return a graph in which every pair is an edge with the same probability."""
    edges = [(i, j) for j in range(n) for i in range(j) if rng.random() < degree / (n - 1)]
    return weighted(rng, n, edges, field)


def weighted(
    rng: np.random.Generator, n: int, edges: list[tuple[int, int]], deviation: float
) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * n)
    for field in rng.normal(0.0, deviation, n).tolist():
        graph.add([graph.n_factors], [0.0, field])
    for edge, weight in zip(edges, rng.laplace(0.0, 0.5, len(edges)).tolist(), strict=True):
        graph.add_feature(edge, equal, weight)
    return graph


def seconds(call: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def note(
    graph: vs.FactorGraph, r: vs.Result, exact: np.ndarray, took: float, rounds: int
) -> tuple[float, ...]:
    """Return the numbers of one run, in the order of the fields of `Row`."""
    n = graph.n_variables
    error = np.abs(np.array([m[1] for m in r.marginals]) - exact)
    size = (r.factors.size - n) / (graph.n_factors - n)
    return size, took, rounds, float(error.mean()), float(error.max()), r.divergence_bound


def measure(kind: str, graphs: list[vs.FactorGraph], repeat: int) -> list[Row]:
    """Return the rows of one kind of graph."""
    rows = []
    found: dict[tuple[str, float], list[tuple[float, ...]]] = {}
    for graph in graphs:
        n = graph.n_variables
        exact = np.array([m[1] for m in vs.infer(graph, threads=1).marginals])
        whole = seconds(lambda g=graph: vs.infer(g, factors=range(g.n_factors), threads=1), repeat)
        weights = np.array([abs(f.weight) for f in graph.factors[n:]])

        for threshold in THRESHOLDS:
            for scheme, most in (("relaxed", None), ("one round", 1)):
                ask = {"threshold": threshold, "max_rounds": most, "threads": 1}
                r = vs.relax(graph, **ask)
                took = seconds(lambda g=graph, a=ask: vs.relax(g, **a), repeat)
                key = (scheme, threshold)
                rounds = r.stats["rounds"]
                found.setdefault(key, []).append(note(graph, r, exact, took / whole, rounds))
                if scheme == "relaxed":
                    heavy = vs.relaxed.largest(weights, r.factors.size - n)
            kept = [*range(n), *(n + heavy).tolist()]
            r = vs.infer(graph, factors=kept, threads=1)
            took = seconds(lambda g=graph, k=kept: vs.infer(g, factors=k, threads=1), repeat)
            key = ("largest |weight|", threshold)
            found.setdefault(key, []).append(note(graph, r, exact, took / whole, 0))
    for (scheme, threshold), numbers in found.items():
        rows.append(Row(kind, scheme, threshold, *np.mean(numbers, axis=0).tolist()))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    kinds = list(dict.fromkeys(r.graph for r in rows))
    figure, axes = plt.subplots(len(kinds), 3, figsize=(12, 3.2 * len(kinds)), squeeze=False)
    styles = {"relaxed": "o-", "one round": "s--", "largest |weight|": "^:"}
    for line, kind in zip(axes, kinds, strict=True):
        for scheme, style in styles.items():
            some = [r for r in rows if (r.graph, r.scheme) == (kind, scheme)]
            size = [r.size for r in some]
            line[0].plot([r.threshold for r in some], size, style, label=scheme)
            line[1].plot(size, [max(r.mean_error, 1e-12) for r in some], style, label=scheme)
            line[2].plot(size, [r.time for r in some], style, label=scheme)
        line[0].set(xscale="log", xlabel="threshold", ylabel="share of edges kept", title=kind)
        line[1].set(yscale="log", xlabel="share of edges kept", ylabel="mean marginal error")
        line[2].set(yscale="log", xlabel="share of edges kept", ylabel="time / whole graph")
        line[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("rs10-relaxed"))
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--side", type=int, default=16, help="of the grids")
    parser.add_argument("--variables", type=int, default=60, help="of the random graphs")
    parser.add_argument("--degree", type=float, default=4.0, help="of the random graphs")
    parser.add_argument("--field", type=float, default=2.0, help="deviation of the unary weights")
    args = parser.parse_args()
    makers = {
        f"grid {args.side} × {args.side}": lambda rng: grid(rng, args.side, args.field),
        f"random, {args.variables} variables": (
            lambda rng: random_graph(rng, args.variables, args.degree, args.field)
        ),
    }
    rows: list[Row] = []
    for kind, make in makers.items():
        graphs = [make(np.random.default_rng(i)) for i in range(args.instances)]
        rows += measure(kind, graphs, args.repeat)
    args.out.mkdir(parents=True, exist_ok=True)
    write_csv(rows, args.out / "rs10-relaxed.csv")
    draw(rows, args.out / "rs10-relaxed.png")
    sys.stdout.write("\n".join(describe()) + "\n")
    for r in rows:
        sys.stdout.write(
            f"{r.graph:24} {r.scheme:17} {r.threshold:8.0e} size {r.size:6.3f} time {r.time:7.3f} "
            f"rounds {r.rounds:4.1f} error {r.mean_error:.2e} largest {r.largest_error:.2e} "
            f"bound {r.divergence_bound:.3g}\n"
        )


if __name__ == "__main__":
    main()
