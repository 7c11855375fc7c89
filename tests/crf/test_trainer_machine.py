"""Trainers that are cut off, go on, and are given what is not theirs: always the same model."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from valuesparse.crf import Trainer
from valuesparse.learning._checkpoint import CheckpointError

#: Names with the values that make them learners of their own.
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lbfgs": ("lbfgs", {"c2": 0.1}),
    "owlqn": ("lbfgs", {"c1": 0.1}),
    "l2sgd": ("l2sgd", {"c2": 0.1}),
    "ap": ("ap", {}),
    "pa": ("pa", {}),
    "arow": ("arow", {}),
    "aggressive": ("aggressive", {}),
}
ITERATIONS = 7


class Stop(BaseException):
    """Something that nobody expects, in the middle of an iteration's end."""


@cache
def sequences(seed: int) -> list[tuple[list[list[str]], list[str]]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(8):
        y = rng.choice(list("AB"), size=rng.integers(0, 4)).tolist()
        found.append(
            ([["b", f"x{rng.integers(3)}", f"{label}{rng.integers(2)}"] for label in y], y)
        )
    # The same items with other labels: no learner is done before its time.
    found += [([["b", "x0"]], ["A"]), ([["b", "x0"]], ["B"])]
    return found


def trainer(name: str, *, seed: int = 0, threads: int = 1, iterations: int = ITERATIONS) -> Trainer:
    algorithm, values = LEARNERS[name]
    made = Trainer(
        algorithm, {**values, "max_iterations": iterations}, verbose=False, threads=threads
    )
    for x, y in sequences(seed):
        made.append(x, y)
    return made


@cache
def uninterrupted(name: str, iterations: int = ITERATIONS) -> bytes:
    return trainer(name, iterations=iterations).train_inmemory()


class Training(RuleBasedStateMachine):
    """A model, its checkpoint, and all that can happen to a run."""

    @initialize(name=st.sampled_from(sorted(LEARNERS)), every=st.integers(1, 3))
    def begin(self, name: str, every: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.model = Path(self.folder.name) / "model"
        self.state = Path(self.folder.name) / "state.npz"
        self.name, self.every = name, every
        self.reached = 0  # iteration of the checkpoint
        self.finished = False

    def run(self, **options: Any) -> Trainer:
        """Train from where the checkpoint is."""
        callback = options.pop("callback", None)
        made = trainer(self.name, **options)
        made.train(
            self.model, callback=callback, checkpoint=self.state, checkpoint_every=self.every
        )
        return made

    @rule(after=st.integers(1, ITERATIONS), threads=st.integers(1, 3),
          error=st.sampled_from([KeyboardInterrupt, TimeoutError, ValueError, Stop]))  # fmt: skip
    def interrupted(self, after: int, threads: int, error: type[BaseException]) -> None:
        """End a run from inside, as a deadline, Ctrl-C or a fault of the caller's does."""
        before = self.model.read_bytes() if self.model.exists() else None
        seen: list[int] = []

        def callback(progress: Any) -> None:
            seen.append(progress.number)
            if progress.number >= after:
                raise error

        try:
            self.run(threads=threads, callback=callback)
            assert self.model.read_bytes() == uninterrupted(self.name)
            self.finished = True
        except error:
            assert (self.model.read_bytes() if self.model.exists() else None) == before
        # Counting goes on where the checkpoint was, and each due iteration is kept.
        assert seen == list(range(self.reached + 1, self.reached + len(seen) + 1))
        self.reached = max([self.reached, *(n for n in seen if n % self.every == 0)])

    @rule(threads=st.integers(1, 3))
    def finished_run(self, threads: int) -> None:
        """Go on to the end: the same bits as without any of this."""
        self.run(threads=threads)
        assert self.model.read_bytes() == uninterrupted(self.name)
        self.finished = True
        self.reached = max(self.reached, ITERATIONS - ITERATIONS % self.every)

    @precondition(lambda self: self.reached)
    @rule(iterations=st.integers(1, ITERATIONS - 1))
    def asked_for_less(self, iterations: int) -> None:
        """With fewer iterations than are done, the model is that of the checkpoint."""
        if iterations <= self.reached:
            made = self.run(iterations=iterations)
            assert made.reason == "max_iterations"
            assert self.model.read_bytes() == uninterrupted(self.name, self.reached)

    def refused(self, made: Trainer, match: str) -> None:
        kept, model = self.state.read_bytes(), self.model.exists() and self.model.read_bytes()
        with pytest.raises(CheckpointError, match=match) as caught:
            made.train(self.model, checkpoint=self.state, checkpoint_every=self.every)
        assert str(caught.value).startswith(str(self.state))
        assert self.state.read_bytes() == kept
        assert (self.model.exists() and self.model.read_bytes()) == model

    @precondition(lambda self: self.reached)
    @rule(other=st.sampled_from(sorted(LEARNERS)))
    def another_algorithm(self, other: str) -> None:
        if other != self.name:
            self.refused(trainer(other), "is a checkpoint of other data, features or parameters")

    @precondition(lambda self: self.reached)
    @rule(change=st.sampled_from(["data", "more", "parameter", "seed"]))
    def another_run(self, change: str) -> None:
        made = trainer(self.name, seed=1 if change == "data" else 0)
        if change == "more":
            made.append([["b"]], ["A"])
        elif change == "parameter":
            made.set("feature.possible_states", True)
        elif change == "seed":
            made._seed = 5
        self.refused(made, "is a checkpoint of other data, features or parameters")

    @precondition(lambda self: self.reached)
    @rule(data=st.data())
    def damaged(self, data: Any) -> None:
        """Change, cut or lose bytes; the run says so, and goes on when the file is whole again."""
        whole = self.state.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "drop", "empty"]))
        if how == "flip":
            bad = bytearray(whole)
            bad[at] ^= data.draw(st.integers(1, 255))
        elif how == "drop":
            bad = bytearray(whole[:at] + whole[at + 1 :])
        else:
            bad = bytearray(whole[: at if how == "cut" else 0])
        self.state.write_bytes(bad)
        self.refused(trainer(self.name), "checkpoint")
        self.state.write_bytes(whole)

    @rule()
    def lost(self) -> None:
        """Begin anew where the checkpoint is gone."""
        self.state.unlink(missing_ok=True)
        self.reached = 0

    @invariant()
    def nothing_else_is_left(self) -> None:
        if hasattr(self, "folder"):
            left = {path.name for path in Path(self.folder.name).iterdir()}
            assert left <= {"model", "state.npz"}
            assert ("state.npz" in left) == bool(self.reached)
            if self.finished:
                assert "model" in left

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


Training.TestCase.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
TestTraining = Training.TestCase


@pytest.mark.parametrize("name", sorted(LEARNERS))
@pytest.mark.parametrize("cut", range(1, ITERATIONS + 1))
def test_cut_at_every_iteration(name: str, cut: int, tmp_path: Path) -> None:
    """Steps that the machine may leave out of its runs are done here for all."""
    path = tmp_path / "state.npz"

    def callback(progress: Any) -> None:
        if progress.number == cut:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(name).train_inmemory(callback=callback, checkpoint=path, checkpoint_every=1)
    done = trainer(name, threads=2).train_inmemory(checkpoint=path)
    assert done == uninterrupted(name)
