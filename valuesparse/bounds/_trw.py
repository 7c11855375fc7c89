r"""The dual of tree-reweighted belief propagation: valid wherever it stops.

Spanning forests T that cover all edges share the model out, :math:`\frac1M \sum_T \theta_T =
\theta`, and log Z is convex, so :math:`\log Z(\theta) \le \frac1M \sum_T \log Z(\theta_T)`. The
shares are improved by L-BFGS; all forests are one model of the exact engine for trees.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse
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
_MORE = 4


def fits(reduced: Reduced) -> bool:
    """Whether `upper` takes this model."""
    k = max(reduced.cards, default=1)
    return reduced.pairwise and len(reduced.unary) * k * k * (_MORE + 4) <= _NUMBERS


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
        forests = _cover(n, edges, rng)
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
        self.size = m * n * k + len(self.edge) * k * k

    def value(self, x: Floats) -> tuple[float, float, Floats]:
        """Return the dual, the bound it proves, and the gradient."""
        m, n, k = self.m, self.n, self.k
        cut = m * n * k
        moves = self._centred(x[cut:].reshape(-1, k, k))
        shift = x[:cut].reshape(m, n, k)
        unary = (self.u[None] + shift - shift.mean(axis=0)).reshape(m * n, k)
        share = (m / self.count)[self.edge][:, None, None]
        tables = self.tables[self.edge] * share + moves
        pairwise = np.zeros((m * n, k, k))
        pairwise[self.row] = np.where(self.flip[:, None, None], tables.transpose(0, 2, 1), tables)
        tree = Tree(self.parent.ravel(), unary, pairwise, allowed=np.tile(self.allowed, (m, 1)))
        r = infer(tree, threads=1)
        assert isinstance(r, TreeResult)
        value = float(np.sum(r.log_z)) / m + self.reduced.constant
        magnitude = _total(unary) + _total(tables) + self.reduced.magnitude
        margin = sum(engine_margin(float(z), 0.0, 0.0) for z in r.log_z) / m
        margin += engine_margin(0.0, n * k * k, magnitude)
        single = np.asarray(r.marginals).reshape(m, n, k)
        g_unary = (single - single.mean(axis=0)) / m
        pair = np.empty((m * n, k, k))
        pair[np.flatnonzero(self.parent.ravel() >= 0)] = r.pairwise()
        g = pair[self.row]
        g = np.where(self.flip[:, None, None], g.transpose(0, 2, 1), g)
        g_edges = self._centred(g) / m
        return value, up(value, margin), np.concatenate([g_unary.ravel(), g_edges.ravel()])

    def _centred(self, a: Floats) -> Floats:
        """Take off the mean over the forests that an edge is in."""
        sums = np.zeros((len(self.count), self.k, self.k))
        np.add.at(sums, self.edge, a)
        return a - (sums / np.maximum(self.count, 1)[:, None, None])[self.edge]


def _cover(n: int, edges: Ints, rng: np.random.Generator) -> list[Ints]:
    """Return the parents of spanning forests: all edges are in some, each as often as can be."""
    count = np.zeros(len(edges))
    forests: list[Ints] = []
    more = _MORE
    while more or not count.all():
        more -= bool(more)
        # Edges that few forests have come first; ties at random.
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
