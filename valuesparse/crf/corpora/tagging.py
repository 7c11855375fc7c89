"""Tag corpora of any size: in shards, as a stream, and from where it was interrupted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from valuesparse._validation import as_count, as_zeta
from valuesparse.crf.corpora._backends import BACKENDS, run_jobs
from valuesparse.crf.corpora._files import as_paths, digest_of, fingerprint
from valuesparse.crf.corpora._formats import FORMATS, format_of, line_format
from valuesparse.crf.corpora._lock import locked
from valuesparse.crf.corpora._parquet import ParquetTable
from valuesparse.crf.corpora._reader import FeatureSource, extraction_of
from valuesparse.crf.corpora._run_file import RunFile, tidy
from valuesparse.crf.corpora._shard import Job, Settings, tagger_of
from valuesparse.crf.corpora._text import is_gzip
from valuesparse.crf.corpora._text import text_size as size_of
from valuesparse.io._files import read_file

__all__ = ["MARGINALS", "CorpusReport", "tag_corpus"]

MARGINALS = ("best", "all", "none")

_SHARD = 4 << 20


class CorpusReport(NamedTuple):
    """The outputs and counts of a run.

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


def tag_corpus(
    model: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    features: FeatureSource | None = None,
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
    tagger_of(settings.model, settings.digest)  # a bad model is refused now
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
            with closing(run_jobs(todo, run, backend, jobs, scheduler)) as shards:
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
    path: Path, features: FeatureSource | None, word: str | None, zeta: float, marginals: str
) -> Settings:
    digest = digest_of(read_file(path))
    how = extraction_of(path, features, word, digest=digest)
    return Settings(str(path), digest, how, zeta, marginals, 1)


def _shards(
    source: Path, folder: Path, input_format: str | None, settings: Settings, shard: int
) -> Iterator[Job]:
    """Yield the shards of a file."""
    kind = input_format or format_of(source)
    name, how = source.name, settings.extraction
    if kind == "parquet":
        sizes = ParquetTable(source, how.word, None, how.places).sizes
        spans: list[tuple[int, int | None]] = [(i, i + 1) for i in range(len(sizes))]
    else:
        line_format(source, kind, how.word, None, how.places)
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
        yield Job(str(source), kind, first, last, str(folder / target), part, settings)


def _identity(
    settings: Settings, sources: Sequence[Path], plan: Sequence[Job], shard: int
) -> dict[str, Any]:
    """Return what decides the output, as the folder keeps it."""
    how = settings.extraction
    return {
        "model_sha256": settings.digest,
        # A template is known by its text, wherever it lies.
        "features": how.features if how.template is None else "template",
        "template_sha256": how.digest,
        "word": how.word,
        "zeta": settings.zeta,
        "marginals": settings.marginals,
        "shard_bytes": shard,
        "formats": sorted({job.kind for job in plan}),
        "inputs": {source.name: fingerprint(source) for source in sources},
    }
