"""Formats that are words and numbers apart by white space: one tokenizer for all of them.

Numbers are read in bulk and checked in place. A position among them is the number of a token, so
that an error found later can name its line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from valuesparse.io._files import Source, gzip_limit, read_packed
from valuesparse.io.errors import ModelFormatError, TextFormatError

__all__ = ["MAX_SCOPE", "Memory", "Tokens", "check_cardinalities", "memory_for"]

MAX_SCOPE = 32
"""Axes of the largest table: what every supported numpy has, and more than fits in memory."""

#: Bytes that reading may take, for each byte of a file and beside that.
_MEMORY_PER_BYTE, _MEMORY_FREE = 64, 64 << 20
# Parts of that: text and a copy of it, for each byte; a word, its number and what it becomes.
_TEXT, _WORD = 2.2, 32
# Text that gzip data of any size may hold, and how often theirs; its words are counted before
# memory is set aside.
_GZIP_FREE, _GZIP_RATIO = 8 << 20, 100
# Characters of which words are found at a time.
_PIECE = 1 << 20
# Beyond the file's own size, so that small files may have large variables.
_STATES_FREE = 1 << 20

_SPACE = b" \t\n\r\v\f"
_IS_SPACE = np.zeros(256, dtype=bool)
_IS_SPACE[list(_SPACE)] = True
# The character before is tested last, so that the search goes from one # to the next.
_COMMENT = re.compile(rb"#(?<![^ \t\n\r\v\f]#)[^\n]*")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LABEL = re.compile(rb"-?\d{1,19}")
_NUMERIC = b"0123456789+-.eE" + _SPACE
# Tokens turned into numbers at a time: their Python objects take some megabytes.
_BLOCK = 1 << 16
# Numbers that Python looks at sooner than numpy.
_FEW = 16
# float64 holds all whole numbers up to here.
_EXACT = 2.0**53
_SHOWN = 40


class Memory:
    """The memory that reading a file may take; plain text is never refused.

    Plain text of some things is long enough for the memory that they take.
    """

    __slots__ = ("_left", "_packed", "_size")

    def __init__(self, size: int, packed: int | None) -> None:
        self._size, self._packed = size, packed
        self._left = memory_for(packed or 0)

    def afford(self, count: int, each: float, what: str) -> None:
        """Refuse things that take more memory than the size of gzip data allows."""
        self._left -= count * each
        if self._packed is not None and self._left < 0:
            raise ModelFormatError(
                "gzip data",
                0,
                f"{self._packed} bytes hold {self._size} bytes of text with too many {what} "
                f"for memory of {_MEMORY_FREE >> 20} MiB and {_MEMORY_PER_BYTE} times the file; if "
                "you trust it, decompress it first",
            )


def memory_for(packed: int) -> float:
    """Return the bytes that reading gzip data of a size may take."""
    return _MEMORY_FREE + _MEMORY_PER_BYTE * packed


class Tokens:
    """The words of a text, and the numbers that follow the words before them.

    Parameters
    ----------
    data : bytes
        The text.
    comments : bool, default False
        Skip what follows a ``#`` that begins a word, up to the end of the line.
    packed : int, optional
        The size of the gzip data that held the text, to which memory is bound then.

    Attributes
    ----------
    at : int
        Number of the next token.
    values : (m,) float64
        All numbers from token ``first`` on, up to the first token that is none; empty before
        :meth:`read_numbers`.

    Raises
    ------
    ModelFormatError
        Gzip data hold more words than fit in the memory that is bound to their size.
    """

    __slots__ = ("_ends", "_memory", "_packed", "_starts", "at", "data", "first", "values")

    def __init__(self, data: bytes, *, comments: bool = False, packed: int | None = None) -> None:
        data = data.removeprefix(codecs.BOM_UTF8)
        self._packed = packed
        self._memory = Memory(len(data), packed)
        self._memory.afford(len(data), _TEXT, "characters")
        if comments:
            data = _COMMENT.sub(lambda match: b" " * len(match[0]), data)
        self.data = data
        # The words of a long text are counted before there is memory for them.
        pieces = list(_words(data)) if len(data) <= _PIECE else None
        count = sum(len(begin) for begin, _ in pieces or _words(data))
        self.afford(count, _WORD, "words")
        # No file is larger than 2**32 - 1 bytes.
        self._starts, self._ends = np.empty(count, np.uint32), np.empty(count, np.uint32)
        starts = ends = 0
        for begin, end in pieces or _words(data):
            self._starts[starts : starts + len(begin)] = begin
            self._ends[ends : ends + len(end)] = end
            starts, ends = starts + len(begin), ends + len(end)
        self.at = 0
        self.first = 0
        self.values = np.empty(0)

    @classmethod
    def of(cls, source: Source, *, comments: bool = False) -> Tokens:
        """Return the words of a path, a file object or bytes, as text or gzip."""
        data, packed = read_packed(source, _text_limit)
        return cls(data, comments=comments, packed=packed)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def size(self) -> int:
        """How many bytes the file has, gzip data as they are."""
        return len(self.data) if self._packed is None else self._packed

    def afford(self, count: int, each: int, what: str) -> None:
        """Refuse things that take more memory than the size of gzip data allows."""
        self._memory.afford(count, each, what)

    @property
    def left(self) -> int:
        """How many tokens there are from ``at`` on."""
        return len(self) - self.at

    def text(self, index: int) -> str:
        """Return a token, shortened for a message; empty at the end of the text."""
        if index >= len(self):
            return ""
        begin, end = int(self._starts[index]), int(self._ends[index])
        word = self.data[begin : min(end, begin + _SHOWN)].decode("utf-8", "backslashreplace")
        return word + "..." if end > begin + _SHOWN else word

    def line(self, index: int) -> int:
        """Return the line of a token, counted from 1; past the end, the last line's."""
        return 1 + self.data.count(b"\n", 0, self._offset(index))

    def lines_of(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return the lines of the tokens `begin` to `end` (exclusive)."""
        newlines = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == ord("\n"))
        return 1 + np.searchsorted(newlines, self._starts[begin:end])

    def error(self, index: int, chunk: str, problem: str) -> TextFormatError:
        """Return the error for a token; ``{}`` in `problem` stands for the token."""
        token = self.text(index)
        shown = repr(token) if token else "the end of the file"
        return TextFormatError(
            chunk, self._offset(index), problem.replace("{}", shown), self.line(index), token
        )

    def word(self, chunk: str, allowed: Sequence[str]) -> str:
        """Return the next token in capitals; it has to be one of `allowed`."""
        word = self.text(self.at).upper()
        if word not in allowed:
            raise self.error(self.at, chunk, f"expected {' or '.join(allowed)}, got {{}}")
        self.at += 1
        return word

    def read_numbers(self) -> None:
        """Turn everything from the next token on into numbers, up to the first that is none."""
        self.first = self.at
        values = np.empty(len(self) - self.first)
        done = 0
        while done < len(values):
            begin, end = self.first + done, min(self.first + done + _BLOCK, len(self))
            block = self.data[self._starts[begin] : self._ends[end - 1]]
            # Python's float also takes underscores, "nan" and other names, which this refuses.
            if block.translate(None, _NUMERIC):
                break
            try:
                values[done : end - self.first] = np.fromiter(
                    map(float, block.split()), np.float64, end - begin
                )
            except ValueError:
                break
            done = end - self.first
        if done < len(values):
            done = self._up_to_bad(values, done)
        self.values = values[:done]

    def _up_to_bad(self, values: npt.NDArray[np.float64], done: int) -> int:
        """Read one by one until a token is no number; return how many were read."""
        while done < len(values):
            begin, end = self._starts[self.first + done], self._ends[self.first + done]
            token = self.data[begin:end]
            if _NUMBER.fullmatch(token) is None:
                break
            values[done] = float(token)
            done += 1
        return done

    def require(self, count: int, chunk: str, what: str) -> None:
        """Raise unless the next `count` tokens are numbers."""
        last = self.first + len(self.values)
        if self.at + count <= last:
            return
        if last < len(self) and last < self.at + count:
            raise self.error(last, chunk, "{} is not a number")
        raise self.error(
            len(self), chunk, f"the file ends where {self.at + count - len(self)} more {what} "
            "should be"
        )  # fmt: skip

    def integer(self, chunk: str, what: str, at_least: int, at_most: int, why: str = "") -> int:
        """Return the next number, a whole one in a range; `why` says what sets the limit."""
        self.require(1, chunk, what)
        value = float(self.values[self.at - self.first])
        if not at_least <= value <= at_most or not value.is_integer():
            self.refuse_integer(self.at, chunk, what, at_least, at_most, why)
        self.at += 1
        return int(value)

    def integers(
        self, count: int, chunk: str, what: str, at_least: int, at_most: int, why: str = ""
    ) -> list[int]:
        """Return the next `count` numbers, all whole and in a range."""
        self.require(count, chunk, what)
        begin = self.at - self.first
        if count > _FEW:
            numbers = self.values[begin : begin + count]
            right = (numbers >= at_least) & (numbers <= at_most) & (numbers == np.floor(numbers))
            if right.all():
                self.at += count
                return numbers.astype(np.int64).tolist()
        found = self.values[begin : begin + count].tolist()
        for i, value in enumerate(found):
            if not at_least <= value <= at_most or not value.is_integer():
                self.refuse_integer(self.at + i, chunk, what, at_least, at_most, why)
        self.at += count
        return [int(value) for value in found]

    def refuse_integer(
        self, index: int, chunk: str, what: str, at_least: int, at_most: int, why: str = ""
    ) -> NoReturn:
        """Raise the error for a number that is not whole, too small or too large."""
        value = float(self.values[index - self.first])
        if not value.is_integer() or abs(value) > _EXACT:
            problem = f"{what}: {{}} is not a whole number" + (
                " that can be read" if abs(value) > _EXACT else ""
            )
        elif value < at_least:
            problem = f"{what}: {{}} is less than {at_least}"
        else:
            problem = f"{what}: {{}} is more than {at_most}{why and f', {why}'}"
        raise self.error(index, chunk, problem)

    def count(self, chunk: str, what: str, each: int, at_least: int = 0) -> int:
        """Return the next number, which counts things of at least `each` tokens."""
        most = max(0, self.left - 1) // each
        why = "which is all that fits in the rest of the file"
        return self.integer(chunk, what, at_least, most, why)

    def labels(self, count: int, chunk: str) -> list[int]:
        """Return the next `count` whole numbers of up to 64 bits, exactly."""
        self.require(count, chunk, "labels")
        found = []
        for i in range(self.at, self.at + count):
            token = self.data[self._starts[i] : self._ends[i]]
            label = int(token) if _LABEL.fullmatch(token) else 2**63
            if not -(2**63) <= label < 2**63:
                raise self.error(i, chunk, "label {} is not a whole number of at most 64 bits")
            found.append(label)
        self.at += count
        return found

    def skip_to(self, offset: int) -> None:
        """Go on at a byte of the text; a word around it is cut there."""
        self.at = int(np.searchsorted(self._ends, offset, side="right"))
        if self.left:
            self._starts[self.at] = max(self._starts[self.at], offset)

    def end(self) -> None:
        """Raise if any token is left."""
        if self.left:
            raise self.error(self.at, "end of the model", "expected nothing more, got {}")

    def _offset(self, index: int) -> int:
        return int(self._starts[index]) if index < len(self) else len(self.data)


def _text_limit(packed: int) -> int:
    """Return how much text is unpacked: no more than leaves some memory for its words."""
    return min(gzip_limit(packed, _GZIP_FREE, _GZIP_RATIO), int(memory_for(packed) / _TEXT))


def _words(data: bytes) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Yield where words begin, and where words end, in one piece of a text after the other."""
    everything = np.frombuffer(data, dtype=np.uint8)
    before = True  # as if there were white space
    for begin in range(0, len(data), _PIECE):
        space = np.empty(min(_PIECE, len(data) - begin) + 1, dtype=bool)
        space[0] = before
        space[1:] = _IS_SPACE[everything[begin : begin + _PIECE]]
        edges = np.flatnonzero(space[1:] != space[:-1])
        first = int(not before)  # whether the first edge ends a word
        yield edges[first::2] + begin, edges[1 - first :: 2] + begin
        before = bool(space[-1])
    if not before:
        yield np.empty(0, np.intp), np.array([len(data)])


def check_cardinalities(tokens: Tokens, cards: Sequence[int], places: Sequence[int]) -> None:
    """Refuse variables with more states than a file of this size has reason to have.

    Answers have a number for each state, so that a few bytes could otherwise ask for gigabytes.
    `places` are the tokens where the numbers stand.
    """
    limit = max(_STATES_FREE, len(tokens.data))
    total = 0
    for v, states in enumerate(cards):
        total += states
        if total > limit:
            raise tokens.error(
                places[v],
                "cardinalities",
                f"with {{}} states for variable {v} there are {total} in all, too many for a file "
                f"of {len(tokens.data)} bytes (at most {limit})",
            )
