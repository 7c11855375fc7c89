"""The common part of the relaxations "lp" and "ad3"."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _messages
from valuesparse.inference._network import LoopyCall
from valuesparse.models import FactorGraph

__all__ = ["RelaxedPoint", "dual_of", "require_binary", "sides"]

Array = npt.NDArray[Any]


class RelaxedPoint(NamedTuple):
    """The answer of a relaxation: states that are possible, and the point that it ends at."""

    states: Array
    score: float
    upper: float
    relaxed: list[Array]
    integral: bool
    converged: bool


def require_binary(model: FactorGraph, method: str) -> None:
    """Raise ValueError for the first variable that is not binary."""
    for v in np.flatnonzero(model.cards != 2).tolist():
        raise ValueError(
            f"method={method!r} takes binary variables only: variable {model.names[v]!r} has "
            f"{model.cards[v]} states; method='trw' bounds the best score of any graph"
        )


def dual_of(task: LoopyCall, native: _messages.Network) -> _messages.Dual:
    """Return the graph as dual decomposition sees it; InfeasibleError where tables forbid all."""
    dual = _messages.Dual(native, task.local, task.watch.left(), task.watch.late)
    if not dual.possible:
        raise task.impossible()
    return dual


def sides(on: Array) -> list[Array]:
    """Return P(y = 0) and P(y = 1) of each variable."""
    return list(np.stack([1.0 - on, on], axis=1))
