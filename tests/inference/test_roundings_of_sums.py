"""Proofs count what sums round: of ends, of parts that are added up, and of what is left out."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp

import valuesparse as vs

pytestmark = pytest.mark.simd


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize(("size", "step"), [(1e7, 0.49), (8192.0, 4.8e-4)])
@pytest.mark.parametrize("ask", [{"tol": 0.5}, {"work": 1e9}, {"certify": 1}])
def test_lists_in_float32_that_are_passed_through_in_logarithms(
    tree: bool, size: float, step: float, ask: dict[str, float]
) -> None:
    k, n = 128, 6
    pairs = sp.coo_array(
        (np.full(k, -np.inf, np.float32), (np.arange(k), np.full(k, 5))), shape=(k, k)
    )
    columns = np.zeros(k, np.float32)
    columns[0] = step
    given = vs.SparseTransition(pairs, 0.0, np.full(k, size, np.float32), columns)
    unary = np.full((n, k), -30.0, np.float32)
    unary[:, :2] = 0.0
    unary[3] = -300.0
    unary[3, 5] = unary[3, 0] + 300.0  # the best label is forbidden
    model: Any = vs.Tree(np.arange(n) - 1, unary, given) if tree else vs.Chain(unary, given)
    r: Any = vs.infer(model).certify() if "certify" in ask else vs.infer(model, **ask)
    weights = np.exp(np.array([float(columns[0]), 0.0]))
    exact = weights[0] / (weights.sum() + 126 * np.exp(-30.0))
    assert r.lower[2, 0] <= exact + 1e-9
    assert exact - 1e-9 <= r.upper[2, 0]


@pytest.mark.parametrize("keep", [None, 0.1])
def test_one_position_at_both_ends(keep: float | None) -> None:
    rng = np.random.default_rng(0)
    k, n, size = 256, 300, 1e13
    table = np.where(np.eye(k) > 0, 0.0, -12.0) + 0.1 * rng.normal(size=(k, k))
    unary = np.full((n, k), -30.0)
    unary[:, 0], unary[:, 1] = 0.0, 0.49 * np.spacing(size)
    model = vs.Chain(unary, table, [1] * n, start=np.full(k, size), end=np.full(k, -size))
    r = vs.infer(model, tol=0.3, keep=keep)
    exact = np.exp(unary[0]) / np.exp(unary[0]).sum()
    found = r.sparse()[[0]].toarray()[0] if keep else r.marginals[0]
    assert np.abs(found - exact)[:2].max() <= r.error[0] + 1e-12
    assert (r.lower[0, :2] <= exact[:2]).all()
    assert (exact[:2] <= r.upper[0, :2]).all()


def test_states_that_cuts_do_not_compare() -> None:
    """A long chain is cut; label 2 cannot be reached, and its messages are next to nothing."""
    n, step = 8192, 8176 // 64
    table = np.zeros((3, 3))
    table[:2, :2], table[:2, 2] = np.log(0.5), -np.inf
    unary = np.zeros((n, 3))
    unary[:, 2] = -18.75
    for j in range(1, n // step):
        unary[j * step + 16 : j * step + 24, 2] = 31.0
    unary[2000:2102, 2] = unary[6000:6102, 2] = -45.0
    r = vs.infer(vs.Chain(unary, table), tol=1e-6)
    # Label 2 at i wants label 2 at all positions before it, and may be left at any later one.
    reach = np.cumsum(unary[:, 2])[::-1]
    most = np.maximum.accumulate(reach)[::-1] + np.log(4.0 * n)
    assert (r.lower[:, 2] <= np.exp(np.minimum(most, 0.0))).all()
    assert r.marginals[:, 2].max() > 0.0


def test_parts_of_many_edges_in_a_preconditioner() -> None:
    edges, size = 170, 2.0**40
    small = np.spacing(size) * 0.499
    graph = vs.FactorGraph([2] * (edges + 1))
    for v in range(1, edges + 1):
        own = {1: size, edges - 1: -size, edges: 20.0}.get(v, small)
        graph.add((0, v), [[0.0, 0.0], [own, own]])
    exact = edges * mp.log(2) + mp.log(1 + mp.e ** (mp.mpf(small) * (edges - 3) + 20))
    found = vs.bounds.preconditioner(graph)
    assert found.lower <= exact <= found.upper
