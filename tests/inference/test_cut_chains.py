"""Long chains in chunks that run side by side (CERTIFICATES, section 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from checks import assert_exact, assert_same_bits, assert_same_result, chain, refused
from hypothesis import given
from hypothesis import strategies as st
from oracles import Arrays, first_infeasible, solve
from strategies import chains, examples, random_chain

import valuesparse as vs
from valuesparse import _forest as native
from valuesparse.inference import _forest
from valuesparse.schedule import Kind, plan, record, simulate

pytestmark = pytest.mark.simd

CHUNKS, JOIN = "exact", "join"


@pytest.fixture(autouse=True)
def _rule() -> Iterator[None]:
    yield
    native.cut_chains()


def uncut(model: vs.Chain, **options: Any) -> vs.Result:
    """Return what passes over whole sequences say."""
    native.cut_chains(-1)
    try:
        return vs.infer(model, **options)
    finally:
        native.cut_chains()


def labels(model: vs.Chain, **options: Any) -> list[str]:
    with record() as run:
        vs.infer(model, **options)
    return [p.label for p in run]


def mixing(rng: np.random.Generator, n: int, k: int, dtype: type = np.float64) -> vs.Chain:
    unary = 3 * rng.normal(size=(n, k))
    return vs.Chain(unary.astype(dtype), rng.normal(size=(k, k)).astype(dtype))


@given(chains(max_labels=4, max_length=12), st.integers(1, 4), st.integers(1, 3))
@examples(400)
def test_tiny_chunks(model: Arrays, chunk: int, run_in: int) -> None:
    """The answer is exact whatever enters a chunk: -inf, 10,000s, floors, float32, K = 1."""
    native.cut_chains(2, chunk, run_in)
    dead = first_infeasible(model)
    if dead is not None:
        with refused(vs.InfeasibleError) as info:
            vs.infer(chain(model))
        assert (info.value.sequence, info.value.position) == dead
        return
    result = vs.infer(chain(model), threads=2)
    assert_exact(model, result)
    np.testing.assert_allclose(_forest.log_z(chain(model), 1), result.log_z, rtol=1e-6, atol=1e-6)


@given(st.integers(0, 10**9))
@examples(300)
def test_a_message_increases_no_h(seed: int) -> None:
    """The theorem in path_cut.h: log-ratios of two rows spread no further by a message."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 9))
    scale = float(10 ** rng.uniform(-2, 2))
    x, y = np.exp(scale * rng.normal(size=(2, k)))
    table, psi = np.exp(scale * rng.normal(size=(k, k))), np.exp(scale * rng.normal(size=k))
    table[rng.random((k, k)) < rng.choice([0.0, 0.4])] = 0

    def spread(a: np.ndarray, b: np.ndarray) -> float:
        ratio = np.log(a[a > 0] / b[a > 0])
        return float(np.ptp(ratio)) if ratio.size else 0.0

    assert spread(psi * (x @ table), psi * (y @ table)) <= spread(x, y) * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("k", [1, 2, 3, 8, 45])
def test_against_the_uncut_pass(rng: np.random.Generator, dtype: type, k: int) -> None:
    model = mixing(rng, 5000, k, dtype)
    assert set(plan(model).kind) == {Kind.CHUNKS}
    assert labels(model).count(JOIN) == 0
    got, want = vs.infer(model), uncut(model)
    atol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(got.marginals, want.marginals, rtol=0, atol=atol)
    np.testing.assert_allclose(got.log_z, want.log_z, rtol=1e-13 if atol < 1e-9 else 1e-7)
    native.cut_chains(-1)
    sums, entropy = want.expectations(), want.entropy()
    pairs = want.pairwise(slice(2000, 2300))
    native.cut_chains()
    np.testing.assert_allclose(got.expectations(), sums, rtol=0, atol=5000 * atol)
    np.testing.assert_allclose(got.pairwise(slice(2000, 2300)), pairs, rtol=0, atol=atol)
    np.testing.assert_allclose(got.entropy(), entropy, rtol=1e-9 if atol < 1e-9 else 1e-3)


def test_per_edge_tables_masks_and_ends(rng: np.random.Generator) -> None:
    model = random_chain(rng, [4200, 30, 4100], 5, scale=2.0, per_edge=True, forbidden=0.05)
    assert first_infeasible(model) is None
    assert Kind.CHUNKS in plan(chain(model)).kind
    assert_exact(model, vs.infer(chain(model)), solve(model))


@pytest.mark.parametrize("table", [1.0, 4.0])
@pytest.mark.parametrize("scale", [15.0, 40.0, 300.0])
@pytest.mark.parametrize("k", [2, 3, 9, 30])
def test_float32_far_apart(rng: np.random.Generator, k: int, scale: float, table: float) -> None:
    """Entries at floors, which stand on another scale in each chunk, are not compared."""
    n = 12_000
    unary = (scale * rng.normal(size=(n, k))).astype(np.float32)
    pairs = (table * rng.uniform(-1, 1, size=(k, k))).astype(np.float32)
    model = vs.Chain(unary, pairs)
    r = vs.infer(model)
    want = vs.infer(vs.Chain(unary.astype(np.float64), pairs.astype(np.float64)))
    np.testing.assert_allclose(r.marginals, want.marginals, atol=2e-6)
    np.testing.assert_allclose(r.log_z, want.log_z, rtol=1e-6)
    if not r.stats["sequences_widened"]:
        assert labels(model) == ["pack", CHUNKS]
        for threads in (2, 3):
            assert_same_result(vs.infer(model, threads=threads), vs.infer(model, threads=1))


@given(st.integers(0, 10**9))
@examples(200)
def test_tiny_chunks_of_float32_far_apart(seed: int) -> None:
    """Chunks are entered by rows with many floors, true or not; proofs count what was left out."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 7)), int(rng.integers(2, 40))
    scale, table = 10 ** rng.uniform(0, 3), 10 ** rng.uniform(-1, 1.5)
    model = random_chain(rng, [n], k, scale=scale).astype(np.float32)
    model.transition[:] *= table / scale
    native.cut_chains(2, int(rng.integers(1, 6)), int(rng.integers(1, 4)))
    result = vs.infer(chain(model))
    assert_exact(model, result)
    try:
        bounded = vs.infer(chain(model), tol=0.01)
    except ValueError:
        return  # below the floor of this model
    exact = uncut(chain(model.astype(np.float64)))
    assert (np.abs(bounded.marginals - exact.marginals) <= 0.01).all()
    assert (bounded.lower <= exact.marginals + 1e-12).all()
    assert (exact.marginals <= bounded.upper + 1e-12).all()


def test_bits(rng: np.random.Generator, dtype: type) -> None:
    """The same for any number of threads, and whatever else is in the batch, in any order."""
    model = mixing(rng, 30_000, 6, dtype)
    want, alone = vs.infer(model, threads=1), _forest.log_z(model, 1)
    for threads in (2, 3, 8):
        assert_same_result(vs.infer(model, threads=threads), want)
        assert_same_bits(_forest.log_z(model, threads), alone)
    other = rng.normal(size=(4500, 6)).astype(dtype)
    batch = vs.Chain(np.concatenate([other, model.unary, other[:50]]), model.transition,
                     [4500, 30_000, 50])  # fmt: skip
    assert_same_bits(vs.infer(batch, threads=2).marginals[4500:34_500], want.marginals)


def test_the_plan_is_shared_by_many_cores(rng: np.random.Generator) -> None:
    model = mixing(rng, 1_000_000, 3)
    p = plan(model, threads=1)
    assert set(p.kind) == {Kind.CHUNKS}
    assert p.item[0, 0] == 0
    np.testing.assert_array_equal(p.item[1:, 0], p.item[:-1, 1])
    assert p.total_cost < 1.05 * 2 * 1_000_000  # what runs in
    assert simulate(p, 8).speedup >= 7.5
    assert simulate(p, 16).speedup >= 14
    for field in ("kind", "item", "cost"):
        np.testing.assert_array_equal(getattr(plan(model, threads=8), field), getattr(p, field))


@pytest.mark.parametrize(
    "table",
    [
        [[0.0, -np.inf], [-np.inf, 0.0]],
        [[-np.inf, 0.0], [0.0, -np.inf]],
        [[0.0, -60.0], [-60.0, 0.0]],
    ],
    ids=["identity", "periodic", "sticky"],
)
def test_influence_that_never_dies_is_not_cut(rng: np.random.Generator, table: Any) -> None:
    model = vs.Chain(0.01 * rng.normal(size=(6000, 2)), np.array(table))
    assert Kind.CHUNKS not in plan(model).kind
    assert_same_result(vs.infer(model, threads=2), uncut(model))


def halves(rng: np.random.Generator, n: int, stuck: slice) -> vs.Chain:
    """Return a chain in which influence dies, but in some places."""
    table = np.where(np.eye(3) > 0, 6.0, 0.0)
    unary = 8 * rng.normal(size=(n, 3))
    unary[stuck] = 1e-3 * rng.normal(size=unary[stuck].shape)
    return vs.Chain(unary, table)


@pytest.mark.parametrize("threads", [1, 2])
def test_messages_are_passed_on_where_they_are_wrong(
    rng: np.random.Generator, threads: int
) -> None:
    model = halves(rng, 60_000, slice(20_000, 22_000))
    assert JOIN in labels(model)
    got, want = vs.infer(model, threads=threads), uncut(model)
    np.testing.assert_allclose(got.marginals, want.marginals, rtol=0, atol=1e-12)
    np.testing.assert_allclose(got.log_z, want.log_z, rtol=1e-13)
    sums = got.expectations()
    native.cut_chains(-1)
    np.testing.assert_allclose(sums, want.expectations(), rtol=1e-10)


def test_a_chain_that_is_wrong_in_most_places_is_not_cut_after_all(
    rng: np.random.Generator,
) -> None:
    """Probes have missed what most of the cuts see."""
    n, room = 60_000, 60_000 - 24 - 72 - 1
    stuck = np.ones(n, bool)
    for q in range(4):
        at = room * (2 * q + 1) // 8
        stuck[at : at + 120] = False
    model = halves(rng, n, slice(0, 0))
    unary = model.unary.copy()
    unary[stuck] *= 1e-4
    model = vs.Chain(unary, model.transition)
    assert Kind.CHUNKS in plan(model).kind
    assert labels(model).count("exact") == 2
    seen: list[tuple[int, int]] = []
    got = vs.infer(model, progress=lambda *at: seen.append(at))
    assert all(0 <= done <= total for done, total in seen)
    want = uncut(model)
    assert_same_bits(got.marginals, want.marginals)
    assert_same_bits(got.log_z, want.log_z)
    sums = got.expectations()
    native.cut_chains(-1)
    np.testing.assert_allclose(sums, want.expectations(), rtol=1e-12)


def test_messages_that_do_not_agree_would_be_seen(rng: np.random.Generator) -> None:
    """The comparison is what makes it exact: where it lets too much pass, the answer is wrong."""
    model = vs.Chain(rng.normal(size=(6000, 4)), np.where(np.eye(4) > 0, 4.0, 0.0))
    want = uncut(model).marginals
    native.cut_chains(100, 100, 3)
    np.testing.assert_allclose(vs.infer(model).marginals, want, rtol=0, atol=1e-12)
    native.cut_chains(100, 100, 3, 10.0)
    assert np.abs(vs.infer(model).marginals - want).max() > 1e-6


def test_zeros_and_impossible_chains(rng: np.random.Generator) -> None:
    model = random_chain(rng, [5000], 4, scale=1.0, forbidden=0.2)
    unary, table = model.unary, model.transition
    table[0, :] = table[:, 0] = 0.0
    unary[:, 0] = np.where(np.isinf(unary[:, 0]), 0.0, unary[:, 0])
    assert Kind.CHUNKS in plan(vs.Chain(unary, table)).kind
    got, want = vs.infer(vs.Chain(unary, table)), uncut(vs.Chain(unary, table))
    np.testing.assert_array_equal(got.marginals == 0, want.marginals == 0)
    unary[3210] = -np.inf
    with refused(vs.InfeasibleError) as info:
        vs.infer(vs.Chain(unary, table))
    assert (info.value.sequence, info.value.position) == (0, 3210)


def test_scores_that_need_logarithms(rng: np.random.Generator) -> None:
    model = vs.Chain(1e4 * rng.normal(size=(4200, 3)), 1e4 * rng.normal(size=(3, 3)))
    got, want = vs.infer(model), uncut(model)
    np.testing.assert_allclose(got.marginals, want.marginals, rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.log_z, want.log_z, rtol=1e-13)


def test_a_default_and_the_pairs_that_differ(rng: np.random.Generator) -> None:
    k = 300
    table = np.zeros((k, k))
    table[rng.integers(0, k, 2000), rng.integers(0, k, 2000)] = 2.0
    model = vs.Chain(3 * rng.normal(size=(4200, k)), table)
    assert vs.infer(model).reason == uncut(model).reason
    np.testing.assert_allclose(vs.infer(model).marginals, uncut(model).marginals, atol=1e-12)


def test_deadline_and_progress(rng: np.random.Generator) -> None:
    model = mixing(rng, 200_000, 20)
    with pytest.raises(vs.DeadlineError):
        vs.infer(model, deadline=1e-4, threads=2)
    seen: list[tuple[int, int]] = []
    vs.infer(model, progress=lambda *at: seen.append(at))
    assert all(0 <= done <= total == 200_000 for done, total in seen)
