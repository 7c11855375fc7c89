"""A model of random weights, its tagger, and items for it; fixtures are imported where wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valuesparse.crf.crfsuite import Tagger
from valuesparse.io import CrfsuiteModel

LABELS = ("A", "é", "ラベル")


def random_model() -> CrfsuiteModel:
    rng = np.random.default_rng(5)
    names = [f"a{i}" for i in range(40)]
    weights = rng.normal(size=(40, 3)) * (rng.random((40, 3)) < 0.6)
    return CrfsuiteModel(LABELS, names, rng.normal(size=(3, 3)), weights)


def draw(rng: np.random.Generator, n: int) -> list[Any]:
    """Draw a sequence of n items; one attribute in ten is unknown."""
    return [[f"a{i}" for i in rng.integers(0, 44, rng.integers(0, 9))] for _ in range(n)]


@pytest.fixture(scope="session")
def model() -> CrfsuiteModel:
    return random_model()


@pytest.fixture
def tagger(model: CrfsuiteModel) -> Tagger:
    return Tagger.from_model(model)
