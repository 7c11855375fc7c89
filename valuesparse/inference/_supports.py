"""Chains and trees within a tolerance, by messages that read few rows and columns of a large table.

The labels whose share of a message is not small have their rows read, and those that matter where
it goes their columns; norms bound the rest (CERTIFICATES, sections 2 to 4 and 10). So the error is
of second order in what is left out, and behind a decided position the radius starts anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _supports as native
from valuesparse._buffers import empty, grown
from valuesparse.inference import _certified
from valuesparse.inference._asked import NO_COUNTS, add_counts, ask_piece
from valuesparse.inference._pieces import Piece, owner_of, parents_of, pieces, pieces_of, sizes_of
from valuesparse.inference._watch import Progress, Watch
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Proof
from valuesparse.results._listed import Listed, joined, listed

__all__ = ["Supports", "may_pay", "may_save", "provable"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: With fewer labels, going over rows to choose from them takes as long as all of the table. Trees
#: multiply rows as well: so many more for each digit of the tolerance beyond the first.
_LEAST_LABELS, _MORE_IN_TREES = 256, 65
#: Longer chains are cut, and their chunks shared by all cores; so are the blocks of larger trees.
_LONGEST = 8192
#: Variables for each label, of all components: making both tables and their norms takes time.
_LEAST_POSITIONS = 0.5
#: The cost of a message of the whole table, in rows of it, of K: in float32, and in float64.
_PRICE_SINGLE, _PRICE_DOUBLE = 0.155, 0.33
#: Where multiply-adds are counted, in place of time: from how many labels on rows and columns may
#: be fewer than all; how many rows a message reads at least, and what else it does; of how many
#: components the first say whether others pay; bytes of marginals that are made at a time.
_LEAST_BOUGHT, _LEAST_ROWS, _BESIDE, _FEW, _BOUGHT_BYTES = 16, 3, 30.0, 4, 1 << 21

#: Chains longer than this are answered in parts, where a budget is less than this share of what the
#: whole may take.
_WINDOW, _WHOLE = 160, 0.6

Take = Callable[[Integers, Array], None]


def may_pay(model: Chain | Tree, tol: float, single: Mask | bool) -> bool:
    """Return whether some components may be faster so; `single`: which fit into float32."""
    n, k, _ = model.forest.shape
    digits = max(0.0, -math.log10(tol) - 1.0) if isinstance(model, Tree) else 0.0
    return (
        k >= _LEAST_LABELS + _MORE_IN_TREES * digits
        and n >= _LEAST_POSITIONS * k
        and provable(model, tol)
        and bool(model.dtype == np.float64 or np.all(single))
    )


def may_save(model: Chain | Tree) -> bool:
    """Return whether a call may read less of a table so, whatever time it takes."""
    return model.n_labels >= _LEAST_BOUGHT and provable(model, 1.0)


def provable(model: Chain | Tree, tol: float) -> bool:
    """Return whether there is one dense table, and rounding is far below a tolerance."""
    k = model.n_labels
    one = model.forest.listed is None and model.forest.entries == k * k
    given = model.sparse_transition if isinstance(model, Chain) else model.sparse_pairwise
    # Sums of a row and a column were rounded when the table was made, which no proof here counts.
    summed = given is not None and (given.rows is not None or given.columns is not None)
    return bool(one and not summed and tol >= 64 * (k / 8 + 64) * _certified.U32)


class Found(NamedTuple):
    """Answers of all components."""

    marginals: Array  # (N, K), or those of the last piece
    log_z: Floats  # (B,)
    counts: Integers  # of passes
    listed: Listed | None  # with `keep`


class Supports:
    """Answers those components of a model that this pays for."""

    model: Chain | Tree
    table: native.Table
    taken: Mask  # (B,) these have been answered
    counts: Integers  # (3,) rows, columns and repairs

    def __init__(
        self, model: Chain | Tree, table: native.Table, tol: float, single: Mask | bool
    ) -> None:
        n, k, count = model.forest.shape
        self.model, self.table, self._tol = model, table, tol
        self._single = np.full(count, single)
        self._sizes, self._owner = sizes_of(model), owner_of(model)
        self._price = np.where(self._single, _PRICE_SINGLE, _PRICE_DOUBLE) * k
        self._error = np.ones(n)
        self._radius, self._slack = np.full(n, np.inf), np.ones(n)
        self._bounds = np.zeros((2, count))
        self.taken, self.counts = np.zeros(count, dtype=bool), np.zeros(3, dtype=np.int64)

    @classmethod
    def of(cls, model: Chain | Tree, tol: float, single: Mask | bool) -> Supports | None:
        """Return what answers, or None where the table's entries are too far apart for floats."""
        given = model.transition if isinstance(model, Chain) else model.pairwise
        table = native.Table(given.reshape(given.shape[-2:]))
        return cls(model, table, tol, single) if table.fine else None

    def passes(self, size: int, workers: int, watch: Watch, keep: float | None = None) -> Found:
        """Answer all components, those that this does not pay for by two passes.

        They go `size` variables at a time, of which with `keep` the marginals are listed.
        """
        model = self.model
        n, k, count = model.forest.shape
        memory, log_z, counts, done = empty((0, k), model.dtype), np.empty(count), NO_COUNTS, 0
        lists: list[Listed] = []
        places: list[Integers] = []
        for part in pieces(model, size):
            # No piece of several components has more rows than `size`.
            memory = grown(memory, part.size, min(size, n))
            rows, own = memory[: part.size], np.empty(part.components.size)
            end = done + part.size
            price, progress = self._price[part.components], watch.part(done, end, n)
            taken = self._answer(part, self._tol, price, workers, watch, progress, rows)
            sizes, fits = self._sizes[part.components], self._single[part.components]
            done += int(sizes[taken].sum())
            for single in (True, False):
                rest = np.flatnonzero(~taken & (fits == single))
                if rest.size == 0:
                    continue
                found = ask_piece(
                    model, part, workers, own, rows, narrow=single and model.dtype == np.float64,
                    components=None if rest.size == taken.size else rest, deadline=watch.left(),
                    progress=watch.part(done, end, n), late=watch.late,
                )  # fmt: skip
                counts = add_counts(counts, found)
                done += int(sizes[rest].sum())
            log_z[part.components] = own
            if keep is not None:
                lists.append(listed(rows, keep, workers))
                places.append(np.arange(n)[part.variables])
        watch.finish(n)
        whole = None
        if keep is not None:
            whole = joined(lists)
            if isinstance(model, Tree):
                whole = whole.chosen(np.argsort(np.concatenate(places)))
        return Found(memory, self.log_z(log_z), counts, whole)

    def buy(
        self, order: Integers, work: float, workers: int, watch: Watch, take: Take, tol: float
    ) -> float:
        """Answer components within `tol`, for at most `work` multiply-adds.

        They come in an order, those with the fewest messages first; answers within `tol` stay as
        they are. `take` gets the rows of some variables. Return what is left of the budget.
        """
        model, k = self.model, self.model.n_labels
        steps = 2 * (self._sizes - 1)
        able = (self.errors() > tol) & (steps > 0) & (self._sizes <= _LONGEST)
        queue, size, left = order[able[order]], _FEW, work / k
        while queue.size:
            # Half of what all rows would be: where that does not do, passes are the better buy.
            most = steps[queue[:size]] * (k // 2)
            fit = int(np.searchsorted(np.cumsum(most), left, side="right"))
            some = np.sort(queue[: max(fit, 1)])
            budget = np.minimum(steps[some] * (k // 2), int(left))
            parts = isinstance(model, Chain) and self._sizes[some[0]] > _WINDOW
            if (parts and fit == 0 and left < _WHOLE * most[0]) or (
                budget < _LEAST_ROWS * steps[some]
            ).any():
                break  # windows answer a part of it
            taken, before = 0, self.read
            for part in pieces_of(model, some, max(1, _BOUGHT_BYTES // (8 * k))):
                rows, own = (
                    empty((part.size, k), model.dtype),
                    np.searchsorted(some, part.components),
                )
                price = self.price(part.components.size)
                done = self._answer(part, tol, price, workers, watch, None, rows, budget[own])
                mine = done[np.searchsorted(part.components, self._owner[part.variables])]
                take(np.arange(self._owner.size)[part.variables][mine], rows[mine])
                taken += int(done.sum())
            left -= self.read - before
            if 2 * taken < some.size:
                break  # most of the rest would not pay either
            queue, size = queue[some.size :], 2 * size
        return left * k

    def price(self, count: int) -> Floats:
        """Return what a message may take where multiply-adds are counted, in rows."""
        return np.full(count, 0.5 * self.model.n_labels + _BESIDE)

    @property
    def read(self) -> int:
        """Return the rows that have been read; a column counts twice."""
        return int(self.counts[0] + 2 * self.counts[1])

    def errors(self) -> Floats:
        """Return the largest error (B,) that is proved of each component, 1 where there is none."""
        found = np.zeros(self.taken.size)
        np.maximum.at(found, self._owner, self._error)
        return found

    def _answer(
        self,
        part: Piece,
        tol: float,
        price: Floats,
        workers: int,
        watch: Watch,
        progress: Progress | None,
        marginals: Array,
        budget: Integers | None = None,
    ) -> Mask:
        """Fill the marginals of some components of a piece, and return which."""
        model, at, inside = self.model, part.variables, part.components
        if part.size == 0:
            return np.zeros(inside.size, dtype=bool)
        sizes = self._sizes[inside]
        up, start, end = None, None, None
        if isinstance(model, Chain):
            start, end = model.start, model.end
        else:
            up = parents_of(model, np.arange(model.n_nodes)[at])
        order = native.Order(np.concatenate([[0], np.cumsum(sizes)]), up)
        bounds = np.zeros((2, sizes.size))
        mask = None if model.allowed is None else model.allowed[at].view(np.uint8)
        radius, slack, error = (np.empty(part.size) for _ in range(3))
        taken, counts = native.infer(
            self.table, order, model.unary[at], start, end, mask,
            np.flatnonzero((sizes > 0) & (sizes <= _LONGEST)), tol, price, workers, marginals,
            radius, slack, error, bounds, watch.left(), progress, watch.late, budget,
        )  # fmt: skip
        self.taken[inside] |= taken
        self.counts += counts.sum(axis=0)
        self._bounds[:, inside[taken]] = bounds[:, taken]
        mine = taken[np.searchsorted(inside, self._owner[at])]
        own = np.arange(self._owner.size)[at][mine]
        self._radius[own], self._slack[own], self._error[own] = (
            x[mine] for x in (radius, slack, error)
        )
        return taken

    def _log_z(self) -> tuple[Floats, Floats]:
        """Return the bounds (B,) of the components that were answered."""
        model = self.model
        margin = _certified.log_z_margin(
            np.zeros(1), 0.0, self._sizes, sum(_certified.largest_scores(model)),
            np.abs(self._bounds).max(axis=0),
        )  # fmt: skip
        return self._bounds[0] - margin, self._bounds[1] + margin

    def proof(self, log_z: Floats) -> Proof:
        """Return the proof of all components: of those not answered here, by their passes."""
        other = _certified.proof_for(self.model, log_z, self._single)
        return self.over(other.each(lambda: self._owner))

    def over(self, other: Proof) -> Proof:
        """Return the proof of the components that were answered, and another of the rest."""
        own = Proof(self._radius, self._slack, self._error, *self._log_z(), alike=False)
        return own.where(self.taken, other, self.taken[self._owner])

    def log_z(self, other: Floats) -> Floats:
        """Return log Z (B,) of the components that were answered, and another of the rest."""
        low, high = self._log_z()
        return np.where(self.taken, (low + high) / 2, other)
