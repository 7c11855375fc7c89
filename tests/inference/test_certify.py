"""`certify()` of results with islands, by passes that compare marginals as they write them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _forest as native


def sentences(k: int, *, dtype: Any = np.float64, size: float = 3.0, most: int = 60) -> vs.Chain:
    rng = np.random.default_rng(k)
    lengths = rng.integers(0, most, size=30)
    unary = size * rng.normal(size=(lengths.sum(), k))
    return vs.Chain(unary.astype(dtype), rng.normal(size=(k, k)).astype(dtype), lengths)


def as_tree(model: vs.Chain) -> vs.Tree:
    parent = np.arange(-1, model.n_positions - 1)
    parent[model.offset[:-1][model.lengths > 0]] = -1
    return vs.Tree(parent, model.unary, model.transition)


@pytest.mark.simd
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 9, 21, 49])
def test_errors_are_distances_from_what_has_a_proof(k: int, dtype: Any) -> None:
    """In NumPy; the same of the chains as trees, whose marginals are kept."""
    model = sentences(k, dtype=dtype)
    r = vs.infer(model, zeta=0.8)
    c = r.certify()
    rows = vs.infer(model, zeta=1.0).marginals.astype(np.float64)
    error = np.abs(rows - r.marginals).max(axis=1)
    bound = c.slack * np.exp(c.radius) * 1.001 + np.expm1(c.radius) / 4 + 2e-5
    assert (c.error >= error - 1e-15).all()
    assert (c.error <= error + bound).all()
    held = np.flatnonzero(r.islands >= 0)
    assert held.size or k in (1, 49)
    rest = 1 - rows[held, r.islands[held]]
    assert (c.wrong[held] >= rest - 1e-15 - 1e-6 * (dtype is np.float32)).all()
    assert (c.wrong[held] <= rest * np.exp(c.radius[held]) + bound[held]).all()
    assert (c.wrong[r.islands < 0] == 0).all()
    tree = vs.infer(as_tree(model), zeta=0.8)
    np.testing.assert_array_equal(tree.islands, r.islands)
    near = tree.certify()
    np.testing.assert_allclose(near.error, c.error, atol=2e-3)
    np.testing.assert_allclose(near.wrong, c.wrong, atol=2e-3)


@pytest.mark.simd
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lanes_compare_as_rows_do(dtype: Any) -> None:
    """Chains of few labels are compared as they are made; NumPy, and rows that are kept, agree."""
    single = dtype is np.float32
    for k in range(1, 26):
        rng = np.random.default_rng(k)
        lengths = rng.integers(0, 20, size=rng.integers(1, 12))
        unary, table = rng.normal(size=(lengths.sum(), k)), rng.normal(size=(k, k))
        unary[rng.random(unary.shape) < 0.2 * (k % 2)] = -np.inf
        unary[:, 0] = 0.0
        model = vs.Chain((2 * unary).astype(dtype), table.astype(dtype), lengths)
        n, count = model.n_positions, lengths.size
        other = rng.random((n, k)).astype(dtype)
        label = rng.integers(-1, k, size=n).astype(np.int32)
        terms = rng.random(count) / 4, 1 + rng.random(count) / 9, rng.random(count) / 9
        far, wrong, far_of_rows, wrong_of_rows = np.full((4, n), np.nan)
        native.infer(model.forest, 1, np.empty(count), compared=(other, label, *terms, far, wrong))
        rows = vs.infer(model).marginals
        asked = other, label, *terms, far_of_rows, wrong_of_rows
        native.compare(rows, np.repeat(np.arange(count), lengths), asked, 1)
        np.testing.assert_array_equal(far, far_of_rows)
        if single:
            np.testing.assert_array_equal(wrong, wrong_of_rows)
        np.testing.assert_allclose(wrong, wrong_of_rows, atol=4 * (k + 8) * 2.0**-52)
        owner = np.repeat(np.arange(count), lengths)
        error = np.abs(rows.astype(float) - other).max(axis=1) + terms[0][owner]
        np.testing.assert_allclose(far, np.minimum(error, 1), rtol=1e-6)
        held = rows[np.arange(n), label].astype(float) * (label >= 0)
        most = np.minimum((1 - held) * terms[1][owner] + terms[2][owner], 1) * (label >= 0)
        np.testing.assert_allclose(wrong, most, atol=1e-5 if single else 1e-12)


@pytest.mark.simd
def test_narrowed_lanes_compare_as_rows_do() -> None:
    """What is narrowed to float32 side by side, or alone, is compared alike, bit for bit."""
    for k in (1, 2, 3, 5, 8, 9, 16, 17, 24, 49):
        rng = np.random.default_rng(k)
        lengths = rng.integers(0, 20, size=37)
        unary, table = 2 * rng.normal(size=(lengths.sum(), k)), rng.normal(size=(k, k))
        unary[rng.random(unary.shape) < 0.2 * (k % 2)] = -np.inf
        unary[:, 0] = 0.0
        model = vs.Chain(unary, table, lengths)
        n, count = model.n_positions, lengths.size
        label = rng.integers(-1, k, size=n).astype(np.int32)
        terms = rng.random(count) / 4, 1 + rng.random(count) / 9, rng.random(count) / 9
        asked: Any = rng.random((n, k)), label, *terms
        found = [np.full((2, n), np.nan) for _ in range(4)]
        for (far, wrong), threads in zip(found[:3], (1, 2, 3), strict=True):
            native.infer(
                model.forest, threads, np.empty(count), narrow=True, compared=(*asked, far, wrong)
            )
        for i in range(count):
            native.infer(
                model.forest, 1, np.empty(count), narrow=True, compared=(*asked, *found[3]),
                components=np.array([i]),
            )  # fmt: skip
        rows = np.empty((n, k))
        native.infer(model.forest, 1, np.empty(count), rows, narrow=True)
        for other in found[1:]:
            np.testing.assert_array_equal(found[0], other)
        owner = np.repeat(np.arange(count), lengths)
        most = np.abs(rows - asked[0]).max(axis=1) + terms[0][owner]
        assert (found[0][0] >= np.minimum(most, 1)).all()
        np.testing.assert_allclose(found[0][0], np.minimum(most, 1), rtol=1e-6)
        rest = (1 - rows[np.arange(n), label] / rows.sum(axis=1)) * terms[1][owner]
        least = np.minimum(rest + terms[2][owner], 1) * (label >= 0)
        assert (found[0][1] >= least - 1e-15).all()
        np.testing.assert_allclose(found[0][1], least, atol=3 * (k + 8) * 2.0**-23)


@pytest.mark.simd
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("size", [0.1, 3.0, 30.0, 3000.0])
def test_few_labels_are_certified_in_float32(k: int, size: float) -> None:
    """Short sentences side by side; passes in float64, which prove themselves, hold them."""
    rng = np.random.default_rng(k)
    lengths = rng.integers(1, 6, size=1000)
    unary = size * rng.normal(size=(lengths.sum(), k))
    unary[rng.random(unary.shape) < 0.1] = -np.inf
    unary[:, 0] = 0.0
    model = vs.Chain(unary, min(size, 5.0) * rng.normal(size=(k, k)), lengths)
    r, exact = vs.infer(model, zeta=0.8), vs.infer(model, tol=1e-8)
    c = r.certify()
    assert c.radius.max() > 1e-7  # of float32
    far = np.abs(exact.marginals - r.marginals).max(axis=1)
    assert (far <= c.error + exact.error).all()
    assert (c.error <= far + 1e-3 + exact.error).all()
    assert (c.lower <= exact.upper).all()
    assert (exact.lower <= c.upper).all()
    held = np.flatnonzero(r.islands >= 0)
    wrong = 1 - exact.marginals[held, r.islands[held]]
    assert held.size > 100 or size == 0.1
    assert (wrong <= c.wrong[held] + exact.error[held]).all()
    assert (c.wrong[held] <= wrong + 1e-3).all()
    assert (c.log_z_lower <= exact.log_z_upper).all()
    assert (exact.log_z_lower <= c.log_z_upper).all()


def test_what_a_radius_allows() -> None:
    """A polynomial stands for expm1 where that is small, never below it; sizes are known once."""
    rng = np.random.default_rng(0)
    radius = np.concatenate([10 ** rng.uniform(-17, 1, 100_000), [0.0, 0.05, 0.0501, 1e4]])
    error, more, extra = native.allowances(radius, 0.0, 0.0)
    grown = np.expm1(np.minimum(radius, 700.0))
    assert (error >= np.minimum(grown / 4, 1)).all()
    assert (error <= np.minimum(grown / 4, 1) * (1 + 2e-10)).all()
    assert (more >= grown + 1).all()
    assert (extra >= 0).all()
    for count in (5, 500):
        sizes = rng.integers(0, 40, size=count)
        found = native.allowances_of(sizes, int(sizes.max()), 1e-3, 1e-2, 1e-7, 1e-6)
        same = native.allowances(1e-3 * sizes + 1e-2, 1e-7, 1e-6)
        np.testing.assert_array_equal(found, same)


@pytest.mark.parametrize("k", [2, 9, 30])
def test_chunks_halves_and_threads_agree(k: int) -> None:
    """Long chains are cut, in chunks or in halves; each position is compared once it is right."""
    rng = np.random.default_rng(k)
    n = 3000
    for scale in (3.0, 0.05):  # influence dies, or hardly does
        table = (1 if scale > 1 else 3) * rng.normal(size=(k, k))
        model = vs.Chain(scale * rng.normal(size=(n, k)), table, lengths=[2500, 500])
        r = vs.infer(model, zeta=0.7)
        found = []
        try:
            for least, chunk in ((-1, 0), (20, 100)):
                native.cut_chains(least, chunk, 4 if least > 0 else 0)
                found.append([r.certify(threads=threads) for threads in (1, 2, 3, 8)])
        finally:
            native.cut_chains()
        for same in found:
            for other in same:
                for name in ("error", "wrong", "radius", "slack", "lower", "log_z_upper"):
                    np.testing.assert_array_equal(getattr(other, name), getattr(same[0], name))
        np.testing.assert_allclose(found[0][0].error, found[1][0].error, atol=1e-6)
        np.testing.assert_allclose(found[0][0].wrong, found[1][0].wrong, atol=1e-6)
        exact = vs.infer(model).marginals
        for c in (found[0][0], found[1][0]):
            assert (np.abs(exact - r.marginals).max(axis=1) <= c.error + 1e-12).all()
            assert (c.lower <= exact + 1e-12).all()
            assert (exact <= c.upper + 1e-12).all()


def test_what_needs_logarithms_is_compared_there() -> None:
    """Scores that float64 cannot hold side by side are done again, and compared again."""
    rng = np.random.default_rng(4)
    unary = rng.normal(size=(40, 3))
    unary[7, 0], unary[8, 1] = 9000, 8000
    table = rng.normal(size=(3, 3))
    table[0, 1] = -9000
    model = vs.Chain(unary, table, lengths=[15, 25])
    r, exact = vs.infer(model, zeta=0.7), vs.infer(model)
    assert exact.stats["sequences_widened"] > 0
    c = r.certify()
    assert (np.abs(exact.marginals - r.marginals).max(axis=1) <= c.error + 1e-12).all()
    assert (c.error < 1).any()


def test_bounds_are_made_when_asked_for() -> None:
    model = sentences(9)
    c = vs.infer(model, zeta=0.7).certify()
    kept = pickle.loads(pickle.dumps(c))
    for other in (kept, copy.copy(c), copy.deepcopy(kept)):
        for name in ("lower", "upper", "error", "wrong", "radius", "slack", "log_z_lower"):
            np.testing.assert_array_equal(getattr(other, name), getattr(c, name))
    exact = vs.infer(model)
    assert (c.lower <= exact.marginals).all()
    assert (exact.marginals <= c.upper).all()
    assert (c.log_z_lower <= exact.log_z).all()
    assert (exact.log_z <= c.log_z_upper).all()
    for name in ("error", "radius", "log_z_lower"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(c, name)[...] = 0


def test_exact_results_need_no_pass() -> None:
    """Their own marginals have a proof, narrower than one of float32."""
    r = vs.infer(sentences(49))
    c = r.certify()
    assert 0 < c.error.max() < 1e-10
    assert (c.lower <= r.marginals).all()
    assert (r.marginals <= c.upper).all()
    assert not c.wrong.any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ask", [{"tol": 1e-2}, {"tol": 0.3}, {"work": 3e6}, {"work": 3e5}])
@pytest.mark.parametrize("size", [1.0, 20.0])
def test_marginals_lie_within_their_own_bounds(
    eager: None, ask: dict[str, float], size: float, dtype: Any
) -> None:
    """Decided positions, whatever they were rounded to, have a radius of next to nothing."""
    rng = np.random.default_rng(8)
    unary, table = size * rng.normal(size=(300, 40)), size / 4 * rng.normal(size=(40, 40))
    r = vs.infer(vs.Chain(unary.astype(dtype), table.astype(dtype), lengths=[50] * 6), **ask)
    assert (r.lower <= r.marginals).all()
    assert (r.marginals <= r.upper).all()
    assert (r.lower >= 0).all()
    assert (r.upper <= 1).all()
