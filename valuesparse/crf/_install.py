"""Packages in the place of python-crfsuite and sklearn-crfsuite, for code that imports those."""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from valuesparse._fork import renew_in_forks

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Installation", "install"]

_FOLDER = Path(__file__).resolve().parent / "_dropin"
_PACKAGES = ("pycrfsuite", "sklearn_crfsuite")


class _Finder(MetaPathFinder):
    """Finds the two packages; their submodules follow from the folders that they have."""

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of one of the packages, None of anything else."""
        if fullname not in _PACKAGES:
            return None
        folder = _FOLDER / fullname
        return spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


class _Installed:
    """The modules in place now, how many ask for them, and those that were there before."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.count = 0
        self.finder = _Finder()
        self.before: dict[str, ModuleType | None] = {}

    def take(self) -> None:
        """Put the packages in place, unless they are."""
        with self.lock:
            if self.count == 0:
                self._put()
            self.count += 1

    def give(self) -> None:
        """Undo one `take`; the last one takes the packages out again."""
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self._remove()

    def _put(self) -> None:
        before: dict[str, ModuleType | None] = {name: sys.modules[name] for name in _loaded()}
        for name, module in before.items():
            _require_ours(name, module)
        for name in before:
            del sys.modules[name]
        self.before = before
        sys.meta_path.insert(0, self.finder)
        try:
            # Waits for a thread that is importing the original, and finds what that has loaded.
            for name in ("pycrfsuite", *_loaded()):
                _require_ours(name, importlib.import_module(name))
        except BaseException:
            self._remove()
            raise

    def _remove(self) -> None:
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        for name in _loaded():
            if _is_ours(sys.modules[name]):
                del sys.modules[name]
        for name, module in self.before.items():
            # None means that imports of that name are to fail.
            sys.modules.setdefault(name, module)  # type: ignore[arg-type]
        self.before = {}


_PLACE = _Installed()


@renew_in_forks
def _forked() -> None:
    """Let go, in a forked child, of a lock whose thread it does not have."""
    _PLACE.lock = threading.RLock()


class Installation:
    """The changes that :func:`install` has made, and how to undo it.

    Examples
    --------
    >>> installation = install()  # doctest: +SKIP
    >>> installation.uninstall()  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._active = False
        self._enter()

    def uninstall(self) -> None:
        """Undo this installation; the packages go when nobody else has installed them.

        Modules that were imported in the meantime keep the classes that they have got.
        """
        with _PLACE.lock:
            active, self._active = self._active, False
        if active:
            _PLACE.give()

    def _enter(self) -> None:
        with _PLACE.lock:
            if not self._active:
                _PLACE.take()
                self._active = True

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, *error: object) -> None:
        self.uninstall()

    def __repr__(self) -> str:
        return f"<{'active' if self._active else 'inactive'} installation of valuesparse.crf>"


def install() -> Installation:
    """Put this package in the place of python-crfsuite and sklearn-crfsuite.

    From now on ``import pycrfsuite`` and ``import sklearn_crfsuite`` give the classes and functions
    of :mod:`valuesparse.crf`, in packages with the originals' submodules and public names.
    Libraries that import those run on them unchanged, and pickles that the originals have written
    can be opened. The originals need not be installed.

    Returns
    -------
    Installation
        As a context manager, it undoes the installation at the end of the ``with`` block;
        :meth:`Installation.uninstall` undoes it as well. Without either it holds for the rest of
        the process.

    Raises
    ------
    RuntimeError
        One of the originals was imported before: whoever did that holds its classes already.

    Notes
    -----
    ``sklearn_crfsuite.CRF`` is :class:`valuesparse.crf.CRF` then, the same class, and needs the
    extra ``sklearn`` when it is imported. The classes of ``pycrfsuite`` are those of
    :mod:`valuesparse.crf.crfsuite`.

    Several installations may be active, in several threads too: the packages go with the last.
    Processes that are spawned install for themselves, before they import or unpickle anything.

    Examples
    --------
    >>> import valuesparse.crf
    >>> with valuesparse.crf.install():  # doctest: +SKIP
    ...     import pycrfsuite
    ...     import sklearn_crfsuite
    >>> pycrfsuite.Tagger is valuesparse.crf.crfsuite.Tagger  # doctest: +SKIP
    True
    >>> sklearn_crfsuite.CRF is valuesparse.crf.CRF  # doctest: +SKIP
    True
    """
    return Installation()


def _loaded() -> list[str]:
    """Return the names of loaded modules of the packages or their originals, packages first."""
    return sorted(name for name in list(sys.modules) if name.partition(".")[0] in _PACKAGES)


def _is_ours(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(_FOLDER)


def _require_ours(name: str, module: ModuleType | None) -> None:
    """Raise RuntimeError if a module is the original's."""
    # A module of this package may stand under that name: put there by hand. None forbids imports.
    given = getattr(module, "__name__", "").partition(".")[0] == "valuesparse"
    if module is None or given or _is_ours(module):
        return
    raise RuntimeError(
        f"{name} is already imported from {getattr(module, '__file__', None) or module!r}: call "
        "valuesparse.crf.install() before anything imports it"
    )
