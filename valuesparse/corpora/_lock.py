"""One run at a time: locks on folders, which the operating system ends with their process."""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import stat
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from valuesparse._fork import renew_in_forks
from valuesparse.io._files import blaming
from valuesparse.io._json import parse_json

__all__ = ["LOCK", "locked", "require_mine"]

#: The file in a folder that is locked as long as a run writes there.
LOCK = ".valuesparse.lock"

_LARGEST = 4096  # bytes of a lock file
# Windows keeps others from reading locked bytes: lock one far behind the text.
_FAR = 1 << 30
# A link could lead anywhere, and a pipe may never answer. Windows knows neither flag.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
_LINKS = (errno.ELOOP, errno.EMLINK)  # what O_NOFOLLOW says of a link
_HELD = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)

# Locks of network file systems may not hold against this very process.
_here: set[Path] = set()
_open: set[int] = set()
_guard = threading.Lock()


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Lock a folder, and yield what tells this run from others.

    The lock belongs to the process: it ends when that is killed, with nothing left to do by hand.

    Parameters
    ----------
    folder : Path
        The folder, as it is resolved.

    Raises
    ------
    ValueError
        Another run writes to the folder; the message says who. Or what has the lock file's name is
        no file of its own: a link, a second name of another file, a pipe.
    OSError
        The lock file cannot be written.
    """
    with _guard:
        if folder in _here:
            raise _taken(folder, f"process {os.getpid()}, this one")
        _here.add(folder)
    try:
        handle = _locked_file(folder)
        run = secrets.token_hex(8)
        try:
            who = {
                "run": run, "process": os.getpid(), "host": socket.gethostname(),
                "since": time.strftime("%Y-%m-%d %H:%M:%S"),
            }  # fmt: skip
            _write(handle, json.dumps(who).encode())
            yield run
        finally:
            _let_go(folder / LOCK, handle)
    finally:
        with _guard:
            _here.discard(folder)


def require_mine(folder: Path, run: str) -> None:
    """Refuse to go on when another run has taken over the folder since.

    Workers may outlive a run that was killed, and must not write into the next one's output.

    Raises
    ------
    ValueError
        Another run holds the folder.
    """
    found = _told(folder / LOCK).get("run")
    if found is not None and found != run:
        raise ValueError(f"{folder}: this run is over, another one writes there now")


def _locked_file(folder: Path) -> int:
    """Open and lock the lock file of a folder; return its handle."""
    path = folder / LOCK
    while True:
        # Not inherited by programs that are started; forked children close it, see below.
        handle = _opened(folder, path)
        with _guard:
            _open.add(handle)
        try:
            found = os.fstat(handle)
            # Without a name it was removed just now, which is looked at below.
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise _strange(folder)
            _lock(handle)
            # The run that held it may have removed it since it was opened here.
            if os.name == "nt" or _is(path, handle):
                return handle
        except OSError as error:
            _close(handle)
            if error.errno in _HELD:
                told = _told(path)
                process, host, since = (
                    " ".join(str(told.get(key, "?")).split())[:80]
                    for key in ("process", "host", "since")
                )
                raise _taken(folder, f"process {process} on {host}, since {since}") from None
            raise
        except BaseException:
            _close(handle)
            raise
        _close(handle)


def _opened(folder: Path, path: Path) -> int:
    """Open the lock file of a folder, and nothing that a link leads to."""
    if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
        raise _strange(folder)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
    except OSError as error:
        if (error.errno in _LINKS and path.is_symlink()) or path.is_dir():
            raise _strange(folder) from None
        with blaming(folder):
            raise


def _lock(handle: int) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise
        # Such as Lustre's without -o flock.
        warnings.warn(
            f"the file system of the output has no locks ({error.strerror}): make sure that no "
            "other run writes to the same folder",
            RuntimeWarning,
            stacklevel=2,
        )


def _let_go(path: Path, handle: int) -> None:
    """End a lock, and leave nothing of it."""
    if os.name == "nt":
        _close(handle)  # an open file cannot be removed there
        with suppress(OSError):  # the next run has it already
            os.unlink(path)
        return
    with suppress(OSError):
        if _is(path, handle):
            os.unlink(path)
    _close(handle)


def _close(handle: int) -> None:
    with _guard:
        if handle in _open:  # not in a child that was forked meanwhile
            _open.discard(handle)
            os.close(handle)


def _is(path: Path, handle: int) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _write(handle: int, data: bytes) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, data)
    os.ftruncate(handle, len(data))


def _told(path: Path) -> dict[str, Any]:
    """Return what a lock file says of its run; nothing, where it says nothing."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _FLAGS)) as file:
            found = parse_json(file.read(_LARGEST) or b"{}")
    except (OSError, ValueError):  # gone, or being written
        return {}
    return found if isinstance(found, dict) else {}


def _strange(folder: Path) -> ValueError:
    return ValueError(
        f"{folder}: {LOCK} there is a link or no regular file, and is not written to; remove it, "
        "or choose another folder"
    )


def _taken(folder: Path, who: str) -> ValueError:
    return ValueError(
        f"{folder}: another run writes there ({who}); wait for its end, or choose another folder"
    )


@renew_in_forks
def _forked() -> None:
    """Leave the locks to the parent; a child would hold them beyond its end."""
    global _guard
    _guard = threading.Lock()
    for handle in _open:
        with suppress(OSError):
            os.close(handle)
    _open.clear()
    _here.clear()
