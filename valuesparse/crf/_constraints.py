"""Which labels each item may take, in the words of users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_array, is_frame, is_missing

__all__ = ["Allowed", "Masks", "as_mask", "require_entry", "require_rows"]

#: Labels that the items of a sequence may take: (n, K) bool, or for each item None (any label),
#: a label, or several.
Allowed: TypeAlias = (
    "npt.NDArray[np.bool_ | np.object_ | np.str_] | Sequence[str | Iterable[str] | None]"
)


def as_mask(
    allowed: Any, n: int, index: Mapping[str, int], where: str = "allowed"
) -> npt.NDArray[np.bool_] | None:
    """Return the labels allowed as an (n, K) bool array, or None for everything.

    Parameters
    ----------
    allowed : (n, K) array_like of bool, sequence of n entries, or None
        An entry is None (any label), the name of a label, or names of several.
    n : int
        Items of the sequence.
    index : mapping
        The number of each label.
    where : str
        The name of the argument in error messages.

    Raises
    ------
    TypeError
        An entry is of another kind.
    ValueError
        The shape or the number of entries is wrong, or a name is no label of the model.

    Examples
    --------
    >>> as_mask([None, "B", ("A", "B")], 3, {"A": 0, "B": 1}).tolist()
    [[True, True], [False, True], [True, True]]
    """
    if allowed is None:
        return None
    if isinstance(allowed, np.ndarray) and (allowed.ndim != 1 or allowed.dtype.kind not in "OUT"):
        return _checked(allowed, n, len(index), where)
    if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Iterable):
        raise TypeError(
            f"{where} must be an array of bool or have an entry for each item, "
            f"not be {type(allowed).__name__}"
        )
    require_rows(where, allowed)
    entries = list(allowed)
    if entries and all(_is_flags(entry) for entry in entries):
        return _checked(as_array(where, entries), n, len(index), where)
    if len(entries) != n:
        raise ValueError(
            f"{where} has {len(entries)} entries for {n} items; give one for each, None where "
            "any label will do"
        )
    mask = np.zeros((n, len(index)), bool)
    for i, entry in enumerate(entries):
        if entry is None:
            mask[i] = True
            continue
        require_entry(f"{where}[{i}]", entry)
        names = (entry,) if isinstance(entry, str) else entry
        if not isinstance(names, Iterable) or isinstance(names, bytes):
            raise TypeError(
                f"{where}[{i}] must be None, a label or several labels, not {type(entry).__name__}"
            )
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    f"{where}[{i}] must hold labels, which are str, not {type(name).__name__}"
                )
            if name not in index:
                raise ValueError(f"{where}[{i}]: {name!r} is no label of the model")
            mask[i, index[name]] = True
    return mask


def require_rows(where: str, allowed: Any) -> None:
    """Raise TypeError where `allowed` is a data frame, whose entries are its columns."""
    if is_frame(allowed):
        raise TypeError(
            f"{where} must be an array of bool or have an entry for each item, not be "
            f"{type(allowed).__name__}; give an array, its columns in the order of the labels"
        )


def require_entry(where: str, entry: Any) -> None:
    """Raise TypeError where an entry is a missing value, as gaps of a column are."""
    if is_missing(entry):
        raise TypeError(f"{where} is a missing value, {entry}; put None where any label will do")


def _is_flags(entry: Any) -> bool:
    """Return whether an entry is a row of bools."""
    if isinstance(entry, np.ndarray):
        return entry.dtype == np.bool_
    return isinstance(entry, (list, tuple)) and bool(entry) and type(entry[0]) is bool


def _checked(array: npt.NDArray[Any], n: int, k: int, where: str) -> npt.NDArray[np.bool_]:
    """Return an (n, K) array of bool, C-contiguous."""
    if array.shape != (n, k):
        raise ValueError(
            f"{where} must have shape {(n, k)}, a row for each item and a column for each label, "
            f"not {array.shape}"
        )
    if array.dtype != np.bool_:
        raise TypeError(f"{where} must be an array of bool, not of {array.dtype}")
    return np.ascontiguousarray(array)


class Masks:
    """The masks of a batch, handed out sequence by sequence.

    Parameters
    ----------
    allowed : iterable of B
        For each sequence what `as_mask` takes.
    index : mapping
        The number of each label.
    """

    def __init__(self, allowed: Iterable[Any], index: Mapping[str, int]) -> None:
        if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Iterable):
            raise TypeError(
                f"allowed must have an entry for each sequence, not be {type(allowed).__name__}"
            )
        self._rest: Iterator[Any] = iter(allowed)
        self._index = index

    def __call__(self, sequence: int, n: int) -> npt.NDArray[np.bool_] | None:
        """Return the mask of the next sequence, which has this number and n items."""
        try:
            allowed = next(self._rest)
        except StopIteration:
            raise ValueError(
                f"allowed has {sequence} entries, but there are more sequences; give one for "
                "each, None where any labels will do"
            ) from None
        return as_mask(allowed, n, self._index, f"allowed[{sequence}]")

    def finish(self, sequences: int) -> None:
        """Check that no mask is left over."""
        for _ in self._rest:
            raise ValueError(f"allowed has more entries than the {sequences} sequences")
