"""Errors that the readers raise."""

from __future__ import annotations

__all__ = ["ModelFormatError"]


class ModelFormatError(ValueError):
    """A model file is damaged, truncated, inconsistent or of another format.

    Parameters
    ----------
    chunk : str
        The part of the file that is wrong, for example ``"header"`` or ``"attributes (CQDB)"``.
    offset : int
        Where in the file the wrong field begins, in bytes from the start.
    problem : str
        What is wrong there.

    Attributes
    ----------
    chunk : str
        As given.
    offset : int
        As given.
    problem : str
        As given.

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

    def __str__(self) -> str:
        """Return the chunk, the byte offset and the problem in one line."""
        return f"{self.chunk} at byte {self.offset}: {self.problem}"
