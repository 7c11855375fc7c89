"""Islands of trees in float32, where floors meet large messages: as in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import valuesparse as vs

pytestmark = pytest.mark.simd


def both(zeta: float, **arrays: Any) -> tuple[Any, Any]:
    """Return the results in float32 and in float64."""
    single = {name: x.astype(np.float32) for name, x in arrays.items() if name != "parent"}
    narrow = vs.Tree(arrays["parent"], **single)
    wide = vs.Tree(arrays["parent"], **{name: x.astype(np.float64) for name, x in single.items()})
    return vs.infer(narrow, zeta=zeta), vs.infer(wide, zeta=zeta)


@pytest.mark.parametrize("k", [8, 12, 16, 28])
def test_the_floor_of_a_local_factor_beside_seven_large_messages(k: int) -> None:
    """exp(-150) is held at exp(-86), and seven messages of size K make a mass of it."""
    unary = np.zeros((8, k))
    unary[0] = -300.0
    unary[0, :2] = [0.0, -150.0]
    for score in np.arange(-14.0, -7.0, 0.25):
        table = np.full((k, k), -30.0)
        table[0], table[1] = score, 0.0
        narrow, wide = both(0.9, parent=np.array([-1] + [0] * 7), unary=unary, pairwise=table)
        np.testing.assert_array_equal(narrow.islands, wide.islands)
        np.testing.assert_allclose(narrow.marginals, wide.marginals, atol=1e-5)


@pytest.mark.parametrize("islands", [1, 2, 3])
@pytest.mark.parametrize("size", [8, 12, 14, 15, 16])
@pytest.mark.parametrize("zeta", [0.6, 0.9])
def test_the_floor_in_the_row_of_an_island_beside_small_messages(
    islands: int, size: int, zeta: float
) -> None:
    """Scaling a product multiplies what a floor of exp(-41) has put into it."""
    n = 3 + islands
    first, second = [0, 1], [2, 3]
    tables = np.zeros((n, 4, 4))
    tables[1][second, 0] = -100.0
    for j in range(2, n - 1):
        tables[j][first, 0] = -float(size)
    tables[-1][np.ix_(first, second)] = tables[-1][np.ix_(second, first)] = -100.0
    for local in range(0, 19, 2):
        unary = np.zeros((n, 4))
        unary[1:-1, 0] = 200.0
        unary[-1] = [-local, -local - 30, 0, -30]
        narrow, wide = both(
            zeta, parent=np.array([-1] + [0] * (n - 1)), unary=unary, pairwise=tables
        )
        np.testing.assert_array_equal(narrow.islands, wide.islands)
        np.testing.assert_allclose(narrow.marginals, wide.marginals, atol=1e-5)
