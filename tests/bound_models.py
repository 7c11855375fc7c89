"""Random graphs for bounds: grids and trees with more edges, of every mix of signs."""

from __future__ import annotations

import numpy as np
from graph_oracle import Factors

SIGNS = {"attractive": (0.0, 1.0), "repulsive": (-1.0, 0.0), "mixed": (-1.0, 1.0)}


def edges_of(rng: np.random.Generator, shape: str, most: int) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of variables and the edges of a grid, or of a tree plus a few."""
    if shape == "grid":
        rows = int(rng.integers(1, 4))
        columns = int(rng.integers(1, max(2, most // rows + 1)))
        at = np.arange(rows * columns).reshape(rows, columns)
        pairs = np.concatenate(
            [
                np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], 1),
                np.stack([at[:-1].ravel(), at[1:].ravel()], 1),
            ]
        )
        return rows * columns, [(int(i), int(j)) for i, j in pairs]
    n = int(rng.integers(2, most + 1))
    edges = [(int(rng.integers(v)), v) for v in range(1, n)]
    for _ in range(int(rng.integers(0, n))):
        i, j = rng.choice(n, 2, replace=False)
        edges.append((int(i), int(j)))
    return n, edges


def pairwise_model(
    rng: np.random.Generator, most: int = 9, zeros: float = 0.0, cards: str = "binary"
) -> tuple[list[int], Factors]:
    """Return a pairwise model: Ising or random tables, with or without fields, any strength."""
    n, edges = edges_of(rng, str(rng.choice(["grid", "tree"])), most)
    if cards == "binary":
        k = [2] * n
    elif cards == "equal":
        k = [int(rng.integers(2, 4))] * n
    else:
        k = [int(c) for c in rng.integers(1, 5, n)]
    low, high = SIGNS[str(rng.choice(list(SIGNS)))]
    strength = 10.0 ** rng.uniform(-2, 1.2)
    potts = rng.random() < 0.6
    factors: Factors = []
    for i, j in edges:
        if potts:
            table = strength * rng.uniform(low, high) * np.eye(k[i], k[j])
        else:
            table = strength * rng.normal(size=(k[i], k[j]))
        factors.append(((i, j), forbid(rng, table, zeros)))
    if rng.random() < 0.6:
        for v in range(n):
            factors.append(((v,), forbid(rng, rng.normal(0.0, 2.0, k[v]), zeros / 2)))
    return k, factors


def forbid(rng: np.random.Generator, table: np.ndarray, share: float) -> np.ndarray:
    return np.where(rng.random(table.shape) < share, -np.inf, table)
