"""Decisions of setup.py before it builds."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SETUP = Path(__file__).resolve().parents[1] / "setup.py"
needs_setup = pytest.mark.skipif(not SETUP.exists(), reason="no source tree here")


def choose(machine: str, tag: str, platform: str = "darwin", **environ: str) -> dict[str, str]:
    """Return the environment that setup.py leaves on such a machine."""
    tree = ast.parse(SETUP.read_text(encoding="utf-8"))
    (function,) = (
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "choose_architecture"
    )
    names: dict[str, Any] = {
        "os": SimpleNamespace(environ=environ),
        "sys": SimpleNamespace(platform=platform),
        "platform": SimpleNamespace(machine=lambda: machine),
        "sysconfig": SimpleNamespace(get_platform=lambda: tag),
    }
    exec(compile(ast.Module([function], []), str(SETUP), "exec"), names)
    names["choose_architecture"]()
    return environ


@needs_setup
@pytest.mark.parametrize(
    ("machine", "tag", "platform"),
    [
        ("arm64", "macosx-10.13-universal2", "macosx-11.0-arm64"),
        ("arm64", "macosx-12.0-universal2", "macosx-12.0-arm64"),
        ("x86_64", "macosx-10.13-universal2", "macosx-10.13-x86_64"),
    ],
)
def test_a_universal_python_builds_for_its_own_architecture(
    machine: str, tag: str, platform: str
) -> None:
    assert choose(machine, tag) == {
        "ARCHFLAGS": f"-arch {machine}",
        "_PYTHON_HOST_PLATFORM": platform,
    }


@needs_setup
def test_what_was_asked_for_is_built() -> None:
    asked = {"ARCHFLAGS": "-arch x86_64"}
    assert choose("arm64", "macosx-10.13-universal2", **asked) == {
        **asked,
        "_PYTHON_HOST_PLATFORM": "macosx-10.13-x86_64",
    }
    asked["_PYTHON_HOST_PLATFORM"] = "macosx-13.0-x86_64"
    assert choose("arm64", "macosx-10.13-universal2", **asked) == asked
    assert choose("arm64", "macosx-11.0-arm64") == {"ARCHFLAGS": "-arch arm64"}
    assert choose("x86_64", "linux-x86_64", platform="linux") == {}


@needs_setup
def test_two_architectures_at_once_are_refused() -> None:
    with pytest.raises(SystemExit, match=r"arm64.*x86_64"):
        choose("arm64", "macosx-10.13-universal2", ARCHFLAGS="-arch arm64 -arch x86_64")
