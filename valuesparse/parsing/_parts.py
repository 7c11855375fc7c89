"""Scores of arcs and of pairs of arcs, checked."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _parsing
from valuesparse._validation import as_array, as_reals

__all__ = [
    "GRANDPARENTS",
    "SIBLINGS",
    "Kind",
    "Parts",
    "as_arcs",
    "as_nonprojective",
    "as_scores",
    "as_triples",
    "as_whole",
    "numbered",
    "refused",
    "require_own",
    "require_scores",
]

Array = npt.NDArray[Any]
#: Triples (m, 3), or arcs (m, 2), and log-potentials (m,).
Parts = tuple[npt.ArrayLike, npt.ArrayLike]


class Kind(NamedTuple):
    """A kind of triples of words: the two arcs of one, as columns (head, modifier) of each."""

    words: str
    first: tuple[int, int]
    second: tuple[int, int]


SIBLINGS = Kind("(h, m, s)", (0, 1), (0, 2))
GRANDPARENTS = Kind("(g, h, m)", (0, 1), (1, 2))


def refused(place: str, value: float) -> ValueError:
    """Return the error for a score that is none."""
    few, every = f"{value:+g}", f"{float(value):+}"
    # In few digits what is just beyond the largest would look like it.
    shown = "NaN" if math.isnan(value) else few if float(few) == value else every
    return ValueError(
        f"{place} is {shown}; scores must be finite, at most {_parsing.LARGEST:g} in magnitude, or "
        "-inf (which forbids)"
    )


def require_scores(name: str, values: Array) -> None:
    """Raise the error of the first number of a row that is no score."""
    if np.abs(values).max(initial=0.0) <= _parsing.LARGEST:  # quick, and false for NaN
        return
    bad = _bad(values)
    if bad.any():
        at = int(bad.argmax())
        raise refused(f"{name}[{at}]", float(values[at]))


def _bad(scores: Array) -> Array:
    return ~((scores <= _parsing.LARGEST) & ((scores >= -_parsing.LARGEST) | np.isneginf(scores)))


def as_scores(name: str, value: npt.ArrayLike) -> Array:
    """Return the scores of one sentence, (n + 1, n + 1) float64."""
    scores = np.asarray(as_reals(name, value), dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or not scores.size:
        raise ValueError(f"{name} must be square, (words + 1, words + 1), got {scores.shape}")
    bad = _bad(scores)
    bad[:, 0] = False
    np.fill_diagonal(bad, False)
    if bad.any():
        h, m = (int(i) for i in np.unravel_index(bad.argmax(), bad.shape))
        raise refused(f"{name}[{h}, {m}]", float(scores[h, m]))
    return scores


def as_triples(name: str, given: Any, columns: int = 3) -> tuple[Array, Array]:
    """Return triples (m, 3) int64 and their log-potentials (m,) float64; None: there are none."""
    if given is None:
        return np.empty((0, columns), dtype=np.int64), np.empty(0)
    try:
        triples, weights = given
    except (TypeError, ValueError):
        what = "triples" if columns == 3 else "arcs"
        raise ValueError(f"{name} must be a pair of arrays, ({what}, weights)") from None
    rows = as_array(f"{name}[0]", triples)
    values = np.asarray(as_reals(f"{name}[1]", weights), dtype=np.float64)
    if rows.size == 0:
        rows = np.empty((0, columns), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != columns or rows.dtype.kind not in "iu":
        raise ValueError(
            f"{name}[0] must be whole numbers of shape (m, {columns}), got {rows.dtype} of shape "
            f"{rows.shape}"
        )
    if values.shape != rows.shape[:1]:
        raise ValueError(
            f"{name}[1] must have a number for each of {len(rows)} triples, got shape "
            f"{values.shape}"
        )
    require_scores(f"{name}[1]", values)
    return np.ascontiguousarray(rows, dtype=np.int64), values


def numbered(scores: Array) -> Array:
    """Return the number of each arc, (n + 1, n + 1), -1 where there is none: scores of -inf.

    Modifiers ascend, and heads within.
    """
    usable = np.asarray(scores > -np.inf)
    usable[:, 0] = False
    np.fill_diagonal(usable, False)
    number = np.cumsum(usable.T).reshape(usable.shape).T - 1
    return np.where(usable, number, -1)


def as_arcs(name: str, rows: Array, number: Array, kind: Kind) -> Array:
    """Return the arcs of each pair, (m, 2), by the numbers of `numbered`."""

    def refuse(bad: Any, why: str) -> None:
        if bad.any():
            at = int(bad.argmax())
            raise ValueError(f"{name}[0][{at}] is {tuple(rows[at].tolist())}: {why}")

    n = len(number) - 1
    refuse(((rows < 0) | (rows > n)).any(axis=1), f"words of {kind.words} count from 0 to {n}")
    for a, b in ((0, 1), (0, 2), (1, 2)):
        refuse(rows[:, a] == rows[:, b], f"{kind.words} are three different words")
    arcs = np.stack([number[rows[:, h], rows[:, m]] for h, m in (kind.first, kind.second)], axis=1)
    for column, (h, m) in enumerate((kind.first, kind.second)):
        missing = arcs[:, column] < 0
        if missing.any():
            head, modifier = rows[int(missing.argmax()), [h, m]].tolist()
            what = "the root has no head" if modifier == 0 else "its score is -inf"
            refuse(missing, f"there is no arc ({head}, {modifier}), {what}")
    # The same two arcs in another order are the same pair.
    keys = np.sort(arcs, axis=1) @ np.array([max(number.size, 1), 1])
    first, where = np.unique(keys, return_index=True)
    again = np.ones(len(rows), dtype=np.bool_)
    again[where] = False
    if again.any():
        at = int(again.argmax())
        refuse(again, f"the same pair as {name}[0][{where[np.searchsorted(first, keys[at])]}]")
    return arcs


def as_nonprojective(given: Any, number: Array) -> tuple[Array, Array]:
    """Return arcs that may be non-projective, (m,) by `numbered`, and their log-potentials."""
    rows, weights = as_triples("nonprojective", given, 2)
    n = len(number) - 1
    seen: dict[tuple[int, int], int] = {}
    for i, (h, m) in enumerate(rows.tolist()):
        place = f"nonprojective[0][{i}] is {(h, m)}"
        if not (0 <= h <= n and 0 <= m <= n):
            raise ValueError(f"{place}: words of (h, m) count from 0 to {n}")
        if number[h, m] < 0:
            raise ValueError(f"{place}: there is no such arc, its score is -inf")
        if h == 0 or abs(h - m) == 1:
            raise ValueError(f"{place}: no word between these can fail to descend from {h}")
        if seen.setdefault((h, m), i) != i:
            raise ValueError(f"{place}, as nonprojective[0][{seen[h, m]}]: list it once")
    return number[rows[:, 0], rows[:, 1]], weights


def as_whole(name: str, value: Any) -> npt.NDArray[Any]:
    """Return whole numbers, one after the other, of the type that they have."""
    array = as_array(name, value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be whole numbers, one after the other, got {array.dtype} of shape "
            f"{array.shape}"
        )
    return array


def require_own(name: str, array: Any, dtype: Any, size: int) -> None:
    """Refuse what the engine cannot change as it stands."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        got = getattr(array, "dtype", None) or type(array).__name__
        raise TypeError(f"{name} must be an array of {np.dtype(dtype)}, not {got}")
    if array.shape != (size,):
        raise ValueError(
            f"{name}: an array of {size} numbers is wanted, not of shape {array.shape}"
        )
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name} must be contiguous: it is changed as it stands")
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only, and would be changed: give a copy")
