r"""Mean field: :math:`E_q[\text{score}] + H(q) \le \log Z` for any distribution q.

`naive` takes products of marginals and any table; `structured` takes the distributions of a
spanning forest, exactly, edges outside it included. Both are valid wherever they stop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, special
from scipy.sparse import csgraph

from valuesparse.bounds._reduced import Reduced
from valuesparse.bounds._rounding import EPS, down

__all__ = ["fits", "naive", "structured"]

Floats = npt.NDArray[np.float64]

# Numbers that the joint marginals of all pairs may take.
_PAIRS = 40_000_000
_PENALTY = 30.0


def naive(
    reduced: Reduced, sweeps: int = 60, seed: int = 0, states: Sequence[int] | None = None
) -> float:
    """Return the best lower bound of coordinate ascent from a few starts; -inf if none is found.

    `states`, of positive weight, are one more start.
    """
    field = _Field(reduced)
    rng = np.random.default_rng(seed)
    best = -np.inf
    for attempt in range(3 if states is None else 4):
        # All alike is a saddle point of symmetric models, so the start is never quite that.
        q = [special.softmax(rng.normal(0.0, 0.1 + attempt, k)) for k in reduced.cards]
        if attempt == 3 and states is not None:
            q = [np.eye(len(p))[x] for p, x in zip(q, states, strict=True)]
        elif reduced.has_zeros:
            for _ in range(10):
                field.sweep(q, -_PENALTY)
            q = [np.eye(len(p))[int(p.argmax())] for p in q]
            for _ in range(10):
                field.sweep(q, -1000.0, greedy=True)
        last = -np.inf
        for _ in range(sweeps):
            field.sweep(q, -np.inf)
            value = field.value(q)
            if not value > last + 1e-7 * abs(last):
                break
            last = value
        best = max(best, field.value(q))
    return down(best, EPS * (64.0 + 8.0 * _degree(reduced)) * reduced.magnitude)


class _Field:
    """Expectations of log-tables under products of marginals."""

    def __init__(self, reduced: Reduced) -> None:
        self.reduced = reduced
        self.unary = reduced.unary
        self.parts = []
        self.at: list[list[tuple[int, int]]] = [[] for _ in reduced.unary]
        for f, (scope, table) in enumerate(reduced.tables):
            forbidden = ~np.isfinite(table)
            finite = np.where(forbidden, 0.0, table)
            self.parts.append((scope, finite, forbidden.astype(float) if forbidden.any() else None))
            for axis, v in enumerate(scope):
                self.at[v].append((f, axis))

    def expected(self, f: int, axis: int, q: list[Floats], zero: float) -> Floats:
        """Return the expected log-table for each state on one axis; zeros count as `zero`."""
        scope, finite, forbidden = self.parts[f]
        result = _contract(finite, scope, axis, q)
        if forbidden is not None:
            mass = _contract(forbidden, scope, axis, q)
            result = result + np.where(mass > 0.0, zero * np.where(mass > 0.0, mass, 1.0), 0.0)
        return result

    def sweep(self, q: list[Floats], zero: float, *, greedy: bool = False) -> None:
        """Set every marginal to the best one given the others."""
        for v, members in enumerate(self.at):
            score = np.maximum(self.unary[v], zero) if zero > -np.inf else self.unary[v].copy()
            for f, axis in members:
                score = score + self.expected(f, axis, q, zero)
            top = score.max()
            if top == -np.inf:
                continue
            if greedy:
                q[v] = np.eye(len(score))[int(score.argmax())]
            else:
                p = np.exp(score - top)
                q[v] = p / p.sum()

    def value(self, q: list[Floats]) -> float:
        """Return the bound at q."""
        total = self.reduced.constant
        for p, u in zip(q, self.unary, strict=True):
            if (p[~np.isfinite(u)] > 0.0).any():
                return -np.inf
            total += float(p @ np.where(np.isfinite(u), u, 0.0) + special.entr(p).sum())
        for scope, finite, forbidden in self.parts:
            # A product of positive numbers that underflows is still positive.
            if forbidden is not None:
                support = [(p > 0.0).astype(float) for p in q]
                if _contract(forbidden, scope, 0, support) @ support[scope[0]] > 0.0:
                    return -np.inf
            total += float(_contract(finite, scope, 0, q) @ q[scope[0]])
        return total


def _contract(table: Floats, scope: tuple[int, ...], axis: int, q: Sequence[Floats]) -> Floats:
    """Sum a table against the marginals of all its variables but one."""
    for a in range(len(scope) - 1, axis, -1):
        table = table @ q[scope[a]]
    for a in range(axis):
        table = np.tensordot(q[scope[a]], table, axes=1)
    return table


def structured(
    reduced: Reduced,
    start: tuple[Sequence[Floats], Sequence[tuple[tuple[int, ...], Floats]]] | None = None,
    iterations: int = 100,
) -> float:
    """Return the lower bound of a spanning forest's distribution, improved by L-BFGS.

    Parameters
    ----------
    reduced : Reduced
        Pairwise, without zeros.
    start : (unary, tables), optional
        A forest-shaped model to start from; its edges are the forest. A preconditioner's lower
        bound is never above the one returned, when its tree is the start.
    """
    n, edges = len(reduced.unary), [scope for scope, _ in reduced.tables]
    if start is None:
        kept = _forest(n, edges, np.array([np.ptp(t) for _, t in reduced.tables]))
        start = reduced.unary, [reduced.tables[e] for e in kept]
    forest = _Forest(reduced, *start)
    first = forest.initial(*start)
    best = forest.value(first)[0]
    if iterations and len(first):
        found = optimize.minimize(
            lambda x: tuple(-a for a in forest.value(x)),
            first,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "ftol": 1e-9},
        )
        best = max(best, forest.value(found.x)[0])
    # Joints are products along paths: at most n factors, each with a relative error of 2 k eps.
    k = max(reduced.cards, default=1)
    return down(best, EPS * (64.0 + 4.0 * n * k) * reduced.magnitude)


def fits(reduced: Reduced) -> bool:
    """Whether `structured` takes this model."""
    k = max(reduced.cards, default=1)
    return reduced.pairwise and not reduced.has_zeros and (len(reduced.unary) * k) ** 2 <= _PAIRS


class _Forest:
    """A distribution given by p(root) and p(child | parent), all softmaxes of free numbers."""

    def __init__(
        self,
        reduced: Reduced,
        unary: Sequence[Floats],
        tables: Sequence[tuple[tuple[int, ...], Floats]],
    ) -> None:
        self.reduced = reduced
        n = self.n = len(unary)
        k = self.k = max(reduced.cards, default=1)
        edges = [scope for scope, _ in tables]
        i, j = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        adjacency = sparse.csr_array((np.ones(len(edges)), (i, j)), shape=(n, n))
        self.parent = np.full(n, -1, dtype=np.int64)
        self.tree_of = np.zeros(n, dtype=np.int64)
        order: list[int] = []
        self.start: list[int] = []  # of each place: where its tree begins
        seen = np.zeros(n, dtype=bool)
        for root in range(n):
            if not seen[root]:
                part, up = csgraph.breadth_first_order(adjacency, root, directed=False)
                seen[part] = True
                self.tree_of[part] = root
                self.start += [len(order)] * len(part)
                order += [int(v) for v in part]
                self.parent[part[1:]] = up[part[1:]]
        self.order = order
        # Rows beyond a variable's states are never reached: probability zero.
        self.closed = np.arange(k)[None, :] >= np.array(reduced.cards, dtype=np.int64)[:, None]
        self.u = np.zeros((n, k))
        for v, own in enumerate(reduced.unary):
            self.u[v, : len(own)] = own
        self.pairs = np.array([s for s, _ in reduced.tables], dtype=np.int64).reshape(-1, 2)
        self.tables = np.zeros((len(reduced.tables), k, k))
        for e, (_, table) in enumerate(reduced.tables):
            self.tables[e, : table.shape[0], : table.shape[1]] = table

    def initial(
        self,
        unary: Sequence[Floats],
        tables: Sequence[tuple[tuple[int, ...], Floats]],
    ) -> Floats:
        """Return the numbers that give the distribution of a forest-shaped model."""
        n, k = self.n, self.k
        link = np.zeros((n, k, k))
        for (i, j), table in tables:
            child, own = (j, table) if self.parent[j] == i else (i, table.T)
            link[child, : own.shape[0], : own.shape[1]] += own
        message = np.where(self.closed, -np.inf, 0.0)
        for v, own in enumerate(unary):
            message[v, : len(own)] += own
        logits = np.zeros((n, k, k))
        for v in reversed(self.order):
            logits[v] = np.where(self.closed[v], 0.0, link[v] + message[v][None, :])
            up = self.parent[v]
            if up >= 0:
                message[up] += special.logsumexp(link[v] + message[v][None, :], axis=1)
        logits -= np.where(self.closed[:, None, :], 0.0, logits.max(axis=2, keepdims=True))
        return logits.ravel()

    def value(self, x: Floats) -> tuple[float, Floats]:
        """Return the bound and its gradient."""
        n, k = self.n, self.k
        logits = np.where(self.closed[:, None, :], -np.inf, x.reshape(n, k, k))
        t = special.softmax(logits, axis=2)
        joint = np.zeros((n, n, k, k))
        single = np.zeros((n, k))
        for place, v in enumerate(self.order):
            up = self.parent[v]
            if up < 0:
                single[v] = t[v, 0]
            else:
                single[v] = single[up] @ t[v]
                before = self.order[self.start[place] : place]
                rows = joint[before, up] @ t[v]
                joint[before, v] = rows
                joint[v, before] = rows.transpose(0, 2, 1)
            joint[v, v] = np.diag(single[v])
        i, j = self.pairs.T
        together = self.tree_of[i] == self.tree_of[j]  # else a product
        pair = np.where(
            together[:, None, None], joint[i, j], single[i][:, :, None] * single[j][:, None, :]
        )
        total = self.reduced.constant + float((pair * self.tables).sum() + (single * self.u).sum())
        g_single = self.u.copy()
        g_joint = np.zeros((n, n, k, k))
        np.add.at(g_joint, (i[together], j[together]), self.tables[together])
        apart = ~together
        np.add.at(g_single, i[apart], np.einsum("exy,ey->ex", self.tables[apart], single[j[apart]]))
        np.add.at(g_single, j[apart], np.einsum("exy,ex->ey", self.tables[apart], single[i[apart]]))
        entropy = special.entr(t).sum(axis=2)
        log_t = np.log(np.where(t > 0.0, t, 1.0))
        g_t = np.zeros((n, k, k))
        for place in range(n - 1, -1, -1):
            v = self.order[place]
            up = self.parent[v]
            g_single[v] += np.diagonal(g_joint[v, v])
            if up < 0:
                total += float(entropy[v, 0])
                g_t[v, 0] = g_single[v] - log_t[v, 0] - 1.0
                continue
            total += float(single[up] @ entropy[v])
            g_single[up] += entropy[v] + t[v] @ g_single[v]
            g_t[v] = single[up][:, None] * (g_single[v][None, :] - log_t[v] - 1.0)
            before = self.order[self.start[place] : place]
            g = g_joint[before, v] + g_joint[v, before].transpose(0, 2, 1)
            g_t[v] += np.einsum("bax,bay->xy", joint[before, up], g)
            g_joint[before, up] += g @ t[v].T
        gradient = t * (g_t - (t * g_t).sum(axis=2, keepdims=True))
        return total, gradient.ravel()


def _forest(n: int, edges: Sequence[tuple[int, ...]], weights: Floats) -> list[int]:
    """Return the edges of a spanning forest of the largest weight."""
    parent = list(range(n))

    def find(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    kept = []
    for e in np.argsort(-weights, kind="stable"):
        a, b = (find(v) for v in edges[e])
        if a != b:
            parent[a] = b
            kept.append(int(e))
    return kept


def _degree(reduced: Reduced) -> int:
    return max((t.size for _, t in reduced.tables), default=0)
