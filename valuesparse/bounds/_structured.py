r"""Structured mean field: :math:`E_q[\text{score}] + H(q) \le \log Z` for q over a spanning forest.

Expectations under q are exact, those of edges outside the forest included; valid at any q.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, special
from scipy.sparse import csgraph

from valuesparse.bounds._reduced import Reduced
from valuesparse.bounds._rounding import EPS, down

__all__ = ["fits", "structured"]

Floats = npt.NDArray[np.float64]

# Numbers that the joint marginals of all pairs may take.
_PAIRS = 40_000_000


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
