"""Which components have islands, and which are answered exactly in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import valuesparse as vs

K = 40


def scores(
    n: int, peaked: float, rng: np.random.Generator, k: int = K
) -> tuple[np.ndarray, np.ndarray]:
    """Return unary scores, of which a share is peaked, and a table."""
    unary = rng.normal(size=(n, k))
    hot = np.flatnonzero(rng.random(n) < peaked)
    unary[hot, rng.integers(0, k, hot.size)] += 14.0
    return unary, rng.normal(size=(k, k))


@pytest.mark.simd
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [60, 900])
def test_few_islands_are_not_worth_it(n: int, dtype: str) -> None:
    """Where few variables are likely islands the answer is that of an exact call, to the bit."""
    unary, table = (x.astype(dtype) for x in scores(n, 0.1, np.random.default_rng(1)))
    parent = np.arange(-1, n - 1) // 2
    for model in (vs.Chain(unary, table), vs.Tree(parent, unary, table)):
        r, exact = vs.infer(model, zeta=0.9), vs.infer(model)
        assert r.method == "exact"
        assert (r.islands == -1).all()
        assert r.stats["sequences_without_islands"] == 1
        assert "too few likely islands" in r.reason
        assert np.array_equal(r.marginals, exact.marginals)
        assert np.array_equal(r.log_z, exact.log_z)
        for name in ("messages_full", "messages_sparse", "segments"):
            assert r.stats[name] == exact.stats[name]


@pytest.mark.simd
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_many_are(dtype: str) -> None:
    """Where most variables are likely islands they are held."""
    unary, table = (x.astype(dtype) for x in scores(300, 0.95, np.random.default_rng(2)))
    r = vs.infer(vs.Chain(unary, table), zeta=0.9)
    assert r.method == "islands"
    assert (r.islands >= 0).mean() > 0.8
    assert r.stats["sequences_without_islands"] == 0


def test_contested_ones_are_not() -> None:
    """Likely islands that the rows of their neighbours contest do not count."""
    n = 200
    rng = np.random.default_rng(3)
    unary = rng.normal(size=(n, K))
    unary[:, 0] += 6.0  # 0.8 or so by itself
    table = np.zeros((K, K))
    table[0, 1:] = table[1:, 0] = 5.0  # but no two neighbours want it
    parent = np.arange(-1, n - 1) // 2
    assert vs.infer(vs.Tree(parent, unary, table), zeta=0.5).method == "exact"
    table[:] = 0.0
    assert vs.infer(vs.Tree(parent, unary, table), zeta=0.5).method == "islands"


@pytest.mark.simd
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("k", [33, 49])
def test_contested_chains_go_on_exactly_with_what_is_made(k: int, dtype: str) -> None:
    """Two in five are likely islands and nearly all contested: the bits are those of exact."""
    rng = np.random.default_rng(k)
    lengths = rng.integers(25, 70, 12)
    unary = rng.normal(size=(int(lengths.sum()), k))
    hot = np.flatnonzero(np.arange(len(unary)) % 5 < 2)  # in pairs
    unary[hot, 0] += 6.0
    table = rng.normal(size=(k, k)) / 4
    table[0, 1:] += 5.0
    table[1:, 0] += 5.0
    allowed = rng.random(unary.shape) < 0.9
    allowed[:, :2] = True
    kinds: list[dict[str, Any]] = [
        {},
        {"start": rng.normal(size=k).astype(dtype), "end": rng.normal(size=k).astype(dtype)},
        {"allowed": allowed},
    ]
    for more in kinds:
        chain = vs.Chain(unary.astype(dtype), table.astype(dtype), lengths=lengths, **more)
        exact = vs.infer(chain)
        for threads in (1, 2, 3, 8):
            r = vs.infer(chain, zeta=0.6, threads=threads)
            assert r.stats["sequences_without_islands"] == len(lengths)
            assert np.array_equal(r.marginals, exact.marginals)
            assert np.array_equal(r.log_z, exact.log_z)
            assert r.stats["messages_full"] == exact.stats["messages_full"]


def test_a_glance_is_alike_from_both_ends() -> None:
    """A chain has islands where its reverse has."""
    rng = np.random.default_rng(11)
    for n in (1, 2, 3, 4, 5, 7, 11, 12, 13, 30, 39, 40, 41, 100, 130, 300):
        for peaked in (0.1, 0.25, 0.4):
            unary, table = scores(n, peaked, rng)
            one = vs.infer(vs.Chain(unary, table), zeta=0.9)
            other = vs.infer(vs.Chain(unary[::-1].copy(), table.T.copy()), zeta=0.9)
            assert np.array_equal(one.islands, other.islands[::-1])
            assert one.method == other.method


def test_few_islands_far_apart_are_seen_in_time() -> None:
    """Islands in one half of a chain count, wherever the glance falls."""
    rng = np.random.default_rng(12)
    for first in (True, False):
        unary, table = scores(200, 0.0, rng)
        half = slice(0, 120) if first else slice(80, 200)
        unary[half, 3] += 14.0
        r = vs.infer(vs.Chain(unary, table), zeta=0.9)
        assert (r.islands >= 0).mean() > 0.5


def batch(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """Return scores of sequences with many and with few islands, their lengths, and ends."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, 40)
    parts = [scores(int(n), float(rng.choice([0.0, 0.5, 1.0])), rng)[0] for n in lengths]
    table = rng.normal(size=(K, K))
    more = {"start": rng.normal(size=K), "end": rng.normal(size=K)} if seed % 2 else {}
    return np.concatenate(parts), table, lengths, more


@pytest.mark.parametrize("seed", range(4))
def test_neither_others_nor_threads_nor_the_root_show(seed: int) -> None:
    """A sequence is decided alone: in any batch, on any number of threads, and as a tree."""
    unary, table, lengths, more = batch(seed)
    chain = vs.Chain(unary, table, lengths=lengths, **more)
    whole = vs.infer(chain, zeta=0.9, threads=1)
    assert 0 < whole.stats["sequences_without_islands"] < len(lengths)
    for threads in (2, 3, 8):
        other = vs.infer(chain, zeta=0.9, threads=threads)
        assert np.array_equal(other.islands, whole.islands)
        assert np.array_equal(other.marginals, whole.marginals)
        assert np.array_equal(other.log_z, whole.log_z)
        assert other.stats == whole.stats
    ends = np.cumsum(lengths)
    for first, last in list(zip(ends - lengths, ends, strict=True))[:12]:
        own = unary[first:last].copy()
        alone = vs.infer(vs.Chain(own, table, **more), zeta=0.9)
        assert np.array_equal(alone.islands, whole.islands[first:last])
        if more:
            own[0] += more["start"]
            own[-1] += more["end"]
        for root in (0, len(own) - 1, len(own) // 2):
            path = np.arange(-1, len(own) - 1)
            tree = vs.Tree(path, own, table) if root == 0 else turned(own, table, root)
            r = vs.infer(tree, zeta=0.9)
            assert np.array_equal(r.islands, alone.islands)
            np.testing.assert_allclose(r.marginals, alone.marginals, atol=1e-12)


def test_masks_and_tables_of_edges() -> None:
    """Masks count, and tables of edges are no reason to do without islands."""
    rng = np.random.default_rng(7)
    unary, table = scores(300, 0.0, rng)
    allowed = np.zeros((300, K), dtype=bool)
    allowed[np.arange(300), rng.integers(0, K, 300)] = True
    r = vs.infer(vs.Chain(unary, table, allowed=allowed), zeta=0.9)
    assert (r.islands >= 0).all()
    unary, _ = scores(300, 1.0, rng)
    r = vs.infer(vs.Chain(unary, rng.normal(size=(299, K, K))), zeta=0.9)
    assert (r.islands >= 0).mean() > 0.9
    parent = np.arange(300) // 2
    parent[0] = -1
    r = vs.infer(vs.Tree(parent, unary, rng.normal(size=(300, K, K))), zeta=0.9)
    assert (r.islands >= 0).mean() > 0.9


def turned(unary: np.ndarray, table: np.ndarray, root: int) -> vs.Tree:
    """Return a path as a tree with this root."""
    i = np.arange(len(unary))
    parent = np.where(i < root, i + 1, i - 1)
    parent[root] = -1
    # A table runs from the parent to the child: turned where that is backwards.
    tables = np.stack([table, table.T])
    return vs.Tree(parent, unary, tables, edge_type=(i < root).astype(int))


@pytest.mark.simd
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("k", [2, 5, 9, 31])
def test_long_paths_of_few_labels_have_many_islands_or_none(k: int, dtype: str) -> None:
    """Exact inference is the faster; neither the way it is written nor what is beside it shows."""
    rng = np.random.default_rng(k)
    n = 4097
    for peaked, method in ((0.0, "exact"), (0.3, "exact"), (0.7, "islands")):
        unary, table = (x.astype(dtype) for x in scores(n, peaked, rng, k))
        unary /= 2
        table /= 2
        chain = vs.Chain(unary, table)
        r = vs.infer(chain, zeta=0.9)
        assert r.method == method
        assert ("too few likely islands" in r.reason) == (method == "exact")
        assert r.stats["sequences_without_islands"] == (method == "exact")
        if method == "exact":
            exact = vs.infer(chain)
            assert np.array_equal(r.marginals, exact.marginals)
            assert np.array_equal(r.log_z, exact.log_z)
        for root in (0, n // 3, n - 1):
            tree = vs.infer(turned(unary, table, root), zeta=0.9)
            assert np.array_equal(tree.islands, r.islands)
            assert tree.method == r.method
        short, _ = scores(100, 1.0, rng, k)
        rows = np.concatenate([short.astype(dtype), unary, unary[:4096]])
        beside = vs.Chain(rows, table, lengths=[100, n, 4096])
        for threads in (1, 2, 8):
            more = vs.infer(beside, zeta=0.9, threads=threads)
            assert np.array_equal(more.islands[100 : 100 + n], r.islands)
            assert np.array_equal(more.marginals[100 : 100 + n], r.marginals)
            assert (more.islands[:100] >= 0).any()  # shorter ones always have islands
            assert more.stats["sequences_without_islands"] == (method == "exact")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_chains_answered_exactly_are_cut_by_no_more_than_their_length(dtype: str) -> None:
    """Whether a chain is seen with others, and on how many threads, does not show in its bits."""
    rng = np.random.default_rng(0)
    n, k, without = 4500, 40, 0
    for peaked in (0.2, 0.35, 0.5):
        unary = rng.normal(size=(n, k))
        hot = np.flatnonzero(rng.random(n) < peaked)
        unary[hot, rng.integers(0, k, hot.size)] += 8.0
        unary, table = unary.astype(dtype), (2 * rng.normal(size=(k, k))).astype(dtype)
        chain = vs.Chain(unary, table)
        r = vs.infer(chain, zeta=0.9, threads=1)
        without += r.stats["sequences_without_islands"]
        for threads in (2, 8):
            other = vs.infer(chain, zeta=0.9, threads=threads)
            assert np.array_equal(other.marginals, r.marginals)
            assert np.array_equal(other.log_z, r.log_z)
        beside = vs.Chain(np.concatenate([unary[:30], unary]), table, [30, n])
        more = vs.infer(beside, zeta=0.9, threads=1)
        assert np.array_equal(more.marginals[30:], r.marginals)
    assert without > 0


def test_long_paths_of_few_labels_are_exact_where_neighbours_contest() -> None:
    """Most are likely islands, and most of these would be released again."""
    rng = np.random.default_rng(0)
    n, k = 6000, 9
    unary = rng.normal(size=(n, k))
    hot = np.flatnonzero(rng.random(n) < 0.8)
    unary[hot, rng.integers(0, k, hot.size)] += 3.5 + np.log(k)
    for scale, method in ((0.1, "islands"), (3.0, "exact")):
        table = scale * rng.normal(size=(k, k))
        r = vs.infer(vs.Chain(unary, table), zeta=0.9)
        assert r.method == method
        for root in (0, n // 3, n - 1):
            tree = vs.infer(turned(unary, table, root), zeta=0.9)
            assert tree.method == method
            assert np.array_equal(tree.islands, r.islands)
    table = np.zeros((k, k))
    table[rng.integers(0, k, 6), rng.integers(0, k, 6)] = -30.0
    listed = vs.SparseTransition.of(table)  # rows of lists are not read
    chain = vs.infer(vs.Chain(unary, listed), zeta=0.9)
    tree = vs.infer(vs.Tree(np.arange(-1, n - 1), unary, listed), zeta=0.9)
    assert chain.method == tree.method == "islands"
    assert np.array_equal(tree.islands, chain.islands)


def test_long_paths_of_few_labels_ask_masks_ends_and_no_tables() -> None:
    """Masks and ends count as scores do, and tables of edges or listed ones are never asked."""
    rng = np.random.default_rng(5)
    n, k = 5000, 4
    flat = np.zeros((n, k))
    allowed = np.zeros((n, k), dtype=bool)
    allowed[np.arange(n), rng.integers(0, k, n)] = True
    table = rng.normal(size=(k, k))
    assert vs.infer(vs.Chain(flat, table), zeta=0.9).method == "exact"
    assert (vs.infer(vs.Chain(flat, table, allowed=allowed), zeta=0.9).islands >= 0).all()
    ends = {"start": np.array([9.0, 0, 0, 0]), "end": np.array([0, 9.0, 0, 0])}
    assert vs.infer(vs.Chain(flat, table, **ends), zeta=0.9).method == "exact"
    tables = rng.normal(size=(n - 1, k, k))
    assert vs.infer(vs.Chain(flat, tables), zeta=0.9).method == "exact"
    peaked, _ = scores(n, 0.9, rng, k)
    assert vs.infer(vs.Chain(peaked, tables), zeta=0.9).method == "islands"
    one = vs.infer(vs.Chain(np.zeros((n, 1)), np.zeros((1, 1))), zeta=0.9)
    assert (one.islands == 0).all()
    star = np.zeros(n, dtype=int)
    star[0] = -1
    assert vs.infer(vs.Tree(star, flat, table), zeta=0.9).method == "islands"


def left_to_right(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scores whose confident variables mostly exclude one another."""
    table = np.full((k, k), -np.inf)
    at = np.arange(k)
    table[at, at], table[at[:-1], at[1:]] = -0.01, -5.0
    return rng.normal(size=(n, k)), table


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("revisit", [None, 0, 3])
@pytest.mark.parametrize(("k", "n", "zeta"), [(5, 4000, 0.7), (31, 2000, 0.9)])
def test_what_contradicts_itself_gives_up(
    k: int, n: int, zeta: float, revisit: int | None, dtype: str
) -> None:
    """Rounds that each release the ends of a stretch would take the square of its length."""
    rng = np.random.default_rng(k)
    unary, table = (x.astype(dtype) for x in left_to_right(rng, n, k))
    chain = vs.Chain(unary, table)
    exact, r = vs.infer(chain), vs.infer(chain, zeta=zeta, revisit=revisit)
    assert r.method == "exact"
    assert "contradict one another" in r.reason
    assert (r.islands == -1).all()
    assert r.converged
    assert np.array_equal(r.marginals, exact.marginals)
    assert np.array_equal(r.log_z, exact.log_z)
    for name in ("messages_full", "messages_sparse", "segments", "released"):
        assert r.stats[name] == exact.stats[name]
    # Neither others, nor threads, nor the root show.
    calm = rng.normal(size=(40, k)).astype(dtype)
    calm[:, 0] += 14.0
    beside = vs.Chain(np.concatenate([calm, unary, calm]), table, [40, n, 40])
    for threads in (1, 2, 8):
        more = vs.infer(beside, zeta=zeta, revisit=revisit, threads=threads)
        assert np.array_equal(more.marginals[40 : 40 + n], exact.marginals)
        assert (more.islands[:40] == 0).all()
        assert (more.islands[-40:] == 0).all()
        assert more.stats["sequences_without_islands"] == 1
    for root in (0, n // 2):
        path = vs.infer(turned(unary, table, root), zeta=zeta, revisit=revisit)
        assert path.method == "exact"
        for name in ("released", "flipped", "rounds", "islands"):
            assert path.stats[name] == 0, name
        np.testing.assert_allclose(path.marginals, exact.marginals, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_trees_that_contradict_themselves_give_up(dtype: str) -> None:
    """Beside another, which keeps its islands; and one that is impossible is told."""
    rng = np.random.default_rng(2)
    n, k = 6000, 5
    unary, table = (x.astype(dtype) for x in left_to_right(rng, n, k))
    i = np.arange(n)
    caterpillar = np.where(i % 2 == 1, i - 1, i - 2)
    caterpillar[0] = -1
    calm = np.zeros((30, k), dtype=dtype)
    calm[:, 1] = 14.0
    parent = np.concatenate([caterpillar, np.arange(-1, 29) + n * (np.arange(30) > 0)])
    tree = vs.Tree(parent, np.concatenate([unary, calm]), table)
    exact = vs.infer(tree)
    for threads in (1, 2, 8):
        r = vs.infer(tree, zeta=0.7, threads=threads)
        assert (r.islands[:n] == -1).all()
        assert (r.islands[n:] == 1).all()
        assert r.stats["sequences_without_islands"] == 1
        np.testing.assert_allclose(r.marginals[:n], exact.marginals[:n], atol=2e-6)
        np.testing.assert_allclose(r.log_z[0], exact.log_z[0], rtol=1e-6)
    bad = unary.copy()
    bad[0, :-1], bad[-1, 1:] = -np.inf, -np.inf  # from the last label to the first
    with pytest.raises(vs.InfeasibleError) as told:
        vs.infer(vs.Tree(np.concatenate([np.arange(-1, 29), caterpillar + 30 * (i > 0)]),
                         np.concatenate([calm, bad]), table), zeta=0.7)  # fmt: skip
    assert told.value.sequence == 1


def test_small_label_sets_always_have_islands() -> None:
    """With fewer than 32 labels nothing is chosen, but for long paths."""
    unary, table = scores(100, 0.1, np.random.default_rng(8), k=31)
    r = vs.infer(vs.Chain(unary, table), zeta=0.9)
    assert r.method == "islands"
    assert r.stats["sequences_without_islands"] == 0


def test_what_is_impossible_is_told() -> None:
    """The first infeasible sequence is named, whichever way each is answered."""
    unary, table, lengths, _ = batch(0)
    lengths = np.maximum(lengths, 1)
    chain = vs.Chain(unary, table, lengths=lengths)
    whole = vs.infer(chain, zeta=0.9)
    exact = np.add.reduceat((whole.islands >= 0).astype(int), chain.offset[:-1]) == 0
    for wanted in (True, False):
        bad = unary.copy()
        s = int(np.flatnonzero(exact == wanted)[1])
        bad[chain.offset[s]] = -np.inf
        with pytest.raises(vs.InfeasibleError) as told:
            vs.infer(vs.Chain(bad, table, lengths=lengths), zeta=0.9)
        assert told.value.sequence == s
