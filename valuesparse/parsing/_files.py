"""Treebanks: files of sentences, read as a stream and written in one piece."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from valuesparse.corpora._blocks import blocks
from valuesparse.corpora._files import publishing
from valuesparse.corpora._text import Line, Source, largest, lines, located
from valuesparse.io.errors import TextFormatError
from valuesparse.parsing._conll import Lines, as_check, as_format, format_of, sentence_of, text_of
from valuesparse.parsing._sentences import Sentence, error_of, require_sentence

__all__ = ["lines_of", "read_conll", "write_conll"]

# The most characters of a sentence that is not from a file.
_LARGEST = 64 << 20


def read_conll(
    source: str | os.PathLike[str] | Iterable[str],
    format: str | None = None,
    check: str | None = None,
) -> Iterator[Sentence]:
    r"""Read the sentences of a CoNLL-U or CoNLL-X file, one after the other.

    The file is read as the iterator goes on, so that it may be of any size; ``list(...)`` has all.
    Lines may end in CR LF, the file may begin with a byte order mark and may be gzipped. No
    character of a cell is changed.

    Parameters
    ----------
    source : path, or iterable of str
        The file, or its lines.
    format : {"conllu", "conllx"}, optional
        By default the file's name tells: ``.conllx`` and ``.conll`` are CoNLL-X, with or without
        ``.gz``, all else is CoNLL-U.
    check : {None, "training"}
        With "training" the heads of each sentence have to make a tree, and sentences without
        words are left out.

    Yields
    ------
    Sentence

    Raises
    ------
    vs.io.TextFormatError
        A `ValueError` with file and line: a row without ten columns, IDs out of order, a HEAD that
        is no number, an empty FORM, a second carriage return at the end of a line; for training a
        head that is missing or out of range, or heads that go round in a circle.
    vs.io.ModelFormatError
        Gzip data that are damaged, or grow beyond 1 MiB and 40 times their size.
    ValueError
        An argument is wrong.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import valuesparse as vs
    >>> row = "1\tHello\thello\tINTJ\t_\t_\t0\troot\t_\tSpaceAfter=No"
    >>> [s] = vs.parsing.read_conll(["# text = Hello", row])
    >>> s.forms, s.heads.tolist(), s.comments
    (['Hello'], [0], ['# text = Hello'])
    """
    as_format(format)
    as_check(check)
    if not isinstance(source, (str, os.PathLike)):
        return _from_lines(source, format or "conllu", check)
    path = Path(source)
    os.stat(path)  # what is not there is told now, not when the first sentence is asked for
    return _from_file(path, format or format_of(path) or "conllu", check)


def _from_file(path: Path, form: str, check: str | None) -> Iterator[Sentence]:
    kept: dict[str, str] = {}
    try:
        for found in lines_of(path):
            sentence = sentence_of(found, form, check, kept)
            if check is None or len(sentence):
                yield sentence
    except TextFormatError as error:
        raise located(error, path) from None


def lines_of(path: Source, first: int = 0, last: int | None = None) -> Iterator[Lines]:
    """Yield the lines of each sentence of a file from one byte up to another."""
    for held, offsets in blocks(lines(path, first, last), largest(path)):
        yield Lines(held, offsets)


def _from_lines(source: Iterable[str], form: str, check: str | None) -> Iterator[Sentence]:
    kept: dict[str, str] = {}
    try:
        for held, numbers in blocks(_numbered(source), _LARGEST):
            sentence = sentence_of(Lines(held, numbers), form, check, kept)
            if check is None or len(sentence):
                yield sentence
    except TextFormatError as error:
        chunk, line, problem, _, token = error.args
        raise TextFormatError(chunk, line, problem, line + 1, token) from None


def _numbered(source: Iterable[str]) -> Iterator[Line]:
    """Yield lines; instead of where they begin, their numbers from 0."""
    for number, line in enumerate(source):
        if not isinstance(line, str):
            raise TypeError(
                f"source must be a path or lines of str, and line {number + 1} is "
                f"{type(line).__name__}"
            )
        text = line.removesuffix("\n").removesuffix("\r")
        yield Line(number, text if number else text.removeprefix("\ufeff"))


def write_conll(
    sentences: Iterable[Sentence], path: str | os.PathLike[str], format: str | None = None
) -> None:
    r"""Write sentences to a CoNLL-U or CoNLL-X file, which appears when it is complete.

    Sentences that were read are written as they were, but for line ends (LF), byte order mark
    (none) and blank lines (one after each sentence). A sentence with `confidence` gets
    ``HeadProbability=`` in MISC, among the entries that are there; CoNLL-X has no column for it.

    Parameters
    ----------
    sentences : iterable of Sentence
        The sentences; they are written one after the other, and never all in memory.
    path : path
        The file; ``.gz`` at the end of its name compresses.
    format : {"conllu", "conllx"}, optional
        By default what the name tells, else that of each sentence. A sentence of the other format
        loses its last two columns, which mean something else there, and in CoNLL-X ranges and empty
        nodes.

    Raises
    ------
    ValueError
        A cell holds a tab or the end of a line, a line of `others` is neither a comment nor a
        range or an empty node, or columns have come to differ in length; the message names the
        sentence. No file is there then, or the one that was. (Sentences of more than 16,000 lines
        are written, but no reader here takes them.)
    TypeError
        Something that is no Sentence, or a cell that is no str; likewise.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib, valuesparse as vs
    >>> s = vs.parsing.Sentence(["Dogs", "bark"], heads=[2, 0], labels=["nsubj", "root"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.conllu")
    ...     vs.parsing.write_conll([s], path)
    ...     path.read_text().split("\n")[0].expandtabs(1)
    '1 Dogs _ _ _ _ 2 nsubj _ _'
    """
    target = Path(path)
    form = as_format(format) or format_of(target)
    with publishing(target) as file:
        for i, sentence in enumerate(sentences):
            require_sentence(sentence, i)
            try:
                text = text_of(sentence, form).encode()
            except (TypeError, ValueError) as error:
                raise error_of(sentence, i, error) from None
            file.write(text)
