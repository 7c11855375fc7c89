"""Settings of a fit, and rows that are hard to read: refused by name, or read rightly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valuesparse.hmm import (
    GMMHMM,
    BaseHMM,
    CategoricalHMM,
    ConvergenceMonitor,
    GaussianHMM,
    PoissonHMM,
)

ROWS: Any = np.random.default_rng(0).normal(size=(30, 2))
COUNTS: Any = np.random.default_rng(0).poisson(3.0, size=(30, 2))


def gaussian(kind: str = "diag", **settings: Any) -> GaussianHMM:
    model = GaussianHMM(2, kind, init_params="stc", random_state=0, **settings)
    model.means_ = [[-0.5, 0.0], [0.5, 0.5]]
    return model


def mixture(**settings: Any) -> GMMHMM:
    model = GMMHMM(2, **{"n_mix": 2, **settings}, init_params="stcw", random_state=0)
    model.means_ = np.arange(8.0).reshape(2, 2, 2) / 4.0 - 1.0
    return model


@pytest.mark.parametrize("kind", ["diag", "spherical", "full", "tied"])
def test_long_doubles_are_read_as_doubles(kind: str) -> None:
    rows = ROWS.astype(np.longdouble)
    plain, wide = gaussian(kind).fit(ROWS), gaussian(kind).fit(rows)
    assert np.array_equal(plain.means_, wide.means_)
    assert plain.score(rows) == plain.score(ROWS)
    with pytest.raises(ValueError, match=r"X\[0, 0\] is inf"):
        plain.score(np.full((1, 2), np.longdouble("1e4000")))


@pytest.mark.parametrize("make", [gaussian, mixture])
def test_rows_beyond_a_double_s_squares_are_refused(make: Any) -> None:
    rows = ROWS.copy()
    rows[3, 1] = -1e200
    with pytest.raises(ValueError, match=r"X\[3, 1\] is -1e\+200"):
        make().fit(rows)
    with pytest.raises(ValueError, match=r"X\[3, 1\] is -1e\+200"):
        make().fit(ROWS).predict(rows)
    fitted = make().fit(ROWS * 1e99)
    assert np.isfinite(fitted.covars_).all()
    assert np.isfinite(fitted.score(ROWS * 1e99))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (gaussian(startprob_prior=np.nan), r"startprob_prior is nan"),
        (gaussian(transmat_prior=-5.0), r"transmat_prior is -5.0; .* at least 0"),
        (gaussian(transmat_prior=[[1.0, 1.0], [np.inf, 1.0]]), r"transmat_prior\[1, 0\] is inf"),
        (gaussian(transmat_prior=np.ones(3)), r"transmat_prior must .* \(2, 2\), got shape \(3,\)"),
        (gaussian(min_covar=-1.0), r"min_covar is -1.0"),
        (gaussian(min_covar=np.nan), r"min_covar is nan"),
        (gaussian(means_prior=np.inf), r"means_prior is inf"),
        (gaussian(means_weight=-1.0), r"means_weight is -1.0"),
        (gaussian(covars_prior=np.nan), r"covars_prior is nan"),
        (gaussian(covars_prior=-1.0), r"covars_prior is -1.0"),
        (gaussian("full", covars_prior=np.ones((3, 3))), r"covars_prior must .* \(2, 2, 2\)"),
        (gaussian(covars_weight=[1.0, 2.0]), r"covars_weight must be a number"),
        (gaussian(tol=np.nan), r"tol must be a number, got nan"),
        (gaussian(tol="x"), r"tol must be a number, got 'x'"),
        (mixture(n_mix=0), r"n_mix must be an integer >= 1"),
        (mixture(n_mix=2.0), r"n_mix must be an integer >= 1"),
        (mixture(weights_prior=-9.0), r"weights_prior is -9.0"),
        (mixture(covars_prior=np.nan), r"covars_prior is nan"),
        (mixture(means_prior=np.ones(9)), r"means_prior must .* \(2, 2, 2\)"),
    ],
)
def test_settings_are_refused_by_name(model: BaseHMM, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        model.fit(ROWS)


def test_settings_of_counts_and_symbols_are_refused_by_name() -> None:
    for settings, name in (
        ({"lambdas_prior": -5.0}, "lambdas_prior is -5.0"),
        ({"lambdas_weight": -100.0}, "lambdas_weight is -100.0"),
        ({"lambdas_prior": np.ones(7)}, "lambdas_prior must be"),
    ):
        with pytest.raises(ValueError, match=name):
            PoissonHMM(2, random_state=0, **settings).fit(COUNTS)
    with pytest.raises(ValueError, match=r"X\[0, 0\] is -1; counts"):
        PoissonHMM(2, random_state=0).fit(np.full((3, 1), -1))
    for large in (1e160, 1.5e308):
        with pytest.raises(ValueError, match=r"X\[1, 0\] is .*counts must be at most 1e\+100"):
            PoissonHMM(2, random_state=0).fit([[3.0], [large], [2.0]])
    for symbols_of in (np.array([[1], [2**63]], np.uint64), np.array([[1], [2**40]])):
        with pytest.raises(ValueError, match=r"X\[1\] is symbol .*numpy.unique\(X, return_inv"):
            CategoricalHMM(2).fit(symbols_of)
    for number in (0, 2.5, "a"):
        symbols: Any = CategoricalHMM(2, n_features=number)
        with pytest.raises(ValueError, match="n_features must be an integer >= 1"):
            symbols.fit([[0], [1]])
    with pytest.raises(ValueError, match=r"emissionprob_prior\[1\] is nan"):
        CategoricalHMM(2, emissionprob_prior=[1.0, np.nan]).fit([[0], [1]])


@pytest.mark.parametrize(
    ("make", "X", "names"),
    [
        (gaussian, ROWS, "means_prior means_weight covars_prior covars_weight min_covar"),
        (mixture, ROWS, "weights_prior means_prior means_weight min_covar"),
        (PoissonHMM, COUNTS, "startprob_prior transmat_prior lambdas_prior lambdas_weight"),
        (CategoricalHMM, COUNTS[:, :1], "startprob_prior emissionprob_prior params init_params"),
    ],
)
def test_none_is_no_setting(make: Any, X: Any, names: str) -> None:
    for name in names.split():
        with pytest.raises(ValueError, match=f"{name} must be .*, got None"):
            make(**{name: None}).fit(X)
    assert mixture(covars_prior=None, covars_weight=None, n_iter=2).fit(ROWS).monitor_.iter == 2


def test_arrays_are_no_choices() -> None:
    kind: Any
    for kind in (np.array("diag"), np.array(["diag", "full"])):
        with pytest.raises(ValueError, match="covariance_type must be one of"):
            gaussian(kind).fit(ROWS)
    two: Any = np.array(["map", "viterbi"])
    with pytest.raises(ValueError, match="algorithm must be 'viterbi' or 'map'"):
        gaussian().decode(ROWS, algorithm=two)


def test_counts_that_no_machine_has_room_for_are_named() -> None:
    with pytest.raises(ValueError, match="n_features must be at most"):
        CategoricalHMM(2, n_features=2**62).fit([[0], [1]])
    with pytest.raises(ValueError, match="n_samples must be at most"):
        gaussian().fit(ROWS).sample(10**30)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[2.0, 0.0], [0.0, 1.0]], "transmat_ rows must sum to 1"),
        ([[-1.0, 2.0], [0.0, 1.0]], r"transmat_\[0, 0\] is -1.0"),
        ([[np.nan, 1.0], [0.0, 1.0]], r"transmat_\[0, 0\] is nan"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], r"transmat_ must have shape .* \(2, 2\)"),
    ],
)
def test_stationary_distributions_are_those_of_probabilities(table: Any, words: str) -> None:
    model = BaseHMM(2)
    model.transmat_ = table
    with pytest.raises(ValueError, match=words):
        model.get_stationary_distribution()


@pytest.mark.parametrize("prior", [1.0, 2.0])
def test_zeros_of_emissions_stay_unless_a_prior_fills_them(prior: float) -> None:
    model = CategoricalHMM(2, emissionprob_prior=prior, init_params="", n_iter=5)
    model.startprob_, model.transmat_ = [1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]]
    model.emissionprob_ = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    found = model.fit([[0], [1], [2], [1], [0]]).emissionprob_
    assert (found[[0, 1], [2, 0]] > 0.0).tolist() == [prior > 1.0] * 2


def test_a_spherical_mixture_without_its_prior_is_a_diagonal_one() -> None:
    """As the class says of its defaults: with one feature they are the same model."""
    rows, fits = np.random.default_rng(0).normal(size=(60, 1)), []
    for kind, prior in (("diag", None), ("spherical", -1.5), ("spherical", None)):
        model = GMMHMM(1, 3, covariance_type=kind, covars_prior=prior, init_params="stcw")
        model.means_ = np.linspace(-2.0, 2.0, 3)[None, :, None]
        fits.append(model.fit(rows).covars_.ravel())
    np.testing.assert_allclose(fits[1], fits[0], rtol=1e-9)
    assert not np.allclose(fits[2], fits[0])


@pytest.mark.parametrize("make", [GaussianHMM, PoissonHMM, CategoricalHMM, GMMHMM])
def test_missing_values_and_words_among_objects_are_named(make: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="has columns with gaps")
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": pandas.array([1, None, 4], "Int64")})
    for given, error, words in (
        (frame, ValueError, r"X\[1, 1\] is a missing value, <NA>; X must be finite"),
        (frame.to_numpy(), ValueError, r"X\[1, 1\] is a missing value"),
        (np.array([[1.0, 2], [3, "b"]], object), ValueError, r"X\[1, 1\] is 'b'; X must hold real"),
        (np.array([[1.0, {}]], object), TypeError, r"X\[0, 1\] is {}; X must hold real numbers"),
    ):
        with pytest.raises(error, match=words):
            make(2).fit(given)
    found = GaussianHMM(2, n_iter=2, random_state=0).fit(ROWS)
    assert found.score(ROWS.astype(object)) == found.score(ROWS)


@pytest.mark.parametrize(("kind", "where"), [("full", ", in component 1"), ("tied", "")])
def test_the_component_of_a_singular_matrix_is_named(kind: str, where: str) -> None:
    for n_iter in (1, 2):  # no pass follows the last iteration
        model = mixture(covariance_type=kind, n_iter=n_iter)
        less: Any = np.zeros((2, 2, 2) if kind == "tied" else (2, 2, 2, 2))
        less[(1, 1)[: less.ndim - 2]] = -100.0 * np.eye(2)
        model.covars_prior = less
        words = f"that of state 1 has become singular{where}; a covars_prior of c .* numpy.eye"
        with pytest.raises(ValueError, match=words):
            model.fit(ROWS)


@pytest.mark.parametrize("n_iter", [1, 2])
@pytest.mark.parametrize("kind", ["full", "tied"])
def test_what_the_last_iteration_makes_is_checked(kind: str, n_iter: int) -> None:
    """No pass comes after it that would need densities."""
    less: Any = -100.0 * np.eye(2)
    one = gaussian(
        kind, n_iter=n_iter, covars_prior=less if kind == "tied" else np.tile(less, (2, 1, 1))
    )
    several = (2, 1, 1) if kind == "tied" else (2, 2, 1, 1)
    two = mixture(covariance_type=kind, n_iter=n_iter, covars_prior=np.tile(less, several))
    for model in (one, two):
        with pytest.raises(
            ValueError, match=r"covars_ must be .*: that of state 0 has become sing"
        ):
            model.fit(ROWS)
    model = gaussian(kind, n_iter=n_iter).fit(ROWS)
    assert np.isfinite(model.score(ROWS))


@pytest.mark.parametrize("kind", ["diag", "spherical", "full", "tied"])
def test_covariances_alone_are_those_around_the_means_that_stay(kind: str) -> None:
    prior = np.zeros({"full": (1, 2, 2), "tied": (2, 2)}.get(kind, (1, 2)))
    model = GaussianHMM(1, kind, params="c", init_params="stc", n_iter=1, covars_prior=prior)
    model.means_ = [[0.5, -0.5]]
    away = ROWS - model.fit(ROWS).means_
    wanted = away.T @ away / len(ROWS)
    if kind in ("diag", "spherical"):
        wanted = np.diag(np.diag(wanted))
    if kind == "spherical":
        wanted = np.eye(2) * wanted.trace() / 2.0
    np.testing.assert_allclose(model.covars_[0], wanted, rtol=1e-12)
    assert model.means_.tolist() == [[0.5, -0.5]]


class Own(BaseHMM):
    """Transitions as an M-step of one's own makes them, in some layout."""

    made: Any = staticmethod(np.array)

    def _compute_log_likelihood(self, X: Any) -> Any:
        return -0.5 * (X[:, :1] - np.array([-1.0, 0.0, 1.0])) ** 2

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        counts = stats["trans"] + 0.1
        self.transmat_ = self.made(counts / counts.sum(axis=1, keepdims=True))


def own(made: Any) -> Own:
    model = Own(3, n_iter=5, tol=0.0, init_params="")
    model.made = made
    model.startprob_ = [0.2, 0.3, 0.5]
    model.transmat_ = [[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], [0.4, 0.4, 0.2]]
    return model


@pytest.mark.parametrize("made", [np.asfortranarray, lambda t: t.tolist(), lambda t: t[::-1][::-1]])
def test_an_m_step_may_leave_any_layout(made: Any) -> None:
    assert own(made).fit(ROWS).score(ROWS) == own(np.array).fit(ROWS).score(ROWS)


@pytest.mark.parametrize("made", [lambda t: t * np.nan, lambda t: -t, lambda t: t + np.inf])
def test_parameters_stay_probabilities_while_they_are_fitted(made: Any) -> None:
    with pytest.raises(ValueError, match="transmat_ must be finite and not negative while fit"):
        own(made).fit(ROWS)


def test_parameters_keep_their_shape_while_they_are_fitted() -> None:
    with pytest.raises(ValueError, match=r"transmat_ must keep its shape \(3, 3\) while fit runs"):
        own(lambda t: np.full((2, 2), 0.5)).fit(ROWS)


class Meddling(ConvergenceMonitor):
    def __init__(self, change: Any) -> None:
        super().__init__(0.0, 5, False)
        self.change = change

    def report(self, log_prob: float) -> None:
        super().report(log_prob)
        self.change()


@pytest.mark.parametrize("name", ["startprob_", "transmat_", "emissionprob_"])
def test_what_a_monitor_sets_is_read_as_it_is(name: str) -> None:
    def fitted(made: Any) -> list[float]:
        model = CategoricalHMM(3, n_iter=5, random_state=0, n_features=COUNTS.max() + 1)
        model.monitor_ = Meddling(lambda: setattr(model, name, made(getattr(model, name))))
        model.fit(COUNTS[:, :1])
        return list(model.monitor_.history)

    plain = fitted(np.array)
    for made in (np.asfortranarray, np.ndarray.tolist, lambda x: np.repeat(x, 2, axis=0)[::2]):
        assert fitted(made) == plain
    with pytest.raises(ValueError, match=f"{name} must keep its shape"):
        fitted(lambda x: x[:2])


@pytest.mark.parametrize("kind", ["diag", "spherical", "full", "tied"])
def test_covariances_set_beside_the_setter_are_read_as_they_are(kind: str) -> None:
    model = gaussian(kind, n_iter=2).fit(ROWS)
    model._covars_ = np.round(model._covars_, 1) + 0.5 * (model._covars_ > 0.2)
    before = model.score(ROWS)
    for made in (model._covars_.tolist(), np.asfortranarray(model._covars_)):
        model._covars_ = made
        assert model.score(ROWS) == before
    model._covars_ = np.full(np.shape(model._covars_), np.nan)
    with pytest.raises(ValueError, match="covars_ must be finite"):
        model.score(ROWS)


@pytest.mark.parametrize("name", ["startprob_", "transmat_", "means_", "_covars_"])
def test_parameters_are_no_complex_numbers(name: str) -> None:
    model = gaussian(n_iter=1).fit(ROWS)
    setattr(model, name, getattr(model, name) + 0j)
    with pytest.raises(TypeError, match=f"{name.lstrip('_')} must hold real numbers"):
        model.score(ROWS)


def test_so_many_states_fit_nowhere() -> None:
    with pytest.raises(MemoryError, match="n_components=1152921504606846976"):
        PoissonHMM(2**60).fit(COUNTS)
