"""Files in and out: bounded reading, gzip, and writing that never leaves half a file."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from valuesparse.io.errors import ModelFormatError

__all__ = [
    "Source",
    "Target",
    "is_path",
    "naming",
    "read_bytes",
    "read_file",
    "write_bytes",
    "write_text",
]

#: What readers take: a path, a file object, or the contents themselves.
Source: TypeAlias = "str | os.PathLike[str] | IO[Any] | bytes | bytearray | memoryview"
#: What writers take.
Target: TypeAlias = "str | os.PathLike[str] | IO[Any]"

MAX_BYTES = 2**32 - 1
"""The largest file that is read."""

# Text of a table that is all zeros shrinks a thousandfold; real models shrink by 3 to 100.
_GZIP_FREE = 64 << 20
_GZIP_RATIO = 100
_GZIP_PART = 1 << 20


def is_path(value: Any) -> bool:
    """Return whether `value` names a file."""
    return isinstance(value, (str, os.PathLike))


@contextmanager
def naming(source: Source) -> Iterator[None]:
    """Give errors of a format the name of the file, if `source` is one."""
    try:
        yield
    except ModelFormatError as error:
        if error.path is None and is_path(source):
            error.path = os.fsdecode(source)  # type: ignore[arg-type]
        raise


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Read a file whole, no further than the size that it has now."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        # A pipe has no size: it is read to its end, or to one byte more than is allowed.
        size = status.st_size if stat.S_ISREG(status.st_mode) else MAX_BYTES + 1
        if stat.S_ISREG(status.st_mode) and size > MAX_BYTES:
            raise _too_large(size)
        data = file.read(size)
    if len(data) > MAX_BYTES:
        raise _too_large(len(data))
    return data


def read_bytes(source: Source) -> bytes:
    """Return the contents of a path, file object or bytes, decompressed when they are gzip.

    Raises
    ------
    ModelFormatError
        For more than 2**32 - 1 bytes, damaged gzip data, or gzip data that grow beyond 64 MiB and
        beyond a hundred times their size.
    OSError
        When the file cannot be read.
    TypeError
        For anything else than a path, a file object or bytes.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    elif is_path(source):
        data = read_file(source)  # type: ignore[arg-type]
    elif hasattr(source, "read"):
        content = source.read()
        data = content.encode() if isinstance(content, str) else bytes(content)
    else:
        raise TypeError(f"source must be a path, a file or bytes, not {type(source).__name__}")
    return _gunzip(data) if data[:2] == b"\x1f\x8b" else data


def _gunzip(data: bytes) -> bytes:
    limit = min(max(_GZIP_FREE, _GZIP_RATIO * len(data)), MAX_BYTES)
    text = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            # In parts: reading up to the limit at once would set its memory aside.
            while len(text) <= limit and (part := file.read(_GZIP_PART)):
                text += part
    except (OSError, EOFError, zlib.error) as error:
        problem = f"damaged: {error}".rstrip(".")
        raise ModelFormatError("gzip data", 0, problem) from error
    if len(text) > limit:
        raise ModelFormatError(
            "gzip data",
            0,
            f"{len(data)} bytes hold more than {limit} bytes of text, as only a damaged or hostile "
            "file does; if you trust it, decompress it first",
        )
    return bytes(text)


def write_text(target: Target, text: str) -> None:
    """Write a file in one piece: under a temporary name that is then renamed.

    Parameters
    ----------
    target : path or file object
        A path that ends in ``.gz`` is compressed. A file object is written to as it is.
    text : str
        What to write.
    """
    if not is_path(target):
        _write_to(target, text)
        return
    data = text.encode()
    if Path(target).suffix == ".gz":  # type: ignore[arg-type]
        data = gzip.compress(data, mtime=0)
    write_bytes(target, data)  # type: ignore[arg-type]


def write_bytes(target: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one piece: under a temporary name that is then renamed."""
    try:
        _write_file(Path(target), data)
    except OSError as error:
        # Of the name that was given: the temporary one says nothing to anybody.
        raise OSError(error.errno, error.strerror, os.fspath(target)) from error


def _write_file(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        path.write_bytes(data)
        return
    # A link stays a link: what it leads to is replaced.
    path = path.resolve()
    # Cut short: the name may be as long as names can be.
    temporary = path.with_name(f".{path.name[:40]}-{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        if path.exists():
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_to(file: Any, text: str) -> None:
    if not hasattr(file, "write"):
        raise TypeError(f"target must be a path or a file, not {type(file).__name__}")
    if isinstance(file, io.TextIOBase):
        file.write(text)
        return
    try:
        file.write(text.encode())
    except TypeError:  # a text file of another making, such as a temporary one's wrapper
        file.write(text)


def _too_large(size: int) -> ModelFormatError:
    return ModelFormatError(
        "file", MAX_BYTES, f"{size} bytes or more, but at most 2**32 - 1 can be read"
    )
