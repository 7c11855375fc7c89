"""Models as scikit-learn's estimators, and without scikit-learn."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import children
import numpy as np
import pytest

from valuesparse.hmm import GMMHMM, CategoricalHMM, ConvergenceMonitor, GaussianHMM, PoissonHMM


def counts(n: int = 120) -> Any:
    return np.random.default_rng(0).poisson(np.repeat([1.0, 7.0], n // 2))[:, None]


def test_clone_pipeline_and_cross_validation() -> None:
    pytest.importorskip("sklearn", reason="tests what it asks of an estimator")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.random.default_rng(1).normal(size=(90, 2))
    model = GaussianHMM(2, "full", random_state=0, n_restarts=2, means_prior=np.zeros(2))
    copy = clone(model.fit(X))
    assert not hasattr(copy, "means_")
    assert copy.get_params().keys() == model.get_params().keys()
    assert copy.n_restarts == 2
    pipeline = make_pipeline(StandardScaler(), GaussianHMM(2, random_state=0))
    pipeline.fit(X, gaussianhmm__lengths=[50, 40])
    assert pipeline.predict(X).shape == (90,)
    assert np.isfinite(pipeline.score(X))
    assert pipeline.predict_proba(X).shape == (90, 2)
    scores = cross_val_score(PoissonHMM(2, random_state=0), counts(), cv=3)
    assert np.isfinite(scores).all()
    search = GridSearchCV(PoissonHMM(random_state=0), {"n_components": [1, 2, 3]}, cv=2)
    assert search.fit(counts()).best_params_["n_components"] > 1


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (CategoricalHMM(2, random_state=0), np.arange(40)[:, None] % 3),
        (PoissonHMM(2, random_state=0), counts()),
    ],
)
def test_pickles_answer_the_same(model: Any, X: Any) -> None:
    model.fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert again.score(X) == model.score(X)
    assert repr(again) == repr(model)
    assert list(again.monitor_.history) == list(model.monitor_.history)


def test_a_monitor_of_ones_own_ends_the_fit() -> None:
    class Three(ConvergenceMonitor):
        @property
        def converged(self) -> bool:
            return self.iter == 3

    model = PoissonHMM(2, random_state=0, n_iter=50)
    model.monitor_ = Three(1e-9, 50, False)
    model.fit(counts())
    assert model.monitor_.iter == 3


def test_lines_are_written_when_asked_for_alone(capsys: pytest.CaptureFixture[str]) -> None:
    PoissonHMM(2, random_state=0, n_iter=3, tol=-np.inf).fit(counts())
    assert capsys.readouterr() == ("", "")
    PoissonHMM(2, random_state=0, n_iter=3, tol=-np.inf, verbose=True).fit(counts())
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 3


def test_parameters_set_later_count() -> None:
    model = PoissonHMM(2, random_state=0).set_params(n_iter=2, tol=-np.inf)
    assert model.fit(counts()).monitor_.iter == 2


def test_what_is_overwritten_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    model = PoissonHMM(2, random_state=0, n_restarts=3)
    model.startprob_ = np.array([0.5, 0.5])
    with caplog.at_level(logging.WARNING):
        model.fit(counts())
    assert sum("overwritten" in record.getMessage() for record in caplog.records) == 1


def test_a_model_without_parameters_says_so() -> None:
    for model in (GaussianHMM(2), CategoricalHMM(2), PoissonHMM(2), GMMHMM(2)):
        with pytest.raises(ValueError, match="not fitted yet"):
            model.predict([[0]])


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import numpy as np
from valuesparse.hmm import CategoricalHMM, GaussianHMM, PoissonHMM
X = np.random.default_rng(0).poisson(3.0, (50, 1))
model = PoissonHMM(2, random_state=0).fit(X)
assert model.predict(X).shape == (50,)
assert model.get_params()["n_components"] == 2
assert model.set_params(n_iter=3).n_iter == 3
assert repr(model) == "PoissonHMM(n_components=2, random_state=0, n_iter=3)", repr(model)
try:
    model.set_params(nothing=1)
except ValueError as error:
    assert "nothing" in str(error)
CategoricalHMM(2, random_state=0).fit(X)
normal = GaussianHMM(2, random_state=0)
try:
    normal.predict(X)
except (ValueError, AttributeError) as error:
    assert "not fitted" in str(error)
try:
    normal.fit(X)
except ImportError as error:
    assert "sklearn" in str(error) and "means_" in str(error), error
else:
    raise AssertionError
normal.init_params = "stc"
normal.means_ = np.array([[1.0], [5.0]])
assert normal.fit(X).predict(X).shape == (50,)
"""


def test_models_work_without_scikit_learn() -> None:
    done = children.run(WITHOUT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("prior", [0.01, [0.1, 3.0, 0.0]])
def test_priors_that_take_more_than_there_is_leave_weights_that_sum_to_1(prior: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    model = GMMHMM(2, 3, weights_prior=prior, random_state=0, n_iter=30, tol=-np.inf).fit(rows)
    np.testing.assert_allclose(model.weights_.sum(axis=1), 1.0, rtol=1e-12)
    assert (model.weights_ >= 0.0).all()
    assert np.isfinite(model.score(rows))


@pytest.mark.parametrize("kind", ["spherical", "diag", "full", "tied"])
@pytest.mark.parametrize("params", ["stm", "stmc"])
@pytest.mark.parametrize("n_iter", [0, 1, 5])
def test_one_row_ends_in_numbers(kind: str, params: str, n_iter: int) -> None:
    row = np.array([[1.0, 2.0]])
    normal = GaussianHMM(1, kind, n_iter=n_iter, params=params).fit(row)
    mixed = GMMHMM(1, 1, covariance_type=kind, n_iter=n_iter, params=params + "w").fit(row)
    for model in (normal, mixed):
        assert np.isfinite(model.covars_).all()
        assert np.isfinite(model.means_).all()
        assert all(-1e6 < x < np.inf for x in model.monitor_.history)
    assert np.isfinite(normal.score(row))


class Failing(PoissonHMM):
    """Starts fail whose numbers are listed; `fit` counts them."""

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        super()._do_mstep(stats)
        if self.monitor_.iter == 0:
            self.starts = getattr(self, "starts", -1) + 1
        if self.starts in self.fails:
            raise ValueError(f"start {self.starts} failed")


def failing(fails: set[int]) -> Any:
    model = Failing(2, n_restarts=4, random_state=0, n_iter=5)
    model.fails = fails
    return model


@pytest.mark.parametrize("fails", [{0}, {1, 3}, {0, 1, 2}])
def test_a_start_that_fails_counts_for_nothing(fails: set[int]) -> None:
    X = counts()
    ends = [failing({0, 1, 2, 3} - {i}).fit(X).monitor_.history[-1] for i in {0, 1, 2, 3} - fails]
    found = failing(fails).fit(X)
    assert found.monitor_.history[-1] == max(ends)
    assert found.score(X) >= max(ends) - 1e-9
    assert found.starts == 3


def test_a_fit_fails_where_all_starts_do() -> None:
    model = failing({0, 1, 2, 3})
    with pytest.raises(ValueError, match="start 0 failed"):
        model.fit(counts())
    assert model.starts == 3
    assert model._restarted is None
