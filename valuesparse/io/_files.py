"""Files in and out: bounded reading, gzip, and writing that never leaves half a file."""

from __future__ import annotations

import errno
import gzip
import io
import os
import secrets
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from valuesparse.io.errors import ModelFormatError

__all__ = [
    "Source",
    "Target",
    "blaming",
    "check_target",
    "flush",
    "grown_error",
    "gzip_limit",
    "is_path",
    "naming",
    "read_bytes",
    "read_file",
    "read_packed",
    "replacing",
    "require_source",
    "require_spared",
    "sync_folder",
    "write_bytes",
    "write_text",
]

#: Sources of readers: a path, a file object, or the contents themselves.
Source: TypeAlias = "str | os.PathLike[str] | IO[Any] | bytes | bytearray | memoryview"
#: Targets of writers.
Target: TypeAlias = "str | os.PathLike[str] | IO[Any]"

MAX_BYTES = 2**32 - 1
"""The largest file that is read."""

# Text that says nothing shrinks a thousandfold; corpora by 3 to 8, networks by 3 to 20, and those
# whose tables are mostly zeros by up to 30.
_GZIP_FREE = 1 << 20
_GZIP_RATIO = 40
_GZIP_PART = 1 << 20

_BINARY = getattr(os, "O_BINARY", 0)  # of Windows
# Some file systems know no fsync of folders.
_CANNOT_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


_BYTES = (bytes, bytearray, memoryview)


def is_path(value: Any) -> bool:
    """Return whether `value` names a file."""
    return isinstance(value, (str, os.PathLike))


def require_source(name: str, value: Any) -> None:
    """Raise TypeError where nothing can be read from a value."""
    if not (is_path(value) or isinstance(value, _BYTES) or hasattr(value, "read")):
        raise TypeError(f"{name} must be a path, a file or bytes, not {type(value).__name__}")


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
    with naming(path), open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            if status.st_size > MAX_BYTES:
                raise _too_large(status.st_size)
            return file.read(status.st_size)
        # A pipe has no size: it is read to its end, or to one byte more than is allowed.
        parts, left = [], MAX_BYTES + 1
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        if left == 0:
            raise _too_large(MAX_BYTES + 1)
        return b"".join(parts)


def read_bytes(source: Source) -> bytes:
    """Return the contents of a path, file object or bytes, decompressed when they are gzip.

    Raises
    ------
    ModelFormatError
        For more than 2**32 - 1 bytes, damaged gzip data, or gzip data that grow beyond 1 MiB and
        beyond 40 times their size.
    OSError
        When the file cannot be read.
    TypeError
        For anything else than a path, a file object or bytes.
    """
    return read_packed(source)[0]


def read_packed(
    source: Source, limit: Callable[[int], int] | None = None
) -> tuple[bytes, int | None]:
    """Return what :func:`read_bytes` does, and the size of gzip data; None for other contents.

    Parameters
    ----------
    source : path, file object or bytes
        The file.
    limit : callable, optional
        How many bytes gzip data of a size may hold, :func:`gzip_limit` if left out: for readers
        that bound their memory themselves.
    """
    if isinstance(source, _BYTES):
        data = bytes(source)
    elif is_path(source):
        data = read_file(source)  # type: ignore[arg-type]
    else:
        require_source("source", source)
        content = source.read()  # type: ignore[union-attr]
        data = content.encode() if isinstance(content, str) else bytes(content)
    if data[:2] != b"\x1f\x8b":
        return data, None
    most = (limit or gzip_limit)(len(data))
    return _gunzip(data, min(most, MAX_BYTES)), len(data)


def _gunzip(data: bytes, limit: int) -> bytes:
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
        raise grown_error(len(data), limit)
    return bytes(text)


def gzip_limit(size: int, free: int | None = None, ratio: int = _GZIP_RATIO) -> int:
    """Return how many bytes of text that many bytes of gzip data may hold."""
    return max(_GZIP_FREE if free is None else free, ratio * size)


def grown_error(size: int, limit: int) -> ModelFormatError:
    """Return the error of gzip data that hold more than they may."""
    return ModelFormatError(
        "gzip data",
        0,
        f"{size} bytes hold more than {limit} bytes of text, as a damaged or hostile file does; if "
        "you trust it, decompress it first",
    )


def write_text(target: Target, text: str) -> None:
    """Write a file in one piece: under a temporary name that is then renamed.

    Parameters
    ----------
    target : path or file object
        A path that ends in ``.gz`` is compressed. A file object is written to as it is.
    text : str
        The contents.
    """
    if not is_path(target):
        _write_to(target, text)
        return
    data = text.encode()
    if Path(target).suffix == ".gz":  # type: ignore[arg-type]
        data = gzip.compress(data, mtime=0)
    write_bytes(target, data)  # type: ignore[arg-type]


def write_bytes(target: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write a file in one piece; see :func:`replacing`."""
    with replacing(target) as file:
        file.write(data)


@contextmanager
def replacing(target: str | os.PathLike[str], ending: str = "") -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its name when it is complete and on disk.

    Until then a file of that name stays as it was, and so it does when the block raises. The new
    file has its permissions from the first byte on; a link stays a link, and what it leads to is
    replaced. Pipes and devices are written to as they are.

    Parameters
    ----------
    target : path
        The file.
    ending : str
        How the temporary name, which begins with a dot, ends.

    Raises
    ------
    OSError
        The file cannot be written; the error names `target`, never the temporary file.
    """
    with blaming(target):
        path, temporary, raw = _open_new(target, ending)
    try:
        with io.BufferedWriter(raw) as file:
            try:
                yield file
                file.flush()
                with blaming(target):
                    _sync(raw)
            except BaseException:
                raw.close()  # the buffer is of no use any more
                raise
        if temporary is not None:
            with blaming(target):
                # After a power cut the name must not lead to bytes that were never written.
                os.replace(temporary, path)
                sync_folder(path.parent)
    except BaseException:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        raise


def check_target(target: str | os.PathLike[str]) -> None:
    """Raise now what :func:`replacing` would raise when the work is done.

    Raises
    ------
    OSError
        The target is a folder, a file that may not be written, or has too long a name; or its
        folder is not there, or takes no new file. The error names `target`.
    """
    with blaming(target):
        if not Path(os.path.realpath(target)).parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder")
        found = _status(target)
        if found is None or stat.S_ISREG(found.st_mode):
            _, temporary, raw = _open_new(target, "")
            raw.close()
            assert temporary is not None
            temporary.unlink()
        elif stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        else:
            _demand_writable(target)


def require_spared(what: str, target: str | os.PathLike[str], read: Mapping[Any, str]) -> None:
    """Refuse to write where something is read: `read` says what a path is, and may hold others."""
    for source, name in read.items():
        if not (isinstance(source, (str, os.PathLike)) and os.path.isfile(target)):
            continue
        with suppress(OSError):  # what is not there is refused later
            if os.path.samefile(target, source):
                raise ValueError(
                    f"{what}: {os.fsdecode(target)} is {name}, and would be lost; name another file"
                )


@contextmanager
def blaming(target: str | os.PathLike[str]) -> Iterator[None]:
    """Give errors of the operating system the name of the file that was meant."""
    try:
        yield
    except OSError as error:
        name = os.fsdecode(target)
        # Windows has its own numbers, and texts for them.
        problem = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, problem, name) from error


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, where the system can do that."""
    if os.name == "nt":  # Windows cannot open folders, and needs no fsync of them
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder may be written to that cannot be read
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(handle)


class _Named(io.FileIO):
    """A file whose errors name the file that it will become."""

    target: str | os.PathLike[str]

    def write(self, data: Any, /) -> int:
        with blaming(self.target):
            return super().write(data)


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a path; None where nothing is."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _demand_writable(path: str | os.PathLike[str]) -> None:
    # Renaming would get around the permissions of the file itself.
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _open_new(target: str | os.PathLike[str], ending: str) -> tuple[Path, Path | None, _Named]:
    """Return the path to replace, the temporary path (None: the path itself) and the file."""
    path, old = Path(target), _status(target)
    temporary: Path | None = None
    if old is not None and not stat.S_ISREG(old.st_mode):  # it cannot be replaced
        handle = os.open(path, os.O_WRONLY | _BINARY)
    else:
        path = Path(os.path.realpath(path))  # a link stays a link
        if old is not None:
            _demand_writable(path)
        # Cut short: the name may be as long as names can be.
        temporary = path.with_name(f".{path.name[:40]}-{secrets.token_hex(4)}{ending}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
        handle = os.open(temporary, flags, 0o666 if old is None else 0o600)
    try:
        if temporary is not None and old is not None and os.name != "nt":
            _permit(handle, old)
        raw = _Named(handle, "wb")
        raw.target = target
    except BaseException:
        os.close(handle)
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise
    return path, temporary, raw


def _permit(handle: int, old: os.stat_result) -> None:
    """Give a new file, still empty, the permissions of the old one."""
    mode, new = old.st_mode & 0o777, os.fstat(handle)
    if old.st_uid != new.st_uid:
        with suppress(PermissionError):  # only root gives files away
            os.fchown(handle, old.st_uid, -1)
    if old.st_gid != new.st_gid:
        try:
            os.fchown(handle, -1, old.st_gid)
        except PermissionError:
            mode &= ~0o070  # another group would see it
    os.fchmod(handle, mode)


def flush(file: IO[bytes]) -> None:
    """Write the contents of a file of :func:`replacing` so far to disk."""
    file.flush()
    raw = getattr(file, "raw", None)
    assert isinstance(raw, _Named)
    with blaming(raw.target):
        _sync(raw)


def _sync(raw: io.FileIO) -> None:
    if stat.S_ISREG(os.fstat(raw.fileno()).st_mode):  # pipes have nothing to sync
        os.fsync(raw.fileno())


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
