"""The family of losses against brute force, and Algorithm 1 of MSFXM10 step by step."""

from __future__ import annotations

import itertools
import math
import signal

import numpy as np
import pytest

from valuesparse.crf.training._data import Dataset
from valuesparse.crf.training._features import generate
from valuesparse.crf.training._objective import Objective
from valuesparse.crf.training._parts import ChainParts
from valuesparse.learning import (
    Aggressive,
    Arow,
    Online,
    PassiveAggressive,
    Perceptron,
    loss_and_gradient,
    supported,
)


def chains(
    seed: int, count: int = 5, every: bool = False, labels: str = "ABC", shortest: int = 1
) -> ChainParts:
    rng = np.random.default_rng(seed)
    data = Dataset()
    for label in labels:
        data.labels[label]
    for _ in range(count):
        y = rng.choice(list(labels), size=rng.integers(shortest, 5)).tolist()
        x = [{"b": 1.0, f"x{rng.integers(4)}": 1.0, f"y{label}": 0.5} for label in y]
        data.append(x, y, 0)
    corpus = data.corpus()
    features = generate(corpus, len(data.attributes), len(labels), 0.0, every, every)
    return ChainParts(Objective(corpus, features, 1))


def feature_vector(model: ChainParts, i: int, y: tuple[int, ...]) -> np.ndarray:
    """Return φ(x_i, y), one feature at a time."""
    corpus, features = model.objective.corpus, model.objective.features
    phi = np.zeros(model.n_weights)
    for t, label in enumerate(y):
        at = corpus.offset[i] + t
        for m in range(corpus.item[at], corpus.item[at + 1]):
            value = 1.0 if corpus.values is None else corpus.values[m]
            for f in range(features.first[corpus.ids[m]], features.first[corpus.ids[m] + 1]):
                phi[f] += value * (features.label[f] == label)
        if t:
            pair = (features.source == y[t - 1]) & (features.target == label)
            phi[len(features.label) :] += pair
    return phi


def brute_force(
    model: ChainParts, i: int, theta: np.ndarray, beta: float, gamma: float
) -> tuple[float, np.ndarray]:
    gold = tuple(model.labels(i).tolist())
    every = list(itertools.product(range(3), repeat=len(gold)))
    phi = np.array([feature_vector(model, i, y) for y in every])
    wrong = np.array([sum(a != b for a, b in zip(y, gold, strict=True)) for y in every])
    difference = phi - feature_vector(model, i, gold)
    values = difference @ theta + gamma * wrong
    if math.isinf(beta):
        return values.max(), difference[values.argmax()]
    total = np.logaddexp.reduce(beta * values)
    return total / beta, np.exp(beta * values - total) @ difference


def dense(model: ChainParts, indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    assert len(set(indices.tolist())) == len(indices)
    full = np.zeros(model.n_weights)
    full[indices] = values
    return full


@pytest.mark.parametrize("beta", [0.3, 1.0, 3.0, 5.0, math.inf])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("every", [False, True])
def test_losses_and_gradients_are_those_of_enumeration(
    beta: float, gamma: float, every: bool
) -> None:
    model = chains(1, every=every)
    theta = np.random.default_rng(2).normal(size=model.n_weights)
    for i in range(len(model)):
        loss, indices, values = loss_and_gradient(model, i, theta, beta, gamma)
        expected, gradient = brute_force(model, i, theta, beta, gamma)
        assert loss == pytest.approx(expected, abs=1e-10)
        np.testing.assert_allclose(dense(model, indices, values), gradient, atol=1e-10)


def test_the_loss_of_crfs_is_the_objective_of_batch_training() -> None:
    model = chains(3, 20)
    theta = np.random.default_rng(4).normal(size=model.n_weights)
    gradient, total, loss = np.empty_like(theta), np.zeros_like(theta), 0.0
    whole = model.objective(theta, gradient)
    for i in range(len(model)):
        part, indices, values = loss_and_gradient(model, i, theta, 1.0, 0.0)
        loss += part
        total[indices] += values
    assert loss == pytest.approx(whole, rel=1e-12)
    np.testing.assert_allclose(total, gradient, atol=1e-10)


@pytest.mark.parametrize("beta", [1.0, math.inf])
@pytest.mark.parametrize("longest", [0.05, math.inf])
def test_algorithm_1_step_by_step(beta: float, longest: float) -> None:
    model = chains(5, 7)
    learner = Online(model, Aggressive(beta, 1.0, longest), epochs=3, seed=6)
    epochs = list(learner)
    # The same, dense and as printed.
    random = np.random.default_rng(6)
    theta, mean, losses = np.zeros(model.n_weights), np.zeros(model.n_weights), []
    for _ in range(3):
        sum_of_losses = 0.0
        for i in random.permutation(len(model)):
            mean += theta / (3 * len(model))
            loss, gradient = brute_force(model, int(i), theta, beta, 1.0)
            square = gradient @ gradient
            sum_of_losses += loss
            if square > 0 and loss > 0:
                theta = theta - min(longest, loss / square) * gradient
        losses.append(sum_of_losses)
    np.testing.assert_allclose(learner.weights, theta, atol=1e-9)
    np.testing.assert_allclose(learner.result(), mean, atol=1e-9)
    np.testing.assert_allclose([epoch.loss for epoch in epochs], losses, atol=1e-9)
    assert learner.reason == "max_iterations"


def test_a_full_step_meets_the_linearised_loss() -> None:
    model = chains(7)
    theta = np.random.default_rng(8).normal(size=model.n_weights)
    before, indices, _ = loss_and_gradient(model, 0, theta, math.inf, 1.0)
    update = Aggressive(math.inf, 1.0).update(model, 0, theta)
    theta[update.indices] += update.change
    _, gradient = brute_force(model, 0, theta * 0, math.inf, 0)
    assert before > 0
    # The structure that was wrong scores its cost less than the right one now.
    shifted = dense(model, update.indices, update.change)
    step = dense(model, indices, loss_and_gradient(model, 0, theta - shifted, math.inf, 1.0)[2])
    assert before + shifted @ step == pytest.approx(0.0, abs=1e-10)
    assert gradient.shape == theta.shape


def test_a_loss_of_zero_changes_nothing() -> None:
    model = chains(9)
    theta = np.zeros(model.n_weights)
    for i in range(len(model)):
        theta += 50 * feature_vector(model, i, tuple(model.labels(i).tolist()))
    right = [i for i in range(len(model))
             if brute_force(model, i, theta, math.inf, 0)[0] == 0]  # fmt: skip
    assert right
    for rule in (Aggressive(math.inf, 0.0), Perceptron(), PassiveAggressive(), Arow(len(theta))):
        said = rule.update(model, right[0], theta)
        assert said.loss == 0.0
        assert said.indices is None


def test_passive_aggressive_and_arow_reach_their_margins() -> None:
    model = chains(10)
    theta = np.random.default_rng(11).normal(size=model.n_weights)
    i = next(j for j in range(len(model)) if brute_force(model, j, theta, math.inf, 0)[0] > 0)
    _, difference = brute_force(model, i, theta, math.inf, 0)
    said = PassiveAggressive(0).update(model, i, theta)
    after = theta + dense(model, said.indices, said.change)
    wrong = said.loss - difference @ theta  # the root of the number of errors
    assert -(difference @ after) == pytest.approx(wrong)
    limited = PassiveAggressive(1, c=1e-3).update(model, i, theta)
    np.testing.assert_allclose(dense(model, limited.indices, limited.change), -1e-3 * difference)
    damped = PassiveAggressive(2, c=2.0).update(model, i, theta)
    step = said.loss / (difference @ difference + 0.25)
    np.testing.assert_allclose(dense(model, damped.indices, damped.change), -step * difference)

    rule = Arow(model.n_weights, variance=2.0, gamma=0.5)
    said = rule.update(model, i, theta)
    square = difference @ difference
    step = said.loss / (0.5 + 2.0 * square)
    np.testing.assert_allclose(dense(model, said.indices, said.change), -2 * step * difference)
    np.testing.assert_allclose(rule.variance, 1 / (0.5 + difference**2 / 0.5))


def test_supported_features_are_those_of_right_structures() -> None:
    model = chains(12, every=True)
    expected = np.zeros(model.n_weights, bool)
    for i in range(len(model)):
        expected |= feature_vector(model, i, tuple(model.labels(i).tolist())) != 0
    np.testing.assert_array_equal(supported(model), expected)
    assert 0 < expected.sum() < model.n_weights


def test_only_features_of_wrong_predictions_join_the_active_set() -> None:
    model = chains(13, 12, every=True)
    learner = Online(model, Aggressive(math.inf, 1.0), epochs=4, seed=1)
    for epoch in learner:
        assert epoch.active == learner.touched.sum()
    assert (learner.weights[~learner.touched] == 0).all()
    assert (learner.touched & ~supported(model)).any()
    assert learner.touched.sum() < model.n_weights


@pytest.mark.parametrize("kind", ["aggressive", "arow"])
def test_a_restored_learner_goes_on_as_if_never_interrupted(kind: str) -> None:
    model = chains(14, 9)

    def make() -> Online:
        rule = Aggressive(1.0, 1.0) if kind == "aggressive" else Arow(model.n_weights)
        return Online(model, rule, epochs=5, seed=3)

    whole, first, second = make(), make(), make()
    for _ in whole:
        pass
    for epoch in first:
        if epoch.number == 2:
            break
    state = first.state()
    for learner in (first, second, make()):  # a state is the same, whoever went on from it
        if learner is not first:
            learner.restore(state)
        for _ in learner:
            pass
        np.testing.assert_array_equal(learner.weights, whole.weights)
        np.testing.assert_array_equal(learner.result(), whole.result())


def test_a_state_of_another_learner_is_refused_and_changes_nothing() -> None:
    model = chains(14, 9)
    n = model.n_weights

    def make() -> Online:
        return Online(model, Arow(n), epochs=3, seed=3)

    first, second, whole = make(), make(), make()
    next(iter(first))
    state = first.state()
    odd = np.zeros(n, np.uint8)
    odd[0] = 2
    for change, match in (
        ({"weights": np.zeros(1)}, "'weights' must have the shape"),
        ({"late": np.zeros(n, np.float32)}, "'late' must be float64"),
        ({"touched": odd.view(bool)}, "'touched' has bytes above 1"),
        ({"rule_variance": np.full(n, -1.0)}, "'rule_variance' has numbers outside of 0 to 1"),
        ({"done": 2}, "'time' must be 2 × 9 batches, not 9"),
        ({"random": np.zeros(6, np.uint64)}, "'random' is not the state of a generator"),
    ):
        with pytest.raises(ValueError, match=match):
            second.restore(state | change)
    assert list(second) == list(whole)
    np.testing.assert_array_equal(second.weights, whole.weights)


@pytest.mark.parametrize("closing", [False, True])
def test_the_mean_counts_the_last_weights_if_asked_to(closing: bool) -> None:
    model = chains(15, 1)  # one update in each pass
    learner = Online(model, Aggressive(), epochs=4, closing=closing)
    seen = [np.zeros(model.n_weights)]
    for epoch in learner:
        assert epoch.updates == 1
        seen.append(learner.weights.copy())
    mean = np.mean(seen if closing else seen[:-1], axis=0)
    np.testing.assert_allclose(learner.result(), mean, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("swept", [False, True])
def test_the_mean_leaves_the_first_passes_out_if_asked_to(swept: bool) -> None:
    model = chains(15, 1)  # one update in each pass
    model = model if swept else Walked(model.objective)
    how = {"epochs": 5, "average_after": 2}
    learner = Online(model, Aggressive(), **how)
    seen, states = [np.zeros(model.n_weights)], []
    for epoch in learner:
        seen.append(learner.weights.copy())
        states.append(learner.state())
        counted = seen[2:-1] if epoch.number > 2 else seen[:-1]
        mean = np.mean(counted, axis=0)
        np.testing.assert_allclose(learner.result(), mean, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(learner.result(threads=3), learner.result())
    for state in states:
        again = Online(model, Aggressive(), **how)
        again.restore(state)
        for _ in again:
            pass
        np.testing.assert_array_equal(again.result(), learner.result())
    with pytest.raises(ValueError, match="seed must be an integer >= 0, got -1"):
        Online(model, Aggressive(), seed=-1)
    with pytest.raises(ValueError, match="average_after must be an integer >= 0"):
        Online(model, Aggressive(), average_after=-1)


def test_a_strict_learner_stops_below_epsilon_only() -> None:
    model = chains(15, 1)
    losses = [epoch.loss for epoch in Online(model, Perceptron(), epochs=30)]
    assert losses[-1] == 0.0 < losses[-2]  # one sequence is soon learnt
    assert len(losses) < 30
    assert len(list(Online(model, Perceptron(), epochs=30, strict=True))) == 30
    above = np.nextafter(losses[0], 2.0)
    for epsilon, strict, count in ((losses[0], False, 1), (losses[0], True, 2), (above, True, 1)):
        done = list(Online(model, Perceptron(), epochs=2, epsilon=epsilon, strict=strict))
        assert len(done) == count


class Walked(ChainParts):
    """The same chains, example by example in Python."""

    sweep = None


RULES = {
    "perceptron": lambda n: Perceptron(),
    **{
        f"pa {kind} {sensitive}": lambda n, kind=kind, sensitive=sensitive: PassiveAggressive(
            kind, 0.4, sensitive
        )
        for kind in range(3)
        for sensitive in (False, True)
    },
    "arow": lambda n: Arow(n, 0.7, 2.0),
    **{
        f"aggressive {beta} {gamma} {longest}": lambda n, v=(beta, gamma, longest): Aggressive(*v)
        for beta in (0.5, 1.0, math.inf)
        for gamma in (0.0, 1.5)
        for longest in (0.1, math.inf)
    },
}


@pytest.mark.simd
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("labels", ["A", "ABC", "ABCDEFGHIJK"])
def test_the_engine_learns_what_the_rules_say(rule: str, labels: str) -> None:
    for every in (False, True):
        native = chains(21, 30, every, labels, 0)
        walked = Walked(native.objective)
        learners = [
            Online(model, RULES[rule](model.n_weights), epochs=3, seed=4)
            for model in (native, walked)
        ]
        for ours, theirs in zip(*learners, strict=True):
            assert ours.number == theirs.number
            if "inf" not in rule:  # else a step ends where the loss is 0, up to rounding
                assert ours.updates == theirs.updates
            assert ours.active == theirs.active
            assert ours.loss == pytest.approx(theirs.loss, rel=1e-9, abs=1e-9)
        a, b = learners
        np.testing.assert_allclose(a.weights, b.weights, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(a.result(), b.result(), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(a.touched, b.touched)
        if rule == "arow":
            np.testing.assert_allclose(a.rule.variance, b.rule.variance, rtol=1e-9)


def test_passes_are_taken_in_the_engine_unless_a_rule_is_of_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mine(Perceptron):
        pass

    taken: list[type] = []
    update = Perceptron.update

    def noted(self, model, i, weights):
        taken.append(type(self))
        return update(self, model, i, weights)

    monkeypatch.setattr(Perceptron, "update", noted)
    model = chains(22)
    for _ in Online(model, Perceptron(), epochs=1):
        pass
    assert not taken
    for _ in Online(model, Mine(), epochs=1):
        pass
    assert taken == [Mine] * len(model)


def test_scores_too_large_to_learn_from_name_the_sequence() -> None:
    data = Dataset()
    data.append([{"a": 1.0}], ["A"], 0)
    data.append([], [], 0)
    data.append([{"a": 1.0}, {"a": 1e200}], ["A", "B"], 0)
    corpus = data.corpus()
    model = ChainParts(Objective(corpus, generate(corpus, 1, 2, 0.0, True, True), 1))
    with pytest.raises(ValueError, match=r"^sequence 2 of those to train on: scores too large for"):
        for _ in Online(model, Perceptron(), epochs=5, seed=0):
            pass


@pytest.mark.skipif(
    not hasattr(signal, "SIGALRM"), reason="interrupts by SIGALRM, which Windows lacks"
)
@pytest.mark.parametrize("which", ["learn", "descend"])
def test_a_pass_can_be_interrupted(which: str) -> None:
    class Enough(Exception):
        pass

    def stop(*_: object) -> None:
        raise Enough

    model = chains(26, 20)
    objective, n = model.objective, model.n_weights
    order = np.zeros(100_000_000, np.int64)  # minutes
    state = np.zeros(n), np.zeros(n), np.zeros(n, bool)
    passes = {
        "learn": lambda: model.sweep(Perceptron(), order, *state, 0, 1),
        "descend": lambda: objective.descend(order, np.zeros(n), eta=1e-6),
    }
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Enough):
            passes[which]()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert objective.descend(np.arange(3), np.zeros(n), step=False)[0] > 0  # nothing is locked


@pytest.mark.simd
@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
def test_descent_takes_gradient_steps(decay: float) -> None:
    for labels in ("A", "ABC", "ABCDEFGHIJK"):
        model = chains(23, 12, False, labels, 0)
        order = np.random.default_rng(1).permutation(len(model))
        start = np.random.default_rng(2).normal(size=model.n_weights)
        theta, total, eta, t0 = start.copy(), 0.0, 0.3, 20.0
        for t, i in enumerate(order.tolist()):
            rate = 1 / (decay * (t0 + 3 + t)) if decay else eta
            theta *= 1 - rate * decay
            loss, indices, values = loss_and_gradient(model, i, theta, 1.0, 0.0)
            total += loss
            theta[indices] -= rate * values
        vector = start / 0.25
        found, factor, time = model.objective.descend(order, vector, 0.25, 3, decay, t0, eta)
        assert time == 3 + len(order)
        assert found == pytest.approx(total, rel=1e-10)
        np.testing.assert_allclose(factor * vector, theta, rtol=1e-9, atol=1e-10)
        before = vector.copy()
        only, *unchanged = model.objective.descend(order, vector, step=False)
        assert unchanged == [1.0, 0]
        expected = sum(loss_and_gradient(model, i, vector, 1.0, 0.0)[0] for i in range(len(model)))
        assert only == pytest.approx(expected, rel=1e-10)
        np.testing.assert_array_equal(vector, before)


def test_a_small_factor_is_multiplied_out() -> None:
    model = chains(24, 3)
    vector = np.full(model.n_weights, 2.0)
    order = np.arange(3)
    _, factor, _ = model.objective.descend(order, vector, 1e-12, 0, 0.0, 0.0, 0.1)
    assert factor == 1.0
    theta = np.full(model.n_weights, 2e-12)
    for i in range(3):
        _, indices, values = loss_and_gradient(model, i, theta, 1.0, 0.0)
        theta[indices] -= 0.1 * values
    np.testing.assert_allclose(vector, theta, rtol=1e-9)


def test_a_restored_learner_is_not_changed_by_the_state_it_came_from() -> None:
    """The engine writes into arrays: they must be the learner's own."""
    model = chains(25, 6)
    first = Online(model, Arow(model.n_weights), epochs=4)
    for epoch in first:
        if epoch.number == 2:
            break
    state = {key: np.array(value) for key, value in first.state().items()}
    kept = {key: value.copy() for key, value in state.items()}
    second = Online(model, Arow(model.n_weights), epochs=4)
    second.restore(state)
    for _ in second:
        pass
    for key, value in kept.items():
        np.testing.assert_array_equal(state[key], value)


@pytest.mark.parametrize("kind", [ChainParts, Walked])
def test_a_pass_that_was_cut_off_is_not_gone_on_from(kind: type[ChainParts]) -> None:
    model, errors = kind(chains(27, 90).objective), []

    def make() -> Online:
        return Online(model, Arow(model.n_weights), epochs=4, strict=True, progress=progress)

    def progress(*_: object) -> None:
        if errors:
            raise errors.pop()

    learner, whole = make(), make()
    epochs = list(whole)
    assert [next(iter(learner)), next(iter(learner))] == epochs[:2]
    state = learner.state()
    errors.append(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        list(learner)
    for go_on in (lambda: list(learner), learner.state, learner.result):
        with pytest.raises(ValueError, match=r"pass 3 was cut off by an .*restore a state"):
            go_on()
    learner.restore(state)
    assert list(learner) == epochs[2:]
    np.testing.assert_array_equal(learner.result(), whole.result())
