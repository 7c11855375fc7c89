"""Support trees (Gremban): a graph is cut in two again and again; every part is a Steiner node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.sparse import csgraph

__all__ = ["gauge", "schur", "support_tree"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Larger parts are halved in breadth-first order instead of by the Fiedler vector.
_SPECTRAL = 1200


def support_tree(weights: Floats) -> tuple[Ints, Floats]:
    """Return the parent of every node, -1 at roots, and the weight of the edge to it.

    The first n nodes are those of the graph `weights` (n, n), symmetric and non-negative; the
    others are Steiner nodes, parents after their children. An edge weighs what leaves the part
    below it; edges that weigh nothing (above whole components) are left out.
    """
    n = len(weights)
    parent, weight = [-1] * n, [0.0] * n
    inner: list[tuple[int, list[int]]] = []

    def grow(part: Ints) -> int:
        if len(part) == 1:
            return int(part[0])
        children = [grow(half) for half in _halves(weights, part)]
        parent.append(-1)
        weight.append(0.0)
        node = len(parent) - 1
        for child in children:
            parent[child] = node
        inner.append((node, [int(v) for v in part]))
        return node

    _, label = csgraph.connected_components(weights > 0, directed=False)
    for c in range(label.max(initial=-1) + 1):
        grow(np.flatnonzero(label == c))
    for v in range(n):
        weight[v] = float(weights[v].sum())
    for node, part in inner:
        inside = np.zeros(n, dtype=bool)
        inside[part] = True
        weight[node] = float(weights[inside][:, ~inside].sum())
    return np.array(parent, dtype=np.int64), np.array(weight)


def schur(n: int, parent: Ints, weight: Floats) -> Floats:
    """Return the Laplacian on the first n nodes once the Steiner nodes take their best values.

    Each is replaced by a mesh between its neighbours: sums, products and quotients of positive
    numbers only, so every entry has a relative error of at most 4 eps for each node eliminated.
    """
    size = len(parent)
    w = np.zeros((size, size))
    for v, up in enumerate(parent):
        if up >= 0:
            w[v, up] = w[up, v] = weight[v]
    for node in range(n, size):
        near = np.flatnonzero(w[node])
        row = w[node, near]
        mesh = np.outer(row, row) / row.sum() if len(near) else np.zeros((0, 0))
        w[np.ix_(near, near)] += mesh
        w[node] = w[:, node] = 0.0
        w[near, near] = 0.0
    w = w[:n, :n]
    return np.diag(w.sum(axis=1)) - w


def gauge(v: Floats) -> Floats:
    """Return signs g such that the heaviest v_ij g_i g_j are negative: all, where that can be."""
    n = len(v)
    tree = csgraph.minimum_spanning_tree(1.0 / (1.0 + np.abs(v)) * (v != 0))
    signs = np.ones(n)
    _, label = csgraph.connected_components(tree, directed=False)
    both = tree + tree.T
    for c in range(label.max(initial=-1) + 1):
        root = int(np.flatnonzero(label == c)[0])
        order, up = csgraph.breadth_first_order(both, root, directed=False)
        for node in order[1:]:
            signs[node] = -np.sign(v[node, up[node]]) * signs[up[node]]
    return signs


def _halves(weights: Floats, part: Ints) -> tuple[Ints, Ints]:
    half = len(part) // 2
    w = weights[np.ix_(part, part)]
    if len(part) <= 2:
        order = np.arange(len(part))
    elif len(part) > _SPECTRAL:
        order = csgraph.breadth_first_order(w, 0, directed=False, return_predecessors=False)
        missed = np.ones(len(part), dtype=bool)
        missed[order] = False
        order = np.concatenate([order, np.flatnonzero(missed)])
    else:
        laplacian = np.diag(w.sum(axis=1)) - w
        _, vectors = linalg.eigh(laplacian, subset_by_index=[1, 1])
        order = np.argsort(vectors[:, 0], kind="stable")
    return part[order[:half]], part[order[half:]]
