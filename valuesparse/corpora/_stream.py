"""Inputs that can be read once alone, such as a pipe, where a file is expected."""

from __future__ import annotations

import io
from array import array
from bisect import bisect_right
from typing import IO, Any

__all__ = ["Stream", "require_binary"]

# Lines of which it is known where they begin: more than are read and worked on at a time.
_KEPT = 1 << 20


def require_binary(name: str, file: Any, verb: str) -> None:
    """Raise TypeError where `file` cannot read or write (`verb`), or gives or takes text."""
    kind = type(file).__name__
    if not hasattr(file, verb):
        raise TypeError(f"{name}: a path or a binary file is needed, not {kind}")
    binary = isinstance(file, (io.RawIOBase, io.BufferedIOBase))
    # Wrappers of files, as of tempfile, have what the file within has.
    if isinstance(file, io.TextIOBase) or (hasattr(file, "encoding") and not binary):
        raise TypeError(
            f"{name}: a binary file is needed, and {kind} is one of text; open the file with "
            f"mode '{verb[0]}b', or give an io.BytesIO"
        )


class _Rest(io.RawIOBase):
    """A file of which the first bytes are read already."""

    def __init__(self, head: bytes, file: IO[bytes], own: bool) -> None:
        super().__init__()
        self._head, self._own = head, file if own else None
        self._read = getattr(file, "read1", file.read)

    def close(self) -> None:
        super().close()
        if self._own is not None:
            self._own.close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._head or self._read(len(buffer))
        self._head = b""
        buffer[: len(data)] = data
        return len(data)


class Stream:
    r"""A binary file that is read once, from its beginning to its end.

    Parameters
    ----------
    file : binary file
        The file.
    name : str
        Its name, for errors.
    own : bool
        Whether it is closed once it is read.

    Attributes
    ----------
    head : bytes
        The first two bytes.

    Examples
    --------
    >>> stream = Stream(io.BytesIO(b"a\nb\n"), "-")
    >>> stream.head, stream.reader().read()
    (b'a\n', b'a\nb\n')
    """

    def __init__(self, file: IO[bytes], name: str = "-", own: bool = False) -> None:
        self.name = name
        self._file, self._own = file, own
        self._head: bytes | None = None
        self._read = False
        # Where the lines begin that are read, and the number of the first that is kept, from 1.
        self._offsets, self._first = array("q"), 1

    def __str__(self) -> str:
        return self.name

    @property
    def head(self) -> bytes:
        if self._head is None:
            self._head = b""
            # A pipe may give a byte at a time.
            while len(self._head) < 2 and (more := self._file.read(2 - len(self._head))):
                self._head += more
        return self._head

    def reader(self) -> io.BufferedReader[Any]:
        """Return what reads it from the beginning.

        Raises
        ------
        ValueError
            It was read before.
        """
        if self._read:
            raise ValueError(f"{self.name} can be read once alone; write it to a file first")
        head, self._read = self.head, True
        return io.BufferedReader(_Rest(head, self._file, self._own))

    def note(self, offset: int) -> None:
        """Note that a line begins at a byte."""
        if len(self._offsets) >= 2 * _KEPT:
            del self._offsets[:_KEPT]
            self._first += _KEPT
        self._offsets.append(offset)

    def line_number(self, offset: int) -> int:
        """Return the number, from 1, of a line of those that were read last."""
        return self._first - 1 + bisect_right(self._offsets, offset)
