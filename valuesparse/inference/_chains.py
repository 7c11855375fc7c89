"""Chains: what each public function does with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _chain
from valuesparse._validation import as_states
from valuesparse.errors import InfeasibleError
from valuesparse.inference._expected import expected
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
    y = as_states(states, model.n_positions, model.n_labels, noun="labels")
    total = np.empty(model.n_sequences)
    _chain.score(model.batch, y, total)
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


def expected_scores(
    model: Chain, threads: int | None, marginals: Array, fill: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return ``log_z``, expected scores, and how far rounding is felt in these; (B,) each.

    `fill`: the marginals are computed, too.
    """
    log_z, energies = np.empty(model.n_sequences), np.empty(model.n_positions)
    infeasible, _ = _chain.infer(
        model.batch, resolve(threads), 1.0, 0, marginals if fill else None, log_z, None,
        None, 0, 0, None, None, None, None, None, energies,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    return log_z, *expected(
        _chain, model.batch, marginals, energies, model.transition, model.n_sequences
    )


def before_edges(model: Chain) -> npt.NDArray[np.int64]:
    """Return the position before each edge."""
    inner = np.ones(model.n_positions, dtype=bool)
    inner[model.offset[1:][model.lengths > 0] - 1] = False
    return np.flatnonzero(inner)


def iter_edge_marginals(
    model: Chain, threads: int | None, block: int, edges: npt.NDArray[np.int64] | None = None
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield pairwise marginals `block` edges at a time, float64, from one pass of messages.

    Those of `edges` alone where they are given, in their order.
    """
    n, k = model.n_positions, model.n_labels
    log_forward, log_outgoing = empty((n, k), float), empty((n, k), float)
    log_z = np.empty(model.n_sequences)
    infeasible = _chain.log_messages(
        model.batch, resolve(threads), log_z, log_forward, log_outgoing
    )
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    left = before_edges(model)
    wanted = np.arange(left.size) if edges is None else edges
    for first in range(0, wanted.size, block):
        numbers = wanted[first : first + block]
        at = left[numbers]
        t = model.transition
        if t.ndim == 3:
            t = t[numbers]
        scores = log_forward[at, :, None] + t
        scores += log_outgoing[at, None, :]
        scores -= scores.max(axis=(1, 2), keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=(1, 2), keepdims=True)
        yield scores
