"""Fast marginals of chains, trees and factor graphs: every core, and work only where it is needed.

Models hold arrays (`Chain`, `Tree`, `FactorGraph`), `infer` plans and computes,
results are records (`Result`).
"""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from valuesparse import bounds, factors, parsing, relaxed, schedule
from valuesparse._startup import start as _start
from valuesparse.errors import DeadlineError, InfeasibleError, MemoryLimitError
from valuesparse.inference import (
    AD3,
    BP,
    TRW,
    Decoding,
    JunctionTree,
    MeanField,
    StructuredMeanField,
    decode,
    infer,
    log_prob,
    sample,
)
from valuesparse.io import (
    from_pgmpy,
    from_pyagrum,
    read_bif,
    read_fg,
    read_uai,
    to_pgmpy,
    write_fg,
    write_uai,
)
from valuesparse.models import Chain, FactorGraph, SparseTransition, Tree
from valuesparse.relaxed import gain, relax, select
from valuesparse.results import Result
from valuesparse.threads import get_num_threads, set_num_threads, simd_level

_start()

try:
    __version__ = _version("valuesparse")
except _PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "AD3",
    "BP",
    "TRW",
    "Chain",
    "DeadlineError",
    "Decoding",
    "FactorGraph",
    "InfeasibleError",
    "JunctionTree",
    "MeanField",
    "MemoryLimitError",
    "Result",
    "SparseTransition",
    "StructuredMeanField",
    "Tree",
    "bounds",
    "decode",
    "factors",
    "from_pgmpy",
    "from_pyagrum",
    "gain",
    "get_num_threads",
    "infer",
    "log_prob",
    "parsing",
    "read_bif",
    "read_fg",
    "read_uai",
    "relax",
    "relaxed",
    "sample",
    "schedule",
    "select",
    "set_num_threads",
    "simd_level",
    "to_pgmpy",
    "write_fg",
    "write_uai",
]
