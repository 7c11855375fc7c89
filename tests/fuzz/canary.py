"""A function that no file may have called: it says whether one did."""

from __future__ import annotations

from collections.abc import Sequence

CALLS: list[Sequence[str]] = []


def called(words: Sequence[str]) -> list[list[str]]:
    """Note the call."""
    CALLS.append(words)
    return [[word] for word in words]
