"""Functions of the user's, by name: found without a change of ``sys.path``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from valuesparse._fork import renew_in_forks

__all__ = ["find_function", "name_of"]

Function = Callable[[Sequence[str]], Sequence[Any]]

# sys.meta_path belongs to all threads; a module may look for functions itself.
_IMPORTING = threading.RLock()


@renew_in_forks
def _forked() -> None:
    """Let go, in a forked child, of a lock whose thread it does not have."""
    global _IMPORTING
    _IMPORTING = threading.RLock()


def name_of(function: Any) -> str:
    """Return the name, ``package.module:function``, by which a function goes.

    Examples
    --------
    >>> from valuesparse.crf.corpora._features import word_attributes
    >>> name_of(word_attributes)
    'valuesparse.crf.corpora._features:word_attributes'
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not (callable(function) and isinstance(module, str) and isinstance(name, str)):
        raise TypeError(
            "features must be the name of an extractor or a function that has a name, not "
            f"{type(function).__name__}"
        )
    return f"{module}:{name}"


def find_function(name: str, folder: str | None = None) -> Function:
    """Return the function that ``package.module:function`` names.

    Parameters
    ----------
    name : str
        The module and the function.
    folder : str, optional
        Where a module is looked for that Python does not find. Until it is imported, what it
        imports itself is looked for there, too, after everything else.

    Raises
    ------
    ValueError
        There is no such function, or its module cannot be imported.

    Examples
    --------
    >>> find_function("valuesparse.crf.corpora._features:word_attributes")(["a"])[0][:2]
    ['bias', 'w=a']
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"{name[:80]!r} does not name a function as package.module:function does")
    try:
        found = _imported(module, folder)
    except ImportError as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from error
    except Exception as error:
        raise ValueError(f"{name!r} cannot be imported: {error!r}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            where = getattr(sys.modules[module], "__file__", None) or "Python itself"
            raise ValueError(f"{name!r} cannot be imported: {where} has no {part!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{name!r} is a {type(found).__name__}, not a function")
    return found


def _imported(module: str, folder: str | None) -> Any:
    top = module.partition(".")[0]
    with _IMPORTING:
        if folder is None or top in sys.modules or importlib.util.find_spec(top) is not None:
            return importlib.import_module(module)
        importlib.invalidate_caches()
        if PathFinder.find_spec(top, [folder]) is None:
            raise ImportError(f"no module {top!r}, neither where Python looks nor in {folder}")
        return _imported_from(module, folder)


class _Beside:
    """Finds modules in a folder, where nothing else does; ``sys.path`` stays as it is."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return how a module is loaded; those of packages are found by these."""
        return None if path is not None else PathFinder.find_spec(name, [self.folder], target)


def _imported_from(module: str, folder: str) -> ModuleType:
    """Import a module that, and whose own modules, may be in a folder."""
    finder = _Beside(folder)
    sys.meta_path.append(finder)
    try:
        return importlib.import_module(module)
    finally:
        with suppress(ValueError):  # the module may have replaced the list
            sys.meta_path.remove(finder)
