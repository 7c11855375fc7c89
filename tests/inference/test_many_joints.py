"""Joints of many small sets: what they have in common is found once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.inference._joints import _table_bytes
from valuesparse.inference._questions import full_joints


class _Tree:
    """Has tables of ones over the states that are alive, and counts who asks for these."""

    def __init__(self, alive: list[list[int]], orders: list[list[int]]) -> None:
        self._alive, self._orders = alive, orders
        self.asked: Counter[int] = Counter()

    def alive(self, v: int) -> list[int]:
        self.asked[v] += 1
        return self._alive[v]

    def joint(self, q: int) -> tuple[np.ndarray, list[int]]:
        order = self._orders[q]
        return np.ones([len(self._alive[v]) for v in order]), order


SETS = [(0, 1), (1, 2), (2, 0), (0, 1)]


def test_nobody_asks_which_states_are_alive_where_all_are() -> None:
    graph = vs.FactorGraph([2, 3, 2])
    tree = _Tree([[0, 1], [0, 1, 2], [0, 1]], [sorted(s, reverse=True) for s in SETS])
    found = list(full_joints(tree, SETS, graph))  # type: ignore[arg-type]
    assert [table.shape for table in found] == [(2, 3), (3, 2), (2, 2), (2, 3)]
    assert all(table.flags.c_contiguous and (table == 1.0).all() for table in found)
    assert not tree.asked


@pytest.mark.parametrize("gone", [0.0, -np.inf])
def test_states_that_are_alive_are_asked_for_once_for_each_axis(gone: float) -> None:
    graph = vs.FactorGraph([2, 3, 2])
    tree = _Tree([[1], [0, 2], [0, 1]], [sorted(s) for s in SETS * 10])
    found = list(full_joints(tree, SETS * 10, graph, gone))  # type: ignore[arg-type]
    assert max(tree.asked.values()) <= 2  # as the first axis and as the second
    expected = np.full((2, 3), gone)
    expected[1, [0, 2]] = 1.0
    np.testing.assert_array_equal(found[0], expected)
    expected = np.full((2, 2), gone)
    expected[:, 1] = 1.0
    np.testing.assert_array_equal(found[2], expected)


def test_decided_variables_that_a_table_lacks() -> None:
    graph, tree = vs.FactorGraph([2, 3]), _Tree([[1], [0, 1, 2]], [[1]])
    (found,) = full_joints(tree, [(0, 1)], graph)  # type: ignore[arg-type]
    assert found.tolist() == [[0.0] * 3, [1.0] * 3]


def test_bytes_of_tables_ask_for_each_variable_once() -> None:
    tree = _Tree([[0, 1], [0, 1, 2], [0, 1]], [])
    assert _table_bytes(tree, SETS) == 16.0 * (6 + 6 + 4 + 6)  # type: ignore[arg-type]
    assert set(tree.asked.values()) == {1}


@pytest.mark.parametrize("threads", [1, 2])
def test_each_of_many_joints_comes_from_a_clique_that_holds_it(threads: int) -> None:
    """Triangles about a hub of more neighbours than fill is counted for, some of them decided."""
    rng = np.random.default_rng(0)
    n = 300
    graph = vs.FactorGraph([2] * (2 * n + 1))
    ends = 1 + np.arange(2 * n).reshape(n, 2)
    hub = np.zeros((n, 1), dtype=int)
    for scopes in (ends, np.c_[hub, ends[:, :1]], np.c_[hub, ends[:, 1:]]):
        graph.add_many(scopes, rng.normal(size=(n, 2, 2)))
    held = {int(v): int(v) % 2 for v in rng.permutation(2 * n)[:150] + 1}
    r = vs.infer(graph, evidence=held, threads=threads)
    pairs, tables = r.pairwise(threads=threads), r.factor_marginals(threads=threads)
    for i in range(0, graph.n_factors, 7):
        scope = graph.factors[i].scope
        expected = r.joint(list(scope))
        np.testing.assert_allclose(tables[i], expected, rtol=0, atol=1e-13)
        np.testing.assert_allclose(pairs[scope], expected, rtol=0, atol=1e-13)
