"""Operations of taggers and trainers that run native code, as in `operations`."""

from __future__ import annotations

import contextlib
import io
import pickle
from typing import Any

import numpy as np
from operations import FOLDER, OPERATIONS, Act, operation

from valuesparse import _crf
from valuesparse.crf import crfsuite

rng = np.random.default_rng(0)
XSEQS = [
    [{"b": 1.0, f"w={rng.integers(30)}": 1.0, "né": {"x": 0.5, "y": ["z", "ü"]}} for _ in range(n)]
    for n in rng.integers(1, 9, 40)
]
YSEQS = [rng.choice(["N", "V", "D"], len(x)).tolist() for x in XSEQS]


def training(algorithm: str, name: str = "", **more: float) -> None:
    def prepare() -> Act:
        trainer = crfsuite.Trainer(algorithm, verbose=False)
        trainer.set_params({"max_iterations": 3, **more})
        for x, y in zip(XSEQS, YSEQS, strict=True):
            trainer.append(x, y)
        return trainer.train_inmemory

    OPERATIONS[f"train_{name or algorithm}"] = prepare


for algorithm in ("lbfgs", "l2sgd", "ap", "pa", "arow"):
    training(algorithm)
training("lbfgs", "owlqn", c1=0.5)


@operation
def train_append() -> Act:
    trainer = crfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"max_iterations": 1})

    def act() -> Any:
        trainer.clear()
        for x, y in zip(XSEQS, YSEQS, strict=True):
            trainer.append(x, y)
        return trainer.train_inmemory()

    return act


MODEL = OPERATIONS["train_lbfgs"]()()


def tagger() -> crfsuite.Tagger:
    t = crfsuite.Tagger()
    t.open_inmemory(MODEL)
    return t


@operation
def tagger_open() -> Act:
    return lambda: tagger().tag(XSEQS[0])


@operation
def tagger_tag() -> Act:
    t = tagger()

    def act() -> Any:
        labels = t.tag(XSEQS[1])
        return labels, t.probability(labels), t.marginal("N", 0), t.marginals(), t.pairwise()

    return act


@operation
def tagger_batch() -> Act:
    t = tagger()
    return lambda: (t.tag_batch(XSEQS, threads=2), t.marginals_batch(XSEQS, threads=2))


@operation
def item_sequence() -> Act:
    def act() -> Any:
        ready = [crfsuite.ItemSequence(x) for x in XSEQS]
        return [x.items() for x in pickle.loads(pickle.dumps(ready))]

    return act


@operation
def dictionary() -> Act:
    d = _crf.Dictionary()

    def act() -> Any:
        arrays = d.encode(XSEQS, grow=True)
        again = pickle.loads(pickle.dumps(d))
        return *arrays, d.names(), len(d), again.names(), d.find("b"), d.encode(XSEQS)

    return act


@operation
def dictionary_rolled_back() -> Act:
    d = _crf.Dictionary(["a", "b"])
    broken = [[{f"n{i}-{j}": 1.0 for j in range(700)} for i in range(100)], [[3]]]

    def act() -> Any:
        with contextlib.suppress(TypeError):
            d.encode(broken, grow=True)
        return d.names(), d.find("n1-1"), d.encode([[["n1-1", "a", "b"]]])

    return act


@operation
def read_crfsuite() -> Act:
    path = FOLDER / "model.crfsuite"
    path.write_bytes(MODEL)

    def act() -> Any:
        t = crfsuite.Tagger()
        t.open(str(path))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            t.dump()
        return out.getvalue()

    return act
