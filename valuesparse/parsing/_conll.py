"""CoNLL-U and CoNLL-X: the lines of a sentence, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from valuesparse._validation import as_choice
from valuesparse.corpora._blocks import LONGEST
from valuesparse.io.errors import TextFormatError
from valuesparse.parsing._sentences import (
    FORMATS,
    PROBABILITY,
    Sentence,
    require_unchanged,
    tree_problem,
    without_probability,
)

__all__ = ["CHECKS", "Lines", "as_check", "as_format", "format_of", "sentence_of", "text_of"]

#: Demands on trees: none, or that there is one.
CHECKS = (None, "training")

_NAMES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_WIDTH = len(_NAMES)
_HEAD = _NAMES.index("HEAD")
_SUFFIXES = {".conllu": "conllu", ".conllx": "conllx", ".conll": "conllx"}
_TITLES = {"conllu": "CoNLL-U", "conllx": "CoNLL-X"}
_RANGE = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)")
_EMPTY = re.compile(r"(0|[1-9][0-9]*)\.([1-9][0-9]*)")
_BETWEEN = re.compile(r"[0-9]+[-.][0-9]+\t")  # begins the line of either
_SHOWN = 40
# Distinct cells that are kept once each: most of a treebank are few.
_KEPT = 1 << 16


class Lines(NamedTuple):
    """The lines of one sentence, and where each begins."""

    lines: Sequence[str]
    offsets: Sequence[int]


def format_of(path: Path) -> str | None:
    """Return the format that a file's name tells, None where it tells none.

    Examples
    --------
    >>> format_of(Path("en.conllu.gz")), format_of(Path("da.conll")), format_of(Path("a.txt"))
    ('conllu', 'conllx', None)
    """
    return _SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def as_format(form: str | None) -> str | None:
    """Return a format, once it is checked."""
    if form is not None:
        as_choice("format", form, FORMATS, "not")
    return form


def as_check(check: str | None) -> str | None:
    """Return what is demanded of trees, once it is checked."""
    if check not in CHECKS:
        raise ValueError(f"check must be None or 'training', not {check!r}")
    return check


@lru_cache(maxsize=1)
def _ids() -> tuple[list[str], dict[str, int]]:
    """Return the IDs of words in order, and what a HEAD may be with its number."""
    ids = [str(i) for i in range(LONGEST + 1)]
    return ids[1:], {"_": -1, **{text: i for i, text in enumerate(ids)}}


def sentence_of(
    found: Lines, form: str, check: str | None = None, kept: dict[str, str] | None = None
) -> Sentence:
    """Return the sentence of some lines.

    Parameters
    ----------
    found : Lines
        At most 16,000, none of them blank.
    form : {"conllu", "conllx"}
        Their format.
    check : {None, "training"}
        With "training" the heads have to make a tree.
    kept : dict, optional
        Cells that were read before, so that equal ones are one object.

    Raises
    ------
    TextFormatError
        A line is not what the format wants; with its offset, without file and line.
    """
    ids, numbers = _ids()
    rows: list[list[str]] = []
    others: list[tuple[int, str]] = []
    for line in found.lines:
        row = line.split("\t", _WIDTH)
        if len(row) == _WIDTH and row[0] == ids[len(rows)]:
            rows.append(row)
        else:
            others.append((len(rows), line))
    if others:
        _check_others(found, rows, others, form)
    if _ends_within("\n".join(found.lines), len(found.lines)):
        raise _end_within(found)
    if not rows:
        return Sentence([], others=others, format=form)
    cells = list(zip(*rows, strict=True))
    heads = [numbers.get(head, -2) for head in cells[_HEAD]]
    if -2 in heads:
        at = heads.index(-2)
        cell = cells[_HEAD][at]
        raise _error(found, at, f"HEAD {_shown(cell)} is neither the number of a word nor _")
    if "" in cells[1]:
        raise _error(found, cells[1].index(""), "FORM is empty")
    if check is not None and (problem := tree_problem(heads)) is not None:
        raise _error(found, *problem)
    if kept is None:
        columns = [list(column) for column in (*cells[1:_HEAD], *cells[_HEAD + 1 :])]
    else:
        if len(kept) > _KEPT:
            kept.clear()
        once = kept.setdefault
        columns = [list(map(once, c, c)) for c in (*cells[1:_HEAD], *cells[_HEAD + 1 :])]
    forms, lemmas, upos, xpos, feats, labels, deps, misc = columns
    array = np.array(heads, np.int64)
    return Sentence(forms, lemmas, upos, xpos, feats, array, labels, deps, misc, None, others, form)


def _ends_within(text: str, count: int) -> bool:
    """Return whether lines, joined, hold more ends than those between `count` of them.

    A carriage return at the end of a line is one: readers take it for a part of the end.
    """
    if text.count("\n") != max(count - 1, 0):
        return True
    return "\r" in text and ("\r\n" in text or text.endswith("\r"))


def _end_within(found: Lines) -> TextFormatError:
    """Return the error of the first line that could not be written as it is."""
    place = next(i for i, line in enumerate(found.lines) if "\n" in line or line.endswith("\r"))
    if "\n" in found.lines[place]:
        return _error_at(found, place, "it holds the end of a line; give one line at a time")
    return _error_at(
        found, place, "it ends in a carriage return; lines end in LF or CR LF, not in CR"
    )


def _check_others(
    found: Lines, rows: list[list[str]], others: list[tuple[int, str]], form: str
) -> None:
    """Refuse lines that are neither words nor what may stand between them."""
    reach = 0  # the last word of all ranges so far
    node = (0, 0)  # the empty node before
    places = _places(found)
    for place, (before, line) in zip(places, others, strict=True):
        if line.startswith("#"):
            continue
        row = line.split("\t", _WIDTH)
        problem = None
        if len(row) != _WIDTH:
            count = line.count("\t") + 1
            problem = f"{count} columns apart by tabs, {_TITLES[form]} has {_WIDTH}"
            if count == 1:  # a text, as a rule
                problem = f"no tab; {_TITLES[form]} has a word a line, in {_WIDTH} columns"
        elif form == "conllu" and (match := _RANGE.fullmatch(row[0])) is not None:
            first, last = _small(match[1]), _small(match[2])
            if first != before + 1 or last < first or first <= reach:
                problem = f"the range {_shown(row[0])} is out of order, before word {before + 1}"
            elif last > len(rows):
                problem = f"the range {_shown(row[0])} reaches beyond the last word, {len(rows)}"
            reach = last
        elif form == "conllu" and (match := _EMPTY.fullmatch(row[0])) is not None:
            after, number = _small(match[1]), _small(match[2])
            expected = node[1] + 1 if node[0] == before else 1
            if (after, number) != (before, expected):
                problem = (
                    f"the empty node {_shown(row[0])} is out of order, {before}.{expected} is next"
                )
            node = (after, number)
        elif row[0].isascii() and row[0].isdigit():
            problem = f"ID {_shown(row[0])} is out of order, {before + 1} is next"
        else:
            known = ", a range such as 3-4 or an empty node such as 8.1" * (form == "conllu")
            problem = f"ID {_shown(row[0])} is not the number of a word{known}"
        if problem is not None:
            raise _error_at(found, place, problem)


def _small(digits: str) -> int:
    """Return a number; those of too many digits are one too large for any sentence."""
    return int(digits) if len(digits) < 10 else 10**9


def _is_word(line: str, number: int) -> bool:
    """Return whether a line is that of a word, the next after so many."""
    row = line.split("\t", _WIDTH)
    return len(row) == _WIDTH and row[0] == _ids()[0][number]


def _places(found: Lines, words: bool = False) -> Iterator[int]:
    """Yield which lines are no words, or which are."""
    seen = 0
    for place, line in enumerate(found.lines):
        word = _is_word(line, seen)
        seen += word
        if word is words:
            yield place


def _error(found: Lines, word: int, problem: str) -> TextFormatError:
    """Return the error of a word, from 0."""
    for i, place in enumerate(_places(found, words=True)):
        if i == word:
            return _error_at(found, place, problem)
    raise AssertionError


def _error_at(found: Lines, place: int, problem: str) -> TextFormatError:
    token = found.lines[place][:_SHOWN]
    return TextFormatError("sentence", found.offsets[place], problem, 0, token)


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= _SHOWN else cell[:_SHOWN] + "...")


def text_of(sentence: Sentence, form: str | None = None) -> str:
    """Return the lines of a sentence, and a blank one.

    Parameters
    ----------
    sentence : Sentence
        The sentence.
    form : {"conllu", "conllx"}, optional
        Another format than its own: the last two columns have no counterpart there, nor have
        ranges and empty nodes in CoNLL-X.

    Raises
    ------
    ValueError
        A cell holds a tab or the end of a line, a line of `others` is none that may stand between
        words, or columns have come to differ in length.
    """
    require_unchanged(sentence)
    form = form or sentence.format
    n = len(sentence)
    deps, misc, others = sentence.deps, sentence.misc, sentence.others
    if form != sentence.format:
        deps = misc = ["_"] * n
        if form == "conllx":
            others = [other for other in others if other[1].startswith("#")]
    if sentence.confidence is not None and form == "conllu":
        misc = [_with_probability(m, p) for m, p in zip(misc, sentence.confidence, strict=True)]
    heads = ["_" if head < 0 else str(head) for head in sentence.heads.tolist()]
    ids = _ids()[0] if n <= LONGEST else [str(i) for i in range(1, n + 1)]
    s = sentence
    lines = list(
        map("\t".join, zip(ids, s.forms, s.lemmas, s.upos, s.xpos, s.feats, heads, s.labels,
                           deps, misc, strict=False))
    )  # fmt: skip
    for before, line in reversed(others):
        lines.insert(before, line)
    text = "\n".join(lines)
    tabs = (_WIDTH - 1) * n + sum(line.count("\t") for _, line in others)
    if _ends_within(text, len(lines)) or text.count("\t") != tabs or "" in lines:
        raise ValueError("a cell or a line beside the words holds a tab or the end of a line")
    for i, (_, line) in enumerate(others):
        if not line.startswith("#") and not _BETWEEN.match(line):
            raise ValueError(
                f"others[{i}] is {_shown(line)}: neither a comment, which begins with #, nor a "
                "range such as 3-4 or an empty node such as 8.1 with its columns"
            )
    return f"{text}\n\n" if lines else ""


def _with_probability(misc: str, probability: float) -> str:
    entry = f"{PROBABILITY}{probability:.6f}"
    kept = without_probability(misc)
    return entry if kept in ("_", "") else f"{kept}|{entry}"
