"""Parameters and arguments of the trainer, read and refused as python-crfsuite does."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from valuesparse.crf import CRF, Trainer
from valuesparse.crf.training._log import TrainLogParser
from valuesparse.crf.training._parameters import ALGORITHMS

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is the oracle")

ORIGINAL = [name for name in ALGORITHMS if name != "aggressive"]


def test_the_log_parser_passes_over_lines_that_are_not_the_trainers() -> None:
    parser = TrainLogParser()
    digits = "9" * 5000  # Python reads no number with this many digits
    for line in (
        "", "Feature generation", f"Number of features: {digits}", "Number of features: many",
        "Seconds required: 0.1", "***** Iteration #1 *****\n", f"Active features: {digits}",
        f"Item accuracy: 1 / {digits}", "Macro-average precision, recall, F1: (1.2.3, ., 1)",
        "    A: (1, 1, 1) (0.5000, abcdef, ******)", "    B: (1, 1, 1) (0.5000, 0.5000, ******)",
    ):  # fmt: skip
        parser.feed(line)
    assert parser.featgen_num_features is None
    assert parser.iterations == [{"num": 1, "scores": {"B": (1, 1, 1, 0.5, 0.5, None)}}]


@pytest.mark.parametrize("algorithm", [*ORIGINAL, "ap", "pa", "PA"])
def test_parameters_are_those_of_crfsuite(algorithm: str) -> None:
    theirs = pycrfsuite.Trainer(algorithm, verbose=False)
    ours = Trainer(algorithm, verbose=False)
    assert ours.params() == theirs.params()
    assert ours.get_params() == theirs.get_params()
    for name, value in theirs.get_params().items():
        assert type(ours.get(name)) is type(value)
        assert ours.help(name)


def test_setting_parameters_reads_texts_as_crfsuite_does() -> None:
    for trainer in (Trainer(verbose=False), pycrfsuite.Trainer(verbose=False)):
        trainer.set("c2", "0.5")
        trainer.set("feature.possible_states", True)
        trainer.set("max_iterations", 2.7)
        assert trainer.get("c2") == 0.5
        assert trainer.get("feature.possible_states") is True
        assert trainer.get("max_iterations") == 2
        trainer.select("lbfgs")
        assert trainer.get("c2") == 1.0


def test_bad_arguments_are_refused() -> None:
    trainer = Trainer(verbose=False)
    with pytest.raises(ValueError, match="Bad arguments: algorithm='foo'"):
        trainer.select("foo")
    with pytest.raises(ValueError, match="type='tree'"):
        trainer.select("lbfgs", "tree")
    with pytest.raises(ValueError, match="Parameter not found: foo = 1"):
        trainer.set("foo", 1)
    for call in (trainer.get, trainer.help):
        with pytest.raises(ValueError, match="Parameter not found: foo"):
            call("foo")
    with pytest.raises(ValueError, match="c2 must be a number, not 'abc'"):
        trainer.set("c2", "abc")
    with pytest.raises(ValueError, match=r"differ: \|x\| = 1, \|y\| = 2"):
        trainer.append([["a"]], ["X", "Y"])
    with pytest.raises(TypeError, match=r"yseq\[1\]: a label must be str, not int"):
        trainer.append([["a"], ["b"]], ["X", 5])
    with pytest.raises(TypeError, match="group must be an integer, not str"):
        trainer.append([["a"]], ["X"], "1")
    with pytest.raises(TypeError, match="holdout must be an integer, not str"):
        trainer.train("", holdout="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"xseq\[0\]"):
        trainer.append([[5]], ["X"])
    with pytest.raises(ValueError, match=r"xseq\[0\].*nan"):
        trainer.append([{"a": float("nan")}], ["X"])
    assert len(trainer._data) == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"c2": -1}, "c2 must be at least 0"),
        ({"linesearch": "Newton"}, "linesearch must be one of"),
        ({"max_linesearch": 0}, "max_linesearch must be 1 or more"),
        ({"l2sgd": 1, "calibration.eta": 0}, r"calibration\.eta must be above 0, not 0"),
        ({"l2sgd": 1, "calibration.eta": "inf"}, r"calibration\.eta must be between .*, not inf"),
        ({"aggressive": 1, "beta": "inf"}, r"gamma = 0 learns nothing.*, or take the algorithm"),
    ],
)
def test_parameters_out_of_range_are_refused(values: dict, words: str, tmp_path: Path) -> None:
    algorithm = next((name for name in values if name in ALGORITHMS), "lbfgs")
    params = {name: value for name, value in values.items() if name != algorithm}
    trainer = Trainer(algorithm, params, verbose=False)
    trainer.append([["a"]], ["X"])
    with pytest.raises(ValueError, match=words):
        trainer.train(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ({"calibration.samples": 0.5}, 0),
        ({"calibration.samples": "inf"}, 10),
        ({"calibration.rate": "inf"}, 1),
        ({"calibration.rate": 1e90}, 3),
        ({"calibration.max_trials": 5000, "calibration.candidates": 5000}, 1100),
        ({"c2": 1e-310}, 10),
        ({"c2": 1e-310, "calibration.rate": 1e90}, 3),
    ],
    ids=str,
)
def test_rates_are_tried_within_what_floats_can_say(values: dict, most: int) -> None:
    losses: list[float] = []
    trainer = Trainer("l2sgd", {"max_iterations": 5, **values}, verbose=False)
    for _ in range(3):
        trainer.append([["a"], ["b"]], ["X", "Y"])
        trainer.append([["b"]], ["Y"])
    trainer.train_inmemory(callback=lambda p: losses.append(p.loss))
    assert trainer.logparser is not None
    log = trainer.logparser.log
    assert sum(line.startswith("Trial #") for line in log) <= most
    assert losses[-1] < losses[0] < 6 * np.log(2) + 3 * np.log(2)


def test_arguments_are_refused_by_name(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    with pytest.raises(TypeError, match="algorithm must be a str, not NoneType"):
        trainer.select(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="params must be a dict, not list"):
        Trainer(params=[("c2", 1)])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="algorithm must be a str, not int"):
        CRF(algorithm=3).fit([[["a"]]], [["X"]])
    for group in (2**63, -(2**70)):
        with pytest.raises(ValueError, match=f"^group must be between .*, not {group}$"):
            trainer.append([["a"]], ["X"], group)
    assert len(trainer._data) == 0
    trainer.append([["a"]], ["X"], 2**63 - 1)
    for every in (1.5, float("nan"), "2", True):
        with pytest.raises(ValueError, match="checkpoint_every must be an integer >= 1, got "):
            trainer.train("", checkpoint=tmp_path / "state", checkpoint_every=every)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_paths_may_be_bytes_as_in_pycrfsuite(tmp_path: Path) -> None:
    for kind in (pycrfsuite.Trainer, Trainer):
        trainer = kind(verbose=False)
        trainer.append([["a"]], ["X"])
        path = tmp_path / kind.__module__
        trainer.train(os.fsencode(path))
        assert path.exists()
    state = tmp_path / "state"
    trainer.append([["b"]], ["Y"])
    trainer.train(os.fsencode(path), checkpoint=os.fsencode(state), checkpoint_every=1)
    assert state.exists()
    with pytest.raises(ValueError, match="is where the model goes"):
        trainer.train(path, checkpoint=os.fsencode(path))


def test_a_folder_that_is_not_there_is_said_before_the_work(tmp_path: Path) -> None:
    trainer = Trainer(verbose=False)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        trainer.train(tmp_path / "missing" / "model")


def test_a_callback_may_clear_the_trainer(tmp_path: Path) -> None:
    models = []
    for act in (lambda trainer: None, Trainer.clear):
        trainer = Trainer(params={"max_iterations": 5}, verbose=False)
        trainer.append([["a"], ["b"]], ["X", "Y"])
        path = tmp_path / str(len(models))
        trainer.train(path, callback=lambda _, act=act, trainer=trainer: act(trainer))
        models.append(path.read_bytes())
    assert models[0] == models[1]
    with pytest.raises(ValueError, match="The data is empty"):
        trainer.train("")
