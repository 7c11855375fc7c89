r"""Labelled sequences as text: CRFsuite's attribute files, and CoNLL-U.

An attribute file has one item a line, a label and attributes apart by tabs, and a blank line after
each sequence. ``name:value`` weighs an attribute, ``name`` counts 1, and in names ``\:`` is a
colon and ``\\`` a backslash.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from valuesparse.io._files import Source, read_bytes
from valuesparse.io.errors import TextFormatError

__all__ = ["Items", "Words", "parse_item", "read_attribute_file", "read_conllu"]

# A name or a value: what is escaped, and anything else up to a colon.
_FIELD = re.compile(r"(?:\\.|[^:\\]|\\$)*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_COLUMNS = 10  # of CoNLL-U


class Items(NamedTuple):
    """A sequence of an attribute file: per item the attributes and the label."""

    items: list[dict[str, float]]
    labels: list[str]


class Words(NamedTuple):
    """A sentence of a CoNLL-U file."""

    words: list[str]
    upos: list[str]
    xpos: list[str]


def read_attribute_file(source: Source) -> Iterator[Items]:
    r"""Yield the sequences of a CRFsuite attribute file.

    Parameters
    ----------
    source : path, file object or bytes
        UTF-8 text, plain or gzipped.

    Yields
    ------
    Items
        An attribute that an item repeats has the sum of its values, which scores the same.

    Raises
    ------
    TextFormatError
        Naming the line, when a value is no finite number or the text is not UTF-8.

    Examples
    --------
    >>> [sequence] = read_attribute_file(b"N\tw=\\:\tlength:3\nV\tw=go\n")
    >>> sequence.items[0], sequence.labels
    ({'w=:': 1.0, 'length': 3.0}, ['N', 'V'])
    """
    items: list[dict[str, float]] = []
    labels: list[str] = []
    for number, offset, line in _lines(source):
        if not line:
            if items:
                yield Items(items, labels)
                items, labels = [], []
            continue
        item, label = parse_item(line, number, offset)
        items.append(item)
        labels.append(label)
    if items:
        yield Items(items, labels)


def read_conllu(source: Source) -> Iterator[Words]:
    r"""Yield the sentences of a CoNLL-U file: its words, without ranges and empty nodes.

    Parameters
    ----------
    source : path, file object or bytes
        UTF-8 text, plain or gzipped.

    Yields
    ------
    Words
        Words and both columns of tags.

    Raises
    ------
    TextFormatError
        Naming the line, when it has not ten columns or the text is not UTF-8.

    Examples
    --------
    >>> text = b"# text = Go\n1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n\n"
    >>> list(read_conllu(text))
    [Words(words=['Go'], upos=['VERB'], xpos=['VB'])]
    """
    sentence = Words([], [], [])
    for number, offset, line in _lines(source):
        if line.startswith("#"):
            continue
        if not line:
            if sentence.words:
                yield sentence
                sentence = Words([], [], [])
            continue
        columns = line.split("\t")
        if len(columns) != _COLUMNS or not columns[1]:
            problem = f"{len(columns)} columns apart by tabs, CoNLL-U has {_COLUMNS}"
            if len(columns) == _COLUMNS:
                problem = "the second column, the word, is empty"
            raise TextFormatError("sentence", offset, problem, number, line[:40])
        if columns[0].isdecimal():  # else a range such as 3-4, or an empty node such as 5.1
            for column, value in zip(sentence, (columns[1], *columns[3:5]), strict=True):
                column.append(value)
    if sentence.words:
        yield sentence


def _lines(source: Source) -> Iterator[tuple[int, int, str]]:
    """Yield number, offset and text of each line, without its end."""
    offset = 0
    for number, raw in enumerate(read_bytes(source).split(b"\n"), 1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            at = offset + error.start
            raise TextFormatError("text", at, f"not UTF-8: {error.reason}", number, "") from None
        yield number, offset, text.removesuffix("\r")
        offset += len(raw) + 1


def parse_item(line: str, number: int, offset: int) -> tuple[dict[str, float], str]:
    """Return the attributes and the label of a line of an attribute file."""
    label, *fields = line.split("\t")
    item: dict[str, float] = {}
    for field in fields:
        if field:
            name, value = _attribute(field, number, offset)
            item[name] = item.get(name, 0.0) + value
    return item, _plain(_name_of(label))


def _attribute(field: str, number: int, offset: int) -> tuple[str, float]:
    """Return name and value of an attribute."""
    name = _name_of(field)
    text = field[len(name) + 1 :]
    if not text:
        return _plain(name), 1.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        problem = f"{text[:40]!r} is not a finite number; write \\: for a colon in a name"
        raise TextFormatError(f"attribute {name[:40]!r}", offset, problem, number, field[:40])
    return _plain(name), value


def _name_of(field: str) -> str:
    """Return what comes before the first colon that is not escaped, escapes kept."""
    match = _FIELD.match(field)
    return match[0] if match else ""


def _plain(text: str) -> str:
    """Return a name with its escapes undone."""
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text
