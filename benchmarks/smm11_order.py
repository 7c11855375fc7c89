"""Order of events in SMM11: its queue of messages under many timings, and our order-free rounds.

The model is the English part-of-speech tagger of ``smm11_figure3.py``. For each zeta the queue of
SMM11, section 3, runs once per timing on every sentence, in plain numpy, and ``vs.infer`` once.
Both are compared with exact inference: the share of tokens with the same best tag (agreement) and
the mean over tokens of the largest error of any marginal.

The queue, as the paper has it with its errata. At the start it holds the first forward and the last
backward message, and a forward and a backward pass out of every variable that is certain by its
local factor. P workers take messages first in, first out, each message lasting a random time. A
message is computed from what holds at the moment it ends, and takes effect at once: no worker
overwrites a newer message with an older one. That is the kindest reading for the queue. After a
message into variable i, its actual marginal m' = psi * forward * backward is formed, and

- a free variable, never released, with a mode of at least zeta becomes deterministic: a forward
  pass to i + 1 and a backward pass to i - 1 are queued;
- any other free variable passes the message on, in its direction;
- a deterministic variable passes nothing on. It is released when no value of m' reaches zeta. When
  the mode has moved it takes the new value, the second time it is released. Either queues both
  passes again. A released variable is never made deterministic again.

The paper queues no message "if the neighbouring variable is deterministic". Taken to the letter no
variable would get a message once deterministic, and m' could not change; so here the message into a
deterministic variable is computed, for its m' alone, and ends there.

A timing is a seed: it draws the times of all messages, so that another seed is another order.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _tables import write_csv
from _tagging import add_arguments, load_chosen

import valuesparse as vs

ZETAS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
SHORTEST = 10
FORWARD, BACKWARD = 1, -1
# Mean time of a message out of a deterministic variable, in times of a full one.
SPARSE_TIME = 0.1


class Queue:
    """One run of the paper's algorithm on one chain.

    Parameters
    ----------
    local : numpy.ndarray
        Local factors, (n, K) float64, each row with sum 1.
    transition : numpy.ndarray
        Transition factors, (K, K) float64, [from, to].
    zeta : float
        Threshold.
    """

    def __init__(self, local: np.ndarray, transition: np.ndarray, zeta: float) -> None:
        self.local, self.zeta = local, zeta
        # Eq. 4 sums over the value to the right, so it takes the transpose.
        self.matrix = {FORWARD: transition, BACKWARD: np.ascontiguousarray(transition.T)}
        self.message = {FORWARD: np.ones_like(local), BACKWARD: np.ones_like(local)}
        self.marginal = local.copy()
        n = len(local)
        self.island = np.full(n, -1)
        self.flipped = np.zeros(n, dtype=bool)
        self.released = np.zeros(n, dtype=bool)
        self.full = self.sparse = 0
        self.tasks: deque[tuple[int, int]] = deque([(FORWARD, 0), (BACKWARD, n - 1)])
        for i in np.flatnonzero(local.max(axis=1) >= zeta):
            self._set(int(i), int(local[i].argmax()))

    def run(self, workers: int, rng: np.random.Generator) -> None:
        """Drain the queue with `workers` virtual workers; `rng` draws how long messages last."""
        busy: list[tuple[float, int, int]] = []
        now = 0.0
        while self.tasks or busy:
            while self.tasks and len(busy) < workers:
                step, i = self.tasks.popleft()
                mean = SPARSE_TIME if self._from_island(step, i) else 1.0
                heapq.heappush(busy, (now + rng.exponential(mean), step, i))
            now, step, i = heapq.heappop(busy)
            self._compute(step, i)

    def _compute(self, step: int, i: int) -> None:
        before = i - step
        if 0 <= before < len(self.local):
            if self._from_island(step, i):
                message = self.matrix[step][self.island[before]]
                self.sparse += 1
            else:
                outgoing = self.local[before] * self.message[step][before]
                message = outgoing @ self.matrix[step]
                self.full += 1
            self.message[step][i] = message / message.sum()
        actual = self.local[i] * self.message[FORWARD][i] * self.message[BACKWARD][i]
        mass = actual.sum()
        if not mass > 0:
            raise ValueError(f"no mass at position {i}: this queue takes finite scores only")
        self.marginal[i] = actual / mass
        self._decide(step, i)

    def _decide(self, step: int, i: int) -> None:
        mode = int(self.marginal[i].argmax())
        certain = self.marginal[i, mode] >= self.zeta
        if self.island[i] < 0:
            if certain and not self.released[i]:
                self._set(i, mode)
            else:
                self._queue(step, i + step)
        elif not certain or (mode != self.island[i] and self.flipped[i]):
            self.released[i] = True
            self._set(i, -1)
        elif mode != self.island[i]:
            self.flipped[i] = True
            self._set(i, mode)

    def _set(self, i: int, value: int) -> None:
        self.island[i] = value
        self._queue(FORWARD, i + 1)
        self._queue(BACKWARD, i - 1)

    def _queue(self, step: int, i: int) -> None:
        if 0 <= i < len(self.local):
            self.tasks.append((step, i))

    def _from_island(self, step: int, i: int) -> bool:
        before = i - step
        return 0 <= before < len(self.local) and self.island[before] >= 0


@dataclass(frozen=True)
class Found:
    """Marginals (N, K), islands (N,) and full messages of one way to run all sentences."""

    marginals: np.ndarray
    islands: np.ndarray
    full: int

    def agreement(self, exact: np.ndarray) -> float:
        """Return the share of tokens with the best tag of `exact`."""
        return float((self.marginals.argmax(axis=1) == exact.argmax(axis=1)).mean())

    def error(self, exact: np.ndarray) -> float:
        """Return the mean over tokens of the largest error of any tag."""
        return float(np.abs(self.marginals - exact).max(axis=1).mean())


@dataclass(frozen=True)
class Row:
    """One zeta: the queue over all timings, then ours; tokens are counts, messages per token."""

    zeta: float
    tokens: int
    timings: int
    workers: int
    queue_agreement_mean: float
    queue_agreement_min: float
    queue_agreement_max: float
    ours_agreement: float
    queue_error_mean: float
    queue_error_min: float
    queue_error_max: float
    ours_error: float
    tokens_with_other_tags: int
    tokens_with_other_islands: int
    queue_islands: float
    ours_islands: float
    queue_full_messages: float
    ours_full_messages: float


def scaled(scores: np.ndarray) -> np.ndarray:
    """Return the exponential of scores, each row divided by its sum."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def run_queue(chain: vs.Chain, zeta: float, workers: int, seed: int) -> Found:
    """Run the queue on every sentence under one timing."""
    if chain.transition.ndim != 2:
        raise ValueError("the queue takes one transition matrix for all edges")
    transition = np.exp(chain.transition - chain.transition.max())
    marginals, islands, full = [], [], 0
    ends = np.cumsum(chain.lengths)
    for number, (begin, end) in enumerate(zip(ends - chain.lengths, ends, strict=True)):
        scores = chain.unary[begin:end].copy()
        if chain.start is not None:
            scores[0] += chain.start
        if chain.end is not None:
            scores[-1] += chain.end
        queue = Queue(scaled(scores), transition, zeta)
        queue.run(workers, np.random.default_rng((seed, number)))
        marginals.append(queue.marginal)
        islands.append(queue.island)
        full += queue.full
    return Found(np.concatenate(marginals), np.concatenate(islands), full)


def run_ours(chain: vs.Chain, zeta: float) -> Found:
    """Run ours on every sentence."""
    result = vs.infer(chain, zeta=zeta)
    return Found(result.marginals, result.islands, result.stats["messages_full"])


def compare(chain: vs.Chain, zeta: float, workers: int, timings: int) -> Row:
    """Return the row of one zeta."""
    exact = vs.infer(chain).marginals
    queue = [run_queue(chain, zeta, workers, seed) for seed in range(timings)]
    ours = run_ours(chain, zeta)
    agreement = [found.agreement(exact) for found in queue]
    error = [found.error(exact) for found in queue]
    tags = np.array([found.marginals.argmax(axis=1) for found in queue])
    islands = np.array([found.islands for found in queue])
    tokens = chain.n_positions
    return Row(
        zeta=zeta,
        tokens=tokens,
        timings=timings,
        workers=workers,
        queue_agreement_mean=float(np.mean(agreement)),
        queue_agreement_min=min(agreement),
        queue_agreement_max=max(agreement),
        ours_agreement=ours.agreement(exact),
        queue_error_mean=float(np.mean(error)),
        queue_error_min=min(error),
        queue_error_max=max(error),
        ours_error=ours.error(exact),
        tokens_with_other_tags=int((tags != tags[0]).any(axis=0).sum()),
        tokens_with_other_islands=int((islands != islands[0]).any(axis=0).sum()),
        queue_islands=float((islands >= 0).mean()),
        ours_islands=float((ours.islands >= 0).mean()),
        queue_full_messages=float(np.mean([found.full for found in queue])) / tokens,
        ours_full_messages=ours.full / tokens,
    )


def report(rows: list[Row]) -> None:
    """Print a Markdown table."""
    print(
        "| ζ | agreement: queue, mean (min to max) | ours "
        "| error: queue, mean (min to max) | ours "
        "| tokens with another tag / island between timings "
        "| islands: queue, ours | full messages per token: queue, ours |"
    )
    print("|---" * 8 + "|")
    for row in rows:
        print(
            f"| {row.zeta:g} "
            f"| {row.queue_agreement_mean:.2%} "
            f"({row.queue_agreement_min:.2%} to {row.queue_agreement_max:.2%}) "
            f"| {row.ours_agreement:.2%} "
            f"| {row.queue_error_mean:.5f} ({row.queue_error_min:.5f} to {row.queue_error_max:.5f})"
            f" | {row.ours_error:.5f} "
            f"| {row.tokens_with_other_tags} / {row.tokens_with_other_islands} "
            f"| {row.queue_islands:.1%}, {row.ours_islands:.1%} "
            f"| {row.queue_full_messages:.2f}, {row.ours_full_messages:.2f} |"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--sentences", type=int, default=100, help="how many at most")
    parser.add_argument("--workers", type=int, default=8, help="virtual workers of the queue")
    parser.add_argument("--timings", type=int, default=10, help="how many seeds")
    parser.add_argument("--output-dir", type=Path, default=Path("."))
    options = parser.parse_args(arguments)
    for name in ("sentences", "workers", "timings"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    tagging = load_chosen(options)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    long = [sentence for sentence in tagging.sentences if len(sentence) >= SHORTEST]
    chain = tagging.model.chain(long[: options.sentences])
    print(
        f"{tagging.name}: {chain.n_sequences} sentences of at least {SHORTEST} tokens, "
        f"{chain.n_positions} tokens, {chain.n_labels} tags; {options.timings} timings, "
        f"{options.workers} virtual workers"
    )
    rows = [compare(chain, zeta, options.workers, options.timings) for zeta in ZETAS]
    write_csv(rows, options.output_dir / "smm11_order.csv")
    report(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
