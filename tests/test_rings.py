"""No file of the package imports itself by way of others: not at the top, not in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import valuesparse

ROOT = Path(valuesparse.__file__).parent

#: Circles that are still there; one that goes has to leave this list.
KNOWN: set[frozenset[str]] = set()

#: What may be imported by a file of each folder, beside its own folder and what needs no other.
BELOW = {
    "factors": set(),
    "models": {"factors"},
    "results": {"factors", "models"},
    "inference": {"factors", "models", "results"},
    "bounds": {"inference", "models", "results"},
    "relaxed": {"bounds", "factors", "inference", "models", "results"},
    "schedule": {"inference", "models"},
    "io": {"factors", "models"},
    "learning": set(),
    "parsing": set(),
    "crf": {"inference", "io", "learning", "models"},
    "torch": {"inference", "models", "results"},
}


def modules(root: Path, package: str) -> dict[str, Path]:
    """Return every module of a package, by name; extensions, too."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.name.endswith((".py", ".pyi", *EXTENSION_SUFFIXES)):
            inner = path.relative_to(root)
            parts = [package, *inner.parent.parts, inner.name.split(".")[0]]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules that a file imports anywhere, for types alone as well."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found: set[str] = set()
    if path.suffix not in (".py", ".pyi"):
        return found
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in known else base)
    return {other for other in found if other in known and other != name}


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that reach each other."""
    reach = {}
    for start in edges:
        seen: set[str] = set()
        stack = [start]
        while stack:
            for other in edges[stack.pop()] - seen:
                seen.add(other)
                stack.append(other)
        reach[start] = seen
    return {frozenset(b for b in reach[a] if a in reach[b]) for a in edges if a in reach[a]}


def graph_of(root: Path, package: str) -> dict[str, set[str]]:
    known = modules(root, package)
    return {name: imports(name, path, known) for name, path in known.items()}


def test_no_circle_of_imports_but_the_known_ones() -> None:
    found = circles(graph_of(ROOT, "valuesparse"))
    assert found == {frozenset(f"valuesparse.{name}" for name in circle) for circle in KNOWN}


def upward() -> Iterator[tuple[str, str]]:
    """Yield imports from a folder to one that lies above it."""
    for name, others in graph_of(ROOT, "valuesparse").items():
        folder = name.split(".")[1] if "." in name else ""
        if folder not in BELOW:
            continue
        for other in others:
            target = other.split(".")[1] if "." in other else ""
            inside = (ROOT / target).is_dir()
            if not target or (inside and target != folder and target not in BELOW[folder]):
                yield name, other


def test_imports_point_down() -> None:
    known = {frozenset(f"valuesparse.{name}" for name in circle) for circle in KNOWN}
    assert {edge for edge in upward() if frozenset(edge) not in known} == set()


def test_learning_knows_of_no_model() -> None:
    found = {
        other
        for name, others in graph_of(ROOT, "valuesparse").items()
        for other in others
        if name.startswith("valuesparse.learning") and not other.startswith("valuesparse.learning")
    }
    assert found == {"valuesparse._vectors"}


def test_circles_are_found_however_they_are_imported(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from p.a import x",
        "a.py": "def f():\n    from p import b",  # in a function
        "b.py": "import p.sub.c",
        "sub/__init__.py": "",
        "sub/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..a import x",
        "d.py": "from p.a import x\nimport numpy",
        "e.pyi": "from . import d",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    edges = graph_of(tmp_path, "p")
    assert circles(edges) == {frozenset({"p.a", "p.b", "p.sub.c"})}
    assert edges["p"] == edges["p.d"] == {"p.a"}
    assert edges["p.e"] == {"p.d"}
