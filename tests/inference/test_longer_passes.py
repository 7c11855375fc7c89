"""Chains of order 2 and of segments: scaled numbers against logarithms, chains of pairs, slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import valuesparse as vs


def second_order(seed: int, k: int, lengths: list[int], scale: float, share: float) -> dict:
    """Return the arguments of a chain of order 2, of which a share of the scores is −inf."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    model = {
        "unary": scale * rng.normal(size=(n, k)), "transition": scale * rng.normal(size=(k, k, k)),
        "first": scale * rng.normal(size=(k, k)), "start": rng.normal(size=k),
        "end": rng.normal(size=k),
    }  # fmt: skip
    for name in ("transition", "first"):
        model[name][rng.random(model[name].shape) < share] = -np.inf
    return {**model, "lengths": lengths, "order": 2}


def as_pairs(model: dict) -> vs.Chain:
    """Return one sequence as a chain whose labels are pairs of labels; n labels have n − 1."""
    (n,) = model["lengths"]
    k = len(model["start"])
    unary = np.repeat(model["unary"][1:], k, axis=0).reshape(n - 1, k, k).transpose(0, 1, 2).copy()
    unary[0] += (model["start"] + model["unary"][0])[:, None] + model["first"]
    unary[-1] += model["end"]
    table = np.full((k, k, k, k), -np.inf)  # [before, from, from, to]
    for f in range(k):
        table[:, f, f, :] = model["transition"][:, f, :]
    return vs.Chain(unary.reshape(n - 1, k * k), table.reshape(k * k, k * k))


@pytest.mark.simd
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), k=st.sampled_from([1, 2, 3, 5, 8, 9]), n=st.integers(2, 9),
    scale=st.sampled_from([0.0, 1.0, 8.0, 60.0, 1e4]), share=st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_a_chain_of_order_2_is_one_of_pairs(
    seed: int, k: int, n: int, scale: float, share: float
) -> None:
    model = second_order(seed, k, [n], scale, share)
    chain, pairs = vs.Chain(**model), as_pairs(model)
    try:
        b = vs.infer(pairs)
    except vs.InfeasibleError:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(chain)
        return
    a = vs.infer(chain)
    close = {"rtol": 1e-11, "atol": 1e-11 * max(1.0, scale)}
    np.testing.assert_allclose(a.log_z, b.log_z, **close)
    both = b.marginals.reshape(n - 1, k, k)
    np.testing.assert_allclose(a.pairwise(), both, **close)
    np.testing.assert_allclose(a.marginals[1:], both.sum(axis=1), **close)
    np.testing.assert_allclose(a.marginals[0], both[0].sum(axis=1), **close)
    counts = b.expectations().reshape(k, k, k, k)
    np.testing.assert_allclose(a.expectations(), np.einsum("abbc->abc", counts), **close)
    np.testing.assert_allclose(a.entropy(), b.entropy(), rtol=1e-9, atol=1e-9 * max(1.0, scale))
    found, wanted = vs.decode(chain), vs.decode(pairs)
    np.testing.assert_allclose(found.score, wanted.score, **close)
    np.testing.assert_allclose(vs.log_prob(chain, found.states), found.score - a.log_z, **close)


def in_logarithms(chain: vs.SegmentChain) -> tuple[np.ndarray, np.ndarray]:
    """Return log Z (B,) and the shares of segments (N, L, K), term by term in logarithms."""
    n, k, most = chain.n_positions, chain.n_labels, chain.max_length
    start, end = (np.zeros(k) if x is None else x for x in (chain.start, chain.end))
    more = np.zeros((n, most, k))  # of whole segments, beside those of positions
    for table in (chain.duration, chain.segment):
        more += 0.0 if table is None else table
    found, joint = [], np.zeros((n, most, k))
    for first, stop in zip(chain.offset[:-1], chain.offset[1:], strict=True):
        size = stop - first
        if size == 0:
            found.append(0.0)
            continue
        weight = np.full((size, most, k), -np.inf)
        for i in range(size):
            sums = np.cumsum(chain.scores()[first + i : min(stop, first + i + most)], axis=0)
            weight[i, : len(sums)] = sums + more[first + i, : len(sums)]
        ended, entry = np.full((size + 1, k), -np.inf), np.full((size + 1, k), -np.inf)
        entry[0] = start
        for e in range(1, size + 1):
            ways = [entry[e - d] + weight[e - d, d - 1] for d in range(1, min(most, e) + 1)]
            ended[e] = logsumexp(ways, axis=0) + (end if e == size else 0)
            entry[e] = logsumexp(ended[e][:, None] + chain.transition, axis=0)
        found.append(logsumexp(ended[size]))
        after = np.full((size + 1, k), -np.inf)
        after[size] = end
        for i in range(size - 1, -1, -1):
            ways = [weight[i, d - 1] + after[i + d] for d in range(1, min(most, size - i) + 1)]
            joint[first + i, : len(ways)] = np.exp(entry[i] + np.array(ways) - found[-1])
            after[i] = logsumexp(chain.transition + logsumexp(ways, axis=0), axis=1)
    return np.array(found), joint


def segments(
    seed: int, k: int, longest: int, lengths: list[int], scale: float, share: float
) -> Any:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    table, duration = rng.normal(size=(k, k)), scale * rng.normal(size=(longest, k))
    table[rng.random((k, k)) < share] = -np.inf
    duration[rng.random((longest, k)) < share] = -np.inf
    return {
        "unary": scale * rng.normal(size=(n, k)), "transition": table, "lengths": lengths,
        "duration": duration, "segment": scale * rng.normal(size=(n, longest, k)),
        "max_length": longest, "start": rng.normal(size=k), "end": rng.normal(size=k),
    }  # fmt: skip


@pytest.mark.simd
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), k=st.sampled_from([1, 2, 3, 5, 8, 9, 17]),
    longest=st.integers(1, 9), scale=st.sampled_from([0.0, 1.0, 8.0, 60.0, 1e4]),
    share=st.sampled_from([0.0, 0.1]),
    given_scores=st.sampled_from(["both", "duration", "segment"]),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_segments_in_logarithms(
    seed: int, k: int, longest: int, scale: float, share: float, given_scores: str
) -> None:
    model = segments(seed, k, longest, [7, 0, 1, 12], scale, share)
    if given_scores != "both":
        model["segment" if given_scores == "duration" else "duration"] = None
    chain = vs.SegmentChain(**model)
    log_z, joint = in_logarithms(chain)
    if np.isneginf(log_z).any():
        with pytest.raises(vs.InfeasibleError):
            vs.infer(chain)
        return
    r = vs.infer(chain)
    close = {"rtol": 1e-11, "atol": 1e-11 * max(1.0, scale)}
    np.testing.assert_allclose(r.log_z, log_z, **close)
    np.testing.assert_allclose(r.segments(), joint, **close)
    covered = np.zeros_like(r.marginals)
    for d in range(longest):
        for further in range(d + 1):
            covered[further:] += joint[: len(joint) - further, d]
    np.testing.assert_allclose(r.marginals, covered, **close)


@pytest.mark.simd
@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize("order", [2, 0])
def test_slopes_of_log_z(order: int, scale: float) -> None:
    """Expected counts are its slopes; entropy follows from that by the temperature."""
    lengths = [6, 1, 9, 2]
    model = (
        second_order(3, 4, lengths, scale, 0.1) if order else segments(3, 4, 5, lengths, scale, 0.1)
    )
    make = vs.Chain if order else vs.SegmentChain
    r = vs.infer(make(**model))
    step, slopes = 1e-5, np.zeros_like(model["transition"])
    for at in np.ndindex(slopes.shape):
        if model["transition"][at] == -np.inf:
            continue
        total = []
        for sign in (1, -1):
            moved = model["transition"].copy()
            moved[at] += sign * step
            total.append(vs.infer(make(**{**model, "transition": moved})).log_z.sum())
        slopes[at] = (total[0] - total[1]) / (2 * step)
    np.testing.assert_allclose(r.expectations(threads=1), slopes, atol=1e-7)
    names = [n for n, x in model.items() if isinstance(x, np.ndarray)]
    cooler, warmer = (
        vs.infer(make(**{**model, **{n: model[n] * t for n in names}})).log_z
        for t in (1 + step, 1 - step)
    )
    score = (cooler - warmer) / (2 * step)
    np.testing.assert_allclose(r.entropy(threads=1), r.log_z - score, atol=1e-5 * scale)


def answers(chain: Any) -> Any:
    """Return a function that gives all that is known of one sequence, in bits."""
    r = vs.infer(chain, threads=1)
    found, ways = vs.decode(chain, threads=1), vs.decode(chain, n_best=3, threads=1)
    entropy = r.entropy(threads=1)
    joint = r.pairwise() if hasattr(r, "pairwise") else r.segments()
    bounds = chain.edge if hasattr(r, "pairwise") else chain.offset

    def of(s: int) -> list[bytes]:
        rows = slice(chain.offset[s], chain.offset[s + 1])
        some = (
            r.log_z[s], r.marginals[rows], found.score[s], found.states[rows], entropy[s],
            ways.score[:, s], ways.states[:, rows], joint[bounds[s] : bounds[s + 1]],
        )  # fmt: skip
        return [np.ascontiguousarray(x).tobytes() for x in some]

    return of


@pytest.mark.simd
@pytest.mark.parametrize("k", [2, 5, 9, 33])
@pytest.mark.parametrize("order", [2, 0])
def test_bits_do_not_depend_on_company(order: int, k: int) -> None:
    """Neither on the other sequences of a batch and their order nor on threads."""
    lengths = [3, 11, 1, 0, 7, 7, 2, 5, 19, 4, 12, 3, 1, 6, 25, 8, 2, 9, 13, 10, 4]
    model = (
        second_order(9, k, lengths, 2.0, 0.05) if order else segments(9, k, 6, lengths, 2.0, 0.02)
    )
    # Masks of a large negative score; one sequence whose two directions share nothing.
    model["unary"][40:60, 1:] = -1e4
    make = vs.Chain if order else vs.SegmentChain
    chain = make(**model)
    together = answers(chain)
    for order_of in (range(len(lengths)), [20, 1, 8, 14]):
        rows = [slice(chain.offset[s], chain.offset[s + 1]) for s in order_of]
        some = {"unary": np.concatenate([model["unary"][r] for r in rows])}
        if not order:
            some["segment"] = np.concatenate([model["segment"][r] for r in rows])
        some["lengths"] = [lengths[s] for s in order_of]
        apart = answers(make(**{**model, **some}))
        for j, s in enumerate(order_of):
            assert apart(j) == together(s)
    one = vs.infer(chain, threads=1)
    for threads in (2, 3, 8):
        r = vs.infer(chain, threads=threads)
        assert r.marginals.tobytes() == one.marginals.tobytes()
        assert r.log_z.tobytes() == one.log_z.tobytes()
        assert r.entropy(threads=threads).tobytes() == one.entropy(threads=1).tobytes()
        counts = r.expectations(threads=threads)
        assert counts.tobytes() == one.expectations(threads=1).tobytes()
        drawn = vs.sample(chain, 3, rng=1, threads=threads)
        assert np.array_equal(drawn, vs.sample(chain, 3, rng=1, threads=1))
        assert np.array_equal(
            vs.decode(chain, threads=threads).states, vs.decode(chain, threads=1).states
        )


def conflict(order: int) -> Any:
    """Return two sequences; in the second, what comes before speaks against what comes after."""
    unary = np.zeros((8, 2))
    unary[4] = 0.0, -800.0
    unary[7] = -800.0, 0.0
    stays = np.array([[0.0, -400.0], [-400.0, 0.0]])
    if order:
        return vs.Chain(unary, np.tile(stays, (2, 1, 1)), [4, 4], order=2, first=stays)
    return vs.SegmentChain(unary, stays, [4, 4], max_length=1)


@pytest.mark.simd
@pytest.mark.parametrize("order", [2, 0])
def test_logarithms_where_doubles_have_not_the_range(order: int) -> None:
    chain = conflict(order)
    r = vs.infer(chain)
    assert r.reason == "two passes, in logarithms for 1 of 2 sequences"
    assert r.stats == {"sequences_widened": 1}
    stays = np.array([[0.0, -400.0], [-400.0, 0.0]])
    plain = vs.infer(vs.Chain(chain.unary, stays, [4, 4]))
    np.testing.assert_allclose(r.log_z, plain.log_z, rtol=1e-13)
    np.testing.assert_allclose(r.marginals, plain.marginals, atol=1e-11)
    np.testing.assert_allclose(r.entropy(), plain.entropy(), atol=1e-9)
    counts = r.expectations().sum(axis=0) if order else r.expectations()
    pairs = vs.infer(chain).pairwise() if order else None
    wanted = plain.expectations() - (pairs[[0, 3]].sum(axis=0) if order else 0.0)
    np.testing.assert_allclose(counts, wanted, atol=1e-11)
    drawn = vs.sample(chain, 200, rng=0)
    labels = drawn if order else chain.labels(drawn)
    assert (vs.log_prob(vs.Chain(chain.unary, stays, [4, 4]), labels[0]) > -20).all()
    assert np.array_equal(vs.decode(chain).states[:4], [0, 0, 0, 0])


@pytest.mark.simd
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("order", [2, 0])
def test_what_vanishes_at_first_may_win(order: int, steps: int) -> None:
    """Label 1 loses e^-840, at once or in steps, then label 0 loses e^-120 eight times."""
    unary = np.zeros((steps + 8, 2))
    unary[:steps, 1] = -840.0 / steps
    unary[steps:, 0] = -120.0
    stays = np.where(np.eye(2), 0.0, -np.inf)
    chain = (
        vs.Chain(unary, np.tile(stays, (2, 1, 1)), order=2, first=stays)
        if order
        else vs.SegmentChain(unary, stays, max_length=1)
    )
    n = len(unary)
    assert vs.log_prob(chain, np.ones(n, int)) == pytest.approx(0.0, abs=1e-12)
    assert vs.log_prob(chain, np.zeros(n, int)) == pytest.approx(-120.0)
    assert (vs.sample(chain, 5, rng=0) == 1).all()
    r = vs.infer(chain)
    assert r.log_z == pytest.approx(-840.0)
    assert r.stats == {"sequences_widened": 1}
    np.testing.assert_allclose(r.marginals[:, 1], 1.0)
    counts = np.zeros((2,) * (order + 1 if order else 2))
    counts[(1,) * counts.ndim] = n - order if order else n - 1
    np.testing.assert_allclose(r.expectations(), counts, atol=1e-12)
    np.testing.assert_allclose(r.entropy(), 0.0, atol=1e-9)
    assert (vs.decode(chain).states == 1).all()


@pytest.mark.simd
@pytest.mark.parametrize("order", [2, 0])
def test_a_label_that_cannot_be_reached_outweighs_the_others(order: int) -> None:
    """What the other labels have is too small beside it for doubles."""
    unary = np.zeros((5, 3))
    unary[0, 0] = -np.inf
    unary[2] = 0.0, -700.0, -712.0
    table = np.zeros((3, 3))
    table[1:, 0] = -np.inf
    chain = (
        vs.Chain(unary, np.tile(table, (3, 1, 1)), order=2, first=table)
        if order
        else vs.SegmentChain(unary, table, max_length=1)
    )
    r = vs.infer(chain)
    np.testing.assert_allclose(r.marginals, vs.infer(vs.Chain(unary, table)).marginals, atol=1e-11)
    assert r.marginals[2, 2] == pytest.approx(1 / (1 + np.exp(12)), rel=1e-10)


@pytest.mark.simd
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_boundaries_that_no_cut_reaches() -> None:
    """Segments have two positions or three: label 0 has two, and label 1 three."""
    rng = np.random.default_rng(0)
    duration = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [-np.inf, 0.0]])
    transition = np.array([[-1.0, 0.5], [0.2, -np.inf]])
    chain = vs.SegmentChain(
        rng.normal(size=(13, 2)), transition, [5, 8], max_length=3, duration=duration
    )
    log_z, joint = in_logarithms(chain)
    assert np.isfinite(log_z).all()
    for _ in range(5):
        r = vs.infer(chain)
        assert r.stats == {"sequences_widened": 0}
        used = np.full(joint.shape, np.nan)  # memory that the answer may get
        del used
        np.testing.assert_allclose(r.segments(), joint, atol=1e-12)
        np.testing.assert_allclose(r.log_z, log_z, rtol=1e-12)


@pytest.mark.simd
@pytest.mark.parametrize("order", [2, 0])
def test_the_best_is_the_first_of_several(order: int) -> None:
    """Also where whole sums cannot tell ways apart that parts of them can."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        unary = 1e15 + 0.25 * rng.integers(0, 4, size=(9, 3))
        table = np.zeros((3, 3, 3) if order else (3, 3))
        chain = (
            vs.Chain(unary, table, order=2)
            if order
            else vs.SegmentChain(unary, table, max_length=2)
        )
        one, two = vs.decode(chain), vs.decode(chain, n_best=2)
        assert np.array_equal(one.states, two.states[0])
        assert one.score == two.score[0]


@pytest.mark.simd
@pytest.mark.parametrize("longest", [0, 1, 4])
@pytest.mark.parametrize("apart", [-1e4, -np.inf])
def test_what_vanishes_from_both_sides_may_win(longest: int, apart: float) -> None:
    """Label 1 is masked at both ends, and label 0 is unlikely everywhere between."""
    n = 50
    unary = np.zeros((n, 2))
    unary[:, 0] = -50.0
    ends = np.array([0.0, -1000.0])
    table = np.where(np.eye(2), 0.0, apart)
    chain = (
        vs.SegmentChain(unary, table, max_length=longest, start=ends, end=ends)
        if longest
        else vs.Chain(
            unary, np.tile(table, (2, 1, 1)), order=2, first=table, start=ends, end=ends
        )
    )  # fmt: skip
    r = vs.infer(chain)
    np.testing.assert_allclose(r.marginals[:, 1], 1.0, atol=1e-9)
    best = vs.decode(chain)
    assert (best.states[0] == 1).all() if not longest else best.states[0] == 1
    assert best.score - 1e-9 <= r.log_z
    y = np.ones(n, int)
    assert vs.log_prob(chain, y) == pytest.approx(chain.score(y) - r.log_z)
    drawn = vs.sample(chain, 20, rng=0)
    assert (drawn != 0).all()


@pytest.mark.simd
@pytest.mark.parametrize("order", [2, 0])
def test_masks_of_large_scores_need_no_logarithms(order: int) -> None:
    """Scores of -1e4 where a label may not be, as much as -inf; a score that matters is felt."""
    rng = np.random.default_rng(5)
    lengths = [20, 7, 40]
    model = second_order(2, 5, lengths, 1.0, 0.0) if order else segments(2, 5, 4, lengths, 1.0, 0.0)
    may = rng.random(model["unary"].shape) < 0.8
    may[:, 0] = True
    make = vs.Chain if order else vs.SegmentChain
    masked = vs.infer(make(**{**model, "unary": np.where(may, model["unary"], -1e4)}))
    never = vs.infer(make(**{**model, "unary": np.where(may, model["unary"], -np.inf)}))
    assert masked.stats == {"sequences_widened": 0}
    np.testing.assert_allclose(masked.log_z, never.log_z, rtol=1e-12)
    np.testing.assert_allclose(masked.marginals, never.marginals, atol=1e-12)
    forced = np.where(may, model["unary"], -1e4)
    forced[3] = -1e4  # all labels are masked here: they are as likely as their scores say
    forced[3, :2] += 1.0
    r = vs.infer(make(**{**model, "unary": forced}))
    assert r.marginals[3].min() > 1e-4


@pytest.mark.simd
@pytest.mark.parametrize("order", [2, 0])
def test_an_offset_of_scores_leaves_entropy(order: int) -> None:
    lengths = [50, 3]
    model = second_order(4, 3, lengths, 1.0, 0.0) if order else segments(4, 3, 1, lengths, 1.0, 0.0)
    make = vs.Chain if order else vs.SegmentChain
    entropy = vs.infer(make(**model)).entropy()
    for name in ("unary", "transition"):
        moved = vs.infer(make(**{**model, name: model[name] + 1e6})).entropy()
        np.testing.assert_allclose(moved, entropy, atol=1e-5)


def test_segments_that_may_be_longer_than_any_sequence() -> None:
    unary, table = np.zeros((3, 2)), np.zeros((2, 2))
    wanted = vs.infer(vs.SegmentChain(unary, table, max_length=3))
    for longest in (4, 2**31, 2**59, 2**62):
        chain = vs.SegmentChain(unary, table, max_length=longest)
        r = vs.infer(chain)
        assert r.marginals.tobytes() == wanted.marginals.tobytes()
        assert r.log_z.tobytes() == wanted.log_z.tobytes()
        assert vs.decode(chain).score.tolist() == [0.0]
        assert vs.sample(chain, 5, rng=0).shape == (5, 3)


@pytest.mark.simd
def test_log_prob_does_not_depend_on_company() -> None:
    model = second_order(6, 5, [8] * 20, 1.5, 0.0)
    y = np.zeros(160, int)
    want = vs.log_prob(vs.Chain(**model), y)
    model["unary"][:8, 3] = -1e4
    model["unary"][9, :] -= np.linspace(0.0, 900.0, 5)
    assert np.array_equal(vs.log_prob(vs.Chain(**model), y)[2:], want[2:])
