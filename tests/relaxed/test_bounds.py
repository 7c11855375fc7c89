"""Bounds hold: enumeration of the whole graph never leaves them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relaxed_oracle import divergence, marginals, random_graph, scores

import valuesparse as vs
from valuesparse.relaxed import bounds as relaxed_bounds
from valuesparse.relaxed import proxy_divergence

seeds = st.integers(0, 2**32 - 1)


def check(seed: int) -> float:
    """Hold one random instance against enumeration; return how tight the bound was."""
    graph, kept = random_graph(np.random.default_rng(seed), zeros=seed % 4 == 0)
    try:
        r = vs.infer(graph, factors=kept)
    except vs.InfeasibleError:
        return 1.0
    full = scores(graph)
    if full.max() == -np.inf:
        return 1.0
    d = divergence(scores(graph, kept), full)
    b = r.bounds()
    # Beside wide scores a zero that meets −inf may be an underflow, and is no proof.
    assert b.rigorous or seed % 4 == 0, seed
    assert d <= b.divergence <= b.eta, (seed, d, b.divergence, b.eta)
    for low, high, p in zip(b.lower, b.upper, marginals(full), strict=True):
        # Enumeration rounds, too.
        assert (low <= p + 1e-15).all(), (seed, low, p)
        assert (p <= high + 1e-15).all(), (seed, p, high)
        assert (low >= 0).all()
        assert (high <= 1).all()
        assert (low <= high).all()
    return d / b.divergence if b.divergence > 0 else 1.0


@given(seeds)
def test_bounds_hold(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_bounds_hold_ten_thousand_times() -> None:
    for seed in range(10_000):
        check(seed)


def two_proposition(mu: np.ndarray, theta: np.ndarray) -> tuple[float, float]:
    """RS10's η, and RSM10's bound with the sign that ERRATA gives it: features and means."""
    mu = np.where(theta < 0, 1 - mu, mu)
    theta = np.abs(theta)
    order = np.argsort(mu)
    ends = np.concatenate([[0.0], mu[order], [1.0]])
    weights = np.exp(-np.concatenate([[0.0], np.cumsum(theta[order])]))
    eta = float((theta * (1 - mu)).sum())
    return eta, eta + float(np.log((np.diff(ends) * weights).sum()))


@given(seeds)
def test_formulas_of_the_papers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    graph = vs.FactorGraph([2] * n)
    unary = rng.normal(0, 2, n)
    theta = rng.normal(0, rng.choice([0.1, 1, 5]), n)
    for v in range(n):
        graph.add([v], [0.0, unary[v]])
    for v in range(n):
        graph.add_feature([v], [1], theta[v])
    b = vs.infer(graph, factors=range(n)).bounds()
    eta, divergence_bound = two_proposition(1 / (1 + np.exp(-unary)), theta)
    assert b.eta == pytest.approx(eta, rel=1e-9, abs=1e-11)
    assert b.divergence == pytest.approx(divergence_bound, rel=1e-9, abs=1e-9)


@given(seeds)
def test_reached_by_the_comonotone_distribution(seed: int) -> None:
    """Features that fire one inside the other: no first-moment bound can be lower."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    graph = vs.FactorGraph([k])
    graph.add([0], rng.normal(0, 1.5, k))
    for cut in range(1, k):
        weight = float(rng.normal(0, 2))
        # A negative weight belongs to the complement, so that all of them are highest at once.
        graph.add_feature([0], (lambda s, c=cut, w=weight: (s >= c) == (w > 0)), weight)
    b = vs.infer(graph, factors=[0]).bounds()
    d = divergence(scores(graph, [0]), scores(graph))
    assert b.divergence == pytest.approx(d, rel=1e-8, abs=1e-10)


@pytest.mark.smoke
def test_nothing_left_out_is_exact() -> None:
    graph = vs.FactorGraph([2, 3])
    graph.add([0, 1], np.arange(6.0).reshape(2, 3))
    r = vs.infer(graph, evidence={0: 1})
    assert (r.divergence_bound, r.bounds().eta, r.rigorous) == (0.0, 0.0, True)
    assert r.marginal_lower[0].tolist() == r.marginal_upper[0].tolist() == [0.0, 1.0]
    for low, p, high in zip(r.marginal_lower, r.marginals, r.marginal_upper, strict=True):
        assert (low <= p).all()
        assert (p <= high).all()
        assert (high - low < 1e-12).all()


def test_forbidding_what_was_allowed_is_infinitely_far() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], [[0.0, 0.0], [0.0, -np.inf]])
    r = vs.infer(graph, factors=[])
    assert r.divergence_bound == np.inf
    assert [m.tolist() for m in r.marginal_lower] == [[0.0, 0.0]] * 2
    # Nothing changes where the state was impossible before.
    graph.add([0], [0.0, -np.inf])
    r = vs.infer(graph, factors=[1])
    assert (r.divergence_bound, r.rigorous) == (0.0, True)


def test_dependent_variables_are_bounded_by_their_joint() -> None:
    """A product of beliefs would give a bound that is no bound."""
    graph = vs.FactorGraph([2] * 3)
    for i in range(2):
        graph.add([i, i + 1], [[5.0, 0.0], [0.0, 5.0]])
    graph.add_feature([0, 2], lambda a, b: a != b, 8.0)
    r = vs.infer(graph, factors=[0, 1])
    d = divergence(scores(graph, [0, 1]), scores(graph))
    assert r.rigorous
    assert d <= r.divergence_bound
    assert r.divergence_bound == pytest.approx(d, rel=1e-6)


def test_islands_and_underflow_are_no_proof() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.0, 5.0])
    graph.add_feature([0, 1], [1, 1], 1.0)
    assert not vs.infer(graph, factors=[0], zeta=0.9).rigorous
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, -900.0])
    graph.add([0], [0.0, -np.inf])
    r = vs.infer(graph, factors=[0])
    # A double holds no such number, but it is one: what forbids it is infinitely far.
    assert (r.marginals[0].tolist(), r.divergence_bound) == ([1.0, 0.0], np.inf)
    assert not vs.infer(graph, factors=[0], method="bp").rigorous


IMPOSSIBLE = {
    "all of a table": lambda g: g.add([0, 1], np.full((2, 3), -np.inf)),
    "a constant": lambda g: g.add([], -np.inf),
    "the states that the evidence leaves": lambda g: g.add(
        [0, 1], [[0.0, 1.0, 2.0], [-np.inf, -np.inf, -np.inf]]
    ),
    "the states that tables leave": lambda g: g.add([1], [-np.inf, 3.0, -np.inf]),
    "a feature that always fires": lambda g: g.add_feature(
        [1, 0], np.ones((3, 2), dtype=bool), -np.inf
    ),
    "a feature without variables": lambda g: g.add_feature([], [], -np.inf),
    "a feature of the evidence": lambda g: g.add_feature([0], [1], -np.inf),
    "a feature of what tables leave": lambda g: g.add_feature([1], lambda y: y != 1, -np.inf),
    "features in columns": lambda g: g.add_features(
        vs.factors.Features([[1, 0]], -np.inf, fires=np.ones((3, 2), dtype=bool))
    ),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("method", ["auto", "exact", "junction_tree", "bp", "mean_field"])
def test_a_factor_left_out_that_forbids_everything(
    what: str, soft: bool, linked: bool, method: str
) -> None:
    graph = vs.FactorGraph([2, 3])
    graph.add([1], [0.5, -np.inf, 0.0])
    if linked:
        graph.add([0, 1], np.arange(6.0).reshape(2, 3))
    n = graph.n_factors
    graph.set_evidence({0: [-np.inf, 0.3] if soft else 1})
    IMPOSSIBLE[what](graph)
    with pytest.raises(vs.InfeasibleError):
        vs.infer(graph)
    for r in (
        vs.infer(graph, factors=range(n), method=method),
        vs.relax(graph, first=range(n), max_rounds=0, solver=method),
        vs.relax(graph, first=range(n), threshold=np.inf, solver=method),
        vs.select(graph, first=range(n), min_divergence=0, solver=method),
    ):
        b = r.bounds()
        assert (r.divergence_bound, b.eta) == (np.inf, np.inf)
        assert [low.tolist() for low in r.marginal_lower] == [[0.0, 0.0], [0.0, 0.0, 0.0]]
        assert [high.tolist() for high in r.marginal_upper] == [[1.0, 1.0], [1.0, 1.0, 1.0]]
        # log Z of what was used is finite, and so is what is known of it.
        assert r.log_z_lower <= r.log_z <= r.log_z_upper or method in ("bp", "mean_field")
        assert not np.isnan([r.log_z_lower, r.log_z_upper]).any()
        assert vs.gain(graph, [n], r).tolist() == [np.inf]
    for choose in (
        lambda: vs.relax(graph, first=range(n), solver=method),
        lambda: vs.select(graph, first=range(n), min_size=1.0, solver=method),
        lambda: vs.select(graph, first=range(n), min_joint=1.0, solver=method),
    ):
        with pytest.raises(vs.InfeasibleError):
            choose()


def test_evidence_of_a_call_makes_a_factor_left_out_impossible() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.0, 1.0])
    graph.add([0, 1], [[0.0, 1.0], [-np.inf, -np.inf]])
    assert vs.infer(graph, factors=[0]).divergence_bound == np.inf
    assert vs.infer(graph, factors=[0], evidence={0: 0}).divergence_bound < 1.0
    r = vs.infer(graph, factors=[0], evidence={0: 1})
    assert r.divergence_bound == np.inf
    assert [m.tolist() for m in r.marginal_lower] == [[0.0, 0.0]] * 2
    assert [m.tolist() for m in r.marginal_upper] == [[1.0, 1.0]] * 2


def test_two_that_leave_nothing_together() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [-np.inf, 0.0])
    graph.add([0], [0.0, -np.inf])
    graph.add([1], [0.0, 1.0])
    r = vs.infer(graph, factors=[2])
    assert r.divergence_bound == np.inf
    assert [m.tolist() for m in r.marginal_lower] == [[0.0, 0.0]] * 2
    assert [m.tolist() for m in r.marginal_upper] == [[1.0, 1.0]] * 2


@pytest.mark.parametrize("where", ["states that were impossible", "evidence"])
def test_two_that_leave_nothing_together_beside_what_is_known(where: str) -> None:
    """No state is known to be impossible, or sure, where there may be no distribution."""
    graph = vs.FactorGraph([3])
    graph.add([0], [0.0, 0.0, -np.inf])
    if where == "evidence":
        graph = vs.FactorGraph([3, 2])
        graph.add([0], [0.0, 0.0, 0.0])
        graph.set_evidence({1: 1})
    graph.add([0], [-np.inf, 0.0, 0.0])
    graph.add([0], [0.0, -np.inf, -np.inf if where == "evidence" else 0.0])
    r = vs.infer(graph, factors=[0])
    assert (r.divergence_bound, r.rigorous) == (np.inf, True)
    for low, high in zip(r.marginal_lower, r.marginal_upper, strict=True):
        assert not low.any()
        assert (high == 1.0).all()


def test_lazy_candidates_that_forbid_everything() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.0, 1.0])
    never = [vs.factors.Table((1,), np.full(2, -np.inf))]
    r = vs.relax(graph, candidates=lambda _: never, exhaustive=True, max_rounds=0)
    assert r.divergence_bound == np.inf
    assert [m.tolist() for m in r.marginal_upper] == [[1.0, 1.0]] * 2
    with pytest.raises(vs.InfeasibleError):
        vs.relax(graph, candidates=lambda _: never, exhaustive=True)


@given(seeds)
@settings(max_examples=100)
def test_forbidding_at_random_is_never_counted_as_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph(rng.integers(1, 4, 3))
    scopes = [[0], [1], [2], [0, 1], [1, 2], [2, 0], [0, 1, 2], []]
    for _ in range(int(rng.integers(1, 6))):
        scope = scopes[rng.integers(len(scopes))]
        shape = [graph.cardinalities[v] for v in scope]
        table = rng.normal(0, rng.choice([1.0, 400.0]), shape)
        table = np.where(rng.random(shape) < rng.choice([0.1, 0.5]), -np.inf, table)
        if rng.random() < 0.4:
            graph.add_feature(scope, np.asarray(table == -np.inf), -np.inf)
        else:
            graph.add(scope, table)
    if rng.random() < 0.5:
        graph.set_evidence({0: int(rng.integers(graph.cardinalities[0]))})
    kept = np.flatnonzero(rng.random(graph.n_factors) < 0.4)
    try:
        r = vs.infer(graph, factors=kept)
    except vs.InfeasibleError:
        return
    b = r.bounds()
    assert not np.isnan([b.divergence, b.eta]).any()
    for low, high in zip(b.lower, b.upper, strict=True):
        assert (low >= 0.0).all()
        assert (low <= high).all()
        assert (high <= 1.0).all()
    used, full = scores(graph, kept), scores(graph)
    if full.max() == -np.inf or ((used > -np.inf) & (full == -np.inf)).any():
        assert b.divergence == np.inf
        return
    for low, high, p in zip(b.lower, b.upper, marginals(full), strict=True):
        assert (low <= p + 1e-12).all()
        assert (p <= high + 1e-12).all()
    assert divergence(used, full) <= b.divergence * (1 + 1e-9) + 1e-9


def test_pickle_and_growth() -> None:
    graph = vs.FactorGraph([2])
    graph.add_feature([0], [1], 1.0)
    r = vs.infer(graph, factors=[])
    graph.add_feature([0], [1], 9.0)  # after the question: not part of it
    want = r.divergence_bound
    assert want == pytest.approx(0.5 + np.log((1 + np.exp(-1)) / 2), abs=1e-9)
    assert r.expectations().tolist() == [0.5]
    again = pickle.loads(pickle.dumps(r))
    assert again.divergence_bound == want
    assert again.marginal_upper[0].tolist() == r.marginal_upper[0].tolist()


@given(seeds)
@settings(max_examples=50)
def test_proposition_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, kept = random_graph(rng)
    start = kept[rng.random(kept.size) < 0.5]
    terms = proxy_divergence(graph, start, kept)
    d = divergence(scores(graph, kept), scores(graph))
    assert terms.divergence == pytest.approx(d, rel=1e-8, abs=1e-10)
    assert sum(terms[1:]) == pytest.approx(d, rel=1e-8, abs=1e-9)
    rest = [i for i in range(graph.n_factors) if i not in kept]
    base = scores(graph, start)
    gains = sum(divergence(base, scores(graph, [*start, i])) for i in rest)
    assert terms.isolated == pytest.approx(gains, rel=1e-8, abs=1e-9)


def test_proposition_one_refuses() -> None:
    graph = vs.FactorGraph([2] * 21)
    graph.add([0], [0.0, 1.0])
    with pytest.raises(ValueError, match="must contain those of first"):
        proxy_divergence(graph, [0], [])
    with pytest.raises(ValueError, match=r"2\.1e\+06 configurations"):
        proxy_divergence(graph, [], [0])
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    graph.add([0], [0.0, -np.inf])
    with pytest.raises(ValueError, match="the divergence is infinite and has no terms"):
        proxy_divergence(graph, [], [0])
    graph.add([0], [-np.inf, 0.0])
    with pytest.raises(vs.InfeasibleError):
        proxy_divergence(graph, [], [0])


def test_tables_of_one_size_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    shapes = [(), (2,), (3, 2), (6,), (2, 3), (1,), (2, 2, 2)] * 9
    tables = [np.asarray(rng.normal(size=shape)) for shape in shapes]
    for table in tables[::4]:
        table[rng.random(table.shape) < 0.7] = -np.inf
    tables[9] = np.full(3, -np.inf)
    calls = []
    joined = np.concatenate
    for together in (1, 20, 1 << 14):
        monkeypatch.setattr(relaxed_bounds, "_TOGETHER", together)
        monkeypatch.setattr(np, "concatenate", lambda some: calls.append(len(some)) or joined(some))
        low, high = relaxed_bounds._ends(tables)
        monkeypatch.undo()
        for table, least, most in zip(tables, low, high, strict=True):
            finite = table[table > -np.inf]
            assert least == finite.min(initial=np.inf)
            assert most == finite.max(initial=-np.inf)
    assert len(calls) < 2 * len(tables)
    assert len(calls[-5:]) == len({table.size for table in tables}) == 5
    assert sum(calls[-5:]) == len(tables)


def test_both_sides_are_bisected_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    furthest = relaxed_bounds._furthest

    def counted(p: np.ndarray, d: float) -> np.ndarray:
        calls.append(p.size)
        return furthest(p, d)

    monkeypatch.setattr(relaxed_bounds, "_furthest", counted)
    graph = vs.FactorGraph([2, 3])
    graph.add([0, 1], 0.1 * np.arange(6.0).reshape(2, 3))
    bounds = vs.infer(graph, factors=[]).bounds()
    assert calls == [2 * 5]
    for low, high, p in zip(bounds.lower, bounds.upper, vs.infer(graph).marginals, strict=True):
        assert (low <= p).all()
        assert (p <= high).all()
