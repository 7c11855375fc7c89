"""The best configuration by a linear program over the local polytope (MSFXM10)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from valuesparse.inference._network import Network, Task
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors

__all__ = ["NAME", "Relaxed", "decode"]

Array = npt.NDArray[Any]

NAME = "lp"
#: Distance from 0 and 1 up to which a variable counts as decided: HiGHS' tolerance is 1e-7.
_INTEGRAL = 1e-6


class Relaxed(NamedTuple):
    """The answer of a relaxation: states that are possible, and the point that it ends at."""

    states: Array
    score: float
    upper: float
    relaxed: list[Array]
    integral: bool


class Program:
    """Scores and constraints: a column for P(y = 1) of each variable, then those of factors.

    A table over k variables has a column for each of its entries that is possible: they sum to one,
    and to the column of each variable where that is on. A structured factor has the rows of its
    `polytope`, over its variables and auxiliary columns.
    """

    def __init__(self, task: Task) -> None:
        network = task.network
        ends = task.local.reshape(-1, 2)
        known = np.isneginf(ends)
        if known.all(axis=1).any():
            raise task.impossible()
        self.low = np.where(known[:, 0], 1.0, 0.0)
        self.high = np.where(known[:, 1], 0.0, 1.0)
        on, off = (np.where(known[:, x], ends[:, 1 - x], ends[:, x]) for x in (1, 0))
        self.constant = float(off.sum()) + network.constant
        self.score = [on - off]
        self.columns = self.n = len(ends)
        self.rows: list[tuple[Any, Array, Array, Array]] = []  # matrix, its columns, bounds
        structured = set(network.structured())
        for g in range(network.n_groups):
            if g not in structured:
                self._add_table(network, g)
        for index, factor in structured_factors(task.model).items():
            try:
                upper, below, equal, right, more = factor.polytope()
            except NotImplementedError:
                raise ValueError(
                    f"method='lp' needs the polytope of every structured factor: factor {index}, "
                    f"{factor.described}, has none; method='bp' works"
                ) from None
            columns = np.append(factor.scope, self._more(np.zeros(more))).astype(np.int64)
            self.rows.append((upper, columns, np.full(below.size, -np.inf), below))
            self.rows.append((equal, columns, right, right))

    def _more(self, score: Array) -> Array:
        """Return new columns with these scores."""
        self.score.append(score)
        self.columns += score.size
        return np.arange(self.columns - score.size, self.columns)

    def _add_table(self, network: Network, group: int) -> None:
        table, scope = network.native.table(group), network.scope(group)
        states = np.stack(np.unravel_index(np.arange(table.size), table.shape), axis=0)
        possible = table.ravel() > -np.inf
        entries = self._more(table.ravel()[possible])
        sums = np.concatenate([np.ones((1, entries.size)), states[:, possible]])
        own = np.concatenate([np.zeros((1, len(scope))), -np.eye(len(scope))])
        right = np.append(1.0, np.zeros(len(scope)))
        matrix = sparse.hstack([sparse.csr_array(own), sparse.csr_array(sums)])
        self.rows.append((matrix, np.append(scope, entries).astype(np.int64), right, right))

    def solve(
        self, score: Array, watch: Watch, *, whole: bool = False
    ) -> tuple[Array, float] | None:
        """Return the best point and its score, None where nothing is possible; `whole`: of 0 and 1.

        `score` of the first columns; the others have none.
        """
        cost = np.zeros(self.columns)
        cost[: score.size] = -score
        rest = self.columns - self.n
        bounds = Bounds(
            np.append(self.low, np.zeros(rest)), np.append(self.high, np.full(rest, np.inf))
        )
        found = milp(
            cost,
            integrality=np.append(np.full(self.n, int(whole)), np.zeros(rest)),
            bounds=bounds,
            constraints=self._constraints(),
            options={} if watch.left() is None else {"time_limit": watch.left()},
        )
        if found.status == 1 and watch.late is not None:
            raise watch.late
        if found.status == 2:
            return None
        if found.x is None:
            raise RuntimeError(f"HiGHS gave up on the linear program: {found.message}")
        return found.x, -float(found.fun)

    def _constraints(self) -> list[LinearConstraint]:
        used = [(m.tocoo(), c, a, b) for m, c, a, b in self.rows if m.shape[0]]
        if not used:
            return []
        first = np.cumsum([0] + [m.shape[0] for m, *_ in used])
        row = np.concatenate([m.row + at for (m, *_), at in zip(used, first, strict=False)])
        column = np.concatenate([c[m.col] for m, c, *_ in used])
        value = np.concatenate([m.data for m, *_ in used])
        matrix = sparse.csr_array((value, (row, column)), shape=(first[-1], self.columns))
        low, high = (np.concatenate([u[i] for u in used]) for i in (2, 3))
        return [LinearConstraint(matrix, low, high)]


def decode(model: FactorGraph, evidence: dict[int, Any], watch: Watch) -> Relaxed:
    """Return the best point of the local polytope, and states near to it that are possible."""
    for v in np.flatnonzero(model.cards != 2).tolist():
        raise ValueError(
            f"method='lp' takes binary variables only: variable {model.names[v]!r} has "
            f"{model.cards[v]} states; method='trw' bounds the best score of any graph"
        )
    task = Task.of(model, evidence, watch)
    program = Program(task)
    found = program.solve(np.concatenate(program.score), watch)
    if found is None:
        raise task.impossible()
    on = np.clip(found[0][: program.n], 0.0, 1.0)
    upper = found[1] + program.constant
    integral = bool((np.minimum(on, 1.0 - on) <= _INTEGRAL).all())
    states = np.rint(on).astype(np.int64) if integral else _rounded(model, on, program)
    score = -np.inf if states is None else _score(task, states)
    if states is None or score == -np.inf:
        # The nearest configuration of all, by branch and bound.
        near = program.solve(on - 0.5, watch, whole=True)
        if near is None:
            raise task.impossible()
        states = np.rint(near[0][: program.n]).astype(np.int64)
        score = _score(task, states)
    relaxed = list(np.stack([1.0 - on, on], axis=1))
    return Relaxed(states, score, max(upper, score), relaxed, integral)


def _rounded(model: FactorGraph, on: Array, program: Program) -> Array | None:
    """Return states: structured factors decide one after the other; None where that fails."""
    states = np.where(program.low == program.high, program.low, -1).astype(np.int64)
    for factor in structured_factors(model).values():
        scope = np.array(factor.scope)
        gain = np.stack([np.zeros(scope.size), on[scope] - 0.5], axis=1)
        for state in range(2):
            gain[states[scope] == 1 - state, state] = -np.inf
        score, found = factor.best(gain)
        if score == -np.inf:
            return None
        states[scope] = found
    return np.where(states < 0, np.rint(on), states).astype(np.int64)


def _score(task: Task, states: Array) -> float:
    """Return the sum of log-potentials with the evidence of the call."""
    total = float(task.local.reshape(-1, 2)[np.arange(states.size), states].sum())
    network = task.network
    structured = set(network.structured())
    for g in range(network.n_groups):
        if g not in structured:
            total += float(network.native.table(g)[tuple(states[list(network.scope(g))])])
    for factor in structured_factors(task.model).values():
        total += float(factor.log_potential(states[None, list(factor.scope)])[0])
    return total + network.constant
