"""Scores in float64, messages in float32: what is rounded, and how little of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _forest as native
from valuesparse.inference import _asked, _certified
from valuesparse.inference._pieces import owner_of

Array = np.ndarray[Any, Any]
U32 = 2.0**-24


def narrowed(model: Any, components: Array | None = None, threads: int = 1) -> tuple[Array, Array]:
    """Return marginals and log Z of passes in float32; -1 where nothing is written."""
    n, k, count = model.forest.shape
    marginals, log_z = np.full((n, k), -1.0), np.full(count, -1.0)
    infeasible, _ = native.infer(
        model.forest, threads, log_z, marginals, components=components, narrow=True
    )
    assert infeasible is None
    return marginals, log_z


def within(model: Any, tol: float) -> None:
    """Check that a pass in float32 proves `tol`, and that its proof holds."""
    exact, (marginals, log_z) = vs.infer(model), narrowed(model)
    proof = _certified.single_proof(model, log_z).each(lambda: owner_of(model))
    assert (proof.error <= tol).all()
    assert (np.abs(marginals - exact.marginals).max(axis=1, initial=0) <= proof.error).all()
    assert (proof.log_z_lower <= exact.log_z + 1e-12 * np.abs(exact.log_z)).all()
    assert (exact.log_z <= proof.log_z_upper + 1e-12 * np.abs(exact.log_z)).all()
    assert ((marginals > 0) <= (exact.marginals > 0)).all()  # what is forbidden stays so


@pytest.mark.simd
@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 9, 16, 17, 33, 49, 100, 300])
@pytest.mark.parametrize("kind", ["plain", "decorated", "forbidden", "far"])
def test_chains(k: int, kind: str) -> None:
    rng = np.random.default_rng(k)
    lengths = [5, 1, 0, 12, 3]
    unary, t = 3 * rng.normal(size=(21, k)), rng.normal(size=(k, k))
    more: dict[str, Any] = {}
    if kind == "decorated":
        more = {"start": rng.normal(size=k), "end": rng.normal(size=k)}
        more["allowed"] = rng.random((21, k)) < 0.7
        more["allowed"][:, 0] = True
    if kind == "forbidden":
        unary[:, 1:][rng.random((21, k - 1)) < 0.3] = -np.inf
        t[1:][rng.random((k - 1, k)) < 0.3] = -np.inf
    if kind == "far":  # beyond what float32 holds, and still finite
        unary[:, 1:][rng.random((21, k - 1)) < 0.3] = -1e60
        unary[3] -= 1e5
        t[1:][rng.random((k - 1, k)) < 0.2] = -1e50
    model = vs.Chain(unary, t, lengths, **more)
    if kind == "far":  # proofs count what logarithms would round
        exact, (marginals, log_z) = vs.infer(model), narrowed(model)
        assert np.allclose(marginals, exact.marginals, atol=1e-5)
        assert np.allclose(log_z, exact.log_z, rtol=1e-9, atol=1e-5)
        return
    within(model, 3e-3)


#: As many sequences as fill lanes, more, and too few; with positions where single lanes end.
LANES = [[7] * 16, [13] * 12 + [12] * 21, [9, 9, 8, 8, 8, 8, 8, 7, 7, 7, 7, 7, 6, 5, 3, 2, 1, 0]]


@pytest.mark.simd
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 9, 16, 17, 25, 33, 49, 96, 112])
@pytest.mark.parametrize("kind", ["plain", "ends", "forbidden", "far"])
def test_lanes_have_the_bits_of_each_alone(k: int, kind: str) -> None:
    """Sequences side by side, one in each lane, and what is proved about them."""
    rng = np.random.default_rng(k)
    for lengths in LANES:
        n = sum(lengths)
        unary, t = 3 * rng.normal(size=(n, k)), rng.normal(size=(k, k))
        more = {}
        if kind == "ends":
            more = {"start": rng.normal(size=k), "end": rng.normal(size=k)}
        if kind == "forbidden":
            unary[:, 1:][rng.random((n, k - 1)) < 0.2] = -np.inf
            t[1:][rng.random((k - 1, k)) < 0.2] = -np.inf
        if kind == "far":  # some lanes hold what float32 does not, beside others that it does
            unary[:, 1:][rng.random((n, k - 1)) < 0.1] = -1e60
            unary[n // 2] -= 1e5
        model = vs.Chain(unary, t, lengths, **more)
        if kind != "far":
            within(model, 3e-3)
        whole, log_z = narrowed(model)
        assert np.array_equal(narrowed(model, threads=3)[0], whole)
        first = np.concatenate([[0], np.cumsum(lengths)])
        for at in range(len(lengths)):
            alone, alone_z = narrowed(model, np.array([at]))
            rows = slice(int(first[at]), int(first[at + 1]))
            assert np.array_equal(alone[rows], whole[rows])
            assert alone_z[at] == log_z[at]


@pytest.mark.simd
@pytest.mark.parametrize("kind", ["flat", "peaked", "forbidden", "large", "mixed"])
def test_relative_errors_never_grow_in_lanes(kind: str) -> None:
    """CERTIFICATES, section 6: what is proved holds for 10^4 sequences side by side."""
    rng = np.random.default_rng(8)
    for k, count in ((2, 5000), (6, 3000), (17, 2000)):
        lengths = rng.integers(0, 9, count)
        n = int(lengths.sum())
        scale = {"flat": 0.05, "peaked": 12.0, "mixed": 1.0}.get(kind, 3.0)
        unary, t = scale * rng.normal(size=(n, k)), scale * rng.normal(size=(k, k))
        if kind == "mixed":
            unary *= np.repeat(rng.choice([0.1, 1.0, 10.0], count), lengths)[:, None]
        if kind == "forbidden":
            unary[:, 1:][rng.random((n, k - 1)) < 0.3] = -np.inf
            t[1:][rng.random((k - 1, k)) < 0.3] = -np.inf
        if kind == "large":
            unary += rng.choice([-1e4, 1e4], n)[:, None]
        within(vs.Chain(unary, t, lengths), 3e-3)


@pytest.mark.simd
def test_a_dead_lane_is_named() -> None:
    rng = np.random.default_rng(2)
    unary = rng.normal(size=(20 * 6, 5))
    unary[6 * 11 + 4] = -np.inf
    model = vs.Chain(unary, rng.normal(size=(5, 5)), [6] * 20)
    found, _ = native.infer(
        model.forest, 1, np.empty(20), np.empty(unary.shape), components=None, narrow=True
    )
    assert found == (11, 4)


@pytest.mark.simd
@pytest.mark.parametrize("kind", ["shared", "typed", "per edge"])
@pytest.mark.parametrize("k", [5, 40])
def test_trees(kind: str, k: int) -> None:
    rng = np.random.default_rng(3)
    n = 60
    parent = np.array([-1 if i % 20 == 0 else rng.integers(20 * (i // 20), i) for i in range(n)])
    shape = {"shared": (k, k), "typed": (2, k, k), "per edge": (n, k, k)}[kind]
    types = rng.integers(0, 2, n) if kind == "typed" else None
    tables = rng.normal(size=shape)
    within(vs.Tree(parent, 2 * rng.normal(size=(n, k)), tables, edge_type=types), 3e-3)
    if kind == "shared":
        tables[1:][rng.random((k - 1, k)) < 0.4] = -np.inf
        within(vs.Tree(parent, 2 * rng.normal(size=(n, k)), tables), 3e-3)


@pytest.mark.simd
def test_an_exponential_is_rounded_once() -> None:
    """Arguments are reduced in float64: rounded to float32 they would lose 60 times as much."""
    rng = np.random.default_rng(0)
    for k in (2, 8, 11):
        unary = rng.uniform(-80, 0, (2000, k)) + rng.normal(size=(2000, 1)) * 1e4
        model = vs.Chain(unary, np.zeros((k, k)), np.ones(2000, dtype=int))
        marginals, _ = narrowed(model)
        exact = vs.infer(model).marginals
        seen = exact > 1e-15  # others are held at a floor
        off = np.abs(marginals[seen] / exact[seen] - 1)
        assert off.max() <= (3 + 3 + k + 2) * U32
        # And the table's, of two variables, the second of which tells nothing.
        t = rng.uniform(-30, 0, (k, k))
        pair = vs.Chain(np.zeros((2, k)), t)
        off = np.abs(narrowed(pair)[0] / vs.infer(pair).marginals - 1)
        assert off.max() <= (3 + 3 + 3 * k + 4) * U32


def test_scores_lose_nothing() -> None:
    """A proof does not grow with the scores, which are subtracted in float64."""
    rng = np.random.default_rng(1)
    unary, t = rng.normal(size=(4000, 40)), rng.normal(size=(40, 40))
    errors = []
    for more in (0.0, 1e6):
        r = vs.infer(vs.Chain(unary + more, t + more, [20] * 200), tol=1e-3)
        assert "float32" in r.reason
        errors.append(r.error.max())
    assert errors[1] < 1.01 * errors[0]
    plain = vs.infer(vs.Chain(unary, t, [20] * 200))
    assert np.abs(r.marginals - plain.marginals).max() < 1e-5


@pytest.mark.parametrize("tree", [False, True])
def test_some_components(tree: bool) -> None:
    """Others are not touched, and bits depend neither on them nor on threads."""
    rng = np.random.default_rng(2)
    lengths = np.array([30, 4, 70, 0, 25, 25, 1, 40])
    n, k = int(lengths.sum()), 37
    unary, t = rng.normal(size=(n, k)), rng.normal(size=(k, k))
    model: Any = vs.Chain(unary, t, lengths)
    owner = np.repeat(np.arange(8), lengths)
    if tree:
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        model = vs.Tree([-1 if i in first else i - 1 for i in range(n)], unary, t)
        owner = model.structure.tree_of()
    count = model.forest.shape[2]
    whole, log_z = narrowed(model)
    chosen = np.flatnonzero(np.arange(count) % 3 != 1)
    for threads in (1, 2, 3, 8):
        part, part_z = narrowed(model, chosen, threads)
        mine = np.isin(owner, chosen)
        assert np.array_equal(part[mine], whole[mine])
        assert (part[~mine] == -1).all()
        assert np.array_equal(part_z[chosen], log_z[chosen])


def test_a_long_chain_in_chunks() -> None:
    rng = np.random.default_rng(4)
    model = vs.Chain(2 * rng.normal(size=(9000, 33)), rng.normal(size=(33, 33)))
    exact = vs.infer(model)
    r = vs.infer(model, tol=0.1)
    assert "float32" in r.reason
    assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= r.error).all()
    assert (r.error <= 0.1).all()
    assert r.log_z_lower[0] <= exact.log_z[0] <= r.log_z_upper[0]
    for threads in (2, 3, 8):
        assert np.array_equal(vs.infer(model, tol=0.1, threads=threads).marginals, r.marginals)


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3, 1e-4])
def test_the_longest_that_fits(tol: float) -> None:
    """Where the longest sequence is told beforehand, its proof is within the tolerance."""
    rng = np.random.default_rng(5)
    for k in (16, 64, 508):
        t = rng.normal(size=(k, k))
        longest = int(_certified.longest_single(vs.Chain(np.zeros((1, k)), t), tol))
        for n, fits in ((longest, True), (longest + 2 + longest // 10**6, False)):
            proof = _certified.single_proof(vs.Chain(np.zeros((n, k)), t), np.zeros(1))
            assert (proof.error[0] <= tol) == fits


def test_the_floor_is_that_of_the_largest_component() -> None:
    """Which the native forest knows, of chains and of trees."""
    t = np.zeros((3, 3))
    for lengths in ([], [0], [4], [0, 7, 2, 7, 0], [1, 1, 1]):
        n, most = sum(lengths), max(lengths, default=0)
        chains = vs.Chain(np.zeros((n, 3)), t, np.array(lengths, dtype=np.int64))
        parent = np.arange(-1, n - 1)
        parent[chains.offset[:-1][chains.lengths > 0]] = -1
        for model in (chains, vs.Tree(parent, np.zeros((n, 3)), t)):
            assert model.forest.longest == most
            assert _certified.floor_of(model) == 8 * most * 1503 * 2.0**-53


def test_no_tolerance_of_float64_asks_float32() -> None:
    """What float32 cannot prove is known before any length is looked at."""
    for k in (6, 17, 49, 508):
        one = vs.Chain(np.zeros((1, k)), np.zeros((k, k)))
        least = _certified.least_single(one)
        assert _certified.longest_single(one, least) < 1
        assert _certified.single_proof(one, np.zeros(1)).error[0] > least


def test_blocks_of_sums_round_less() -> None:
    """A sentence of 80 words is proved to 1e-3 whatever the labels; in one sum it would not be."""
    rng = np.random.default_rng(6)
    for k in (49, 508, 1449):
        model = vs.Chain(np.zeros((1, k)), rng.normal(size=(k, k)))
        assert _certified.longest_single(model, 1e-3) > 80
    assert _certified.roundings(4522) < 4522 / 10
    assert _certified.roundings(4522, apart=True) == 4522


@pytest.mark.parametrize("tree", [False, True])
def test_lists(tree: bool) -> None:
    rng = np.random.default_rng(7)
    n, k = 5000, 40
    unary, t = 3 * rng.normal(size=(n, k)), rng.normal(size=(k, k))
    model: Any = vs.Chain(unary, t, [25] * 200)
    if tree:
        model = vs.Tree([i - 1 if i % 25 else -1 for i in range(n)], unary, t)
    exact, r = vs.infer(model), vs.infer(model, tol=1e-3, keep=1e-2)
    assert "float32" in r.reason
    assert (r.error <= 1e-3).all()
    shown = r.sparse().toarray()
    assert (np.abs(shown - exact.marginals) <= np.where(shown > 0, r.error[:, None], 1)).all()
    hidden = np.where(shown > 0, 0, exact.marginals).max(axis=1)
    assert (hidden <= r.unlisted).all()
    assert (r.unlisted <= 1e-2 + 1e-3).all()
    assert (r.lower <= exact.marginals).all()
    assert (exact.marginals <= r.upper).all()
    for threads in (2, 3):
        again = vs.infer(model, tol=1e-3, keep=1e-2, threads=threads)
        assert np.array_equal(again.sparse().data, r.sparse().data)


def test_small_calls_stay_in_float64() -> None:
    model = vs.Chain(np.zeros((30, 20)), np.zeros((20, 20)))
    assert not _asked.pays_single(model)
    r = vs.infer(model, tol=1e-3)
    assert r.method == "exact"
    assert np.array_equal(r.marginals, vs.infer(model).marginals)
