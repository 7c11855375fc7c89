"""Chains: what each public function does with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _chain
from valuesparse._validation import as_states
from valuesparse.errors import InfeasibleError
from valuesparse.inference._memory import empty
from valuesparse.inference._watch import Watch, too_late
from valuesparse.models import Chain
from valuesparse.results._chain import ChainResult
from valuesparse.threads import resolve

Array = npt.NDArray[Any]

METHODS = ("auto", "exact", "islands")


def infer(
    model: Chain,
    zeta: float,
    rounds: int,
    workers: int,
    method: str,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
) -> ChainResult:
    """See :func:`valuesparse.infer`."""
    marginals = empty((model.n_positions, model.n_labels), model.dtype)
    log_z = np.empty(model.n_sequences)
    islands = np.full(model.n_positions, -1, dtype=np.int32)
    late = too_late(deadline)
    infeasible, counts = _chain.infer(
        model.batch, workers, zeta, rounds, marginals, log_z, islands,
        None, 0, 0, None, deadline, progress, late,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    return ChainResult(model, marginals, log_z, islands, zeta, counts)


def log_z(model: Chain, workers: int, memory_limit: int | None = None) -> npt.NDArray[np.float64]:
    """Return ``log_z`` (B,) alone: forward messages, of which none is kept."""
    return gradient(model, workers, marginals=False, sums=False)[1]


def decode(
    model: Chain, k: int, workers: int, watch: Watch
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return states (k, N) and scores (k, B)."""
    states = np.empty((k, model.n_positions), dtype=np.int64)
    score = np.empty((k, model.n_sequences))
    infeasible: Any = _chain.decode(
        model.batch, k, workers, states, score,
        watch.left(), watch.part(0, model.n_positions, model.n_positions), watch.late,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    watch.finish(model.n_positions)
    return states, score


def sample(
    model: Chain, count: int, generator: np.random.Generator, workers: int, watch: Watch
) -> npt.NDArray[np.int64]:
    """Return (count, N) samples."""
    n = model.n_positions
    states = np.empty((count, n), dtype=np.int64)
    # Blocks bound the memory of the uniforms; drawing them in order keeps samples reproducible.
    block = max(1, 1_000_000 // max(1, model.n_positions))
    for first in range(0, max(count, 1), block):
        rows = states[first : first + block]
        uniforms = generator.random(rows.shape)
        last = first + rows.shape[0]
        infeasible: Any = _chain.sample(
            model.batch, rows.shape[0], uniforms, rows, workers,
            watch.left(), watch.part(first * n, last * n, count * n), watch.late,
        )  # fmt: skip
        if infeasible is not None:
            raise InfeasibleError(*infeasible)
    watch.finish(count * n)
    return states


def score(model: Chain, states: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the sum of log-potentials of given labels, per sequence (B,)."""
    n = model.n_positions
    y = as_states(states, n, model.n_labels, noun="labels")
    local = model.unary[np.arange(n), y].astype(np.float64)
    if model.allowed is not None:
        local[~model.allowed[np.arange(n), y]] = -np.inf
    full = np.flatnonzero(model.lengths)
    first, last = model.offset[full], model.offset[full + 1] - 1
    if model.start is not None:
        local[first] += model.start[y[first]]
    if model.end is not None:
        local[last] += model.end[y[last]]
    inner = np.ones(n, dtype=bool)
    inner[first] = False
    to = np.flatnonzero(inner)
    if model.transition.ndim == 3:
        steps = model.transition[np.arange(to.size), y[to - 1], y[to]]
    else:
        steps = model.transition[y[to - 1], y[to]]
    local[to] += steps
    total = np.zeros(model.n_sequences)
    if full.size:
        total[full] = np.add.reduceat(local, first)
    return total


def edge_marginals(
    model: Chain, threads: int | None, edges: tuple[int, int] | None
) -> np.ndarray[Any, Any]:
    """Return pairwise marginals of `edges` (first, last), or their (K, K) sum when None."""
    log_z = np.empty(model.n_sequences)
    k = model.n_labels
    pairwise: np.ndarray[Any, Any] | None = None
    sums: np.ndarray[Any, Any] | None = None
    first, last = edges or (0, 0)
    if edges is None:
        sums = np.zeros((k, k))
    else:
        pairwise = empty((last - first, k, k), model.dtype)
    infeasible, _ = _chain.infer(
        model.batch, resolve(threads), 1.0, 0, None, log_z, None,
        pairwise, first, last, sums, None, None, None,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    answer = pairwise if sums is None else sums
    assert answer is not None
    return answer


def gradient(
    model: Chain,
    workers: int,
    *,
    marginals: bool = True,
    sums: bool = True,
    weights: npt.NDArray[np.float64] | None = None,
) -> tuple[Array | None, npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Return marginals (N, K), ``log_z`` (B,) and summed edge marginals (K, K), from one call.

    They are the gradient of ``log_z``; what is not asked for is None. `weights` (B,) weigh the
    sequences in the sum of edge marginals, and nothing else.
    """
    k = model.n_labels
    nodes = np.empty((model.n_positions, k), dtype=model.dtype) if marginals else None
    edges = np.zeros((k, k)) if sums else None
    log_z = np.empty(model.n_sequences)
    infeasible, _ = _chain.infer(
        model.batch, workers, 1.0, 0, nodes, log_z, None,
        None, 0, 0, edges, None, None, None, weights,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    return nodes, log_z, edges


def iter_edge_marginals(
    model: Chain, threads: int | None, block: int
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield pairwise marginals `block` edges at a time, float64, from one pass of messages."""
    n, k = model.n_positions, model.n_labels
    log_forward, log_outgoing = empty((n, k), float), empty((n, k), float)
    log_z = np.empty(model.n_sequences)
    infeasible = _chain.log_messages(
        model.batch, resolve(threads), log_z, log_forward, log_outgoing
    )
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    inner = np.ones(n, dtype=bool)
    inner[model.offset[1:][model.lengths > 0] - 1] = False
    left = np.flatnonzero(inner)  # the position before each edge
    for first in range(0, left.size, block):
        at = left[first : first + block]
        t = model.transition
        if t.ndim == 3:
            t = t[first : first + at.size]
        scores = log_forward[at, :, None] + t
        scores += log_outgoing[at, None, :]
        scores -= scores.max(axis=(1, 2), keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=(1, 2), keepdims=True)
        yield scores
