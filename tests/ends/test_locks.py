"""The locks of the pool in forked children, natively: Python itself never forks amid them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXT = HERE.parents[1] / "ext"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.skipif(not (EXT / "pool").is_dir(), reason="needs the sources of the pool")
def test_forks_while_threads_hold_the_locks(tmp_path: Path, runs: int) -> None:
    program = tmp_path / "forks"
    sources = [
        EXT / "pool" / f"{name}.cpp" for name in ("fork", "gate", "pool", "record", "buffers")
    ]
    assert COMPILER is not None
    subprocess.run(
        [COMPILER, "-std=c++17", "-O1", "-pthread", f"-I{EXT}", HERE / "buffers_and_forks.cpp",
         *sources, "-o", program],
        check=True,
    )  # fmt: skip
    done = subprocess.run(
        [program, str(20 * runs)], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
