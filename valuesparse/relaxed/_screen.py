"""Factors that cannot have a large gain, found without their joints."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _messages
from valuesparse._fork import cached_attribute
from valuesparse.factors import Features
from valuesparse.relaxed._asked import AskedJoints
from valuesparse.relaxed._links import Links
from valuesparse.results import GraphResult

__all__ = ["Screen"]

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

_NO_PAIRS = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.bool_)


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

    @cached_attribute
    def _chance(self) -> Floats:
        """No less than P(v = x) by the beliefs of v and of structured factors, flat."""
        chance = self._flat
        for scope, own in self._links.within.chances() if self._links.within else ():
            where = self._offset[scope][:, None] + np.arange(2)
            chance = chance.copy() if chance is self._flat else chance
            chance[where] = np.maximum(chance[where], own)
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

    def _rows(self, scopes: Array, states: Array, theta: Floats) -> Array:
        same = states.strides[0] == 0 and len(states) > 0
        # Loopy inference has beliefs of tables that it used, which need not agree.
        pairs, maybe = self._links.pairs if self._loopy else _NO_PAIRS
        return _messages.worth(
            np.ascontiguousarray(scopes, dtype=np.int64),
            np.ascontiguousarray(states[0] if same else states, dtype=np.int64),
            np.ascontiguousarray(theta, dtype=np.float64),
            self._chance, self._offset, pairs, maybe, float(self._above),  # type: ignore[arg-type]
        )  # fmt: skip
