"""Bounds on log Z and on probabilities that hold on every input.

================== ==============================================================================
module             what is in it
================== ==============================================================================
`_rounding`        how far computed values may be off, and the step outward
`_reduced`         a graph with its evidence worked in, where every bound starts
`_quadratic`       the quadratic form of a pairwise model, and the eigenvalue that makes bounds
`_support_tree`    recursive partitions, Steiner nodes and how they are eliminated
`_preconditioner`  RL05: spanning trees, support trees, sparsifiers
`_mini_bucket`     weighted mini-buckets, both sides, any tables
`_conditioned`     exact mass of the configurations that agree with a good one on some variables
`_log_z`           the best of all
================== ==============================================================================
"""

from valuesparse.bounds._log_z import LogZBounds, MethodBounds, log_z
from valuesparse.bounds._preconditioner import PreconditionerBounds, preconditioner

__all__ = [
    "LogZBounds",
    "MethodBounds",
    "PreconditionerBounds",
    "log_z",
    "preconditioner",
]
