"""Exactly one variable is on."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from valuesparse.factors._structured import NativeStructured, Polytope

__all__ = ["Xor"]


class Xor(NativeStructured):
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
    of both states have their digits whatever the scores.

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

    __slots__ = ("negated",)

    negated: tuple[int, ...]
    _fixed = frozenset({"scope", "negated"})

    def __init__(self, *variables: int, negated: Sequence[int] = ()) -> None:
        super().__init__(variables)
        self.negated = tuple(sorted({operator.index(i) for i in negated}))
        for i in self.negated:
            if not 0 <= i < len(variables):
                raise ValueError(
                    f"negated has place {i}: Xor has {len(variables)} variables, places from 0"
                )

    @property
    def _given(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.negated

    def polytope(self) -> Polytope:
        """Return ``(A_ub, b_ub, A_eq, b_eq, auxiliary)``: the inputs sum to one."""
        signs = np.ones((1, len(self.scope)))
        signs[0, list(self.negated)] = -1.0
        none = sparse.csr_array((0, len(self.scope)))
        return none, np.empty(0), sparse.csr_array(signs), np.array([1.0 - len(self.negated)]), 0

    def __repr__(self) -> str:
        negated = f", negated={self.negated}" if self.negated else ""
        return f"Xor({', '.join(map(str, self.scope))}{negated})"
