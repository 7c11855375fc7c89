"""The theorems behind supports, by name: a message, its norms, and the proof of a position.

Supports are forced to be bad: which rows and columns are read follows from a random threshold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.inference.test_theorems import MANY, batches, enumerated
from valuesparse import _supports

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
    rng: np.random.Generator, table: _supports.Table, w: Array
) -> Iterator[tuple[Array, Array, Any]]:
    """Yield what a message is, exactly, its weight, and what was computed, of random enclosures."""
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
        if not (low + slack).any():
            continue
        # Each end of a factor, with all or nothing of the slack, is where bounds are met.
        factor = radius / 2 * rng.choice([-1.0, 1.0, 0.3], size=k)
        x = (low.astype(np.longdouble) + slack * rng.integers(0, 2, k)) * np.exp(factor)
        backward = bool(rng.integers(2))
        share = float(rng.choice([1e-6, 1e-3, 0.05, 0.3, 0.6]))
        rows = (padded(v, table.width) for v in (low, slack))
        found = _supports.message(
            table, backward, *rows, radius, padded(weight, table.width), share
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
                proved += 1
                narrowed += bool((slack[: y.size] == 0).any())
    assert proved > cases / 3
    assert narrowed > cases / 5


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


@pytest.mark.parametrize("cases", MANY)
def test_sections_1_and_4_what_supports_prove_holds(cases: int) -> None:
    """Marginals and log Z of enumeration lie within the bounds, whatever the tolerance let out."""
    taken = 0
    for rng, size in batches(cases, 24):
        n, k = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        t = np.clip(rng.choice([0.3, 3.0, 10.0]) * rng.normal(size=(k, k)), -19, 19)
        t[rng.random((k, k)) < 0.1] = -np.inf
        t.flat[rng.integers(t.size)] = 1.0
        unary = rng.choice([0.3, 3.0, 20.0, 300.0], size=(size, 1, 1)) * rng.normal(
            size=(size, n, k)
        )
        unary[rng.random(unary.shape) < 0.1] = -np.inf
        p, log_z = enumerated(unary, t)
        table, offset = _supports.Table(t), n * np.arange(size + 1)
        m, bounds = np.zeros((size * n, k)), np.zeros((2, size))
        radius, slack, error = (np.zeros(size * n) for _ in range(3))
        tol = float(rng.choice([1.0, 0.3, 1e-2, 1e-3]))
        found, _ = _supports.infer(
            table, unary.reshape(-1, k), None, None, None, offset, np.arange(size), tol,
            np.full(size, 1e9), 1, m, radius, slack, error, bounds,
        )  # fmt: skip
        assert not found[~np.isfinite(log_z)].any()
        off = np.abs(m.reshape(size, n, k) - p).max(axis=2)[found]
        assert (off <= error.reshape(size, n)[found]).all()
        assert (error.reshape(size, n)[found] <= tol).all()
        margin = 1e-12 * (1 + np.abs(log_z[found]))
        assert (bounds[0][found] <= log_z[found] + margin).all()
        assert (log_z[found] <= bounds[1][found] + margin).all()
        taken += int(found.sum())
    assert taken > cases / 3
