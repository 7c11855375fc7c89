"""Small JSON files: settings and states that may come from others."""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import stat
from typing import Any

__all__ = ["LIMIT", "parse_json", "read_json"]

#: The largest file that is read, in bytes.
LIMIT = 64 << 20
# Python's own parser uses the stack of the thread, and ends the process where that is small.
_DEPTH = 64
# Longer numbers take time that grows with the square of their length.
_DIGITS = 20
# A text, or what opens or closes a level; a text without an end reaches to that of the file.
_LEVELS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


def read_json(path: str | os.PathLike[str], limit: int = LIMIT, *, regular: bool = False) -> Any:
    """Return what a JSON file holds.

    Parameters
    ----------
    path : path
        The file.
    limit : int
        The most bytes that it may have.
    regular : bool
        Refuse anything but a regular file, such as a pipe that nobody writes to.

    Raises
    ------
    ValueError
        The file is not JSON in UTF-8; it is larger than `limit`, nested more than 64 deep, or has a
        key twice in one object, NaN, an infinity or an integer of more than 20 digits. The message
        names the file.
    OSError
        The file cannot be read.
    """
    name = os.fspath(path)
    if regular and not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{name}: not a regular file")
    with open(path, "rb") as file:
        # Reading allocates the size asked for: ask for no more than there is.
        status = os.fstat(file.fileno())
        most = min(status.st_size, limit) if stat.S_ISREG(status.st_mode) else limit
        data = file.read(most + 1)
    if len(data) > limit:
        raise ValueError(f"{name}: larger than {limit} bytes, the most that is read")
    try:
        return parse_json(data)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def parse_json(data: bytes) -> Any:
    r"""Return what JSON holds, with errors that name no file; see :func:`read_json`.

    Examples
    --------
    >>> parse_json(b'{"rain": ["yes", 1]}')
    {'rain': ['yes', 1]}
    >>> parse_json(b'{"rain": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: this is not JSON: NaN is no number there
    """
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"this is not JSON: not UTF-8 at byte {error.start}") from None
    _check_depth(text)
    try:
        return json.loads(
            text,
            object_pairs_hook=_once,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_integer,
        )
    except ValueError as error:
        raise ValueError(f"this is not JSON: {error}") from None


def _check_depth(text: str) -> None:
    depth = 0
    for match in _LEVELS.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > _DEPTH:
                raise ValueError(f"nested more than {_DEPTH} deep")
        elif first != '"':
            depth -= 1


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice[:40]!r} stands there twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number there")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"{text[:_DIGITS]}... has too many digits")
    return int(text)
