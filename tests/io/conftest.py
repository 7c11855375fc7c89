"""CRFsuite model files for the tests."""

from __future__ import annotations

from collections.abc import Callable

import crfsuite_files
import pytest


@pytest.fixture(scope="session")
def write_model() -> Callable[..., bytes]:
    """Return a function that lays out a model file."""
    return crfsuite_files.write_model


@pytest.fixture(scope="session")
def small_file() -> bytes:
    """Return a model file of three labels and five attributes."""
    return crfsuite_files.small_file()
