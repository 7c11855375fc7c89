"""Exact inference against enumeration and long-double recursions (SMM11, section 2)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from checks import assert_exact, assert_same_result, chain, refused
from hypothesis import given
from oracles import (
    LONG_IS_LONGER,
    Arrays,
    enumerate_chain,
    first_infeasible,
    sequences,
    single,
    slices_of,
    solve,
    tolerance,
)
from strategies import bio_transitions, chains, examples, random_chain

import valuesparse as vs

pytestmark = pytest.mark.simd


@given(chains())
@examples(1000)
def test_ragged_batches(model: Arrays) -> None:
    dead = first_infeasible(model)
    if dead is not None:
        with refused(vs.InfeasibleError) as info:
            vs.infer(chain(model))
        assert (info.value.sequence, info.value.position) == dead
        return
    assert_exact(model, vs.infer(chain(model)))


@given(chains(max_labels=5, max_length=5, max_sequences=2))
@examples(1000)
def test_enumeration(model: Arrays) -> None:
    # With -inf and scores of +-10,000; multiples of 1/8, so that the problem is well-conditioned.
    if first_infeasible(model) is not None:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(chain(model))
        return
    r = vs.infer(chain(model))
    tol = tolerance(model, 0)
    for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
        if len(seq.local):
            listing = enumerate_chain(seq)
            np.testing.assert_allclose(r.marginals[rows], listing.marginals.astype(float), atol=tol)
            assert abs(r.log_z[b] - listing.log_z) <= tol * (1 + abs(listing.log_z))


@pytest.mark.parametrize(
    "k", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 22, 31, 32, 33, 45, 49, 63, 64, 65, 95]
)
def test_every_tail_of_every_vector_width(k: int, rng: np.random.Generator, dtype: type) -> None:
    for per_edge in (False, True):
        model = random_chain(
            rng, [1, 2, 9, 0, 4], k, forbidden=0.1, per_edge=per_edge, scale=2, dtype=dtype
        )
        if first_infeasible(model) is None:
            assert_exact(model, vs.infer(chain(model)))
        model = random_chain(rng, [1, 2, 9, 0, 4], k, per_edge=per_edge, scale=2, dtype=dtype)
        assert_exact(model, vs.infer(chain(model)))


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 40])
def test_every_group_of_sequences(batch: int, rng: np.random.Generator, dtype: type) -> None:
    lengths = rng.integers(0, 30, size=batch)
    model = random_chain(rng, lengths, 6, scale=2, dtype=dtype)
    assert_exact(model, vs.infer(chain(model)))


@pytest.mark.smoke
def test_optional_arguments_one_at_a_time(rng: np.random.Generator, dtype: type) -> None:
    full = random_chain(rng, [4, 1, 3], 3, dtype=dtype)
    allowed = rng.random((8, 3)) > 0.4
    allowed[:, 1] = True
    for extra in (
        {},
        {"start": full.start},
        {"end": full.end},
        {"start": full.start, "end": full.end},
        {"allowed": allowed},
    ):
        model = Arrays(full.unary, full.transition, full.lengths, **extra)
        assert_exact(model, vs.infer(chain(model)))


def test_start_and_end_on_length_one() -> None:
    r = vs.infer(vs.Chain([[0.0, 1.0]], np.full((2, 2), -np.inf), start=[1.0, 0], end=[2.0, 0]))
    np.testing.assert_allclose(r.log_z, np.logaddexp(3, 1), rtol=1e-14)
    assert r.pairwise().shape == (0, 2, 2)


def test_repeated_per_edge_transition_is_the_shared_one(rng: np.random.Generator) -> None:
    model = random_chain(rng, [5, 3], 4)
    each = Arrays(
        model.unary, np.repeat(model.transition[None], 6, 0), model.lengths, model.start, model.end
    )
    a, b = vs.infer(chain(model)), vs.infer(chain(each))
    np.testing.assert_allclose(a.marginals, b.marginals, atol=1e-13)
    np.testing.assert_allclose(a.log_z, b.log_z, atol=1e-12)


def test_direction_of_transition() -> None:
    # Only 0 -> 1 is possible: [from, to].
    transition = np.full((2, 2), -np.inf)
    transition[0, 1] = 0
    r = vs.infer(vs.Chain(np.zeros((2, 2)), transition))
    np.testing.assert_array_equal(r.marginals, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(r.pairwise()[0], [[0, 1], [0, 0]])


# --------------------------------------------------------------------------------------- counting


@pytest.mark.parametrize("k", [1, 2, 3, 10, 45, 64, 100])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 1000])
def test_unit_potentials_count_configurations(k: int, n: int, dtype: type) -> None:
    r = vs.infer(vs.Chain(np.zeros((n, k), dtype), np.zeros((k, k), dtype)))
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(r.log_z, n * math.log(k), rtol=rtol)
    np.testing.assert_allclose(r.marginals, 1 / k, rtol=rtol)


@pytest.mark.parametrize("n", [1, 2, 10, 300, 3000])
def test_forbidden_transitions_count_paths(n: int, dtype: type) -> None:
    transition, start = bio_transitions(3, dtype)
    r = vs.infer(vs.Chain(np.zeros((n, 7), dtype), transition, start=start))
    ways = [0 if s else 1 for s in start == -np.inf]
    open_ = transition == 0
    for _ in range(n - 1):
        ways = [sum(w for w, ok in zip(ways, open_[:, j], strict=True) if ok) for j in range(7)]
    np.testing.assert_allclose(
        r.log_z, math.log(sum(ways)), rtol=1e-12 if dtype != np.float32 else 1e-6
    )


# ------------------------------------------------------------------------------------- odd sizes


def test_no_sequences_and_no_rows(dtype: type) -> None:
    square = np.zeros((3, 3), dtype)
    for lengths in ([], [0], [0, 0, 0], None):
        r = vs.infer(vs.Chain(np.zeros((0, 3), dtype), square, lengths=lengths))
        b = 1 if lengths is None else len(lengths)
        assert r.marginals.shape == (0, 3)
        assert r.marginals.dtype == dtype
        np.testing.assert_array_equal(r.log_z, np.zeros(b))
        assert r.pairwise().shape == (0, 3, 3)
        np.testing.assert_array_equal(r.expectations(), np.zeros((3, 3)))
        np.testing.assert_array_equal(r.entropy(), np.zeros(b))
        assert r.islands.shape == (0,)


def test_empty_sequences_anywhere(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [0, 3, 0, 0, 2, 0], 3, per_edge=True, dtype=dtype)
    r = vs.infer(chain(model))
    assert_exact(model, r)
    np.testing.assert_array_equal(r.log_z[[0, 2, 3, 5]], 0)


def test_one_label(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [5, 0, 1, 100], 1, scale=100, dtype=dtype)
    r = vs.infer(chain(model))
    np.testing.assert_array_equal(r.marginals, 1)
    np.testing.assert_array_equal(r.pairwise(), 1)
    np.testing.assert_allclose(r.entropy(), 0, atol=1e-12)
    want = [sum(float(s.local.sum() + s.edges.sum()) for s in [q]) for q in sequences(model)]
    np.testing.assert_allclose(r.log_z, want, rtol=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("k", [256, 600])
def test_many_labels(k: int, rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [3, 1, 2], k, scale=2, forbidden=0.05, dtype=dtype)
    assert_exact(model, vs.infer(chain(model)))


def test_thousands_of_labels_sum_to_one(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [2], 3000, scale=2, ends=False, dtype=dtype)
    r = vs.infer(chain(model))
    scores = model.unary[0][:, None].astype(float) + model.transition + model.unary[1]
    joint = np.exp(scores - scores.max())
    joint /= joint.sum()
    np.testing.assert_allclose(r.marginals[0], joint.sum(1), atol=tolerance(model, 0))
    np.testing.assert_allclose(r.marginals[1], joint.sum(0), atol=tolerance(model, 0))


# ------------------------------------------------------------------------------------ long chains


@pytest.mark.skipif(not LONG_IS_LONGER, reason="long double is no longer than double here")
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_long_chain(scale: float, rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [20_000], 4, scale=scale, dtype=dtype)
    assert_exact(model, vs.infer(chain(model)), multiple=4)


@pytest.mark.skipif(not LONG_IS_LONGER, reason="long double is no longer than double here")
def test_hundred_thousand_positions(rng: np.random.Generator) -> None:
    model = random_chain(rng, [100_000], 3, scale=2, forbidden=0.02)
    for row in np.flatnonzero((model.unary == -np.inf).all(axis=1)):
        model.unary[row] = 0
    model.transition[:] = np.where(model.transition == -np.inf, -3, model.transition)
    assert_exact(model, vs.infer(chain(model)), multiple=4)


@pytest.mark.slow
@pytest.mark.skipif(not LONG_IS_LONGER, reason="long double is no longer than double here")
def test_million_positions(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [1_000_000], 3, scale=3, dtype=dtype)
    answer = solve(model)
    r = vs.infer(chain(model))
    np.testing.assert_allclose(r.marginals, answer.marginals, atol=tolerance(model, 0))
    np.testing.assert_allclose(r.log_z, answer.log_z, rtol=1e-12 if dtype != np.float32 else 1e-6)


def test_a_chain_that_never_forgets(dtype: type) -> None:
    # Identity transitions: the answer is the softmax of column sums, here known exactly.
    n, k = 50_000, 3
    transition = np.where(np.eye(k, dtype=bool), 0, -np.inf).astype(dtype)
    unary = np.zeros((n, k), dtype)
    unary[::2, 0], unary[1::2, 0] = 0.5, -0.5
    unary[: n // 2, 1], unary[n // 2 :, 1] = 4.0, -4.0
    unary[0, 2] = 1.0
    r = vs.infer(vs.Chain(unary, transition))
    want = np.exp([0.0, 0.0, 1.0]) / (2 + np.e)
    np.testing.assert_allclose(
        r.marginals, np.tile(want, (n, 1)), atol=tolerance(Arrays(unary[:1], transition), 0)
    )
    np.testing.assert_allclose(
        r.log_z, np.log(2 + np.e), atol=1e-9 if dtype != np.float32 else 1e-4
    )


def test_large_offsets_do_not_matter(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [200], 5, dtype=np.float64)
    model.unary[:] = np.round(model.unary * 8) / 8
    model.transition[:] = np.round(model.transition * 8) / 8
    base = vs.infer(vs.Chain(model.unary.astype(dtype), model.transition.astype(dtype)))
    for offset in (10_000.0, -10_000.0):
        moved = vs.infer(
            vs.Chain((model.unary + offset).astype(dtype), model.transition.astype(dtype))
        )
        tol = tolerance(Arrays(base.marginals, model.transition), 0)
        np.testing.assert_allclose(moved.marginals, base.marginals, atol=tol)
        np.testing.assert_allclose(
            moved.log_z, base.log_z + 200 * offset, rtol=1e-12 if dtype != np.float32 else 1e-6
        )


# ------------------------------------------------------------------------------------- same bits


@pytest.mark.parametrize("zeta", [1.0, 0.8])
@pytest.mark.parametrize("per_edge", [False, True])
def test_a_sequence_does_not_notice_its_batch(
    zeta: float, per_edge: bool, rng: np.random.Generator, dtype: type
) -> None:
    lengths = [3, 0, 17, 1, 40, 2, 2, 8, 9, 64, 5, 33]
    model = random_chain(rng, lengths, 7, scale=3, per_edge=per_edge, dtype=dtype)
    # One sequence underflows: its neighbours must not be redone differently for it.
    model.unary[slices_of(model)[4]][::2, :3] -= 10_000
    whole = vs.infer(chain(model), zeta=zeta)
    pairwise = whole.pairwise()
    edge = 0
    for b, rows in enumerate(slices_of(model)):
        alone = vs.infer(chain(single(model, b)), zeta=zeta)
        assert alone.marginals.tobytes() == whole.marginals[rows].tobytes(), b
        assert alone.log_z.tobytes() == whole.log_z[b : b + 1].tobytes(), b
        np.testing.assert_array_equal(alone.islands, whole.islands[rows])
        edges = max(0, lengths[b] - 1)
        assert alone.pairwise().tobytes() == pairwise[edge : edge + edges].tobytes(), b
        assert alone.entropy().tobytes() == whole.entropy()[b : b + 1].tobytes(), b
        edge += edges


def test_twice_the_same_call_gives_the_same_bits(rng: np.random.Generator, dtype: type) -> None:
    model = chain(random_chain(rng, [30, 0, 5, 100], 9, dtype=dtype))
    assert_same_result(vs.infer(model), vs.infer(model))


def test_forced_method_is_the_automatic_one(rng: np.random.Generator, dtype: type) -> None:
    model = chain(random_chain(rng, [30, 5], 9, dtype=dtype))
    a, b = vs.infer(model), vs.infer(model, method="exact")
    assert a.marginals.tobytes() == b.marginals.tobytes()
    assert b.method == "exact"


@pytest.mark.parametrize("labels", [361, 1100])
def test_many_sequences_side_by_side_change_no_bit(
    labels: int, rng: np.random.Generator, dtype: type
) -> None:
    lengths = rng.integers(1, 4, 35)
    unary = rng.normal(size=(lengths.sum(), labels)).astype(dtype)
    table = rng.normal(size=(labels, labels)).astype(dtype)
    r = vs.infer(vs.Chain(unary, table, lengths=lengths), threads=2)
    first = 0
    for s, n in enumerate(lengths[:6]):
        alone = vs.infer(vs.Chain(unary[first : first + n], table))
        np.testing.assert_array_equal(alone.marginals, r.marginals[first : first + n])
        assert alone.log_z[0] == r.log_z[s]
        first += n
