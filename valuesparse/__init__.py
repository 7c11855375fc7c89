"""Fast marginals of discrete chains and trees: every core, and work only where it is needed.

Models hold arrays (`Chain`, `Tree`), `infer` plans and computes, results are records (`Result`).
"""

from importlib.metadata import PackageNotFoundError, version

from valuesparse.errors import DeadlineError, InfeasibleError
from valuesparse.inference import Decoding, decode, infer, log_prob, sample
from valuesparse.models import Chain, Tree
from valuesparse.results import Result
from valuesparse.threads import get_num_threads, set_num_threads, simd_level

try:
    __version__ = version("valuesparse")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Chain",
    "DeadlineError",
    "Decoding",
    "InfeasibleError",
    "Result",
    "Tree",
    "decode",
    "get_num_threads",
    "infer",
    "log_prob",
    "sample",
    "set_num_threads",
    "simd_level",
]
