"""Training with marginals that may be off by a tolerance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.crf import CRF, Trainer
from valuesparse.crf.training._certified import CertifiedObjective
from valuesparse.crf.training._data import Dataset
from valuesparse.crf.training._features import generate
from valuesparse.crf.training._objective import Objective
from valuesparse.learning.lbfgs import Lbfgs

K = 40


def sentences(rng: np.random.Generator, count: int, longest: int = 14) -> list[tuple[list, list]]:
    found = []
    for _ in range(count):
        y = rng.integers(K, size=rng.integers(0, longest + 1))
        x = [[f"a{label}", f"b{rng.integers(9)}", f"a{rng.integers(K)}"] for label in y]
        found.append((x, [f"L{label}" for label in y]))
    return found


def data_of(rng: np.random.Generator, count: int) -> Dataset:
    data = Dataset()
    for x, y in sentences(rng, count):
        data.append(x, y, 0)
    return data


def objective_of(data: Dataset, threads: int = 1, every: bool = True) -> Objective:
    corpus = data.corpus()
    features = generate(
        corpus, len(data.attributes), len(data.labels.names), possible_transitions=every
    )
    return Objective(corpus, features, threads)


@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_errors_are_within_their_bounds(scale: float, tol: float, rng: np.random.Generator) -> None:
    objective = objective_of(data_of(rng, 60))
    w = scale * rng.normal(size=objective.n_weights)
    exact, found = np.empty_like(w), np.empty_like(w)
    loss = objective(w, exact)
    certified = CertifiedObjective(objective, tol)
    other = certified(w, found)
    assert certified.narrow > 0
    distance = float(np.linalg.norm(found - exact))
    assert 0.0 < distance <= certified.gradient_error
    assert abs(other - loss) <= certified.loss_error
    # No marginal is off by more than tol: so much per item, its values and its edges.
    most = 2 * tol * (3 * objective.corpus.n_items + objective.corpus.n_items)
    assert certified.gradient_error <= most
    certified.refine()
    assert certified(w, found) == loss
    assert np.array_equal(found, exact)
    assert certified.narrow == 0
    assert certified.gradient_error < 1e-6


def test_some_sequences_go_in_float64_where_tol_is_small(rng: np.random.Generator) -> None:
    objective = objective_of(data_of(rng, 60))
    w = rng.normal(size=objective.n_weights)
    certified = CertifiedObjective(objective, 4e-5)
    exact, found = np.empty_like(w), np.empty_like(w)
    objective(w, exact)
    certified(w, found)
    assert 0 < certified.narrow < objective.corpus.n_sequences
    assert 0.0 < np.linalg.norm(found - exact) <= certified.gradient_error


@pytest.mark.parametrize("tol", [1e-2, 4e-5])
def test_threads_do_not_show(tol: float, rng: np.random.Generator) -> None:
    data = data_of(rng, 200)
    w = rng.normal(size=objective_of(data).n_weights)
    seen = []
    for threads in (1, 2, 3, 8):
        gradient = np.empty_like(w)
        certified = CertifiedObjective(objective_of(data, threads), tol)
        seen.append((certified(w, gradient), certified.gradient_error, gradient.tobytes()))
    assert len(set(seen)) == 1


def trained(seqs: list[tuple[list, list]], **options: object) -> tuple[Trainer, bytes]:
    params = {"c2": 0.05, "epsilon": 1e-4, "delta": 1e-7, "feature.possible_transitions": True}
    trainer = Trainer(params=params, verbose=False, **options)
    for x, y in seqs:
        trainer.append(x, y)
    return trainer, trainer.train_inmemory()


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
def test_training_ends_where_exact_training_does(tol: float, rng: np.random.Generator) -> None:
    seqs = sentences(rng, 80)
    exact, _ = trained(seqs)
    certified, model = trained(seqs, tol=tol)
    _, other = trained(seqs, tol=tol, threads=3)
    assert model == other
    assert exact.reason in ("converged", "delta")
    assert certified.reason in ("converged", "delta")
    log, wanted = certified.logparser, exact.logparser
    assert log is not None
    assert wanted is not None
    assert log.last_iteration["loss"] == pytest.approx(wanted.last_iteration["loss"], rel=1e-5)
    bounds = [it["gradient_error"] for it in log.iterations]
    assert "gradient_error" not in wanted.last_iteration
    assert any("tol: " in line for line in log.log)
    # The gradients that decide the end are exact.
    assert bounds[-1] < 1e-6
    if tol >= 1e-3:
        assert bounds[0] > 1e-3


@pytest.mark.parametrize("labels", [10, 60])
@pytest.mark.parametrize(
    "params", [{}, {"delta": 1e-3}, {"period": 3}, {"period": 0, "epsilon": 1e-3}]
)
def test_as_many_iterations_as_without(
    labels: int, params: dict[str, float], rng: np.random.Generator
) -> None:
    """Losses of before are still compared when the function has become exact."""

    def run(tol: float | None) -> tuple[Trainer, int, bytes]:
        trainer = Trainer("lbfgs", {"c2": 0.1, **params}, verbose=False, tol=tol)
        for y in golden:
            words = [f"w{(7 * label + word) % 200}" for label, word in y]
            trainer.append([[word] for word in words], [f"L{label}" for label, _ in y])
        iterations: list[int] = []
        model = trainer.train_inmemory(callback=lambda p: iterations.append(p.number))
        return trainer, len(iterations), model

    sizes = rng.integers(1, 12, size=150)
    golden = [np.column_stack([rng.integers(labels, size=n), rng.integers(30, size=n)])
              for n in sizes]  # fmt: skip
    plain, wanted, model = run(None)
    for tol in (1e-1, 1e-5):
        trainer, iterations, found = run(tol)
        assert (trainer.reason, iterations) == (plain.reason, wanted), tol
        log = trainer.logparser
        assert log is not None
        narrow = any(it["gradient_error"] > 1e-6 for it in log.iterations)
        assert narrow == (labels == 60 and tol == 1e-1)
        assert (found == model) or narrow
        assert all(it["gradient_error"] > 0.0 for it in log.iterations)


def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    seqs = sentences(rng, 60)
    _, whole = trained(seqs, tol=1e-3)
    for stop in (3, 12, 25):
        path = tmp_path / f"{stop}.state"
        for last in (stop, None):
            params = {"c2": 0.05, "epsilon": 1e-4, "delta": 1e-7}
            params["feature.possible_transitions"] = True
            trainer = Trainer(params=params, verbose=False, tol=1e-3)
            for x, y in seqs:
                trainer.append(x, y)
            if last is not None:
                trainer.set("max_iterations", last)
            found = trainer.train_inmemory(checkpoint=path, checkpoint_every=1)
        assert found == whole


def test_few_labels_are_exact() -> None:
    trainer = Trainer(params={"max_iterations": 3}, verbose=False, tol=0.1)
    trainer.append([["a"], ["b"]], ["X", "Y"])
    trainer.train_inmemory()
    assert trainer.logparser is not None
    assert all(it["gradient_error"] < 1e-6 for it in trainer.logparser.iterations)


def test_what_cannot_be_asked() -> None:
    with pytest.raises(ValueError, match=r"tol must be a number in \(0, 1\], got 2"):
        Trainer(tol=2)
    trainer = Trainer("ap", verbose=False, tol=0.1)
    trainer.append([["a"]], ["X"])
    with pytest.raises(ValueError, match="tol is for the algorithm 'lbfgs', not for 'averaged-"):
        trainer.train_inmemory()
    trainer = Trainer(verbose=False, tol=0.0)
    trainer.append([["a"], ["b"]], ["X", "Y"])
    with pytest.raises(ValueError, match=r"tol=0 is below .* what rounding leaves to prove"):
        trainer.train_inmemory()


def test_the_estimator_takes_it(rng: np.random.Generator) -> None:
    seqs = sentences(rng, 30, 6)
    X, y = [x for x, _ in seqs], [y for _, y in seqs]
    crf = CRF(max_iterations=4, all_possible_transitions=True, tol=1e-2).fit(X, y)
    assert crf.get_params()["tol"] == 1e-2
    assert crf.training_log_.last_iteration["gradient_error"] > 0.0


class Noisy:
    """A bowl with an error, until it is refined."""

    exact = False

    def __init__(self, error: float, rng: np.random.Generator) -> None:
        self.loss_error, self.gradient_error, self.rng = error, error, rng
        self.error, self.refined_at = error, -1
        self.calls = 0

    def refine(self) -> None:
        self.exact, self.refined_at = True, self.calls
        self.loss_error = self.gradient_error = 0.0

    def __call__(self, x: np.ndarray, gradient: np.ndarray) -> float:
        self.calls += 1
        gradient[:] = x - np.arange(len(x))
        value = 0.5 * float(((x - np.arange(len(x))) ** 2).sum())
        if self.exact:
            return value
        noise = self.rng.normal(size=len(x))
        gradient += self.error * noise / np.linalg.norm(noise)
        return value + self.error * float(self.rng.uniform(-1, 1))


@pytest.mark.parametrize("linesearch", ["MoreThuente", "Backtracking", "StrongBacktracking"])
@pytest.mark.parametrize("error", [1e-6, 1e-2, 10.0])
@pytest.mark.parametrize("c1", [0.0, 0.1])
def test_no_line_search_fails_because_of_an_error(
    linesearch: str, error: float, c1: float, rng: np.random.Generator
) -> None:
    bowl = Noisy(error, rng)
    search = Lbfgs(
        bowl, np.zeros(6), epsilon=1e-7, delta=0.0, linesearch=linesearch, c1=c1, bounded=bowl
    )
    list(search)
    assert search.reason == "converged"
    assert bowl.exact
    np.testing.assert_allclose(search.x, np.maximum(np.arange(6) - c1, 0.0), atol=1e-5)


def test_many_labels_take_no_table(rng: np.random.Generator) -> None:
    """Transitions that few pairs have are read from their list: the same as by a dense model."""
    data = Dataset()
    for _ in range(60):
        y = rng.integers(120, size=rng.integers(1, 9))
        data.append([[f"a{v}"] for v in y], [f"L{v}" for v in y], 0)
    objective = objective_of(data, every=False)
    w = rng.normal(size=objective.n_weights)
    unary = np.concatenate([objective.scores(i, w) for i in range(60)])
    chain = vs.Chain(unary, objective.transitions(w), np.diff(objective.corpus.offset))
    gold = objective.corpus.gold
    expected = float(-vs.log_prob(chain, gold).sum())
    assert objective(w) == pytest.approx(expected, rel=1e-12)
    assert np.array_equal(objective.decode(w), vs.decode(chain).states)


def one_corpus(items: list[tuple[dict[str, float], str]]) -> Objective:
    data = Dataset()
    for x, y in items:
        data.append([x], [y], 0)
    return objective_of(data)


def test_what_sums_of_the_gradient_round_is_in_its_bound() -> None:
    """An attribute of every item: nothing is compensated, and a third is no binary number."""
    n = 100_000
    objective = one_corpus([({"bias": 1.0}, "BC"[i] if i < 2 else "A") for i in range(n)])
    certified = CertifiedObjective(objective, 1e-3)
    gradient = np.empty(objective.n_weights)
    certified(np.zeros(objective.n_weights), gradient)
    exact = n / 3 - np.array([1, 1, n - 2])  # labels by their first item
    assert np.linalg.norm(gradient[:3] - exact) <= certified.gradient_error


@pytest.mark.parametrize("seed", range(5))
def test_scores_that_cancel_are_in_the_bound(seed: int) -> None:
    objective = one_corpus([({"a": 1e6, "b": 1e6}, "A"), ({"a": 1e-6, "b": 1e-6}, "B")])
    certified = CertifiedObjective(objective, 1e-3)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        w = rng.normal(size=objective.n_weights)
        w[2:4] = -w[:2] + 1e-6 * rng.normal(size=2)
        gradient = np.empty_like(w)
        certified(w, gradient)
        exact = np.zeros(4, np.longdouble)
        for value, gold in ((1e6, 0), (1e-6, 1)):
            u = np.longdouble(value) * (w[:2].astype(np.longdouble) + w[2:4])
            p = np.exp(u - u.max())
            p = p / p.sum() - np.eye(2)[gold]
            exact += np.longdouble(value) * np.concatenate([p, p])
        assert np.sqrt(((gradient[:4] - exact) ** 2).sum()) <= certified.gradient_error


def test_a_state_has_an_error_for_each_loss(rng: np.random.Generator) -> None:
    def search() -> Lbfgs:
        bowl = Noisy(1e-6, rng)
        return Lbfgs(bowl, np.zeros(6), max_iterations=1, bounded=bowl)

    first = search()
    list(first)
    state = first.state()
    other = search()
    with pytest.raises(ValueError, match="'loss_errors' must have 2 numbers, not 1"):
        other.restore({**state, "loss_errors": state["loss_errors"][:1]})
    other.restore(state)
    np.testing.assert_array_equal(other.x, first.x)
