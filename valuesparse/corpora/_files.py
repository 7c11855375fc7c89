"""Files that appear when they are complete, and what tells whether they are still the same."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from valuesparse.corpora._stream import require_binary
from valuesparse.io._files import replacing, require_spared

__all__ = [
    "UNFINISHED", "Target", "as_paths", "digest_of", "fingerprint", "opened", "publishing",
    "require_target", "state_of",
]  # fmt: skip

#: Where output goes: a file, or one that is open.
Target: TypeAlias = "str | os.PathLike[str] | IO[bytes]"

#: Ends the names of unfinished files; they begin with a dot.
UNFINISHED = ".part"
_PIECE = 1 << 20  # bytes


@contextmanager
def publishing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its name when it is complete and on disk.

    A name that ends in ``.gz`` compresses; the bytes depend on what is written alone.
    """
    with replacing(path, UNFINISHED) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                yield cast("IO[bytes]", packed)
        else:
            yield file


def require_target(target: Target) -> None:
    """Raise TypeError where `target` is neither a path nor a binary file that is open."""
    if not isinstance(target, (str, os.PathLike)):
        require_binary("target", target, "write")


@contextmanager
def opened(target: Target, read: Mapping[Any, str] | None = None) -> Iterator[IO[bytes]]:
    """Give a file to write to, as `publishing`, or the one that is open already, which stays so.

    ValueError where it is one that is read, as of `require_spared`.
    """
    if isinstance(target, (str, os.PathLike)):
        require_spared("target", Path(target), read or {})
        with publishing(Path(target)) as file:
            yield file
    else:
        yield target
        target.flush()


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of data in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def as_paths(inputs: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the paths; one alone stands for itself, not for its characters.

    Raises
    ------
    ValueError
        One is a pipe, of which a second reading would find the rest, or a device, which may have
        no end.
    """
    if isinstance(inputs, (str, os.PathLike)):
        inputs = [inputs]
    paths = [Path(source) for source in inputs]
    for i, path in enumerate(paths):
        pipe = path.is_fifo() or path.is_socket()
        if pipe or path.is_char_device() or path.is_block_device():
            raise ValueError(
                f"inputs[{i}]: {path} is a {'pipe' if pipe else 'device'}, and a corpus is read "
                "more than once; write it to a file first"
            )
    return paths


def state_of(path: Path) -> tuple[int, ...]:
    """Return what tells at once that a file has changed: size, time of the last change, inode."""
    with open(path, "rb") as file:  # network file systems ask anew for a file that is opened
        found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns, found.st_ino


def fingerprint(path: Path) -> str:
    """Return what tells whether a file of any size is still the same: its SHA-256."""
    seen = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            seen.update(piece)
    return seen.hexdigest()
