"""Tag corpora of any size: in shards, as a stream, and from where it was interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from valuesparse._validation import as_choice, as_count, as_zeta, require_progress
from valuesparse.corpora._files import (
    Target,
    as_paths,
    digest_of,
    fingerprint,
    opened,
    require_target,
    state_of,
)
from valuesparse.corpora._jobs import ShardJob, Span, WrittenCounts, jobs_of, text_spans
from valuesparse.corpora._run import (
    SHARD,
    CorpusReport,
    how_of,
    run_shards,
)
from valuesparse.corpora._text import Given, as_source
from valuesparse.crf.corpora._beside import beside, constraints_of
from valuesparse.crf.corpora._features import files_behind, is_function
from valuesparse.crf.corpora._formats import COLUMNS, FORMATS, told_format
from valuesparse.crf.corpora._functions import find_function, identity_of
from valuesparse.crf.corpora._outputs import output_format as written_as
from valuesparse.crf.corpora._parquet import ParquetTable
from valuesparse.crf.corpora._reader import (
    Extraction,
    FeatureSource,
    extraction_of,
    kind_of,
    line_format,
)
from valuesparse.crf.corpora._shard import ShardSettings, tag_all, tag_shard, tagger_of
from valuesparse.io._files import read_file
from valuesparse.threads import resolve

__all__ = ["MARGINALS", "tag_corpus", "tag_file"]

MARGINALS = ("best", "all", "none")


def tag_corpus(
    model: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    features: FeatureSource | None = None,
    input_format: str | None = None,
    word: str | None = None,
    output_format: str | None = None,
    marginals: str = "best",
    n_best: int | None = None,
    constraints: str | None = None,
    zeta: float = 1.0,
    max_labels: int | None = None,
    backend: str = "threads",
    jobs: int | None = None,
    scheduler: str | None = None,
    shard_bytes: int = SHARD,
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
    input_format : {"attributes", "conll", "conllu", "tsv", "jsonl", "text", "parquet"}, optional
        By default the file's name tells, or else its first sentence.
    word : str, optional
        Name or number (from 1) of the column of words.
    output_format : {"conll", "tsv", "jsonl", "parquet"}, optional
        By default that of the input; of plain text CoNLL.
    marginals : {"best", "all", "none"}
        Write the probability of the tag, of every label, or nothing.
    n_best : int, optional
        Write so many of the best label sequences, each with the probability of the whole sequence
        unless `marginals` is "none". All formats but ``jsonl`` have room for 2,047 with their
        probabilities, and for 4,094 without.
    constraints : {"BIO", "BIOES", "IOB1", "none"}, optional
        As in :class:`Tagger`: no label sequence breaks this tagging scheme. By default the scheme
        that the model was trained under, as ``MODEL.json`` says; "none" stands for no scheme.
    zeta : float, default 1.0
        As in :meth:`Tagger.marginals_batch`.
    max_labels : int, optional
        As in :class:`Tagger`: the most labels that `model` may have.
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
        model asks for a function that was not given; an argument or a file is wrong, or a file
        changed while it was read: the message names the file and the line.
    OSError
        A file cannot be read or written, or a worker process was ended.
    """
    how = how_of(backend, jobs, scheduler, shard_bytes)
    require_progress(progress)
    path = Path(model).resolve()
    folder = Path(output).resolve()
    settings = _settings(
        path, features, word, zeta, marginals, output_format, n_best, constraints, max_labels
    )  # fmt: skip
    _require_format(input_format)
    sources = [source.resolve() for source in as_paths(inputs)]
    if not sources:
        raise ValueError("inputs: there is no file")
    plan = [
        job
        for source in sources
        for job in _shards(source, folder, input_format, settings, how.shard_bytes)
    ]
    identity = _identity(settings, sources, plan, how.shard_bytes)
    return run_shards(tag_shard, plan, folder, identity, how, progress)


def tag_file(
    model: str | os.PathLike[str],
    source: Given,
    target: Target,
    *,
    features: FeatureSource | None = None,
    input_format: str | None = None,
    word: str | None = None,
    output_format: str | None = None,
    marginals: str = "best",
    n_best: int | None = None,
    constraints: str | None = None,
    zeta: float = 1.0,
    max_labels: int | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> WrittenCounts:
    """Tag one file into another, or a stream as it comes, such as the standard input.

    Parameters
    ----------
    model, features, word, marginals, n_best, constraints, zeta, max_labels
        As for :func:`tag_corpus`.
    source : path or binary file
        The text to tag. A file that is open is read once, to its end; of Parquet a copy is made on
        disk, since its end is read first.
    target : path or binary file
        Where it goes: a file that appears when it is complete, or one that is open, to which
        sentences are written as they are done. It may be `source`, unless the output lacks
        something of it: attributes, or what another format has no place for.
    input_format : str, optional
        As for :func:`tag_corpus`; a file that is open is CoNLL.
    output_format : {"conll", "tsv", "jsonl", "parquet"}, optional
        By default what the name of `target` tells, else that of the input; of plain text CoNLL.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.
    progress : callable, optional
        Called now and then with the bytes done and all bytes, of a file of text.

    Returns
    -------
    WrittenCounts
        Sentences and tokens.

    Raises
    ------
    ValueError
        An argument or a file is wrong; the message names the file and the line.
    OSError
        A file cannot be read or written.
    """
    require_progress(progress)
    found = as_source(source)
    require_target(target)
    _require_format(input_format)
    kind = input_format or kind_of(found)
    told = told_format(Path(target)) if isinstance(target, (str, os.PathLike)) else None
    written = written_as(kind, output_format, told)
    settings = _settings(
        Path(model).resolve(), features, word, zeta, marginals, written, n_best, constraints,
        max_labels,
    )  # fmt: skip
    _require_possible(written, settings)
    if written == "parquet" and told is not None and str(target).endswith(".gz"):
        raise ValueError(f"{target}: Parquet is compressed by itself; leave out .gz")
    path = Path(model)
    read: dict[Any, str] = {path: "the model", beside(path): "what the model was trained with"}
    read.update(files_behind(features))
    # Text may be tagged in place where all of it is written again.
    if kind == "attributes" or kind != written:
        read[found] = "the input, of which not all is written"
    with opened(target, read) as file:
        return tag_all(found, kind, settings, resolve(threads), file, progress)


def require_together(n_best: int | None, marginals: str, zeta: float) -> None:
    """Raise ValueError where an argument has no meaning beside `n_best`."""
    if n_best is None:
        return
    if marginals == "all":
        raise ValueError(
            "--n-best (n_best=) has probabilities of whole sequences: --marginals (marginals=) "
            "must be best or none"
        )
    if as_zeta(zeta) < 1.0:
        raise ValueError("--n-best (n_best=) has no approximation: leave --zeta (zeta=) at 1")


def _require_format(input_format: str | None) -> None:
    if input_format is not None:
        as_choice("input_format", input_format, FORMATS, "not")


def _require_possible(written: str, settings: ShardSettings) -> None:
    if written == "parquet" and settings.n_best is not None:
        raise ValueError("n_best is for text; Parquet has no columns for it")
    if written != "jsonl" and settings.n_best is not None:
        # Beside the word and a label of its own; more than readers here take back is of no use.
        most = (COLUMNS - 2) // (1 if settings.marginals == "none" else 2)
        if settings.n_best > most:
            raise ValueError(
                f"--n-best (n_best=) is {settings.n_best:,}, and columns of {written} have room "
                f"for {most:,}: ask for fewer, or write jsonl, --output-format (output_format=)"
            )


def _settings(
    path: Path,
    features: FeatureSource | None,
    word: str | None,
    zeta: float,
    marginals: str,
    output_format: str | None,
    n_best: int | None,
    constraints: str | None,
    max_labels: int | None,
) -> ShardSettings:
    """Return what decides the output, once the arguments and the model are checked."""
    as_choice("marginals", marginals, MARGINALS, "not")
    if n_best is not None:
        n_best = as_count("n_best", n_best, at_least=1)
    require_together(n_best, marginals, zeta)
    digest = digest_of(read_file(path))
    how = extraction_of(path, features, word, digest=digest)
    constraints = constraints_of(path, constraints, digest)
    settings = ShardSettings(
        str(path), digest, how, as_zeta(zeta), marginals, output_format, n_best, constraints,
        max_labels,
    )  # fmt: skip
    tagger_of(*settings.opens)  # a bad model is refused now
    return settings


def _shards(
    source: Path, folder: Path, input_format: str | None, settings: ShardSettings, shard: int
) -> Iterator[ShardJob]:
    """Return the shards of a file."""
    seen = state_of(source)
    kind = input_format or kind_of(source)
    how = settings.extraction
    written = written_as(kind, settings.output_format)
    _require_possible(written, settings)
    if kind == "parquet":
        sizes = ParquetTable(source, how.word, None, how.places).sizes
        spans = [Span(i, i + 1, size) for i, size in enumerate(sizes)]
    else:
        line_format(source, kind, how)
        spans = text_spans(source, shard)
    name = source.name if written == kind else _renamed(source.name, written)
    return jobs_of(source, kind, folder, spans, settings, name, seen)


def _renamed(name: str, kind: str) -> str:
    """Return the name of a file in another format."""
    packed = ".gz" if name.endswith(".gz") and kind != "parquet" else ""
    return f"{Path(name.removesuffix('.gz')).stem}.{kind}{packed}"


def _identity(
    settings: ShardSettings, sources: Sequence[Path], plan: Sequence[ShardJob], shard: int
) -> dict[str, Any]:
    """Return what decides the output, as the folder keeps it."""
    how = settings.extraction
    more = {
        "constraints": settings.constraints,
        "n_best": settings.n_best,
        "output_format": settings.output_format,
    }
    return {
        **{name: value for name, value in more.items() if value is not None},
        "model_sha256": settings.digest,
        # A template is known by its text, wherever it lies.
        "features": how.features if how.template is None else "template",
        **_known(how),
        "template_sha256": how.digest,
        "word": how.word,
        "zeta": settings.zeta,
        "marginals": settings.marginals,
        "shard_bytes": shard,
        "formats": sorted({job.kind for job in plan}),
        "inputs": {source.name: fingerprint(source) for source in sources},
    }


def _known(how: Extraction) -> dict[str, str]:
    """Return what is known of a function of the user's; nothing where there is none."""
    if how.function is None and not is_function(how.features):
        return {}
    return identity_of(how.features, how.function or find_function(how.features, how.folder))
