"""Chains of order 2 and chains of segments, against enumeration."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.models import SecondOrderChain


def holes(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """Return scores of which some are −inf."""
    x = scale * rng.normal(size=shape)
    return np.where(rng.random(shape) < 0.15, -np.inf, x)


def second_order(rng: np.random.Generator, k: int, lengths: list[int], scale: float) -> dict:
    n = sum(lengths)
    return {
        "unary": scale * rng.normal(size=(n, k)), "transition": holes(rng, (k, k, k), scale),
        "lengths": lengths, "start": rng.normal(size=k), "end": rng.normal(size=k),
        "first": holes(rng, (k, k), scale), "allowed": rng.random((n, k)) < 0.9,
    }  # fmt: skip


def labellings(model: dict, s: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield all labellings of a sequence and their scores, one term at a time."""
    k, begin = len(model["start"]), sum(model["lengths"][:s])
    for y in itertools.product(range(k), repeat=model["lengths"][s]):
        if not y:
            yield y, 0.0
            continue
        score = model["start"][y[0]] + model["end"][y[-1]]
        for i, label in enumerate(y):
            score += model["unary"][begin + i, label]
            if not model["allowed"][begin + i, label]:
                score = -np.inf
        if len(y) > 1:
            score += model["first"][y[0], y[1]]
        for i in range(2, len(y)):
            score += model["transition"][y[i - 2], y[i - 1], y[i]]
        yield y, score


def check_samples(model: object, offset: list[int], weights: list[dict]) -> None:
    """Draw, and compare the frequencies with exact probabilities, within five deviations."""
    size = 4000
    drawn = vs.sample(model, size, rng=1, threads=2)  # type: ignore[arg-type]
    np.testing.assert_array_equal(drawn, vs.sample(model, size, rng=1, threads=1))  # type: ignore[arg-type]
    for s, probability in enumerate(weights):
        rows = [tuple(row) for row in drawn[:, offset[s] : offset[s + 1]].tolist()]
        assert set(rows) <= {y for y, p in probability.items() if p > 0}
        for y, p in probability.items():
            if p > 0.05:
                share = rows.count(y) / size
                assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / size) + 1e-9


@pytest.mark.simd
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), k=st.integers(1, 3), scale=st.sampled_from([1.0, 30.0, 900.0])
)
def test_second_order_chains_by_enumeration(seed: int, k: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    model = second_order(rng, k, [1, 4, 0, 2, 3], scale)
    chain = vs.Chain(**model, order=2)
    assert isinstance(chain, SecondOrderChain)
    log_z, best, marginals, pairs = [], [], np.zeros((10, k)), np.zeros((6, k, k))
    triples = np.zeros((k, k, k))
    for s, n in enumerate(model["lengths"]):
        every = list(labellings(model, s))
        scores = np.array([score for _, score in every])
        log_z.append(np.logaddexp.reduce(scores))
        best.append(scores.max())
        if np.isneginf(log_z[-1]):
            break
        at = sum(model["lengths"][:s])
        edge = sum(max(m - 1, 0) for m in model["lengths"][:s])
        for y, score in every:
            p = np.exp(score - log_z[-1])
            marginals[range(at, at + n), y] += p
            if n > 1:
                pairs[range(edge, edge + n - 1), y[:-1], y[1:]] += p
            np.add.at(triples, (y[:-2], y[1:-1], y[2:]), p)
    if np.isneginf(log_z[-1]):
        for call in (vs.infer, vs.decode, lambda m: vs.sample(m, 1)):
            with pytest.raises(vs.InfeasibleError) as caught:
                call(chain)
            assert caught.value.sequence == len(log_z) - 1
        return
    r = vs.infer(pickle.loads(pickle.dumps(chain)), threads=2)
    np.testing.assert_allclose(r.log_z, log_z, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(r.marginals, marginals, atol=1e-11 * scale)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(r)).pairwise(), pairs, atol=1e-11 * scale)
    np.testing.assert_allclose(r.expectations(threads=2), triples, atol=1e-11 * scale)
    assert np.array_equal(r.expectations(threads=1), r.expectations(threads=3))
    d = vs.decode(chain, threads=2)
    np.testing.assert_allclose(d.score, best, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(vs.log_prob(chain, d.states), d.score - r.log_z, atol=1e-9)
    threads = vs.infer(chain, threads=1)
    assert np.array_equal(threads.marginals, r.marginals)


def test_a_chain_of_order_2_that_forgets_is_a_chain(rng: np.random.Generator) -> None:
    """Where `before` does not matter it is the first-order chain."""
    u, t = rng.normal(size=(60, 9)), 3 * rng.normal(size=(9, 9))
    a = vs.infer(vs.Chain(u, t, [50, 10]))
    b = vs.infer(vs.Chain(u, np.tile(t, (9, 1, 1)), [50, 10], order=2, first=t))
    np.testing.assert_allclose(b.marginals, a.marginals, atol=1e-12)
    np.testing.assert_allclose(b.pairwise(), a.pairwise(), atol=1e-12)
    np.testing.assert_allclose(b.log_z, a.log_z, rtol=1e-13)


def test_frequencies_of_second_order_samples(rng: np.random.Generator) -> None:
    model = second_order(rng, 2, [1, 4, 2], 1.0)
    model["allowed"][:] = True
    chain, weights = vs.Chain(**model, order=2), []
    log_z = vs.infer(chain).log_z
    for s in range(3):
        weights.append({y: np.exp(score - log_z[s]) for y, score in labellings(model, s)})
    check_samples(chain, [0, 1, 5, 7], weights)


def segments_model(
    rng: np.random.Generator, k: int, longest: int, lengths: list[int], scale: float
) -> dict:
    n = sum(lengths)
    return {
        "unary": scale * rng.normal(size=(n, k)), "transition": holes(rng, (k, k), scale),
        "lengths": lengths, "max_length": longest, "start": rng.normal(size=k),
        "end": rng.normal(size=k), "duration": holes(rng, (longest, k), scale),
        "segment": scale * rng.normal(size=(n, longest, k)), "allowed": rng.random((n, k)) < 0.9,
    }  # fmt: skip


def cuts(model: dict, s: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield all cuts of a sequence, as label and −1s, and their scores, one term at a time."""
    k, longest, n = len(model["start"]), model["max_length"], model["lengths"][s]
    at = sum(model["lengths"][:s])

    def go(i: int, y: tuple[int, ...], before: int, score: float) -> Iterator:
        if i == n:
            yield y, score + (model["end"][before] if n else 0.0)
            return
        for d in range(1, min(longest, n - i) + 1):
            for label in range(k):
                more = model["start"][label] if i == 0 else model["transition"][before, label]
                more += model["duration"][d - 1, label] + model["segment"][at + i, d - 1, label]
                rows = slice(at + i, at + i + d)
                more += model["unary"][rows, label].sum()
                if not model["allowed"][rows, label].all():
                    more = -np.inf
                yield from go(i + d, (*y, label, *[-1] * (d - 1)), label, score + more)

    yield from go(0, (), -1, 0.0)


@pytest.mark.simd
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), k=st.integers(1, 3), longest=st.integers(1, 5),
    scale=st.sampled_from([1.0, 30.0, 900.0]),
)  # fmt: skip
def test_segment_chains_by_enumeration(seed: int, k: int, longest: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    model = segments_model(rng, k, longest, [1, 4, 0, 3], scale)
    chain = vs.SegmentChain(**model)
    log_z, best = [], []
    marginals, joint = np.zeros((8, k)), np.zeros((8, longest, k))
    for s in range(4):
        every = list(cuts(model, s))
        scores = np.array([score for _, score in every])
        log_z.append(np.logaddexp.reduce(scores))
        best.append(scores.max())
        if np.isneginf(log_z[-1]):
            break
        at = sum(model["lengths"][:s])
        for y, score in every:
            first = [i for i, label in enumerate(y) if label >= 0]
            for i, j in itertools.pairwise([*first, len(y)]):
                p = np.exp(score - log_z[-1])
                joint[at + i, j - i - 1, y[i]] += p
                marginals[at + i : at + j, y[i]] += p
    if np.isneginf(log_z[-1]):
        for call in (vs.infer, vs.decode, lambda m: vs.sample(m, 1)):
            with pytest.raises(vs.InfeasibleError) as caught:
                call(chain)
            assert caught.value.sequence == len(log_z) - 1
        return
    r = vs.infer(pickle.loads(pickle.dumps(chain)), threads=2)
    np.testing.assert_allclose(r.log_z, log_z, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(r.marginals, marginals, atol=1e-11 * scale)
    np.testing.assert_allclose(r.segments(), joint, atol=1e-11 * scale)
    assert np.array_equal(vs.infer(chain, threads=1).marginals, r.marginals)
    d = vs.decode(chain, threads=2)
    np.testing.assert_allclose(d.score, best, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(vs.log_prob(chain, d.states), d.score - r.log_z, atol=1e-9)
    whole = chain.segments(d.states)
    assert [sum(j - i for i, j, _ in one) for one in whole] == model["lengths"]
    assert (chain.labels(d.states) >= 0).all()


@pytest.mark.simd
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), k=st.integers(1, 3), ties=st.booleans(),
    wanted=st.integers(1, 40), longest=st.integers(0, 4),
)  # fmt: skip
def test_the_n_best_by_enumeration(
    seed: int, k: int, ties: bool, wanted: int, longest: int
) -> None:
    """Chains are of order 2 where `longest` is 0; whole numbers have many ties and exact sums."""
    rng = np.random.default_rng(seed)
    lengths = [1, 4, 0, 3, 2]
    model = (
        segments_model(rng, k, longest, lengths, 2.0)
        if longest
        else second_order(rng, k, lengths, 2.0)
    )
    if ties:
        for name, x in model.items():
            if name not in ("lengths", "max_length", "allowed"):
                model[name] = np.round(x / 2.0)
    chain = vs.SegmentChain(**model) if longest else vs.Chain(**model, order=2)
    ways = cuts if longest else labellings
    every = [sorted(((p, y) for y, p in ways(model, s)), reverse=True) for s in range(5)]
    if any(one[0][0] == -np.inf for one in every):
        with pytest.raises(vs.InfeasibleError):
            vs.decode(chain, n_best=wanted)
        return
    d = vs.decode(chain, n_best=wanted, threads=2)
    assert d.states.shape == (wanted, 10)
    one = vs.decode(chain)
    assert np.array_equal(d.states[0], one.states)
    assert np.array_equal(d.score[0], one.score)
    assert np.array_equal(vs.decode(chain, n_best=wanted, threads=1).states, d.states)
    for s, there in enumerate(every):
        at = sum(lengths[:s])
        found = [tuple(row) for row in d.states[:, at : at + lengths[s]].tolist()]
        possible = [p for p, _ in there if p > -np.inf][:wanted]
        rest = wanted - len(possible)
        np.testing.assert_allclose(d.score[:, s], possible + [-np.inf] * rest, atol=1e-10)
        assert len(set(found[: len(possible)])) == len(possible)
        score = {y: p for p, y in there}
        for y, p in zip(found, possible, strict=False):
            assert score[y] == pytest.approx(p, abs=1e-10)
        assert all(y == (-1,) * lengths[s] for y in found[len(possible) :])
        if ties and not longest:  # the lowest labels first, read from the end
            order = sorted((-p, y[::-1]) for p, y in there if p > -np.inf)[:wanted]
            assert [y[::-1] for y in found[: len(order)]] == [y for _, y in order]


def test_frequencies_of_cuts(rng: np.random.Generator) -> None:
    model = segments_model(rng, 2, 3, [1, 4, 2], 0.7)
    model["allowed"][:] = True
    chain, weights = vs.SegmentChain(**model), []
    log_z = vs.infer(chain).log_z
    for s in range(3):
        weights.append({y: np.exp(score - log_z[s]) for y, score in cuts(model, s)})
    check_samples(chain, [0, 1, 5, 7], weights)


def test_segments_of_one_position_are_labels(rng: np.random.Generator) -> None:
    u, t = rng.normal(size=(40, 5)), rng.normal(size=(5, 5))
    a, b = vs.infer(vs.Chain(u, t)), vs.infer(vs.SegmentChain(u, t, max_length=1))
    np.testing.assert_allclose(b.marginals, a.marginals, atol=1e-12)
    np.testing.assert_allclose(b.log_z, a.log_z, rtol=1e-13)


def test_single_precision_stays(rng: np.random.Generator) -> None:
    u, t = rng.normal(size=(9, 3)).astype(np.float32), np.zeros((3, 3), np.float32)
    r = vs.infer(vs.SegmentChain(u, t, max_length=4))
    assert r.marginals.dtype == r.segments().dtype == np.float32
    assert r.log_z.dtype == np.float64
    assert vs.infer(vs.Chain(u, np.zeros((3, 3, 3), np.float32), order=2)).marginals.dtype == "f4"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vs.Chain(np.zeros((3, 2)), np.zeros((2, 2)), order=2), r"shape \(2, 2, 2\)"),
        *((lambda order=order: vs.Chain(np.zeros((3, 2)), np.zeros((2, 2)), order=order),
           "order must be 1 or 2") for order in (3, True, 1.0, 2.0, np.True_, None)),
        (lambda: vs.Chain(np.zeros((3, 2)), np.zeros((2, 2, 2)), order=2, first=np.zeros(2)),
         r"first must have shape \(2, 2\)"),
        (lambda: vs.SegmentChain(np.zeros((3, 2)), np.zeros((2, 2)), max_length=0), "max_length"),
        (lambda: vs.SegmentChain(np.zeros((3, 2)), np.zeros((2, 2)), max_length=2,
                                 duration=np.zeros((3, 2))), r"duration must have shape \(2, 2\)"),
        (lambda: vs.SegmentChain(np.full((3, 2), np.nan), np.zeros((2, 2)), max_length=2), "NaN"),
        (lambda: SEGMENTS.segments([-1, 0, 0]), r"states\[0\] is -1"),
        (lambda: SEGMENTS.segments([0, 2, 0]), r"states\[1\] is 2"),
    ],
)  # fmt: skip
def test_bad_arguments(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


SEGMENTS = vs.SegmentChain(np.zeros((3, 2)), np.zeros((2, 2)), max_length=2)
SECOND = vs.Chain(np.zeros((3, 2)), np.zeros((2, 2, 2)), order=2)


@pytest.mark.parametrize("model", [SEGMENTS, SECOND])
@pytest.mark.parametrize(
    "call",
    [
        lambda m: vs.infer(m, zeta=0.5),
        lambda m: vs.infer(m, tol=1e-3),
        lambda m: vs.infer(m, keep=0.1),
        lambda m: vs.infer(m, method="islands"),
        lambda m: vs.infer(m, evidence={0: 1}),
    ],
)
def test_what_they_cannot_be_asked_is_refused(model: object, call: object) -> None:
    with pytest.raises(ValueError, match=r"Chain|Graph|method must be"):
        call(model)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("model", "kind"), [(SECOND, r"SecondOrderChain \(order=2\)"), (SEGMENTS, "SegmentChain")]
)
def test_errors_say_which_kind_of_chain_takes_no_such_argument(model: object, kind: str) -> None:
    for names in (["tol"], ["work"], ["keep"], ["tol", "keep"]):
        words = f"^a {kind} takes no {' and no '.join(names)}; leave (it|them) out$"
        with pytest.raises(ValueError, match=words):
            vs.infer(model, **dict.fromkeys(names, 0.5))


@pytest.mark.parametrize("order", [1, np.int64(1), 2, np.uint8(2)])
def test_orders_are_integers_of_any_type(order: int) -> None:
    chain = vs.Chain(np.zeros((3, 2)), np.zeros((2,) * (order + 1)), order=order)
    assert type(chain) is (vs.Chain if order == 1 else type(SECOND))


def test_a_cut_that_is_too_long_is_impossible() -> None:
    assert vs.log_prob(SEGMENTS, [0, -1, -1]).tolist() == [-np.inf]
    assert np.exp(vs.log_prob(SEGMENTS, [0, -1, 1])) == pytest.approx(1 / (2 * 4 + 8))


def test_deadline() -> None:
    chain = vs.Chain(np.zeros((200_000, 20)), np.zeros((20, 20, 20)), order=2)
    with pytest.raises(vs.DeadlineError):
        vs.infer(chain, deadline=0.01, threads=1)


@pytest.mark.parametrize("lengths", [[], [0, 0]])
def test_nothing_is_fine(lengths: list[int]) -> None:
    u, zeros = np.zeros((0, 2)), [0.0] * len(lengths)
    for chain in (
        vs.SegmentChain(u, np.zeros((2, 2)), lengths, max_length=3),
        vs.Chain(u, np.zeros((2, 2, 2)), lengths, order=2),
    ):
        assert vs.infer(chain).log_z.tolist() == zeros
        assert vs.decode(chain).score.tolist() == zeros
        assert vs.sample(chain, 3).shape == (3, 0)
        assert vs.log_prob(chain, np.zeros(0, int)).tolist() == zeros


def test_results_are_records_that_say_what_they_are() -> None:
    unary, pairs = np.zeros((5, 2)), np.zeros((2, 2))
    for model, name in (
        (vs.Chain(unary, np.zeros((2, 2, 2)), order=2), "SecondOrderResult"),
        (vs.SegmentChain(unary, pairs, max_length=2), "SegmentResult"),
    ):
        r = vs.infer(model)
        for found in (r, pickle.loads(pickle.dumps(r)), copy.deepcopy(r)):
            assert repr(found) == f"{name}(method='exact', positions=5, labels=2)"
            for array in (found.marginals, found.log_z, found.islands):
                assert not array.flags.writeable
