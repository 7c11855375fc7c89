"""Chains and trees, cut into pieces of some components: answers come piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse.models import Chain, Tree
from valuesparse.models.tree import structure_of

__all__ = [
    "Piece",
    "cheapest_first",
    "owner_of",
    "parents_of",
    "pieces",
    "pieces_of",
    "sizes_of",
    "some",
]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


class Piece(NamedTuple):
    """Whole components of a model, and which of its variables they have."""

    forest: native.Forest
    variables: slice | Integers
    components: Integers

    @property
    def size(self) -> int:
        """Return the number of variables."""
        return int(self.forest.shape[0])

    def variable(self, at: int) -> int:
        """Return the number that variable `at` of the piece has in the model."""
        if isinstance(self.variables, slice):
            return int(self.variables.start) + at
        return int(self.variables[at])


def pieces(model: Chain | Tree, size: int, dtype: np.dtype[Any] | None = None) -> Iterator[Piece]:
    """Yield pieces of about `size` variables, or of one component that has more.

    With `dtype` their scores are of that type.
    """
    kind = model.dtype if dtype is None else dtype
    tables = model.table.ndim if model.table is not None else 2
    per_edge = isinstance(model, Tree) and tables == 3 and model.edge_type is None
    n, _, count = model.forest.shape
    if n <= size or count == 1 or per_edge:  # the tables of edges are larger than any answer
        yield some(model, np.arange(count), kind)
        return
    sizes, order = sizes_of(model), None
    if isinstance(model, Tree):
        order = np.argsort(owner_of(model), kind="stable")
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(sizes, out=first[1:])
    for part in _cuts(first, size):
        rows = slice(int(first[part.start]), int(first[part.stop]))
        components = np.arange(part.start, part.stop)
        variables = rows if order is None else order[rows]
        yield Piece(_forest(model, variables, components, kind), variables, components)


def some(model: Chain | Tree, components: Integers, dtype: np.dtype[Any] | None = None) -> Piece:
    """Return the piece of some components, ascending, with scores of another type."""
    kind = model.dtype if dtype is None else dtype
    n, _, count = model.forest.shape
    if components.size == count:
        same = kind == model.dtype
        forest = model.forest if same else _forest(model, slice(0, n), components, kind)
        return Piece(forest, slice(0, n), components)
    chosen = np.zeros(count, dtype=bool)
    chosen[components] = True
    variables = np.flatnonzero(chosen[owner_of(model)])
    return Piece(_forest(model, variables, components, kind), variables, components)


def pieces_of(model: Chain | Tree, components: Integers, size: int) -> Iterator[Piece]:
    """Yield pieces of some components, ascending, of about `size` variables or of one of these."""
    first = np.concatenate([[0], np.cumsum(sizes_of(model)[components])])
    for part in _cuts(first, size):
        yield some(model, components[part])


def cheapest_first(model: Chain | Tree, price: Integers) -> Integers:
    """Return all components in the order of their prices.

    Checksums of their scores decide between equal prices, so that their order in the batch does
    not: only components that have the same scores follow it.
    """
    sizes, variables = sizes_of(model), None
    if isinstance(model, Tree):
        variables = np.argsort(owner_of(model), kind="stable")
    ends = np.cumsum(sizes)
    sums = np.zeros(sizes.size, dtype=np.int64)
    full = np.flatnonzero(sizes)  # the checksum of nothing is 0
    firsts, lasts = (ends - sizes)[full].tolist(), ends[full].tolist()
    for i, first, last in zip(full.tolist(), firsts, lasts, strict=True):
        own = slice(first, last) if variables is None else variables[first:last]
        sums[i] = crc32(model.unary[own].view(np.uint8).data)
        if model.allowed is not None:
            sums[i] = crc32(model.allowed[own].view(np.uint8).data, sums[i])
    return np.lexsort((sums, price))


def _cuts(offset: Integers, size: int) -> Iterator[slice]:
    first, count = 0, offset.size - 1
    while first < count:
        last = int(np.searchsorted(offset, offset[first] + size, side="right")) - 1
        last = max(last, first + 1)
        yield slice(first, last)
        first = last


def _forest(
    model: Chain | Tree, variables: slice | Integers, components: Integers, kind: np.dtype[Any]
) -> native.Forest:
    """Return the forest of some components, which have these variables."""
    unary = model.unary[variables].astype(kind, copy=False)
    mask = None if model.allowed is None else model.allowed[variables].view(np.uint8)
    table, sparse = _table(model, unary, kind)
    if isinstance(model, Chain):
        lengths = model.lengths[components]
        offset, edge = (np.zeros(lengths.size + 1, dtype=np.int64) for _ in range(2))
        np.cumsum(lengths, out=offset[1:])
        np.cumsum(lengths - (lengths > 0), out=edge[1:])
        t: Any = table
        if t is None or t.ndim == 2:
            pass
        elif isinstance(variables, slice):
            t = t[model.edge[components[0]] : model.edge[components[-1] + 1]] if lengths.size else t
        else:
            chosen = np.zeros(model.n_sequences, dtype=bool)
            chosen[components] = True
            t = t[np.repeat(chosen, np.maximum(model.lengths - 1, 0))]
        start, end = (
            None if x is None else x.astype(kind, copy=False) for x in (model.start, model.end)
        )
        return native.Forest(unary, _as(t, kind), mask, start, end, offset, edge, sparse=sparse)
    nodes = np.arange(model.n_nodes)[variables]
    per_edge = table is not None and table.ndim == 3 and model.edge_type is None
    return native.Forest(
        unary,
        _as(table[nodes] if table is not None and per_edge else table, kind),
        mask,
        structure=structure_of(parents_of(model, nodes), model.n_labels),
        edge_type=None if model.edge_type is None else model.edge_type[nodes],
        sparse=sparse,
    )


def parents_of(model: Tree, nodes: Integers) -> Integers:
    """Return the parent of each of some nodes, whole trees, counted among these; -1 at roots."""
    number = np.empty(model.n_nodes, dtype=np.int64)
    number[nodes] = np.arange(nodes.size)
    up = model.parent[nodes]
    return np.where(up < 0, -1, number[up])


def _table(
    model: Chain | Tree, unary: Array, kind: np.dtype[Any]
) -> tuple[Array | None, native.Table | bool | None]:
    """Return the table, or tables, of a piece of a type, and their list."""
    listed = model.forest.sparse
    if kind == model.dtype:
        return model.table, listed
    if model.table is not None or listed is None:
        return model.table, True
    if listed.pays(unary):
        return None, listed
    return (model.transition if isinstance(model, Chain) else model.pairwise), None


def _as(table: Array | None, kind: np.dtype[Any]) -> Array | None:
    return None if table is None else table.astype(kind, copy=False)


def sizes_of(model: Chain | Tree) -> Integers:
    """Return how many variables each component has."""
    if isinstance(model, Chain):
        return model.lengths
    if model.n_trees == 1:
        return np.array([model.n_nodes])
    return np.bincount(model.structure.tree_of(), minlength=model.n_trees)


def owner_of(model: Chain | Tree) -> Integers:
    """Return the component of each variable."""
    if isinstance(model, Chain):
        return np.repeat(np.arange(model.n_sequences), model.lengths)
    return model.structure.tree_of()
