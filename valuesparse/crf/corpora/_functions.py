"""Functions of the user's, by name: found without a change of ``sys.path``."""

from __future__ import annotations

import dis
import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from valuesparse._fork import renew_in_forks
from valuesparse.corpora._files import digest_of, fingerprint

__all__ = ["find_function", "identity_of", "name_of"]

Function = Callable[[Sequence[str]], Sequence[Any]]

# Values that code and closures have, of which all is known.
_CONSTANTS = (type(None), type(...), bool, int, float, complex, str, bytes)

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


def identity_of(name: str, function: Any) -> dict[str, str]:
    """Return what tells a function from others of its name, as far as that can be known.

    It is the same in any process, wherever its module lies.

    Parameters
    ----------
    name : str
        The name, ``package.module:function``.
    function : callable
        The function.

    Returns
    -------
    dict
        ``features_sha256``, of the file of its module, its own source text, and the constants that
        it was made with. Without a source text of its own, as a lambda has none, it is of compiled
        code, and ``python`` says which Python compiled that.
    """
    parts: list[Any] = []
    for module in (name.partition(":")[0], getattr(function, "__module__", None)):
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        with suppress(OSError):
            parts.append(fingerprint(Path(file)) if file else None)
    found = {}
    for own in _functions_within(function):
        text = _source_of(own)
        if text is None:
            found["python"] = sys.implementation.cache_tag
        parts.append([_known(own.__code__) if text is None else text, _made_with(own)])
    text = repr(parts)
    return {"features_sha256": digest_of(text.encode("utf-8", "surrogatepass")), **found}


def _functions_within(function: Any) -> list[FunctionType]:
    """Return a function of Python's, and those that it holds on to, as a decorated one does."""
    found: list[FunctionType] = []
    todo = [function]
    while todo:
        one = todo.pop()
        one = getattr(one, "__func__", one)  # of a method
        if not isinstance(one, FunctionType):
            todo += [one.__wrapped__] if hasattr(one, "__wrapped__") else []
        elif not any(one is other for other in found):
            found.append(one)
            todo += [value for _, value in sorted(_closure(one).items()) if callable(value)]
    return found


def _source_of(function: FunctionType) -> str | None:
    """Return the text of a function; None where there is none, or it may be that of others, too."""
    if function.__code__.co_name == "<lambda>":  # there may be several in a line
        return None
    try:
        return inspect.getsource(function.__code__)
    except (OSError, TypeError):
        return None


def _closure(function: FunctionType) -> dict[str, Any]:
    """Return the variables that a function has from where it was made, but for those it changes."""
    code = function.__code__
    changed = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
    found = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name not in changed:
            with suppress(ValueError):  # it is empty still
                found[name] = cell.cell_contents
    return found


def _made_with(function: FunctionType) -> list[Any]:
    """Return the constants that a function has beside its code: others may change as it runs."""
    more = sorted((function.__kwdefaults__ or {}).items())
    values = [*sorted(_closure(function).items()), *more, ("", function.__defaults__)]
    return [(name, _known(value)) for name, value in values]


def _known(value: Any) -> Any:
    """Return what can be known of a value, the same in any process: all of a constant, or code."""
    kind = type(value)
    if kind in _CONSTANTS:
        return kind.__name__, repr(value)
    if kind is tuple:
        return [_known(one) for one in value]
    if kind is frozenset:  # its order is that of no other process
        return sorted(repr(_known(one)) for one in value)
    if isinstance(value, CodeType):
        return (
            value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars,
            value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags,
            getattr(value, "co_exceptiontable", b""), [_known(one) for one in value.co_consts],
        )  # fmt: skip
    return kind.__qualname__


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
