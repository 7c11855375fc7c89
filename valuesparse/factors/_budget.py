"""At most so many variables are on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from valuesparse._validation import as_count
from valuesparse.factors._inputs import Inputs, Rows

__all__ = ["Budget"]


class Budget(Inputs):
    """At most `budget` of some binary variables are on.

    Parameters
    ----------
    *variables : int
        Variable numbers, any number of them.
    budget : int
        How many may be on, >= 0.
    negated : sequence of int, optional
        Places among the variables of those that count as on in state 0.

    Attributes
    ----------
    negated : tuple of int
    budget : int

    Raises
    ------
    ValueError
        Without variables, for one that is named twice, or a place out of range, or a
        negative budget.

    Notes
    -----
    All messages take O(k budget) operations, the best configuration and the projection O(k log k).

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> _ = graph.add(vs.factors.Budget(0, 1, 2, budget=2))
    >>> [round(float(p[1]), 3) for p in vs.infer(graph).marginals]
    [0.429, 0.429, 0.429]
    """

    __slots__ = ("budget",)
    _kind = "Budget"

    budget: int
    _fixed = frozenset({"scope", "negated", "budget"})

    def __init__(self, *variables: int, budget: int, negated: Sequence[int] = ()) -> None:
        super().__init__(*variables, negated=negated)
        self.budget = as_count("budget", budget, at_least=0)

    @property
    def _given(self) -> tuple[int, ...]:  # type: ignore[override]
        return min(self.budget, len(self.scope)), *self._flipped

    def _hull(self) -> tuple[Rows | None, Rows | None]:
        return (np.ones((1, len(self.scope))), np.array([float(self.budget)])), None

    def _options(self) -> str:
        return f", budget={self.budget}{super()._options()}"
