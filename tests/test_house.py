"""docs/house.md names every file of native code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "docs" / "house.md"
EXT = ROOT / "ext"


def names_in(text: str) -> set[str]:
    """Return what stands between backticks."""
    return set(re.findall(r"`([^`\s]+)`", text))


def sections(text: str) -> dict[str, str]:
    """Return the lines about each folder: from one, no row, that names it to that of another."""
    found: dict[str, str] = defaultdict(str)
    about: list[str] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            about = re.findall(r"`(ext/\w+)/`", line) or about
        for folder in about:
            found[folder] += line + "\n"
    return found


def unnamed(text: str, files: list[str]) -> list[str]:
    """Return the files, paths from the root, that a text does not name between backticks.

    A name is a path, or, where it stands in the section of the folder, a file or what stands
    before its ending; it may have a star.
    """
    paths = names_in(text)
    own = {folder: names_in(lines) for folder, lines in sections(text).items()}
    missing = []
    for file in files:
        folder, _, name = file.rpartition("/")
        here = own.get(folder, set())
        short = any(fnmatch(form, known) for form in (name, Path(name).stem) for known in here)
        if not short and not any(fnmatch(file, known) for known in paths):
            missing.append(file)
    return missing


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
    text = "`ext/a/*`\n`ext/b/`: `one`, `two.h` and `vec_*`\n| for `ext/c/` |\n`ext/c/` is next"
    files = ["ext/a/x.h", "ext/b/one.cpp", "ext/b/two.h", "ext/b/two.cpp", "ext/b/vec_neon.h"]
    assert unnamed(text, files) == ["ext/b/two.cpp"]
    # A file of the same name in another folder does not stand for it.
    assert unnamed(text, ["ext/c/one.cpp", "ext/c/two.h"]) == ["ext/c/one.cpp", "ext/c/two.h"]
