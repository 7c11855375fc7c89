"""The oldest dependencies that CI installs are those that pyproject.toml promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / ".ci" / "oldest.txt"
# The extras that users install, and what of `test` is asked for by its version.
FLOOR = re.compile(r'"([A-Za-z][\w-]*)>=([\d.]+)"')
NAMED = re.compile(r'"([A-Za-z][\w-]*)"')


@pytest.mark.skipif(not CONSTRAINTS.exists(), reason="no source tree here")
def test_what_is_installed_once_is_what_is_promised() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    promised = project[project.index("\ndependencies = ") : project.index("\nbench = ")]
    floors = dict(FLOOR.findall(promised))
    floors.pop("pytest")
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    assert dict(line.split("==") for line in lines if not line.startswith("#")) == floors


@pytest.mark.skipif(not CONSTRAINTS.exists(), reason="no source tree here")
def test_every_dependency_of_users_and_of_tests_has_a_floor() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    users = project[project.index("\ndependencies = ") : project.index("\nbench = ")]
    assert not NAMED.findall(users)


@pytest.mark.skipif(not CONSTRAINTS.exists(), reason="no source tree here")
def test_the_oldest_tools_that_build_are_those_that_are_promised() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    promised = project[project.index("\nrequires = ") : project.index("\n[project]")]
    lines = CONSTRAINTS.with_name("oldest-build.txt").read_text(encoding="utf-8").splitlines()
    installed = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert installed == dict(FLOOR.findall(promised))
