"""Enumeration of small factor graphs: what every engine for graphs is held to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import valuesparse as vs

Factors = list[tuple[tuple[int, ...], np.ndarray]]


def log_joint(
    cards: list[int], factors: Factors, evidence: dict[int, Any], dtype: Any = np.float64
) -> np.ndarray:
    """Log-weight of every configuration, an axis per variable."""
    full = np.zeros(cards, dtype=dtype)
    for scope, table in factors:
        order = np.argsort(scope)
        shape = [cards[v] if v in scope else 1 for v in range(len(cards))]
        full = full + np.transpose(table, order).reshape(shape)
    for v, known in evidence.items():
        row = np.asarray(known, dtype=float)
        if row.ndim == 0:
            row = np.where(np.arange(cards[v]) == known, 0.0, -np.inf)
        full = full + row.reshape([-1 if u == v else 1 for u in range(len(cards))])
    return full


def log_sum(full: np.ndarray) -> float:
    top = full.max()
    return float(top) if top == -np.inf else float(top + np.log(np.exp(full - top).sum()))


def probabilities(full: np.ndarray) -> np.ndarray:
    weight = np.exp(full - full.max())
    return weight / weight.sum()


def marginal(p: np.ndarray, variables: list[int]) -> np.ndarray:
    """Sum out all but `variables`, axes in their order."""
    kept = p.sum(axis=tuple(a for a in range(p.ndim) if a not in variables))
    return np.transpose(kept, np.argsort(np.argsort(variables)))


def graph_of(cards: list[int], factors: Factors) -> vs.FactorGraph:
    graph = vs.FactorGraph(cards)
    for scope, table in factors:
        graph.add(scope, table)
    return graph


def nothing_to_decode(graph: vs.FactorGraph, evidence: dict[int, Any], full: np.ndarray) -> bool:
    """Return whether nothing is possible, which `decode` then has to say."""
    if full.max() > -np.inf:
        return False
    with pytest.raises(vs.InfeasibleError):
        vs.decode(graph, evidence=evidence)
    return True


def random_model(
    rng: np.random.Generator, most: int = 12, scale: float = 2.0, size: int = 60_000
) -> tuple[list[int], Factors, dict[int, Any]]:
    """Up to `most` variables of 1 to 5 states, scopes of 0 to 4, zeros, evidence of both kinds."""
    n = int(rng.integers(1, most + 1))
    cards = rng.integers(1, 6, n)
    while np.prod(cards) > size:
        cards[rng.integers(n)] = 1 + rng.integers(2)
    factors: Factors = []
    for _ in range(rng.integers(0, 2 * n + 1)):
        scope = tuple(int(v) for v in rng.permutation(n)[: rng.integers(0, min(n, 4) + 1)])
        table = rng.normal(0.0, scale, [cards[v] for v in scope])
        if rng.random() < 0.4:
            zeros = rng.random(table.shape) < rng.choice([0.1, 0.3, 0.6])
            table = np.where(zeros, -np.inf, table)
        factors.append((scope, np.asarray(table)))
    evidence: dict[int, Any] = {}
    for v in range(n):
        dice = rng.random()
        if dice < 0.15:
            evidence[v] = int(rng.integers(cards[v]))
        elif dice < 0.25:
            evidence[v] = rng.normal(0.0, 1.0, cards[v])
    return [int(c) for c in cards], factors, evidence


@st.composite
def models(draw: st.DrawFn, most: int = 12, scale: float = 2.0):
    """Models of `random_model`, by a seed that hypothesis chooses."""
    return random_model(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), most, scale)
