"""Line files as streams: shards that are cut at blank lines, and the blocks between those."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, cast

from valuesparse.corpora._stream import Stream, require_binary
from valuesparse.io._files import grown_error, gzip_limit
from valuesparse.io.errors import ModelFormatError, TextFormatError

__all__ = [
    "BLANK", "ENDS", "Given", "Line", "Source", "as_source", "as_sources", "boundary", "first_line",
    "is_gzip", "largest", "lines", "located", "require_unpacked", "spooled", "text_size",
]  # fmt: skip

#: Separators of sentences: a blank line, or the end of any line.
BLANK = (b"\n\n", b"\n\r\n")
ENDS = (b"\n",)
#: The source of lines: a file, as often as wanted, or a stream, once.
Source: TypeAlias = "Path | Stream"
#: How somebody says which.
Given: TypeAlias = "str | os.PathLike[str] | IO[bytes] | Stream"

# The most bytes of a sentence, and of a line; those of gzip data are as large only where these are.
_LARGEST = 64 << 20
_LARGEST_PACKED = 1 << 20
_PIECE = 1 << 16
# Files that begin so are compressed in ways that are not read here; bzip2's BZh is followed by a
# digit, which is left out.
_BZIP2 = b"BZh"
_PACKED = {
    "xz": b"\xfd7zXZ\0",
    "zstd": b"\x28\xb5\x2f\xfd",
    "zip": b"PK\x03\x04",
    "bzip2": b"BZh1AY&SY",
}
_HEAD = 10  # bytes


class Line(NamedTuple):
    """A line without its end; `offset` is where it begins in the file, in bytes."""

    offset: int
    text: str


def as_source(given: Given, name: str = "source") -> Source:
    """Return what is read: a file by its path, as often as wanted, or a stream, once.

    Pipes and devices are streams, by whatever name; `name` is that of the argument.

    Raises
    ------
    OSError
        There is no such file.
    TypeError
        It is neither a path nor a binary file.
    """
    if isinstance(given, Stream):
        return given
    if isinstance(given, (str, os.PathLike)):
        path = Path(given)
        if stat.S_ISREG(path.stat().st_mode) or path.is_dir():
            return path
        return Stream(open(path, "rb"), str(path), own=True)
    require_binary(name, given, "read")
    return Stream(given)


def as_sources(given: Given | Iterable[Given], name: str) -> list[Source]:
    """Return all that is read; one path or file stands for itself, not for what is in it."""
    if isinstance(given, (str, os.PathLike, Stream)) or hasattr(given, "read"):
        return [as_source(cast("Given", given), name)]
    return [as_source(one, f"{name}[{i}]") for i, one in enumerate(given)]


def is_gzip(path: Source) -> bool:
    """Return whether a file is compressed."""
    if isinstance(path, Stream):
        return path.head == b"\x1f\x8b"
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def require_unpacked(path: Path) -> None:
    """Raise TextFormatError where a file is compressed by another program than gzip."""
    with open(path, "rb") as file:
        found = _packed_error(file.read(_HEAD))
    if found is not None:
        raise located(found, path)


def _packed_error(head: bytes) -> TextFormatError | None:
    """Return the error of a file that begins so, where that tells how it is compressed."""
    if head.startswith(_BZIP2):
        head = _BZIP2 + head[4:]
    for name, magic in _PACKED.items():
        if head.startswith(magic):
            problem = f"compressed by {name}; decompress it first, or compress it by gzip instead"
            return TextFormatError("text", 0, problem, 0, "")
    return None


def text_size(path: Path) -> int:
    """Return the size of a file in bytes, as it stands."""
    return os.stat(path).st_size


@contextmanager
def spooled(source: Source) -> Iterator[Path]:
    """Give a file with what a source holds: the source itself, or a copy of a stream, which goes.

    It is for formats whose end is read first.
    """
    if not isinstance(source, Stream):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="valuesparse-") as folder:
        path = Path(folder, "stream")
        with source.reader() as reader, open(path, "wb") as file:
            shutil.copyfileobj(reader, file)
        yield path


@contextmanager
def _opened(path: Source) -> Iterator[BufferedReader[Any]]:
    packed = is_gzip(path)
    raw = path.reader() if isinstance(path, Stream) else path.open("rb")
    if not packed:
        with raw as file:
            yield file
        return
    try:
        with raw, gzip.open(raw, "rb") as unpacked, BufferedReader(unpacked) as buffered:
            yield buffered
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        found = ModelFormatError("gzip data", 0, f"damaged: {error}".rstrip("."))
        found.path = str(path)
        raise found from error


def boundary(path: Path, at: int, apart: tuple[bytes, ...] = BLANK) -> int:
    r"""Return where the first sentence begins whose blank line comes at byte `at` or later.

    It depends on the file alone, so that whoever reads a shard finds where it begins and ends.
    `apart` is what stands between sentences.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.conll")
    ...     _ = path.write_bytes(b"a\n\nb\nc\n\nd\n")
    ...     [boundary(path, at) for at in (0, 1, 2, 6, 7, 99)]
    [0, 3, 8, 8, 10, 10]
    """
    if at <= 0:
        return 0
    size = text_size(path)
    with open(path, "rb") as file:
        file.seek(at)
        held = b""
        begin = at  # of the lines held
        while True:
            piece = file.read(_PIECE)
            held += piece
            places = [(place, len(blank)) for blank in apart if (place := held.find(blank)) >= 0]
            if places:
                place, length = min(places)
                return begin + place + length
            if not piece:
                return size
            begin += max(len(held) - 2, 0)
            held = held[-2:]


def lines(path: Source, first: int = 0, last: int | None = None) -> Iterator[Line]:
    """Yield the lines of a file from one byte up to another; of a stream all that are left.

    Raises
    ------
    ModelFormatError
        A line is not UTF-8, or longer than :func:`largest` allows; or gzip data are damaged, or
        hold more than 1 MiB and more than 40 times their size.
    """
    longest = largest(path)
    stream = path if isinstance(path, Stream) else None
    if not isinstance(path, Stream) and is_gzip(path):
        _require_bounded(path, text_size(path))
    with _opened(path) as file:
        if first:
            file.seek(first)
        offset, blank = first, 0
        while last is None or offset < last:
            raw = file.readline(longest)
            if not raw:
                return
            if stream is not None:
                stream.note(offset)
            yield Line(offset, _text_of(raw, offset, longest))
            offset += len(raw)
            blank = blank + 1 if raw == b"\n" else 0
            if blank > 1 and stream is None:
                offset += _skip_blank(file, None if last is None else last - offset)


def _skip_blank(file: BufferedReader[Any], most: int | None) -> int:
    """Read over more blank lines, which mean nothing; return how many bytes they have."""
    skipped = 0
    while most is None or skipped < most:
        held = file.peek(_PIECE)
        blank = len(held) - len(held.lstrip(b"\n"))
        blank = blank if most is None else min(blank, most - skipped)
        if not blank:
            break
        skipped += len(file.read(blank))
    return skipped


def _require_bounded(path: Path, packed: int) -> None:
    """Refuse gzip data that grow too much, or are damaged, before any work is done on them."""
    limit = gzip_limit(packed)
    size = 0
    with _opened(path) as file:
        while piece := file.read(_PIECE):
            size += len(piece)
            if size > limit:
                error = grown_error(packed, limit)
                error.path = str(path)
                raise error


def _text_of(raw: bytes, offset: int, longest: int) -> str:
    """Return a line without its end."""
    if offset == 0 and (error := _packed_error(raw)) is not None:
        raise error
    if len(raw) == longest:
        problem = f"longer than {longest >> 20} MiB"
        if longest < _LARGEST:
            problem += ", which is more than the compressed file has; decompress it first"
        raise TextFormatError("line", offset, problem, 0, "")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8: {error.reason}"
        raise TextFormatError("text", offset, problem, 0, "") from None
    # A byte order mark says how the file is written, and is none of its text.
    text = text if offset else text.removeprefix("\ufeff")
    return text.removesuffix("\n").removesuffix("\r")


def largest(path: Source) -> int:
    """Return how many bytes a line, or a sentence, of a file may have."""
    if not is_gzip(path):
        return _LARGEST
    if isinstance(path, Stream):
        return _LARGEST_PACKED
    return min(_LARGEST, max(_LARGEST_PACKED, text_size(path)))


def first_line(path: Path) -> tuple[str, int]:
    """Return the first line of a file, and where the second begins.

    Raises
    ------
    TextFormatError
        It is not UTF-8, or too long.
    """
    longest = largest(path)
    with _opened(path) as file:
        raw = file.readline(longest)
    try:
        return _text_of(raw, 0, longest), len(raw)
    except TextFormatError as error:
        raise located(error, path) from None


def located(error: TextFormatError, path: Source) -> TextFormatError:
    """Return an error of a piece of a file as one of the file: with its name and the line."""
    line = (
        path.line_number(error.offset)
        if isinstance(path, Stream)
        else _line_number(path, error.offset)
    )
    found = TextFormatError(error.chunk, error.offset, error.problem, line, error.token)
    found.path = str(path)
    return found


def _line_number(path: Path, offset: int) -> int:
    """Return the number, from 1, of the line that begins at a byte."""
    count = 1
    with _opened(path) as file:
        while offset > 0:
            piece = file.read(min(_PIECE, offset))
            if not piece:
                break
            count += piece.count(b"\n")
            offset -= len(piece)
    return count
