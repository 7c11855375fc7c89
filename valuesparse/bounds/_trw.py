r"""The dual of tree-reweighted belief propagation: valid wherever it stops.

Spanning forests T that cover all edges share the model out,
:math:`\sum_T \rho_T \theta_T = \theta` with :math:`\sum_T \rho_T = 1`, and log Z is convex, so
:math:`\log Z(\theta) \le \sum_T \rho_T \log Z(\theta_T)`. Shares and weights are improved by
L-BFGS; all forests are one model of the exact engine for trees.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, special
from scipy.sparse import csgraph

from valuesparse.bounds._reduced import Reduced
from valuesparse.bounds._rounding import EPS, engine_margin, up
from valuesparse.errors import InfeasibleError
from valuesparse.inference import infer
from valuesparse.models import Tree
from valuesparse.results import TreeResult

__all__ = ["fits", "upper"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Numbers that all forests may take, and forests beyond those that cover the edges.
_NUMBERS = 4_000_000
_MORE = 12


def fits(reduced: Reduced) -> bool:
    """Whether `upper` takes this model."""
    k = max(reduced.cards, default=1)
    return reduced.pairwise and len(reduced.unary) * k * k * _MORE <= _NUMBERS


def upper(reduced: Reduced, iterations: int = 100, seed: int = 0) -> float:
    """Return an upper bound on log Z; -inf proves that there is no configuration."""
    if not reduced.unary:
        return up(reduced.constant, EPS * 8.0 * reduced.magnitude)
    dual = _Dual(reduced, np.random.default_rng(seed))
    best = np.inf

    def loss(x: Floats) -> tuple[float, Floats]:
        nonlocal best
        value, bound, gradient = dual.value(x)
        best = min(best, bound)
        return value, gradient

    try:
        start = np.zeros(dual.size)
        loss(start)
        if iterations:
            optimize.minimize(
                loss, start, jac=True, method="L-BFGS-B",
                options={"maxiter": iterations, "ftol": 1e-10, "maxcor": 20},
            )  # fmt: skip
    except InfeasibleError:
        return -np.inf
    return best


class _Dual:
    """Forests, and the shares of the model that they have."""

    def __init__(self, reduced: Reduced, rng: np.random.Generator) -> None:
        self.reduced = reduced
        n, k = len(reduced.unary), max(reduced.cards)
        self.n, self.k = n, k
        edges = np.array([s for s, _ in reduced.tables], dtype=np.int64).reshape(-1, 2)
        strength = np.array([np.ptp(t[np.isfinite(t)]) if np.isfinite(t).any() else 0.0
                             for _, t in reduced.tables])  # fmt: skip
        forests = _cover(n, edges, strength, rng)
        m = self.m = len(forests)
        self.parent = np.full((m, n), -1, dtype=np.int64)
        edge, tree, child, flip = [], [], [], []
        number = {(int(i), int(j)): e for e, (i, j) in enumerate(edges)}
        for t, above in enumerate(forests):
            for v, p in enumerate(above):
                if p >= 0:
                    e = number.get((int(p), v), -1)
                    flip.append(e < 0)
                    edge.append(e if e >= 0 else number[v, int(p)])
                    tree.append(t)
                    child.append(v)
            self.parent[t] = np.where(above >= 0, above + t * n, -1)
        self.edge = np.array(edge, dtype=np.int64)
        self.row = np.array(tree, dtype=np.int64) * n + np.array(child, dtype=np.int64)
        self.flip = np.array(flip, dtype=bool)
        self.count = np.bincount(self.edge, minlength=len(edges))
        self.allowed = np.arange(k)[None, :] < np.array(reduced.cards)[:, None]
        self.u = np.zeros((n, k))
        for v, own in enumerate(reduced.unary):
            self.u[v, : len(own)] = own
        self.tables = np.zeros((len(edges), k, k))
        for e, (_, table) in enumerate(reduced.tables):
            self.tables[e, : table.shape[0], : table.shape[1]] = table
        self.finite = np.where(np.isfinite(self.tables), self.tables, 0.0)
        self.of = self.row // n
        self.size = m + m * n * k + len(self.edge) * k * k

    def value(self, x: Floats) -> tuple[float, float, Floats]:
        """Return the dual, the bound it proves, and the gradient."""
        m, n, k = self.m, self.n, self.k
        cut = m + m * n * k
        # Weights bounded below: shares are divided by them.
        rho = 0.02 / m + 0.98 * special.softmax(x[:m])
        rho /= rho.sum()
        cover: Floats = np.zeros(len(self.count))
        np.add.at(cover, self.edge, rho[self.of])
        own = rho[self.of][:, None, None]
        shift = x[m:cut].reshape(m, n, k)
        moves = x[cut:].reshape(-1, k, k)
        shift = shift - np.tensordot(rho, shift, axes=1)
        moves = moves - self._mean(own * moves, cover)
        unary = (self.u[None] + shift).reshape(m * n, k)
        tables = (self.tables / cover[:, None, None])[self.edge] + moves
        pairwise = np.zeros((m * n, k, k))
        pairwise[self.row] = np.where(self.flip[:, None, None], tables.transpose(0, 2, 1), tables)
        tree = Tree(self.parent.ravel(), unary, pairwise, allowed=np.tile(self.allowed, (m, 1)))
        r = infer(tree, threads=1)
        assert isinstance(r, TreeResult)
        forest = tree.roots // n
        of_forest = np.bincount(forest, r.log_z, m)
        value = float(rho @ of_forest) + self.reduced.constant
        magnitude = _total(unary) + _total(tables) + self.reduced.magnitude
        margin = sum(engine_margin(float(z), 0.0, 0.0) for z in r.log_z)
        margin += engine_margin(0.0, n * k * k, magnitude)
        single = np.asarray(r.marginals).reshape(m, n, k)
        pair = np.empty((m * n, k, k))
        pair[np.flatnonzero(self.parent.ravel() >= 0)] = r.pairwise()
        g = pair[self.row]
        g = np.where(self.flip[:, None, None], g.transpose(0, 2, 1), g)
        mean = np.tensordot(rho, single, axes=1)
        g_unary = rho[:, None, None] * (single - mean)
        together = self._mean(own * g, cover)
        g_edges = own * (g - together)
        # d / d rho: the forest itself, and what other forests' shares lose when it grows.
        per_edge = (together * (self.finite / cover[:, None, None])[self.edge]).sum(axis=(1, 2))
        per_edge += (together * moves).sum(axis=(1, 2))
        g_rho = of_forest - (mean * shift).sum(axis=(1, 2)) - np.bincount(self.of, per_edge, m)
        soft = (rho - 0.02 / m) / 0.98
        g_eta = 0.98 * soft * (g_rho - soft @ g_rho)
        return value, up(value, margin), np.concatenate([g_eta, g_unary.ravel(), g_edges.ravel()])

    def _mean(self, a: Floats, cover: Floats) -> Floats:
        """Return, for each edge of each forest, the mean of weighted `a` over the forests."""
        sums = np.zeros((len(self.count), self.k, self.k))
        np.add.at(sums, self.edge, a)
        mean: Floats = (sums / cover[:, None, None])[self.edge]
        return mean


def _cover(n: int, edges: Ints, strength: Floats, rng: np.random.Generator) -> list[Ints]:
    """Return the parents of spanning forests that cover all edges, and of some of strong edges."""
    count = np.zeros(len(edges))
    forests: list[Ints] = []
    strong = strength / max(float(strength.max(initial=0.0)), 1e-300)
    while len(forests) < _MORE or not count.all():
        if len(forests) % 2 and len(forests) < _MORE:
            cost = 2.0 - strong + 0.3 * rng.random(len(edges))
        else:  # edges that few forests have come first; ties at random
            cost = 1.0 + count + 0.5 * rng.random(len(edges))
        adjacency = sparse.csr_array((cost, (edges[:, 0], edges[:, 1])), shape=(n, n))
        tree = csgraph.minimum_spanning_tree(adjacency)
        parent = np.full(n, -1, dtype=np.int64)
        seen = np.zeros(n, dtype=bool)
        for root in rng.permutation(n):
            if not seen[root]:
                part, above = csgraph.breadth_first_order(tree, int(root), directed=False)
                seen[part] = True
                parent[part[1:]] = above[part[1:]]
        up_or_down = (parent[edges[:, 1]] == edges[:, 0]) | (parent[edges[:, 0]] == edges[:, 1])
        count += up_or_down
        forests.append(parent)
    return forests


def _total(a: Floats) -> float:
    """Return the sum of the largest finite entry of every table."""
    finite = np.where(np.isfinite(a), np.abs(a), 0.0)
    return float(finite.max(axis=tuple(range(1, a.ndim)), initial=0.0).sum())
