"""Files that appear when they are complete, and what is kept beside a model."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from valuesparse.io._files import replacing, write_bytes
from valuesparse.io._json import read_json

__all__ = [
    "as_paths",
    "beside",
    "digest_of",
    "fingerprint",
    "publishing",
    "read_beside",
    "require_tied",
    "write_pair",
]

#: Ends the names of unfinished files; they begin with a dot.
UNFINISHED = ".part"
_PIECE = 1 << 20  # bytes
#: What is kept beside a model has its SHA-256 by this name.
_TIE = "model_sha256"
# The largest file beside a model: room for a template of 1 MiB, however JSON writes it.
_BESIDE = 8 << 20


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


def write_pair(model: Path, data: bytes, settings: dict[str, Any]) -> None:
    """Write a model, and beside it how its data were read; names and templates, never code.

    What is kept comes first and says which model it is of: whatever is interrupted, a model never
    stands there without it, and never unnoticed beside that of another.
    """
    kept = {**settings, _TIE: digest_of(data)}
    text = json.dumps(kept, indent=2, ensure_ascii=False, sort_keys=True)
    write_bytes(beside(model), (text + "\n").encode())
    write_bytes(model, data)


def require_tied(model: Path, kept: dict[str, Any], digest: str | None = None) -> None:
    """Refuse what is kept beside a model and is of another one; nothing is of every model.

    Parameters
    ----------
    model : Path
        The model.
    kept : dict
        What is kept.
    digest : str, optional
        The SHA-256 of the model, where it is known.

    Raises
    ------
    ValueError
        It is of another model.
    """
    if not kept:
        return
    told = kept.get(_TIE)
    if told != (digest or fingerprint(model)):
        problem = "does not belong to" if told else "does not say that it belongs to"
        raise ValueError(
            f"{beside(model)} {problem} {model}: train again, or remove it and say with --features "
            "(features=) how words become attributes"
        )


def read_beside(model: Path) -> dict[str, Any]:
    """Return what is kept beside a model; nothing is an empty dict.

    Raises
    ------
    ValueError
        It is not an object of JSON that holds texts.
    """
    path = beside(model)
    try:
        found = read_json(path, _BESIDE, regular=True)
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold an object, not {type(found).__name__}")
    for name, value in found.items():
        if not (value is None or isinstance(value, str)):
            raise ValueError(f"{path}: {name[:80]!r} must be text, not {type(value).__name__}")
    return found
