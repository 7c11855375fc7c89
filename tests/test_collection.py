"""A test file that cannot be imported is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_a_file_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from collection import pytest_collect_file\n")
    (tmp_path / "test_broken.py").write_text("import nowhere\ndef test_it():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["--import-mode=importlib", "--doctest-modules", "--doctest-ignore-import-errors"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stdout
    assert "No module named 'nowhere'" in done.stdout
