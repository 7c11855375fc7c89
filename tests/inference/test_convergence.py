"""What `converged` says where messages are damped, or grow round a cycle."""

from __future__ import annotations

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import Or, XorOut

pytestmark = pytest.mark.simd

SCHEDULES = ["flooding", "residual", "rounds", "tree"]


def pairs(states: int, structured: bool) -> vs.FactorGraph:
    """Return a graph with a cycle: of pairs alone, of tables, or with a structured factor."""
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([states] * 4)
    for edge in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]:
        graph.add(edge, rng.normal(0.0, 2.0, (states, states)))
    if structured:
        graph.add(Or(0, 1, 3))
    return graph


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("states", "structured"), [(2, False), (2, True), (3, False)])
@pytest.mark.parametrize("method", [vs.BP, vs.TRW])
def test_damped_messages_have_converged_where_plain_ones_have(
    schedule: str, states: int, structured: bool, method: type
) -> None:
    graph = pairs(states, structured)
    slow = vs.infer(graph, method=method(schedule=schedule, damping=1 - 1e-7, max_iterations=20))
    assert not slow.converged
    assert slow.residuals[-1] > 0.1
    r = vs.infer(graph, method=method(schedule=schedule, damping=0.9, max_iterations=2000))
    assert r.converged
    again = vs.infer(graph, method=method(start=r, max_iterations=1))
    assert again.residuals[-1] < 5e-6  # rounds and queues stop where a sum of changes is small


def growing() -> vs.FactorGraph:
    """Return a graph whose messages double in each iteration."""
    graph = vs.FactorGraph([2] * 3)
    graph.add([0], [100.0, 0.0])
    graph.add([2, 0], [[-np.inf, 10.0], [10.0, -np.inf]])
    graph.add([2, 1], [[0.0, 0.0], [40.0, -90.0]])
    graph.add(XorOut(0, 1, 2, negated=[1, 2]))
    graph.add(Or(2, 0))
    return graph


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_messages_that_grow_for_ever_say_so(schedule: str) -> None:
    graph = growing()
    r = vs.infer(graph, method=vs.BP(schedule=schedule))
    assert "messages grew round a cycle to their limit of 1e+200" in r.reason
    early = vs.infer(graph, method=vs.BP(schedule=schedule, max_iterations=50))
    assert not early.converged
    # No bound follows from such messages.
    for start in (r, early):
        bound = vs.infer(graph, method=vs.TRW(schedule=schedule, start=start))
        assert not bound.converged
        assert "not those of a fixed point" in bound.reason


@pytest.mark.parametrize("iterations", [100, 300, 900])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_messages_beyond_all_scores_have_not_converged(iterations: int, schedule: str) -> None:
    """Where a double of their size no longer changes by what is added to it."""
    graph = growing()
    start = vs.infer(graph, method=vs.BP(max_iterations=iterations))
    assert not start.converged
    r = vs.infer(graph, method=vs.TRW(start=start, schedule=schedule))
    assert not r.converged
    assert "beyond all scores" in r.reason or "still changed" in r.reason


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9])
def test_large_scores_converge(scale: float) -> None:
    rng = np.random.default_rng(1)
    graph = vs.FactorGraph([2] * 3)
    for edge in [(0, 1), (1, 2), (2, 0)]:
        graph.add(edge, scale * np.abs(rng.normal()) * np.eye(2))
    graph.add([0], [0.0, scale])
    graph.add(Or(0, 1, 2))
    r = vs.infer(graph, method="bp")
    assert r.converged, r.reason
    assert [p[1] for p in r.marginals] == pytest.approx([p[1] for p in vs.infer(graph).marginals])


def test_a_deadline_is_told_as_it_was_given() -> None:
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([2] * 300)
    ends = rng.integers(0, 300, size=(1500, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    graph.add_many(ends, rng.normal(0.0, 3.0, (len(ends), 2, 2)))
    with pytest.raises(vs.DeadlineError, match=r"no answer within 0\.25 s$"):
        vs.infer(graph, method=vs.BP(max_iterations=10**7, tolerance=0.0), deadline=0.25)
