"""Public packages on ours: unchanged code, their own models, equal answers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import children
import pytest

pytestmark = pytest.mark.upstream

SCRIPT = Path(__file__).with_name("programs.py")

# Packages that pip installs for a program, without dependencies: those that the test extra has not.
REQUIREMENTS = {
    "pyvi": ["pyvi==0.1.1", "tqdm", "tabulate"],
    "khmernltk": ["khmer-nltk==1.6", "tqdm", "tabulate"],
    "gecco": ["gecco==0.11.0", "biopython==1.85", "polars==1.35.2", "tqdm", "tabulate"],
    "nltk_tagger": ["nltk>=3.9", "regex", "tqdm"],
    "usaddress": [],
    "probablepeople": [],
}


def run(side: str, program: str, folder: Path, path: list[str], cwd: Path) -> Any:
    env = children.environment(PYTHONUTF8="1", POLARS_SKIP_CPU_CHECK="1")
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], *path])
    done = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", str(SCRIPT), side, program,
         str(folder)],
        cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((cwd / "answers.json").read_text())
    ran = [file for file in result["ran"] if file is not None]
    assert ran
    assert all(("valuesparse" in Path(file).parts) == (side == "ours") for file in ran), ran
    return result["answers"]


def assert_close(ours: Any, theirs: Any) -> None:
    """Compare nested answers: numbers to nine digits, all else exactly."""
    if isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    else:
        assert ours == theirs


@pytest.mark.parametrize("program", REQUIREMENTS)
def test_programs_answer_the_same(
    program: str,
    sdist: Callable[[str], Path],
    packages: Callable[..., Path],
    tmp_path: Path,
) -> None:
    for module in ("pycrfsuite", "sklearn_crfsuite"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module}, the original, is not installed")
    requirements = REQUIREMENTS[program]
    if requirements:
        folder, path = tmp_path, [str(packages(program, *requirements))]
    else:
        if importlib.util.find_spec(program) is None:
            pytest.skip(f"{program} is not installed")
        folder, path = tmp_path / "without", []
        try:
            folder = sdist(program)  # adds texts to those of the script
        except pytest.skip.Exception as why:
            print(f"{program}: texts of the script alone, for {why}")
    theirs, ours = (run(side, program, folder, path, tmp_path) for side in ("theirs", "ours"))
    assert len(theirs) >= 3
    assert_close(ours, theirs)
