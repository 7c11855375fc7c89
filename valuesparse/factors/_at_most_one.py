"""At most one variable is on."""

from __future__ import annotations

import numpy as np

from valuesparse.factors._inputs import Inputs, Rows

__all__ = ["AtMostOne"]


class AtMostOne(Inputs):
    """At most one of some binary variables is on.

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
    All messages take O(k) operations, the projection O(k log k).

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> _ = graph.add([0], [0.0, 1.0])
    >>> _ = graph.add(vs.factors.AtMostOne(0, 1, 2))
    >>> [round(float(p[1]), 3) for p in vs.infer(graph).marginals]
    [0.475, 0.175, 0.175]
    """

    __slots__ = ()
    _kind = "AtMostOne"

    def _hull(self) -> tuple[Rows | None, Rows | None]:
        return (np.ones((1, len(self.scope))), np.ones(1)), None
