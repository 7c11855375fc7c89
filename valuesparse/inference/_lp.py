"""The best configuration by a linear program over the local polytope (MSFXM10)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from valuesparse import _messages
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._network import Held, LoopyCall
from valuesparse.inference._relaxation import (
    RelaxedPoint,
    dual_of,
    require_memory,
    sides,
)
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors

__all__ = ["decode", "nearest"]

Array = npt.NDArray[Any]

#: Distance from 0 and 1 up to which a variable counts as decided: HiGHS' tolerance is 1e-7.
_INTEGRAL = 1e-6
#: Bytes that the program and HiGHS take for each coefficient that is not zero.
_COEFFICIENT_BYTES = 256
#: Bytes for each entry of a table while its possible entries are looked for.
_ENTRY_BYTES = 25


class NoPolytopeError(ValueError):
    """A structured factor has no polytope."""


class LinearProgram:
    """Scores and constraints: a column for P(y = 1) of each variable, then those of factors.

    A table over k variables has a column for each of its entries that is possible: they sum to one,
    and to the column of each variable where that is on. A structured factor has the rows of its
    `polytope`, over its variables and auxiliary columns.
    """

    def __init__(self, task: LoopyCall) -> None:
        network, self.task = task.network, task
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
        self.n_entries = int(network.native.ptr[-1])
        self.rows: list[_Rows] = []
        laid = network.native
        #: Bytes of the tables' part, about.
        self.bytes = float(_ENTRY_BYTES * laid.table_entries)
        require_memory(task, "lp", self.bytes)
        structured, arity = set(network.structured()), np.diff(laid.ptr)
        tables = np.array([g not in structured for g in range(network.n_groups)], dtype=bool)
        flat = laid.flat_tables()
        for k in sorted(set(arity[tables].tolist())):
            self._add_tables(laid, flat, np.flatnonzero(tables & (arity == k)), k)
        group_of = dict(zip(laid.wide.tolist(), laid.group.tolist(), strict=True))
        for index, factor in structured_factors(task.model).items():
            try:
                upper, below, equal, right, more = factor.checked_polytope()
            except NotImplementedError:
                raise NoPolytopeError(
                    f"method='lp' needs the polytope of every structured factor: factor {index}, "
                    f"{factor.described}, has none; method='ad3' works"
                ) from None
            k = len(factor.scope)
            columns = np.append(factor.scope, self._more(np.zeros(more))).astype(np.int64)
            first = int(laid.ptr[group_of[index]])
            entry = np.where(np.arange(columns.size) < k, first + np.arange(columns.size), -1)
            self.rows.append(_Rows(upper, columns, entry, below, False))
            self.rows.append(_Rows(equal, columns, entry, right, True))

    def _more(self, score: Array) -> Array:
        """Return new columns with these scores."""
        self.score.append(score)
        self.columns += score.size
        return np.arange(self.columns - score.size, self.columns)

    def _add_tables(self, laid: _messages.Network, flat: Array, groups: Array, k: int) -> None:
        """Add the tables of k variables: for each a row of its sum, and one for each variable."""
        entry = laid.ptr[groups][:, None] + np.arange(k)  # (tables, k)
        table = flat[laid.table_at[groups][:, None] + np.arange(2**k)]
        possible = table > -np.inf
        size = int(np.count_nonzero(possible))
        coefficients = size + k * min(size, groups.size << max(k - 1, 0)) + k * groups.size
        self.bytes += _COEFFICIENT_BYTES * float(coefficients)
        require_memory(self.task, "lp", self.bytes)
        which, state = np.nonzero(possible)
        columns = self._more(table[possible])
        axis = np.arange(k)[:, None]
        on_axis, on_entry = np.nonzero(state >> (k - 1 - axis) & 1)  # of (k, columns)
        row = np.arange(groups.size)[:, None] * (k + 1) + 1 + np.arange(k)
        scope = laid.scope[entry]
        matrix = sparse.coo_array(
            (
                np.concatenate([np.ones(which.size + on_axis.size), np.full(scope.size, -1.0)]),
                (
                    np.concatenate([which * (k + 1), row[which[on_entry], on_axis], row.ravel()]),
                    np.concatenate(
                        [np.arange(which.size), on_entry, which.size + np.arange(scope.size)]
                    ),
                ),
            ),
            shape=(groups.size * (k + 1), which.size + scope.size),
        )
        right = np.tile(np.append(1.0, np.zeros(k)), groups.size)
        places = np.append(np.full(which.size, -1), entry.ravel())
        self.rows.append(_Rows(matrix, np.append(columns, scope.ravel()), places, right, True))

    def solve(self, watch: Watch) -> tuple[Array, Array] | None:
        """Return the best point, and each factor's share of its variables' scores.

        That is one for each entry of the scopes, from the multipliers of the factor's rows. None:
        nothing is possible.
        """
        if not self.columns:  # HiGHS wants one
            return np.zeros(0), np.zeros(self.n_entries)
        low, high = self._ends()
        below, right_below = self._matrix(equal=False)
        equal, right = self._matrix(equal=True)
        found = linprog(
            -np.concatenate(self.score),
            below, right_below, equal, right,
            np.stack([low, high], axis=1),
            options={} if watch.left() is None else {"time_limit": watch.left()},
        )  # fmt: skip
        if found.status == 1 and watch.late is not None:
            raise watch.late
        if found.status == 2:
            return None
        if found.x is None:
            raise RuntimeError(f"HiGHS gave up on the linear program: {found.message}")
        share = np.zeros(self.n_entries + 1)  # the last: of columns that are no variables
        at = {False: 0, True: 0}
        for rows in self.rows:
            part = found.eqlin if rows.equal else found.ineqlin
            first = at[rows.equal]
            at[rows.equal] += rows.right.size
            multiplier = part.marginals[first : at[rows.equal]]
            m = rows.matrix
            np.subtract.at(share, rows.entry[m.col], m.data * multiplier[m.row])
        # HiGHS keeps ends up to a tolerance, and has -0.0.
        return np.clip(found.x, low, high) + 0.0, share[:-1]

    def nearest(self, point: Array, watch: Watch) -> Array:
        """Return the possible states nearest to a point, by branch and bound."""
        cost = np.zeros(self.columns)
        cost[: self.n] = 0.5 - point
        low, high = self._ends()
        rest = self.columns - self.n
        below, right_below = self._matrix(equal=False)
        equal, right = self._matrix(equal=True)
        rows = []
        if right_below.size:
            rows.append(LinearConstraint(below, -np.inf, right_below))
        if right.size:
            rows.append(LinearConstraint(equal, right, right))
        found = milp(
            cost,
            integrality=np.append(np.ones(self.n), np.zeros(rest)),
            bounds=Bounds(low, high),
            constraints=rows,
            options={} if watch.left() is None else {"time_limit": watch.left()},
        )
        if found.status == 1 and watch.late is not None:
            raise watch.late
        if found.status == 2:
            raise self.task.impossible()
        if found.x is None:
            raise RuntimeError(f"HiGHS gave up on the integer program: {found.message}")
        return np.rint(found.x[: self.n]).astype(np.int64)

    def _ends(self) -> tuple[Array, Array]:
        rest = self.columns - self.n
        return np.append(self.low, np.zeros(rest)), np.append(self.high, np.full(rest, np.inf))

    def _matrix(self, *, equal: bool) -> tuple[Any, Array]:
        """Return the rows of one kind, sparse, and their right sides."""
        used = [rows for rows in self.rows if rows.equal == equal]
        first = np.cumsum([0] + [rows.right.size for rows in used])
        none: list[Array] = [np.empty(0)]
        row = [r.matrix.row + i for r, i in zip(used, first, strict=False)]
        column = [r.columns[r.matrix.col] for r in used]
        value = np.concatenate(none + [r.matrix.data for r in used])
        index = [np.concatenate([*none, *x]).astype(np.int32) for x in (row, column)]
        shape = (int(first[-1]), self.columns)
        right = np.concatenate(none + [r.right for r in used])
        return sparse.csr_array((value, tuple(index)), shape=shape), right


class _Rows(NamedTuple):
    """Constraints of some factors; `entry`: which entry of the scopes each column is, or -1."""

    matrix: Any
    columns: Array
    entry: Array
    right: Array
    equal: bool


def decode(model: FactorGraph, evidence: dict[int, Any], watch: Watch) -> RelaxedPoint:
    """Return the best point of the local polytope, and states near to it that are possible."""
    task = LoopyCall.of(model, evidence, watch)
    program = LinearProgram(task)
    found = program.solve(watch)
    if found is None:
        raise task.impossible()
    on = np.clip(found[0][: program.n], 0.0, 1.0)
    integral = bool((np.minimum(on, 1.0 - on) <= _INTEGRAL).all())
    with Held(task.network, watch) as native:
        dual = dual_of(task, native)
        upper = dual.bound(found[1], watch.left(), watch.late)
        states = np.rint(on).astype(np.int64)
        score = dual.score(states) if integral else -np.inf
        if score == -np.inf:
            states, score = dual.round(on, watch.left(), watch.late)
        if score == -np.inf:
            states = program.nearest(on, watch)
            score = dual.score(states)
    watch.finish(1)
    return RelaxedPoint(states, score, max(upper, score), sides(on), integral, True)


def nearest(task: LoopyCall, on: Array) -> Array | None:
    """Return the possible states nearest to a point.

    None: a factor has no polytope, or the program would not fit in memory.
    """
    try:
        program = LinearProgram(task)
    except (NoPolytopeError, MemoryLimitError):
        return None
    return program.nearest(on, task.watch)
