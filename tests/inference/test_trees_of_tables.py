"""Trees whose edges have a table each: messages side by side have the bits of those alone."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from strategies import examples

import valuesparse as vs

pytestmark = pytest.mark.simd


def forest(
    rng: np.random.Generator, labels: int, sizes: list[int], dtype: Any, forbid: float, size: float
) -> vs.Tree:
    """Return trees that grow in width; some pairs are forbidden, but not all of label 0."""
    parent: list[int] = []
    for n in sizes:
        first = len(parent)
        parent += [-1] + [first + int(rng.integers(max(0, i - 9), i)) for i in range(1, n)]
    n = len(parent)
    tables = size * rng.normal(size=(n, labels, labels))
    tables[rng.random(tables.shape) < forbid] = -np.inf
    tables[:, 0, 0] = 0.0
    unary = size * rng.normal(size=(n, labels))
    return vs.Tree(parent, unary.astype(dtype), tables.astype(dtype))


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 27), st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.0, 0.3]), st.sampled_from([1.0, 6.0, 300.0]),
)  # fmt: skip
@examples(40)
def test_a_forest_has_the_bits_of_each_tree(
    seed: int, labels: int, dtype: Any, forbid: float, size: float
) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(x) for x in rng.integers(1, 40, rng.integers(1, 12))]
    t = forest(rng, labels, sizes, dtype, forbid, size)
    r = vs.infer(t, threads=1)
    entropy = r.entropy(threads=1)
    ones = vs.infer(t, threads=3)
    np.testing.assert_array_equal(ones.marginals, r.marginals)
    np.testing.assert_array_equal(ones.log_z, r.log_z)
    first = 0
    for b, n in enumerate(sizes):
        rows = slice(first, first + n)
        above = np.where(t.parent[rows] < 0, -1, t.parent[rows] - first)
        one = vs.Tree(above, t.unary[rows], t.pairwise[rows])
        s = vs.infer(one, threads=1)
        np.testing.assert_array_equal(r.marginals[rows], s.marginals)
        assert r.log_z[b] == s.log_z[0]
        assert entropy[b] == s.entropy(threads=1)[0]
        first += n
    # As a factor graph, by a junction tree.
    graph = vs.FactorGraph([labels] * sum(sizes))
    for v, row in enumerate(t.unary.astype(float)):
        graph.add([v], row)
    inner = np.flatnonzero(t.parent >= 0)
    for v in inner:
        graph.add([int(t.parent[v]), int(v)], t.pairwise[v].astype(float))
    want = vs.infer(graph, method="exact")
    within = 1e-4 if dtype is np.float32 else 1e-9
    np.testing.assert_allclose(r.log_z.sum(), want.log_z, rtol=within, atol=within * size)
    np.testing.assert_allclose(r.marginals, np.array(want.marginals), atol=within * size)


@pytest.mark.parametrize("labels", [2, 9, 24])
def test_narrowed_to_float32(labels: int, rng: np.random.Generator) -> None:
    """`tol` computes in float32, and its proof holds."""
    t = forest(rng, labels, [30] * 20, float, 0.1, 1.0)
    want = vs.infer(t).marginals
    r = vs.infer(t, tol=1e-2)
    assert np.abs(r.marginals - want).max() <= r.error.max() <= 1e-2


@pytest.mark.parametrize("labels", [2, 9])
def test_islands_of_tables(labels: int, rng: np.random.Generator) -> None:
    """Each tree has the islands that it has alone."""
    sizes = [25] * 12
    t = forest(rng, labels, sizes, float, 0.1, 2.0)
    r = vs.infer(t, zeta=0.8, threads=1)
    assert (r.islands >= 0).any()
    for b in (0, 5, 11):
        rows = slice(25 * b, 25 * b + 25)
        above = np.where(t.parent[rows] < 0, -1, t.parent[rows] - 25 * b)
        s = vs.infer(vs.Tree(above, t.unary[rows], t.pairwise[rows]), zeta=0.8, threads=1)
        np.testing.assert_array_equal(r.islands[rows], s.islands)
        np.testing.assert_array_equal(r.marginals[rows], s.marginals)


def test_entropy_beside_a_tree_that_takes_logarithms() -> None:
    """What has been found of a tree stays, though one of its block is done again."""
    rng = np.random.default_rng(6)
    widened = 0
    for _ in range(100):
        unary = (rng.normal(size=(6, 5)) * 100).astype(np.float32)
        tables = (rng.normal(size=(6, 5, 5)) * 100).astype(np.float32)
        both = vs.infer(vs.Tree([-1, 0, 0, -1, 3, 4], unary, tables))
        one = vs.infer(vs.Tree([-1, 0, 0], unary[:3], tables[:3]))
        assert both.entropy()[0] == one.entropy()[0]
        widened += both.stats["sequences_widened"] > one.stats["sequences_widened"]
    assert widened > 0
