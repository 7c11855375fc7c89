"""The Python examples of the README and of docs/ run, each page from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import children
import pages
import pytest

ROOT = Path(__file__).parents[1]
README = pytest.param(ROOT / "README.md", marks=pytest.mark.smoke)
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if "import pycrfsuite" in text and ".install()" not in text:
        pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    if "import CRF, metrics" in text or "import sklearn_crfsuite" in text:
        pytest.importorskip("sklearn", reason="needs scikit-learn: the extra sklearn")
    if "import torch" in text:
        pytest.importorskip("torch", reason="needs PyTorch: the extra torch")
    if ".install()" in text:  # not in this process, where other tests import the originals
        code = "import sys; sys.path.append(sys.argv[1]); import pages, pathlib, os\n"
        code += "os.chdir(sys.argv[3]); pages.run(pathlib.Path(sys.argv[2]))"
        done = children.run(code, str(ROOT / "tests"), str(page), str(tmp_path), timeout=120)
        assert done.returncode == 0, done.stderr
    else:
        pages.run(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
