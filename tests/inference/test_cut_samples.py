"""Samples of long chains in chunks: those of a pass over the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from checks import Given, assert_same_bits, chain, refused
from hypothesis import given
from hypothesis import strategies as st
from oracles import Arrays, first_infeasible
from strategies import chains, examples, random_chain

import valuesparse as vs
from valuesparse import _forest as native
from valuesparse.schedule import Kind, record, simulate

pytestmark = pytest.mark.simd

#: How far a uniform may be from where its draw changes, which rounding decides.
NEAR = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-4}


@pytest.fixture(autouse=True)
def _rule() -> Iterator[None]:
    yield
    native.cut_chains()


def uncut(model: vs.Chain, *args: Any, **options: Any) -> np.ndarray:
    """Return samples that passes over whole sequences draw."""
    native.cut_chains(-1)
    try:
        return vs.sample(model, *args, **options)
    finally:
        native.cut_chains()


def kinds(model: vs.Chain, size: int = 1) -> list[set[int]]:
    """Return which kinds of tasks each plan of a call has."""
    with record() as run:
        vs.sample(model, size, 0)
    assert {p.label for p in run} <= {"sample", "pack"}
    return [set(p.kind) for p in run if p.label == "sample"]


def kinds_of_last(model: vs.Chain) -> set[int]:
    """Return the kinds of tasks in the last plan of a call."""
    with record() as run:
        vs.sample(model, 1, 0)
    return set(run[-1].kind)


def between(unary: np.ndarray, table: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the sums of weights before and up to each state, divided by all: (2, n).

    Weights are those of backward sampling, x_i ~ alpha_i(.) exp t(., x_{i+1}).
    """
    psi = np.exp(unary.astype(float) - unary.max(axis=1, keepdims=True))
    e = np.exp(table.astype(float))
    alpha = np.empty_like(psi)
    for i, row in enumerate(psi):
        alpha[i] = row * (alpha[i - 1] @ e) if i else row
        alpha[i] /= alpha[i].sum()
    weights = alpha
    weights[:-1] *= e[:, states[1:]].T
    sums = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    rows = np.arange(len(states))
    return np.stack([np.where(states > 0, sums[rows, states - 1], 0.0), sums[rows, states]])


def assert_drawn(model: vs.Chain, u: np.ndarray, x: np.ndarray) -> None:
    """Each state is the one that its uniform and the state after it ask for."""
    near = NEAR[model.dtype]
    for numbers, states in zip(u, x, strict=True):
        low, high = between(model.unary, model.transition, states)
        assert (low - near <= numbers).all()
        assert (numbers <= high + near).all()


def mixing(
    rng: np.random.Generator, n: int, k: int, dtype: Any = float, *, of: float = 1.0
) -> vs.Chain:
    unary, table = of * rng.normal(size=(n, k)), rng.normal(size=(k, k))
    return vs.Chain(unary.astype(dtype), table.astype(dtype))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("k", [1, 2, 3, 9, 16, 49, 70])
def test_each_state_is_what_its_uniform_asks_for(
    rng: np.random.Generator, dtype: type, k: int, size: int
) -> None:
    n = 6000
    model, u = mixing(rng, n, k, dtype), rng.random((size, n))
    x = vs.sample(model, size, Given(u), threads=1)
    assert_drawn(model, u, x)
    for threads in (2, 3, 8):
        assert_same_bits(vs.sample(model, size, Given(u), threads=threads), x)
    if dtype is np.float64:
        assert_same_bits(x, uncut(model, size, Given(u)))


@pytest.mark.parametrize("n", [4095, 4096, 4097, 4200])
def test_lengths_around_the_shortest_that_is_cut(rng: np.random.Generator, n: int) -> None:
    model, u = mixing(rng, n, 3, of=3.0), rng.random((2, n))
    assert kinds(model) == [{Kind.CHUNKS if n >= 4096 else Kind.SEQUENCES}]
    x = vs.sample(model, 2, Given(u))
    assert_drawn(model, u, x)
    assert_same_bits(x, uncut(model, 2, Given(u)))


@given(
    chains(max_labels=4, max_length=12), st.integers(1, 4), st.integers(1, 3), st.integers(1, 10)
)
@examples(400)
def test_tiny_chunks(model: Arrays, chunk: int, run_in: int, size: int) -> None:
    """Chunks of which most are done again: −inf, 10,000s, masks, float32, K = 1."""
    made, n = chain(model), len(model.unary)
    native.cut_chains(2, chunk, run_in)
    if first_infeasible(model) is not None:
        with refused(vs.InfeasibleError):
            vs.sample(made, size, 0)
        return
    u = np.random.default_rng(n).random((size, n))
    x = vs.sample(made, size, Given(u), threads=2)
    assert_same_bits(x, vs.sample(made, size, Given(u), threads=1))
    for row in x[:2]:
        assert (vs.log_prob(made, row) > -np.inf).all()
    if made.dtype == np.float64:
        assert_same_bits(x, uncut(made, size, Given(u)))


@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize("k", [2, 5, 12, 49])
def test_short_chunks(rng: np.random.Generator, k: int, size: int) -> None:
    """States are drawn again until they meet others, and where they do not, all of a chunk."""
    model, u = mixing(rng, 3000, k, of=0.3), rng.random((size, 3000))
    want = uncut(model, size, Given(u))
    for chunk, run_in in ((90, 40), (40, 40), (200, 2), (30, 1)):
        native.cut_chains(100, chunk, run_in)
        for threads in (1, 2):
            assert_same_bits(vs.sample(model, size, Given(u), threads=threads), want)


@pytest.mark.parametrize("size", [1, 3])
def test_states_that_do_not_meet(rng: np.random.Generator, size: int) -> None:
    model = vs.Chain(0.01 * rng.normal(size=(6000, 3)), np.where(np.eye(3) > 0, 7.0, 0.0))
    want = uncut(model, size, 4)
    native.cut_chains(100, 150, 5)
    for threads in (1, 2):
        assert_same_bits(vs.sample(model, size, 4, threads=threads), want)


@pytest.mark.parametrize(
    ("table", "cut"),
    [
        (np.log(np.eye(3)[[1, 2, 0]] + 1e-300), False),
        (np.where(np.eye(3) > 0, 0.0, -np.inf), False),
        (np.zeros((3, 3)), True),
        (np.where(np.eye(3)[[1, 2, 0]] > 0, 1.0, 0.0), True),
        # Messages forget here, but what is drawn by one uniform from two states stays apart.
        (np.where(np.add.outer(np.arange(12), -np.arange(12)) % 12 < 6, 0.0, -9.0), True),
    ],
    ids=["permutation", "identity", "flat", "periodic", "shifts"],
)
def test_tables_of_all_kinds(rng: np.random.Generator, table: np.ndarray, cut: bool) -> None:
    n, k = 6000, len(table)
    with np.errstate(divide="ignore"):
        model = vs.Chain(0.01 * rng.normal(size=(n, k)), table)
    assert kinds(model) == [{Kind.CHUNKS if cut else Kind.SEQUENCES}]
    for size in (1, 10):
        u = rng.random((size, n))
        x = vs.sample(model, size, Given(u), threads=2)
        assert_same_bits(x, uncut(model, size, Given(u)))
        assert_same_bits(x, vs.sample(model, size, Given(u), threads=1))


def test_peaked_scores(rng: np.random.Generator, dtype: type) -> None:
    model, u = mixing(rng, 9000, 6, dtype, of=30.0), rng.random((2, 9000))
    x = vs.sample(model, 2, Given(u))
    assert_same_bits(x, uncut(model, 2, Given(u)))
    assert (x[0] == x[1]).mean() > 0.9


def test_uniforms_at_their_ends(rng: np.random.Generator, dtype: type) -> None:
    model, u = mixing(rng, 6000, 9, dtype), rng.random((2, 6000))
    u[rng.random(u.shape) < 0.1] = np.nextafter(1.0, 0.0)
    u[rng.random(u.shape) < 0.1] = 0.0
    x = vs.sample(model, 2, Given(u))
    assert_drawn(model, u, x)


def test_per_edge_tables_masks_and_ends(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [4200, 30, 5100], 5, scale=2.0, per_edge=True, forbidden=0.05)
    assert first_infeasible(model) is None
    made = chain(model.astype(dtype))
    if dtype is np.float64:  # messages one way do not know enough in float32
        assert kinds(made, 3) == [{Kind.CHUNKS, Kind.SEQUENCES}]
    x = vs.sample(made, 3, 5, threads=2)
    assert_same_bits(x, vs.sample(made, 3, 5, threads=1))
    assert all((vs.log_prob(made, row) > -np.inf).all() for row in x)
    if dtype is np.float64:
        assert_same_bits(x, uncut(made, 3, 5))
    # Nothing in float32 is held at a floor where no entry is so low.
    plain = random_chain(rng, [5000], 5, scale=2.0, per_edge=True)
    assert kinds(chain(plain.astype(dtype)), 3) == [{Kind.CHUNKS}]


def test_tables_with_a_default(rng: np.random.Generator) -> None:
    table = np.zeros((150, 150))
    table[rng.integers(0, 150, 900), rng.integers(0, 150, 900)] = rng.normal(size=900)
    unary = 2 * rng.normal(size=(4500, 150))
    for transition in (table, vs.SparseTransition.of(table)):
        model = vs.Chain(unary, transition)
        assert kinds(model) == [{Kind.CHUNKS}]
        assert_same_bits(vs.sample(model, 2, 3), uncut(model, 2, 3))


def test_scores_that_need_logarithms(rng: np.random.Generator, dtype: type) -> None:
    """They are drawn from as ever: from whole sequences."""
    unary = rng.normal(size=(5000, 4))
    unary[2000:2010] *= 1e4
    model = vs.Chain(unary.astype(dtype), (300 * rng.normal(size=(4, 4))).astype(dtype))
    x = vs.sample(model, 2, 1, threads=2)
    assert_same_bits(x, uncut(model, 2, 1))
    assert_same_bits(x, vs.sample(model, 2, 1, threads=1))


def closed(rng: np.random.Generator, k: int, low: float) -> np.ndarray:
    """Return a table in which nothing leads to label 0, nothing away from the last one."""
    table = rng.normal(size=(k, k))
    table[:, 0] = table[-1] = table[1, 2 % k] = low
    return table


@pytest.mark.parametrize("low", [-40.0, -1e4])
@pytest.mark.parametrize("k", [3, 5, 20, 49, 70])
def test_low_scores_in_place_of_minus_infinity(
    rng: np.random.Generator, dtype: type, k: int, low: float
) -> None:
    """A pass both ways over the chunks tells that floors are nothing; then they are drawn."""
    n = 6000
    model = vs.Chain(rng.normal(size=(n, k)).astype(dtype), closed(rng, k, low).astype(dtype))
    assert kinds_of_last(model) == {Kind.CHUNKS}
    with record() as run:
        vs.sample(model, 2, 1)
    known = dtype is np.float64 and low == -40.0  # messages one way know enough then
    assert [p.label for p in run if p.label == "exact"] == ([] if known else ["exact"])
    u = rng.random((2, n))
    x = vs.sample(model, 2, Given(u), threads=1)
    assert_drawn(model, u, x)
    for threads in (2, 3, 8):
        assert_same_bits(vs.sample(model, 2, Given(u), threads=threads), x)
    if dtype is np.float64:
        assert_same_bits(x, uncut(model, 2, Given(u)))


@pytest.mark.parametrize("low", [-40.0, -300.0, -1e4])
def test_low_scores_that_are_felt(rng: np.random.Generator, dtype: type, low: float) -> None:
    """A chain that has to take what is nearly forbidden is drawn as a whole, others are not."""
    n = 5000
    table = closed(rng, 4, low).astype(dtype)
    unary = rng.normal(size=(2 * n + 50, 4)).astype(dtype)
    unary[2000:2003, 1:] = 8 * low
    model = vs.Chain(unary, table, [n, n, 50])
    seen: list[tuple[float, float]] = []
    x = vs.sample(model, 3, 1, threads=2, progress=lambda *at: seen.append(at))
    assert (x[:, 2000:2003] == 0).all()
    assert seen[-1][0] == seen[-1][1]
    assert_same_bits(x, vs.sample(model, 3, 1, threads=1))
    u = rng.random((3, 2 * n + 50))
    if dtype is np.float64:
        assert_same_bits(vs.sample(model, 3, Given(u)), uncut(model, 3, Given(u)))
    alone = vs.Chain(unary[n : 2 * n], table)
    together = vs.sample(model, 3, Given(u))[:, n : 2 * n]
    assert_same_bits(vs.sample(alone, 3, Given(u[:, n : 2 * n].copy())), together)


def test_low_scores_of_each_edge(rng: np.random.Generator, dtype: type) -> None:
    n, k = 5000, 5
    tables = rng.normal(size=(n - 1, k, k))
    tables[:, :, 0] = tables[:, -1] = -1e4
    model = vs.Chain(rng.normal(size=(n, k)).astype(dtype), tables.astype(dtype))
    assert kinds_of_last(model) == {Kind.CHUNKS}
    u = rng.random((2, n))
    x = vs.sample(model, 2, Given(u), threads=2)
    assert_same_bits(x, vs.sample(model, 2, Given(u), threads=1))
    if dtype is np.float64:
        assert_same_bits(x, uncut(model, 2, Given(u)))


@pytest.mark.parametrize("size", [1, 4])
def test_nothing_else_shows(rng: np.random.Generator, dtype: type, size: int) -> None:
    """Samples are the same for any number of threads, and whatever else is in the batch."""
    alone = mixing(rng, 20_000, 6, dtype)
    other = rng.normal(size=(4500, 6)).astype(dtype)
    u = rng.random((size, 24_550))
    want = vs.sample(alone, size, Given(u[:, 4500:24_500]), threads=1)
    unary = np.concatenate([other, alone.unary, other[:50]])
    batch = vs.Chain(unary, alone.transition, [4500, 20_000, 50])
    for threads in (1, 2, 3, 8):
        assert_same_bits(vs.sample(batch, size, Given(u), threads=threads)[:, 4500:24_500], want)


def test_a_chunk_that_is_stuck_is_done_again(rng: np.random.Generator) -> None:
    """Influence dies, but in one place."""
    unary = 8 * rng.normal(size=(60_000, 3))
    unary[24_000:27_000] = 1e-3 * rng.normal(size=(3000, 3))
    model = vs.Chain(unary, np.where(np.eye(3) > 0, 6.0, 0.0))
    assert kinds(model) == [{Kind.CHUNKS}]
    for threads in (1, 2):
        assert_same_bits(vs.sample(model, 2, 1, threads=threads), uncut(model, 2, 1))


@pytest.mark.parametrize("at", [0, 3210, 9999])
def test_impossible_chains(rng: np.random.Generator, at: int) -> None:
    unary = rng.normal(size=(10_000, 4))
    unary[at] = -np.inf
    with refused(vs.InfeasibleError) as info:
        vs.sample(vs.Chain(unary, rng.normal(size=(4, 4))), 1, 0)
    assert (info.value.sequence, info.value.position) == (0, at)


def test_many_cores_share_one_chain(rng: np.random.Generator) -> None:
    model = mixing(rng, 1_000_000, 2, of=3.0)
    with record(serial=True) as run:
        vs.sample(model, 1, 0, threads=1)
    (p,) = [p for p in run if p.label == "sample"]
    assert simulate(p, 8).speedup >= 7.5
    assert simulate(p, 16).speedup >= 14


def test_deadline_and_progress(rng: np.random.Generator) -> None:
    model = mixing(rng, 200_000, 20)
    for threads in (1, 2):
        with pytest.raises(vs.DeadlineError):
            vs.sample(model, 1, 0, deadline=1e-4, threads=threads)
    seen: list[tuple[float, float]] = []
    vs.sample(model, 1, 0, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert all(done <= total for done, total in seen)
