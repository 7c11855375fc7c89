"""The Python examples of a page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

#: A block of Python.
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(page: Path) -> None:
    """Run the examples of a page from top to bottom, in one namespace."""
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {}
    for block in EXAMPLE.finditer(text):
        above = text[: block.start(1)].count("\n")  # so that a traceback names the page's own line
        exec(compile("\n" * above + block[1], str(page), "exec"), namespace)


def write_programs(root: Path, folder: Path) -> None:
    """Write the examples of every page to a module of its own, for checkers of types.

    A line of it is the same line of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        lines = [""] * (text.count("\n") + 1)
        for block in EXAMPLE.finditer(text):
            at = text[: block.start(1)].count("\n")
            lines[at : at + block[1].count("\n")] = block[1].splitlines()
        if any(lines):
            name = "_".join(page.relative_to(root).with_suffix("").parts).replace("-", "_")
            (folder / f"{name}.py").write_text("\n".join(lines), encoding="utf-8")
