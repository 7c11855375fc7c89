"""Every module of the package can be imported, where what it needs is installed.

Doctests of a module that cannot are skipped, so a name that is gone would go unseen there.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import valuesparse
from valuesparse._extras import MissingExtraError

#: Packages of the extras; nothing else may be missing.
OPTIONAL = {
    "click", "dask", "distributed", "matplotlib", "pandas", "pgmpy", "pyagrum", "pyarrow",
    "pycantonese", "pycrfsuite", "rich", "sklearn", "sklearn_crfsuite", "torch",
}  # fmt: skip

NAMES = sorted(
    found.name
    for found in pkgutil.walk_packages(valuesparse.__path__, "valuesparse.", onerror=lambda _: None)
    if not found.name.endswith(".__main__")
)


@pytest.mark.smoke
@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_imported(name: str) -> None:
    try:
        importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error).partition(".")[0])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{name} needs {error.name}, which is not installed")


def test_only_the_package_itself_does_something_when_it_is_imported() -> None:
    root = Path(valuesparse.__file__).parent
    calls = [
        (path.relative_to(root).as_posix(), ast.unparse(node))
        for path in sorted(root.rglob("*.py"))
        if path.name != "__main__.py"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    assert [call for call in calls if not call[0].startswith("cli/")] == [
        ("__init__.py", "_start()")
    ]
