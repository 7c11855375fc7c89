"""Time two computations of the same marginals against each other, alternating in one process.

    python benchmarks/paired.py crfsuite ours --labels 49
    python benchmarks/paired.py ours ours:zeta=0.9 --labels 95 --shape chain
    python benchmarks/paired.py ours:threads=1 ours:threads=2 --input tagger

The first side is the baseline; a ratio above 1 says that the second is faster. A side is the name
of a module in ``rivals/``, with options after a colon: ``threads``, ``dtype`` and, for ours,
``zeta``. The input is random, the test sentences of a part-of-speech tagger (``--input tagger``;
``--train`` and ``--test`` name the files, by default English-EWT of Universal Dependencies with 49
tags), or an ``.npz`` file with ``unary``, ``transition`` and ``lengths``. Each sample repeats the
call until it is long enough to be timed, and A and B take turns. Times are medians; the ratio is
the median of those of neighbouring samples. With one thread on both sides the process is pinned to
one core.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import _tagging
import numpy as np
import rivals
from _inputs import Batch, random_batch
from _machine import describe, pinned, require_quiet
from _wanted import named, wanted

#: Samples of each side.
LEAST = 7


@dataclass(frozen=True)
class Timing:
    """Medians over alternating samples, in seconds per call, and of A over B with its quartiles."""

    a: float
    b: float
    low: float
    ratio: float
    high: float
    samples: int


def alternate(
    a: rivals.Prepared,
    b: rivals.Prepared,
    *,
    samples: int = 9,
    sample_seconds: float = 0.05,
) -> Timing:
    """Time A and B in turn.

    Parameters
    ----------
    a, b : Prepared
        The two computations; a side's overhead is timed beside each of its samples and taken off.
    samples : int
        Samples of each side, at least 7, after one warm-up of each.
    sample_seconds : float
        A sample repeats its call until it lasts about this long.

    Returns
    -------
    Timing
        Medians, and the median and quartiles of the ratio of neighbouring samples.
    """
    if samples < LEAST:
        raise ValueError(f"samples = {samples}: give at least {LEAST}")
    calls = [_calls_per_sample(side.call, sample_seconds) for side in (a, b)]
    times = np.empty((samples, 2))
    collecting = gc.isenabled()
    gc.disable()
    try:
        for row in times:
            for at, side in enumerate((a, b)):
                row[at] = _sample(side.call, calls[at])
                if side.overhead is not None:
                    row[at] -= _sample(side.overhead, calls[at])
    finally:
        if collecting:
            gc.enable()
    low, ratio, high = np.quantile(times[:, 0] / times[:, 1], (0.25, 0.5, 0.75))
    median_a, median_b = np.median(times, axis=0)
    return Timing(*map(float, (median_a, median_b, low, ratio, high)), samples)


def _calls_per_sample(call: Callable[[], object], seconds: float) -> int:
    call()
    return max(1, round(seconds / max(_sample(call, 1), 1e-7)))


def _sample(call: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls


def parse_side(text: str) -> tuple[str, dict[str, str]]:
    """Split ``name:key=value,key=value``."""
    name, _, rest = text.partition(":")
    return name, dict(part.split("=", 1) for part in rest.split(",") if part)


def prepare_side(text: str, batch: Batch) -> tuple[rivals.Prepared, int]:
    """Return what a side computes on a batch, and on how many threads."""
    name, options = parse_side(text)
    dtype = options.pop("dtype", str(batch.unary.dtype))
    threads = int(options.pop("threads", "1"))
    extra = {key: float(value) for key, value in options.items()}
    ready = rivals.load(name).prepare(
        batch.unary.astype(dtype),
        batch.transition.astype(dtype),
        batch.lengths,
        threads=threads,
        **extra,
    )
    return ready, threads


def load_batch(options: argparse.Namespace) -> Batch:
    """Return the tagger's test sentences, or what an ``.npz`` file holds."""
    source = options.input
    if source == "tagger":
        tagging = _tagging.load_chosen(options)
        unary, lengths = tagging.model.unary_batch(tagging.sentences)
        return Batch(tagging.name, unary, tagging.model.transition, lengths)
    wanted(Path(source), "--input is 'tagger' or names an .npz file")
    with np.load(source, allow_pickle=False) as data:
        return Batch(Path(source).stem, data["unary"], data["transition"], data["lengths"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a", help="baseline, such as crfsuite or ours:threads=1")
    parser.add_argument("b", help="what is compared with it, such as ours:zeta=0.9")
    parser.add_argument("--labels", type=int, default=49)
    parser.add_argument("--shape", choices=("batch", "chain"), default="batch")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--input", help="'tagger', or an .npz with unary, transition, lengths")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    _tagging.add_arguments(parser)
    options = parser.parse_args(arguments)
    sides = [parse_side(side)[0] for side in (options.a, options.b)]
    named(parser, "rival", sides, rivals.RIVALS)
    if options.samples < LEAST:
        parser.error(f"--samples {options.samples}: give at least {LEAST}")

    require_quiet(options.allow_busy)
    if options.input:
        batch = load_batch(options)
    else:
        batch = random_batch(options.shape, options.labels, options.dtype)
    (a, threads_a), (b, threads_b) = (prepare_side(side, batch) for side in (options.a, options.b))
    with pinned(0 if threads_a == threads_b == 1 else None):
        timing = alternate(a, b, samples=options.samples)

    print(*describe(), sep="\n")
    print(
        f"input     {batch.name}: {batch.lengths.size} sequences, {batch.n_positions} positions, "
        f"{batch.n_labels} labels"
    )
    for side, seconds in ((options.a, timing.a), (options.b, timing.b)):
        print(
            f"{side:<24}{1e6 * seconds / batch.n_positions:10.4f} us per position"
            f"{1e-9 * batch.message_flops / seconds:10.2f} GFLOP/s"
        )
    print(
        f"{options.b} is {timing.ratio:.2f} times as fast as {options.a} "
        f"(quartiles {timing.low:.2f} to {timing.high:.2f}, {timing.samples} samples)"
    )
    require_quiet(allow_busy=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
