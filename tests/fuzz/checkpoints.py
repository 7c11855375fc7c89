"""Checkpoints of every learner: training goes on from them, or says what is wrong."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.core import Reading, target
from fuzz.corpora import SENTENCES
from fuzz.mutators import flip
from fuzz.structured import jsons, npzs
from valuesparse.crf import Trainer
from valuesparse.io import read_crfsuite

NAME = "c.npz"
# More than the seeds have done, so that there is something to go on with.
ITERATIONS = 10
DIGEST = 64  # hexadecimal digits


def comment_of(data: bytes) -> bytes:
    """Return the comment of an archive: what it is, of which run, and its checksum."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.comment
    except Exception:  # of a damaged one
        return b""


def is_sealed(data: bytes) -> bool:
    """Return whether the checksum of a checkpoint is right."""
    return hashlib.sha256(data[:-DIGEST]).hexdigest().encode() == data[-DIGEST:]


def seal(r: Random, data: bytes, seed: bytes) -> bytes:
    """Return an archive as the checkpoint that `seed` is, with the right checksum."""
    comment = comment_of(seed)[:-DIGEST]
    if r.random() < 0.02:
        comment = flip(r, comment, ())
    file = io.BytesIO(data)
    try:
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = comment + bytes(DIGEST)
            archive.comment = archive.comment[: (1 << 16) - 1]
        body = file.getvalue()[:-DIGEST]
    except Exception:  # no archive any more: the end of the file is changed alone
        body = data[: -len(comment) - DIGEST] + comment
    return body + hashlib.sha256(body).hexdigest().encode()


def trainer_of(algorithm: str, iterations: int, params: dict[str, Any]) -> Trainer:
    """Return a trainer with its data."""
    trainer = Trainer(algorithm, {**params, "max_iterations": iterations}, verbose=False)
    for words, tags in SENTENCES:
        trainer.append([[f"w={word}", "bias"] for word in words], tags)
    return trainer


def learner(name: str, algorithm: str, **params: Any) -> None:
    """List the checkpoints of a learner."""

    @target(f"checkpoint-{name}")
    def make(folder: Path) -> Reading:
        path = folder / NAME
        seeds, models = [], set()
        for done in (1, 3, 8):
            path.unlink(missing_ok=True)
            for count, every in ((done, 1), (ITERATIONS, 1000)):
                trainer = trainer_of(algorithm, count, params)
                models.add(trainer.train_inmemory(checkpoint=path, checkpoint_every=every))
                if count == done:
                    seeds.append(path.read_bytes())

        def read(data: bytes, r: Random) -> None:
            path.write_bytes(data)
            trainer = trainer_of(algorithm, ITERATIONS, params)
            found = trainer.train_inmemory(checkpoint=path, checkpoint_every=1000)
            model = read_crfsuite(found)
            assert np.isfinite(model.transition).all()
            assert np.isfinite(model.state_weights.data).all()
            # A state that no run had must have been given that state's checksum.
            assert found in models or is_sealed(data), "a damaged checkpoint was gone on from"

        return Reading(seeds, npzs(seal, text=jsons("PCG64", "state", "inc")), read, named=(NAME,))


learner("lbfgs", "lbfgs")
learner("owlqn", "lbfgs", c1=0.1)
learner("l2sgd", "l2sgd")
learner("ap", "ap")
learner("pa", "pa")
learner("arow", "arow")
learner("aggressive", "aggressive")
