"""The state of training in a file, so that a run that was cut off can go on.

The file is what ``numpy.savez`` writes: a zip archive of arrays, none compressed. Its comment, the
last `_END` bytes of the file, says what it is, of which run, and the SHA-256 of all before that
digest. A file is checked from the end: the digest, then the run, then that each array is the one
that the learner declares; no shape or dtype in a file is ever followed.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count
from valuesparse.io._files import check_target, write_bytes
from valuesparse.learning._state import Field, Fields, Resumable, State, StateError, checked

__all__ = ["Checkpoint", "CheckpointError", "as_target", "fingerprint_of", "pack", "unpack"]

_MAGIC = b"valuesparse checkpoint 1 "
_DIGEST = 64  # hexadecimal digits of a SHA-256
_END = len(_MAGIC) + _DIGEST + 1 + _DIGEST
# Bytes of the header of an array in the NPY format: all that a learner declares fits.
_HEADER = 128
# Bytes of an archive beside its arrays: for each member, and for itself.
_MEMBER, _ARCHIVE = 512, 1024
_NAME = ".npy"


class CheckpointError(ValueError):
    """A file is no checkpoint, a damaged one, or that of another run."""


def as_target(path: Any) -> Path:
    """Return the path of a checkpoint; TypeError that names it for anything else."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"checkpoint must be a path, not {type(path).__name__}")
    return Path(os.fsdecode(path))


class Checkpoint:
    """A file that holds the last state of a run.

    Parameters
    ----------
    path : str, bytes or path
        The file.
    every : int
        Iterations between two states; at least 1.
    parts : tuple
        All that the run depends on: a state is only taken up by a run with the same.

    Raises
    ------
    OSError
        The file could not be written.
    CheckpointError
        It is no regular file, such as a pipe.
    """

    def __init__(
        self, path: str | bytes | os.PathLike[str], every: int, parts: tuple[Any, ...]
    ) -> None:
        if type(every) is int and every < 1:
            raise ValueError(f"checkpoint_every must be 1 or more, not {every}")
        self.path = as_target(path)
        self.every = as_count("checkpoint_every", every, at_least=1)
        self.fingerprint = fingerprint_of(parts)
        check_target(self.path)
        # Reading a pipe has no end when nobody writes to it.
        if self.path.exists() and not self.path.is_file():
            raise CheckpointError(f"{self.path} is not a regular file; name another file")

    def resume(self, learner: Resumable) -> bool:
        """Let a learner go on from the state in the file; False where there is no file.

        Raises
        ------
        CheckpointError
            The file is no checkpoint, a damaged one, or one of another run. The learner is as it
            was then.
        """
        fields = learner.fields()
        limit = _limit(fields)
        try:
            with open(self.path, "rb") as file:
                # Reading allocates the size asked for: ask for no more than there is.
                data = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)
        except FileNotFoundError:
            return False
        try:
            learner.restore(unpack(data, fields, self.fingerprint))
        except (CheckpointError, StateError) as error:
            damaged = "is a damaged checkpoint: " if isinstance(error, StateError) else ""
            raise CheckpointError(
                f"{self.path} {damaged}{error}; remove it to begin anew, or name another file"
            ) from None
        return True

    def offer(self, number: int, learner: Resumable) -> None:
        """Write the state of iteration `number` if it is due."""
        if number % self.every:
            return
        fields = learner.fields()
        try:
            state = checked(learner.state(), fields)
        except StateError as error:
            raise ValueError(f"iteration {number}: {error}; {self.path} stays as it was") from None
        write_bytes(self.path, pack(state, fields, self.fingerprint))


def fingerprint_of(parts: tuple[Any, ...]) -> str:
    """Return a digest that differs where any array or any other part differs."""
    seen = hashlib.sha256()
    for part in parts:
        for piece in part if isinstance(part, tuple) else (part,):
            if isinstance(piece, np.ndarray):
                head, body = f"{piece.dtype.str}{piece.shape}", np.ascontiguousarray(piece).data
            else:
                head, body = repr(piece), memoryview(b"")
            # With their lengths: what ends one piece must not be able to begin the next.
            text = head.encode("utf-8", "surrogatepass")
            seen.update(b"%d %d " % (len(text), body.nbytes))
            seen.update(text)
            seen.update(body)
    return seen.hexdigest()


def pack(state: Mapping[str, npt.NDArray[Any]], fields: Fields, fingerprint: str) -> memoryview:
    """Return the bytes of a checkpoint."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, field in fields.items():
            array = np.asarray(state[name], _dtype(field), order="C")
            # A date of its own: the same state makes the same bytes.
            with archive.open(zipfile.ZipInfo(name + _NAME), "w", force_zip64=True) as member:
                member.write(_header(field, array.shape))
                member.write(array.reshape(-1).view(np.uint8).data)
        archive.comment = _MAGIC + fingerprint.encode() + b" " + bytes(_DIGEST)
    data = file.getbuffer()
    data[-_DIGEST:] = hashlib.sha256(data[:-_DIGEST]).hexdigest().encode()
    return data


def unpack(data: bytes, fields: Fields, fingerprint: str) -> State:
    """Return the arrays of a checkpoint, of the dtypes and shapes that `fields` declares.

    Their numbers are the learner's to check. Memory stays within a few times the size of `data`.

    Raises
    ------
    CheckpointError
        These are not the bytes of a checkpoint, or it is damaged, or of another run.
    """
    if len(data) > _limit(fields):
        raise CheckpointError(
            f"is not a checkpoint of this model: it has more than {_limit(fields)} bytes"
        )
    end = data[-_END:]
    if len(end) < _END or not end.startswith(_MAGIC):
        raise CheckpointError(
            "is not a checkpoint, or it is cut off, or of another version of valuesparse"
        )
    if end[-_DIGEST:] != _digest(data):
        raise CheckpointError("is a damaged checkpoint: its checksum is wrong")
    if end[len(_MAGIC) : -_DIGEST - 1] != fingerprint.encode():
        raise CheckpointError("is a checkpoint of other data, features or parameters")
    members = _members(data)
    if members.keys() != fields.keys():
        raise CheckpointError("is a damaged checkpoint: it does not hold the arrays of a state")
    return {name: _array(name, field, members[name]) for name, field in fields.items()}


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(memoryview(data)[:-_DIGEST]).hexdigest().encode()


def _limit(fields: Fields) -> int:
    """Return the most bytes that a state can have as a file."""
    return _END + _ARCHIVE + sum(_MEMBER + field.size for field in fields.values())


def _dtype(field: Field) -> np.dtype[Any]:
    return np.dtype(field.dtype).newbyteorder("<")


def _header(field: Field, shape: tuple[int, ...]) -> bytes:
    """Return what stands before an array in the NPY format, version 1.0."""
    text = f"{{'descr': '{_dtype(field).str}', 'fortran_order': False, 'shape': {shape}, }}"
    start = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little")
    return start + text.encode().ljust(_HEADER - 11) + b"\n"


def _members(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive, none of them compressed, by their names."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            stored = all(
                member.compress_type == zipfile.ZIP_STORED
                and member.compress_size == member.file_size
                and member.filename.endswith(_NAME)
                for member in members
            )
            # Members that share bytes would take more memory than the file has.
            if stored and sum(member.file_size for member in members) <= len(data):
                for member in members:
                    found[member.filename[: -len(_NAME)]] = archive.read(member)
    except MemoryError:
        raise
    except Exception as error:  # zipfile has no list of what a strange archive makes it raise
        problem = str(error)[:200] or type(error).__name__
        raise CheckpointError(f"is a damaged checkpoint: {problem}") from None
    return found


def _array(name: str, field: Field, content: bytes) -> npt.NDArray[Any]:
    """Return an array whose header is, byte for byte, one that `field` allows."""
    first: tuple[int | range, ...] = field.shape[:1]
    rest: tuple[Any, ...] = field.shape[1:]
    lengths = [(s,) if isinstance(s, int) else s for s in first]
    for shape in [(n, *rest) for n in lengths[0]] if lengths else [()]:
        size = _HEADER + int(np.prod(shape, dtype=np.int64)) * _dtype(field).itemsize
        if len(content) == size and content.startswith(_header(field, shape)):
            array = np.frombuffer(content, _dtype(field), offset=_HEADER).reshape(shape)
            return array.astype(np.dtype(field.dtype), copy=False)
    raise CheckpointError(f"is a damaged checkpoint: {name!r} has another dtype or shape")
