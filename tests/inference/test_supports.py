"""Chains within a tolerance by supports, through `infer`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _supports as native
from valuesparse.inference import _forest, _supports

pytestmark = pytest.mark.simd

Array = np.ndarray[Any, Any]


def peaked(
    rng: np.random.Generator, lengths: list[int], k: int = 400, scale: float = 3.0, **more: Any
) -> vs.Chain:
    """Return chains whose positions prefer a few labels, with a table that has no default."""
    n = sum(lengths)
    unary, t = scale * rng.normal(size=(n, k)), 0.5 * rng.normal(size=(k, k))
    kind = more.pop("dtype", float)
    return vs.Chain(unary.astype(kind), t.astype(kind), lengths, **more)


def same_on_threads(model: Any, r: Any, tol: float) -> None:
    """Any number of threads gives the bits of one."""
    for threads in (2, 3, 8):
        other = vs.infer(model, tol=tol, threads=threads)
        for name in ("marginals", "log_z", "error", "radius", "slack"):
            assert getattr(other, name).tobytes() == getattr(r, name).tobytes()
        assert other.stats == r.stats


def holds(r: Any, exact: Any, tol: float) -> None:
    assert (r.error <= tol).all()
    assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= r.error + 1e-7).all()
    margin = 1e-7 if r.marginals.dtype == np.float32 else 1e-14
    assert (r.lower <= exact.marginals + margin).all()
    assert (exact.marginals <= r.upper + margin).all()
    about = margin * (1 + np.abs(exact.log_z))
    assert (r.log_z_lower <= exact.log_z + about).all()
    assert (exact.log_z <= r.log_z_upper + about).all()
    assert (np.abs(r.log_z - exact.log_z) <= (r.log_z_upper - r.log_z_lower) + about).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("tol", [0.5, 0.1, 0.01, 0.003])
def test_a_few_rows_and_columns_prove_it(dtype: Any, tol: float) -> None:
    rng = np.random.default_rng(0)
    lengths = [60, 1, 0, 50, 2, 80, 34]
    model = peaked(rng, lengths, scale=12.0, dtype=dtype)
    r = vs.infer(model, tol=tol)
    # In float64 whatever dtype is: plain sums of 400 float32 err by more than `holds` allows.
    wide = vs.Chain(model.unary.astype(float), model.transition.astype(float), lengths)
    holds(r, vs.infer(wide), tol)
    assert r.method == "certified"
    assert r.stats["sequences_supports"] == 6  # all but the empty one
    assert r.reason.startswith(f"tol={tol:g}: supports for 6 of 7 sequences")
    messages = 2 * (226 - 5)
    assert messages <= r.stats["rows"] < 20 * messages
    assert r.stats["multiply_adds"] < 0.2 * messages * 400**2
    assert r.stats["columns"] > 0
    assert r.marginals.dtype == dtype


def test_everything_a_chain_can_have() -> None:
    rng = np.random.default_rng(1)
    k, lengths = 301, [40, 62, 18, 80]
    allowed = rng.random((200, k)) < 0.7
    allowed[:, 0] = True
    ends = {name: rng.normal(size=k) for name in ("start", "end")}
    model = peaked(rng, lengths, k, 12.0, allowed=allowed, **ends)
    r, exact = vs.infer(model, tol=0.02), vs.infer(model)
    assert r.stats["sequences_supports"] > 0
    holds(r, exact, 0.02)
    assert (r.marginals[~allowed] < 1e-12).all()
    low, high = r.pairwise_bounds(edges=slice(0, 3))
    both = exact.pairwise(edges=slice(0, 3))
    assert (low <= both + 1e-14).all()
    assert (both <= high + 1e-14).all()
    assert np.allclose(r.entropy(), exact.entropy(), atol=1e-9)


def test_tables_with_forbidden_pairs() -> None:
    rng = np.random.default_rng(2)
    k, n = 300, 160
    t = rng.normal(size=(k, k))
    t[rng.random(t.shape) < 0.1] = -np.inf
    model = vs.Chain(12 * rng.normal(size=(n, k)), t, [n])
    r = vs.infer(model, tol=0.05)
    assert r.stats["sequences_supports"] == 1
    holds(r, vs.infer(model), 0.05)


@pytest.mark.parametrize("flat", ["unary", "transition", "both"])
def test_flat_models_go_another_way(flat: str) -> None:
    """Where most labels matter, the first message says so."""
    rng = np.random.default_rng(3)
    k, n = 256, 240
    unary = (0.01 if flat in ("unary", "both") else 1.0) * rng.normal(size=(n, k))
    t = (0.01 if flat in ("transition", "both") else 1.0) * rng.normal(size=(k, k))
    model = vs.Chain(unary, t, [80] * 3)
    r = vs.infer(model, tol=1e-3)
    assert r.stats["sequences_supports"] == 0
    assert r.stats["rows"] + r.stats["columns"] < 0.1 * 2 * n * k
    assert "float32" in r.reason
    holds(r, vs.infer(model), 1e-3)


def test_sequences_choose_for_themselves() -> None:
    """Bits depend on no other sequence, and on no thread."""
    rng = np.random.default_rng(4)
    k, lengths = 256, [int(x) for x in rng.integers(2, 40, 24)]
    scale = np.repeat(rng.choice([0.3, 2.0, 14.0], size=24), lengths)[:, None]
    unary, t = scale * rng.normal(size=(sum(lengths), k)), 0.5 * rng.normal(size=(k, k))
    whole = vs.Chain(unary, t, lengths)
    r = vs.infer(whole, tol=0.01, threads=1)
    assert 0 < r.stats["sequences_supports"] < 24
    holds(r, vs.infer(whole), 0.01)
    same_on_threads(whole, r, 0.01)
    order = rng.permutation(24)
    parts = np.split(np.arange(len(unary)), np.cumsum(lengths)[:-1])
    rows = np.concatenate([parts[i] for i in order])
    moved = vs.infer(vs.Chain(unary[rows], t, [lengths[i] for i in order]), tol=0.01)
    assert moved.marginals.tobytes() == r.marginals[rows].tobytes()
    assert moved.error.tobytes() == r.error[rows].tobytes()
    assert moved.log_z.tobytes() == r.log_z[order].tobytes()


def test_extreme_scores_are_not_for_floats() -> None:
    rng = np.random.default_rng(5)
    k = 256
    unary = 10_000 * rng.normal(size=(130, k))
    far = vs.Chain(unary, 30 * rng.normal(size=(k, k)), [130])
    assert not native.Table(far.transition).fine
    assert not native.Table(np.full((k, k), -np.inf)).fine
    r = vs.infer(far, tol=0.01)
    assert r.stats["sequences_supports"] == 0  # entries of the table are too far apart
    holds(r, vs.infer(far), 0.01)
    near = vs.Chain(unary, rng.normal(size=(k, k)), [130])
    r = vs.infer(near, tol=0.01)
    assert r.stats["sequences_supports"] == 1
    holds(r, vs.infer(near), 0.01)


@pytest.mark.parametrize("where", ["unary", "transition"])
def test_what_is_impossible_is_named(where: str) -> None:
    rng = np.random.default_rng(6)
    k = 256
    unary, t = 12 * rng.normal(size=(130, k)), 0.5 * rng.normal(size=(k, k))
    if where == "unary":
        unary[76] = -np.inf
    else:
        t[:, :50] = -np.inf
        unary[76, 50:] = -np.inf
    with pytest.raises(vs.InfeasibleError) as error:
        vs.infer(vs.Chain(unary, t, [65, 65]), tol=0.1)
    assert (error.value.sequence, error.value.position) == (1, 11)


def test_a_deadline_ends_it() -> None:
    rng = np.random.default_rng(7)
    model = peaked(rng, [4000] * 5, 256, 12.0)
    with pytest.raises(vs.DeadlineError):
        vs.infer(model, tol=0.01, deadline=1e-4)


def test_other_models_go_another_way() -> None:
    """Other routes answer tables of each edge, defaults, and few labels."""
    rng = np.random.default_rng(8)
    k = 260
    unary, t = 6 * rng.normal(size=(130, k)), rng.normal(size=(k, k))
    single = np.ones(1, dtype=bool)
    each = np.broadcast_to(t, (129, k, k)).copy()
    others = [
        vs.Chain(unary[:, :50], t[:50, :50]),
        vs.Chain(unary, each),
        vs.Chain(unary, np.eye(k)),
    ]
    assert _supports.may_pay(vs.Chain(unary, t), 0.01, single)
    assert not _supports.may_pay(vs.Chain(unary, t), 1e-5, single)
    assert not any(_supports.may_pay(model, 0.01, single) for model in others)


@pytest.mark.parametrize("keep", [1e-4, 0.3])
def test_lists(keep: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of some chains are answered as all are, and listed."""
    rng = np.random.default_rng(9)
    lengths = [int(x) for x in rng.integers(0, 60, 40)]
    model = peaked(rng, lengths, 300, 12.0)
    whole = vs.infer(model, tol=0.01)
    assert whole.stats["sequences_supports"] > 30
    monkeypatch.setattr(_forest, "_LISTED_SIZE", 100)
    monkeypatch.setattr(_forest, "_LISTED_BYTES", 1)
    seen: list[tuple[int, int]] = []
    r = vs.infer(model, tol=0.01, keep=keep, progress=lambda *at: seen.append(at))
    assert r.stats == whole.stats
    assert r.reason == whole.reason
    dense = r.sparse().toarray()
    assert np.array_equal(dense[dense > 0], whole.marginals[dense > 0])
    assert (whole.marginals[dense == 0] < keep).all()
    hidden = np.where(dense > 0, 0, vs.infer(model).marginals).max(axis=1)
    assert (hidden <= r.unlisted + 1e-12).all()
    assert r.error.tobytes() == whole.error.tobytes()
    assert seen[-1] == (model.n_positions, model.n_positions)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_islands_are_certified_so() -> None:
    rng = np.random.default_rng(10)
    model = peaked(rng, [60, 1, 50, 90], 300, 12.0)
    r, exact = vs.infer(model, zeta=0.9), vs.infer(model)
    c = r.certify()
    assert (c.lower <= exact.marginals + 1e-14).all()
    assert (exact.marginals <= c.upper + 1e-14).all()
    assert (c.log_z_lower <= exact.log_z).all()
    assert (exact.log_z <= c.log_z_upper).all()
    assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= c.error).all()
    held = r.islands >= 0
    wrong = 1 - exact.marginals[held, r.islands[held]]
    assert (wrong <= c.wrong[held] + 1e-14).all()
    assert (c.radius < np.inf).all()


def test_what_adding_scores_of_ends_rounds_is_in_the_radius() -> None:
    rng = np.random.default_rng(11)
    model = peaked(rng, [240], 400, 12.0)
    radius = []
    for size in (1.0, 1e10):
        ends = {"start": np.full(400, size), "end": np.full(400, -size)}
        moved = vs.Chain(model.unary, model.transition, [240], **ends)
        r = vs.infer(moved, tol=0.05)
        assert r.stats["sequences_supports"] == 1
        radius.append(r.radius[[0, 239]])
    assert (radius[1] > radius[0] + 1e10 * 2.0**-53).all()


def test_what_ends_round_is_in_the_radius_of_others() -> None:
    """A table that forgets nothing carries it along."""
    rng = np.random.default_rng(13)
    table = np.where(np.eye(256, dtype=bool), 0.0, -30.0) + 0.01 * rng.normal(size=(256, 256))
    unary = rng.normal(size=(140, 256))
    unary[:, :2] = 9.0  # both go on, and share nothing
    for name in ("start", "end"):
        radius = []
        for size in (1.0, 1e11):
            r = vs.infer(vs.Chain(unary, table, **{name: np.full(256, size)}), tol=0.5)
            assert r.stats["sequences_supports"] == 1
            radius.append(r.radius)
        assert (radius[1] - radius[0] > 0.9 * 1e11 * 2.0**-53).all()


def test_log_z_of_large_scores() -> None:
    """Logarithms of a long chain are summed as exactly as those of an exact pass."""
    rng = np.random.default_rng(12)
    model = peaked(rng, [500], 400, 40.0)
    large = vs.Chain(model.unary + 1e11 / 3, model.transition, [500])
    r, exact = vs.infer(large, tol=0.05), vs.infer(large)
    assert r.stats["sequences_supports"] == 1
    assert r.log_z_lower[0] <= exact.log_z[0] <= r.log_z_upper[0]
    assert abs(r.log_z[0] - exact.log_z[0]) <= 2 * (r.log_z_upper[0] - r.log_z_lower[0])
