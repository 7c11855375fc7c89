"""`valuesparse.decode`: the best configurations, their scores, and ties."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from checks import assert_same_bits, chain, refused
from children import run
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    Arrays,
    Sequence,
    configuration_scores,
    enumerate_chain,
    first_infeasible,
    n_best,
    sequences,
    single,
    slices_of,
    tolerance,
)
from strategies import chains, examples, random_chain

import valuesparse as vs

pytestmark = pytest.mark.simd


@given(chains(max_labels=4, max_length=5))
@examples(300)
def test_best_of_all(model: Arrays) -> None:
    if first_infeasible(model) is not None:
        with refused(vs.InfeasibleError) as info:
            vs.decode(chain(model))
        assert (info.value.sequence, info.value.position) == first_infeasible(model)
        return
    d = vs.decode(chain(model))
    assert d.states.dtype == np.int64
    assert d.score.dtype == np.float64
    assert d.states.shape == (len(model.unary),)
    for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
        if not len(seq.local):
            assert d.score[b] == 0
            continue
        listing = enumerate_chain(seq)
        best = listing.states[listing.scores == listing.scores.max()]
        # All scores are exact here. Among equals the lowest labels, read from one end or the other.
        first = best[np.lexsort(best.T[::-1])[0]]
        last = best[np.lexsort(best.T)[0]]
        got = d.states[rows]
        assert (got == first).all() or (got == last).all(), (got, first, last)
        assert d.score[b] == listing.scores.max()


@given(chains(max_labels=3, max_length=4, max_sequences=3), st.integers(1, 30))
@examples(300)
def test_n_best_of_all(model: Arrays, k: int) -> None:
    if first_infeasible(model) is not None:
        with refused(vs.InfeasibleError):
            vs.decode(chain(model), n_best=k)
        return
    d = vs.decode(chain(model), n_best=k)
    assert d.states.shape == (k, len(model.unary))
    assert d.score.shape == (k, len(model.lengths))
    one = vs.decode(chain(model))
    assert_same_bits(d.states[0], one.states)
    assert_same_bits(d.score[0], one.score)
    for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
        if not len(seq.local):
            assert d.score[0, b] == 0
            assert (d.score[1:, b] == -np.inf).all()
            continue
        _, scores = n_best(enumerate_chain(seq), k)
        found = len(scores)
        np.testing.assert_array_equal(d.score[:found, b], scores.astype(float))
        assert (d.score[found:, b] == -np.inf).all()
        assert (d.states[found:, rows] == -1).all()
        states = d.states[:found, rows]
        assert len(np.unique(states, axis=0)) == found
        np.testing.assert_array_equal(configuration_scores(seq, states), scores)


def k_best_lists(seq: Sequence, k: int) -> tuple[list[list[int]], list[float]]:
    """Return the k best labellings and scores by full lists, in doubles, of every label.

    Prefixes of equal score are ordered by their last label but one, then by their place in its
    list: the rule that any other way of finding them has to keep.
    """
    local, edges = seq.local.astype(float), seq.edges.astype(float)
    n, labels = local.shape

    def best(heads: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
        return sorted(h for h in heads if h[0] < np.inf)[:k]

    lists = [[best([(-u, -1, 0)]) for u in local[0]]]
    for i in range(1, n):
        lists.append(
            [
                best(
                    [
                        (-((-before[0] + edges[i - 1, a, y]) + local[i, y]), a, rank)
                        for a in range(labels)
                        for rank, before in enumerate(lists[-1][a])
                    ]
                )
                for y in range(labels)
            ]
        )
    ends = best([(e[0], y, r) for y in range(labels) for r, e in enumerate(lists[-1][y])])
    states = []
    for _, y, r in ends:
        path = []
        for i in range(n - 1, -1, -1):
            path.append(y)
            _, y, r = lists[i][y][r]
        states.append(path[::-1])
    return states, [-e[0] for e in ends]


@given(chains(max_labels=4, max_length=6, max_sequences=3), st.integers(2, 40))
@examples(300)
def test_n_best_are_those_of_full_lists(model: Arrays, k: int) -> None:
    """Labellings, their order and their scores, where scores are exact: many of them tie."""
    if first_infeasible(model) is not None:
        return
    d = vs.decode(chain(model), n_best=k)
    one = vs.decode(chain(model)).states
    for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
        if not len(seq.local):
            continue
        states, scores = k_best_lists(seq, k)
        first = one[rows].tolist()  # leads, whichever of the best the lists begin with
        states = [first, *(s for s in states if s != first)][: len(scores)]
        np.testing.assert_array_equal(d.states[: len(states), rows], states)
        np.testing.assert_array_equal(d.score[: len(scores), b], scores)


@pytest.mark.parametrize("per_edge", [False, True])
def test_n_best_of_rounded_scores(per_edge: bool, rng: np.random.Generator, dtype: type) -> None:
    for k, labels, length in ((2, 50, 30), (7, 3, 40), (200, 5, 9), (40, 17, 12)):
        model = random_chain(rng, [length], labels, forbidden=0.1, per_edge=per_edge, dtype=dtype)
        if first_infeasible(model) is not None:
            continue
        (seq,) = sequences(model)
        states, scores = k_best_lists(seq, k)
        d = vs.decode(chain(model), n_best=k)
        np.testing.assert_array_equal(d.states[: len(states)], states)
        # The first is scored along its path, and no other may stand above it.
        assert_same_bits(d.score[1:, 0], np.minimum(scores[1:], d.score[0, 0]))
        np.testing.assert_allclose(d.score[0, 0], scores[0], rtol=1e-5)


def test_all_configurations_are_found_once(rng: np.random.Generator) -> None:
    model = random_chain(rng, [7], 3)
    d = vs.decode(chain(model), n_best=3**7 + 5)
    assert (d.score[3**7 :] == -np.inf).all()
    assert (d.states[3**7 :] == -1).all()
    assert len(np.unique(d.states[: 3**7], axis=0)) == 3**7
    assert (np.diff(d.score[: 3**7, 0]) <= 0).all()
    (seq,) = sequences(model)
    listing = enumerate_chain(seq)
    np.testing.assert_allclose(d.score[: 3**7, 0], np.sort(listing.scores.astype(float))[::-1])


@pytest.mark.smoke
def test_score_is_the_sum_of_potentials(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [40, 0, 1, 9], 7, scale=3, dtype=dtype)
    for d in (vs.decode(chain(model)), vs.decode(chain(model), n_best=4)):
        states, score = np.atleast_2d(d.states), np.atleast_2d(d.score)
        for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
            if len(seq.local):
                want = configuration_scores(seq, states[:, rows]).astype(float)
                rtol = 1e-5 if dtype == np.float32 else 1e-12
                np.testing.assert_allclose(score[:, b], want, rtol=rtol, atol=rtol)


def test_random_scores_against_enumeration(rng: np.random.Generator, dtype: type) -> None:
    for _ in range(30):
        model = random_chain(rng, [5], 4, forbidden=0.1, per_edge=True, dtype=dtype)
        if first_infeasible(model) is not None:
            continue
        (seq,) = sequences(model)
        states, scores = n_best(enumerate_chain(seq), 12)
        d = vs.decode(chain(model), n_best=12)
        np.testing.assert_allclose(
            d.score[: len(scores), 0], scores.astype(float), rtol=1e-5, atol=tolerance(model, 4)
        )
        if dtype == np.float64:
            np.testing.assert_array_equal(d.states[: len(states)], states)


def test_ties_are_the_lowest_label(dtype: type) -> None:
    flat = vs.Chain(np.zeros((9, 5), dtype), np.zeros((5, 5), dtype), lengths=[4, 1, 4])
    np.testing.assert_array_equal(vs.decode(flat).states, 0)
    unary = np.zeros((4, 5), dtype)
    unary[1, 2:] = 1
    unary[3, 4] = 1
    d = vs.decode(vs.Chain(unary, np.zeros((5, 5), dtype)))
    np.testing.assert_array_equal(d.states, [0, 2, 0, 4])


@pytest.mark.parametrize("k", [1, 2, 7, 8, 9, 16, 17, 33, 64, 95])
def test_ties_in_every_lane(k: int, dtype: type) -> None:
    for lane in range(k):
        unary = np.zeros((3, k), dtype)
        unary[1, lane:] = 1
        d = vs.decode(vs.Chain(unary, np.zeros((k, k), dtype)))
        np.testing.assert_array_equal(d.states, [0, lane, 0])


def test_fewer_configurations_than_asked_for() -> None:
    d = vs.decode(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2)), lengths=[1, 0, 2]), n_best=5)
    np.testing.assert_array_equal(
        d.score > -np.inf, [[1, 1, 1], [1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    )
    np.testing.assert_array_equal(d.states[2:, 0], -1)
    np.testing.assert_array_equal(d.states[4], -1)


def test_n_best_one_keeps_its_axis() -> None:
    d = vs.decode(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))), n_best=1)
    assert d.states.shape == (1, 3)
    assert d.score.shape == (1, 1)


def test_long_chain_decodes_to_its_argmax(rng: np.random.Generator, dtype: type) -> None:
    unary = rng.normal(size=(200_000, 3)).astype(dtype)
    d = vs.decode(vs.Chain(unary, np.zeros((3, 3), dtype)))
    np.testing.assert_array_equal(d.states, unary.argmax(1))
    np.testing.assert_allclose(d.score, unary.max(1).astype(float).sum(), rtol=1e-5)


def test_batch_equals_singles_and_threads_never_show(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [30, 0, 1, 7, 12, 3], 6, forbidden=0.02, dtype=dtype)
    assert first_infeasible(model) is None
    for n in (None, 1, 5):
        whole = vs.decode(chain(model), n_best=n)
        for threads in (1, 2, 3, 8):
            again = vs.decode(chain(model), n_best=n, threads=threads)
            assert_same_bits(again.states, whole.states)
            assert_same_bits(again.score, whole.score)
        for b, rows in enumerate(slices_of(model)):
            alone = vs.decode(chain(single(model, b)), n_best=n)
            assert_same_bits(alone.states, np.ascontiguousarray(whole.states[..., rows]))
            assert_same_bits(alone.score, np.ascontiguousarray(whole.score[..., b : b + 1]))


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", True, np.nan])
def test_bad_n_best(bad: object) -> None:
    with pytest.raises((ValueError, TypeError), match="n_best"):
        vs.decode(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))), n_best=bad)


OUT_OF_MEMORY = """
import resource, sys
import numpy as np
import valuesparse as vs
n, k, mib = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
model = vs.Chain(rng.normal(size=(n, 50)), rng.normal(size=(50, 50)), lengths=[n // 4] * 4)
vs.decode(model, threads=2)
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + (mib << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, room))
for threads in (1, 2):
    try:
        vs.decode(model, n_best=k, threads=threads)
        print("fits")
    except MemoryError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_n_best_without_memory_is_a_memory_error() -> None:
    done = run(OUT_OF_MEMORY, "8000", "4000", "300")  # 244 MiB are the answer
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not enough memory") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_few_best_take_little_memory() -> None:
    """Lists are opened where they are needed: less than 100 bytes for a position and label."""
    done = run(OUT_OF_MEMORY, "80000", "2", "220")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["fits"] * 2


def test_best_agrees_with_log_prob(rng: np.random.Generator) -> None:
    model = chain(random_chain(rng, [12, 5], 4))
    d, r = vs.decode(model), vs.infer(model)
    np.testing.assert_allclose(vs.log_prob(model, d.states), d.score - r.log_z, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["ordinary", "ties", "mixed"])
def test_the_first_of_the_best_is_the_best(kind: str, dtype: type) -> None:
    """Also where rounding leaves a choice: scores of very different size, and ties."""
    rng = np.random.default_rng(5)
    largest = 28 if dtype is np.float32 else 290
    seen = 0

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        x = rng.normal(size=shape)
        if kind == "ties":
            x = np.round(x)
        elif kind == "mixed":
            x *= 10.0 ** rng.integers(-3, largest - 1, shape)
        x[rng.random(shape) < 0.1] = -np.inf
        return x.astype(dtype)

    for _ in range(300):
        k = int(rng.integers(1, 6))
        lengths = rng.integers(0, 7, 3)
        n = int(lengths.sum())
        transition = (
            draw((k, k)) if rng.random() < 0.5 else draw((sum(lengths[lengths > 0] - 1), k, k))
        )
        extra = {"start": draw((k,)), "end": draw((k,))} if rng.random() < 0.3 else {}
        model = vs.Chain(draw((n, k)), transition, lengths=lengths, **extra)
        try:
            one = vs.decode(model)
        except vs.InfeasibleError:
            continue
        seen += 1
        for count in (1, 2, 5):
            several = vs.decode(model, n_best=count)
            assert several.states[0].tolist() == one.states.tolist()
            assert several.score[0].tolist() == one.score.tolist()
            assert (several.score[1:] <= several.score[:-1]).all()
            for b, size in enumerate(lengths.tolist()):
                begin = int(lengths[:b].sum())
                rows = several.states[:, begin : begin + size].tolist()
                rows = [tuple(r) for r in rows if -1 not in r]
                assert not size or len(set(rows)) == len(rows)
    assert seen > 100


MANY = {
    "peaked": lambda rng, shape: rng.normal(size=shape) + 9.0 * (rng.random(shape) < 0.02),
    "flat": lambda rng, shape: 0.1 * rng.normal(size=shape),
    "ties": lambda rng, shape: np.round(rng.normal(size=shape)),
    "zeros": lambda rng, shape: np.zeros(shape),
    "large": lambda rng, shape: 1e4 * rng.normal(size=shape),
    "forbids": lambda rng, shape: np.where(
        rng.random(shape) < 0.5, -np.inf, rng.normal(size=shape)
    ),
}


@pytest.mark.parametrize("labels", [128, 137, 261, 520])
@pytest.mark.parametrize("kind", MANY)
def test_many_labels_read_few_rows_and_change_no_bit(
    kind: str, labels: int, rng: np.random.Generator, dtype: type
) -> None:
    # A table an edge is read in full: the same states, ties and bits (CERTIFICATES section 9).
    lengths = [1, 2, 5, 3]
    unary = MANY[kind](rng, (sum(lengths), labels)).astype(dtype)
    table = MANY[kind](rng, (labels, labels)).astype(dtype)
    unary[:, 0], table[0], table[:, 0] = -5.0, -5.0, -5.0
    table[:, 7] = -np.inf  # a label that only a first position can have
    edges = np.repeat(table[np.newaxis], sum(lengths) - len(lengths), axis=0)
    for k in (1, 3):
        expected = vs.decode(vs.Chain(unary, edges, lengths=lengths), n_best=k)
        for threads in (1, 2, 3):
            shared = vs.Chain(unary, table, lengths=lengths)
            d = vs.decode(shared, n_best=k, threads=threads)
            assert_same_bits(d.states, expected.states)
            assert_same_bits(d.score, expected.score)
    parent = [-1, 0, 0, 1, 1, 2]
    first = vs.decode(vs.Tree(parent, unary[:6], table))
    own = vs.decode(vs.Tree(parent, unary[:6], np.repeat(table[np.newaxis], 6, axis=0)))
    assert_same_bits(first.states, own.states)
    assert_same_bits(first.score, own.score)
