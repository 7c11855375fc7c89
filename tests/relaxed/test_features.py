"""Features: what goes in, expectations, inference with some of the factors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from graph_oracle import log_sum, marginal, probabilities
from hypothesis import given
from hypothesis import strategies as st
from relaxed_oracle import marginals, random_graph, scores

import valuesparse as vs
from valuesparse.factors import Feature, Features

seeds = st.integers(0, 2**32 - 1)


def fires(feature: Feature, full: np.ndarray) -> float:
    """P(φ = 1), from the definition."""
    p = marginal(probabilities(full), list(feature.scope))
    where = np.zeros(p.shape, dtype=bool)
    if isinstance(feature.fires, tuple):
        where[feature.fires] = True
    else:
        where = feature.fires
    return float(p[where].sum())


@given(seeds)
def test_expectations_equal_enumeration(seed: int) -> None:
    graph, _ = random_graph(np.random.default_rng(seed))
    r = vs.infer(graph)
    want = [fires(f, scores(graph)) for f in graph.factors if isinstance(f, Feature)]
    np.testing.assert_allclose(r.expectations(), want, atol=1e-10)
    assert r.expectations().dtype == np.float64


@pytest.mark.parametrize("fires", [[], lambda: True])
def test_a_feature_without_variables_is_a_constant(fires) -> None:
    graph = vs.FactorGraph([2])
    always = graph.add_feature([], fires, 2.0)
    graph.add_feature([0], [1], np.log(3.0))
    r = vs.infer(graph)
    assert r.log_z == pytest.approx(2.0 + np.log(4.0), abs=1e-12)
    np.testing.assert_allclose(r.expectations(), [1.0, 0.75], atol=1e-12)
    part = vs.infer(graph, factors=[1])
    assert vs.gain(graph, [always], part).tolist() == [0.0]
    assert part.divergence_bound < 1e-12


@given(seeds)
def test_some_of_the_factors(seed: int) -> None:
    graph, kept = random_graph(np.random.default_rng(seed))
    r = vs.infer(graph, factors=kept)
    full = scores(graph, kept)
    assert r.log_z == pytest.approx(log_sum(full), abs=1e-9)
    for got, want in zip(r.marginals, marginals(full), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-10)
    assert r.factors.tolist() == kept.tolist()
    assert r.graph is graph
    pair = list(range(2))
    np.testing.assert_allclose(r.joint(pair), marginal(probabilities(full), pair), atol=1e-10)
    assert r.expectations().size == sum(isinstance(f, Feature) for f in graph.factors)


def test_expectations_of_what_was_left_out_are_joint_where_the_engine_has_it() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    graph.add([0, 1], np.log([[4.0, 1.0], [1.0, 4.0]]))
    graph.add([1, 2], np.log([[4.0, 1.0], [1.0, 4.0]]))
    graph.add_feature([1, 0], [1, 1], 5.0)  # held by factor 0
    graph.add_feature([0, 2], [1, 1], 5.0)  # dependent, held by none: a product
    e = vs.infer(graph, factors=[0, 1]).expectations()
    np.testing.assert_allclose(e, [0.4, 0.25], atol=1e-12)


def test_predicates_are_told_state_names() -> None:
    graph = vs.FactorGraph([2, 2], names=["a", "b"], states=[["no", "yes"], None])
    graph.add_feature(["a", "b"], lambda a, b: a == "yes" and b == 0, np.log(3))
    graph.add_feature(["a"], ["yes"], 0.0)
    assert graph.factors[0].table([2, 2]).tolist() == [[0.0, 0.0], [np.log(3), 0.0]]
    np.testing.assert_allclose(vs.infer(graph).expectations(), [0.5, 4 / 6])


@pytest.mark.parametrize("kind", [bool, np.bool_, int, np.int64])
def test_a_table_is_the_predicate_that_it_lists(kind) -> None:
    where = np.array([[True, False, True], [False, False, True]])
    graph = vs.FactorGraph([2, 3])
    graph.add_feature([0, 1], lambda a, b: kind(where[a, b]), 0.7)
    graph.add_feature([0, 1], where, 0.7)
    graph.add_feature([0, 1], where.tolist(), 0.7)
    where[:] = False  # a copy was kept
    tables = [f.table([2, 3]).tolist() for f in graph.factors]
    assert tables == [[[0.7, 0.0, 0.7], [0.0, 0.0, 0.7]]] * 3


def test_states_may_be_named_by_bools() -> None:
    graph = vs.FactorGraph([2, 2], states=[[False, True]] * 2)
    graph.add_feature([0, 1], np.array([True, False]), 1.0)
    graph.add_feature([0], np.array([True]), 1.0)
    assert [f.fires for f in graph.factors] == [(1, 0), (1,)]


def test_a_weight_of_minus_infinity_forbids() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add_feature([0, 1], [1, 1], -np.inf)
    r = vs.infer(graph)
    assert r.log_z == pytest.approx(np.log(3))
    assert r.expectations().tolist() == [0.0]
    assert vs.log_prob(graph, [1, 1]) == -np.inf
    assert vs.log_prob(graph, [1, 0]) == pytest.approx(-np.log(3))


def test_blocks_are_the_same_as_single_features() -> None:
    rng = np.random.default_rng(0)
    scopes = np.array([rng.permutation(5)[:2] for _ in range(12)])
    states, weights = rng.integers(0, 2, (12, 2)), rng.normal(size=12)
    one, many = vs.FactorGraph([2] * 5), vs.FactorGraph([2] * 5)
    for v in range(5):
        one.add([v], [0.0, 0.3 * v])
        many.add([v], [0.0, 0.3 * v])
    for s, a, w in zip(scopes, states, weights, strict=True):
        one.add_feature(s.tolist(), a.tolist(), w)
    assert many.add_features(Features(scopes, weights, assignments=states)) == range(5, 17)
    for kept in (range(17), [0, 1, 5, 9, 16], []):
        a, b = vs.infer(one, factors=kept), vs.infer(many, factors=kept)
        assert a.expectations().tolist() == b.expectations().tolist()
        assert vs.gain(one, range(17), a).tolist() == vs.gain(many, range(17), b).tolist()
        assert a.divergence_bound == pytest.approx(b.divergence_bound, abs=1e-12)
    again = pickle.loads(pickle.dumps(many))
    assert vs.infer(again).log_z == vs.infer(one).log_z
    assert again.n_factors == 17


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: g.add_feature([0, 9], [1, 1], 1.0), "variable 9 is out of range"),
        (lambda g: g.add_feature([0, 0], [1, 1], 1.0), "factor 0 has variable 0 twice"),
        (lambda g: g.add_feature([0, 1], [1], 1.0), "one state for each of 2 variables, got 1"),
        (lambda g: g.add_feature([0], [2], 1.0), "variable 0 has no state 2"),
        (lambda g: g.add_feature([0], "x", 1.0), "fires of factor 0 must be a sequence of states"),
        (
            lambda g: g.add_feature([0, 1], np.eye(2, dtype=bool), 1.0),
            r"fires of factor 0, a table, must hold bools in shape \(2, 3\).*got bool of shape "
            r"\(2, 2\)",
        ),
        (
            lambda g: g.add_feature([0], np.array([True]), 1.0),
            r"fires of factor 0, a table, .* shape \(2,\), .* shape \(1,\)",
        ),
        (
            lambda g: g.add_feature([0, 2], [[0, 1], [1, 0]], 1.0),
            r"must hold bools in shape \(2, 2\).*got int64 of shape \(2, 2\)",
        ),
        (
            lambda g: g.add_feature([0, 2], [[True], [True, False]], 1.0),
            "fires of factor 0 must be one array",
        ),
        (
            lambda g: g.add_feature([0, 1], lambda a: a == 1, 1.0),
            r"fires of factor 0 failed for the states \(0, 0\): TypeError.*must take 2 states",
        ),
        (
            lambda g: g.add_feature([0], lambda a: 1 / a > 0, 1.0),
            r"fires of factor 0 failed for the states \(0,\): ZeroDivisionError",
        ),
        (lambda g: g.add_feature("a", [1], 1.0), "scope must be a sequence"),
        (lambda g: g.add_feature([0], [1], np.nan), "weight of factor 0 is nan"),
        (lambda g: g.add_feature([0], [1], np.inf), "weight of factor 0 is inf"),
        (lambda g: g.add_features(Features([[0, 9]], 1.0)), r"scopes\[0, 1\] is 9"),
        (lambda g: g.add_features(Features([[0, 1], [2, 2]], 1.0)), r"scopes\[1\] has variable 2"),
        (
            lambda g: g.add_features(Features([[0, 1]], 1.0, assignments=[[0, 3]])),
            r"assignments\[0, 1\] is 3: variable 1 has 3 states",
        ),
        (
            lambda g: g.add_features(Features([[0, 1]], 1.0, fires=np.eye(2, dtype=bool))),
            "fires has 2 states on axis 1, but variable 1",
        ),
        (lambda g: Features([0, 1], 1.0), r"scopes must have shape \(m, k\)"),
        (lambda g: Features([[0, 1]], [1.0, 2.0]), r"weights must have shape \(1,\)"),
        (lambda g: Features([[0, 1]], [np.nan]), r"weights\[0\] is nan"),
        (lambda g: Features([[0.5, 1]], [1.0]), "scopes must be integers"),
        (lambda g: Features([[0, 1]], 1.0, assignments=[[1]]), "assignments must have shape"),
        (lambda g: Features([[0, 1]], 1.0, fires=[[1, 0], [0, 1]]), "array of bool with 2 axes"),
    ],
)
def test_refusals(call, words: str) -> None:
    graph = vs.FactorGraph([2, 3, 2])
    with pytest.raises(ValueError, match=words):
        call(graph)
    assert graph.n_factors == 0


def test_wrong_types() -> None:
    graph = vs.FactorGraph([2, 3])
    with pytest.raises(TypeError, match="weight of factor 0 must be a real number"):
        graph.add_feature([0], [1], 1j)
    for wrong in (None, 0.5, 2, "yes", np.array([True, False])):
        with pytest.raises(TypeError, match="fires of factor 0 must return True or False, got"):
            graph.add_feature([0], lambda a, x=wrong: x, 1.0)
    with pytest.raises(TypeError, match=r"features must be a valuesparse\.factors\.Features"):
        graph.add_features([([0], [1], 1.0)])


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ([0, 5], r"factors\[1\] is 5: there are 2 factors"),
        ([-1], r"factors\[0\] is -1"),
        ([1, 1], "names factor 1 twice"),
        ([0.5], "must be indices of factors"),
        (3, "must be indices of factors"),
    ],
)
def test_bad_factors(factors, words: str) -> None:
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    graph.add([0], [0.0, 1.0])
    with pytest.raises(ValueError, match=words):
        vs.infer(graph, factors=factors)
    with pytest.raises(ValueError, match="with a FactorGraph only"):
        vs.infer(vs.Chain(np.zeros((2, 2)), np.zeros((2, 2))), factors=[0])


@pytest.mark.parametrize("left_out", [[], [2]])
def test_loopy_engines_give_what_they_believe_of_factors(left_out: list[int]) -> None:
    rng = np.random.default_rng(3)
    graph = vs.FactorGraph([2, 3, 2, 2, 3])
    for i in range(4):  # a path: belief propagation is exact there
        graph.add_feature([i, i + 1], lambda a, b: a >= b, rng.normal())
    graph.add_feature([3], [1], -1.5)
    used = [i for i in range(graph.n_factors) if i not in left_out]
    exact = vs.infer(graph, factors=used)
    loopy = vs.infer(graph, factors=used, method=vs.BP(tolerance=1e-14))
    assert loopy.method == "bp"
    np.testing.assert_allclose(loopy.expectations()[used], exact.expectations()[used], atol=1e-12)
    assert len(loopy.factor_marginals()) == len(used)
    assert not loopy.rigorous


@pytest.mark.parametrize(
    ("scope", "fires", "weight"),
    [
        ((0, 1), (2, 0), 1.0),
        ((0, 1), (-1, 0), 1.0),
        ((0,), (1, 0), 1.0),
        ((0, 1), np.ones((3, 2), dtype=bool), 1.0),
        ((0,), (1,), np.nan),
        ((0,), (1,), np.inf),
    ],
)
def test_a_feature_that_does_not_fit_is_refused_when_added(scope, fires, weight: float) -> None:
    graph = vs.FactorGraph([2, 2])
    with pytest.raises(ValueError, match=r"factor 0, Feature\(.*\), does not fit variables of"):
        graph.add(Feature(scope, fires, weight))
    assert graph.n_factors == 0


def test_objects_of_a_block() -> None:
    graph = vs.FactorGraph([2, 3])
    graph.add_features(Features([[0, 1], [1, 0]], [1.0, -np.inf], assignments=[[1, 2], [0, 1]]))
    graph.add_features(Features([[0, 1]], 2.0, fires=np.eye(2, 3, dtype=bool)))
    first = graph.factor(1)
    factors = graph.factors
    assert factors[1] is first
    assert [f.scope for f in factors] == [(0, 1), (1, 0), (0, 1)]
    for f in factors:
        shape = [graph.cardinalities[v] for v in f.scope]
        every = np.indices(shape).reshape(2, -1).T
        np.testing.assert_array_equal(f.table(shape).ravel(), f.log_potential(every))
    # The table that was made with others is for these cardinalities only.
    assert factors[0].table([4, 5]).shape == (4, 5)
    assert pickle.loads(pickle.dumps(factors[0])).table([2, 3]).tolist() == [[0] * 3, [0, 0, 1.0]]


@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize("form", [bool, np.bool_, np.asarray, "object"])
def test_a_table_without_axes(fires: bool, form: Any) -> None:
    """The right table of no variables: θ is a constant, or nothing."""
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    if form == "object":
        j = graph.add(Feature((), np.bool_(fires), 2.0))
    else:
        j = graph.add_feature([], form(fires), 2.0)
    r = vs.infer(graph)
    assert r.log_z == pytest.approx(2.0 * fires + np.log(1.0 + np.e))
    assert r.expectations().tolist() == [float(fires)]
    assert vs.gain(graph, [j], vs.infer(graph, factors=[0])).tolist() == [0.0]
    assert (
        graph.factors[j].log_potential(np.zeros((3, 0), dtype=np.int64)).tolist()
        == [2.0 * fires] * 3
    )
    columns = Features(np.zeros((2, 0), dtype=int), 2.0, fires=np.asarray(fires))
    assert vs.gain(graph, columns, vs.infer(graph, factors=[0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("scope", "fires"), [([], np.asarray(1)), ([0], np.asarray(True)),
                                              ([0], True), ([], [True])])  # fmt: skip
def test_tables_without_axes_that_do_not_fit(scope: list[int], fires: Any) -> None:
    graph = vs.FactorGraph([2])
    with pytest.raises(ValueError, match="fires of factor 0"):
        graph.add_feature(scope, fires, 1.0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.uint64, ">i4", ">u8"])
def test_integers_of_any_type(dtype: Any) -> None:
    """Scopes and assignments of any type of integers mean the same."""
    scopes, fires, weights = np.array([[0, 1], [1, 2]]), np.array([[1, 0], [1, 1]]), [0.5, -2.0]
    found = []
    for kind in (np.int64, dtype):
        graph = vs.FactorGraph([2, 2, 2])
        graph.add_features(Features(scopes.astype(kind), weights, assignments=fires.astype(kind)))
        r = vs.infer(graph)
        r_of_none = vs.infer(graph, factors=[])
        found.append([r.log_z, *r.expectations(), *vs.gain(graph, [0, 1], r_of_none),
                      *vs.relax(graph, threshold=0.0).factors])  # fmt: skip
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="scopes must fit into 64 bits with a sign"):
        Features(np.array([[2**63, 0]], np.uint64), 1.0)
