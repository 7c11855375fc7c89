"""Best states of larger forests: their scores are the largest, and what is forbidden stays out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from checks import assert_same_bits
from forest_checks import random_forest, random_parent, tolerance, tree
from tree_oracles import Forest, downwards, scores_of

import valuesparse as vs

pytestmark = pytest.mark.simd

# Labels around whole vectors of 2 to 16 lanes, a lone last column, and scans of rows.
LABELS = [1, 2, 3, 5, 8, 9, 15, 16, 17, 33, 130, 260]


def largest_score(model: Forest) -> float:
    """Return the largest score of all configurations, by messages from the leaves."""
    value = model.unary.astype(np.float64)
    best = 0.0
    for v in reversed(downwards(model.parent)):
        p = model.parent[v]
        if p < 0:
            best += value[v].max()
            continue
        table = model.pairwise
        if model.edge_type is not None:
            table = table[model.edge_type[v]]
        elif table.ndim == 3:
            table = table[v]
        value[p] += (table.astype(np.float64) + value[v]).max(axis=1)
    return best


def stars(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return the parents of trees of two levels, of 1 to 40 nodes."""
    parent = np.empty(n, dtype=np.int64)
    at = 0
    while at < n:
        end = min(n, at + int(rng.integers(1, 41)))
        parent[at:end] = at
        parent[at] = -1
        at = end
    return parent


SHAPES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "random": lambda rng, n: random_parent(rng, n, 5),
    "deep": lambda rng, n: random_parent(rng, n, 2, deep=True),
    "stars": stars,
    "path": lambda rng, n: np.arange(n) - 1,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_the_largest(shape: str, kind: int, dtype: type) -> None:
    rng = np.random.default_rng(kind)
    for k in LABELS:
        n = 700 if k < 100 else 60
        if kind == 2:
            n = min(n, 400_000 // k**2 + 20)
        for peak in (0.0, 8.0):
            model = random_forest(
                rng, SHAPES[shape](rng, n), k, kind=kind, peak=peak, forbidden=0.01, dtype=dtype
            )
            expected = largest_score(model)
            if expected == -np.inf:
                with pytest.raises(vs.InfeasibleError):
                    vs.decode(tree(model))
                continue
            d = vs.decode(tree(model), threads=1)
            tol = tolerance(model)
            np.testing.assert_allclose(d.score.sum(), expected, rtol=tol, atol=tol)
            own = scores_of(model, d.states[None])[0]
            np.testing.assert_allclose(own, expected, rtol=tol, atol=tol)
            assert_same_bits(d.states, vs.decode(tree(model), threads=3).states)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 9, 17])
def test_ties_take_the_lowest_labels(k: int, dtype: type) -> None:
    """All is equal but for what is forbidden: at the root, then of each child."""
    rng = np.random.default_rng(k)
    unary = np.where(rng.random((200, k)) < 0.4, -np.inf, 0.0).astype(dtype)
    unary[:, -1] = 0.0
    d = vs.decode(vs.Tree(random_parent(rng, 200, 7), unary, np.zeros((k, k), dtype)))
    assert d.states.tolist() == np.argmax(unary, axis=1).tolist()


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_node_without_a_state_is_named(kind: int) -> None:
    rng = np.random.default_rng(kind)
    model = random_forest(rng, random_parent(rng, 90, 3), 9, kind=kind)
    model.unary[41] = -np.inf
    with pytest.raises(vs.InfeasibleError) as info:
        vs.decode(tree(model))
    assert info.value.position == 41
