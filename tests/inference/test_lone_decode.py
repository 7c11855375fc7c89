"""The best states of a chain of few labels that is alone: those that it has beside others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits

import valuesparse as vs

pytestmark = pytest.mark.simd

COUNTS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 25, 32, 33, 40, 48, 49]


def arrays(rng: np.random.Generator, n: int, k: int, dtype: type) -> dict[str, Any]:
    """Return what a chain is made of: ties, forbidden pairs, ends and masks now and then."""
    scale = rng.choice([1.0, 50.0, 1e6])
    found = {
        "unary": (scale * rng.normal(size=(n, k))).astype(dtype),
        "transition": (scale * rng.normal(size=(k, k))).astype(dtype),
    }
    if rng.random() < 0.3:
        found = {name: np.round(array / scale) for name, array in found.items()}
    if rng.random() < 0.3:
        found["transition"][rng.random((k, k)) < 0.3] = -np.inf
    if rng.random() < 0.3:
        found["start"], found["end"] = rng.normal(size=(2, k)).astype(dtype)
    if rng.random() < 0.3:
        found["allowed"] = rng.random((n, k)) < 0.8
        found["allowed"][np.arange(n), rng.integers(0, k, size=n)] = True
    return found


def decoded(given: dict[str, Any]) -> vs.Decoding | str:
    """Return the best states, or the error where there are none."""
    try:
        return vs.decode(vs.Chain(**given))
    except vs.InfeasibleError as error:
        return str(error)


@pytest.mark.parametrize("k", COUNTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_states_and_scores_are_those_beside_others(k: int, dtype: type) -> None:
    rng = np.random.default_rng(k)
    possible = 0
    for _ in range(40):
        n = int(rng.integers(1, 40))
        given = arrays(rng, n, k, dtype)
        twins = dict(given, unary=np.tile(given["unary"], (9, 1)), lengths=[n] * 9)
        if "allowed" in given:
            twins["allowed"] = np.tile(given["allowed"], (9, 1))
        alone, beside = decoded(given), decoded(twins)
        if isinstance(alone, str) or isinstance(beside, str):
            assert alone == beside
            continue
        possible += 1
        assert_same_bits(np.tile(alone.states, 9), beside.states)
        assert_same_bits(np.tile(alone.score, 9), beside.score)
        assert_same_bits(vs.decode(vs.Chain(**given), threads=2).states, alone.states)
    assert possible >= 20


@pytest.mark.parametrize("k", [2, 5, 9])
def test_states_are_those_of_enumeration(k: int) -> None:
    rng = np.random.default_rng(100 + k)
    for _ in range(20):
        n = int(rng.integers(1, 6 if k < 9 else 4))
        unary, table = rng.normal(size=(n, k)), rng.normal(size=(k, k))
        states = np.stack(np.unravel_index(np.arange(k**n), (k,) * n), axis=1)
        scores = unary[np.arange(n), states].sum(axis=1)
        scores += table[states[:, :-1], states[:, 1:]].sum(axis=1)
        found = vs.decode(vs.Chain(unary, table))
        assert found.states.tolist() == states[scores.argmax()].tolist()
        assert found.score[0] == pytest.approx(scores.max(), abs=1e-12)
