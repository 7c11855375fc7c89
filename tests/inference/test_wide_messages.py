"""Messages of scores that are far apart: mantissas and exponents, for any number of labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import valuesparse as vs

pytestmark = pytest.mark.simd

Wide = npt.NDArray[np.longdouble]


def log_sum(x: Wide, axis: int) -> Wide:
    """Return log sum exp in extended precision; −inf of nothing."""
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.squeeze(top, axis) + np.log(np.sum(np.exp(x - top), axis=axis))


def reference(unary: npt.NDArray[np.float64], table: npt.NDArray[np.float64]) -> tuple[Wide, Wide]:
    """Return the marginals and log Z of one chain, by messages in extended precision."""
    u, t = unary.astype(np.longdouble), table.astype(np.longdouble)
    forward, backward = [u[0]], [np.zeros_like(u[0])]
    for row in u[1:]:
        forward.append(log_sum(forward[-1][:, None] + t, 0) + row)
    for row in u[:0:-1]:
        backward.append(log_sum(t + (row + backward[-1])[None, :], 1))
    both = np.array(forward) + np.array(backward)[::-1]
    return np.exp(both - log_sum(both, 1)[:, None]), log_sum(forward[-1], 0)


@pytest.mark.parametrize("labels", [1, 2, 7, 8, 9, 31, 33, 64, 65, 100])
@pytest.mark.parametrize("size", [300.0, 1e4, 1e8])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_far_scores(labels: int, size: float, forbidden: float) -> None:
    rng = np.random.default_rng(labels)
    unary, table = size * rng.normal(size=(12, labels)), size * rng.normal(size=(labels, labels))
    # Neighbours in the order of scores: ties, and near ones, beside what is far.
    unary[::3] = np.round(unary[::3] / size) * size
    table[:, ::2] = np.round(table[:, ::2] / size) * size + rng.normal(size=table[:, ::2].shape)
    table[rng.random(table.shape) < forbidden] = -np.inf
    np.fill_diagonal(table, 0.0)
    # Two labels that differ by one unit everywhere are never decided.
    if labels > 1:
        unary[:, 1], table[1, 1] = unary[:, 0] + 1e-2, 0.0
    expected, log_z = reference(unary, table)
    for model in (vs.Chain(unary, table), vs.Tree(np.arange(-1, 11), unary, table)):
        r = vs.infer(model)
        np.testing.assert_allclose(r.log_z, float(log_z), rtol=1e-14)
        # A score of `size` has so many digits behind the point, and so have sums of 24 of them.
        np.testing.assert_allclose(r.marginals, expected, rtol=0, atol=1e-13 + 1e-14 * size)


@pytest.mark.parametrize("labels", [1023, 1024, 1025])
def test_many_labels(labels: int) -> None:
    # Up to 1,024 labels there is a table of mantissas and exponents.
    rng = np.random.default_rng(0)
    unary, table = 500 * rng.normal(size=(3, labels)), 500 * rng.normal(size=(labels, labels))
    expected, log_z = reference(unary, table)
    r = vs.infer(vs.Chain(unary, table))
    assert r.stats["sequences_widened"] == 1
    np.testing.assert_allclose(r.marginals, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(r.log_z, float(log_z), rtol=1e-14)


@pytest.mark.parametrize(
    ("top", "ninths"),
    [(1e3, [1, 4, 4]), (1e4, [1, 4, 4]), (1e40, [3, 3, 3]), (1e200, [3, 3, 3]), (1e289, [3, 3, 3])],
)
def test_ties_of_any_size(top: float, ninths: list[int]) -> None:
    # Label 0 leads, and is met at the end by the others, from which nothing leads to it: one path
    # against eight, a logarithm that large scores have no digits for.
    unary = np.array([[top, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, top, top]])
    table = np.zeros((3, 3))
    table[0, 1:] = table[1:, 0] = -np.inf
    r = vs.infer(vs.Chain(unary, table))
    assert r.stats["sequences_widened"] == 1
    np.testing.assert_allclose(r.marginals, np.tile(ninths, (3, 1)) / 9, rtol=1e-11)
    np.testing.assert_allclose(r.log_z, top + np.log(9), rtol=1e-15)
