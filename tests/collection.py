"""How test files are collected."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[Any], list[Any]]:
    """Leave doctests to the package.

    Doctests of a test file that cannot be imported would be skipped, and leave an empty module
    behind, in which pytest then finds no test and no error.
    """
    found = yield
    return [collector for collector in found if not isinstance(collector, DoctestModule)]
