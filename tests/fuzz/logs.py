"""Texts that a program wrote: dumps of models, logs of training, the words of a lock."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from fuzz.core import Reading, target
from fuzz.mutators import texts
from fuzz.structured import jsons
from valuesparse.corpora._lock import LOCK, locked, require_mine
from valuesparse.crf._dump import CRFsuiteDumpParser
from valuesparse.crf.crfsuite import Trainer
from valuesparse.crf.training._log import TrainLogParser

SEQUENCES = [
    ([["a", "a --> b"], {"f": 0.5}], ["X", "Y"]),
    ([["字"], ["é", "a"], ["a:b"]], ["名詞", "X", "Y"]),
    ([["b"]], ["Y"]),
]


def trainer_of(algorithm: str, **params: float) -> Trainer:
    """Return a trainer of a small model, with a part to measure it on."""
    trainer = Trainer(algorithm, {"max_iterations": 2, **params}, verbose=False)
    for group, (xseq, yseq) in enumerate(SEQUENCES):
        trainer.append(xseq, yseq, group % 2)
    return trainer


@target("crfsuite-dump")
def dump(folder: Path) -> Reading:
    """The text of ``Tagger.dump``, line by line."""
    from valuesparse.crf.crfsuite import Tagger

    seeds = []
    for algorithm in ("lbfgs", "ap"):
        tagger = Tagger()
        tagger.open_inmemory(trainer_of(algorithm).train_inmemory())
        tagger.dump(str(folder / "dump"))
        seeds.append((folder / "dump").read_bytes())

    def read(data: bytes, _: Random) -> None:
        parser = CRFsuiteDumpParser()
        for line in data.decode("utf-8", "replace").split("\n"):
            parser.feed(line)
        found = parser.result
        assert all(label in found.labels for _, label in found.transitions)
        assert all(isinstance(weight, float) for weight in found.state_features.values())

    words = (b" --> ", b"(0) ", b"}", b"TRANSITIONS = {", b"LABELS = {", b": 0.5", b": 1",
             b" --> X" * 300)  # fmt: skip
    return Reading(seeds, texts(*words), read, named=("cannot stand",))


@target("training-log")
def log(_: Path) -> Reading:
    """The lines that training tells; no line is an error."""
    seeds = []
    for algorithm in ("lbfgs", "l2sgd", "ap"):
        trainer = trainer_of(algorithm)
        trainer.train_inmemory(holdout=1)
        assert trainer.logparser is not None
        seeds.append("".join(trainer.logparser.log).encode())

    def read(data: bytes, r: Random) -> None:
        parser = TrainLogParser()
        for line in data.decode("utf-8", "replace").splitlines(keepends=True):
            event = parser.feed(line)
            if event is not None and r.random() < 0.1:
                assert parser.last_log in "".join(parser.log)
        assert all("num" in iteration for iteration in parser.iterations)
        # So that both outcomes are counted: a log that says nothing of its end.
        if parser.storing_seconds is None:
            raise ValueError("the log has no end")

    words = (b"***** Iteration #", b"Loss: ", b" (******, ******, ******)", b"    X: (1, 2, 3) (",
             b"Number of features: ", b"\n\n", b"Item accuracy: 1 / ", b"9" * 5000)  # fmt: skip
    return Reading(seeds, texts(*words), read)


@target("lock", needs=("fcntl",))
def lock(folder: Path) -> Reading:
    """``.valuesparse.lock``: of another run that holds it, of this one, and left behind."""
    import fcntl

    path = folder / LOCK
    seeds = [b'{"run": "0123456789abcdef", "process": 42, "host": "h", "since": "?"}', b"{}"]

    def read(data: bytes, r: Random) -> None:
        path.write_bytes(data)
        kind = r.randrange(3)
        if kind == 0:
            require_mine(folder, "0123456789abcdef")
        elif kind == 1:
            with locked(folder) as run:
                require_mine(folder, run)
            assert not path.exists()
        else:
            handle = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                with locked(folder):
                    raise AssertionError("the lock of another run did not hold")
            finally:
                os.close(handle)

    made = jsons("run", "process", "host", "since")
    return Reading(seeds, made, read, named=(str(folder),))
