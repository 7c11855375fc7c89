"""Features over so many variables that no array can be their table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import Feature, Features

SIZES = [40, 63, 70, 1100]


def wide(k: int, *weights: float, block: bool = False, names: bool = False) -> vs.FactorGraph:
    """Return k binary variables with features that fire where all are on, behind the others."""
    cards = {f"x{v}": ["off", "on"] for v in range(k)} if names else [2] * k
    graph = vs.FactorGraph(cards)
    for v in graph.names:
        graph.add([v], [0.0, 3.0])
    graph.add(graph.names[:2], [[0.0, 0.0], [0.0, 1e-4]])
    if block:
        graph.add_features(Features([range(k)] * len(weights), weights))
    else:
        for weight in weights:
            graph.add(Feature(range(k), [1] * k, weight))
    return graph


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("k", SIZES)
def test_a_gain_needs_no_table(k: int, block: bool) -> None:
    graph = wide(k, 0.5, -2.0, block=block)
    r = vs.infer(graph, factors=range(k))
    on = np.exp(-k * np.log1p(np.exp(-3.0)))  # the probability that all are
    want = [np.log1p(on * np.expm1(theta)) - theta * on for theta in (0.5, -2.0)]
    np.testing.assert_allclose(vs.gain(graph, [k + 1, k + 2], r), want, rtol=1e-6)


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("k", SIZES)
def test_relaxed_inference_without_them(k: int, block: bool) -> None:
    graph = wide(k, 1e-3, block=block)
    for solver in ("auto", "bp"):
        r = vs.relax(graph, solver=solver)
        assert k + 1 not in r.factors
        assert 0.0 <= r.divergence_bound < 1e-2
        assert all((low <= p).all() for low, p in zip(r.marginal_lower, r.marginals, strict=True))
    assert k + 1 not in vs.select(graph, min_size=1e-2).factors


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("k", SIZES)
def test_what_needs_their_table_is_refused_by_name(k: int, block: bool) -> None:
    graph = wide(k, 5.0, block=block, names=True)
    words = rf"a Feature over {k} variables \('x0', 'x1', 'x2', \.\.\.\); use factors of fewer"
    for ask in (
        lambda: vs.relax(graph, threshold=0.0),
        lambda: vs.select(graph, min_size=0.0),
        lambda: vs.infer(graph),
        lambda: vs.infer(graph, method="bp"),
        lambda: vs.decode(graph),
        lambda: vs.JunctionTree(graph),
    ):
        with pytest.raises(vs.MemoryLimitError, match=words):
            ask()


@pytest.mark.parametrize("k", [60, 70, 1100, 20_000])
def test_no_table_is_made(k: int, tmp_path: Path) -> None:
    words = rf"^Feature over {k} variables would be a table of at least 2\*\*{k} entries: .*; use"
    graph = wide(k, 5.0)
    for ask in (
        lambda: Feature(range(k), [1] * k, 1.0).table([2] * k),
        lambda: Features([range(k)] * 2, 1.0).tables(np.full(k, 2)),
        lambda: vs.write_uai(graph, tmp_path / "x.uai"),
    ):
        with pytest.raises(vs.MemoryLimitError, match=words):
            ask()
    with pytest.raises(vs.MemoryLimitError, match=f"predicate of factor {k + 2} over {k} var"):
        graph.add_feature(range(k), lambda *states: True, 1.0)


def test_axes_beyond_what_arrays_have() -> None:
    """Variables of one state: the table would be small."""
    with pytest.raises(vs.MemoryLimitError, match="entries, 8 bytes: no array has so many axes"):
        Feature(range(65), [0] * 65, 1.0).table([1] * 65)


def test_a_small_scope_is_named_in_full() -> None:
    graph = vs.FactorGraph([10**6, 10**6])
    graph.add_feature([0, 1], [0, 0], 1.0)
    with pytest.raises(vs.MemoryLimitError, match=r"Feature over 2 variables \(0, 1\); use"):
        vs.infer(graph, method="bp")
