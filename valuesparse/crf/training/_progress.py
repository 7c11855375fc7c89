"""The report of one iteration of an algorithm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Progress", "asks_to_stop", "line_of"]

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Progress:
    """One iteration (or pass over the data).

    Attributes
    ----------
    number : int
        Counted from 1.
    loss : float
        The loss, regularisation included; for online algorithms the loss summed over the
        sequences, each as it was met.
    weights : (n,) float64
        The model as it stands. Do not change it.
    info : dict
        Other numbers that the algorithm reports.
    """

    number: int
    loss: float
    weights: Weights = field(repr=False)
    info: dict[str, float]
    lines: tuple[str, ...] = field(repr=False)


def asks_to_stop(answer: object) -> bool:
    """Return whether what a callback returned is True; any other answer stops nothing.

    Examples
    --------
    >>> asks_to_stop(np.float64(0.5) < 1), asks_to_stop("a line"), asks_to_stop(None)
    (True, False, False)
    """
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def line_of(name: str, value: Any) -> str:
    """Return the line that tells a parameter, floats with six digits as C's %f has them."""
    text = f"{value:f}" if isinstance(value, float) else str(int(value)) if isinstance(
        value, (bool, int)
    ) else str(value)  # fmt: skip
    return f"{name}: {text}\n"
