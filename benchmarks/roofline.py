"""How fast this machine can compute and move data at most, and how near chain inference comes.

Peak rate: fused multiply-adds in registers, measured by the extension itself, each counted as two
operations. Bandwidth: copy, scale and add over arrays far larger than any cache, each core on its
own part; bytes are those read and those written, as STREAM counts them, without what a cache
fetches in order to overwrite it. Beside them a large matrix product of the numpy at hand, which
says what a tuned library reaches on the same cores.

Then the message passes alone, forward and backward, of 16 sequences in lockstep: 4 K**2 operations
per position, one core, share of the peak. Then exact inference on batches of sentences,
log-potentials in and marginals out, counted likewise: its share of the peak, and of the bandwidth
for reading the scores and writing the marginals once.
"""

from __future__ import annotations

import argparse
import functools
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
from _costs import seconds_per_call
from _inputs import random_batch
from _machine import cores, describe, require_quiet
from threadpoolctl import threadpool_limits

import valuesparse as vs
from valuesparse._forest import message_flops, peak_flops

# Three arrays of this size together are many times a server's last-level cache.
ARRAY_BYTES = 256 * 2**20
# Operations of one inference call: milliseconds on one core.
WORK = 10**9
KERNELS: dict[str, tuple[int, Callable[..., object]]] = {
    "copy": (2, lambda a, b, c: np.copyto(a, b)),
    "scale": (2, lambda a, b, c: np.multiply(b, 3.0, out=a)),
    "add": (3, lambda a, b, c: np.add(b, c, out=a)),
}


def bandwidth(kernel: str, threads: int, *, samples: int = 5) -> float:
    """Return the best bytes per second of a kernel with its arrays split among threads."""
    n_arrays, run = KERNELS[kernel]
    size = ARRAY_BYTES // 8 // threads
    barrier = threading.Barrier(threads + 1)

    def work() -> None:
        # Touched by the thread that uses them, so that each core's memory is the near one.
        a, b, c = (np.full(size, value) for value in (0.0, 1.0, 2.0))
        for _ in range(samples + 1):
            barrier.wait()
            run(a, b, c)
            barrier.wait()

    pool = [threading.Thread(target=work) for _ in range(threads)]
    for thread in pool:
        thread.start()
    times = []
    for _ in range(samples + 1):
        barrier.wait()
        began = time.perf_counter()
        barrier.wait()
        times.append(time.perf_counter() - began)
    for thread in pool:
        thread.join()
    # The first turn is the warm-up; noise only ever adds, so the best stands for the machine.
    return n_arrays * 8 * size * threads / min(times[1:])


def product_rate(dtype: str, threads: int, *, n: int = 1536) -> float:
    """Return operations per second of a matrix product, the median of a few."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, n)).astype(dtype) for _ in range(2))
    out = np.empty_like(a)
    with threadpool_limits(threads):
        return 2.0 * n**3 / seconds_per_call(lambda: np.matmul(a, b, out=out), samples=5)


def peak_rate(dtype: str, threads: int, *, seconds: float = 0.1, samples: int = 5) -> float:
    """Return operations per second of independent fused multiply-adds, the best of a few runs."""
    iterations = 1 << 16
    while (took := _peak_seconds(dtype, threads, iterations)[0]) < seconds:
        iterations = 2 * iterations if took <= 0 else int(1.2 * iterations * seconds / took) + 1
    runs = [_peak_seconds(dtype, threads, iterations) for _ in range(samples)]
    return max(done / took for took, done in runs)


def _peak_seconds(dtype: str, threads: int, iterations: int) -> tuple[float, float]:
    """Return the seconds and the operations of one run on all threads at once."""
    sample = np.zeros(1, dtype=dtype)
    done = [0.0] * threads

    def work(at: int) -> None:
        done[at] = peak_flops(sample, iterations)

    pool = [threading.Thread(target=work, args=(at,)) for at in range(threads)]
    began = time.perf_counter()
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    return time.perf_counter() - began, sum(done)


def report_machine(counts: tuple[int, ...]) -> tuple[dict, dict]:
    """Print the limits; return peak rates by (dtype, threads) and bandwidths by threads."""
    print(f"{'':<28}" + "".join(f"{f'{count} cores':>12}" for count in counts))
    peaks = {}
    for dtype in ("float64", "float32"):
        rates = [peak_rate(dtype, count) for count in counts]
        peaks.update({(dtype, count): rate for count, rate in zip(counts, rates, strict=True)})
        _line(f"peak {dtype}, GFLOP/s", [1e-9 * rate for rate in rates])
        rates = [product_rate(dtype, count) for count in counts]
        _line(f"matmul {dtype}, GFLOP/s", [1e-9 * rate for rate in rates])
    memory = dict.fromkeys(counts, 0.0)
    for kernel in KERNELS:
        rates = [bandwidth(kernel, count) for count in counts]
        memory = {c: max(memory[c], rate) for c, rate in zip(counts, rates, strict=True)}
        _line(f"memory {kernel}, GB/s", [1e-9 * rate for rate in rates])
    return peaks, memory


def _line(name: str, values: list[float]) -> None:
    print(f"{name:<28}" + "".join(f"{value:12.1f}" for value in values))


def report_messages(peaks: dict) -> None:
    """Print how near the message kernel comes to the peak of one core."""
    print()
    print("message passes alone, 1 core    GFLOP/s  of peak")
    for dtype in ("float64", "float32"):
        sample = np.zeros(1, dtype=dtype)
        for n_labels in (9, 22, 49, 64, 95, 256, 1024):
            positions = max(4, WORK // (64 * n_labels**2))
            rates = []
            for _ in range(9):
                began = time.perf_counter()
                done = message_flops(sample, n_labels, 16, positions)
                rates.append(done / (time.perf_counter() - began))
            rate = float(np.median(rates[1:]))
            print(f"K = {n_labels:<5}{dtype}{1e-9 * rate:23.1f}{rate / peaks[dtype, 1]:9.0%}")


def report_inference(peaks: dict, memory: dict, counts: tuple[int, ...]) -> None:
    """Print how near exact inference comes to the limits."""
    print()
    print("exact inference, whole calls   us/position   GFLOP/s  of peak  of bandwidth")
    for dtype in ("float64", "float32"):
        for n_labels in (49, 64, 256):
            batch = random_batch("batch", n_labels, dtype, positions=WORK // (4 * n_labels**2))
            chain = vs.Chain(batch.unary, batch.transition, lengths=batch.lengths)
            moved = 2 * batch.unary.nbytes
            for count in counts:
                seconds = seconds_per_call(functools.partial(vs.infer, chain, threads=count))
                rate = batch.message_flops / seconds
                print(
                    f"K = {n_labels:<5}{dtype}  {count} cores  "
                    f"{1e6 * seconds / batch.n_positions:14.4f}{1e-9 * rate:10.1f}"
                    f"{rate / peaks[dtype, count]:9.0%}{moved / seconds / memory[count]:14.0%}"
                )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    options = parser.parse_args(arguments)
    require_quiet(options.allow_busy)
    counts = tuple(sorted({1, cores()}))
    print(*describe(packages=("scipy",)), sep="\n")
    peaks, memory = report_machine(counts)
    report_messages(peaks)
    report_inference(peaks, memory, counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
