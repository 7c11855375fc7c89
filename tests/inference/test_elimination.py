"""The order in which a junction tree eliminates variables, against one found by hand."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import valuesparse as vs


@st.composite
def pair_graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """Numbers of states, so large that no cliques are merged, and pairs; many orders tie."""
    n = draw(st.integers(1, 14))
    cards = draw(st.lists(st.sampled_from([20, 30, 40]), min_size=n, max_size=n))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])
    pairs = draw(st.lists(pair, max_size=30, unique=True)) if n > 1 else []
    return cards, pairs


def min_fill(cards: list[int], pairs: list[tuple[int, int]]) -> list[set[int]]:
    """Return the cliques: fewest edges to add first, then the smallest table, then number."""
    near = {v: set() for v in range(len(cards))}
    for a, b in pairs:
        near[a].add(b)
        near[b].add(a)
    made = []
    while near:

        def key(v: int) -> tuple[int, int, int]:
            missing = sum(a < b and b not in near[a] for a in near[v] for b in near[v])
            return missing, math.prod(cards[u] for u in {v} | near[v]), v

        v = min(near, key=key)
        around = near.pop(v)
        made.append(around | {v})
        for a in around:
            near[a] = (near[a] | around) - {a, v}
    return made


@given(model=pair_graphs())
def test_orders_of_least_fill(model) -> None:
    cards, pairs = model
    graph = vs.FactorGraph(cards)
    for a, b in pairs:
        graph.add([a, b], np.zeros((cards[a], cards[b])))
    made = min_fill(cards, pairs)
    largest = {frozenset(c) for c in made if not any(c < other for other in made)}
    tree = vs.JunctionTree(graph, effort=0)
    assert {frozenset(c) for c in tree.cliques} == largest
