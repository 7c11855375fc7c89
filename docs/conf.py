"""The site: sphinx-build -W --keep-going docs build/site; nothing of it is fetched."""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
(REPOSITORY,) = re.findall(
    r'^Repository = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
)

project = "valuesparse"
author = "the valuesparse authors"
copyright = f"{author}, MIT licence"
release = version = version_of("valuesparse")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery"]
# numpydoc looks attributes up among all classes.
suppress_warnings = ["ref.python"]

# Pages: links go to headings, as on a web page of the repository.
myst_heading_anchors = 4

# Docstrings.
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"  # numpydoc shows those that a reader wants
autodoc_mock_imports = ["torch"]  # huge, and only its layer needs it
numpydoc_show_class_members = False

# The gallery: each script runs, and one that fails ends the build.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "pictures",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 3600,
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "furo"
html_title = "valuesparse"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "source_repository": REPOSITORY,
    "source_branch": "main",
    "source_directory": "docs/",
}


def leave_the_folder(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let links to files outside docs/ lead into the repository."""
    up = r"(?<=\]\()(?:\.\./)+(?=benchmarks/|[A-Z]+\.)"
    source[0] = re.sub(up, f"{REPOSITORY}/blob/main/", source[0])


def tidy(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Join lines that end with a backslash, and let |x| be a norm: not a substitution."""
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    lines[:] = re.sub(r"\|(\w+)\|", r"\\|\1\\|", text).split("\n")


def leave_out(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out the methods that scikit-learn gives to every estimator for routing metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def plain(app: Sphinx, context: object, lines: list[str]) -> None:
    """Let the help of commands be plain text: a star is a star."""
    lines[:] = [re.sub(r"(?<!\\)\*", r"\\*", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Hear of each page and docstring before it is read; numpydoc comes later."""
    app.connect("source-read", leave_the_folder)
    for part in ("description", "options", "arguments", "epilog"):
        app.connect(f"sphinx-click-process-{part}", plain)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("autodoc-process-docstring", tidy, priority=100)
