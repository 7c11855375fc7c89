"""Structured factors over inputs that may be negated."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from valuesparse.factors._structured import Floats, NativeStructured, Polytope

__all__ = ["Inputs", "Rows"]

#: Rows (m, k) of inequalities, and the right sides (m,) that they stay below.
Rows = tuple[Floats, Floats]


class Inputs(NativeStructured):
    """A structured factor in C++ that sees y, or 1 − y where an input is negated."""

    __slots__ = ("negated",)

    negated: tuple[int, ...]
    _fixed = frozenset({"scope", "negated"})

    def __init__(self, *variables: int, negated: Sequence[int] = ()) -> None:
        super().__init__(variables)
        try:
            places = list(negated)
            if any(isinstance(i, (bool, np.bool_)) for i in places):  # a mask is no list of places
                raise TypeError
            self.negated = tuple(sorted({operator.index(i) for i in places}))
        except TypeError:
            raise TypeError(
                f"negated must hold places among the variables, such as (0,), got {negated!r}"
            ) from None
        for i in self.negated:
            if not 0 <= i < len(variables):
                raise ValueError(
                    f"negated has place {i}: {type(self).__name__} has {len(variables)} variables, "
                    "places from 0"
                )

    @property
    def _flipped(self) -> tuple[int, ...]:
        """The places that enter the kind in C++ as 1 − y."""
        return self.negated

    @property
    def _given(self) -> tuple[int, ...]:  # type: ignore[override]
        return self._flipped

    @abstractmethod
    def _hull(self) -> tuple[Rows | None, Rows | None]:
        """Return inequalities and equations of the hull of what the kind in C++ sees."""

    def polytope(self) -> Polytope:
        """Return ``(A_ub, b_ub, A_eq, b_eq, auxiliary)``: the hull of what is possible, sparse.

        Over the k variables, in [0, 1]; there are no auxiliary ones.
        """
        from scipy import sparse

        found: list[object] = []
        for rows in self._hull():
            if rows is None:
                found += [sparse.csr_array((0, len(self.scope))), np.empty(0)]
                continue
            left, right = rows[0].copy(), rows[1]
            places = list(self._flipped)
            right = right - left[:, places].sum(axis=1)
            left[:, places] *= -1.0
            found += [sparse.csr_array(left), right]
        return found[0], found[1], found[2], found[3], 0

    def _toggled(self, places: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(set(self.negated) ^ set(places)))

    def _options(self) -> str:
        return f", negated={self.negated}" if self.negated else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.scope))}{self._options()})"
