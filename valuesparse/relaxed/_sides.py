"""P(φ = 1) and P(φ = 0) of features of independent variables, each a sum of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Features

__all__ = ["LOGS", "PLAIN", "Algebra", "Sides", "others", "others_of_logs"]

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


class Algebra(NamedTuple):
    """How probabilities are multiplied and added: as they are, or as their logarithms."""

    times: Callable[[Any, Any], Any]
    plus: Callable[[Any, Any], Any]
    one: float
    zero: float


PLAIN = Algebra(np.multiply, np.add, 1.0, 0.0)
LOGS = Algebra(np.add, np.logaddexp, 0.0, -np.inf)


def others(p: Floats, cards: Array, offset: Array) -> Floats:
    """Return P(v ≠ x) for each entry P(v = x); nothing that matters is subtracted."""
    large = p > 0.5  # one entry of a variable at most
    if not large.any():
        return 1.0 - p
    rest = np.add.reduceat(np.where(large, 0.0, p), offset)
    return np.where(large, np.repeat(rest, cards), 1.0 - p)


def others_of_logs(log_p: Floats, cards: Array, offset: Array) -> Floats:
    """Return log P(v ≠ x) for each entry log P(v = x)."""
    large = log_p > -np.log(2.0)
    small = np.where(large, -np.inf, log_p)
    found = np.log1p(-np.exp(small))
    if large.any():
        found[large] = np.repeat(np.logaddexp.reduceat(small, offset), cards)[large]
    return found


class Sides:
    """Beliefs of variables, flat, and those of all other states, in one algebra."""

    def __init__(self, belief: Floats, rest: Floats, algebra: Algebra) -> None:
        self.belief, self.rest, self.algebra = belief, rest, algebra

    def on(self, block: Features, rows: Array, base: list[Array]) -> Floats:
        """Return P(φ = 1) of some rows; `base`: where the beliefs of their variables start."""
        if block.fires is not None:
            return self._chance(block.fires, base, rows.size)
        assert block.assignments is not None
        times = self.algebra.times
        found = np.full(rows.size, self.algebra.one)
        for a, start in enumerate(base):
            found = times(found, self.belief[start + block.assignments[rows, a]])
        return found

    def off(self, block: Features, rows: Array, base: list[Array]) -> Floats:
        """Return P(φ = 0) of some rows."""
        if block.fires is not None:
            return self._chance(~block.fires, base, rows.size)
        assert block.assignments is not None
        times, plus = self.algebra.times, self.algebra.plus
        found = np.full(rows.size, self.algebra.zero)
        before = np.full(rows.size, self.algebra.one)
        for a, start in enumerate(base):  # the first variable that differs is this one
            at = start + block.assignments[rows, a]
            found = plus(found, times(before, self.rest[at]))
            before = times(before, self.belief[at])
        return found

    def _chance(self, table: npt.NDArray[np.bool_], base: list[Array], count: int) -> Floats:
        """Return the probability that `table` holds, variable by variable."""
        times, plus = self.algebra.times, self.algebra.plus
        if table.all():
            return np.full(count, self.algebra.one)
        found = np.full(count, self.algebra.zero)
        if not table.any():
            return found
        if table.ndim == 1:
            missing = np.flatnonzero(~table)
            if missing.size == 1:
                return self.rest[base[0] + missing[0]]
            for x in np.flatnonzero(table).tolist():
                found = plus(found, self.belief[base[0] + x])
            return found
        for x, part in enumerate(table):
            if part.any():
                p = self.belief[base[0] + x]
                found = plus(found, times(p, self._chance(part, base[1:], count)))
        return found
