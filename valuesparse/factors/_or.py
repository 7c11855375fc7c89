"""At least one variable is on, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from valuesparse.factors._inputs import Inputs, Rows

__all__ = ["Imply", "Nand", "Or", "OrOut"]


class Or(Inputs):
    """At least one of some binary variables is on (MSFXM10).

    Parameters
    ----------
    *variables : int
        Variable numbers, any number of them.
    negated : sequence of int, optional
        Places among the variables of those that count as on in state 0.

    Attributes
    ----------
    negated : tuple of int

    Raises
    ------
    ValueError
        Without variables, for one that is named twice, or a place out of range.

    Notes
    -----
    All messages take O(k) operations, without subtraction; the projection takes O(k log k).

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> _ = graph.add(vs.factors.Or(0, 1))
    >>> [round(float(p[1]), 3) for p in vs.infer(graph).marginals]
    [0.667, 0.667]
    """

    __slots__ = ()
    _kind = "Or"

    def _hull(self) -> tuple[Rows | None, Rows | None]:
        return (-np.ones((1, len(self.scope))), -np.ones(1)), None


class Nand(Or):
    """Not all of some binary variables are on: an `Or` with all inputs negated (MSFXM10).

    Parameters
    ----------
    *variables : int
        Variable numbers, any number of them.
    negated : sequence of int, optional
        Places among the variables of those that count as on in state 0.

    Attributes
    ----------
    negated : tuple of int

    Raises
    ------
    ValueError
        Without variables, for one that is named twice, or a place out of range.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> _ = graph.add(vs.factors.Nand(0, 1))
    >>> [round(float(p[1]), 3) for p in vs.infer(graph).marginals]
    [0.333, 0.333]
    """

    __slots__ = ()

    @property
    def _flipped(self) -> tuple[int, ...]:
        return self._toggled(range(len(self.scope)))


class Imply(Or):
    """If the first of two binary variables is on, so is the second (MSFXM10).

    Parameters
    ----------
    a, b : int
        Variable numbers.
    negated : sequence of int, optional
        Places among the two of those that count as on in state 0.

    Attributes
    ----------
    negated : tuple of int

    Raises
    ------
    ValueError
        For one variable named twice, or a place out of range.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> _ = graph.add(vs.factors.Imply(0, 1))
    >>> [round(float(p[1]), 3) for p in vs.infer(graph).marginals]
    [0.333, 0.667]
    """

    __slots__ = ()

    def __init__(self, a: int, b: int, *, negated: Sequence[int] = ()) -> None:
        super().__init__(a, b, negated=negated)

    @property
    def _flipped(self) -> tuple[int, ...]:
        return self._toggled([0])


class OrOut(Inputs):
    """The output, the last variable, is on where at least one input is (MSFXM10).

    Parameters
    ----------
    *variables : int
        Variable numbers, any number of them; the last is the output.
    negated : sequence of int, optional
        Places among the variables of those that count as on in state 0.

    Attributes
    ----------
    negated : tuple of int

    Raises
    ------
    ValueError
        Without variables, for one that is named twice, or a place out of range.

    Notes
    -----
    All messages take O(k) operations, without subtraction; the projection takes O(k log k).

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> _ = graph.add(vs.factors.OrOut(0, 1, 2))
    >>> [round(float(p[1]), 3) for p in vs.infer(graph).marginals]
    [0.5, 0.5, 0.75]
    """

    __slots__ = ()
    _kind = "OrOut"

    def _hull(self) -> tuple[Rows | None, Rows | None]:
        n = len(self.scope) - 1
        rows = np.zeros((n + 1, n + 1))
        rows[:n, :n] = np.eye(n)
        rows[:n, n] = -1.0  # no input above the output
        rows[n, :n], rows[n, n] = -1.0, 1.0  # no output above the sum of the inputs
        return (rows, np.zeros(n + 1)), None
