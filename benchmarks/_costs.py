"""The cost of a message on this machine, fitted to timings of whole calls on one thread."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

import valuesparse as vs
from valuesparse.schedule import record, simulate

# Score of the value an island holds, above the noise of all others: e**-30 of doubt is left.
GAP = 30.0
ZETA = 0.999


@dataclass(frozen=True)
class MessageCosts:
    """Seconds per full message, per message that leaves an island, and per call.

    Exponentials and normalisation are part of the messages: a position receives two.
    """

    full: float
    sparse: float
    call: float

    @property
    def sparse_cost(self) -> float:
        """Cost of a message that leaves an island, in full messages."""
        return self.sparse / self.full

    def __str__(self) -> str:
        return (
            f"{1e9 * self.full:.0f} ns per full message, {1e9 * self.sparse:.0f} ns per message "
            f"out of an island, {1e6 * self.call:.1f} us per call"
        )


def peaked_chain(
    n: int,
    positions: np.ndarray,
    n_labels: int,
    rng: np.random.Generator,
    dtype: str = "float64",
) -> vs.Chain:
    """Return a chain with random potentials whose islands at `ZETA` are just those positions.

    Local scores and transitions are standard normal; at each of `positions` a random value gets a
    score that is `GAP` higher.
    """
    unary = rng.normal(size=(n, n_labels)).astype(dtype)
    unary[positions, rng.integers(n_labels, size=len(positions))] += GAP
    return vs.Chain(unary, rng.normal(size=(n_labels, n_labels)).astype(dtype))


def seconds_per_call(
    call: Callable[[], object],
    *,
    samples: int = 7,
    seconds: float = 0.005,
    best: bool = False,
) -> float:
    """Return the median or best time of a call over samples of about `seconds`, after a warm-up."""
    call()
    began = time.perf_counter()
    call()
    repeats = max(1, round(seconds / max(time.perf_counter() - began, 1e-7)))
    times = []
    for _ in range(samples):
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - began) / repeats)
    return float(min(times) if best else np.median(times))


def fastest(
    call: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the least time of some calls, in seconds of a clock."""
    took = []
    for _ in range(rounds):
        began = clock()
        call()
        took.append(clock() - began)
    return min(took)


def virtual_seconds(chain: vs.Chain, zeta: float, cores: int, *, samples: int = 5) -> float:
    """Return the time of a call's tasks on virtual cores.

    The tasks are those that ``infer(chain, zeta=zeta, threads=cores)`` runs, one plan after the
    other. They run on one thread, so that none disturbs another, and are measured one by one; what
    a call does between its plans is left out. The best of `samples` runs counts.
    """
    best = np.inf
    for _ in range(samples + 1):  # the first is the warm-up
        with record(serial=True) as run:
            vs.infer(chain, zeta=zeta, threads=cores)
        best = min(best, simulate(run, cores, costs="measured").makespan)
    return 1e-9 * float(best)


def measure(n_labels: int, dtype: str = "float64", *, n: int = 2048, seed: int = 0) -> MessageCosts:
    """Fit message costs to one-thread timings of chains with ever more islands.

    Parameters
    ----------
    n_labels : int
        Number of labels K.
    dtype : {"float64", "float32"}
        Type of the potentials.
    n : int
        Length of the long chains; short ones of n / 64 positions tell the cost of a call apart.
    seed : int
        Seed of the potentials.
    """
    rng = np.random.default_rng(seed)
    rows, times = [], []
    for length in (n, n // 64):
        for step in (2, 3, 4, 8, 16, 0):
            positions = np.arange(step - 1, length, step) if step else np.array([], dtype=int)
            chain = peaked_chain(length, positions, n_labels, rng, dtype)
            sent = vs.infer(chain, zeta=ZETA, threads=1).stats
            rows.append((sent["messages_full"], sent["messages_sparse"], 1.0))
            # Noise only ever adds, and a model of costs should not fit it: the best counts.
            call = functools.partial(vs.infer, chain, zeta=ZETA, threads=1)
            times.append(seconds_per_call(call, best=True))
    # Divided by the times, so that short and long chains count alike.
    scale = 1.0 / np.asarray(times)
    fitted, _ = nnls(np.asarray(rows) * scale[:, None], np.ones(len(times)))
    return MessageCosts(*(float(value) for value in fitted))
