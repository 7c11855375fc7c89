"""Forests inside a factor graph, and how often a random one holds each factor.

A forest is a set of factors without a cycle: in the order they are added, the variables of each lie
in distinct components. Factors of any scope may be in one. Factors of the same variables are one, a
group of the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from valuesparse import _loopy

if TYPE_CHECKING:
    from valuesparse.inference._loopy import Layout
    from valuesparse.inference._watch import Watch

__all__ = ["cover", "in_reach", "spanning_tree_probabilities"]

Array = npt.NDArray[Any]

#: Variables up to which the Laplacian is factorised.
MOST = 1 << 16
#: Edges a variable up to which that is sparse; up to `MOST_DENSE` variables any number will do.
MOST_EDGES = 4
MOST_DENSE = 1000


def cover(layout: Layout, least: int, seed: int, watch: Watch) -> list[Array]:
    """Return `least` forests or more that hold every group, the least used ones first."""
    rng = np.random.default_rng(seed)
    count = layout.n_groups
    used = np.zeros(count, dtype=np.uint16)  # 16 bits: sorted by their digits, in linear time
    found: list[Array] = []
    while len(found) < least or (used.size and used.min() == 0):
        shuffled = rng.permutation(count)
        tree = layout.forest(shuffled[np.argsort(used[shuffled], kind="stable")], watch)
        used[tree] += 1
        found.append(tree)
    return found


def in_reach(layout: Layout) -> bool:
    """Say whether `spanning_tree_probabilities` can be had, in reasonable time."""
    n, groups = len(layout.cards), layout.n_groups
    pairs = len(layout.engine.scope) == 2 * groups and bool((np.diff(layout.engine.ptr) == 2).all())
    return pairs and (n <= MOST_DENSE or (n <= MOST and groups <= MOST_EDGES * n))


def spanning_tree_probabilities(layout: Layout) -> Array:
    """Return how likely a uniform spanning tree is to hold each group, all of two variables.

    By the matrix-tree theorem that is an edge's effective resistance: entries of the inverse of the
    Laplacian with one variable of each component grounded, and only those at edges are needed.
    """
    pairs = np.ascontiguousarray(layout.engine.scope.reshape(-1, 2))
    found = np.ones(len(pairs))
    # Every tree holds what lies on no cycle.
    open_ = _loopy.on_cycles(len(layout.cards), pairs)
    if open_.any():
        inside = np.zeros(len(layout.cards), dtype=np.bool_)
        inside[pairs[open_]] = True
        number = np.cumsum(inside) - 1
        found[open_] = _resistances(int(inside.sum()), *number[pairs[open_]].T)
    return found


def _resistances(n: int, u: Array, v: Array) -> Array:
    """Return the effective resistance of each edge (u, v) of a graph, each of conductance one."""
    ones = np.ones(len(u))
    _, component = csgraph.connected_components(
        sparse.coo_matrix((ones, (u, v)), shape=(n, n)), directed=False
    )
    free = np.ones(n, dtype=np.bool_)
    free[np.unique(component, return_index=True)[1]] = False
    place = np.cumsum(free) - 1
    degree = np.bincount(np.r_[u, v], minlength=n)[free].astype(np.float64)
    both = free[u] & free[v]
    a, b = place[u[both]], place[v[both]]
    m = degree.size
    own = np.arange(m)
    laplacian = sparse.csc_matrix(
        (np.r_[-ones[both], -ones[both], degree], (np.r_[a, b, own], np.r_[b, a, own])), (m, m)
    )
    lu = splu(
        laplacian, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, panel_size=1,
        options={"SymmetricMode": True},
    )  # fmt: skip
    lower = lu.L
    value, diagonal = _loopy.inverse_entries(
        lower.indptr, lower.indices, lower.data, lu.U.diagonal()
    )
    order = lu.perm_c
    inverse = sparse.csc_matrix((value, lower.indices, lower.indptr), (m, m))
    grounded = np.zeros(n)
    grounded[free] = diagonal[order]
    resistance = grounded[u] + grounded[v]
    if a.size:
        i, j = order[a], order[b]
        resistance[both] -= 2.0 * np.asarray(inverse[np.maximum(i, j), np.minimum(i, j)]).ravel()
    return np.clip(resistance, 1e-12, 1.0)
