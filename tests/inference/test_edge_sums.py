"""Expectations and entropies of chains and trees, by way of their pairwise marginals."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

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


def plogp(p: np.ndarray) -> np.ndarray:
    return p * np.log(p, out=np.zeros_like(p), where=p > 0.0)


def entropy_of_pairs(tree: vs.Tree, r: vs.Result) -> np.ndarray:
    """Edge entropies less those of the nodes that edges share."""
    children = np.flatnonzero(tree.parent >= 0)
    degree = np.bincount(tree.parent[children], minlength=tree.n_nodes)
    degree[children] += 1
    of = tree.structure.tree_of()
    nodes = plogp(r.marginals.astype(float)).sum(axis=1) * (degree - 1)
    total = np.bincount(of, weights=nodes, minlength=tree.n_trees)
    pairs = plogp(r.pairwise().astype(float)).sum(axis=(1, 2))
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


def entropy_by_hand(unary: np.ndarray, table: np.ndarray) -> float:
    """The entropy of a short chain from all of its labellings, with many digits."""
    n, k = unary.shape
    with mpmath.workdps(60):
        scores = []
        for y in itertools.product(range(k), repeat=n):
            terms = [unary[i, y[i]] for i in range(n)]
            terms += [table[i, y[i], y[i + 1]] for i in range(n - 1)]
            if all(x > -np.inf for x in terms):
                scores.append(mpmath.fsum(map(float, terms)))
        top = max(scores)
        z = mpmath.log(mpmath.fsum(mpmath.exp(s - top) for s in scores)) + top
        return float(mpmath.fsum(mpmath.exp(s - z) * (z - s) for s in scores))


@pytest.mark.parametrize("scale", [1.0, 20.0, 1e4, 1e7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entropies_in_logarithms(
    dtype: type, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains, trees and lists, nearly decided ones among them, against all labellings."""
    monkeypatch.setattr(_islands, "_UNSEEN", dict.fromkeys(_islands._UNSEEN, -1.0))
    rng = np.random.default_rng(int(scale))
    for seed in range(12):
        n, k = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        # Multiples of an eighth: sums of them are exact, but for the largest in float32.
        unary = np.round(8 * scale * rng.normal(size=(n, k))) / 8
        tables = np.round(8 * rng.normal(size=(max(n - 1, 0), k, k))) / 8
        tables[rng.random(tables.shape) < 0.1] = -np.inf
        if seed % 3 == 0:
            unary[np.arange(n), rng.integers(0, k, n)] += 400.0
        tables[:, 0, 0] = 0.0
        unary, tables = unary.astype(dtype), tables.astype(dtype)
        want = entropy_by_hand(unary, tables)
        close = {"rtol": 1e-4 if dtype == np.float32 else 1e-9, "atol": 1e-25}
        chain = vs.Chain(unary, tables)
        above = np.concatenate([np.zeros((1, k, k), dtype), tables])
        for model in (chain, vs.Tree(np.arange(-1, n - 1), unary, above)):
            found = vs.infer(model).entropy()
            np.testing.assert_allclose(found, want, **close)
            assert vs.infer(model).entropy(threads=2).tobytes() == found.tobytes()


def test_entropies_in_logarithms_of_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    k, n = 100, 90
    where = np.unravel_index(rng.choice(k * k, 2 * k, replace=False), (k, k))
    entries = sparse.coo_array((rng.normal(size=2 * k), where), shape=(k, k))
    monkeypatch.setattr(_islands, "_UNSEEN", dict.fromkeys(_islands._UNSEEN, -1.0))
    for table in (
        vs.SparseTransition(entries, default=-1.0),
        vs.SparseTransition(entries, rows=rng.normal(size=k), columns=rng.normal(size=k)),
    ):
        for bonus in (0.0, 400.0):
            unary = rng.normal(size=(n, k)) + bonus * (np.arange(k) == 3)
            listed = vs.Chain(unary, table, lengths=[40, 0, 1, 49])
            dense = vs.Chain(unary, np.broadcast_to(table.todense(), (87, k, k)), [40, 0, 1, 49])
            assert vs.infer(listed).stats["sequences_sparse"] == 4
            want = vs.infer(dense).entropy()
            np.testing.assert_allclose(vs.infer(listed).entropy(), want, rtol=1e-9, atol=1e-25)
            whole = vs.Chain(unary, table)
            tree = vs.Tree(np.arange(-1, n - 1), unary, table)
            np.testing.assert_allclose(
                vs.infer(tree).entropy(), vs.infer(whole).entropy(), rtol=1e-9, atol=1e-25
            )


@pytest.mark.parametrize("n", [128, 129, 132, 300, 5000])
def test_entropies_of_deep_trees(n: int) -> None:
    """A layout turns them; sums go from the children of the model to their parents."""
    rng = np.random.default_rng(n)
    unary, table = rng.normal(size=(n, 3)) * 100, rng.normal(size=(3, 3)) * 100
    want = vs.infer(vs.Chain(unary, table)).entropy()
    for turn in (np.arange(n), rng.permutation(n)):
        parent = np.full(n, -1)
        parent[turn[1:]] = turn[:-1]
        rows = np.empty_like(unary)
        rows[turn] = unary
        for tree in (
            vs.Tree(parent, rows, table),
            vs.Tree(parent, rows, np.broadcast_to(table, (n, 3, 3))),
            vs.Tree(parent, rows, table[None], edge_type=np.zeros(n, int)),
        ):
            np.testing.assert_allclose(vs.infer(tree).entropy(), want, rtol=1e-9)


@pytest.mark.parametrize("offset", [2.0**20, 2.0**30, 2.0**40])
def test_what_all_labels_share_costs_no_digits(offset: float) -> None:
    """In scores of positions, ends, tables and lists; all sums are exact."""
    rng = np.random.default_rng(0)
    k, n = 100, 30
    unary = np.round(rng.normal(size=(n, k)) * 8) / 8
    where = np.unravel_index(rng.choice(k * k, 2 * k, replace=False), (k, k))
    entries = sparse.coo_array((rng.integers(1, 5, 2 * k).astype(float), where), shape=(k, k))
    table = vs.SparseTransition(entries, default=0.0).todense()
    want = vs.infer(vs.Chain(unary, table)).entropy()
    ends = np.full(k, offset)
    listed = vs.SparseTransition(
        sparse.coo_array((entries.data + offset, where), shape=(k, k)), default=offset
    )
    parent = np.arange(-1, n - 1)
    for model in (
        vs.Chain(unary + offset, table),
        vs.Chain(unary, table, start=ends, end=-ends),
        vs.Chain(unary, table + offset),
        vs.Chain(unary, np.broadcast_to(table + offset, (n - 1, k, k))),
        vs.Chain(unary, listed),
        vs.Tree(parent, unary - offset, table),
        vs.Tree(parent, unary, listed),
        vs.Tree(parent, unary, (table + offset)[None], edge_type=np.zeros(n, int)),
    ):
        np.testing.assert_allclose(vs.infer(model).entropy(), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [1e6, 1e9, 1e15])
def test_labels_that_are_forbidden_cost_no_digits(size: float) -> None:
    rng = np.random.default_rng(0)
    k, n = 4, 12
    unary, table = rng.normal(size=(n, k)) * 40, rng.normal(size=(k, k)) * 40
    want = vs.infer(vs.Chain(unary, table)).entropy()
    steps = np.full((k + 1, k + 1), size)
    steps[:k, :k] = table
    allowed = np.ones((n, k + 1), bool)
    allowed[:, k] = False
    rows = np.c_[unary, np.full(n, size)]
    ends = {"start": np.r_[np.zeros(k), size], "end": np.r_[np.zeros(k), size]}
    for found in (
        vs.infer(vs.Chain(rows, steps, allowed=allowed, **ends)).entropy(),
        vs.infer(vs.Tree(np.arange(-1, n - 1), rows, steps, allowed=allowed)).entropy(),
    ):
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-10)
