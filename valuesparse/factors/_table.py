"""The factor that is a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from valuesparse.factors._base import Factor

__all__ = ["Table"]


class Table(Factor):
    """A log-table over any variables.

    Parameters
    ----------
    scope : sequence of int
        The variables, one per axis of `log_table`.
    log_table : ndarray of float64
        Log-potentials; −inf forbids.

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.factors import Table
    >>> f = Table((3, 5), np.zeros((2, 4)))
    >>> f, f.log_potential(np.array([[1, 2]])).tolist()
    (Table(3, 5), [0.0])
    """

    __slots__ = ("log_table",)

    log_table: npt.NDArray[np.float64]
    _fixed = frozenset({"scope", "log_table"})

    def __init__(self, scope: Sequence[int], log_table: npt.NDArray[np.float64]) -> None:
        self.scope = tuple(scope)
        self.log_table = log_table

    def log_potential(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the entries at `states`, (m, len(scope)) -> (m,)."""
        return (
            self.log_table[tuple(states.T)]
            if self.scope
            else np.full(len(states), float(self.log_table))
        )

    def table(self, cardinalities: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the table itself."""
        return self.log_table
