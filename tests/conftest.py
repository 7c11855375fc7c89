"""Seeds and fixtures shared by all tests."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from collection import pytest_collect_file as pytest_collect_file
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("checks")

_COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
# Fixed by default; HYPOTHESIS_PROFILE=explore looks for new examples.
settings.register_profile("fixed", derandomize=True, max_examples=100, **_COMMON)
settings.register_profile("explore", max_examples=1000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def _shard(text: str) -> tuple[int, int]:
    """Read i/n, the i-th of n parts."""
    try:
        part, parts = map(int, text.split("/"))
    except ValueError:
        part = parts = 0
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text!r} is not i/n with 1 <= i <= n, such as 1/2")
    return part, parts


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=0, help="seed of the rng fixture (default 0)")
    parser.addoption("--runs", type=int, default=9, help="how often tests/ends ends a process")
    fuzz = parser.getgroup("fuzz", "damaged files (tests/fuzz)")
    fuzz.addoption("--fuzz-mutations", type=int, help="damaged files for each reader")
    fuzz.addoption("--fuzz-seconds", type=float, help="time for all of them")
    fuzz.addoption(
        "--fuzz-shard", type=_shard, default=(1, 1), help="i/n: the i-th of n parts of the files"
    )
    fuzz.addoption("--fuzz-seed", type=int, default=0, help="seed of the damage (default 0)")
    fuzz.addoption("--fuzz-index", type=int, help="one file only, by its number")
    group = parser.getgroup("campaign", "random models (tests/campaign, with -m campaign)")
    group.addoption(
        "--campaign-seconds", type=float, default=20.0, help="time for all families (default 20)"
    )
    group.addoption("--campaign-models", type=int, help="number of models, however long they take")
    group.addoption("--campaign-seed", type=int, default=0, help="of all models (default 0)")
    group.addoption(
        "--campaign-shard", type=_shard, default=(1, 1), help="i/n: the i-th of n parts of them"
    )
    group.addoption("--campaign-case", help="FAMILY/SEED/INDEX: one model alone")
    parser.addoption("--upstream", help="folder of what tests/upstream runs")
    parser.addoption("--upstream-fetch", action="store_true", help="fetch into it what is missing")


def pytest_configure(config: pytest.Config) -> None:
    config.campaign = {}  # what was run of each family


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = terminalreporter.config.campaign
    if found:
        from campaign.harness import table

        terminalreporter.section("campaign")
        for line in table(found):
            terminalreporter.line(line)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of this run: 0 unless --seed says otherwise."""
    return request.config.getoption("--seed")


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> int:
    """Return how often processes are ended in each way: 9 times unless --runs says otherwise."""
    return request.config.getoption("--runs")


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a fresh generator for one test."""
    return np.random.default_rng(seed)


@pytest.fixture(params=[np.float64, np.float32], ids=["f64", "f32"])
def dtype(request: pytest.FixtureRequest) -> type:
    """Return each supported dtype in turn."""
    return request.param


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that trains a model with python-crfsuite and gives its path."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite trains the models")
    folder = tmp_path_factory.mktemp("crfsuite")

    def run(
        xseqs: Sequence[object],
        yseqs: Sequence[Sequence[str]],
        algorithm: str = "lbfgs",
        **params: object,
    ) -> Path:
        trainer = pycrfsuite.Trainer(algorithm, verbose=False)
        for xseq, yseq in zip(xseqs, yseqs, strict=True):
            trainer.append(xseq, yseq)
        trainer.set_params({name.replace("__", "."): value for name, value in params.items()})
        path = folder / f"{len(list(folder.iterdir()))}.crfsuite"
        trainer.train(str(path))
        return path

    return run
