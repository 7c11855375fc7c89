"""All ten kinds of structured factors in the engines: negations, evidence, extreme scores."""

from __future__ import annotations

import itertools
import sys
from types import FrameType

import numpy as np
import pytest
from structured_oracle import ALLOWED, as_tables, enumerated, make

import valuesparse as vs
from valuesparse.inference import trw_dual_bound

SCHEDULES = ["flooding", "residual", "rounds", "tree"]
KINDS = [*sorted(ALLOWED), "Tree", "ProjectiveTree"]
#: Variables of the factor; two more are beside it.
N = 4


def factor_of(kind: str, rng: np.random.Generator) -> vs.factors.Structured:
    """Return a factor of this kind over the first variables, with random negations."""
    if kind in ALLOWED:
        negated = np.flatnonzero(rng.random(N) < 0.5).tolist()
        return make(kind, range(N), negated, budget=int(rng.integers(1, 3)))
    arcs = [(0, 1), (0, 2), (1, 2), (2, 1)]
    return getattr(vs.factors, kind)(arcs, range(N), single_root=bool(rng.integers(2)))


def graph_of(kind: str, seed: int, scores: list[float] | None, *, cycles: bool) -> vs.FactorGraph:
    """Return a possible graph; unary scores are normal, or drawn from a list."""
    rng = np.random.default_rng(seed)
    while True:
        graph = vs.FactorGraph([2] * (N + 2))
        for v in range(N + 2):
            graph.add([v], rng.normal(0.0, 1.5, 2) if scores is None else rng.choice(scores, 2))
        factor = factor_of(kind, rng)
        graph.add(factor)
        graph.add((1, N), rng.normal(0.0, 1.0, (2, 2)))
        for a, b in [(0, N), (0, N + 1), (N, N + 1), (1, N + 1)] if cycles else []:
            graph.add((a, b), rng.normal(0.0, 0.7, (2, 2)))
        if enumerated(graph)[0] > -np.inf:
            return graph


def flat(r: vs.results.GraphResult) -> np.ndarray:
    return np.concatenate(r.marginals)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", KINDS)
def test_messages_on_cycles_are_those_of_tables(kind: str, schedule: str) -> None:
    compared = 0
    for seed, evidence in itertools.product(range(3), ({}, {0: 1}, {1: 0}, {N: 1})):
        graph = graph_of(kind, seed, None, cycles=True)
        if enumerated(graph, evidence)[0] == -np.inf:
            continue
        options = {"damping": 0.3, "tolerance": 1e-11, "max_iterations": 2000}
        table = vs.infer(as_tables(graph), method=vs.BP(**options), evidence=evidence)
        r = vs.infer(graph, method=vs.BP(schedule=schedule, **options), evidence=evidence)
        if not (r.converged and table.converged):
            continue
        compared += 1
        np.testing.assert_allclose(flat(r), flat(table), rtol=0, atol=1e-7)
        assert r.log_z == pytest.approx(table.log_z, abs=1e-6)
        assert r.entropy() == pytest.approx(table.entropy(), abs=1e-5)
    assert compared >= 6


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_scores_with_evidence_are_exact_without_cycles(kind: str) -> None:
    scores = [0.0, 1.0, -2.5, 10_000.0, -10_000.0, 9_999.5, 700.0, -np.inf]
    compared = 0
    for seed, evidence in itertools.product(range(6), ({}, {0: 1}, {1: 0}, {N: 1, 2: 0})):
        graph = graph_of(kind, seed, scores, cycles=False)
        log_z, marginals, entropy, best = enumerated(graph, evidence)
        if log_z == -np.inf:
            for ask in (vs.infer, vs.decode):
                with pytest.raises(vs.InfeasibleError):
                    ask(graph, evidence=evidence)
            continue
        compared += 1
        for method in ["auto", *(vs.BP(schedule=s) for s in SCHEDULES)]:
            r = vs.infer(graph, method=method, evidence=evidence)
            np.testing.assert_allclose(flat(r), np.concatenate(marginals), rtol=0, atol=1e-8)
            assert r.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-8)
            assert r.entropy() == pytest.approx(entropy, abs=1e-8)
        for method in ("auto", "bp"):
            d = vs.decode(graph, method=method, evidence=evidence)
            assert d.score == pytest.approx(best, rel=1e-12, abs=1e-8)
            assert vs.log_prob(graph, d.states) > -np.inf
    assert compared >= 6


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_on_log_z_hold(kind: str) -> None:
    """Structured mean field keeps the factor and its component whole; forests hold it apart."""
    for seed in range(4):
        graph = graph_of(kind, seed, None, cycles=False)
        log_z, marginals, *_ = enumerated(graph)
        q = vs.infer(graph, method="structured_mean_field")
        assert q.log_z == pytest.approx(log_z, abs=1e-8)
        np.testing.assert_allclose(flat(q), np.concatenate(marginals), rtol=0, atol=1e-6)
        graph = graph_of(kind, seed, None, cycles=True)
        for evidence in ({}, {N: 1}):
            log_z = enumerated(graph, evidence)[0]
            q = vs.infer(graph, method="structured_mean_field", evidence=evidence)
            assert log_z - 2.0 < q.log_z <= log_z + 1e-12
            dual = trw_dual_bound(graph, method=vs.TRW(max_iterations=50), evidence=evidence)
            assert log_z <= dual.upper < log_z + 2.0
            assert any(N + 2 in tree for _, tree in dual.trees)  # the structured factor


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_python_runs_for_messages_of_these_kinds(kind: str, schedule: str) -> None:
    graph = graph_of(kind, 0, None, cycles=True)
    seen: list[int] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        seen[-1] += event == "call" and "valuesparse" in frame.f_code.co_filename

    for iterations in (2, 40):
        method = vs.BP(schedule=schedule, tolerance=0.0, max_iterations=iterations)
        vs.infer(graph, method=method)
        seen.append(0)
        sys.setprofile(note)
        try:
            vs.infer(graph, method=method, threads=1)
        finally:
            sys.setprofile(None)
    assert seen[0] > 0
    assert seen[1] < seen[0] + 38  # less than a call for each iteration more
