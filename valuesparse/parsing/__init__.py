"""Dependency trees of sentences: marginals of arcs, and the best tree."""

from valuesparse.parsing._trees import ArcMarginals, BestTrees, best_trees, marginals

__all__ = ["ArcMarginals", "BestTrees", "best_trees", "marginals"]
