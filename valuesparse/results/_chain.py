"""Marginals of chains: a record, and queries that are computed when asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._buffers import empty
from valuesparse.models import Chain, SecondOrderChain, SegmentChain, SparseTransition
from valuesparse.results._base import BLOCK_ENTRIES, edges_at_once
from valuesparse.results._islands import IslandResult

__all__ = ["ChainResult"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


class ChainResult(IslandResult[Chain]):
    """Marginals of a chain model, and how they came about; its arrays are read-only.

    Attributes
    ----------
    marginals : ndarray of shape (N, K), dtype of the model
        ``marginals[i, k]``: probability of label k at position i. Under ``zeta`` the actual
        marginal m′ of SMM11: given the islands, and at an island given the other islands.
    log_z : ndarray of float64, shape (B,)
        Log partition function of each sequence; under ``zeta`` the log mass of the configurations
        that agree with the final islands, a lower bound.
    islands : ndarray of int32, shape (N,)
        The value that an island holds, −1 elsewhere.
    method : str
        The engine that ran: "exact" or "islands".
    reason : str
        Why.
    converged : bool
        False when `revisit` stopped the rounds before nothing changed.
    stats : dict
        ``islands``, ``segments`` (runs of free variables between them), ``messages_full`` and
        ``messages_sparse`` (of cost K² and K), ``released``, ``flipped``, ``rounds`` (largest over
        the sequences), ``sequences_widened`` (redone in a wider domain),
        ``sequences_without_islands`` (answered exactly, since islands would not pay).

    Notes
    -----
    Pairwise marginals, expectations and entropy are those of one distribution: the posterior, or
    under ``zeta`` the model conditioned on its final islands. They are computed when asked.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> r = vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))))
    >>> r.method, r.converged, r.stats["messages_full"]
    ('exact', True, 4)
    >>> r.pairwise().shape
    (2, 2, 2)
    """

    __slots__ = ()
    _solved = "a chain is solved exactly by two passes"
    _variables = "positions"
    _components = "sequences"

    @staticmethod
    def _sparse_table(model: Chain) -> SparseTransition | None:
        return model.sparse_transition

    def _n_edges(self) -> int:
        return int(self._model.edge[-1])

    def _pairwise(self, wanted: range, threads: int | None) -> Array:
        low, high = min(wanted), max(wanted) + 1
        piece, first = edges_of(self._conditioned(), low, high)
        k = piece.n_labels
        if (high - low) * k**2 > max(BLOCK_ENTRIES, 2 * len(wanted) * k**2):
            # Edges in between would take more memory than messages do.
            some = np.arange(wanted.start, wanted.stop, wanted.step) - first
            answer, done = empty((some.size, k, k), piece.dtype), 0
            for part in self._engine.iter_edge_marginals(piece, threads, edges_at_once(k), some):
                answer[done : done + part.shape[0]] = part
                done += part.shape[0]
            return answer
        block = self._engine.pairwise(piece, threads, (low - first, high - first))
        return block if wanted.step == 1 else np.ascontiguousarray(block[within(wanted, low)])

    def _index(self) -> dict[str, Integers]:
        return places(self._model)


def places(model: Chain | SecondOrderChain | SegmentChain) -> dict[str, Integers]:
    """Return the sequence of each position, and its place there."""
    sequence = np.repeat(np.arange(model.n_sequences), model.lengths)
    return {"sequence": sequence, "position": np.arange(model.n_positions) - model.offset[sequence]}


def within(wanted: range, low: int) -> slice:
    """`wanted`, as a slice of the block of edges that starts at `low`."""
    stop = wanted[-1] - low + (1 if wanted.step > 0 else -1)
    return slice(wanted[0] - low, stop if stop >= 0 else None, wanted.step)


def sequences_of(model: Chain | SecondOrderChain, low: int, high: int) -> tuple[int, int]:
    """Return the first of the sequences that hold edges [low, high), and the one after the last."""
    first = int(np.searchsorted(model.edge, low, side="right")) - 1
    return first, int(np.searchsorted(model.edge, high, side="left"))


def edges_of(model: Chain, low: int, high: int) -> tuple[Chain, int]:
    """Return the sequences that hold edges [low, high), and the number of their first edge."""
    first, last = sequences_of(model, low, high)
    if first == 0 and last == model.n_sequences:
        return model, 0
    rows = slice(int(model.offset[first]), int(model.offset[last]))
    t: Any = model.table if model.sparse_transition is None else model.sparse_transition
    if isinstance(t, np.ndarray) and t.ndim == 3:
        t = t[int(model.edge[first]) : int(model.edge[last])]
    piece = Chain(
        model.unary[rows],
        t,
        model.lengths[first:last],
        start=model.start,
        end=model.end,
        allowed=None if model.allowed is None else model.allowed[rows],
    )
    return piece, int(model.edge[first])
