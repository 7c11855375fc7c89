"""The estimator: against sklearn-crfsuite, and by scikit-learn's own checks."""

from __future__ import annotations

import gc
import inspect
import pickle
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimator needs the extra sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.utils import estimator_checks

from valuesparse.crf import CRF, Trainer, crfsuite, metrics
from valuesparse.io import ModelFormatError

Data = tuple[list[Any], list[list[str]]]


def sentences(seed: int, count: int = 40, empty: bool = True) -> Data:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = rng.choice(list("ABC"), size=rng.integers(0 if empty else 1, 7)).tolist()
        xseq: list[Any] = []
        for label in labels:
            if rng.random() < 0.7:
                xseq.append(
                    ["b", f"x{rng.integers(6)}", f"y{label}" if rng.random() < 0.6 else "z"]
                )
            else:
                xseq.append({"b": 2.0, "q": label, "r": {"s": True, "t": ["u", "v"]}, "w": 0.25})
        X.append(xseq)
        y.append(labels)
    return X, y


@pytest.fixture
def data() -> Data:
    return sentences(0)


@pytest.fixture
def fitted(data: Data) -> CRF:
    return CRF(c2=0.1, max_iterations=20, all_possible_transitions=True).fit(*data)


@pytest.fixture
def theirs(tmp_path: Path, fitted: CRF) -> Any:
    """Return sklearn-crfsuite's estimator with the model of ours."""
    sklearn_crfsuite = pytest.importorskip("sklearn_crfsuite", reason="needs sklearn-crfsuite")
    path = tmp_path / "model.crfsuite"
    fitted.save(path)
    return sklearn_crfsuite.CRF(model_filename=str(path))


@pytest.fixture
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail when anything is written to the folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o500)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made = []
    monkeypatch.setattr(tempfile, "mkstemp", lambda *a, **k: made.append(a))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *a, **k: made.append(a))
    yield
    assert not made
    assert not list(folder.iterdir())


def test_the_surface_is_theirs() -> None:
    original = pytest.importorskip("sklearn_crfsuite", reason="needs sklearn-crfsuite").CRF
    ours, whole = (list(inspect.signature(c.__init__).parameters.values()) for c in (CRF, original))
    assert [(p.name, p.default) for p in ours[: len(whole)]] == [(p.name, p.default) for p in whole]
    assert {p.kind for p in ours[len(whole) :]} == {inspect.Parameter.KEYWORD_ONLY}
    for name, member in vars(original).items():
        if name.startswith("_"):
            continue
        assert hasattr(CRF, name), name
        if callable(member):
            wanted = list(inspect.signature(member).parameters)
            assert list(inspect.signature(getattr(CRF, name)).parameters)[: len(wanted)] == wanted
    assert set(vars(original())) - {"_tagger", "_info_cached"} <= set(dir(CRF()))


def test_answers_are_theirs(data: Data, fitted: CRF, theirs: Any) -> None:
    X, y = data
    for ours, expected in (
        (fitted.predict(X), theirs.predict(X)),
        (fitted.predict(X[:0]), theirs.predict(X[:0])),
        (fitted.predict([X[5], X[5]]), theirs.predict([X[5], X[5]])),
    ):
        assert ours.shape == expected.shape
        assert ours.dtype == expected.dtype
        assert ours.tolist() == expected.tolist()
    assert fitted.predict_single(X[3]) == theirs.predict_single(X[3])
    assert fitted.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-15)
    for name in ("classes_", "size_", "num_attributes_", "attributes_", "state_features_",
                 "transition_features_"):  # fmt: skip
        assert getattr(fitted, name) == getattr(theirs, name), name


def test_marginals_are_theirs(data: Data, fitted: CRF, theirs: Any) -> None:
    X, _ = data
    ours, expected = fitted.predict_marginals(X), theirs.predict_marginals(X)
    arrays = fitted.predict_proba(X)
    assert ours.shape == expected.shape
    assert ours.dtype == object
    for xseq, one, other, array in zip(X, ours, expected, arrays, strict=True):
        assert isinstance(one, list)
        assert [list(d) for d in one] == [list(d) for d in other]
        for a, b in zip(one, other, strict=True):
            assert all(type(p) is float for p in a.values())
            np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=0, atol=1e-10)
        assert array.shape == (len(xseq), 3)
        assert [list(d.values()) for d in one] == array.tolist()
        assert fitted.predict_marginals_single(xseq) == one
    same = fitted.predict_marginals([X[5], X[5]])
    assert same.shape == theirs.predict_marginals([X[5], X[5]]).shape


@pytest.mark.smoke
@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_training_is_the_trainers(data: Data, algorithm: str) -> None:
    crf = CRF(algorithm, min_freq=1, max_iterations=4, all_possible_states=True, random_state=3)
    crf.fit(*data)
    trainer = Trainer(algorithm, verbose=False, seed=3)
    trainer.set_params({"feature.minfreq": 1, "max_iterations": 4, "feature.possible_states": True})
    for xseq, yseq in zip(*data, strict=True):
        trainer.append(xseq, yseq)
    assert crf._model == trainer.train_inmemory()
    assert len(crf.training_log_.iterations) == 4


def test_random_states_are_those_of_sklearn(data: Data) -> None:
    def model(random_state: Any) -> Any:
        return CRF("ap", max_iterations=2, random_state=random_state).fit(*data)._model

    assert model(np.random.RandomState(5)) == model(np.random.RandomState(5))
    assert model(None)
    for seed in (-1, "five", True):
        with pytest.raises(ValueError, match="random_state must be an integer >= 0, got"):
            model(seed)


def test_training_is_theirs(data: Data) -> None:
    original = pytest.importorskip("sklearn_crfsuite", reason="needs sklearn-crfsuite").CRF
    params = {"c1": 0.05, "c2": 0.02, "max_iterations": 15, "all_possible_transitions": True}
    ours, expected = CRF(**params).fit(*data), original(**params).fit(*data)
    assert ours.classes_ == expected.classes_
    assert ours.transition_features_.keys() == expected.transition_features_.keys()
    for key, weight in expected.transition_features_.items():
        assert ours.transition_features_[key] == pytest.approx(weight, abs=1e-4)
    assert ours.predict(data[0]).tolist() == expected.predict(data[0]).tolist()


def test_aggressive(data: Data) -> None:
    crf = CRF("aggressive", beta=np.inf, gamma=1, unsupported=True, max_iterations=3).fit(*data)
    assert crf.score(*data) > 0.6


def test_development_data(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    crf = CRF(max_iterations=3, verbose=True).fit(*data, *sentences(1))
    assert len(crf.training_log_.iterations) == 3
    assert {"avg_f1", "scores"} <= crf.training_log_.last_iteration.keys()
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if re.match(r"Iter \d+ .*loss=.*F1=", line)]) == 3
    with pytest.raises(ValueError, match="both X_dev and y_dev"):
        crf.fit(*data, X_dev=data[0])


def test_threads_do_not_show(data: Data) -> None:
    models = [CRF(max_iterations=5, threads=threads).fit(*data) for threads in (1, 2, 3)]
    assert len({crf._model for crf in models}) == 1
    for crf in models[1:]:
        for one, other in zip(
            crf.predict_proba(data[0]), models[0].predict_proba(data[0]), strict=True
        ):
            assert one.tobytes() == other.tobytes()


def test_constraints_and_islands(data: Data, fitted: CRF) -> None:
    X, _ = data
    allowed = [[("A", "B")] * len(xseq) for xseq in X]
    assert "C" not in {tag for tags in fitted.predict(X, allowed=allowed) for tag in tags}
    assert all((p[:, fitted.classes_.index("C")] == 0).all()
               for p in fitted.predict_proba(X, allowed=allowed))  # fmt: skip
    assert "C" not in fitted.predict_single(X[3], allowed=allowed[3])
    for one, other in zip(fitted.predict_proba(X, zeta=0.9), fitted.predict_proba(X), strict=True):
        np.testing.assert_allclose(one, other, atol=0.2)


@pytest.mark.usefixtures("no_files")
def test_no_temporary_files(data: Data) -> None:
    crf = CRF(max_iterations=4).fit(*data)
    again = pickle.loads(pickle.dumps(crf))
    assert again.predict(data[0]).tolist() == crf.predict(data[0]).tolist()
    assert again.training_log_.iterations == crf.training_log_.iterations
    assert again.size_ == crf.size_


def test_a_model_file(data: Data, tmp_path: Path) -> None:
    path = tmp_path / "model.crfsuite"
    crf = CRF(model_filename=path)
    assert crf.tagger_ is None
    crf.fit(*data)
    assert crf.modelfile.name == str(path)
    opened = CRF(model_filename=str(path))
    assert opened.predict(data[0]).tolist() == crf.predict(data[0]).tolist()
    path.unlink()
    assert pickle.loads(pickle.dumps(opened)).classes_ == crf.classes_
    with pytest.raises(NotFittedError, match=r"model\.crfsuite' does not exist"):
        CRF(model_filename=path).predict(data[0])


def test_a_damaged_model_file_is_named_and_may_be_replaced(
    data: Data, fitted: CRF, tmp_path: Path
) -> None:
    path = tmp_path / "model.crfsuite"
    fitted.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:500])
    crf = CRF(model_filename=path)
    for _ in range(2):
        with pytest.raises(ModelFormatError, match=r"model\.crfsuite: header at byte 4: "):
            crf.predict(data[0])
    path.write_bytes(whole)
    assert crf.predict(data[0]).tolist() == fitted.predict(data[0]).tolist()


def test_a_folder_that_is_not_there_is_said_before_the_work(data: Data, tmp_path: Path) -> None:
    seen: list[int] = []
    crf = CRF(model_filename=tmp_path / "missing" / "model.crfsuite")
    with pytest.raises(FileNotFoundError, match="there is no such folder: "):
        crf.fit(*data, callback=lambda progress: seen.append(progress.number))
    assert not seen


def test_a_path_for_those_who_ask(fitted: CRF) -> None:
    assert CRF().modelfile.name is None
    name = fitted.modelfile.name
    assert name == fitted.modelfile.name
    tagger = crfsuite.Tagger()
    tagger.open(name)
    assert tagger.labels() == fitted.classes_
    fitted._file = None
    assert not Path(name).exists()


def test_the_path_of_an_estimator_that_is_gone(data: Data) -> None:
    file = CRF(max_iterations=2).fit(*data).modelfile
    gc.collect()
    assert Path(file.name).read_bytes()[:4] == b"lCRF"


@pytest.mark.parametrize("nothing", [[], [[]], [[], []]])
def test_nothing_to_learn_from_is_said(nothing: list) -> None:
    with pytest.raises(ValueError, match="X has no item to learn from"):
        CRF().fit(nothing, nothing)


@pytest.mark.smoke
def test_scorers(data: Data, fitted: CRF) -> None:
    from valuesparse.crf import metrics, scorers

    predicted = fitted.predict(data[0])
    assert scorers.flat_accuracy(fitted, *data) == metrics.flat_accuracy_score(data[1], predicted)
    assert scorers.sequence_accuracy(fitted, *data) == metrics.sequence_accuracy_score(
        data[1], predicted
    )
    for scorer in (scorers.flat_accuracy, scorers.sequence_accuracy):
        assert "(estimator, X, y)" in (inspect.getdoc(scorer) or "")
    theirs = pytest.importorskip("sklearn_crfsuite.scorers", reason="needs sklearn-crfsuite")
    assert {n for n in scorers.__all__} <= set(dir(theirs))


def test_other_trainers(data: Data) -> None:
    class Mine(Trainer):
        def message(self, message: str) -> None:
            seen.append(message)
            super().message(message)

    seen: list[str] = []
    crf = CRF(max_iterations=2, trainer_cls=Mine).fit(*data)
    assert any("Iteration #2" in line for line in seen)
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    other = CRF(max_iterations=2, trainer_cls=pycrfsuite.Trainer).fit(*data)
    assert other.classes_ == crf.classes_


def test_before_fit(data: Data) -> None:
    crf = CRF()
    for name in ("tagger_", "classes_", "size_", "num_attributes_", "attributes_",
                 "state_features_", "transition_features_", "training_log_"):  # fmt: skip
        assert getattr(crf, name) is None
    for call in (crf.predict, crf.predict_single, crf.predict_marginals, crf.predict_proba,
                 crf.predict_marginals_single):  # fmt: skip
        with pytest.raises(NotFittedError, match="call fit"):
            call(data[0])
    with pytest.raises(NotFittedError):
        crf.score(*data)


def test_bad_input(data: Data, fitted: CRF) -> None:
    X, y = data
    before = fitted._model
    for wrong, message in (
        ((X[:-1], y), "X has 39 sequences, y has more"),
        ((X, y[:-1]), "y has 39 sequences, X has more"),
        (([[["a"]], [["a"]]], [["A"], ["A", "B"]]), r"X\[1\], y\[1\]: .*\|x\| = 1, \|y\| = 2"),
        (([[["a"]]], None), "requires y to be passed"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.fit(*wrong)
    with pytest.raises(TypeError, match=r"X\[0\], y\[0\]: .*must be str, not int"):
        fitted.fit([[[3]]], [["A"]])
    with pytest.raises(ValueError, match="Parameter not found: c1"):
        CRF("ap", c1=1.0).fit(X, y)
    with pytest.raises(TypeError, match=r"xseqs\[1\]\[0\]"):
        fitted.predict([X[3], [3.0]])
    assert fitted._model == before
    assert fitted.predict(X).shape == (40,)


@pytest.mark.smoke
def test_grid_search() -> None:
    search = GridSearchCV(CRF(max_iterations=5), {"c2": [0.01, 100.0]}, cv=3, n_jobs=1)
    search.fit(*sentences(2, 60, empty=False))
    assert search.best_params_ == {"c2": 0.01}
    assert search.best_score_ > 0.7
    X, y = sentences(3, 30, empty=False)
    predicted = cross_val_predict(clone(search.best_estimator_), X, y, cv=3)
    assert metrics.flat_accuracy_score(y, predicted) > 0.5
    assert clone(search.best_estimator_)._model is None


def _checks() -> list[Any]:
    """Return the checks of scikit-learn for an estimator of what is no table of numbers."""
    with warnings.catch_warnings():  # scikit-learn says that it has fewer of them
        warnings.simplefilter("ignore")
        # scikit-learn < 1.6 has none for estimators of sequences: then the test is skipped.
        generate = getattr(estimator_checks, "estimator_checks_generator", lambda *_, **__: ())
        return list(generate(CRF(max_iterations=3), legacy=False))


@pytest.mark.parametrize(
    ("estimator", "check"), _checks(), ids=lambda v: getattr(getattr(v, "func", v), "__name__", "")
)
def test_checks_of_scikit_learn(estimator: CRF, check: Any) -> None:
    check(estimator)


class Rows(CRF):
    """A CRF of tables: each row is a sequence of one item, so that all checks have input."""

    @staticmethod
    def _sequences(X: Any) -> list[list[dict[str, float]]]:
        return [[{str(j): float(v) for j, v in enumerate(row)}] for row in np.asarray(X)]

    def fit(self, X: Any, y: Any) -> Rows:
        if y is None:
            return super().fit([], y)
        return super().fit(self._sequences(X), [[str(label)] for label in y])

    def predict(self, X: Any) -> Any:
        return super().predict(self._sequences(X))[:, 0].astype(float)

    def predict_marginals(self, X: Any) -> Any:
        return np.concatenate(super().predict_proba(self._sequences(X)))

    predict_proba = predict_marginals

    def score(self, X: Any, y: Any) -> float:
        return super().score(self._sequences(X), [[str(label)] for label in y])


# Checks of what every estimator promises, whatever its input is made of.
CONVENTIONS = [
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_dict_unchanged",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_fit2d_1sample",
    "check_get_params_invariance",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
]


@pytest.mark.parametrize("name", CONVENTIONS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_conventions_of_scikit_learn(name: str) -> None:
    check = getattr(estimator_checks, name)
    if name == "check_parameters_default_constructible":
        check("CRF", CRF())
    else:
        check("Rows", Rows(max_iterations=5))


class More(CRF):
    """A subclass with a parameter of its own, and few of the base's."""

    def __init__(self, c2: float | None = None, extra: int = 3) -> None:
        super().__init__(c2=c2)
        self.extra = extra


class Keywords(CRF):
    """A subclass that hands on what it does not know."""

    def __init__(self, extra: int = 3, **more: Any) -> None:
        super().__init__(**more)
        self.extra = extra


def test_a_subclass_may_have_parameters_of_its_own(data: Data) -> None:
    crf = More(c2=0.1, extra=5)
    assert crf.get_params() == {"c2": 0.1, "extra": 5}
    expected = CRF(c2=0.1).fit(*data)
    for one in (crf, clone(crf), pickle.loads(pickle.dumps(crf)), More().set_params(c2=0.1)):
        assert one.fit(*data)._model == expected._model
        again = pickle.loads(pickle.dumps(one))
        assert again.predict(data[0]).tolist() == expected.predict(data[0]).tolist()
        assert again.get_params() == one.get_params()
    assert clone(crf).extra == 5
    best = GridSearchCV(More(), {"c2": [0.1], "extra": [1, 2]}, cv=2).fit(*data)
    assert best.best_params_["extra"] == 1
    with pytest.raises(ValueError, match="Invalid parameter 'c1'"):
        crf.set_params(c1=1.0)
    other = Keywords(c2=0.1, extra=4)
    assert (other.get_params(), other.c2) == ({"extra": 4}, 0.1)
    assert other.fit(*data)._model == expected._model


@pytest.mark.smoke
def test_metrics() -> None:
    y, predicted = [["A", "B"], ["A"]], [["A", "A"], ["A"]]
    assert metrics.flat_accuracy_score(y, predicted) == pytest.approx(2 / 3)
    assert metrics.sequence_accuracy_score(y, predicted) == 0.5
    assert metrics.sequence_accuracy_score([], []) == 0.0
    theirs = pytest.importorskip("sklearn_crfsuite", reason="needs sklearn-crfsuite").metrics
    for name in metrics.__all__:
        if not name.startswith("flat_"):
            continue
        more: dict[str, Any] = {"average": "macro", "zero_division": 0}
        if name == "flat_accuracy_score":
            more = {}
        elif name == "flat_classification_report":
            more = {"zero_division": 0}
        elif name == "flat_fbeta_score":
            more["beta"] = 2.0
        ours = getattr(metrics, name)(y, predicted, **more)
        expected = getattr(theirs, name)(y, predicted, **more)
        assert ours == expected or ours == pytest.approx(expected)
    for wrong, message in (
        ((y, predicted[:1]), "y_true has 2 sequences, y_pred has 1"),
        ((y, [["A"], ["A"]]), r"y_true\[0\] has 2 labels, y_pred\[0\] has 1"),
        (([], []), "no items"),
    ):
        with pytest.raises(ValueError, match=message):
            metrics.flat_accuracy_score(*wrong)


def test_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["sklearn"] = None  # as if it were not installed
import valuesparse.crf
try:
    valuesparse.crf.CRF
except ImportError as error:
    print(type(error).__name__, error)
"""
    out = children.run(code).stdout
    assert out.startswith("MissingExtraError scikit-learn not found.")
    assert 'pip install "valuesparse[sklearn]"' in out
