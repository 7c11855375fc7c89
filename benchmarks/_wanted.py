"""A script ends with a line that says what to give where what it is asked for is missing."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from pathlib import Path


def wanted(path: Path, hint: str) -> Path:
    """Return the path of a file or folder; where there is none, end the script with a hint."""
    if not path.exists():
        raise SystemExit(f"{path} does not exist: {hint}")
    return path


def named(
    parser: argparse.ArgumentParser, what: str, names: Iterable[str], all_of: Collection[str]
) -> None:
    """End the script where a name is not among those that there are."""
    for name in names:
        if name not in all_of:
            parser.error(f"{what} {name!r}: give any of {', '.join(map(repr, all_of))}")


def bench(missing: ImportError) -> SystemExit:
    """Return the end of a script that cannot import what the bench extra brings."""
    return SystemExit(f"{missing}: pip install '.[bench]' brings what this script compares with")
