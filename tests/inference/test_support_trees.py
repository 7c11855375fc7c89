"""Trees within a tolerance by supports: products of enclosures, by name, and through `infer`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from tests.inference.test_support_theorems import table_of, unary_of
from tests.inference.test_supports import holds, same_on_threads
from valuesparse import _supports as native
from valuesparse.inference import _forest, _supports
from valuesparse.results._certificate import interval

pytestmark = pytest.mark.simd

Array = np.ndarray[Any, Any]
SHAPES = ("path", "star", "comb", "bushy", "random", "forest")


def parents(rng: np.random.Generator, n: int, shape: str) -> Array:
    """Return the parents of a forest whose nodes stand in no order."""
    if shape == "path":
        up = np.arange(n) - 1
    elif shape == "star":
        up = np.where(np.arange(n) > 0, 0, -1)
    elif shape == "bushy":
        up = (np.arange(n) + 5) // 6 - 1
    elif shape == "comb":
        up = np.where(np.arange(n) % 2 == 0, np.arange(n) - 2, np.arange(n) - 1)
        up[0] = -1
    else:
        up = np.array([-1, *(int(rng.integers(i)) for i in range(1, n))], dtype=np.int64)[:n]
        if shape == "forest":
            up[rng.random(n) < 0.3] = -1
    place = rng.permutation(n)
    moved = np.full(n, -1)
    moved[place] = np.where(up < 0, -1, place[up])
    return moved


def passes(parent: Array, unary: Array, t: Array) -> tuple[Array, Array]:
    """Return marginals (B, n, K) and log Z (B,) of equal trees, in long double."""
    shift, n = np.longdouble(t[np.isfinite(t)].max()), len(parent)
    children = [np.flatnonzero(parent == v) for v in range(n)]
    order = list(np.flatnonzero(parent < 0))
    for v in order:
        order.extend(children[v])
    top = unary.max(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        w, psi = np.exp(t.astype(np.longdouble) - shift), np.exp(unary - top)
        a, up = psi.copy(), np.empty_like(psi)
        log_z = top.sum(axis=(1, 2)) + (parent >= 0).sum() * shift
        for v in reversed(order):
            mass = a[:, v].sum(axis=1)
            log_z += np.log(mass)
            a[:, v] /= mass[:, None]
            if parent[v] >= 0:
                up[:, v] = a[:, v] @ w.T
                a[:, parent[v]] *= up[:, v]
        p, above = np.empty_like(psi), np.ones_like(psi)
        for v in order:
            p[:, v] = a[:, v] * above[:, v]
            p[:, v] /= p[:, v].sum(axis=1, keepdims=True)
            for c in children[v]:
                others = [o for o in children[v] if o != c]
                x = psi[:, v] * above[:, v]
                for o in others:
                    x = x * up[:, o]
                    x /= x.max(axis=1, keepdims=True)
                above[:, c] = x @ w
                above[:, c] /= above[:, c].max(axis=1, keepdims=True)
    return p, log_z


def asked(
    table: native.Table, parent: Array, unary: Array, tol: float, mask: Array | None = None
) -> tuple[Array, ...]:
    """Return taken (B,), then marginals, radius, slack, error and bounds of trees of one shape."""
    b, n, k = unary.shape
    assert parent.shape == (n,)
    assert (parent < 0).sum() == 1
    up = np.concatenate([np.where(parent < 0, -1, parent + n * i) for i in range(b)])
    m, bounds = np.zeros((b * n, k), unary.dtype), np.zeros((2, b))
    radius, slack, error = (np.zeros(b * n) for _ in range(3))
    given = None if mask is None else mask.reshape(b * n, k).view(np.uint8)
    taken, _ = native.infer(
        table, native.Order(n * np.arange(b + 1), up), unary.reshape(b * n, k), None, None, given,
        np.arange(b), tol, np.full(b, 1e9), 1, m, radius, slack, error, bounds,
    )  # fmt: skip
    return taken, m, radius, slack, error, bounds


@pytest.mark.parametrize("cases", [10_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_section_10_what_supports_prove_of_trees_holds(cases: int) -> None:
    """Marginals and log Z lie within the bounds, whatever the tolerance let out."""
    held, each = 0, 50
    for number in range(cases // each):
        rng = np.random.default_rng([31, number])
        t, n = table_of(rng), int(rng.integers(1, 13))
        parent = parents(rng, n, SHAPES[number % 5])
        kind = rng.choice([np.float64, np.float64, np.float32])
        t, unary = t.astype(kind), unary_of(rng, (each, n, len(t))).astype(kind)
        mask = rng.random(unary.shape) < 0.8 if rng.random() < 0.2 else None
        wide = unary.astype(np.longdouble)
        p, log_z = passes(parent, wide if mask is None else np.where(mask, wide, -np.inf), t)
        tol = float(rng.choice([1.0, 1.0, 0.3, 0.03, 1e-2, 1e-3]))
        taken, m, radius, slack, error, bounds = asked(native.Table(t), parent, unary, tol, mask)
        assert not taken[~np.isfinite(log_z)].any()
        at = np.repeat(taken, n)
        truth = p.reshape(m.shape)[at]
        assert (np.abs(m[at] - truth).max(axis=1, initial=0.0) <= error[at] + 1e-12).all()
        assert (error[at] <= tol).all()
        low, high = interval(m[at], radius[at], slack[at])
        assert (low <= truth + 1e-12).all()
        assert (truth <= high + 1e-12).all()
        margin = 1e-12 * (1 + np.abs(log_z[taken]) + n * 1e4)
        assert (bounds[0][taken] <= log_z[taken] + margin).all()
        assert (log_z[taken] <= bounds[1][taken] + margin).all()
        held += int(taken.sum())
    assert held > cases / 2


def test_section_10_norms_a_thousandth_less_are_seen() -> None:
    violations = 0
    for number in range(120):
        rng = np.random.default_rng([32, number])
        k, n = int(rng.integers(2, 20)), 7
        t = np.where(rng.random((k, k)) < 0.9, 0.0, np.clip(30 * rng.normal(size=(k, k)), -19, 19))
        parent, unary = parents(rng, n, "star"), rng.normal(size=(20, n, k))
        p, _ = passes(parent, unary.astype(np.longdouble), t)
        taken, m, radius, slack, *_ = asked(native.Table(t, norms=0.3), parent, unary, 1.0)
        at = np.repeat(taken, n)
        low, high = interval(m[at], radius[at], slack[at])
        truth = p.reshape(m.shape)[at]
        violations += int(((truth < low - 1e-9) | (truth > high + 1e-9)).sum())
    assert violations > 0


def peaked(
    rng: np.random.Generator, parent: Array, k: int = 330, scale: float = 12.0, **more: Any
) -> vs.Tree:
    """Return a forest whose nodes prefer a few labels, with a table that has no default."""
    kind = more.pop("dtype", float)
    unary, t = scale * rng.normal(size=(len(parent), k)), 0.5 * rng.normal(size=(k, k))
    return vs.Tree(parent, unary.astype(kind), t.astype(kind), **more)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", sorted({*SHAPES} - {"star"}))
def test_trees_of_each_shape(shape: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    model = peaked(rng, parents(rng, 170, shape), dtype=dtype)
    # In float64 whatever dtype is: plain sums of 330 float32 err by more than `holds` allows.
    wide = vs.Tree(model.parent, model.unary.astype(float), model.pairwise.astype(float))
    exact = vs.infer(wide)
    for tol in (0.3, 0.01):
        r = vs.infer(model, tol=tol)
        holds(r, exact, tol)
        own = r.stats["sequences_supports"]
        assert own > 0
        assert r.method == "certified"
        assert r.reason.startswith(f"tol={tol:g}: supports for {own} of {model.n_trees} trees")
        assert r.marginals.dtype == dtype
        messages = 2 * (170 - model.n_trees)
        assert 0.8 * messages <= r.stats["rows"] < 20 * messages
        assert 0 < r.stats["multiply_adds"] < 0.2 * messages * 330**2
        low, high = r.pairwise_bounds(edges=slice(0, 5))
        both = exact.pairwise(edges=slice(0, 5))
        assert (low <= both + 1e-7).all()
        assert (both <= high + 1e-7).all()


def test_masks_and_forbidden_pairs() -> None:
    rng = np.random.default_rng(1)
    allowed = rng.random((200, 330)) < 0.7
    allowed[:, 0] = True
    model = peaked(rng, parents(rng, 200, "forest"), allowed=allowed)
    t = np.array(model.pairwise)
    t[rng.random(t.shape) < 0.1] = -np.inf
    model = vs.Tree(model.parent, model.unary, t, allowed=allowed)
    r = vs.infer(model, tol=0.02)
    assert r.stats["sequences_supports"] > 0
    holds(r, vs.infer(model), 0.02)
    assert (r.marginals[~allowed] < 1e-12).all()


def test_trees_choose_for_themselves() -> None:
    """Bits depend on no other tree, and on no thread; flat trees go another way."""
    rng = np.random.default_rng(2)
    parent, sizes = [], [int(x) for x in rng.integers(2, 30, 16)]
    for size in sizes:
        own = parents(rng, size, "random")
        parent.extend(np.where(own < 0, -1, own + len(parent)))
    scale = np.repeat(rng.choice([0.01, 14.0], size=16), sizes)[:, None]
    unary, t = scale * rng.normal(size=(len(parent), 330)), 0.5 * rng.normal(size=(330, 330))
    whole = vs.Tree(parent, unary, t)
    r = vs.infer(whole, tol=0.01, threads=1)
    assert 0 < r.stats["sequences_supports"] < 16
    holds(r, vs.infer(whole), 0.01)
    same_on_threads(whole, r, 0.01)
    turned = np.arange(len(parent))[::-1]
    backwards = np.where(np.array(parent) < 0, -1, len(parent) - 1 - np.array(parent))[turned]
    moved = vs.infer(vs.Tree(backwards, unary[turned], t), tol=0.01)
    holds(moved, vs.infer(vs.Tree(backwards, unary[turned], t)), 0.01)
    assert moved.stats["sequences_supports"] == r.stats["sequences_supports"]


def test_extreme_scores() -> None:
    rng = np.random.default_rng(3)
    parent, k = parents(rng, 170, "random"), 330
    unary = 10_000 * rng.normal(size=(170, k))
    far = vs.Tree(parent, unary, 30 * rng.normal(size=(k, k)))
    r = vs.infer(far, tol=0.01)
    assert r.stats["sequences_supports"] == 0  # entries of the table are too far apart
    holds(r, vs.infer(far), 0.01)
    near = vs.Tree(parent, unary, rng.normal(size=(k, k)))
    r = vs.infer(near, tol=0.01)
    assert r.stats["sequences_supports"] == 1
    holds(r, vs.infer(near), 0.01)


def test_what_is_impossible_is_named() -> None:
    rng = np.random.default_rng(4)
    unary = 12 * rng.normal(size=(140, 256))
    unary[76] = -np.inf
    parent = np.arange(140) // 2 - 1
    parent[0] = parent[70] = -1
    with pytest.raises(vs.InfeasibleError) as error:
        vs.infer(vs.Tree(parent, unary, rng.normal(size=(256, 256))), tol=0.1)
    assert error.value.position == 76


@pytest.mark.parametrize("keep", [1e-4, 0.3])
def test_lists(keep: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of some trees, whose nodes stand anywhere, are answered as all are, and listed."""
    rng = np.random.default_rng(5)
    up = np.concatenate([np.where(own < 0, -1, own + 20 * i) for i, own in enumerate(
        parents(rng, 20, "random") for _ in range(10))])  # fmt: skip
    place = rng.permutation(200)
    parent = np.full(200, -1)
    parent[place] = np.where(up < 0, -1, place[up])
    model = peaked(rng, parent)
    whole = vs.infer(model, tol=0.01)
    assert whole.stats["sequences_supports"] == 10
    monkeypatch.setattr(_forest, "_LISTED_SIZE", 50)
    monkeypatch.setattr(_forest, "_LISTED_BYTES", 1)
    r = vs.infer(model, tol=0.01, keep=keep)
    assert r.stats == whole.stats
    assert r.reason == whole.reason
    dense = r.sparse().toarray()
    assert np.array_equal(dense[dense > 0], whole.marginals[dense > 0])
    assert (whole.marginals[dense == 0] < keep).all()
    hidden = np.where(dense > 0, 0, vs.infer(model).marginals).max(axis=1)
    assert (hidden <= r.unlisted + 1e-12).all()
    assert r.error.tobytes() == whole.error.tobytes()


def test_islands_are_certified_so() -> None:
    rng = np.random.default_rng(6)
    model = peaked(rng, parents(rng, 200, "forest"), 390)
    r, exact = vs.infer(model, zeta=0.9), vs.infer(model)
    c = r.certify()
    assert (c.lower <= exact.marginals + 1e-14).all()
    assert (exact.marginals <= c.upper + 1e-14).all()
    assert (c.log_z_lower <= exact.log_z).all()
    assert (exact.log_z <= c.log_z_upper).all()
    assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= c.error).all()
    held = r.islands >= 0
    assert (1 - exact.marginals[held, r.islands[held]] <= c.wrong[held] + 1e-14).all()
    assert (c.radius < np.inf).all()
    assert (c.radius > 1e-7).any()  # float64 proves less than that


def test_a_node_of_many_children() -> None:
    """Radii of children add up: a decided node bears them, an open one has another route."""
    rng = np.random.default_rng(7)
    parent = np.where(np.arange(3000) > 0, 0, -1)
    unary, t = 12 * rng.normal(size=(3000, 330)), 0.02 * rng.normal(size=(330, 330))
    for first in (60.0, 0.0):
        unary[0] = 0.0
        unary[0, 0] = first
        model = vs.Tree(parent, unary, t)
        r = vs.infer(model, tol=0.01)
        holds(r, vs.infer(model), 0.01)
    assert r.stats["sequences_supports"] in (0, 1)


def test_other_trees_go_another_way() -> None:
    rng = np.random.default_rng(8)
    k, n = 330, 170
    parent, single = parents(rng, n, "random"), np.ones(1, dtype=bool)
    unary, t = 6 * rng.normal(size=(n, k)), rng.normal(size=(2, k, k))
    types = rng.integers(0, 2, n)
    assert _supports.may_pay(vs.Tree(parent, unary, t[0]), 0.01, single)
    assert _supports.may_pay(vs.Tree(parent, unary, t[:1], edge_type=0 * types), 0.01, single)
    # A hundredth wants more labels of a tree than a tenth.
    few = vs.Tree(parent, unary[:, :300], t[0, :300, :300])
    assert _supports.may_pay(few, 0.1, single)
    assert not _supports.may_pay(few, 0.01, single)
    others = [
        vs.Tree(parent, unary, t, edge_type=types),
        vs.Tree(parent, unary, np.eye(k)),
        vs.Tree(parent, unary[:, :50], t[0, :50, :50]),
    ]
    assert not any(_supports.may_pay(model, 0.01, single) for model in others)
    r = vs.infer(others[0], tol=0.01)
    assert "supports" not in r.reason
    holds(r, vs.infer(others[0]), 0.01)
    one = vs.Tree(parent, 2 * unary, t[:1], edge_type=0 * types)
    r = vs.infer(one, tol=0.01)
    assert r.stats["sequences_supports"] == 1
    holds(r, vs.infer(one), 0.01)
