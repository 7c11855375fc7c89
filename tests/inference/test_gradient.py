"""One call for what training needs: marginals, log Z and (weighted) sums of edge marginals."""

from __future__ import annotations

import numpy as np
import pytest
from checks import assert_same_bits, chain
from hypothesis import given
from oracles import Arrays, edge_slices_of, first_infeasible, solve, tolerance
from strategies import chains, examples, random_chain

import valuesparse as vs
from valuesparse.inference._forest import gradient

pytestmark = pytest.mark.simd


def weighted(model: Arrays, weights: np.ndarray) -> np.ndarray:
    """Return the weighted sum of an oracle's pairwise marginals."""
    pairwise = solve(model).pairwise
    total = np.zeros(pairwise.shape[1:])
    for weight, edges in zip(weights, edge_slices_of(model), strict=True):
        total += weight * pairwise[edges].sum(axis=0)
    return total


@given(chains())
@examples(300)
def test_weighted_sums_of_ragged_batches(model: Arrays) -> None:
    if first_infeasible(model) is not None:
        return
    weights = np.random.default_rng(len(model.unary)).normal(size=len(model.lengths))
    marginals, log_z, sums = gradient(chain(model), 2, weights=weights)
    r = vs.infer(chain(model))
    np.testing.assert_allclose(marginals, r.marginals, rtol=0, atol=tolerance(model, 0))
    assert_same_bits(log_z, r.log_z)
    atol = tolerance(model, 0) * (1 + len(model.unary))
    np.testing.assert_allclose(sums, weighted(model, weights), rtol=0, atol=atol)


@pytest.mark.parametrize("k", [1, 4, 9, 17, 49])
def test_weights_may_differ_in_sign_and_size(rng: np.random.Generator, k: int, dtype: type) -> None:
    model = random_chain(rng, [30, 1, 12, 9, 77], k, forbidden=0.05 * (k > 1), dtype=dtype)
    weights = np.array([1.0, -2.0, 0.0, 1e-6, -0.5])
    _, _, sums = gradient(chain(model), 1, weights=weights)
    atol = 100 * tolerance(model, 0)
    np.testing.assert_allclose(sums, weighted(model, weights), rtol=0, atol=atol)


def test_ones_change_no_bit(rng: np.random.Generator) -> None:
    c = chain(random_chain(rng, rng.integers(0, 40, 50), 13))
    assert_same_bits(gradient(c, 2, weights=np.ones(50))[2], vs.infer(c).expectations())


def test_threads_change_no_bit(rng: np.random.Generator) -> None:
    c = chain(random_chain(rng, rng.integers(0, 40, 300), 13))
    weights = rng.normal(size=300)
    one = gradient(c, 1, weights=weights)
    for threads in (2, 3, 8):
        for a, b in zip(one, gradient(c, threads, weights=weights), strict=True):
            assert_same_bits(a, b)


def test_what_is_not_asked_for_is_not_made(rng: np.random.Generator) -> None:
    c = chain(random_chain(rng, [3, 2], 4))
    marginals, log_z, sums = gradient(c, 1, marginals=False, sums=False)
    assert marginals is None
    assert sums is None
    np.testing.assert_allclose(log_z, vs.infer(c).log_z, rtol=1e-12)
