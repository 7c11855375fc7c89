"""Slow, obvious answers for forests: enumeration and log-domain recursions in long double.

Nothing here imports the package under test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from oracles import LONG, one_hot_mask


@dataclass(frozen=True)
class Forest:
    """The arguments of a tree model, unvalidated."""

    parent: np.ndarray
    unary: np.ndarray
    pairwise: np.ndarray
    edge_type: np.ndarray | None = None
    allowed: np.ndarray | None = None

    def kwargs(self) -> dict[str, Any]:
        """Return the arguments as ``Tree(**kwargs)`` takes them."""
        return dict(vars(self))

    def astype(self, dtype: Any) -> Forest:
        """Return the same scores in another dtype."""
        return replace(self, unary=self.unary.astype(dtype), pairwise=self.pairwise.astype(dtype))

    def local(self) -> np.ndarray:
        """Return the unary scores with `allowed` folded in."""
        local = np.asarray(self.unary).astype(LONG)
        if self.allowed is not None:
            local = np.where(self.allowed, local, -np.inf)
        return local

    def table(self, i: int) -> np.ndarray:
        """Return the table of the edge from the parent of i to i."""
        if self.pairwise.ndim == 2:
            return self.pairwise.astype(LONG)
        return self.pairwise[i if self.edge_type is None else self.edge_type[i]].astype(LONG)


class TreeAnswer(NamedTuple):
    """The posterior of a forest."""

    marginals: np.ndarray  # (n, K)
    pairwise: np.ndarray  # (edges, K, K), by child
    log_z: np.ndarray  # (n_trees,)
    entropy: np.ndarray  # (n_trees,)


def downwards(parent: np.ndarray) -> list[int]:
    """Return the nodes, parents first."""
    children: list[list[int]] = [[] for _ in parent]
    order = []
    for i, p in enumerate(parent):
        if p < 0:
            order.append(i)
        else:
            children[p].append(i)
    for i in order:
        order.extend(children[i])
    return order


def trees_of(parent: np.ndarray) -> np.ndarray:
    """Return the number of each node's tree, roots ascending."""
    tree = np.full(len(parent), -1)
    tree[np.flatnonzero(parent < 0)] = np.arange((parent < 0).sum())
    for i in downwards(parent):
        if parent[i] >= 0:
            tree[i] = tree[parent[i]]
    return tree


def scores_of(model: Forest, states: np.ndarray) -> np.ndarray:
    """Return the log-potential of each row of ``states`` (m, n)."""
    local = model.local()
    score = np.zeros(len(states), dtype=LONG)
    for i, p in enumerate(model.parent):
        score = score + local[i, states[:, i]]
        if p >= 0:
            score = score + model.table(i)[states[:, p], states[:, i]]
    return score


def every_state(model: Forest) -> np.ndarray:
    """Return all K ** n configurations."""
    n, k = model.unary.shape
    return np.indices((k,) * n).reshape(n, k**n).T.astype(np.int64)


def enumerate_forest(model: Forest) -> tuple[np.ndarray, float, float]:
    """Return marginals, log Z of the whole forest and its best score, from the full list."""
    n, k = model.unary.shape
    states = every_state(model)
    scores = scores_of(model, states)
    top = scores.max()
    if top == -np.inf:
        return np.zeros((n, k)), -np.inf, -np.inf
    p = np.exp(scores - top)
    marginals = np.zeros((n, k), dtype=LONG)
    for i in range(n):
        np.add.at(marginals[i], states[:, i], p / p.sum())
    return marginals.astype(float), float(top + np.log(p.sum())), float(top)


def _lse(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.reduce(x, axis)


def _messages(model: Forest, masked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what each node sends to its parent, and gets from it; senders use ``masked``.

    A message from a parent leaves the child out by summing over its siblings.
    """
    n, k = model.unary.shape
    up, down = np.zeros((n, k), dtype=LONG), np.zeros((n, k), dtype=LONG)
    children: list[list[int]] = [[] for _ in range(n)]
    for i, p in enumerate(model.parent):
        if p >= 0:
            children[p].append(i)
    order = downwards(model.parent)
    with np.errstate(invalid="ignore"):
        for i in reversed(order):
            if model.parent[i] >= 0:
                own = masked[i] + sum((up[c] for c in children[i]), np.zeros(k, dtype=LONG))
                up[i] = _lse(model.table(i) + own[None, :], 1)
        for i in order:
            base = masked[i] + down[i]
            before = [np.zeros(k, dtype=LONG)]
            after = [np.zeros(k, dtype=LONG)]
            for c in children[i]:
                before.append(before[-1] + up[c])
            for c in reversed(children[i]):
                after.append(after[-1] + up[c])
            for j, c in enumerate(children[i]):
                others = base + before[j] + after[len(children[i]) - 1 - j]
                down[c] = _lse(model.table(c) + others[:, None], 0)
    return up, down


def _known(model: Forest, local: np.ndarray, up: np.ndarray) -> np.ndarray:
    known = local.copy()
    for i, p in enumerate(model.parent):
        if p >= 0:
            known[p] = known[p] + up[i]
    return known


def _normalised(x: np.ndarray) -> np.ndarray:
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def _xlogx(p: np.ndarray) -> np.ndarray:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)


def solve_forest(model: Forest) -> TreeAnswer:
    """Return the exact answer for a feasible forest."""
    local = model.local()
    up, down = _messages(model, local)
    known = _known(model, local, up)
    marginals = _normalised(known + down)
    roots = np.flatnonzero(model.parent < 0)
    log_z = np.array([_lse(known[r], 0) for r in roots], dtype=float)
    tree = trees_of(model.parent)
    k = model.unary.shape[1]
    pairwise = []
    entropy = np.zeros(len(roots), dtype=LONG)
    degree = np.zeros(len(local))
    for i, p in enumerate(model.parent):
        if p < 0:
            continue
        degree[[i, p]] += 1
        # The messages into p without that of i, by its own sum over the others.
        with np.errstate(invalid="ignore"):
            rest = local[p] + down[p]
            for c in np.flatnonzero(model.parent == p):
                if c != i:
                    rest = rest + up[c]
        joint = rest[:, None] + model.table(i) + known[i][None, :]
        joint = _normalised(joint.reshape(1, -1)).reshape(k, k)
        pairwise.append(joint)
        entropy[tree[i]] -= _xlogx(joint).sum()
    for i in range(len(local)):
        entropy[tree[i]] += (degree[i] - 1) * _xlogx(marginals[i]).sum()
    return TreeAnswer(
        marginals.astype(float),
        np.array(pairwise, dtype=float).reshape(-1, k, k),
        log_z,
        entropy.astype(float),
    )


def first_dead_node(model: Forest) -> tuple[int, int] | None:
    """Return (tree, node) of the first tree's lowest node that is the first to die, or None."""
    alive = model.local() > -np.inf
    dead = set()
    stained = set()  # above a dead node
    for i in reversed(downwards(model.parent)):
        p = model.parent[i]
        if i in stained:
            stained.add(p)
            continue
        if not alive[i].any():
            dead.add(i)
            stained.add(p)
        elif p >= 0:
            alive[p] &= ((model.table(i) > -np.inf) & alive[i][None, :]).any(axis=1)
    tree = trees_of(model.parent)
    return min(((int(tree[i]), int(i)) for i in dead), default=None)


def clamped_forest(model: Forest, islands: np.ndarray) -> Forest:
    """Return the model with every island forced to its value."""
    allowed = one_hot_mask(islands, model.unary.shape[1])
    if model.allowed is not None:
        allowed &= model.allowed
    return replace(model, allowed=allowed)


def conditioned_forest(model: Forest, islands: np.ndarray) -> np.ndarray:
    """Return (n, K) marginals given the islands; an island's own are given all the *others*."""
    mask = one_hot_mask(islands, model.unary.shape[1])
    local = model.local()
    up, down = _messages(model, np.where(mask, local, -np.inf))
    return _normalised(_known(model, local, up) + down).astype(float)
