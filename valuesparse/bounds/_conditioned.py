"""The mass of the configurations that agree with a few held variables: a lower bound on log Z.

Variables are held at the states of one configuration until exact inference of the rest is small.
Zeros do not matter: the configuration has a positive weight, so the mass has one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from valuesparse._rounding import down, engine_margin
from valuesparse.bounds._reduced import Reduced, Tables, graph_of, plan_of
from valuesparse.inference import JunctionTree
from valuesparse.models import FactorGraph

__all__ = ["Domains", "lower"]

Mask = npt.NDArray[np.bool_]

#: Clique entries that exact inference of the rest may have.
_ENTRIES = 1 << 21
#: Rounds that hold variables at the best states of the round before, then at drawn ones.
_BEST, _DRAWN = 4, 8


def lower(reduced: Reduced, states: Sequence[int], seed: int = 0) -> float:
    """Return a lower bound on log Z from the best of a few sets of held variables.

    `states`, of positive weight, are where they are held at first; then at the best states that
    the round before left free, at last at states drawn from what it left free.
    """
    graph = graph_of(reduced.unary, reduced.tables)
    rng = np.random.default_rng(seed)
    best = -np.inf
    for turn in range(_BEST + _DRAWN):
        tree, held = _tree(graph, states, rng)
        value = tree.log_z()
        margin = engine_margin(value, tree.table_size + reduced.entries, reduced.magnitude)
        best = max(best, down(value + reduced.constant, margin + reduced.merged))
        if not held:
            break
        found = tree.decode().states if turn < _BEST - 1 else tree.sample(1, rng)[0]
        states = [int(x) for x in found]
    return best


def _tree(
    graph: FactorGraph, states: Sequence[int], rng: np.random.Generator
) -> tuple[JunctionTree, dict[int, int]]:
    """Hold variables of the largest cliques until the remaining graph is small."""
    held: dict[int, int] = {}
    cards = graph.cardinalities
    while True:
        tree = plan_of(graph, held)
        if tree.table_size <= _ENTRIES:
            return tree, held
        sizes = [math.prod(float(cards[v]) for v in c) for c in tree.cliques]
        counts: Counter[int] = Counter()
        limit = max(sizes) ** 0.8
        large = [c for c, size in zip(tree.cliques, sizes, strict=True) if size >= limit]
        for clique in large:
            counts.update(clique)
        noise = dict(zip(counts, rng.random(len(counts)), strict=True))
        # Two at a time, or plans of large graphs would take long.
        for v in sorted(counts, key=lambda u: (-counts[u] * cards[u], noise[u]))[:2]:
            held[v] = int(states[v])


class Domains:
    """States that zeros of the tables leave to each variable, fewer under the held ones."""

    def __init__(self, cards: Sequence[int], tables: Tables) -> None:
        self.cards = list(cards)
        self.tables = [(s, t > -np.inf) for s, t in tables if (t == -np.inf).any()]
        self.at: list[list[int]] = [[] for _ in cards]
        for f, (scope, _) in enumerate(self.tables):
            for v in scope:
                self.at[v].append(f)

    def start(self) -> list[Mask] | None:
        """Return the states left before anything is held; None when there are none."""
        full = [np.ones(k, dtype=np.bool_) for k in self.cards]
        return self._spread(full, list(range(len(self.tables))))

    def hold(self, domains: list[Mask], v: int, state: int) -> list[Mask] | None:
        """Return the states left when a variable has this one; None when there are none."""
        if domains[v].sum() == 1:
            return domains if domains[v][state] else None
        after = list(domains)
        after[v] = np.arange(self.cards[v]) == state
        return self._spread(after, list(self.at[v]))

    def _spread(self, domains: list[Mask], queue: list[int]) -> list[Mask] | None:
        waiting = set(queue)
        while queue:
            f = queue.pop()
            waiting.discard(f)
            scope, allowed = self.tables[f]
            live = allowed
            for axis, v in enumerate(scope):
                shape = [1] * allowed.ndim
                shape[axis] = -1
                live = live & domains[v].reshape(shape)
            for axis, v in enumerate(scope):
                others = tuple(a for a in range(live.ndim) if a != axis)
                kept = np.asarray(live.any(axis=others))
                if not kept.any():
                    return None
                if kept.sum() < domains[v].sum():
                    domains[v] = kept
                    for g in self.at[v]:
                        if g != f and g not in waiting:
                            waiting.add(g)
                            queue.append(g)
        return domains
