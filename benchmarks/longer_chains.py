"""Chains of order 2 and of segments against passes in numpy, batched as torch-struct batches them.

numpy's pass keeps all sequences of a batch in one array and takes logarithms of sums over one axis,
as torch-struct does: (B, K, K, K) at each position for order 2, (B, L, K) and (B, K, K) for
segments. Its log Z alone is timed twice over: torch-struct has marginals by differentiating, which
takes at least the time of the pass again. Medians of alternating runs, one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from _machine import describe

import valuesparse as vs


def log_sum(x: np.ndarray, axis: int) -> np.ndarray:
    """Return log sum exp along an axis."""
    most = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - most).sum(axis=axis)) + most.squeeze(axis)


def second_order(u: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return log Z of sequences (B, n, K)."""
    a = u[:, 0, :, None] + u[:, 1, None, :]
    for i in range(2, u.shape[1]):
        a = log_sum(a[..., None] + t, 1) + u[:, i, None, :]
    return log_sum(a.reshape(len(u), -1), 1)


def segments(u: np.ndarray, t: np.ndarray, longest: int) -> np.ndarray:
    """Return log Z of sequences (B, n, K) under segments."""
    count, n, k = u.shape
    sums = np.concatenate([np.zeros((count, 1, k)), np.cumsum(u, axis=1)], axis=1)
    entry = np.zeros((count, n, k))
    for e in range(1, n + 1):
        first = np.arange(max(e - longest, 0), e)
        a = log_sum(entry[:, first] + sums[:, e, None] - sums[:, first], 1)
        if e < n:
            entry[:, e] = log_sum(a[:, :, None] + t, 1)
    return log_sum(a, 1)


def medians(first: Callable[[], object], second: Callable[[], object], runs: int) -> list[float]:
    """Return the median seconds of two functions, called in turn."""
    times: list[list[float]] = [[], []]
    for _ in range(runs):
        for call, taken in zip((first, second), times, strict=True):
            started = time.perf_counter()
            call()
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    print("\n".join(describe()))
    rng = np.random.default_rng(0)
    for k, count, n in ((9, 64, 25), (17, 32, 25), (45, 8, 25)):
        u, t = rng.normal(size=(count, n, k)), rng.normal(size=(k, k, k))
        chain = vs.Chain(u.reshape(-1, k), t, [n] * count, order=2)
        assert np.allclose(vs.infer(chain).log_z, second_order(u, t))
        ours, theirs = medians(
            lambda c=chain: vs.infer(c, threads=1), lambda u=u, t=t: second_order(u, t), args.runs
        )
        print(f"order 2, K = {k}: marginals {1e3 * ours:.2f} ms, log Z in numpy {1e3 * theirs:.2f} "
              f"ms, {theirs / ours:.1f} times", flush=True)  # fmt: skip
    for k, count, n, longest in ((9, 64, 50, 8), (17, 32, 50, 8), (45, 8, 50, 16)):
        u, t = rng.normal(size=(count, n, k)), rng.normal(size=(k, k))
        model = vs.SegmentChain(u.reshape(-1, k), t, [n] * count, max_length=longest)
        assert np.allclose(vs.infer(model).log_z, segments(u, t, longest))
        ours, theirs = medians(
            lambda c=model: vs.infer(c, threads=1),
            lambda u=u, t=t, d=longest: segments(u, t, d),
            args.runs,
        )
        print(f"segments, K = {k}, L = {longest}: marginals {1e3 * ours:.2f} ms, log Z in numpy "
              f"{1e3 * theirs:.2f} ms, {theirs / ours:.1f} times", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
