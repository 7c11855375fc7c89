"""Chains and trees, cut into pieces of some components: answers come piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse.models import Chain, Tree
from valuesparse.models.tree import structure_of

__all__ = ["Piece", "owner_of", "pieces", "sizes_of", "some"]

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


def pieces(model: Chain | Tree, size: int) -> Iterator[Piece]:
    """Yield pieces of about `size` variables, or of one component that has more."""
    per_edge = isinstance(model, Tree) and model.pairwise.ndim == 3 and model.edge_type is None
    n, _, count = model.forest.shape
    if n <= size or count == 1 or per_edge:  # the tables of edges are larger than any answer
        yield Piece(model.forest, slice(0, n), np.arange(count))
    elif isinstance(model, Chain):
        yield from _of_chain(model, size)
    else:
        yield from _of_tree(model, size)


def _cuts(offset: Integers, size: int) -> Iterator[slice]:
    first, count = 0, offset.size - 1
    while first < count:
        last = int(np.searchsorted(offset, offset[first] + size, side="right")) - 1
        last = max(last, first + 1)
        yield slice(first, last)
        first = last


def _of_chain(model: Chain, size: int) -> Iterator[Piece]:
    mask = None if model.allowed is None else model.allowed.view(np.uint8)
    t: Any = model.transition
    for part in _cuts(model.offset, size):
        offset = model.offset[part.start : part.stop + 1]
        edge = model.edge[part.start : part.stop + 1]
        rows = slice(int(offset[0]), int(offset[-1]))
        forest = native.Forest(
            model.unary[rows],
            t if t.ndim == 2 else t[edge[0] : edge[-1]],
            None if mask is None else mask[rows],
            model.start,
            model.end,
            offset - offset[0],
            edge - edge[0],
            sparse=model.forest.sparse,
        )
        yield Piece(forest, rows, np.arange(part.start, part.stop))


def _of_tree(model: Tree, size: int) -> Iterator[Piece]:
    tree = model.structure.tree_of()
    order = np.argsort(tree, kind="stable")
    offset = np.zeros(model.n_trees + 1, dtype=np.int64)
    np.cumsum(np.bincount(tree, minlength=model.n_trees), out=offset[1:])
    number = np.empty(model.n_nodes, dtype=np.int64)
    for part in _cuts(offset, size):
        nodes = order[offset[part.start] : offset[part.stop]]
        number[nodes] = np.arange(nodes.size)
        up = model.parent[nodes]
        parent = np.where(up < 0, -1, number[up])
        forest = native.Forest(
            model.unary[nodes],
            model.pairwise,
            None if model.allowed is None else model.allowed[nodes].view(np.uint8),
            structure=structure_of(parent, model.n_labels),
            edge_type=None if model.edge_type is None else model.edge_type[nodes],
            sparse=model.forest.sparse,
        )
        yield Piece(forest, nodes, np.arange(part.start, part.stop))


def some(model: Chain | Tree, components: Integers, dtype: Any = None) -> Piece:
    """Return the piece of some components, ascending, with scores of another type."""
    kind = model.dtype if dtype is None else np.dtype(dtype)
    sizes, owner = sizes_of(model), owner_of(model)
    chosen = np.zeros(sizes.size, dtype=bool)
    chosen[components] = True
    variables: slice | Integers = slice(0, owner.size)
    if not chosen.all():
        variables = np.flatnonzero(chosen[owner])
    unary = model.unary[variables].astype(kind, copy=False)
    mask = None if model.allowed is None else model.allowed[variables].view(np.uint8)
    same = kind == model.dtype
    if isinstance(model, Chain):
        lengths = sizes[components]
        offset, edge = (np.zeros(lengths.size + 1, dtype=np.int64) for _ in range(2))
        np.cumsum(lengths, out=offset[1:])
        np.cumsum(lengths - (lengths > 0), out=edge[1:])
        t: Any = model.transition
        if t.ndim == 3 and not chosen.all():
            t = t[np.repeat(chosen, np.maximum(sizes - 1, 0))]
        start, end = (None if x is None else x.astype(kind) for x in (model.start, model.end))
        forest = native.Forest(
            unary, t.astype(kind, copy=False), mask, start, end, offset, edge,
            sparse=model.forest.sparse if same else True,
        )  # fmt: skip
        return Piece(forest, variables, components)
    nodes = np.arange(owner.size)[variables]
    number = np.empty(owner.size, dtype=np.int64)
    number[nodes] = np.arange(nodes.size)
    up = model.parent[nodes]
    per_edge = model.pairwise.ndim == 3 and model.edge_type is None
    forest = native.Forest(
        unary,
        (model.pairwise[nodes] if per_edge else model.pairwise).astype(kind, copy=False),
        mask,
        structure=structure_of(np.where(up < 0, -1, number[up]), model.n_labels),
        edge_type=None if model.edge_type is None else model.edge_type[nodes],
        sparse=model.forest.sparse if same else True,
    )
    return Piece(forest, variables, components)


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
