"""Fixtures of several tests of inference."""

from __future__ import annotations

import pytest

from valuesparse.inference import _asked


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take float32 however little it gains."""
    monkeypatch.setattr(_asked, "_LEAST_LABELS", 1)
    monkeypatch.setattr(_asked, "_MANY", 0)
    monkeypatch.setattr(_asked, "_LEAST_IN_TREES", 1)
    monkeypatch.setattr(_asked, "_LEAST_WORK", 0)
