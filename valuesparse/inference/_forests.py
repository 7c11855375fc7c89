"""Forests inside a factor graph, and how often a random one holds each factor.

A forest is a set of factors without a cycle: in the order they are added, the variables of each lie
in distinct components. Factors of any scope may be in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["cover", "forest", "is_forest", "spanning_tree_probabilities"]

Array = npt.NDArray[Any]
Scopes = Sequence[tuple[int, ...]]

#: Variables up to which the Laplacian is inverted densely.
MOST_DENSE = 1000


def forest(n: int, scopes: Scopes, order: Iterable[int]) -> list[int]:
    """Return a maximal forest: factors taken greedily in this order."""
    root = list(range(n))
    taken = []
    for f in order:
        tops = []
        for v in scopes[f]:
            while root[v] != v:
                root[v] = root[root[v]]
                v = root[v]
            tops.append(v)
        if len(set(tops)) == len(tops):
            taken.append(f)
            for v in tops[1:]:
                root[v] = tops[0]
    return taken


def is_forest(n: int, scopes: Scopes, factors: Sequence[int]) -> bool:
    """Say whether `factors` have no cycle."""
    return len(forest(n, scopes, factors)) == len(factors)


def cover(n: int, scopes: Scopes, least: int, seed: int) -> list[list[int]]:
    """Return `least` forests or more that hold every factor, the least used ones first."""
    rng = np.random.default_rng(seed)
    used = np.zeros(len(scopes), dtype=np.int64)
    found: list[list[int]] = []
    while len(found) < least or (used.size and used.min() == 0):
        order = np.lexsort((rng.random(len(scopes)), used))
        tree = forest(n, scopes, order.tolist())
        used[tree] += 1
        found.append(tree)
    return found


def spanning_tree_probabilities(n: int, scopes: Scopes) -> Array:
    """Return how likely a uniform spanning tree is to hold each edge, by the matrix-tree theorem.

    The probability of an edge is its effective resistance. All scopes have two variables.
    """
    if not scopes:
        return np.ones(0)
    ends = np.array(scopes)
    laplacian = np.zeros((n, n))
    np.add.at(laplacian, (ends[:, 0], ends[:, 1]), -1.0)
    np.add.at(laplacian, (ends[:, 1], ends[:, 0]), -1.0)
    laplacian[np.arange(n), np.arange(n)] = -laplacian.sum(axis=1)
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    diagonal = np.diag(inverse)
    u, v = ends.T
    return np.clip(diagonal[u] + diagonal[v] - 2.0 * inverse[u, v], 1e-12, 1.0)
