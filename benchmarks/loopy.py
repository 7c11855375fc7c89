"""Loopy inference on binary grids: one flooding iteration, set-up, runs to 1e-6, and schedules.

``python benchmarks/loopy.py`` prints medians of 7 in milliseconds. The 64 x 64 grid is the Ising
model p ∝ exp(sum [y_i = y_j] + 5 sum x_i y_i) of RSM10's figure 1 on a noisy image. Set-up begins
from a graph that has been built. Beside a flooding iteration stands its share of the bandwidth that
`roofline.py` measures on as many cores: messages in and out, couplings, indices and totals, each
once. Schedules: messages an edge to 1e-6 on 30 x 30 grids of mixed couplings up to `strength`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from roofline import bandwidth

import valuesparse as vs
from valuesparse.models._blocks import Stamp


def ising(side: int, rng: np.random.Generator) -> vs.FactorGraph:
    """Return the denoising model of a noisy square."""
    image = -np.ones((side, side))
    image[side // 4 : 3 * side // 4, side // 4 : 3 * side // 4] = 1.0
    noisy = (image + rng.normal(0.0, 0.5, image.shape)).ravel()
    graph = vs.FactorGraph([2] * side * side)
    same = np.eye(2)
    for v in range(side * side):
        graph.add([v], [0.0, 5.0 * noisy[v]])
        if v % side:
            graph.add([v - 1, v], same)
        if v >= side:
            graph.add([v - side, v], same)
    return graph


def median(call: Callable[[], object], times: int = 7) -> float:
    """Return milliseconds, after a warm-up."""
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - began))
    return statistics.median(taken)


def per_iteration(graph: vs.FactorGraph, threads: int, most: int) -> float:
    """Return milliseconds of one flooding iteration, set-up and beliefs taken out."""

    def run(iterations: int) -> float:
        return median(
            lambda: vs.infer(
                graph, method=vs.BP(tolerance=0.0, max_iterations=iterations), threads=threads
            )
        )

    return (run(most + 1) - run(1)) / most


def bytes_moved(side: int) -> int:
    """Return what one flooding iteration has to read and write at least."""
    pairs, variables = 2 * side * (side - 1), side * side
    return pairs * (4 * 8 + 8 + 2 * 4) + variables * (3 * 8 + 4 * 4)


def mixed(side: int, strength: float, rng: np.random.Generator) -> vs.FactorGraph:
    """Return a grid of couplings uniform in [-strength, strength]."""
    graph = vs.FactorGraph([2] * side * side)
    for v in range(side * side):
        graph.add([v], rng.normal(0.0, 1.0, 2))
        for u in ([v - 1] if v % side else []) + ([v - side] if v >= side else []):
            j = rng.uniform(-strength, strength)
            graph.add([u, v], [[j, -j], [-j, j]])
    return graph


def schedules() -> None:
    """Print how many messages each schedule takes."""
    for strength in (1.0, 1.5):
        for seed in range(3):
            graph = mixed(30, strength, np.random.default_rng(seed))
            words = []
            for schedule in ("flooding", "residual", "rounds", "tree"):
                r = vs.infer(graph, method=vs.BP(schedule=schedule, max_iterations=2000), threads=1)
                count = r.stats["messages"] / (4 * 30 * 29)
                words.append(f"{schedule} {count:.1f}{'' if r.converged else ' (not converged)'}")
            print(f"strength {strength}, seed {seed}, messages an edge: {', '.join(words)}")


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rng = np.random.default_rng(0)
    for side, most in ((64, 400), (512, 40)):
        graph = ising(side, rng)
        for threads in (1, 2):
            print(f"{side} x {side}, {threads} threads, one iteration (ms): ", end="")
            taken = per_iteration(graph, threads, most)
            share = bytes_moved(side) / (1e-3 * taken) / bandwidth("copy", threads)
            print(f"{taken:.4f}, {100 * share:.0f} % of the bandwidth of copying")
    graph = ising(64, rng)

    def warm(method: str) -> float:
        return median(lambda: vs.infer(graph, method=method, threads=1))

    def cold(method: str) -> float:
        def call() -> None:
            graph.stamp = Stamp()
            vs.infer(graph, method=method, threads=1)

        return median(call)

    for method in ("bp", "trw"):
        print(f"64 x 64, {method} to 1e-6 (ms): {warm(method):.2f}, with set-up {cold(method):.2f}")
    schedules()


if __name__ == "__main__":
    main()
