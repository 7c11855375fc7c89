"""The best configuration by dual decomposition with quadratic steps (MSFXM10)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _messages
from valuesparse.inference._methods import AD3
from valuesparse.inference._network import Held, LoopyCall
from valuesparse.inference._relaxation import (
    RelaxedPoint,
    dual_of,
    require_memory,
    sides,
)
from valuesparse.inference._watch import Progress, Watch
from valuesparse.models import FactorGraph

__all__ = ["decode"]

Array = npt.NDArray[Any]


class _Solution(NamedTuple):
    states: Array
    score: float
    upper: float
    on: Array
    converged: bool
    integral: bool


def decode(
    model: FactorGraph, method: AD3, evidence: dict[int, Any], workers: int, watch: Watch
) -> RelaxedPoint:
    """Return the best point of the local polytope, and states near to it that are possible."""
    task = LoopyCall.of(model, evidence, watch)
    require_memory(task, method.name)
    with Held(task.network, watch) as native:
        dual = dual_of(task, native)
        found = _solved(task, dual, method, workers, watch.progress)
        if found is None:
            raise task.impossible()
        states, score = found.states, found.score
        if score == -np.inf:
            states = _possible(task, native, dual, found, workers)
            score = dual.score(states)
    watch.finish(method.max_iterations)
    on = states.astype(np.float64) if found.integral else found.on
    return RelaxedPoint(
        states, score, max(found.upper, score), sides(on), found.integral, found.converged
    )


def _solved(
    task: LoopyCall,
    dual: _messages.Dual,
    method: AD3,
    workers: int,
    progress: Progress | None = None,
) -> _Solution | None:
    """Return the relaxation's optimum; None where nothing is possible."""
    watch = task.watch
    found = dual.solve(
        method.tolerance, method.max_iterations, workers, watch.left(), progress, watch.late
    )
    return None if found is None else _Solution(*found)


def _possible(
    task: LoopyCall, native: _messages.Network, dual: _messages.Dual, root: _Solution, workers: int
) -> Array:
    """Return states that are possible: near to the optimum, by HiGHS, or else by a search."""
    from valuesparse.inference._lp import nearest

    if not root.converged:  # branch and bound takes long about a point that means little
        found = _solved(task, dual, AD3(), workers)
        if found is None:
            raise task.impossible()
        if found.score > -np.inf:
            return found.states
        root = found
    near = nearest(task, root.on)
    return _search(task, native, root, workers) if near is None else near


def _search(task: LoopyCall, native: _messages.Network, root: _Solution, workers: int) -> Array:
    """Return states that are possible, by fixing one variable after the other, depth first.

    The next is the one that the relaxation is least sure about, first in the state that it prefers.
    """
    waiting: list[tuple[dict[int, int], _Solution | None]] = [({}, root)]
    while waiting:
        held, found = waiting.pop()
        if found is None:
            local = task.local.copy()
            for v, state in held.items():
                local[2 * v + 1 - state] = -np.inf
            dual = _messages.Dual(native, local, task.watch.left(), task.watch.late)
            found = _solved(task, dual, AD3(), workers) if dual.possible else None
            if found is None:
                continue
            if found.score > -np.inf:
                return found.states
        open_ = np.flatnonzero(np.isfinite(task.local.reshape(-1, 2)).all(axis=1))
        open_ = open_[~np.isin(open_, list(held), assume_unique=True)]
        if not open_.size:
            continue
        v = int(open_[np.abs(found.on[open_] - 0.5).argmin()])
        liked = int(found.on[v] > 0.5)
        waiting += [({**held, v: 1 - liked}, None), ({**held, v: liked}, None)]
    raise task.impossible()
