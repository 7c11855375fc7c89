"""Joints of a few variables that a structured factor holds, many at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._fork import cached_attribute
from valuesparse.factors import Structured
from valuesparse.models._blocks import structured_factors
from valuesparse.results import GraphResult

__all__ = ["DOUBT", "MOST", "ROUGH", "Within"]

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Joints that a factor tells all at once may err by 1e-11, and a gain by e^|θ| times as much: up
#: to this |θ| by less than 1e-9.
ROUGH = 4.0
#: The error of such a gain is at most this times e^|θ|.
DOUBT = 2e-11
#: The most variables of a structured factor whose joint is made: it takes 2^(k − 1) runs.
MOST = 8


class Within:
    """Beliefs of the structured factors of a result about a few of their variables.

    Parameters
    ----------
    result : GraphResult
        The result of an engine that passes messages.
    """

    def __init__(self, result: GraphResult) -> None:
        self._result = result
        self._part = result.part()

    @cached_attribute
    def _asked(self) -> list[tuple[Structured, Floats, Array]]:
        """Each factor with messages to it (k, 2), and the place of each variable in it, or -1."""
        own = structured_factors(self._part)
        messages = self._result.state.incoming(self._part) if own else {}
        found = []
        for i, factor in own.items():
            if i in messages:  # not in a junction tree, on a cycle
                place = np.full(self._part.n_variables, -1, dtype=np.int64)
                place[list(factor.scope)] = np.arange(len(factor.scope))
                found.append((factor, messages[i], place))
        return found

    @cached_attribute
    def _on_off(self) -> list[tuple[Floats, Floats]]:
        """P(v on) and P(v off) by each factor, for its variables."""
        found = [factor.checked_sum_product(messages) for factor, messages, _ in self._asked]
        return [(p, c) for _, p, c in found]

    def holder(self, scopes: Array) -> Array:
        """Return the first factor that holds all variables of each row, or -1; (m, k) -> (m,)."""
        found = np.full(len(scopes), -1, dtype=np.int64)
        for i in reversed(range(len(self._asked))):
            place = self._asked[i][2]
            found[(place[scopes] >= 0).all(axis=1)] = i
        return found

    def chances(self) -> Iterator[tuple[list[int], Floats]]:
        """Yield the variables of each factor, and P(v = x) by it, (variables, 2)."""
        for (factor, _, _), (p, c) in zip(self._asked, self._on_off, strict=True):
            yield list(factor.scope), np.stack([c, p], axis=1)

    def of(self, scopes: Array, holder: Array, rough: npt.NDArray[np.bool_]) -> Floats:
        """Return the joint of each row's variables, (m, k) -> (m, 2^k).

        Where `rough` those of pairs may err by 1e-11; elsewhere each entry has its digits, for
        which all states of the other variables but the last cost a run of the factor's
        `sum_product` each.
        """
        joint = np.empty((len(scopes), 1 << scopes.shape[1]))
        rough = rough & (scopes.shape[1] == 2)
        for i, (factor, messages, place) in enumerate(self._asked):
            here = holder == i
            rows = np.flatnonzero(here & rough)
            if rows.size:
                pairs = place[scopes[rows]]
                joint[rows] = _at_once(factor, messages, pairs, *self._on_off[i])
            rows = np.flatnonzero(here & ~rough)
            if rows.size:
                joint[rows] = _state_by_state(factor, messages, place[scopes[rows]])
        return joint


def _at_once(factor: Structured, messages: Floats, pairs: Array, p: Floats, c: Floats) -> Floats:
    """Return joints of places (m, 2), made from P(both on) by subtraction.

    `p`, `c`: P(on) and P(off) of each variable.
    """
    order = np.argsort(pairs[:, 0], kind="stable")
    both = np.empty(len(pairs))
    both[order] = factor.checked_joint(messages, pairs[order])
    a, b = p[pairs.T]
    np.minimum(both, np.minimum(a, b), out=both)
    # P(neither) = P(a off) - P(b on, a off).
    neither = c[pairs[:, 0]] - (b - both)
    cells = np.stack([neither, b - both, a - both, both], axis=1)
    return np.maximum(cells, 0.0, out=cells)


def _state_by_state(factor: Structured, messages: Floats, places: Array) -> Floats:
    """Return joints of places (m, k): P(a) P(b | a), all states of a, the first k - 1, in turn."""
    m, k = places.shape
    joint = np.empty((m, 1 << (k - 1), 2))
    firsts, which = np.unique(places[:, :-1], axis=0, return_inverse=True)
    which = which.reshape(-1)
    for i, first in enumerate(firsts.tolist()):
        rows = np.flatnonzero(which == i)
        runs = []
        for states in itertools.product((0, 1), repeat=k - 1):
            held = messages.copy()
            held[first, [1 - x for x in states]] = -np.inf
            runs.append(factor.checked_sum_product(held))
        mass = np.array([run[0] for run in runs])
        share = np.exp(mass - np.logaddexp.reduce(mass))
        for x, (_, p, c) in enumerate(runs):
            joint[rows, x, 0] = share[x] * c[places[rows, -1]]
            joint[rows, x, 1] = share[x] * p[places[rows, -1]]
    return joint.reshape(m, -1)
