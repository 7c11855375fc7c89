"""Structured mean field where threads share an ascent: forests of several pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from graph_oracle import Factors, graph_of
from loopy_oracle import random_grid

import valuesparse as vs

pytestmark = pytest.mark.simd

Case = tuple[list[int], Factors]


def with_fields(strength: float, seed: int = 1) -> Case:
    """A grid in which some variables are nearly certain, and some pairs nearly independent."""
    rng = np.random.default_rng(seed)
    cards, factors = random_grid(rng, 30, 2, 1.0)
    return cards, [
        (scope, table * (strength if len(scope) == 1 else rng.choice([1e-8, 1.0])))
        for scope, table in factors
    ]


def in_copies(count: int) -> Case:
    """Many small grids: pieces of the forest hold some of them."""
    rng = np.random.default_rng(2)
    cards: list[int] = []
    factors: Factors = []
    for _ in range(count):
        own, parts = random_grid(rng, 3, 2, 1.0)
        factors += [(tuple(v + len(cards) for v in scope), table) for scope, table in parts]
        cards += own
    return cards, factors


def cases() -> Iterator[tuple[str, Case]]:
    rng = np.random.default_rng(0)
    yield "grid", random_grid(rng, 30, 2, 0.5)
    yield "fields", with_fields(3.0)
    yield "certain", with_fields(40.0)
    yield "copies", in_copies(150)
    star = [((0, v), rng.normal(size=(2, 2))) for v in range(1, 900)]
    ring = [((v, v % 899 + 1), rng.normal(size=(2, 2))) for v in range(1, 900)]
    yield "wheel", ([2] * 900, star + ring)
    cards, factors = random_grid(rng, 20, 2, 0.5)
    triple = ((0, 1, 20), rng.normal(0.0, 0.2, (2, 2, 2)))
    yield "a table of three", (cards, [*factors, triple])
    yield "states", random_grid(rng, 8, 3, 0.5)


@pytest.mark.parametrize(("name", "case"), list(cases()))
def test_threads_do_not_show(name: str, case: Case) -> None:
    graph = graph_of(*case)
    method = vs.StructuredMeanField(max_iterations=12)
    one = vs.infer(graph, method=method, threads=1)
    joints = one.factor_marginals()
    for threads in (2, 3, 8):
        r = vs.infer(graph, method=method, threads=threads)
        assert r.log_z == one.log_z, name
        assert np.array_equal(r.residuals, one.residuals)
        assert np.array_equal(np.concatenate(r.marginals), np.concatenate(one.marginals))
        for a, b in zip(r.factor_marginals(), joints, strict=True):
            assert np.array_equal(a, b)


def worth(case: Case, q: vs.FactorGraph) -> float:
    """Return E_q[score] + H(q), by exact inference in q."""
    exact = vs.infer(q)
    assert exact.exact
    score = 0.0
    for scope, table in case[1]:
        p = exact.marginals[scope[0]] if len(scope) == 1 else exact.joint(list(scope))
        score += float((p * table).sum())
    return score + float(exact.entropy())


@pytest.mark.parametrize("seed", range(3))
def test_an_ascent_over_pieces_is_worth_what_it_says(seed: int) -> None:
    """Joints are those of the distribution, and no direction of its parameters is better."""
    rng = np.random.default_rng(seed)
    case = random_grid(rng, 20, 2, 0.5)
    graph = graph_of(*case)
    r = vs.infer(graph, method=vs.StructuredMeanField(tolerance=1e-8, max_iterations=2000))
    exact = vs.infer(r.state.graph(graph))
    for v, p in enumerate(exact.marginals):
        np.testing.assert_allclose(r.marginals[v], p, atol=1e-10)
    for (scope, _), found in zip(case[1], r.factor_marginals(), strict=True):
        if len(scope) == 2:
            np.testing.assert_allclose(found, exact.joint(list(scope)), atol=1e-10)
    best = worth(case, r.state.graph(graph))
    assert best - 1e-5 <= r.log_z <= best  # less what rounding may have done
    step = 1e-3
    for _ in range(3):
        ends = []
        turn = [rng.normal(size=x.size) for x in (r.state.node, r.state.table)]
        for sign in (1, -1):
            for x, by in zip((r.state.node, r.state.table), turn, strict=True):
                x += sign * step * by
            ends.append(worth(case, r.state.graph(graph)))
            for x, by in zip((r.state.node, r.state.table), turn, strict=True):
                x -= sign * step * by
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(0.0, abs=1e-4)
        assert max(ends) < best


def test_a_forest_of_several_pieces_is_exact() -> None:
    rng = np.random.default_rng(3)
    n = 3000
    factors: Factors = [((v,), rng.normal(size=2)) for v in range(n)]
    factors += [
        ((int(rng.integers(max(0, v - 40), v)), v), rng.normal(size=(2, 2))) for v in range(1, n)
    ]
    graph = graph_of([2] * n, factors)
    r, exact = vs.infer(graph, method="structured_mean_field"), vs.infer(graph)
    assert exact.log_z - 1e-5 <= r.log_z <= exact.log_z
    np.testing.assert_allclose(
        np.concatenate(r.marginals), np.concatenate(exact.marginals), atol=1e-8
    )
