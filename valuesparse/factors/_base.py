"""The base class of factors: the methods that a new kind supplies."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse.errors import MemoryLimitError

__all__ = ["FEWER", "Factor", "require_small", "zeros"]

Array = npt.NDArray[Any]

#: Entries of the largest table that a factor is turned into without being asked.
_TABLE_LIMIT = 1 << 26
#: The advice where a table would be too large.
FEWER = (
    "use factors of fewer variables, or structured ones (valuesparse.factors), which need no table"
)
#: Configurations that a factor is asked about at a time.
_BLOCK = 1 << 16


def require_small(name: str, shape: Sequence[int]) -> None:
    """Raise MemoryLimitError when a table of this shape is not to be made."""
    if math.prod(shape) > _TABLE_LIMIT:
        raise _too_large(name, shape, f"at most {_TABLE_LIMIT:,} are made")


def zeros(name: str, shape: Sequence[int], count: int | None = None) -> npt.NDArray[np.float64]:
    """Return a table of zeros, or `count` of them; MemoryLimitError where there cannot be so many.

    Numpy's own error would show a shape with a number for each variable.
    """
    try:
        return np.zeros(tuple(shape) if count is None else (count, *shape))
    except (MemoryError, ValueError, OverflowError) as error:
        axes = isinstance(error, ValueError) and math.prod(shape) < 1 << 40
        why = "no array has so many axes" if axes else "there is no memory for it"
        raise _too_large(name, shape, why) from None


def _too_large(name: str, shape: Sequence[int], why: str) -> MemoryLimitError:
    """Return the error for a factor whose table would have this shape."""
    entries = math.prod(shape)
    if entries < 1 << 60:
        size = f"{entries:,} entries, {8 * entries:.3g} bytes"
    else:
        size = f"at least 2**{entries.bit_length() - 1} entries"
    return MemoryLimitError(
        f"{name} over {len(shape)} variables would be a table of {size}: {why}; {FEWER}"
    )


def set_once(factor: object, name: str, value: object) -> None:
    """Set an attribute that is not set yet; AttributeError otherwise."""
    if hasattr(factor, name):
        raise AttributeError(
            f"{type(factor).__name__} objects are read-only: make a new one, {name} cannot change"
        )
    object.__setattr__(factor, name, value)


class Factor(ABC):
    """A function of a few variables that multiplies the weight of a configuration.

    A new kind supplies :meth:`log_potential`: engines work on its :meth:`table`. One over many
    binary variables is a :class:`valuesparse.factors.Structured`, which needs none.

    Attributes
    ----------
    scope : tuple of int
        Its variables, in the order of its arguments.
    """

    __slots__ = ("scope",)

    scope: tuple[int, ...]
    #: Attributes that keep what they are given first: graphs check it once.
    _fixed: ClassVar[frozenset[str]] = frozenset({"scope"})

    def __setattr__(self, name: str, value: object) -> None:
        (set_once if name in self._fixed else object.__setattr__)(self, name, value)

    @abstractmethod
    def log_potential(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the log-potential of each row of `states`, (m, len(scope)) -> (m,)."""

    def table(self, cardinalities: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the log-table, of shape `cardinalities` (those of the scope).

        Raises
        ------
        MemoryLimitError
            When it would have more than 2**26 entries.
        """
        shape = tuple(int(c) for c in cardinalities)
        require_small(type(self).__name__, shape)
        size = math.prod(shape)
        table = np.empty(size)
        for first in range(0, size, _BLOCK):  # configurations take more memory than the table
            rows = np.arange(first, min(first + _BLOCK, size))
            states = np.empty((rows.size, len(shape)), dtype=np.int64)
            for axis, column in enumerate(np.unravel_index(rows, shape) if shape else ()):
                states[:, axis] = column
            table[rows] = self.checked_log_potential(states)
        return table.reshape(shape)

    def checked_log_potential(self, states: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return `log_potential` of these rows, which users write: what it gives is checked."""
        values = np.asarray(self.log_potential(states))
        if values.shape != (len(states),):
            raise ValueError(
                f"log_potential of {self!r} must return shape {(len(states),)}, a number for each "
                f"row of states, got {values.shape}"
            )
        if values.dtype.kind not in "fiub":
            raise TypeError(
                f"log_potential of {self!r} must return real numbers, got dtype {values.dtype}"
            )
        return values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.scope))})"
