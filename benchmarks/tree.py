"""Trees: exact inference against the roofline, paths against chains, threads, and islands.

Roofline of exact inference on a random tree: operations are the 4 K**2 per node of its two messages
at the measured peak; bytes are the scores read once, the marginals written once, and one row per
node kept from the way up to the way down (written and read), at the measured bandwidth. The larger
of the two times is the limit. Ratios come from alternating runs; the least of each counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from _machine import cores, describe, require_quiet
from roofline import KERNELS, bandwidth, peak_rate

import valuesparse as vs


def random_parent(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a random recursive tree: each node hangs from one before it, uniformly."""
    return np.r_[-1, (rng.random(n - 1) * np.arange(1, n)).astype(np.int64)]


def alternate(*runs: Callable[[], object], repeats: int = 7) -> list[float]:
    """Return the least seconds of each, run in turns after a warm-up."""
    best = [np.inf] * len(runs)
    for turn in range(repeats + 1):
        for i, run in enumerate(runs):
            began = time.perf_counter()
            run()
            if turn:
                best[i] = min(best[i], time.perf_counter() - began)
    return best


def report_path(rng: np.random.Generator, n: int) -> None:
    unary, pairwise = rng.normal(size=(n, 16)), rng.normal(size=(16, 16))
    chain, path = vs.Chain(unary, pairwise), vs.Tree(np.arange(-1, n - 1), unary, pairwise)
    a, b = alternate(lambda: vs.infer(chain, threads=1), lambda: vs.infer(path, threads=1))
    print(f"path, K = 16: chain {1e9 * a / n:.1f} ns, tree {1e9 * b / n:.1f} ns: {b / a:.2f}x")


def report_exact(rng: np.random.Generator, n: int) -> None:
    k = 16
    model = vs.Tree(random_parent(rng, n), rng.normal(size=(n, k)), rng.normal(size=(k, k)))
    flops = 4.0 * k * k / peak_rate("float64", 1)
    memory = 4.0 * 8 * k / max(bandwidth(kernel, 1) for kernel in KERNELS)
    one, two = alternate(lambda: vs.infer(model, threads=1), lambda: vs.infer(model, threads=2))
    limit = max(flops, memory)
    print(
        f"random tree, K = 16, n = {n}: {1e9 * one / n:.1f} ns per node; limits {1e9 * flops:.1f} "
        f"(operations), {1e9 * memory:.1f} (memory): {limit * n / one:.0%} of the roofline; "
        f"2 threads {one / two:.2f}x"
    )


def report_islands(rng: np.random.Generator, n: int) -> None:
    k = 49
    unary = rng.normal(size=(n, k))
    unary[np.arange(n), rng.integers(0, k, n)] += 12.0 * (rng.random(n) < 0.7)
    model = vs.Tree(random_parent(rng, n), unary, rng.normal(size=(k, k)))
    exact = vs.infer(model).marginals.argmax(axis=1)
    for zeta in (0.9, 0.95, 0.99):
        r = vs.infer(model, zeta=zeta)
        agree = (r.marginals.argmax(axis=1) == exact).mean()
        full, one, two = alternate(
            lambda: vs.infer(model, threads=1),
            lambda z=zeta: vs.infer(model, zeta=z, threads=1),
            lambda z=zeta: vs.infer(model, zeta=z, threads=2),
            repeats=3,
        )
        print(
            f"islands, K = 49, zeta = {zeta}: agreement {agree:.3%}, exact {1e9 * full / n:.0f}, "
            f"islands {1e9 * one / n:.0f} ns: {full / one:.2f}x; 2 threads {one / two:.2f}x"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    require_quiet(options.allow_busy)
    print(*describe(packages=()), f"cores     {cores()}", sep="\n")
    rng = np.random.default_rng(0)
    report_path(rng, options.nodes)
    report_exact(rng, options.nodes)
    report_islands(rng, options.nodes // 4)
    return 0


if __name__ == "__main__":
    sys.exit(main())
