"""Certificates of tables that are sums of rows and columns: read whole, they are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import valuesparse as vs

pytestmark = pytest.mark.simd


def model(k: int, n: int, size: float, step: float, dtype: Any, *, tree: bool) -> Any:
    """Return a path whose table has rows so large that a step between columns is rounded away."""
    columns = np.zeros(k, dtype)
    columns[0] = step
    entries = sp.csr_array((k, k), dtype=dtype)
    given = vs.SparseTransition(entries, 0.0, rows=np.full(k, size, dtype), columns=columns)
    unary = np.full((n, k), -30.0, dtype)
    unary[:, :2] = 0.0
    return vs.Tree(np.arange(n) - 1, unary, given) if tree else vs.Chain(unary, given)


def truth(k: int, step: float, dtype: Any) -> float:
    """Return the marginal of label 0 at any position but the first, where no pair is listed."""
    weights = np.full(k, np.exp(-30.0))
    weights[:2] = np.exp([float(dtype(step)), 0.0])
    return float(weights[0] / weights.sum())


CASES = [
    (np.float32, 1e7, 0.49),
    (np.float32, 8200.0, 4.8e-4),
    (np.float64, 1e14, 0.06),
    (np.float64, 1e13, 9e-4),
]
#: Scores of 1e13 leave no tolerance to ask for.
ASKED = [(*case, {"work": work}) for case in CASES for work in (0, 2400, 1e9)]
ASKED += [(*case, {"tol": 0.5}) for case in CASES[:2]]


@pytest.mark.parametrize(("dtype", "size", "step", "ask"), ASKED)
@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("keep", [None, 1e-3])
def test_what_rounding_took_is_in_the_bounds(
    dtype: Any, size: float, step: float, tree: bool, ask: dict[str, float], keep: float | None
) -> None:
    k = 300 if "tol" in ask else 20
    n = 128 if "tol" in ask else 6
    given = model(k, n, size, step, dtype, tree=tree)
    r = vs.infer(given, keep=keep, **ask)
    exact = truth(k, step, dtype)
    mine = r.marginals if keep is None else r.sparse().toarray()
    assert (np.abs(mine[1:, 0] - exact) <= r.error[1:] + 1e-9).all()
    if keep is None:
        assert (r.lower[1:, 0] <= exact + 1e-12).all()
        assert (exact - 1e-12 <= r.upper[1:, 0]).all()
    log_z = (n - 1) * (size + np.log(np.exp(float(dtype(step))) + 1.0)) + np.log(2.0)
    slack = 1e-9 + (1e-12 if size < 1e10 else 1e-15) * size * n
    assert r.log_z_lower[0] - slack <= log_z <= r.log_z_upper[0] + slack


@pytest.mark.parametrize(("size", "step"), [(1e7, 0.49), (1e9, 25.0)])
def test_certificates_of_islands_know_it_too(size: float, step: float) -> None:
    given = model(256, 60, size, step, np.float32, tree=False)
    c = vs.infer(given, zeta=0.4).certify()
    exact = truth(256, step, np.float32)
    assert (c.lower[1:, 0] <= exact + 1e-12).all()
    assert (exact - 1e-12 <= c.upper[1:, 0]).all()
