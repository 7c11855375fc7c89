"""Few places reach into the private attributes of an object that another package defines."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import valuesparse

ROOT = Path(valuesparse.__file__).parent

#: How many such places there may be; fewer is better, and then this number goes down.
MOST = 8

#: Names that several packages define, by the packages where an access means their own. In any
#: other place they count: nobody can tell by the name whose attribute it is.
OWN = {
    "_MOST": {"models"},
    "_check": {"hmm"},
    "_evidence": {"models"},
    "_fill": {"hmm", "models", "results"},
    "_freeze": {"models"},
    "_number": {"models"},
    "_prepare": {"crf"},
    "_share": {"models"},
    "_soft": {"models"},
    "_tree": {"inference"},
}
#: Functions that take the name of an attribute as their second argument.
BY_NAME = {"getattr", "setattr", "delattr", "hasattr", "attrgetter"}


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def package_of(path: Path, root: Path) -> str:
    """Return the folder below the root that a file is in, else the file's own name."""
    return path.relative_to(root).parts[0]


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a file defines as functions, classes, variables or fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Assign):
            slots = any(isinstance(t, ast.Name) and t.id == "__slots__" for t in node.targets)
            if slots and isinstance(node.value, ast.Tuple | ast.List):
                yield from (str(e.value) for e in node.value.elts if isinstance(e, ast.Constant))


@functools.cache
def read(root: Path) -> tuple[list[tuple[Path, ast.expr, str]], dict[str, set[str]]]:
    """Return each access to a private name of another object, and the packages that define each."""
    found: list[tuple[Path, ast.expr, str]] = []
    homes: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in filter(private, defined(tree)):
            homes.setdefault(name, set()).add(package_of(path, root))
        for node in ast.walk(tree):
            named = accessed(node)
            if named is None or not private(named[1]):
                continue
            if not (isinstance(named[0], ast.Name) and named[0].id in ("self", "cls")):
                found.append((path, node, named[1]))
    return found, homes


def accesses(root: Path, own: dict[str, set[str]] = OWN) -> list[str]:
    """Return ``file:line: expression`` of each private attribute that another package defines."""
    every, homes = read(root)
    found = []
    for path, node, name in every:
        home, here = homes.get(name, set()), package_of(path, root)
        if not home or home == {here} or here in own.get(name, ()):
            continue
        found.append(f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}")
    return sorted(found)


def accessed(node: ast.AST) -> tuple[ast.expr, str] | None:
    """Return the object and the attribute that an expression reaches for, also by its name."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.func, ast.Name):
        name = node.args[1]
        if node.func.id in BY_NAME and isinstance(name, ast.Constant):
            return node.args[0], str(name.value)
    return None


def test_private_attributes_of_other_packages_are_few() -> None:
    found = accesses(ROOT)
    assert len(found) <= MOST, "\n".join(found)


def test_the_counter_sees_what_it_should(tmp_path: Path) -> None:
    files = {
        "a/x.py": "class X:\n    def __init__(self): self._field = 1\n    def _method(self): ...",
        "a/y.py": "def f(x): return x._field",
        "b/z.py": (
            "class Z:\n    def __init__(self): self._own = 2\n"
            "    def g(self, x): return self._own, x._field, x._method(), x._own, x._asdict()\n"
            "    def h(self, x): self._field = x._field; setattr(x, '_method', 1)"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert accesses(tmp_path, {}) == [
        "a/y.py:1: x._field",
        "b/z.py:3: x._field",
        "b/z.py:3: x._method",
        "b/z.py:4: setattr(x, '_method', 1)",
        "b/z.py:4: x._field",
    ]
    assert len(accesses(tmp_path, {"_field": {"a"}})) == 4


def test_names_of_several_packages_are_listed_as_long_as_they_are() -> None:
    counted = len(accesses(ROOT))
    for name in OWN:
        rest = {other: where for other, where in OWN.items() if other != name}
        assert len(accesses(ROOT, rest)) > counted, f"{name} needs no place in OWN"
