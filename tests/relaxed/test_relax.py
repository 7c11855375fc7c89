"""RS10's Algorithm 1, with factors at hand and with factors made on demand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from relaxed_oracle import divergence, marginals, pairs_of_six, random_graph, scores

import valuesparse as vs
from valuesparse.factors import Feature, Features, Table, Xor

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.sampled_from([0.0, 1e-4, 1e-2, 0.3]))
def test_ends_where_no_factor_left_has_gain(seed: int, threshold: float) -> None:
    graph, kept = random_graph(np.random.default_rng(seed))
    r = vs.relax(graph, first=kept, threshold=threshold)
    assert r.converged
    assert set(kept) <= set(r.factors.tolist())
    rest = sorted(set(range(graph.n_factors)) - set(r.factors.tolist()))
    assert (vs.gain(graph, rest, r) <= threshold).all()
    for got, want in zip(r.marginals, marginals(scores(graph, r.factors)), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-10)
    assert r.stats["added"] == r.factors.size - kept.size


@pytest.mark.smoke
def test_rounds() -> None:
    graph = pairs_of_six()
    none = vs.relax(graph, max_rounds=0)
    assert (none.factors.tolist(), none.converged) == (list(range(6)), False)
    one = vs.relax(graph, max_rounds=1, threshold=1e-2)
    same = vs.select(graph, min_joint=np.nextafter(1e-2, 1.0))
    assert one.factors.tolist() == same.factors.tolist()
    assert one.stats["rounds"] == 1
    assert [m.tolist() for m in one.marginals] == [m.tolist() for m in same.marginals]


def test_a_bound_stops_it() -> None:
    graph = pairs_of_six()
    r = vs.relax(graph, first=range(12), threshold=0.0, max_divergence=50.0)
    assert r.factors.tolist() == list(range(12))
    assert "max_divergence" in r.reason
    d = divergence(scores(graph, r.factors), scores(graph))
    assert d <= r.divergence_bound <= 50.0
    r = vs.relax(graph, threshold=0.0, max_divergence=0.0)
    assert r.factors.size == 21


def test_the_solver_is_told_the_round_before() -> None:
    told = []

    def solve(part: vs.FactorGraph, previous):
        told.append(previous)
        return vs.infer(part)

    r = vs.relax(pairs_of_six(), solver=solve, threshold=1e-3)
    assert told[0] is None
    assert len(told) == r.stats["rounds"] + 1
    assert told[1].factors.tolist() == list(range(6))


@pytest.mark.parametrize("form", ["features", "tables", "block"])
def test_candidates_made_on_demand_are_as_good_as_written_down(form: str) -> None:
    graph = pairs_of_six()
    local = vs.FactorGraph([2] * 6)
    for f in graph.factors[:6]:
        local.add(f)
    pairs = [f for f in graph.factors[6:] if isinstance(f, Feature)]

    def candidates(result):
        assert len(result.marginals) == 6
        if form == "block":
            yield Features([f.scope for f in pairs], [f.weight for f in pairs],
                           fires=np.eye(2, dtype=bool))  # fmt: skip
        else:
            for f in pairs:
                yield f if form == "features" else Table(f.scope, f.table([2, 2]))

    for arguments in ({"threshold": 0.05}, {"threshold": 0.05, "max_rounds": 1},
                      {"threshold": 0.0, "max_divergence": 4.0}):  # fmt: skip
        a = vs.relax(graph, **arguments)
        b = vs.relax(local, candidates=candidates, exhaustive=True, **arguments)
        assert local.n_factors == 6
        assert b.graph.n_factors == a.factors.size
        assert sorted(b.graph.factors[i].scope for i in b.factors) == sorted(
            graph.factors[i].scope for i in a.factors
        )
        for p, q in zip(a.marginals, b.marginals, strict=True):
            np.testing.assert_allclose(p, q, atol=1e-12)
        assert b.divergence_bound == pytest.approx(a.divergence_bound, rel=1e-9, abs=1e-9)
        assert b.rigorous
        assert (a.converged, a.stats["rounds"]) == (b.converged, b.stats["rounds"])


def test_without_a_promise_nothing_is_known() -> None:
    local = vs.FactorGraph([2, 2])
    r = vs.relax(local, candidates=lambda result: [Feature((0, 1), (1, 1), 2.0)])
    assert r.factors.tolist() == [0]
    assert r.divergence_bound == np.inf
    assert r.marginal_lower[0].tolist() == [0.0, 0.0]
    assert r.marginal_upper[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"threshold": -1.0}, ValueError, "threshold must be a number >= 0"),
        ({"max_rounds": -1}, ValueError, "max_rounds must be an integer >= 0"),
        ({"max_divergence": np.nan}, ValueError, "max_divergence must be a number >= 0"),
        ({"candidates": 3}, ValueError, "candidates must be callable"),
        ({"exhaustive": True}, ValueError, "exhaustive is a promise about candidates"),
        ({"candidates": lambda r: [3]}, TypeError, "candidates must yield"),
        ({"candidates": lambda r: None}, TypeError, "candidates must return or yield factors"),
        ({"candidates": lambda r: Features([[0, 1]], 1.0)}, TypeError, "return it in a list"),
        (
            {"candidates": lambda r: [Xor(*range(5))]},
            ValueError,
            "Xor over 5 variables has no gain",
        ),
        ({"first": [True]}, ValueError, "np.flatnonzero makes them of a mask"),
        ({"solver": "islands"}, ValueError, "solver must be one of auto, exact, junction_tree, bp"),
        ({"first": [77]}, ValueError, r"first\[0\] is 77"),
    ],
)
def test_refusals(arguments, error, words: str) -> None:
    with pytest.raises(error, match=words):
        vs.relax(pairs_of_six(), **arguments)


def test_equal_candidates_count_each() -> None:
    local = vs.FactorGraph([2, 2])
    local.add([0], [0.0, 1.0])
    local.add([1], [0.0, -0.5])
    twice = [Feature((0, 1), (1, 1), 2.0)] * 2
    block = Features([[0, 1]] * 2, 2.0)
    whole = local.copy()
    for factor in twice:
        whole.add(factor)
    truth = vs.infer(whole).marginals
    for yielded in (twice, [block]):
        for rounds in (0, 1, None):
            r = vs.relax(
                local, candidates=lambda _, y=yielded: y, exhaustive=True, max_rounds=rounds
            )
            assert len(r.factors) == (2 if rounds == 0 else 4)
            assert r.rigorous
            for p, low, high in zip(truth, r.marginal_lower, r.marginal_upper, strict=True):
                assert (low <= p + 1e-12).all()
                assert (p <= high + 1e-12).all()


def test_a_product_of_beliefs_is_no_proof() -> None:
    """Two passes have no joint of variables in different structured factors."""
    graph = vs.FactorGraph([2] * 3)
    graph.add(Xor(0, 1))
    graph.add(Xor(1, 2))
    graph.add_feature((0, 2), (1, 1), -3.0)
    r = vs.relax(graph, threshold=10.0, max_divergence=0.5)
    assert r.method == "exact"
    assert "divergence is estimated at no more than 0.479" in r.reason
    assert not r.rigorous
    # Nor of two in one and a third outside.
    graph = vs.FactorGraph([2] * 5)
    graph.add_many([[v] for v in range(5)], [[0.0, 0.3 * v - 0.5] for v in range(5)])
    graph.add(vs.factors.Or(0, 1, 2, 3))
    kept = graph.n_factors
    for scope, sure in (((0, 1, 2), True), ((0, 4), True), ((0, 1, 4), False)):
        graph.add_feature(scope, (0,) * len(scope), 1.5)
        result = vs.infer(graph, factors=range(kept))
        assert result.exact
        assert result.rigorous == sure
