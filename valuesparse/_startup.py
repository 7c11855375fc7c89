"""All that importing the package does.

It reads the environment, hands engines over to results, and joins threadpoolctl.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from itertools import pairwise
from types import ModuleType

from valuesparse import _exit, _forest
from valuesparse.inference import _fit as learner
from valuesparse.inference import _forest as forest_engine
from valuesparse.inference import _joints as graph_engine
from valuesparse.inference import _longer as longer_engine
from valuesparse.models import FactorGraph
from valuesparse.results import (
    ChainResult,
    GraphResult,
    SecondOrderResult,
    SegmentResult,
    TreeResult,
)
from valuesparse.threads import MAX_THREADS, get_num_threads, set_num_threads

__all__ = ["start"]


def start() -> None:
    """Check the environment's number of threads, choose the SIMD level, register the pool.

    ``python -m valuesparse`` ends with one line where a setting is refused, as the script does.
    """
    try:
        _check_environment()
        _choose_simd_level()
    except ImportError as error:
        if not _is_command():
            raise
        if sys.stderr is not None:
            with suppress(OSError):  # unbuffered: nothing is left that could fail at the end
                os.write(2, f"valuesparse: {error}\n".encode())
        raise SystemExit(2) from None
    _exit.watch()
    _hand_over_engines()
    _join_threadpoolctl()


def _is_command() -> bool:
    """Whether Python imports the package to run it: the arguments are still those of Python."""
    return sys.argv[:1] == ["-m"] and ("-m", "valuesparse") in pairwise(sys.orig_argv)


def _choose_simd_level() -> None:
    name = os.environ.get("VALUESPARSE_SIMD")
    if name and not _forest.set_simd_level(name):
        raise ImportError(
            f"VALUESPARSE_SIMD={name!r} is not a SIMD level of this CPU and build; choose one of "
            f"{', '.join(_forest.simd_levels())}, or unset it for the best",
            name="VALUESPARSE_SIMD",
        )


def _hand_over_engines() -> None:
    # Results lie below those who answer them, and cannot import them.
    ChainResult.ask(forest_engine)
    TreeResult.ask(forest_engine)
    GraphResult.ask(graph_engine)
    SecondOrderResult.ask(longer_engine)
    SegmentResult.ask(longer_engine)
    GraphResult.ask_of_factors(_selection)
    FactorGraph.learn_with(learner)


def _selection() -> ModuleType:
    from valuesparse.relaxed import bounds  # few ask for it, and it takes a while to import

    return bounds


def _check_environment() -> None:
    text = os.environ.get("VALUESPARSE_NUM_THREADS")
    if text and not (re.fullmatch("0*[1-9][0-9]{0,3}", text) and int(text) <= MAX_THREADS):
        raise ImportError(
            f"VALUESPARSE_NUM_THREADS={text!r} must be an integer between 1 and {MAX_THREADS}",
            name="VALUESPARSE_NUM_THREADS",
        )


def _join_threadpoolctl() -> None:
    try:
        import threadpoolctl
    except ImportError:
        return
    if not hasattr(threadpoolctl, "register"):  # before 3.2 it knew only what it was made for
        return

    class Controller(threadpoolctl.LibController):  # type: ignore[misc]
        user_api = "valuesparse"
        internal_api = "valuesparse"
        filename_prefixes = ("_pool",)
        check_symbols = ("valuesparse_get_num_threads", "valuesparse_set_num_threads")

        def get_num_threads(self) -> int:
            return get_num_threads()

        def set_num_threads(self, num_threads: int) -> None:
            set_num_threads(num_threads)

        def get_version(self) -> None:
            return None

        def set_additional_attributes(self) -> None:
            return None

    threadpoolctl.register(Controller)
