"""Forked children: the state of modules that they renew, and attributes without a lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["cached_attribute", "renew_in_forks"]

Value = TypeVar("Value")


class cached_attribute(cached_property[Value]):
    """An attribute that is computed when it is first asked for, and kept.

    Up to Python 3.11 `functools.cached_property` holds a lock meanwhile, one for all objects of a
    class: threads would wait for each other, and a child that is forked then for ever. Without it
    threads that ask at the same time may each compute the value; all get the same one.

    Examples
    --------
    >>> class Square:
    ...     side = 3
    ...     @cached_attribute
    ...     def area(self) -> int:
    ...         return self.side**2
    >>> square = Square()
    >>> square.area, vars(square)
    (9, {'area': 9})
    """

    if not TYPE_CHECKING:  # whose types are those of cached_property

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            """Return the value; of the class this itself."""
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))


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
