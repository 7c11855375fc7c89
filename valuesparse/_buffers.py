"""Memory for large arrays, used again: the system clears each page that is touched first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._pool import Memory

__all__ = ["concatenate", "copied", "empty", "grown", "zeros"]

# Smaller arrays come from numpy, whose memory is as warm as it gets. Larger ones may go back to
# the system at once (malloc begins to do so at 128 KiB), and each of their pages then takes 2 µs.
_LARGE = 1 << 18


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array as ``np.empty`` does; a large one reuses the memory of an earlier result."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < _LARGE:
        return np.empty(shape, kind)
    return np.frombuffer(memoryview(Memory(size)), np.uint8).view(kind).reshape(shape)


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array as ``np.zeros`` does."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def copied(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array as ``np.copy`` does."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def grown(memory: npt.NDArray[Any], rows: int, most: int) -> npt.NDArray[Any]:
    """Return `memory`, or a block in its place where it has too few rows, of `most` or more."""
    if memory.shape[0] >= rows:
        return memory
    return empty((max(rows, most), memory.shape[1]), memory.dtype)


def concatenate(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return vectors of one type, one after the other; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    size = sum(part.size for part in parts)
    return np.concatenate(parts, out=empty((size,), parts[0].dtype))
