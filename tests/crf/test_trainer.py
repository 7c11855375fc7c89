"""The trainer against python-crfsuite's."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import noting

from valuesparse.crf import Trainer, crfsuite, train_corpus
from valuesparse.crf.training._log import TrainLogParser
from valuesparse.crf.training._parameters import ALGORITHMS
from valuesparse.io import read_crfsuite

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is the oracle")

ORIGINAL = [name for name in ALGORITHMS if name != "aggressive"]


def sequences(seed: int, count: int = 60, labels: str = "ABC") -> list[tuple[list, list, int]]:
    rng = np.random.default_rng(seed)
    found = []
    for s in range(count):
        y = rng.choice(list(labels), size=rng.integers(0, 7)).tolist()
        x: list[Any] = []
        for label in y:
            if rng.random() < 0.7:
                x.append(["b", f"x{rng.integers(6)}", f"y{label}" if rng.random() < 0.6 else "z"])
            else:
                x.append({"b": 2.0, "q": label, "r": {"s": True, "t": ["u", "v"]}, "w": 0.25})
        found.append((x, y, s % 3))
    return found


def trained(
    kind: Any, path: Path, data: list, algorithm: str, holdout: int = -1, **values: Any
) -> Any:
    trainer = kind(algorithm, values, verbose=False)
    for x, y, group in data:
        trainer.append(x, y, group)
    trainer.train(str(path), holdout)
    return trainer


def shape(log: list[str]) -> list[str]:
    """Return log lines with their numbers blanked."""
    return [re.sub(r"\d+(\.\d+)?", "#", line) for line in log]


def weights(path: Path) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    model = read_crfsuite(path)
    return (
        list(model.labels),
        list(model.attributes),
        model.transition,
        model.state_weights.toarray(),
    )


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"c1": 0.5, "c2": 0.1},
        {"c1": 2.0, "c2": 0.0},
        {"c2": 0.01, "num_memories": 3},
        {"c2": 0.01, "linesearch": "Backtracking"},
        {"c2": 0.01, "linesearch": "StrongBacktracking"},
        {"feature.possible_states": 1, "feature.possible_transitions": 1},
        {"feature.minfreq": 3, "max_iterations": 7},
        {"period": 3, "delta": 1e-3},
        {"epsilon": 1e-2, "delta": 0, "c2": 0.5},
    ],
    ids=str,
)
def test_lbfgs_takes_the_steps_of_crfsuite(values: dict[str, Any], tmp_path: Path) -> None:
    data = sequences(1)
    theirs = trained(pycrfsuite.Trainer, tmp_path / "theirs", data, "lbfgs", 2, **values)
    ours = trained(Trainer, tmp_path / "ours", data, "lbfgs", 2, **values)
    assert shape(ours.logparser.log) == shape(theirs.logparser.log)
    assert ours.logparser.events == theirs.logparser.events
    assert len(ours.logparser.iterations) == len(theirs.logparser.iterations) > 2
    for mine, other in zip(ours.logparser.iterations, theirs.logparser.iterations, strict=True):
        assert mine.keys() == other.keys()
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-6)
        assert mine["feature_norm"] == pytest.approx(other["feature_norm"], rel=1e-4)
        assert mine["linesearch_trials"] == other["linesearch_trials"]
        assert mine["active_features"] == other["active_features"]
        if mine["num"] > 1:  # after one step labels tie, and rounding chooses
            assert mine["item_accuracy"] == other["item_accuracy"]
            assert {k: v[:3] for k, v in mine["scores"].items()} == {
                k: v[:3] for k, v in other["scores"].items()
            }
    mine, other = weights(tmp_path / "ours"), weights(tmp_path / "theirs")
    assert mine[:2] == other[:2]
    np.testing.assert_allclose(mine[2], other[2], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(mine[3], other[3], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("seed", "c2"), [(1169, 0.0), (1326, 1.0), (1321, 0.001)])
def test_lbfgs_goes_on_where_crfsuite_gives_up(seed: int, c2: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    data = []
    for _ in range(int(rng.integers(1, 5))):
        n = int(rng.integers(1, 8))
        x = [
            {f"x{i}": float(rng.normal() * rng.choice([1, 5, 30])) for i in rng.choice(6, 3)}
            for _ in range(n)
        ]
        data.append((x, rng.choice(list("ABC"), size=n).tolist(), 0))
    theirs = trained(pycrfsuite.Trainer, tmp_path / "theirs", data, "lbfgs", c2=c2)
    ours = trained(Trainer, tmp_path / "ours", data, "lbfgs", c2=c2)
    assert ours.reason in ("converged", "delta")
    if not any("terminated with error code" in line for line in theirs.logparser.log):
        pytest.skip("CRFsuite's line search does not give up on this machine")
    assert len(ours.logparser.iterations) > len(theirs.logparser.iterations)
    assert ours.logparser.last_iteration["loss"] < theirs.logparser.last_iteration["loss"]
    both = zip(ours.logparser.iterations, theirs.logparser.iterations, strict=False)
    for mine, other in itertools.islice(both, 3):
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-6)


@pytest.mark.smoke
@pytest.mark.parametrize("algorithm", ORIGINAL)
def test_python_crfsuite_opens_and_scores_equally(algorithm: str, tmp_path: Path) -> None:
    data = sequences(2)
    path = tmp_path / "model"
    ours = trained(Trainer, path, data, algorithm, max_iterations=10)
    theirs = trained(pycrfsuite.Trainer, tmp_path / "theirs", data, algorithm, max_iterations=10)
    assert list(ours.logparser.last_iteration) == list(theirs.logparser.last_iteration)
    their_tagger, our_tagger = pycrfsuite.Tagger(), crfsuite.Tagger()
    their_tagger.open(str(path))
    our_tagger.open(str(path))
    for x, y, _ in data:
        if not y:
            continue
        assert their_tagger.tag(x) == our_tagger.tag(x)
        assert their_tagger.probability(y) == pytest.approx(our_tagger.probability(y), abs=1e-10)


@pytest.mark.parametrize("algorithm", ORIGINAL)
def test_online_algorithms_end_where_crfsuite_does(algorithm: str, tmp_path: Path) -> None:
    """Orders differ (theirs is C's rand), so what they learn is compared, not each step."""
    data = sequences(3, 300)
    test = sequences(4, 200)
    right = []
    for kind in (pycrfsuite.Trainer, Trainer):
        path = tmp_path / kind.__module__
        trained(kind, path, data, algorithm, max_iterations=30)
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        tags = [(a, b) for x, y, _ in test for a, b in zip(tagger.tag(x), y, strict=True)]
        right.append(sum(a == b for a, b in tags) / len(tags))
    assert right[1] == pytest.approx(right[0], abs=0.03)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize(
    ("algorithm", "values"),
    [
        ("ap", {}),
        ("ap", {"max_iterations": 1}),
        ("ap", {"epsilon": 0.2}),
        ("pa", {}),
        ("pa", {"max_iterations": 1}),
        ("pa", {"type": 0, "max_iterations": 300}),
        ("pa", {"type": 2, "averaging": 0}),
        ("pa", {"error_sensitive": 0, "epsilon": 0.5}),
        ("arow", {}),
        ("arow", {"epsilon": 0.3}),
        # One trial: both keep the first rate. Further ones they judge differently.
        ("l2sgd", {"calibration.max_trials": 1, "max_iterations": 60}),
        ("l2sgd", {"calibration.max_trials": 1, "period": 2, "delta": 1e-3}),
    ],
    ids=str,
)
def test_online_algorithms_take_the_steps_of_crfsuite_where_there_is_one_order(
    algorithm: str, values: dict[str, Any], copies: int, tmp_path: Path
) -> None:
    """One sequence, or copies of one: whatever is shuffled, the same comes next."""
    for seed in range(1, 8):  # at 0 two labellings score the same, and rounding chooses
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 12))
        x = [{f"x{i}": float(rng.normal()) for i in rng.choice(6, 3)} for _ in range(n)]
        y = rng.choice(list("ABC"), size=n).tolist()
        data = [(x, y, 0)] * copies
        runs = []
        for kind in (pycrfsuite.Trainer, Trainer):
            path = tmp_path / kind.__module__
            run = trained(kind, path, data, algorithm, **values).logparser.iterations
            runs.append((run, weights(path)))
        (theirs, other), (ours, mine) = runs
        assert len(ours) == len(theirs)
        for one, two in zip(ours, theirs, strict=True):
            assert one["loss"] == pytest.approx(two["loss"], rel=1e-9, abs=2e-6)
            assert one.get("feature_norm") == pytest.approx(two.get("feature_norm"), abs=2e-6)
        assert mine[:2] == other[:2]
        np.testing.assert_allclose(mine[2], other[2], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mine[3], other[3], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("algorithm", ["lbfgs", "ap", "l2sgd"])
def test_subclasses_of_the_log_parser_are_called_as_those_of_the_original(
    algorithm: str, tmp_path: Path
) -> None:
    told: list[Any] = []
    log = trained(pycrfsuite.Trainer, tmp_path / "m", sequences(0), algorithm, 1).logparser.log
    for kind in (pycrfsuite._logparser.TrainLogParser, TrainLogParser):
        calls: list[Any] = []
        watched = noting(kind, "handle_", calls)
        parser = watched()
        events = [parser.feed(line) for line in log]
        told.append((calls, events, parser.events, parser.iterations, parser.state))
    assert told[0] == told[1]
    assert {name for name, *_ in calls} == {name for name in dir(watched) if "handle_" in name}


@pytest.mark.parametrize("kind", ["Trainer", "BaseTrainer"])
def test_subclasses_need_not_call_init(kind: str, tmp_path: Path) -> None:
    """As those of the original extension types."""
    data = sequences(5)
    runs = []
    for package in (pycrfsuite, crfsuite):

        class Silent(getattr(package, kind)):
            def __init__(self, name: str, *, more: int = 0) -> None:
                self.name, self.messages = name, []

            def message(self, message: str) -> None:
                self.messages.append(message)

        trainer = Silent("mine", more=1)
        assert trainer.get_params() == package.Trainer("lbfgs").get_params()
        assert not trainer.verbose
        assert trainer.messages == []
        trainer.set("c2", 0.5)
        for x, y, _ in data:
            trainer.append(x, y)
        path = tmp_path / package.__name__
        trainer.train(str(path))
        assert "type: CRF1d\n" in trainer.messages
        runs.append((shape(trainer.messages), weights(path)))
    assert runs[0][0] == runs[1][0]
    np.testing.assert_allclose(runs[1][1][3], runs[0][1][3], rtol=1e-3, atol=1e-4)

    class Tagger(crfsuite.Tagger):
        def __init__(self, name: str) -> None:
            self.name = name

    tagger = Tagger("mine")
    with tagger.open(path):
        assert tagger.tag(data[1][0]) == crfsuite.Tagger.from_model(tagger.model).tag(data[1][0])

    for package in (pycrfsuite, crfsuite):

        class Items(package.ItemSequence):
            def __init__(self, name: str) -> None:
                self.name = name

        items = Items("mine")
        assert (len(items), items.items(), items.name) == (0, [], "mine")


def test_a_base_trainer_prints_every_line_as_the_original(capsys: Any) -> None:
    for kind in (crfsuite.BaseTrainer, crfsuite.Trainer):
        assert issubclass(kind, crfsuite.BaseTrainer)
    outputs = []
    for kind in (pycrfsuite.BaseTrainer, crfsuite.BaseTrainer):
        trainer = kind("ap", {"max_iterations": 2})
        trainer.append([["a"], ["b"]], ["A", "B"])
        trainer.train("")
        outputs.append(shape(capsys.readouterr().out.splitlines()))
        assert not hasattr(trainer, "logparser")
        trainer.verbose = False
        trainer.train("")
        assert capsys.readouterr().out == ""
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("algorithm", [*ALGORITHMS])
def test_nothing_to_learn_from_is_a_model_without_weights(algorithm: str, tmp_path: Path) -> None:
    for data in ([], [([], [], 0)], [([[]], ["X"], 0)]):
        trained(Trainer, tmp_path / "model", data, algorithm)
        assert (tmp_path / "model").exists()


def test_cleared_data_are_missed_as_by_pycrfsuite(tmp_path: Path) -> None:
    for kind in (pycrfsuite.Trainer, Trainer):
        trainer = kind(verbose=False)
        trainer.append([["a"]], ["X"])
        trainer.clear()
        with pytest.raises(ValueError, match="The data is empty"):
            trainer.train(str(tmp_path / "model"))
        assert not list(tmp_path.iterdir())
        trainer.append([["b"]], ["Y"])
        trainer.train(str(tmp_path / "model"))
        tagger = crfsuite.Tagger()
        tagger.open(tmp_path / "model")
        assert tagger.labels() == ["Y"]
        (tmp_path / "model").unlink()


def test_messages_go_where_the_surface_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Listener(Trainer):
        def __init__(self) -> None:
            super().__init__(params={"max_iterations": 2})
            self.told: list[str] = []

        def on_iteration(self, log: str, info: Any) -> None:
            self.told.append(f"{info['num']}: {info['loss']}")

    trainer = Listener()
    for x, y, group in sequences(5):
        trainer.append(x, y, group)
    trainer.train(str(tmp_path / "model"))
    assert [text[0] for text in trainer.told] == ["1", "2"]
    printed = capsys.readouterr().out
    assert printed.startswith("Feature generation\n")
    assert "Number of features" in printed
    assert "Iteration #1" not in printed
    trainer.verbose = False
    trainer.train("")
    assert capsys.readouterr().out == ""


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("algorithm", "c1"), [*((name, 0.0) for name in ALGORITHMS), ("lbfgs", 0.2)]
)
def test_a_resumed_run_ends_in_the_same_bits(algorithm: str, c1: float, tmp_path: Path) -> None:
    def run(model: str, threads: int, **options: Any) -> bytes:
        trainer = Trainer(algorithm, {"max_iterations": 9}, verbose=False, threads=threads)
        if algorithm == "lbfgs":
            trainer.set("c1", c1)
        for x, y, group in sequences(6, 100):
            trainer.append(x, y, group)
        trainer.train(tmp_path / model, **options)
        return (tmp_path / model).read_bytes()

    whole = run("whole", 1)
    saved = tmp_path / "state.npz"
    cut = run("cut", 2, checkpoint=saved, checkpoint_every=2, callback=lambda p: p.number == 5)
    assert cut != whole
    assert saved.exists()
    assert run("resumed", 3, checkpoint=saved, checkpoint_every=2) == whole


def test_checkpoints_of_other_runs_are_refused(tmp_path: Path) -> None:
    saved = tmp_path / "state.npz"

    def run(**values: Any) -> None:
        trainer = Trainer("lbfgs", values, verbose=False)
        for x, y, group in sequences(7):
            trainer.append(x, y, group)
        trainer.train("", checkpoint=saved, checkpoint_every=1)

    run(max_iterations=3)
    run(max_iterations=5)
    with pytest.raises(ValueError, match="checkpoint of other data, features or parameters"):
        run(c2=0.5)
    saved.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        run()
    with pytest.raises(ValueError, match="checkpoint_every must be 1 or more"):
        Trainer(verbose=False).train("", checkpoint=saved, checkpoint_every=0)


def test_the_callback_sees_and_stops() -> None:
    trainer = Trainer(params={"c2": 0.01}, verbose=False)
    for x, y, group in sequences(8):
        trainer.append(x, y, group)
    seen = []
    trainer.train("", callback=lambda p: seen.append((p.number, p.loss)) or p.number == 4)
    assert [number for number, _ in seen] == [1, 2, 3, 4]
    assert all(b[1] < a[1] for a, b in itertools.pairwise(seen))
    assert trainer.reason == "callback"


@pytest.mark.parametrize(
    ("answer", "stops"),
    [
        (True, True), (np.True_, True), (np.float64(0.5) < 1, True),
        (False, False), (np.False_, False), (None, False), (1, False), ("a line", False),
    ],
)  # fmt: skip
def test_true_of_numpy_stops_as_well_and_nothing_else(
    answer: object, stops: bool, tmp_path: Path
) -> None:
    trainer = Trainer(params={"max_iterations": 2}, verbose=False)
    for x, y, group in sequences(8):
        trainer.append(x, y, group)
    seen: list[int] = []

    def callback(progress: Any) -> object:
        seen.append(progress.number)
        return answer

    trainer.train_inmemory(callback=callback)
    assert (seen, trainer.reason) == (([1], "callback") if stops else ([1, 2], "max_iterations"))
    source, counts = tmp_path / "a.conll", len(seen)
    source.write_text("a N\nb V\n\n")
    seen.clear()
    params = {"max_iterations": 2, "delta": 0, "epsilon": 0}
    train_corpus([source], tmp_path / "m", params=params, callback=callback)
    assert len(seen) == counts


def test_threads_never_show_in_the_file(tmp_path: Path) -> None:
    files = []
    for threads in (1, 2, 3, 8):
        trainer = Trainer(params={"max_iterations": 15}, verbose=False, threads=threads)
        for x, y, group in sequences(9, 400):
            trainer.append(x, y, group)
        trainer.train(tmp_path / str(threads))
        files.append((tmp_path / str(threads)).read_bytes())
    assert len(set(files)) == 1


def test_weights_of_l1_satisfy_the_conditions_of_an_optimum() -> None:
    from valuesparse.crf.training._features import generate
    from valuesparse.crf.training._objective import Objective

    c1, c2 = 1.0, 0.05
    found: list[np.ndarray] = []
    trainer = Trainer("lbfgs", {"c1": c1, "c2": c2, "delta": 0, "epsilon": 1e-7}, verbose=False)
    for x, y, group in sequences(10):
        trainer.append(x, y, group)
    trainer.train("", callback=lambda p: found.append(p.weights.copy()))
    w = found[-1]
    corpus = trainer._data.corpus()
    features = generate(corpus, len(trainer._data.attributes), len(trainer._data.labels.names))
    gradient = np.empty_like(w)
    Objective(corpus, features, 1)(w, gradient)
    gradient += 2 * c2 * w
    zero = w == 0
    assert 0 < zero.sum() < len(w)
    assert (np.abs(gradient[zero]) <= c1 + 1e-6).all()
    np.testing.assert_allclose(gradient[~zero], -c1 * np.sign(w[~zero]), atol=1e-4)


def test_unsupported_features_are_added_where_predictions_call_for_them() -> None:
    data = sequences(11, 15, "ABCDEFGH")
    counts = {}
    for unsupported in (0, 1):
        trainer = Trainer("aggressive", verbose=False)
        trainer.set_params({"beta": "inf", "gamma": 1, "feature.unsupported": unsupported})
        for x, y, group in data:
            trainer.append(x, y, group)
        last = []
        trainer.train("", callback=last.append)
        counts[unsupported] = (last[-1].info["active_set"], len(last[-1].weights))
    supported, complete = counts[0][1], counts[1][1]
    assert supported < counts[1][0] < complete
    trainer.set("beta", 1)
    with pytest.raises(ValueError, match=r"feature\.unsupported needs beta = inf"):
        trainer.train("")
