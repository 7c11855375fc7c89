"""Formats of corpora: the meaning of their lines, and the lines written once they are tagged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.corpora._blocks import blocks
from valuesparse.corpora._text import Line, first_line
from valuesparse.io._corpora import parse_item
from valuesparse.io.errors import TextFormatError

__all__ = [
    "ARGUMENTS",
    "FORMATS",
    "Block",
    "LineFormat",
    "format_of",
    "items_of",
    "line_format",
    "size_of",
]

#: The most columns of a line: each is an object of its own.
COLUMNS = 4096

#: The arguments that name the columns of words and labels.
ARGUMENTS = ("word", "tags")

FORMATS = ("attributes", "conll", "conllu", "tsv", "parquet")
_SUFFIXES = {
    ".conllu": "conllu", ".conll": "conll", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".crfsuite.txt": "attributes", ".attributes": "attributes",
}  # fmt: skip
_WORDS = ("word", "form", "token", "words", "tokens")
_TAGS = ("tag", "label", "tags", "labels", "upos", "pos")
_CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

Marginals = npt.NDArray[np.float64]


def format_of(path: Path) -> str:
    """Return the format that a file's name tells.

    Examples
    --------
    >>> format_of(Path("en.conllu.gz")), format_of(Path("ner.conll")), format_of(Path("a.txt"))
    ('conllu', 'conll', 'attributes')
    """
    name = path.name.lower().removesuffix(".gz")
    return next((kind for end, kind in _SUFFIXES.items() if name.endswith(end)), "attributes")


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
    """

    lines: list[str]
    at: list[int]
    rows: list[list[str]]
    items: list[dict[str, float]] | None
    size: int


class Columns(NamedTuple):
    """Which columns hold words and labels, from 0; -1 is the last."""

    word: int
    tag: int


class LineFormat:
    """Reads and writes one format of lines.

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
    """

    def __init__(
        self,
        kind: str,
        word: str | None,
        tag: str | None,
        header: list[str] | None = None,
        places: tuple[str, str] = ARGUMENTS,
    ) -> None:
        self.kind = kind
        self.header = header
        self.places = places
        names: Sequence[str] = _CONLLU if kind == "conllu" else header or ()
        self.columns = Columns(
            self._column(places[0], word, names, 1 if kind == "conllu" else 0, _WORDS),
            self._column(places[1], tag, names, 3 if kind == "conllu" else -1, _TAGS),
        )

    def _column(
        self, what: str, given: str | None, names: Sequence[str], default: int, usual: Iterable[str]
    ) -> int:
        lowered = [name.lower() for name in names]
        if given is None:
            if self.kind != "tsv":
                return default
            return next((lowered.index(name) for name in usual if name in lowered), default)
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
        if self.kind == "attributes":
            return text.split("\t", 1)[:1]
        row = text.split("\t" if self.kind != "conll" or "\t" in text else None, COLUMNS)
        if len(row) > COLUMNS:
            problem = f"more than {COLUMNS:,} columns"
            raise TextFormatError("sentence", offset, problem, 0, text[:40])
        if self.kind == "conllu":
            if len(row) != len(_CONLLU):
                raise TextFormatError(
                    "sentence", offset,
                    f"{len(row)} columns apart by tabs, CoNLL-U has {len(_CONLLU)}", 0, text[:40],
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
            raise TextFormatError("sentence", offset, problem, 0, text[:40])
        return row

    def labels(self, block: Block, labelled: bool) -> list[str] | None:
        """Return the labels that the file gives the tokens.

        Unless they must be `labelled`, None where there is no column but that of the words.
        """
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

    def heading(self, labels: Sequence[str], marginals: str) -> str:
        """Return the first line of an output, if there is one."""
        if self.header is None:
            return ""
        more = ["predicted"]
        if marginals != "none":
            more.append("probability")
        if marginals == "all":
            more += [f"p({label})" for label in labels]
        return "\t".join([*self.header, *more]) + "\n"

    def written(
        self,
        block: Block,
        tags: Sequence[str],
        table: Marginals | None,
        labels: Sequence[str],
        every: bool,
    ) -> str:
        """Return the lines of a sentence with tags, and marginals (n, K) where there are any."""
        lines = list(block.lines)
        rows = [None] * len(tags) if table is None else table.tolist()
        for at, tag, row, columns in zip(block.at, tags, rows, block.rows, strict=True):
            numbers = () if row is None else (row[labels.index(tag)], *(row if every else ()))
            if self.kind == "conllu":
                misc = [] if columns[-1] == "_" else [columns[-1]]
                misc.append("Predicted=" + tag.replace("|", "%7C"))
                for label, number in zip(("", *labels), numbers, strict=False):
                    name = f"P({label})".replace("|", "%7C") if label else "Probability"
                    misc.append(f"{name}={number:.6f}")
                lines[at] = "\t".join([*columns[:-1], "|".join(misc)])
                continue
            apart = "\t" if self.kind != "conll" or "\t" in lines[at] else " "
            before = columns[0] if self.kind == "attributes" else lines[at].rstrip(" ")
            lines[at] = before + apart + tag + (apart + "%.6f") * len(numbers) % numbers
        return "\n".join(lines) + "\n\n"


def line_format(
    path: Path,
    kind: str,
    word: str | None,
    tag: str | None,
    places: tuple[str, str] = ARGUMENTS,
) -> LineFormat:
    """Return the format of a file; of TSV its first line names the columns."""
    header = None
    if kind == "tsv":
        header = first_line(path)[0].split("\t", COLUMNS)
        if header == [""]:
            raise ValueError(f"{path.name}: the first line of a TSV file must name its columns")
        if len(header) > COLUMNS:
            raise ValueError(f"{path.name}: the first line has more than {COLUMNS:,} columns")
    try:
        return LineFormat(kind, word, tag, header, places)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def size_of(block: Block) -> tuple[int, int]:
    """Return the tokens and the bytes of a sentence."""
    return len(block.rows), block.size


def items_of(block: Block, extract: Any, word: int) -> Sequence[Any]:
    """Return the attributes of a sentence's tokens."""
    if block.items is not None:
        return block.items
    return extract(block.rows, word) if block.rows else []
