"""`FactorGraph.check`: what looks like a mistake, and what does not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.factors import Feature, Features, Table
from valuesparse.models import Finding

seeds = st.integers(0, 2**32 - 1)


def kinds(graph: vs.FactorGraph) -> list[tuple[str, int | None, tuple[Any, ...]]]:
    return [(f.kind, f.factor, f.variables) for f in graph.check()]


def named(evidence: Any = None) -> vs.FactorGraph:
    """Three variables that some factor has, and nothing to find."""
    graph = vs.FactorGraph([2, 3, 1], names=["a", "b", "c"], states=[["no", "yes"], None, None])
    graph.add(["a", "b", "c"], np.log([[[0.1], [0.2], [0.3]], [[0.1], [0.1], [0.2]]]))
    graph.set_evidence(evidence or {})
    assert graph.check() == []
    return graph


@pytest.mark.parametrize(
    ("scope", "table", "over"),
    [
        ("a", [0.3, 0.7], "in all"),
        ("ab", [[0.1, 0.2, 0.3], [0.1, 0.1, 0.2]], "in all"),
        ("ab", [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], "over 'b'"),
        ("ba", [[0.1, 0.9], [0.2, 0.8], [1.0, 0.0]], "over 'a'"),
        ("ba", [[0.1, 0.2], [0.2, 0.8], [0.7, 0.0]], "over 'b'"),
        ("ab", np.full((2, 3), 1 / 3, dtype=np.float32), "over 'b'"),
        ("b", [0.0, 1.0, 0.0], "in all"),
        ("cb", [[0.5, 0.25, 0.25]], "in all"),
    ],
)
def test_probabilities(scope: str, table: Any, over: str) -> None:
    graph = named()
    graph.add(list(scope), table)
    assert kinds(graph) == [("probabilities", 1, tuple(scope))]
    (finding,) = graph.check()
    assert isinstance(finding, Finding)
    assert over in finding.message
    assert finding.message.startswith(f"factor 1 over {', '.join(map(repr, scope))} looks like")
    assert "np.log" in finding.message
    assert "\n" not in finding.message
    assert pickle.loads(pickle.dumps(finding)) == finding


@given(seeds)
@settings(max_examples=300)
def test_ordinary_tables_raise_no_alarm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph(rng.integers(2, 4, 4))
    graph.add([0, 1, 2, 3], rng.normal(size=graph.cardinalities))
    for _ in range(6):
        scope = rng.permutation(4)[: rng.integers(0, 4)].tolist()
        shape = [graph.cardinalities[v] for v in scope]
        if rng.random() < 0.3:  # scores
            graph.add(scope, rng.normal(0, rng.choice([1e-3, 1.0, 50.0]), shape))
        elif rng.random() < 0.3:
            graph.add(scope, rng.gamma(1.0, rng.choice([0.3, 3.0]), shape))
        elif rng.random() < 0.5:  # a distribution, its zeros too where no state is left out
            table = rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)
            graph.add(scope, np.log(table))
        else:  # one for each row
            table = rng.gamma(1.0, 1.0, shape)
            graph.add(scope, np.log(table / table.sum(axis=-1, keepdims=True)) if scope else -0.5)
        weight = float(rng.choice([0.0, 1.0, -2.0, 0.5]))
        if scope:
            graph.add_feature(scope, [0] * len(scope), weight)
            break
    assert graph.check() == []


def test_ones_of_features_are_weights() -> None:
    graph = named()
    graph.add_feature(["a"], ["yes"], 1.0)
    graph.add_feature(["a", "b"], lambda a, b: b == 0, 1.0)
    graph.add_features(Features([[0, 1]], 1.0, assignments=[[0, 2]]))
    assert graph.check() == []


def test_nothing_is_possible() -> None:
    graph = named()
    graph.add(["a", "b"], np.full((2, 3), -np.inf))
    graph.add([], -np.inf)
    graph.add_feature(["b", "a"], np.ones((3, 2), dtype=bool), -np.inf)
    graph.add_feature([], [], -np.inf)
    graph.add_features(Features([[0, 1]], -np.inf, fires=np.ones((2, 3), dtype=bool)))
    assert kinds(graph) == [
        ("forbids everything", 1, ("a", "b")),
        ("forbids everything", 2, ()),
        ("forbids everything", 3, ("b", "a")),
        ("forbids everything", 4, ()),
        ("forbids everything", 5, ("a", "b")),
    ]
    graph = named()
    graph.add(["a"], [0.0, -np.inf])
    graph.add(["a"], [-np.inf, 1.0])
    assert kinds(graph) == [("forbids everything", None, ("a",))]
    assert "variable 'a' has no possible state" in graph.check()[0].message


def test_states_that_are_impossible() -> None:
    graph = named({"a": "no"})
    graph.add(["a", "b"], [[-np.inf, -np.inf, -np.inf], [1.0, -np.inf, 0.0]])
    graph.add_feature(["b"], [2], -np.inf)
    graph.add_feature(["b", "a"], [0, "no"], -np.inf)  # that leaves either
    assert kinds(graph) == [
        ("impossible states", 1, ("a",)),
        ("impossible evidence", 1, ("a",)),
        ("impossible states", 1, ("b",)),
    ]
    a, known, b = graph.check()
    assert "'a' cannot be in state 'no'" in a.message
    assert "by the evidence" in known.message
    assert "'b' cannot be in state 1, 2" in b.message
    graph = named()
    graph.add_features(Features([[0], [0]], [-np.inf, 1.0], assignments=[[1], [0]]))
    graph.add_features(
        Features([[1, 0]], -np.inf, fires=[[True, True], [False, True], [False] * 2])
    )
    assert kinds(graph) == [("impossible states", 1, ("a",)), ("impossible states", 3, ("b",))]


def test_constants_duplicates_and_variables_that_are_nowhere() -> None:
    graph = named()
    graph.add(["a"], [2.0, 2.0])
    graph.add(["a", "b"], np.zeros((2, 3)))
    graph.add_feature(["a", "b"], np.ones((2, 3), dtype=bool), 0.5)
    graph.add_feature(["a", "b"], np.zeros((2, 3), dtype=bool), 0.5)
    graph.add_feature(["a", "b"], np.zeros((2, 3), dtype=bool), 0.0)  # to be learnt
    graph.add([], 3.0)  # a constant that says so
    assert kinds(graph) == [
        ("constant", 1, ("a",)),
        ("constant", 2, ("a", "b")),
        ("constant", 3, ("a", "b")),
        ("constant", 4, ("a", "b")),
    ]
    graph = named()
    table = np.array([[1.0, 2.0, 5.0], [0.5, 0.1, -1.0]])
    for extra in (0.0, 0.0, 1.0):
        graph.add(["a", "b"], table + extra)
    graph.add(["b", "a"], table.T)
    graph.add(Table((0, 1), table))
    for state in (1, 1, 2):
        graph.add_feature(["a", "b"], ["no", state], 0.5)
    graph.add(Feature((0, 1), (0, 1), 0.5))
    graph.add_features(Features([[0, 1]] * 3, [1.0, 2.0, 1.0]))
    assert kinds(graph) == [("duplicate", i, ("a", "b")) for i in (2, 5, 7, 9, 12)]
    assert "equals factor 10" in graph.check()[-1].message
    graph = vs.FactorGraph([2, 2, 2])
    graph.add([1], [0.0, 1.5])
    assert kinds(graph) == [("unused variable", None, (0,)), ("unused variable", None, (2,))]


def test_exceptions_of_kinds_of_ones_own_are_findings() -> None:
    class Raising(vs.factors.Structured):
        def log_potential(self, states):
            raise ZeroDivisionError("mine")

        def sum_product(self, messages):
            return self.log_potential(messages)

        def best(self, messages):
            return self.log_potential(messages)

    class Short(vs.factors.Factor):
        def __init__(self, *variables):
            self.scope = variables

        def log_potential(self, states):
            return np.zeros(1)

    graph = vs.FactorGraph([2, 2, 2], names=["a", "b", "c"])
    graph.add(Raising((0, 1)))
    graph.add(Short(2, 0))
    graph.add(["c"], [0.0, -np.inf])
    assert kinds(graph) == [
        ("error", 0, ("a", "b")),
        ("error", 1, ("c", "a")),
        ("impossible states", 2, ("c",)),
    ]
    first, second, _ = graph.check()
    assert first.message == (
        "factor 0 over 'a', 'b' raises ZeroDivisionError: mine; inference would, too"
    )
    assert "raises ValueError: log_potential of Short(2, 0) must return shape" in second.message


def test_checking_changes_nothing() -> None:
    graph = named({"b": 1})
    graph.add_features(Features([[0, 1], [1, 0]], [1.0, -np.inf]))
    graph.add(["a"], [0.25, 0.75])
    before = vs.infer(graph)
    state = pickle.dumps(graph)
    first = graph.check()
    assert graph.check() == first != []
    assert pickle.dumps(graph) == state
    assert vs.infer(graph).log_z == before.log_z
    assert vs.FactorGraph([]).check() == []


def test_files_and_many_features_are_quick_to_check() -> None:
    n = 100_000
    graph = vs.FactorGraph([2] * 400)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 400, n)
    graph.add_features(Features(np.stack([a, (a + 1 + rng.integers(0, 398, n)) % 400], 1),
                                rng.normal(size=n)))  # fmt: skip
    assert graph.check() == []
    assert graph._factors.count(None) == n  # no object for each
