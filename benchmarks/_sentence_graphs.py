"""The graph of a sentence without a pruner, and what the general engines make of it.

Beliefs of arcs are tables (n + 1, n + 1) at [head, modifier].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import valuesparse as vs
from valuesparse.parsing import Parser, Sentence
from valuesparse.parsing._encoding import encode

Table = npt.NDArray[np.float64]
Pairs = tuple[npt.NDArray[Any], Table]


@dataclass(frozen=True)
class Parts:
    """All arcs (n + 1, n + 1) and pairs of arcs of a sentence, with their potentials."""

    scores: Table
    siblings: Pairs
    grandparents: Pairs

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return len(self.siblings[1]) + len(self.grandparents[1])

    def above(self, cut: float) -> Parts:
        """Return the pairs of a potential above `cut` in magnitude: the baseline of RS10."""
        return Parts(self.scores, *(_where(x, np.abs(x[1]) > cut) for x in self._pairs))

    def grandparents_alone(self) -> Parts:
        """Return the parts without siblings."""
        none = np.zeros(len(self.siblings[1]), bool)
        return Parts(self.scores, _where(self.siblings, none), self.grandparents)

    @property
    def _pairs(self) -> tuple[Pairs, Pairs]:
        return self.siblings, self.grandparents


def _where(pairs: Pairs, kept: npt.NDArray[np.bool_]) -> Pairs:
    return pairs[0][kept], pairs[1][kept]


def parts_of(parser: Parser, sentence: Sentence) -> Parts:
    """Return the parts of a sentence: all features are extracted and scored."""
    n = len(sentence)
    words = encode([sentence], parser.ignore).words
    trees = (parser.constraint == "projective", parser.single_root)
    kinds, nodes, potentials = parser._predictor.parts(words, False, trees)
    scores = np.full((n + 1, n + 1), -np.inf)
    arcs = kinds == 0
    scores[nodes[arcs, 0], nodes[arcs, 1]] = potentials[arcs]
    return Parts(scores, *((nodes[kinds == k], potentials[kinds == k]) for k in (1, 2)))


def graph_of(parser: Parser, parts: Parts) -> vs.FactorGraph:
    """Return the graph of the parts, under the trees that the parser knows."""
    constraint: Any = parser.constraint
    return vs.parsing.graph(
        parts.scores, parts.siblings, parts.grandparents, constraint, parser.single_root
    )


def beliefs_of(graph: vs.FactorGraph, result: vs.Result, n: int) -> Table:
    """Return the beliefs of the arcs."""
    table = np.zeros((n + 1, n + 1))
    heads, modifiers = np.array(graph.names, np.int64).reshape(-1, 2).T
    table[heads, modifiers] = [p[1] for p in result.marginals]
    return table


def propagated(parser: Parser, parts: Parts, iterations: int) -> Table:
    """Return the beliefs of belief propagation with all of the parts."""
    graph = graph_of(parser, parts)
    r = vs.infer(graph, method=_bp(iterations), threads=1)
    return beliefs_of(graph, r, len(parts.scores) - 1)


def relaxed(parser: Parser, parts: Parts, iterations: int, **how: Any) -> Table:
    """Return the beliefs of relaxed inference, as `Parser.parse` has them."""
    graph = graph_of(parser, parts)
    r = vs.relax(graph, solver=_bp(iterations), threads=1, **how)
    return beliefs_of(graph, r, len(parts.scores) - 1)


def _bp(iterations: int) -> vs.BP:
    return vs.BP(max_iterations=iterations, tolerance=1e-4, damping=0.0)


def heads_of(parser: Parser, beliefs: Table) -> npt.NDArray[Any]:
    """Return the tree with the greatest sum of beliefs (n,)."""
    projective = parser.constraint == "projective"
    found = vs.parsing.best_trees([beliefs], projective, single_root=parser.single_root)
    return np.asarray(found.heads[0])


def difference(a: Table, b: Table) -> tuple[float, float]:
    """Return the mean and the largest difference of the beliefs of the arcs."""
    n = len(a) - 1
    arcs = ~np.eye(n + 1, dtype=bool)
    arcs[:, 0] = False
    apart = np.abs(a - b)[arcs]
    return (float(apart.mean()), float(apart.max())) if n else (0.0, 0.0)
