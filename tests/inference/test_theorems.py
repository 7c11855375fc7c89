"""The theorems behind certificates and sorted scans, by name, on many random cases at a time.

CERTIFICATES is the paper beside DESIGN; docs/certificates.md has what the engine uses of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import valuesparse as vs
from valuesparse import _forest as native
from valuesparse.inference import _certified
from valuesparse.results._certificate import interval

pytestmark = pytest.mark.simd

Array = np.ndarray[Any, Any]

MANY = [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
BATCH = 2_000
#: Models of one kind and one number of variables: so few that 10,000 cases have each with each.
FEW = 250

#: How scores are drawn: their scale, the share of -inf, and their type.
KINDS = {
    "ordinary": (1.0, 0.0, float),
    "flat": (0.01, 0.0, float),
    "peaked": (20.0, 0.0, float),
    "forbidden": (1.0, 0.25, float),
    "floors": (250.0, 0.1, float),
    "large": (10_000.0, 0.05, float),
    "single": (3.0, 0.1, np.float32),
}


def batches(cases: int, seed: int, batch: int = BATCH) -> Iterator[tuple[np.random.Generator, int]]:
    """Yield generators and sizes of batches, so many cases together."""
    for number in range(-(-cases // batch)):
        yield np.random.default_rng([seed, number]), min(batch, cases - number * batch)


def kinds_and_sizes(most: int) -> Iterator[tuple[str, int]]:
    """Yield kinds of scores with numbers of variables, 0 to `most`, each with each, endlessly."""
    return itertools.cycle(itertools.product(KINDS, range(most + 1)))


def scores(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    scale, forbidden, dtype = KINDS[kind]
    drawn = scale * rng.normal(size=shape)
    drawn[rng.random(shape) < forbidden] = -np.inf
    return drawn.astype(dtype)


def enumerated(unary: Array, t: Array, parent: Array | None = None) -> tuple[Array, Array]:
    """Return marginals (B, n, K) and log Z (B,) of equal chains or trees, in long double."""
    b, n, k = unary.shape
    before = np.arange(n) - 1 if parent is None else parent
    wide, table = unary.astype(np.longdouble), t.astype(np.longdouble)
    paths = np.array(list(itertools.product(range(k), repeat=n)))  # (k ** n, n)
    total = np.zeros((b, len(paths)), np.longdouble)
    for i in range(n):
        total += wide[:, i, paths[:, i]]
        if i:
            total += table[paths[:, before[i]], paths[:, i]]
    top = total.max(axis=1, keepdims=True)
    weights = np.exp(total - np.where(np.isfinite(top), top, 0))
    z = weights.sum(axis=1)
    p = np.zeros((b, n, k), np.longdouble)
    for i in range(n):
        for v in range(k):
            p[:, i, v] = weights[:, paths[:, i] == v].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return p / z[:, None, None], np.log(z) + top[:, 0]


def enclosed(rng: np.random.Generator, size: int, k: int) -> tuple[Array, Array, Array, Array]:
    """Return shares m, radii, slacks and a truth that they enclose, (size, K) and (size,)."""
    sharp = rng.choice([0.2, 1.0, 30.0], size=(size, 1))
    m = np.exp(sharp * rng.normal(size=(size, k)))
    m /= m.sum(axis=1, keepdims=True)
    radius = rng.choice([0.0, 1e-9, 1e-3, 0.5, 8.0, 60.0], size=size)
    slack = rng.choice([0.0, 1e-12, 1e-4, 0.3], size=size)
    # Each end of a factor with the other ones is where bounds are met.
    factor = radius[:, None] / 2 * rng.choice([-1.0, 0.0, 1.0], size=(size, k))
    lost = rng.choice([-1.0, 1.0], size=size) * slack
    weight = m.copy()
    at = rng.integers(k, size=size)
    weight[np.arange(size), at] += lost
    weight = np.maximum(weight, 0.0) * np.exp(factor)
    total = weight.sum(axis=1, keepdims=True)
    fine = total[:, 0] > 0
    return m[fine], radius[fine], slack[fine], (weight / np.where(total > 0, total, 1))[fine]


@pytest.mark.parametrize("cases", MANY)
def test_section_1_two_numbers_enclose_a_position(cases: int) -> None:
    """Log-odds known to G up to a mass U: lower <= p <= upper, and |p - m| <= error."""
    violations = 0
    for rng, size in batches(cases, 1):
        m, radius, slack, truth = enclosed(rng, size, int(rng.integers(2, 9)))
        lower, upper = interval(m, radius, slack)
        assert (lower <= truth + 1e-15).all()
        assert (truth <= upper + 1e-15).all()
        rest = 1 - m + (m.shape[1] + 8) * 2.0**-52  # two numbers that cancel
        error = m * rest * np.expm1(radius)[:, None] + 2 * (slack * np.exp(radius))[:, None]
        assert (np.abs(truth - m) <= error * (1 + 1e-12) + 1e-15).all()
        # A thousandth less of the radius is seen.
        low, high = interval(m, radius * (1 - 1e-3), slack)
        violations += int(((truth < low - 1e-15) | (truth > high + 1e-15)).sum())
    assert violations > 0


@pytest.mark.parametrize("cases", MANY)
def test_section_1_no_event_is_off_by_more(cases: int) -> None:
    """The error bounds the probability of each set of values, so that they differ by 2 e in all."""
    for rng, size in batches(cases, 2):
        m, radius, slack, truth = enclosed(rng, size, 6)
        radius, keep = np.minimum(radius, 0.5), radius <= 0.5
        event = rng.random(m.shape) < 0.5
        error = np.expm1(radius) / 4 + 2 * slack * np.exp(radius)
        off = np.abs(np.where(event, truth - m, 0.0).sum(axis=1))
        assert (off[keep] <= error[keep] + 1e-14).all()
        assert (np.abs(truth - m).sum(axis=1)[keep] <= 2 * error[keep] + 1e-13).all()


@pytest.mark.parametrize("cases", MANY)
def test_section_2_no_message_enlarges_a_radius(cases: int) -> None:
    """Factors within h on one variable's weights move the log-odds of no other by more than h."""
    k, n = 4, 5
    for rng, size in batches(cases, 3):
        t = scores(rng, (k, k), "ordinary")
        unary = rng.choice([0.1, 1.0, 6.0], size=(size, 1, 1)) * rng.normal(size=(size, n, k))
        h = rng.choice([1e-6, 0.1, 3.0], size=size)
        moved = unary.copy()
        at = rng.integers(n, size=size)
        moved[np.arange(size), at] += h[:, None] / 2 * rng.choice([-1.0, 1.0], size=(size, k))
        lengths = np.full(size, n)
        a, b = (
            np.log(vs.infer(vs.Chain(u.reshape(-1, k), t, lengths)).marginals).reshape(size, n, k)
            for u in (unary, moved)
        )
        ratio = a - b
        spread = ratio.max(axis=2) - ratio.min(axis=2)
        assert (spread <= h[:, None] + 1e-9).all()


@pytest.mark.parametrize("cases", MANY)
def test_sections_6_and_7_certificates_hold(eager: None, cases: int) -> None:
    """Rounding is a radius: bounds contain what enumeration finds, with float32 and without."""
    drawn, single = kinds_and_sizes(4), 0
    for rng, size in batches(cases, 4, FEW):
        (kind, n), k = next(drawn), int(rng.integers(1, 4))
        unary, t = scores(rng, (size, n, k), kind), scores(rng, (k, k), kind)
        p, log_z = enumerated(unary, t)
        alive = np.isfinite(log_z)
        p, log_z, count = p[alive], log_z[alive], int(alive.sum())
        chain = vs.Chain(unary[alive].reshape(-1, k), t, np.full(count, n))
        tol = max(1e-2, 2 * _certified.floor_of(chain))
        results = [vs.infer(chain, tol=tol), vs.infer(chain, zeta=0.8).certify()]
        for r in results:
            lower, upper = (x.reshape(count, n, k) for x in (r.lower, r.upper))
            assert (lower <= p + 1e-14).all()
            assert (p <= upper + 1e-14).all()
            assert (r.log_z_lower <= log_z + 1e-15 * np.abs(log_z)).all()
            assert (log_z <= r.log_z_upper + 1e-15 * np.abs(log_z)).all()
        r = results[0]
        assert (r.error <= tol).all()
        off = np.abs(r.marginals.reshape(count, n, k) - p).max(axis=2)
        assert (off <= r.error.reshape(count, n) + 1e-14).all()
        single += r.stats["sequences_float32"]
    assert single > 0


def spread(a: Array, b: Array) -> Array:
    """Return h of rows with the same zeros: log max(a / b) - log min(a / b), 0 without entries."""
    assert np.array_equal(a > 0, b > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(a) - np.log(b)
    high = np.where(a > 0, ratio, -np.inf).max(axis=-1)
    low = np.where(a > 0, ratio, np.inf).min(axis=-1)
    return np.where(np.isfinite(high), high - low, 0.0)


@pytest.mark.parametrize("cases", MANY)
def test_section_8_no_message_increases_h(cases: int) -> None:
    """Two rows with the same zeros, each sent by the kernel: their log-ratios spread no further."""
    equal = 0
    for number, (rng, size) in enumerate(batches(cases, 7)):
        k, scale = int(rng.integers(2, 9)), rng.choice([0.01, 1.0, 8.0], size=(size, 1, 1))
        unary = np.empty((2, size, 2, k))
        unary[:, :, 0] = scale[:, 0] * rng.normal(size=(2, size, k))
        unary[:, :, 1] = scale[:, 0] * rng.normal(size=(size, k))
        unary[:, rng.random((size, 2, k)) < 0.2] = -np.inf  # in both rows
        tables = scale * rng.normal(size=(size, k, k))
        if number % 2:
            tables = np.broadcast_to(tables[0], tables.shape)
        forbidden = rng.random((k, k)) < rng.choice([0.0, 0.4])
        tables = np.where(forbidden, -np.inf, tables)
        alive = np.isfinite(unary[0, :, 0, :, None] + tables + unary[0, :, 1, None]).any((1, 2))
        count = int(alive.sum())
        given = tables[0] if number % 2 else tables[alive]
        x, y = (
            vs.infer(vs.Chain(u[alive].reshape(-1, k), given, np.full(count, 2))).marginals.reshape(
                count, 2, k
            )[:, 1]
            for u in unary
        )
        entered = spread(*np.exp(unary[:, alive, 0]))
        left = spread(x, y)
        assert (left <= entered * (1 + 1e-12) + 1e-12).all()
        equal += int((left > entered * (1 - 1e-3)).sum())
    assert equal > 0  # the bound is met


@pytest.mark.parametrize("cases", MANY)
@pytest.mark.parametrize("agree", [0.1, 1.0])
def test_section_8_chunks_are_off_by_what_their_cuts_let_pass(agree: float, cases: int) -> None:
    """Cuts that let messages h apart pass add h to the radius of all that lies behind them."""
    n, chunk = 12, 3
    before = np.arange(n) // chunk  # cuts that a forward message has crossed
    radius = np.log1p(agree) * (before + before[::-1])
    assert radius.min() == radius.max() == 3 * np.log1p(agree)
    largest, missed = 0.0, 0
    for rng, size in batches(cases, 8, FEW):
        k = int(rng.integers(2, 6))
        t = rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=(k, k))
        t[rng.random((k, k)) < rng.choice([0.0, 0.2])] = -np.inf
        np.fill_diagonal(t, np.maximum(t.diagonal(), -9.0))  # every chain is possible
        unary = rng.choice([0.1, 1.0, 6.0], size=(size, 1, 1)) * rng.normal(size=(size, n, k))
        model = vs.Chain(unary.reshape(-1, k), t, np.full(size, n))
        try:
            native.cut_chains(-1)
            want = vs.infer(model).marginals.reshape(size, n, k)
            native.cut_chains(2, chunk, 1, agree)
            found = vs.infer(model).marginals.reshape(size, n, k)
        finally:
            native.cut_chains()
        off = spread(found, want)
        assert (off <= radius + 1e-9).all()
        error = np.abs(found - want).max(axis=2)
        assert (error <= np.expm1(off) / 4 + 1e-12).all()
        largest = max(largest, float(off.max()))
        missed += int((off > 1e-9).sum())
    assert missed > cases / 10  # cuts are kept where messages differ
    assert largest > np.log1p(agree)  # what several cuts let pass adds up


@pytest.mark.parametrize("cases", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_section_10_certificates_of_trees_hold(eager: None, cases: int) -> None:
    drawn, single = kinds_and_sizes(5), 0
    for rng, size in batches(cases, 6, FEW):
        (kind, n), k = next(drawn), int(rng.integers(1, 4))
        parent = np.array([-1, *(rng.integers(i) for i in range(1, n))])[:n]
        unary, t = scores(rng, (size, n, k), kind), scores(rng, (k, k), kind)
        p, log_z = enumerated(unary, t, parent)
        alive = np.isfinite(log_z)
        p, log_z, count = p[alive], log_z[alive], int(alive.sum())
        parents = np.where(parent < 0, -1, parent + n * np.arange(count)[:, None]).ravel()
        tree = vs.Tree(parents, unary[alive].reshape(-1, k), t)
        if n == 0:  # nodes are what a forest has: it is empty
            log_z = log_z[:0]
        tol = max(1e-2, 2 * _certified.floor_of(tree))
        r = vs.infer(tree, tol=tol)
        for found in (r, vs.infer(tree, zeta=0.8).certify()):
            lower, upper = (x.reshape(count, n, k) for x in (found.lower, found.upper))
            assert (lower <= p + 1e-14).all()
            assert (p <= upper + 1e-14).all()
            assert (found.log_z_lower <= log_z + 1e-15 * np.abs(log_z)).all()
            assert (log_z <= found.log_z_upper + 1e-15 * np.abs(log_z)).all()
        assert (r.error <= tol).all()
        off = np.abs(r.marginals.reshape(count, n, k) - p).max(axis=2)
        assert (off <= r.error.reshape(count, n) + 1e-14).all()
        single += r.stats["sequences_float32"]
    assert single > 0


def best_paths(unary: Array, t: Array) -> Array:
    """Return the best path of each of chains of one length, ties to the lowest label."""
    b, n, _ = unary.shape
    v = np.empty_like(unary)
    v[:, 0] = unary[:, 0]
    for i in range(1, n):
        v[:, i] = (v[:, i - 1, :, None] + t).max(axis=1) + unary[:, i]
    states = np.empty((b, n), int)
    states[:, -1] = v[:, -1].argmax(axis=1)
    for i in range(n - 1, 0, -1):
        states[:, i - 1] = (v[:, i - 1] + t[:, states[:, i]].T).argmax(axis=1)
    return states


@pytest.mark.parametrize("cases", MANY)
@pytest.mark.parametrize("listed", [False, True])
def test_section_9_a_sorted_scan_finds_the_best(dtype: type, listed: bool, cases: int) -> None:
    """Rows in descending order until none can matter: the states of the plain scan, ties included.

    Scores are halves, so that all sums are exact and ties are many, in float32 too. A case is a
    message. An empty chain stands beside each.
    """
    n = 11
    for number, (rng, _) in enumerate(batches(cases, 5)):
        k, count = (100, BATCH // (n - 1)) if listed else (130, BATCH // (n - 1))
        unary = (rng.integers(-6, 7, (count, n, k)) / 2.0).astype(dtype)
        unary[rng.random(unary.shape) < 0.1] = -np.inf
        if number % 2:  # peaked: a few rows matter
            unary[rng.random(unary.shape) < 0.02] += 30.0
        if listed:
            at = rng.choice(k * k, size=400, replace=False)
            entries = (rng.integers(-4, 5, 400) / 2.0).astype(dtype)
            given: Any = vs.SparseTransition(
                sp.csr_array((entries, (at // k, at % k)), shape=(k, k)), -1.0
            )
            t = given.todense()
        else:
            given = t = (rng.integers(-4, 5, (k, k)) / 2.0).astype(dtype)
        model = vs.Chain(unary.reshape(-1, k), given, np.tile([n, 0], count))
        assert model.dtype == dtype
        found = vs.decode(model)
        want = best_paths(unary, t)
        assert np.array_equal(found.states.reshape(count, n), want)
