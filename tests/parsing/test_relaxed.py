"""Relaxed parsing adds the pairs of arcs that `vs.relax` adds on the whole graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import valuesparse as vs
from tests.parsing.treebank import treebank
from valuesparse import _parser
from valuesparse.parsing import Examples, Sentence
from valuesparse.parsing._encoding import encode

Array = npt.NDArray[Any]
BITS = 5


def sentences() -> list[Sentence]:
    tags = ["NOUN", "VERB", "DET", "NOUN", "PUNCT"]
    return [
        Sentence(["a", "b", "c", "d", "."], upos=tags, heads=[2, 0, 4, 2, 2]),
        Sentence(["b"], upos=["NOUN"], heads=[0]),
        *treebank(2, seed=3),
    ]


def whole(potentials: Array, kinds: Array, nodes: Array, constraint: str) -> vs.FactorGraph:
    """Return the graph of all parts: arcs, pairs as features, and at last the tree factor."""
    arcs = {(int(h), int(m)): k for k, (h, m, _) in enumerate(nodes[kinds == 0])}
    graph = vs.FactorGraph([2] * len(arcs))
    for kind, (a, b, c), score in zip(kinds, nodes.tolist(), potentials, strict=True):
        if kind == 0:
            graph.add_feature([arcs[a, b]], [1], score)
        else:
            both = ((a, b), (a, c)) if kind == 1 else ((a, b), (b, c))
            graph.add_feature([arcs[arc] for arc in both], [1, 1], score)
    factor = vs.factors.Tree if constraint == "tree" else vs.factors.ProjectiveTree
    graph.add(factor(list(arcs), list(range(len(arcs)))))
    return graph


def by_products(
    graph: vs.FactorGraph, kinds: Array, potentials: Array, threshold: float, rounds: int | None,
    method: vs.BP,
) -> vs.Result:  # fmt: skip
    """Return what Algorithm 1 of RS10 finds with products of beliefs as joints."""
    used = [k for k in range(graph.n_factors) if k >= len(kinds) or kinds[k] == 0]
    done = 0
    while True:
        result = vs.infer(graph, factors=sorted(used), method=method)
        if done == rounds:
            return result
        p = [table[1] for table in result.marginals]
        new = []
        for k in set(range(len(kinds))) - set(used):
            a, b = graph.factors[k].scope
            mu = p[a] * p[b]
            if np.log1p(mu * np.expm1(potentials[k])) - mu * potentials[k] > threshold:
                new.append(k)
        if not new:
            return result
        used += new
        done += 1


@pytest.mark.parametrize("constraint", ["tree", "projective"])
@pytest.mark.parametrize("threshold", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("rounds", [1, 2, None])
def test_it_adds_what_relax_adds(constraint: str, threshold: float, rounds: int | None) -> None:
    found = sentences()
    examples = Examples(found, 2, constraint, False, bits=BITS)
    words, offset, heads = examples.arrays
    learner = _parser.Learner(
        words, offset, heads, None, 2, BITS, constraint == "projective", False
    )
    learner.limit(1000, 1e-11)
    rng = np.random.default_rng(7)
    weights = (rng.normal(size=learner.n_weights) * 0.1).astype(np.float32)
    for i in range(len(found)):
        potentials = examples.scores(i, weights.astype(float))
        kinds, nodes = examples.parts(i)
        log_z, own_kinds, own_nodes, beliefs, _, scored = learner.relax(
            i, weights, threshold, -1 if rounds is None else rounds
        )
        graph = whole(potentials, kinds, nodes, constraint)
        method = vs.BP(schedule="flooding", max_iterations=1000, tolerance=1e-11)
        if constraint == "tree":
            expected = vs.relax(graph, threshold=threshold, max_rounds=rounds, solver=method)
        else:  # whose joints would take a run for each arc: products stand for them
            expected = by_products(graph, kinds, potentials, threshold, rounds, method)
        used = [k for k in expected.factors if k < len(kinds)]
        listed = [(int(kinds[k]), *nodes[k].tolist()) for k in used]
        assert [(int(k), *n) for k, n in zip(own_kinds, own_nodes.tolist(), strict=True)] == listed
        arcs = int((kinds == 0).sum())
        np.testing.assert_allclose(beliefs[:arcs], [p[1] for p in expected.marginals], atol=1e-5)
        assert abs(log_z - expected.log_z) < 1e-5
        assert len(listed) - arcs <= scored


def test_few_pairs_are_scored_where_arcs_are_sure() -> None:
    found = treebank(3)
    learner = _parser.Learner(*encode(found), Examples(found, bits=4).arrays[2], None, 2, BITS,
                              False, True)  # fmt: skip
    rng = np.random.default_rng(1)
    weights = rng.normal(size=learner.n_weights).astype(np.float32)
    arcs = _parser.weights_of_parts(1, BITS)
    weights[arcs:] *= 0.001
    kinds, _ = learner.parts(0)
    _, own, _, _, rounds, scored = learner.relax(0, weights, 1e-4, 1)
    assert rounds <= 1
    assert int((own > 0).sum()) <= scored < int((kinds > 0).sum()) // 4
