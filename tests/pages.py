"""The Python examples of a page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path


def run(page: Path) -> None:
    """Run the examples of a page from top to bottom, in one namespace."""
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {}
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        above = text[: block.start(1)].count("\n")  # so that a traceback names the page's own line
        exec(compile("\n" * above + block[1], str(page), "exec"), namespace)
