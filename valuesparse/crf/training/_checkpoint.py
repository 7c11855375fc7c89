"""The state of training in a file, so that a run that was cut off can go on."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from valuesparse.io._files import write_bytes

__all__ = ["Checkpoint"]


class Checkpoint:
    """A file that holds the last state of a run.

    Parameters
    ----------
    path : str or path
        The file.
    every : int
        Iterations between two states; at least 1.
    fingerprint : tuple
        What the run depends on: a state is only taken up by a run with the same.
    """

    def __init__(
        self, path: str | os.PathLike[str], every: int, fingerprint: tuple[Any, ...]
    ) -> None:
        if every < 1:
            raise ValueError(f"checkpoint_every must be 1 or more, not {every}")
        self.path, self.every = Path(path), every
        digest = hashlib.sha256()
        for part in fingerprint:
            for piece in part if isinstance(part, tuple) else (part,):
                if isinstance(piece, np.ndarray):
                    digest.update(f"{piece.dtype.str}{piece.shape}".encode())
                    digest.update(np.ascontiguousarray(piece).data)
                else:
                    digest.update(repr(piece).encode())
        self.fingerprint = digest.hexdigest()

    def load(self) -> dict[str, Any] | None:
        """Return the state in the file, None where there is no file.

        Raises
        ------
        ValueError
            The file is no checkpoint, or one of another run.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                state = {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path} is not a checkpoint: {error}") from None
        if str(state.pop("fingerprint", "")) != self.fingerprint:
            raise ValueError(
                f"{self.path} is a checkpoint of other data, features or parameters; remove it, or "
                "name another file"
            )
        return state

    def offer(self, number: int, state: dict[str, Any]) -> None:
        """Write the state of iteration `number` if it is due."""
        if number % self.every == 0:
            file = io.BytesIO()
            np.savez(file, allow_pickle=False, fingerprint=self.fingerprint, **state)
            write_bytes(self.path, file.getvalue())
