"""What loopy messages need not do again: turns that end where they began, names of forests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.inference import _loopy, trw_dual_bound
from valuesparse.inference._network import LoopyCall, Network

pytestmark = pytest.mark.simd


def grid(seed: int, states: int, *, zeros: bool = False) -> vs.FactorGraph:
    """Return a grid of five rows, with scores that messages do not agree about."""
    rng = np.random.default_rng(seed)
    graph = vs.FactorGraph([states] * 50)
    for v in range(50):
        own = 0.3 * rng.normal(size=states)
        if zeros:
            own[1:][rng.random(states - 1) < 0.3] = -np.inf
        graph.add([v], own)
        for other in [v + 1] * (v % 5 < 4) + [v + 5] * (v < 45):
            graph.add([v, other], 2.0 * rng.normal(size=(states, states)))
    return graph


def counted(monkeypatch: pytest.MonkeyPatch, model: vs.FactorGraph, method: Any) -> tuple[Any, int]:
    """Return the answer, and how many iterations it took."""
    seen = []
    run = LoopyCall.run

    def also(self: LoopyCall, *args: Any, **more: Any) -> Any:
        found = run(self, *args, **more)
        seen.append(len(found[1]))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(LoopyCall, "run", also)
        answer = vs.decode(model, method=method)
    return answer, sum(seen)


def both(monkeypatch: pytest.MonkeyPatch, model: Any, method: Any) -> list[tuple[Any, int]]:
    """Return what is found with turns left out, and by all iterations: the same states."""
    answers = []
    for turn in (48, 10**9):
        monkeypatch.setattr(_loopy, "_TURN", turn)
        answers.append(counted(monkeypatch, model, method))
    found, whole = (answer for answer, _ in answers)
    np.testing.assert_array_equal(found.states, whole.states)
    assert found.converged == whole.converged
    return answers


@pytest.mark.parametrize("states", [2, 3, 5])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("iterations", [10, 333, 1000])
def test_answers_are_those_of_all_iterations(
    states: int, zeros: bool, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    for seed in range(4):
        model = grid(seed, states, zeros=zeros)
        for kind in (vs.BP, vs.TRW):
            method = kind(max_iterations=iterations)
            (found, fewer), (whole, most) = both(monkeypatch, model, method)
            assert found.score == whole.score
            assert getattr(found, "upper", None) == getattr(whole, "upper", None)
            assert fewer <= most
            assert fewer == most or not found.converged
            taken.append((most, fewer))
    if iterations == 1000 and states == 3:
        assert any(fewer < 300 < most for most, fewer in taken)


def test_damped_messages_and_other_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    model = grid(0, 3)
    for method in (vs.BP(damping=0.3), vs.BP(schedule="tree"), vs.BP(schedule="residual")):
        both(monkeypatch, model, method)


def test_progress_goes_on_from_turn_to_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*args: Any, **more: Any) -> Any:
        more["progress"](more["iterations"], None)
        return run(*args, **more)

    run, seen = LoopyCall.run, []
    monkeypatch.setattr(LoopyCall, "run", told)
    method = vs.BP(max_iterations=100, tolerance=1e-15, damping=0.01)
    vs.decode(grid(0, 3), method=method, progress=lambda *at: seen.append(at))
    ends = [done for done, _ in seen if done in (48, 96, 100)]
    assert [*dict.fromkeys(ends)] == [48, 96, 100]
    assert all(0 <= done <= total == 100 for done, total in seen)


def test_the_dual_bound_names_the_forests_of_the_best_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = []
    members = Network.members

    def counted(self: Network, groups: np.ndarray) -> list[int]:
        named.append(members(self, groups))
        return named[-1]

    monkeypatch.setattr(Network, "members", counted)
    model = grid(0, 3)
    bound = trw_dual_bound(model, method=vs.TRW(max_iterations=20, optimise=2))
    assert [factors for _, factors in bound.trees] == named
    assert sum(weight for weight, _ in bound.trees) == pytest.approx(1.0)
    wide = {i for i, factor in enumerate(model.factors) if len(factor.scope) > 1}
    assert set().union(*named) == wide
    assert bound.upper >= vs.infer(model).log_z
