"""Relaxed parsing in one round answers without all beliefs: as if they had been looked at."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import valuesparse as vs
from tests.parsing.test_relaxed import by_chance, of_words
from valuesparse import _parsing
from valuesparse.parsing import Parser, Sentence
from valuesparse.parsing._encoding import encode

pytestmark = pytest.mark.simd

Array = npt.NDArray[Any]
TREES = pytest.mark.parametrize(
    ("projective", "single_root"), [(False, False), (False, True), (True, False), (True, True)]
)


def all_beliefs(
    parser: Parser, sentence: Sentence, how: tuple[Any, ...], trees: tuple[bool, bool]
) -> Array:
    """Return the beliefs (n + 1, n + 1) of all arcs, -inf elsewhere."""
    words = encode([sentence]).words
    _, kinds, nodes, beliefs, *_ = parser._predictor.beliefs(words, how, False, trees)
    table = np.full((len(sentence) + 1, len(sentence) + 1), -np.inf)
    arcs = kinds == 0
    table[nodes[arcs][:, 0], nodes[arcs][:, 1]] = beliefs[arcs]
    return table


def check(
    parser: Parser, sentences: list[Sentence], how: tuple[Any, ...], trees: tuple[bool, bool]
) -> Array:
    """Compare heads and confidence; return how many best heads are a tree, and how many not."""
    encoded = encode(sentences)
    heads, _, confidence, _ = parser._predictor.predict(*encoded, how, False, trees, 1)
    found = np.zeros(2, int)
    for sentence, (first, last) in zip(sentences, pairwise(encoded.offset.tolist()), strict=True):
        if first == last:
            continue
        table = all_beliefs(parser, sentence, how, trees)
        best = vs.parsing.best_trees([table], projective=trees[0], single_root=trees[1])
        own = heads[first:last]
        np.testing.assert_array_equal(own, best.heads[0])
        expected = np.minimum(1.0, table[own, np.arange(1, last - first + 1)])
        np.testing.assert_array_equal(confidence[first:last], expected)
        found[int((table[:, 1:].argmax(axis=0) != own).any())] += 1
    return found


@TREES
@pytest.mark.parametrize("iterations", [1, 10])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_heads_and_confidence_are_those_of_all_beliefs(
    projective: bool, single_root: bool, iterations: int, damping: float
) -> None:
    trees, found = (projective, single_root), np.zeros(2, int)
    for seed in range(6):
        parser = by_chance(seed, 0.03, (0.3, 1.0, 3.0, 20.0)[seed % 4])
        sentences = [of_words(n, 10 * seed + n) for n in (1, 2, 0, 5, 9, 16, 30)]
        found += check(parser, sentences, (1, 1e-4, 1, iterations, 1e-4, damping), trees)
    assert (found > 2).all()


@TREES
@pytest.mark.parametrize("threshold", [1e-9, 1e-4, 10.0])
@pytest.mark.parametrize("grid", [0.0, 0.5, 100.0])
def test_ties_are_settled_alike(
    projective: bool, single_root: bool, threshold: float, grid: float
) -> None:
    """Few different weights, none at all, and words that are all the same."""
    parser = by_chance(1, 0.05)
    weights = parser.model.weights
    coarse = np.round(weights / grid) * grid if grid else np.zeros_like(weights)
    parser = Parser(parser.model._replace(weights=coarse.astype(np.float32)))
    alike = [Sentence(["w"] * n, upos=["NOUN"] * n) for n in (1, 2, 3, 4, 7, 12)]
    others = [of_words(n, n) for n in (3, 8, 14)]
    check(parser, alike + others, (1, threshold, 1, 10, 1e-4, 0.0), (projective, single_root))


def test_sentences_without_any_pair() -> None:
    """Nothing is added: beliefs are those of arcs alone, whatever was left out at first."""
    parser = by_chance(2, 1e-6, 2.0)
    sentences = [of_words(n, n) for n in (1, 4, 11, 25)]
    found = parser.parse(sentences, "relaxed", prune=False)
    assert sum(map(len, found)) == 41
    assert found.summary.used == 0
    check(parser, sentences, (1, 1e-4, 1, 10, 1e-4, 0.0), (False, False))


@TREES
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(("n", "scale"), [(1, 1.0), (6, 2.0), (23, 4.0), (12, 900.0)])
def test_ratios_of_rare_arcs_are_left_out(
    projective: bool, single_root: bool, later: bool, n: int, scale: float
) -> None:
    scores = np.random.default_rng(n).normal(size=(n + 1, n + 1)) * scale
    log_z, p, _, ratio = _parsing.arcs(scores, projective, single_root, False, later)
    same, again, _, some = _parsing.arcs(scores, projective, single_root, False, later, 1e-3)
    assert log_z == same
    np.testing.assert_array_equal(again, p)
    rare = p < 1e-3
    rare[:, 0] = False
    np.fill_diagonal(rare, val=False)
    np.testing.assert_array_equal(some, np.where(rare, -np.inf, ratio))


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_joints_side_by_side_have_the_bits_of_one_by_one(
    single_root: bool, scale: float, share: float
) -> None:
    for n in (2, 3, 4, 5, 8, 9, 13, 17, 30):
        rng = np.random.default_rng(n)
        scores = rng.normal(size=(n + 1, n + 1)) * scale
        scores[0, rng.random(n + 1) < 0.3] -= 30.0
        words = np.arange(1, n + 1)
        lists = [
            (h, words[(words != h) & (rng.random(n) < share)].astype(np.int32))
            for h in range(n + 1)
        ]
        _, answers = _parsing.head_joints(scores, False, single_root, lists)
        pairs: list[tuple[int, int, int, int]] = []
        found: list[float] = []
        for (h, modifiers), (two, up) in zip(lists, answers, strict=True):
            i, j = np.triu_indices(len(modifiers), 1)
            pairs += [(h, a, h, b) for a, b in zip(modifiers[i], modifiers[j], strict=True)]
            found += two[i, j].tolist()
            for k, m in enumerate(modifiers.tolist()):
                above = [g for g in range(n + 1) if h and g not in (h, m)]
                pairs += [(g, h, h, m) for g in above]
                found += up[above, k].tolist()
                assert up[m, k] == 0.0
        if not pairs:
            continue
        _, expected = _parsing.joints(scores, single_root, np.array(pairs, np.int32))
        known = np.array(found) >= 0.0
        np.testing.assert_array_equal(np.array(found)[known], expected[known])
        assert known.mean() > 0.3
