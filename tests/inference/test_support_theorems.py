"""The theorems behind supports, by name: a message, its norms, and the proof of a position.

Supports are forced to be bad: which rows and columns are read follows from a random threshold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from tests.inference.test_theorems import MANY, batches
from valuesparse import _supports
from valuesparse.results._certificate import interval

pytestmark = pytest.mark.simd

Array = np.ndarray[Any, Any]

#: How tables are drawn: the scale of scores, the share of -inf, and that of a default.
TABLES = {
    "flat": (0.01, 0.0, 0.0),
    "ordinary": (1.0, 0.0, 0.0),
    "peaked": (6.0, 0.0, 0.0),
    "forbidden": (2.0, 0.4, 0.0),
    "mostly a default": (3.0, 0.0, 0.8),
    "one entry a row": (30.0, 0.0, 0.9),
}
#: Messages of one table.
EACH = 50


def tables(rng: np.random.Generator, kind: str, **wrong: float) -> tuple[_supports.Table, Array]:
    """Return a table with what it is of, ``exp(t - shift)`` (K, K) in long double."""
    scale, forbidden, default = TABLES[kind]
    k = int(rng.integers(1, 20))
    t = np.clip(scale * rng.normal(size=(k, k)), -19.0, 19.0)
    t[rng.random(t.shape) < default] = 0.0
    t[rng.random(t.shape) < forbidden] = -np.inf
    t[rng.integers(k), rng.integers(k)] = 0.5
    table = _supports.Table(t, **wrong)
    assert table.fine
    return table, np.exp(t.astype(np.longdouble) - table.shift)


def padded(x: Array, width: int) -> Array:
    found = np.zeros(width, dtype=np.float32)
    found[: x.size] = x
    return found


def enclosed(y: Array, low: Array, slack: Array, radius: float) -> bool:
    """Return whether some factor s brings y between s e^(-g/2) low and s e^(g/2) (low + slack)."""
    high = low.astype(np.longdouble) + slack
    alive = y > 0
    if (~(high[alive] > 0)).any() or (low[~alive] > 0).any():
        return False
    least = (y[alive] / high[alive]).max(initial=0.0)
    given = low > 0
    most = (y[given] / low[given]).min(initial=np.inf)
    return bool(least <= most * np.exp(np.longdouble(radius)) * (1 + 1e-13))


def sent(
    rng: np.random.Generator, table: _supports.Table, w: Array, again: float = 0.0
) -> Iterator[tuple[Array, Array, Any]]:
    """Yield what a message is, exactly, its weight, and what was computed, of random enclosures.

    `again`: the share of the columns that are read again.
    """
    k = w.shape[0]
    for _ in range(EACH):
        sharp = rng.choice([0.1, 1.0, 4.0])
        low = np.exp(sharp * rng.normal(size=k)).astype(np.float32)
        low[rng.random(k) < 0.2] = 0.0
        low /= np.float32(max(low.sum(), 1e-3))
        slack = (rng.choice([0.0, 1e-4, 0.1]) * rng.random(k)).astype(np.float32)
        slack[rng.random(k) < 0.5] = 0.0
        radius = float(rng.choice([0.0, 1e-3, 0.3, 4.0]))
        weight = np.exp(-rng.choice([0.5, 10.0, 30.0]) * rng.random(k)).astype(np.float32)
        weight[rng.random(k) < 0.2] = 0.0
        if rng.random() < 0.1:
            weight *= np.float32(1.5e-18)  # where scores are held from below: all is slack
        if not (low + slack).any():
            continue
        # Each end of a factor, with all or nothing of the slack, is where bounds are met.
        factor = radius / 2 * rng.choice([-1.0, 1.0, 0.3], size=k)
        x = (low.astype(np.longdouble) + slack * rng.integers(0, 2, k)) * np.exp(factor)
        backward = bool(rng.integers(2))
        share = float(rng.choice([1e-6, 1e-3, 0.05, 0.3, 0.6]))
        rows = (padded(v, table.width) for v in (low, slack))
        labels = np.flatnonzero(rng.random(k) < again).astype(np.int32)
        found = _supports.message(
            table, backward, *rows, radius, padded(weight, table.width), share, labels
        )
        yield x @ (w.T if backward else w) * weight, weight, found


@pytest.mark.parametrize("cases", MANY)
def test_section_2_a_message_is_enclosed(cases: int) -> None:
    kinds, proved, narrowed = itertools.cycle(TABLES), 0, 0
    for rng, size in batches(cases, 21):
        for _ in range(size // EACH):
            table, w = tables(rng, next(kinds))
            for y, _, found in sent(rng, table, w):
                if found is None:
                    continue
                low, slack, radius, _, _ = found
                assert enclosed(y, low[: y.size], slack[: y.size], radius)
                assert ((slack == 0) | (slack >= np.float32(1e-19))).all()
                proved += 1
                narrowed += bool((slack[: y.size] == 0).any())
    assert proved > cases / 3
    assert narrowed > cases / 5


def numbers(rng: np.random.Generator, width: int) -> tuple[Array, Array, float, Array]:
    """Return an enclosure, some numbers at the floors of messages, and what it encloses."""
    size = rng.choice([1.0, 20.0, 41.0])
    low = np.exp(-size * rng.random(width)).astype(np.float32)
    slack = (low * rng.choice([1e-6, 0.1, 10.0], width)).astype(np.float32)
    low[rng.random(width) < 0.3] = 0.0
    low[low < 1e-18] = 0.0
    slack[rng.random(width) < rng.choice([0.1, 0.5])] = 0.0
    slack[rng.random(width) < 0.2] = 1e-19
    slack[(slack > 0) & (slack < 1e-19)] = 1e-19
    radius = float(rng.choice([0.0, 0.3, 4.0]))
    part = low.astype(np.longdouble) + slack * rng.choice([0.0, 1.0, 0.5], width)
    part[(low == 0) & (slack > 0)] = slack[(low == 0) & (slack > 0)]
    return low, slack, radius, part * np.exp(radius / 2 * rng.choice([-1.0, 1.0, 0.3], width))


@pytest.mark.parametrize("cases", MANY)
def test_section_10_a_product_is_enclosed(cases: int) -> None:
    """Factors multiply, radii add up, and no label is lost that the product has."""
    proved = 0
    for rng, size in batches(cases, 26):
        table, _ = tables(rng, "ordinary")
        for _ in range(size):
            (xl, xe, xg, x), (yl, ye, yg, y) = (numbers(rng, table.width) for _ in range(2))
            found = _supports.product(table, (xl, xe, xg), (yl, ye, yg))
            if found is None:
                assert not ((xl + xe).astype(float) * (yl + ye) > 2e-18).any()
                continue
            low, slack, radius, lift = found
            assert xg + yg < radius < xg + yg + 1e-6
            assert 0.4 < (low + slack).max() < 1.1
            assert np.log2(lift) == round(np.log2(lift))
            assert enclosed(x * y, low, slack, radius)
            assert ((slack == 0) | (slack >= np.float32(1e-19))).all()
            proved += 1
    assert proved > cases / 2


@pytest.mark.parametrize("cases", MANY)
def test_section_4_columns_that_are_read_again_are_enclosed(cases: int) -> None:
    kinds, proved, widened = itertools.cycle(TABLES), 0, 0
    for rng, size in batches(cases, 25):
        for _ in range(size // EACH):
            table, w = tables(rng, next(kinds))
            for y, weight, found in sent(rng, table, w, 0.5):
                if found is None:
                    continue
                low, slack, radius, _, _ = found
                assert enclosed(y, low[: y.size], slack[: y.size], radius)
                # Mass below the least number, or held from below, is slack for good.
                assert ((slack == 0) | (slack >= np.float32(1e-19))).all()
                assert (slack[: y.size][(y > 0) & (low[: y.size] == 0)] > 0).all()
                proved += 1
                widened += bool((slack[: y.size][weight > 0] > 0).any())
    assert proved > cases / 3
    assert widened > cases / 5


@pytest.mark.parametrize("wrong", ["norms", "delta"])
def test_sections_2_and_3_a_thousandth_less_is_seen(wrong: str) -> None:
    """Without norms, or a share of the radius, that are large enough, messages are not enclosed."""
    violations = 0
    for rng, size in batches(6_000, 22):
        for _ in range(size // EACH):
            table, w = tables(rng, "one entry a row", **{wrong: 1 - 1e-3})
            for y, _, found in sent(rng, table, w):
                if found is not None:
                    low, slack, radius, _, _ = found
                    violations += not enclosed(y, low[: y.size], slack[: y.size], radius)
    assert violations > 0


@pytest.mark.parametrize("cases", MANY)
def test_section_3_norms_bound_what_is_not_read(cases: int) -> None:
    """Where no radius came in, the rows that are not read lie between the two bounds."""
    kinds = itertools.cycle(TABLES)
    for rng, size in batches(cases, 23):
        for _ in range(size // EACH):
            table, w = tables(rng, next(kinds))
            k = w.shape[0]
            for _ in range(EACH):
                x = rng.dirichlet(np.full(k, rng.choice([0.1, 1.0, 10.0]))).astype(np.float32)
                given = padded(x, table.width), np.zeros(table.width, np.float32)
                one = padded(np.ones(k, np.float32), table.width)
                found = _supports.message(table, False, *given, 0.0, one, rng.choice([0.02, 0.4]))
                if found is None:
                    continue
                low, slack, radius, scale, _ = found
                y = x.astype(np.longdouble) @ w
                computed = np.exp(np.longdouble(scale)) * low[:k], np.exp(scale) * slack[:k]
                wide = np.exp(radius)  # of a sum that was read, folded, and of rounding
                assert (computed[0] <= y * wide).all()
                assert (y <= computed[0].astype(np.longdouble) * wide + computed[1] * wide).all()


def table_of(rng: np.random.Generator) -> Array:
    """Return a table (K, K) of one of many kinds, whose entries lie within 40 nats."""
    k = int(rng.integers(1, 41) if rng.random() < 0.7 else rng.integers(1, 9))
    size = rng.choice([1e-3, 1.0, 5.0, 12.0, 19.0])
    normal, groups = rng.normal(size=(k, k)), rng.integers(0, k // 4 + 1, k)
    far = np.where(groups[:, None] == groups, normal, rng.choice([-np.inf, -2 * size]))
    permuted = np.where(np.arange(k) == rng.permutation(k)[:, None], 0.0, -2 * size)
    single = 0.5 * normal
    single[rng.integers(k), rng.integers(k)] = 2 * size - 2
    ends = rng.normal(size=(k, 1)) + rng.normal(size=k)
    low = np.where(np.tri(k, k=-1, dtype=bool), -np.inf, normal * size / 3)
    t = [
        normal * size / 3, rng.uniform(-size, size, (k, k)), np.zeros((k, k)), far, permuted,
        single, np.where(rng.random((k, k)) < 0.1, normal, ends) * size / 4, 2 * size * np.eye(k),
        low,
        rng.choice([0.0, -2 * size, -size], size=(k, k)),
    ][rng.integers(10)]  # fmt: skip
    t = np.where(rng.random((k, k)) < rng.choice([0.0, 0.0, 0.1, 0.6]), -np.inf, t)
    t = np.where(np.isfinite(t), np.clip(t, -19.5, 19.5), -np.inf)
    if not np.isfinite(t).any():
        t[0, 0] = 0.0
    return np.asarray(t + rng.choice([0.0, 0.0, 123.456, -1e4]))


def unary_of(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Return scores, of which some lie where they are held from below."""
    b, n, _ = shape
    size = rng.choice([0.0, 0.3, 2.0, 6.0, 12.0, 30.0, 1e4], size=(b, rng.choice([1, n]), 1))
    drawn = size * rng.normal(size=shape)
    if rng.random() < 0.3:
        near = rng.uniform(-43.0, -39.0, shape)
        drawn = np.where(rng.random(shape) < 0.3, near, drawn - drawn.max(axis=2, keepdims=True))
    drawn[rng.random(shape) < rng.choice([0.0, 0.0, 0.1, 0.6])] = -np.inf
    drawn[..., 0][~np.isfinite(drawn).any(axis=2)] = 0.0
    return np.asarray(drawn)


def passes(unary: Array, t: Array) -> tuple[Array, Array]:
    """Return marginals (B, n, K) and log Z (B,) of equal chains, in long double."""
    b, n, k = unary.shape
    shift = np.longdouble(t[np.isfinite(t)].max())
    top = unary.max(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        w, psi = np.exp(t.astype(np.longdouble) - shift), np.exp(unary - top)
        a, sums = [psi[:, 0]], []
        for i in range(1, n):
            sums.append(a[-1].sum(axis=1, keepdims=True))
            a.append((a[-1] / sums[-1]) @ w * psi[:, i])
        sums.append(a[-1].sum(axis=1, keepdims=True))
        log_z = np.log(np.concatenate(sums, axis=1)).sum(axis=1) + top.sum(axis=(1, 2))
        p, y = np.zeros(unary.shape, np.longdouble), np.ones((b, k), np.longdouble)
        for i in range(n - 1, -1, -1):
            q = a[i] * y
            p[:, i] = q / q.sum(axis=1, keepdims=True)
            y = (psi[:, i] * y) @ w.T
            y = y / y.max(axis=1, keepdims=True)
    return p, log_z + (n - 1) * shift


@pytest.mark.parametrize("cases", MANY)
def test_sections_1_and_4_what_supports_prove_holds(cases: int) -> None:
    """Marginals and log Z lie within the bounds, whatever the tolerance let out."""
    taken, each = 0, 25
    for number in range(cases // each):
        rng = np.random.default_rng([24, number])
        t, n = table_of(rng), int(rng.integers(1, 13))
        k, kind = len(t), rng.choice([np.float64, np.float64, np.float32])
        t, unary = t.astype(kind), unary_of(rng, (each, n, k)).astype(kind)
        start, end = (
            (rng.choice([1.0, 20.0]) * rng.normal(size=k)).astype(kind)
            if rng.random() < 0.3
            else None
            for _ in range(2)
        )
        mask = rng.random(unary.shape) < 0.8 if rng.random() < 0.2 else None
        table = _supports.Table(t)
        assert table.fine
        wide = unary.astype(np.longdouble)
        wide[:, 0] += 0.0 if start is None else start
        wide[:, -1] += 0.0 if end is None else end
        p, log_z = passes(wide if mask is None else np.where(mask, wide, -np.inf), t)
        order, flat = _supports.Order(n * np.arange(each + 1)), (each * n, k)
        m, bounds = np.zeros(flat, kind), np.zeros((2, each))
        radius, slack, error = (np.zeros(each * n) for _ in range(3))
        tol = float(rng.choice([1.0, 1.0, 0.3, 0.03, 1e-2, 1e-3]))
        found, _ = _supports.infer(
            table, order, unary.reshape(flat), start, end,
            None if mask is None else mask.reshape(flat).view(np.uint8), np.arange(each),
            tol, np.full(each, 1e9), 1, m, radius, slack, error, bounds,
        )  # fmt: skip
        assert not found[~np.isfinite(log_z)].any()
        at = np.repeat(found, n)
        truth, error = p.reshape(flat)[at], error[at]
        assert (np.abs(m[at] - truth).max(axis=1, initial=0.0) <= error + 1e-12).all()
        assert (error <= tol).all()
        low, high = interval(m[at], radius[at], slack[at])
        assert (low <= truth + 1e-12).all()
        assert (truth <= high + 1e-12).all()
        margin = 1e-12 * (1 + np.abs(log_z[found]) + n * 1e4)
        assert (bounds[0][found] <= log_z[found] + margin).all()
        assert (log_z[found] <= bounds[1][found] + margin).all()
        taken += int(found.sum())
    assert taken > cases / 3


def test_what_underflows_is_slack() -> None:
    """Three labels with e^-40 of the mass each, of which another message brings one back."""
    k = 256
    zero, mid, left, right, last, one, two = range(7)
    t = np.random.default_rng(0).uniform(-3, 0, (k, k))
    t[:7], t[7, 8] = -39.0, 0.0
    t[:, [zero, mid, left, right]] = -np.inf
    t[:, last], t[mid, last], t[left, last], t[right, last] = -38.0, -17.0, -40.0, -40.0
    t[zero, last], t[one, left], t[two, right] = -np.inf, -39.1, -39.0
    unary = np.full((3, k), -np.inf)
    unary[0, [one, two]] = unary[1, zero] = unary[2, last] = 0.0
    unary[1, [mid, left, right]] = -40.5
    chain = vs.Chain(np.tile(unary, (50, 1)), t, [3] * 50)
    r, exact = vs.infer(chain, tol=0.01), vs.infer(chain)
    assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= r.error).all()
