"""Training and tagging that are killed at any moment, again and again, and go on."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from children import run, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes with SIGKILL")

TRAIN = """
import sys, time
import numpy as np
from valuesparse.crf import Trainer
algorithm, model, checkpoint = sys.argv[1:]
rng = np.random.default_rng(0)
trainer = Trainer(algorithm, verbose=False)
for _ in range(600):
    words = rng.integers(0, 300, 15)
    trainer.append([[f"w{w}", f"l{w % 7}"] for w in words], [f"y{w % 5}" for w in words])
trainer.set_params({"max_iterations": 30})
print("ready", flush=True)
begin = time.monotonic()
trainer.train(model, checkpoint=checkpoint, checkpoint_every=1)
print("done", time.monotonic() - begin, flush=True)
"""
TAG = """
import sys
from valuesparse.crf import tag_corpus
model, source, out = sys.argv[1:]
print("ready", flush=True)
tag_corpus(model, [source], out, shard_bytes=4000, jobs=1)
print("done", flush=True)
"""


def interrupt(child: Any, delay: float, how: int) -> bool:
    """End a process some seconds after it is ready; return whether it was cut short."""
    assert child.stdout is not None
    child.stdout.readline()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(delay)
    child.send_signal(how)
    out, _ = child.communicate(timeout=60)
    return "done" not in out


@pytest.mark.parametrize(
    "algorithm",
    ["lbfgs", "ap", *(pytest.param(a, marks=pytest.mark.slow) for a in ("l2sgd", "pa", "arow"))],
)
def test_training_killed_and_resumed(algorithm: str, tmp_path: Path, runs: int) -> None:
    whole = tmp_path / "whole.crfsuite"
    done = run(TRAIN, algorithm, str(whole), str(tmp_path / "none.npz"))
    assert done.returncode == 0, done.stderr
    takes = float(done.stdout.split()[-1])
    rng, cut, series = random.Random(0), 0, 0
    while cut < max(1, runs // 5):
        model, state = tmp_path / f"{series}.crfsuite", tmp_path / f"{series}.npz"
        series += 1
        for _ in range(rng.randint(1, 4)):
            how = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            cut += interrupt(start(TRAIN, algorithm, str(model), str(state)),
                             takes * rng.random(), how)  # fmt: skip
        done = run(TRAIN, algorithm, str(model), str(state))
        assert done.returncode == 0, done.stderr
        assert model.read_bytes() == whole.read_bytes()
        model.unlink()
        state.unlink(missing_ok=True)
    # A SIGKILL in the middle of a write leaves the hidden file that was being written.
    seen = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert seen <= {"whole.crfsuite", "none.npz"}


def test_tagging_killed_and_resumed(tmp_path: Path, runs: int) -> None:
    model, source = tmp_path / "model.crfsuite", tmp_path / "a.conll"
    done = run(TRAIN, "ap", str(model), str(tmp_path / "none.npz"))
    assert done.returncode == 0, done.stderr
    rng, cut, series = random.Random(0), 0, 0
    source.write_text("".join(
        "".join(f"w{rng.randrange(300)}\n" for _ in range(10)) + "\n" for _ in range(2000)
    ))  # fmt: skip

    def shards(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.glob("a*")}

    whole = tmp_path / "whole"
    assert run(TAG, str(model), str(source), str(whole)).returncode == 0
    assert len(shards(whole)) > 3
    while cut < max(1, runs // 5):
        out = tmp_path / f"out{series}"
        series += 1
        for _ in range(rng.randint(1, 4)):
            how = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            cut += interrupt(start(TAG, str(model), str(source), str(out)), 0.2 * rng.random(), how)
        done = run(TAG, str(model), str(source), str(out))
        assert done.returncode == 0, done.stderr
        assert shards(out) == shards(whole)
        assert sorted(path.name for path in out.iterdir()) == sorted(
            path.name for path in whole.iterdir()
        )
        shutil.rmtree(out)
