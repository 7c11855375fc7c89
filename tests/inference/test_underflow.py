"""Scores so far apart that a linear-domain recursion flushes to zero what matters later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from checks import assert_distribution, assert_exact, assert_islands, chain
from oracles import Arrays, first_infeasible, sequences, solve, tolerance
from strategies import random_chain

import valuesparse as vs

pytestmark = pytest.mark.simd

NEVER = -np.inf


def regimes(k_each: int, count: int, penalty: float) -> np.ndarray:
    """Return transitions that are free within a regime of labels and cost ``penalty`` across."""
    regime = np.repeat(np.arange(count), k_each)
    return np.where(regime[:, None] == regime[None, :], 0.0, penalty)


@pytest.mark.parametrize("gap", [1.0, 9.0, 45.0, 90.0, 720.0, 10_000.0])
@pytest.mark.parametrize("k_each", [1, 3, 8])
def test_wins_early_loses_late(gap: float, k_each: int, dtype: type) -> None:
    # A gains for 100 positions, then B gains for 100 and a little: B wins by one unit in all.
    unary = np.zeros((200, 2 * k_each))
    unary[:100, :k_each] = gap
    unary[100:, k_each:] = gap
    unary[-1, k_each:] += 1
    model = Arrays(unary, regimes(k_each, 2, NEVER)).astype(dtype)
    r = vs.infer(chain(model))
    assert_exact(model, r)
    np.testing.assert_allclose(r.marginals[:, k_each:].sum(axis=1), np.e / (1 + np.e), atol=1e-4)


@pytest.mark.parametrize("penalty", [NEVER, -90.0, -750.0, -3000.0, -10_000.0])
@pytest.mark.parametrize("inside", [0.0, 5.0, 50.0, 1000.0])
def test_overwhelmed_in_the_middle(penalty: float, inside: float, dtype: type) -> None:
    # A is good at both ends, B overwhelmingly better in the middle, to cross is dear or forbidden.
    unary = np.zeros((90, 6))
    unary[:30, :2] = 1000.0
    unary[30:60, 2:4] = inside
    unary[60:, :2] = 1000.0
    unary[:, 4:] = -3.0
    model = Arrays(unary, regimes(2, 3, penalty)).astype(dtype)
    assert_exact(model, vs.infer(chain(model)))


@pytest.mark.parametrize("loss", [-50.0, -1.0, 0.0, 1.0, 50.0])
@pytest.mark.parametrize("gain", [3.0, 50.0, 400.0])
def test_worth_crossing_or_not(loss: float, gain: float, dtype: type) -> None:
    # Crossing there and back costs what the middle gains, give or take: neither may be lost.
    n = 40
    unary = np.zeros((3 * n, 3))
    unary[n : 2 * n, 1] = gain
    unary[:n, 1:] = unary[2 * n :, 1:] = -gain
    unary[:, 2] -= 2.0
    penalty = -(n * gain - loss) / 2
    model = Arrays(unary, regimes(1, 3, penalty)).astype(dtype)
    assert_exact(model, vs.infer(chain(model)))


@pytest.mark.parametrize("end", [NEVER, -10_000.0])
def test_the_winner_is_forbidden_at_the_end(end: float, dtype: type) -> None:
    unary = np.zeros((60, 2))
    unary[:, 0] = 100.0
    model = Arrays(unary, regimes(1, 2, NEVER), end=np.array([end, 0.0])).astype(dtype)
    r = vs.infer(chain(model))
    assert_exact(model, r)
    np.testing.assert_allclose(r.marginals[:, 1], 1, atol=1e-6)


@pytest.mark.parametrize("start", [NEVER, -10_000.0])
def test_the_winner_is_forbidden_at_the_start(start: float, dtype: type) -> None:
    unary = np.zeros((60, 2))
    unary[:, 0] = 100.0
    model = Arrays(unary, regimes(1, 2, NEVER), start=np.array([start, 0.0])).astype(dtype)
    assert_exact(model, vs.infer(chain(model)))


@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_a_favourite_that_transitions_forbid(n: int, dtype: type) -> None:
    # Label 0 leads by 10,000 everywhere, but nothing leads to it or from it.
    unary = np.zeros((n, 4))
    unary[:, 0] = 10_000.0
    unary[:, 2] = 1.0
    transition = np.zeros((4, 4))
    transition[0, :] = transition[:, 0] = NEVER
    model = Arrays(unary, transition).astype(dtype)
    r = vs.infer(chain(model))
    assert_exact(model, r)
    np.testing.assert_array_equal(r.marginals[:, 0], 0)


@pytest.mark.parametrize("cost", [-90.0, -110.0, -700.0, -750.0, -5000.0, -10_000.0])
def test_forced_to_take_a_transition_that_underflows(cost: float, dtype: type) -> None:
    unary = np.zeros((6, 2))
    unary[::2, 0] = unary[1::2, 1] = 10_000.0
    transition = np.array([[0.0, cost], [cost, 0.0]])
    model = Arrays(unary, transition).astype(dtype)
    r = vs.infer(chain(model))
    assert_exact(model, r)


def test_every_gap_around_the_smallest_numbers(dtype: type) -> None:
    # A score falls by `gap` and comes back by `gap`: denormals must not take its digits.
    gaps = np.concatenate([np.arange(60, 120), np.arange(640, 780)]).astype(float)
    unary = np.zeros((4 * len(gaps), 2))
    unary[0::4, 1] = -gaps
    unary[3::4, 0] = -gaps
    unary[3::4, 1] += 0.5
    model = Arrays(unary, regimes(1, 2, NEVER), np.full(len(gaps), 4)).astype(dtype)
    r = vs.infer(chain(model))
    assert_exact(model, r)
    np.testing.assert_allclose(r.marginals[:, 1], 1 / (1 + np.exp(-0.5)), atol=1e-5)


@pytest.mark.parametrize("step", [0.5, 3.0, 20.0, 87.0, 300.0])
def test_slow_drift_and_back(step: float, dtype: type) -> None:
    n = 400
    drift = np.where(np.arange(n) < n // 2, -step, step)
    unary = np.stack([np.zeros(n), drift, drift / 2], axis=1)
    model = Arrays(unary, regimes(1, 3, NEVER)).astype(dtype)
    r = vs.infer(chain(model))
    assert_exact(model, r)
    np.testing.assert_allclose(r.marginals, 1 / 3, atol=1e-5)


@pytest.mark.parametrize("k", [2, 5, 9, 16, 33, 49])
def test_two_regimes_in_any_column(k: int, dtype: type, rng: np.random.Generator) -> None:
    # The label that matters later sits in every lane of a vector in turn.
    for lane in range(k):
        unary = np.zeros((12, k))
        unary[:6, lane] = -400.0
        unary[6:, lane] = 400.0
        unary[:, :] += np.round(rng.normal(size=(12, k)) * 8) / 8
        transition = np.zeros((k, k))
        transition[lane, :] = transition[:, lane] = NEVER
        transition[lane, lane] = 0
        model = Arrays(unary, transition).astype(dtype)
        answer = solve(model)
        got = vs.infer(chain(model)).marginals
        np.testing.assert_allclose(got, answer.marginals, atol=tolerance(model, 0))


def test_a_dead_end_far_down_the_winning_road(dtype: type) -> None:
    # Everything flows into label 0 by far; only label 1, exp(-2000) behind, can go on.
    n = 30
    unary = np.zeros((n, 3))
    unary[: n // 2, 0] = 150.0
    unary[n // 2 :, 0] = NEVER
    transition = np.zeros((3, 3))
    transition[0, 1:] = NEVER
    model = Arrays(unary, transition).astype(dtype)
    assert_exact(model, vs.infer(chain(model)))


def test_per_edge_transitions_that_underflow(dtype: type, rng: np.random.Generator) -> None:
    edges = np.round(rng.uniform(-10_000, 10_000, size=(30, 4, 4)))
    unary = np.round(rng.uniform(-10_000, 10_000, size=(31, 4)))
    model = Arrays(unary, edges).astype(dtype)
    assert_exact(model, vs.infer(chain(model)))


@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("k", [2, 4, 9, 16])
def test_transitions_around_the_smallest_numbers(per_edge: bool, k: int, dtype: type) -> None:
    # The largest transition leads into a forbidden label: all that remains is exp(-gap) of it.
    gaps = [20.0, 40.0, 41.0, 50.0, 60.0, 80.0, 87.0, 100.0, 345.0, 350.0, 700.0, 750.0, 6000.0]
    for gap in gaps:
        unary = np.zeros((2, k))
        unary[1, 0] = NEVER
        transition = np.zeros((k, k))
        transition[1, 0] = gap
        transition[-1, -1] += gap / 2
        model = Arrays(unary, transition[None] if per_edge else transition).astype(dtype)
        assert_exact(model, vs.infer(chain(model)))


@pytest.mark.parametrize("gap", [14.0, 17.0, 18.0, 18.8, 19.0, 25.0, 60.0])
def test_small_leaks_do_not_add_up(gap: float, dtype: type) -> None:
    # All start in A and the end favours B: to cross costs exp(-100) at each of many positions.
    n = 200_000
    transition = np.array([[0.0, -100.0], [NEVER, 0.0]])
    model = Arrays(
        np.zeros((n, 2)), transition, start=np.array([0.0, NEVER]), end=np.array([-gap, 0.0])
    ).astype(dtype)
    want = -np.expm1(-np.log1p((n - 1) * np.exp(gap - 100)))
    np.testing.assert_allclose(
        vs.infer(chain(model)).marginals[-1, 1], want, rtol=0, atol=tolerance(model, 0)
    )


@pytest.mark.parametrize("zeta", [0.0, 0.5, 0.9, 0.999])
def test_islands_among_underflows(zeta: float, dtype: type) -> None:
    for penalty in (NEVER, -90.0, -2000.0):
        unary = np.zeros((40, 4))
        unary[:10, :2] = unary[30:, :2] = 100.0
        unary[10:30, 2:] = 150.0
        unary[::3, 1] += 2.0
        model = Arrays(unary, regimes(2, 2, penalty)).astype(dtype)
        assert_islands(model, vs.infer(chain(model), zeta=zeta), zeta)


def test_widened_sequences_are_counted(rng: np.random.Generator, dtype: type) -> None:
    tame = random_chain(rng, [20, 20, 20], 3, dtype=dtype)
    assert vs.infer(chain(tame)).stats["sequences_widened"] == 0
    wild = replace(tame, transition=regimes(1, 3, NEVER).astype(dtype))
    wild.unary[20:30, 0] -= 5000
    wild.unary[30:40, 0] += 5000
    r = vs.infer(chain(wild))
    assert_exact(wild, r, multiple=4)
    assert r.stats["sequences_widened"] >= 1


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
@pytest.mark.parametrize("per_edge", [False, True])
def test_the_largest_scores_stay_finite(
    share: float, forbidden: float, per_edge: bool, dtype: type, rng: np.random.Generator
) -> None:
    # Digits are lost with such scores, but never a configuration: no NaN, no infinite number.
    largest = 1e28 if dtype == np.float32 else 1e290
    for k in (1, 2, 3, 9, 17):
        model = random_chain(
            rng, [1, 2, 40, 0, 300], k, forbidden=forbidden, per_edge=per_edge, masks=forbidden > 0
        )
        for table in (model.unary, model.transition, model.start, model.end):
            huge = (rng.random(table.shape) < share) & np.isfinite(table)
            table[huge] = largest * rng.choice([-1.0, 1.0, 0.5, -0.999], size=huge.sum())
        model = model.astype(dtype)
        made = chain(model)
        dead = first_infeasible(model)
        if dead is not None:
            for call in (vs.infer, vs.decode, lambda made: vs.decode(made, n_best=2)):
                with pytest.raises(vs.InfeasibleError) as info:
                    call(made)
                assert (info.value.sequence, info.value.position) == dead
            continue
        d, several = vs.decode(made), vs.decode(made, n_best=3)
        assert np.isfinite(d.score).all()
        assert np.isfinite(several.score[0]).all()
        assert (several.score < np.inf).all()
        assert (several.score[0] >= d.score - 1e-6 * np.abs(d.score)).all()
        for zeta in (1.0, 0.9, 0.0):
            r = vs.infer(made, zeta=zeta)
            assert_distribution(model, r)
            pairwise = r.pairwise()
            assert np.isfinite(pairwise).all()
            np.testing.assert_allclose(pairwise.sum(axis=(1, 2)), 1, rtol=1e-4)
            assert np.isfinite(r.expectations()).all()
            assert np.isfinite(r.entropy()).all()
        assert np.isfinite(vs.log_prob(made, d.states)).all()
        draws = vs.sample(made, 3, 0)
        assert (vs.log_prob(made, draws[0]) > -np.inf).all()


def test_viterbi_keeps_what_falls_behind_for_long(dtype: type) -> None:
    # Label 1 loses all that a score can lose, again and again, and is all that is left at the end.
    largest = dtype(1e28 if dtype == np.float32 else 1e290)
    unary = np.zeros((5000, 2), dtype)
    unary[:, 0], unary[:, 1] = largest, -largest
    d = vs.decode(vs.Chain(unary, regimes(1, 2, NEVER).astype(dtype), end=[NEVER, dtype(0)]))
    np.testing.assert_array_equal(d.states, 1)
    np.testing.assert_allclose(d.score, 5000 * -float(largest), rtol=1e-6)


def test_all_else_computed_on_underflows(dtype: type) -> None:
    unary = np.zeros((8, 2))
    unary[:4, 0] = 800.0
    unary[4:, 1] = 800.0
    unary[7, 1] += 1
    model = Arrays(unary, regimes(1, 2, NEVER)).astype(dtype)
    made = chain(model)
    d = vs.decode(made)
    np.testing.assert_array_equal(d.states, 1)
    np.testing.assert_allclose(d.score, 3201.0)
    draws = vs.sample(made, 2000, 1)
    assert (draws == draws[:, :1]).all()
    assert abs(draws[:, 0].mean() - np.e / (1 + np.e)) < 0.05
    np.testing.assert_allclose(
        np.exp(vs.log_prob(made, np.ones(8, int))), np.e / (1 + np.e), rtol=1e-5
    )
    assert len(list(sequences(model))) == 1
