"""Proofs count what sums round: of ends, of parts that are added up, and of what is left out."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp

import valuesparse as vs
from valuesparse import _forest as native
from valuesparse.bounds._preconditioner import _Preconditioning
from valuesparse.bounds._reduced import reduce_graph

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


@pytest.mark.parametrize("k", [2, 9, 49, 100])
@pytest.mark.parametrize("tree", [False, True])
def test_proofs_have_room_for_states_that_cuts_do_not_compare(k: int, tree: bool) -> None:
    """A long path may be cut every 16 positions, and compared both ways there."""
    table = np.zeros((k, k))
    for n, slack in ((4095, 1e-30), (4096, 4096 / 8 * min(2e-20 * k**5, 1e-12))):
        unary = np.zeros((n, k))
        model: Any = vs.Tree(np.arange(n) - 1, unary, table) if tree else vs.Chain(unary, table)
        r = vs.infer(model, tol=1e-3) if k < 20 else vs.infer(model, work=1e12)
        assert (r.slack >= 2 * slack * (1 - 1e-12)).all()
        if n < 4096:
            assert (r.slack < 1e-6).all()


def test_cuts_that_leave_states_out_keep_within_the_proof() -> None:
    """Label 2 is next to nothing, and held at floors that depend on where a chunk begins."""
    rng = np.random.default_rng(0)
    n = 3000
    table = rng.normal(size=(3, 3))
    table[:2, 2] = -340.0
    unary = rng.normal(size=(n, 3))
    model = vs.Chain(unary, table)
    try:
        native.cut_chains(-1)
        whole = vs.infer(model, tol=1e-8)
        assert (whole.slack < 1e-29).all()  # proofs are made when they are asked for
        native.cut_chains(64, 200, 40, 1e-9)
        cut = vs.infer(model, tol=1e-8)
        assert (cut.slack > 1e-16).all()
    finally:
        native.cut_chains()
    assert not np.array_equal(cut.marginals, whole.marginals)
    assert (cut.lower <= whole.upper).all()
    assert (whole.lower <= cut.upper).all()
    # Label 2 is reached from label 2 alone, or at a cost of e^340.
    log = unary[:, 2] + table[2, 2] - np.logaddexp(unary[:, 0], unary[:, 1]) - table[:2, :2].min()
    most = np.maximum.accumulate(np.cumsum(log)[::-1])[::-1] + 20.0
    assert (cut.lower[50:, 2] <= np.exp(np.maximum(np.minimum(most[50:], 0.0), -330.0))).all()


def test_parts_of_many_edges_in_a_preconditioner() -> None:
    edges, size = 170, 2.0**40
    small = np.spacing(size) * 0.499
    graph = vs.FactorGraph([2] * (edges + 1))
    for v in range(1, edges + 1):
        own = {1: size, edges - 1: -size, edges: 20.0}.get(v, small)
        graph.add((0, v), [[0.0, 0.0], [own, own]])
    reduced = reduce_graph(graph, {})
    problem = _Preconditioning(reduced)
    # Each part was rounded away; the tables have no interaction.
    exact = mp.mpf(small) * (edges - 3) + 20
    lost = abs(mp.mpf(float(problem.unary[0][1] - problem.unary[0][0])) - exact)
    assert lost > 0.01
    assert lost <= problem.rounded
    found = vs.bounds.preconditioner(graph)
    log_z = edges * mp.log(2) + mp.log(1 + mp.e**exact)
    assert found.lower <= log_z <= found.upper
