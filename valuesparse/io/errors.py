"""Errors that the readers raise."""

from __future__ import annotations

__all__ = ["ModelFormatError", "TextFormatError"]


class ModelFormatError(ValueError):
    """A file, of a model or compressed, is damaged, truncated, inconsistent or of another format.

    Parameters
    ----------
    chunk : str
        The part of the file that is wrong, for example ``"header"`` or ``"attributes (CQDB)"``.
    offset : int
        Where in the file the wrong field begins, in bytes from the start.
    problem : str
        The problem there.

    Attributes
    ----------
    chunk : str
        As given.
    offset : int
        As given.
    problem : str
        As given.
    path : str or None
        The file, where a reader was given its name.

    Examples
    --------
    >>> print(ModelFormatError("header", 12, "version 7, but only 100 can be read"))
    header at byte 12: version 7, but only 100 can be read
    """

    def __init__(self, chunk: str, offset: int, problem: str) -> None:
        # All three go to the base class so that the exception pickles.
        super().__init__(chunk, offset, problem)
        self.chunk = chunk
        self.offset = int(offset)
        self.problem = problem
        self.path: str | None = None

    def __str__(self) -> str:
        """Return the file, the chunk, the byte offset and the problem in one line."""
        return f"{self._file()}{self.chunk} at byte {self.offset}: {self.problem}"

    def _file(self) -> str:
        return "" if self.path is None else f"{self.path}: "


class TextFormatError(ModelFormatError):
    """A text file is damaged, truncated, inconsistent or of another format.

    Parameters
    ----------
    chunk : str
        The part of the file that is wrong, for example ``"table of factor 3"``.
    offset : int
        Where in the text the wrong word begins, in bytes from the start.
    problem : str
        The problem there.
    line : int
        The line of the text, counted from 1.
    token : str
        The word that is wrong, cut short when it is long; empty at the end of the text.

    Attributes
    ----------
    chunk, offset, problem, line, token
        As given.
    path : str or None
        The file, where a reader was given its name.

    Examples
    --------
    >>> print(TextFormatError("table of factor 3", 90, "'0.5.' is not a number", 12, "0.5."))
    line 12, table of factor 3: '0.5.' is not a number
    """

    def __init__(self, chunk: str, offset: int, problem: str, line: int, token: str) -> None:
        super().__init__(chunk, offset, problem)
        # All five go to the base class so that the exception pickles.
        self.args = (chunk, int(offset), problem, int(line), token)
        self.line = int(line)
        self.token = token

    def __str__(self) -> str:
        """Return the file, the line, the part of the file and the problem in one line."""
        return f"{self._file()}line {self.line}, {self.chunk}: {self.problem}"
