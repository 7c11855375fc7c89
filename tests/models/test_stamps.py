"""Engines prepare data for the factors of a graph, and free it when these change."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.inference import _snapshots
from valuesparse.inference._snapshots import snapshot_of


class Own(vs.factors.Factor):
    """A factor that makes its table, and counts how often."""

    def __init__(self, value: float) -> None:
        self.scope, self.value, self.asked = (0,), value, 0

    def table(self, shape: tuple[int, ...]) -> np.ndarray:
        self.asked += 1
        return np.full(shape, self.value)

    def log_potential(self, states: np.ndarray) -> np.ndarray:
        return np.full(len(states), self.value)


def test_a_snapshot_is_made_once_until_a_factor_is_added() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add((0, 1), np.eye(2))
    first = snapshot_of(graph)
    assert snapshot_of(graph) is first
    assert snapshot_of(graph.copy()) is first
    graph.add_feature([0], [1], 1.0)
    assert snapshot_of(graph) is not first
    second = snapshot_of(graph)
    graph.add_features(vs.factors.Features([[0, 1]], 1.0))
    assert snapshot_of(graph) is not second
    assert snapshot_of(graph).scopes == [(0, 1), (0,), (0, 1)]


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_copies_are_graphs_of_their_own(again) -> None:
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    first = snapshot_of(graph)
    other = again(graph)
    other.add([0], [0.0, 1.0])
    assert snapshot_of(graph) is first
    assert vs.infer(other).marginals[0][1] > vs.infer(graph).marginals[0][1]


def test_parts_have_snapshots_of_their_own() -> None:
    graph = vs.FactorGraph([2])
    for _ in range(2):
        graph.add([0], [0.0, 1.0])
    whole = snapshot_of(graph)
    part = graph.part(np.array([1]))
    assert snapshot_of(part) is not whole
    assert snapshot_of(part).scopes == [(0,)]


def test_no_snapshot_outlives_its_graph() -> None:
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    snapshot_of(graph)
    stamp, there = weakref.ref(graph.stamp), weakref.ref(graph)
    del graph
    gc.collect()
    assert there() is None
    assert stamp() is None


def test_a_copy_checks_what_factors_make_beside_its_own_evidence() -> None:
    graph = vs.FactorGraph([2])
    own = Own(0.9e17)
    graph.add(own)
    before = graph.with_evidence({0: [0.0, 0.2e17]})
    snapshot_of(graph)
    snapshot_of(graph.copy())
    assert own.asked == 1
    with pytest.raises(ValueError, match="1e\\+17"):
        snapshot_of(before)


def test_beliefs_of_factors_need_no_snapshot() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    for edge in [(0, 1), (1, 2), (0, 2)]:
        graph.add_feature(edge, [1, 1], 0.5)
    r = vs.infer(graph, method="bp")
    assert len(r.pairwise()) == len(r.factor_marginals()) == 3
    r.entropy()
    r.joint([0, 1])
    assert graph.stamp not in _snapshots._KEPT
    assert r.part().stamp not in _snapshots._KEPT
    vs.infer(graph)
    assert graph.stamp in _snapshots._KEPT
