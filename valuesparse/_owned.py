"""Arrays that a model keeps: nobody else can write to them."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["owned"]

Array = npt.NDArray[Any]


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
