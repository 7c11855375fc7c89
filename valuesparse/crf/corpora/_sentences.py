"""Formats with a sentence a line: plain text, and objects of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from valuesparse.corpora._blocks import LONGEST
from valuesparse.corpora._text import Line
from valuesparse.crf.corpora._formats import ARGUMENTS, RETURNS, Block, Columns
from valuesparse.io._json import parse_json
from valuesparse.io.errors import TextFormatError

__all__ = ["SentenceFormat"]

_WORDS = ("words", "tokens")
_TAGS = ("tags", "labels")
_BLANKS = re.compile("[ \t]+")


class SentenceFormat:
    """Reads a format with a sentence a line; what `LineFormat` is for those with a token a line.

    Parameters
    ----------
    kind : {"text", "jsonl"}
        Words apart by spaces or tabs; or an object with a list of words, by ``words`` or
        ``tokens``, and perhaps one of labels, by ``tags`` or ``labels``.
    word, tag : str, optional
        Other names of those two.
    places : (str, str)
        Where `word` and `tag` were said, for errors.
    preferred : str, optional
        Another usual name of the labels.
    """

    header = None
    columns = Columns(0, -1)

    def __init__(
        self,
        kind: str,
        word: str | None,
        tag: str | None,
        places: tuple[str, str] = ARGUMENTS,
        preferred: str | None = None,
    ) -> None:
        self.kind, self.places = kind, places
        self._words = _WORDS if word is None else (word,)
        usual = _TAGS if preferred is None else (preferred, *_TAGS)
        self._tags = usual if tag is None else (tag,)

    def blocks(self, lines: Iterable[Line], largest: int) -> Iterator[Block]:
        """Yield the sentences; blank lines are none.

        Raises
        ------
        TextFormatError
            A line is not what the format wants, or a sentence has more than 16,000 words.
        """
        for line in lines:
            text = line.text.strip() if self.kind == "jsonl" else line.text.strip(" \t")
            if text:
                record = self._record(line) if self.kind == "jsonl" else None
                # Any other white space of text, such as U+00A0, is part of a word.
                words = _BLANKS.split(text, LONGEST) if record is None else self._list(line, record)
                if record is None and "\r" in text:
                    self._refuse(line, RETURNS)
                if len(words) > LONGEST:
                    self._refuse(line, f"a sentence of more than {LONGEST:,} words; cut it")
                rows = [[word] for word in words]
                yield Block([line.text], [0] * len(rows), rows, None, len(line.text), record)

    def labels(self, block: Block, labelled: bool) -> list[str] | None:
        """Return the labels that a line gives its words.

        Unless they must be `labelled`, None where there are none.
        """
        found = None
        if block.record is not None:
            name = next((name for name in self._tags if name in block.record), None)
            found = None if name is None else block.record[name]
            if found is not None and (problem := _problem(found, "label", name, "write a text")):
                raise ValueError(f"{self.places[1]}: {problem}")
            if found is not None and len(found) != len(block.rows):
                raise ValueError(f"{len(found)} labels of {len(block.rows)} words")
        if found is None and labelled:
            if block.record is None:
                raise ValueError("plain text has no labels; use another format")
            raise ValueError(f"{self.places[1]}: there is no {' or '.join(map(repr, self._tags))}")
        return found

    def _record(self, line: Line) -> dict[str, Any]:
        try:
            found = parse_json(line.text.encode())
        except ValueError as error:
            self._refuse(line, f"no JSON: {error}")
        if not isinstance(found, dict):
            self._refuse(line, f'not an object such as {{"words": ["a"]}}, but {found!r:.40}')
        if "\\u" in line.text:
            try:
                json.dumps(found, ensure_ascii=False).encode()
            except UnicodeError:
                self._refuse(line, "half of a character, which is no text")
        return found

    def _list(self, line: Line, record: dict[str, Any]) -> list[str]:
        name = next((name for name in self._words if name in record), None)
        if name is None:
            self._refuse(line, f"no {' or '.join(map(repr, self._words))}, the list of words")
        words = record[name]
        if problem := _problem(words, "word", name, "leave it out, and its label"):
            self._refuse(line, problem)
        return words

    def _refuse(self, line: Line, problem: str) -> NoReturn:
        raise TextFormatError("sentence", line.offset, problem, 0, line.text[:40])


def _problem(found: Any, kind: str, name: str | None, advice: str) -> str | None:
    """Return why something is no list of texts, none of them empty; None where it is one."""
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        return f"{name!r} must be a list of texts"
    if "" in found:
        return f"{kind} {found.index('') + 1} of {name!r} is empty: {advice}"
    return None
