"""Fast marginals of chains, trees and factor graphs: every core, and work only where it is needed.

Models hold arrays (`Chain`, `Tree`, `FactorGraph`), `infer` plans and computes,
results are records (`Result`).
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from valuesparse import factors
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
from valuesparse.models import (
    Chain,
    FactorGraph,
    SecondOrderChain,
    SegmentChain,
    SparseTransition,
    Tree,
)
from valuesparse.results import Result
from valuesparse.threads import get_num_threads, set_num_threads, simd_level

if TYPE_CHECKING:
    from valuesparse import bounds, crf, hmm, io, learning, parsing, relaxed, schedule
    from valuesparse.io import (
        from_pgmpy,
        from_pyagrum,
        read_bif,
        read_fg,
        read_uai,
        to_pgmpy,
        write_bif,
        write_fg,
        write_uai,
    )
    from valuesparse.relaxed.gain import gain
    from valuesparse.relaxed.relax import relax
    from valuesparse.relaxed.select import select

    __version__: str

_start()

#: The modules of names that are imported when they are first asked for.
_LATER = {
    "bounds": "bounds",
    "crf": "crf",
    "from_pgmpy": "io",
    "from_pyagrum": "io",
    "gain": "relaxed",
    "hmm": "hmm",
    "io": "io",
    "learning": "learning",
    "parsing": "parsing",
    "read_bif": "io",
    "read_fg": "io",
    "read_uai": "io",
    "relax": "relaxed",
    "relaxed": "relaxed",
    "schedule": "schedule",
    "select": "relaxed",
    "to_pgmpy": "io",
    "write_bif": "io",
    "write_fg": "io",
    "write_uai": "io",
}


def __getattr__(name: str) -> _Any:
    value: _Any
    if name == "__version__":
        value = _installed_version()
    elif name in _LATER:
        value = _import_module(f"{__name__}.{_LATER[name]}")
        if name != _LATER[name]:
            value = getattr(value, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("valuesparse")
    except PackageNotFoundError:  # running from a source tree that was never installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


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
    "SecondOrderChain",
    "SegmentChain",
    "SparseTransition",
    "StructuredMeanField",
    "Tree",
    "bounds",
    "crf",
    "decode",
    "factors",
    "from_pgmpy",
    "from_pyagrum",
    "gain",
    "get_num_threads",
    "hmm",
    "infer",
    "io",
    "learning",
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
    "write_bif",
    "write_fg",
    "write_uai",
]
