"""Expected scores of chains and trees, for their entropies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["expected"]

Array = npt.NDArray[Any]


def expected(
    native: Any, model: Any, marginals: Array, energies: Array, tables: Array, count: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the expected score of each of `count` components, and how far rounding is felt in it.

    `native` is the module of the engine, `model` what it knows the model by, `energies` the
    expected scores of edges and `tables` (..., K, K) their log-potentials.
    """
    top = np.atleast_1d(tables.max(axis=(-2, -1), initial=-np.inf)).astype(np.float64)
    largest = np.where(np.isfinite(top), top, 0.0)  # 0 where a table forbids everything
    value, size = np.empty(count), np.empty(count)
    native.expected(model, marginals, energies, largest, value, size)
    return value, size
