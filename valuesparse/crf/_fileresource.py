"""A model as a file that somebody else wants the path of: sklearn-crfsuite's ``FileResource``."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

from valuesparse.io._files import read_file, write_bytes

__all__ = ["FileResource"]


class FileResource:
    """A file that is given, or a temporary one that goes with this object.

    A temporary file is made when its ``name`` is needed, and its contents travel in a pickle.

    Parameters
    ----------
    filename : str or path, optional
        The file; by default there is a temporary one.
    keep_tempfiles : bool
        Whether a temporary file outlives this object.
    suffix, prefix : str
        How the name of a temporary file ends and begins.
    contents : bytes, optional
        The first contents of a temporary file.

    Attributes
    ----------
    auto : bool
        Whether the file is temporary.

    Examples
    --------
    >>> FileResource("model.crfsuite").name
    'model.crfsuite'
    >>> resource = FileResource(contents=b"a model")
    >>> Path(resource.name).read_bytes()
    b'a model'
    """

    _remove: weakref.finalize[Any, Any] | None = None

    def __init__(
        self,
        filename: str | os.PathLike[str] | None = None,
        keep_tempfiles: bool = False,
        suffix: str = "",
        prefix: str = "",
        *,
        contents: bytes | None = None,
    ) -> None:
        self._name = None if filename is None else os.fspath(filename)
        self.auto = filename is None
        self.keep_tempfiles = keep_tempfiles
        self.suffix, self.prefix = suffix, prefix
        self._contents = contents

    @property
    def name(self) -> str | None:
        """The path; None while there is neither a file nor contents for one."""
        if self._name is None and self._contents is not None:
            self.ensure_name()
        return self._name

    @name.setter
    def name(self, name: str | os.PathLike[str] | None) -> None:
        self._name = None if name is None else os.fspath(name)

    def ensure_name(self) -> None:
        """Make the temporary file if there is none yet.

        Raises
        ------
        OSError
            It cannot be made.
        """
        if self._name is not None:
            return
        handle, name = tempfile.mkstemp(self.suffix, self.prefix)
        os.close(handle)
        self._name = name
        if not self.keep_tempfiles:
            self._remove = weakref.finalize(self, _unlink, name)
        if self._contents is not None:
            write_bytes(name, self._contents)
            self._contents = None

    def cleanup(self) -> None:
        """Remove the temporary file, unless such files are kept."""
        if self.keep_tempfiles or not self.auto:
            return
        if self._remove is not None:
            self._remove()
            self._remove = None
        self._name = self._contents = None

    def refresh(self) -> None:
        """Begin with an empty temporary file."""
        self.cleanup()
        self.ensure_name()

    def read(self) -> bytes | None:
        """Return the contents of the file; None when there is none.

        Raises
        ------
        OSError
            It is there and cannot be read.
        """
        if self._contents is not None:
            return self._contents
        if self._name is None or not os.path.exists(self._name):
            return None
        return read_file(self._name)

    # The keys are sklearn-crfsuite's, so that its pickles can be opened.
    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "name": None if self.auto else self._name,
            "auto": self.auto,
            "keep_tempfiles": self.keep_tempfiles,
            "suffix": self.suffix,
            "prefix": self.prefix,
        }
        contents = self.read() if self.auto else None
        if contents is not None:
            state["__FILE_RESOURCE_DATA__"] = contents
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.auto, self.keep_tempfiles = bool(state["auto"]), bool(state["keep_tempfiles"])
        self._name = None if self.auto else state["name"]
        self.suffix, self.prefix = state["suffix"], state["prefix"]
        self._contents = state.get("__FILE_RESOURCE_DATA__")


def _unlink(path: str) -> None:
    Path(path).unlink(missing_ok=True)
