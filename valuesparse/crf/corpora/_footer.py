"""How many values the columns of a Parquet file have, from its footer alone.

pyarrow tells that, too, but ends the process where a column's description is damaged. The footer is
a struct of Thrift's compact protocol; of its many fields three numbers a column are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Column", "read_columns"]

_DEEPEST = 32
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = (
    1, 2, 3, 6, 7, 8, 9, 10, 11, 12,
)  # fmt: skip


class Column(NamedTuple):
    """A column of a row group.

    Attributes
    ----------
    name : str
        Its path in the schema, apart by dots.
    values : int
        Values, nulls and empty lists counted.
    unpacked, packed : int
        Bytes before and after compression.
    """

    name: str
    values: int
    unpacked: int
    packed: int


def read_columns(path: Path) -> list[list[Column]]:
    """Return the columns of each row group.

    Raises
    ------
    ValueError
        The footer is damaged.
    OSError
        The file cannot be read.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if len(tail) < 8 or tail[4:] != b"PAR1" or length > size - 8:
            raise ValueError("no footer")
        file.seek(size - 8 - length)
        data = file.read(length)
    found: list[list[Column]] = []
    parser = _Parser(data)

    def group() -> None:
        columns: list[Column] = []
        parser.struct({1: lambda: parser.each(lambda: columns.append(_column(parser)))})
        found.append(columns)

    try:
        parser.struct({4: lambda: parser.each(group)})
    except IndexError:
        raise ValueError("the footer is cut short") from None
    return found


def _column(parser: _Parser) -> Column:
    """Read the description of a column in a row group."""
    names: list[str] = []
    numbers = {5: 0, 6: 0, 7: 0}

    def number(field: int) -> Callable[[], None]:
        def read() -> None:
            numbers[field] = parser.number()

        return read

    fields: dict[int, Callable[[], None]] = {field: number(field) for field in numbers}
    fields[3] = lambda: parser.each(lambda: names.append(parser.text()))
    parser.struct({3: lambda: parser.struct(fields)})
    if min(numbers.values()) < 0:
        raise ValueError("a column has less than no values")
    return Column(".".join(names), numbers[5], numbers[6], numbers[7])


class _Parser:
    """Reads one struct of Thrift's compact protocol.

    Parameters
    ----------
    data : bytes
        The struct.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._depth = data, 0, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of the footer is too long")

    def number(self) -> int:
        """Read an integer."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def text(self) -> str:
        """Read a text."""
        begin = self._forward(self._unsigned())
        return self._data[begin : self._at].decode("utf-8", "replace")

    def _forward(self, count: int) -> int:
        """Skip `count` bytes; return where they begin."""
        begin = self._at
        self._at += count
        if self._at > len(self._data):
            raise IndexError
        return begin

    def each(self, read: Callable[[], Any]) -> None:
        """Read a list, each entry by a function."""
        for _ in range(self._header()[0]):
            read()

    def _header(self) -> tuple[int, int]:
        """Read the length of a list and the kind of its entries, which have a byte or more each."""
        byte = self._byte()
        size = byte >> 4
        if size == 15:
            size = self._unsigned()
        if size > len(self._data):
            raise IndexError
        return size, byte & 15

    def struct(self, fields: dict[int, Callable[[], Any]]) -> None:
        """Read a struct: the fields named by their functions, and over all others."""
        field = 0
        while byte := self._byte():
            field = field + (byte >> 4) if byte >> 4 else self.number()
            read = fields.get(field)
            if read is None:
                self._skip(byte & 15, inside=False)
            else:
                read()

    def _skip(self, kind: int, inside: bool) -> None:
        """Read over a value; in a list truths have a byte, in a struct none."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("the footer is nested too deep")
        if kind in (_TRUE, _FALSE):
            self._forward(int(inside))
        elif kind == _BYTE:
            self._forward(1)
        elif _BYTE < kind <= _I64:
            self._unsigned()
        elif kind == _DOUBLE:
            self._forward(8)
        elif kind == _BINARY:
            self._forward(self._unsigned())
        elif kind in (_LIST, _SET):
            size, entry = self._header()
            for _ in range(size):
                self._skip(entry, inside=True)
        elif kind == _MAP:
            size = self._unsigned()
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._skip(kinds >> 4, inside=True)
                self._skip(kinds & 15, inside=True)
        elif kind == _STRUCT:
            self.struct({})
        else:
            raise ValueError(f"the footer has a value of an unknown kind, {kind}")
        self._depth -= 1
