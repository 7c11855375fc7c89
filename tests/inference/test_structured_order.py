"""Structured factors of an iteration see the messages before it, whoever is told first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import AtMostOne, Or, ProjectiveTree, Xor


def graph(order: tuple[int, ...]) -> vs.FactorGraph:
    """Return factors that share variables, of which evidence makes messages infinite."""
    parts = [
        ProjectiveTree([(0, 1), (2, 1), (0, 2), (1, 2)], [0, 1, 2, 4]),
        AtMostOne(4, 2, 3, negated=[0]),
        Or(0, 3, 4),
        Xor(1, 3, 2),
    ]
    g = vs.FactorGraph([2] * 5)
    for i in order:
        g.add(parts[i])
    for v, table in enumerate([[1.0, 64.0], [28.0, -63.0], [-24.0, 42.0], [-50.0, 4.0], [51, -51]]):
        g.add([v], table)
    g.add([0, 4], [[-0.9, 0.1], [-1.3, 0.0]])
    g.add([3, 4], [[0.7, 0.0], [0.0, 0.7]])
    return g


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("state", [0, 1])
def test_the_order_of_adding_them_does_not_show(state: int, damping: float) -> None:
    method = vs.BP(damping=damping, max_iterations=20)
    first = None
    for some in itertools.permutations(range(4)):
        r = vs.infer(graph(some), method=method, evidence={3: state}, threads=1)
        first = first or r
        assert r.iterations == first.iterations, some
        np.testing.assert_allclose(r.residuals, first.residuals, rtol=1e-9, atol=1e-9)
        for a, b in zip(r.marginals, first.marginals, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_threads_do_not_show() -> None:
    g = graph((0, 1, 2, 3))
    method = vs.BP(damping=0.5, max_iterations=20)
    first = vs.infer(g, method=method, evidence={3: 1}, threads=1)
    for threads in (2, 3):
        for _ in range(2000):
            r = vs.infer(g, method=method, evidence={3: 1}, threads=threads)
            assert (r.iterations, r.log_z) == (first.iterations, first.log_z)
