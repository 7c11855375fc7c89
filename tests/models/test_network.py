"""Bayesian networks as people write them: names, conditional tables, likelihoods."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.inference import trw_dual_bound

RAIN = [0.8, 0.2]
WET = [[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]


def sprinkler() -> vs.FactorGraph:
    graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["dry", "damp", "soaked"]})
    graph.add_cpt("rain", [], RAIN)
    graph.add_cpt("wet", ["rain"], WET)
    return graph


def joint() -> np.ndarray:
    return np.array(RAIN)[:, None] * np.array(WET)


def test_a_mapping_has_names_and_states() -> None:
    graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": 2, 7: ("a", "b", "c"), "n": np.int64(4)})
    assert graph.names == ("rain", "wet", 7, "n")
    assert graph.cardinalities == (2, 2, 3, 4)
    assert graph.states == (("no", "yes"), None, ("a", "b", "c"), None)
    assert vs.FactorGraph({}).n_variables == 0


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"a": 0}, r"cardinalities\['a'\] is 0"),
        ({"a": []}, r"cardinalities\['a'\] is \[\]"),
        ({"a": "no yes"}, r"cardinalities\['a'\] must be a number of states or a sequence"),
        ({"a": 2.5}, r"cardinalities\['a'\] must be"),
        ({"a": True}, r"cardinalities\['a'\] must be"),
        ({"a": ["x", "x"]}, "the same name twice"),
    ],
)
def test_mappings_that_are_none(variables: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        vs.FactorGraph(variables)
    with pytest.raises(ValueError, match="names and states must not be given beside"):
        vs.FactorGraph({"a": 2}, names=["b"])


@pytest.mark.smoke
def test_conditional_tables() -> None:
    graph = sprinkler()
    p = joint()
    assert graph.conditional == {0: 0, 1: 1}
    assert vs.infer(graph).log_z == pytest.approx(0.0, abs=1e-15)
    r = vs.infer(graph, evidence={"wet": "damp"})
    np.testing.assert_allclose(r["rain"], p[:, 1] / p[:, 1].sum(), rtol=1e-14)
    assert r["rain", "yes"] == r["rain"][1]
    assert r["rain", 1] == r["rain"][1]
    assert r.log_z == pytest.approx(np.log(p[:, 1].sum()), abs=1e-14)
    assert vs.JunctionTree(graph).log_z({"wet": 1}) == pytest.approx(r.log_z, abs=1e-14)
    assert graph.parents("wet") == ("rain",)
    assert graph.parents("rain") == ()
    assert graph.check() == []


def test_left_out_tables_are_uniform() -> None:
    graph = vs.FactorGraph({"a": 2, "b": 4})
    graph.add_cpt("b", ["a"])
    np.testing.assert_array_equal(graph.factors[0].log_table, np.log(np.full((2, 4), 0.25)))
    assert [(f.kind, f.variables) for f in graph.check()] == [("no table", ("a",))]
    with pytest.raises(ValueError, match="variable 'a' has no conditional table"):
        graph.parents("a")


def test_rows_are_normalised_where_they_were_rounded() -> None:
    graph = vs.FactorGraph({"a": 3})
    graph.add_cpt("a", [], np.array([1 / 3, 1 / 3, 1 / 3], dtype=np.float32))
    assert vs.infer(graph).log_z == pytest.approx(0.0, abs=1e-15)
    assert graph.conditional == {0: 0}


@pytest.mark.parametrize(
    ("child", "parents", "table", "words"),
    [
        ("wet", ["rain"], [[0.9, 0.1], [0.2, 0.7]], "'wet': the row rain='yes' sums to 0.9, not 1"),
        ("wet", ["rain"], [[0.9, 0.2], [0.1, 0.8]], "np.moveaxis"),
        ("wet", [], [0.9, 0.2], "its one row sums to 1.1, not 1"),
        ("wet", ["rain"], [[1.5, -0.5], [0, 1]], "entry at rain='no', wet=1 is -0.5"),
        ("wet", ["rain"], [[np.nan, 1], [0, 1]], "entry at rain='no', wet=0 is nan"),
        (
            "wet",
            ["rain"],
            [0.5, 0.5],
            r"must have shape \(2, 2\), an axis for each of 'rain', 'wet'",
        ),
        ("wet", ["wet"], [[1, 0], [0, 1]], "has a variable twice"),
        ("wet", ["snow"], [[1, 0], [0, 1]], r"parents\[0\]: there is no variable named 'snow'"),
        ("wet", "rain", [[1, 0], [0, 1]], "parents must be a sequence of variables"),
        ("rain", [], [1, 0], "'rain' has a conditional table already, factor 0"),
    ],
)
def test_tables_that_are_refused(child: str, parents: Any, table: Any, words: str) -> None:
    graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": 2})
    graph.add_cpt("rain", [], [0.5, 0.5])
    with pytest.raises(ValueError, match=words):
        graph.add_cpt(child, parents, table)
    assert graph.n_factors == 1
    assert graph.conditional == {0: 0}
    with pytest.raises(TypeError):
        graph.add_cpt("wet", [], np.array([1j, 0]))


def test_cycles_are_refused() -> None:
    graph = vs.FactorGraph({name: 2 for name in "abcd"})
    graph.add_cpt("b", ["a"])
    graph.add_cpt("c", ["b", "d"])
    with pytest.raises(ValueError, match="'a' would be its own ancestor: a -> b -> c -> a"):
        graph.add_cpt("a", ["c"])
    assert graph.add_cpt("d", ["a"]) == 2


def test_probabilities_of_a_factor() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], None, probabilities=[[0.5, 0.0], [0.25, 0.25]])
    assert graph.factors[0].log_table[0, 1] == -np.inf
    np.testing.assert_allclose(vs.infer(graph).marginals[0], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"probabilities\[0, 1\] is -1"):
        graph.add([0, 1], probabilities=[[0.5, -1.0], [0.25, 0.25]])
    with pytest.raises(ValueError, match="must not both be given"):
        graph.add([0], [0.0, 0.0], probabilities=[0.5, 0.5])
    with pytest.raises(ValueError, match="probabilities must not be given with a Factor"):
        graph.add(vs.factors.Xor(0, 1), probabilities=[0.5, 0.5])  # type: ignore[call-overload]


def test_a_name_wins_and_other_integers_are_numbers() -> None:
    graph = vs.FactorGraph({5: ["x", "y"], "b": ["1", "0"], 0: [2, 3]})
    assert [graph.variable(v) for v in (5, "b", 0, 1, 2)] == [0, 1, 2, 1, 2]
    assert graph.state(1, "0") == 1
    assert graph.state(1, 0) == 0
    assert graph.state(2, 3) == 1
    assert graph.state(2, 0) == 0
    for bad in (3, -1, True, 1.0, "c"):
        with pytest.raises(ValueError, match="no variable named"):
            graph.variable(bad)
    for bad in (4, -1, False, 0.0, "x"):
        with pytest.raises(ValueError, match="has no state"):
            graph.state(2, bad)


def test_names_that_are_pairs_are_not_taken_apart() -> None:
    graph = vs.FactorGraph({(0, 1): 2, ("a", "b"): 2, "a": ["a", "b"]})
    r = vs.infer(graph)
    assert r[0, 1].shape == (2,)
    assert r["a", "b"].shape == (2,)
    assert r["a", "a"] == 0.5
    with pytest.raises(ValueError, match=r"no variable named \(1, 0\)"):
        r[1, 0]
    assert vs.infer(vs.FactorGraph([2, 2]))[1, 0] == 0.5


def _every(graph: vs.FactorGraph, likelihood: Any) -> Any:
    """Ask all that take likelihoods; return log Z of each."""
    jt = vs.JunctionTree(graph)
    yield vs.infer(graph, likelihood=likelihood).log_z
    yield vs.infer(graph, likelihood=likelihood, method="bp").log_z
    yield jt.infer(likelihood=likelihood).log_z
    yield jt.log_z(likelihood=likelihood)
    yield vs.JunctionTree(graph, likelihood=likelihood).infer().log_z
    yield vs.infer(graph.with_evidence({}, likelihood=likelihood)).log_z
    yield vs.bounds.log_z(graph, likelihood=likelihood).upper
    yield vs.relax(graph, likelihood=likelihood).log_z
    yield trw_dual_bound(graph, likelihood=likelihood).upper


def test_likelihoods_are_probabilities_wherever_evidence_is_taken() -> None:
    graph, likelihood = sprinkler(), {"wet": [0.5, 0.0, 1.0]}
    weighed = joint() * np.array([0.5, 0.0, 1.0])
    for value in _every(graph, likelihood):
        assert value == pytest.approx(np.log(weighed.sum()), abs=1e-9)
    p = weighed / weighed.sum()
    jt = vs.JunctionTree(graph)
    np.testing.assert_allclose(jt.joint(["rain", "wet"], likelihood=likelihood), p, rtol=1e-12)
    for d in (vs.decode(graph, likelihood=likelihood), jt.decode(likelihood=likelihood)):
        assert d["wet"] == "dry"
    for x in (
        vs.sample(graph, 200, 0, likelihood=likelihood),
        jt.sample(200, 0, likelihood=likelihood),
    ):
        assert not (x[:, 1] == 1).any()
    found = vs.log_prob(graph, {"rain": "yes", "wet": 2}, likelihood=likelihood)
    assert float(found) == pytest.approx(np.log(p[1, 2]), abs=1e-12)


def test_likelihoods_beside_evidence() -> None:
    graph = sprinkler()
    r = vs.infer(graph, evidence={"rain": "yes"}, likelihood={"wet": [1.0, 2.0, 0.0]})
    np.testing.assert_allclose(r["wet"], np.array([0.2, 0.6, 0.0]) / 0.8, rtol=1e-14)
    twice = vs.infer(graph, evidence={"wet": np.log([3.0, 2.0, 1.0])}, likelihood={1: [1, 2, 3]})
    once = vs.infer(graph, likelihood={"wet": [3.0, 4.0, 3.0]})
    np.testing.assert_allclose(twice["rain"], once["rain"], rtol=1e-14)
    own = graph.with_evidence({"rain": 1})  # stays where evidence is left out
    assert vs.infer(own, likelihood={"wet": [1, 1, 0]})["rain"].tolist() == [0.0, 1.0]
    built = vs.JunctionTree(graph, evidence={"rain": 1}, likelihood={"wet": [1, 1, 0]})
    assert built.infer(likelihood={"wet": [0, 1, 1]})["wet"].tolist() == [0.0, 1.0, 0.0]
    copy = pickle.loads(pickle.dumps(built))
    assert copy.log_z() == built.log_z()


@pytest.mark.parametrize(
    ("likelihood", "words"),
    [
        ({"wet": [0.5, 0.5]}, r"likelihood\['wet'\] must have shape \(3,\)"),
        ({"wet": [0.5, -0.5, 1]}, r"likelihood\['wet'\]\[1\] is -0.5; likelihoods are finite numb"),
        ({"wet": [0.5, np.inf, 1]}, r"likelihood\['wet'\]\[1\] is inf"),
        ({"snow": [1, 1]}, r"likelihood\['snow'\]: there is no variable"),
        ({"rain": [1, 1]}, r"likelihood\['rain'\]: the state of the variable is known already"),
        ([1, 2], "likelihood must be a mapping"),
    ],
)
def test_likelihoods_that_are_refused(likelihood: Any, words: str) -> None:
    graph = sprinkler()
    with pytest.raises(ValueError, match=words):
        vs.infer(graph, evidence={"rain": 0}, likelihood=likelihood)
    with pytest.raises(ValueError, match=words):
        vs.JunctionTree(graph).infer({"rain": 0}, likelihood=likelihood)


def test_impossible_likelihoods_and_models_that_take_none() -> None:
    with pytest.raises(vs.InfeasibleError):
        vs.infer(sprinkler(), likelihood={"wet": [0, 0, 0]})
    chain = vs.Chain(np.zeros((2, 2)), np.zeros((2, 2)))
    for ask in (vs.infer, vs.decode):
        with pytest.raises(ValueError, match="likelihood can be given with a FactorGraph only"):
            ask(chain, likelihood={0: [1, 1]})
    with pytest.raises(ValueError, match="frame=True can be given with a FactorGraph only"):
        vs.sample(chain, 1, frame=True)
    with pytest.raises(ValueError, match="a mapping with a FactorGraph only"):
        vs.log_prob(chain, {0: 1})


@pytest.mark.parametrize("value", [[0.2, 0.3, 0.5], (0.0, 0.0, 1.0), np.array([0.5, 0.25, 0.25])])
def test_probabilities_are_no_log_likelihoods(value: Any) -> None:
    graph = sprinkler()
    for ask in (
        lambda: vs.infer(graph, evidence={"wet": value}),
        lambda: vs.JunctionTree(graph).infer({"wet": value}),
        lambda: graph.set_evidence({1: value}),
    ):
        with pytest.raises(ValueError, match=r"sums to one.*write likelihood=\{'wet': \.\.\.\}"):
            ask()


@pytest.mark.parametrize("value", [[0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [1 / 3] * 3, [0.0, 0.5, 1.0],
                                   [-0.5, 0.5, 1.0], [0.0, -np.inf, 1.0]])  # fmt: skip
def test_other_log_likelihoods_are_taken(value: Any) -> None:
    vs.infer(sprinkler(), evidence={"wet": value})


def test_named_decodings_samples_and_probabilities() -> None:
    graph = sprinkler()
    d = vs.decode(graph, evidence={"wet": "soaked"})
    assert dict(d) == {"rain": "yes", "wet": "soaked"}
    assert d[0] == "yes"
    assert pickle.loads(pickle.dumps(d))["rain"] == "yes"
    assert vs.JunctionTree(graph).decode({"wet": 2})["rain"] == "yes"
    with pytest.raises(TypeError, match="variables of chains and trees have no names"):
        vs.decode(vs.Chain(np.zeros((2, 2)), np.zeros((2, 2))))[0]
    p = joint()
    for i, j in itertools.product(range(2), range(3)):
        full = vs.log_prob(graph, {"rain": i, "wet": graph.states[1][j]})  # type: ignore[index]
        assert float(np.exp(full)) == pytest.approx(p[i, j], abs=1e-15)
        assert float(np.exp(vs.log_prob(graph, {"wet": j}))) == pytest.approx(p[:, j].sum())
    given = vs.log_prob(graph, {"wet": "damp"}, evidence={"rain": "yes"})
    assert float(np.exp(given)) == pytest.approx(0.3)
    assert vs.log_prob(graph, {"rain": "no"}, evidence={"rain": "yes"}) == -np.inf
    assert vs.log_prob(graph, {"rain": "no", "wet": "soaked"}) == -np.inf
    assert vs.log_prob(graph, {"wet": "soaked"}, evidence={"rain": "no"}) == -np.inf
    assert vs.log_prob(graph, {}) == pytest.approx(0.0)
    soft = vs.log_prob(graph, {"wet": "damp"}, likelihood={"wet": [1, 2, 3]})
    weighed = p * [1, 2, 3]
    assert float(np.exp(soft)) == pytest.approx(weighed[:, 1].sum() / weighed.sum())
    with pytest.raises(ValueError, match=r"states\['wet'\]: variable 'wet' has no state 'hot'"):
        vs.log_prob(graph, {"wet": "hot"})
    with pytest.raises(ValueError, match="states names variable 0 twice"):
        vs.log_prob(graph, {"rain": 0, 0: 1})


def test_samples_as_frames() -> None:
    pandas = pytest.importorskip("pandas", reason="frames are those of pandas")
    graph = vs.FactorGraph({"a": ["x", "y"], ("b", 1): 3, 5: [("p", 1), ("q", 2)]})
    for v in range(3):
        graph.add_cpt(v)
    states = vs.sample(graph, 50, 3)
    for frame in (vs.sample(graph, 50, 3, frame=True),
                  vs.JunctionTree(graph).sample(50, 3, frame=True)):  # fmt: skip
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame.columns) == ["a", ("b", 1), 5]
        assert frame["a"].tolist() == [("x", "y")[i] for i in states[:, 0]]
        assert frame[5].tolist() == [(("p", 1), ("q", 2))[i] for i in states[:, 2]]
        assert list(frame[("b", 1)]) == states[:, 1].tolist()


def test_states_that_are_no_categories_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="frames are those of pandas")
    graph = vs.FactorGraph({"a": [None, "x"], "b": [float("nan"), 1.5]})
    frame = vs.sample(graph, 40, 0, frame=True)
    states = vs.sample(graph, 40, 0)
    assert [pandas.isna(x) for x in frame["a"]] == (states[:, 0] == 0).tolist()
    assert [pandas.isna(x) for x in frame["b"]] == (states[:, 1] == 0).tolist()


def test_pictures_of_networks() -> None:
    graph = sprinkler()
    graph.add(["rain"], [0.0, 1.0])
    graph.set_evidence({"wet": "damp"}, likelihood={"rain": [1, 2]})
    assert "2 variables, 3 factors, 2 of them conditional tables" in graph.summary()
    assert "evidence: on 'wet', 'rain'" in graph.summary()
    dot = graph.to_dot()
    assert '"rain" -> "wet";' in dot
    assert '"wet" [style=filled];' in dot
    assert '"factor 2" -> "rain" [dir=none];' in dot
    odd = vs.FactorGraph({'a"<b>': ["<i>", "&"]})
    odd.add_cpt(0)
    assert '"a\\"<b>";' in odd.to_dot()
    page = odd._repr_html_()
    assert "<i>" not in page
    assert "&lt;i&gt;, &amp;" in page
    for empty in (vs.FactorGraph([]), vs.FactorGraph([2] * 100)):
        assert empty.summary()
        assert empty._repr_html_()
        assert empty.to_dot().startswith("digraph {")


def test_drawings() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    for graph in (sprinkler(), vs.FactorGraph([2, 2]), vs.FactorGraph([])):
        if graph.n_variables and not graph.n_factors:
            graph.add([0, 1], np.eye(2))
        ax = graph.draw()
        assert [t.get_text() for t in ax.texts if t.get_text()] == [str(n) for n in graph.names]
    assert graph.draw(ax) is ax


@st.composite
def networks(draw: st.DrawFn) -> tuple[vs.FactorGraph, np.ndarray]:
    """A small random network, and its joint distribution."""
    n = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cards = [draw(st.integers(1, 3)) for _ in range(n)]
    graph = vs.FactorGraph({f"v{i}": k for i, k in enumerate(cards)})
    full = np.ones(cards)
    for v in rng.permutation(n):
        done = [u for u in range(n) if u in graph.conditional.values()]
        parents = [u for u in done if rng.random() < 0.6]
        table = rng.dirichlet(np.ones(cards[v]), size=[cards[u] for u in parents])
        if cards[v] > 1 and rng.random() < 0.3:
            table[..., 0] = 0.0
            table /= table.sum(axis=-1, keepdims=True)
        graph.add_cpt(int(v), parents, table)
        axes = [*parents, int(v)]
        order = np.argsort(axes)
        shape = [cards[u] if u in axes else 1 for u in range(n)]
        full = full * table.transpose(order).reshape(shape)
    return graph, full


@settings(max_examples=60)
@given(model=networks())
def test_networks_against_enumeration(model: tuple[vs.FactorGraph, np.ndarray]) -> None:
    graph, full = model
    assert full.sum() == pytest.approx(1.0)
    for v in range(graph.n_variables):
        axes = tuple(u for u in range(graph.n_variables) if u != v)
        np.testing.assert_allclose(vs.infer(graph)[v], full.sum(axis=axes), rtol=0, atol=1e-12)
