"""Results are records with documented fields; one class per kind of model."""

from valuesparse.results._base import Result
from valuesparse.results._chain import ChainResult
from valuesparse.results._decoding import BoundedDecoding, Decoding
from valuesparse.results._graph import GraphResult
from valuesparse.results._longer import SecondOrderResult, SegmentResult
from valuesparse.results._many import ManyResult
from valuesparse.results._tree import TreeResult

__all__ = [
    "BoundedDecoding",
    "ChainResult",
    "Decoding",
    "GraphResult",
    "ManyResult",
    "Result",
    "SecondOrderResult",
    "SegmentResult",
    "TreeResult",
]
