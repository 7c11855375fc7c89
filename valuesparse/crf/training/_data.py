"""The instances of a trainer: attributes and labels as numbers, in the order of their coming."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.io._attributes import _PLAIN, _add_item, _items_of, _Names, _text

__all__ = ["Corpus", "Dataset"]

# Numbers kept in a list before they become an array.
_PART = 1 << 16


class _Index(dict[Any, int]):
    """Numbers of names, given in the order of their first use.

    Other spellings of a name (bytes, or what follows a NUL, at which a name ends in C) are kept
    beside it.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.names: list[str] = []

    def __missing__(self, name: Any) -> int:
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"{self.what} must be str, not {type(name).__name__}: {name!r}")
        plain = str(_text(name)).partition("\0")[0]
        number = self.get(plain)
        if number is None:
            try:
                plain.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{self.what} {name!r} is not UTF-8") from None
            number = len(self.names)
            self.names.append(plain)
            self[plain] = number
        self[name] = number
        return number


class Corpus(NamedTuple):
    """N items in B sequences with M attributes, as the engine takes them."""

    item: npt.NDArray[np.int64]  # (N + 1,), where the attributes of each item begin
    ids: npt.NDArray[np.int32]  # (M,)
    values: npt.NDArray[np.float64] | None  # (M,), None: all 1
    offset: npt.NDArray[np.int64]  # (B + 1,), where each sequence begins
    edge: npt.NDArray[np.int64]  # (B + 1,), and its edges
    gold: npt.NDArray[np.int32]  # (N,)

    @property
    def n_sequences(self) -> int:
        return len(self.offset) - 1

    @property
    def n_items(self) -> int:
        return len(self.gold)


class _Numbers:
    """A long array of integers that grows at its end."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.parts: list[npt.NDArray[Any]] = []
        self.last: list[int] = []

    def extend(self, values: Iterable[int]) -> None:
        self.last.extend(values)
        if len(self.last) >= _PART:
            self.parts.append(np.array(self.last, self.dtype))
            self.last = []

    def array(self) -> npt.NDArray[Any]:
        parts = [*self.parts, np.array(self.last, self.dtype)]
        self.parts, self.last = [np.concatenate(parts)], []
        return self.parts[0]


class Dataset:
    """Sequences of items with their labels, and the group of each."""

    def __init__(self) -> None:
        self.attributes = _Index("an attribute's name")
        self.labels = _Index("a label")
        self.groups: list[int] = []
        self._ids = _Numbers(np.int32)
        self._sizes = _Numbers(np.int64)
        self._gold = _Numbers(np.int32)
        self._lengths = _Numbers(np.int64)
        self._at: list[int] = []  # attributes whose value is not 1
        self._values: list[float] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self.groups)

    def append(self, xseq: Iterable[Any], yseq: Iterable[Any], group: int) -> None:
        """Add one sequence; nothing of it is kept when it is refused."""
        ids: list[int] = []
        sizes: list[int] = []
        at: list[int] = []
        values: list[float] = []
        number = self.attributes.__getitem__
        for i, item in enumerate(_items_of(xseq, "xseq")):
            before = len(ids)
            try:
                if type(item) in _PLAIN:
                    ids.extend(map(number, item))
                else:
                    found = _Names([], [], [])
                    _add_item(item, found)
                    for j, value in zip(found.at, found.values, strict=True):
                        number_of = float(value)
                        if not math.isfinite(number_of):
                            raise ValueError(
                                f"attribute {found.names[j]!r} has value {number_of}; "
                                "values must be finite"
                            )
                        if number_of != 1.0:
                            at.append(before + j)
                            values.append(number_of)
                    ids.extend(map(number, found.names))
            except (TypeError, ValueError, OverflowError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"xseq[{i}]: {error}") from None
            sizes.append(len(ids) - before)
        labels = list(yseq)
        if len(labels) != len(sizes):
            raise ValueError(
                "The numbers of items and labels differ: "
                f"|x| = {len(sizes)}, |y| = {len(labels)}"
            )
        gold: list[int] = []
        for i, label in enumerate(labels):
            try:
                gold.append(self.labels[label])
            except (TypeError, ValueError) as error:
                raise type(error)(f"yseq[{i}]: {error}") from None
        self._at.extend(self._count + j for j in at)
        self._values.extend(values)
        self._count += len(ids)
        self._ids.extend(ids)
        self._sizes.extend(sizes)
        self._gold.extend(gold)
        self._lengths.extend([len(gold)])
        self.groups.append(group)

    def corpus(self, wanted: npt.NDArray[np.bool_] | None = None) -> Corpus:
        """Return all sequences, or those `wanted` (B,)."""
        ids, gold = self._ids.array(), self._gold.array()
        sizes, lengths = self._sizes.array(), self._lengths.array()
        values: npt.NDArray[np.float64] | None = None
        if self._at:
            values = np.ones(len(ids))
            values[self._at] = self._values
        if wanted is not None and not wanted.all():
            items = np.repeat(wanted, lengths)
            instances = np.repeat(items, sizes)
            ids, gold, sizes = ids[instances], gold[items], sizes[items]
            values = None if values is None else values[instances]
            lengths = lengths[wanted]
        return Corpus(
            item=_ends(sizes),
            ids=ids,
            values=values,
            offset=_ends(lengths),
            edge=_ends(np.maximum(lengths - 1, 0)),
            gold=gold,
        )


def _ends(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends
