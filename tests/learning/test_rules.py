"""Rules of online learning: what they refuse, and losses of models that are not chains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from valuesparse.learning import (
    Aggressive,
    Arow,
    Online,
    PassiveAggressive,
    Perceptron,
    Together,
    loss_and_gradient,
)


class Choices:
    """Examples whose structure is one of the parts, or none where `gold` is -1."""

    def __init__(self, gold: list[int], n_parts: int = 3, log_z: float | None = None) -> None:
        self.answers, self.n_weights, self.log_z = gold, n_parts, log_z

    def __len__(self) -> int:
        return len(self.answers)

    def scores(self, i: int, weights: np.ndarray) -> np.ndarray:
        return weights.copy()

    def gold(self, i: int) -> np.ndarray:
        return (np.arange(self.n_weights) == self.answers[i]).astype(float)

    def cost(self, i: int) -> tuple[np.ndarray, float]:
        z = self.gold(i)
        return 1.0 - 2.0 * z, float(z.sum())

    def marginals(self, i: int, potentials: np.ndarray) -> tuple[float, np.ndarray]:
        log_z = float(np.logaddexp.reduce(potentials)) if self.log_z is None else self.log_z
        return log_z, np.exp(potentials - log_z)

    def best(self, i: int, potentials: np.ndarray) -> np.ndarray:
        return (np.arange(self.n_weights) == potentials.argmax()).astype(float)

    def gradient(self, i: int, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.n_weights), residual


@pytest.mark.parametrize("log_z", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_not_taken_for_0(log_z: float) -> None:
    model = Choices([0, 1, 2], log_z=log_z)
    with pytest.raises(ValueError, match=f"^example 1: the loss is {log_z}"):
        loss_and_gradient(model, 1, np.zeros(3), 1.0, 0.0)
    learner = Online(model, Aggressive(), batch=2)
    with pytest.raises(ValueError, match=r"^examples \[\d, \d\]: the loss is "):
        list(learner)
    assert learner.reason is None


def test_losses_are_those_of_parameters_in_range() -> None:
    model = Choices([0])
    for beta, gamma, words in (
        (0.0, 0.0, "beta must be above 0 "), (-1.0, 0.0, "beta must be above 0 "),
        (math.nan, 0.0, "beta must be above 0 "), (1.0, -1.0, "gamma must be at least 0"),
        (1.0, math.inf, "gamma must be at least 0"), (1.0, math.nan, "gamma must be at least 0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            loss_and_gradient(model, 0, np.zeros(3), beta, gamma)


def test_the_loss_of_a_perceptron_is_the_sum_over_a_batch() -> None:
    model = Choices([0, 1, 2, 1])  # at weights of 0 the best is part 0
    assert next(iter(Online(model, Perceptron(), batch=4))).loss == 3.0
    assert Perceptron().update(Together(model, [1, 2]), 0, np.zeros(3)).loss == 2.0
    assert Perceptron().update(model, 1, np.zeros(3)).loss == 1.0


def test_where_no_part_is_right_a_perceptron_counts_the_wrong_ones() -> None:
    model = Choices([-1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Perceptron().update(model, 0, np.zeros(3)).loss == 1.0
        assert Perceptron().update(Together(model, [0, 1]), 0, np.zeros(3)).loss == 2.0


def test_variances_are_those_of_the_model() -> None:
    with pytest.raises(ValueError, match="Arow is for 2 weights, but the model has 3"):
        Online(Choices([0]), Arow(2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Aggressive(0.0), "beta must be above 0"),
        (lambda: Aggressive(1.0, -1.0), "gamma must be at least 0"),
        (lambda: Aggressive(1.0, 0.0, 0.0), "longest must be above 0"),
        (lambda: PassiveAggressive(3), "type must be 0, 1 or 2"),
        (lambda: PassiveAggressive(1, 0.0), "c must be above 0"),
        (lambda: Arow(3, variance=0.0), "variance must be above 0"),
    ],
)
def test_rules_refuse_what_makes_no_sense(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("made", [list, np.float32, lambda w: np.repeat(w, 2)[::2]])
def test_weights_set_before_a_pass_are_read_as_they_are(made: Callable[..., object]) -> None:
    def learnt(weights: object) -> list[float]:
        learner = Online(Choices([0, 1, 2, 1]), Perceptron(), epochs=3)
        learner.weights = weights  # type: ignore[assignment]
        for _ in learner:
            pass
        return learner.result().tolist()

    start = np.array([0.5, 0.0, 0.25])
    assert learnt(made(start)) == learnt(start.copy())
    fixed = start.copy()
    fixed.flags.writeable = False
    assert learnt(fixed) == learnt(start.copy())


def test_what_is_set_later_is_checked() -> None:
    learner = Online(Choices([0, 1, 2]), Perceptron())
    with pytest.raises(ValueError, match=r"weights must have shape \(3,\), not \(2,\)"):
        learner.weights = np.zeros(2)
    with pytest.raises(ValueError, match=r"weights\[1\] is nan; weights must be finite"):
        learner.weights = np.array([0.0, np.nan, 0.0])
    with pytest.raises(TypeError, match="weights must hold real numbers"):
        learner.weights = np.zeros(3, complex)
    with pytest.raises(ValueError, match="threads must be an integer >= 1"):
        learner.result(threads=0)
    learner.batch = -1
    with pytest.raises(ValueError, match="batch must be an integer >= 1, got -1"):
        list(learner)
