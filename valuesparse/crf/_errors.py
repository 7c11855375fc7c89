"""The exception of python-crfsuite."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["CRFSuiteError"]


class CRFSuiteError(Exception):
    """A failure that CRFsuite has a code for.

    Parameters
    ----------
    code : int
        CRFsuite's.

    Examples
    --------
    >>> from valuesparse.crf.crfsuite import CRFSuiteError
    >>> str(CRFSuiteError(-2147483645))
    'Incompatible data'
    """

    _messages: ClassVar[dict[int, str]] = {
        -0x80000000: "Unknown error occurred",
        -0x7FFFFFFF: "Insufficient memory",
        -0x7FFFFFFE: "Unsupported operation",
        -0x7FFFFFFD: "Incompatible data",
        -0x7FFFFFFC: "Internal error",
        -0x7FFFFFFB: "Overflow",
        -0x7FFFFFFA: "Not implemented",
    }

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(self._messages.get(code, "Unexpected error"))

    def __reduce__(self) -> tuple[type[CRFSuiteError], tuple[int]]:
        return type(self), (self.code,)
