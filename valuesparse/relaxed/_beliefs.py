"""The probabilities of factors by a result, whether they were part of it or not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Factor, Feature, Features, Table
from valuesparse.factors._table import Tables
from valuesparse.models import FactorGraph
from valuesparse.relaxed._asked import AskedJoints
from valuesparse.relaxed._formulas import feature_gain
from valuesparse.relaxed._links import Links
from valuesparse.relaxed._parts import (
    NO_TINY,
    FeaturePart,
    HeldJoints,
    TableGroup,
    Tiny,
    mask_of,
    masks_of,
    require_gain,
    where_of,
)
from valuesparse.relaxed._screen import Screen
from valuesparse.relaxed._sides import LOGS, PLAIN, Sides, others, others_of_logs
from valuesparse.relaxed._within import DOUBT, ROUGH
from valuesparse.results import GraphResult

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Rows of a block at a time: what is made of them stays in the cache.
_CHUNK = 1 << 15


class Beliefs:
    """The marginals of a result, ready to be asked about factors.

    A set of variables has the product of their beliefs where they are independent. Where a factor
    that was used holds them all the engine has their joint (loopy engines: their belief of it).
    Everything else is a product, and an approximation, unless `thorough` asks for trees of its own.
    Where it only matters which gains are larger than `above`, nothing is told about factors that
    cannot have such a gain, and no more digits than that takes about others.
    """

    def __init__(
        self, result: GraphResult, *, thorough: bool = False, above: float | None = None
    ) -> None:
        self.above = above
        graph = result.graph
        self.result, self.graph, self.thorough = result, graph, thorough
        #: Factors asked about that loopy inference believes a zero of: forbidden, or too small for
        #: a double with all its digits, which it does not tell apart.
        self.zeros = 0
        self.exact = result.exact
        self._loopy = result.state is not None
        self.cards = graph.cards
        self.flat = result.flat_marginals()
        self.offset = np.concatenate([[0], np.cumsum(self.cards)])[:-1].astype(np.int64)
        # Where all are alike an address is a product, which is faster than a look.
        same = self.cards.size > 0 and bool((self.cards == self.cards[0]).all())
        self._card: np.int64 | None = self.cards[0] if same else None
        self._plain: Sides | None = None
        self._logs: Sides | None = None
        self._zero: npt.NDArray[np.bool_] | None = None
        self._left: npt.NDArray[np.bool_] | None = None
        self.links = Links(result)
        self.joints = AskedJoints(result, thorough, self.links.any)
        self.screen = Screen(result, self.links, self.joints, self.flat, self.offset, above)

    def walk(
        self, graph: FactorGraph, indices: Array, *, sides: bool = True
    ) -> Iterator[FeaturePart | TableGroup]:
        """Yield what is known about these factors of `graph`, piece by piece.

        Without `sides` P(φ = 1) of features is all that is asked for.
        """
        single: list[tuple[int, Factor]] = []
        left = np.ones(indices.size, dtype=np.bool_) if graph.blocks else None
        for start, block in graph.blocks:
            assert left is not None
            inside = (indices >= start) & (indices < start + len(block))
            if not inside.any():
                continue
            left &= ~inside
            where: Array | None = None if inside.all() else np.flatnonzero(inside)
            rows = (indices if where is None else indices[where]) - start
            yield from self.of_block(block, rows, where, sides=sides)
        at_single = np.arange(indices.size) if left is None else np.flatnonzero(left)
        single = [(i, graph.factor(int(indices[i]))) for i in at_single.tolist()]
        yield from self.of_factors(single, sides=sides)

    def of_factors(
        self, factors: Sequence[tuple[int, Factor]], *, sides: bool = True
    ) -> Iterator[FeaturePart | TableGroup]:
        """Yield what is known about factors that are objects."""
        groups: dict[Any, list[tuple[int, Feature]]] = {}
        tables: list[tuple[int, Factor]] = []
        for at, factor in factors:
            if type(factor) is not Table and isinstance(factor, Feature):
                fires = factor.fires
                kind = len(fires) if isinstance(fires, tuple) else (fires.shape, fires.tobytes())
                groups.setdefault(kind, []).append((at, factor))
            else:
                tables.append((at, factor))
        for group in groups.values():
            first = group[0][1]
            k = len(first.scope)
            block = Features(
                np.array([f.scope for _, f in group], dtype=np.int64).reshape(len(group), k),
                np.array([f.weight for _, f in group]),
                assignments=np.array([f.fires for _, f in group], dtype=np.int64).reshape(
                    len(group), k
                )
                if isinstance(first.fires, tuple)
                else None,
                fires=None if isinstance(first.fires, tuple) else first.fires,
            )
            yield self.part(np.array([at for at, _ in group]), block, sides)
        yield from self._of_tables(tables)

    def _of_tables(self, factors: Sequence[tuple[int, Factor]]) -> Iterator[TableGroup]:
        by_size: dict[int, list[tuple[int, Factor]]] = {}
        for one in factors:
            require_gain(one[1])
            by_size.setdefault(len(one[1].scope), []).append(one)
        asked = []
        for size, group in by_size.items():
            scopes = np.array([f.scope for _, f in group], dtype=np.int64).reshape(len(group), size)
            asked.append((group, scopes, self._known(scopes)))
        # All at once: the fewer trees, the better.
        self._ask([(scopes, known) for _, scopes, known in asked])
        for group, scopes, known in asked:
            for shape, rows in self._shapes(scopes):
                step = max(1, _CHUNK // math.prod(shape))
                for first in range(0, rows.size, step):
                    some = rows[first : first + step]
                    chosen = [group[i] for i in some.tolist()]
                    table = np.array([self.graph.table_of(f, at) for at, f in chosen])
                    at = np.array([at for at, _ in chosen])
                    yield self._table_part(at, scopes[some], table, known[some])

    def of_block(
        self,
        block: Features | Tables,
        rows: Array | None = None,
        at: Array | None = None,
        *,
        sides: bool = True,
        screened: bool = False,
    ) -> Iterator[FeaturePart | TableGroup]:
        """Yield what is known about rows of a block, by default all, told as those `at`.

        `screened`: each may have a gain that matters.
        """
        count = len(block) if rows is None else rows.size
        for first in range(0, count, _CHUNK):
            some, here = self._chunk(block, rows, first)
            if not isinstance(some, Features):
                own = np.arange(here.start, here.stop) if at is None else at[here]
                yield from self._of_columns(own, some)
                continue
            worth = self.screen.worth(some) if sides and not screened else None
            which: slice | Array = here
            if worth is not None:
                if not worth.size:
                    continue
                some, which = some.take(worth), here.start + worth
            yield self.part(which if at is None else at[which], some, sides)

    def _chunk(
        self, block: Features | Tables, rows: Array | None, first: int
    ) -> tuple[Features | Tables, slice]:
        """Return some rows of a block, a view where they follow each other, and which of them."""
        own = slice(first, min(first + _CHUNK, len(block) if rows is None else rows.size))
        if rows is None:
            return block.take(own), own
        some = rows[own]
        run = some[-1] - some[0] + 1 == some.size and bool((np.diff(some) == 1).all())
        return block.take(slice(int(some[0]), int(some[-1]) + 1) if run else some), own

    def _of_columns(self, at: Array, block: Tables) -> Iterator[TableGroup]:
        """Yield what is known about tables that stay in columns."""
        known = self._known(block.scopes)
        self._ask([(block.scopes, known)])
        step = max(1, _CHUNK // math.prod(block.log_tables.shape[1:]))
        for first in range(0, len(block), step):
            some = slice(first, first + step)
            yield self._table_part(at[some], block.scopes[some], block.log_tables[some],
                                   known[some])  # fmt: skip

    def _ask(self, groups: Sequence[tuple[Array, npt.NDArray[np.bool_]]]) -> None:
        """Have the joints of these scopes, those that are known, computed together."""
        wanted: set[tuple[int, ...]] = set()
        for scopes, known in groups:
            known = known & (self.links.holders(scopes) < 0)
            wanted.update(map(tuple, scopes[known].tolist()))
        self.joints.of(sorted(wanted))

    def _table_part(
        self, at: Array, scopes: Array, table: Floats, known: npt.NDArray[np.bool_]
    ) -> TableGroup:
        """Return what is known about tables of one shape, (m, ...)."""
        shape, table = table.shape[1:], table.reshape(len(table), -1)
        worth = self.screen.tables_worth(scopes, table) if shape == (2, 2) else None
        if worth is not None:
            at, scopes, table, known = at[worth], scopes[worth], table[worth], known[worth]
        with np.errstate(invalid="ignore"):
            rough = self._rough(table.max(axis=1) - table.min(axis=1))
        joint, exact = self._rows(scopes, shape, known, rough)
        rough = rough & known & (self.links.holders(scopes) >= 0)
        low = np.flatnonzero((joint < self.joints.floor).any(axis=1) & ~rough)
        tiny = NO_TINY
        if low.size:
            tiny = Tiny(low, self._log_rows(scopes[low], shape, known[low]))
            if self._loopy or not self.exact:
                self._note(self._zeros_of(tiny.log_p, scopes[low], shape))
        return TableGroup(at, table, joint, exact, tiny)

    def _rough(self, size: Floats) -> npt.NDArray[np.bool_]:
        """Whether an error of 1e-11 of its joint does not matter to the gain of each factor."""
        return np.full(size.shape, not self.thorough) & (size <= ROUGH)

    def _note(self, zero: npt.NDArray[np.bool_]) -> None:
        """Count the factors whose joint has a zero that may be none."""
        self.zeros += int(np.count_nonzero(zero))

    def doubt(self) -> str:
        """Return what a reason says of the zeros: nothing where there are none."""
        if not self.zeros:
            return ""
        by = "two passes" if self.exact else self.result.method
        return (
            f", as far as {by} can tell: for {self.zeros} of them it has a belief "
            "of zero, which may be one below 2.3e-308"
        )

    def _shapes(self, scopes: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Yield the shapes of the tables of some scopes, and which have each."""
        if self._card is not None or not scopes.shape[1]:
            card = 0 if self._card is None else int(self._card)
            yield (card,) * scopes.shape[1], np.arange(len(scopes))
            return
        shapes, which = np.unique(self.cards[scopes], axis=0, return_inverse=True)
        for i, shape in enumerate(shapes.tolist()):
            yield tuple(shape), np.flatnonzero(which.reshape(-1) == i)

    def _known(self, scopes: Array) -> npt.NDArray[np.bool_]:
        """Whether the joint of each row's variables, no product, is to be looked up."""
        if not (self.exact or self._loopy):
            return np.zeros(len(scopes), dtype=np.bool_)
        if self._loopy or not (self.thorough and self.exact):
            return self.links.held(scopes)
        return self.links.linked(scopes)

    def _rows(
        self,
        scopes: Array,
        shape: tuple[int, ...],
        known: npt.NDArray[np.bool_],
        rough: npt.NDArray[np.bool_],
    ) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return joints of sets of variables of one shape, a row each, and whether exactly."""
        joint = np.ones((len(scopes), 1))
        for axis, k in enumerate(shape):
            belief = self.flat[self._starts(scopes[:, axis])[:, None] + np.arange(k)]
            joint = (joint[:, :, None] * belief[:, None, :]).reshape(
                len(scopes), joint.shape[1] * k
            )
        exact = np.zeros(len(scopes), dtype=np.bool_)
        if self.exact:
            exact = ~self.links.linked(scopes)
        rows = np.flatnonzero(known)
        many, holder, rows = self.links.many(rows, scopes)
        if many.size:
            assert self.links.within is not None
            pairs = self.links.within.of(scopes[many], holder, rough[many])
            joint[many] = pairs
            exact[many] = self.exact
        for row, own in zip(
            rows.tolist(), self.joints.of([tuple(s) for s in scopes[rows].tolist()]), strict=True
        ):
            if own is not None:
                joint[row] = own.ravel()
                exact[row] = self.exact
        return joint, exact

    def _log_rows(
        self, scopes: Array, shape: tuple[int, ...], known: npt.NDArray[np.bool_]
    ) -> Floats:
        """Return the logarithms of what `_rows` returns."""
        belief = self._log_sides().belief
        joint = np.zeros((len(scopes), 1))
        for axis, k in enumerate(shape):
            own = belief[self._starts(scopes[:, axis])[:, None] + np.arange(k)]
            joint = (joint[:, :, None] + own[:, None, :]).reshape(len(scopes), joint.shape[1] * k)
        rows = np.flatnonzero(known)
        many, holder, rows = self.links.many(rows, scopes)
        if many.size:
            assert self.links.within is not None
            own = self.links.within.of(scopes[many], holder, np.zeros(many.size, dtype=np.bool_))
            joint[many] = self.joints.log_of(own)
        sets = [tuple(s) for s in scopes[rows].tolist()]
        for row, found in zip(rows.tolist(), self.joints.logs_of(sets), strict=True):
            if found is not None:
                joint[row] = found.ravel()
        return joint

    def _plain_sides(self) -> Sides:
        if self._plain is None:
            self._plain = Sides(self.flat, others(self.flat, self.cards, self.offset), PLAIN)
        return self._plain

    def _log_sides(self) -> Sides:
        if self._logs is None:
            belief = self.joints.log_beliefs()
            rest = others_of_logs(belief, self.cards, self.offset)
            self._logs = Sides(belief, rest, LOGS)
        return self._logs

    def _has_zero(self) -> npt.NDArray[np.bool_]:
        """Whether each variable has a state with a belief of zero that the evidence leaves."""
        if self._zero is None:
            zero = (self._log_sides().belief == -np.inf) & self._states_left()
            self._zero = np.logical_or.reduceat(zero, self.offset)
        return self._zero

    def _states_left(self) -> npt.NDArray[np.bool_]:
        """Return which states, flat, the evidence leaves."""
        if self._left is None:
            self._left = np.ones(self.flat.size, dtype=np.bool_)
            for v, x in self.result.evidence.items():
                if isinstance(x, int):
                    start = int(self.offset[v])
                    self._left[start : start + int(self.cards[v])] = False
                    self._left[start + x] = True
        return self._left

    def _zeros_of(
        self, log_p: Floats, scopes: Array, shape: tuple[int, ...]
    ) -> npt.NDArray[np.bool_]:
        """Whether the joint of each row has a zero of states that the evidence leaves."""
        left = np.ones((len(scopes), 1), dtype=np.bool_)
        for axis, k in enumerate(shape):
            own = self._states_left()[self._starts(scopes[:, axis])[:, None] + np.arange(k)]
            left = (left[:, :, None] & own[:, None, :]).reshape(len(scopes), -1)
        return np.asarray(((log_p == -np.inf) & left).any(axis=1))

    def expectations(self, graph: FactorGraph, indices: Array) -> Floats:
        """Return P(φ = 1) of features of `graph`."""
        out = np.empty(indices.size)
        for part in self.walk(graph, indices, sides=False):
            assert isinstance(part, FeaturePart)
            out[part.at] = part.mu
        return out

    def part(self, at: slice | Array, block: Features, sides: bool) -> FeaturePart:
        """Return what is known about a block of features."""
        rough = self._rough(np.abs(block.weights)) & sides
        if self.above is None or not sides:
            return self._part(at, block, sides, rough)[0]
        part, many = self._part(at, block, sides, np.ones(len(block), dtype=np.bool_))
        theta = np.abs(part.theta[many])
        heavy = many[theta > ROUGH]
        if heavy.size:
            # Where an error of 1e-11 in a joint leaves open which side of `above` a gain is.
            with np.errstate(over="ignore", invalid="ignore"):
                doubt = DOUBT * np.exp(np.abs(part.theta[heavy]))
            gains = feature_gain(part.mu[heavy], part.theta[heavy], part.off[heavy])
            rough[many] = True
            rough[heavy[~(np.abs(gains - self.above) > doubt)]] = False
            if not rough[heavy].all():
                part, _ = self._part(at, block, sides, rough)
        return part

    def _part(
        self, at: slice | Array, block: Features, sides: bool, rough: npt.NDArray[np.bool_]
    ) -> tuple[FeaturePart, Array]:
        """Return what is known about a block, and the rows that structured factors tell.

        `rough`: where their joints may err by 1e-11.
        """
        scopes = block.scopes
        base = [self._starts(scopes[:, a]) for a in range(scopes.shape[1])]
        mu = self._product(block, base)
        held = self._of_scopes(scopes, rough)
        for row, q in zip(held.rows.tolist(), held.which.tolist(), strict=True):
            mu[row] = min(1.0, float(held.joints[q][where_of(block, row)].sum()))
        many = held.many_rows
        fires = masks_of(block, many)
        mu[many] = np.minimum(held.many.sum(axis=1, where=fires), 1.0)
        if not sides:
            part = FeaturePart(at, block.weights, mu, held.exact, np.empty(0), NO_TINY)
            return part, many
        # The small side is the one whose digits count: 1 − p has those of a small p.
        off = 1.0 - mu
        large = np.flatnonzero(mu > 0.5)
        if large.size:
            near = [start[large] for start in base]
            off[large] = self._plain_sides().off(block, large, near)
        for row, q in zip(held.rows.tolist(), held.which.tolist(), strict=True):
            if mu[row] > 0.5:
                off[row] = held.joints[q].sum(where=~mask_of(block, row, held.joints[q].shape))
        off[many] = held.many.sum(axis=1, where=~fires)
        np.minimum(off, 1.0, out=off)
        digits = np.ones(len(block), dtype=np.bool_)
        digits[many[rough[many]]] = False
        lost = (np.minimum(mu, off) < self.joints.floor) & (block.weights != 0.0)
        low = np.flatnonzero(lost & digits)
        tiny = NO_TINY
        if low.size:
            tiny = Tiny(low, self._log_features(block, low, [start[low] for start in base]))
        return FeaturePart(at, block.weights, mu, held.exact, off, tiny), many

    def _product(self, block: Features, base: list[Array]) -> Floats:
        """Return P(φ = 1) of each feature of a block where its variables are independent."""
        if block.assignments is not None:
            mu = np.ones(len(block))
            for a, start in enumerate(base):
                mu *= self.flat[start + block.assignments[:, a]]
            return np.minimum(mu, 1.0, out=mu)
        assert block.fires is not None
        mu = np.zeros(len(block))
        for states in np.argwhere(block.fires).tolist():
            term = np.ones(len(block))
            for start, state in zip(base, states, strict=True):
                term *= self.flat[start + state]
            mu += term
        return np.minimum(mu, 1.0, out=mu)

    def _log_features(self, block: Features, rows: Array, base: list[Array]) -> Floats:
        """Return log P(φ = 0) and log P(φ = 1) of some features of a block; note their zeros."""
        logs = self._log_sides()
        found = np.stack([logs.off(block, rows, base), logs.on(block, rows, base)], axis=1)
        none = np.zeros(rows.size, dtype=np.bool_)
        held = self._of_scopes(block.scopes[rows], none, logs=True)
        for row, q in zip(held.rows.tolist(), held.which.tolist(), strict=True):
            fires = mask_of(block, int(rows[row]), held.joints[q].shape)
            for side, mask in enumerate((~fires, fires)):
                found[row, side] = np.logaddexp.reduce(held.joints[q][mask], initial=-np.inf)
        many = masks_of(block, rows[held.many_rows])
        for side, mask in enumerate((~many, many)):
            cells = np.where(mask, held.many, -np.inf)
            found[held.many_rows, side] = np.logaddexp.reduce(cells, axis=1)
        if self._loopy or not self.exact:
            # A sum may have lost a term that is no zero: beliefs tell, and the sum does not.
            scopes = block.scopes[rows]
            zero = self._has_zero()[scopes].any(axis=1)
            for row, q in zip(held.rows.tolist(), held.which.tolist(), strict=True):
                joint = held.joints[q]
                zero[row] = self._zeros_of(joint.reshape(1, -1), scopes[[row]], joint.shape)[0]
            if held.many_rows.size:
                own = scopes[held.many_rows]
                zero[held.many_rows] = self._zeros_of(held.many, own, (2,) * own.shape[1])
            self._note(zero)
        return found

    def _of_scopes(
        self,
        scopes: Array,
        rough: npt.NDArray[np.bool_],
        *,
        logs: bool = False,
    ) -> HeldJoints:
        """Return what is no product of beliefs; `rough`: where joints may err by 1e-11."""
        none: Array = np.empty(0, dtype=np.int64)
        pairs = np.empty((0, 0))
        if not (self.exact or self._loopy):
            return HeldJoints(none, none, [], np.zeros(len(scopes), dtype=np.bool_), none, pairs)
        exact = np.zeros(len(scopes), dtype=np.bool_)
        if self.exact:
            exact = ~self.links.linked(scopes)
        rows = np.flatnonzero(self._known(scopes))
        many, holder, rows = self.links.many(rows, scopes)
        if many.size:
            assert self.links.within is not None
            pairs = self.links.within.of(scopes[many], holder, rough[many])
            pairs = self.joints.log_of(pairs) if logs else pairs
            exact[many] = self.exact
        if not rows.size:
            return HeldJoints(none, none, [], exact, many, pairs)
        wanted, which = np.unique(scopes[rows], axis=0, return_inverse=True)
        sets = [tuple(s) for s in wanted.tolist()]
        joints = self.joints.logs_of(sets) if logs else self.joints.of(sets)
        there = np.array([joint is not None for joint in joints], dtype=np.bool_)
        which = which.reshape(-1)
        rows, which = rows[there[which]], which[there[which]]
        exact[rows] = self.exact
        return HeldJoints(rows, which, cast("list[Floats]", joints), exact, many, pairs)

    def _starts(self, variables: Array) -> Array:
        """Return where the beliefs of variables start in `flat`."""
        return self.offset[variables] if self._card is None else variables * self._card
