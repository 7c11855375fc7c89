"""Dependency trees of sentences: marginals of arcs, the best tree, and graphs of them."""

from valuesparse.parsing._graph import graph
from valuesparse.parsing._trees import ArcMarginals, BestTrees, best_trees, marginals

__all__ = ["ArcMarginals", "BestTrees", "best_trees", "graph", "marginals"]
