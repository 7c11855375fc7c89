"""Infer plans and computes; results are records."""

from valuesparse.inference._methods import AD3, BP, TRW, MeanField, StructuredMeanField
from valuesparse.inference._trw import DualBound, trw_dual_bound
from valuesparse.inference.decoding import decode
from valuesparse.inference.junction_tree import Division, JunctionTree
from valuesparse.inference.marginals import infer
from valuesparse.inference.posterior import log_prob, sample
from valuesparse.results import Decoding

__all__ = [
    "AD3",
    "BP",
    "TRW",
    "Decoding",
    "Division",
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
