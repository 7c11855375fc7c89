"""The best states of long chains in chunks: those of a pass over the whole, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits, chain, refused
from hypothesis import given
from hypothesis import strategies as st
from oracles import Arrays, enumerate_chain, first_infeasible, sequences
from strategies import chains, examples, random_chain

import valuesparse as vs
from valuesparse import _forest as native
from valuesparse.schedule import Kind, record, simulate

pytestmark = pytest.mark.simd


@pytest.fixture(autouse=True)
def _rule() -> Iterator[None]:
    yield
    native.cut_chains()


def uncut(model: vs.Chain, **options: Any) -> vs.Decoding:
    """Return what passes over whole sequences say."""
    native.cut_chains(-1)
    try:
        return vs.decode(model, **options)
    finally:
        native.cut_chains()


def kinds(model: vs.Chain, **options: Any) -> list[set[int]]:
    """Return which kinds of tasks each plan of a call has."""
    with record() as run:
        vs.decode(model, **options)
    assert {p.label for p in run} == {"decode"}
    return [set(p.kind) for p in run]


def assert_uncut(model: vs.Chain, want: list[set[int]] | None = None) -> None:
    if want is not None:
        assert kinds(model) == want
    got, all_at_once = vs.decode(model, threads=2), uncut(model)
    assert_same_bits(got.states, all_at_once.states)
    assert_same_bits(got.score, all_at_once.score)


@given(chains(max_labels=4, max_length=12), st.integers(1, 4), st.integers(1, 3))
@examples(400)
def test_tiny_chunks(model: Arrays, chunk: int, run_in: int) -> None:
    """Chunks of which most are done again: −inf, 10,000s, ties, masks, float32, K = 1."""
    made, dead = chain(model), first_infeasible(model)
    native.cut_chains(2, chunk, run_in)
    if dead is not None:
        with refused(vs.InfeasibleError) as info:
            vs.decode(made)
        assert (info.value.sequence, info.value.position) == dead
        return
    got = vs.decode(made, threads=2)
    want = uncut(made)
    assert_same_bits(got.states, want.states)
    assert_same_bits(got.score, want.score)


@given(chains(max_labels=3, max_length=7, max_sequences=2), st.integers(1, 3), st.integers(1, 2))
@examples(200)
def test_the_best_of_all(model: Arrays, chunk: int, run_in: int) -> None:
    if first_infeasible(model) is not None:
        return
    native.cut_chains(2, chunk, run_in)
    got = vs.decode(chain(model))
    for b, one in enumerate(sequences(model)):
        if len(one.local):
            assert got.score[b] == enumerate_chain(one).scores.max()


@pytest.mark.parametrize("k", [1, 2, 3, 8, 45, 130])
def test_against_a_pass_over_the_whole(rng: np.random.Generator, dtype: type, k: int) -> None:
    n = 20_000 if k < 10 else 5000
    unary, table = 3 * rng.normal(size=(n, k)), rng.normal(size=(k, k))
    assert_uncut(vs.Chain(unary.astype(dtype), table.astype(dtype)), [{Kind.CHUNKS}])


@pytest.mark.parametrize("k", [2, 5, 40])
def test_ties(rng: np.random.Generator, dtype: type, k: int) -> None:
    """Small integers: many states are as good as the best, and the lowest one is taken."""
    unary, table = rng.integers(-2, 3, (6000, k)), rng.integers(-1, 2, (k, k))
    model = vs.Chain(unary.astype(dtype), table.astype(dtype))
    assert_uncut(model)
    native.cut_chains(100, 150, 40)
    got = vs.decode(model)
    assert_same_bits(got.states, uncut(model).states)


def test_per_edge_tables_masks_and_ends(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [4200, 30, 5100], 5, scale=2.0, per_edge=True, forbidden=0.05)
    assert first_infeasible(model) is None
    assert_uncut(chain(model.astype(dtype)), [{Kind.CHUNKS, Kind.SEQUENCES}])


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1e4, 1e280])
def test_scores_of_any_size(rng: np.random.Generator, scale: float) -> None:
    assert_uncut(vs.Chain(scale * rng.normal(size=(6000, 6)), scale * rng.normal(size=(6, 6))))


def test_tables_with_a_default(rng: np.random.Generator) -> None:
    table = np.zeros((150, 150))
    table[rng.integers(0, 150, 900), rng.integers(0, 150, 900)] = rng.normal(size=900)
    unary = 2 * rng.normal(size=(4500, 150))
    assert_uncut(vs.Chain(unary, table), [{Kind.CHUNKS}])
    assert_uncut(vs.Chain(unary, vs.SparseTransition.of(table)), [{Kind.CHUNKS}])


@pytest.mark.parametrize("seed", [5, 11])
def test_best_states_that_repeat(seed: int) -> None:
    """Rows from guesses agree where these are a period apart; chains are not passed twice."""
    rng = np.random.default_rng(seed)
    unary, table = 0.1 * rng.normal(size=(10_000, 20)), 3 * rng.normal(size=(20, 20))
    assert_uncut(vs.Chain(unary, table), [{Kind.SEQUENCES}])


def test_bits(rng: np.random.Generator, dtype: type) -> None:
    """The same for any number of threads, and whatever else is in the batch, in any order."""
    unary, table = rng.normal(size=(30_000, 6)).astype(dtype), rng.normal(size=(6, 6)).astype(dtype)
    want = vs.decode(vs.Chain(unary, table), threads=1)
    for threads in (2, 3, 8):
        got = vs.decode(vs.Chain(unary, table), threads=threads)
        assert_same_bits(got.states, want.states)
        assert_same_bits(got.score, want.score)
    other = rng.normal(size=(4500, 6)).astype(dtype)
    batch = vs.Chain(np.concatenate([other, unary, other[:50]]), table, [4500, 30_000, 50])
    got = vs.decode(batch, threads=2)
    assert_same_bits(got.states[4500:34_500], want.states)
    assert_same_bits(got.score[1:2], want.score)


def test_n_best(rng: np.random.Generator) -> None:
    model = vs.Chain(rng.normal(size=(4200, 3)), rng.normal(size=(3, 3)), [4150, 50])
    got, want = vs.decode(model, n_best=2), uncut(model, n_best=2)
    assert_same_bits(got.states, want.states)
    assert_same_bits(got.score, want.score)
    assert_same_bits(got.states[0], vs.decode(model).states)


@pytest.mark.parametrize(
    "table",
    [
        [[0.0, -np.inf], [-np.inf, 0.0]],
        [[-np.inf, 0.0], [0.0, -np.inf]],
        [[0.0, -600.0], [-600.0, 0.0]],
    ],
    ids=["identity", "periodic", "sticky"],
)
def test_influence_that_never_dies_is_not_cut(rng: np.random.Generator, table: Any) -> None:
    model = vs.Chain(0.01 * rng.normal(size=(6000, 2)), np.array(table))
    assert_uncut(model, [{Kind.SEQUENCES}])


def sticky(rng: np.random.Generator, n: int, stuck: Any) -> vs.Chain:
    """Return a chain in which influence dies, but in some places."""
    unary = 8 * rng.normal(size=(n, 3))
    unary[stuck] = 1e-3 * rng.normal(size=unary[stuck].shape)
    return vs.Chain(unary, np.where(np.eye(3) > 0, 6.0, 0.0))


@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_that_are_wrong_are_done_again(rng: np.random.Generator, threads: int) -> None:
    model = sticky(rng, 60_000, slice(24_000, 27_000))
    with record() as run:
        got = vs.decode(model, threads=threads)
    assert [set(p.kind) for p in run] == [{Kind.CHUNKS}]
    want = uncut(model)
    assert_same_bits(got.states, want.states)
    assert_same_bits(got.score, want.score)


def test_a_chain_that_is_wrong_in_most_places_is_not_cut_after_all(
    rng: np.random.Generator,
) -> None:
    """Probes have missed what most of the cuts see."""
    n, farthest = 60_000, 60_000 // 256
    stuck = np.ones(n, bool)
    for q in range(4):
        at = (n - 24 - farthest - 1) * (2 * q + 1) // 8
        stuck[at : at + 24 + farthest] = False
    assert_uncut(sticky(rng, n, stuck), [{Kind.CHUNKS}, {Kind.SEQUENCES}])


def test_rows_that_do_not_agree_would_be_seen(rng: np.random.Generator) -> None:
    """The comparison is what makes it exact: where it lets too much pass, the answer is wrong."""
    model = vs.Chain(rng.normal(size=(6000, 4)), np.where(np.eye(4) > 0, 4.0, 0.0))
    want = uncut(model).states
    native.cut_chains(100, 100, 3)
    assert_same_bits(vs.decode(model).states, want)
    native.cut_chains(100, 100, 3, 1e3)
    assert (vs.decode(model).states != want).any()


@pytest.mark.parametrize("at", [0, 3210, 9999])
def test_impossible_chains(rng: np.random.Generator, at: int) -> None:
    unary = rng.normal(size=(10_000, 4))
    unary[at] = -np.inf
    with refused(vs.InfeasibleError) as info:
        vs.decode(vs.Chain(unary, rng.normal(size=(4, 4))))
    assert (info.value.sequence, info.value.position) == (0, at)


def test_many_cores_share_one_chain(rng: np.random.Generator) -> None:
    model = vs.Chain(3 * rng.normal(size=(1_000_000, 2)), rng.normal(size=(2, 2)))
    with record(serial=True) as run:
        vs.decode(model, threads=1)
    (p,) = run
    assert p.total_cost < 1.01 * 1_000_000  # what runs in
    assert simulate(p, 8).speedup >= 7.5
    assert simulate(p, 16).speedup >= 14


def test_deadline(rng: np.random.Generator) -> None:
    model = vs.Chain(3 * rng.normal(size=(200_000, 20)), rng.normal(size=(20, 20)))
    for threads in (1, 2):
        with pytest.raises(vs.DeadlineError):
            vs.decode(model, deadline=1e-4, threads=threads)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_n_best_of_a_chain_in_chunks(dtype: type) -> None:
    rng = np.random.default_rng(0)
    made = chain(random_chain(rng, [30_000, 20, 9_000], 5, dtype=dtype))
    expected = uncut(made, n_best=4)
    for threads in (1, 2, 3):
        got = vs.decode(made, n_best=4, threads=threads)
        assert_same_bits(got.states, expected.states)
        assert_same_bits(got.score, expected.score)
    assert_same_bits(expected.states[0], uncut(made).states)
