"""No file of the package imports itself by way of others: not at the top, not in a function."""

from __future__ import annotations

from pathlib import Path

from rings import circles, graph_of, wrong

import valuesparse

ROOT = Path(valuesparse.__file__).parent


def test_imports_point_down_and_never_round() -> None:
    assert wrong(ROOT) == []


def test_an_arrow_that_points_up_is_found(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "models/__init__.py": "from valuesparse.results import x",
        "results/__init__.py": "def f():\n    import valuesparse.models",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert wrong(tmp_path) == [
        "these import each other: valuesparse.models, valuesparse.results",
        "valuesparse.models imports valuesparse.results, which lies above it",
    ]


def test_learning_knows_of_no_model() -> None:
    found = {
        other
        for name, others in graph_of(ROOT, "valuesparse").items()
        for other in others
        if name.startswith("valuesparse.learning") and not other.startswith("valuesparse.learning")
    }
    assert found == {
        "valuesparse._validation", "valuesparse._vectors", "valuesparse.io._files"
    }  # fmt: skip


def test_circles_are_found_however_they_are_imported(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from p.a import x",
        "a.py": "def f():\n    from p import b",  # in a function
        "b.py": "import p.sub.c",
        "sub/__init__.py": "",
        "sub/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..a import x",
        "d.py": "from p.a import x\nimport numpy",
        "e.pyi": "from . import d",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    edges = graph_of(tmp_path, "p")
    assert circles(edges) == {frozenset({"p.a", "p.b", "p.sub.c"})}
    assert edges["p"] == edges["p.d"] == {"p.a"}
    assert edges["p.e"] == {"p.d"}
