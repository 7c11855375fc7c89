"""Cores that a control group of Linux grants are all that are used."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import environment

ROOT = Path("/sys/fs/cgroup")


def _set(folder: Path, cores: float) -> None:
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{int(cores * 100_000)} 100000")
    else:
        (folder / "cpu.cfs_period_us").write_text("100000")
        (folder / "cpu.cfs_quota_us").write_text(str(int(cores * 100_000)))


@pytest.fixture
def group() -> Iterator[Path]:
    """Return a control group of one core, of whose cores a group below it may use half."""
    made = (ROOT / "cpu" if (ROOT / "cpu").is_dir() else ROOT) / f"valuesparse-{os.getpid()}"
    inner = made / "inner"
    try:
        inner.mkdir(parents=True)
        _set(made, 1)
    except OSError as error:
        for folder in (inner, made):
            if folder.is_dir():
                folder.rmdir()
        pytest.skip(f"control groups cannot be made here: {error}")
    yield inner
    inner.rmdir()
    made.rmdir()


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two cores",
)
def test_the_quota_of_a_group_above_counts(group: Path) -> None:
    code = (
        "import os, sys\n"
        f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        "import valuesparse as vs\n"
        "print(vs.get_num_threads())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        cwd=tempfile.gettempdir(),  # not the sources, which have no extension
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1"]
