"""Arrays and mappings that a model keeps: nobody else can write to them."""

from __future__ import annotations

import mmap
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

__all__ = ["ReadOnly", "owned"]

Array = npt.NDArray[Any]


class ReadOnly(dict[Any, Any]):
    """A dict that keeps what it was made of."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is read-only: take a dict of it, or call set_evidence")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[Any, Any]]]:
        return type(self), (dict(self),)


def owned(value: Any, array: Array) -> Array:
    """Return `array`, which was made of what a user gave, read-only: a copy if it is shared.

    One that was made for us is kept, and so is one that nobody can write to.
    """
    new = isinstance(value, (list, tuple, int, float)) or (
        isinstance(value, np.ndarray) and array is not value and array.base is None
    )
    if not new and _is_written(array):
        array = array.copy()
    array.flags.writeable = False
    return array


def _is_written(array: Any) -> bool:
    """Return whether somebody may write to the memory of an array."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return not (array is None or isinstance(array, (bytes, mmap.mmap)))
