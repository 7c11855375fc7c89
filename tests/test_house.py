"""docs/house.md names every file of native code."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "docs" / "house.md"
EXT = ROOT / "ext"


def unnamed(text: str, files: list[str]) -> list[str]:
    """Return the files, paths from the root, that a text does not name between backticks.

    A name is a path, a file, or what stands before its ending; it may have a star.
    """
    names = set(re.findall(r"`([^`\s]+)`", text))
    return [
        file
        for file in files
        if not any(
            fnmatch(form, name)
            for form in (file, file.rpartition("/")[2], Path(file).stem)
            for name in names
        )
    ]


@pytest.mark.skipif(not EXT.is_dir(), reason="the sources are not beside the tests")
def test_every_file_of_native_code_is_in_the_house() -> None:
    files = sorted(path.relative_to(ROOT).as_posix() for path in EXT.rglob("*") if path.is_file())
    modules = [file for file in files if file.endswith(".pyx")]  # each is that of a folder
    assert all((ROOT / module).with_suffix("").is_dir() for module in modules)
    text = HOUSE.read_text(encoding="utf-8")
    assert unnamed(text, [file for file in files if file not in modules]) == []
    for folder in filter(Path.is_dir, EXT.iterdir()):
        assert f"`ext/{folder.name}/" in text


@pytest.mark.skipif(not EXT.is_dir(), reason="the sources are not beside the tests")
def test_every_folder_of_code_is_in_the_picture() -> None:
    drawing = (ROOT / "benchmarks" / "draw_house.py").read_text(encoding="utf-8")
    boxes = next(
        node.value
        for node in ast.parse(drawing).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "BOXES"
    )
    assert isinstance(boxes, ast.List)
    drawn = [name for box in boxes.elts for name in ast.literal_eval(box.elts[3]).split()]  # type: ignore[attr-defined]
    places = [path.parent for path in (ROOT / "valuesparse").glob("*/__init__.py")]
    places += filter(Path.is_dir, EXT.iterdir())
    assert sorted(drawn) == sorted(path.name for path in places)


def test_a_file_that_is_not_named_is_found() -> None:
    text = "`ext/a/*`, `one`, `two.h` and `vec_*`"
    files = ["ext/a/x.h", "ext/b/one.cpp", "ext/b/two.h", "ext/b/two.cpp", "ext/b/vec_neon.h"]
    assert unnamed(text, files) == ["ext/b/two.cpp"]
