"""Whole files of sentences, parsed as a stream, or in shards by `valuesparse.corpora`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from valuesparse._validation import as_choice, require_progress
from valuesparse.corpora._ahead import ahead
from valuesparse.corpora._blocks import batches
from valuesparse.corpora._files import (
    Target,
    as_paths,
    fingerprint,
    opened,
    require_target,
    state_of,
)
from valuesparse.corpora._jobs import (
    Done,
    Halt,
    ShardJob,
    WrittenCounts,
    done,
    jobs_of,
    span_of,
    text_spans,
    writing,
)
from valuesparse.corpora._run import (
    SHARD,
    CorpusReport,
    how_of,
    run_shards,
)
from valuesparse.corpora._stream import Stream
from valuesparse.corpora._text import Given, Source, as_source, located
from valuesparse.io.errors import TextFormatError
from valuesparse.parsing._conll import Lines, as_format, format_of, sentence_of, text_of
from valuesparse.parsing._files import lines_of
from valuesparse.parsing._parser import Parser
from valuesparse.parsing._sentences import Sentence
from valuesparse.threads import resolve

__all__ = ["ON_ERROR", "parse_corpus", "parse_file", "parse_shard"]

#: Ways to treat a sentence that cannot be read or parsed: an error, or a copy of its lines.
ON_ERROR = ("stop", "skip")

# The number of sentences of a shard whose notes say why they were left as they were.
_TOLD = 5


class ParseSettings(NamedTuple):
    """All that decides the output, beside the inputs, and the threads in each shard."""

    load: Callable[[str], Parser]  # a function of a module, so that it pickles
    model: str  # its path
    digest: str
    options: dict[str, Any]
    on_error: str
    threads: int | None  # None: as many as the run gives a shard


def parse_file(
    parser: Parser,
    source: Given,
    target: Target,
    *,
    options: Mapping[str, Any],
    input_format: str | None = None,
    output_format: str | None = None,
    on_error: str = "stop",
    progress: Callable[[WrittenCounts], object] | None = None,
) -> WrittenCounts:
    """Parse one file into another, or a stream as it comes, such as the standard input.

    Parameters
    ----------
    parser : Parser
        The parser.
    source : path or binary file
        CoNLL-U or CoNLL-X. A file that is open is read once, to its end.
    target : path or binary file
        A file that appears when it is complete, or one that is open, to which sentences are
        written as they are parsed.
    options : mapping
        Arguments of the parser's method `parse`.
    input_format : {"conllu", "conllx"}, optional
        By default what the name tells, else CoNLL-U.
    output_format : {"conllu", "conllx"}, optional
        By default what the name of `target` tells, else that of the input.
    on_error : {"stop", "skip"}
        Whether a sentence that cannot be read or parsed is an error, or left as it was.
    progress : callable, optional
        Called with the counts so far, after each batch; with the method "lp" after each sentence.

    Returns
    -------
    WrittenCounts

    Raises
    ------
    ValueError
        An argument or a file is wrong, with the file and the line; there is no output then.
    OSError
        A file cannot be read or written.
    """
    require_progress(progress)
    _require_known(on_error)
    _try(parser, options)
    path = as_source(source)
    require_target(target)
    form = as_format(output_format)
    if form is None and isinstance(target, (str, os.PathLike)):
        form = format_of(Path(target))
    total = WrittenCounts(0, 0)

    def told(found: Iterable[Sentence]) -> Iterator[Sentence]:
        so_far = total
        for sentence in found:
            yield sentence
            so_far = _sum(so_far, WrittenCounts(1, len(sentence)))
            assert progress is not None
            progress(so_far)

    # Only "lp" finds one sentence after the other, each in its own time.
    follow = told if progress is not None and options.get("method") == "lp" else iter
    how = _ParsedAs(
        parser, dict(options), on_error, as_format(input_format) or _form(path), form, follow
    )
    try:
        with opened(target) as file:
            for text, counts in _parsed(lines_of(path), how, path):
                file.write(text.encode())
                total = _sum(total, counts)
                if progress is not None:
                    progress(total)
    except TextFormatError as error:
        raise located(error, path) from None
    return total


def parse_corpus(
    load: Callable[[str], Parser],
    model: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    options: Mapping[str, Any],
    input_format: str | None = None,
    on_error: str = "stop",
    threads: int | None = None,
    backend: str = "threads",
    jobs: int | None = None,
    scheduler: str | None = None,
    shard_bytes: int = SHARD,
    progress: Callable[[int, int], object] | None = None,
    tell: Callable[[WrittenCounts], object] | None = None,
) -> CorpusReport:
    """Parse files in shards, and go on from where such a run was interrupted.

    Parameters
    ----------
    load : callable
        A function of a module that loads `model`; workers call it.
    model : path
        The model.
    inputs : iterable of paths, or one path
        Files of CoNLL-U or CoNLL-X. Their names must differ.
    output : path
        A folder; it is made when it is not there.
    options, input_format, on_error
        As of `parse_file`; `options` are kept in the folder as JSON.
    threads : int, optional
        In each shard; by default the cores that shards leave idle.
    backend, jobs, scheduler, shard_bytes, progress
        As of `valuesparse.crf.tag_corpus`.
    tell : callable, optional
        Called with the counts of each shard that this run did.

    Returns
    -------
    CorpusReport

    Raises
    ------
    ValueError
        The folder holds the output of other settings or inputs, or another run writes there; an
        argument or a file is wrong, or a file changed while it was read: the message names the file
        and the line.
    OSError
        A file cannot be read or written, or a worker process was ended.
    """
    how = how_of(backend, jobs, scheduler, shard_bytes)
    require_progress(progress)
    _require_known(on_error)
    path, folder = Path(model).resolve(), Path(output).resolve()
    settings = ParseSettings(load, str(path), fingerprint(path), dict(options), on_error, threads)
    _try(_parser_of(load, settings.model, settings.digest), options)
    sources = [source.resolve() for source in as_paths(inputs)]
    if not sources:
        raise ValueError("inputs: there is no file")
    plan = [
        job
        for source in sources
        for seen in [state_of(source)]  # before anything of it is read
        for job in jobs_of(
            source,
            as_format(input_format) or _form(source),
            folder,
            text_spans(source, how.shard_bytes),
            settings,
            seen=seen,
        )
    ]
    identity = {
        "model_sha256": settings.digest,
        **options,
        "on_error": on_error,
        "shard_bytes": how.shard_bytes,
        "inputs": {source.name: fingerprint(source) for source in sources},
    }
    return run_shards(parse_shard, plan, folder, identity, how, progress, tell)


def parse_shard(job: ShardJob, halt: Halt | None = None) -> Done:
    """Parse one shard, wherever this runs."""
    return done(job, halt, _parse_lines)


def _parse_lines(job: ShardJob, halt: Halt) -> WrittenCounts:
    load, model, digest, options, on_error, threads = job.settings
    options = {**options, "threads": threads or job.threads}
    how = _ParsedAs(_parser_of(load, model, digest), options, on_error, job.kind, None, halt.heeded)
    source = Path(job.source)
    total = WrittenCounts(0, 0)
    with writing(job) as file:
        found = halt.heeded(lines_of(source, *span_of(job)))
        for text, counts in _parsed(found, how, source):
            file.write(text.encode())
            total = _sum(total, counts)
    return total


@lru_cache(maxsize=2)
def _parser_of(load: Callable[[str], Parser], path: str, digest: str) -> Parser:
    if fingerprint(Path(path)) != digest:
        raise ValueError(f"{path} is not the model that the run began with")
    return load(path)


class _ParsedAs(NamedTuple):
    """How a text is parsed."""

    parser: Parser
    options: dict[str, Any]
    on_error: str
    form: str  # of the input
    target_form: str | None  # of the output, None for the same
    follow: Callable[[Iterable[Sentence]], Iterator[Sentence]]  # yields them as they are parsed


def _require_known(on_error: str) -> None:
    as_choice("on_error", on_error, ON_ERROR, "not")


def _try(parser: Parser, options: Mapping[str, Any]) -> None:
    """Refuse options that are wrong before a sentence is blamed for them."""
    for _ in parser.parse([], **options):
        pass


def _form(source: Source) -> str:
    return format_of(Path(source.name)) or "conllu"


def _sum(one: WrittenCounts, other: WrittenCounts) -> WrittenCounts:
    return WrittenCounts(
        one.sentences + other.sentences,
        one.tokens + other.tokens,
        one.left + other.left,
        (*one.notes, *other.notes)[:_TOLD],
    )


class _SentenceBatch(NamedTuple):
    """Sentences that are parsed together; of one that cannot be read, why, and an empty one."""

    lines: list[Lines]
    sentences: list[Sentence]
    bad: dict[int, TextFormatError]


def _read(found: Iterable[Lines], how: _ParsedAs) -> Iterator[_SentenceBatch]:
    for lines in batches(found, _measure):
        sentences: list[Sentence] = []
        bad: dict[int, TextFormatError] = {}
        for i, one in enumerate(lines):
            try:
                sentences.append(sentence_of(one, how.form))
            except TextFormatError as error:
                bad[i] = error
                sentences.append(Sentence([]))
                if how.on_error == "stop":
                    break  # those before it may be worse
        yield _SentenceBatch(lines[: len(sentences)], sentences, bad)


def _parsed(
    found: Iterable[Lines], how: _ParsedAs, source: Source
) -> Iterator[tuple[str, WrittenCounts]]:
    """Yield the text of sentences that are parsed together, and their counts.

    Raises
    ------
    TextFormatError
        A sentence cannot be read or parsed, and none may be left; without the file.
    """
    told = 0
    read = _read(found, how)
    # On one thread nothing is done beside it, and whoever waits for a pipe can be interrupted.
    alone = isinstance(source, Stream) or resolve(how.options.get("threads")) == 1
    for batch in read if alone else ahead(read):
        sentences, bad = batch.sentences, dict(batch.bad)
        todo = [i for i, sentence in enumerate(sentences) if len(sentence)]
        answers = dict(zip(todo, _answers([sentences[i] for i in todo], how), strict=True))
        texts = []
        for i, lines in enumerate(batch.lines):
            answer = answers.get(i, sentences[i])
            if isinstance(answer, ValueError):
                offset, token = lines.offsets[0], lines.lines[0][:40]
                bad[i] = TextFormatError("sentence", offset, str(answer), 0, token)
            if i not in bad:
                assert isinstance(answer, Sentence)
                texts.append(text_of(answer, how.target_form))
            elif how.on_error == "stop":
                raise bad[i]
            else:
                texts.append(_unparsed(lines))
        notes = [str(located(error, source)) for error in [*bad.values()][: _TOLD - told]]
        told += len(notes)
        right = [i for i in todo if i not in bad]
        tokens = sum(len(sentences[i]) for i in right)
        yield "".join(texts), WrittenCounts(len(right), tokens, len(bad), tuple(notes))


def _unparsed(found: Lines) -> str:
    """Return the text of a sentence that is left as it was."""
    # The reader took one of two carriage returns at the end of a line.
    whole = (f"{line}\r" if line.endswith("\r") else line for line in found.lines)
    return "\n".join(whole) + "\n\n"


def _measure(found: Lines) -> tuple[int, int]:
    size = found.offsets[-1] - found.offsets[0] + len(found.lines[-1])
    return len(found.lines), size


def _answers(sentences: Sequence[Sentence], how: _ParsedAs) -> list[Sentence | ValueError]:
    """Return the sentences with trees, or why they have none."""
    if not sentences:
        return []
    try:
        found = list(how.follow(how.parser.parse(sentences, **how.options)))
    except ValueError as error:
        if len(sentences) == 1:
            return [error]
        # One of them is to blame: each alone.
        return [answer for sentence in sentences for answer in _answers([sentence], how)]
    assert len(found) == len(sentences)
    return list(found)
