"""A budget of multiply-adds buys supports first, then passes, and always something valid."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from tests.inference.test_support_trees import parents
from tests.inference.test_supports import peaked
from valuesparse import _supports as native
from valuesparse.inference import _local, _pieces, _supports
from valuesparse.results._certificate import interval

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
    assert all(more <= less * 1.01 + slip for less, more in itertools.pairwise(errors))
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


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("name", ["chains with all", "trees"])
def test_own_scores_are_for_what_nothing_else_answers(
    name: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []

    def counted(m: np.ndarray, *proof: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows.append(len(m))
        return interval(m, *proof)

    monkeypatch.setattr(_local, "interval", counted)
    model = models()[name]
    r = vs.infer(model, work=share * full(model))
    answered = r.stats["sequences_exact"] + r.stats["sequences_supports"]
    proved = vs.infer(model, tol=1e-3).error.max()
    assert answered > 0
    assert sum(rows) < len(r.marginals)
    assert (r.error <= max(proved, 0.1)).sum() >= len(r.marginals) - sum(rows)
    valid(r, vs.infer(model), share * full(model))


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


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("ends", [False, True])
def test_windows_answer_parts_of_a_long_chain(ends: bool, kind: Any) -> None:
    rng = np.random.default_rng(5)
    k, n = 30, 900
    more = {x: rng.normal(size=k).astype(kind) for x in ("start", "end") if ends}
    if ends:
        more["allowed"] = rng.random((n, k)) < 0.8
    table = (0.5 * rng.normal(size=(k, k))).astype(kind)
    model = vs.Chain((8 * rng.normal(size=(n, k))).astype(kind), table, [20, n - 20], **more)
    exact, whole, before = vs.infer(model), full(model), 1.0
    for share in (0.15, 0.2, 0.28):
        r = vs.infer(model, work=share * whole)
        valid(r, exact, share * whole)
        assert "positions by windows" in r.reason
        assert r.error.mean() <= before
        before = r.error.mean()
        kept = vs.infer(model, work=share * whole, keep=0.01, threads=2)
        assert kept.error.tobytes() == r.error.tobytes()
        dense = kept.sparse().toarray()
        assert np.array_equal(dense[dense > 0], r.marginals[dense > 0])
    assert before < 0.8


def test_messages_that_enter_a_window_are_bounded() -> None:
    """They are, whatever stands outside of a window, short ones included."""
    rng = np.random.default_rng(6)
    better = 0
    for _ in range(150):
        k, first, n, after = (int(x) for x in rng.integers([2, 1, 2, 1], [12, 6, 12, 6]))
        scale, kind = rng.choice([0.3, 2.0, 6.0]), rng.choice([1.0, 0.3])
        unary = scale * rng.normal(size=(first + n + after, k))
        t = kind * rng.normal(size=(k, k))
        truth = vs.infer(vs.Chain(unary, t)).marginals[first : first + n]
        inside = unary[first : first + n].copy()
        radius = np.empty((1, 2))
        for side, at in ((0, 0), (1, n - 1)):
            low, high = t.min(axis=side), t.max(axis=side)
            inside[at] += (low + high) / 2
            radius[0, side] = (high - low).max() + 1e-6
        m, (g, slack, error) = np.empty((n, k)), np.empty((3, n))
        tol = rng.choice([0.3, 0.01])
        taken, _ = native.infer(
            native.Table(t), native.Order(np.array([0, n])), inside, None, None, None,
            np.arange(1), tol, np.full(1, 1e9), 1, m, g, slack, error, np.empty((2, 1)),
            entered=radius,
        )  # fmt: skip
        if not taken[0]:
            continue
        assert (np.abs(m - truth).max(axis=1) <= error + 1e-12).all()
        low, high = interval(m, g, slack)
        assert (low <= truth + 1e-12).all()
        assert (truth <= high + 1e-12).all()
        better += int((error < 0.5).any())
    assert better > 50


def test_windows_where_nothing_is_forgotten() -> None:
    """Flat scores and a table that keeps what it is told: a few windows say so."""
    rng = np.random.default_rng(7)
    model = vs.Chain(0.01 * rng.normal(size=(3000, 20)), 3 * np.eye(20))
    r = vs.infer(model, work=0.3 * full(model))
    valid(r, vs.infer(model), 0.3 * full(model))
    assert r.stats["multiply_adds"] < 0.2 * full(model)


def test_labels_that_nothing_leads_to() -> None:
    """A column that is forbidden as a whole is compared with nothing, and nobody is warned."""
    rng = np.random.default_rng(8)
    table = rng.normal(size=(20, 20))
    table[:, 3] = -np.inf
    model = vs.Chain(rng.normal(size=(300, 20)), table)
    valid(vs.infer(model, work=400), vs.infer(model), 400)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
@pytest.mark.parametrize("k", [8, 40])
def test_the_order_of_the_batch_does_not_show(k: int, share: float) -> None:
    """Scores decide which of those of one length are answered, not their places."""
    rng = np.random.default_rng(4)
    unary, order = 4 * rng.normal(size=(30, 9, k)), rng.permutation(30)
    table = 0.5 * rng.normal(size=(k, k))
    allowed = rng.random(unary.shape) < 0.9
    found = []
    for turn in (np.arange(30), order):
        flat = [x[turn].reshape(-1, k) for x in (unary, allowed)]
        model = vs.Chain(flat[0], table, [9] * 30, allowed=flat[1])
        found.append(vs.infer(model, work=share * full(model)))
    first, second = found
    for name in ("marginals", "error", "radius", "slack"):
        one, other = (getattr(r, name).reshape(30, 9, -1) for r in found)
        assert one[order].tobytes() == other.tobytes(), name
    assert first.log_z[order].tobytes() == second.log_z.tobytes()
    assert first.stats == second.stats
    parents_of_star = np.tile(np.where(np.arange(9) == 0, -1, 0), 30)
    starts = 9 * np.repeat(np.arange(30), 9) * (parents_of_star >= 0)
    trees = [
        vs.infer(
            vs.Tree(parents_of_star + starts, unary[turn].reshape(-1, k), table), work=share * 5e5
        )
        for turn in (np.arange(30), order)
    ]
    one, other = (r.marginals.reshape(30, -1) for r in trees)
    assert one[order].tobytes() == other.tobytes()


def test_empty_sequences_cost_no_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no message, and the answers of the others do not heed them."""
    rng, asked = np.random.default_rng(0), []
    unary, table = rng.normal(size=(150, 2)), rng.normal(size=(2, 2))
    allowed = rng.random((150, 2)) < 0.9
    allowed[:, 0] = True
    lengths = rng.permutation([5] * 30 + [0] * 2000)
    checksum = _pieces.crc32

    def counted(*given: Any) -> int:
        asked.append(given)
        return checksum(*given)

    monkeypatch.setattr(_pieces, "crc32", counted)
    few = vs.infer(vs.Chain(unary, table, [5] * 30, allowed=allowed), work=500)
    calls = len(asked)
    many = vs.infer(vs.Chain(unary, table, lengths, allowed=allowed), work=500)
    assert calls == len(asked) - calls == 2 * 30
    assert many.marginals.tobytes() == few.marginals.tobytes()
    assert many.error.tobytes() == few.error.tobytes()
