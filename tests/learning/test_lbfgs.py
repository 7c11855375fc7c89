"""L-BFGS and OWL-QN against scipy, closed forms and themselves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from valuesparse.learning.lbfgs import LINE_SEARCHES, Iteration, Lbfgs


def rosenbrock(x: np.ndarray, gradient: np.ndarray) -> float:
    gradient[:] = rosen_der(x)
    return float(rosen(x))


def logistic(seed: int, n: int = 40, d: int = 12) -> Callable[[np.ndarray, np.ndarray], float]:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], size=n)

    def function(w: np.ndarray, gradient: np.ndarray) -> float:
        margin = y * (x @ w)
        gradient[:] = -(x.T @ (y / (1 + np.exp(margin)))) + 0.2 * w
        return float(np.logaddexp(0, -margin).sum() + 0.1 * w @ w)

    return function


@pytest.mark.smoke
@pytest.mark.parametrize("linesearch", LINE_SEARCHES)
@pytest.mark.parametrize("memory", [1, 6])
def test_the_minimum_is_found(linesearch: str, memory: int) -> None:
    search = Lbfgs(
        rosenbrock, np.full(10, -1.2), linesearch=linesearch, memory=memory, delta=0, epsilon=1e-9
    )
    losses = [iteration.loss for iteration in search]
    assert search.reason == "converged"
    np.testing.assert_allclose(search.x, 1.0, atol=1e-6)
    assert all(b <= a for a, b in itertools.pairwise(losses))


@pytest.mark.parametrize("seed", range(5))
def test_optimum_agrees_with_scipy(seed: int) -> None:
    function = logistic(seed)
    search = Lbfgs(function, np.zeros(12), delta=0, epsilon=1e-8)
    for _ in search:
        pass

    def both(w: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty_like(w)
        return function(w, gradient), gradient

    theirs = minimize(both, np.zeros(12), jac=True, method="L-BFGS-B", tol=1e-14)
    assert search.loss == pytest.approx(theirs.fun, rel=1e-9)
    np.testing.assert_allclose(search.x, theirs.x, atol=1e-5)


def test_l1_of_a_parabola_is_soft_thresholding() -> None:
    rng = np.random.default_rng(0)
    target, scale = rng.normal(size=50) * 3, rng.uniform(0.5, 4, size=50)

    def function(x: np.ndarray, gradient: np.ndarray) -> float:
        gradient[:] = scale * (x - target)
        return float((0.5 * scale * (x - target) ** 2).sum())

    search = Lbfgs(function, np.zeros(50), c1=2.0, delta=0, epsilon=1e-10)
    for _ in search:
        pass
    expected = np.sign(target) * np.maximum(np.abs(target) - 2.0 / scale, 0)
    np.testing.assert_allclose(search.x, expected, atol=1e-8)
    assert ((search.x == 0) == (expected == 0)).all()


def test_the_memory_may_be_empty_and_steepest_descent_remains() -> None:
    search = Lbfgs(logistic(1), np.zeros(12), memory=0, delta=0, epsilon=1e-4)
    for _ in search:
        pass
    assert search.reason == "converged"


def run(search: Lbfgs) -> list[Iteration]:
    return list(search)


@pytest.mark.parametrize("c1", [0.0, 0.3])
@pytest.mark.parametrize("cut", [1, 3, 11])
def test_a_restored_search_goes_on_as_if_never_interrupted(c1: float, cut: int) -> None:
    options: dict[str, Any] = {"c1": c1, "memory": 4, "period": 5, "delta": 1e-9}
    whole = run(Lbfgs(logistic(2), np.zeros(12), **options))
    assert len(whole) > cut
    first = Lbfgs(logistic(2), np.zeros(12), **options)
    for iteration in first:
        if iteration.number == cut:
            break
    state = {key: np.array(value) for key, value in first.state().items()}
    second = Lbfgs(logistic(2), np.zeros(12), **options)
    second.restore(state)
    assert run(second) == whole[cut:]


def test_a_state_of_another_search_is_refused_and_changes_nothing() -> None:
    first, second = Lbfgs(logistic(2), np.zeros(12)), Lbfgs(logistic(2), np.zeros(12))
    for iteration in first:
        if iteration.number == 3:
            break
    state = first.state()
    for change, match in (
        ({"x": np.zeros(11)}, r"'x' must have the shape \(12\), not \(11,\)"),
        ({"x": np.zeros(12, np.float32)}, "'x' must be float64, not float32"),
        ({"gradient": np.full(12, np.nan)}, "'gradient' has numbers that are not finite"),
        ({"pairs": -1}, "'pairs' has numbers outside of 0 to inf"),
        ({"pairs": 0}, "'s' must have 0 rows, not 3"),
        ({"past": np.zeros(11)}, r"'past' must have the shape \(1 to 10\), not \(11,\)"),
        ({"more": 1}, "'more' does not belong there"),
    ):
        with pytest.raises(ValueError, match=match):
            second.restore(state | change)
    with pytest.raises(ValueError, match="'loss' is missing"):
        second.restore({name: state[name] for name in state if name != "loss"})
    assert run(second) == run(Lbfgs(logistic(2), np.zeros(12)))


def test_arrays_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"diagonal must have shape \(12,\), not \(3,\)"):
        Lbfgs(logistic(2), np.zeros(12), diagonal=np.ones(3))
    with pytest.raises(ValueError, match="x must have one dimension, not 2"):
        Lbfgs(logistic(2), np.zeros((3, 4)))


def test_threads_never_show() -> None:
    rng = np.random.default_rng(3)
    n = 50_000  # several pieces of a sum
    scale, target = rng.uniform(0.1, 10, size=n), rng.normal(size=n)

    def function(x: np.ndarray, gradient: np.ndarray) -> float:
        gradient[:] = scale * (x - target)
        return math.fsum((0.5 * scale * (x - target) ** 2).tolist())

    points = []
    for threads in (1, 2, 3, 8):
        search = Lbfgs(function, np.zeros(n), threads=threads, max_iterations=8)
        run(search)
        points.append(search.x)
    for x in points[1:]:
        np.testing.assert_array_equal(x, points[0])


def test_points_out_of_reach_are_stepped_back_from() -> None:
    def function(x: np.ndarray, gradient: np.ndarray) -> float:
        if (np.abs(x) > 1.5).any():
            return math.inf
        gradient[:] = x - 1.4
        return float(0.5 * ((x - 1.4) ** 2).sum())

    search = Lbfgs(function, np.zeros(1), epsilon=1e-9)
    run(search)
    assert search.x == pytest.approx([1.4], abs=1e-6)


def test_each_reason_is_told() -> None:
    search = Lbfgs(rosenbrock, np.full(4, -1.0), max_iterations=3)
    assert len(run(search)) == 3
    assert search.reason == "max_iterations"
    search = Lbfgs(rosenbrock, np.full(4, -1.0), period=2, delta=0.5)
    run(search)
    assert search.reason == "delta"
    assert run(Lbfgs(rosenbrock, np.ones(4))) == []

    def wrong(x: np.ndarray, gradient: np.ndarray) -> float:
        gradient[:] = -1.0  # the function rises where the gradient says that it falls
        return float(x.sum())

    search = Lbfgs(wrong, np.zeros(3))
    assert run(search) == []
    assert search.reason == "linesearch"
    assert (search.x == 0).all()
    with pytest.raises(ValueError, match="linesearch must be one of"):
        Lbfgs(rosenbrock, np.zeros(2), linesearch="Newton")
    with pytest.raises(ValueError, match="not finite where the search begins"):
        run(Lbfgs(lambda x, gradient: math.inf, np.zeros(2)))

    def unknown(x: np.ndarray, gradient: np.ndarray) -> float:
        gradient[:] = [0.0, math.nan]
        return 0.0

    with pytest.raises(ValueError, match=r"gradient\[1\] is nan where the search begins"):
        run(Lbfgs(unknown, np.zeros(2)))


def bowl(x: np.ndarray, gradient: np.ndarray) -> float:
    gradient[:] = 2 * (x - 3.0)
    return float(((x - 3.0) ** 2).sum())


@pytest.mark.parametrize("fault", [1, 2, 3])
def test_a_search_that_was_cut_off_takes_the_evaluation_again(fault: int) -> None:
    count = 0

    def cut_off(x: np.ndarray, gradient: np.ndarray) -> float:
        nonlocal count
        count += 1
        gradient[:] = np.nan
        if count == fault:
            raise KeyboardInterrupt
        return bowl(x, gradient)

    search, whole = Lbfgs(cut_off, np.zeros(3)), Lbfgs(bowl, np.zeros(3))
    done: list[Iteration] = []
    with pytest.raises(KeyboardInterrupt):
        done.extend(search)
    assert run(search) == run(whole)[len(done) :]
    np.testing.assert_array_equal(search.x, whole.x)
    assert search.reason == whole.reason
    never = Lbfgs(lambda x, gradient: math.inf, np.zeros(2))
    for _ in range(2):
        with pytest.raises(ValueError, match="not finite where the search begins"):
            run(never)
    assert never.reason is None


@pytest.mark.parametrize("linesearch", LINE_SEARCHES)
@pytest.mark.parametrize("c1", [0.0, 0.1])
def test_a_gradient_that_becomes_nan_is_told(linesearch: str, c1: float) -> None:
    def lost(x: np.ndarray, gradient: np.ndarray) -> float:
        value = bowl(x, gradient)
        if abs(x[1]) > 1.0:
            gradient[1] = math.nan
        return value

    search = Lbfgs(lost, np.zeros(3), linesearch=linesearch, c1=c1)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^gradient\[1\] is nan in iteration \d$"):
            run(search)
    assert search.reason is None
    assert np.isfinite(search.loss)


@pytest.mark.parametrize("c1", [0.0, 0.1])
def test_a_function_without_a_least_value_is_told(c1: float) -> None:
    def bottomless(x: np.ndarray, gradient: np.ndarray) -> float:
        value = bowl(x, gradient)
        return -math.inf if x[0] > 1.0 else value

    search = Lbfgs(bottomless, np.zeros(3), linesearch="Backtracking", c1=c1)
    with pytest.raises(ValueError, match=r"^the function is -inf in iteration \d$"):
        run(search)


@pytest.mark.parametrize("linesearch", LINE_SEARCHES)
def test_a_trial_beyond_a_pole_is_a_step_that_is_too_long(linesearch: str) -> None:
    """A gradient need not be finite where the value alone refuses the point."""

    def barrier(x: np.ndarray, gradient: np.ndarray) -> float:
        inside = np.maximum(x, 0.0)
        with np.errstate(divide="ignore"):
            gradient[:] = 3.0 - 1.0 / inside
        return float(3.0 * x.sum() - np.log(inside + 1e-300).sum())

    search = Lbfgs(barrier, np.array([1.2, 0.9, 0.05]), linesearch=linesearch)
    run(search)
    assert search.reason == "converged"
    np.testing.assert_allclose(search.x, 1.0 / 3.0, atol=1e-4)


def test_memory_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(MemoryError, match=r"memory = 1000000000000000: so many pairs of 9000"):
        Lbfgs(rosenbrock, np.zeros(9000), memory=10**15)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"c1": -1.0}, "c1 must be a number >= 0, got -1.0"),
        ({"c1": math.nan}, "c1 must be a number >= 0, got nan"),
        ({"c1": math.inf}, "c1 must be finite"),
        ({"epsilon": -1.0}, "epsilon must be a number >= 0"),
        ({"delta": math.nan}, "delta must be a number >= 0"),
        ({"memory": -1}, "memory must be an integer >= 0"),
        ({"period": 1.5}, "period must be an integer >= 0"),
        ({"max_iterations": 0}, "max_iterations must be an integer >= 1"),
        ({"max_iterations": 2.5}, "max_iterations must be an integer >= 1"),
        ({"threads": 0}, "threads must be an integer >= 1"),
    ],
)
def test_options_are_refused_by_name(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Lbfgs(rosenbrock, np.zeros(2), **options)


def test_a_guess_at_the_diagonal_saves_iterations() -> None:
    rng = np.random.default_rng(4)
    scale, target = 10.0 ** rng.uniform(-3, 3, size=60), rng.normal(size=60)

    def function(x: np.ndarray, gradient: np.ndarray) -> float:
        gradient[:] = scale * (x - target)
        return float((0.5 * scale * (x - target) ** 2).sum())

    counts = []
    for diagonal in (None, 1 / scale):
        search = Lbfgs(function, np.zeros(60), diagonal=diagonal, delta=0, epsilon=1e-6)
        counts.append(len(run(search)))
        np.testing.assert_allclose(search.x, target, atol=1e-2)
    assert counts[1] <= 3 < counts[0]


def test_a_state_stays_as_it_was() -> None:
    """What a search does afterwards changes no state that was taken before."""
    search = Lbfgs(rosenbrock, np.full(6, -1.2))
    steps = iter(search)
    for _ in range(8):
        next(steps)
    state = search.state()
    expected = [next(steps).loss for _ in range(6)]
    other = Lbfgs(rosenbrock, np.full(6, -1.2))
    other.restore(state)
    again = iter(other)
    assert [next(again).loss for _ in range(6)] == expected


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_diagonal_is_positive_and_finite(bad: float) -> None:
    with pytest.raises(ValueError, match=r"diagonal\[1\] is .*positive and finite"):
        Lbfgs(rosenbrock, np.zeros(3), diagonal=np.array([1.0, bad, 1.0]))


def stretched(x: Any, gradient: Any) -> float:
    scale = np.arange(1.0, 9.0) ** 3
    gradient[:] = 2.0 * scale * (x - 3.0)
    return float((scale * (x - 3.0) ** 2).sum())


@pytest.mark.parametrize("name", ["x", "diagonal"])
@pytest.mark.parametrize(
    "made",
    [list, np.float32, lambda v: np.repeat(v, 2)[::2], lambda v: np.broadcast_to(1, v.shape)],
)
def test_vectors_set_later_are_read_as_they_are(name: str, made: Callable[[Any], Any]) -> None:
    def ran(value: Any) -> tuple[str | None, int, float]:
        search = Lbfgs(stretched, np.zeros(8), diagonal=np.ones(8), max_iterations=30)
        setattr(search, name, value)
        for _ in search:
            pass
        return search.reason, search.iterations, search.loss

    assert ran(made(np.ones(8))) == ran(np.ones(8))


def test_vectors_set_later_are_checked() -> None:
    search = Lbfgs(stretched, np.zeros(8))
    with pytest.raises(ValueError, match=r"x must have shape \(8,\), not \(2, 4\)"):
        search.x = np.zeros((2, 4))
    with pytest.raises(ValueError, match=r"diagonal must have shape \(8,\), not \(7,\)"):
        search.diagonal = np.ones(7)
    with pytest.raises(ValueError, match=r"diagonal\[0\] is 0.0; it must be positive"):
        search.diagonal = np.zeros(8)
    with pytest.raises(TypeError, match="x must hold real numbers"):
        search.x = np.zeros(8, complex)
    assert Lbfgs(stretched, np.zeros(8), threads=2**70).threads < 2**31
