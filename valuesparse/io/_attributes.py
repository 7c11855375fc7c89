"""Items as python-crfsuite takes them, turned into attribute numbers.

An item is a list of attributes, each of value 1, or a dict: ``{"a": 2.0}`` is attribute ``a`` of
value 2, ``{"a": "b"}`` is ``a:b`` of value 1, and ``{"a": item}`` prefixes ``a:`` to the attributes
of a nested item. Names are collected first and looked up in bulk, so that an attribute costs one
dictionary lookup and, in lists, no Python bytecode at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import compress, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Encoded", "encode_sequences"]

# Names looked up at once: enough to hide the cost of numpy calls, few enough to stay in cache.
_BLOCK = 1 << 16
_PLAIN = frozenset({list, set, tuple, frozenset})


class Encoded(NamedTuple):
    """A batch of N items in B sequences with M known attributes."""

    ids: npt.NDArray[np.int64]  # (M,), item after item, in the order given, repeats kept
    values: npt.NDArray[np.float64]  # (M,)
    sizes: npt.NDArray[np.int64]  # (N,) attributes of each item
    lengths: npt.NDArray[np.int64]  # (B,) items of each sequence


class _Names(NamedTuple):
    """Attributes waiting to be looked up; values other than 1 are kept apart."""

    names: list[Any]
    at: list[int]  # positions in names
    values: list[Any]  # the values there


def encode_sequences(xseqs: Iterable[Any], index: dict[str, int], single: bool = False) -> Encoded:
    """Look up the attributes of every item; unknown ones are left out.

    Parameters
    ----------
    xseqs : iterable of B sequences of items
        Each a sequence of items, or an object like ``pycrfsuite.ItemSequence`` whose ``items()``
        gives them.
    index : dict
        The number of each known attribute.
    single : bool
        Whether error messages shall speak of the one ``xseq``, not of ``xseqs``.

    Returns
    -------
    Encoded
        The known attributes.

    Raises
    ------
    TypeError
        A sequence, an item, a name or a value is of a wrong type.
    ValueError
        A value is NaN, infinite or too large for float64.
    """
    pending = _Names([], [], [])
    sizes: list[int] = []  # of the items since the last lookup
    lengths: list[int] = []
    blocks: list[tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]] = []
    first = 0  # the number, in the batch, of the first item since the last lookup

    def place(item: int) -> str:
        """Return the words for an item, by its number since the last lookup."""
        item += first
        s = 0
        while s < len(lengths) and item >= lengths[s]:
            item -= lengths[s]
            s += 1
        return f"xseq[{item}]" if single else f"xseqs[{s}][{item}]"

    names = pending.names
    for s, xseq in enumerate(xseqs):
        begin = first + len(sizes)
        for item in _items_of(xseq, "xseq" if single else f"xseqs[{s}]"):
            before = len(names)
            if type(item) in _PLAIN:
                names.extend(item)
            else:
                try:
                    _add_item(item, pending)
                except TypeError as error:
                    raise TypeError(f"{place(len(sizes))}: {error}") from None
            sizes.append(len(names) - before)
            if len(names) >= _BLOCK:
                blocks.append(_look_up(pending, sizes, index, place))
                first += len(sizes)
                for part in (*pending, sizes):
                    part.clear()
        lengths.append(first + len(sizes) - begin)
    blocks.append(_look_up(pending, sizes, index, place))
    ids, values, known = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return Encoded(ids, values, known, np.array(lengths, np.int64))


def _items_of(xseq: Any, where: str) -> Iterable[Any]:
    """Return the items of a sequence."""
    if isinstance(xseq, (str, bytes, Mapping)):
        raise TypeError(
            f"{where} must be a sequence of items, not {type(xseq).__name__}; "
            "wrap a single item in a list"
        )
    if hasattr(xseq, "__iter__"):
        return xseq
    if callable(getattr(xseq, "items", None)):
        return xseq.items()
    raise TypeError(f"{where} must be a sequence of items, not {type(xseq).__name__}")


def _add_item(item: Any, pending: _Names) -> None:
    """Append the attributes of an item that is not a plain list, tuple or set."""
    if isinstance(item, dict):
        _add_dict(item, "", pending)
    elif isinstance(item, (str, bytes, Mapping)) or not (
        isinstance(item, Iterable) and isinstance(item, Sized)
    ):
        raise TypeError(
            f"an item must be a list, set or dict of attributes, not {type(item).__name__}"
        )
    else:
        pending.names.extend(item)


def _add_dict(item: dict[Any, Any], prefix: str, pending: _Names) -> None:
    """Append the attributes of a dict, their names after ``prefix``."""
    names, at, values = pending
    for key, value in item.items():
        name = prefix + (key if type(key) is str else _text(key))
        kind = type(value)
        if kind is bool or kind is float or kind is int:
            at.append(len(names))
            names.append(name)
            values.append(value)
        elif kind is str:
            names.append(f"{name}:{value}")
        elif isinstance(value, dict):
            _add_dict(value, f"{name}:", pending)
        elif isinstance(value, (list, set)):
            names.extend([f"{name}:{_text(part)}" for part in value])
        elif isinstance(value, (str, bytes)):
            names.append(f"{name}:{_text(value)}")
        elif hasattr(kind, "__float__") or hasattr(kind, "__index__"):
            at.append(len(names))
            names.append(name)
            values.append(value)
        else:
            raise TypeError(
                f"attribute {name!r}: a value must be a number, bool, str, list, set or dict, "
                f"not {kind.__name__}"
            )


def _text(name: Any) -> str:
    """Return a name as text; bytes that are not UTF-8 become a text that no model knows."""
    if isinstance(name, str):
        return name
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    raise TypeError(f"an attribute's name must be str, not {type(name).__name__}: {name!r}")


def _look_up(
    pending: _Names, sizes: list[int], index: dict[str, int], place: Callable[[int], str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return ids, values and items' sizes of the known names; ``place`` words an item's place."""
    names, at, values = pending
    owner = np.repeat(np.arange(len(sizes)), sizes)
    try:
        ids = np.fromiter(map(index.get, names, repeat(-1)), np.int64, len(names))
    except TypeError:  # A name is not hashable; the checks below say which.
        ids = np.full(len(names), -1, np.int64)
    known = ids >= 0
    if not known.all():
        _retry(names, ids, owner, index, place)
        known = ids >= 0
    numbers = np.ones(len(names))
    try:
        numbers[at] = np.fromiter(map(float, values), np.float64, len(values))
    except (OverflowError, TypeError, ValueError):
        for i, value in zip(at, values, strict=True):
            try:
                float(value)
            except (OverflowError, TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{place(int(owner[i]))}: attribute {names[i]!r}: {error}") from None
        raise
    if not np.isfinite(numbers).all():
        i = int(np.isfinite(numbers).argmin())
        raise ValueError(
            f"{place(int(owner[i]))}: attribute {names[i]!r} has value {numbers[i]}; "
            "values must be finite"
        )
    return ids[known], numbers[known], np.bincount(owner[known], minlength=len(sizes))


def _retry(
    names: list[Any],
    ids: npt.NDArray[np.int64],
    owner: npt.NDArray[Any],
    index: dict[str, int],
    place: Callable[[int], str],
) -> None:
    """Check the types of the names not found, and look up those that have another spelling."""
    missing = (ids < 0).tolist()
    plain = set(map(type, compress(names, missing))) == {str}
    # As in C, a name ends at its first NUL; almost none has one.
    if plain and "\0" not in "".join(compress(names, missing)):
        return
    for i in np.flatnonzero(missing).tolist():
        try:
            name = _text(names[i])
        except TypeError as error:
            raise TypeError(f"{place(int(owner[i]))}: {error}") from None
        ids[i] = index.get(name.partition("\0")[0], -1)
