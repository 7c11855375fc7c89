"""Files that appear when they are complete, and what is kept beside a model."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from valuesparse.io._files import write_bytes

__all__ = ["as_paths", "digest_of", "fingerprint", "publishing", "read_beside", "write_beside"]

#: Ends the names of unfinished files; they begin with a dot.
UNFINISHED = ".part"
_PIECE = 1 << 20  # bytes


@contextmanager
def publishing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its name when it is complete and on disk.

    A name that ends in ``.gz`` compresses; the bytes depend on what is written alone.
    """
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with open(temporary, "xb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open folders, and needs no fsync of them
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of data in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def as_paths(inputs: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the paths; one alone stands for itself, not for its characters."""
    if isinstance(inputs, (str, os.PathLike)):
        inputs = [inputs]
    return [Path(source) for source in inputs]


def fingerprint(path: Path) -> str:
    """Return what tells whether a file of any size is still the same: its SHA-256."""
    seen = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            seen.update(piece)
    return seen.hexdigest()


def beside(model: Path) -> Path:
    """Return the path of what is kept beside a model."""
    return model.with_name(model.name + ".json")


def write_beside(model: Path, settings: dict[str, Any]) -> None:
    """Keep how a model's data were read; names only, never code."""
    text = json.dumps(settings, indent=2, ensure_ascii=False, sort_keys=True)
    write_bytes(beside(model), (text + "\n").encode())


def read_beside(model: Path) -> dict[str, Any]:
    """Return what is kept beside a model; nothing is an empty dict."""
    path = beside(model)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} must hold an object, not {type(found).__name__}")
    for name, value in found.items():
        if not (value is None or isinstance(value, str)):
            raise ValueError(f"{path.name}: {name!r} must be text, not {type(value).__name__}")
    return found
