"""Against hmmlearn: equal numbers from equal starts, and equal random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("hmmlearn", reason="the original is not installed")

import hmmlearn.hmm

from valuesparse import hmm

KINDS = ("diag", "spherical", "full", "tied")
LENGTHS = [120, 1, 79]


def normals(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0, 1, (120, 3)), rng.normal(4, 2, (80, 3))])


def pair(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    return getattr(hmm, name)(*args, **kwargs), getattr(hmmlearn.hmm, name)(*args, **kwargs)


def assert_equal(ours: Any, theirs: Any, X: Any, names: tuple[str, ...]) -> None:
    close = {"rtol": 1e-8, "atol": 1e-8}
    for name in ("startprob_", "transmat_", *names):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), **close)
    np.testing.assert_allclose(ours.monitor_.history, theirs.monitor_.history, **close)
    assert ours.monitor_.iter == theirs.monitor_.iter
    assert ours.monitor_.converged == theirs.monitor_.converged
    assert ours.score(X, lengths=LENGTHS) == pytest.approx(theirs.score(X, LENGTHS), rel=1e-8)
    np.testing.assert_allclose(
        ours.predict_proba(X, LENGTHS), theirs.predict_proba(X, LENGTHS), **close
    )
    for algorithm in ("viterbi", "map"):
        mine, states = ours.decode(X, LENGTHS, algorithm)
        their, other = theirs.decode(X, LENGTHS, algorithm)
        assert mine == pytest.approx(their, rel=1e-8)
        np.testing.assert_array_equal(states, other)
    if not hasattr(ours, "weights_"):  # of which theirs counts those of one state
        assert ours.aic(X, LENGTHS) == pytest.approx(theirs.aic(X, LENGTHS), rel=1e-8)
        assert ours.bic(X, LENGTHS) == pytest.approx(theirs.bic(X, LENGTHS), rel=1e-8)
    stationary = ours.get_stationary_distribution()
    np.testing.assert_allclose(stationary @ ours.transmat_, stationary, atol=1e-12)
    mine, other = (m.sample(30, random_state=3) for m in (ours, theirs))
    np.testing.assert_array_equal(mine[1], other[1])
    np.testing.assert_allclose(mine[0], other[0], **close)


def test_ties_of_best_sequences_end_alike_and_differ_before() -> None:
    for model, states in zip(pair("CategoricalHMM", 3), ([0, 0, 0], [2, 2, 0]), strict=True):
        model.startprob_, model.emissionprob_ = np.full(3, 1 / 3), np.full((3, 2), 0.5)
        model.transmat_ = np.full((3, 3), 1 / 3)
        assert model.predict(np.array([[0], [1], [0]])).tolist() == states


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("kind", "implementation"),
    [("diag", "log"), ("spherical", "scaling"), ("full", "log"), ("tied", "scaling")],
)
def test_normal_emissions(kind: str, implementation: str) -> None:
    pytest.importorskip("sklearn", reason="k-means starts both")
    X = normals()
    ours, theirs = pair(
        "GaussianHMM", 3, kind, random_state=2, n_iter=15, implementation=implementation
    )
    ours.fit(X, LENGTHS)
    theirs.fit(X, LENGTHS)
    if kind == "spherical":  # theirs has more matrices than states after a fit
        theirs.covars_ = theirs._covars_[:, 0]
    assert_equal(ours, theirs, X, ("means_", "covars_"))


@pytest.mark.parametrize("kind", KINDS)
def test_normal_emissions_with_priors(kind: str) -> None:
    X = normals(1)
    rng = np.random.default_rng(3)
    k, n = 9, 3
    options: dict[str, Any] = {
        "startprob_prior": 2.0, "transmat_prior": rng.uniform(0.5, 3.0, (k, k)),
        "means_prior": rng.normal(size=(k, n)), "means_weight": 1.5, "covars_prior": 0.3,
        "covars_weight": 6.0, "params": "stmc", "init_params": "", "n_iter": 6, "tol": -np.inf,
    }  # fmt: skip
    models = pair("GaussianHMM", k, kind, **options)
    start, *table = rng.dirichlet(np.ones(k), size=k + 1)
    means = rng.normal(2.0, 2.0, size=(k, n))
    covars = {
        "diag": np.full((k, n), 2.0), "spherical": np.full(k, 2.0), "tied": np.eye(n) * 2.0,
        "full": np.tile(np.eye(n) * 2.0, (k, 1, 1)),
    }[kind]  # fmt: skip
    for model in models:
        model.startprob_, model.transmat_ = start, np.array(table)
        model.means_, model.covars_ = means.copy(), covars.copy()
        model.fit(X, LENGTHS)
    if kind == "spherical":
        models[1].covars_ = models[1]._covars_[:, 0]
    assert_equal(*models, X, ("means_", "covars_"))


@pytest.mark.parametrize(("name", "code"), [("GaussianHMM", -9999999.0), ("GMMHMM", -999999999.0)])
@pytest.mark.parametrize("seed", [0, 4])
def test_codes_of_what_is_missing(name: str, code: float, seed: int) -> None:
    pytest.importorskip("sklearn", reason="k-means starts both")
    rng = np.random.default_rng(seed)
    X = rng.normal(5.0, 1.0, (1000, 1))
    X[rng.random(1000) < 0.05] = code
    ours, theirs = (model.fit(X) for model in pair(name, 2, random_state=0))
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-8)
    np.testing.assert_allclose(ours.covars_, theirs.covars_, rtol=1e-8)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_mixtures(kind: str) -> None:
    pytest.importorskip("sklearn", reason="k-means starts both")
    X = normals(2)
    ours, theirs = pair("GMMHMM", 2, 2, covariance_type=kind, random_state=2, n_iter=8)
    ours.fit(X, LENGTHS)
    theirs.fit(X, LENGTHS)
    params = theirs.get_params()
    assert_equal(ours, theirs, X, ("weights_", "means_", "covars_"))
    assert ours.covars_prior is None  # parameters stay as they were given; theirs change
    assert params["covars_prior"] is not None


@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_symbols(implementation: str) -> None:
    X = np.random.default_rng(5).integers(0, 6, (200, 1))
    ours, theirs = pair(
        "CategoricalHMM", 3, random_state=2, n_iter=12, implementation=implementation
    )
    assert ours.fit(X, LENGTHS).n_features == theirs.fit(X, LENGTHS).n_features == 6
    assert_equal(ours, theirs, X, ("emissionprob_",))


def test_symbols_with_priors() -> None:
    X = np.random.default_rng(5).integers(0, 6, (200, 1))
    ours, theirs = pair("CategoricalHMM", 10, random_state=2, emissionprob_prior=1.7, n_features=8)
    ours.fit(X, LENGTHS)
    theirs.fit(X, LENGTHS)
    assert_equal(ours, theirs, X, ("emissionprob_",))


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_counts(weight: float) -> None:
    X = np.random.default_rng(6).poisson(4.0, (200, 2))
    options = {"lambdas_prior": weight, "lambdas_weight": weight / 2, "random_state": 4}
    ours, theirs = pair("PoissonHMM", 3, **options)
    ours.fit(X, LENGTHS)
    theirs.fit(X, LENGTHS)
    assert_equal(ours, theirs, X, ("lambdas_",))


def test_parameters_have_the_same_names_order_and_defaults() -> None:
    import inspect

    for name in ("CategoricalHMM", "GaussianHMM", "PoissonHMM", "GMMHMM"):
        ours, theirs = (
            list(inspect.signature(getattr(module, name)).parameters.values())
            for module in (hmm, hmmlearn.hmm)
        )
        added = {"n_restarts", "threads"}
        kept = [(p.name, p.kind, p.default) for p in ours if p.name not in added]
        assert kept == [(p.name, p.kind, p.default) for p in theirs]
        assert all(p.kind is p.KEYWORD_ONLY for p in ours if p.name in added)
