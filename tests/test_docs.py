"""The Python examples of the README and of docs/ run, each page from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if "import pycrfsuite" in text:
        pytest.importorskip("pycrfsuite", reason="has no wheel for this Python")
    if "import CRF, metrics" in text:
        pytest.importorskip("sklearn", reason="needs scikit-learn: the extra sklearn")
    if "import torch" in text:
        pytest.importorskip("torch", reason="needs PyTorch: the extra torch")
    namespace: dict[str, object] = {}
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        above = text[: block.start(1)].count("\n")  # so that a traceback names the page's own line
        exec(compile("\n" * above + block[1], str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
