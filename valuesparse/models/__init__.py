"""Models hold arrays and never compute."""

from valuesparse.models._check import Finding
from valuesparse.models._network import Fit
from valuesparse.models.chain import Chain
from valuesparse.models.factor_graph import FactorGraph
from valuesparse.models.longer_chains import SecondOrderChain, SegmentChain
from valuesparse.models.sparse_transition import SparseTransition
from valuesparse.models.tree import Tree

__all__ = [
    "Chain",
    "FactorGraph",
    "Finding",
    "Fit",
    "SecondOrderChain",
    "SegmentChain",
    "SparseTransition",
    "Tree",
]
