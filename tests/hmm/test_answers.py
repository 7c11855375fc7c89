"""Posteriors and Baum-Welch: against enumeration and scipy's densities, and on any threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracles import Arrays, solve
from scipy import stats

import valuesparse as vs
from valuesparse.hmm import GMMHMM, BaseHMM, CategoricalHMM, GaussianHMM, PoissonHMM
from valuesparse.hmm._fitting import normalised
from valuesparse.hmm._passes import Passes

KINDS = ("diag", "spherical", "full", "tied")


class Given(BaseHMM):
    """Emissions as they are given."""

    def _compute_log_likelihood(self, X: Any) -> Any:
        return self.scores[: len(X)]


def distributions(rng: np.random.Generator, k: int, zeros: float = 0.0) -> tuple[Any, Any]:
    table = rng.dirichlet(np.ones(k), size=k + 1)
    table[rng.random(table.shape) < zeros] = 0.0
    table[:, 0] += 1e-3
    table /= table.sum(axis=1, keepdims=True)
    return table[0], table[1:]


def log(p: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(p)


def putting(scores: Any) -> Callable[[Any], None]:
    """Return what fills an array with scores."""
    return lambda array: np.copyto(array, scores)


@pytest.mark.simd
@pytest.mark.smoke
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 9, 15, 16, 17])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_expectations_are_those_of_enumeration(k: int, spread: float) -> None:
    rng = np.random.default_rng(k)
    lengths = [1, 6, 1, 4, 13] if k < 9 else [3, 1, 4]
    start, table = distributions(rng, k, zeros=0.3)
    scores = rng.normal(scale=spread, size=(sum(lengths), k))
    want = solve(Arrays(scores, log(table), np.array(lengths), start=log(start)))
    passes = Passes(len(scores), k, lengths)
    found = passes.expect(start, table, 1, putting(scores), True)
    np.testing.assert_allclose(passes.log_z, want.log_z.astype(float), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(passes.posteriors, want.marginals.astype(float), atol=1e-10)
    np.testing.assert_allclose(found, want.pairwise.astype(float).sum(axis=0), atol=1e-9)
    assert (found[table == 0.0] == 0.0).all()
    likelihood = passes.likelihood(start, table, 1, putting(scores))
    assert likelihood == pytest.approx(float(want.log_z.sum()), rel=1e-12, abs=1e-10)


@pytest.mark.simd
@pytest.mark.parametrize("k", [1, 2, 4, 5, 8, 9, 16, 17])
@pytest.mark.parametrize("ties", [False, True])
def test_the_best_states_are_those_of_chains(k: int, ties: bool) -> None:
    rng = np.random.default_rng(k)
    lengths = [1, 40, 1, 3, 2100, 5]
    start, table = distributions(rng, k, zeros=0.3)
    scores = rng.normal(scale=2.0, size=(sum(lengths), k))
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    scores[:, 0] = np.maximum(scores[:, 0], -10.0)
    if ties:  # few different sums, all of them exact
        scores = np.where(np.isinf(scores), -np.inf, np.round(scores / 2.0))
        start, table = np.ones(k), np.ones((k, k))
    want = vs.decode(vs.Chain(scores, log(table), start=log(start), lengths=lengths))
    passes = Passes(len(scores), k, lengths)
    passes.scores[...] = scores
    for threads in (1, 3):
        found, states = passes.best(start, table, threads)
        np.testing.assert_allclose(found, want.score, rtol=1e-12)
        assert states.tolist() == want.states.tolist()


@pytest.mark.simd
@pytest.mark.parametrize("k", [1, 3, 8, 11, 17])
def test_symbols_are_read_from_their_table(k: int) -> None:
    rng = np.random.default_rng(k)
    lengths, n_symbols = [1, 6, 4], 7
    start, table = distributions(rng, k, zeros=0.2)
    emissions = rng.dirichlet(np.full(n_symbols, 0.3), size=k)
    emissions[:, -1] = 0.0
    emissions /= emissions.sum(axis=1, keepdims=True)
    emissions[:, -1] = 1e-250 * np.arange(1, k + 1)  # next to impossible
    X = rng.integers(0, n_symbols - 1, (11, 1))
    X[3] = n_symbols - 1
    model = CategoricalHMM(k, params="ste", init_params="", n_iter=1)
    model.startprob_, model.transmat_, model.emissionprob_ = start, table, emissions
    scores = log(emissions.T)[X[:, 0]]
    want = solve(Arrays(scores, log(table), np.array(lengths), start=log(start)))
    log_z, posteriors = model.score_samples(X, lengths)
    assert log_z == pytest.approx(float(want.log_z.sum()), rel=1e-13)
    assert model.score(X, lengths=lengths) == pytest.approx(log_z, rel=1e-14)
    np.testing.assert_allclose(posteriors, want.marginals.astype(float), atol=1e-12)
    model.fit(X, lengths)
    marginals = want.marginals.astype(float)
    counts = np.stack([marginals[X[:, 0] == s].sum(axis=0) for s in range(n_symbols)], axis=1)
    seen = counts.sum(axis=1) > 1e-8
    np.testing.assert_allclose(
        model.emissionprob_[seen], (counts / counts.sum(axis=1)[:, None])[seen], atol=1e-7
    )


def test_priors_add_to_counts_and_zeros_stay() -> None:
    before = np.array([[0.0, 0.4, 0.6], [0.2, 0.3, 0.5], [0.1, 0.9, 0.0]])
    counts = np.array([[5.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 3.0, 1.0]])
    assert normalised(1.0, counts.copy(), before).tolist() == [
        [5 / 7, 1 / 7, 1 / 7], [0.2, 0.3, 0.5], [0.0, 0.75, 0.25]
    ]  # fmt: skip
    assert normalised(3.0, counts.copy(), before, keep_zeros=True).tolist() == [
        [0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [2 / 7, 5 / 7, 0.0]
    ]  # fmt: skip
    assert normalised(0.0, counts.copy(), before).tolist() == [
        [1.0, 0.0, 0.0], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]
    ]  # fmt: skip
    assert normalised(np.array([1.0, 2.0, 1.0]), counts.copy(), before)[1].tolist() == [0, 1, 0]


def test_the_order_of_numbers_in_memory_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    X = rng.integers(0, 3, (30, 1))
    found = []
    for order in ("C", "F"):
        model = CategoricalHMM(2, init_params="", n_iter=2)
        model.startprob_ = [0.5, 0.5]
        model.transmat_ = np.array([[0.9, 0.1], [0.4, 0.6]], order=order)
        model.emissionprob_ = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], order=order)
        found.append((model.score(X), model.fit(X).transmat_.tolist(), model.predict(X).tolist()))
    assert found[0] == found[1]


@pytest.mark.simd
def test_scores_too_far_apart_for_doubles_are_left_to_the_engine() -> None:
    rng = np.random.default_rng(0)
    start, table = np.array([1.0, 0.0, 0.0]), np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1.0]])
    scores = rng.normal(scale=3000.0, size=(12, 3))
    want = solve(Arrays(scores, log(table), start=log(start)))
    passes = Passes(12, 3, None)
    found = passes.expect(start, table, 1, putting(scores), True)
    np.testing.assert_allclose(passes.posteriors, want.marginals.astype(float), atol=1e-10)
    np.testing.assert_allclose(found, want.pairwise.astype(float).sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(passes.log_z, want.log_z.astype(float), rtol=1e-12)


@pytest.mark.parametrize("k", [3, 12])
def test_a_fit_of_transitions_is_a_step_of_baum_welch(k: int) -> None:
    rng = np.random.default_rng(3)
    lengths = [5, 1, 7]
    model = Given(k, params="st", init_params="", n_iter=1)
    model.startprob_, model.transmat_ = start, table = distributions(rng, k, zeros=0.4)
    model.scores = rng.normal(size=(13, k))
    want = solve(Arrays(model.scores, log(table), np.array(lengths), start=log(start)))
    model.fit(np.zeros((13, 1)), lengths)
    first = want.marginals[[0, 5, 6]].astype(float).sum(axis=0)
    edges = want.pairwise.astype(float).sum(axis=0)
    np.testing.assert_allclose(model.startprob_, first / first.sum(), atol=1e-12)
    np.testing.assert_allclose(model.transmat_, edges / edges.sum(axis=1)[:, None], atol=1e-12)
    assert model.monitor_.history[-1] == pytest.approx(float(want.log_z.sum()), rel=1e-12)


@pytest.mark.simd
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "features"), [(1, 1), (3, 2), (5, 3), (9, 1), (3, 16), (2, 17)])
def test_normal_densities_are_those_of_scipy(kind: str, k: int, features: int) -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(k, features, features))
    matrices = root @ root.transpose(0, 2, 1) + np.eye(features)
    covars = {
        "diag": rng.gamma(2.0, size=(k, features)), "spherical": rng.gamma(2.0, size=k),
        "full": matrices, "tied": matrices[0],
    }[kind]  # fmt: skip
    model = GaussianHMM(k, kind)
    model.startprob_, model.transmat_ = distributions(rng, k)
    model.means_, model.covars_ = rng.normal(size=(k, features)) + 100.0, covars
    X = rng.normal(scale=3.0, size=(50, features)) + 100.0
    model._check()
    found = model._compute_log_likelihood(X)
    full = model.covars_
    assert full.shape == (k, features, features)
    for state in range(k):
        want = stats.multivariate_normal(model.means_[state], full[state]).logpdf(X)
        np.testing.assert_allclose(found[:, state], want, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_mixture_densities_are_those_of_scipy(kind: str) -> None:
    rng = np.random.default_rng(6)
    k, m, n = 2, 3, 2
    root = rng.normal(size=(k, m, n, n))
    matrices = root @ root.transpose(0, 1, 3, 2) + np.eye(n)
    covars = {
        "diag": rng.gamma(2.0, size=(k, m, n)), "spherical": rng.gamma(2.0, size=(k, m)),
        "full": matrices, "tied": matrices[:, 0],
    }[kind]  # fmt: skip
    model = GMMHMM(k, m, covariance_type=kind)
    model.startprob_, model.transmat_ = distributions(rng, k)
    model.weights_ = rng.dirichlet(np.ones(m), size=k)
    model.means_, model.covars_ = rng.normal(size=(k, m, n)), covars
    X = rng.normal(scale=3.0, size=(20, n))
    model._check()
    found = np.exp(model._compute_log_likelihood(X))
    for state in range(k):
        want = np.zeros(20)
        for c in range(m):
            one = covars[state] if kind == "tied" else covars[state, c]
            matrix = one if np.ndim(one) == 2 else np.eye(n) * one
            density = stats.multivariate_normal(model.means_[state, c], matrix)
            want += model.weights_[state, c] * density.pdf(X)
        np.testing.assert_allclose(found[:, state], want, rtol=1e-11)


def test_counts_have_the_probabilities_of_scipy_zeros_too() -> None:
    model = PoissonHMM(2)
    model.startprob_, model.transmat_ = [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]
    model.lambdas_ = np.array([[3.0, 0.0], [1.5, 2.5]])
    X = np.array([[0, 0], [4, 0], [2, 1], [0, 7]])
    model._check()
    found = model._compute_log_likelihood(X)
    want = np.stack([stats.poisson(row).logpmf(X).sum(axis=1) for row in model.lambdas_], axis=1)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    assert found[2, 0] == -np.inf
    assert not np.isnan(model.predict_proba(X)).any()


def models(rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Return a model of each kind, ready to be fitted without scikit-learn, and data."""
    n, pairs = 5000, [(k, kind) for k in (3, 8, 11) for kind in KINDS]
    found: list[tuple[Any, Any]] = []
    for k, kind in pairs:
        model = GaussianHMM(k, kind, init_params="stc", random_state=1, n_iter=3)
        model.means_ = rng.normal(size=(k, 2), scale=4.0)
        found.append((model, rng.normal(size=(n, 2), scale=4.0)))
    found.append((CategoricalHMM(4, random_state=1, n_iter=3), rng.integers(0, 9, (n, 1))))
    found.append((PoissonHMM(4, random_state=1, n_iter=3), rng.poisson(5, (n, 2))))
    return found


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    for lengths in (None, [1999, 1, 1000, 2000]):
        seen: list[list[bytes]] = []
        for threads in (1, 2, 3, 8):
            bits = []
            for model, X in models(np.random.default_rng(0)):
                model.set_params(threads=threads).fit(X, lengths)
                bits += [model.transmat_.tobytes(), model.startprob_.tobytes()]
                bits += [model.predict_proba(X, lengths).tobytes(), model.predict(X).tobytes()]
            seen.append(bits)
        assert all(bits == seen[0] for bits in seen)


def test_zeros_stay_and_nothing_is_nan() -> None:
    rng = np.random.default_rng(2)
    k = 4
    model = GaussianHMM(k, init_params="c", params="stmc", n_iter=30, tol=-np.inf)
    model.startprob_ = np.eye(k)[0]
    model.transmat_ = 0.5 * np.eye(k) + 0.5 * np.eye(k, k=1)
    model.transmat_[-1, -1] = 1.0
    model.means_ = np.arange(k)[:, None] * 10.0
    X = np.concatenate([rng.normal(10.0 * s, 1.0, size=(40, 1)) for s in range(3)])
    model.fit(X)
    zeros = ~(np.eye(k) + np.eye(k, k=1)).astype(bool)
    assert (model.transmat_[zeros] == 0.0).all()
    assert (model.startprob_[1:] == 0.0).all()
    assert model.predict(X)[:80].tolist() == [0] * 40 + [1] * 40
    for array in (model.means_, model.covars_, model.transmat_, model.predict_proba(X)):
        assert np.isfinite(array).all()
    np.testing.assert_allclose(model.transmat_.sum(axis=1), 1.0)
    assert np.diff(model.monitor_.history).min() > -1e-6


def test_a_state_that_nobody_visits_keeps_its_parameters() -> None:
    X = np.array([[0.0], [0.1], [-0.1], [0.2]])
    model = GaussianHMM(2, "full", params="stmc", init_params="", n_iter=3)
    model.startprob_, model.transmat_ = [1.0, 0.0], [[1.0, 0.0], [0.3, 0.7]]
    model.means_, model.covars_ = [[0.0], [5.0]], [[[1.0]], [[2.0]]]
    model.fit(X)
    assert model.means_[1].tolist() == [5.0]
    assert model.covars_[1].tolist() == [[2.0]]
    assert model.transmat_[1].tolist() == [0.3, 0.7]
    counts = PoissonHMM(2, init_params="", n_iter=2)
    counts.startprob_, counts.transmat_ = [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]]
    counts.lambdas_ = [[2.0], [9.0]]
    assert counts.fit([[1], [2], [3]]).lambdas_.tolist() == [[2.0], [9.0]]


def test_an_outlier_at_ten_thousand_deviations_is_answered() -> None:
    X = np.random.default_rng(0).normal(size=(200, 1))
    X[40] = 10_000.0
    model = GaussianHMM(2, init_params="", n_iter=5)
    model.startprob_, model.transmat_ = [0.0, 1.0], [[0.4, 0.6], [0.6, 0.4]]
    model.means_, model.covars_ = [[0.0], [5.0]], [[1.0], [1.0]]
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.fit(X).predict_proba(X)).all()


@pytest.mark.parametrize("features", [2, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_states_far_apart_have_the_variances_of_their_rows(kind: str, features: int) -> None:
    rng = np.random.default_rng(3)
    state = np.repeat([0, 1] * 10, 50)
    X = rng.normal(size=(1000, features))
    X[:, 0] += 1e8 * state
    prior = np.zeros({"full": (2, features, features), "tied": (features,) * 2}.get(kind, (2, 1)))
    rows = [X[state == k] for k in (0, 1)]
    matrices = np.stack([np.cov(part.T, bias=True) for part in rows])
    wanted = {
        "full": matrices, "tied": np.stack([matrices.mean(axis=0)] * 2),
        "diag": matrices * np.eye(features),
        "spherical": matrices.trace(axis1=1, axis2=2)[:, None, None] * np.eye(features) / features,
    }[kind]  # fmt: skip
    bits = []
    for threads in (1, 3):
        model = GaussianHMM(
            2, kind, init_params="stc", random_state=0, covars_prior=prior, covars_weight=0,
            threads=threads,
        )  # fmt: skip
        model.means_ = np.zeros((2, features))
        model.means_[1, 0] = 1e8
        model.fit(X)
        np.testing.assert_allclose(model.covars_, wanted, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(model.means_, [p.mean(axis=0) for p in rows], 1e-14, 1e-14)
        assert min(np.diff(model.monitor_.history)) > -1e-6
        bits.append((model.means_.tobytes(), model.covars_.tobytes(), model.transmat_.tobytes()))
    assert bits[0] == bits[1]


def test_a_state_that_nobody_visits_keeps_its_mean_to_the_bit() -> None:
    X = np.random.default_rng(0).normal(1e8, 1.0, size=(50, 1))
    model = GaussianHMM(2, init_params="", n_iter=2)
    model.startprob_, model.transmat_ = [1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]
    model.means_, model.covars_ = [[1e8], [0.1]], [[1.0], [1.0]]
    assert model.fit(X).means_[1, 0] == 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_of_equal_large_values_has_their_mean(kind: str) -> None:
    rng = np.random.default_rng(10)
    X = rng.normal(5.0, 1.0, (1000, 1))
    coded = rng.random(1000) < 0.05
    X[coded] = -999999999.0
    prior = {"full": np.full((2, 1, 1, 1), 1e-12), "tied": np.full((2, 1, 1), 1e-12)}.get(kind)
    model = GMMHMM(2, covariance_type=kind, covars_prior=prior, init_params="stcw", random_state=0)
    model.means_ = [[[0.0]], [[-9e8]]]
    model.fit(X)
    assert model.means_[1, 0, 0] == -999999999.0
    assert model.means_[0, 0, 0] == pytest.approx(X[~coded].mean(), rel=1e-12)
    assert model.covars_[0].item() == pytest.approx(X[~coded].var(), rel=0.01)
    assert min(np.diff(model.monitor_.history)) > -1e-6


def test_stationary_distributions_of_groups_that_never_meet_are_distributions() -> None:
    for seed in range(300):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 8))
        first = int(rng.integers(1, k))
        table = np.zeros((k, k))
        table[:first, :first] = rng.dirichlet(np.ones(first), first)
        table[first:, first:] = rng.dirichlet(np.ones(k - first), k - first)
        order = rng.permutation(k)
        model = BaseHMM(k)
        model.transmat_ = table = table[order][:, order]
        found = model.get_stationary_distribution()
        assert found.min() >= 0.0
        assert found.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(found @ table, found, atol=1e-12)


def test_impossible_sequences_are_named() -> None:
    model = CategoricalHMM(2, init_params="")
    model.startprob_, model.transmat_ = [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]
    model.emissionprob_ = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    X = [[0], [1], [0], [2]]
    assert model.score(X, lengths=[2, 2]) == -np.inf
    for ask in (model.fit, model.predict, model.predict_proba):
        with pytest.raises(vs.InfeasibleError, match=r"sequence 1 cannot.*X\[3\], its row 1"):
            ask(X, lengths=[2, 2])


def test_restarts_keep_the_best() -> None:
    X = np.random.default_rng(4).integers(0, 4, (300, 1))
    one = CategoricalHMM(3, random_state=7, n_iter=15).fit(X)
    many = CategoricalHMM(3, random_state=7, n_iter=15, n_restarts=6).fit(X)
    again = CategoricalHMM(3, random_state=7, n_iter=15, n_restarts=6).fit(X)
    assert many.monitor_.history[-1] > one.monitor_.history[-1]
    assert many.score(X) >= many.monitor_.history[-1] - 1e-9
    assert many.emissionprob_.tobytes() == again.emissionprob_.tobytes()
    assert many.monitor_.iter == len(many.monitor_.history)


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([2, 0, 2], r"lengths\[1\] is 0"),
        ([2, 1], "sum to 3 but X has 4 rows"),
        ([5, -1], r"lengths\[1\] is -1"),
    ],
)
def test_lengths_that_do_not_fit(lengths: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PoissonHMM(2).fit(np.ones((4, 1), dtype=int), lengths)


@pytest.mark.parametrize(
    ("model", "X", "words"),
    [
        (CategoricalHMM(2), [[0.5]], "integers"),
        (CategoricalHMM(2), [[-1]], "nonnegative"),
        (CategoricalHMM(2, n_features=2), [[0], [2]], r"X\[1\] is symbol 2"),
        (CategoricalHMM(2), [[0, 1]], r"shape \(N, 1\)"),
        (PoissonHMM(1), [[0.5]], r"X\[0, 0\]"),
        (PoissonHMM(1), [1, 2], "reshape"),
        (PoissonHMM(1), [[np.nan]], r"X\[0, 0\] is nan"),
        (PoissonHMM(1), np.zeros((0, 1)), "at least"),
        (PoissonHMM(1, n_restarts=0), [[1]], "n_restarts"),
        (PoissonHMM(0), [[1]], "n_components"),
        (PoissonHMM(1, implementation="fast"), [[1]], "implementation"),
        (GaussianHMM(1, "round"), [[1.0]], "covariance_type"),
        (PoissonHMM(1, random_state="x"), [[1]], "random_state"),
    ],
)
def test_what_is_wrong_is_named(model: Any, X: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model.fit(X)


def test_parameters_that_are_none() -> None:
    model = GaussianHMM(2)
    model.startprob_, model.transmat_ = [0.5, 0.5], [[1.5, -0.5], [0.0, 1.0]]
    model.means_ = np.zeros((2, 1))
    model.covars_ = [[1.0], [1.0]]
    with pytest.raises(ValueError, match=r"transmat_\[0, 1\] is -0.5"):
        model.score([[0.0]])
    for covars in ([[0.0], [1.0]], [[np.nan], [1.0]], [1.0, 2.0]):
        with pytest.raises(ValueError, match="covars_"):
            model.covars_ = covars
