"""Few places reach into the private attributes of an object that another package defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import valuesparse

ROOT = Path(valuesparse.__file__).parent

#: How many such places there may be; fewer is better, and then this number goes down.
MOST = 17


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


def accesses(root: Path) -> list[str]:
    """Return ``file:line: expression`` of each private attribute that another package defines."""
    trees = {p: ast.parse(p.read_text(encoding="utf-8")) for p in sorted(root.rglob("*.py"))}
    homes: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for name in filter(private, defined(tree)):
            homes.setdefault(name, set()).add(package_of(path, root))
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not private(node.attr):
                continue
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                continue
            home = homes.get(node.attr, set())
            if home and package_of(path, root) not in home:
                found.append(f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node)}")
    return sorted(found)


def test_private_attributes_of_other_packages_are_few() -> None:
    found = accesses(ROOT)
    assert len(found) <= MOST, "\n".join(found)


def test_the_counter_sees_what_it_should(tmp_path: Path) -> None:
    files = {
        "a/x.py": "class X:\n    def __init__(self): self._field = 1\n    def _method(self): ...",
        "a/y.py": "def f(x): return x._field",  # the same package
        "b/z.py": (
            "class Z:\n    def __init__(self): self._own = 2\n"
            "    def g(self, x): return self._own, x._field, x._method(), x._own, x._asdict()"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert accesses(tmp_path) == ["b/z.py:3: x._field", "b/z.py:3: x._method"]
