"""Few labels: sequences, or chunks, in the lanes of vectors have the bits that each has alone."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checks import assert_exact, assert_same_bits, chain, refused
from hypothesis import given
from hypothesis import strategies as st
from oracles import Arrays, first_infeasible
from strategies import LANE_LENGTHS, chains, examples, random_chain

import valuesparse as vs
from valuesparse import _forest as native
from valuesparse.inference import _forest

pytestmark = pytest.mark.simd


@pytest.fixture(autouse=True)
def _rule() -> Iterator[None]:
    yield
    native.cut_chains()


def each_alone(model: Arrays) -> list[np.ndarray]:
    """Return answers of sequences, one a call: there is nothing beside them.

    Marginals and log Z of passes both ways, log Z of one way, pairwise marginals and entropies.
    """
    each = [chain(model.sequence(at)) for at in range(len(model.lengths))]
    found = [vs.infer(m, threads=1) for m in each]
    answers = [
        [r.marginals for r in found],
        [r.log_z for r in found],
        [_forest.log_z(m, 1) for m in each],
        [r.pairwise() for r in found],
        [r.entropy() for r in found],
    ]
    return [np.concatenate(a) for a in answers]


def assert_as_alone(model: Arrays) -> None:
    marginals, log_z, one_way, pairwise, entropy = each_alone(model)
    together = chain(model)
    for threads in (1, 3):
        r = vs.infer(together, threads=threads)
        assert_same_bits(r.marginals, marginals)
        assert_same_bits(r.log_z, log_z)
        assert_same_bits(_forest.log_z(together, threads), one_way)
        assert_same_bits(r.pairwise(threads=threads), pairwise)
        assert_same_bits(r.entropy(threads=threads), entropy)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 25, 33, 49, 56, 112])
def test_bits_of_each_alone(k: int, dtype: type) -> None:
    rng = np.random.default_rng(k)
    for lengths in LANE_LENGTHS:
        for scale in (1.0, 30.0):
            assert_as_alone(random_chain(rng, lengths, k, scale=scale, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("forbidden", "extreme"), [(0.02, 0.0), (0.2, 0.0), (0.0, 0.01)])
def test_bits_where_lanes_are_left(forbidden: float, extreme: float, dtype: type) -> None:
    """A few lanes hold what linear arithmetic in vectors does not, beside others that it does."""
    rng = np.random.default_rng(1)
    for k in (2, 3, 4, 5, 6, 9):
        for lengths in LANE_LENGTHS:
            model = random_chain(rng, lengths, k, forbidden=forbidden, extreme=extreme, dtype=dtype)
            if first_infeasible(model) is None:
                assert_as_alone(model)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_of_two_labels_with_like_scores(dtype: type) -> None:
    rng = np.random.default_rng(3)
    for lengths in LANE_LENGTHS:
        model = random_chain(rng, lengths, 2, dtype=dtype)
        apart = np.array([0.0, -0.0, 1e-7, -1e-7, 1e-30, 40.0, -800.0, 1e28, -1e28], dtype)
        model.unary[:, 1] = model.unary[:, 0] + rng.choice(apart, len(model.unary))
        model.unary[rng.random(len(model.unary)) < 0.2] = rng.choice([0.0, -0.0])
        assert_as_alone(model)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 9, 12])
def test_bits_of_arrays_laid_out_otherwise(k: int, dtype: type, tmp_path: Path) -> None:
    rng = np.random.default_rng(k)
    model = random_chain(rng, LANE_LENGTHS[1], k, dtype=dtype)
    want = vs.infer(chain(model))
    odd = np.frombuffer(b"." + model.unary.tobytes(), dtype, offset=1).reshape(model.unary.shape)
    model.unary.tofile(tmp_path / "unary")
    mapped = np.memmap(tmp_path / "unary", dtype, mode="r", shape=model.unary.shape)
    wide = np.full((2 * len(odd), k + 3), np.nan, dtype)
    wide[::2, 1 : k + 1] = model.unary
    other = model.transition.astype(model.transition.dtype.newbyteorder())
    assert not odd.flags.aligned
    for unary in (odd, mapped, wide[::2, 1 : k + 1], model.unary.T.copy().T):
        for transition in (other, model.transition[::-1].copy()[::-1]):
            given = chain(replace(model, unary=unary, transition=transition))
            for r in (vs.infer(given), vs.infer(pickle.loads(pickle.dumps(given)), threads=3)):
                assert_same_bits(r.marginals, want.marginals)
                assert_same_bits(r.log_z, want.log_z)


def test_a_dead_lane_is_named() -> None:
    rng = np.random.default_rng(2)
    model = random_chain(rng, [6] * 8, 3)
    model.unary[6 * 5 + 4] = -np.inf
    with refused(vs.InfeasibleError) as info:
        vs.infer(chain(model))
    assert (info.value.sequence, info.value.position) == (5, 4)


@given(chains(max_labels=3, max_length=4, max_sequences=9))
@examples(100)
def test_against_enumeration(model: Arrays) -> None:
    if first_infeasible(model) is None:
        assert_exact(model, vs.infer(chain(model), threads=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(n=st.integers(30, 90), k=st.integers(1, 5), chunk=st.integers(2, 9), seed=st.integers(0, 99))
@examples(60)
def test_chunks(dtype: type, n: int, k: int, chunk: int, seed: int) -> None:
    """Chunks that enter each other wrongly, or well, beside short sequences."""
    rng = np.random.default_rng(seed)
    model = random_chain(rng, [n, 5, 5, 4, 4], k, scale=0.3 + seed % 3, dtype=dtype)
    native.cut_chains(20, chunk, 1 + seed % 4)
    cut = vs.infer(chain(model), threads=1)
    assert_same_bits(vs.infer(chain(model), threads=3).marginals, cut.marginals)
    native.cut_chains(-1)
    whole = vs.infer(chain(model), threads=1)
    near = {"rtol": 0, "atol": 1e-12 if dtype == np.float64 else 1e-5}
    np.testing.assert_allclose(cut.marginals, whole.marginals, **near)
    np.testing.assert_allclose(cut.log_z, whole.log_z, rtol=1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("k", [5, 17, 20, 23])
def test_floors_near_their_bound_are_felt_alike(k: int, rng: np.random.Generator) -> None:
    """Strong float32 scores; the padding of a row counts nowhere, alone or among others."""
    for n in (2, 4):
        for _ in range(25):
            scale = rng.choice([3.0, 6.0])
            model = random_chain(rng, [n] * 24, k, scale=scale, dtype=np.float32)
            model.transition[:] *= np.float32(rng.choice([0.5, 1.0, 2.0]))
            alone = [vs.infer(chain(model.sequence(at)), threads=1) for at in range(24)]
            r = vs.infer(chain(model), threads=1)
            assert_same_bits(r.marginals, np.concatenate([a.marginals for a in alone]))
            assert_same_bits(r.log_z, np.concatenate([a.log_z for a in alone]))


@pytest.mark.parametrize("k", [2, 3, 5, 9, 17, 33, 49])
def test_masks_are_forbidden_scores(k: int, rng: np.random.Generator, dtype: type) -> None:
    for lengths in LANE_LENGTHS:
        model = random_chain(rng, lengths, k, ends=k % 2 == 0, masks=True, dtype=dtype)
        model.allowed[:, 0] = True
        assert_as_alone(model)
        spelled = replace(
            model, unary=np.where(model.allowed, model.unary, -np.inf).astype(dtype), allowed=None
        )
        one, other = (vs.infer(chain(m), threads=1) for m in (model, spelled))
        assert_same_bits(one.marginals, other.marginals)
        assert_same_bits(one.log_z, other.log_z)
        assert_same_bits(one.pairwise(), other.pairwise())
        assert (one.marginals[~model.allowed] == 0.0).all()


def test_a_mask_that_leaves_nothing_is_named(rng: np.random.Generator) -> None:
    model = random_chain(rng, [7] * 16, 5, ends=False, masks=True)
    model.allowed[:] = True
    model.allowed[7 * 11 + 3] = False
    with refused(vs.InfeasibleError) as info:
        vs.infer(chain(model), threads=1)
    assert (info.value.sequence, info.value.position) == (11, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 9, 12, 15, 16, 17, 24, 25, 33, 48, 49])
def test_bits_of_a_chain_alone(k: int, dtype: type) -> None:
    """A chain has the bits that it has beside others, whether anything unusual is in it or not."""
    rng = np.random.default_rng(k)
    for n in (1, 2, 3, 7, 8, 9, 31, 64, 65, 130, 700):
        for forbidden, extreme in [(0.0, 0.0), (0.05, 0.0), (0.0, 0.02)]:
            one = random_chain(
                rng, [n], k, scale=3.0, dtype=dtype, forbidden=forbidden, extreme=extreme,
                masks=n % 2 == 0,
            )  # fmt: skip
            many = replace(
                one,
                unary=np.concatenate([one.unary] * 18),
                allowed=None if one.allowed is None else np.concatenate([one.allowed] * 18),
                lengths=np.full(18, n),
            )
            if first_infeasible(one) is not None:
                with pytest.raises(vs.InfeasibleError):
                    vs.infer(chain(one))
                continue
            alone, beside = vs.infer(chain(one)), vs.infer(chain(many))
            assert_same_bits(alone.marginals, beside.marginals[-n:])
            assert_same_bits(alone.log_z, beside.log_z[-1:])
            assert_same_bits(_forest.log_z(chain(one), 1), _forest.log_z(chain(many), 1)[-1:])
            assert_same_bits(alone.entropy(), beside.entropy()[-1:])
            assert_same_bits(alone.pairwise(), beside.pairwise()[len(beside.pairwise()) - n + 1 :])
