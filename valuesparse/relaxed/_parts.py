"""Probabilities of factors, which gains and bounds are made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Factor, Features, Structured

__all__ = [
    "NO_TINY",
    "FeaturePart",
    "HeldJoints",
    "TableGroup",
    "Tiny",
    "mask_of",
    "masks_of",
    "require_gain",
    "where_of",
]

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


class Tiny(NamedTuple):
    """Rows of a part with probabilities that plain numbers do not hold, and their logarithms.

    `log_p` is (rows, 2) for features, P(φ = 0) and P(φ = 1); for tables (rows, entries).
    """

    rows: Array
    log_p: Floats


#: Nobody asked, or there are none.
NO_TINY = Tiny(np.empty(0, dtype=np.int64), np.empty((0, 0)))


class FeaturePart(NamedTuple):
    """Features among some factors: where they stand there, θ, P(φ = 1), and whether exactly.

    `off` is P(φ = 0), a sum of its own; it and `tiny` are empty where nobody asked for them.
    """

    at: slice | Array
    theta: Floats
    mu: Floats
    exact: npt.NDArray[np.bool_]
    off: Floats
    tiny: Tiny


class TableGroup(NamedTuple):
    """General factors of one shape among some: where they stand there, tables, joints, if exact.

    Tables and joints are rows: (factors, entries of one).
    """

    at: Array
    table: Floats
    joint: Floats
    exact: npt.NDArray[np.bool_]
    tiny: Tiny


class HeldJoints(NamedTuple):
    """Rows whose variables are no product of beliefs, and their joints.

    `which` and `joints`: of rows that are looked up one by one. `many` (m, 2^k): of `many_rows`,
    those within structured factors; (0, 0) where there are none, of any k. `exact` (all rows,).
    """

    rows: Array
    which: Array
    joints: list[Floats]
    exact: npt.NDArray[np.bool_]
    many_rows: Array
    many: Floats


def where_of(block: Features, row: int) -> Any:
    """Return an index of the entries of a joint for which a feature of a block fires."""
    if block.assignments is not None:
        return tuple(block.assignments[row].tolist())
    return block.fires


def mask_of(block: Features, row: int, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return the entries of a joint for which a feature of a block fires."""
    if block.fires is not None:
        return block.fires
    mask = np.zeros(shape, dtype=np.bool_)
    mask[where_of(block, row)] = True
    return mask


def masks_of(block: Features, rows: Array) -> npt.NDArray[np.bool_]:
    """Return the entries (rows, 2^k) of joints of binary variables for which features fire.

    They are (0, 0) where there are no rows: then k may be too large for any array.
    """
    k = block.scopes.shape[1]
    if not rows.size:
        return np.zeros((0, 0), dtype=np.bool_)
    if block.fires is not None:
        return np.broadcast_to(block.fires.reshape(-1), (rows.size, 1 << k))
    assert block.assignments is not None
    masks = np.zeros((rows.size, 1 << k), dtype=np.bool_)
    masks[np.arange(rows.size), block.assignments[rows] @ (1 << np.arange(k)[::-1])] = True
    return masks


def require_gain(factor: Factor) -> None:
    """Raise for a structured factor: it has no gain."""
    if isinstance(factor, Structured):
        raise ValueError(
            f"{factor.described} has no gain: a structured factor has to be used from the start, "
            "among the factors of the result"
        )
