"""States of training in files: what goes on from them, and what is refused by name."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest

from valuesparse.crf import Trainer
from valuesparse.io import read_crfsuite
from valuesparse.learning import _checkpoint
from valuesparse.learning._checkpoint import (
    Checkpoint,
    CheckpointError,
    fingerprint_of,
    pack,
    unpack,
)
from valuesparse.learning._state import Field

ALGORITHMS = ("lbfgs", "owlqn", "l2sgd", "ap", "pa", "arow", "aggressive")
State = dict[str, np.ndarray]


def trainer(algorithm: str, seed: int = 0, **values: Any) -> Trainer:
    if algorithm == "owlqn":
        algorithm, values = "lbfgs", {"c1": 0.1, **values}
    if algorithm in ("lbfgs", "l2sgd"):
        values = {"c2": 0.1, **values}
    made = Trainer(algorithm, {"max_iterations": 4, **values}, verbose=False)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        y = rng.choice(list("AB"), size=rng.integers(1, 5)).tolist()
        made.append([["b", f"x{rng.integers(3)}", f"x{label}{rng.integers(3)}"] for label in y], y)
        made.append([["b", f"x{rng.integers(3)}"] for _ in y], y)
    return made


def saved(algorithm: str, path: Path, stop: int = 2) -> bytes:
    """Leave the checkpoint of iteration `stop`; return the model of a whole run."""
    trainer(algorithm).train_inmemory(
        checkpoint=path, checkpoint_every=1, callback=lambda p: p.number == stop
    )
    return trainer(algorithm).train_inmemory()


def state_of(path: Path) -> State:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def fingerprint(data: bytes) -> str:
    return data[-_checkpoint._END :].split()[3].decode()


def sealed(data: bytes, like: bytes) -> bytes:
    """Return an archive with the ending that makes it a checkpoint of the same run."""
    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = like[-_checkpoint._END : -64] + bytes(64)
    return resealed(file.getvalue())


def resealed(data: bytes) -> bytes:
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def forged(state: State, like: bytes) -> bytes:
    """Return a checkpoint with a right checksum and a right fingerprint, of any arrays."""
    fields = {name: Field(array.dtype.str, array.shape) for name, array in state.items()}
    return bytes(pack(state, fields, fingerprint(like)))


def refused(algorithm: str, path: Path, match: str = "checkpoint") -> str:
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=match) as caught:
        trainer(algorithm).train_inmemory(checkpoint=path, checkpoint_every=1)
    assert path.read_bytes() == before
    text = str(caught.value)
    assert text.startswith(f"{path} is "), text
    assert text.endswith("; remove it to begin anew, or name another file")
    assert "\n" not in text
    return text


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_file_is_an_archive_that_numpy_reads_and_the_same_each_time(
    algorithm: str, tmp_path: Path
) -> None:
    whole = saved(algorithm, tmp_path / "a")
    saved(algorithm, tmp_path / "b")
    data = (tmp_path / "a").read_bytes()
    assert data == (tmp_path / "b").read_bytes()
    state = state_of(tmp_path / "a")
    assert forged(state, data) == data
    (tmp_path / "a").write_bytes(forged(state, data))
    again = trainer(algorithm).train_inmemory(checkpoint=tmp_path / "a", checkpoint_every=1)
    assert again == whole


def shortened(*names: str) -> Callable[[State], State]:
    return lambda state: state | {name: state[name][:1] for name in names}


def with_first(name: str, value: float) -> Callable[[State], State]:
    def change(state: State) -> State:
        array = state[name].copy()
        array.reshape(-1)[0] = value
        return state | {name: array}

    return change


def as_type(name: str, dtype: Any) -> Callable[[State], State]:
    return lambda state: state | {name: state[name].astype(dtype)}


def lacking(name: str) -> Callable[[State], State]:
    return lambda state: {key: state[key] for key in state if key != name}


FORGERIES = {
    "lbfgs": [
        shortened("x", "gradient"), shortened("x"), shortened("gradient"), shortened("s", "y"),
        shortened("sy"), shortened("s", "y", "sy"), as_type("x", "f4"), as_type("gradient", "f4"),
        as_type("x", "i8"), as_type("x", "U8"), as_type("pairs", "f8"),
        with_first("x", np.nan), with_first("gradient", np.nan), with_first("s", np.inf),
        with_first("sy", np.nan), with_first("loss", np.nan), with_first("past", -np.inf),
        with_first("pairs", -1), with_first("pairs", 2**62), with_first("iterations", -1),
        with_first("ended", 7), with_first("ended", -1), lacking("x"), lacking("ended"),
        lambda s: s | {"more": np.zeros(3)}, lambda s: s | {"past": np.zeros(0)},
        lambda s: s | {"past": np.zeros(1000)}, lambda s: s | {"x": s["x"][None]},
        lambda s: s | {"s": np.asfortranarray(s["s"].T)}, lambda s: {},
    ],
    "l2sgd": [
        shortened("vector"), shortened("best"), as_type("vector", "f4"), as_type("best", "f4"),
        with_first("vector", np.nan), with_first("best", np.inf), with_first("factor", 0.0),
        with_first("factor", -1.0), with_first("factor", np.nan), with_first("eta", 0.0),
        with_first("eta", np.inf), with_first("best_loss", np.inf), with_first("done", 0),
        with_first("done", -3), with_first("time", 1), with_first("time", 2**62),
        as_type("random", "i8"), shortened("random"),
        with_first("ended", 3), lacking("random"), lacking("eta"),
    ],
    "ap": [
        shortened("weights"), shortened("late"), shortened("weights", "late"), shortened("touched"),
        as_type("weights", "f4"), as_type("late", "f4"), as_type("touched", "u1"),
        with_first("weights", np.nan), with_first("late", np.nan), with_first("done", -1),
        with_first("done", 1), with_first("time", 3), lacking("late"), lacking("touched"),
        lambda s: s | {"touched": (s["touched"].view(np.uint8) + 6).view(bool)},
        lambda s: s | {"random": np.full(6, 2**64 - 1, np.uint64)},
        lambda s: s | {"rule_variance": np.ones_like(s["weights"])},
    ],
    "arow": [
        shortened("rule_variance"), as_type("rule_variance", "f4"), lacking("rule_variance"),
        with_first("rule_variance", np.nan), with_first("rule_variance", -1.0),
        shortened("weights", "late", "touched", "rule_variance"),
    ],
}  # fmt: skip
FORGERIES["owlqn"] = FORGERIES["lbfgs"][:12]
FORGERIES["pa"] = FORGERIES["aggressive"] = FORGERIES["ap"][:12]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_state_that_is_not_the_learners_is_refused(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    saved(algorithm, path)
    data, state = path.read_bytes(), state_of(path)
    for change in FORGERIES[algorithm]:
        path.write_bytes(forged(change(dict(state)), data))
        refused(algorithm, path)


@pytest.mark.parametrize("algorithm", ["lbfgs", "ap"])
def test_what_numpy_wrote_in_its_place_is_refused(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    saved(algorithm, path)
    state = state_of(path)
    for name in ("x", "gradient", "weights", "late"):
        if name in state:
            state[name] = state[name][:1]
    np.savez(path, **state)
    refused(algorithm, path, "is not a checkpoint")


def test_any_byte_that_changes_and_any_cut_is_found(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    saved("lbfgs", path)
    data = path.read_bytes()
    shown = {"x": Field("f8", (1,))}
    rng = np.random.default_rng(0)
    for at in {*rng.integers(0, len(data), 1500).tolist(), *range(len(data) - 300, len(data))}:
        bad = bytearray(data)
        bad[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(CheckpointError):
            unpack(bytes(bad), shown | {"room": Field("f8", (len(data),))}, fingerprint(data))
        with pytest.raises(CheckpointError):
            unpack(data[:at], shown | {"room": Field("f8", (len(data),))}, fingerprint(data))
    for content in (b"", b"nonsense", data[:-1], data + b"\n", data[len(data) // 2 :], data * 2):
        path.write_bytes(content)
        refused("lbfgs", path, "checkpoint")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_numbers_that_pass_end_in_a_model_or_a_plain_error(
    algorithm: str, tmp_path: Path
) -> None:
    """Sums overflow and cancel then, but nothing crashes, hangs or is not finite."""
    path = tmp_path / "state.npz"
    saved(algorithm, path)
    data, state = path.read_bytes(), state_of(path)
    rng = np.random.default_rng(0)
    extremes = np.array([0.0, 1e100, -1e100, 5e-324, -5e-324, 1e-200, 1.0, -1.0, 3e-9, 1e50])
    went_on = 0
    for _ in range(150):
        changed = dict(state)
        for name in rng.choice(list(state), size=rng.integers(1, 4)).tolist():
            array = state[name].copy()
            if array.dtype == np.float64:
                places = rng.random(array.shape) < rng.choice([0.1, 1.0])
                found = np.where(places, rng.choice(extremes, array.shape), array)
                changed[name] = np.asarray(np.abs(found) if rng.random() < 0.3 else found)
            elif name in ("ended", "touched"):
                changed[name] = rng.integers(0, 3, array.shape).astype(array.dtype)
        path.write_bytes(forged(changed, data))
        try:
            found = trainer(algorithm).train_inmemory(checkpoint=path, checkpoint_every=100)
        except ValueError:
            continue
        model = read_crfsuite(found)
        assert np.isfinite(model.transition).all()
        assert np.isfinite(model.state_weights.data).all()
        went_on += 1
    assert went_on > 10


def archive(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            made.writestr(name + ".npy", content)
    return file.getvalue()


def npy(text: str, body: bytes = b"", version: int = 1) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + body


HEADERS = [
    npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"),
    npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", b"\x80\x04."),
    npy("(" * 5000), npy("{'descr': 1" + "0" * 5000), npy("\0" * 100), npy("{1L: '", version=2),
    npy("", version=3), b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00",
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_headers_of_arrays_are_never_followed(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    saved("lbfgs", path)
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as made:
        members = {info.filename[:-4]: made.read(info) for info in made.infolist()}
    members["x"] = header or members["x"].replace(b"<f8", b">f8")
    path.write_bytes(sealed(archive(**members), data))
    tracemalloc.start()
    refused("lbfgs", path, "'x' has another dtype or shape")
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_strange_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    saved("ap", path)
    data, state = path.read_bytes(), state_of(path)
    bomb = io.BytesIO()
    np.savez_compressed(bomb, **(state | {"weights": np.zeros(10**7)}))
    twice = io.BytesIO(data)
    with zipfile.ZipFile(twice, "a") as made, pytest.warns(UserWarning, match="Duplicate"):
        made.writestr("weights.npy", b"again")
    directory = data.rindex(b"PK\x01\x02")
    wrong: dict[str, bytes] = {
        "compressed": sealed(bomb.getvalue(), data),
        "twice": resealed(twice.getvalue()),
        "no archive": resealed(b"x" * 1000 + data[-_checkpoint._END :]),
        "empty": sealed(archive(), data),
        "other names": sealed(archive(x=b"", y=b""), data),
    }
    for at in range(directory, len(data) - _checkpoint._END):
        for value in (0, 0x63, 0xFF):  # 0x63: methods of compression, versions, flags
            bad = bytearray(data)
            bad[at] = value
            if bad != data:
                wrong[f"byte {at} is {value}"] = resealed(bytes(bad))
    fields = {name: Field(array.dtype.str[1:].replace("b1", "?"), array.shape)
              for name, array in state.items()}  # fmt: skip
    assert unpack(data, fields, fingerprint(data)).keys() == state.keys()
    for what, content in wrong.items():
        try:
            found = unpack(content, fields, fingerprint(data))
        except CheckpointError:
            continue
        # Dates and the like mean nothing: then the arrays are those that were written.
        for name, array in found.items():
            np.testing.assert_array_equal(array, state[name], err_msg=what)
    for what in ("compressed", "no archive", "empty", "other names"):
        path.write_bytes(wrong[what])
        refused("ap", path)


def test_a_file_larger_than_any_state_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    with open(path, "wb") as file:
        file.truncate(1 << 28)  # sparse
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="is not a checkpoint of this model: it has more"):
        trainer("lbfgs").train_inmemory(checkpoint=path)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_a_small_file_takes_little_memory_however_large_the_model(tmp_path: Path) -> None:
    class Large:
        def fields(self) -> dict[str, Field]:
            return {"x": Field("f8", (1 << 28,))}

        def restore(self, state: State) -> None:
            raise AssertionError("nothing was read")

    path = tmp_path / "state.npz"
    path.write_bytes(b"cut off")
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="is not a checkpoint, or it is cut off"):
        Checkpoint(path, 1, ()).resume(Large())  # type: ignore[arg-type]
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_other_data_parameters_and_algorithms_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    saved("ap", path)
    match = "is a checkpoint of other data, features or parameters"
    for other in (trainer("pa"), trainer("ap", seed=1), trainer("ap", **{"feature.minfreq": 1.0})):
        with pytest.raises(CheckpointError, match=match):
            other.train_inmemory(checkpoint=path)
    # Pieces that run into each other are told apart.
    assert fingerprint_of(("ab", "c")) != fingerprint_of(("a", "bc"))
    assert fingerprint_of((["a'", "b"],)) != fingerprint_of((["a", "'b"],))
    assert fingerprint_of((np.zeros(2),)) != fingerprint_of((np.zeros((2, 1)),))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_that_had_ended_does_not_go_on(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    more = {
        "max_iterations": 400,
        "epsilon": 0.1 if "l" in algorithm else 10.0,
        "delta": 0.1,
        "period": 2,
    }
    known = trainer(algorithm).params()
    values = {name: value for name, value in more.items() if name in known}
    first = trainer(algorithm, **values)
    whole = first.train_inmemory(checkpoint=path, checkpoint_every=1)
    assert first.reason in ("converged", "delta"), "else this tests nothing"
    again, seen = trainer(algorithm, **values), []
    assert again.train_inmemory(checkpoint=path, callback=seen.append) == whole
    assert (again.reason, seen) == (first.reason, [])
    # So does one that had done all it was allowed to, until more is allowed.
    path.unlink()
    whole = trainer(algorithm).train_inmemory(checkpoint=path, checkpoint_every=1)
    again = trainer(algorithm)
    assert again.train_inmemory(checkpoint=path, callback=seen.append) == whole
    assert (again.reason, seen) == ("max_iterations", [])
    assert trainer(algorithm, max_iterations=3).train_inmemory(checkpoint=path) == whole
    raised = trainer(algorithm, max_iterations=6)
    assert (
        raised.train_inmemory(checkpoint=path)
        == trainer(algorithm, max_iterations=6).train_inmemory()
    )


def test_a_state_that_could_not_be_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from valuesparse.learning.online import Online

    path = tmp_path / "state.npz"
    state = Online.state
    monkeypatch.setattr(
        Online, "state", lambda self: state(self) | {"late": np.full(self.model.n_weights, np.inf)}
    )
    with pytest.raises(ValueError, match=r"iteration 1: 'late' has numbers that are not finite; "):
        trainer("ap").train_inmemory(checkpoint=path, checkpoint_every=1)
    assert not path.exists()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_largest_state_fits_the_limit_of_reading(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    values = {"num_memories": 2, "period": 2, "epsilon": 0.0, "delta": 0.0, "max_iterations": 30}
    known = trainer(algorithm).params()
    chosen = {name: value for name, value in values.items() if name in known}
    trainer(algorithm, **chosen).train_inmemory(checkpoint=path, checkpoint_every=1)
    trainer(algorithm, **chosen).train_inmemory(checkpoint=path)


def test_where_a_checkpoint_cannot_go_is_said_before_training(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("folder", "none/state.npz"):
        seen: list[Any] = []
        with pytest.raises(OSError, match=r"state\.npz|folder") as caught:
            trainer("ap").train_inmemory(checkpoint=tmp_path / name, callback=seen.append)
        assert (caught.value.filename, seen) == (str(tmp_path / name), [])
    model = tmp_path / "model"
    with pytest.raises(ValueError, match="is where the model goes; name another file"):
        trainer("ap").train(model, checkpoint=tmp_path / "folder" / ".." / "model")
    assert not model.exists()


KILLED = """
import sys, time
from valuesparse.crf import Trainer
def train(model, state, pause):
    trainer = Trainer("lbfgs", {"max_iterations": 40, "c2": 0.1, "period": 0}, verbose=False)
    for i in range(40):
        y = ["AB"[(i * j) % 2] for j in range(1, 1 + i % 7)]
        trainer.append([["b", f"x{(i + j) % 5}", f"{z}{i % 3}"] for j, z in enumerate(y)], y)
    def callback(progress):
        if pause:
            print("running", flush=True)
            time.sleep(pause)
    trainer.train(model, callback=callback, checkpoint=state, checkpoint_every=1)
"""


def test_a_killed_process_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, model, state = tmp_path / "whole", tmp_path / "model", tmp_path / "state"
    rng, here = np.random.default_rng(0), {}
    exec(KILLED, here)
    here["train"](whole, None, 0)
    for _ in range(2):
        code = KILLED + "train(*sys.argv[1:], 0.04)"
        with children.start(code, str(model), str(state)) as child:
            child.stdout.readline()
            time.sleep(float(rng.uniform(0.0, 0.3)))
            child.kill()
        assert not model.exists()
        assert state.exists()
    here["train"](model, state, 0)
    assert model.read_bytes() == whole.read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes a pipe")
def test_a_pipe_is_no_checkpoint(tmp_path: Path) -> None:
    """Nobody writes to it: reading had no end."""
    os.mkfifo(tmp_path / "pipe")
    trainer = Trainer(verbose=False)
    trainer.append([["a"]], ["X"])
    with pytest.raises(CheckpointError, match=r"pipe is not a regular file; name another file"):
        trainer.train(tmp_path / "m", checkpoint=tmp_path / "pipe")
