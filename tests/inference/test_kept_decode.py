"""The best configuration of a tree that keeps its messages from question to question."""

from __future__ import annotations

import numpy as np

import valuesparse as vs


def test_evidence_that_changes_changes_the_best(rng: np.random.Generator) -> None:
    side = 5
    graph = vs.FactorGraph([3] * side * side)
    for v in range(side * side):
        graph.add([v], rng.normal(size=3))
        for u in [v - 1] * (v % side > 0) + [v - side] * (v >= side):
            graph.add([u, v], rng.normal(size=(3, 3)))
    soft = [{7: rng.normal(size=3), 12: 3.0 * rng.normal(size=3)} for _ in range(3)]
    kept = vs.JunctionTree(graph)
    for evidence in ({}, {3: 1}, soft[0], soft[1], {}, {3: 2, 7: 0}, soft[2], soft[2], {3: 1}):
        for _ in range(2):
            ours = kept.decode(evidence=evidence, threads=1)
            new = vs.JunctionTree(graph, evidence=evidence).decode(threads=1)
            assert ours.states.tolist() == new.states.tolist()
            np.testing.assert_allclose(ours.score, new.score, rtol=1e-12)
            kept.infer(evidence=evidence, threads=1)  # other messages of the same tree
