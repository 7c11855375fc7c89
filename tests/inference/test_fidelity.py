"""A thousand random models against 50-digit arithmetic and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from checks import assert_answer, assert_islands, chain, refused
from oracles import (
    LONG_IS_LONGER,
    Answer,
    Arrays,
    enumerate_chain,
    first_infeasible,
    mp_forward_backward,
    sequences,
    solve,
    tolerance,
)
from strategies import random_chain

import valuesparse as vs

pytestmark = pytest.mark.simd

KINDS = {
    "mild": {"scale": 1.0},
    "sharp": {"scale": 8.0},
    "forbidden": {"scale": 2.0, "forbidden": 0.15},
    "extreme": {"scale": 2.0, "extreme": 0.2},
    "everything": {"scale": 5.0, "extreme": 0.15, "forbidden": 0.15, "masks": True},
}
PER_KIND = 200


def mp_answer(model: Arrays) -> Answer:
    """Return the whole answer in 50-digit arithmetic, rounded to float64 at the end."""
    parts = [mp_forward_backward(seq) for seq in sequences(model)]
    return Answer(
        np.concatenate([p[0] for p in parts]),
        np.concatenate([p[1] for p in parts]),
        np.array([float(p[2]) for p in parts]),
        np.array([float(p[3]) for p in parts]),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_random_models(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, sorted(KINDS).index(kind)])
    feasible = infeasible = 0
    while feasible < PER_KIND:
        dtype = (np.float64, np.float32)[feasible % 2]
        lengths = rng.integers(0, 6, size=rng.integers(1, 3))
        k = int(rng.integers(1, 5))
        model = random_chain(
            rng, lengths, k, per_edge=bool(rng.random() < 0.4), dtype=dtype, **KINDS[kind]
        )
        dead = first_infeasible(model)
        if dead is not None:
            infeasible += 1
            with refused(vs.InfeasibleError, dead[0], dead[1]):
                vs.infer(chain(model))
            continue
        feasible += 1
        # Unrounded scores of 10,000 make the problem itself ill-conditioned: a few eps of them.
        multiple = 4.0 if "extreme" in KINDS[kind] else 0.0
        r = vs.infer(chain(model))
        answer = mp_answer(model)
        np.testing.assert_allclose(
            r.marginals, answer.marginals, rtol=0, atol=tolerance(model, multiple)
        )
        assert_answer(model, r, answer, multiple=multiple)
        if feasible % 4 == 0:
            for zeta in (0.6, 0.95):
                islands = vs.infer(chain(model), zeta=zeta)
                assert_islands(model, islands, zeta, multiple=multiple)
    assert infeasible < 20 * PER_KIND


@pytest.mark.parametrize("kind", KINDS)
def test_enumerated_models(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, 7, sorted(KINDS).index(kind)])
    done = 0
    while done < 40:
        model = random_chain(rng, [int(rng.integers(1, 6))], 5, **KINDS[kind])
        if first_infeasible(model) is not None:
            continue
        done += 1
        (seq,) = sequences(model)
        listing = enumerate_chain(seq)
        r = vs.infer(chain(model))
        tol = tolerance(model, 4)
        np.testing.assert_allclose(r.marginals, listing.marginals.astype(float), rtol=0, atol=tol)
        np.testing.assert_allclose(r.pairwise(), listing.pairwise.astype(float), rtol=0, atol=tol)
        assert abs(r.log_z[0] - listing.log_z) <= tol * (1 + abs(listing.log_z))


@pytest.mark.skipif(not LONG_IS_LONGER, reason="long double is no longer than double here")
@pytest.mark.parametrize("n", [100, 1000, 10_000])
@pytest.mark.parametrize("kind", ["sharp", "extreme"])
def test_longer_chains(n: int, kind: str, rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [n], 3, dtype=dtype, **KINDS[kind])
    answer = solve(model)
    r = vs.infer(chain(model))
    np.testing.assert_allclose(r.marginals, answer.marginals, rtol=0, atol=tolerance(model, 1))
    np.testing.assert_allclose(r.log_z, answer.log_z, rtol=1e-12 if dtype != np.float32 else 1e-6)


def test_mpmath_on_a_chain_of_some_length(rng: np.random.Generator) -> None:
    model = random_chain(rng, [300], 4, scale=6, extreme=0.02)
    answer = mp_answer(model)
    r = vs.infer(chain(model))
    np.testing.assert_allclose(r.marginals, answer.marginals, rtol=0, atol=tolerance(model, 1))
    np.testing.assert_allclose(r.log_z, answer.log_z, rtol=1e-13)
