"""Which variables depend on each other under the factors that a result has used."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from valuesparse.models._blocks import structured_factors, wide_scopes
from valuesparse.relaxed._within import Within
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
    label : ndarray of int
        Variables with different labels are independent: no factor that was used links them.
    within : Within, optional
        Joints within structured factors, where messages were passed.
    """

    def __init__(self, result: GraphResult) -> None:
        self._pairs: Array | None = None
        self._sets: set[frozenset[int]] | None = None
        n = self._n = result.graph.n_variables
        part = result.part()
        own = structured_factors(part)
        every = wide_scopes(part)
        #: Whether a factor that was used has two variables.
        self.any = bool(every)
        known = {v for v, x in result.evidence.items() if isinstance(x, int)}
        links = [
            (scope[0], v)
            for scope in (tuple(v for v in s if v not in known) if known else s for s in every)
            for v in scope[1:]
        ]
        a, b = np.array(links, dtype=np.int64).reshape(-1, 2).T
        #: Variables with different labels are independent: no factor that was used links them.
        self.label = np.arange(n)
        #: Scopes of tables, which have the joint of any of their variables; structured factors have
        #: those of two.
        structured = {f.scope for f in own.values()}
        self._tables = [s for s in every if s not in structured] if own else every
        self._structured = [np.isin(np.arange(n), scope) for scope in structured]
        self.within = Within(result) if own and result.state is not None else None
        if links:
            edges = sparse.coo_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(n, n))
            self.label = csgraph.connected_components(edges, directed=False)[1]
        self._loose = not links
        self._tied = self.label.size > 0 and not self.label.any()

    def many(self, rows: Array, scopes: Array) -> tuple[Array, Array]:
        """Return which of some rows structured factors tell together, and which factor does."""
        holder = self.holders(scopes[rows])
        return rows[holder >= 0], holder[holder >= 0]

    def holders(self, scopes: Array) -> Array:
        """Return which structured factor has the joint of each row: -1 where none, or a table."""
        if self.within is None or scopes.shape[1] != 2:
            return np.full(len(scopes), -1, dtype=np.int64)
        holder = self.within.holder(scopes)
        rows = np.flatnonzero(holder >= 0)
        holder[rows[self.in_table(scopes[rows])]] = -1
        return holder

    def linked(self, scopes: Array) -> npt.NDArray[np.bool_]:
        """Whether two variables of each row may depend on each other."""
        if self._loose or self._tied:
            return np.full(len(scopes), self._tied and scopes.shape[1] > 1)
        linked = np.zeros(len(scopes), dtype=np.bool_)
        labels = [self.label[scopes[:, a]] for a in range(scopes.shape[1])]
        for a, b in itertools.combinations(labels, 2):
            linked |= a == b
        return linked

    def held(self, scopes: Array) -> npt.NDArray[np.bool_]:
        """Whether a factor that was used holds all variables of each row."""
        held = self.in_table(scopes)
        for inside in self._structured if scopes.shape[1] == 2 else []:
            held |= inside[scopes[:, 0]] & inside[scopes[:, 1]]
        return held

    def in_table(self, scopes: Array) -> npt.NDArray[np.bool_]:
        """Whether a table that was used holds all variables of each row."""
        if scopes.shape[1] != 2:
            if self._sets is None:
                self._sets = {frozenset(s) for s in self._tables}
            sets = self._sets
            rows = (frozenset(s) for s in scopes.tolist())
            return np.array([r in sets or any(r < s for s in sets) for r in rows], dtype=np.bool_)
        n = self._n
        if self._pairs is None:
            pairs = {
                min(a, b) * n + max(a, b)
                for s in self._tables
                for a, b in itertools.combinations(s, 2)
            }
            self._pairs = np.array(sorted(pairs), dtype=np.int64)
            size = 1 << int(np.clip((64 * len(pairs)).bit_length(), *_FILTER_BITS))
            self._maybe = np.zeros(size, dtype=np.bool_)
            low, high = self._pairs // n, self._pairs % n
            self._maybe[self._pairs & (size - 1)] = True
            self._maybe[(high * n + low) & (size - 1)] = True
        # Most are not, and few pass the filter: the last bits of their key, in either order.
        keys = scopes[:, 0].astype(np.int64)
        keys *= n
        keys += scopes[:, 1]
        keys &= self._maybe.size - 1
        held = self._maybe[keys]
        some = np.flatnonzero(held)
        a, b = scopes[some].astype(np.int64, copy=False).T
        exact = np.minimum(a, b) * n + np.maximum(a, b)
        if self._pairs.size:
            near = np.minimum(np.searchsorted(self._pairs, exact), self._pairs.size - 1)
            held[some] = self._pairs[near] == exact
        return held
