"""A forest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._validation import as_array, as_reals, excessive, largest_entry, weighed
from valuesparse.models._sequences import Immutable, frozen, held
from valuesparse.models.sparse_transition import (
    SparseTransition,
    given_table,
    native_table,
    read_steps,
    spelled,
    weighed_list,
)

__all__ = ["Tree", "rescored"]

Array = npt.NDArray[Any]

# Bytes of one row buffer of a block of nodes: a few of them fit the cache of one core.
_BLOCK_BYTES = 192 * 1024


def structure_of(parent: npt.NDArray[np.int64], n_labels: int) -> _forest.Structure:
    """Return the order of work of nodes with `n_labels` states each."""
    return _forest.Structure(parent, max(16, min(4096, _BLOCK_BYTES // (8 * n_labels))))


class Tree(Immutable):
    r"""A tree-shaped model, or several: a forest.

    .. math::

        p(y) \propto \exp\Big(\sum_i u_i(y_i) + \sum_{i: \pi(i) \ge 0} t_i(y_{\pi(i)}, y_i)\Big)

    with π(i) the parent of node i (SMM11, section 3, "Extension to Tree-shaped Models").

    Parameters
    ----------
    parent : array_like of int, shape (n,)
        The parent of each node, −1 at a root. Nodes may stand in any order.
    unary : array_like of shape (n, K)
        Log-potential of every state at every node; −inf forbids.
    pairwise : array_like of shape (K, K), (types, K, K) or (n, K, K), or SparseTransition
        Log-potential ``[parent, child]``: shared by all edges; one table for each type, with
        `edge_type`; or row i for the edge from ``parent[i]`` to i (rows of roots are ignored).
    edge_type : array_like of int, shape (n,), optional
        Which table the edge from ``parent[i]`` to i has; ignored at roots.
    allowed : array_like of bool, shape (n, K), optional
        States that each node may take.

    Attributes
    ----------
    parent, unary, pairwise, edge_type, allowed : ndarray or None
        Read-only views of what was given (copies where a conversion was needed).
    sparse_pairwise : SparseTransition or None
        The table, where it was given so.
    roots : ndarray of int64, shape (n_trees,)
        The roots, ascending: the order of everything that has one entry per tree.
    n_nodes, n_labels, n_trees : int
        n, K and the number of roots.
    dtype : numpy.dtype
        float32 when all arrays are float32, else float64.

    Raises
    ------
    ValueError
        For NaN, +inf, wrong shapes, K = 0, a parent or type out of range, or a cycle, and where the
        largest finite magnitudes of all nodes and edges sum to more than 1e17; the message names
        the argument and the index.
    TypeError
        For complex, text or object arrays.

    Notes
    -----
    Models are immutable and may be shared between threads. Scores that already are contiguous
    and of the right dtype are not copied, so they must not be written to afterwards; `parent` and
    `edge_type` are. The order in which the forest is worked through is compiled here, once.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> tree = vs.Tree([-1, 0, 0, 1], np.zeros((4, 2)), np.log([[3.0, 1.0], [1.0, 3.0]]))
    >>> tree
    Tree(n_nodes=4, n_labels=2, n_trees=1, dtype=float64)
    >>> vs.infer(tree).log_z  # log(2 * 4 ** 3)
    array([4.852...])
    """

    __slots__ = (
        "allowed",
        "dtype",
        "edge_type",
        "forest",
        "largest",
        "n_labels",
        "n_nodes",
        "n_trees",
        "parent",
        "roots",
        "sparse_pairwise",
        "structure",
        "table",
        "unary",
    )

    parent: npt.NDArray[np.int64]
    unary: Array
    sparse_pairwise: SparseTransition | None
    edge_type: npt.NDArray[np.int64] | None
    allowed: npt.NDArray[np.bool_] | None
    roots: npt.NDArray[np.int64]
    dtype: np.dtype[Any]
    n_nodes: int
    n_labels: int
    n_trees: int
    # The largest finite magnitudes of a node's scores and of an edge's.
    largest: tuple[float, float]
    # Engines read these; why they are kept here stands in chain.py.
    structure: _forest.Structure
    table: Array | None  # the pairwise tables; None where the list of pairs suffices
    forest: _forest.Forest

    def __init__(
        self,
        parent: npt.ArrayLike,
        unary: npt.ArrayLike,
        pairwise: npt.ArrayLike | SparseTransition,
        *,
        edge_type: npt.ArrayLike | None = None,
        allowed: npt.ArrayLike | None = None,
    ) -> None:
        rows, given = as_reals("unary", unary), given_table("pairwise", pairwise)
        listed = given if isinstance(given, SparseTransition) else None
        dtype = np.promote_types(rows.dtype, given.dtype)
        if rows.ndim != 2:
            raise ValueError(f"unary must have shape (n, K), got {rows.shape}")
        if rows.shape[1] == 0:
            raise ValueError(f"unary must have at least one state, got shape {rows.shape}")
        u, most_u = weighed("unary", rows, dtype, _forest.LARGEST_SUM)
        n, k = u.shape
        up = _parents(parent, n)
        structure = structure_of(up, k)
        _require_forest(structure, up)
        t, types, native, most_t = None, None, None, 0.0
        if listed is not None and edge_type is None:
            most_t = weighed_list("pairwise", listed, k, dtype)
            if n * (most_u + most_t) <= _forest.LARGEST_SUM:
                native = native_table(listed, u)
        if native is None:
            tables = spelled(given, dtype) if isinstance(given, SparseTransition) else given
            tables = _tables(tables, n, k, edge_type is not None)
            if tables.ndim == 3 and edge_type is None:
                tables = _without_roots(tables, up)
            t, most = weighed("pairwise", tables, dtype, _forest.LARGEST_SUM)
            most_t = max(most_t, most)
            types = None if edge_type is None else _types(edge_type, up, t.shape[0])
            if n * (most_u + most_t) > _forest.LARGEST_SUM:  # the sum is no more than that
                _require_sum(u, t, up, types)
        mask = None
        if allowed is not None:
            mask = as_array("allowed", allowed)
            if mask.dtype != np.bool_:
                raise TypeError(f"allowed must be boolean, got dtype {mask.dtype}")
            if mask.shape != (n, k):
                raise ValueError(f"allowed must have shape {(n, k)}, got {mask.shape}")
            mask = frozen(np.ascontiguousarray(mask))
        roots = structure.roots()
        self._fill(
            True if listed is None else native,
            parent=frozen(up),
            unary=frozen(u),
            table=None if t is None else frozen(t),
            largest=(most_u, most_t),
            sparse_pairwise=listed,
            edge_type=None if types is None else frozen(types),
            allowed=mask,
            roots=frozen(roots),
            dtype=dtype,
            n_nodes=n,
            n_labels=k,
            n_trees=roots.shape[0],
            structure=structure,
        )

    def _fill(self, sparse: Any = True, **fields: Any) -> None:
        assign = object.__setattr__
        for name, value in fields.items():
            assign(self, name, value)
        mask = None if self.allowed is None else self.allowed.view(np.uint8)
        forest = _forest.Forest(
            self.unary, self.table, mask, structure=self.structure, edge_type=self.edge_type,
            sparse=sparse,
        )  # fmt: skip
        assign(self, "forest", forest)

    @property
    def pairwise(self) -> Array:
        """Log-potentials of edges, with an entry for each pair."""
        if self.table is not None:
            return self.table
        assert self.sparse_pairwise is not None
        return spelled(self.sparse_pairwise, self.dtype)

    def conditioned(self, states: npt.ArrayLike) -> Tree:
        """Return the model in which some nodes are held at one state.

        Parameters
        ----------
        states : array_like of int, shape (n,)
            State of each held node, −1 where the node stays free.

        Returns
        -------
        Tree
            The same arrays with a narrower `allowed`.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> tree = vs.Tree([-1, 0], np.zeros((2, 2)), np.log([[3.0, 1.0], [1.0, 3.0]]))
        >>> vs.infer(tree.conditioned([0, -1])).marginals
        array([[1.  , 0.  ],
               [0.75, 0.25]])
        """
        shape = (self.n_nodes, self.n_labels)
        kept = held(states, shape, self.allowed, place="node")
        return self._replaced(self.forest.sparse, allowed=kept)

    def _replaced(self, sparse: Any, **changes: Any) -> Tree:
        other = object.__new__(Tree)
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "forest"}
        other._fill(sparse, **{**fields, **changes})
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        table = self.pairwise if self.sparse_pairwise is None else self.sparse_pairwise
        return _rebuild, (self.parent, self.unary, table, self.edge_type, self.allowed)

    def __repr__(self) -> str:
        return (
            f"Tree(n_nodes={self.n_nodes}, n_labels={self.n_labels}, n_trees={self.n_trees}, "
            f"dtype={self.dtype})"
        )


def rescored(tree: Tree, unary: Array, steps: Array | SparseTransition) -> Tree:
    """Return a tree of other scores, in float64 and known to be fit, with the same masks."""
    native, table, listed = read_steps(steps, unary)
    return tree._replaced(
        native, unary=unary, table=table, sparse_pairwise=listed, dtype=unary.dtype,
        largest=(np.inf, np.inf),
    )  # fmt: skip


def _rebuild(parent: Array, unary: Array, pairwise: Any, edge_type: Any, allowed: Any) -> Tree:
    return Tree(parent, unary, pairwise, edge_type=edge_type, allowed=allowed)


def _integers(name: str, value: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    array = as_array(name, value)
    if array.shape != (n,):
        raise ValueError(
            f"{name} must have shape {(n,)}, one entry per row of unary, got {array.shape}"
        )
    if array.size and array.dtype.kind not in "iu":
        kind = TypeError if array.dtype.kind in "cOSUVmM" else ValueError
        raise kind(f"{name} must be integers, got dtype {array.dtype}")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        at = int(array.argmax())
        raise ValueError(f"{name}[{at}] is too large: {array[at]}")
    return np.array(array, dtype=np.int64)  # a copy: engines trust them after the check


def _parents(value: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    if n >= np.iinfo(np.int32).max:
        raise ValueError(f"parent: {n} nodes are more than this build can number")
    return _integers("parent", value, n)


def _require_forest(structure: _forest.Structure, parent: npt.NDArray[np.int64]) -> None:
    code, at = structure.problem()
    if code == 1:
        raise ValueError(
            f"parent[{at}] is {parent[at]}; a parent is a node from 0 to {parent.size - 1}, or -1 "
            "for a root"
        )
    if code == 2:
        raise ValueError(f"parent[{at}] is {at}: a node cannot be its own parent")
    if code == 3:
        raise ValueError(
            f"parent has a cycle through node {at} (parent[{at}] is {parent[at]}); a forest has "
            "none"
        )


def _without_roots(tables: Array, parent: npt.NDArray[np.int64]) -> Array:
    """Return tables per edge in which what stands in the rows of roots is no error."""
    roots = np.flatnonzero(parent < 0)
    rows = tables[roots]
    if np.issubdtype(rows.dtype, np.floating) and (np.isnan(rows) | (rows == np.inf)).any():
        tables = tables.copy()
        tables[roots] = 0
    return tables


def _require_sum(
    u: Array, t: Array, parent: npt.NDArray[np.int64], types: npt.NDArray[np.int64] | None
) -> None:
    """Refuse a forest whose largest magnitudes, of each node and edge, sum to too much."""
    nodes = _largest(u)
    edges = np.flatnonzero(parent >= 0)
    tables = _largest(t.reshape(-1, t.shape[-1] * t.shape[-2]))
    at = types[edges] if types is not None else edges if t.ndim == 3 else np.zeros_like(edges)
    total = float(nodes.sum() + tables[at].sum())
    if not total > _forest.LARGEST_SUM:
        return
    if not edges.size or nodes.max() >= tables[at].max():
        name, index, value = "unary", *largest_entry(u)
    else:
        kept = np.full_like(t, -np.inf)
        used = np.flatnonzero(np.bincount(at)) if t.ndim == 3 else slice(None)
        kept[used] = t[used]
        name, index, value = "pairwise", *largest_entry(kept)
    place = f"{name}[{', '.join(map(str, index))}]"
    raise excessive(place, value, total, "of all nodes and edges", _forest.LARGEST_SUM)


def _largest(rows: Array) -> npt.NDArray[np.float64]:
    """Return the largest finite magnitude of each row."""
    size = np.abs(rows, dtype=np.float64)
    size[np.isinf(size)] = 0.0
    return np.asarray(size.max(axis=1, initial=0.0))


def _tables(tables: Array, n: int, k: int, typed: bool) -> Array:
    if typed:
        if tables.ndim != 3 or tables.shape[1:] != (k, k):
            raise ValueError(
                f"pairwise must have shape (types, {k}, {k}) with edge_type, got {tables.shape}"
            )
    elif tables.shape not in ((k, k), (n, k, k)):
        raise ValueError(
            f"pairwise must have shape {(k, k)} (shared), {(n, k, k)} (row i for the edge to node "
            f"i), or (types, {k}, {k}) with edge_type, got {tables.shape}"
        )
    return tables


def _types(
    value: npt.ArrayLike, parent: npt.NDArray[np.int64], n_types: int
) -> npt.NDArray[np.int64]:
    types = _integers("edge_type", value, parent.size)
    edge = parent >= 0
    bad = np.flatnonzero(edge & ((types < 0) | (types >= n_types)))
    if bad.size:
        raise ValueError(
            f"edge_type[{bad[0]}] is {types[bad[0]]}; pairwise has types 0 to {n_types - 1}"
        )
    return types
