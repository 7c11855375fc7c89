"""`FactorGraph.add_many`: columns of tables answer as tables added one by one."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import Features, Table
from valuesparse.inference._snapshots import snapshot_of

CARDS = [2, 3, 2, 3, 2, 3]
PAIRS = np.array([[0, 1], [2, 3], [4, 5], [0, 3], [2, 5], [0, 1]])


def both(shared: bool) -> tuple[vs.FactorGraph, vs.FactorGraph]:
    """Return a graph in columns, among other factors, and the same one by one."""
    rng = np.random.default_rng(5)
    tables = rng.normal(size=(2, 3) if shared else (len(PAIRS), 2, 3))
    tables[..., 1, 2] = -np.inf
    unary, triple = rng.normal(size=(3, 2)), rng.normal(size=(1, 2, 3, 2))
    columns, single = vs.FactorGraph(CARDS), vs.FactorGraph(CARDS)
    for graph in (columns, single):
        graph.add([1], [0.0, 0.5, 1.0])
    assert columns.add_many(PAIRS, tables) == range(1, 7)
    assert columns.add_many([[0], [2], [4]], unary) == range(7, 10)
    columns.add((0, 5), np.zeros((2, 3)))
    assert columns.add_many([(2, 1, 4)], triple) == range(11, 12)
    assert columns.add_many(np.empty((2, 0), dtype=int), [0.25, 1.0]) == range(12, 14)
    assert columns.add_many([], np.zeros((2, 2))) == range(14, 14)
    for i, pair in enumerate(PAIRS.tolist()):
        single.add(pair, tables if shared else tables[i])
    for v, table in zip((0, 2, 4), unary, strict=True):
        single.add([v], table)
    single.add((0, 5), np.zeros((2, 3)))
    single.add((2, 1, 4), triple[0])
    for constant in (0.25, 1.0):
        single.add((), constant)
    return columns, single


def same(a: vs.FactorGraph, b: vs.FactorGraph, **options) -> None:
    x, y = vs.infer(a, **options), vs.infer(b, **options)
    assert x.log_z == y.log_z
    assert [p.tolist() for p in x.marginals] == [p.tolist() for p in y.marginals]


@pytest.mark.smoke
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    "method", ["auto", "exact", "bp", "trw", "mean_field", "structured_mean_field"]
)
def test_answers_have_the_same_bits(shared: bool, method: str) -> None:
    columns, single = both(shared)
    same(columns, single, method=method)
    same(columns, single, method=method, evidence={0: 1, 3: [0.0, 1.0, 0.5]})
    for again in (columns.copy(), copy.deepcopy(columns), pickle.loads(pickle.dumps(columns))):
        same(again, single, method=method)
    if method != "mean_field":
        same(columns, single, method=method, factors=[0, 2, 3, 5, 8, 11, 13])
    assert columns._factors.count(None) == 12  # nobody asked for an object


@pytest.mark.parametrize("shared", [True, False])
def test_other_questions_too(shared: bool) -> None:
    columns, single = both(shared)
    same(columns, single, zeta=0.6)
    for ask in (
        lambda g: vs.decode(g).states.tolist(),
        lambda g: vs.sample(g, 5, rng=1).tolist(),
        lambda g: vs.log_prob(g, [0] * 6).tolist(),
        lambda g: vs.infer(g).entropy(),
        lambda g: vs.infer(g, method="bp").entropy(),
        lambda g: vs.infer(g).joint([0, 4]).tolist(),
        lambda g: [x.tolist() for x in vs.infer(g).factor_marginals()],
        lambda g: [x.tolist() for x in vs.infer(g, method="bp").factor_marginals()],
        lambda g: (vs.bounds.log_z(g).lower, vs.bounds.log_z(g).upper),
        lambda g: vs.relax(g, threshold=0.01, first=[1, 2, 3, 4, 5, 6, 11]).factors.tolist(),
        lambda g: vs.select(g, min_divergence=9, first=[1, 2, 3, 4, 5, 6, 11]).log_z,
        lambda g: vs.gain(g, range(10, 14), vs.infer(g, factors=range(10))).tolist(),
        lambda g: g.check(),
        repr,
    ):
        assert ask(columns) == ask(single)


def test_objects_are_made_when_asked_for() -> None:
    columns, single = both(shared=False)
    assert columns.factor(3).scope == (4, 5)
    assert columns._factors.count(None) == 11
    assert repr(columns) == repr(single)
    for x, y in zip(columns.factors, single.factors, strict=True):
        assert type(x) is Table
        assert x.scope == y.scope
        assert x.log_table.tolist() == y.log_table.tolist()
        with pytest.raises(ValueError, match="read-only"):
            x.log_table[...] = 0.0
    assert columns.factors[3] is columns.factor(3)
    n = columns.n_factors
    for graph in (both(shared=False)[0], columns):  # before and after objects are made
        for bad in (-1, -n, n, 10**30):
            with pytest.raises(ValueError, match="index"):
                graph.factor(bad)
    with pytest.raises(ValueError, match=rf"index is {n}: there are {n} factors, numbered from 0"):
        columns.factor(n)
    same(columns, single)
    assert snapshot_of(columns).scopes == snapshot_of(single).scopes


def test_the_tuple_of_factors_is_made_once_until_one_is_added() -> None:
    graph, _ = both(shared=False)
    found = graph.factors
    assert graph.factors is found
    assert graph.copy().factors is found
    assert graph.part(np.arange(3)).factors == found[:3]
    for add in (
        lambda g: g.add([0], [0.0, 1.0]),
        lambda g: g.add_feature([0], [1], 0.5),
        lambda g: g.add_many([[0], [2]], np.zeros(2)),
        lambda g: g.add_features(Features([[0, 2]], 1.0)),
        lambda g: g.add_cpt(5),
    ):
        known, other = graph.factors, graph.copy()
        add(other)
        assert graph.factors is known
        more = other.factors
        assert len(more) == other.n_factors > len(known)
        assert all(a is b for a, b in zip(known, more, strict=False))
    other.replace_table(len(known), np.log([0.2, 0.3, 0.5]))
    assert other.factors[-1] is not more[-1]
    assert other.factors[:-1] == more[:-1]


def test_pickles_have_no_object_that_a_block_makes() -> None:
    graph, single = both(shared=False)
    graph.add_features(Features([[0, 2], [2, 4]], [0.5, 1.0]))
    for feature in ([0, 2], 0.5), ([2, 4], 1.0):
        single.add_feature(feature[0], [1, 1], feature[1])
    before = pickle.dumps(graph)
    assert len(graph.factors) == graph.n_factors
    assert pickle.dumps(graph) == before
    again = pickle.loads(before)
    assert again._factors.count(None) == 14
    assert [repr(f) for f in again.factors] == [repr(f) for f in single.factors]
    # Earlier versions wrote the objects too.
    old = vs.FactorGraph.__new__(vs.FactorGraph)
    old.__setstate__({**graph.__getstate__(), "factors": list(graph.factors)})
    for other in (again, old, copy.deepcopy(graph)):
        same(other, single)


def test_a_shared_table_is_kept_and_written_once() -> None:
    graph = vs.FactorGraph([2] * 10_001)
    v = np.arange(10_000)
    graph.add_many(np.stack([v, v + 1], axis=1), np.eye(2))
    ((_, block),) = graph.blocks
    assert block.log_tables.base is not None
    assert block.log_tables.strides[0] == 0
    again = pickle.loads(pickle.dumps(graph))
    assert again.blocks[0][1].log_tables.strides[0] == 0
    assert len(pickle.dumps(graph.blocks)) < 20 * len(v)
    with pytest.raises(ValueError, match="read-only"):
        again.blocks[0][1].log_tables[...] = 0.0
    half = graph.part(np.arange(0, 10_000, 2))
    assert half.blocks[0][1].log_tables.strides[0] == 0
    assert vs.infer(half, method="bp").log_z == pytest.approx(
        5000 * np.log(2 * np.e + 2) + 1 * np.log(2)
    )


def test_writing_to_what_was_given_changes_nothing() -> None:
    scopes, tables = PAIRS.copy(), np.zeros((6, 2, 3))
    graph = vs.FactorGraph(CARDS)
    graph.add_many(scopes, tables)
    before = vs.infer(graph).log_z
    scopes[...], tables[...] = 0, np.nan
    assert vs.infer(copy.deepcopy(graph)).log_z == before
    assert tables.flags.writeable
    assert scopes.flags.writeable


def test_names() -> None:
    graph = vs.FactorGraph([2, 2, 2], names=["a", 7, (1, 2)])
    graph.add_many([["a", 7], [(1, 2), "a"]], np.eye(2))
    assert [f.scope for f in graph.factors] == [(0, 1), (2, 0)]
    letters = vs.FactorGraph([2, 2], names=["a", "b"])
    letters.add_many(np.array([["b", "a"]]), np.eye(2))
    assert letters.factors[0].scope == (1, 0)
    letters.add_many(np.array([[1, 0]]), np.eye(2))  # integers that are no names are numbers
    assert letters.factors[1].scope == (1, 0)
    with pytest.raises(ValueError, match="no variable named 2"):
        letters.add_many(np.array([[2, 0]]), np.eye(2))


@pytest.mark.parametrize(
    ("scopes", "tables", "words"),
    [
        ([[0, 2], [0, 6]], np.zeros((2, 2)), r"scopes\[1, 1\] is 6: there are 6 variables"),
        ([[0, 2], [-1, 0]], np.zeros((2, 2)), r"scopes\[1, 0\] is -1"),
        (np.array([[0, 2], [4, 4]]), np.zeros((2, 2)), r"scopes\[1\] has variable 4 twice"),
        ([[0, 2], [4, 4]], np.zeros((2, 2)), r"scopes\[1\] has variable 4 twice"),
        ([[0, 2], [4]], np.zeros((2, 2)), r"scopes\[1\] has 1 variables, and scopes\[0\] has 2"),
        ([[0, 2], [0, 1]], np.zeros((2, 2)), r"scopes\[1\] has variables of \(2, 3\) states"),
        ([[0, 2], ["x", 1]], np.zeros((2, 2)), "have no names: give a number, not 'x'"),
        ([0, 2], np.zeros((2, 2)), r"scopes\[0\] must be a sequence of variables, got 0"),
        (np.array([0, 2]), np.zeros((2, 2)), r"shape \(m, k\).* got int64 of shape \(2,\)"),
        (np.array([[0.0, 2.0]]), np.zeros((2, 2)), "integers of shape .* got float64"),
        ("ab", np.zeros((2, 2)), "must be a sequence of scopes, got 'ab'"),
        (3, np.zeros((2, 2)), "must be a sequence of scopes, got 3"),
        ([[0, 2]] * 3, np.zeros((2, 2, 2)), r"shape \(2, 2\), one for all, or \(3, 2, 2\)"),
        ([[0, 2]] * 3, np.zeros((3, 2, 3)), r"tables must have shape .* got \(3, 2, 3\)"),
        ([[0, 2]] * 2, [[[0, 0], [0, 0]], [[0, np.nan], [0, 0]]], r"tables\[1, 0, 1\] is NaN"),
        ([[0, 2]] * 2, [[np.inf, 0], [0, 0]], r"tables\[0, 0\] is \+inf"),
        ([[0, 2]] * 3, [[5e16, 0], [0, 0]], r"tables\[0, 0\] of scopes\[2\] is 5e\+16.* 1\.5e\+17"),
        (
            [[0, 2]] * 3,
            np.array([1.0, 9e16, 9e16])[:, None, None] * -np.eye(2),
            r"tables\[2, 0, 0\] of scopes\[2\] is -9e\+16",
        ),
    ],
)
def test_refusals(scopes, tables, words: str) -> None:
    graph = vs.FactorGraph(CARDS)
    with pytest.raises(ValueError, match=words):
        graph.add_many(scopes, tables)
    assert graph.n_factors == 0
    assert vs.infer(graph).log_z == pytest.approx(3 * np.log(6))


@pytest.mark.parametrize("tables", [np.eye(2) * 1j, np.array([["a", "b"]] * 2)])
def test_wrong_types(tables) -> None:
    with pytest.raises(TypeError, match="tables must hold real numbers"):
        vs.FactorGraph([2, 2]).add_many([[0, 1]], tables)


def test_sums_are_those_of_one_by_one() -> None:
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(1000, 2)) * 10.0 ** rng.integers(-5, 9, (1000, 1))
    columns, single = vs.FactorGraph([2]), vs.FactorGraph([2])
    columns.add_many(np.zeros((1000, 1), dtype=np.int8), tables.astype(np.float32))
    for table in tables.astype(np.float32):
        single.add([0], table)
    assert columns.magnitude == single.magnitude
    same(columns, single)


def test_features_and_tables_side_by_side() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    graph.add_many([[0, 1], [1, 2]], np.eye(2))
    graph.add_features(Features([[0, 1], [0, 2]], [0.5, 1.0]))
    r = vs.infer(graph)
    assert r.expectations().shape == (2,)
    assert vs.infer(graph, method="bp").expectations().shape == (2,)
