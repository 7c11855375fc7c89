"""Deadlines and progress of calls that are made of several native ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from valuesparse._validation import as_seconds, require_progress
from valuesparse.errors import DeadlineError

__all__ = ["NOBODY", "Progress", "Watch", "too_late"]

Progress = Callable[[int, int], object]
Item = TypeVar("Item")

#: Steps of a loop between looks at the clock.
_STEPS = 4096


def too_late(deadline: float | None) -> DeadlineError | None:
    """Return the error that a deadline raises when it is over; None without one."""
    return None if deadline is None else DeadlineError(f"no answer within {deadline} s")


class Watch:
    """A call's deadline and its progress callback; checks both arguments."""

    def __init__(self, deadline: Any, progress: Any) -> None:
        if deadline is not None:
            deadline = as_seconds("deadline", deadline)
        require_progress(progress)
        self.progress: Progress | None = progress
        self.late = too_late(deadline)
        self._end = None if deadline is None else time.monotonic() + deadline

    def left(self) -> float | None:
        """Return the seconds that are left, None without a deadline; raise when there are none."""
        if self._end is None or self.late is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0.0:
            raise self.late
        return left

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items of a long loop; raise on the way when there are no seconds left."""
        rest = iter(items)
        while block := list(islice(rest, _STEPS)):
            self.left()
            yield from block

    def part(self, first: int, last: int, total: int) -> Progress | None:
        """Return the callback of a native call that goes from step `first` to `last` of `total`."""
        progress = self.progress
        if progress is None:
            return None
        report = progress
        # A native call that has to begin again counts its steps twice.
        return lambda done, _: report(min(first + done, last), total)

    def uncounted(self) -> Watch:
        """Return the same deadline, for steps that are not counted."""
        other = Watch(None, None)
        other.late, other._end = self.late, self._end
        return other

    def finish(self, total: int) -> None:
        """Report that everything is done."""
        if self.progress is not None:
            self.progress(total, total)


#: The watch of calls without a deadline or progress.
NOBODY = Watch(None, None)
