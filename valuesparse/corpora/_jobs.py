"""Shards of a corpus: how files are cut into them, and how one is written, wherever that runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

from valuesparse.corpora._files import UNFINISHED, fingerprint, publishing, state_of
from valuesparse.corpora._lock import LOCK, require_mine
from valuesparse.corpora._run_file import RUN, Shard
from valuesparse.corpora._text import (
    BLANK,
    boundary,
    is_gzip,
    located,
    require_unpacked,
    text_size,
)
from valuesparse.io.errors import TextFormatError

__all__ = [
    "Done",
    "Halt",
    "Halted",
    "ShardJob",
    "ShardWork",
    "Span",
    "WrittenCounts",
    "done",
    "jobs_of",
    "require_unchanged",
    "span_of",
    "text_spans",
    "writing",
]  # fmt: skip


class ShardJob(NamedTuple):
    """One shard."""

    source: str
    kind: str  # the format
    first: int  # nominal bytes; of tables the group of rows
    last: int | None
    target: str
    size: int
    settings: Any  # of whoever does the work; workers of clusters get it pickled
    run: str = ""  # which run of all that ever wrote to the folder
    threads: int = 1  # inside of this shard
    seen: tuple[int, ...] = ()  # `state_of` the source when the run began, or the first of it


class Span(NamedTuple):
    """Where a shard begins and ends, in the terms of `ShardJob`, and its size."""

    first: int
    last: int | None
    size: int


class WrittenCounts(NamedTuple):
    """How many sentences and tokens were done.

    Sentences may also be left as they were; `notes` says why, of the first.
    """

    sentences: int
    tokens: int
    left: int = 0
    notes: tuple[str, ...] = ()


class Done(NamedTuple):
    """The size, the counts and the record of a shard that is done."""

    size: int
    counts: WrittenCounts
    shard: Shard


Item = TypeVar("Item")


class Halted(Exception):
    """The run is over; its caller knows why."""


class Halt:
    """Ends the shards that threads are at when a run ends early."""

    def __init__(self) -> None:
        self._asked = False
        self._running = 0
        self._changed = threading.Condition()

    @contextmanager
    def shard(self) -> Iterator[None]:
        """Count a shard as long as it runs."""
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def heeded(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items for as long as the run goes on."""
        for item in items:
            if self._asked:
                raise Halted
            yield item

    def end(self) -> None:
        """Ask shards to end, and wait until they have; not for a function that never returns."""
        self._asked = True
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout=1.0)


class ShardWork(Protocol):
    """Does one shard, and returns `done` of it; a function of a module, so that it pickles."""

    def __call__(self, job: ShardJob, halt: Halt | None = None, /) -> Done:
        """Do a shard."""


def done(job: ShardJob, halt: Halt | None, work: Callable[[ShardJob, Halt], WrittenCounts]) -> Done:
    """Do a shard by a function that returns what it wrote.

    Raises
    ------
    TextFormatError
        As of `work`, with the file and the line.
    ValueError
        As of `require_unchanged` and `work`.
    """
    halt = halt or Halt()
    try:
        with halt.shard():
            counts = work(job, halt)
    except (OSError, ValueError) as error:
        if _is_changed(job):  # and so may look damaged
            raise _changed_error(job) from None
        if isinstance(error, TextFormatError):
            raise located(error, Path(job.source)) from None
        raise
    target = Path(job.target)
    # Read again, the file is still in the system's memory.
    shard = Shard(target.name, target.stat().st_size, fingerprint(target))
    return Done(job.size, counts, shard)


@contextmanager
def writing(job: ShardJob) -> Iterator[IO[bytes]]:
    """Open the output of a shard, which appears when it is complete."""
    target = Path(job.target)
    with publishing(target) as file:
        yield file
        require_mine(target.parent, job.run)
        require_unchanged(job)


def require_unchanged(job: ShardJob) -> None:
    """Raise ValueError where the source of a shard is not what it was when the run began."""
    if _is_changed(job):
        raise _changed_error(job)


def _is_changed(job: ShardJob) -> bool:
    return bool(job.seen) and state_of(Path(job.source))[: len(job.seen)] != job.seen


def _changed_error(job: ShardJob) -> ValueError:
    return ValueError(
        f"{job.source}: it changed while it was read; run again once nothing writes to it"
    )


def text_spans(source: Path, shard_bytes: int) -> list[Span]:
    """Cut a text into shards of about so many bytes; a compressed one is one shard.

    Raises
    ------
    TextFormatError
        As of `require_unpacked`.
    """
    require_unpacked(source)
    size = text_size(source)
    count = 1 if is_gzip(source) else max(1, math.ceil(size / shard_bytes))
    edges = [*(i * shard_bytes for i in range(count)), size]
    return [
        Span(first, last if i + 1 < count else None, last - first)
        for i, (first, last) in enumerate(pairwise(edges))
    ]


def span_of(job: ShardJob, apart: tuple[bytes, ...] = BLANK) -> tuple[int, int | None]:
    """Return from which byte to which the sentences of a shard of text reach."""
    source = Path(job.source)
    first = 0 if job.first == 0 else boundary(source, job.first, apart)
    return first, None if job.last is None else boundary(source, job.last, apart)


def jobs_of(
    source: Path,
    kind: str,
    folder: Path,
    spans: Sequence[Span],
    settings: Any,
    name: str | None = None,
    seen: tuple[int, ...] = (),
) -> Iterator[ShardJob]:
    """Yield the shards of a file, each with its name in a folder, by default as the file's.

    Parameters
    ----------
    seen : tuple of int
        `state_of` the file before anything else of it was read.

    Raises
    ------
    ValueError
        A name cannot be written to, or is that of a file of the run's own.
    """
    name = name or source.name
    stem, dot, end = name.partition(".")
    for i, span in enumerate(spans):
        target = name
        if len(spans) > 1:
            target = f"{stem}-{i:05d}-of-{len(spans):05d}{dot}{end}"
        _require_free(target, source)
        target = str(folder / target)
        yield ShardJob(str(source), kind, *span[:2], target, span.size, settings, seen=seen)


def _require_free(name: str, source: Path) -> None:
    """Raise ValueError where a run could not keep an output of this name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"inputs: the name of {str(source)!a} is no UTF-8, and {RUN} could not have it; "
            "rename the file"
        ) from None
    own = name.casefold()  # file systems may not tell letters by their case
    if own in (RUN, LOCK) or (own.startswith(".") and own.endswith(UNFINISHED)):
        raise ValueError(
            f"inputs: {source} would be written to {name}, a name of the run's own files; rename it"
        )
