"""Files show what they hold: none is long."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 500  # lines


@pytest.mark.parametrize("folder", ["valuesparse", "ext", "tests"])
def test_no_file_is_long(folder: str) -> None:
    kinds = {".py", ".pyi", ".pyx", ".pxi", ".pxd", ".h", ".cpp"}
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / folder).rglob("*")
        if path.suffix in kinds
    }
    if not lines:
        pytest.skip(f"{folder}/ is not here: these are not the tests of a source tree")
    assert {path: n for path, n in lines.items() if n > LONGEST} == {}
