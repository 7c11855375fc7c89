"""Chains whose edges have a table each: side by side as alone, bit for bit, and as enumeration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from strategies import examples

import valuesparse as vs
from valuesparse import _forest

pytestmark = pytest.mark.simd


def model_of(
    rng: np.random.Generator,
    labels: int,
    lengths: list[int],
    dtype: Any,
    forbid: float,
    size: float,
) -> vs.Chain:
    """Return chains of random scores; some pairs are forbidden, but not on one path."""
    n, edges = sum(lengths), sum(max(0, x - 1) for x in lengths)
    unary = size * rng.normal(size=(n, labels))
    tables = size * rng.normal(size=(edges, labels, labels))
    tables[rng.random(tables.shape) < forbid] = -np.inf
    tables[:, 0, 0] = 0.0
    allowed = rng.random((n, labels)) >= forbid
    allowed[:, 0] = True
    ends = [size * rng.normal(size=labels).astype(dtype) for _ in range(2)]
    return vs.Chain(
        unary.astype(dtype), tables.astype(dtype), lengths, start=ends[0], end=ends[1],
        allowed=allowed if forbid > 0 else None,
    )  # fmt: skip


def alone(m: vs.Chain, b: int) -> vs.Chain:
    """Return one sequence of several."""
    n = np.asarray(m.lengths)
    first, edge = int(n[:b].sum()), int(np.maximum(n[:b] - 1, 0).sum())
    last = first + int(n[b])
    return vs.Chain(
        m.unary[first:last], m.transition[edge : edge + max(0, int(n[b]) - 1)], start=m.start,
        end=m.end, allowed=None if m.allowed is None else m.allowed[first:last],
    )  # fmt: skip


def uncut(ask: Callable[[], Any]) -> Any:
    """Return an answer of chains that are not cut."""
    _forest.cut_chains(least=-1)
    try:
        return ask()
    finally:
        _forest.cut_chains()


def log_z_of(m: vs.Chain) -> float:
    """Return log Z of one sequence, in float64."""
    with np.errstate(divide="ignore"):
        unary = m.unary.astype(float)
        if m.allowed is not None:
            unary = np.where(m.allowed, unary, -np.inf)
        a = unary[0] + m.start
        for i in range(1, len(unary)):
            a = np.logaddexp.reduce(a[:, None] + m.transition[i - 1], axis=0) + unary[i]
        return float(np.logaddexp.reduce(a + m.end))


def entropy_of(m: vs.Chain, r: Any) -> float:
    """Return that of one sequence from marginals of its edges, in float64."""

    def plogp(p: np.ndarray) -> float:
        p = p.astype(float)
        return float((p * np.log(np.where(p > 0, p, 1.0))).sum())

    if len(m.unary) == 1:
        return -plogp(r.marginals)
    return plogp(r.marginals[1:-1]) - plogp(r.pairwise())


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 27), st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.0, 0.3]), st.sampled_from([1.0, 6.0, 300.0]),
)  # fmt: skip
@examples(60)
def test_a_batch_has_the_bits_of_each_alone(
    seed: int, labels: int, dtype: Any, forbid: float, size: float
) -> None:
    rng = np.random.default_rng(seed)
    lengths = [int(x) for x in rng.integers(0, 30, rng.integers(1, 40))]
    m = model_of(rng, labels, lengths, dtype, forbid, size)
    r = vs.infer(m, threads=1)
    entropy = r.entropy(threads=1)
    np.testing.assert_array_equal(r.entropy(threads=3), entropy)
    edge, first = 0, 0
    for b, n in enumerate(lengths):
        if n == 0:
            continue
        one = alone(m, b)
        s = vs.infer(one, threads=1)
        assert entropy[b] == s.entropy(threads=1)[0]
        found = {"atol": (1e-3 if dtype is np.float32 else 1e-9) * size, "rtol": 1e-3}
        np.testing.assert_allclose(entropy[b], entropy_of(one, s), **found)
        np.testing.assert_array_equal(r.marginals[first : first + n], s.marginals)
        assert r.log_z[b] == s.log_z[0]
        within = {"rtol": 1e-4, "atol": 1e-3} if dtype is np.float32 else {"rtol": 1e-11}
        np.testing.assert_allclose(s.log_z[0], log_z_of(one), **within)
        np.testing.assert_array_equal(
            r.pairwise(edges=slice(edge, edge + n - 1)), s.pairwise(edges=slice(0, n - 1))
        )
        first, edge = first + n, edge + n - 1
    for threads in (2, 3):
        t = vs.infer(m, threads=threads)
        np.testing.assert_array_equal(t.marginals, r.marginals)
        np.testing.assert_array_equal(t.log_z, r.log_z)


@pytest.mark.parametrize("labels", [2, 9, 24, 25])
def test_narrowed_to_float32(labels: int, rng: np.random.Generator) -> None:
    """`tol` computes in float32, and its proof holds; alone as side by side."""
    lengths = [12] * 40
    m = model_of(rng, labels, lengths, float, 0.1, 1.0)
    want = vs.infer(m).marginals
    r = vs.infer(m, tol=1e-2)
    assert np.abs(r.marginals - want).max() <= r.error.max() <= 1e-2
    assert (r.lower <= want).all()
    assert (want <= r.upper).all()
    for b in (0, 17):
        s = vs.infer(alone(m, b), tol=1e-2)
        rows = slice(12 * b, 12 * b + 12)
        assert np.abs(s.marginals - want[rows]).max() <= 1e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labels", [2, 5, 16])
def test_a_long_chain_that_is_cut(labels: int, dtype: Any, rng: np.random.Generator) -> None:
    """Chunks lie side by side, with the tables behind their own part; each thread has its bits."""
    m = model_of(rng, labels, [9000], dtype, 0.05, 1.0)
    whole = uncut(lambda: vs.infer(m, threads=1))
    r = vs.infer(m, threads=1)
    within = 1e-5 if dtype is np.float32 else 1e-12
    assert np.abs(r.marginals - whole.marginals).max() <= within
    np.testing.assert_allclose(r.log_z, whole.log_z, rtol=1e-6 if dtype is np.float32 else 1e-12)
    np.testing.assert_array_equal(vs.infer(m, threads=2).marginals, r.marginals)


def best_of(m: vs.Chain) -> tuple[float, list[int]]:
    """Return the score and the states of the best, the lowest labels first where some tie."""
    unary = m.unary if m.allowed is None else np.where(m.allowed, m.unary, -np.inf)
    v, before = unary[0] + m.start, []
    for i in range(1, len(unary)):
        every = v[:, None] + m.transition[i - 1]
        before.append(every.argmax(axis=0))
        u = unary[i] + m.end if i == len(unary) - 1 else unary[i]
        v = every.max(axis=0) + u
    if len(unary) == 1:
        v = v + m.end
    states = [int(v.argmax())]
    for b in reversed(before):
        states.append(int(b[states[-1]]))
    return float(v.max()), states[::-1]


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 27), st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.0, 0.3]),
)  # fmt: skip
@examples(60)
def test_best_states_side_by_side(seed: int, labels: int, dtype: Any, forbid: float) -> None:
    """Halves are summed without rounding, and tie often."""
    rng = np.random.default_rng(seed)
    lengths = [int(x) for x in rng.integers(0, 30, rng.integers(1, 40))]
    m = model_of(rng, labels, lengths, dtype, forbid, 1.0)
    whole = [np.round(2 * x) / 2 for x in (m.unary, m.transition, m.start, m.end)]
    m = vs.Chain(
        whole[0], whole[1], lengths, start=whole[2], end=whole[3], allowed=m.allowed
    )  # fmt: skip
    d = vs.decode(m, threads=1)
    first = 0
    for b, n in enumerate(lengths):
        if n == 0:
            continue
        one = alone(m, b)
        score, states = best_of(one)
        assert d.score[b] == score == vs.decode(one).score[0]
        np.testing.assert_array_equal(d.states[first : first + n], states)
        np.testing.assert_array_equal(vs.decode(one).states, states)
        first += n
    np.testing.assert_array_equal(vs.decode(m, threads=3).states, d.states)
    best = vs.decode(m, n_best=2)
    np.testing.assert_array_equal(best.states[0], d.states)


@pytest.mark.parametrize("labels", [2, 5, 24])
def test_best_states_of_a_long_chain(labels: int, rng: np.random.Generator) -> None:
    m = model_of(rng, labels, [9000], float, 0.05, 1.0)
    whole = uncut(lambda: vs.decode(m, threads=1))
    found = vs.decode(m, threads=1)
    np.testing.assert_array_equal(found.states, whole.states)
    np.testing.assert_array_equal(found.score, whole.score)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labels", [1, 2, 7, 9, 24, 25])
def test_samples_are_those_of_the_shared_table(
    labels: int, dtype: Any, rng: np.random.Generator
) -> None:
    """The same table at each edge draws the same states by the same seed, in any company."""
    lengths = [int(x) for x in rng.integers(0, 30, 60)]
    m = model_of(rng, labels, lengths, dtype, 0.2, 2.0)
    table = m.transition[0]
    plain = vs.Chain(m.unary, table, lengths, start=m.start, end=m.end, allowed=m.allowed)
    own = vs.Chain(
        m.unary, np.tile(table, (len(m.transition), 1, 1)), lengths, start=m.start, end=m.end,
        allowed=m.allowed,
    )  # fmt: skip
    drawn = vs.sample(own, 3, rng=0, threads=1)
    np.testing.assert_array_equal(drawn, vs.sample(plain, 3, rng=0, threads=1))
    np.testing.assert_array_equal(drawn, vs.sample(own, 3, rng=0, threads=3))


@pytest.mark.parametrize("labels", [2, 9])
def test_samples_follow_the_tables_of_their_edges(labels: int) -> None:
    """Frequencies of pairs at two edges whose tables differ, within five deviations."""
    rng = np.random.default_rng(7)
    m = model_of(rng, labels, [3] * 20, float, 0.2, 1.0)
    pairs = vs.infer(m).pairwise()
    size = 4000
    drawn = vs.sample(m, size, rng=1).reshape(size, 20, 3)
    for b in (0, 7, 19):
        for i in (0, 1):
            found = np.zeros((labels, labels))
            np.add.at(found, (drawn[:, b, i], drawn[:, b, i + 1]), 1 / size)
            p = pairs[2 * b + i]
            assert (np.abs(found - p) < 5 * np.sqrt(p * (1 - p) / size) + 1e-9).all()


@pytest.mark.parametrize("labels", [2, 9])
def test_samples_of_a_long_chain_that_is_cut(labels: int, rng: np.random.Generator) -> None:
    m = model_of(rng, labels, [9000, 40], float, 0.05, 1.0)
    table = m.transition[0]
    own = vs.Chain(m.unary, np.tile(table, (len(m.transition), 1, 1)), m.lengths)
    drawn = vs.sample(own, 2, rng=0, threads=1)
    plain = vs.Chain(m.unary, table, m.lengths)
    np.testing.assert_array_equal(drawn, vs.sample(plain, 2, rng=0, threads=1))
    np.testing.assert_array_equal(drawn, uncut(lambda: vs.sample(own, 2, rng=0, threads=1)))


class NextToOne(np.random.Generator):
    """Draws the largest number below 1, mostly."""

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if out is None:
            out = np.empty(size)
        super().random(out=out)
        out[out < 0.7] = np.nextafter(1.0, 0.0)
        return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labels", [2, 5, 8, 9, 16, 17, 24])
def test_samples_by_numbers_next_to_one(labels: int, dtype: Any, rng: np.random.Generator) -> None:
    """Lanes that are drawn apart have the tables of their edges, too."""
    lengths = [6] * 40
    m = model_of(rng, labels, lengths, dtype, 0.2, 1.0)
    own = vs.Chain(
        m.unary, np.tile(m.transition[0], (len(m.transition), 1, 1)), lengths, allowed=m.allowed
    )
    plain = vs.Chain(m.unary, m.transition[0], lengths, allowed=m.allowed)
    drawn, wanted = (
        vs.sample(x, 5, NextToOne(np.random.PCG64(3)), threads=1) for x in (own, plain)
    )
    np.testing.assert_array_equal(drawn, wanted)
    mixed = vs.sample(m, 5, NextToOne(np.random.PCG64(3)), threads=1)
    for states in mixed:
        assert np.isfinite(vs.log_prob(m, states)).all()
