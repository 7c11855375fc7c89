"""Small and random forests, and what the answers to them are held to."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
from strategies import scores
from tree_oracles import (
    Forest,
    clamped_forest,
    conditioned_forest,
    solve_forest,
)

import valuesparse as vs


@st.composite
def forests(draw: st.DrawFn, *, max_nodes: int = 8, extreme: bool = True) -> Forest:
    """Draw a small forest in any order, any layout of `pairwise`, −inf anywhere."""
    n, k = draw(st.integers(0, max_nodes)), draw(st.integers(1, 4))
    if k**n > 10_000:
        k = 2
    order = draw(st.permutations(range(n)))
    parent = np.full(n, -1, dtype=np.int64)
    for j in range(1, n):
        at = draw(st.integers(-1, j - 1))
        parent[order[j]] = -1 if at < 0 else order[at]
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    element = scores(extreme=extreme)

    def table(*shape: int) -> Any:
        return hnp.arrays(dtype, shape, elements=element, fill=st.just(0.0))

    kind = draw(st.integers(0, 2))
    types = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 1))) if kind == 1 else None
    shape = [(k, k), (2, k, k), (n, k, k)][kind]
    mask = hnp.arrays(bool, (n, k), elements=st.booleans(), fill=st.just(True))
    return Forest(parent, draw(table(n, k)), draw(table(*shape)), types, draw(st.none() | mask))


def random_parent(rng: np.random.Generator, n: int, trees: int = 1, *, deep: bool = False) -> Any:
    """Return random recursive trees, or (deep) trees of long branches, in a random order."""
    low = np.maximum(0, np.arange(n) - 3) if deep else np.zeros(n, dtype=np.int64)
    parent = (low + rng.random(n) * (np.arange(n) - low)).astype(np.int64)
    parent[0] = -1
    parent[rng.choice(np.arange(1, n), trees - 1, replace=False)] = -1
    order = rng.permutation(n)
    out = np.full(n, -1)
    out[order] = np.where(parent >= 0, order[parent], -1)
    return out


def random_forest(
    rng: np.random.Generator,
    parent: np.ndarray,
    k: int,
    *,
    kind: int = 0,
    peak: float = 0.0,
    share: float = 0.7,
    forbidden: float = 0.0,
    dtype: Any = np.float64,
) -> Forest:
    """Return normal scores; a share of the local factors confident, a share of all forbidden."""
    n = len(parent)
    unary = rng.normal(size=(n, k))
    confident = rng.random(n) < share
    unary[np.arange(n), rng.integers(0, k, n)] += peak * confident
    pairwise = rng.normal(size=[(k, k), (3, k, k), (n, k, k)][kind])
    for a in (unary, pairwise):
        a[rng.random(a.shape) < forbidden] = -np.inf
    types = rng.integers(0, 3, n) if kind == 1 else None
    return Forest(parent, unary, pairwise, types).astype(dtype)


def tree(model: Forest) -> vs.Tree:
    """Build the tree that these arrays describe."""
    return vs.Tree(**model.kwargs())


def tolerance(model: Forest) -> float:
    """Return 1e-10 or 1e-5 plus a small multiple of eps x the largest partial score."""
    float32 = model.unary.dtype == np.float32
    total = sum(
        np.abs(np.where(np.isfinite(a), a, 0)).max(initial=0) for a in (model.unary, model.pairwise)
    ) * max(1, len(model.parent))
    return (1e-5 if float32 else 1e-10) + 4 * float(np.finfo(model.unary.dtype).eps) * total


def assert_derived(model: Forest, r: vs.Result) -> None:
    """Compare log_z, pairwise, expectations and entropy with the recursions."""
    answer, tol = solve_forest(model), tolerance(model)
    np.testing.assert_allclose(r.log_z, answer.log_z, rtol=tol, atol=tol)
    pairwise = r.pairwise()
    np.testing.assert_allclose(pairwise, answer.pairwise, rtol=0, atol=tol)
    assert pairwise.dtype == model.unary.dtype
    total = r.expectations()
    children = np.flatnonzero(model.parent >= 0)
    want = np.zeros_like(total)
    if model.edge_type is None:
        want += answer.pairwise.sum(axis=0)
    else:
        np.add.at(want, model.edge_type[children], answer.pairwise)
    np.testing.assert_allclose(total, want, rtol=0, atol=tol * max(1, len(children)))
    np.testing.assert_allclose(
        r.entropy(), answer.entropy, rtol=0, atol=100 * tol * (1 + len(model.parent))
    )


def assert_exact(model: Forest, r: vs.Result) -> None:
    """Compare everything an exact result offers with the recursions."""
    np.testing.assert_allclose(
        r.marginals, solve_forest(model).marginals, rtol=0, atol=tolerance(model)
    )
    assert r.marginals.dtype == model.unary.dtype
    assert r.method == "exact"
    assert r.converged is True
    assert_derived(model, r)


def assert_islands(model: Forest, r: vs.Result, zeta: float, *, settled: bool) -> None:
    """Check what islands promise; see assert_islands of checks.py."""
    islands, p, tol = r.islands, r.marginals, tolerance(model)
    np.testing.assert_allclose(p, conditioned_forest(model, islands), rtol=0, atol=tol)
    assert r.stats["islands"] == (islands >= 0).sum()
    assert_derived(clamped_forest(model, islands), r)
    if not settled:
        return
    assert r.converged is True
    slack = 1e-6 if p.dtype == np.float32 else 1e-12
    top, held = p.max(axis=1, initial=0), islands >= 0
    value = p[held, islands[held]]
    assert (value >= top[held] - slack).all()
    assert (value >= zeta - slack).all()
    assert (~held & (top >= zeta + slack)).sum() <= r.stats["released"]
