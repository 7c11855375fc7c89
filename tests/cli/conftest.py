"""A small corpus and a model of it, for the tests of commands that read taggers' files."""

from __future__ import annotations

from pathlib import Path

import pytest

from valuesparse.crf import train_corpus


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from command_line import TEXT  # it needs the extra cli, which tests may lack

    folder = tmp_path_factory.mktemp("model")
    (folder / "a.conll").write_text(TEXT)
    train_corpus([folder / "a.conll"], folder / "m.crfsuite", params={"max_iterations": 5})
    return folder / "m.crfsuite"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    from command_line import TEXT

    path = tmp_path / "a.conll"
    path.write_text(TEXT)
    return path
