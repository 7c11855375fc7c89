"""Variables of a Bayesian network that a question does not depend on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

from valuesparse import _junction

__all__ = ["prune"]

Array = npt.NDArray[Any]


def prune(
    snapshot: _junction.Snapshot, held: Array, soft: Iterable[int], wanted: Iterable[int] = ()
) -> tuple[_junction.Snapshot, Array]:
    """Leave out what sums to one: barren variables and their conditional tables.

    A variable is barren when nothing is known or asked about it and the only table left that names
    it is its own conditional one; without it, its parents may be barren, too.

    Parameters
    ----------
    snapshot : Snapshot
        The model; readers of Bayesian networks mark the tables that are conditional.
    held : ndarray of int64, shape (n,)
        State of each variable that is known, −1 elsewhere.
    soft, wanted : iterable of int
        Variables with soft evidence, and those that are asked for.

    Returns
    -------
    tuple of (Snapshot, ndarray)
        Tables that are left, and `held` with barren variables at a state that no table sees.
    """
    gone, kept = _split(snapshot, held, {*soft, *wanted})
    if not gone:
        return snapshot, held
    scopes, tables = snapshot.scopes, snapshot.arrays()
    held = held.copy()
    held[gone] = 0
    left = _junction.Snapshot(snapshot.cards, [scopes[f] for f in kept], [tables[f] for f in kept])
    return left, held


def _split(
    snapshot: _junction.Snapshot, held: Array, needed: set[int]
) -> tuple[list[int], list[int]]:
    """Return the barren variables, and the factors that are left."""
    own = {v: f for f, v in snapshot.conditional.items()}
    if not own:
        return [], []
    scopes = snapshot.scopes
    left = [0] * held.size  # tables that name each variable
    for scope in scopes:
        for v in scope:
            left[v] += 1
    ready = [v for v in own if left[v] == 1 and held[v] < 0 and v not in needed]
    gone: list[int] = []
    dropped: set[int] = set()
    while ready:
        v = ready.pop()
        gone.append(v)
        dropped.add(own[v])
        for u in scopes[own[v]]:
            left[u] -= 1
            if left[u] == 1 and held[u] < 0 and u in own and u not in needed:
                ready.append(u)
    return gone, [f for f in range(len(scopes)) if f not in dropped]
