"""How many threads a call may use, in one place.

``threads=None`` means :func:`get_num_threads`: what :func:`set_num_threads` or threadpoolctl set,
else ``VALUESPARSE_NUM_THREADS``, else every core that this process may use (CPU affinity and
container quota respected). Any other value must be an integer >= 1.
"""

from __future__ import annotations

import os
import re
from typing import Any

from valuesparse import _chain, _pool
from valuesparse._validation import as_count

__all__ = ["get_num_threads", "set_num_threads", "simd_level"]

_MAX_THREADS = 4096


def get_num_threads() -> int:
    """Return the number of threads that a call uses by default.

    Examples
    --------
    >>> import valuesparse as vs
    >>> vs.get_num_threads() >= 1
    True
    """
    return int(_pool.get_num_threads())


def set_num_threads(n: int | None) -> None:
    """Set the number of threads that a call uses by default.

    Parameters
    ----------
    n : int or None
        At least 1; None: every core that this process may use.

    Raises
    ------
    ValueError
        When `n` is not an integer >= 1.

    Examples
    --------
    >>> import valuesparse as vs
    >>> before = vs.get_num_threads()
    >>> vs.set_num_threads(1)
    >>> vs.get_num_threads()
    1
    >>> vs.set_num_threads(before)
    """
    if n is None:
        _pool.set_num_threads(_pool.hardware_threads())
    else:
        _pool.set_num_threads(min(as_count("n", n, at_least=1), _MAX_THREADS))


def resolve(threads: Any) -> int:
    """Return the number of threads that the argument `threads` asks for."""
    if threads is None:
        return get_num_threads()
    return min(as_count("threads", threads, at_least=1), _MAX_THREADS)


def simd_level() -> str:
    """Return the name of the instruction set in use.

    One of ``x86-64-v4``, ``x86-64-v3``, ``x86-64-v2``, ``neon``, ``scalar``; the environment
    variable ``VALUESPARSE_SIMD`` chooses one when the package is imported.

    Examples
    --------
    >>> import valuesparse as vs
    >>> vs.simd_level() in {"x86-64-v4", "x86-64-v3", "x86-64-v2", "neon", "scalar"}
    True
    """
    return str(_chain.simd_level())


def _choose_level() -> None:
    name = os.environ.get("VALUESPARSE_SIMD")
    if name and not _chain.set_simd_level(name):
        raise ImportError(
            f"VALUESPARSE_SIMD={name!r} is not a SIMD level of this CPU and build; choose one of "
            "x86-64-v4, x86-64-v3, x86-64-v2, neon, scalar, or unset it for the best",
            name="VALUESPARSE_SIMD",
        )


def _check_environment() -> None:
    text = os.environ.get("VALUESPARSE_NUM_THREADS")
    if text and not (re.fullmatch("0*[1-9][0-9]{0,3}", text) and int(text) <= _MAX_THREADS):
        raise ImportError(
            f"VALUESPARSE_NUM_THREADS={text!r} must be an integer between 1 and {_MAX_THREADS}",
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


_check_environment()
_choose_level()
_join_threadpoolctl()
