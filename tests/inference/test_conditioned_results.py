"""A result of a conditioned junction tree answers afterwards as other results do."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.inference import _conditioning

METHOD = "conditioned_junction_tree"


def _features() -> vs.FactorGraph:
    """A grid of 3 x 4 with zeros, features and soft evidence: 26 KB of tables."""
    graph = vs.FactorGraph([3] * 12)
    rng = np.random.default_rng(1)
    for v in range(12):
        for near, inside in ((v - 1, v % 3), (v - 3, v >= 3)):
            if inside:
                table = rng.normal(0, 1, (3, 3))
                table[rng.random(table.shape) < 0.1] = -np.inf
                graph.add([near, v], table)
    graph.add_feature([0, 1], [0, 2], 0.5)
    graph.add_feature([4, 7], lambda a, b: a == b, -0.3)
    graph.set_evidence({5: [0.1, 0.2, -0.4]})
    return graph


def test_results_answer_as_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _features()
    expected = vs.infer(graph)
    questions: list[Any] = [
        lambda r: [r.entropy()],
        lambda r: r.pairwise().values(),
        lambda r: r.factor_marginals(),
        lambda r: [r.joint([0, 11])],
        lambda r: [r.expectations()],
    ]
    answers = [list(ask(expected)) for ask in questions]
    divergence = vs.infer(graph, factors=range(17)).bounds().divergence
    # A later question has the default limit, which is too little, too.
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 20_000)
    asked: list[int] = []

    original = _conditioning._divide

    def divide(*arguments: Any) -> Any:
        found = original(*arguments)
        asked.append(0 if isinstance(found, str) else len(found.parts))
        return found

    monkeypatch.setattr("valuesparse.inference._conditioning._divide", divide)
    r = vs.infer(graph)
    assert r.method == METHOD
    for one in (r, pickle.loads(pickle.dumps(r))):
        assert one.exact
        assert one.log_z_lower <= expected.log_z <= one.log_z_upper
        np.testing.assert_allclose(one.to_frame(), expected.to_frame(), rtol=0, atol=1e-12)
        for ask, answer in zip(questions, answers, strict=True):
            asked.clear()
            for a, b in zip(ask(one), answer, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
            assert max(asked) > 1
    part = vs.infer(graph, factors=range(17))
    assert part.method == METHOD
    assert part.bounds().rigorous
    assert part.bounds().divergence == pytest.approx(divergence, abs=1e-10)


def test_questions_have_the_memory_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the default, on a machine with less: conditioned, or refused, and never a product."""
    graph = _features()
    r = vs.infer(graph)
    larger = vs.infer(graph, factors=range(17), memory_limit=10**6)
    assert (r.method, larger.method) == ("junction_tree", "junction_tree")
    questions: list[Any] = [
        lambda r: [r.expectations()],
        lambda r: r.factor_marginals(),
        lambda r: [r.joint([0, 11])],
        lambda r: [r.entropy()],
    ]
    answers = [list(ask(r)) for ask in questions]
    part = larger.expectations()
    limits = [20_000]
    for module in ("_memory", "junction_tree"):
        name = f"valuesparse.inference.{module}.default_memory_limit"
        monkeypatch.setattr(name, lambda: limits[0])
    divided = []

    original = _conditioning._divide

    def divide(*arguments: Any) -> Any:
        divided.append(1)
        return original(*arguments)

    monkeypatch.setattr("valuesparse.inference._conditioning._divide", divide)
    monkeypatch.setattr("valuesparse.relaxed._asked._SMALL", 0)
    elsewhere = pickle.loads(pickle.dumps(r))
    for one in (r, elsewhere):
        for ask, answer in zip(questions, answers, strict=True):
            divided.clear()
            for a, b in zip(ask(one), answer, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
            assert bool(divided) == (one is elsewhere)
    assert (larger.expectations() == part).all()
    limits[0] = 2000
    for ask in questions:
        with pytest.raises(vs.MemoryLimitError, match="above memory_limit="):
            list(ask(elsewhere))


def test_entropy_by_cliques_is_refused_where_their_tables_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = _features()
    graph.add([0, 1], [[1e6, 0.0, 0.0], [0.0, 1e6, 0.0], [0.0, 0.0, 1e6]])
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 20_000)
    r = vs.infer(graph)
    assert r.method == METHOD
    with pytest.raises(vs.MemoryLimitError, match=r"junction tree needs .* above memory_limit="):
        r.entropy()
