"""Infer plans and computes; results are records."""

from valuesparse.inference.decoding import Decoding, decode
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.inference.marginals import infer
from valuesparse.inference.posterior import log_prob, sample

__all__ = ["Decoding", "JunctionTree", "decode", "infer", "log_prob", "sample"]
