"""Tag one shard of a corpus, wherever that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from valuesparse.corpora._ahead import ahead
from valuesparse.corpora._blocks import BATCH, batches
from valuesparse.corpora._files import digest_of
from valuesparse.corpora._jobs import Done, Halt, ShardJob, WrittenCounts, done, span_of, writing
from valuesparse.corpora._stream import Stream
from valuesparse.corpora._text import (
    BLANK,
    ENDS,
    Line,
    Source,
    first_line,
    is_gzip,
    largest,
    lines,
    located,
    spooled,
    text_size,
)
from valuesparse.crf.corpora._formats import ONE_LINE, Block, items_of, size_of
from valuesparse.crf.corpora._outputs import Answer, Output, output_format
from valuesparse.crf.corpora._parquet import ParquetTable, RowFormat
from valuesparse.crf.corpora._parquet_output import ParquetOutput, columns_of
from valuesparse.crf.corpora._reader import (
    Extraction,
    Form,
    extractor_of,
    line_format,
    open_lines,
)
from valuesparse.crf.corpora._templates import weight_of
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io._files import naming, read_file
from valuesparse.io.errors import TextFormatError

__all__ = ["ShardSettings", "tag_all", "tag_shard", "tagger_of"]

# Bytes of attributes that are tagged together.
_WEIGHT = 8 << 20
# Bytes of marginals that are made together, unless one sentence has more.
_MARGINALS = 16 << 20


class ShardSettings(NamedTuple):
    """All that decides the output, beside the inputs."""

    model: str  # its path
    digest: str
    extraction: Extraction
    zeta: float
    marginals: str
    output_format: str | None = None  # None: that of the input
    n_best: int | None = None
    constraints: str | None = None
    max_labels: int | None = None

    @property
    def opens(self) -> tuple[str, str, str | None, int | None]:
        """Return what opens the model."""
        return self.model, self.digest, self.constraints, self.max_labels


Item = TypeVar("Item")


@lru_cache(maxsize=2)
def tagger_of(
    path: str, digest: str, constraints: str | None = None, max_labels: int | None = None
) -> Tagger:
    """Return a tagger that has a model open; its SHA-256 is `digest`."""
    data = read_file(path)
    if digest_of(data) != digest:
        raise ValueError(f"{path} is not the model that the run began with")
    tagger = Tagger(constraints=constraints, max_labels=max_labels)
    with naming(path):
        tagger.open_inmemory(data)
    return tagger


def tag_shard(job: ShardJob, halt: Halt | None = None) -> Done:
    """Tag one shard, wherever this runs."""
    return done(job, halt, _tag_table if job.kind == "parquet" else _tag_lines)


def _answers(
    items: Sequence[Sequence[Any]], settings: ShardSettings, threads: int | None
) -> list[Answer]:
    """Return the tags of sentences, and their marginals or n-best if those are wanted."""
    tagger = tagger_of(*settings.opens)
    if settings.n_best is not None:
        return [_best(tagger, some, settings) for some in items]
    tags = tagger.tag_batch(items, threads=threads)
    if settings.marginals == "none":
        return [Answer(some) for some in tags]
    answers: list[Answer] = []
    for first, last in _pieces(items, len(tagger.labels())):
        answers += _with_marginals(tagger, items[first:last], tags[first:last], settings, threads)
    return answers


def _pieces(items: Sequence[Sequence[Any]], labels: int) -> Iterator[tuple[int, int]]:
    """Yield from where to where sentences go whose marginals are made together."""
    first = size = 0
    for i, some in enumerate(items):
        more = 8 * len(some) * labels
        if i > first and size + more > _MARGINALS:
            yield first, i
            first, size = i, 0
        size += more
    if first < len(items):
        yield first, len(items)


def _with_marginals(
    tagger: Tagger,
    items: Sequence[Sequence[Any]],
    tags: Sequence[list[str]],
    settings: ShardSettings,
    threads: int | None,
) -> list[Answer]:
    """Return tags with their marginals; those of other labels are kept only to be written."""
    number = {label: k for k, label in enumerate(tagger.labels())}
    every = settings.marginals == "all"
    answers = []
    tables = tagger.marginals_batch(items, zeta=settings.zeta, threads=threads)
    for some, table in zip(tags, tables, strict=True):
        own = np.array([number[tag] for tag in some], dtype=np.intp)
        sure = table[np.arange(len(some)), own].tolist()
        answers.append(Answer(some, sure, table if every else None))
    return answers


def _best(tagger: Tagger, items: Sequence[Any], settings: ShardSettings) -> Answer:
    """Return the best label sequences of a sentence, with the probability of each."""
    if not items:
        return Answer([], best=[])
    found = tagger.tag(items, n_best=settings.n_best)
    if settings.marginals == "none":
        return Answer(found[0], best=[(some, 0.0) for some in found])
    return Answer(found[0], best=[(some, tagger.probability(some)) for some in found])


def _with_items(
    batches: Iterable[list[Item]],
    items_of: Callable[[Item], Sequence[Any]],
    where: _Where,
    halt: Halt,
) -> Iterator[tuple[list[Item], list[Sequence[Any]]]]:
    """Yield sentences with their attributes: batches, in parts where a template makes much of them.

    Raises
    ------
    ValueError
        There are no attributes; with the names of the file and the model.
    """
    how = where.settings.extraction
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
                    f"{where.source}: {error}; asked for {where.settings.model}"
                ) from error
            part.append(sentence)
            if how.template is not None and where.kind != "attributes":
                weight += weight_of(items[-1])
                if weight > _WEIGHT:
                    yield part, items
                    part, items, weight = [], [], 0
        if part:
            yield part, items


class _Where(NamedTuple):
    """A job: the text, its format, the model, and the number of threads."""

    source: Source
    kind: str
    settings: ShardSettings
    threads: int | None


def tag_all(
    source: Source,
    kind: str,
    settings: ShardSettings,
    threads: int | None,
    file: IO[bytes],
    progress: Callable[[int, int], object] | None = None,
) -> WrittenCounts:
    """Tag a whole file or stream into a file that is open; tell the bytes done, and all.

    Raises
    ------
    TextFormatError
        A line is wrong; with the file and its number.
    """
    where = _Where(source, kind, settings, threads)
    if kind == "parquet":
        with spooled(source) as path:
            table = ParquetTable(path, *_columns(settings), source=source)
            return _tag_groups(table, None, where, Halt(), file)
    try:
        form, stream = open_lines(source, kind, settings.extraction)
        blocks = form.blocks(stream, largest(source))
        if progress is not None and isinstance(source, Path) and not is_gzip(source):
            blocks = _told(blocks, text_size(source), progress)
        read = _read(blocks, form, where, Halt())
        # Ctrl-C must reach a thread that waits for a pipe.
        read = read if isinstance(source, Stream) else ahead(read)
        return _tag_blocks(read, form, where, file)
    except TextFormatError as error:
        raise located(error, source) from None


def _told(
    blocks: Iterable[Block], size: int, progress: Callable[[int, int], object]
) -> Iterator[Block]:
    done = 0
    for i, block in enumerate(blocks):
        done += block.size
        if i % BATCH == 0:
            progress(done, size)
        yield block


def _columns(settings: ShardSettings) -> tuple[str | None, None, tuple[str, str]]:
    how = settings.extraction
    return how.word, None, how.places


def _tag_lines(job: ShardJob, halt: Halt) -> WrittenCounts:
    source = Path(job.source)
    form = line_format(source, job.kind, job.settings.extraction)
    first, last = span_of(job, ENDS if job.kind in ONE_LINE else BLANK)
    if form.header is not None and job.first == 0:
        first = first_line(source)[1]
    where = _Where(source, job.kind, job.settings, job.threads)
    with writing(job) as file:
        blocks = form.blocks(_from(source, first, last), largest(source))
        return _tag_blocks(_read(halt.heeded(blocks), form, where, halt), form, where, file)


def _read(
    blocks: Iterable[Block], form: Form | RowFormat, where: _Where, halt: Halt
) -> Iterator[tuple[list[Block], list[Sequence[Any]]]]:
    """Yield sentences with their attributes, as many as are tagged together."""
    attributes = where.kind == "attributes"
    extract = None if attributes else extractor_of(where.settings.extraction)
    word = form.columns.word
    return _with_items(
        batches(blocks, size_of), lambda block: items_of(block, extract, word), where, halt
    )


def _tag_blocks(
    read: Iterable[tuple[list[Block], list[Sequence[Any]]]],
    form: Form | RowFormat,
    where: _Where,
    file: IO[bytes],
) -> WrittenCounts:
    settings = where.settings
    labels = tagger_of(*settings.opens).labels()
    kind = output_format(where.kind, settings.output_format)
    try:
        output = Output(form, kind, labels, settings.marginals, settings.n_best)
    except ValueError as error:
        raise ValueError(f"{where.source.name}: {error}") from None
    table = ParquetOutput(file, settings.marginals) if kind == "parquet" else None
    sentences = tokens = 0
    if table is None:
        file.write(output.heading().encode())
    for batch, items in read:
        texts = []
        for block, answer in zip(batch, _answers(items, settings, where.threads), strict=True):
            if table is not None:
                table.add(output.words(block), answer)
            else:
                texts.append(_written(output, block, answer, where))
            count = len(answer.tags)
            sentences, tokens = sentences + bool(count), tokens + count
        file.write("".join(texts).encode())
    if table is not None:
        table.close()
    return WrittenCounts(sentences, tokens)


def _written(output: Output, block: Block, answer: Answer, where: _Where) -> str:
    try:
        return output.written(block, answer)
    except ValueError as error:
        raise ValueError(f"{where.source.name}: {error}") from None


def _from(source: Path, first: int, last: int | None) -> Iterator[Line]:
    """Yield lines; of a compressed file the header is read over, as it cannot be sought."""
    if first and is_gzip(source):
        found = lines(source)
        next(found, None)
        return found
    return lines(source, first, last)


def _tag_table(job: ShardJob, halt: Halt) -> WrittenCounts:
    table = ParquetTable(Path(job.source), *_columns(job.settings))
    where = _Where(Path(job.source), job.kind, job.settings, job.threads)
    with writing(job) as file:
        return _tag_groups(table, [job.first], where, halt, file)


def _tag_groups(
    table: ParquetTable, groups: Sequence[int] | None, where: _Where, halt: Halt, file: IO[bytes]
) -> WrittenCounts:
    """Tag row groups of a table, None for all of them."""
    settings = where.settings
    groups = range(table.groups) if groups is None else groups
    kind = output_format("parquet", settings.output_format)
    if kind != "parquet":
        form = RowFormat(table)
        read = _read(halt.heeded(form.blocks(groups)), form, where, halt)
        return _tag_blocks(read, form, where, file)
    extract = extractor_of(settings.extraction)
    sentences = tokens = 0
    with table.writer(file, settings.marginals) as writer:
        for batch in table.batches(groups):
            rows = [[[w] for w in words or []] for words in table.texts(batch, table.word)]
            answers: list[Answer] = []
            for _, items in _with_items(
                [rows], lambda some: extract(some, 0) if some else [], where, halt
            ):
                answers += _answers(items, settings, where.threads)
            columns = columns_of(answers, settings.marginals)
            writer.write_batch(table.extended(batch, writer.schema, columns))
            sentences += len(answers)
            tokens += sum(len(answer.tags) for answer in answers)
    return WrittenCounts(sentences, tokens)
