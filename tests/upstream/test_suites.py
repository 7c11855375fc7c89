"""The test-suites of others: with ours, each test ends as with the original."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import children
import pytest

pytestmark = pytest.mark.upstream

HERE = Path(__file__).parent
SIDES = ("theirs", "ours")

# How many tests pass with the original at least, the folders that they read beside their own, what
# has to be installed, and what is fetched for them.
SUITES: dict[str, dict[str, Any]] = {
    "python-crfsuite": {"least": 40},
    "sklearn-crfsuite": {"least": 40, "modules": ["sklearn", "tqdm", "tabulate"]},
    # Its test_labeling.py reads files that the source distribution leaves out; test_programs.py
    # parses what it does carry.
    "usaddress": {
        "least": 9,
        "folders": ["training", "measure_performance"],
        "packages": ["parserator", "lxml"],
    },
    # Its tests are within the package that is installed. Those of what only it has are left out.
    "hmmlearn": {
        "least": 230,
        "modules": ["sklearn"],
        "installed": [
            f"hmmlearn.tests.test_{name}"
            for name in (
                "base",
                "categorical_hmm",
                "gaussian_hmm",
                "gmm_hmm",
                "gmm_hmm_multisequence",
                "gmm_hmm_new",
                "poisson_hmm",
            )
        ],
    },
    "pytorch-crf": {"least": 1, "modules": ["torch"]},
}

# Tests that pass with the original and not with ours: (suite, test) -> why.
DIFFERENT: dict[tuple[str, str], str] = {
    (
        "hmmlearn",
        "hmmlearn/tests/test_gaussian_hmm.py::TestGaussianHMMWithSphericalCovars::test_underflow_from_scaling[scaling]",
    ): "asks for an error where scaled probabilities underflow; ours do not",
}


def run(
    suite: str,
    side: str,
    tests: list[str],
    folder: Path,
    path: list[str],
    timeout: float = 300,
    root: Path | None = None,
) -> dict[str, Any]:
    """Run tests of a suite on one side; return what became of each, and what they ran on.

    `tests` are arguments of pytest; `root` is what tests are named from, by default `folder`.
    """
    written = folder / f"{side}.json"
    written.unlink(missing_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")  # theirs may ask for plugins
    env = children.environment(
        UPSTREAM_SIDE=side, UPSTREAM_SUITE=suite, UPSTREAM_OUTCOMES=str(written), PYTHONUTF8="1",
        HMMLEARN_SEED="0", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
    )  # fmt: skip
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], str(HERE), *path])
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "outcomes", "-p", "no:cacheprovider",
            "--continue-on-collection-errors",
            "-c", "pytest.ini", "--rootdir", str(root or folder), *tests,
        ],
        cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=timeout,
    )  # fmt: skip
    assert written.exists(), done.stdout + done.stderr
    outcome: dict[str, Any] = json.loads(written.read_text())
    outcome["output"] = done.stdout
    return outcome


def compare(suite: str, theirs: dict[str, Any], ours: dict[str, Any], least: int) -> None:
    for module, file in theirs["ran"].items():
        assert file is None or "valuesparse" not in Path(file).parts[:-1], (module, file)
    used = [file for file in ours["ran"].values() if file is not None]
    assert used
    assert all("valuesparse" in Path(file).parts for file in used), used
    passed = {test for test, end in theirs["found"].items() if end in ("passed", "xpassed")}
    assert len(passed) >= least, theirs["output"][-3000:]
    assert ours["found"].keys() == theirs["found"].keys()
    worse = {
        test: (theirs["found"][test], ours["found"][test])
        for test in passed
        if ours["found"][test] not in ("passed", "xpassed")
    }
    assert worse.keys() == {test for name, test in DIFFERENT if name == suite}, ours["output"]


@pytest.mark.parametrize("suite", SUITES)
def test_each_test_ends_as_with_the_original(
    suite: str, sdist: Callable[[str], Path], packages: Callable[..., Path], tmp_path: Path
) -> None:
    needs = SUITES[suite]
    for module in needs.get("modules", []):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the tests of {suite} need {module}")
    if "installed" in needs:
        spec = importlib.util.find_spec(suite)
        if spec is None or spec.origin is None:
            pytest.skip(f"{suite}, the original, is not installed")
        tests, root = ["--pyargs", *needs["installed"]], Path(spec.origin).parents[1]
        theirs, ours = (run(suite, side, tests, tmp_path, [], 900, root) for side in SIDES)
        compare(suite, theirs, ours, needs["least"])
        return
    source = sdist(suite)
    if not (source / "tests").is_dir():
        pytest.skip(
            f"the source distribution of {suite} carries no tests: put its repository's into "
            f"{source.parent / suite}"
        )
    path = [str(packages("parserator", *needs["packages"]))] if "packages" in needs else []
    for folder in ("tests", *needs.get("folders", [])):  # not the package: the installed one runs
        if (source / folder).is_dir():
            shutil.copytree(source / folder, tmp_path / folder)
    theirs, ours = (run(suite, side, ["tests"], tmp_path, path) for side in SIDES)
    compare(suite, theirs, ours, needs["least"])
