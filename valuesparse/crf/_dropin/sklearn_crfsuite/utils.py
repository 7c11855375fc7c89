"""The names of sklearn-crfsuite's helpers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

T = TypeVar("T")

__all__ = ["flatten"]


def flatten(y: Iterable[Iterable[T]]) -> list[T]:
    """Return the items of all sequences in one list.

    Parameters
    ----------
    y : iterable of iterables
        The sequences.

    Examples
    --------
    >>> flatten([["A", "B"], [], ["C"]])
    ['A', 'B', 'C']
    """
    return list(chain.from_iterable(y))
