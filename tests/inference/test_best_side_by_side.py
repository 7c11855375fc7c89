"""The best states of few labels: sequences, or chunks, in the lanes of vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from checks import assert_same_bits, chain, refused
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    Arrays,
    configuration_scores,
    enumerate_chain,
    first_infeasible,
    sequences,
    slices_of,
)
from strategies import LANE_LENGTHS, chains, examples, random_chain

import valuesparse as vs

pytestmark = pytest.mark.simd
#: On both sides of what one register looks up, two, and what goes side by side at all.
LABELS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 25, 28, 29, 49, 56, 57]


def local_scores(one: Arrays) -> np.ndarray:
    """Return the scores of states of one sequence, added up in the type of its arrays."""
    local = one.unary.copy()
    if len(local):
        for at, row in ((0, one.start), (-1, one.end)):
            if row is not None:
                local[at] += row
    return local if one.allowed is None else np.where(one.allowed, local, -np.inf)


def best_states(one: Arrays) -> np.ndarray:
    """Return the best states of one sequence: the first among equals, from the end on.

    Rows are less their largest entry, as docs/chains.md has it.
    """
    local = local_scores(one)
    rows = list[np.ndarray]()
    for scores in local:
        v = scores if not rows else scores + (rows[-1][:, None] + one.transition).max(axis=0)
        rows.append(v - v.max())
    states = np.empty(len(rows), dtype=np.int64)
    for i in reversed(range(len(rows))):
        follows = i + 1 < len(rows)
        states[i] = np.argmax(rows[i] + one.transition[:, states[i + 1]] if follows else rows[i])
    return states


def assert_as_alone(model: Arrays) -> None:
    each = [model.sequence(at) for at in range(len(model.lengths))]
    alone = [vs.decode(chain(one), threads=1) for one in each]
    for threads in (1, 3):
        got = vs.decode(chain(model), threads=threads)
        assert_same_bits(got.states, np.concatenate([d.states for d in alone]))
        assert_same_bits(got.score, np.concatenate([d.score for d in alone]))
    np.testing.assert_array_equal(got.states, np.concatenate([best_states(one) for one in each]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", LABELS)
def test_as_each_alone(k: int, dtype: type) -> None:
    rng = np.random.default_rng(k)
    for lengths in LANE_LENGTHS:
        for scale, masks in ((1.0, False), (300.0, False), (1.0, k > 6)):
            assert_as_alone(
                random_chain(rng, lengths, k, scale=scale, masks=masks, ends=masks, dtype=dtype)
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", LABELS)
def test_the_first_among_equals(k: int, dtype: type) -> None:
    rng = np.random.default_rng(k)
    for lengths in LANE_LENGTHS:
        model = random_chain(rng, lengths, k, dtype=dtype)
        model.unary[:] = rng.integers(-1, 2, model.unary.shape)
        model.transition[:] = rng.integers(-1, 2, model.transition.shape)
        model.unary[rng.random(len(model.unary)) < 0.3] = rng.choice([0.0, -0.0])
        assert_as_alone(replace(model, start=None, end=None))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("forbidden", "extreme"), [(0.02, 0.0), (0.2, 0.0), (0.0, 0.1)])
def test_what_is_forbidden_and_far_apart(forbidden: float, extreme: float, dtype: type) -> None:
    rng = np.random.default_rng(1)
    held = 0
    for k in LABELS[1:]:
        for lengths in LANE_LENGTHS:
            model = random_chain(rng, lengths, k, forbidden=forbidden, extreme=extreme, dtype=dtype)
            if first_infeasible(model) is None:
                assert_as_alone(model)
                held += 1
    assert held > 40


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_lane_in_which_all_is_forbidden(dtype: type) -> None:
    rng = np.random.default_rng(2)
    for k in (2, 9, 20):
        for dead in (0, 3, 7):
            model = random_chain(rng, [11, 10, 10, 9, 9, 8, 8, 6], k, dtype=dtype)
            at = int(model.lengths[:dead].sum())
            model.unary[at + 4] = -np.inf
            with refused(vs.InfeasibleError) as info:
                vs.decode(chain(model))
            assert (info.value.sequence, info.value.position) == (dead, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [64, 130, 261, 520])
@pytest.mark.parametrize("peak", [0.0, 12.0])
def test_rows_of_many_labels_share_a_reading_of_the_table(peak: float, k: int, dtype: type) -> None:
    """Some messages need all rows of the table, others a few: their sequences go on together."""
    rng = np.random.default_rng(k)
    model = random_chain(rng, [25] * 7 + [14] * 6 + [3] * 5, k, forbidden=0.01, dtype=dtype)
    peaked = rng.random(len(model.unary)) < 0.6
    model.unary[peaked, rng.integers(0, k, peaked.sum())] += peak
    assert_as_alone(model)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 4, 5, 8, 9, 16, 17, 28, 29, 57])
def test_the_n_best_as_each_alone(k: int, dtype: type) -> None:
    rng = np.random.default_rng(k)
    for lengths in LANE_LENGTHS:
        for forbidden, masks in ((0.0, False), (0.02, False), (0.0, True)):
            model = random_chain(rng, lengths, k, forbidden=forbidden, masks=masks, dtype=dtype)
            if first_infeasible(model) is not None:
                continue
            each = [chain(model.sequence(at)) for at in range(len(model.lengths))]
            alone = [vs.decode(one, n_best=4, threads=1) for one in each]
            for threads in (1, 3):
                got = vs.decode(chain(model), n_best=4, threads=threads)
                assert_same_bits(got.states, np.concatenate([d.states for d in alone], axis=1))
                assert_same_bits(got.score, np.concatenate([d.score for d in alone], axis=1))


def test_the_best_in_float32_may_not_lead_the_sums() -> None:
    """Lists are made in float64, which is exact here; the best alone, of rounded sums, comes first.

    So most lists along it are opened in vain.
    """
    others = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = random_chain(rng, [7] * 16, 3)
        model = replace(
            model,
            unary=rng.integers(-3, 4, model.unary.shape) + 2.0**23,
            transition=rng.integers(-3, 4, (3, 3)) / 4.0,
            start=None,
            end=None,
        ).astype(np.float32)
        got, one = vs.decode(chain(model), n_best=6), vs.decode(chain(model)).states
        for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
            listing = enumerate_chain(seq)
            first = one[rows].tolist()
            scores = np.sort(listing.scores.astype(float))[::-1]
            own = float(configuration_scores(seq, one[rows][None])[0])
            others += own < scores[0]
            assert got.states[0, rows].tolist() == first
            found = configuration_scores(seq, got.states[:, rows]).astype(float)
            assert len(np.unique(got.states[:, rows], axis=0)) == 6
            # The five best but for the first, whatever its place.
            rest = np.delete(scores, np.searchsorted(-scores, -own))[:5]
            np.testing.assert_array_equal(found, [own, *rest])
            assert_same_bits(got.score[1:, b], np.minimum(rest, got.score[0, b]))
    assert others > 20


@given(chains(max_labels=5, max_length=9, max_sequences=12), st.integers(1, 3))
@examples(300)
def test_any_batch(model: Arrays, threads: int) -> None:
    """−inf, 10,000s, ties, masks, float32, tables of edges, empty sequences."""
    if first_infeasible(model) is not None or not len(model.lengths):
        return
    each = [vs.decode(chain(model.sequence(at))) for at in range(len(model.lengths))]
    got = vs.decode(chain(model), threads=threads)
    assert_same_bits(got.states, np.concatenate([d.states for d in each]))
    assert_same_bits(got.score, np.concatenate([d.score for d in each]))
