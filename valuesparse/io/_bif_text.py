"""The text of a network in the interchange format (BIF), and what reading it may take."""

from __future__ import annotations

import codecs
import io
import re

import numpy as np

from valuesparse.io._files import Source, gzip_limit, read_packed
from valuesparse.io._text import Memory, memory_for
from valuesparse.io.errors import TextFormatError

__all__ = ["BifText"]

# A comment without an end goes to the end: searching again from each beginning would take for ever.
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|//[^\n]*")
_QUOTED = re.compile(r'"[^"\n]*"')
# Where something begins that is blanked; in a property, where it may end.
_MARK = re.compile(r'"|/[*/]|\bproperty\b')
_STOP = re.compile(r'"[^"\n]*"|[;{}]')
# Entries of tables that `default` rows may fill, and for each byte of the file: a few words of a
# text could ask for any memory.
_FREE, _PER_BYTE = 1 << 22, 4
# Bytes that a text of one byte for each character takes, copies included.
_TEXT = 6


class BifText:
    """The text with comments, properties and quotes blanked, and the errors for places in it."""

    def __init__(self, data: bytes, packed: int | None = None) -> None:
        data = data.removeprefix(codecs.BOM_UTF8)
        self._allowance = max(_FREE, _PER_BYTE * (len(data) if packed is None else packed))
        self._memory = Memory(len(data), packed)
        self.afford(len(data), 3 + 3 * _width(data), "characters")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = 1 + data.count(b"\n", 0, error.start)
            token = repr(data[error.start : error.end])[2:-1]
            problem = f"'{token}' is not UTF-8"
            raise TextFormatError("text", error.start, problem, line, token) from None
        self.text = text = text.replace("\r", " ")
        if "/" in text or "property" in text:
            self.text = self._plain(text)
        else:
            self.text = text.replace('"', " ")

    def _plain(self, text: str) -> str:
        """Return a text of the same length; what begins first has what begins in it."""
        parts = io.StringIO()  # a list of parts would take far more memory than the text
        at = tried = 0
        last = ""  # the last character that is neither blank nor in a comment
        while (mark := _MARK.search(text, at)) is not None:
            begin, end = mark.span()
            before = text[at:begin]
            parts.write(before)
            last = before.rstrip()[-1:] or last
            if mark[0] == '"':
                quoted = _QUOTED.match(text, begin)
                end, last = (end if quoted is None else quoted.end()), '"'
                parts.write(text[begin:end].replace('"', " "))
            elif mark[0] != "property":
                comment = _COMMENT.match(text, begin)
                assert comment is not None
                parts.write(self._blank(comment))
                end = comment.end()
            else:  # a property, or a name, as of a state
                stop = None
                if last in ("{", ";") and begin >= tried:
                    stop = next((s for s in _STOP.finditer(text, end) if s[0][0] != '"'), None)
                    tried = len(text) if stop is None else stop.end()  # nothing is read twice
                if stop is not None and stop[0] == ";":
                    end, last = stop.end(), ";"
                    parts.write(_blanked(text[begin:end]))
                else:
                    last = "y"
                    parts.write(mark[0])
            at = end
        parts.write(text[at:])
        return parts.getvalue()

    def _blank(self, match: re.Match[str]) -> str:
        if match[0].startswith("/*") and not (match[0].endswith("*/") and len(match[0]) > 3):
            raise self.error(match.start(), "comment", "{} begins one that does not end")
        return _blanked(match[0])

    @classmethod
    def of(cls, source: Source) -> BifText:
        """Return the text of a path, a file object or bytes, as text or gzip."""
        return cls(*read_packed(source, _text_limit))

    def afford(self, count: int, each: int, what: str) -> None:
        """Refuse things that take more memory than the size of gzip data allows."""
        self._memory.afford(count, each, what)

    def allows(self, size: int) -> bool:
        """Take entries that the text does not spell out from its allowance; whether it has them."""
        self._allowance -= size
        return self._allowance >= 0

    def error(self, at: int, chunk: str, problem: str) -> TextFormatError:
        """Return the error for the word at a place; ``{}`` in `problem` stands for the word."""
        rest = self.text[at : at + 200].lstrip()
        at = min(len(self.text), at + len(self.text[at : at + 200]) - len(rest))
        word = re.match(r"[^\s,;]+|[,;]|$", rest)
        token = word[0][:40] if word is not None else ""
        line = 1 + self.text.count("\n", 0, at)
        shown = problem.replace("{}", repr(token) if token else "the end of the file")
        return TextFormatError(chunk, len(self.text[:at].encode()), shown, line, token)


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _text_limit(packed: int) -> int:
    """Return how much text is unpacked: no more than there is memory for."""
    return min(gzip_limit(packed), int(memory_for(packed) / _TEXT))


def _width(data: bytes) -> int:
    """Return how many bytes each character of a text takes: as many as the widest one."""
    highest = int(np.frombuffer(data, dtype=np.uint8).max(initial=0))
    return 4 if highest >= 0xF0 else 2 if highest >= 0xC4 else 1
