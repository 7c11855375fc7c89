"""Trees: against enumeration, recursions, chains, and the definition of islands."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from checks import assert_same_bits, assert_same_result
from forest_checks import (
    assert_exact,
    assert_islands,
    forests,
    random_forest,
    random_parent,
    tolerance,
    tree,
)
from hypothesis import given, settings
from tree_oracles import (
    Forest,
    enumerate_forest,
    first_dead_node,
    scores_of,
    solve_forest,
)

import valuesparse as vs

pytestmark = pytest.mark.simd


# --------------------------------------------------------------------------------------- small


@given(forests())
@settings(max_examples=300)
def test_any_forest(model: Forest) -> None:
    dead = first_dead_node(model)
    if dead is not None:
        for call in (vs.infer, vs.decode, lambda m: vs.sample(m, 1, 0)):
            with pytest.raises(vs.InfeasibleError) as info:
                call(tree(model))
            assert (info.value.sequence, info.value.position) == dead
        return
    r = vs.infer(tree(model))
    assert_exact(model, r)
    marginals, log_z, best = enumerate_forest(model)
    tol = tolerance(model)
    np.testing.assert_allclose(r.marginals, marginals, rtol=0, atol=tol)
    np.testing.assert_allclose(r.log_z.sum(), log_z, rtol=tol, atol=tol)
    d = vs.decode(tree(model))
    np.testing.assert_allclose(d.score.sum(), best, rtol=tol, atol=tol)
    np.testing.assert_allclose(scores_of(model, d.states[None])[0], best, rtol=tol, atol=tol)
    for x in vs.sample(tree(model), 3, 0):
        assert (vs.log_prob(tree(model), x) > -np.inf).all()


@given(
    forests(extreme=False), st.sampled_from([0.0, 0.3, 0.7, 0.95]), st.sampled_from([None, 0, 1])
)
@settings(max_examples=300)
def test_any_forest_with_islands(model: Forest, zeta: float, revisit: int | None) -> None:
    dead = first_dead_node(model)
    if dead is not None:
        with pytest.raises(vs.InfeasibleError) as info:
            vs.infer(tree(model), zeta=zeta, revisit=revisit)
        assert (info.value.sequence, info.value.position) == dead
        return
    r = vs.infer(tree(model), zeta=zeta, revisit=revisit)
    assert_islands(model, r, zeta, settled=revisit is None)


@given(forests(), st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=100)
def test_extreme_scores_with_islands(model: Forest, zeta: float) -> None:
    if first_dead_node(model) is None:
        assert_islands(model, vs.infer(tree(model), zeta=zeta), zeta, settled=True)


@given(forests(), st.sampled_from([0.5, 0.9]), st.sampled_from([0, 1]))
@settings(max_examples=200)
def test_extreme_scores_with_islands_that_few_rounds_leave(
    model: Forest, zeta: float, revisit: int
) -> None:
    if first_dead_node(model) is None:
        assert_islands(
            model, vs.infer(tree(model), zeta=zeta, revisit=revisit), zeta, settled=False
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("low", [1.0, 10.0, 30.0, 100.0, 400.0, 3000.0])
def test_islands_that_their_parent_hardly_allows(low: float, dtype: type) -> None:
    """Their rows of the table lie below its floor, and go into a product that is scaled."""
    unary = np.array([[0.3, 0.0], [8.0, 0.0], [8.0, 0.0]], dtype=dtype)
    transition = np.array([[-1.25 * low, low], [-low, 0.0]], dtype=dtype)
    r = vs.infer(vs.Tree([-1, 0, 0], unary, transition), zeta=0.999, revisit=0)
    np.testing.assert_array_equal(r.islands[1:], 0)
    scores = unary[0].astype(float) + 16 + 2 * transition[:, 0].astype(float)
    if r.islands[0] >= 0:
        scores = scores[r.islands[:1]]
    log_z = np.logaddexp.reduce(scores)
    tol = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(r.log_z, log_z, rtol=tol)
    if r.islands[0] < 0:
        np.testing.assert_allclose(r.marginals[0], np.exp(scores - log_z), atol=tol)


def test_samples_follow_the_posterior(rng: np.random.Generator) -> None:
    model = random_forest(rng, random_parent(rng, 5), 3)
    x = vs.sample(tree(model), 20_000, rng)
    marginals = enumerate_forest(model)[0]
    seen = np.stack([np.bincount(column, minlength=3) for column in x.T]) / len(x)
    np.testing.assert_allclose(seen, marginals, rtol=0, atol=0.02)


@pytest.mark.smoke
def test_log_prob_of_each_tree(rng: np.random.Generator) -> None:
    model = random_forest(rng, random_parent(rng, 7, 3), 2, kind=1)
    r = vs.infer(tree(model))
    x = rng.integers(0, 2, 7)
    got = vs.log_prob(tree(model), x)
    assert got.shape == (3,)
    np.testing.assert_allclose(got.sum() + r.log_z.sum(), float(scores_of(model, x[None])[0]))


# ---------------------------------------------------------------------------------------- large


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("k", [1, 3, 16, 17])
def test_many_blocks(kind: int, deep: bool, k: int, rng: np.random.Generator, dtype: type) -> None:
    parent = random_parent(rng, 600, 4, deep=deep)
    model = random_forest(rng, parent, k, kind=kind, dtype=dtype)
    # Rows this wide make blocks of sixteen nodes.
    wide = Forest(
        parent,
        np.concatenate([model.unary, np.full((600, 1600 - k), -np.inf, dtype)], axis=1),
        np.zeros((1600, 1600), dtype),
    )
    assert_exact(model, vs.infer(tree(model)))
    if kind == 0 and k == 3 and not deep:
        r = vs.infer(tree(wide))
        flat = Forest(parent, model.unary, np.zeros((k, k), dtype))
        np.testing.assert_allclose(
            r.marginals[:, :k], solve_forest(flat).marginals, atol=tolerance(flat)
        )


def test_rows_written_past_the_caches(rng: np.random.Generator) -> None:
    n, k = 33_000, 64  # whole lines, more than 16 MiB
    model = random_forest(rng, random_parent(rng, n, 2), k)
    r = vs.infer(tree(model))
    # With a forbidden label more, rows are not whole lines.
    other = vs.Tree(
        model.parent,
        np.c_[model.unary, np.full(n, -np.inf)],
        np.pad(model.pairwise, ((0, 1), (0, 1))),
    )
    np.testing.assert_allclose(r.marginals, vs.infer(other).marginals[:, :k], atol=1e-12)
    np.testing.assert_allclose(r.marginals.sum(axis=1), 1.0, atol=1e-12)
    assert_same_bits(r.marginals, vs.infer(tree(model), threads=1).marginals)


@pytest.mark.parametrize("children", [1, 2, 7, 8, 9, 60, 300])
@pytest.mark.parametrize("spread", [0.1, 30.0, 300.0])
def test_many_children_whose_product_may_leave_the_range(
    children: int, spread: float, rng: np.random.Generator, dtype: type
) -> None:
    parent = np.r_[-1, np.zeros(children, int), np.full(3, 1)]
    n, k = parent.size, 5
    unary = rng.normal(size=(n, k)).astype(dtype)
    unary[rng.random((n, k)) < 0.1] = -np.inf
    unary[:, 0] = 0
    model = Forest(parent, unary, (spread * rng.normal(size=(k, k))).astype(dtype))
    assert_exact(model, vs.infer(tree(model)))


@pytest.mark.parametrize("zeta", [1.0, 0.7])
@pytest.mark.parametrize("spread", [50.0, 300.0, 1000.0, 10_000.0])
def test_zeros_beside_scores_that_underflow(
    spread: float, zeta: float, rng: np.random.Generator, dtype: type
) -> None:
    for _ in range(200):
        n, k = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        parent = random_parent(rng, n)
        pairwise = spread * rng.normal(size=(n, k, k) if rng.random() < 0.3 else (k, k))
        pairwise[rng.random(pairwise.shape) < 0.3] = -np.inf
        unary = (spread * rng.normal(size=(n, k))).astype(dtype)
        model = Forest(parent, unary, pairwise.astype(dtype))
        if first_dead_node(model) is not None:
            continue
        r = vs.infer(tree(model), zeta=zeta)
        if zeta < 1:
            assert_islands(model, r, zeta, settled=True)
            continue
        marginals, log_z, _ = enumerate_forest(model)
        tol = tolerance(model)
        np.testing.assert_allclose(r.marginals, marginals, rtol=0, atol=tol)
        np.testing.assert_allclose(r.log_z.sum(), log_z, rtol=tol, atol=tol)


def test_underflow_in_a_leaf() -> None:
    forbidden = -np.inf
    model = vs.Tree(
        [-1, 0, 0], [[-1700.0, 1100], [0, -1040], [0, -480]], [[0, forbidden], [forbidden, -280]]
    )
    r = vs.infer(model)
    np.testing.assert_allclose(r.log_z, -980.0)
    np.testing.assert_array_equal(r.marginals.argmax(axis=1), 1)


def test_rows_of_roots_are_ignored(rng: np.random.Generator) -> None:
    pairwise = rng.normal(size=(3, 2, 2))
    r = vs.infer(vs.Tree([-1, 0, 1], np.zeros((3, 2)), pairwise))
    pairwise[0] = np.nan
    assert_same_bits(
        r.marginals, vs.infer(vs.Tree([-1, 0, 1], np.zeros((3, 2)), pairwise)).marginals
    )
    pairwise[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="pairwise"):
        vs.Tree([-1, 0, 1], np.zeros((3, 2)), pairwise)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("zeta", [0.0, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("revisit", [None, 0, 2])
def test_peaked_forests(
    kind: int, zeta: float, revisit: int | None, rng: np.random.Generator, dtype: type
) -> None:
    for forbidden in (0.0, 0.1):
        parent = random_parent(rng, 300, 3, deep=kind == 1)
        model = random_forest(rng, parent, 6, kind=kind, peak=6.0, forbidden=forbidden, dtype=dtype)
        model.unary[model.unary.max(axis=1) == -np.inf] = 0
        if first_dead_node(model) is not None:
            continue
        r = vs.infer(tree(model), zeta=zeta, revisit=revisit)
        assert_islands(model, r, zeta, settled=revisit is None)


@pytest.mark.parametrize("zeta", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("spread", [15.0, 30.0, 100.0, 200.0, 400.0])
def test_pairwise_scores_beside_which_local_ones_hardly_count(
    spread: float, zeta: float, rng: np.random.Generator, dtype: type
) -> None:
    """Entries held at a floor, and floors raised by scaling, must not decide m'."""
    for i in range(60):
        n, k = int(rng.integers(2, 6)), int(rng.integers(2, 5))
        model = random_forest(rng, random_parent(rng, n), k, kind=i % 3, dtype=dtype)
        model.unary[:] *= [1.0, 20.0, spread][i // 3 % 3]
        model.pairwise[:] *= spread
        for a in (model.unary, model.pairwise):
            a[rng.random(a.shape) < [0.0, 0.2][i % 2]] = -np.inf
        if first_dead_node(model) is not None:
            continue
        for revisit in (0, 1, None):
            r = vs.infer(tree(model), zeta=zeta, revisit=revisit)
            assert_islands(model, r, zeta, settled=revisit is None)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_floor_is_no_evidence_for_a_state(dtype: type) -> None:
    """Both states of the root need rows of the table that are held at its floor."""
    unary = [[0.36, -0.78], [-np.inf, 0.38], [0.31, -np.inf], [-0.92, 0.41]]
    pairwise = [[257.2, 263.9], [-83.7, 429.6]]
    model = Forest(
        np.array([-1, 0, 0, 2]), np.array(unary, dtype=dtype), np.array(pairwise, dtype=dtype)
    )
    for revisit in (0, None):
        assert_islands(
            model, vs.infer(tree(model), zeta=0.9, revisit=revisit), 0.9, settled=revisit is None
        )


@pytest.mark.parametrize("spread", [1.0, 30.0, 400.0])
@pytest.mark.parametrize("zeta", [0.4, 0.9])
def test_islands_with_few_and_many_neighbours(
    spread: float, zeta: float, rng: np.random.Generator, dtype: type
) -> None:
    # A path of hubs with 0 to 12 leaves each: m' of an island is made in one sweep where it has
    # few neighbours and their product keeps within range.
    n_leaves = np.arange(13)
    hub = np.cumsum(np.r_[0, n_leaves[:-1] + 1])
    parent = np.repeat(hub, n_leaves + 1)
    parent[hub] = np.r_[-1, hub[:-1]]
    model = random_forest(rng, parent, 5, peak=1.5 * spread + 4.0, dtype=dtype)
    model.pairwise[:] *= spread
    r = vs.infer(tree(model), zeta=zeta)
    assert (r.islands[hub] >= 0).any()
    assert_islands(model, r, zeta, settled=True)


def test_zeta_zero_decides_by_local_factors(rng: np.random.Generator) -> None:
    model = random_forest(rng, random_parent(rng, 50), 4)
    r = vs.infer(tree(model), zeta=0.0, revisit=0)
    np.testing.assert_array_equal(r.islands, model.unary.argmax(axis=1))


def test_zeta_one_is_the_exact_path(rng: np.random.Generator) -> None:
    model = random_forest(rng, random_parent(rng, 500), 5, peak=50.0)
    assert_same_result(vs.infer(tree(model)), vs.infer(tree(model), zeta=1.0), derived=False)


@pytest.mark.parametrize("zeta", [1.0, 0.9])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_same_bits_for_any_number_of_threads(
    zeta: float, kind: int, rng: np.random.Generator, dtype: type
) -> None:
    n = 20_000 if kind < 2 else 3_000
    model = random_forest(
        rng, random_parent(rng, n, 5), 9, kind=kind, peak=5.0, share=0.5, dtype=dtype
    )
    one = vs.infer(tree(model), zeta=zeta, threads=1)
    best, x = vs.decode(tree(model), threads=1), vs.sample(tree(model), 2, 3, threads=1)
    for threads in (2, 3, 8):
        other = vs.infer(tree(model), zeta=zeta, threads=threads)
        assert_same_result(one, other, derived=False)
        assert_same_bits(best.states, vs.decode(tree(model), threads=threads).states)
        assert_same_bits(x, vs.sample(tree(model), 2, 3, threads=threads))


def test_deep_tree_is_worked_from_its_centre(rng: np.random.Generator) -> None:
    # A long path with twigs, rooted at one end: its edges are turned round on the way.
    n = 1000
    parent = np.r_[-1, np.arange(n - 1), np.arange(0, n, 2)]
    for kind in (0, 1, 2):
        model = random_forest(rng, parent, 3, kind=kind)
        assert_exact(model, vs.infer(tree(model)))
        peaked = random_forest(rng, parent, 3, kind=kind, peak=6.0)
        assert_islands(peaked, vs.infer(tree(peaked), zeta=0.9), 0.9, settled=True)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_path_is_a_chain(shuffled: bool, rng: np.random.Generator, dtype: type) -> None:
    n, k = 200, 4
    unary, pairwise = rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(k, k)).astype(dtype)
    order = rng.permutation(n) if shuffled else np.arange(n)
    parent = np.full(n, -1)
    parent[order[1:]] = order[:-1]
    chain = vs.Chain(unary[order], pairwise)
    for zeta in (1.0, 0.8):
        a, b = vs.infer(chain, zeta=zeta), vs.infer(vs.Tree(parent, unary, pairwise), zeta=zeta)
        rounding = 1e-6 if dtype == np.float32 else 1e-13
        np.testing.assert_allclose(a.marginals, b.marginals[order], rtol=0, atol=rounding)
        np.testing.assert_allclose(a.log_z, b.log_z, rtol=rounding)
        assert_same_bits(a.islands, b.islands[order])
    tol = 1e-5 if dtype == np.float32 else 1e-10
    edge = vs.infer(vs.Tree(parent, unary, pairwise)).pairwise()
    at = np.argsort(order[1:], kind="stable")
    np.testing.assert_allclose(edge, vs.infer(chain).pairwise()[at], atol=tol)


def test_star_of_a_million(rng: np.random.Generator) -> None:
    n = 1_000_000
    parent = np.zeros(n + 1, dtype=np.int64)
    parent[0] = -1
    unary = rng.normal(size=(n + 1, 3))
    pairwise = np.array([[0.0, 1.0, -np.inf], [0.5, -np.inf, 0.2], [0.0, 0.1, 0.3]])
    unary[5] = [-np.inf, -np.inf, 0.0]  # rules out state 0 of the root
    r = vs.infer(vs.Tree(parent, unary, pairwise))
    messages = np.logaddexp.reduce(pairwise[None] + unary[1:, None, :], axis=2)
    root = unary[0] + messages.astype(np.longdouble).sum(axis=0)
    assert root[0] == -np.inf
    want = np.exp(root - root.max())
    np.testing.assert_allclose(r.marginals[0], (want / want.sum()).astype(float), atol=1e-10)
    np.testing.assert_allclose(r.log_z[0], float(root.max() + np.log(want.sum())), rtol=1e-12)
    np.testing.assert_allclose(r.marginals.sum(axis=1), 1)
    held = vs.infer(vs.Tree(parent, unary, pairwise), zeta=0.7)
    assert held.converged
    assert held.stats["islands"] > 1000


@pytest.mark.parametrize("zeta", [1.0, 0.9])
def test_depth_of_a_million(zeta: float, rng: np.random.Generator) -> None:
    n = 1_000_000
    parent = np.r_[np.arange(-1, n - 1), 0]  # one twig at the root: no path
    model = vs.Tree(parent, rng.normal(size=(n + 1, 2)), np.log([[2.0, 1.0], [1.0, 3.0]]))
    r = vs.infer(model, zeta=zeta)
    assert np.isfinite(r.log_z).all()
    np.testing.assert_allclose(r.marginals.sum(axis=1), 1)


@pytest.mark.slow
def test_ten_million_nodes(rng: np.random.Generator) -> None:
    n = 10_000_000
    parent = np.r_[-1, (rng.random(n - 1) * np.arange(1, n)).astype(np.int64)]
    pairwise = np.log([[2.0, 1.0], [1.0, 2.0]])
    r = vs.infer(vs.Tree(parent, np.zeros((n, 2)), pairwise))
    np.testing.assert_allclose(r.marginals, 0.5)
    np.testing.assert_allclose(r.log_z, np.log(2) + (n - 1) * np.log(3), rtol=1e-12)


def test_a_product_that_leaves_the_range_and_returns(dtype: type) -> None:
    # Half of the children speak for one state by a factor of 1e13 each, half against it.
    n = 400
    parent = np.zeros(n + 1, dtype=np.int64)
    parent[0] = -1
    unary = np.zeros((n + 1, 2), dtype)
    unary[1 : n // 2 + 1, 0] = 30
    unary[n // 2 + 1 :, 1] = 30
    unary[0, 0] = 1
    pairwise = np.array([[0, -np.inf], [-np.inf, 0]], dtype)
    for zeta in (1.0, 0.999):
        r = vs.infer(vs.Tree(parent, unary, pairwise), zeta=zeta)
        if zeta == 1.0:
            np.testing.assert_allclose(
                r.marginals, np.tile([0.7310586, 0.2689414], (n + 1, 1)), 1e-5
            )


@pytest.mark.simd
def test_a_hub_alone_in_its_block(dtype: type, rng: np.random.Generator) -> None:
    """Its product is wide, and begun as a row of ones whose pads are no labels."""
    for n in (94, 95, 190):  # blocks end behind 95 nodes at these labels, in float32
        k = 130
        unary, table = rng.normal(size=(n + 1, k)).astype(dtype), rng.normal(size=(k, k))
        table = table.astype(dtype)
        r = vs.infer(vs.Tree(np.r_[-1, np.zeros(n, dtype=int)], unary, table))
        below = np.log(np.exp(unary[1:].astype(float)) @ np.exp(table.astype(float)).T).sum(axis=0)
        np.testing.assert_allclose(r.log_z, np.logaddexp.reduce(below + unary[0]), rtol=1e-6)


def test_index_arrays_that_change_later_do_not_change_a_tree() -> None:
    parent, edge_type = np.array([-1, 0, 0, 1]), np.zeros(4, np.int64)
    unary, tables = np.arange(8.0).reshape(4, 2), np.eye(2)[None]
    tree = vs.Tree(parent, unary, tables, edge_type=edge_type)
    before = vs.infer(tree).log_z, vs.log_prob(tree, np.zeros(4, int))
    parent[:] = edge_type[:] = 10**9
    assert tree.parent.tolist() == [-1, 0, 0, 1]
    assert np.array_equal(vs.infer(tree).log_z, before[0])
    assert np.array_equal(vs.log_prob(tree, np.zeros(4, int)), before[1])
