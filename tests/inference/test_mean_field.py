"""Mean field: fixed points by enumeration, ascent from sweep to sweep, the same bits on threads."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from checks import assert_same_bits

import valuesparse as vs
from valuesparse.inference._network import Network

CARDS = [2, 3, 2, 4, 2, 3, 1]
SCOPES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4, 2), (3,), (5, 6), (0, 2)]


def mixed(seed: int, zeros: bool = False) -> vs.FactorGraph:
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph(CARDS)
    for scope in SCOPES:
        table = rng.normal(size=[CARDS[v] for v in scope])
        if zeros and len(scope) == 2 and min(table.shape) > 1:
            table[1, 1] = -np.inf
        graph.add(scope, table)
    return graph


def grid(side: int, seed: int = 0) -> vs.FactorGraph:
    rng = np.random.default_rng(seed)
    cell = np.arange(side * side).reshape(side, side)
    edges = [(cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in edges])
    graph = vs.FactorGraph([2] * side * side)
    graph.add_many(cell.reshape(-1, 1), rng.normal(size=(side * side, 2)))
    graph.add_many(
        pairs, rng.normal(size=(len(pairs), 1, 1)) * np.array([[0.5, -0.5], [-0.5, 0.5]])
    )
    return graph


def score_of(graph: vs.FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    states = np.array(list(itertools.product(*map(range, CARDS))))
    return states, sum(f.log_potential(states[:, list(f.scope)]) for f in graph.factors)


@pytest.mark.smoke
@pytest.mark.simd
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_it_ends_at_a_fixed_point_with_its_bound(seed: int, zeros: bool) -> None:
    graph = mixed(seed, zeros)
    r = vs.infer(graph, method=vs.MeanField(tolerance=1e-10))
    assert r.converged
    states, score = score_of(graph)
    q = [p[states[:, v]] for v, p in enumerate(r.marginals)]
    every = np.prod(q, axis=0)
    alive = every > 0.0
    bound = (every[alive] * (score[alive] - np.log(every[alive]))).sum()
    assert r.log_z == pytest.approx(bound, rel=1e-9)
    assert r.log_z <= vs.infer(graph).log_z
    for v, p in enumerate(r.marginals):
        rest = np.prod([q[u] for u in range(len(CARDS)) if u != v], axis=0)
        expected = np.zeros(CARDS[v])
        for x in range(CARDS[v]):
            at = (states[:, v] == x) & (rest > 0.0)
            expected[x] = (rest[at] * score[at]).sum()
        expected = np.exp(expected - expected.max())
        np.testing.assert_allclose(p, expected / expected.sum(), atol=1e-8)


@pytest.mark.parametrize("method", [vs.MeanField, vs.StructuredMeanField])
@pytest.mark.parametrize("zeros", [False, True])
def test_no_sweep_loses(method: type[vs.MeanField], zeros: bool) -> None:
    for graph in (mixed(1, zeros), grid(8)):
        start = vs.infer(graph, method=vs.MeanField(max_iterations=1, restarts=0))
        last = -np.inf
        for n in range(1, 25):
            r = vs.infer(graph, method=method(start=start, max_iterations=n))
            assert r.log_z >= last - 1e-9 * abs(last)
            last = r.log_z


@pytest.mark.simd
@pytest.mark.parametrize("method", [vs.MeanField, vs.StructuredMeanField])
def test_threads_give_the_same_bits(method: type[vs.MeanField]) -> None:
    graph = grid(60)
    one = vs.infer(graph, method=method(max_iterations=6), threads=1)
    for threads in (2, 3, 8):
        more = vs.infer(graph, method=method(max_iterations=6), threads=threads)
        assert more.log_z == one.log_z
        assert more.flat_marginals().tolist() == one.flat_marginals().tolist()
        assert more.residuals.tolist() == one.residuals.tolist()


def test_more_starts_are_never_worse() -> None:
    """Starts run side by side, eight at a time: none changes what another finds."""
    graph = mixed(7)
    bounds = [
        vs.infer(graph, method=vs.MeanField(restarts=n, tolerance=0.0, max_iterations=400)).log_z
        for n in (0, 1, 3, 6, 7, 14, 15, 30)
    ]
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(bounds))


@pytest.mark.simd
@pytest.mark.parametrize("states", [2, 3])
@pytest.mark.parametrize("method", ["mean_field", "structured_mean_field", "bp", "trw"])
def test_beliefs_go_down_to_the_smallest_normal_number(method: str, states: int) -> None:
    lows = [-300.0, -689.9, -690.1, -700.0, -707.5, -708.2, -708.39, -720.0, -1000.0]
    graph = vs.FactorGraph([states] * 10)
    for v, low in enumerate(lows):
        graph.add([v], [low] + [0.0] * (states - 1))
        graph.add([v, 9], np.zeros((states, states)))
    r = vs.infer(graph, method=method)
    got = [float(r.marginals[v][0]) for v in range(len(lows))]
    want = [math.exp(low) / (states - 1) for low in lows]
    for a, b in zip(got, want, strict=True):
        if b >= np.finfo(np.float64).tiny:
            assert a == pytest.approx(b, rel=1e-12)
        else:
            assert 0.0 <= a <= np.finfo(np.float64).tiny
    assert all(sum(m) == pytest.approx(1.0) for m in r.marginals)


def test_magnitudes() -> None:
    """Scores that leave one state: products of zeros and -inf are no NaN."""
    graph = vs.FactorGraph([2, 2, 3])
    graph.add([0, 1], [[1e16, -1e16], [-np.inf, 5e15]])
    graph.add([1, 2], [[0.0, -np.inf, 1.0], [-np.inf, 2.0, -3000.0]])
    r = vs.infer(graph, method="mean_field")
    assert r.marginals[0].tolist() == [1.0, 0.0]
    assert not np.isnan(r.flat_marginals()).any()
    assert np.isfinite(r.log_z)


def torus(kind: str, states: int) -> vs.FactorGraph:
    """Return pairs on a torus; of three states the third has next to no mass."""
    rng = np.random.default_rng(11)
    side, graph = 4, vs.FactorGraph([states] * 16)

    def padded(table: np.ndarray) -> np.ndarray:
        out = np.zeros([states] * table.ndim)
        out[(slice(2),) * table.ndim] = table
        if table.ndim == 1:
            out[2:] = -200.0
        return out

    for v in range(16):
        strength = 40.0 if kind == "certain" and v % 3 == 0 else 1.0
        graph.add([v], padded(rng.normal(size=2) * strength))
        for u in (v // side * side + (v + 1) % side, (v + side) % 16):
            table = rng.normal(size=(2, 2)) * (3.0 if kind == "strong" else 0.7)
            if kind == "independent" and v % 2:
                table = rng.normal(size=2)[:, None] + rng.normal(size=2)
            elif kind == "weak" and v % 2:
                table = table * 1e-8
            elif kind == "alike" and v % 5 == 0:
                table = np.array([[0.0, -30.0], [-30.0, 0.0]])
            scope = (u, v) if v % 4 == 1 else (v, u)
            graph.add(scope, padded(table if scope[0] == v else table.T))
    return graph


KINDS = ["ordinary", "strong", "independent", "weak", "certain", "alike"]


@pytest.mark.simd
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_binary_variables_take_the_same_steps_as_any(kind: str) -> None:
    """Paths of binary pairs have covariances in place of a walk: the direction is the same."""
    two, three = torus(kind, 2), torus(kind, 3)
    starts = [vs.infer(g, method=vs.MeanField(restarts=0, max_iterations=2)) for g in (two, three)]
    for n in (1, 2, 3, 6):
        for begin in (False, True):
            a, b = (
                vs.infer(
                    g,
                    method=vs.StructuredMeanField(
                        max_iterations=n, restarts=0, start=start if begin else None
                    ),
                )
                for g, start in zip((two, three), starts, strict=True)
            )
            assert a.log_z == pytest.approx(b.log_z, rel=1e-6)
            for p, q in zip(a.marginals, b.marginals, strict=True):
                np.testing.assert_allclose(p, q[:2], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_has_the_bound_and_the_joints_of_its_distribution(kind: str) -> None:
    graph = torus(kind, 2)
    r = vs.infer(graph, method=vs.StructuredMeanField(max_iterations=5))
    q = vs.infer(r.state.graph(graph), method="exact")
    states = np.array(list(itertools.product(range(2), repeat=16)))
    score = sum(f.log_potential(states[:, list(f.scope)]) for f in graph.factors)
    own = sum(f.log_potential(states[:, list(f.scope)]) for f in q.graph.factors)
    log_p = own - np.logaddexp.reduce(own)
    p = np.exp(log_p)
    bound = (p[p > 0] * (score - log_p)[p > 0]).sum()
    assert r.log_z == pytest.approx(bound, rel=1e-9)
    assert r.log_z <= float(np.logaddexp.reduce(score)) + 1e-9
    for f, table in zip(graph.factors, r.factor_marginals(), strict=True):
        flat = np.ravel_multi_index(tuple(states[:, list(f.scope)].T), table.shape)
        expected = np.bincount(flat, weights=p, minlength=table.size)
        np.testing.assert_allclose(table.ravel(), expected, rtol=1e-8, atol=1e-14)


def test_where_ascents_begin() -> None:
    cards = [2, 3, 1, 4, 2]
    graph = vs.FactorGraph(cards)
    for v, (a, b) in enumerate(itertools.pairwise(cards)):
        graph.add([v, v + 1], np.zeros((a, b)))
    rng = np.random.default_rng(0)
    ends = np.cumsum(cards)[:-1]
    beliefs = [rng.dirichlet(np.ones(k)) for k in cards]
    beliefs[1] = np.array([0.4, 0.2, 0.4])  # a tie: the first counts
    weights = rng.exponential(size=(3, sum(cards)))
    weights[2] = 0.0
    q = np.concatenate([[np.concatenate(beliefs)], np.full((1, sum(cards)), np.nan), weights])
    Network(graph).native.spread_starts(q)

    def mode(p: np.ndarray) -> np.ndarray:
        return np.eye(p.size)[p.argmax()]

    assert_same_bits(q[0], np.concatenate(beliefs))
    assert_same_bits(q[1], np.concatenate([mode(p) for p in beliefs]))
    for found, w in zip(q[2:4], weights, strict=False):
        for v, (p, x) in enumerate(zip(beliefs, np.split(w, ends), strict=True)):
            expected = mode(p * x) if v % 2 else p * x / (p * x).sum()
            np.testing.assert_allclose(np.split(found, ends)[v], expected, rtol=1e-15)
    assert_same_bits(q[4], q[1])  # no product is left


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_products_with_zeros(seed: int) -> None:
    graph = mixed(seed, zeros=True)
    start = vs.infer(graph, method=vs.MeanField(max_iterations=1, restarts=0))
    for iterations in (1, 3):
        r = vs.infer(graph, method=vs.MeanField(max_iterations=iterations, start=start))
        states, score = score_of(graph)
        every = np.prod([p[states[:, v]] for v, p in enumerate(r.marginals)], axis=0)
        alive = every > 0.0
        bound = (every[alive] * (score[alive] - np.log(every[alive]))).sum()
        assert np.isfinite(bound)
        assert bound - 1e-9 <= r.log_z <= bound + 1e-12
