"""Features with names: those that a treebank has, counted."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _parser
from valuesparse._validation import as_choice, as_count
from valuesparse.parsing._parts import as_whole

__all__ = [
    "FEATURES",
    "Dictionary",
    "as_features",
    "as_min_count",
    "counted",
    "featureless",
    "not_ascending",
    "require_order",
]

Array = npt.NDArray[Any]

#: How a model knows its features: by lines that keys share, or by a dictionary of those of trees,
#: or of those of all parts.
FEATURES = ("hashed", "supported", "complete")
# Bits of so many keys are spread out at once.
_ROWS = 1 << 20
# The arrays of a dictionary are of these types.
_DTYPES: tuple[type[np.integer[Any]], ...] = (np.int64, np.uint32, np.uint16, np.uint32)


def as_features(features: str) -> str:
    """Return how a model knows its features, once it is checked."""
    return as_choice("features", features, FEATURES, "not")


def as_min_count(min_count: int, counted: bool) -> int:
    """Return how often a feature has to be met; ValueError where features are not counted."""
    least = as_count("min_count", min_count, at_least=1)
    if least > 1 and not counted:
        raise ValueError(
            f"min_count={least} wants features='supported' or 'complete', which are counted"
        )
    return least


class Dictionary(NamedTuple):
    """The features of K keys, counted over a treebank.

    A key is a template of features with values in its places, of which 32 bits of a hash are kept.
    Its features are the key alone, and with each direction and distance that it was met with. The
    weights of a model stand in the order of keys, those of a key side by side.
    """

    sizes: Array  #: (templates,) int64: how many keys each has, arcs before pairs
    keys: Array  #: (K,) uint32, ascending in each template
    slots: Array  #: (K,) uint16: a bit for each feature
    counts: Array  #: (K,) uint32: how often the key was met

    def checked(self, called: str) -> Dictionary:
        """Return it as the engine reads it; ValueError where it is none, by what it is called."""
        given = [as_whole(f"{called}.{name}", x) for name, x in self._asdict().items()]
        for name, array, dtype in zip(self._fields, given, _DTYPES, strict=True):
            info = np.iinfo(dtype)
            bad = (array < max(info.min, 0)) | (array > info.max)
            if bad.any():
                at = int(bad.argmax())
                raise ValueError(f"{called}.{name}[{at}] is {array[at]}, not 0 to {info.max}")
        found = Dictionary(*map(np.ascontiguousarray, given, _DTYPES))
        # As Python's integers, whose sums are not cut off.
        total = sum(found.sizes.tolist())
        for name, array in zip(self._fields[1:], found[1:], strict=True):
            if len(array) != total:
                raise ValueError(
                    f"{called}.{name} has {len(array)} entries, {called}.sizes sum to {total}"
                )
        for name, bad, text in (
            ("keys", not_ascending(found), "not above the one before, of the same template"),
            ("slots", featureless(found), "and says of no feature"),
        ):
            if len(bad):
                at = int(bad[0])
                value = getattr(found, name)[at]
                raise ValueError(f"{called}.{name}[{at}] is {value}, {text}")
        return found

    @property
    def native(self) -> tuple[Array, Array, Array]:
        """The arrays that the engine reads."""
        return self.sizes, self.keys, self.slots

    @property
    def n_features(self) -> int:
        """The number of features, each of which has a weight."""
        return int(_ones()[self.slots].sum(dtype=np.int64))

    def of_arcs(self) -> Dictionary:
        """Return the keys of arcs alone."""
        sizes = self.sizes[: _parser.templates_of_parts(1)]
        own = slice(int(sizes.sum()))
        return Dictionary(sizes, self.keys[own], self.slots[own], self.counts[own])

    def used(self, weights: Array) -> Dictionary:
        """Return the features whose weight is not 0."""
        slots = np.zeros_like(self.slots)
        at = 0
        for first in range(0, len(self.slots), _ROWS):
            row = self.slots[first : first + _ROWS].astype("<u2")
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")
            there = np.flatnonzero(bits)
            bits[there] = weights[at : at + len(there)] != 0.0
            at += len(there)
            slots[first : first + _ROWS] = np.packbits(bits, bitorder="little").view("<u2")
        kept = slots != 0
        ends = np.cumsum(self.sizes)
        total = np.concatenate([[0], np.cumsum(kept)])
        sizes = np.diff(total[ends], prepend=0).astype(np.int64)
        return Dictionary(sizes, self.keys[kept], slots[kept], self.counts[kept])


def not_ascending(dictionary: Dictionary) -> Array:
    """Return the positions of keys that are not above the one before, in the same template."""
    bad = np.flatnonzero(dictionary.keys[1:] <= dictionary.keys[:-1]) + 1
    return bad[~np.isin(bad, np.cumsum(dictionary.sizes))]


def featureless(dictionary: Dictionary) -> Array:
    """Return the positions of keys that have no feature."""
    return np.flatnonzero(dictionary.slots == 0)


@cache
def _ones() -> Array:
    """Return how many bits each number of 16 bits has."""
    numbers = np.arange(1 << 16, dtype="<u2").view(np.uint8).reshape(-1, 2)
    return np.unpackbits(numbers, axis=1).sum(axis=1, dtype=np.uint8)


def require_order(dictionary: Dictionary, sets: int) -> None:
    """Refuse a dictionary of another order than `sets`, that of a model as the engine takes it."""
    templates = len(dictionary.sizes)
    if templates == _parser.templates_of_parts(sets):
        return
    names = ("0", "1", "2", "2 with non-projective arcs")
    own = [name for k, name in enumerate(names) if templates == _parser.templates_of_parts(k)]
    whose = f"a model of order {own[0]}" if own else "no model"
    raise ValueError(f"features is the dictionary of {whose}, order is {names[sets]}")


def counted(
    arrays: tuple[Array, Array, Array],
    arcs: tuple[Array, Array, Array] | None,
    order: int,
    features: str,
    min_count: int,
    threads: int,
) -> Dictionary:
    """Return the features of the trees of a treebank, or of all parts.

    Raises
    ------
    ValueError
        There are too many.
    """
    found = _parser.count_features(
        *arrays, arcs, order, features == "supported", min_count, threads
    )
    if found is None:
        raise ValueError(
            f"features={features!r} has more than {_parser.MOST_KEYS} keys; take a pruner, fewer "
            "sentences or a larger min_count"
        )
    return Dictionary(*found)
