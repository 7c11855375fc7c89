"""Read the next piece of a corpus while native threads are at work on this one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["ahead"]

Item = TypeVar("Item")
_END: Any = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items in their order; another thread makes the next one meanwhile.

    An error comes where its item would, and whoever leaves waits until that thread is done.

    Examples
    --------
    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    source = iter(items)
    with ThreadPoolExecutor(1) as helper:
        coming = helper.submit(next, source, _END)
        while (item := coming.result()) is not _END:
            coming = helper.submit(next, source, _END)
            yield item
