"""Which variables depend on each other under the factors that a result has used."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._fork import cached_attribute
from valuesparse.models._blocks import structured_factors, wide_tables
from valuesparse.relaxed._within import MOST, Within
from valuesparse.results import GraphResult

__all__ = ["Links"]

Array = npt.NDArray[Any]

#: Bits of a key by which pairs are told apart at first: more the more pairs, within these.
_FILTER_BITS = (16, 22)


class Links:
    """The factors of a result, as far as they make variables depend on each other.

    Attributes
    ----------
    any : bool
        Whether a factor that was used has two variables.
    within : Within, optional
        Joints within structured factors, where messages were passed.
    """

    def __init__(self, result: GraphResult) -> None:
        self._sets: set[frozenset[int]] | None = None
        n = self._n = result.graph.n_variables
        part = result.part()
        own = structured_factors(part)
        #: Scopes of tables, which have the joint of any of their variables; structured factors have
        #: those of a few.
        self._tables = wide_tables(part)
        structured = [np.array(f.scope, dtype=np.int64) for f in own.values()]
        self._structured = [_mask(n, scope) for scope in structured]
        #: Whether a factor that was used has two variables.
        self.any = bool(self._tables or structured)
        self._scopes = (*self._tables, *(s[None] for s in structured))
        self._states = np.zeros(n, dtype=np.bool_)
        self._states[[v for v, x in result.evidence.items() if isinstance(x, int)]] = True
        self.within = Within(result) if own and result.state is not None else None

    @cached_attribute
    def _label(self) -> Array:
        """Variables with different labels are independent: no factor that was used links them."""
        n = self._n
        links = [_links(scopes, self._states) for scopes in self._scopes]
        a, b = np.concatenate([np.empty((2, 0), dtype=np.int64), *links], axis=1)
        if not a.size:
            return np.arange(n)
        from scipy import sparse
        from scipy.sparse import csgraph

        edges = sparse.coo_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(n, n))
        return np.asarray(csgraph.connected_components(edges, directed=False)[1])

    @cached_attribute
    def _alone(self) -> bool:
        """Whether no two variables depend on each other."""
        return not self.any or bool((np.bincount(self._label) <= 1).all())

    @cached_attribute
    def _tied(self) -> bool:
        return self._n > 0 and not self._label.any()

    def many(self, rows: Array, scopes: Array) -> tuple[Array, Array, Array]:
        """Return which of some rows structured factors tell together, by which, and the others."""
        holder = self.holders(scopes[rows])
        told = holder >= 0
        if told.all():
            return rows, holder, rows[:0]
        return rows[told], holder[told], rows[~told]

    def holders(self, scopes: Array) -> Array:
        """Return which structured factor has the joint of each row: -1 where none, or a table."""
        if self.within is None or not 2 <= scopes.shape[1] <= MOST:
            return np.full(len(scopes), -1, dtype=np.int64)
        holder = self.within.holder(scopes)
        rows = np.flatnonzero(holder >= 0)
        holder[rows[self.in_table(scopes[rows])]] = -1
        return holder

    def linked(self, scopes: Array) -> npt.NDArray[np.bool_]:
        """Whether two variables of each row may depend on each other."""
        if self._alone or self._tied:
            return np.full(len(scopes), self._tied and scopes.shape[1] > 1)
        linked = np.zeros(len(scopes), dtype=np.bool_)
        labels = [self._label[scopes[:, a]] for a in range(scopes.shape[1])]
        for a, b in itertools.combinations(labels, 2):
            linked |= a == b
        return linked

    def held(self, scopes: Array) -> npt.NDArray[np.bool_]:
        """Whether a factor that was used holds all variables of each row, and ties them."""
        if scopes.shape[1] < 2:
            return np.zeros(len(scopes), dtype=np.bool_)
        if scopes.shape[1] == 2 and not self._states.any():
            return self._held(scopes)
        held = self.linked(scopes)
        rows = np.flatnonzero(held)
        held[rows] = self._held(scopes[rows])
        return held

    def _held(self, scopes: Array) -> npt.NDArray[np.bool_]:
        held = self.in_table(scopes)
        for inside in self._structured if scopes.shape[1] <= MOST else []:
            both = inside[scopes[:, 0]] & inside[scopes[:, 1]]
            for a in range(2, scopes.shape[1]):
                both &= inside[scopes[:, a]]
            held |= both
        return held

    @cached_attribute
    def pairs(self) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Pairs a < b that a table holds, as a * n + b, ascending, and what tells most others.

        The latter are the last bits of these numbers and of b * n + a, a power of two of them.
        """
        n = self._n
        own = [
            np.minimum(s[:, a], s[:, b]) * n + np.maximum(s[:, a], s[:, b])
            for s in self._tables
            for a, b in itertools.combinations(range(s.shape[1]), 2)
        ]
        pairs = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *own]))
        size = 1 << int(np.clip((64 * pairs.size).bit_length(), *_FILTER_BITS))
        maybe = np.zeros(size if pairs.size else 1, dtype=np.bool_)
        low, high = pairs // n, pairs % n
        maybe[pairs & (maybe.size - 1)] = True
        maybe[(high * n + low) & (maybe.size - 1)] = True
        return pairs, maybe

    def in_table(self, scopes: Array) -> npt.NDArray[np.bool_]:
        """Whether a table that was used holds all variables of each row."""
        if scopes.shape[1] != 2:
            if self._sets is None:
                self._sets = {frozenset(row) for s in self._tables for row in s.tolist()}
            sets = self._sets
            rows = (frozenset(s) for s in scopes.tolist())
            return np.array([r in sets or any(r < s for s in sets) for r in rows], dtype=np.bool_)
        n = self._n
        pairs, maybe = self.pairs
        # Most are not, and few pass the filter: the last bits of their key, in either order.
        if not pairs.size:
            return np.zeros(len(scopes), dtype=np.bool_)
        keys = scopes[:, 0].astype(np.int64)
        keys *= n
        keys += scopes[:, 1]
        keys &= maybe.size - 1
        held = maybe[keys]
        some = np.flatnonzero(held)
        a, b = scopes[some].astype(np.int64, copy=False).T
        exact = np.minimum(a, b) * n + np.maximum(a, b)
        near = np.minimum(np.searchsorted(pairs, exact), pairs.size - 1)
        held[some] = pairs[near] == exact
        return held


def _mask(n: int, chosen: Array) -> npt.NDArray[np.bool_]:
    mask = np.zeros(n, dtype=np.bool_)
    mask[chosen] = True
    return mask


def _links(scopes: Array, held: npt.NDArray[np.bool_]) -> Array:
    """Return pairs (2, links) that tie the variables of each scope that have no state."""
    open_ = ~held[scopes]
    column = open_.argmax(axis=1)
    first = np.take_along_axis(scopes, column[:, None], axis=1)
    open_[np.arange(len(scopes)), column] = False
    return np.stack([np.broadcast_to(first, scopes.shape)[open_], scopes[open_]])
