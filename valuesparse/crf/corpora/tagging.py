"""Tag corpora of any size: in shards, as a stream, and from where it was interrupted."""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from valuesparse._extras import require
from valuesparse._validation import as_count, as_zeta
from valuesparse.crf.corpora._files import as_paths, digest_of, fingerprint, publishing
from valuesparse.crf.corpora._formats import (
    FORMATS,
    Marginals,
    batches,
    format_of,
    items_of,
    line_format,
)
from valuesparse.crf.corpora._lock import locked, require_mine
from valuesparse.crf.corpora._parquet import Table
from valuesparse.crf.corpora._reader import Extraction, Features, extraction_of, extractor_of
from valuesparse.crf.corpora._run_file import RunFile, Shard, tidy
from valuesparse.crf.corpora._templates import weight_of
from valuesparse.crf.corpora._text import boundary, first_line, is_gzip, largest, lines, located
from valuesparse.crf.corpora._text import text_size as size_of
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io._files import naming, read_file
from valuesparse.io.errors import TextFormatError
from valuesparse.threads import resolve

__all__ = ["BACKENDS", "MARGINALS", "CorpusReport", "tag_corpus"]

BACKENDS = ("threads", "loky", "dask", "ray", "spark")
#: Those that have to be registered with joblib in Python first.
REGISTERED = ("ray", "spark")
MARGINALS = ("best", "all", "none")

_SHARD = 4 << 20
# Bytes of attributes that are tagged together.
_WEIGHT = 8 << 20
# Shards per worker that are handed to backends which only say when all are done.
_WAVE = 8


class CorpusReport(NamedTuple):
    """What a run did.

    Attributes
    ----------
    outputs : tuple of Path
        The files of the whole output, in the order of the inputs.
    sentences, tokens : int
        How many this run tagged.
    skipped : int
        Shards that an earlier run had finished.
    """

    outputs: tuple[Path, ...]
    sentences: int
    tokens: int
    skipped: int


class _Settings(NamedTuple):
    """What decides the output, beside the inputs."""

    model: str  # its path
    digest: str
    extraction: Extraction
    zeta: float
    marginals: str
    threads: int


class _Job(NamedTuple):
    """One shard."""

    source: str
    kind: str
    first: int  # nominal bytes; of Parquet the row group
    last: int | None
    target: str
    size: int
    settings: _Settings
    run: str = ""  # which run of all that ever wrote to the folder


class _Done(NamedTuple):
    """What a shard was."""

    size: int
    sentences: int
    tokens: int
    shard: Shard


Item = TypeVar("Item")


class _Halted(Exception):
    """The run is over; whoever would hear of it has heard why."""


class _Halt:
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
                raise _Halted
            yield item

    def end(self) -> None:
        """Ask shards to end, and wait until they have; not for a function that hangs."""
        self._asked = True
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout=1.0)


@lru_cache(maxsize=2)
def _tagger(path: str, digest: str) -> Tagger:
    data = read_file(path)
    if digest_of(data) != digest:
        raise ValueError(f"{path} is not the model that the run began with")
    tagger = Tagger()
    with naming(path):
        tagger.open_inmemory(data)
    return tagger


def tag_corpus(
    model: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    features: Features | None = None,
    input_format: str | None = None,
    word: str | None = None,
    marginals: str = "best",
    zeta: float = 1.0,
    backend: str = "threads",
    jobs: int | None = None,
    scheduler: str | None = None,
    shard_bytes: int = _SHARD,
    progress: Callable[[int, int], object] | None = None,
) -> CorpusReport:
    """Tag files, and write the same files with tags and marginals.

    A file is cut into shards, which the file alone decides. Each is read as a stream, written under
    a temporary name, and gets its own name when it is complete and on disk. A run that finds shards
    finished leaves them as they are, and makes again what was cut short or changed since. It locks
    the folder, so that no other run writes there meanwhile. The output of an interrupted run and of
    the one that finished it is the same, bit for bit, as that of one run, with any backend and
    number of jobs.

    Parameters
    ----------
    model : path
        A CRFsuite model; what ``valuesparse train`` keeps beside it says how it wants its input.
    inputs : iterable of paths, or one path
        Files of one or several formats. Their names must differ.
    output : path
        A folder; it is made when it is not there.
    features : str or callable, optional
        How words become attributes: ``words``, ``cantonese``, ``template:PATH``,
        ``package.module:function``, or such a function itself; by default what the model was
        trained with, else ``words``. A model that was trained with a function wants it given again:
        what is kept beside a model never runs code.
    input_format : {"attributes", "conll", "conllu", "tsv", "parquet"}, optional
        By default the file's name tells.
    word : str, optional
        Name or number (from 1) of the column of words.
    marginals : {"best", "all", "none"}
        Write the probability of the tag, of every label, or nothing.
    zeta : float, default 1.0
        As in :meth:`Tagger.marginals_batch`.
    backend : {"threads", "loky", "dask", "ray", "spark"}
        Who does the work; see docs/corpora.md. All but threads and loky need `inputs`, `output`
        and `model` on a file system that all workers share.
    jobs : int, optional
        Shards at a time; by default as many as there are threads, or workers.
    scheduler : str, optional
        The address of the Dask scheduler.
    shard_bytes : int
        About how much of a text file makes a shard; compressed files are one shard each, and so is
        each row group of a Parquet file.
    progress : callable, optional
        Called with the bytes done and all bytes, after each shard.

    Returns
    -------
    CorpusReport

    Raises
    ------
    ValueError
        The folder holds the output of other settings or inputs, or another run writes there; the
        model asks for a function that was not given; an argument or a file is wrong: the message
        names the file and the line.
    OSError
        A file cannot be read or written.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if marginals not in MARGINALS:
        raise ValueError(f"marginals must be one of {', '.join(MARGINALS)}, not {marginals!r}")
    if input_format is not None and input_format not in FORMATS:
        raise ValueError(f"input_format must be one of {', '.join(FORMATS)}, not {input_format!r}")
    if scheduler is not None and backend != "dask":
        raise ValueError("scheduler is for backend='dask'")
    shard_bytes = as_count("shard_bytes", shard_bytes, at_least=1)
    jobs = None if jobs is None else as_count("jobs", jobs, at_least=1)
    path = Path(model).resolve()
    folder = Path(output).resolve()
    settings = _settings(path, features, word, as_zeta(zeta), marginals)
    _tagger(settings.model, settings.digest)  # says now what is wrong with it
    sources = [source.resolve() for source in as_paths(inputs)]
    if not sources:
        raise ValueError("inputs: there is no file")
    plan = [
        job
        for source in sources
        for job in _shards(source, folder, input_format, settings, shard_bytes)
    ]
    targets = [job.target for job in plan]
    if len(set(targets)) != len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise ValueError(f"inputs: two files would be written to {Path(twice).name}; rename one")
    folder.mkdir(parents=True, exist_ok=True)
    sentences = tokens = 0
    with locked(folder) as run:
        identity = _identity(settings, sources, plan, shard_bytes)
        state = RunFile(folder, identity, {Path(target).name for target in targets})
        tidy(folder)
        todo = [job for job in plan if Path(job.target).name not in state.finished]
        total = sum(job.size for job in plan)
        done = total - sum(job.size for job in todo)
        if progress is not None:
            progress(done, total)
        try:
            with closing(_run(todo, run, backend, jobs, scheduler)) as shards:
                for found in shards:
                    state.note(found.shard)
                    done, sentences = done + found.size, sentences + found.sentences
                    tokens += found.tokens
                    if progress is not None:
                        progress(done, total)
        finally:
            state.save()
        tidy(folder)
    outputs = tuple(map(Path, targets))
    return CorpusReport(outputs, sentences, tokens, len(plan) - len(todo))


def _settings(
    path: Path, features: Features | None, word: str | None, zeta: float, marginals: str
) -> _Settings:
    digest = digest_of(read_file(path))
    how = extraction_of(path, features, word, digest=digest)
    return _Settings(str(path), digest, how, zeta, marginals, 1)


def _shards(
    source: Path, folder: Path, input_format: str | None, settings: _Settings, shard: int
) -> Iterator[_Job]:
    """Yield the shards of a file."""
    kind = input_format or format_of(source)
    name = source.name
    if kind == "parquet":
        sizes = Table(source, settings.extraction.word, None).sizes
        spans: list[tuple[int, int | None]] = [(i, i + 1) for i in range(len(sizes))]
    else:
        line_format(source, kind, settings.extraction.word, None)
        size = size_of(source)
        count = 1 if is_gzip(source) else max(1, math.ceil(size / shard))
        spans = [(i * shard, (i + 1) * shard) for i in range(count)]
        spans[-1] = (spans[-1][0], None)
        sizes = [min(shard, size - i * shard) for i in range(count)] if count > 1 else [size]
    stem, dot, end = name.partition(".")
    for i, ((first, last), part) in enumerate(zip(spans, sizes, strict=True)):
        target = name
        if len(spans) > 1:
            target = f"{stem}-{i:05d}-of-{len(spans):05d}{dot}{end}"
        yield _Job(str(source), kind, first, last, str(folder / target), part, settings)


def _identity(
    settings: _Settings, sources: Sequence[Path], plan: Sequence[_Job], shard: int
) -> dict[str, Any]:
    """Return what decides the output, as the folder keeps it."""
    how = settings.extraction
    return {
        "model_sha256": settings.digest,
        # A template is what it says, wherever it lies.
        "features": how.features if how.template is None else "template",
        "template_sha256": how.digest,
        "word": how.word,
        "zeta": settings.zeta,
        "marginals": settings.marginals,
        "shard_bytes": shard,
        "formats": sorted({job.kind for job in plan}),
        "inputs": {source.name: fingerprint(source) for source in sources},
    }


def _run(
    todo: Sequence[_Job], run: str, backend: str, jobs: int | None, scheduler: str | None
) -> Generator[_Done, None, None]:
    """Tag shards; yield what each was when it is done."""
    if not todo:
        return
    todo = [job._replace(run=run) for job in todo]
    halt = _Halt()
    with ExitStack() as stack:
        stack.callback(halt.end)
        more: tuple[_Halt, ...] = ()
        if backend == "threads":
            threads = resolve(jobs)
            workers = min(threads, len(todo))
            # What shards leave idle works inside of them.
            each = max(1, threads // workers)
            todo = [job._replace(settings=job.settings._replace(threads=each)) for job in todo]
            _tagger(todo[0].settings.model, todo[0].settings.digest)
            if workers == 1:
                yield from map(_tag_shard, todo)
                return
            name, jobs, more = "threading", workers, (halt,)
        else:
            name = backend
        import joblib  # here: it takes a while to import

        if backend == "dask":
            require("dask", "dask", "distributed")
            import distributed

            if scheduler is not None:
                stack.enter_context(distributed.Client(scheduler, set_as_default=True))
            else:
                try:
                    distributed.get_client()
                except ValueError as error:
                    raise ValueError(
                        "backend 'dask' needs the address of its scheduler: scheduler=, or "
                        "--scheduler on the command line; or a distributed.Client made before"
                    ) from error
        stack.enter_context(joblib.parallel_config(backend=name, n_jobs=jobs or -1))
        calls = [joblib.delayed(_tag_shard)(job, *more) for job in todo]
        if joblib.parallel.get_active_backend()[0].supports_return_generator:
            parallel = joblib.Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs")
            yield from _given_up(parallel(calls), halt, threads=bool(more))
            return
        # Ray's and Spark's return lists only: in waves, so that progress can be told.
        wave = _WAVE * joblib.effective_n_jobs(jobs or -1)
        for at in range(0, len(calls), wave):
            yield from joblib.Parallel()(calls[at : at + wave])


def _given_up(results: Any, halt: _Halt, *, threads: bool) -> Iterator[Any]:
    """Yield results; who stops early wants no warning of what is cancelled."""
    try:
        while (result := next(results, None)) is not None:  # joblib sees no reader leave
            yield result
    except GeneratorExit:
        halt.end()
        with warnings.catch_warnings(), suppress(_Halted):
            warnings.simplefilter("ignore", UserWarning)
            while threads and next(results, None) is not None:
                pass  # up to the first that has been halted
            results.close()
        raise


def _tag_shard(job: _Job, halt: _Halt | None = None) -> _Done:
    """Tag one shard, wherever this runs."""
    halt = halt or _Halt()
    try:
        with halt.shard():
            sentences, tokens = (_tag_table if job.kind == "parquet" else _tag_lines)(job, halt)
    except TextFormatError as error:
        raise located(error, Path(job.source)) from None
    target = Path(job.target)
    # Read again, the file is still in the system's memory.
    shard = Shard(target.name, target.stat().st_size, fingerprint(target))
    return _Done(job.size, sentences, tokens, shard)


@contextmanager
def _writing(job: _Job) -> Iterator[IO[bytes]]:
    """Open the output of a shard, which appears when it is complete."""
    target = Path(job.target)
    with publishing(target) as file:
        yield file
        require_mine(target.parent, job.run)


def _answers(
    items: Sequence[Sequence[Any]], settings: _Settings
) -> tuple[list[list[str]], Sequence[Marginals | None]]:
    """Return the tags of sentences, and their marginals if those are wanted."""
    tagger = _tagger(settings.model, settings.digest)
    tags = tagger.tag_batch(items, threads=settings.threads)
    if settings.marginals == "none":
        return tags, [None] * len(tags)
    return tags, tagger.marginals_batch(items, zeta=settings.zeta, threads=settings.threads)


def _with_items(
    batches: Iterable[list[Item]],
    items_of: Callable[[Item], Sequence[Any]],
    job: _Job,
    halt: _Halt,
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


def _tag_lines(job: _Job, halt: _Halt) -> tuple[int, int]:
    settings, source = job.settings, Path(job.source)
    form = line_format(source, job.kind, settings.extraction.word, None)
    first = 0 if job.first == 0 else boundary(source, job.first)
    if form.header is not None and job.first == 0:
        first = first_line(source)[1]
    last = None if job.last is None else boundary(source, job.last)
    labels = _tagger(settings.model, settings.digest).labels()
    extract = None if job.kind == "attributes" else extractor_of(settings.extraction)
    sentences = tokens = 0
    with _writing(job) as file:
        file.write(form.heading(labels, settings.marginals).encode())
        blocks = form.blocks(_from(source, first, last), largest(source))
        word = form.columns.word
        for batch, items in _with_items(
            batches(halt.heeded(blocks)), lambda block: items_of(block, extract, word), job, halt
        ):
            for block, tags, table in zip(batch, *_answers(items, settings), strict=True):
                text = form.written(block, tags, table, labels, settings.marginals == "all")
                file.write(text.encode())
                sentences, tokens = sentences + bool(tags), tokens + len(tags)
    return sentences, tokens


def _from(source: Path, first: int, last: int | None) -> Iterator[Any]:
    """Yield lines; of a compressed file the header is read over, as it cannot be sought."""
    if first and is_gzip(source):
        found = lines(source)
        next(found, None)
        return found
    return lines(source, first, last)


def _tag_table(job: _Job, halt: _Halt) -> tuple[int, int]:
    settings = job.settings
    table = Table(Path(job.source), settings.extraction.word, None)
    extract = extractor_of(settings.extraction)
    labels = _tagger(settings.model, settings.digest).labels()
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
