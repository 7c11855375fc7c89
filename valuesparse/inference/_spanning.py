"""Forests inside a factor graph, and how often a random one holds each factor.

A forest is a set of factors without a cycle: in the order they are added, the variables of each lie
in distinct components. Factors of any scope may be in one. Factors of the same variables are one, a
group of the network.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _exit, _messages
from valuesparse.inference._network import Network
from valuesparse.inference._watch import Watch

__all__ = ["cover", "in_reach", "spanning_tree_probabilities"]

Array = npt.NDArray[Any]

#: Variables up to which the Laplacian is factorised.
MOST = 1 << 16
#: Edges a variable up to which that is sparse; up to `MOST_DENSE` variables any number will do.
MOST_EDGES = 4
MOST_DENSE = 1000


def cover(network: Network, least: int, seed: int, watch: Watch) -> list[Array]:
    """Return `least` forests or more that hold every group, the least used ones first."""
    rng = np.random.default_rng(seed)
    count = network.n_groups
    used = np.zeros(count, dtype=np.uint16)  # 16 bits: sorted by their digits, in linear time
    found: list[Array] = []
    while len(found) < least or (used.size and used.min() == 0):
        shuffled = rng.permutation(count)
        tree = network.forest(shuffled[np.argsort(used[shuffled], kind="stable")], watch)
        used[tree] += 1
        found.append(tree)
    return found


def in_reach(network: Network) -> bool:
    """Whether `spanning_tree_probabilities` takes reasonable time."""
    n, groups = len(network.cards), network.n_groups
    pairs = len(network.native.scope) == 2 * groups and bool(
        (np.diff(network.native.ptr) == 2).all()
    )
    pairs = pairs and not network.structured()
    return pairs and (n <= MOST_DENSE or (n <= MOST and groups <= MOST_EDGES * n))


def spanning_tree_probabilities(network: Network) -> Array:
    """Return how likely a uniform spanning tree is to hold each group, all of two variables.

    By the matrix-tree theorem that is an edge's effective resistance: entries of the inverse of the
    Laplacian with one variable of each component grounded, and only those at edges are needed.
    The network keeps them: they take longer than the messages that they weigh.
    """
    if network.spanning is None:
        network.spanning = _resistances(network)
    return network.spanning.copy()


def _resistances(network: Network) -> Array:
    from scipy import sparse
    from scipy.sparse.linalg import splu

    trees = _messages.SpanningTrees(len(network.cards), network.native.scope)
    if not trees.columns:  # every tree holds what lies on no cycle
        return np.ones(network.n_groups)
    # SuperLU does not survive the end of the interpreter, nor do its objects: none is left.
    with _exit.held():
        lu = splu(
            sparse.csc_matrix(trees.laplacian, (trees.columns, trees.columns)),
            permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, panel_size=1,
            options={"SymmetricMode": True},
        )  # fmt: skip
        lower, diagonal, order = lu.L, lu.U.diagonal(), lu.perm_c.copy()
        del lu
    return trees.read(lower.indptr, lower.indices, lower.data, diagonal, order)
