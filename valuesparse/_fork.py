"""The state of modules that a forked child renews."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["renew_in_forks"]


def renew_in_forks(renew: Callable[[], None]) -> Callable[[], None]:
    """Call a function in each forked child of this process, before anything else runs there.

    A decorator.

    A child has the memory of its parent and none of the other threads, so that a lock which one of
    them held would never be let go. Windows has no fork, and so nothing to call functions after it:
    every process there imports the modules anew, and their locks are new as well.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return renew
