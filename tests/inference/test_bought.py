"""What a budget of multiply-adds buys: supports first, then passes, and always something valid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from tests.inference.test_support_trees import parents
from tests.inference.test_supports import peaked
from valuesparse.inference import _supports

pytestmark = pytest.mark.simd

SHARES = (0.03, 0.1, 0.3, 0.6, 0.95)


def models(kind: Any = float) -> dict[str, Any]:
    """Return models whose passes take the same budget, about."""
    rng = np.random.default_rng(0)
    lengths = [int(x) for x in rng.integers(0, 40, 20)]
    k, n = 40, sum(lengths)
    trees = [parents(rng, size, "random") for size in lengths if size]
    first = np.cumsum([0, *map(len, trees)])
    up = np.concatenate([np.where(t < 0, -1, t + at) for t, at in zip(trees, first, strict=False)])
    place = rng.permutation(n)
    moved = np.full(n, -1)
    moved[place] = np.where(up < 0, -1, place[up])
    unary = (8 * rng.normal(size=(n, k))).astype(kind)
    table = (0.5 * rng.normal(size=(k, k))).astype(kind)
    allowed = rng.random((n, k)) < 0.8
    ends = {name: rng.normal(size=k).astype(kind) for name in ("start", "end")}
    return {
        "chains": vs.Chain(unary, table, lengths),
        "chains with all": vs.Chain(unary, table, lengths, allowed=allowed, **ends),
        "trees": vs.Tree(moved, unary, table),
    }


def full(model: Any) -> int:
    """Return what two passes take."""
    count = model.n_sequences if isinstance(model, vs.Chain) else model.n_trees
    if isinstance(model, vs.Chain):
        count = int((model.lengths > 0).sum())
    return 2 * (model.unary.shape[0] - count) * model.n_labels**2


def valid(r: Any, exact: Any, work: float) -> None:
    assert r.stats["multiply_adds"] <= work
    margin = 1e-6 if r.marginals.dtype == np.float32 else 1e-12
    assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= r.error + margin).all()
    assert (r.lower <= exact.marginals + margin).all()
    assert (exact.marginals <= r.upper + margin).all()
    about = margin * (1 + np.abs(exact.log_z))
    assert (r.log_z_lower <= exact.log_z + about).all()
    assert (exact.log_z <= r.log_z_upper + about).all()


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["chains", "chains with all", "trees"])
def test_more_buys_smaller_errors(name: str, kind: Any) -> None:
    model = models(kind)[name]
    exact, errors, whole = vs.infer(model), [], full(model)
    for share in SHARES:
        r = vs.infer(model, work=share * whole)
        valid(r, exact, share * whole)
        errors.append(r.error.mean())
        passed = r.stats["sequences_exact"] + r.stats["sequences_float32"]
        assert r.reason.startswith(f"work={share * whole:g}: {passed} of")
        assert f"{r.stats['sequences_supports']} by supports" in r.reason
        assert r.method == "certified"
    slip = 1e-3 if kind == np.float32 else 0.0  # what passes prove there
    assert all(more <= less * 1.01 + slip for less, more in zip(errors, errors[1:], strict=False))
    assert errors[2] < 0.1  # passes alone would leave 0.7
    assert errors[3] < 0.01
    assert vs.infer(model, work=whole).error.max() < 1e-3


def test_a_large_table_is_hardly_read() -> None:
    rng = np.random.default_rng(1)
    model = peaked(rng, [30] * 6, 400, 12.0)
    whole = full(model)
    r = vs.infer(model, work=0.04 * whole)
    valid(r, vs.infer(model), 0.04 * whole)
    assert r.stats["sequences_supports"] == 6
    assert r.error.max() <= 0.1


def test_flat_models_have_passes() -> None:
    """The first few components tell that supports do not pay."""
    rng = np.random.default_rng(2)
    k, count = 40, 60
    unary, table = 0.01 * rng.normal(size=(count * 10, k)), 0.5 * rng.normal(size=(k, k))
    model = vs.Chain(unary, table, [10] * count)
    r = vs.infer(model, work=0.5 * full(model))
    valid(r, vs.infer(model), 0.5 * full(model))
    assert r.stats["sequences_supports"] == 0
    assert r.stats["sequences_exact"] >= 0.5 * count - 4


@pytest.mark.parametrize("name", ["chains with all", "trees"])
def test_threads_and_lists_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models()[name]
    work = 0.35 * full(model)
    r = vs.infer(model, work=work, threads=1)
    assert r.stats["sequences_supports"] > 0
    for threads in (2, 3, 8):
        other = vs.infer(model, work=work, threads=threads)
        for field in ("marginals", "log_z", "error", "radius", "slack"):
            assert getattr(other, field).tobytes() == getattr(r, field).tobytes()
        assert other.stats == r.stats
    monkeypatch.setattr(_supports, "_BOUGHT_BYTES", 8 * 40 * 50)
    kept = vs.infer(model, work=work, keep=0.01)
    assert kept.stats == r.stats
    assert kept.error.tobytes() == r.error.tobytes()
    assert kept.log_z.tobytes() == r.log_z.tobytes()
    dense = kept.sparse().toarray()
    assert np.array_equal(dense[dense > 0], r.marginals[dense > 0])
    assert (r.marginals[dense == 0] < 0.01).all()


def test_one_long_chain_wants_no_whole_pass() -> None:
    rng = np.random.default_rng(3)
    model = vs.Chain(8 * rng.normal(size=(500, 40)), 0.5 * rng.normal(size=(40, 40)))
    r = vs.infer(model, work=0.4 * full(model))
    valid(r, vs.infer(model), 0.4 * full(model))
    assert r.stats["sequences_supports"] == 1
    assert r.error.max() <= 0.1


def test_tables_without_supports_have_passes() -> None:
    rng = np.random.default_rng(4)
    k, n = 30, 120
    unary = 6 * rng.normal(size=(n, k))
    for table in (30 * rng.normal(size=(k, k)), rng.normal(size=(n - 1, k, k))):
        model = vs.Chain(unary, table)
        r = vs.infer(model, work=1e5)
        assert "supports" not in r.reason
        valid(r, vs.infer(model), 1e5)
