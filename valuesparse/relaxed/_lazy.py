"""Factors that a callback yields, and those of them that were added."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from valuesparse._junction import freeze
from valuesparse.factors import Factor, Feature, Features
from valuesparse.models import FactorGraph
from valuesparse.models._checks import check_features, weigh_features
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed._candidates import check_factors
from valuesparse.relaxed._parts import FeaturePart, TableGroup
from valuesparse.relaxed.bounds import Bounds, Remaining, bounds_of, finish
from valuesparse.relaxed.gain import gains_of
from valuesparse.relaxed.select import without
from valuesparse.results import GraphResult

__all__ = ["Candidates", "Lazy"]

Candidates = Callable[[GraphResult], Iterable[Factor | Features]]

#: Bits by which candidates are told apart at first, and an odd number that mixes them.
_MARK_BITS = 16
_MIX = np.uint64(0x9E3779B97F4A7C15)


def _alike(cards: npt.NDArray[np.int64], value: float) -> list[npt.NDArray[np.float64]]:
    """Return a read-only array for each variable, with the same number everywhere."""
    most = np.full(int(cards.max(initial=0)), value)
    freeze([most])
    of_size = {k: most[:k] for k in set(cards.tolist())}
    return [of_size[k] for k in cards.tolist()]


class Lazy:
    """Factors that a callback yields: which were added, and where they stand in the graph."""

    def __init__(self, candidates: Candidates | None, graph: FactorGraph) -> None:
        self.candidates, self.graph = candidates, graph
        self.known: Counter[object] = Counter()  # how many were added
        self.maybe = np.zeros(1 << _MARK_BITS, dtype=np.bool_)  # by the marks of features in blocks
        self.checked: list[Features] = []

    def _yielded(self, result: GraphResult) -> Iterator[Features | list[Factor]]:
        """Yield blocks, and single factors in lists."""
        if self.candidates is None:
            return
        single: list[Factor] = []
        items: Any = self.candidates(result)
        if not isinstance(items, Iterable):
            one = isinstance(items, (Factor, Features))
            what = "return it in a list" if one else "return an empty list where there are none"
            raise TypeError(
                f"candidates must return or yield factors, got {type(items).__name__}; {what}"
            )
        before, self.checked = self.checked, []
        for item in items:
            if isinstance(item, Features):
                if not any(item is old for old in before):  # they never change
                    check_features(self.graph, item)
                    weigh_features(self.graph, item)
                self.checked.append(item)
                yield item
            elif isinstance(item, Factor):
                single.append(item)
            else:
                raise TypeError(
                    "candidates must yield valuesparse.factors.Factor or Features, got "
                    f"{type(item).__name__}"
                )
        if single:
            yield check_factors(self.graph, single)

    def _parts(
        self, beliefs: Beliefs, item: Features | list[Factor], *, screened: bool = False
    ) -> Iterator[FeaturePart | TableGroup]:
        # `screened`: so have blocks been; single factors are screened where their tables are.
        if isinstance(item, Features):
            return beliefs.of_block(item, screened=screened)
        return beliefs.of_factors(list(enumerate(item)))

    def worth(
        self, beliefs: Beliefs, result: GraphResult, epsilon: float
    ) -> list[Features | list[Factor]]:
        """Return what is yielded, was not yet added, and has a gain above ε."""
        found: list[Features | list[Factor]] = []
        seen: Counter[object] = Counter()
        for item in self._yielded(result):
            rows = beliefs.screen.worth(item) if isinstance(item, Features) else None
            some = item if rows is None else cast("Features", item).take(rows)
            new = self._unknown(some, seen)
            if not len(new):
                continue
            parts = self._parts(beliefs, new, screened=True)
            large = np.flatnonzero(gains_of(len(new), parts) > epsilon)
            if large.size:
                found.append(
                    new.take(large)
                    if isinstance(new, Features)
                    else [new[i] for i in large.tolist()]
                )
        return found

    def take(self, found: list[Features | list[Factor]]) -> npt.NDArray[np.int64]:
        """Add factors to the graph and return their indices; features of a block stay in one."""
        first = self.graph.n_factors
        for item in found:
            if isinstance(item, Features):
                self.known.update(_keys(item))
                self.maybe[_marks(item)] = True
                self.graph.add_features(item)
                continue
            for factor in item:
                key = self._key(factor)
                self.known[key] += 1
                if isinstance(factor, Feature):
                    one = Features([factor.scope], factor.weight)
                    self.maybe[_marks(one)] = True
                self.graph.add(factor)
        return np.arange(first, self.graph.n_factors)

    def bounds(self, result: GraphResult, n_own: int, exhaustive: bool) -> Bounds:
        """Return the bounds of a result against `graph` and all that is yielded."""
        if self.candidates is None:
            return bounds_of(result)
        if not exhaustive:
            # Anything may be missing: only what holds whatever else there is.
            zeros, ones = (_alike(result.graph.cards, x) for x in (0.0, 1.0))
            return Bounds(np.inf, np.inf, zeros, ones, True)
        beliefs = Beliefs(result, thorough=True)
        remaining = Remaining()
        own = without(n_own, result.factors[result.factors < n_own])
        for part in beliefs.walk(self.graph, own):
            remaining.add(part)
        seen: Counter[object] = Counter()
        for item in self._yielded(result):
            for part in self._parts(beliefs, self._unknown(item, seen)):
                remaining.add(part)
        return finish(beliefs, remaining)

    def _is_new(self, factor: Factor, seen: Counter[object]) -> bool:
        """Return whether a call has yielded more like this one than were added; counts it."""
        key = self._key(factor)
        seen[key] += 1
        return seen[key] > self.known[key]

    def _unknown(
        self, item: Features | list[Factor], seen: Counter[object]
    ) -> Features | list[Factor]:
        """Return those that have not been added; `seen`: what the call has yielded so far."""
        if isinstance(item, list):
            return [f for f in item if self._is_new(f, seen)]
        alike = np.flatnonzero(self.maybe[_marks(item)])
        left = np.ones(len(item), dtype=np.bool_)
        for i, key in zip(alike.tolist(), _keys(item.take(alike)), strict=True):
            seen[key] += 1
            left[i] = seen[key] > self.known[key]
        return item if left.all() else item.take(left)

    def _key(self, factor: Factor) -> object:
        if isinstance(factor, Feature):
            fires = factor.fires if isinstance(factor.fires, tuple) else factor.fires.tobytes()
            return factor.scope, fires, factor.weight
        cards = [self.graph.cardinalities[v] for v in factor.scope]
        return factor.scope, factor.table(cards).tobytes()


def _keys(block: Features) -> list[object]:
    """Return what tells each feature of a block from others, as `Lazy._key` does."""
    fires: Iterable[object]
    if block.assignments is not None:
        fires = map(tuple, block.assignments.tolist())
    else:
        assert block.fires is not None
        fires = itertools.repeat(block.fires.tobytes(), len(block))
    return list(zip(map(tuple, block.scopes.tolist()), fires, block.weights.tolist(), strict=True))


def _marks(block: Features) -> npt.NDArray[np.uint64]:
    """Return a few bits of each feature of a block: alike ones have the same."""
    mark = np.ascontiguousarray(block.weights + 0.0).view(np.uint64).copy()  # -0.0 is 0.0
    for a in range(block.scopes.shape[1]):
        mark *= _MIX
        mark += block.scopes[:, a].astype(np.uint64)
    mark *= _MIX
    return np.asarray(mark >> np.uint64(64 - _MARK_BITS))
