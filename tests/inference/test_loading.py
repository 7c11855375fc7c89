"""Factors multiplied into the tables of a clique: every shape, against the whole joint."""

from __future__ import annotations

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _forest

CARDS = (17, 3, 5, 2, 4)


def _models(scale: float):
    """Yield graphs whose factors have their variables in any order, and their joint's logarithms.

    Some states are impossible, so that tables are read with gaps.
    """
    rng = np.random.default_rng(7)
    for count in (1, 2, 3, 6, 9, 14):
        for _ in range(4):
            graph, joint = vs.FactorGraph(CARDS), np.zeros(CARDS)
            for _ in range(count):
                scope = rng.permutation(len(CARDS))[: rng.integers(1, 5)]
                table = scale * rng.normal(size=[CARDS[v] for v in scope])
                if rng.random() < 0.4:
                    table[rng.integers(len(table))] = -np.inf
                graph.add(scope.tolist(), table)
                axes = np.argsort(scope)
                shape = [k if v in scope else 1 for v, k in enumerate(CARDS)]
                joint = joint + table.transpose(axes).reshape(shape)
            if joint.max() > -np.inf:
                yield graph, joint


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_any_factors(scale: float) -> None:
    seen = 0
    for graph, joint in _models(scale):
        top = joint.max()
        p = np.exp(joint - top)
        log_z = top + np.log(p.sum())
        r = vs.JunctionTree(graph).infer()
        assert r.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-11)
        for v, found in enumerate(r.marginals):
            others = tuple(u for u in range(len(CARDS)) if u != v)
            np.testing.assert_allclose(found, p.sum(others) / p.sum(), rtol=0, atol=1e-11)
        best = vs.JunctionTree(graph).decode()
        assert best.score == pytest.approx(top, rel=1e-12, abs=1e-11)
        assert joint[tuple(best.states)] == pytest.approx(top, rel=1e-12, abs=1e-11)
        seen += 1
    assert seen >= 16


def test_exponentials_of_every_level() -> None:
    rng = np.random.default_rng(0)
    before, levels = _forest.simd_level(), 0
    try:
        for level in ("scalar", "x86-64-v2", "x86-64-v3", "x86-64-v4", "neon"):
            if not _forest.set_simd_level(level):
                continue
            levels += 1
            for k in range(1, 40):
                for top in (0.0, 1e4):
                    x = top - 600.0 * rng.random(k)
                    x[rng.integers(k)] = -np.inf
                    x[rng.integers(k)] = top
                    graph = vs.FactorGraph([k])
                    graph.add([0], x)
                    p = np.exp(x.astype(np.longdouble) - top)
                    found = vs.JunctionTree(graph).infer()
                    np.testing.assert_allclose(
                        found.marginals[0], (p / p.sum()).astype(float), rtol=1e-13, atol=0
                    )
    finally:
        _forest.set_simd_level(before)
    assert levels >= 1
