"""Projective trees of several sentences are summed up side by side: as if each were alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import valuesparse as vs
from tests.parsing.test_relaxed import by_chance, of_words
from valuesparse.parsing._encoding import encode

pytestmark = pytest.mark.simd

Array = npt.NDArray[Any]
ROOTS = pytest.mark.parametrize("single_root", [False, True])
#: Lengths of one group and of several, of none, and of one that is too long to be in a group.
LENGTHS = (1, 2, 3, 0, 4, 7, 7, 7, 8, 21, 22, 22, 40, 64, 65, 128, 129)


def marginals(scores: list[Array], single_root: bool) -> list[Array]:
    return vs.parsing.marginals(scores, projective=True, single_root=single_root).marginals


def alone(scores: list[Array], single_root: bool) -> list[Array]:
    return [marginals([s], single_root)[0] for s in scores]


@ROOTS
@pytest.mark.parametrize("scale", [1.0, 8.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_marginals_have_the_bits_of_each_alone(
    single_root: bool, scale: float, dtype: type[Any]
) -> None:
    rng = np.random.default_rng(0)
    scores = [(scale * rng.normal(size=(n + 1, n + 1))).astype(dtype) for n in LENGTHS]
    for i in rng.permutation(len(scores))[:5]:
        scores[i][rng.random(scores[i].shape) < 0.2] = -np.inf
        scores[i][0] = 0.0
    expected = alone(scores, single_root)
    for order in (np.arange(len(scores)), rng.permutation(len(scores))):
        found = marginals([scores[i] for i in order], single_root)
        for i, own in zip(order, found, strict=True):
            np.testing.assert_array_equal(own, expected[i])


@ROOTS
def test_a_sentence_that_needs_wide_numbers_changes_no_other_one(single_root: bool) -> None:
    """Some underflow, others have arcs too improbable for a double; the rest are ordinary."""
    rng = np.random.default_rng(1)
    scores = [rng.normal(size=(9, 9)) for _ in range(12)]
    scores[2] *= 250.0
    scores[5][:, 3] = np.where(np.arange(9) == 7, 0.0, -690.0)
    scores[5][:, 4] = np.where(np.arange(9) == 3, -690.0, 0.0)
    scores[9] *= 10_000.0
    expected = alone(scores, single_root)
    for size in (2, 3, 4, 12):
        for first in range(0, len(scores), size):
            found = marginals(scores[first : first + size], single_root)
            for own, other in zip(found, expected[first:], strict=False):
                np.testing.assert_array_equal(own, other)
    np.testing.assert_allclose(expected[0].sum(axis=0)[1:], 1.0, rtol=1e-12)
    np.testing.assert_allclose(expected[9].sum(axis=0)[1:], 1.0, rtol=1e-9)


@ROOTS
@pytest.mark.parametrize("engine", [0, 1, 2])
@pytest.mark.parametrize("rounds", [1, -1])
def test_parses_have_the_bits_of_each_alone(single_root: bool, engine: int, rounds: int) -> None:
    """Sentences whose messages end early make room for others; joints are asked of each."""
    parser = by_chance(3, 0.05, 2.0)
    sentences = [of_words(n, n) for n in (1, 2, 0, 5, 9, 9, 9, 10, 16, 17, 30, 31, 9)]
    trees = (True, single_root)
    how = {
        0: (-1, 0.0, 0, 10, 1e-4, 0.0),
        1: (0, 1e-4, rounds, 10, 1e-4, 0.0),
        2: (1, 0.1, rounds, 10, 1e-4, 0.2),
    }[engine]
    for threads in (1, 3):
        together = parser._predictor.predict(*encode(sentences), how, False, trees, threads)
        place = 0
        for sentence in sentences:
            own = parser._predictor.predict(*encode([sentence]), how, False, trees, 1)
            for all_of_them, one in zip(together[:3], own[:3], strict=True):
                np.testing.assert_array_equal(all_of_them[place : place + len(sentence)], one)
            place += len(sentence)
