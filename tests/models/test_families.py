"""Conditional tables by their variables: found at once, also in copies of a graph."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.models._families import Families


class Closed(dict[int, int]):
    """A dictionary that nobody looks through."""

    def __iter__(self) -> Any:
        raise AssertionError("looked through")

    items = keys = values = __iter__


def test_nobody_looks_through_all_tables() -> None:
    """With n tables that would be quadratic."""
    graph = vs.FactorGraph([2] * 9)
    graph.add_cpt(0)
    graph.conditional = Closed(graph.conditional)
    for v in range(1, 8):
        graph.add_cpt(v, [v - 1])
    assert graph.parents(7) == (6,)
    with pytest.raises(ValueError, match="variable 3 has a conditional table already, factor 3"):
        graph.add_cpt(3)
    with pytest.raises(ValueError, match="variable 8 has no conditional table"):
        graph.parents(8)


def chain() -> vs.FactorGraph:
    graph = vs.FactorGraph({name: 2 for name in "abcd"})
    graph.add_cpt("b", ["a"])
    graph.add_cpt("c", ["b"])
    return graph


@pytest.mark.parametrize(
    "copied",
    [
        vs.FactorGraph.copy,
        copy.copy,
        copy.deepcopy,
        lambda graph: pickle.loads(pickle.dumps(graph)),
        lambda graph: graph.with_evidence({"a": 1}),
        lambda graph: graph.with_names(list("abcd")),
        lambda graph: graph.part(np.array([0, 1])),
    ],
)
def test_copies(copied: Callable[[vs.FactorGraph], vs.FactorGraph]) -> None:
    graph = chain()
    other = copied(graph)
    assert (other.parents("b"), other.parents("c")) == (("a",), ("b",))
    with pytest.raises(ValueError, match="'a' would be its own ancestor: a -> b -> c -> a"):
        other.add_cpt("a", ["c"])
    with pytest.raises(ValueError, match="'c' has a conditional table already"):
        other.add_cpt("c")
    other.add_cpt("d", ["c"])
    assert other.parents("d") == ("c",)
    with pytest.raises(ValueError, match="'d' has no conditional table"):
        graph.parents("d")
    graph.add_cpt("d", ["a"])
    assert (graph.parents("d"), other.parents("d")) == (("a",), ("c",))


def test_tables_from_files() -> None:
    graph = vs.read_bif(
        b"variable a { type discrete [2] { x, y }; }"
        b"variable b { type discrete [2] { x, y }; }"
        b"probability (a | b) { (x) 0.5, 0.5; (y) 0.1, 0.9; }"
        b"probability (b) { table 0.5, 0.5; }"
    )
    assert (graph.parents("a"), graph.parents("b")) == (("b",), ())
    with pytest.raises(ValueError, match="'b' has a conditional table already, factor"):
        graph.add_cpt("b")


@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_cycles_are_refused_in_any_order(pairs: list[tuple[int, int]]) -> None:
    graph = vs.FactorGraph([2] * 6)
    above: dict[int, int] = {}
    for child, parent in pairs:
        line = [parent]
        while line[-1] in above and line[-1] != child:
            line.append(above[line[-1]])
        if child in above or child in line:
            with pytest.raises(ValueError, match=r"already|own ancestor|twice"):
                graph.add_cpt(child, [parent])
        else:
            graph.add_cpt(child, [parent])
            above[child] = parent
    assert graph.conditional == dict(enumerate(above))


@given(
    seed=st.integers(0, 100_000), n=st.integers(2, 12), most=st.integers(1, 5), late=st.booleans()
)
def test_cycles_of_several_parents_are_refused(seed: int, n: int, most: int, late: bool) -> None:
    """A refused table changes nothing, whatever is wrong with it."""
    rng = random.Random(seed)
    graph = vs.FactorGraph([2] * n)
    above: dict[int, list[int]] = {}
    for child in rng.sample(range(n), n):
        if late:
            graph = pickle.loads(pickle.dumps(graph))
        for _ in range(3):
            parents = rng.sample([v for v in range(n) if v != child], min(most, n - 1))
            found, left = set(parents), list(parents)
            while left:
                more = set(above.get(left.pop(), ())) - found
                found |= more
                left += more
            if child in found:
                with pytest.raises(ValueError, match=rf"own ancestor: {child} -> .*-> {child}$"):
                    graph.add_cpt(child, parents)
                continue
            with pytest.raises(ValueError, match="must have shape"):
                graph.add_cpt(child, parents, [0.5])
            graph.add_cpt(child, parents)
            above[child] = parents
            break
    assert {v: list(graph.parents(v)) for v in above} == above


class Counted(dict[int, Any]):
    """A dictionary that counts how often it is asked."""

    asked = 0

    def get(self, *key: Any) -> Any:
        self.asked += 1
        return super().get(*key)


N = 3000
#: Chains whose tables come in an order in which parents, or children, are far from each other.
LINE = [(v, [v - 1]) for v in range(1, N)]
ORDERS = {
    "forwards": LINE,
    "backwards": LINE[::-1],
    "odd ones first": LINE[::2] + LINE[1::2],
    "leaves first": [(2 * N + v, [N + v]) for v in range(N)]
    + LINE
    + [(N + v, [N - 1]) for v in range(N)],
    "any": random.Random(0).sample(LINE, N - 1),
    "between two": [*LINE, (N, [2 * N])]
    + [(N + v, [N + v - 1, 2 * N + v]) for v in range(1, N)]
    + [(2 * N + v, [N - 1]) for v in range(N)],
}


@pytest.mark.parametrize("order", ORDERS)
def test_no_order_of_tables_takes_a_walk_for_each(order: str) -> None:
    """In the worst of them a chain of 20,000 variables took a minute."""
    families = Families()
    families.above, families.below = above, below = Counted(), Counted()
    for factor, (child, parents) in enumerate(ORDERS[order]):
        assert not families.closes_cycle(child, tuple(parents))
        families.add(factor, (*parents, child))
    assert above.asked + below.asked < 50 * families.arcs
    assert families.closes_cycle(0, (N - 1,))
