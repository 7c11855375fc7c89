"""Fixed points of belief propagation by enumerated messages, and the graphs they are asked of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from graph_files import DATA
from graph_oracle import Factors

#: A fixed point to the last digit, and how many iterations one may take.
SHARP = {"tolerance": 1e-13, "max_iterations": 5000}


def random_tree(rng: np.random.Generator, zeros: bool = True) -> tuple[list[int], Factors]:
    """A factor graph without cycles, scopes of 1 to 3, zeros, scores of very different size."""
    n = int(rng.integers(1, 8))
    cards = [int(c) for c in rng.integers(1, 5, n)]
    scale = float(rng.choice([1.0, 3.0, 3000.0]))
    factors: Factors = [((v,), rng.normal(0.0, scale, cards[v])) for v in range(n)]
    v = 1
    while v < n:
        scope = [int(rng.integers(v)), v]
        v += 1
        if v < n and rng.random() < 0.4:
            scope.append(v)
            v += 1
        scope = [int(u) for u in rng.permutation(scope)]
        table = rng.normal(0.0, scale, [cards[u] for u in scope])
        if zeros and rng.random() < 0.4:
            table = np.where(rng.random(table.shape) < 0.3, -np.inf, table)
        factors.append((tuple(scope), table))
    return cards, factors


def random_grid(
    rng: np.random.Generator, side: int, states: int, strength: float = 0.7
) -> tuple[list[int], Factors]:
    factors: Factors = []
    for v in range(side * side):
        factors.append(((v,), rng.normal(0.0, 1.0, states)))
        if v % side:
            factors.append(((v - 1, v), rng.normal(0.0, strength, (states, states))))
        if v >= side:
            factors.append(((v, v - side), rng.normal(0.0, strength, (states, states))))
    return [states] * (side * side), factors


def enumerated_bp(
    cards: list[int], factors: Factors, iterations: int = 1000
) -> tuple[list[np.ndarray], float]:
    """Beliefs and Bethe free energy; every message by a loop over all entries of a table."""
    edges = [(f, i) for f, (scope, _) in enumerate(factors) for i in range(len(scope))]
    down = {(f, i): np.ones(cards[factors[f][0][i]]) for f, i in edges}
    at = [[(f, i) for f, i in edges if factors[f][0][i] == v] for v in range(len(cards))]
    up = dict(down)
    for _ in range(iterations):
        for f, i in edges:
            v = factors[f][0][i]
            others = [down[e] for e in at[v] if e != (f, i)]
            up[f, i] = np.prod(others, axis=0) * np.ones(cards[v])
            up[f, i] /= up[f, i].sum()
        change = 0.0
        for f, i in edges:
            scope, table = factors[f]
            new = np.zeros(cards[scope[i]])
            for state in itertools.product(*(range(cards[v]) for v in scope)):
                w = np.exp(table[state])
                for j, x in enumerate(state):
                    if j != i:
                        w *= up[f, j][x]
                new[state[i]] += w
            new /= new.sum()
            change = max(change, abs(new - down[f, i]).max())
            down[f, i] = new
        if change < 1e-15:
            break
    beliefs = []
    for v in range(len(cards)):
        b = np.prod([down[e] for e in at[v]], axis=0) * np.ones(cards[v])
        beliefs.append(b / b.sum())
    energy = 0.0
    for f, (scope, table) in enumerate(factors):
        b = np.exp(table)
        for i, v in enumerate(scope):
            b = b * up[f, i].reshape([-1 if j == i else 1 for j in range(len(scope))])
            assert v < len(cards)
        b = b / b.sum()
        live = b > 0
        energy += float((b[live] * (table[live] - np.log(b[live]))).sum())
    for v, b in enumerate(beliefs):
        live = b > 0
        energy += (len(at[v]) - 1) * float((b[live] * np.log(b[live])).sum())
    return beliefs, energy


def random_graph(rng: np.random.Generator) -> tuple[list[int], Factors]:
    """Attractive, repulsive, mixed; sometimes zeros, more states and scopes of three."""
    n = int(rng.integers(2, 8))
    cards = [int(c) for c in rng.integers(2, 4, n)]
    scale = float(rng.choice([0.3, 1.0, 3.0]))
    sign = int(rng.integers(3))
    factors: Factors = [((v,), rng.normal(0.0, 1.0, cards[v])) for v in range(n)]
    for _ in range(int(rng.integers(1, 2 * n + 1))):
        size = min(n, 3 if rng.random() < 0.25 else 2)
        scope = tuple(int(v) for v in rng.permutation(n)[:size])
        table = rng.normal(0.0, scale, [cards[v] for v in scope])
        if sign < 2 and size == 2:
            table = (1 - 2 * sign) * abs(table[0, 0]) * np.eye(*table.shape)
        if rng.random() < 0.2:
            table = np.where(rng.random(table.shape) < 0.25, -np.inf, table)
        factors.append((scope, table))
    return cards, factors


SCHEDULES = ["flooding", "residual", "rounds", "tree"]


def libdai() -> dict[str, np.ndarray]:
    """The P(x = 1) of every variable that libDAI reports for its own test, by method."""
    file = DATA / "loopy" / "libdai_testfast_marginals.tsv"
    if not file.exists():
        pytest.skip("the instances are not beside the repository")
    rows = [line.rstrip("\n").split("\t") for line in file.read_text().splitlines()[1:]]
    return {row[0]: np.array([float(x) for x in row[7:]]) for row in rows}
