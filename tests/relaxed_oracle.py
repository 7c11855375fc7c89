"""Enumeration of what relaxed inference claims."""

from __future__ import annotations

import mpmath
import numpy as np
from graph_oracle import log_joint, log_sum, marginal, probabilities

import valuesparse as vs


def tables(graph: vs.FactorGraph) -> list[tuple[tuple[int, ...], np.ndarray]]:
    return [(f.scope, f.table([graph.cardinalities[v] for v in f.scope])) for f in graph.factors]


def scores(graph: vs.FactorGraph, factors=None, evidence=None) -> np.ndarray:
    """Log-weights of all configurations under some factors."""
    every = tables(graph)
    some = every if factors is None else [every[i] for i in factors]
    known = graph.evidence if evidence is None else evidence
    return log_joint(list(graph.cardinalities), some, known)


def divergence(a: np.ndarray, b: np.ndarray) -> float:
    """KL divergence of what log-weights a and b describe."""
    p = probabilities(a)
    live = p > 0
    with np.errstate(invalid="ignore"):
        gap = (a - log_sum(a)) - (b - log_sum(b))
    return float((p[live] * gap[live]).sum())


def marginals(full: np.ndarray) -> list[np.ndarray]:
    p = probabilities(full)
    return [marginal(p, [v]) for v in range(p.ndim)]


def exact_gain(mu: float, theta: float) -> float:
    """The gain of a feature, by 700 digits."""
    with mpmath.workdps(700):
        m, t = mpmath.mpf(mu), mpmath.mpf(theta)
        return float(mpmath.log(1 - m + m * mpmath.exp(t)) - m * t)


def random_graph(
    rng: np.random.Generator, *, zeros: bool = False, general: bool = True
) -> tuple[vs.FactorGraph, np.ndarray]:
    """A graph of features and tables with at most 6 variables, and the indices of a part."""
    n = int(rng.integers(2, 7))
    cards = rng.integers(2, 4, n) if general else np.full(n, 2)
    graph = vs.FactorGraph(cards)
    scale = rng.choice([0.05, 0.5, 2.0, 6.0])
    for v in range(n):
        graph.add([v], rng.normal(0, 1.5, cards[v]))
    kind = rng.choice([-1, 0, 1])  # repulsive, mixed, attractive
    for _ in range(rng.integers(1, 10)):
        k = int(rng.integers(1, min(n, 3) + 1))
        scope = [int(v) for v in rng.permutation(n)[:k]]
        weight = float(rng.normal(0, scale))
        weight = abs(weight) * kind if kind else weight
        dice = rng.random()
        if zeros and dice < 0.1:
            weight = -np.inf
        if dice < 0.4:
            graph.add_feature(scope, [int(rng.integers(cards[v])) for v in scope], weight)
        elif dice < 0.7 or not general:
            graph.add_feature(scope, lambda *s: sum(s) % 2 == 0, weight)
        else:
            graph.add(scope, rng.normal(0, scale, cards[scope]))
    if rng.random() < 0.3:
        v = int(rng.integers(n))
        known = int(rng.integers(cards[v])) if rng.random() < 0.5 else rng.normal(size=cards[v])
        graph.set_evidence({v: known})
    kept = np.flatnonzero(rng.random(graph.n_factors) < rng.choice([0.2, 0.5, 0.9]))
    return graph, kept


def pairs_of_six() -> vs.FactorGraph:
    """Six variables and all their pairs."""
    rng = np.random.default_rng(4)
    graph = vs.FactorGraph([2] * 6)
    for v in range(6):
        graph.add([v], [0.0, rng.normal()])
    for i in range(6):
        for j in range(i):
            graph.add_feature([i, j], lambda a, b: a == b, float(rng.normal()))
    return graph
