"""Tag one shard of a corpus, wherever that runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from valuesparse.crf.corpora._files import digest_of, fingerprint, publishing
from valuesparse.crf.corpora._formats import Marginals, batches, items_of, line_format
from valuesparse.crf.corpora._lock import require_mine
from valuesparse.crf.corpora._parquet import ParquetTable
from valuesparse.crf.corpora._reader import Extraction, extractor_of
from valuesparse.crf.corpora._run_file import Shard
from valuesparse.crf.corpora._templates import weight_of
from valuesparse.crf.corpora._text import boundary, first_line, is_gzip, largest, lines, located
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io._files import naming, read_file
from valuesparse.io.errors import TextFormatError

__all__ = ["Done", "Halt", "Halted", "Job", "Settings", "tag_shard", "tagger_of"]

# Bytes of attributes that are tagged together.
_WEIGHT = 8 << 20


class Settings(NamedTuple):
    """All that decides the output, beside the inputs."""

    model: str  # its path
    digest: str
    extraction: Extraction
    zeta: float
    marginals: str
    threads: int


class Job(NamedTuple):
    """One shard."""

    source: str
    kind: str
    first: int  # nominal bytes; of Parquet the row group
    last: int | None
    target: str
    size: int
    settings: Settings
    run: str = ""  # which run of all that ever wrote to the folder


class Done(NamedTuple):
    """The size, the counts and the record of a shard that is done."""

    size: int
    sentences: int
    tokens: int
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


@lru_cache(maxsize=2)
def tagger_of(path: str, digest: str) -> Tagger:
    data = read_file(path)
    if digest_of(data) != digest:
        raise ValueError(f"{path} is not the model that the run began with")
    tagger = Tagger()
    with naming(path):
        tagger.open_inmemory(data)
    return tagger


def tag_shard(job: Job, halt: Halt | None = None) -> Done:
    """Tag one shard, wherever this runs."""
    halt = halt or Halt()
    try:
        with halt.shard():
            sentences, tokens = (_tag_table if job.kind == "parquet" else _tag_lines)(job, halt)
    except TextFormatError as error:
        raise located(error, Path(job.source)) from None
    target = Path(job.target)
    # Read again, the file is still in the system's memory.
    shard = Shard(target.name, target.stat().st_size, fingerprint(target))
    return Done(job.size, sentences, tokens, shard)


@contextmanager
def _writing(job: Job) -> Iterator[IO[bytes]]:
    """Open the output of a shard, which appears when it is complete."""
    target = Path(job.target)
    with publishing(target) as file:
        yield file
        require_mine(target.parent, job.run)


def _answers(
    items: Sequence[Sequence[Any]], settings: Settings
) -> tuple[list[list[str]], Sequence[Marginals | None]]:
    """Return the tags of sentences, and their marginals if those are wanted."""
    tagger = tagger_of(settings.model, settings.digest)
    tags = tagger.tag_batch(items, threads=settings.threads)
    if settings.marginals == "none":
        return tags, [None] * len(tags)
    return tags, tagger.marginals_batch(items, zeta=settings.zeta, threads=settings.threads)


def _with_items(
    batches: Iterable[list[Item]],
    items_of: Callable[[Item], Sequence[Any]],
    job: Job,
    halt: Halt,
) -> Iterator[tuple[list[Item], list[Sequence[Any]]]]:
    """Yield sentences with their attributes: batches, in parts where a template makes much of them.

    Raises
    ------
    ValueError
        There are no attributes; with the names of the file and the model.
    """
    how = job.settings.extraction
    for batch in batches:
        part: list[Item] = []
        items: list[Sequence[Any]] = []
        weight = 0
        for sentence in halt.heeded(batch):
            try:
                items.append(items_of(sentence))
            except TextFormatError:
                raise
            except ValueError as error:
                raise ValueError(
                    f"{job.source}: {error}; asked for {job.settings.model}"
                ) from error
            part.append(sentence)
            if how.template is not None and job.kind != "attributes":
                weight += weight_of(items[-1])
                if weight > _WEIGHT:
                    yield part, items
                    part, items, weight = [], [], 0
        if part:
            yield part, items


def _tag_lines(job: Job, halt: Halt) -> tuple[int, int]:
    settings, source = job.settings, Path(job.source)
    how = settings.extraction
    form = line_format(source, job.kind, how.word, None, how.places)
    first = 0 if job.first == 0 else boundary(source, job.first)
    if form.header is not None and job.first == 0:
        first = first_line(source)[1]
    last = None if job.last is None else boundary(source, job.last)
    labels = tagger_of(settings.model, settings.digest).labels()
    extract = None if job.kind == "attributes" else extractor_of(how)
    sentences = tokens = 0
    with _writing(job) as file:
        file.write(form.heading(labels, settings.marginals).encode())
        blocks = form.blocks(_from(source, first, last), largest(source))
        word = form.columns.word
        for batch, items in _with_items(
            batches(halt.heeded(blocks)), lambda block: items_of(block, extract, word), job, halt
        ):
            texts = []
            for block, tags, table in zip(batch, *_answers(items, settings), strict=True):
                texts.append(form.written(block, tags, table, labels, settings.marginals == "all"))
                sentences, tokens = sentences + bool(tags), tokens + len(tags)
            file.write("".join(texts).encode())
    return sentences, tokens


def _from(source: Path, first: int, last: int | None) -> Iterator[Any]:
    """Yield lines; of a compressed file the header is read over, as it cannot be sought."""
    if first and is_gzip(source):
        found = lines(source)
        next(found, None)
        return found
    return lines(source, first, last)


def _tag_table(job: Job, halt: Halt) -> tuple[int, int]:
    settings, how = job.settings, job.settings.extraction
    table = ParquetTable(Path(job.source), how.word, None, how.places)
    extract = extractor_of(how)
    labels = tagger_of(settings.model, settings.digest).labels()
    sentences = tokens = 0
    with (
        _writing(job) as file,
        table.writer(file, settings.marginals) as writer,
    ):
        for batch in table.batches([job.first]):
            rows = [[[w] for w in words or []] for words in table.texts(batch, table.word)]
            tags: list[list[str]] = []
            found: list[Marginals | None] = []
            for _, items in _with_items(
                [rows], lambda some: extract(some, 0) if some else [], job, halt
            ):
                more, tables = _answers(items, settings)
                tags += more
                found += tables
            columns: list[Any] = [tags]
            if settings.marginals != "none":
                columns.append([
                    [p[labels.index(tag)] for tag, p in zip(some, (t.tolist() if t is not None
                                                                   else []), strict=True)]
                    for some, t in zip(tags, found, strict=True)
                ])  # fmt: skip
            if settings.marginals == "all":
                columns.append([[] if t is None else t.tolist() for t in found])
            writer.write_batch(table.extended(batch, writer.schema, columns))
            sentences, tokens = sentences + len(tags), tokens + sum(map(len, tags))
    return sentences, tokens
