"""No test asserts how long something took: a busy machine would fail it."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent

#: Functions of `time` that read a clock.
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
#: A file without a match reads none, and need not be parsed.
READ = re.compile(rf"\b({'|'.join(CLOCKS)})(_ns)?\(")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def reads_a_clock(tree: ast.AST, known: set[str]) -> bool:
    """Return whether an expression calls a clock, or has a name that holds what one said."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in known:
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            module = getattr(getattr(node.func, "value", None), "id", "time")
            if module == "time" and name.removesuffix("_ns") in CLOCKS:
                return True
    return False


def clocked(scope: ast.AST) -> Iterator[int]:
    """Yield the lines of a function, or of a module's own code, that assert a time."""
    nodes = [scope]
    for node in nodes:
        nodes += [c for c in ast.iter_child_nodes(node) if not isinstance(c, FUNCTIONS)]
    given = [
        (node.targets if isinstance(node, ast.Assign) else [node.target], node.value)
        for node in nodes
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value
    ]
    known: set[str] = set()
    while True:
        more = {
            name.id
            for targets, value in given
            if reads_a_clock(value, known)
            for target in targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
        if more <= known:
            break
        known |= more
    for node in nodes:
        if isinstance(node, ast.Assert) and reads_a_clock(node.test, known):
            yield node.lineno


def asserted(text: str) -> Iterator[int]:
    """Yield the lines of a file that assert a time, programs in its strings included."""
    tree = ast.parse(text)
    yield from clocked(tree)
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            yield from clocked(node)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and READ.search(node.value)
        ):
            with contextlib.suppress(SyntaxError):  # other text
                yield from [node.lineno + line - 1 for line in asserted(node.value)]


def test_they_are_seen() -> None:
    code = """
from time import perf_counter
import time
def f():
    begin = time.monotonic()
    took = time.monotonic() - begin
    share = took / 2
    assert share < 1
    assert perf_counter() - begin < 3
    assert other == 3
def g(share):
    assert share < 1, "a time of its own"
    assert record.time() == 3
PROGRAM = '''
import time
assert time.time_ns() > 3
'''
"""
    assert sorted(asserted(code)) == [8, 9, 16]


def test_none_is_asserted() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__) and READ.search(text := path.read_text("utf-8"))
        for line in asserted(text)
    ]
    assert found == []
