"""Marginals of trees: a record, and queries that are computed when asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.models import SparseTransition, Tree
from valuesparse.results._islands import IslandResult

__all__ = ["TreeResult"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


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
        ``sequences_widened`` (trees redone in a wider domain), ``sequences_without_islands`` (trees
        answered exactly, since islands would not pay).

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
    _components = "trees"

    def _children(self) -> Integers:
        return np.flatnonzero(self._model.parent >= 0)

    @staticmethod
    def _sparse_table(model: Tree) -> SparseTransition | None:
        return model.sparse_pairwise

    def _n_edges(self) -> int:
        return self._model.n_nodes - self._model.n_trees

    def _pairwise(self, wanted: range, threads: int | None) -> Array:
        return self._engine.pairwise(self._conditioned(), threads, self._children()[wanted])

    def _index(self) -> dict[str, Integers]:
        return {"tree": self._model.structure.tree_of(), "node": np.arange(self._model.n_nodes)}
