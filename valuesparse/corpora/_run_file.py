"""The file in which a folder of outputs keeps whose run it is, and which shards are done."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from valuesparse.corpora._files import UNFINISHED, fingerprint
from valuesparse.corpora._lock import LOCK
from valuesparse.io._files import replacing
from valuesparse.io._json import read_json

__all__ = ["RUN", "RunFile", "Shard", "tidy"]

# Readers of folders, as pyarrow's, pass over names that begin so.
RUN = "_valuesparse-run.json"

# Some two million shards.
_LARGEST = 256 << 20
# Writing this file takes at most this share of the time.
_SHARE = 0.05


class Shard(NamedTuple):
    """A finished shard, as it was written."""

    name: str
    size: int  # bytes
    digest: str  # SHA-256


class RunFile:
    """The run that a folder belongs to; its owner holds the folder's lock.

    Parameters
    ----------
    folder : Path
        The folder.
    settings : mapping
        All that decides the output, as JSON holds it.
    names : collection of str
        The files of the output.

    Attributes
    ----------
    finished : set of str
        Those that are there as they were written. All others are to be made.

    Raises
    ------
    ValueError
        The folder holds the output of another run, or files that are nobody's, or links.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], names: Collection[str]) -> None:
        self._settings = dict(settings)
        self._path = folder / RUN
        self._next = 0.0
        self._shards: dict[str, Shard] = {}
        for name in (RUN, *names):
            # Another's folder must not choose which file is written to.
            if (folder / name).is_symlink():
                raise ValueError(
                    f"{folder}: {name} there is a link, and is not written to; remove it, or "
                    "choose another folder"
                )
        try:
            told, shards = _read(self._path)
        except FileNotFoundError:
            there = [name for name in names if (folder / name).exists()]
            if there:
                raise ValueError(
                    f"{folder}: {there[0]} is there already, and not from such a run; choose "
                    "another folder"
                ) from None
        else:
            if told == self._settings:
                self._shards = {
                    shard.name: shard
                    for shard in shards
                    if shard.name in names and _is_there(folder, shard)
                }
            elif any(
                name not in (RUN, LOCK) and not name.endswith(UNFINISHED)
                for name in os.listdir(folder)
            ):
                keys = told.keys() | self._settings.keys()
                differ = sorted(k for k in keys if told.get(k) != self._settings.get(k))
                other = [k if k.isidentifier() else repr(k[:40]) for k in differ]
                raise ValueError(
                    f"{folder} holds the output of a run with other {', '.join(other)}; choose "
                    "another folder, or remove this one"
                )
        self.finished = set(self._shards)
        self.save()

    def note(self, shard: Shard) -> None:
        """Note that a shard is done; a killed run does again the shards not noted yet."""
        self._shards[shard.name] = shard
        if time.monotonic() >= self._next:
            self.save()

    def save(self) -> None:
        """Write the notes; the same for the same output, whatever the order of its shards."""
        begin = time.monotonic()
        shards = {
            name: {"bytes": shard.size, "sha256": shard.digest}
            for name, shard in sorted(self._shards.items())
        }
        content = {**self._settings, "shards": shards}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        with replacing(self._path, UNFINISHED) as file:
            file.write(text.encode())
        now = time.monotonic()
        self._next = now + (now - begin) / _SHARE


def _read(path: Path) -> tuple[dict[str, Any], list[Shard]]:
    """Return the settings and the shards that a file tells."""
    try:
        told = read_json(path, _LARGEST, regular=True)
        if not isinstance(told, dict):
            raise ValueError(f"{path}: not an object, but {type(told).__name__}")
        shards = told.pop("shards", {})
        if not isinstance(shards, dict):
            raise ValueError(f"{path}: 'shards' is not an object, but {type(shards).__name__}")
        return told, [_shard(path, name, entry) for name, entry in shards.items()]
    except ValueError as error:
        problem = str(error).removeprefix(f"{path}: ")
        raise ValueError(
            f"{path}: damaged: {problem}; choose another folder, or remove this one"
        ) from error


def _shard(path: Path, name: str, entry: Any) -> Shard:
    size, digest = (entry.get(k) if isinstance(entry, dict) else None for k in ("bytes", "sha256"))
    if type(size) is not int or not isinstance(digest, str):
        raise ValueError(f"{path}: shard {name[:80]!r} without bytes and sha256")
    return Shard(name, size, digest)


def _is_there(folder: Path, shard: Shard) -> bool:
    """Return whether a shard is as it was written: neither cut short nor changed."""
    path = folder / shard.name
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size == shard.size
        and fingerprint(path) == shard.digest
    )


def tidy(folder: Path) -> None:
    """Remove what workers that were killed have left."""
    for left in folder.glob(f".*{UNFINISHED}"):
        left.unlink(missing_ok=True)
