"""Marginals that are worth to be listed, instead of an array of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._buffers import concatenate, copied, empty

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Listed", "joined", "listed"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

#: Entries of rows that are sorted at once, in cache.
_BLOCK = 1 << 17


class Listed(NamedTuple):
    """Rows of marginals, of which each lists some labels and what they have."""

    start: Integers  # (n + 1,) where each row begins
    labels: npt.NDArray[np.int32]  # ascending in each row
    values: Array  # of the model's type
    unlisted: npt.NDArray[np.float64]  # (n,) the most that any other label has

    def rows(self) -> Integers:
        """Return the row of each entry."""
        return np.repeat(np.arange(self.start.size - 1), np.diff(self.start))

    def at_least(self, least: float) -> Listed:
        """Return the entries >= `least` and the largest of each row."""
        row = self.rows()
        largest = self._largest(self.values)
        # Where nothing is large enough, the first of those that are largest.
        best = np.flatnonzero(self.values == largest[row])
        first = best[np.diff(row[best], prepend=-1) > 0]
        kept = self.values >= self.values.dtype.type(least)
        kept[first] = True
        size = np.bincount(row[kept], minlength=self.unlisted.size)
        start = np.concatenate([[0], np.cumsum(size)])
        rest = np.maximum(self.unlisted, self._largest(np.where(kept, 0, self.values)))
        return Listed(start, self.labels[kept], self.values[kept], rest)

    def _largest(self, values: Array) -> Array:
        """Return the largest of each row of entries; every row has one."""
        return np.maximum.reduceat(values, self.start[:-1]) if values.size else values

    def chosen(self, order: Integers) -> Listed:
        """Return some rows, or all in another order: row i is row ``order[i]`` of these."""
        size = np.diff(self.start)[order]
        start = np.concatenate([[0], np.cumsum(size)])
        entries = np.repeat(self.start[order] - start[:-1], size) + np.arange(start[-1])
        return Listed(start, self.labels[entries], self.values[entries], self.unlisted[order])

    def top(self, k: int, threads: int) -> tuple[Integers, Array]:
        """Return the labels and values (n, k) of the largest; −1 and 0 beyond those listed."""
        n, sizes = self.unlisted.size, np.diff(self.start)
        labels, values = empty((n, k), np.int64), empty((n, k), self.values.dtype)
        at_once = max(1, _BLOCK // max(k, int(sizes.max(initial=0))))
        for first in range(0, n, at_once):
            rows = slice(first, first + at_once)
            size, start = sizes[rows, None], self.start[:-1][rows, None]
            # Side by side in a row, labels still ascend, and zeros after them lose every tie.
            width = max(k, int(size.max()))
            dense = np.zeros((size.size, width), dtype=values.dtype)
            last = start[-1, 0] + size[-1, 0]
            dense[np.arange(width) < size] = self.values[start[0, 0] : last]
            place, values[rows] = _forest.top(dense, k, threads)
            there = place < size
            labels[rows] = np.where(there, self.labels[np.where(there, start + place, 0)], -1)
        return labels, values

    def dense(self, n_labels: int) -> Array:
        """Return the rows (n, K), zeros where nothing is listed."""
        answer = np.zeros((self.unlisted.size, n_labels), dtype=self.values.dtype)
        answer[self.rows(), self.labels] = self.values
        return answer

    def csr(self, n_labels: int) -> csr_array:
        """Return the rows as a sparse array."""
        from scipy.sparse import csr_array

        narrow = self.values.size <= np.iinfo(np.int32).max
        start = self.start.astype(np.int32) if narrow else self.start
        labels = copied(self.labels) if narrow else self.labels.astype(np.int64)
        shape = (self.unlisted.size, n_labels)
        return csr_array((copied(self.values), labels, start), shape=shape)


def listed(marginals: Array, least: float, threads: int) -> Listed:
    """Return the entries >= `least` of rows (n, K), and the largest of each."""
    n = marginals.shape[0]
    start = _forest.count_listed(marginals, least, threads)
    found = Listed(
        start, empty((start[-1],), np.int32), empty((start[-1],), marginals.dtype), np.empty(n)
    )
    _forest.listed(marginals, least, threads, *found)
    return found


def joined(parts: list[Listed]) -> Listed:
    """Return the rows of all parts, one after the other."""
    first = np.cumsum([0, *(part.values.size for part in parts)])
    start = [part.start[:-1] + at for part, at in zip(parts, first[:-1], strict=True)]
    return Listed(
        np.concatenate([*start, first[-1:]]),
        concatenate([part.labels for part in parts]),
        concatenate([part.values for part in parts]),
        concatenate([part.unlisted for part in parts]),
    )
