"""Model files that are written, against those of CRFsuite, byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from valuesparse.io import read_crfsuite
from valuesparse.io._crfsuite_writer import format_model

FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


def features_of(data: bytes) -> np.ndarray:
    (begin,) = struct.unpack_from("<I", data, 28)
    (count,) = struct.unpack_from("<I", data, begin + 8)
    return np.frombuffer(data, FEATURE, count, begin + 12)


@pytest.mark.parametrize(
    "params", [{}, {"c1": 0.8}, {"feature__possible_states": 1}, {"c1": 1e6}], ids=str
)
def test_a_file_is_written_as_crfsuite_writes_it(
    params: dict[str, float], train: Callable[..., Path], rng: np.random.Generator
) -> None:
    labels = ["é", "bb", "中文字", "D" * 20]
    xseqs, yseqs = [], []
    for _ in range(60):
        y = [labels[k] for k in rng.integers(4, size=rng.integers(1, 9))]
        xseqs.append(
            [["b", f"x{rng.integers(300)}", f"長い名前{rng.integers(99)}", "y" + a] for a in y]
        )
        yseqs.append(y)
    data = train(xseqs, yseqs, max_iterations=5, **params).read_bytes()
    model, features = read_crfsuite(data), features_of(data)
    parts = []
    for kind in (0, 1):
        part = features[features["kind"] == kind]
        parts.append((part["source"].astype(int), part["target"].astype(int), part["weight"]))
    assert format_model(model.labels, model.attributes, *parts) == data


@pytest.mark.smoke
def test_weights_of_zero_are_left_out_and_attributes_numbered_anew() -> None:
    states = (np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]), np.array([0.0, 1.5, 0.0, -2.0]))
    moves = (np.array([0, 1]), np.array([1, 1]), np.array([0.0, 3.0]))
    model = read_crfsuite(format_model(["X", "Y"], ["a", "b", "c"], states, moves))
    assert model.labels == ("X", "Y")
    assert model.attributes == ("b", "c")
    assert model.transition.tolist() == [[0.0, 0.0], [0.0, 3.0]]
    assert model.state_weights.toarray().tolist() == [[1.5, 0.0], [0.0, -2.0]]
