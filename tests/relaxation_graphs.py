"""Graphs of binary variables for tests of the relaxations "lp" and "ad3"."""

from __future__ import annotations

import itertools

import numpy as np
from structured_oracle import ALLOWED, make

import valuesparse as vs
from valuesparse.factors import Structured

KINDS = sorted(ALLOWED)


def random_graph(seed: int, scale: float = 1.0) -> vs.FactorGraph:
    """Return a graph with tables, forbidden entries and structured factors."""
    rng = np.random.default_rng(seed)
    n = 7
    graph = vs.FactorGraph([2] * n)
    for v in range(n):
        graph.add([v], scale * rng.normal(0.0, 1.0, 2))
    for _ in range(5):
        table = scale * rng.normal(0.0, 2.0, (2, 2))
        table[rng.random((2, 2)) < 0.1] = -np.inf
        graph.add(rng.choice(n, 2, replace=False), table)
    graph.add(rng.choice(n, 3, replace=False), scale * rng.normal(0.0, 1.0, (2, 2, 2)))
    for _ in range(int(rng.integers(3))):
        negated = np.flatnonzero(rng.random(4) < 0.4).tolist()
        graph.add(make(str(rng.choice(KINDS)), rng.choice(n, 4, replace=False).tolist(), negated))
    return graph


def sentence(
    n: int,
    rng: np.random.Generator,
    *,
    heads: int | None = None,
    pair: float = 0.3,
    constraint: str = "tree",
) -> vs.FactorGraph:
    """Return the arcs of n words with pairs of siblings and grandparents, scores at random.

    heads: of each word, the best ones. constraint: "tree", "projective" or "flow" (MSFXM10, Fig. 3,
    as in ERRATA).
    """
    arcs, scores = [], []
    for m in range(1, n + 1):
        possible = [h for h in range(n + 1) if h != m]
        own = rng.normal(0.0, 2.0, n)
        kept = np.argsort(-own)[:heads]
        kept = np.union1d(kept[:-1], 0) if heads else kept
        arcs += [(possible[i], m) for i in sorted(kept.tolist())]
        scores += own[np.sort(kept)].tolist()
    flows = _Flows(n, arcs) if constraint == "flow" else None
    graph = vs.FactorGraph([2] * (flows.n_variables if flows else len(arcs)))
    for v, score in enumerate(scores):
        graph.add([v], [0.0, score])
    for (i, a), (j, b) in itertools.permutations(enumerate(arcs), 2):
        sibling, grand = a[0] == b[0] and a[1] < b[1], b[0] == a[1] and b[1] != a[0]
        if sibling or grand:
            graph.add((i, j), [[0.0, 0.0], [0.0, rng.normal(0.0, pair)]])
    if flows:
        for factor in flows.factors:
            graph.add(factor)
    else:
        kind = vs.factors.Tree if constraint == "tree" else vs.factors.ProjectiveTree
        graph.add(kind(arcs, range(len(arcs))))
    return graph


class _Flows:
    """Arcs z are the first variables, then flows f[k, a] and paths p[h, k]."""

    def __init__(self, n: int, arcs: list[tuple[int, int]]) -> None:
        words = range(1, n + 1)
        names = [*arcs]
        names += [("f", k, a) for k in words for a in arcs if a[0] != k]
        names += [("p", h, k) for h in words for k in words if h != k]
        at = {name: i for i, name in enumerate(names)}
        self.n_variables = len(names)
        f = vs.factors
        self.factors: list[Structured] = [f.Xor(*[at[a] for a in arcs if a[1] == m]) for m in words]
        self.factors += [f.Imply(v, at[name[2]]) for name, v in at.items() if name[0] == "f"]
        for k in words:
            self.factors.append(f.Xor(*[at["f", k, a] for a in arcs if a[0] == 0]))
            self.factors.append(f.Xor(*[at["f", k, a] for a in arcs if a[1] == k]))
            for m in words:
                if m == k:
                    continue
                path = at["p", m, k]
                into = [at["f", k, a] for a in arcs if a[1] == m and a[0] != k]
                self.factors.append(f.XorOut(*into, path))
                out = [at["f", k, a] for a in arcs if a[0] == m]
                if out:
                    self.factors.append(f.XorOut(*out, path))
