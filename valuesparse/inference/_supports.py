"""Chains and trees within a tolerance, by messages that read a few rows and columns of a large table.

The labels whose share of a message is not small have their rows read, and those that matter where
it goes their columns; norms bound the rest (CERTIFICATES, sections 2 to 4 and 10). So the error is of
second order in what is left out, and behind a decided position the radius starts anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _supports as native
from valuesparse.inference import _certified
from valuesparse.inference._asked import NO_COUNTS, add_counts, ask_piece
from valuesparse.inference._memory import empty
from valuesparse.inference._pieces import Piece, owner_of, parents_of, pieces, sizes_of
from valuesparse.inference._watch import Progress, Watch
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Proof
from valuesparse.results._listed import Listed, joined, listed

__all__ = ["Supports", "may_pay"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: With fewer labels, going over rows to choose from them takes as long as all of the table.
_LEAST_LABELS = 256
#: Longer chains are cut, and their chunks shared by all cores; so are the blocks of larger trees.
_LONGEST = 8192
#: Variables for each label, of all components: making both tables and their norms takes time as well.
_LEAST_POSITIONS = 0.5
#: What a message of the whole table takes, in rows of it, of K: in float32, and in float64.
_PRICE_SINGLE, _PRICE_DOUBLE = 0.155, 0.33


def may_pay(model: Chain | Tree, tol: float, single: Mask) -> bool:
    """Return whether some components may be faster so; `single`: which fit into float32."""
    n, k, _ = model.forest.shape
    return (
        k >= _LEAST_LABELS
        and n >= _LEAST_POSITIONS * k
        and model.forest.listed is None
        and model.forest.entries == k * k
        and tol >= 64 * (k / 8 + 64) * _certified.U32
        and bool(model.dtype == np.float64 or single.all())
    )


class Found(NamedTuple):
    """Answers of all components."""

    marginals: Array  # (N, K), or those of the last piece
    log_z: Floats  # (B,)
    counts: Integers  # of passes
    listed: Listed | None  # with `keep`


class Supports:
    """Answers those components of a model that this pays for."""

    taken: Mask  # (B,) these have been answered
    counts: Integers  # (B, 3) rows, columns and repairs of each

    def __init__(self, model: Chain | Tree, table: native.Table, tol: float, single: Mask) -> None:
        n, k, count = model.forest.shape
        self._model, self._table, self._tol, self._single = model, table, tol, single
        self._sizes = sizes_of(model)
        self._price = np.where(single, _PRICE_SINGLE, _PRICE_DOUBLE) * k
        self._error = np.ones(n)
        self._radius, self._slack = np.full(n, np.inf), np.ones(n)
        self._bounds = np.zeros((2, count))
        self.taken, self.counts = np.zeros(count, dtype=bool), np.zeros((count, 3), dtype=np.int64)

    @classmethod
    def of(cls, model: Chain | Tree, tol: float, single: Mask) -> Supports | None:
        """Return what answers, or None where the table's entries are too far apart for floats."""
        given = model.transition if isinstance(model, Chain) else model.pairwise
        table = native.Table(given.reshape(given.shape[-2:]))
        return cls(model, table, tol, single) if table.fine else None

    def passes(self, size: int, workers: int, watch: Watch, keep: float | None = None) -> Found:
        """Answer all components, those that this does not pay for by two passes.

        They go `size` variables at a time, of which with `keep` the marginals are listed.
        """
        model = self._model
        n, k, count = model.forest.shape
        memory, log_z, counts, done = empty((0, k), model.dtype), np.empty(count), NO_COUNTS, 0
        lists: list[Listed] = []
        places: list[Integers] = []
        for part in pieces(model, size):
            if memory.shape[0] < part.size:
                memory = empty((part.size, k), model.dtype)
            rows, own = memory[: part.size], np.empty(part.components.size)
            end = done + part.size
            taken = self._answer(part, workers, watch, watch.part(done, end, n), rows)
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
        low, high = self._log_z()
        log_z[self.taken] = (low[self.taken] + high[self.taken]) / 2
        whole = None
        if keep is not None:
            whole = joined(lists)
            if isinstance(model, Tree):
                whole = whole.chosen(np.argsort(np.concatenate(places)))
        return Found(memory, log_z, counts, whole)

    def _answer(
        self,
        part: Piece,
        workers: int,
        watch: Watch,
        progress: Progress | None,
        marginals: Array,
    ) -> Mask:
        """Fill the marginals of some components of a piece, and return which."""
        model, at = self._model, part.variables
        if part.size == 0:
            return np.zeros(part.components.size, dtype=bool)
        inside = slice(int(part.components[0]), int(part.components[-1]) + 1)
        sizes = self._sizes[inside]
        up, ends = None, (None, None)
        if isinstance(model, Chain):
            ends = model.start, model.end
        else:
            up = parents_of(model, np.arange(model.n_nodes)[at])
        order = native.Order(np.concatenate([[0], np.cumsum(sizes)]), up)
        bounds = np.zeros((2, sizes.size))
        mask = None if model.allowed is None else model.allowed[at].view(np.uint8)
        radius, slack, error = self._radius[at], self._slack[at], self._error[at]
        taken, counts = native.infer(
            self._table, order, model.unary[at], *ends, mask,
            np.flatnonzero((sizes > 1) & (sizes <= _LONGEST)), self._tol, self._price[inside],
            workers, marginals, radius, slack, error, bounds,
            watch.left(), progress, watch.late,
        )  # fmt: skip
        self._radius[at], self._slack[at], self._error[at] = radius, slack, error
        self.taken[inside], self.counts[inside] = taken, counts
        self._bounds[:, inside] = bounds
        return taken

    def _log_z(self) -> tuple[Floats, Floats]:
        """Return the bounds (B,) of the components that were answered."""
        model = self._model
        margin = _certified.log_z_margin(
            np.zeros(1), 0.0, self._sizes, sum(_certified.largest_scores(model)),
            np.abs(self._bounds).max(axis=0),
        )  # fmt: skip
        return self._bounds[0] - margin, self._bounds[1] + margin

    def proof(self, log_z: Floats) -> Proof:
        """Return the proof of all components: of those that were not answered here, by their passes."""
        owner = owner_of(self._model)
        other = _certified.proof_for(self._model, log_z, self._single)
        own = Proof(self._radius, self._slack, self._error, *self._log_z(), alike=False)
        return own.where(self.taken, other.each(lambda: owner), self.taken[owner])
