"""Tag one shard of a corpus, wherever that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from valuesparse.corpora._blocks import batches
from valuesparse.corpora._files import digest_of
from valuesparse.corpora._jobs import Counts, Done, Halt, Job, done, span_of, writing
from valuesparse.corpora._text import first_line, is_gzip, largest, lines
from valuesparse.crf.corpora._formats import Marginals, items_of, line_format, size_of
from valuesparse.crf.corpora._parquet import ParquetTable
from valuesparse.crf.corpora._reader import Extraction, extractor_of
from valuesparse.crf.corpora._templates import weight_of
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io._files import naming, read_file
from valuesparse.io.errors import TextFormatError

__all__ = ["Settings", "tag_shard", "tagger_of"]

# Bytes of attributes that are tagged together.
_WEIGHT = 8 << 20


class Settings(NamedTuple):
    """All that decides the output, beside the inputs."""

    model: str  # its path
    digest: str
    extraction: Extraction
    zeta: float
    marginals: str


Item = TypeVar("Item")


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
    return done(job, halt, _tag_table if job.kind == "parquet" else _tag_lines)


def _answers(
    items: Sequence[Sequence[Any]], settings: Settings, threads: int
) -> tuple[list[list[str]], Sequence[Marginals | None]]:
    """Return the tags of sentences, and their marginals if those are wanted."""
    tagger = tagger_of(settings.model, settings.digest)
    tags = tagger.tag_batch(items, threads=threads)
    if settings.marginals == "none":
        return tags, [None] * len(tags)
    return tags, tagger.marginals_batch(items, zeta=settings.zeta, threads=threads)


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


def _tag_lines(job: Job, halt: Halt) -> Counts:
    settings, source = job.settings, Path(job.source)
    how = settings.extraction
    form = line_format(source, job.kind, how.word, None, how.places)
    first, last = span_of(job)
    if form.header is not None and job.first == 0:
        first = first_line(source)[1]
    labels = tagger_of(settings.model, settings.digest).labels()
    extract = None if job.kind == "attributes" else extractor_of(how)
    sentences = tokens = 0
    with writing(job) as file:
        file.write(form.heading(labels, settings.marginals).encode())
        blocks = form.blocks(_from(source, first, last), largest(source))
        word = form.columns.word
        for batch, items in _with_items(
            batches(halt.heeded(blocks), size_of),
            lambda block: items_of(block, extract, word),
            job,
            halt,
        ):
            texts = []
            for block, tags, table in zip(
                batch, *_answers(items, settings, job.threads), strict=True
            ):
                texts.append(form.written(block, tags, table, labels, settings.marginals == "all"))
                sentences, tokens = sentences + bool(tags), tokens + len(tags)
            file.write("".join(texts).encode())
    return Counts(sentences, tokens)


def _from(source: Path, first: int, last: int | None) -> Iterator[Any]:
    """Yield lines; of a compressed file the header is read over, as it cannot be sought."""
    if first and is_gzip(source):
        found = lines(source)
        next(found, None)
        return found
    return lines(source, first, last)


def _tag_table(job: Job, halt: Halt) -> Counts:
    settings, how = job.settings, job.settings.extraction
    table = ParquetTable(Path(job.source), how.word, None, how.places)
    extract = extractor_of(how)
    labels = tagger_of(settings.model, settings.digest).labels()
    sentences = tokens = 0
    with (
        writing(job) as file,
        table.writer(file, settings.marginals) as writer,
    ):
        for batch in table.batches([job.first]):
            rows = [[[w] for w in words or []] for words in table.texts(batch, table.word)]
            tags: list[list[str]] = []
            found: list[Marginals | None] = []
            for _, items in _with_items(
                [rows], lambda some: extract(some, 0) if some else [], job, halt
            ):
                more, tables = _answers(items, settings, job.threads)
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
    return Counts(sentences, tokens)
