r"""Weighted mini-buckets: bounds on log Z for tables of any scope, zeros included.

Variables are eliminated one after another. Where the tables of a variable would make too large a
product they are split into mini-buckets, and Hoelder's inequality bounds the sum of products:

.. math:: \sum_x \prod_r f_r \le \prod_r \Big(\sum_x f_r^{1/w_r}\Big)^{w_r},
   \qquad \sum_r w_r = 1, \; w_r > 0

and the other way round when one weight is positive and all others are negative. Before that, the
tables of a bucket exchange factors over what they share (moment matching), which leaves their
product alone and makes the inequality tight where it can be.

Each step is 1-Lipschitz, in the largest difference of logs, in each of its tables, so the rounding
errors of all steps add up; the sum is charged at the end.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from valuesparse._rounding import EPS, down, up
from valuesparse.bounds._conditioned import Domains
from valuesparse.bounds._reduced import THREE, Reduced, Tables, graph_of, plan_of

__all__ = ["Buckets"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Scope = tuple[int, ...]

# Entries of the largest table that a mini-bucket may have, whatever the i-bound says.
_LARGEST = 1 << 20


class Buckets:
    """An elimination order, and the tables without the states that zeros rule out.

    Parameters
    ----------
    reduced : Reduced
    i_bound : int
        Variables of the largest mini-bucket, minus one.
    effort : float, default THREE
        Effort of the search for the order; the best order for whole tables is not always best
        for split ones.

    Raises
    ------
    InfeasibleError
        When the zeros of the tables leave a variable no state.
    """

    def __init__(self, reduced: Reduced, i_bound: int, effort: float = THREE) -> None:
        self.reduced, self.i_bound = reduced, i_bound
        plan = plan_of(graph_of(reduced.unary, reduced.tables), effort=effort)
        alive = [np.array(plan.possible_states(v)) for v in range(len(reduced.unary))]
        cliques, parent = plan.cliques, plan.parent
        order: list[int] = []
        for clique, above in zip(cliques, parent, strict=True):
            kept = set(cliques[above]) if above >= 0 else set()
            order += [v for v in clique if v not in kept]
        seen = set(order)
        self.order = [v for v in range(len(alive)) if v not in seen] + order
        self.alive = alive
        self.cards = [len(a) for a in alive]
        self.seen: list[Tables] = []  # of each place: all tables that the upper bound had there
        self.tables: Tables = [((v,), u[alive[v]]) for v, u in enumerate(reduced.unary)]
        for scope, table in reduced.tables:
            self.tables.append((scope, table[np.ix_(*(alive[v] for v in scope))]))

    def upper(self) -> float:
        """Return an upper bound on log Z; -inf proves that there is no configuration."""
        self.seen = []
        value, error = self._eliminate(None)
        return up(value, error)

    def lower(self, negative: float = 0.1) -> float:
        """Return a lower bound on log Z; `negative` is the total of the negative weights."""
        value, error = self._eliminate(negative)
        return down(value, error)

    def configuration(self, effort: int = 20, seed: int = 0) -> list[int] | None:
        """Return states of positive weight, the best of a few guesses; None if all fail.

        Variables are given states in reverse order, by what :meth:`upper` left in their buckets
        and by what zeros leave them; a dead end is left by the way it came. `effort`: steps, in
        units of the number of variables.
        """
        n = len(self.order)
        if len(self.seen) < n:
            return None
        domains = Domains(self.cards, self.tables)
        start = domains.start()
        rng = np.random.default_rng(seed)
        noise: np.random.Generator | None = None  # the first guess is the best by these scores
        best, found, steps = -np.inf, None, effort * n + 100
        while start is not None and steps > 0:
            # Few steps each: early wrong decisions are undone late.
            state, spent = self._guess(domains, start, min(steps, 4 * n + 20), noise)
            noise = rng
            steps -= spent
            if state is not None:
                weight = sum(float(t[tuple(state[u] for u in s)]) for s, t in self.tables)
                if weight > best:
                    best, found = weight, state
        if found is None:
            return None
        return [int(self.alive[v][found[v]]) for v in range(len(self.alive))]

    def _guess(
        self, domains: Domains, start: list[Mask], steps: int, rng: np.random.Generator | None
    ) -> tuple[list[int] | None, int]:
        """Search depth first; return the states, if found, and the steps that were taken."""
        order = self.order[::-1]
        state = [0] * len(order)
        left = [start]  # domains at each depth
        choices: list[list[int]] = []
        for spent in range(1, steps + 1):
            depth = len(left) - 1
            if depth == len(order):
                return state, spent
            v = order[depth]
            if len(choices) == depth:
                score = np.where(left[-1][v], 0.0, -np.inf)
                for scope, table in self.seen[len(order) - 1 - depth]:
                    score = score + table[tuple(slice(None) if u == v else state[u] for u in scope)]
                if rng is not None:
                    score = score + rng.gumbel(size=len(score))
                ranked = np.argsort(score, kind="stable")
                choices.append([int(x) for x in ranked if score[x] > -np.inf])
            while choices[-1]:
                state[v] = choices[-1].pop()
                after = domains.hold(left[-1], v, state[v])
                if after is not None:
                    left.append(after)
                    break
            else:
                choices.pop()
                left.pop()
                if not left:
                    return None, spent
        return None, steps

    def _eliminate(self, negative: float | None) -> tuple[float, float]:
        position = {v: p for p, v in enumerate(self.order)}
        buckets: list[Tables] = [[] for _ in self.order]
        for scope, table in self.tables:
            buckets[min(position[v] for v in scope)].append((scope, table))
        total = self.reduced.constant
        error = EPS * 8.0 * self.reduced.magnitude + self.reduced.merged
        for p, v in enumerate(self.order):
            if negative is None:
                self.seen.append(buckets[p])
            bucket = [_product(group, self.cards) for group in self._split(buckets[p])]
            buckets[p] = []
            weights = _weights(len(bucket), negative)
            if len(bucket) > 1:
                bucket = _match(bucket, weights)
            size = 0.0
            for (scope, table), w in zip(bucket, weights, strict=True):
                size += _size(table)
                message = _power_sum(table, (scope.index(v),), w)
                rest = tuple(u for u in scope if u != v)
                if not rest:
                    total += float(message)
                    size += abs(total) if math.isfinite(total) else 0.0
                else:
                    buckets[min(position[u] for u in rest)].append((rest, message))
            if total == -np.inf:
                return -np.inf, 0.0
            error += EPS * 8.0 * ((len(bucket) + 8.0) * size + self.cards[v])
        return total, error

    def _split(self, bucket: Tables) -> list[Tables]:
        """Return the tables in groups, largest first, each into the first group it fits."""
        groups: list[tuple[set[int], Tables]] = []
        for scope, table in sorted(bucket, key=lambda f: (-len(f[0]), f[0])):
            for variables, members in groups:
                union = variables | set(scope)
                if union == variables or (
                    len(union) <= self.i_bound + 1
                    and math.prod(self.cards[u] for u in union) <= _LARGEST
                ):
                    variables |= union
                    members.append((scope, table))
                    break
            else:
                groups.append((set(scope), [(scope, table)]))
        return [members for _, members in groups]


def _weights(count: int, negative: float | None) -> list[float]:
    if count == 1:
        return [1.0]
    if negative is None:
        return [1.0 / count] * count
    small = -negative / (count - 1)
    return [1.0 + negative, *([small] * (count - 1))]


def _product(tables: Tables, cards: list[int]) -> tuple[Scope, Floats]:
    union = tuple(sorted({v for scope, _ in tables for v in scope}))
    total = np.zeros([cards[v] for v in union])
    for scope, table in tables:
        order = sorted(range(len(scope)), key=scope.__getitem__)
        shape = [cards[v] if v in scope else 1 for v in union]
        total += np.transpose(table, order).reshape(shape)
    return union, total


def _match(bucket: Tables, weights: list[float]) -> Tables:
    """Exchange factors over the variables that all share; the product stays as it is."""
    shared = set(bucket[0][0]).intersection(*(scope for scope, _ in bucket[1:]))
    sums = []
    for (scope, table), w in zip(bucket, weights, strict=True):
        axes = tuple(a for a, v in enumerate(scope) if v not in shared)
        with np.errstate(over="ignore"):
            sums.append(_power_sum(table, axes, w) / w if axes else table / w)
    # Where one of them is zero nothing is exchanged.
    usable = np.logical_and.reduce([np.isfinite(s) for s in sums])
    sums = [np.where(usable, s, 0.0) for s in sums]
    # Weights need not sum to one to the last bit: the last shift is what makes the sum zero.
    mean = sum(w * s for w, s in zip(weights, sums, strict=True))
    shifts = [w * (mean - s) for w, s in zip(weights, sums, strict=True)]
    shifts[-1] = -np.sum(shifts[:-1], axis=0)
    matched: Tables = []
    for (scope, table), move in zip(bucket, shifts, strict=True):
        shape = [n if v in shared else 1 for v, n in zip(scope, table.shape, strict=True)]
        matched.append((scope, table + move.reshape(shape)))
    return matched


def _power_sum(table: Floats, axes: tuple[int, ...], w: float) -> Floats:
    """Return w log sum exp(table / w) over axes; with w < 0 a zero makes it -inf."""
    scaled = table if w == 1.0 else table / w
    top = scaled.max(axis=axes, keepdims=True)
    base = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        mass = np.exp(scaled - base).sum(axis=axes)
        result: Floats = w * (np.log(mass) + np.squeeze(base, axis=axes))
    return result


def _size(table: Floats) -> float:
    finite = np.abs(table[np.isfinite(table)])
    return float(finite.max(initial=0.0))
