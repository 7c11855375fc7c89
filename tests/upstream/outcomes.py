"""A pytest plugin for the test-suites of others: chooses the side, writes down the outcomes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

found: dict[str, str] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Choose the side, before a conftest imports anything."""
    if os.environ["UPSTREAM_SIDE"] != "ours":
        return
    if os.environ["UPSTREAM_SUITE"] == "hmmlearn":
        import hmmlearn.base
        import hmmlearn.hmm

        import valuesparse.hmm

        for name in valuesparse.hmm.__all__:
            module = hmmlearn.hmm if hasattr(hmmlearn.hmm, name) else hmmlearn.base
            setattr(module, name, getattr(valuesparse.hmm, name))
        return
    import valuesparse.crf

    valuesparse.crf.install()
    if os.environ["UPSTREAM_SUITE"] == "pytorch-crf":
        import valuesparse.torch

        sys.modules["torchcrf"] = valuesparse.torch


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        found[report.nodeid] = "not collected"


def pytest_runtest_logreport(report: Any) -> None:
    outcome = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if report.skipped else "xpassed"
    if report.when == "call" or report.outcome != "passed":
        found[report.nodeid] = outcome if report.when == "call" else f"{report.when} {outcome}"


def pytest_sessionfinish() -> None:
    ran = {
        name: getattr(sys.modules.get(name), "__file__", None)
        for name in ("pycrfsuite", "sklearn_crfsuite", "torchcrf")
    }
    hmm = getattr(sys.modules.get("hmmlearn.hmm"), "GaussianHMM", None)
    if hmm is not None:
        ran["hmmlearn"] = sys.modules[hmm.__module__].__file__
    Path(os.environ["UPSTREAM_OUTCOMES"]).write_text(json.dumps({"found": found, "ran": ran}))
