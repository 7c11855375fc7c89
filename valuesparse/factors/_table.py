"""The factor that is a table: one, and many in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.factors._base import Factor, set_once

__all__ = ["Table", "Tables"]


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


class Tables:
    """Many tables of one shape, checked and in columns: no object for each.

    Parameters
    ----------
    scopes : ndarray of int64, shape (m, k)
        Variable numbers of each.
    log_tables : ndarray of float64, shape (m, ...)
        Log-potentials, an axis for each variable; a table that all share has a step of 0.

    Attributes
    ----------
    scopes, log_tables : ndarray
        Read-only.
    """

    __slots__ = ("log_tables", "scopes")

    scopes: npt.NDArray[np.int64]
    log_tables: npt.NDArray[np.float64]

    def __init__(self, scopes: npt.NDArray[np.int64], log_tables: npt.NDArray[np.float64]) -> None:
        self.scopes, self.log_tables = scopes, log_tables
        scopes.flags.writeable = log_tables.flags.writeable = False

    def __setattr__(self, name: str, value: object) -> None:
        set_once(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # A table that all share is written once.
        shared = len(self) > 1 and self.log_tables.strides[0] == 0
        return _unpickled, (self.scopes, self.log_tables[: 1 if shared else len(self)])

    def __len__(self) -> int:
        return len(self.scopes)

    def __getitem__(self, index: int) -> Table:
        """Return one of them as an object."""
        return Table(self.scopes[index].tolist(), self.log_tables[index, ...])

    def objects(self, cardinalities: npt.NDArray[np.int64]) -> list[Table]:
        """Return all of them as objects."""
        return list(map(Table, self.scopes.tolist(), self.tables(cardinalities)))

    def take(self, index: npt.NDArray[Any] | slice) -> Tables:
        """Return some of them: `index` is a slice or an array of positions."""
        tables = self.log_tables
        if len(self) and tables.strides[0] == 0:
            scopes = self.scopes[index]
            return Tables(scopes, np.broadcast_to(tables[0], (len(scopes), *tables.shape[1:])))
        return Tables(self.scopes[index], tables[index])

    def stack(self, cardinalities: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the log-tables in one array, (m, ...)."""
        return self.log_tables

    def tables(self, cardinalities: npt.NDArray[np.int64]) -> list[npt.NDArray[np.float64]]:
        """Return the log-table of each."""
        tables = self.log_tables
        return [tables[i, ...] for i in range(len(self))]

    def __repr__(self) -> str:
        return f"Tables({len(self)} of {self.scopes.shape[1]} variables)"


def _unpickled(scopes: npt.NDArray[np.int64], tables: npt.NDArray[np.float64]) -> Tables:
    return Tables(scopes, np.broadcast_to(tables, (len(scopes), *tables.shape[1:])))
