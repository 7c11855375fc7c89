"""The programs of the README and of docs/ run; links lead somewhere; nothing is left out."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import runpy
import warnings
from pathlib import Path
from urllib.parse import urlsplit

import children
import pages
import pytest

import valuesparse as vs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = pytest.param(ROOT / "README.md", marks=pytest.mark.smoke)
WRITTEN = sorted(p for p in DOCS.rglob("*.md") if "pictures" not in p.parts)
PAGES = [README, *WRITTEN]
STARTS = sorted((DOCS / "start").glob("*.md"))
GALLERY = sorted((DOCS / "gallery").glob("*.py"))


def name_of(page: Path) -> str:
    """Return the name of a page among the tests."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if "import pycrfsuite" in text and ".install()" not in text:
        pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    if "import CRF, metrics" in text or "import sklearn_crfsuite" in text:
        pytest.importorskip("sklearn", reason="needs scikit-learn: the extra sklearn")
    if "import pandas" in text:
        pytest.importorskip("pandas", reason="needs pandas")
    if "from valuesparse.hmm import GaussianHMM" in text:
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


@pytest.mark.parametrize("page", STARTS, ids=name_of)
def test_a_first_program_prints_what_its_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    program = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    printed = re.search(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert program is not None
    assert printed is not None
    lines = [line for line in program[1].splitlines() if line and "import" not in line]
    assert len(lines) <= 12, "a first program has ten lines or so"
    done = children.run(f"import os\nos.chdir({str(tmp_path)!r})\n" + program[1])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == printed[1].split()


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_the_gallery_draws(script: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib: the extra cli")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(script))
    assert pyplot.gcf().axes
    pyplot.close("all")


def test_the_gallery_has_ten_pictures() -> None:
    assert len(GALLERY) >= 10


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md"))], ids=name_of
)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        link = urlsplit(target)
        if link.scheme:  # nobody is asked whether it is there
            assert link.scheme in ("https", "http"), target
            assert "." in link.netloc, target
            continue
        file = page if not link.path else page.parent / link.path
        if link.path.startswith("pictures/"):  # made with the site
            continue
        assert file.exists(), target
        if link.fragment and file.suffix == ".md":
            assert link.fragment in anchors(file), target


#: A sentence that begins so makes the reader wait for its subject; questions may.
OPENING = re.compile(r"(?:^|[.!?:] |\| )((?:Of|What|Whatever)\b[^.?!|]*)(?![^.?!|]*\?)")


def openings(text: str) -> list[str]:
    """Return the sentences of a text that open with a bare Of, What or Whatever."""
    text = re.sub(r"^(```|~~~).*?^\1$|^#+ .*?$", "", text, flags=re.M | re.S)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*#|]|\d+\.) )", text)
    joined = (re.sub(r"^[-*#\s]+", "", " ".join(part.split())) for part in parts)
    return [found[1] for part in joined for found in OPENING.finditer(part)]


def test_openings_are_found() -> None:
    text = "What counts is this.\n\n- Of two, one. So what?\n\nIt is so. Whatever\nyou say.\n"
    assert [found.split()[0] for found in openings(text)] == ["What", "Of", "Whatever"]
    assert openings("## What it costs\n\nWhat can be done?\n\nThe end of it.\n") == []


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md"))], ids=name_of
)
def test_sentences_begin_with_their_subject(page: Path) -> None:
    assert openings(page.read_text(encoding="utf-8")) == []


def test_docstrings_begin_sentences_with_their_subject() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn: the extra sklearn")
    found = {}
    for path in sorted(name for name in reference() if not name.startswith("valuesparse.torch")):
        module, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(module), name)
        texts = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
        for one in texts:
            known = one.fget if isinstance(one, property) else one
            text = inspect.getdoc(known) if callable(known) else None
            if text and (said := openings(re.sub(r"^ *>>> .*$", "", text, flags=re.M))):
                found[path] = said
    assert found == {}


def remarks(text: str) -> list[str]:
    """Return the comments and docstrings of a file of Python, lines of one comment together."""
    found = [""]
    for line in text.splitlines():
        comment = re.match(r"\s*#:? ?(.*)", line)
        found[-1:] = [f"{found[-1]}{comment[1]}\n"] if comment else [found[-1], ""]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found.append(re.sub(r"^ *>>> .*$", "", ast.get_docstring(node) or "", flags=re.M))
    return [one for one in found if one]


def test_remarks_begin_sentences_with_their_subject() -> None:
    code = '"""What it is."""\n# One. Of\n# two.\nx = 1  # Of no account\n'
    assert [said for text in remarks(code) for said in openings(text)] == ["Of two", "What it is"]
    found = {
        path.name: said
        for path in sorted(Path(vs.__file__).parent.rglob("*.py"))
        if (said := [one for text in remarks(path.read_text("utf-8")) for one in openings(text)])
    }
    assert found == {}


def reference() -> set[str]:
    """Return the names that the pages of the reference are made of."""
    texts = [page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.rst")]
    names = r"^\.\. auto(?:class|exception|function):: (\S+)$"
    return set(re.findall(names, "\n".join(texts), re.MULTILINE))


MODULES = ("", ".bounds", ".factors", ".io", ".learning", ".parsing", ".relaxed", ".results",
           ".schedule", ".hmm", ".crf", ".crf.crfsuite", ".inference", ".models")  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    def identity(path: str) -> object:
        name, _, last = path.rpartition(".")
        return getattr(importlib.import_module(name), last)

    pytest.importorskip("sklearn", reason="needs scikit-learn: the extra sklearn")
    described = [identity(name) for name in reference() if not name.startswith("valuesparse.torch")]
    found = importlib.import_module("valuesparse" + module)
    public = {name: getattr(found, name) for name in found.__all__}
    missing = [
        name
        for name, value in public.items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and not any(value is one for one in described)
    ]
    assert missing == []


def test_the_page_of_options_has_them_all() -> None:
    text = (DOCS / "options.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    options = list(inspect.signature(vs.infer).parameters)[1:]
    assert not set(options) - named


@pytest.mark.parametrize(
    "name",
    [
        "crf.CRF.predict_single", "crf.CRF.predict_marginals_single", "crf.CRF.score",
        "crf.metrics.flat_precision_score", "crf.metrics.flat_recall_score",
        "crf.metrics.flat_f1_score", "crf.metrics.flat_fbeta_score",
        "crf.metrics.flat_classification_report", "crf.metrics.sequence_accuracy_score",
        "crf.metrics.entity_scores", "crf.metrics.Tally.add", "hmm.BaseHMM.predict",
        "hmm.BaseHMM.predict_proba", "relaxed.largest", "relaxed.smallest_within",
    ],
)  # fmt: skip
def test_docstrings_tell_what_arguments_are(name: str) -> None:
    if name.startswith(("crf", "hmm")):
        pytest.importorskip("sklearn", reason="needs scikit-learn: the extra sklearn")
    found = functools.reduce(getattr, name.split("."), vs)
    text = inspect.getdoc(found) or ""
    told = re.findall(r"^(\S.*?)(?: :.*)?$", text.partition("Parameters\n---")[2], re.M)
    words = {word.strip("*") for line in told for word in line.split(", ")}
    assert {p for p in inspect.signature(found).parameters if p != "self"} <= words


def test_properties_say_what_they_are() -> None:
    assert "How the sentences were parsed" in (inspect.getdoc(vs.parsing.Parses.summary) or "")
