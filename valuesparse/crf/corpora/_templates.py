"""Templates of CRF++ and Wapiti: lines with macros that make attributes of columns."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path, PureWindowsPath

from valuesparse.crf.corpora._regex import longest_text
from valuesparse.crf.corpora._wapiti import python_pattern

__all__ = ["compile_template", "read_template", "read_template_below", "weight_of"]

Rows = Sequence[Sequence[str]]
Part = Callable[[Rows, int], str]

# Real ones have a few kilobytes.
_LARGEST = 1 << 20  # bytes
# Bytes that the attributes of a sentence may take, and each of them beside its text.
_MOST, _EACH = 40 << 20, 64

_MACRO = re.compile(
    r"%([xXtTmM])\[\s*(@?)(-?\d{1,9})\s*,\s*(\d{1,9})\s*(?:,\s*\"((?:[^\"\\]|\\.)*)\"\s*)?\]"
)


def compile_template(text: str, *, bounded: bool = False) -> Callable[[Rows], list[list[str]]]:
    r"""Return a function from the columns of a sentence to the attributes of each token.

    Parameters
    ----------
    text : str
        ``U...`` lines make attributes. ``%x[row,column]`` stands for a column of the token that
        many rows away; Wapiti's ``%t[row,column,"regex"]`` for true or false, and its
        ``%m[row,column,"regex"]`` for what matches, with Wapiti's own patterns; capitals make lower
        case, ``@`` counts rows from an end of the sentence. Beyond the ends stand ``_B-1``,
        ``_B+1`` and so on, as in CRF++. A line ``B`` asks for what every model here has, weights of
        transitions.
    bounded : bool
        Match no text that a pattern is not known to be quick on.

    Raises
    ------
    ValueError
        Naming the line, when a macro cannot be read, or a ``B`` or ``*`` line asks for weights of
        pairs of labels that depend on columns, which CRFsuite's models do not have. The function
        raises it for columns that are not there, texts that may take too long, and sentences whose
        attributes take more than 40 MiB.

    Examples
    --------
    >>> compile_template("U00:%x[0,0]\nU01:%x[-1,0]/%x[0,1]\nB")([("a", "D"), ("b", "N")])
    [['U00:a', 'U01:_B-1/D'], ['U00:b', 'U01:a/N']]
    """
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        kind = line[0].lower()
        parts = _parts(line, number, bounded)
        if kind in "b*" and (kind == "*" or any(not isinstance(p, str) for p in parts)):
            raise ValueError(
                f"template, line {number}: {line[:40]!r} asks for pairs of labels that depend on "
                "columns; CRFsuite's models have none: begin the line with U"
            )
        if kind == "b":
            continue
        if kind != "u":
            raise ValueError(f"template, line {number}: {line[:40]!r} begins with neither U nor B")
        rules.append(parts)

    def attributes(rows: Rows) -> list[list[str]]:
        left = _MOST
        found = []
        for i in range(len(rows)):
            row = []
            for rule in rules:
                left -= _EACH
                pieces = []
                for part in rule:
                    piece = part if isinstance(part, str) else part(rows, i)
                    left -= len(piece) if piece.isascii() else 4 * len(piece)
                    if left < 0:
                        raise ValueError(
                            f"template: the attributes of {i + 1} words of a sentence take more "
                            f"than {_MOST >> 20} MiB; cut the sentence or the template"
                        )
                    pieces.append(piece)
                row.append("".join(pieces))
            found.append(row)
        return found

    return attributes


def weight_of(items: Sequence[Sequence[str]]) -> int:
    """Return about how many bytes the attributes of a sentence take."""
    return _EACH * sum(map(len, items)) + sum(map(len, chain.from_iterable(items)))


def _parts(line: str, number: int, bounded: bool) -> list[str | Part]:
    """Return the texts and macros of a line."""
    parts: list[str | Part] = []
    end = 0
    for match in _MACRO.finditer(line):
        parts.append(line[end : match.start()])
        parts.append(_macro(match, number, bounded))
        end = match.end()
    parts.append(line[end:])
    for part in parts:
        if isinstance(part, str) and (bad := re.search(r"%[a-zA-Z]\[.*", part)):
            raise ValueError(f"template, line {number}: {bad[0][:40]!r} is no macro")
    return [part for part in parts if part]


def _macro(match: re.Match[str], number: int, bounded: bool) -> Part:
    kind, absolute, row_text, column_text, pattern = match.groups()
    row, column = int(row_text), int(column_text)
    if (kind in "xX") != (pattern is None):
        raise ValueError(
            f"template, line {number}: {match[0][:40]!r}: %t and %m need a regex, %x none"
        )
    regex = longest = None
    if pattern is not None:
        try:
            translated = python_pattern(pattern)
        except ValueError as error:
            raise ValueError(f"template, line {number}: {match[0][:40]!r}: {error}") from None
        regex = re.compile(translated, re.DOTALL)
        longest = longest_text(translated) if bounded else None

    def value(rows: Rows, i: int) -> str:
        at = i + row
        if absolute:  # @1 is the first row, @-1 the last
            at = len(rows) + row if row < 0 else row - 1
        if at < 0:
            return f"_B{at}"
        if at >= len(rows):
            return f"_B+{at - len(rows) + 1}"
        if column >= len(rows[at]):
            raise ValueError(
                f"template, line {number}: {match[0][:40]!r}: token {at + 1} of the sentence has "
                f"{len(rows[at])} columns"
            )
        text = rows[at][column]
        if regex is not None:
            if longest is not None and len(text) > longest:
                raise ValueError(
                    f"template, line {number}: {match[0][:40]!r} may take too long for the "
                    f"{len(text)} characters of token {at + 1} of the sentence; if you trust the "
                    "template, give it yourself, --features template:FILE (features=)"
                )
            found = regex.search(text)
            if kind in "tT":
                return "true" if found else "false"
            text = found[0] if found else ""
        return text.lower() if kind.isupper() else text

    return value


def read_template(path: Path) -> str:
    """Return what a template says.

    Raises
    ------
    ValueError
        It is no regular file, larger than 1 MiB, or not UTF-8.
    OSError
        It cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path}: a template must be a regular file")
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"{path}: a template may have {_LARGEST} bytes, this one has more")
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 at byte {error.start}") from None


def read_template_below(folder: Path, name: str, asking: Path) -> str:
    """Return what a template in a folder, or in one inside of it, says.

    Parameters
    ----------
    folder : Path
        The folder, as it is resolved.
    name : str
        The path seen from there, which may come from anybody.
    asking : Path
        The file that asks for it, for errors.

    Raises
    ------
    ValueError
        It is elsewhere, perhaps behind a link, or cannot be read. Nothing in the message comes from
        the file.
    """
    # Read as Windows does, which knows more ways out than others; none of them is in a plain name.
    windows = PureWindowsPath(name)
    inside = name.isprintable() and not (windows.drive or windows.root or ".." in windows.parts)
    found = Path(os.path.realpath(folder / name)) if inside else folder
    if not (inside and found.is_relative_to(folder)):
        raise ValueError(
            f"{asking} asks for the template {name[:80]!r}, and templates of models are read from "
            "their folder only: give it yourself, --features template:FILE (features=)"
        )
    try:
        return read_template(found)
    except OSError as error:
        raise ValueError(
            f"{asking} asks for the template {name[:80]!r}, which cannot be read: {error.strerror}"
        ) from None
