"""Samples: by the random numbers of rows drawn one by one, as numpy's own functions draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from valuesparse import _hmm
from valuesparse.hmm import GMMHMM, BaseHMM, CategoricalHMM, GaussianHMM, PoissonHMM, _sampling
from valuesparse.schedule import Kind, record

K, F = 4, 3
Emit = Callable[[int, np.random.RandomState], Any]


def with_parameters(model: Any, **emissions: Any) -> Any:
    rng = np.random.default_rng(0)
    values = {
        "startprob_": rng.dirichlet(np.ones(K)),
        "transmat_": rng.dirichlet(np.full(K, 0.3), size=K),
        **emissions,
    }
    for name, value in values.items():
        setattr(model, name, value)
    return model


def categorical() -> tuple[Any, Emit]:
    table = np.random.default_rng(1).dirichlet(np.full(7, 0.3), size=K)
    model = with_parameters(CategoricalHMM(K), emissionprob_=table, n_features=7)
    return model, lambda k, random: [(np.cumsum(table[k]) > random.rand()).argmax()]


def gaussian(kind: str) -> tuple[Any, Emit]:
    rng = np.random.default_rng(2)
    roots = rng.normal(size=(K, F, F))
    covars = {
        "full": roots @ roots.transpose(0, 2, 1) + np.eye(F),
        "diag": rng.random((K, F)) + 0.1,
    }[kind]
    model = with_parameters(GaussianHMM(K, kind), means_=rng.normal(size=(K, F)), n_features=F)
    model.covars_ = covars
    whole = covars if kind == "full" else covars[:, :, None] * np.eye(F)
    return model, lambda k, random: random.multivariate_normal(model.means_[k], whole[k])


def mixture(kind: str) -> tuple[Any, Emit]:
    rng = np.random.default_rng(3)
    shape = {"spherical": (K, 2), "diag": (K, 2, F), "full": (K, 2, F, F), "tied": (K, F, F)}[kind]
    covars = rng.random(shape) + 0.1
    if kind in ("full", "tied"):
        covars = covars @ covars.swapaxes(-1, -2) + np.eye(F)
    model = with_parameters(
        GMMHMM(K, 2, covariance_type=kind), weights_=rng.dirichlet(np.ones(2), size=K),
        means_=rng.normal(size=(K, 2, F)), covars_=covars, n_features=F,
    )  # fmt: skip

    def emit(k: int, random: np.random.RandomState) -> Any:
        which = random.choice(2, p=model.weights_[k])
        own = covars[k] if kind == "tied" else covars[k, which]
        matrix = own if own.ndim == 2 else np.eye(F) * own
        return random.multivariate_normal(model.means_[k, which], matrix)

    return model, emit


def poisson() -> tuple[Any, Emit]:
    rates = np.random.default_rng(4).random((K, F)) * 5
    model = with_parameters(PoissonHMM(K), lambdas_=rates, n_features=F)
    return model, lambda k, random: random.poisson(rates[k])


MODELS = {
    "categorical": categorical(), "poisson": poisson(),
    **{f"gaussian, {kind}": gaussian(kind) for kind in ("full", "diag")},
    **{f"mixture, {kind}": mixture(kind) for kind in ("full", "diag", "tied", "spherical")},
}  # fmt: skip


def one_by_one(model: Any, emit: Emit, n: int, first: int | None) -> tuple[Any, Any]:
    random = np.random.RandomState(5)
    steps, states, rows = np.cumsum(model.transmat_, axis=1), [], []
    for i in range(n):
        if i == 0 and first is not None:
            state = first
        else:
            sums = np.cumsum(model.startprob_) if i == 0 else steps[states[-1]]
            state = int((sums > random.rand()).argmax())
        states.append(state)
        rows.append(emit(state, random))
    return np.atleast_2d(rows), np.array(states)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("first", [None, 2])
def test_random_numbers_are_those_of_rows_drawn_one_by_one(
    monkeypatch: pytest.MonkeyPatch, name: str, first: int | None
) -> None:
    monkeypatch.setattr(_sampling, "_BLOCK", 16)
    model, emit = MODELS[name]
    for n in (1, 2, 50):
        rows, states = model.sample(n, random_state=5, currstate=first)
        want = one_by_one(model, emit, n, first)
        np.testing.assert_array_equal(rows, want[0])
        np.testing.assert_array_equal(states, want[1])
        assert rows.dtype == want[0].dtype
        assert states.dtype == np.int64


def test_a_uniform_above_all_probabilities_is_the_first_state() -> None:
    """They may sum to less than one, by rounding; hmmlearn does the same, where it is possible."""
    steps, emissions = np.array([[0.25, 0.5], [0.5, 0.75]]), np.array([[0.5, 0.75], [0.25, 0.5]])
    states, symbols = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.int64)
    uniforms = np.array([[0.3, 0.9], [0.9, 0.2], [0.25, 0.5]])
    _hmm.draw(0, steps, emissions, uniforms, states, symbols)
    assert states.tolist() == [1, 0, 1]
    assert symbols.tolist() == [0, 0, 0]


def test_subclasses_that_emit_otherwise_are_asked_row_by_row() -> None:
    class Louder(CategoricalHMM):
        def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
            return [10 * state + random_state.randint(10)]

    class Own(BaseHMM):
        def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
            return [10 * state + random_state.randint(10)]

    for model in (with_parameters(Louder(K), emissionprob_=np.full((K, 2), 0.5), n_features=2),
                  with_parameters(Own(K), n_features=1)):  # fmt: skip
        rows, states = model.sample(200, random_state=0)
        np.testing.assert_array_equal(rows[:, 0] // 10, states)
        assert len(set((rows[:, 0] % 10).tolist())) == 10


def test_passes_wait_for_their_own_rows_alone() -> None:
    model, _ = MODELS["categorical"]
    lengths = [3000, 3000, 100, 3000]
    X, _ = model.sample(sum(lengths), random_state=1)
    with record() as plans:
        log_z, _ = model.set_params(threads=1).score_samples(X, lengths)
    assert log_z == pytest.approx(model.score(X, None, lengths), rel=1e-12)
    passes = plans[0]
    assert passes.label == "passes"
    rows = passes.item[passes.kind == Kind.PIECE]
    assert rows[0].tolist() == [0, 2048]
    assert rows[-1][1] == sum(lengths)
    offset = np.concatenate([[0], np.cumsum(lengths)])
    for task in np.flatnonzero(passes.kind == Kind.SEQUENCES):
        first, last = passes.item[task]
        before = [
            t for t in range(len(rows))
            if task in passes.succ[passes.succ_ptr[t] : passes.succ_ptr[t + 1]]
        ]  # fmt: skip
        meets = (rows[:, 0] < offset[last]) & (rows[:, 1] > offset[first])
        assert before == np.flatnonzero(meets).tolist()
        assert passes.waits[task] == len(before)


def test_nothing_forbidden_is_drawn_where_rows_sum_to_less() -> None:
    """Rows may miss a hundred-thousandth of 1: a draw beyond their sum takes what is possible."""
    less = 1.0 - 9e-6
    values = {"startprob_": [0.0, less], "transmat_": [[1.0, 0.0], [0.0, less]]}
    symbols = CategoricalHMM(2)
    normal = GaussianHMM(2, means_prior=0.0)
    for model, rows, more in (
        (symbols, 1_000_000, {"emissionprob_": [[1.0, 0.0, 0.0], [0.0, less, 0.0]]}),
        (normal, 300_000, {"means_": [[0.0], [1.0]], "covars_": [[1.0], [1.0]]}),
    ):
        for name, value in {**values, **more}.items():
            setattr(model, name, np.array(value))
        x, states = model.sample(rows, random_state=0)
        assert set(states.tolist()) == {1}
        if model is symbols:
            assert set(x[:, 0].tolist()) == {1}
