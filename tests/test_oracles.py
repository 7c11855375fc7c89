"""The oracles agree with one another before anything is measured against them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from oracles import (
    Arrays,
    Sequence,
    clamped,
    conditioned,
    conditioned_slowly,
    enumerate_chain,
    enumerate_mp,
    first_infeasible,
    mp_forward_backward,
    n_best,
    sequences,
    single,
    slices_of,
    solve,
)
from strategies import bio_chain, chains, examples, peaked_chain, random_chain


@given(chains(max_labels=3, max_length=4, max_sequences=2))
@examples(60)
def test_recursions_agree_with_enumeration(model: Arrays) -> None:
    if first_infeasible(model) is not None:
        return
    answer = solve(model)
    edges = 0
    for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
        listing = enumerate_chain(seq)
        n = len(seq.local)
        cut = slice(edges, edges + max(n - 1, 0))
        edges = cut.stop
        marginals, pairwise, log_z, entropy = mp_forward_backward(seq)
        for got in (listing.marginals.astype(float), marginals):
            np.testing.assert_allclose(answer.marginals[rows], got, atol=1e-12)
        for got in (listing.pairwise.astype(float), pairwise):
            np.testing.assert_allclose(answer.pairwise[cut], got, atol=1e-12)
        for got in (float(listing.log_z), float(log_z)):
            np.testing.assert_allclose(answer.log_z[b], got, rtol=1e-14, atol=1e-12)
        for got in (float(listing.entropy), float(entropy)):
            np.testing.assert_allclose(answer.entropy[b], got, atol=1e-11)


@given(chains(max_labels=2, max_length=4, max_sequences=1))
@examples(40)
def test_mp_recursion_agrees_with_mp_enumeration(model: Arrays) -> None:
    if first_infeasible(model) is not None:
        return
    for seq in sequences(model):
        listing = enumerate_mp(seq)
        marginals, pairwise, log_z, entropy = mp_forward_backward(seq)
        np.testing.assert_allclose(marginals, listing.marginals.astype(float), atol=1e-15)
        np.testing.assert_allclose(pairwise, listing.pairwise.astype(float), atol=1e-15)
        assert abs(log_z - listing.log_z) < 1e-14 * max(1, abs(log_z))
        assert abs(entropy - listing.entropy) < 1e-14


@given(chains(max_labels=3, max_length=4, max_sequences=2))
@examples(60)
def test_infeasible_is_no_mass(model: Arrays) -> None:
    masses = [np.exp(enumerate_all(seq)).sum() for seq in sequences(model)]
    assert (first_infeasible(model) is None) == all(m > 0 for m in masses)


def enumerate_all(seq: Sequence) -> np.ndarray:
    """Return 0 for every possible configuration and -inf for every other."""
    flat = Sequence(
        np.where(np.isfinite(seq.local), 0, seq.local),
        np.where(np.isfinite(seq.edges), 0, seq.edges),
    )
    with np.errstate(invalid="ignore"):
        return enumerate_chain(flat).scores


def test_conditioned_is_its_definition(rng: np.random.Generator) -> None:
    for make in (peaked_chain, bio_chain):
        for _ in range(20):
            model = make(rng, [5, 0, 1, 4], 2)
            k = model.unary.shape[1]
            islands = np.where(rng.random(10) < 0.5, rng.integers(0, k, 10), -1)
            if first_infeasible(clamped(model, islands)) is not None:
                continue
            np.testing.assert_allclose(
                conditioned(model, islands), conditioned_slowly(model, islands), atol=1e-14
            )


def test_n_best_is_sorted_and_possible(rng: np.random.Generator) -> None:
    model = random_chain(rng, [4], 3, forbidden=0.2)
    assert first_infeasible(model) is None
    (seq,) = sequences(model)
    states, scores = n_best(enumerate_chain(seq), 1000)
    assert len(np.unique(states, axis=0)) == len(states)
    assert np.all(np.diff(scores) <= 0)
    assert np.all(scores > -np.inf)


@pytest.mark.parametrize("per_edge", [False, True])
def test_single_cuts_a_batch_into_its_sequences(rng: np.random.Generator, per_edge: bool) -> None:
    model = random_chain(rng, [3, 0, 1, 4], 3, per_edge=per_edge, masks=False)
    whole = solve(model)
    for b, rows in enumerate(slices_of(model)):
        part = solve(single(model, b))
        np.testing.assert_array_equal(part.marginals, whole.marginals[rows])
        assert part.log_z[0] == whole.log_z[b]
