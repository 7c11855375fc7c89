"""Factors that cannot have a large gain, found without their joints."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Features
from valuesparse.relaxed._asked import AskedJoints
from valuesparse.relaxed._links import Links
from valuesparse.results import GraphResult

__all__ = ["Screen"]

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Rounding of e^θ − 1 − θ, of a sum of magnitudes like theirs.
_ROUNDING = 2.0**-50

#: Rows at a time: what is made of them stays in the cache.
_CHUNK = 1 << 13


class Screen:
    """Tells which features may have a gain larger than `above`; all of them where that is None.

    g = log(1 + μ (e^θ − 1)) − μ θ <= μ (e^θ − 1 − θ), and μ = P(a = x, b = y, ...) is at most the
    smallest of P(a = x), P(b = y), ...
    """

    def __init__(
        self,
        result: GraphResult,
        links: Links,
        joints: AskedJoints,
        flat: Floats,
        offset: Array,
        above: float | None,
    ) -> None:
        self._loopy = result.state is not None
        self._links, self._joints = links, joints
        self._flat, self._offset, self._above = flat, offset, above

    @cached_property
    def _chance(self) -> Floats:
        """No less than P(v = x) by the beliefs of v and of structured factors, flat."""
        chance = self._flat
        for scope, own in self._links.within.chances() if self._links.within else ():
            where = self._offset[scope]
            chance = chance.copy() if chance is self._flat else chance
            for x in (0, 1):
                np.maximum.at(chance, where + x, own[:, x])
        # Below it numbers may have lost their digits.
        return np.maximum(chance, self._joints.floor)

    def worth(self, block: Features) -> Array | None:
        """Return the rows that may have such a gain; None for all."""
        k = block.scopes.shape[1]
        # Beliefs of tables need not agree with those of their variables.
        if self._above is None or block.assignments is None or k == 0 or (self._loopy and k > 2):
            return None
        return self._rows(block.scopes, block.assignments, block.weights)

    def tables_worth(self, scopes: Array, tables: Floats) -> Array | None:
        """Return the rows of pairs' tables (m, 4) that may have such a gain; None for all."""
        if self._above is None:
            return None
        both = np.flatnonzero((tables[:, :3] == 0.0).all(axis=1))
        ones = np.broadcast_to(np.int64(1), (both.size, 2))
        kept = np.ones(len(scopes), dtype=np.bool_)
        kept[both] = False
        kept[both[self._rows(scopes[both], ones, tables[both, 3])]] = True
        return np.flatnonzero(kept)

    def _chances(self, variables: Array, states: Array) -> Floats:
        """Return what `_chance` has for states of variables, (m,); often all are the same state."""
        if states.strides[0] == 0 and states.size:
            last = self._offset + int(states[0])
            own = self._chance[np.minimum(last, self._chance.size - 1)]
            return np.asarray(own[variables])
        return np.asarray(self._chance[self._offset[variables] + states])

    def _rows(self, scopes: Array, states: Array, theta: Floats) -> Array:
        found = [np.empty(0, dtype=np.int64)]
        for first in range(0, len(scopes), _CHUNK):
            some = slice(first, first + _CHUNK)
            found.append(first + self._few(scopes[some], states[some], theta[some]))
        return np.concatenate(found)

    def _few(self, scopes: Array, states: Array, theta: Floats) -> Array:
        most = self._chances(scopes[:, 0], states[:, 0])
        for a in range(1, scopes.shape[1]):
            np.minimum(most, self._chances(scopes[:, a], states[:, a]), out=most)
        with np.errstate(over="ignore", invalid="ignore"):
            e = np.exp(theta)
            large = e + 1.0
            large += np.abs(theta)
            large *= _ROUNDING
            e -= 1.0
            e -= theta
            e += large
            e *= most
            idle = e <= (1.0 - 1e-9) * self._above  # type: ignore[operator]
        if self._loopy and scopes.shape[1] == 2:
            idle &= ~self._links.in_table(scopes)
        return np.flatnonzero(~idle)
