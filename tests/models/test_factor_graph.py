"""`vs.FactorGraph`: what goes in, and how it refuses."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import Factor, Feature, Features, Table


def test_add_returns_the_index() -> None:
    graph = vs.FactorGraph([2, 3])
    assert graph.add((0, 1), np.zeros((2, 3))) == 0
    assert graph.add(Table((1,), np.zeros(3))) == 1
    assert graph.add((), 2.5) == 2
    assert (graph.n_variables, graph.n_factors) == (2, 3)
    assert vs.infer(graph).log_z == pytest.approx(2.5 + np.log(6))


class Asked(Factor):
    """A kind of a user's own that gives away the table that it keeps."""

    def __init__(self, scope: tuple[int, ...], kept: np.ndarray) -> None:
        self.scope, self.kept = scope, kept

    def table(self, cardinalities):
        return self.kept

    def log_potential(self, states):
        return self.kept[tuple(states.T)]


MADE = {
    "an array": lambda g, x: g.add([0, 1], x),
    "a view": lambda g, x: g.add([1, 0], x.T),
    "part of an array": lambda g, x: g.add([0], x[0]),
    "a constant": lambda g, x: g.add([], x[0, 0:1].reshape(())),
    "a subclass": lambda g, x: g.add([0, 1], x.view(np.recarray)),
    "a frozen view of what is not": lambda g, x: g.add([0, 1], frozen_view(x)),
    "a table object": lambda g, x: g.add(Table((0, 1), x)),
    "evidence": lambda g, x: g.set_evidence({0: x[1]}),
}


def frozen_view(x: np.ndarray) -> np.ndarray:
    view = x[:]
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("method", ["auto", "bp"])
def test_writing_to_what_was_given_changes_nothing(made: str, method: str) -> None:
    table = np.arange(4.0).reshape(2, 2)
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.5, 0.0])
    MADE[made](graph, table)
    before = vs.infer(graph, method=method)
    assert table.flags.writeable  # behind nobody's back
    table[...] = np.nan
    again = copy.deepcopy(graph)
    for r in (before, vs.infer(graph, method=method), vs.infer(again, method=method)):
        assert [m.tolist() for m in r.marginals] == [m.tolist() for m in before.marginals]
        assert not np.isnan(r.joint([0]) if method == "bp" else r.joint([0, 1])).any()
        assert not np.isnan(r.entropy())
    for again in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        kept = again.factors[-1].log_table
        with pytest.raises(ValueError, match="read-only"):
            kept[...] = 7.0


def test_a_kind_of_ones_own_is_asked_once() -> None:
    table = np.arange(4.0).reshape(2, 2)
    graph = vs.FactorGraph([2, 2])
    graph.add(Asked((0, 1), table))
    before = vs.infer(graph)
    joint = before.joint([0, 1])
    table[...] = np.nan
    np.testing.assert_array_equal(before.joint([0, 1]), joint)
    np.testing.assert_array_equal(vs.infer(graph).joint([0, 1]), joint)
    assert table.flags.writeable


def test_features_are_not_aliased_either() -> None:
    fires, scopes = np.eye(2, dtype=bool), np.array([[0, 1]])
    weights, states = np.array([2.0]), np.array([[1, 1]])
    graph = vs.FactorGraph([2, 2])
    feature = Feature((0, 1), fires, 2.0)
    graph.add(feature)
    graph.add_feature([0, 1], fires, 2.0)
    graph.add_features(Features(scopes, weights, fires=fires))
    graph.add_features(Features(scopes, weights, assignments=states))
    before = vs.infer(graph)
    fires[...], scopes[...], weights[...], states[...] = True, 7, np.nan, 9
    for name, value in (("weight", np.nan), ("scope", (1, 1)), ("fires", (0, 0))):
        with pytest.raises(AttributeError, match=f"read-only: make a new one, {name} cannot"):
            setattr(feature, name, value)
    with pytest.raises(AttributeError, match="weights cannot change"):
        graph.blocks[0][1].weights = np.array([np.nan])
    with pytest.raises(AttributeError, match="read-only"):
        vs.factors.Table((0,), np.zeros(2)).log_table = np.array([np.nan, 0.0])
    for r in (before, vs.infer(graph)):
        np.testing.assert_array_equal(r.joint([0, 1]), before.joint([0, 1]))
        assert r.expectations().tolist() == before.expectations().tolist()
    with pytest.raises(ValueError, match="read-only"):
        graph.factors[1].fires[0, 0] = False


def test_evidence_is_set_by_its_method_only() -> None:
    """Nobody can go round the checks of `set_evidence`."""
    graph = vs.FactorGraph([2, 2], evidence={0: 1})
    r = vs.infer(graph)
    for owner in (graph, r):
        with pytest.raises(AttributeError):
            owner.evidence = {0: np.array([np.nan, 0.0])}
        for change in (
            lambda known: known.__setitem__(0, 7),
            lambda known: known.update({0: 7}),
            lambda known: known.clear(),
            lambda known: known.pop(0),
            lambda known: known.setdefault(1, 7),
            lambda known: known.__ior__({0: 7}),
        ):
            with pytest.raises(TypeError, match="read-only: take a dict of it, or call set_evid"):
                change(owner.evidence)
    assert graph.evidence == r.evidence == {0: 1}
    assert pickle.loads(pickle.dumps((graph, r)))[1].evidence == {0: 1}
    assert dict(graph.evidence) | {1: 0} == {0: 1, 1: 0}


def test_what_nobody_can_write_to_is_not_copied(tmp_path) -> None:
    graph = vs.FactorGraph([2, 2])
    table = np.zeros((2, 2))
    table.flags.writeable = False
    graph.add([0, 1], table)
    assert graph.factors[0].log_table is table
    graph.add([0], table[0])
    assert np.shares_memory(graph.factors[1].log_table, table)
    np.zeros((2, 2)).tofile(tmp_path / "table")
    mapped = np.memmap(tmp_path / "table", mode="r", shape=(2, 2), dtype=np.float64)
    graph.add([0, 1], mapped)
    assert np.shares_memory(graph.factors[2].log_table, mapped)
    open_ = np.memmap(tmp_path / "table", mode="r+", shape=(2, 2), dtype=np.float64)
    graph.add([0, 1], open_)
    assert not np.shares_memory(graph.factors[3].log_table, open_)


def test_numbers_of_any_kind_are_constants() -> None:
    graph = vs.FactorGraph([2])
    for number in (1, 1.0, np.float32(1), np.int8(1), np.asarray(1.0, dtype=np.float32)):
        graph.add([], number)
    assert vs.infer(graph).log_z == pytest.approx(5.0 + np.log(2.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda g: g.add([0, 5], np.zeros((2, 2))),
            r"scope\[1\]: variable 5 is out of range: there are 3, numbered from 0",
        ),
        (lambda g: g.add([0, 0], np.zeros((2, 2))), "factor 0 has variable 0 twice"),
        (lambda g: g.add([0, 1], np.zeros((3, 2))), r"must have shape \(2, 3\) for variables 0, 1"),
        (lambda g: g.add([0], [0.0, np.nan]), r"factor 0: log_table\[1\] is NaN"),
        (lambda g: g.add([0], [np.inf, 0.0]), r"factor 0: log_table\[0\] is \+inf"),
        (lambda g: g.add([0]), "log_table must be given"),
        (lambda g: g.add("ab", np.zeros((2, 2))), "scope must be a sequence"),
        (lambda g: g.add(3, np.zeros(2)), "scope must be a sequence"),
        (lambda g: g.add({0, 1}, np.zeros((2, 3))), "scope must be .* a set has no order: write a"),
        (
            lambda g: g.add_cpt(0, frozenset([1]), np.ones((3, 2)) / 2),
            "parents must be .* no order",
        ),
        (lambda g: vs.infer(g).joint({0, 1}), "variables must be a sequence, and a set has no"),
        (lambda g: g.add_many({(0, 2), (2, 0)}, np.zeros((2, 2))), "scopes must be .* no order"),
        (lambda g: g.set_evidence({1: 3}), r"evidence\[1\]: variable 1 has no state 3"),
        (lambda g: g.add(["x"], np.zeros(2)), r"scope\[0\]: .* have no names: give a number"),
        (lambda g: g.add(Table((9,), np.zeros(2))), "factor 0 has variable 9"),
        (lambda g: g.set_evidence({0: 2}), "variable 0 has no state 2: it has 2"),
        (lambda g: g.set_evidence({7: 0}), r"evidence\[7\]: variable 7 is out of range"),
        (lambda g: g.set_evidence({1: [0.0, 0.0]}), r"evidence\[1\] must have shape \(3,\)"),
        (lambda g: g.set_evidence({1: [0.0, np.nan, 0.0]}), r"evidence\[1\]\[1\] is NaN"),
        (lambda g: g.set_evidence([0, 1]), "evidence must be a mapping"),
        (lambda g: g.set_evidence({1: [[1], [2, 3]]}), r"evidence\[1\] must be one array"),
        (lambda g: g.set_evidence({1: [[1.0, 2.0, 3.0]]}), r"evidence\[1\] must have shape \(3,\)"),
        (lambda g: g.set_evidence({1: {}}), "variable 1 have no names: give a number, not {}"),
        (lambda g: g.set_evidence({1: 1.5}), r"evidence\[1\]: .* give a whole number, not 1.5"),
        (lambda g: g.add([0, 1.5], np.zeros((2, 2))), "names: give a whole number, not 1.5"),
        (lambda g: g.add([0], [[1], [2, 3]]), "factor 0: log_table must be one array"),
        (lambda g: g.add([[0], 1], np.zeros((2, 2))), r"give a number, not \[0\]"),
        (lambda g: g.add_feature([0], [1], [[1], [2, 3]]), "weight of factor 0 must be one array"),
        (lambda g: vs.log_prob(g, [0, [1, 2], 0]), "states must be one array"),
    ],
)
def test_refusals(call, words: str) -> None:
    graph = vs.FactorGraph([2, 3, 2])
    with pytest.raises(ValueError, match=words):
        call(graph)
    assert graph.n_factors == 0
    assert graph.evidence == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cardinalities": [2, 0]}, r"cardinalities\[1\] is 0"),
        ({"cardinalities": [2.5]}, "must be a sequence of integers"),
        ({"cardinalities": [2, 2], "names": ["a"]}, "names must have one entry"),
        ({"cardinalities": [2, 2], "names": ["a", "a"]}, r"names\[1\] is 'a'"),
        ({"cardinalities": [2], "states": [["x"]]}, r"states\[0\] must have 2 entries"),
        ({"cardinalities": [2], "states": [["x", "x"]]}, "same name twice"),
        ({"cardinalities": [2], "states": []}, "states must have one entry"),
        ({"cardinalities": [2**31]}, r"cardinalities\[0\] is 2147483648; .* fewer than 2\*\*31"),
        ({"cardinalities": [2], "names": 5}, "names must be a sequence, got 5"),
        ({"cardinalities": [2], "names": "a"}, "names must be a sequence, got 'a'"),
        ({"cardinalities": [2], "states": 5}, "states must be a sequence, got 5"),
        ({"cardinalities": [2], "states": [5]}, r"states\[0\] must be a sequence, got 5"),
        ({"cardinalities": [2], "states": ["no"]}, r"states\[0\] must be a sequence, got 'no'"),
        ({"cardinalities": [2, 2], "states": [None, "xx"]}, r"states\[1\] must be a sequence"),
        ({"cardinalities": [2], "states": [{"a", "b"}]}, r"states\[0\] .* a set has no order"),
        ({"cardinalities": {"a": {"b", "c"}}}, r"cardinalities\['a'\] .* a set has no order"),
        ({"cardinalities": {2, 3}}, "cardinalities must be a sequence, and a set has no order"),
    ],
)
def test_constructor_refusals(arguments, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        vs.FactorGraph(**arguments)


@pytest.mark.parametrize("table", [np.zeros(2, complex), np.array(["a", "b"]), np.array([0, None])])
def test_wrong_types(table) -> None:
    with pytest.raises(TypeError, match="factor 0: log_table must hold real numbers"):
        vs.FactorGraph([2]).add([0], table)


@pytest.mark.smoke
def test_names_and_states() -> None:
    graph = vs.FactorGraph([2, 2], names=["rain", "wet"], states=[["no", "yes"], None])
    graph.set_evidence({"rain": "yes", "wet": [0.0, -1.0]})
    assert graph.evidence[0] == 1
    assert graph.evidence[1].tolist() == [0.0, -1.0]
    with pytest.raises(ValueError, match="no state 'maybe': its states are 'no', 'yes'"):
        graph.set_evidence({"rain": "maybe"})
    known = "there is no variable named 'snow': the names are 'rain', 'wet'"
    calls: list[tuple[str, Callable[[], object]]] = [
        (r"scope\[1\]: ", lambda: graph.add(["rain", "snow"], np.zeros((2, 2)))),
        (r"scope\[0\]: ", lambda: graph.add_feature(["snow"], [1], 1.0)),
        (r"evidence\['snow'\]: ", lambda: vs.infer(graph, evidence={"snow": 1})),
        (r"variables\[0\]: ", lambda: vs.infer(graph).joint(["snow"])),
        ("", lambda: vs.infer(graph)["snow"]),
    ]
    for place, call in calls:
        with pytest.raises(ValueError, match=f"^{place}{known}$"):
            call()


def test_states_of_any_kind_that_has_a_hash() -> None:
    """A tuple that is the name of a state is that state; any other is a likelihood."""
    states = [[("a", 1), ("b", 2)], [(0.0, 1.0), (1.0, 0.0)], [frozenset("x"), None, 2.5]]
    graph = vs.FactorGraph([2, 2, 3], names=[("x", 0), "y", frozenset("z")], states=states)
    graph.add([("x", 0), "y"], np.log([[1.0, 2.0], [3.0, 4.0]]))
    graph.set_evidence({("x", 0): ("b", 2), "y": (1.0, 0.0), frozenset("z"): None})
    assert graph.evidence == {0: 1, 1: 1, 2: 1}
    assert vs.infer(graph).log_z == pytest.approx(np.log(4))
    graph.set_evidence({"y": (0.0, 0.5), frozenset("z"): frozenset("x")})
    assert graph.evidence[1].tolist() == [0.0, 0.5]
    assert graph.evidence[2] == 0
    jt = vs.JunctionTree(graph, evidence={})
    assert jt.infer({("x", 0): ("a", 1)}).evidence == {0: 0}
    r = jt.infer({"y": [0.0, 2.0], ("x", 0): ("a", 1)})
    assert r.joint([("x", 0), "y"])[0].sum() == pytest.approx(1.0)
    assert graph.add_feature([("x", 0)], [("a", 1)], 1.0) == 1
    for bad in (("a", 2), ["a", 1], [("a", 1)]):
        with pytest.raises(ValueError, match=r"no state .*: its states are \('a', 1\), \('b', 2\)"):
            graph.set_evidence({("x", 0): bad})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": ["a", ["b"]]}, r"names\[1\] is \['b'\], which has no hash"),
        ({"states": [None, ["x", {}]]}, r"states\[1\]\[1\] is {}, which has no hash"),
    ],
)
def test_names_need_a_hash(arguments, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        vs.FactorGraph([2, 2], **arguments)


@pytest.mark.parametrize("weight", ["1", None, 1j, [1.0], np.ones(1)])
def test_weights_are_numbers(weight) -> None:
    with pytest.raises(TypeError, match="weight of factor 0 must be a real number"):
        vs.FactorGraph([2]).add_feature([0], [1], weight)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: vs.factors.Features([[0, 1], [2]], 1.0), "scopes must be one array"),
        (lambda: vs.factors.Features([[0]], [1, [2]]), "weights must be one array"),
        (lambda: vs.factors.Features([[0]], 1.0, fires=[True, [False]]), "fires must be one array"),
    ],
)
def test_ragged_columns(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_pickle() -> None:
    graph = vs.FactorGraph([2, 2], names=["a", "b"], evidence={"a": 1})
    graph.add(["a", "b"], np.log([[4.0, 1.0], [1.0, 4.0]]))
    other = pickle.loads(pickle.dumps(graph))
    assert repr(other) == repr(graph)
    a, b = vs.infer(graph), vs.infer(other)
    assert a["b"].tolist() == b["b"].tolist()
    c = pickle.loads(pickle.dumps(a))
    assert (c.log_z, c.method, c["b"].tolist()) == (a.log_z, a.method, a["b"].tolist())


class Odd(Factor):
    """Forbids an even number of ones: a kind that supplies one method."""

    __slots__ = ()

    def __init__(self, *scope: int) -> None:
        self.scope = scope

    def log_potential(self, states):
        return np.where(states.sum(axis=1) % 2 == 1, 0.0, -np.inf)


def test_a_new_kind_of_factor_supplies_one_method() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    assert graph.add(Odd(0, 1, 2)) == 0
    graph.add([0], np.log([0.25, 0.75]))
    r = vs.infer(graph)
    assert np.exp(r.log_z) == pytest.approx(2.0)


def test_what_factors_of_users_say_is_checked() -> None:
    class Broken(vs.factors.Factor):
        def __init__(self, scope, shape):
            self._scope, self.shape = scope, shape

        @property
        def scope(self):
            return self._scope

        def table(self, cardinalities):
            return np.zeros(self.shape)

        def log_potential(self, states):
            return np.zeros(len(states))

    graph = vs.FactorGraph([2, 3])
    graph.add(Broken((0, 1), (2, 2)))
    with pytest.raises(ValueError, match=r"factor 0: table must have shape \(2, 3\)"):
        vs.infer(graph)
    for scope in ([0, 1], ("a",), np.array([0, 1])):
        other = vs.FactorGraph([2, 3])
        with pytest.raises(TypeError, match="factor 0 must have a tuple of variable numbers"):
            other.add(Broken(scope, (2, 3)))
        assert other.n_factors == 0


@pytest.mark.parametrize(
    ("values", "error", "match"),
    [
        (lambda m: np.zeros(m - 1), ValueError, r"must return shape \(6,\).*got \(5,\)"),
        (lambda m: np.zeros(1), ValueError, r"must return shape \(6,\).*got \(1,\)"),
        (lambda m: 0.0, ValueError, r"must return shape \(6,\).*got \(\)"),
        (lambda m: np.zeros((m, 1)), ValueError, r"must return shape \(6,\).*got \(6, 1\)"),
        (lambda m: np.zeros(m) + 1j, TypeError, "must return real numbers, got dtype complex128"),
        (lambda m: ["a"] * m, TypeError, "must return real numbers, got dtype <U1"),
    ],
)
def test_what_log_potential_returns_is_checked(values, error, match) -> None:
    class Mine(vs.factors.Factor):
        def __init__(self, *variables):
            self.scope = variables

        def log_potential(self, states):
            return values(len(states))

    graph = vs.FactorGraph([2, 3])
    graph.add(Mine(0, 1))
    with pytest.raises(error, match=r"log_potential of Mine\(0, 1\) " + match):
        vs.infer(graph)


def test_a_factor_that_sets_no_scope_is_refused() -> None:
    class Mine(vs.factors.Factor):
        def log_potential(self, states):
            return np.zeros(len(states))

    graph = vs.FactorGraph([2, 3])
    with pytest.raises(TypeError, match="factor 0 must have a tuple of variable numbers"):
        graph.add(Mine())
    assert graph.n_factors == 0


def test_a_graph_gets_names_at_the_end() -> None:
    graph = vs.FactorGraph([2, 3], evidence={1: 2})
    graph.add((0, 1), np.zeros((2, 3)))
    named = graph.with_names([(0, 1), "b"])
    assert named.names == ((0, 1), "b")
    assert named.variable((0, 1)) == 0
    assert named.evidence == graph.evidence
    assert graph.names == (0, 1)
    named.add(["b"], np.zeros(3))
    assert (named.n_factors, graph.n_factors) == (2, 1)
    assert vs.infer(named)[0, 1].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"names\[1\] is 'a', which another variable has"):
        graph.with_names(["a", "a"])
    with pytest.raises(ValueError, match="names must have one entry for each of 2 variables"):
        graph.with_names(["a"])


def test_states_may_be_bools_of_any_kind() -> None:
    graph = vs.FactorGraph([2, 2])
    for known in (True, np.True_, np.int8(1)):
        assert vs.infer(graph, evidence={0: known})[0].tolist() == [0.0, 1.0]
    named = vs.FactorGraph({"rain": ["no", "yes"]})
    with pytest.raises(ValueError, match="no state"):
        vs.infer(named, evidence={"rain": np.True_})


def test_masked_entries_are_refused() -> None:
    """An entry below a mask is no score."""
    table = np.ma.masked_array(np.zeros((2, 2)), mask=[[True, False], [False, False]])
    with pytest.raises(ValueError, match="log_table has masked entries"):
        vs.FactorGraph([2, 2]).add([0, 1], table)
    with pytest.raises(ValueError, match="unary has masked entries"):
        vs.Chain(table, np.zeros((2, 2)))
    assert vs.Chain(np.ma.masked_array(np.zeros((2, 2))), np.zeros((2, 2))).n_labels == 2


def test_log_likelihoods_may_stand_in_a_column_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="frames are those of pandas")
    for states in (None, ["no", "yes"]):
        graph = vs.FactorGraph([2], states=[states])
        for value in (pandas.Series([0.0, -1.0]), np.array([0.0, -1.0]), [0.0, -1.0]):
            found = vs.infer(graph, evidence={0: value})[0]
            np.testing.assert_allclose(found, vs.infer(graph, likelihood={0: [1, np.exp(-1)]})[0])


def test_an_array_without_dimensions_is_its_entry() -> None:
    graph = vs.FactorGraph({"a": [1, 0], 1: ["x"], 0: ["y"]})
    graph.add(["a"], [0.0, 0.0])
    assert vs.infer(graph, evidence={"a": np.array(1)})["a"].tolist() == [1.0, 0.0]
    assert [graph.variable(x) for x in (1, np.int64(1), np.array(1), np.array(0))] == [1, 1, 1, 2]


def test_a_table_that_fits_nowhere_is_named() -> None:
    most = 2**31 - 1
    with pytest.raises(
        MemoryError, match=r"factor 0: log_table has shape \(2147483647, 2147483647\)"
    ):
        vs.FactorGraph([most] * 2).add([0, 1], np.broadcast_to(np.int8(0), (most, most)))
