"""Factors that a screen leaves out have no gain above the threshold; all others keep theirs."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse._messages import worth
from valuesparse.factors import Features, Table, Tree
from valuesparse.relaxed import gain
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed.gain import gains_of

ARCS = [(h, m) for m in range(1, 4) for h in range(4) if h != m]


def model(rng: np.random.Generator, scale: float, *, tree: bool) -> vs.FactorGraph:
    """Return a graph of nine binary variables, under a tree factor or not, some tied by tables."""
    graph = vs.FactorGraph([2] * len(ARCS))
    graph.add_features(Features(np.arange(len(ARCS))[:, None], rng.normal(size=9) * scale))
    if tree:
        graph.add(Tree(ARCS, range(len(ARCS))))
    for _ in range(int(rng.integers(0, 4))):
        scope = rng.choice(9, 2, replace=False).tolist()
        graph.add(Table(scope, rng.normal(size=(2, 2))))
    return graph


def candidates(rng: np.random.Generator, weights: float) -> Features:
    """Return features of two variables: some weak, some strong, a few of them forbid."""
    scopes = np.array([(a, b) for a in range(9) for b in range(9) if a != b])
    theta = rng.normal(size=len(scopes)) * weights ** rng.integers(-1, 2, len(scopes))
    theta[rng.random(len(scopes)) < 0.05] = -np.inf
    return Features(scopes, theta, assignments=rng.integers(0, 2, scopes.shape))


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 3.0, 40.0, 800.0]),
    st.sampled_from([0.1, 2.0, 30.0]),
    st.sampled_from([0.0, 1e-12, 1e-4, 0.1]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, {0: 0}, {4: 1, 7: 0}]),
)
def test_the_same_side_of_the_threshold(
    seed: int, scale: float, weights: float, above: float, tree: bool, loopy: bool, known: Any
) -> None:
    """A gain told with a threshold lies on the side of it that the whole gain lies on."""
    rng = np.random.default_rng(seed)
    graph, block = model(rng, scale, tree=tree), candidates(rng, weights)
    method = vs.BP(max_iterations=3) if loopy else "auto"
    try:
        r = vs.infer(graph, method=method, evidence=known or {})
    except vs.InfeasibleError:
        return
    whole = gain(graph, block, r)
    found = gains_of(len(block), Beliefs(r, above=above).of_block(block))
    sure = np.abs(whole - above) > 1e-9 * whole
    assert np.array_equal((found > above)[sure], (whole > above)[sure])
    tables = [Table(f.scope, f.table([2, 2])) for f in map(block.__getitem__, range(len(block)))]
    found = gains_of(len(block), Beliefs(r, above=above).of_factors(list(enumerate(tables))))
    assert np.array_equal((found > above)[sure], (whole > above)[sure])


@given(
    st.integers(0, 10**6),
    st.integers(0, 3),
    st.sampled_from([1e-3, 0.3, 1.0, 5.0, 800.0]),
    st.sampled_from([0.0, 1e-9, 1e-4, 0.1]),
)
def test_rows_that_a_bound_keeps(seed: int, size: int, weights: float, above: float) -> None:
    """Those alone are left whose weight and likeliest state cannot give such a gain."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, 6)
    offset = np.cumsum(cards) - cards
    chance = rng.random(int(cards.sum())) ** 8
    m = 60
    scopes = np.array([rng.choice(6, size, replace=False) for _ in range(m)]).reshape(m, size)
    states = np.floor(rng.random((m, size)) * cards[scopes]).astype(np.int64)
    theta = rng.normal(size=m) * weights
    theta[rng.random(m) < 0.05] = -np.inf
    held = np.unique(np.sort(rng.choice(36, 4)))
    held = held[held // 6 < held % 6]
    maybe = np.zeros(16, dtype=np.bool_)
    maybe[held & 15] = maybe[(held % 6 * 6 + held // 6) & 15] = True
    kept = worth(
        np.ascontiguousarray(scopes), states, theta, chance, offset, held, maybe, above
    ).tolist()
    for i in range(m):
        most = float(chance[offset[scopes[i]] + states[i]].min(initial=1.0))
        with mpmath.workdps(40):
            t = mpmath.mpf(float(theta[i]))
            bound = float(most * (mpmath.exp(t) - 1 - t))
        pair = size == 2 and scopes[i].min() * 6 + scopes[i].max() in held
        if bound > above or pair:
            assert i in kept
        elif bound < 0.6 * above and bound > 1e-14:  # no rounding
            assert i not in kept
    some = states[0]
    alike = np.broadcast_to(some % cards.min(), (m, size)).astype(np.int64)
    answers = [
        worth(np.ascontiguousarray(scopes), x, theta, chance, offset, held, maybe, above)
        for x in (np.ascontiguousarray(alike), np.ascontiguousarray(alike[0]))
    ]
    assert np.array_equal(*answers)


def test_most_are_left_out_before_their_joints_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of many weak pairs that may matter are evaluated."""
    rng = np.random.default_rng(5)
    graph, block = model(rng, 3.0, tree=True), candidates(rng, 1.0)
    r = vs.infer(graph, method=vs.BP())
    beliefs = Beliefs(r, above=0.1)
    seen: list[int] = []
    part = Beliefs.part
    monkeypatch.setattr(
        Beliefs, "part", lambda self, at, some, sides: (seen.append(len(some)),
                                                        part(self, at, some, sides))[1]
    )  # fmt: skip
    gains_of(len(block), beliefs.of_block(block))
    assert 0 < sum(seen) < len(block) // 2


@pytest.mark.parametrize("loopy", [False, True])
def test_nothing_may_be_left(loopy: bool) -> None:
    """Where no factor can have such a gain nothing is told, of features and of tables."""
    rng = np.random.default_rng(7)
    graph = model(rng, 1.0, tree=True)
    scopes = np.array([(a, b) for a in range(8) for b in range(a + 1, 9)])
    block = Features(scopes, np.full(len(scopes), 1e-3))
    inside = graph.copy()
    inside.add_features(block)
    own = np.arange(graph.n_factors)
    r = vs.infer(inside, factors=own, method=vs.BP() if loopy else "auto")
    assert not gains_of(len(block), Beliefs(r, above=0.1).of_block(block)).any()
    tables = vs.FactorGraph([2] * 9)
    log_tables = np.zeros((len(scopes), 2, 2))
    log_tables[:, 1, 1] = 1e-3
    tables.add_many(scopes, log_tables)
    found = gains_of(len(block), Beliefs(r, above=0.1).walk(tables, np.arange(len(block))))
    assert not found.any()
    assert vs.relax(inside, threshold=0.1, solver=vs.BP()).factors.tolist() == own.tolist()[:10]


def test_candidates_are_added_in_columns_and_once() -> None:
    """Features of a block stay in one; those that were added are not added again."""
    rng = np.random.default_rng(6)
    graph, block = model(rng, 1.0, tree=True), candidates(rng, 2.0)
    twice = Features(
        np.concatenate([block.scopes, block.scopes[:3]]),
        np.concatenate([block.weights, block.weights[:3]]),
        assignments=np.concatenate([block.assignments, block.assignments[:3]]),  # type: ignore[list-item]
    )
    single = [block[i] for i in range(5)]
    keep = np.isfinite(block.weights)
    fine, fine_twice = block.take(keep), twice.take(np.isfinite(twice.weights))
    calls = 0

    def yielded(_: object) -> Any:
        nonlocal calls
        calls += 1
        return [fine] if calls == 1 else [fine_twice, *(f for f in single if f.weight > -np.inf)]

    r = vs.relax(graph, candidates=yielded, threshold=0.0, solver=vs.BP())
    expected = len(fine) + np.isfinite(twice.weights[len(block) :]).sum()
    expected += sum(f.weight > -np.inf for f in single)
    assert r.graph.n_factors - graph.n_factors == expected
    inside = graph.copy()
    inside.add_features(fine)
    inside.add_features(fine_twice.take(slice(len(fine), None)))
    for f in single:
        if f.weight > -np.inf:
            inside.add(f)
    whole = vs.infer(inside, method=vs.BP())
    np.testing.assert_allclose(r.flat_marginals(), whole.flat_marginals(), atol=1e-4)
