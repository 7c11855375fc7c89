"""Configurations and samples of cliques too large for one block of weights, by enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_oracle import (
    graph_of,
    log_joint,
    log_sum,
    marginal,
    nothing_to_decode,
    probabilities,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import valuesparse as vs


def _model(seed: int, zeros: float, values: Any = None) -> tuple[list[int], list[Any]]:
    """Every variable beside every other, so that one clique has them all: 4,374 to 27,648 entries.

    Values repeat, of a few, so that configurations tie.
    """
    rng = np.random.default_rng(seed)
    cards = rng.permutation([[3, 3, 3, 3, 3, 3, 3, 2], [4, 4, 4, 4, 4, 3, 9], [2] * 13][seed % 3])
    factors = []
    for a in range(cards.size):
        for b in range(a + 1, cards.size):
            shape = cards[a], cards[b]
            table = rng.normal(0, 1, shape) if values is None else rng.choice(values, shape)
            if zeros:
                table[rng.random(shape) < zeros] = -np.inf
            factors.append(((a, b), table))
    return cards.tolist(), factors


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    zeros=st.sampled_from([0.0, 0.02, 0.2]),
    values=st.sampled_from([None, [0.0, 1.0], [0.0, -3000.0]]),
    known=st.sampled_from([{}, {1: [0.3, -0.4]}, {0: 1}]),
)
def test_best_configuration_and_samples(
    seed: int, zeros: float, values: Any, known: dict[int, Any]
) -> None:
    cards, factors = _model(seed, zeros, values)
    evidence = {v: x if isinstance(x, int) else (x * 5)[: cards[v]] for v, x in known.items()}
    full = log_joint(cards, factors, evidence)
    graph = graph_of(cards, factors)
    if nothing_to_decode(graph, evidence, full):
        return
    jt = vs.JunctionTree(graph, evidence=evidence)
    d = jt.decode()
    states, score = d.states, d.score
    assert score == pytest.approx(full.max(), rel=1e-12, abs=1e-12)
    assert full[tuple(states)] == pytest.approx(full.max(), rel=1e-12, abs=1e-12)
    assert jt.log_z() == pytest.approx(log_sum(full), rel=1e-12)
    some = jt.sample(20, 0)
    assert (full[tuple(some.T)] > -np.inf).all()
    assert (some == jt.sample(20, 0, threads=2)).all()
    assert (states == jt.decode(threads=2).states).all()


@pytest.mark.parametrize("zeros", [0.0, 0.1])
@pytest.mark.parametrize("shift", [0.0, -3000.0])
def test_samples_follow_the_posterior(zeros: float, shift: float) -> None:
    """`shift`: numbers that a double does not hold."""
    cards, factors = _model(0, zeros)
    factors[0][1][0] += shift
    factors[1][1][0] -= shift
    p = probabilities(log_joint(cards, factors, {}))
    x = vs.sample(graph_of(cards, factors), 20_000, 0)
    assert (p[tuple(x.T)] > 0.0).all()
    for pair in ([0, 1], [2, 7], [6, 7], [0, 7]):
        expected = marginal(p, pair)
        seen = np.zeros(expected.shape)
        np.add.at(seen, tuple(x[:, pair].T), 1)
        common = 20_000 * expected > 5
        assert seen[~common].sum() < 60
        kept = seen[common]
        share = expected[common] * kept.sum() / expected[common].sum()
        assert stats.chisquare(kept, share).pvalue > 1e-4


def test_cliques_below_one_block_after_large_ones() -> None:
    """Separators: a large root, then cliques that are drawn given it."""
    cards, factors = _model(2, 0.1)
    rng = np.random.default_rng(0)
    cards += [3, 3]
    factors += [((12, 13), rng.normal(0, 1, (2, 3))), ((13, 14, 0), rng.normal(0, 1, (3, 3, 2)))]
    full = log_joint(cards, factors, {})
    d = vs.JunctionTree(graph_of(cards, factors)).decode()
    states, score = d.states, d.score
    assert tuple(states) == np.unravel_index(full.argmax(), full.shape)
    assert score == pytest.approx(full.max(), rel=1e-12)
    p = probabilities(full)
    x = vs.sample(graph_of(cards, factors), 20_000, 1)
    expected = marginal(p, [0, 13, 14])
    seen = np.zeros(expected.shape)
    np.add.at(seen, tuple(x[:, [0, 13, 14]].T), 1)
    some = expected > 0.0
    assert not seen[~some].any()
    assert stats.chisquare(seen[some], 20_000 * expected[some]).pvalue > 1e-4
