"""Bounds of many marginals are made block by block: the same bits, and little memory beside."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.results import _certificate, _forest
from valuesparse.results._certificate import interval


def _proved(n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    m = rng.dirichlet(np.full(k, 0.3), n).astype(dtype)
    radius, slack = rng.exponential(size=n), 1e-3 * rng.random(n)
    radius[::7], radius[::11], slack[::13] = np.inf, 0.0, np.inf
    return m, radius, slack


@pytest.mark.parametrize(("n", "k"), [(1, 3), (700, 49), (20_000, 2), (3, 20_000), (50, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_intervals_of_blocks_are_those_of_rows(n: int, k: int, dtype: str) -> None:
    m, radius, slack = _proved(n, k, dtype)
    lower, upper = interval(m, radius, slack)
    assert not lower.flags.writeable
    assert not upper.flags.writeable
    for i in range(0, n, max(1, n // 50)):
        row = slice(i, i + 1)
        low, high = interval(m[row], radius[row], slack[row])
        np.testing.assert_array_equal(lower[row], low)
        np.testing.assert_array_equal(upper[row], high)
    unknown = np.isinf(radius) | np.isinf(slack)
    assert (lower[unknown] == 0.0).all()
    assert (upper[unknown] == 1.0).all()
    assert (lower <= m).all()
    assert (m <= upper).all()


def test_intervals_take_little_memory_beside_their_own() -> None:
    m, radius, slack = _proved(20_000, 49, "float64")
    tracemalloc.start()
    try:
        interval(m, radius, slack)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * m.nbytes


@pytest.mark.parametrize("edges", [None, slice(3, 40), slice(5, 5), slice(None, None, -2)])
def test_pairwise_bounds_of_blocks(edges: slice | None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    chain = vs.Chain(rng.normal(size=(60, 5)), rng.normal(size=(5, 5)), lengths=[20, 1, 39])
    result = vs.infer(chain, tol=1e-3)
    whole = result.pairwise_bounds(edges)
    monkeypatch.setattr(_forest, "_BLOCK", 1)
    monkeypatch.setattr(_certificate, "_BLOCK", 1)
    exact = result.pairwise(edges) if edges is not None else result.pairwise()
    for some, other in zip(whole, result.pairwise_bounds(edges), strict=True):
        assert some.shape == exact.shape
        np.testing.assert_array_equal(some, other)
    assert (whole[0] <= exact).all()
    assert (exact <= whole[1]).all()


def test_pairwise_bounds_take_little_memory_beside_their_own() -> None:
    rng = np.random.default_rng(0)
    chain = vs.Chain(rng.normal(size=(500, 49)), rng.normal(size=(49, 49)))
    result = vs.infer(chain, tol=1e-3)
    size = 499 * 49 * 49 * 8
    tracemalloc.start()
    try:
        result.pairwise_bounds()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 * size


def _refuse(*_: object) -> None:
    raise AssertionError("nobody asked for this side")


@pytest.mark.parametrize(("side", "other"), [("lower", "_upper"), ("upper", "_lower")])
def test_one_side_is_made_without_the_other(
    side: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    chain = vs.Chain(rng.normal(size=(400, 30)), rng.normal(size=(30, 30)))
    result = vs.infer(chain, tol=1e-3)
    certificate = vs.infer(chain, zeta=0.9).certify()
    both = interval(result.marginals, result.radius, result.slack)
    some = interval(certificate._rows(), certificate.radius, certificate.slack)
    monkeypatch.setattr(_certificate, other, _refuse)
    at = 0 if side == "lower" else 1
    np.testing.assert_array_equal(getattr(result, side), both[at])
    np.testing.assert_array_equal(getattr(certificate, side), some[at])
    assert not getattr(result, side).flags.writeable
