"""Infer plans and computes; results are records."""

from valuesparse.inference._loopy import DualBound, trw_dual_bound
from valuesparse.inference._methods import BP, TRW, MeanField, StructuredMeanField
from valuesparse.inference.decoding import Decoding, decode
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.inference.marginals import infer
from valuesparse.inference.posterior import log_prob, sample

__all__ = [
    "BP",
    "TRW",
    "Decoding",
    "DualBound",
    "JunctionTree",
    "MeanField",
    "StructuredMeanField",
    "decode",
    "infer",
    "log_prob",
    "sample",
    "trw_dual_bound",
]
