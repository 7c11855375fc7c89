"""Marginals of chains: a record, and queries that are computed when asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse.models import Chain
from valuesparse.results._islands import IslandResult

if TYPE_CHECKING:
    import pandas

__all__ = ["ChainResult"]

Array = npt.NDArray[Any]


class Queries(Protocol):
    """The functions of the engine of chains that a result calls."""

    def expected_scores(
        self, model: Chain, threads: int | None, marginals: Array, fill: bool
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return log Z, expected scores, and how far rounding is felt in these."""

    def edge_marginals(
        self, model: Chain, threads: int | None, edges: tuple[int, int] | None
    ) -> Array:
        """Return pairwise marginals of edges (first, last), or the (K, K) sum of all."""

    def iter_edge_marginals(
        self,
        model: Chain,
        threads: int | None,
        block: int,
        edges: npt.NDArray[np.int64] | None = None,
    ) -> Iterator[Array]:
        """Yield pairwise marginals, `block` edges at a time."""


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
        the sequences), ``sequences_widened`` (redone in a wider domain).

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
    #: Who answers what a result does not hold. It lies above results, and comes here from there.
    _engine: ClassVar[Queries]

    def _edge_blocks(
        self, size: int, threads: int | None, edges: npt.NDArray[np.int64] | None = None
    ) -> Iterator[Array]:
        return self._engine.iter_edge_marginals(self._conditioned(), threads, size, edges)

    def pairwise(self, edges: slice | None = None, *, threads: int | None = None) -> Array:
        """Return pairwise marginals.

        Parameters
        ----------
        edges : slice, optional
            Which edges, in the numbering of ``Chain.transition``; all by default.
        threads : int, optional
            At least 1.

        Returns
        -------
        ndarray of shape (edges, K, K), dtype of the model
            ``[e, l, k]``: probability of label l before edge e and label k after it.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))))
        >>> r.pairwise(edges=slice(1, 2)).tolist()
        [[[0.25, 0.25], [0.25, 0.25]]]
        """
        total = int(self._model.edge[-1])
        if edges is None:
            edges = slice(None)
        if not isinstance(edges, slice):
            raise TypeError(f"edges must be a slice, got {type(edges).__name__}")
        wanted = range(total)[edges]
        if len(wanted) == 0:
            k = self._model.n_labels
            return np.empty((0, k, k), dtype=self._model.dtype)
        low, high = min(wanted), max(wanted) + 1
        piece, first = edges_of(self._conditioned(), low, high)
        block = self._engine.edge_marginals(piece, threads, (low - first, high - first))
        return block if wanted.step == 1 else np.ascontiguousarray(block[_within(wanted, low)])

    def expectations(self, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the edge marginals summed over all edges, (K, K), for training.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))))
        >>> r.expectations().tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        return self._engine.edge_marginals(self._conditioned(), threads, None)

    def entropy(self, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the entropy of each sequence's posterior in nats, (B,).

        Notes
        -----
        log Z less the expected score; where too many digits of that would cancel, edge entropies
        less those of the inner variables.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))))
        >>> bool(np.isclose(r.entropy()[0], 3 * np.log(2)))
        True
        """
        return self._entropy(threads)

    def _incidence(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        model = self._model
        length = model.lengths
        sequence = np.repeat(np.arange(length.size), length)
        edges_at = np.full(model.n_positions, 2)
        full = np.flatnonzero(length)
        edges_at[model.offset[full]] -= 1
        edges_at[model.offset[full + 1] - 1] -= 1
        owner = np.repeat(np.arange(length.size), np.maximum(length - 1, 0))
        return edges_at, sequence, owner

    def to_frame(self, labels: Any = None) -> pandas.DataFrame:
        """Return the marginals as a pandas DataFrame indexed by (sequence, position).

        Parameters
        ----------
        labels : sequence, optional
            Names of the K columns; numbers by default.
        """
        sequence = np.repeat(np.arange(self._model.n_sequences), self._model.lengths)
        position = np.arange(self._model.n_positions) - self._model.offset[sequence]
        return self._frame(labels, {"sequence": sequence, "position": position})


def _within(wanted: range, low: int) -> slice:
    """`wanted`, as a slice of the block of edges that starts at `low`."""
    stop = wanted[-1] - low + (1 if wanted.step > 0 else -1)
    return slice(wanted[0] - low, stop if stop >= 0 else None, wanted.step)


def edges_of(model: Chain, low: int, high: int) -> tuple[Chain, int]:
    """Return the sequences that hold edges [low, high), and the number of their first edge."""
    first = int(np.searchsorted(model.edge, low, side="right")) - 1
    last = int(np.searchsorted(model.edge, high, side="left"))
    if first == 0 and last == model.n_sequences:
        return model, 0
    rows = slice(int(model.offset[first]), int(model.offset[last]))
    t = model.transition
    if t.ndim == 3:
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
