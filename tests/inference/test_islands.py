"""Islands (SMM11, section 3): what comes out is defined by what was held, and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from checks import assert_islands, assert_same_bits, assert_same_result, chain, refused
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    Answer,
    Arrays,
    clamped,
    conditioned,
    first_infeasible,
    local_modes,
    solve,
    tolerance,
)
from strategies import bio_chain, bio_transitions, chains, examples, peaked_chain, random_chain

import valuesparse as vs

pytestmark = pytest.mark.simd

ZETAS = [0.0, 0.2, 0.5, 0.7, 0.9, 0.95, 0.999, 1 - 1e-12]


@given(chains(), st.sampled_from(ZETAS), st.sampled_from([None, None, 0, 1, 2, 5]))
@examples(400)
def test_any_model(model: Arrays, zeta: float, revisit: int | None) -> None:
    dead = first_infeasible(model)
    if dead is not None:
        with refused(vs.InfeasibleError) as info:
            vs.infer(chain(model), zeta=zeta, revisit=revisit)
        assert (info.value.sequence, info.value.position) == dead
        return
    r = vs.infer(chain(model), zeta=zeta, revisit=revisit)
    assert_islands(model, r, zeta, settled=revisit is None)


@pytest.mark.parametrize("zeta", ZETAS)
@pytest.mark.parametrize("revisit", [None, 0, 1, 3])
def test_peaked_chains(
    zeta: float, revisit: int | None, rng: np.random.Generator, dtype: type
) -> None:
    for k in (2, 3, 9, 17):
        model = peaked_chain(rng, [30, 0, 1, 2, 25], k, dtype=dtype)
        r = vs.infer(chain(model), zeta=zeta, revisit=revisit)
        assert_islands(model, r, zeta, settled=revisit is None)


@pytest.mark.parametrize("zeta", [0.5, 0.9])
def test_one_long_chain(zeta: float, rng: np.random.Generator, dtype: type) -> None:
    model = peaked_chain(rng, [5000], 4, dtype=dtype)
    r = vs.infer(chain(model), zeta=zeta)
    assert_islands(model, r, zeta, multiple=4)
    assert r.stats["islands"] > 1000
    assert 0 < r.stats["messages_full"] < 10_000
    assert r.stats["messages_sparse"] > 0
    assert r.stats["segments"] > 1


@pytest.mark.smoke
@pytest.mark.parametrize("zeta", [0.5, 0.8, 0.9, 0.99])
def test_per_edge_and_masks(zeta: float, rng: np.random.Generator, dtype: type) -> None:
    model = peaked_chain(rng, [12, 3, 1, 0, 20], 4)
    edges = rng.normal(size=(32, 4, 4)) * 2
    allowed = rng.random((36, 4)) > 0.3
    allowed[:, 2] = True
    full = Arrays(
        model.unary, edges, model.lengths, rng.normal(size=4), rng.normal(size=4), allowed
    ).astype(dtype)
    assert_islands(full, vs.infer(chain(full), zeta=zeta), zeta)


# --------------------------------------------------------------------------------- the two ends


@pytest.mark.parametrize("zeta", [1, 1.0, np.float32(1), np.float64(1)])
def test_one_is_exact_bit_for_bit(zeta: float, rng: np.random.Generator, dtype: type) -> None:
    # A local factor with a gap of 50 rounds to 1.0: it must not become an island.
    model = peaked_chain(rng, [40, 0, 3], 5, peak=50.0, dtype=dtype)
    a = vs.infer(chain(model))
    b = vs.infer(chain(model), zeta=zeta)
    assert_same_result(a, b)
    assert b.method == "exact"
    assert (b.islands == -1).all()
    assert_same_result(a, vs.infer(chain(model), zeta=zeta, revisit=0))


def test_just_below_one_holds_what_rounds_to_one(dtype: type) -> None:
    unary = np.zeros((5, 3), dtype)
    unary[2, 1] = 60
    r = vs.infer(vs.Chain(unary, np.zeros((3, 3), dtype)), zeta=float(np.nextafter(1, 0)))
    np.testing.assert_array_equal(r.islands, [-1, -1, 1, -1, -1])


def test_zero_without_revisiting_propagates_local_factors_only(
    rng: np.random.Generator, dtype: type
) -> None:
    for k in (1, 2, 5, 9):
        model = random_chain(rng, [7, 0, 1, 12], k, masks=False, dtype=dtype)
        allowed = rng.random((20, k)) > 0.3
        allowed[np.arange(20), rng.integers(0, k, 20)] = True
        for mask in (None, allowed):
            full = Arrays(
                model.unary, model.transition, model.lengths, model.start, model.end, mask
            )
            r = vs.infer(chain(full), zeta=0.0, revisit=0)
            np.testing.assert_array_equal(r.islands, local_modes(full))
            assert_islands(full, r, 0.0, settled=False)
            assert r.stats["messages_full"] == 0


def test_start_and_end_count_as_local() -> None:
    unary = np.zeros((3, 2))
    r = vs.infer(
        vs.Chain(unary, np.zeros((2, 2)), start=[0, 5.0], end=[0.0, 6.0]), zeta=0.9, revisit=0
    )
    np.testing.assert_array_equal(r.islands, [1, -1, 1])
    r = vs.infer(vs.Chain(np.zeros((1, 2)), np.zeros((2, 2)), start=[0, 3.0], end=[4.0, 0]), zeta=0)
    np.testing.assert_array_equal(r.islands, [0])


def test_ties_go_to_the_lowest_label(dtype: type) -> None:
    unary = np.zeros((6, 4), dtype)
    unary[1, [2, 3]] = 2
    unary[4, [1, 3]] = 5
    r = vs.infer(vs.Chain(unary, np.zeros((4, 4), dtype)), zeta=0.0, revisit=0)
    np.testing.assert_array_equal(r.islands, [0, 2, 0, 0, 1, 0])
    r = vs.infer(vs.Chain(unary, np.zeros((4, 4), dtype)), zeta=0.0)
    np.testing.assert_array_equal(r.islands, [0, 2, 0, 0, 1, 0])


def test_independent_positions_hold_exactly_what_reaches_zeta(
    rng: np.random.Generator, dtype: type
) -> None:
    model = random_chain(rng, [50], 3, scale=3, ends=False, dtype=dtype)
    model.transition[:] = 0
    p = solve(model).marginals
    for zeta in (0.4, 0.6, 0.9):
        r = vs.infer(chain(model), zeta=zeta)
        np.testing.assert_array_equal(r.islands, np.where(p.max(1) >= zeta, p.argmax(1), -1))
        np.testing.assert_allclose(r.marginals, p, atol=tolerance(model, 0))
        np.testing.assert_allclose(
            r.log_z[0],
            solve(clamped(model, r.islands)).log_z[0],
            rtol=1e-5 if dtype == np.float32 else 1e-10,
        )


def test_forbidden_local_values_make_islands() -> None:
    unary = np.zeros((5, 3))
    unary[2, [0, 2]] = -np.inf
    r = vs.infer(vs.Chain(unary, np.zeros((3, 3))), zeta=0.9)
    np.testing.assert_array_equal(r.islands, [-1, -1, 1, -1, -1])
    np.testing.assert_array_equal(r.marginals[2], [0, 1, 0])


def test_nothing_reaches_zeta() -> None:
    model = Arrays(np.zeros((10, 4)), np.zeros((4, 4)))
    r = vs.infer(chain(model), zeta=0.9)
    assert (r.islands == -1).all()
    assert_islands(model, r, 0.9)
    np.testing.assert_allclose(r.log_z, solve(model).log_z)


# ----------------------------------------------------------------------------------- revisiting


def test_an_island_is_released_when_its_neighbours_disagree() -> None:
    # The middle's local factor says .92 for label 0; both neighbours are sure of 1 and attract.
    unary = np.log(np.array([[1e-6, 1], [0.92, 0.08], [1e-6, 1]]))
    transition = np.array([[1.2, 0.0], [0.0, 1.2]])
    model = Arrays(unary, transition)
    kept = vs.infer(chain(model), zeta=0.9, revisit=0)
    assert_islands(model, kept, 0.9, settled=False)
    r = vs.infer(chain(model), zeta=0.9)
    assert_islands(model, r, 0.9)
    np.testing.assert_array_equal(r.islands, [1, -1, 1])
    assert r.stats["released"] >= 1
    # Ends held at their only likely value: what is left is all but exact.
    np.testing.assert_allclose(r.marginals, solve(model).marginals, atol=1e-5)


def test_an_island_changes_its_value_when_the_mode_moves() -> None:
    unary = np.log(np.array([[1e-9, 1], [0.92, 0.08], [1e-9, 1]]))
    transition = np.array([[6.0, 0.0], [0.0, 6.0]])
    model = Arrays(unary, transition)
    r = vs.infer(chain(model), zeta=0.9)
    assert_islands(model, r, 0.9)
    np.testing.assert_array_equal(r.islands, [1, 1, 1])
    assert r.stats["flipped"] >= 1


@pytest.mark.parametrize("zeta", [0.0, 0.3, 0.5, 0.6, 0.9])
@pytest.mark.parametrize("weight", [-60.0, -3.0, -0.5, 0.5, 3.0, 60.0])
def test_repulsion_and_attraction_terminate(zeta: float, weight: float, dtype: type) -> None:
    # Parallel updates of a repulsive pair flip together for ever unless a rule stops them.
    for n in (2, 3, 6, 101):
        for k in (2, 3):
            unary = np.zeros((n, k))
            unary[:, 0] = 0.3
            unary[n // 2, k - 1] = 1.0
            model = Arrays(unary, weight * np.eye(k)).astype(dtype)
            r = vs.infer(chain(model), zeta=zeta)
            assert_islands(model, r, zeta)
            s = r.stats
            assert s["islands"] + s["released"] <= n + s["released"]
            assert s["flipped"] <= n
            assert s["released"] <= n
            assert s["rounds"] <= 3 * n + 1


def test_the_price_of_islands_is_the_documented_one() -> None:
    # m' is conditioned on the other islands: 1.000000 where the full model says 0.20.
    unary = np.log(np.array([[0.96, 0.04]] * 2 + [[0.04, 0.96]] * 4))
    model = Arrays(unary, 60.0 * np.eye(2))
    r = vs.infer(chain(model), zeta=0.95)
    assert_islands(model, r, 0.95)


@pytest.mark.parametrize("revisit", [0, 1, 2, 3, 10, 1000])
def test_rounds_are_bounded(revisit: int, rng: np.random.Generator) -> None:
    model = peaked_chain(rng, [300], 3, peak=3, scale=3)
    r = vs.infer(chain(model), zeta=0.8, revisit=revisit)
    assert_islands(model, r, 0.8, settled=False)
    assert r.stats["rounds"] <= revisit + 1
    if revisit == 1000:
        settled = vs.infer(chain(model), zeta=0.8)
        assert r.stats == settled.stats
        assert_same_bits(r.marginals, settled.marginals)
        assert_same_bits(r.islands, settled.islands)


def test_revisiting_that_was_cut_short_says_so(rng: np.random.Generator) -> None:
    model = peaked_chain(rng, [300], 3, peak=3, scale=3)
    settled = vs.infer(chain(model), zeta=0.8)
    assert settled.converged is True
    assert settled.stats["released"] + settled.stats["flipped"] > 0
    cut = vs.infer(chain(model), zeta=0.8, revisit=0)
    assert cut.stats["released"] == cut.stats["flipped"] == 0


# ------------------------------------------------------------------------------- contradictions


@pytest.mark.parametrize("revisit", [None, 0, 1])
@pytest.mark.parametrize("zeta", [0.0, 0.5, 0.9, 0.99])
def test_two_sure_neighbours_that_cannot_both_be_right(
    zeta: float, revisit: int | None, dtype: type
) -> None:
    # O then I is forbidden, and both are sure.
    transition, start = bio_transitions(1)
    unary = np.array([[8.0, 0, 0], [0, 0, 8.0]])
    model = Arrays(unary, transition, start=start).astype(dtype)
    r = vs.infer(chain(model), zeta=zeta, revisit=revisit)
    assert_islands(model, r, zeta, settled=revisit is None)


def test_sure_of_what_the_start_forbids(dtype: type) -> None:
    transition, start = bio_transitions(1)
    unary = np.array([[0, 0, 50.0], [0, 0, 50.0]])
    model = Arrays(unary, transition, start=start).astype(dtype)
    r = vs.infer(chain(model), zeta=0.9)
    assert_islands(model, r, 0.9)
    np.testing.assert_array_equal(r.marginals.argmax(1), [1, 2])


@pytest.mark.parametrize("gap", [1, 2, 5])
def test_contradiction_across_undecided_positions(gap: int, dtype: type) -> None:
    # Labels must climb by one each step: two far islands can be impossible together.
    k = 8
    transition = np.full((k, k), -np.inf)
    transition[np.arange(k - 1), np.arange(1, k)] = 0
    transition[np.arange(k), np.arange(k)] = 0
    unary = np.zeros((gap + 2, k))
    unary[0, 6] = 30.0
    unary[-1, 1] = 30.0
    model = Arrays(unary, transition).astype(dtype)
    for zeta in (0.5, 0.9, 0.999):
        assert_islands(model, vs.infer(chain(model), zeta=zeta), zeta)


@pytest.mark.parametrize("zeta", [0.0, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("revisit", [None, 0, 2])
def test_confidently_wrong_bio(
    zeta: float, revisit: int | None, rng: np.random.Generator, dtype: type
) -> None:
    model = bio_chain(rng, [60, 1, 0, 2, 40, 7], 3, peak=12.0, dtype=dtype)
    r = vs.infer(chain(model), zeta=zeta, revisit=revisit)
    assert_islands(model, r, zeta, settled=revisit is None)


def test_contradictions_in_a_chain_of_megabytes(rng: np.random.Generator) -> None:
    model = bio_chain(rng, [32_000], 16, peak=14.0)  # from 32 labels on they are not given up
    exact = vs.infer(chain(model))
    r = vs.infer(chain(model), zeta=0.9)
    answer = Answer(exact.marginals, np.zeros(0), exact.log_z, np.zeros(0))
    assert_islands(model, r, 0.9, multiple=1, answer=answer)
    assert r.stats["released"] > 100


@pytest.mark.parametrize("zeta", [0.0, 0.5, 0.9])
def test_only_one_path_exists(zeta: float, rng: np.random.Generator, dtype: type) -> None:
    # A cycle of labels: the start decides everything, whatever the local factors say.
    k, n = 5, 30
    transition = np.full((k, k), -np.inf)
    transition[np.arange(k), (np.arange(k) + 1) % k] = 0
    start = np.full(k, -np.inf)
    start[2] = 0
    unary = rng.normal(size=(n, k)) * 10
    model = Arrays(unary, transition, start=start).astype(dtype)
    r = vs.infer(chain(model), zeta=zeta)
    assert_islands(model, r, zeta)
    np.testing.assert_array_equal(r.marginals.argmax(1), (2 + np.arange(n)) % k)


def test_infeasible_only_when_the_full_model_is(dtype: type) -> None:
    transition = np.array([[0.0, -np.inf], [-np.inf, 0.0]], dtype)
    unary = np.zeros((4, 2), dtype)
    unary[1, 0] = -np.inf
    unary[2, 1] = -np.inf
    for zeta in (0.0, 0.9, 1.0):
        with refused(vs.InfeasibleError) as info:
            vs.infer(vs.Chain(unary, transition), zeta=zeta)
        assert (info.value.sequence, info.value.position) == (0, 2)
    unary[2, 1] = -9000
    unary[2, 0] = 9000
    r = vs.infer(vs.Chain(unary, transition), zeta=0.9)
    np.testing.assert_array_equal(r.marginals[:, 1], 1)


# -------------------------------------------------------------------------------- worth having


def test_mild_models_lose_little(rng: np.random.Generator) -> None:
    model = peaked_chain(rng, [40] * 50, 6, peak=9.0, share=0.8, scale=0.7)
    exact = vs.infer(chain(model))
    r = vs.infer(chain(model), zeta=0.95)
    same = exact.marginals.argmax(1) == r.marginals.argmax(1)
    assert same.mean() > 0.98
    assert r.stats["messages_full"] < exact.stats["messages_full"] / 2


def test_larger_zeta_holds_less(rng: np.random.Generator) -> None:
    model = chain(peaked_chain(rng, [40] * 20, 6, share=0.8))
    held = [vs.infer(model, zeta=z).stats["islands"] for z in (0.5, 0.9, 0.99, 0.99999)]
    assert held == sorted(held, reverse=True)


def test_pairwise_at_an_island_is_one_row(rng: np.random.Generator) -> None:
    model = peaked_chain(rng, [30], 4)
    r = vs.infer(chain(model), zeta=0.9)
    pairwise = r.pairwise()
    for i in np.flatnonzero(r.islands[:-1] >= 0):
        others = np.arange(4) != r.islands[i]
        assert (pairwise[i][others] == 0).all()
    mask = r.islands >= 0
    given = solve(clamped(model, r.islands)).marginals
    np.testing.assert_allclose(pairwise.sum(2), given[:-1], atol=1e-10)
    np.testing.assert_allclose(pairwise.sum(1), given[1:], atol=1e-10)
    np.testing.assert_allclose(r.marginals[~mask], given[~mask], atol=1e-10)


def test_same_bits_on_any_run(rng: np.random.Generator, dtype: type) -> None:
    model = chain(peaked_chain(rng, [40, 0, 7, 300], 5, dtype=dtype))
    a = vs.infer(model, zeta=0.8)
    for threads in (1, 2, 3, 8):
        assert_same_result(a, vs.infer(model, zeta=0.8, threads=threads))
    assert_same_bits(a.marginals, vs.infer(model, zeta=np.float64(0.8)).marginals)


def test_conditioned_oracle_sees_the_islands(rng: np.random.Generator) -> None:
    # Guards the tests above: with other islands the oracle must say something else.
    model = peaked_chain(rng, [20], 3)
    r = vs.infer(chain(model), zeta=0.8)
    other = np.where(r.islands >= 0, (r.islands + 1) % 3, -1)
    assert np.abs(conditioned(model, other) - r.marginals).max() > 1e-3


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("zeta", [0.4, 0.9])
def test_rounding_moves_no_island(rng: np.random.Generator, branching: bool, zeta: float) -> None:
    """Scores that only logarithms hold, and no coupling: no m' differs from its local factor."""
    pairwise = np.full((5, 5), -400.0)
    pairwise[0, 0] = 0.0  # never taken, and all others lie at the floor beside it
    unary = 3 * rng.normal(size=(400, 5))
    unary[:, 0] = -np.inf
    nodes = np.arange(400)
    model = (
        vs.Tree(np.where(nodes, (nodes - 1) // 2, -1), unary, pairwise)
        if branching
        else vs.Chain(unary, pairwise)
    )
    r = vs.infer(model, zeta=zeta)
    assert r.stats["sequences_widened"] == 1
    assert (r.stats["released"], r.stats["flipped"]) == (0, 0)
    local = np.exp(unary) / np.exp(unary).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(r.islands >= 0, local.max(axis=1) >= zeta)
