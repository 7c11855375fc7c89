"""Float32 takes numbers below its normal range for zeros: processors are slow with the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import valuesparse as vs

pytestmark = pytest.mark.simd

TINY = float(np.finfo(np.float32).tiny)


def models(dtype: Any, labels: int) -> dict[str, Any]:
    """Return a batch of chains and a tree whose labels lie far apart."""
    rng = np.random.default_rng(labels)
    unary = (45 * rng.normal(size=(400, labels))).astype(dtype)
    pairwise = rng.normal(size=(labels, labels)).astype(dtype)
    parent = np.arange(400) - 1 - rng.integers(0, 3, 400)
    parent[1:] = np.maximum(parent[1:], 0)
    parent[0] = -1
    return {
        "short": vs.Chain(unary, pairwise, lengths=[25] * 16),
        "long": vs.Chain(unary, pairwise),
        "tree": vs.Tree(parent, unary, pairwise),
    }


def subnormal(x: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return (x > 0) & (x < TINY)


@pytest.mark.parametrize("labels", [2, 5, 9, 24, 49, 96])
@pytest.mark.parametrize("shape", ["short", "long", "tree"])
@pytest.mark.parametrize("zeta", [1.0, 0.999])
def test_nothing_subnormal_is_computed_in_float32(labels: int, shape: str, zeta: float) -> None:
    r = vs.infer(models(np.float32, labels)[shape], zeta=zeta)
    assert r.stats["sequences_widened"] == 0 or (zeta < 1 and shape == "tree")
    assert not subnormal(r.marginals).any()
    if zeta == 1:
        assert not subnormal(r.pairwise()).any()
        exact = vs.infer(models(np.float64, labels)[shape])
        assert subnormal(exact.marginals).any()
        np.testing.assert_allclose(r.marginals, exact.marginals, atol=1e-5)
        np.testing.assert_allclose(r.pairwise(), exact.pairwise(), atol=1e-5)


@pytest.mark.parametrize("shape", ["short", "long", "tree"])
def test_the_callers_arithmetic_stays_as_it_is(shape: str) -> None:
    """A callback has numbers below the normal range, and so has the caller afterwards."""
    least = np.array([5e-324, 1e-310])
    seen: list[Any] = []
    for labels in (2, 49):
        model = models(np.float32, labels)[shape]
        for zeta in (1.0, 0.9):
            vs.infer(model, zeta=zeta, progress=lambda *_: seen.append((least * 1.0).tolist()))
            assert (least * 1.0).tolist() == least.tolist()
    assert seen
    assert all(x == least.tolist() for x in seen)
