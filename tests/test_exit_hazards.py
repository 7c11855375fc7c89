"""No call that may end the process: of NumPy at the interpreter's end, of JSON on a small stack."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import valuesparse

ROOT = Path(valuesparse.__file__).parent

#: They call a plain `np.unique`, whose hash table does not survive the end of the interpreter.
OTHERS = {"setdiff1d", "setxor1d", "intersect1d", "union1d", "unique_values"}


def hazards(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of calls of the kind of `np.unique(x)`."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name, keywords = node.func.attr, {k.arg or "" for k in node.keywords}
        sorts = any(k.startswith("return_") for k in keywords)
        if name in OTHERS or (name == "unique" and not sorts):
            yield node.lineno


def test_hazards_are_seen() -> None:
    code = "np.unique(a)\nnp.unique(a, return_inverse=True)\nnp.setdiff1d(a, b)\nf(a)"
    assert list(hazards(ast.parse(code))) == [1, 3]


def test_none_is_called() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(ROOT.rglob("*.py"))
        for line in hazards(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


def test_one_file_calls_the_json_parser_of_python() -> None:
    """It uses the stack of the thread: `parse_json` looks at the depth first."""
    parsers = {"load", "loads", "JSONDecoder"}
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.ImportFrom) and node.module == "json")
        or (
            isinstance(node, ast.Attribute)
            and node.attr in parsers
            and ast.unparse(node.value) == "json"
        )
    }
    assert found == {"io/_json.py"}
