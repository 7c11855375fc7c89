"""Gains where what was used is nearly sure: each digit against 60 of them."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from graph_oracle import log_joint
from hypothesis import example, given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.factors import Feature, Features, Table
from valuesparse.inference import _memory
from valuesparse.relaxed import feature_gain
from valuesparse.relaxed._sides import LOGS, PLAIN, Sides, others, others_of_logs

seeds = st.integers(0, 2**32 - 1)
#: Below it a gain is not promised, and neither is it told from zero.
LEAST = mpmath.mpf("1e-300")


def gains(graph: vs.FactorGraph, kept: list[int], candidates: list[vs.factors.Factor]) -> list:
    """Return log E[Ψ] − E[log Ψ] under some factors and the evidence, by enumeration."""
    cards = graph.cardinalities
    log_p = log_joint(
        list(cards),
        [(f.scope, f.table([cards[v] for v in f.scope])) for f in
         (graph.factors[i] for i in kept)],
        graph.evidence,
    )  # fmt: skip
    with mpmath.workdps(60):
        states = [y for y in itertools.product(*map(range, cards)) if log_p[y] > -np.inf]
        weights = [score(graph, kept, y) for y in states]
        top = max(weights)
        weights = [mpmath.exp(w - top) for w in weights]
        total = mpmath.fsum(weights)
        p = [w / total for w in weights]
        found = []
        for factor in candidates:
            table = factor.table([cards[v] for v in factor.scope])
            x = [mpmath.mpf(float(table[tuple(y[v] for v in factor.scope)])) for y in states]
            if any(mpmath.isinf(value) for value in x):
                found.append(mpmath.inf)
                continue
            x = [value - x[p.index(max(p))] for value in x]
            # Terms that cancel are left to digits beyond the 60 that are compared.
            with mpmath.workdps(420):
                mean = mpmath.fsum(a * b for a, b in zip(p, x, strict=True))
                sum_ = mpmath.fsum(a * mpmath.expm1(b) for a, b in zip(p, x, strict=True))
                sum_ += mpmath.fsum(p)
                found.append(mpmath.log(sum_ / mpmath.fsum(p)) - mean / mpmath.fsum(p))
    return found


def score(graph: vs.FactorGraph, kept: list[int], y: tuple[int, ...]) -> mpmath.mpf:
    """Return the log-weight of one configuration, with its digits."""
    parts = []
    for i in kept:
        f = graph.factors[i]
        table = f.table([graph.cardinalities[v] for v in f.scope])
        parts.append(mpmath.mpf(float(table[tuple(y[v] for v in f.scope)])))
    for v, x in graph.evidence.items():
        if not isinstance(x, int):
            parts.append(mpmath.mpf(float(x[y[v]])))
    return mpmath.fsum(parts)


def same(got: float, want: mpmath.mpf) -> bool:
    """Whether a gain is right to 1e-9 of itself, wherever it is above 1e-300."""
    if mpmath.isinf(want):
        return got == np.inf
    if want <= LEAST:
        return 0.0 <= got <= 2e-300
    return abs(mpmath.mpf(got) - want) <= mpmath.mpf("1e-9") * want


def random_model(rng: np.random.Generator) -> tuple[vs.FactorGraph, list[vs.factors.Factor]]:
    """Return a graph without cycles of scores to hundreds, and factors that its joints hold."""
    n = int(rng.integers(1, 4))
    cards = rng.integers(1, 4, n)
    graph = vs.FactorGraph(cards)
    size = rng.choice([1.0, 30.0, 300.0, 900.0])

    def table(scope: list[int], most: float) -> np.ndarray:
        found = rng.uniform(-most, most, cards[scope])
        if rng.random() < 0.3:
            found = np.where(rng.random(found.shape) < 0.5, found, 0.0)
        if rng.random() < 0.15:
            found.flat[rng.integers(found.size)] = -np.inf
        return found

    for v in range(n):
        graph.add([v], table([v], size))
    scopes = [list(s) for k in range(min(n, 3) + 1) for s in itertools.permutations(range(n), k)]
    dice = rng.random()
    if dice < 0.3:  # one factor holds them all
        graph.add(list(range(n)), table(list(range(n)), size))
    elif dice < 0.6 and n > 1:  # the others are independent of these
        graph.add([0, 1], table([0, 1], size))
        scopes = [s for s in scopes if not {0, 1, 2} <= set(s)]
        scopes = [s for s in scopes if len(s) < 2 or set(s) == {0, 1} or not {0, 1} & set(s)
                  or len({0, 1} & set(s)) == 1]  # fmt: skip
    if rng.random() < 0.3:
        v = int(rng.integers(n))
        graph.set_evidence(
            {v: table([v], size) if rng.random() < 0.5 else int(rng.integers(cards[v]))}
        )
    found: list[vs.factors.Factor] = []
    for scope in scopes:
        weight = float(rng.choice([1e-7, 0.01, 1.0, 50.0, 700.0, 3000.0]) * rng.uniform(-1, 1))
        if rng.random() < 0.05:
            weight = -np.inf
        found.append(Feature(scope, [int(rng.integers(cards[v])) for v in scope], weight))
        mask = np.asarray(rng.random(cards[scope]) < rng.choice([0.1, 0.5, 0.9]))
        found.append(Feature(scope, mask, weight))
        centre = rng.choice([0.0, 1.0, 1e3])
        found.append(Table(scope, centre + table(scope, float(rng.choice([1e-6, 1.0, 700.0])))))
    return graph, found


@given(seeds, st.sampled_from(["auto", "exact", "junction_tree"]))
@settings(max_examples=100, deadline=None)
def test_every_gain_has_its_digits(seed: int, method: str) -> None:
    graph, candidates = random_model(np.random.default_rng(seed))
    kept = list(range(graph.n_factors))
    try:
        r = vs.infer(graph, factors=kept, method=method)
    except vs.InfeasibleError:
        return
    want = gains(graph, kept, candidates)
    got = vs.gain(graph, candidates, r)
    assert not np.isnan(got).any()
    for f, a, b in zip(candidates, got.tolist(), want, strict=True):
        assert same(a, b), (seed, f, a, b)


@given(seeds, st.sampled_from(["bp", "mean_field"]))
@settings(max_examples=60, deadline=None)
def test_loopy_beliefs_keep_theirs(seed: int, method: str) -> None:
    """On trees, and without links, beliefs are the truth; what a double cannot hold is a zero."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([2, 3])
    size = rng.choice([3.0, 100.0])
    graph.add([0], rng.uniform(-size, size, 2))
    graph.add([1], rng.uniform(-size, size, 3))
    if method == "bp":
        graph.add([0, 1], rng.uniform(-size, size, (2, 3)))
    kept = list(range(graph.n_factors))
    candidates: list[vs.factors.Factor] = [
        Feature((1, 0), (2, 0), rng.uniform(-700, 700)),
        Feature((0,), (0,), rng.uniform(-700, 700)),
        Feature((1, 0), rng.random((3, 2)) < 0.7, rng.uniform(-10, 10)),
        Table((0, 1), rng.uniform(-100, 100, (2, 3))),
    ]
    r = vs.infer(graph, factors=kept, method=method)
    got = vs.gain(graph, candidates, r)
    for f, a, b in zip(candidates, got.tolist(), gains(graph, kept, candidates), strict=True):
        assert same(a, b), (seed, f, a, b)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_features_in_columns_and_the_seed_of_relax(seed: int) -> None:
    """The solver of graphs whose factors have one variable each, and blocks of features."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([3] * 4)
    for v in range(4):
        graph.add([v], rng.uniform(-1, 1, 3) * rng.choice([1.0, 100.0, 500.0]))
    scopes = [list(s) for s in itertools.permutations(range(4), 2)]
    weights = rng.uniform(-1, 1, len(scopes)) * rng.choice([1.0, 700.0, 2500.0])
    block = (
        Features(scopes, weights, fires=rng.random((3, 3)) < rng.choice([0.2, 0.8]))
        if rng.random() < 0.5
        else Features(scopes, weights, assignments=rng.integers(0, 3, (len(scopes), 2)))
    )
    graph.add_features(block)
    want = gains(graph, [0, 1, 2, 3], [block[i] for i in range(len(block))])
    r = vs.relax(graph, max_rounds=0)
    for a, b in zip(vs.gain(graph, range(4, graph.n_factors), r).tolist(), want, strict=True):
        assert same(a, b), (seed, a, b)


@given(st.floats(0, 1), st.floats(1e-300, 1e-3), st.floats(-10_000, 10_000))
@example(0.0, 1e-26, -100.0)
@example(0.0, 1e-300, 700.0)
@example(0.0, 1e-300, -700.0)
def test_complements_of_features(mu: float, off: float, theta: float) -> None:
    with mpmath.workdps(700):
        m, t = mpmath.mpf(off), mpmath.mpf(-theta)
        want = mpmath.log(1 - m + m * mpmath.exp(t)) - m * t
    got = float(feature_gain(1.0 - off, theta, off))
    assert same(got, want) or abs(theta) * off < 1e-290
    with pytest.raises(ValueError, match="complement must lie"):
        feature_gain(mu, theta, -1.0)


def test_nearly_sure_features() -> None:
    graph = vs.FactorGraph([2])
    graph.add([0], [60.0, 0.0])
    j = graph.add_feature([0], [0], -100.0)
    r = vs.infer(graph, factors=[0])
    assert vs.gain(graph, [j], r).tolist() == pytest.approx([40.0], rel=1e-12)
    chosen = vs.select(graph, first=[0], min_size=0.01)
    assert chosen.factors.tolist() == [0, 1]


@pytest.mark.parametrize("weight", [-50.0, -200.0, -700.0, 700.0, -1e5, 1e16])
def test_features_that_change_nothing_gain_nothing(weight: float) -> None:
    graph = vs.FactorGraph([3, 3])
    graph.add([0, 1], np.random.default_rng(0).normal(size=(3, 3)))
    always = graph.add_feature([0, 1], np.ones((3, 3), dtype=bool), weight)
    never = graph.add_feature([0, 1], np.zeros((3, 3), dtype=bool), weight)
    empty = graph.add_feature([], [], weight)
    level = graph.add([0, 1], np.full((3, 3), min(weight, 1e280)))
    r = vs.infer(graph, factors=[0])
    assert vs.gain(graph, [always, never, empty, level], r).tolist() == [0.0] * 4
    # Nor where the states in which it would not fire are impossible.
    graph.add([0], [0.0, -np.inf, -np.inf])
    only = graph.add_feature([0], [0], weight)
    r = vs.infer(graph, factors=[0, graph.n_factors - 2])
    assert vs.gain(graph, [only, always], r).tolist() == [0.0, 0.0]


def test_forbidding_everything_gains_without_end() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [800.0, 0.0])  # the other state is no double, but it is possible
    at = [
        graph.add_feature([0, 1], np.ones((2, 2), dtype=bool), -np.inf),
        graph.add_feature([0], [1], -np.inf),
        graph.add([1, 0], [[0.0, -np.inf], [0.0, 0.0]]),
    ]
    never = graph.add_feature([0, 1], np.zeros((2, 2), dtype=bool), -np.inf)
    r = vs.infer(graph, factors=[0])
    assert vs.gain(graph, [*at, never], r).tolist() == [np.inf] * 3 + [0.0]


def test_what_leaves_no_state_makes_no_interval_false() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [-np.inf, -np.inf])
    graph.add([0, 1], [[0.0, 1.0], [1.0, 0.0]])
    r = vs.infer(graph, factors=[1])
    assert r.divergence_bound == np.inf
    for lower, upper in zip(r.marginal_lower, r.marginal_upper, strict=True):
        assert lower.tolist() == [0.0, 0.0]
        assert upper.tolist() == [1.0, 1.0]
    for ask in (vs.infer, vs.relax, vs.decode, vs.bounds.log_z):
        with pytest.raises(vs.InfeasibleError):
            ask(graph)


@pytest.mark.parametrize("high", [60.0, 900.0])
def test_relax_keeps_its_word(high: float) -> None:
    """Factors left out have no gain above the threshold, and the reason says so."""
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [high, 0.0])
    graph.add_feature([0, 1], np.array([[1, 1], [0, 0]], dtype=bool), -high - 40.0)
    r = vs.relax(graph, threshold=1e-4)
    np.testing.assert_allclose(r.marginals[0], vs.infer(graph).marginals[0], rtol=1e-9)
    assert r.factors.tolist() == [0, 1]
    assert r.reason.startswith("no factor left has a gain above 0.0001")


@given(seeds, st.sampled_from([1e-12, 1e-4, 0.5]), st.sampled_from(["auto", "junction_tree"]))
@settings(max_examples=60, deadline=None)
def test_nothing_above_the_threshold_is_left_out(seed: int, epsilon: float, solver: str) -> None:
    graph, candidates = random_model(np.random.default_rng(seed))
    given_ = list(range(graph.n_factors))
    for f in candidates:
        if not (isinstance(f, Feature) and f.weight == -np.inf):
            graph.add(f)
    try:
        r = vs.relax(graph, first=given_, threshold=epsilon, solver=solver)
        chosen = vs.select(graph, first=given_, min_joint=epsilon, solver=solver)
        start = vs.infer(graph, factors=given_)
    except vs.InfeasibleError:
        return
    rest = [i for i in range(graph.n_factors) if i not in set(r.factors.tolist())]
    held = [set(graph.factors[i].scope) for i in r.factors.tolist()]
    rest = [i for i in rest if len(graph.factors[i].scope) < 2
            or any(set(graph.factors[i].scope) <= s for s in held)]  # fmt: skip
    for i, g in zip(rest, gains(graph, r.factors.tolist(), [graph.factors[i] for i in rest]),
                    strict=True):  # fmt: skip
        assert g <= epsilon * (1 + 1e-9), (seed, i, g)
    beyond = [i for i in range(graph.n_factors) if i not in given_]
    want = gains(graph, given_, [graph.factors[i] for i in beyond])
    added = set(chosen.factors.tolist())
    for i, g, got in zip(beyond, want, vs.gain(graph, beyond, start).tolist(), strict=True):
        assert same(got, g), (seed, i)
        if abs(g - epsilon) > 1e-9 * epsilon:
            assert (i in added) == (g >= epsilon), (seed, i, g)


@given(seeds)
@settings(max_examples=60)
def test_both_sides_of_a_feature_are_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, 3)
    p = [rng.dirichlet(np.full(k, rng.choice([0.02, 1.0]))) for k in cards]
    flat, offset = np.concatenate(p), np.cumsum(cards) - cards
    shape = tuple(cards)
    fires = rng.random(shape) < rng.choice([0.1, 0.5, 0.9])
    block = Features([[0, 1, 2]], 1.0, fires=fires)
    if rng.random() < 0.5:
        state = [int(rng.integers(k)) for k in cards]
        block = Features([[0, 1, 2]], 1.0, assignments=[state])
        fires = np.zeros(shape, dtype=bool)
        fires[tuple(state)] = True
    joint = np.einsum("a,b,c->abc", *p)
    base = [offset[[v]] for v in range(3)]
    plain = Sides(flat, others(flat, cards, offset), PLAIN)
    with np.errstate(divide="ignore"):
        logs = np.log(flat)
    deep = Sides(logs, others_of_logs(logs, cards, offset), LOGS)
    for found, want in [(plain.on, joint[fires].sum()), (plain.off, joint[~fires].sum())]:
        assert found(block, np.array([0]), base)[0] == pytest.approx(want, rel=1e-12, abs=1e-300)
    for found, want in [(deep.on, joint[fires].sum()), (deep.off, joint[~fires].sum())]:
        assert np.exp(found(block, np.array([0]), base)[0]) == pytest.approx(
            want, rel=1e-12, abs=1e-300
        )


def test_a_tree_that_does_not_fit_twice_is_asked_for_plain_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], [[800.0, 0.0], [0.0, 0.0]])
    j = graph.add_feature([0], [1], 900.0)
    r = vs.infer(graph, factors=[0])
    assert vs.gain(graph, [j], r)[0] == pytest.approx(100.0 + np.log(2.0), rel=1e-12)
    again = vs.infer(graph, factors=[0])
    monkeypatch.setattr(_memory, "default_memory_limit", lambda: 0)
    monkeypatch.setattr(type(again), "memory_allowed", lambda self: 0)
    assert vs.gain(graph, [j], again)[0] == 0.0


@pytest.mark.parametrize(
    "high",
    [pytest.param(3.0, marks=pytest.mark.slow), 60.0, pytest.param(400.0, marks=pytest.mark.slow)],
)
def test_trees_that_are_conditioned(high: float) -> None:
    """Slices of very different mass: what is small in all is put together as logarithms."""
    rng = np.random.default_rng(int(high))
    graph = vs.FactorGraph([2] * 9)
    edges = [(v, v + 1) for v in range(8) if v % 3 < 2] + [(v, v + 3) for v in range(6)]
    for v in range(9):
        graph.add([v], rng.uniform(-high, high, 2))
    for edge in edges:
        graph.add(edge, rng.uniform(-high, high, (2, 2)))
    kept = list(range(graph.n_factors))
    room = vs.JunctionTree(graph).memory
    r = vs.infer(graph, factors=kept, memory_limit=room - 1)
    assert r.method == "conditioned_junction_tree"
    candidates: list[vs.factors.Factor] = []
    for edge in edges[:5]:
        state = tuple(int(x) for x in rng.integers(0, 2, 2))
        candidates += [
            Feature(edge, state, float(rng.uniform(-1, 1) * rng.choice([1.0, 700.0, 2500.0]))),
            Feature(edge, np.eye(2, dtype=bool), float(rng.uniform(-700, 700))),
            Table(edge, rng.uniform(-700, 700, (2, 2))),
        ]
    candidates += [Feature((v,), (0,), float(rng.uniform(-900, 900))) for v in range(9)]
    got = vs.gain(graph, candidates, r)
    for f, a, b in zip(candidates, got.tolist(), gains(graph, kept, candidates), strict=True):
        assert same(a, b), (f, a, b)


@pytest.mark.parametrize("solver", ["bp", "trw", "mean_field", "structured_mean_field"])
@pytest.mark.parametrize("low", [-692.0, -707.6, -709.0, -730.0, -745.0])
def test_loopy_beliefs_have_their_digits_or_are_zeros(solver: str, low: float) -> None:
    """Down to the smallest normal number; numbers below it, of few digits, count as zeros."""
    graph = vs.FactorGraph([2, 2, 3])
    graph.add([0], [-low, 0.0])
    graph.add([0, 1], np.zeros((2, 2)))
    graph.add([2], [0.0, low, low])
    n = graph.n_factors
    for high in (-low, -low + 9_000.0):
        graph.add([0], [0.0, high])
        graph.add_feature([1, 0], [1, 1], high)
        graph.add_feature([0], lambda y: y == 0, -high)
        graph.add([2, 1], np.repeat([[0.0], [0.0], [high]], 2, axis=1))
    beyond = range(n, graph.n_factors)
    got = vs.gain(graph, beyond, vs.infer(graph, factors=range(n), method=solver))
    chosen = vs.select(graph, first=range(n), min_divergence=0, solver=solver)
    word = f"as far as {solver} can tell: for {len(beyond)} of them it has a belief of zero"
    if low > -708.0:
        want = vs.gain(graph, beyond, vs.infer(graph, factors=range(n)))
        np.testing.assert_allclose(got, want, rtol=1e-9)
        assert "belief of zero" not in chosen.reason
    else:
        assert got.tolist() == [0.0] * len(beyond)
        assert word in chosen.reason
        assert word in vs.relax(graph, first=range(n), solver=solver).reason


@pytest.mark.parametrize("solver", ["bp", "mean_field"])
def test_a_zero_that_the_evidence_makes_is_not_told(solver: str) -> None:
    graph = vs.FactorGraph([2, 2, 2])
    for scope in ([0, 1], [1, 2], [0, 2]):
        graph.add(scope, [[0.0, 0.5], [0.5, 0.0]])
    graph.add_feature([2], [1], 1.0)
    graph.add_feature([2, 1], [0, 1], 1.0)
    graph.add_feature([0, 2], [[True, False], [False, True]], 1.0)
    graph.set_evidence({2: 1})
    r = vs.select(graph, first=[0, 1], min_divergence=0, solver=solver)
    assert "can tell" not in r.reason


def test_a_zero_that_a_sum_may_have_lost_is_told() -> None:
    """P(y > 0) is 9.9e-305, and two of its terms have no doubles with all their digits."""
    graph = vs.FactorGraph([4, 2])
    graph.add([0], [0.0, -709.0, -709.5, -700.0])
    graph.add([0, 1], np.zeros((4, 2)))
    graph.add_feature([0], lambda y: y == 0, -10.0)
    r = vs.relax(graph, first=[0, 1], solver="bp")
    assert "for 1 of them it has a belief of zero" in r.reason
    assert "can tell" not in vs.relax(graph, first=[0, 1]).reason


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_gains_on_trees_are_those_of_the_exact_solver_or_the_reason_tells(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def extreme(*shape: int) -> np.ndarray:
        found = rng.choice([0.0, 300.0, 700.0, 745.0, 800.0], shape)
        return np.asarray(found * rng.choice([-1.0, 1.0], shape))

    n = int(rng.integers(2, 5))
    cards = rng.integers(2, 4, n) if rng.random() < 0.5 else np.full(n, 2)
    graph = vs.FactorGraph(cards)
    edges = [(int(rng.integers(v)), v) for v in range(1, n)]
    candidates: list[vs.factors.Factor] = []
    for v, k in enumerate(cards.tolist()):
        graph.add([v], extreme(k))
        candidates.append(Table((v,), extreme(k)))
        candidates.append(Feature((v,), (int(rng.integers(k)),), float(extreme(1)[0])))
    for a, b in edges:
        shape = (int(cards[a]), int(cards[b]))
        graph.add([a, b], rng.uniform(-2, 2, shape) if rng.random() < 0.7 else extreme(*shape))
        candidates.append(Table((a, b), extreme(*shape)))
        candidates.append(Feature((a, b), rng.random(shape) < 0.5, float(extreme(1)[0])))
    used = range(graph.n_factors)
    got = vs.gain(graph, candidates, vs.infer(graph, method="bp"))
    want = vs.gain(graph, candidates, vs.infer(graph))
    for f, a, b in zip(candidates, got.tolist(), want.tolist(), strict=True):
        if not same(a, mpmath.mpf(b)):
            r = vs.relax(
                graph, first=used, candidates=lambda _, f=f: [f], threshold=np.inf, solver="bp"
            )
            assert "for 1 of them it has a belief of zero" in r.reason, (seed, f, a, b)


@pytest.mark.parametrize("solver", ["bp", "mean_field"])
def test_relax_says_where_loopy_beliefs_end(solver: str) -> None:
    """The gain is 200, of a belief of e^-800, for which there is no double."""
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [800.0, 0.0])
    graph.add([0, 1], [[0.0, 0.5], [0.5, 0.0]])
    graph.add_feature([0, 1], np.eye(2, dtype=bool)[::-1], -1000.0)
    graph.add_feature([0], [1], 1000.0)
    r = vs.relax(graph, first=[0, 1], threshold=1e-4, solver=solver)
    what = f"as far as {solver} can tell: for 1 of them it has a belief of zero"
    assert what in r.reason
    assert "can tell" not in vs.relax(graph, first=[0, 1], threshold=1e-4).reason
