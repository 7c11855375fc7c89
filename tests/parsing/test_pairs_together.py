"""Belief propagation scores the pairs of many sentences together, and as those of each alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.parsing.test_relaxed import by_chance, of_words
from valuesparse.parsing._encoding import encode

#: Pairs that wait for one another at most.
WAITING = 1 << 18


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_beliefs_are_those_of_pairs_scored_one_by_one(prune: bool, threads: int) -> None:
    parser = by_chance(3, 0.02, 0.3)
    sentences = [of_words(n, n) for n in (3, 0, 12, 70, 1, 9)]
    found = parser.parse(sentences, "bp", prune=prune, max_iterations=2, threads=threads)
    most = 0
    for parsed, sentence in zip(found, sentences, strict=True):
        _, kinds, nodes, beliefs, *_ = parser._predictor.beliefs(
            encode([sentence]).words, (0, 0.0, 0, 2, 1e-4, 0.0), prune, (False, False)
        )
        arcs = int((kinds == 0).sum())
        most = max(most, len(kinds) - arcs)
        belief = {(h, m): p for (h, m, _), p in zip(nodes[:arcs].tolist(), beliefs, strict=False)}
        expected = [min(1.0, belief[h, m]) for m, h in enumerate(parsed.heads.tolist(), 1)]
        assert parsed.confidence is not None
        np.testing.assert_array_equal(parsed.confidence, expected)
    assert prune or most > WAITING
