"""Shards of a corpus: how files are cut into them, and how one is written, wherever that runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

from valuesparse.corpora._files import fingerprint, publishing
from valuesparse.corpora._lock import require_mine
from valuesparse.corpora._run_file import Shard
from valuesparse.corpora._text import BLANK, boundary, is_gzip, located, text_size
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
    """
    halt = halt or Halt()
    try:
        with halt.shard():
            counts = work(job, halt)
    except TextFormatError as error:
        raise located(error, Path(job.source)) from None
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


def text_spans(source: Path, shard_bytes: int) -> list[Span]:
    """Cut a text into shards of about so many bytes; a compressed one is one shard."""
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
) -> Iterator[ShardJob]:
    """Yield the shards of a file, each with its name in a folder, by default as the file's."""
    name = name or source.name
    stem, dot, end = name.partition(".")
    for i, span in enumerate(spans):
        target = name
        if len(spans) > 1:
            target = f"{stem}-{i:05d}-of-{len(spans):05d}{dot}{end}"
        yield ShardJob(str(source), kind, *span[:2], str(folder / target), span.size, settings)
