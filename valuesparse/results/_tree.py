"""Marginals of trees: a record, and queries that are computed when asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse.models import Tree
from valuesparse.results._islands import IslandResult

if TYPE_CHECKING:
    import pandas

__all__ = ["TreeResult"]

Array = npt.NDArray[Any]


class Queries(Protocol):
    """The functions of the engine of trees that a result calls."""

    def expected_scores(
        self, model: Tree, threads: int | None, marginals: Array, fill: bool
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return log Z, expected scores, and how far rounding is felt in these."""

    def expectations(self, model: Tree, threads: int | None) -> npt.NDArray[np.float64]:
        """Return the sum of edge marginals, by type where edges have one."""

    def pairwise(self, model: Tree, threads: int | None, nodes: npt.NDArray[np.int64]) -> Array:
        """Return the edge marginals of the edges above `nodes`."""

    def log_messages(self, model: Tree, threads: int | None) -> tuple[Array, Array, Array]:
        """Return what edge marginals are made of."""

    def table_of(self, model: Tree, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return which table each edge above `nodes` has."""


class TreeResult(IslandResult[Tree]):
    """Marginals of a forest, and how they came about; its arrays are read-only.

    Attributes
    ----------
    marginals : ndarray of shape (n, K), dtype of the model
        ``marginals[i, k]``: probability of state k at node i. Under ``zeta`` the actual marginal
        m′ of SMM11: given the islands, and at an island given the other islands.
    log_z : ndarray of float64, shape (n_trees,)
        Log partition function of each tree, roots ascending; under ``zeta`` the log mass of the
        configurations that agree with the final islands, a lower bound.
    islands : ndarray of int32, shape (n,)
        The value that an island holds, −1 elsewhere.
    method : str
        The engine that ran: "exact" or "islands".
    reason : str
        Why.
    converged : bool
        False when `revisit` stopped the rounds before nothing changed.
    stats : dict
        ``islands``, ``segments`` (connected pieces of free nodes between them), ``messages_full``
        and ``messages_sparse`` (of cost K² and K), ``released``, ``flipped``, ``rounds``,
        ``sequences_widened`` (trees redone in a wider domain).

    Notes
    -----
    Edges are numbered by their child: one for each node that is no root, ascending. Pairwise
    marginals, expectations and entropy are those of one distribution: the posterior, or under
    ``zeta`` the model conditioned on its final islands. They are computed when asked.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> r = vs.infer(vs.Tree([-1, 0, 0], np.zeros((3, 2)), np.zeros((2, 2))))
    >>> r.method, r.converged, r.stats["messages_full"]
    ('exact', True, 4)
    >>> r.pairwise().shape
    (2, 2, 2)
    """

    __slots__ = ()
    _solved = "a tree is solved exactly by two passes"
    _variables = "nodes"
    #: Who answers what a result does not hold. It lies above results, and comes here from there.
    _engine: ClassVar[Queries]

    def _edges(
        self, nodes: npt.NDArray[np.int64], block: int, threads: int | None
    ) -> Iterator[npt.NDArray[np.float64]]:
        model = self._conditioned()
        left, right, mass = self._engine.log_messages(model, threads)
        for first in range(0, nodes.size, block):
            at = nodes[first : first + block]
            t = model.pairwise
            if t.ndim == 3:
                t = t[self._engine.table_of(model, at)]
            with np.errstate(under="ignore"):
                yield np.exp(left[at, :, None] + t + right[at, None, :] - mass[at, None, None])

    def _edge_blocks(
        self, size: int, threads: int | None, edges: npt.NDArray[np.int64] | None = None
    ) -> Iterator[Array]:
        children = self._children()
        return self._edges(children if edges is None else children[edges], size, threads)

    def _children(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self._model.parent >= 0)

    def pairwise(self, edges: slice | None = None, *, threads: int | None = None) -> Array:
        """Return pairwise marginals.

        Parameters
        ----------
        edges : slice, optional
            Which edges, in their numbering by child; all by default.
        threads : int, optional
            At least 1.

        Returns
        -------
        ndarray of shape (edges, K, K), dtype of the model
            ``[e, l, k]``: probability of state l at the parent and k at the child of edge e.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Tree([-1, 0, 0], np.zeros((3, 2)), np.zeros((2, 2))))
        >>> r.pairwise(edges=slice(1, 2)).tolist()
        [[[0.25, 0.25], [0.25, 0.25]]]
        """
        if edges is None:
            edges = slice(None)
        if not isinstance(edges, slice):
            raise TypeError(f"edges must be a slice, got {type(edges).__name__}")
        nodes = self._children()[edges]
        k = self._model.n_labels
        if nodes.size == 0:
            return np.empty((0, k, k), dtype=self._model.dtype)
        return self._engine.pairwise(self._conditioned(), threads, nodes)

    def expectations(self, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the edge marginals summed over all edges, for training.

        Returns
        -------
        ndarray of float64, shape (K, K) or (types, K, K)
            One sum for each type where the model has an `edge_type`.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Tree([-1, 0, 0], np.zeros((3, 2)), np.zeros((2, 2))))
        >>> r.expectations().tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        return self._engine.expectations(self._conditioned(), threads)

    def entropy(self, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the entropy of each tree's posterior in nats, (n_trees,).

        Notes
        -----
        log Z less the expected score; where too many digits of that would cancel, edge entropies
        less those of the nodes that edges share.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Tree([-1, 0, 0], np.zeros((3, 2)), np.zeros((2, 2))))
        >>> bool(np.isclose(r.entropy()[0], 3 * np.log(2)))
        True
        """
        return self._entropy(threads)

    def _incidence(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        model = self._model
        children = self._children()
        edges_at = np.bincount(model.parent[children], minlength=model.n_nodes)
        edges_at[children] += 1
        tree = model.structure.tree_of()
        return edges_at, tree, tree[children]

    def to_frame(self, labels: Any = None) -> pandas.DataFrame:
        """Return the marginals as a pandas DataFrame indexed by (tree, node).

        Parameters
        ----------
        labels : sequence, optional
            Names of the K columns; numbers by default.
        """
        nodes = np.arange(self._model.n_nodes)
        return self._frame(labels, {"tree": self._model.structure.tree_of(), "node": nodes})
