"""State files: what is kept beside a model and a corpus, evidence in JSON, arrays to measure."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

import valuesparse as vs
from fuzz import canary
from fuzz.core import Reading, target
from fuzz.corpora import CONLL, model_of
from fuzz.structured import jsons, npz_of, npzs
from valuesparse.crf import tag_corpus

SECRET = "SECRET-LINE"


@target("model-json")
def model_json(folder: Path) -> Reading:
    """``MODEL.json``: names of features, of columns, of a template; no file may run code."""
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir(exist_ok=True)
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text(f"{SECRET}\n")
    (inside / "near.template").write_text("U00:%x[0,0]\nB\n")
    model = model_of(inside / "m.crfsuite")
    beside = inside / "m.crfsuite.json"
    source, output = inside / "corpus.conll", inside / "out"
    source.write_bytes(CONLL[0])
    path = list(sys.path)
    seeds = [beside.read_bytes()]
    names = (
        "template:near.template", "template:../outside/secret", f"template:{outside}/secret",
        "template:", "template:.", "fuzz.canary:called", "fuzz.canary:CALLS", "fuzz:canary.called",
        "attributes", "cantonese",
    )  # fmt: skip
    pairs = [("features", name) for name in names] + [("word", "99"), ("word", "-1")]

    def read(data: bytes, _: Random) -> None:
        canary.CALLS.clear()
        beside.write_bytes(data)
        shutil.rmtree(output, ignore_errors=True)
        try:
            tag_corpus(model, source, output, jobs=1)
        except (ValueError, OSError) as error:
            if SECRET in str(error):
                raise AssertionError("a file outside of the model's folder was read") from error
            raise
        finally:
            assert not canary.CALLS, "a file made a function run"
            assert sys.path == path, "a file changed sys.path"

    made = jsons(*names, pairs=pairs)
    named = ("m.crfsuite", "corpus.conll", "inside: a template", "the model takes attribute files")
    return Reading(seeds, made, read, allowed=(ValueError, OSError), named=named)


@target("run-json")
def run_json(folder: Path) -> Reading:
    """``_valuesparse-run.json``, in a folder with a finished output."""
    model = model_of(folder / "m.crfsuite")
    source, output, run = folder / "c.conll", folder / "out", folder / "out/_valuesparse-run.json"
    source.write_bytes(CONLL[0])

    def tag() -> bytes:
        tag_corpus(model, source, output, jobs=1)
        return (output / source.name).read_bytes()

    expected, seeds = tag(), [run.read_bytes()]
    words = ("model_sha256", "features", "inputs", "formats", "zeta", "shard_bytes", "marginals")

    def read(data: bytes, _: Random) -> None:
        if not run.exists() or not (output / source.name).exists():
            shutil.rmtree(output, ignore_errors=True)
            tag()
        run.write_bytes(data)
        assert tag() == expected

    return Reading(seeds, jsons(*words), read)


@target("evidence-json", needs=("click",))
def evidence_json(folder: Path) -> Reading:
    """Evidence as ``valuesparse solve`` takes it."""
    from valuesparse.cli._models import _json_evidence

    graph = vs.FactorGraph([2, 3], names=["rain", 7], states=[["no", "yes"], None])
    graph.add(["rain", 7], np.arange(6.0).reshape(2, 3))
    path = folder / "e.json"
    seeds = [b'{"rain": "yes"}', b'{"rain": [0.5, 0.5], "7": 2}', b"{}"]

    def read(data: bytes, _: Random) -> None:
        path.write_bytes(data)
        try:
            result = vs.infer(graph, evidence=_json_evidence(graph, path))
        except vs.InfeasibleError:
            return
        assert np.isfinite(result["rain"]).all()

    # The command line prints these as one line.
    made = jsons("rain", "7", "yes", "no")
    return Reading(seeds, made, read, named=("e.json",))


def unsealed(_: Random, data: bytes, __: bytes) -> bytes:
    """Return an archive as it is: these have no checksum but the archive's own."""
    return data


def tuned(folder: Path, name: str) -> Callable[[bytes, Random], None]:
    from valuesparse.cli._sequences import load_arrays

    model, data = folder / "model.npz", folder / "data.npz"
    model.write_bytes(npz_of({"transition": np.eye(3), "start": np.zeros(3)}))
    data.write_bytes(npz_of({"unary": np.eye(3), "lengths": np.array([1, 2])}))

    def read(damaged: bytes, _: Random) -> None:
        (folder / name).write_bytes(damaged)
        scored = load_arrays(model, data, 100)
        if scored.chain.n_labels > 50:
            return
        try:
            assert np.isfinite(vs.infer(scored.chain).marginals).all()
        except vs.InfeasibleError:
            return

    return read


@target("tune-model", needs=("click",))
def tune_model(folder: Path) -> Reading:
    """The model of ``valuesparse tune`` as arrays."""
    seeds = [npz_of({"transition": np.eye(3), "start": np.zeros(3), "end": np.ones(3)})]
    read = tuned(folder, "model.npz")
    named = ("model.npz", "data.npz")
    return Reading(seeds, npzs(unsealed), read, named=named)


@target("tune-data", needs=("click",))
def tune_data(folder: Path) -> Reading:
    """And its data."""
    seeds = [
        npz_of({"unary": np.eye(3), "lengths": np.array([1, 2]), "gold": np.array([0, 1, 2])}),
        npz_of({"unary": np.ones((2, 3), "f4")}),
    ]
    read = tuned(folder, "data.npz")
    return Reading(seeds, npzs(unsealed), read, named=("data.npz",))
