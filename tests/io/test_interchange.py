"""Models of pgmpy and pyAgrum."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from graph_files import MODERATE, assert_same_tables, graphs, weights
from hypothesis import given, settings

import valuesparse as vs


@pytest.fixture(scope="module")
def pgmpy() -> Any:
    pytest.importorskip("pgmpy", reason="pgmpy is an optional dependency")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what other parts of pgmpy will become
        import pgmpy.factors.discrete
        import pgmpy.inference
        import pgmpy.models

    return pgmpy


@pytest.fixture(scope="module")
def gum() -> Any:
    return pytest.importorskip("pyagrum", reason="pyAgrum is one of the rivals")


def sprinkler(pgmpy: Any, *, other_order: bool = False) -> Any:
    cpd = pgmpy.factors.discrete.TabularCPD
    model = pgmpy.models.DiscreteBayesianNetwork([("rain", "wet"), ("sprinkler", "wet")])
    names = {"rain": ["no", "yes"], "sprinkler": ["off", "on"], "wet": ["dry", "damp", "soaked"]}
    values = np.array([[0.9, 0.2, 0.1, 0.05], [0.1, 0.5, 0.3, 0.15], [0.0, 0.3, 0.6, 0.8]])
    rain = names["rain"]
    if other_order:  # of the states of a parent than in its own table
        values, rain = values[:, [2, 3, 0, 1]], rain[::-1]
    model.add_cpds(
        cpd("rain", 2, [[0.7], [0.3]], state_names={"rain": names["rain"]}),
        cpd("sprinkler", 2, [[0.6], [0.4]], state_names={"sprinkler": names["sprinkler"]}),
        cpd(
            "wet", 3, values, evidence=["rain", "sprinkler"], evidence_card=[2, 2],
            state_names={**names, "rain": rain},
        ),
    )  # fmt: skip
    return model


@pytest.mark.smoke
def test_network_of_pgmpy(pgmpy: Any) -> None:
    model = sprinkler(pgmpy)
    graph = vs.from_pgmpy(model)
    assert graph.names == tuple(model.nodes())
    wet = graph.factors[graph.names.index("wet")]
    assert [graph.names[v] for v in wet.scope] == ["rain", "sprinkler", "wet"]
    assert graph.states[graph.variable("rain")] == ("no", "yes")
    expected = [[[0.9, 0.1, 0.0], [0.2, 0.5, 0.3]], [[0.1, 0.3, 0.6], [0.05, 0.15, 0.8]]]
    np.testing.assert_allclose(np.exp(wet.log_table), expected, rtol=1e-15)
    assert_same_tables(vs.from_pgmpy(sprinkler(pgmpy, other_order=True)), graph)
    asked = pgmpy.inference.VariableElimination(model).query(
        ["rain"], evidence={"wet": "damp"}, show_progress=False
    )
    ours = vs.infer(graph, evidence={"wet": "damp"})["rain"]
    theirs = [asked.get_value(rain=state) for state in ("no", "yes")]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.smoke
def test_markov_network_and_factor_graph_of_pgmpy(pgmpy: Any) -> None:
    factor = pgmpy.factors.discrete.DiscreteFactor
    first = factor(["a", "b"], [2, 3], np.arange(6) / 4)
    second = factor(["b"], [3], [1.0, 2.0, 0.5])
    network = pgmpy.models.DiscreteMarkovNetwork([("a", "b")])
    network.add_factors(first, second)
    bipartite = pgmpy.models.FactorGraph()
    bipartite.add_nodes_from(["a", "b"])
    bipartite.add_factors(first, second)
    bipartite.add_edges_from([("a", first), ("b", first), ("b", second)])
    for model in (network, bipartite):
        graph = vs.from_pgmpy(model)
        assert graph.names == ("a", "b")
        assert graph.states == (None, None)
        expected = (first.values * second.values).reshape(2, 3)
        np.testing.assert_allclose(weights(graph), expected, rtol=1e-14)


def test_what_pgmpy_models_cannot_be(pgmpy: Any) -> None:
    with pytest.raises(TypeError, match=r"got builtins\.dict"):
        vs.from_pgmpy({})
    with pytest.raises(TypeError, match="got pgmpy"):
        vs.from_pgmpy(pgmpy.models.JunctionTree())
    model = pgmpy.models.DiscreteBayesianNetwork([("a", "b")])
    with pytest.raises(ValueError, match="variable 'a' of the pgmpy model has no CPD"):
        vs.from_pgmpy(model)
    network = pgmpy.models.DiscreteMarkovNetwork([("a", "b")])
    network.add_factors(pgmpy.factors.discrete.DiscreteFactor(["a"], [2], [1, 1]))
    with pytest.raises(ValueError, match="variable 'b' of the pgmpy model is in no factor"):
        vs.from_pgmpy(network)
    network.add_factors(pgmpy.factors.discrete.DiscreteFactor(["a", "b"], [2, 2], [1, -1, 1, 1]))
    with pytest.raises(ValueError, match=r"table of a, b: entry \(0, 1\) is negative"):
        vs.from_pgmpy(network)


@settings(max_examples=50)
@given(graphs(numbers=MODERATE))
def test_there_and_back(pgmpy: Any, graph: vs.FactorGraph) -> None:
    if not graph.n_variables:
        return
    model = vs.to_pgmpy(graph)
    model.check_model()
    again = vs.from_pgmpy(model)
    assert again.names == graph.names
    expected = weights(graph)
    np.testing.assert_allclose(weights(again), expected, rtol=1e-13, atol=1e-300)


@pytest.mark.smoke
def test_names_and_states_go_to_pgmpy(pgmpy: Any) -> None:
    graph = vs.FactorGraph([2, 3], names=["rain", "wet"], states=[["no", "yes"], None])
    graph.add(["rain", "wet"], np.log(np.arange(6).reshape(2, 3) + 1.0))
    model = vs.to_pgmpy(graph)
    assert type(model).__name__ == "DiscreteMarkovNetwork"
    (factor,) = model.get_factors()
    assert factor.state_names == {"rain": ["no", "yes"], "wet": [0, 1, 2]}
    again = vs.from_pgmpy(model)
    assert_same_tables(again, graph)
    assert (again.names, again.states) == (graph.names, graph.states)
    constant = vs.FactorGraph([])
    constant.add([], np.log(2.0))
    with pytest.raises(ValueError, match="needs a variable"):
        vs.to_pgmpy(constant)


def test_network_of_pyagrum(gum: Any) -> None:
    bn = gum.fastBN("rain{no|yes}->wet{dry|damp|soaked}<-sprinkler{off|on}->rain")
    graph = vs.from_pyagrum(bn)
    assert graph.names == tuple(bn.variable(v).name() for v in sorted(bn.nodes()))
    assert graph.states[graph.variable("wet")] == ("dry", "damp", "soaked")
    for factor in graph.factors:
        names = [graph.names[v] for v in factor.scope]
        cpt = bn.cpt(names[-1])
        for index in np.ndindex(factor.log_table.shape):
            at = dict(zip(names, map(int, index), strict=True))
            assert factor.log_table[index] == np.log(np.float64(cpt[at]))  # the very doubles
    engine = gum.LazyPropagation(bn)
    engine.setEvidence({"wet": "damp"})
    engine.makeInference()
    r = vs.infer(graph, evidence={"wet": "damp"})
    for name in graph.names:
        np.testing.assert_allclose(r[name], engine.posterior(name).toarray(), atol=1e-12)
    assert r.log_z == pytest.approx(np.log(engine.evidenceProbability()), rel=1e-12)


def test_markov_random_field_of_pyagrum(gum: Any) -> None:
    model = gum.fastMRF("a{x|y}--b[3]--c;c--d[4]")
    graph = vs.from_pyagrum(model)
    assert graph.names == ("a", "b", "c", "d")
    assert graph.states[:2] == (("x", "y"), ("0", "1", "2"))
    found = weights(graph)
    for index in np.ndindex(found.shape):
        at = dict(zip(graph.names, map(int, index), strict=True))
        value = np.prod([model.factor(scope)[at] for scope in model.factors()])
        assert found[index] == pytest.approx(value, rel=1e-13)


def test_what_pyagrum_models_cannot_be(gum: Any) -> None:
    with pytest.raises(TypeError, match="got pyagrum"):
        vs.from_pyagrum(gum.InfluenceDiagram())
    with pytest.raises(TypeError, match="got valuesparse"):
        vs.from_pyagrum(vs.FactorGraph([2]))
