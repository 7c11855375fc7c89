"""The instances of a trainer: attributes and labels as numbers, in the order of their coming."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._crf import Dictionary, ItemSequence
from valuesparse._validation import as_items
from valuesparse.crf._constraints import require_entry, require_rows

__all__ = ["Corpus", "Dataset", "corpus_of"]

# Sequences kept apart before their arrays are joined: all of them are copied then.
_PARTS = 1 << 16


class _Labels(dict[Any, int]):
    """Numbers of labels, given in the order of their first use.

    Other spellings of a label (bytes, or what follows a NUL, at which a name ends in C) are kept
    beside it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __missing__(self, name: Any) -> int:
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"a label must be str, not {type(name).__name__}: {name!r}")
        try:
            plain = name.decode() if isinstance(name, bytes) else str(name)
            plain.encode()
        except UnicodeError:
            raise ValueError(f"label {name!r} is not UTF-8") from None
        plain = plain.partition("\0")[0]
        number = self.get(plain)
        if number is None:
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
    gold: npt.NDArray[np.int32]  # (N,), -1 where it is one of a set
    # Where not all labels are known: members of the set of each such item, none: any label.
    sets: npt.NDArray[np.int64] | None = None  # (N + 1,), where they begin
    members: npt.NDArray[np.int32] | None = None

    @property
    def n_sequences(self) -> int:
        return len(self.offset) - 1

    @property
    def n_items(self) -> int:
        return len(self.gold)


class Dataset:
    """Sequences of items with their labels, and the group of each."""

    def __init__(self) -> None:
        self.attributes = Dictionary()
        self.labels = _Labels()
        self.groups: list[int] = []
        self._gold: list[int] = []  # -1: one of a set
        self._sets: dict[int, list[int]] = {}  # of those items, where it is not any label
        # Per sequence (or per part of them): sizes of items, attributes, values.
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self.groups)

    def append(
        self,
        xseq: ItemSequence | Iterable[Any],
        yseq: Iterable[Any] | None,
        group: int,
        allowed: Any = None,
    ) -> None:
        """Add one sequence; nothing of it is kept when it is refused."""
        name, given = ("yseq", yseq) if allowed is None else ("allowed", allowed)
        if given is None or (allowed is not None and yseq is not None):
            raise ValueError(
                "give yseq, a label for each item, or allowed, labels that it may have"
            )
        encoded = self.attributes.encode(xseq, grow=True, single=True, characters=True)
        indptr, ids, values, _ = encoded
        if allowed is None:
            labels = as_items("yseq", given, "a sequence of labels")
        else:
            labels = label_sets(given)
        if len(labels) != len(indptr) - 1:
            raise ValueError(
                "The numbers of items and labels differ: "
                f"|x| = {len(indptr) - 1}, |y| = {len(labels)}"
            )
        gold: list[int] = []
        sets: dict[int, list[int]] = {}
        for i, label in enumerate(labels):
            try:
                if allowed is None:
                    gold.append(self.labels[label])
                    continue
                numbers = None if label is None else sorted({self.labels[x] for x in label})
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}[{i}]: {error}") from None
            one = numbers is not None and len(numbers) == 1
            gold.append(numbers[0] if one and numbers else -1)
            if numbers is not None and not one:
                sets[len(self._gold) + i] = numbers
        self._gold.extend(gold)
        self._sets |= sets
        self._lengths.append(len(gold))
        self._parts.append((np.diff(indptr), ids, values))
        if len(self._parts) >= _PARTS:
            self._join()
        self.groups.append(group)

    def _join(self) -> None:
        """Make one part of all."""
        if len(self._parts) > 1:
            self._parts = [tuple(map(np.concatenate, zip(*self._parts, strict=True)))]

    def corpus(self, wanted: npt.NDArray[np.bool_] | None = None) -> Corpus:
        """Return all sequences, or those `wanted` (B,)."""
        self._join()
        none = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))
        sizes, ids, values = self._parts[0] if self._parts else none
        gold, lengths = np.array(self._gold, np.int32), np.array(self._lengths, np.int64)
        place = np.arange(len(gold))
        if wanted is not None and not wanted.all():
            items = np.repeat(wanted, lengths)
            place = place[items]
            instances = np.repeat(items, sizes)
            ids, gold, sizes = ids[instances], gold[items], sizes[items]
            values, lengths = values[instances], lengths[wanted]
        return _joined(sizes, ids, values, lengths, gold, **self._members(place[gold < 0], place))

    def _members(
        self, partial: npt.NDArray[np.int64], place: npt.NDArray[np.int64]
    ) -> dict[str, Any]:
        """Return the sets of items, given the places here of those without a label and of all."""
        if not len(partial):
            return {}
        sets = [self._sets.get(i, []) for i in partial.tolist()]
        sizes = np.zeros(len(place), np.int64)
        sizes[np.searchsorted(place, partial)] = [len(one) for one in sets]
        members = np.fromiter((k for one in sets for k in one), np.int32)
        return {"sets": _ends(sizes), "members": members}


def corpus_of(xseqs: Iterable[Any], attributes: Dictionary) -> Corpus:
    """Return sequences as they are labelled: of no known labels, unknown attributes left out."""
    indptr, ids, values, lengths = attributes.encode(xseqs, characters=True)
    gold = np.zeros(len(indptr) - 1, np.int32)
    return _joined(np.diff(indptr), ids, values, lengths, gold)


def _joined(
    sizes: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int32],
    values: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    gold: npt.NDArray[np.int32],
    **sets: Any,
) -> Corpus:
    return Corpus(
        item=_ends(sizes),
        ids=np.ascontiguousarray(ids, np.int32),
        values=None if (values == 1.0).all() else np.ascontiguousarray(values, np.float64),
        offset=_ends(lengths),
        edge=_ends(np.maximum(lengths - 1, 0)),
        gold=gold,
        **sets,
    )


def label_sets(allowed: Any) -> list[list[Any] | None]:
    """Return the labels that each item may have as lists, None for any."""
    if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Iterable):
        raise TypeError(
            f"allowed must have an entry for each item, not be {type(allowed).__name__}"
        )
    require_rows("allowed", allowed)
    found: list[list[Any] | None] = []
    for i, entry in enumerate(allowed):
        if entry is None or isinstance(entry, (str, bytes)):
            found.append(None if entry is None else [entry])
            continue
        require_entry(f"allowed[{i}]", entry)
        if not isinstance(entry, Iterable) or isinstance(entry, np.ndarray):
            raise TypeError(
                f"allowed[{i}] must be None, a label or several labels, not {type(entry).__name__}"
            )
        found.append(list(entry))
        if not found[-1]:
            raise ValueError(f"allowed[{i}] is empty; None allows any label")
    return found


def _ends(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends
