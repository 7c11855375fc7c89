"""The package describes itself: its address, its version, its extras, its description."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
SETUP = ROOT / "setup.py"
needs_setup = pytest.mark.skipif(not SETUP.exists(), reason="no source tree here")


def repository() -> str:
    """Return the address that pyproject.toml gives."""
    (address,) = re.findall(r'^Repository = "(.+)"$', PROJECT, re.MULTILINE)
    return str(address)


def test_there_is_one_address() -> None:
    known = (
        repository(),
        "https://pypi.org/project/valuesparse",
        "https://valuesparse.github.io/valuesparse/",  # the site, which tests.yml puts there
    )
    files = [ROOT / "pyproject.toml", *ROOT.glob("*.md"), *ROOT.glob("*.cff")]
    files += [p for p in (ROOT / "docs").rglob("*") if p.suffix in (".md", ".rst", ".py")]
    for file in files:
        for found in re.findall(
            r"https?://[^\s\"')>]*valuesparse[^\s\"')>]*", file.read_text("utf-8")
        ):
            assert found.startswith(known), file


def test_extras_that_are_named_exist() -> None:
    extras = PROJECT[PROJECT.index("[project.optional-dependencies]") :]
    extras = extras[: extras.index("\n[project.scripts]")]
    known = set(re.findall(r"^(\w+) = \[", extras, re.MULTILINE))
    assert "crf" not in known  # who types it wants our CRF, which needs no extra
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "pyproject.toml"]
    if (ROOT / "valuesparse").is_dir():
        files += (ROOT / "valuesparse").rglob("*.py")
    for file in files:
        for names in re.findall(r"(?:valuesparse|\.)\[([a-z,]+)\]", file.read_text("utf-8")):
            assert set(names.split(",")) <= known, file


@needs_setup
def test_links_of_the_description_are_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    tree = ast.parse(SETUP.read_text(encoding="utf-8"))
    (function,) = (
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "description"
    )
    names: dict[str, Any] = {"re": re, "Path": Path}
    exec(compile(ast.Module([function], []), str(SETUP), "exec"), names)
    text = names["description"]()
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets
    assert all(t.startswith(("https://", "#")) for t in targets), targets
    for image, path in re.findall(rf"(!?)\[[^\]]*\]\({repository()}/(\S+?)\)", text):
        kind, _, rest = path.partition("/main/")
        assert kind == ("raw" if image else "blob")
        assert (ROOT / rest.partition("#")[0]).exists(), path


@needs_setup
def test_every_python_that_is_built_is_announced() -> None:
    (builds,) = re.findall(r'^build = "(.+)"$', PROJECT, re.MULTILINE)
    built = {(int(a), int(b)) for a, b in re.findall(r"cp(3)(\d+)-", builds)}
    said = {(3, int(minor)) for minor in re.findall(r"Python :: 3\.(\d+)", PROJECT)}
    assert built == said
    assert "cp313t" not in builds
