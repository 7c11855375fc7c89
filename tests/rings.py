"""Imports within the package: circles, also inside of functions, and arrows that point up.

`python tests/rings.py valuesparse` looks at sources, as pre-commit does; `tests/test_rings.py` at
what is installed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

#: Folders that a file of each folder may import, beside its own and those that need no other.
BELOW = {
    "factors": set(),
    "models": {"factors"},
    "results": {"factors", "models"},
    "inference": {"factors", "models", "results"},
    "bounds": {"inference", "models", "results"},
    "relaxed": {"bounds", "factors", "inference", "models", "results"},
    "schedule": {"inference", "models"},
    "io": {"factors", "models"},
    "corpora": {"io"},
    "learning": {"io"},
    "parsing": {"corpora", "factors", "inference", "io", "learning", "models", "results"},
    "hmm": set(),
    "crf": {"corpora", "inference", "io", "learning", "models"},
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


def upward(root: Path) -> Iterator[tuple[str, str]]:
    """Yield imports from a folder to one that lies above it."""
    for name, others in graph_of(root, "valuesparse").items():
        folder = name.split(".")[1] if "." in name else ""
        if folder not in BELOW:
            continue
        for other in others:
            target = other.split(".")[1] if "." in other else ""
            inside = (root / target).is_dir()
            if not target or (inside and target != folder and target not in BELOW[folder]):
                yield name, other


def wrong(root: Path) -> list[str]:
    """Return what is wrong with the imports of the package in a folder."""
    found = circles(graph_of(root, "valuesparse"))
    lines = [f"these import each other: {', '.join(sorted(circle))}" for circle in found]
    lines += [f"{name} imports {other}, which lies above it" for name, other in upward(root)]
    return sorted(lines)


if __name__ == "__main__":
    sys.exit("\n".join(wrong(Path(sys.argv[1]))) or None)
