"""Exactly one variable is on, or as many as an output says."""

from __future__ import annotations

import numpy as np

from valuesparse.factors._inputs import Inputs, Rows

__all__ = ["Xor", "XorOut"]


class Xor(Inputs):
    """Exactly one of some binary variables is on (MSFXM10).

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
    All messages take O(k) operations. No sum is subtracted from another, so that the probabilities
    of both states have their digits whatever the scores. The projection takes O(k log k).

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> _ = graph.add([0], [0.0, 1.0])
    >>> _ = graph.add(vs.factors.Xor(0, 1, 2))
    >>> r = vs.infer(graph)
    >>> r.method, [round(float(p[1]), 3) for p in r.marginals]
    ('exact', [0.576, 0.212, 0.212])
    """

    __slots__ = ()
    _kind = "Xor"

    def _hull(self) -> tuple[Rows | None, Rows | None]:
        return None, (np.ones((1, len(self.scope))), np.ones(1))


class XorOut(Xor):
    """At most one input is on, and the output, the last variable, says whether (MSFXM10).

    It is an `Xor` whose last variable is negated.

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

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> _ = graph.add([2], [0.0, 1.0])
    >>> _ = graph.add(vs.factors.XorOut(0, 1, 2))
    >>> [round(float(p[1]), 3) for p in vs.infer(graph).marginals]
    [0.422, 0.422, 0.845]
    """

    __slots__ = ()

    @property
    def _flipped(self) -> tuple[int, ...]:
        return self._toggled([len(self.scope) - 1])
