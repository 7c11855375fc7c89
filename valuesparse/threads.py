"""How many threads a call may use, in one place.

``threads=None`` means :func:`get_num_threads`: what :func:`set_num_threads` or threadpoolctl set,
else ``VALUESPARSE_NUM_THREADS``, else every core that this process may use (CPU affinity and
container quota respected). Any other value must be an integer >= 1; no call takes more than 4,096
threads.
"""

from __future__ import annotations

from typing import Any

from valuesparse import _forest, _pool
from valuesparse._validation import as_count

__all__ = ["get_num_threads", "set_num_threads", "simd_level"]

#: No call takes more threads.
MAX_THREADS = 4096


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
        From 1 to 4,096, as in ``VALUESPARSE_NUM_THREADS``; None: every core that this process may
        use.

    Raises
    ------
    ValueError
        When `n` is not an integer from 1 to 4,096.

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
        count = as_count("n", n, at_least=1)
        if count > MAX_THREADS:
            raise ValueError(f"n must be an integer between 1 and {MAX_THREADS}, got {n!r}")
        _pool.set_num_threads(count)


def resolve(threads: Any) -> int:
    """Return the number of threads that the argument `threads` asks for."""
    if threads is None:
        return get_num_threads()
    return min(as_count("threads", threads, at_least=1), MAX_THREADS)


def simd_level() -> str:
    """Return the name of the instruction set in use.

    ``scalar`` or the name of an instruction set, such as ``x86-64-v3`` or ``neon``; the environment
    variable ``VALUESPARSE_SIMD`` chooses one when the package is imported.

    Examples
    --------
    >>> import valuesparse as vs
    >>> vs.simd_level() == "scalar" or len(vs.simd_level()) > 3
    True
    """
    return str(_forest.simd_level())
