"""Base of models of chains and trees, which stay as they are, and sequences laid end to end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._validation import as_array, as_lengths, as_reals, as_states, as_vector

__all__ = ["Immutable", "begins", "frozen", "held", "join", "laid_out", "mask", "vector"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


class Immutable:
    """A model whose fields are set once, when it is made."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        kind = type(self).__name__
        raise AttributeError(f"a {kind} is immutable; build a new one to change {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name} cannot be deleted")


def begins(lengths: Integers) -> tuple[Integers, Integers]:
    """Return where each sequence begins, and its edges (B + 1,)."""
    offset = np.zeros(lengths.shape[0] + 1, dtype=np.int64)
    np.cumsum(lengths, out=offset[1:])
    edge = np.zeros_like(offset)
    np.cumsum(lengths - (lengths > 0), out=edge[1:])
    return offset, edge


def laid_out(given: Any, n: int) -> tuple[Integers, Integers, Integers]:
    """Return the lengths of sequences of n positions in all, and where positions and edges begin.

    `given` None: one sequence. The arrays are read-only.
    """
    if given is not None:
        size = as_lengths(given, n)
        offset, edge = begins(size)
    else:
        size, offset = np.array([n], dtype=np.int64), np.array([0, n], dtype=np.int64)
        edge = np.array([0, max(n - 1, 0)], dtype=np.int64)
    _forest.freeze(size, offset, edge)
    return size, offset, edge


def join(unary: Any, lengths: Any) -> tuple[Array, Any, list[Array]]:
    """One (N, K) array, the lengths, and the parts joined, from either form of `unary`."""
    parts: list[Array] = []
    if _holds_arrays(unary):
        if lengths is not None:
            raise ValueError("lengths must not be given when unary is a sequence of arrays")
        parts = [as_reals(f"unary[{i}]", part) for i, part in enumerate(unary)]
        k = next((part.shape[1] for part in parts if part.ndim == 2), "K")
        for i, part in enumerate(parts):
            if part.ndim != 2 or part.shape[1] != k:
                raise ValueError(f"unary[{i}] must have shape (n, {k}), got {part.shape}")
        rows = np.concatenate(parts)
        lengths = np.array([part.shape[0] for part in parts], dtype=np.int64)
    else:
        rows = as_reals("unary", unary)
    if rows.ndim != 2:
        hint = "; without any position it has shape (0, K)" if rows.size == 0 else ""
        raise ValueError(f"unary must have shape (N, K), got {rows.shape}{hint}")
    if rows.shape[1] == 0:
        raise ValueError(f"unary must have at least one label, got shape {rows.shape}")
    return rows, lengths, parts


def _holds_arrays(unary: Any) -> bool:
    """Whether `unary` is a sequence of (n_i, K) arrays rather than of rows."""
    if not isinstance(unary, (list, tuple)) or not unary:
        return False
    # A list of rows is not looked through, unless it begins like one and does not go on so.
    if isinstance(unary[0], np.ndarray):
        return any(np.ndim(part) == 2 for part in unary if isinstance(part, np.ndarray))
    return as_array("unary[0]", unary[0]).ndim == 2


def vector(name: str, value: Any, k: int, dtype: np.dtype[Any]) -> tuple[Array | None, float]:
    if value is None:
        return None, 0.0
    array, most = as_vector(name, value, k, dtype)
    return frozen(array), most


def mask(value: Any, shape: tuple[int, ...]) -> npt.NDArray[np.bool_] | None:
    if value is None:
        return None
    array = as_array("allowed", value)
    if array.dtype != np.bool_:
        raise TypeError(f"allowed must be boolean, got dtype {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"allowed must have shape {shape}, got {array.shape}")
    return frozen(np.ascontiguousarray(array))


def held(
    states: Any,
    shape: tuple[int, int],
    allowed: npt.NDArray[np.bool_] | None,
    *,
    place: str,
    noun: str = "states",
) -> npt.NDArray[np.bool_]:
    """Return what is allowed (N, K) where some places have one state; −1 leaves a place free."""
    n, k = shape
    hint = f", -1 leaves a {place} free"
    some = as_states(states, n, k, noun=noun, least=-1, hint=hint)
    kept = (some[:, None] < 0) | (np.arange(k) == some[:, None])
    if allowed is not None:
        kept &= allowed
    return frozen(kept)


def frozen(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
