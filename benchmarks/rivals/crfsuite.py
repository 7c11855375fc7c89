"""CRFsuite's C forward-backward, through python-crfsuite.

The first ``marginal`` after a ``set`` runs the forward and the backward pass over the sequence,
every later one only reads the tables; ``set`` itself turns attributes into scores. So the time of
inference is that of ``set`` and one ``marginal``, less that of ``set``, and the marginals of all
labels are counted as free. Scores of our choosing go in through a model of K attributes with weight
1: the value an attribute has is then the score of its label.
"""

from __future__ import annotations

import functools
import struct
import tempfile
from pathlib import Path

import numpy as np
import pycrfsuite

from . import Prepared, split

_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


@functools.lru_cache(maxsize=8)
def _template(n_labels: int) -> bytes:
    """Return a model file with one attribute per label and every transition, weights arbitrary."""
    names = [str(label) for label in range(n_labels)]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "template.crfsuite")
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        # One step from zero leaves no weight at zero; the writer drops features that are.
        options = {"max_iterations": 1, "c2": 1.0, "feature.possible_transitions": True}
        trainer.set_params(options)
        trainer.append(pycrfsuite.ItemSequence([{name: 1.0} for name in names]), names)
        trainer.train(path)
        return Path(path).read_bytes()


def write_model(path: Path, transition: np.ndarray) -> None:
    """Write a model with `transition` (K, K); attribute ``str(k)`` scores label k by its value."""
    n_labels = transition.shape[0]
    data = bytearray(_template(n_labels))
    (start,) = struct.unpack_from("<I", data, 28)
    chunk, _, count = struct.unpack_from("<4sII", data, start)
    if chunk != b"FEAT" or count != n_labels + n_labels**2:
        raise RuntimeError(f"unexpected CRFsuite model: chunk {chunk!r} with {count} features")
    features = np.frombuffer(data, dtype=_FEATURE, count=count, offset=start + 12)
    features["weight"] = 1.0
    edges = features[features["type"] == 1]
    features["weight"][features["type"] == 1] = transition[edges["source"], edges["target"]]
    path.write_bytes(data)


def tagger_for(transition: np.ndarray) -> pycrfsuite.Tagger:
    """Return a tagger with the given transition scores; attribute ``str(k)`` scores label k."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.crfsuite"
        write_model(path, transition)
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
    return tagger


def items_for(unary: np.ndarray, lengths: np.ndarray) -> list[pycrfsuite.ItemSequence]:
    """Return one item sequence per chain, with the scores as attribute values."""
    names = [str(label) for label in range(unary.shape[1])]
    return [
        pycrfsuite.ItemSequence([dict(zip(names, row, strict=True)) for row in rows.tolist()])
        for rows in split(unary, lengths)
    ]


def prepare_tagger(
    tagger: pycrfsuite.Tagger, items: list[pycrfsuite.ItemSequence], label: str
) -> Prepared:
    """Return the timing of a tagger's C core over sequences; `label` is any label of the model."""

    def overhead() -> None:
        for sequence in items:
            tagger.set(sequence)

    def call() -> None:
        for sequence in items:
            tagger.set(sequence)
            tagger.marginal(label, 0)

    return Prepared(call, overhead)


def prepare(
    unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray, threads: int = 1
) -> Prepared:
    """Return ``set`` and one ``marginal`` per sequence, and ``set`` alone as overhead."""
    return prepare_tagger(tagger_for(transition), items_for(unary, lengths), "0")


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    tagger = tagger_for(transition)
    names = [str(label) for label in range(unary.shape[1])]
    rows = []
    for sequence, length in zip(items_for(unary, lengths), lengths.tolist(), strict=True):
        tagger.set(sequence)
        rows += [[tagger.marginal(name, at) for name in names] for at in range(length)]
    return np.array(rows)
