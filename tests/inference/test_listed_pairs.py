"""Questions that are answered from the list of a SparseTransition, without its table."""

from __future__ import annotations

import sys
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from checks import require_same_best
from children import SANITIZERS, run
from hypothesis import given
from strategies import examples

import valuesparse as vs

pytestmark = pytest.mark.simd

K = 100
LENGTHS = [7, 0, 1, 12, 2]


def listed(
    rng: np.random.Generator,
    *,
    ends: bool = False,
    default: float = 0.0,
    low: float = 0.1,
    whole: bool = False,
    nnz: int = 300,
    dtype: Any = float,
) -> vs.SparseTransition:
    at = rng.choice(K * K, size=nnz, replace=False)
    scores = rng.integers(-3, 4, nnz) / 2 if whole else 2 * rng.normal(size=nnz)
    scores = np.where(rng.random(nnz) < low, -np.inf, scores).astype(dtype)
    rows = columns = None
    if ends:
        size = K
        rows = (rng.integers(-2, 3, size) / 2 if whole else rng.normal(size=size)).astype(dtype)
        columns = rng.normal(size=size).astype(dtype)
    return vs.SparseTransition(
        sp.csr_array((scores, (at // K, at % K)), shape=(K, K)), default, rows, columns
    )


def unary_of(
    rng: np.random.Generator, n: int, whole: bool = False, dtype: Any = float
) -> np.ndarray:
    unary = rng.integers(-2, 3, (n, K)) / 2 if whole else 2 * rng.normal(size=(n, K))
    unary[rng.random(unary.shape) < 0.05] = -np.inf
    return unary.astype(dtype)


def listed_and_dense(rng: np.random.Generator, unary: Any, t: Any, tree: bool) -> list[Any]:
    """Return the model of a list of pairs, and that of the same as a table."""
    if not tree:
        return [vs.Chain(unary, x, LENGTHS) for x in (t, t.todense())]
    parent = [-1, *(int(rng.integers(-1, i)) for i in range(1, len(unary)))]
    return [vs.Tree(parent, unary, x) for x in (t, t.todense())]


@given(
    st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([0.0, -3.0, 0.7]),
    st.sampled_from([np.float32, np.float64]), st.booleans(),
)  # fmt: skip
@examples(60)
def test_the_best_are_those_of_the_table(
    seed: int, ends: bool, whole: bool, default: float, dtype: Any, tree: bool
) -> None:
    """The same states, ties and bits of the score; ties are many where scores are halves."""
    rng = np.random.default_rng(seed)
    t = listed(rng, ends=ends, default=default, whole=whole, dtype=dtype)
    n = sum(LENGTHS)
    unary = unary_of(rng, n, whole, dtype)
    one, other = listed_and_dense(rng, unary, t, tree)
    assert one.table is None
    require_same_best(one, other, 1 if tree else 4)


def test_a_default_that_forbids(rng: np.random.Generator) -> None:
    loops = sp.eye_array(K, format="csr") * 0.5
    chain = vs.Chain(2 * rng.normal(size=(9, K)), loops, [4, 5])
    dense = vs.Chain(chain.unary, chain.transition, [4, 5])
    require_same_best(chain, dense, 3)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("tree", [False, True])
def test_samples_and_pairs(ends: bool, tree: bool, rng: np.random.Generator) -> None:
    t = listed(rng, ends=ends)
    n = sum(LENGTHS)
    unary = 2 * rng.normal(size=(n, K))
    one, other = listed_and_dense(rng, unary, t, tree)
    drawn = [vs.sample(m, 200, np.random.default_rng(5)).reshape(200, n) for m in (one, other)]
    # Sums are rounded otherwise: a draw in a million may fall on the other side.
    assert (drawn[0] != drawn[1]).mean() < 1e-3
    r, s = vs.infer(one), vs.infer(other)
    np.testing.assert_allclose(
        r.pairwise(edges=slice(2, 6)), s.pairwise(edges=slice(2, 6)), rtol=1e-9, atol=1e-14
    )
    np.testing.assert_allclose(r.entropy(), s.entropy(), rtol=1e-9)
    np.testing.assert_allclose(r.expectations(), s.expectations(), rtol=1e-9, atol=1e-13)
    a, b = vs.infer(one, zeta=0.6), vs.infer(other, zeta=0.6)
    assert np.array_equal(a.islands, b.islands)
    np.testing.assert_allclose(a.marginals, b.marginals, atol=1e-12)
    states = vs.decode(one).states
    np.testing.assert_allclose(vs.log_prob(one, states), vs.log_prob(other, states), rtol=1e-9)


def test_scores_beyond_the_linear_range(rng: np.random.Generator) -> None:
    t = listed(rng)
    unary = 3000.0 * rng.normal(size=(12, K))
    one, other = (vs.Chain(unary, x, [5, 7]) for x in (t, t.todense()))
    np.testing.assert_allclose(
        vs.infer(one).marginals, vs.infer(other).marginals, rtol=1e-9, atol=1e-12
    )
    assert np.array_equal(
        vs.sample(one, 20, np.random.default_rng(1)), vs.sample(other, 20, np.random.default_rng(1))
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of memory")
@pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers keep memory")
def test_no_table_is_made() -> None:
    """4,522 labels: a table would be 164 MB."""
    code = """
import numpy as np, scipy.sparse as sp, valuesparse as vs
def held():
    with open("/proc/self/status") as f:
        return next(int(l.split()[1]) for l in f if l.startswith("VmHWM")) / 1024
rng = np.random.default_rng(0)
k, n = 4522, 24
at = rng.integers(k, size=(2, 30000))
e = sp.coo_array((rng.normal(size=30000), at), shape=(k, k)).tocsr()
unary = rng.normal(size=(n, k))
before = held()
chain = vs.Chain(unary, vs.SparseTransition(e, -1.0), [10, 14])
tree = vs.Tree([-1, *range(n - 1)], unary, vs.SparseTransition(e, -1.0, rows=unary[0]))
for m in (chain, tree):
    r = vs.infer(m, threads=1)
    vs.infer(m, keep=1e-3, threads=1), vs.infer(m, tol=1e-3, threads=1)
    vs.decode(m, threads=1), r.expectations(sparse=True)
    vs.sample(m, 3, np.random.default_rng(0), threads=1)
vs.decode(chain, n_best=3, threads=1)
print(held() - before)
"""
    grown = float(run(code, timeout=120).stdout)
    assert grown < 120
