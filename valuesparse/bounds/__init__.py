"""Bounds on log Z and on probabilities that hold on every input.

================== ==============================================================================
module             what is in it
================== ==============================================================================
`_rounding`        how far computed values may be off, and the step outward
`_reduced`         a graph with its evidence worked in, where every bound starts
`_quadratic`       the quadratic form of a pairwise model, and the eigenvalue that makes bounds
`_support_tree`    recursive partitions, Steiner nodes and how they are eliminated
`_preconditioner`  RL05: spanning trees, support trees, sparsifiers
================== ==============================================================================
"""

from valuesparse.bounds._preconditioner import PreconditionerBounds, preconditioner

__all__ = ["PreconditionerBounds", "preconditioner"]
