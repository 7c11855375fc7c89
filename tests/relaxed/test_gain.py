"""The gain of a factor: against enumeration and arbitrary precision."""

from __future__ import annotations

import numpy as np
import pytest
from graph_oracle import marginal
from hypothesis import example, given, settings
from hypothesis import strategies as st
from relaxed_oracle import divergence, exact_gain, random_graph, scores

import valuesparse as vs
from valuesparse.factors import Feature, Features, Table
from valuesparse.relaxed import _beliefs, feature_gain
from valuesparse.relaxed._asked import AskedJoints

seeds = st.integers(0, 2**32 - 1)


@given(st.floats(0, 1), st.floats(-10_000, 10_000))
@example(0.0, 10_000.0)
@example(1.0, -10_000.0)
@example(1e-300, 10_000.0)
@example(0.5, 1e-4)
@example(0.5, 0.99e-4)
@example(1 - 1e-16, 40.0)
@example(1e-12, 30.0001)
@example(1e-13, 29.9999)
def test_features_against_many_digits(mu: float, theta: float) -> None:
    got, want = float(feature_gain(mu, theta)), exact_gain(mu, theta)
    assert got >= 0.0
    # A rounding of log(1 + x) leaves these digits; below 1e-4 the series has them all.
    assert got == pytest.approx(want, rel=1e-11, abs=1e-15 * min(mu, 1 - mu) * abs(theta) + 1e-300)


def test_ends() -> None:
    inf = np.inf
    got = feature_gain(
        [0.0, 1.0, 0.0, 1.0, 0.0, 1e-9, 1.0], [9e3, 9e3, -9e3, -9e3, -inf, -inf, -inf]
    )
    assert got.tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, inf, inf]
    assert feature_gain([], []).shape == (0,)
    assert feature_gain([[0.5]], 0.0).tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("mu", "theta", "words"),
    [(1.5, 0.0, "mu must lie"), (np.nan, 0.0, "mu must lie"), (0.5, np.nan, "theta must be"),
     (0.5, np.inf, "theta must be")],
)  # fmt: skip
def test_bad_numbers(mu: float, theta: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        feature_gain(mu, theta)


@given(seeds)
def test_gain_is_the_divergence_that_adding_brings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, kept = random_graph(rng, zeros=True)
    try:
        r = vs.infer(graph, factors=kept)
    except vs.InfeasibleError:
        return
    rest = [i for i in range(graph.n_factors) if i not in kept]
    held = [set(graph.factors[i].scope) for i in kept]
    got = vs.gain(graph, rest, r)
    base = scores(graph, kept)
    for i, g in zip(rest, got.tolist(), strict=True):
        scope = set(graph.factors[i].scope)
        if len(scope) > 1 and not any(scope <= s for s in held):
            continue  # may be a product of beliefs
        both = scores(graph, [*kept, i])
        want = divergence(base, both) if both.max() > -np.inf else np.inf
        assert g == pytest.approx(want, rel=1e-8, abs=1e-10)


@pytest.mark.smoke
def test_candidates_of_any_form() -> None:
    graph = vs.FactorGraph([2, 3])
    graph.add([0], [0.0, 1.0])
    r = vs.infer(graph)
    feature = Feature((0, 1), (1, 2), 2.0)
    table = Table((0, 1), feature.table([2, 3]))
    want = exact_gain(np.e / (1 + np.e) / 3, 2.0)
    assert vs.gain(graph, feature, r).tolist() == pytest.approx([want])
    assert vs.gain(graph, [table, feature], r).tolist() == pytest.approx([want, want])
    block = Features([[0, 1]], 2.0, assignments=[[1, 2]])
    assert vs.gain(graph, block, r).tolist() == pytest.approx([want])
    assert vs.gain(graph, [], r).shape == (0,)
    # Order is the caller's, and one may be asked about twice.
    graph.add(feature)
    graph.add(table)
    assert vs.gain(graph, [2, 0, 1, 2], r).tolist() == pytest.approx(
        [want, vs.gain(graph, [0], r)[0], want, want]
    )


@given(seeds, st.sampled_from([1, 7, 1 << 15]), st.booleans())
@settings(max_examples=60)
def test_many_tables_are_each_by_the_definition(seed: int, chunk: int, alike: bool) -> None:
    rng = np.random.default_rng(seed)
    cards = np.full(8, 3) if alike else rng.integers(1, 4, 8)
    graph = vs.FactorGraph(cards)
    for v in range(8):
        graph.add([v], rng.normal(0, 1.5, cards[v]))
    for v in range(0, 6, 2):
        graph.add([v + 1, v], rng.normal(0, 1.5, (cards[v + 1], cards[v])))
    n_seed = graph.n_factors
    scale = rng.choice([1e-3, 1.0, 40.0, 800.0])
    for _ in range(60):
        scope = rng.permutation(8)[: rng.integers(0, 4)].tolist()
        table = rng.normal(0, scale, cards[scope])
        if rng.random() < 0.1 and table.size > 1:
            table.flat[rng.integers(table.size)] = -np.inf
        graph.add(scope, table)
    r = vs.infer(graph, factors=range(n_seed))
    candidates = rng.permutation(np.arange(n_seed, graph.n_factors))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_beliefs, "_CHUNK", chunk)
        got = vs.gain(graph, candidates, r)
        some = [graph.factors[i] for i in candidates]
        np.testing.assert_array_equal(vs.gain(graph, some, r), got)
    joint = np.einsum("ab,cd,ef,g,h->abcdefgh", *(r.joint([v, v + 1]) for v in (0, 2, 4)),
                      r.marginals[6], r.marginals[7])  # fmt: skip
    for factor, g in zip(some, got.tolist(), strict=True):
        p, x = marginal(joint, list(factor.scope)), factor.log_table
        if len({v // 2 if v < 6 else v for v in factor.scope}) < len(factor.scope) > 2:
            continue  # no factor of the seed holds these, and they depend on each other
        want = np.inf
        if (x > -np.inf).all():
            want = float(np.log((p * np.exp(x - x.max())).sum()) + x.max() - (p * x).sum())
        assert g == pytest.approx(want, rel=1e-8, abs=1e-11 * (1.0 + scale))


def test_tables_of_the_wrong_shape() -> None:
    class Odd(vs.factors.Factor):
        scope = (0, 1)

        def table(self, cardinalities):
            return np.zeros((3, 2))

        def log_potential(self, states):
            return np.zeros(len(states))

    graph = vs.FactorGraph([2, 3])
    with pytest.raises(ValueError, match=r"factor 0: table must have shape \(2, 3\)"):
        vs.gain(graph, [Odd()], vs.infer(graph))


def test_refusals() -> None:
    graph = vs.FactorGraph([2, 2])
    pairs = vs.FactorGraph([2, 2])
    edge = pairs.add_feature([0, 1], [1, 1], 1.0)
    r = vs.infer(graph)
    with pytest.raises(ValueError, match="factors"):
        vs.gain(graph, [0], r)
    with pytest.raises(ValueError, match="same variables"):
        vs.gain(vs.FactorGraph([2, 3]), [], r)
    with pytest.raises(TypeError, match="result must be that of a FactorGraph"):
        vs.gain(graph, [], 3)
    with pytest.raises(TypeError, match=r"factors must be indices or factors, got 0; write \[0\]"):
        vs.gain(graph, 0, r)
    with pytest.raises(TypeError, match=r"factors\[1\] must be the index of a factor"):
        vs.gain(pairs, [edge, 0.5], vs.infer(pairs))
    with pytest.raises(ValueError, match="does not fit variables"):
        vs.gain(graph, Feature((0,), (2,), 1.0), r)


def test_tiny_probabilities_beside_structured_factors() -> None:
    """Beliefs of two passes that doubles do not hold are read from the messages."""

    def build(structured: bool, cycle: bool) -> tuple[vs.FactorGraph, list[int]]:
        rng = np.random.default_rng(7)
        g = vs.FactorGraph([2] * 6)
        for pair in ((0, 1), (1, 2), (2, 0))[: 3 if cycle else 2]:
            g.add(pair, rng.normal(size=(2, 2)))
        xor = vs.factors.Xor(2, 3, 4)
        g.add(xor if structured else xor.scope, None if structured else xor.table([2, 2, 2]))
        for variable, score in ((5, 1500.0), (0, 900.0), (4, -1200.0)):
            g.add([variable], [0.0, score])
        n = g.n_factors
        for variable, state in ((5, 0), (0, 0), (4, 1), (3, 0), (1, 0)):
            g.add_feature([variable], [state], 2000.0)
        return g, list(range(n, g.n_factors))

    for cycle in (False, True):
        found = {}
        for structured in (False, True):
            g, features = build(structured, cycle)
            first = list(range(features[0]))
            result = vs.infer(g, factors=first)
            assert result.exact
            found[structured] = vs.gain(g, features, result)
            assert set(vs.relax(g, first=first).factors) >= {features[0]}
        assert found[True][0] == pytest.approx(500.0, rel=1e-12)
        np.testing.assert_allclose(found[True], found[False], rtol=1e-9)


@pytest.mark.parametrize("name", ["mu", "theta", "complement"])
def test_no_complex_numbers(name: str) -> None:
    given = {"mu": [0.5], "theta": [1.0], "complement": [0.5]}
    with pytest.raises(TypeError, match=f"{name} must hold real numbers"):
        feature_gain(**{**given, name: np.array([0.5 + 1j])})


def test_beliefs_beside_a_hub_are_found_without_a_look_at_all_of_its_factors() -> None:
    class Counted(list):
        read = 0

        def __getitem__(self, at):
            self.read += 1
            return super().__getitem__(at)

    n = 60
    graph = vs.FactorGraph([2] * n)
    pairs = np.array([(0, v) for v in range(1, n)] + [(v, 0) for v in range(1, n)])
    graph.add_many(pairs, np.random.default_rng(0).normal(size=(len(pairs), 2, 2)))
    r = vs.infer(graph, method="bp")
    asked = AskedJoints(r, thorough=False, linked=True)
    asked.of([(1, 0)])
    asked._tables = Counted(asked._tables)
    scopes = [tuple(pair) for pair in pairs.tolist()]
    found = asked.of(scopes)
    assert asked._tables.read <= len(scopes)
    for scope, p in zip(scopes, found, strict=True):  # that of the first factor that holds them
        first = sorted(scope)
        want = r.factor_marginals()[first[1] - 1]
        np.testing.assert_array_equal(p, want if first == list(scope) else want.T)
