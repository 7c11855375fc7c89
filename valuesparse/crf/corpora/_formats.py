"""Formats of corpora with a token a line: what the lines mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from valuesparse.corpora._blocks import blocks
from valuesparse.corpora._text import Line
from valuesparse.io._corpora import parse_item
from valuesparse.io.errors import TextFormatError

__all__ = [
    "ARGUMENTS",
    "COLUMNS",
    "CONLLU",
    "FORMATS",
    "ONE_LINE",
    "RETURNS",
    "Block",
    "Columns",
    "LineFormat",
    "items_of",
    "seen_format",
    "size_of",
    "told_format",
]

#: The most columns of a line: each is an object of its own.
COLUMNS = 4096

#: The fault of a file of an old Macintosh, which would be one long line.
RETURNS = "a carriage return within it; lines end with a line feed"

#: The arguments that name the columns of words and labels.
ARGUMENTS = ("word", "tags")

FORMATS = ("attributes", "conll", "conllu", "tsv", "jsonl", "text", "parquet")
#: Those with a sentence a line.
ONE_LINE = ("jsonl", "text")
_SUFFIXES = {
    ".conllu": "conllu", ".conll": "conll", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".crfsuite.txt": "attributes", ".attributes": "attributes", ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}  # fmt: skip
# Lines that are looked at where a name tells no format, and an attribute that has a name.
_SEEN = 1000
_SPACES = re.compile(" +")
_NAMED = re.compile(r"[^=:]+[=:].")
_WORDS = ("word", "form", "token", "words", "tokens")
_TAGS = ("tag", "label", "tags", "labels", "upos", "pos")
#: The names of CoNLL-U's columns.
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_HEAD = CONLLU.index("head")
#: The first column: a word, a range of words, or an empty node.
_ID = re.compile(r"\d+([-.]\d+)?")


def seen_format(lines: Iterable[Line]) -> str | None:
    r"""Return what the first sentence of a file without a telling name looks like; None: of two.

    CRFsuite's attributes stand apart by tabs, lines have any number of them, and most are such as
    ``w=the`` or ``age:2``. CoNLL has as many columns in each line of a sentence. CoNLL-U has ten,
    of which the first counts the words, and lines of comments.

    Examples
    --------
    >>> [
    ...     seen_format(Line(0, line) for line in text.split("\n"))
    ...     for text in ("the DET\ndog NOUN", "DET\tw=the\nNOUN\tw=dog", "the\tDET\ndog\tNOUN")
    ... ]
    ['conll', 'attributes', None]
    """
    rows: list[list[str]] = []
    for line in islice(lines, _SEEN):
        if line.text.strip(" \t"):
            rows.append(line.text.split("\t", COLUMNS))
        elif rows:
            break
    longer = [row for row in rows if len(row) > 1]
    if not longer:
        return "conll"
    if _is_conllu([row for row in rows if not row[0].startswith("#")]):
        return "conllu"
    # A comment says nothing about columns, and attributes have none.
    others = [row for row in rows if len(row) > 1 or not row[0].startswith("#")]
    uneven = len({len(row) for row in others}) > 1
    named = all(any(_NAMED.match(field) for field in row[1:]) for row in longer)
    return "attributes" if uneven or (named and len(others) == len(rows)) else None


def _is_conllu(rows: list[list[str]]) -> bool:
    """Return whether rows are CoNLL-U's: ten columns, the words counted, heads numbers or "_"."""
    if any(len(row) != len(CONLLU) or not _ID.fullmatch(row[0]) for row in rows):
        return False
    counted = [row[0] for row in rows if row[0].isdecimal()]
    if not counted or counted != [str(i + 1) for i in range(len(counted))]:
        return False
    return all(row[_HEAD] == "_" or row[_HEAD].isdecimal() for row in rows)


def told_format(path: Path) -> str | None:
    """Return the format that a file's name tells; None where it tells none."""
    name = path.name.lower().removesuffix(".gz")
    return next((kind for end, kind in _SUFFIXES.items() if name.endswith(end)), None)


class Block(NamedTuple):
    """The lines of one sentence.

    Attributes
    ----------
    lines : list of str
        All of them.
    at : list of int
        Which of them are tokens.
    rows : list of list of str
        The columns of those.
    items : list or None
        The attributes of tokens, where the file gives them.
    size : int
        The bytes of the text.
    record : dict or None
        The object that JSON Lines have in the place of these.
    """

    lines: list[str]
    at: list[int]
    rows: list[list[str]]
    items: list[dict[str, float]] | None
    size: int
    record: dict[str, Any] | None = None


class Columns(NamedTuple):
    """Which columns hold words and labels, from 0; -1 is the last."""

    word: int
    tag: int


class LineFormat:
    """Reads a format with a token a line.

    Parameters
    ----------
    kind : {"attributes", "conll", "conllu", "tsv"}
        Which.
    word, tag : str, optional
        Names of columns, or their numbers from 1.
    header : list of str, optional
        The first line of a TSV file.
    places : (str, str)
        Where `word` and `tag` were said, for errors.
    preferred : str, optional
        Another usual name of the column of labels.
    """

    def __init__(
        self,
        kind: str,
        word: str | None,
        tag: str | None,
        header: list[str] | None = None,
        places: tuple[str, str] = ARGUMENTS,
        preferred: str | None = None,
    ) -> None:
        self.kind = kind
        self.header = header
        self.places = places
        names: Sequence[str] = CONLLU if kind == "conllu" else header or ()
        usual = _TAGS if preferred is None else (preferred, *_TAGS)
        if kind == "tsv" and header and word is None and tag is None:
            self._check_header(header, (*_WORDS, *usual))
        self.columns = Columns(
            self._column(places[0], word, names, 1 if kind == "conllu" else 0, _WORDS),
            self._column(places[1], tag, names, 3 if kind == "conllu" else -1, usual),
        )
        self._several = self._same_name(tag)

    def _column(
        self, what: str, given: str | None, names: Sequence[str], default: int, usual: Iterable[str]
    ) -> int:
        lowered = [name.lower() for name in names]
        if given is None:
            if self.kind != "tsv":
                return default
            return next((lowered.index(name) for name in usual if name in lowered), default)
        if not isinstance(given, str):
            raise TypeError(f"{what} must be text, a name or a number such as '1', got {given!r}")
        if given.lower() in lowered:
            return lowered.index(given.lower())
        try:
            number = int(given)
        except ValueError:
            number = 0
        if number < 1 or (names and number > len(names)):
            known = f" or the name of one: {', '.join(names)}" if names else ""
            raise ValueError(f"{what}: {given!r} must be the number of a column, from 1{known}")
        return number - 1

    def _check_header(self, header: list[str], usual: Sequence[str]) -> None:
        """Refuse a first line that is no line of names: its words would be lost."""
        if not any(name.lower() in usual for name in header):
            word, tag = self.places
            raise ValueError(
                f"the first line of a TSV file must name its columns, such as word and tag, and "
                f"has {', '.join(header[:4])!r}: add a line of names, or say which columns hold "
                f"words and labels by {word} and {tag}"
            )

    def _same_name(self, tag: str | None) -> str | None:
        """Return what is wrong where labels were found by a name that several columns have."""
        at = self.columns.tag
        if self.kind != "tsv" or not self.header or at < 0:
            return None
        lowered = [name.lower() for name in self.header]
        same = [str(i + 1) for i, name in enumerate(lowered) if name == lowered[at]]
        if len(same) < 2 or (tag is not None and tag.lower() != lowered[at]):
            return None
        return (
            f"{self.places[1]}: columns {', '.join(same)} are all named {lowered[at]!r}; say the "
            "number of one"
        )

    def blocks(self, lines: Iterable[Line], largest: int) -> Iterator[Block]:
        """Yield the sentences; the last may want its blank line.

        Parameters
        ----------
        lines : iterable of Line
            The lines.
        largest : int
            The most bytes that a sentence may have.

        Raises
        ------
        TextFormatError
            A line is not what the format wants, or a sentence has more than 16,000 lines, or too
            much text.
        """
        for held, offsets in blocks(lines, largest, " \t" if self.kind == "conll" else ""):
            yield self._block(held, offsets)

    def _block(self, lines: list[str], offsets: Sequence[int]) -> Block:
        """Return what the lines of one sentence mean."""
        size = offsets[-1] - offsets[0] + len(lines[-1])
        block = Block(lines, [], [], [] if self.kind == "attributes" else None, size)
        for at, (line, offset) in enumerate(zip(lines, offsets, strict=True)):
            row = self._row(line, offset)
            if row is None:
                continue
            if self.kind == "conll" and block.rows and len(row) != len(block.rows[0]):
                raise TextFormatError(
                    "sentence", offset,
                    f"{len(row)} columns, the tokens before it have {len(block.rows[0])}",
                    0, line[:40],
                )  # fmt: skip
            block.at.append(at)
            block.rows.append(row)
            if block.items is not None:
                item, row[0] = parse_item(line, 0, offset)
                block.items.append(item)
        return block

    def _row(self, text: str, offset: int) -> list[str] | None:
        if self.kind == "conllu" and text.startswith("#"):
            return None
        if "\r" in text:
            raise TextFormatError("line", offset, RETURNS, 0, text[:40])
        if self.kind == "attributes":
            return text.split("\t", 1)[:1]
        if self.kind != "conll" or "\t" in text:
            row = text.split("\t", COLUMNS)
        else:  # any other white space, such as U+00A0, is part of a word
            row = _SPACES.split(text.strip(" "), COLUMNS)
        if len(row) > COLUMNS:
            problem = f"more than {COLUMNS:,} columns"
            raise TextFormatError("sentence", offset, problem, 0, text[:40])
        if self.kind == "conllu":
            if len(row) != len(CONLLU):
                raise TextFormatError(
                    "sentence", offset,
                    f"{len(row)} columns apart by tabs, CoNLL-U has {len(CONLLU)}", 0, text[:40],
                )  # fmt: skip
            if not row[0].isdecimal():  # a range such as 3-4, or an empty node such as 5.1
                return None
        if self.header is not None and len(row) != len(self.header):
            raise TextFormatError(
                "sentence", offset,
                f"{len(row)} columns apart by tabs, the first line names {len(self.header)}",
                0, text[:40],
            )  # fmt: skip
        word = self.columns.word
        if not -len(row) <= word < len(row) or not row[word]:
            where = self.places[0]
            source = "" if where == ARGUMENTS[0] else f" ({where})"
            problem = f"no column {word + 1}, the word{source}, among {len(row)}"
            if -len(row) <= word < len(row):
                problem = f"no column {word + 1}, the word{source}: it is empty"
            raise TextFormatError("sentence", offset, problem, 0, text[:40])
        return row

    def labels(self, block: Block, labelled: bool) -> list[str] | None:
        """Return the labels that the file gives the tokens.

        Unless they must be `labelled`, None where there is no column but that of the words.
        """
        if labelled and self._several is not None:
            raise ValueError(self._several)
        found = []
        tag = 0 if self.kind == "attributes" else self.columns.tag
        for row in block.rows:
            if not -len(row) <= tag < len(row):
                raise ValueError(
                    f"{self.places[1]}: no column {tag + 1} among the {len(row)} of {row[0]!r}"
                )
            if self.kind != "attributes" and tag % len(row) == self.columns.word % len(row):
                if not labelled:
                    return None
                raise ValueError(
                    f"{self.places[1]}: column {tag % len(row) + 1} of {len(row)}, as of "
                    f"{row[0]!r}, is that of the words"
                )
            found.append(row[tag])
        return found


def size_of(block: Block) -> tuple[int, int]:
    """Return the tokens and the bytes of a sentence."""
    return len(block.rows), block.size


def items_of(block: Block, extract: Any, word: int) -> Sequence[Any]:
    """Return the attributes of a sentence's tokens."""
    if block.items is not None:
        return block.items
    return extract(block.rows, word) if block.rows else []
