"""Expectations and entropies of chains and trees, by way of their pairwise marginals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.results import _islands

pytestmark = pytest.mark.simd


def forest(
    rng: np.random.Generator, n: int, k: int, kind: str, dtype: type, scale: float
) -> vs.Tree:
    parent = np.array([-1 if rng.random() < 0.05 else rng.integers(i) for i in range(1, n)])
    parent = np.concatenate([[-1], parent]).astype(np.int64)
    turn = rng.permutation(n)  # nodes in any order: edges go up and down in memory
    back = np.argsort(turn)
    parent = np.where(parent[turn] < 0, -1, back[parent[turn]])
    unary = (scale * rng.normal(size=(n, k))).astype(dtype)
    unary[rng.random((n, k)) < 0.1 * (k > 2)] = -np.inf
    unary[:, 0] = 0.0
    if kind == "shared":
        return vs.Tree(parent, unary, (scale * rng.normal(size=(k, k))).astype(dtype))
    if kind == "per edge":
        return vs.Tree(parent, unary, (scale * rng.normal(size=(n, k, k))).astype(dtype))
    types = 3 if kind == "typed" else 70  # more than are packed
    tables = (scale * rng.normal(size=(types, k, k))).astype(dtype)
    return vs.Tree(parent, unary, tables, edge_type=rng.integers(types, size=n))


def entropy_of_pairs(tree: vs.Tree, r: vs.Result) -> np.ndarray:
    """Edge entropies less those of the nodes that edges share."""
    children = np.flatnonzero(tree.parent >= 0)
    degree = np.bincount(tree.parent[children], minlength=tree.n_nodes)
    degree[children] += 1
    of = tree.structure.tree_of()
    nodes = _islands.plogp(r.marginals.astype(float)).sum(axis=1) * (degree - 1)
    total = np.bincount(of, weights=nodes, minlength=tree.n_trees)
    pairs = _islands.plogp(r.pairwise().astype(float)).sum(axis=(1, 2))
    return total - np.bincount(of[children], weights=pairs, minlength=tree.n_trees)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 90),
    st.sampled_from([1, 2, 3, 5, 9, 17]),
    st.sampled_from(["shared", "typed", "many types", "per edge"]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.5, 3.0, 30.0, 900.0]),
    st.sampled_from([1.0, 0.9]),
)
def test_trees(
    seed: int, n: int, k: int, kind: str, dtype: type, scale: float, zeta: float
) -> None:
    tree = forest(np.random.default_rng(seed), n, k, kind, dtype, scale)
    r = vs.infer(tree, zeta=zeta, threads=1)
    tol = (1e-5 if dtype == np.float32 else 1e-10) + np.finfo(dtype).eps * scale * 40 * n
    pairs, sums = r.pairwise().astype(float), r.expectations()
    want = np.zeros_like(sums)
    if tree.edge_type is None:
        want += pairs.sum(axis=0)
    else:
        np.add.at(want, tree.edge_type[tree.parent >= 0], pairs)
    np.testing.assert_allclose(sums, want, rtol=0, atol=tol * n)
    entropy = r.entropy()
    if zeta == 1.0:
        np.testing.assert_allclose(
            entropy, entropy_of_pairs(tree, r), rtol=0, atol=30 * tol * n * k
        )
    # Those that are yielded are made of logarithms.
    yielded = [*r.iter_pairwise(7), np.empty((0, k, k))]
    np.testing.assert_allclose(pairs, np.concatenate(yielded), rtol=0, atol=tol)
    odd = slice(1, None, 2)
    assert r.pairwise(odd).tobytes() == r.pairwise()[odd].tobytes()
    for threads in (2, 3, 8):
        assert r.pairwise(threads=threads).tobytes() == r.pairwise().tobytes()
        assert r.expectations(threads=threads).tobytes() == sums.tobytes()
        assert r.entropy(threads=threads).tobytes() == entropy.tobytes()


@pytest.mark.parametrize("kind", ["shared", "typed", "per edge"])
def test_a_large_forest_is_cut_alike_for_any_threads(kind: str, rng: np.random.Generator) -> None:
    tree = forest(rng, 20_000, 4, kind, np.float64, 1.0)
    r = vs.infer(tree)
    sums, entropy = r.expectations(threads=1), r.entropy(threads=1)
    assert sums.sum() == pytest.approx(np.count_nonzero(tree.parent >= 0), rel=1e-12)
    np.testing.assert_allclose(entropy, entropy_of_pairs(tree, r), rtol=1e-11, atol=1e-11)
    pairs = r.pairwise(threads=1)
    for threads in (2, 3, 8):
        assert r.pairwise(threads=threads).tobytes() == pairs.tobytes()
        assert r.expectations(threads=threads).tobytes() == sums.tobytes()
        assert r.entropy(threads=threads).tobytes() == entropy.tobytes()


@pytest.mark.parametrize("per_edge", [False, True])
def test_both_ways_to_the_entropy_agree(
    per_edge: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [7, 0, 1, 30, 12, 5]
    n, edges, k = sum(lengths), sum(max(0, m - 1) for m in lengths), 6
    unary = rng.normal(size=(n, k))
    unary[3, 2] = -np.inf
    tables = rng.normal(size=(edges, k, k) if per_edge else (k, k))
    chain = vs.Chain(
        unary, tables, lengths=lengths, start=rng.normal(size=k), end=rng.normal(size=k)
    )
    for zeta in (1.0, 0.6):
        r = vs.infer(chain, zeta=zeta)
        value = r.entropy()
        assert r.entropy(threads=2).tobytes() == value.tobytes()
        monkeypatch.setattr(_islands, "_UNSEEN", dict.fromkeys(_islands._UNSEEN, -1.0))
        np.testing.assert_allclose(r.entropy(), value, rtol=1e-11, atol=1e-12)
        monkeypatch.undo()


def test_scores_that_cancel_take_the_chain_rule(rng: np.random.Generator) -> None:
    unary = rng.normal(size=(50, 4))
    table = rng.normal(size=(4, 4))
    want = vs.infer(vs.Chain(unary, table)).entropy()
    moved = vs.infer(vs.Chain(unary + 2.0**30, table - 2.0**30)).entropy()
    np.testing.assert_allclose(moved, want, rtol=0, atol=1e-4)  # scores have lost 30 bits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_long_batches_on_threads(dtype: type) -> None:
    """Sequences that several tasks share have the sums that they have on one thread."""
    rng = np.random.default_rng(11)
    lengths = [0, 0, 1, *rng.integers(0, 50, 3000).tolist(), 40_000, 0, 3, 20_000, 0]
    n = sum(lengths)
    model = vs.Chain(
        rng.normal(size=(n, 2)).astype(dtype), rng.normal(size=(2, 2)).astype(dtype),
        lengths=lengths, start=rng.normal(size=2).astype(dtype), end=[0.5, -np.inf],
    )  # fmt: skip
    states = vs.decode(model).states
    alone = vs.log_prob(model, states, threads=1), vs.infer(model).entropy(threads=1)
    for threads in (2, 5):
        found = (
            vs.log_prob(model, states, threads=threads),
            vs.infer(model).entropy(threads=threads),
        )
        for one, other in zip(alone, found, strict=True):
            assert one.tobytes() == other.tobytes()
    begin = np.cumsum([0, *lengths])
    for at in (2, 7, len(lengths) - 5, len(lengths) - 2):
        some = slice(begin[at], begin[at + 1])
        own = vs.Chain(model.unary[some], model.transition, start=model.start, end=model.end)
        assert vs.log_prob(own, states[some]).tobytes() == alone[0][at : at + 1].tobytes()
        assert vs.infer(own).entropy().tobytes() == alone[1][at : at + 1].tobytes()
