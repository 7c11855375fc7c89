"""Holds the end of the interpreter while another library computes in a thread.

Native code that gives up the GIL and is not made for an interpreter that ends meanwhile must be out
of the way before that ends: daemon threads may be inside.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from valuesparse._fork import renew_in_forks

__all__ = ["held", "watch"]

# Reentrant: the thread that ends the interpreter may still compute, in handlers at exit.
_inside = threading.RLock()


@contextmanager
def held() -> Iterator[None]:
    """Let the interpreter end only when this is over; one thread at a time.

    A thread that comes after the interpreter has begun to end waits for good, except the one that
    ends it.
    """
    with _inside:
        yield


def _close() -> None:
    _inside.acquire()


def _renew() -> None:
    """Forget, in a forked child, the threads that it does not have."""
    global _inside
    _inside = threading.RLock()


def watch() -> None:
    """Wait at the end of the interpreter, and renew the lock in forks."""
    atexit.register(_close)
    renew_in_forks(_renew)
