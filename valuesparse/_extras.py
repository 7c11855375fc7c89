"""Say which optional packages are missing, and the command that installs them."""

from __future__ import annotations

from importlib.util import find_spec

# The name to give pip, where it differs from the name to import.
_ON_PYPI = {"pycrfsuite": "python-crfsuite", "sklearn": "scikit-learn"}


class MissingExtraError(ImportError):
    """Optional packages that a command needs are not installed.

    Parameters
    ----------
    extra : str
        The extra of valuesparse that brings them.
    modules : list of str
        The modules that cannot be imported.
    """

    def __init__(self, extra: str, modules: list[str]) -> None:
        self.extra = extra
        self.modules = modules
        names = ", ".join(_ON_PYPI.get(module, module) for module in modules)
        super().__init__(
            f'{names} not found. Install the "{extra}" extra with\n\n'
            f'    python -m pip install "valuesparse[{extra}]"\n\n'
            f'or, from a checkout of the sources,\n\n    python -m pip install ".[{extra}]"\n'
        )


def require(extra: str, *modules: str) -> None:
    """Check that modules can be imported, without importing them.

    Parameters
    ----------
    extra : str
        The extra of valuesparse that brings them.
    *modules : str
        Names of top-level modules.

    Raises
    ------
    MissingExtraError
        Naming every module that is not there and the pip command that brings it.

    Examples
    --------
    >>> require("cli", "json")
    >>> require("cli", "no_such_module")
    Traceback (most recent call last):
    ...
    valuesparse._extras.MissingExtraError: no_such_module not found. Install the "cli" extra...
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingExtraError(extra, missing)
