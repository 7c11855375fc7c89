"""Defects are found, counted, and said with the number of their file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.broken import BAD
from fuzz.campaign import Children
from fuzz.child import resource


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    """Return what reads files with defective targets."""
    found = Children(tmp_path, "fuzz.broken", silence=4.0)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("shouts", "ValueError at broken.py:"),
        ("undocumented", "KeyError at broken.py:"),
        ("warns", "RuntimeWarning at broken.py:"),
        pytest.param(
            "fills",
            "memory",
            marks=pytest.mark.skipif(resource is None, reason="memory is not measured on Windows"),
        ),
        ("dies", "crash, exit status"),
        ("hangs", "hangs"),
    ],
)
def test_defects_are_found(children: Children, name: str, kind: str) -> None:
    report = children.run(name, 0, 0, 1, 20)
    (found,) = [value for key, value in report.failures.items() if key.startswith(kind)]
    assert found["count"] == 1
    assert found["index"] == BAD
    died = name in ("dies", "hangs")
    assert report.done == 20 - died
    assert report.taken + report.refused == report.done - (name not in ("fills", "dies", "hangs"))


def test_a_file_is_determined_by_target_seed_and_number(tmp_path: Path) -> None:
    def file(seed: int, index: int, run: int) -> bytes:
        folder = tmp_path / f"{seed}-{index}-{run}"
        folder.mkdir()
        children = Children(folder, "fuzz.broken")
        children.run("shouts", seed, index, 1, 1, keep=str(folder / "kept"))
        children.close()
        return (folder / "kept").read_bytes()

    assert file(0, 7, 0) == file(0, 7, 1)
    assert file(0, 7, 2) != file(1, 7, 0)
    assert file(0, 7, 3) != file(0, 8, 0)


def test_shards_are_all_files_once(children: Children) -> None:
    whole = children.run("warns", 5, 0, 1, 9)
    parts = [children.run("warns", 5, shard, 2, count) for shard, count in ((0, 5), (1, 4))]
    assert [whole.done, sum(part.done for part in parts)] == [9, 9]
    assert whole.taken == sum(part.taken for part in parts)
    assert whole.refused == sum(part.refused for part in parts)


def test_time_ends_it(children: Children) -> None:
    report = children.run("warns", 0, 10, 1, 10**9, seconds=0.5)
    assert 0 < report.done < 10**9
