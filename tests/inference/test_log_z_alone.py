"""`log_z` by one pass, as `log_prob` has it: the bits of a full pass, without its memory."""

from __future__ import annotations

import itertools
import math
import re
import sys

import numpy as np
import pytest
from checks import assert_same_bits, chain, refused
from children import SANITIZERS, run
from hypothesis import given
from hypothesis import strategies as st
from oracles import Arrays, enumerate_chain, first_infeasible, sequences, tolerance
from strategies import chains, examples, random_chain

import valuesparse as vs
from valuesparse.inference import _forest

pytestmark = pytest.mark.simd

Model = vs.Chain | vs.Tree


def alone(model: Model, threads: int = 1) -> np.ndarray:
    return _forest.log_z(model, threads)


def forest(
    rng: np.random.Generator, n: int, k: int, *, dtype: type = np.float64, **options: float
) -> vs.Tree:
    """Return trees that branch; `scale` of scores, `forbidden` shares of them."""
    scale, forbidden = options.get("scale", 1.0), options.get("forbidden", 0.0)

    def draw(*shape: int) -> np.ndarray:
        x = scale * rng.normal(size=shape)
        x[rng.random(shape) < forbidden] = -np.inf
        return x.astype(dtype)

    parent = [-1 if rng.random() < 0.02 else int(rng.integers(0, i)) for i in range(1, n)]
    return vs.Tree([-1, *parent], draw(n, k), draw(k, k))


@given(chains(max_labels=4, max_length=5))
@examples(200)
def test_against_enumeration(model: Arrays) -> None:
    dead = first_infeasible(model)
    if dead is not None:
        with refused(vs.InfeasibleError) as info:
            alone(chain(model))
        assert (info.value.sequence, info.value.position) == dead
        return
    got = alone(chain(model))
    for b, seq in enumerate(sequences(model)):
        want = float(enumerate_chain(seq).log_z) if len(seq.local) else 0.0
        assert got[b] == pytest.approx(want, rel=1e-12, abs=tolerance(model, 4))


@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("forbidden", [0.0, 0.1])
def test_bits_of_a_full_pass(
    rng: np.random.Generator, dtype: type, per_edge: bool, forbidden: float
) -> None:
    for k in (1, 3, 8, 17, 60):
        model = random_chain(
            rng, [50, 0, 1, 7, 300], k, forbidden=forbidden, per_edge=per_edge, dtype=dtype
        )
        if first_infeasible(model) is not None:
            continue
        want = vs.infer(chain(model), threads=1).log_z
        for threads in (1, 2, 3, 8):
            assert_same_bits(alone(chain(model), threads), want)


@given(st.integers(1, 26), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0, 300.0]))
@examples(60)
def test_bits_of_rows_side_by_side(k: int, seed: int, scale: float) -> None:
    """Few labels, many sequences: some lengths are alike, and some rows forbid a label."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([0, 1, 2, 3, 17, 40], size=13)
    unary = scale * rng.normal(size=(lengths.sum(), k))
    unary[rng.random(unary.shape) < 0.01 * (k > 1) * rng.integers(0, 2)] = -np.inf
    ends = {"start": rng.normal(size=k), "end": rng.normal(size=k)} if rng.random() < 0.5 else {}
    model = vs.Chain(unary, scale * rng.normal(size=(k, k)), lengths=lengths, **ends)
    try:
        want = vs.infer(model, threads=1).log_z
    except vs.InfeasibleError as error:
        with pytest.raises(vs.InfeasibleError, match=re.escape(str(error))):
            alone(model)
        return
    for threads in (1, 3):
        assert_same_bits(alone(model, threads), want)


@pytest.mark.parametrize("k", [1, 3, 8, 17, 60])
def test_bits_of_a_full_pass_over_trees(rng: np.random.Generator, dtype: type, k: int) -> None:
    for model in (forest(rng, 2000, k, dtype=dtype), forest(rng, 1, k, dtype=dtype)):
        want = vs.infer(model, threads=1).log_z
        for threads in (1, 2, 3, 8):
            assert_same_bits(alone(model, threads), want)
    path = vs.Tree(np.arange(-1, 99), rng.normal(size=(100, k)).astype(dtype),
                   rng.normal(size=(k, k)).astype(dtype))  # fmt: skip
    assert_same_bits(alone(path), vs.infer(path).log_z)


@pytest.mark.parametrize("k", [2, 3, 5, 9, 17, 49])
def test_bits_where_low_scores_stand_for_forbidden(
    rng: np.random.Generator, dtype: type, k: int
) -> None:
    """Messages one way to a label that none leads to are held at floors, in each batch alike."""
    lengths = [*rng.integers(1, 30, 60).tolist()]
    unary, table = rng.normal(size=(sum(lengths), k)), rng.normal(size=(k, k))
    table[:, -1] = table[0, : k // 2] = -10_000.0
    unary[rng.random(len(unary)) < 0.02] *= 300.0
    unary, table = unary.astype(dtype), table.astype(dtype)
    model = vs.Chain(unary, table, lengths=lengths)
    want = vs.infer(model, threads=1).log_z
    for threads in (1, 2, 3, 8):
        assert_same_bits(alone(model, threads), want)
    for b, first in enumerate(np.cumsum([0, *lengths[:-1]]).tolist()):
        one = vs.Chain(unary[first : first + lengths[b]], table)
        assert_same_bits(alone(one), want[b : b + 1])


@pytest.mark.parametrize("scale", [10.0, 60.0, 400.0, 1e4])
def test_scores_far_apart(rng: np.random.Generator, dtype: type, scale: float) -> None:
    """Where one pass does not know its own error there is a second, then a wider arithmetic."""
    rtol = 1e-6 if dtype == np.float32 else 1e-12
    for forbidden in (0.0, 0.2):
        model = random_chain(rng, [40, 3, 200], 5, scale=scale, forbidden=forbidden, dtype=dtype)
        if first_infeasible(model) is not None:
            continue
        want = vs.infer(chain(model)).log_z
        np.testing.assert_allclose(alone(chain(model)), want, rtol=rtol)
        tree = forest(rng, 300, 5, dtype=dtype, scale=scale)
        want = vs.infer(tree).log_z
        np.testing.assert_allclose(alone(tree), want, rtol=rtol)


def test_what_was_nearly_lost_is_all_there_is(dtype: type) -> None:
    """The only way to the end leads through labels that fell below any floor on the way."""
    n = 3000
    unary = np.zeros((n, 2), dtype)
    unary[:, 1] = -3
    unary[-1, 0] = -np.inf
    model = vs.Chain(unary, np.array([[0, -np.inf], [-np.inf, 0]], dtype))
    assert alone(model)[0] == pytest.approx(-3.0 * n, rel=1e-6)
    # The same, with a branch in the middle.
    tree = vs.Tree(
        [*range(-1, n - 1), n // 2],
        np.concatenate([unary, np.zeros((1, 2), dtype)]),
        np.array([[0, -np.inf], [-np.inf, 0]], dtype),
    )
    assert alone(tree)[0] == pytest.approx(-3.0 * n, rel=1e-6)


@pytest.mark.parametrize("length", range(2, 12))
def test_what_a_table_held_at_its_floor_is_all_there_is(length: int, dtype: type) -> None:
    """A label whose every transition lies far below the others', wherever it is forced."""
    table = np.array([[-1000, -1000], [0, 0]], dtype)
    for at in range(length - 1):
        unary = np.zeros((length, 2), dtype)
        unary[at, 1] = -np.inf
        star = vs.Tree([at] * at + [-1] + [at] * (length - at - 1), unary, table)
        paths = vs.Chain(unary, table), vs.Tree(np.arange(-1, length - 1), unary, table)
        for model in (*paths, star):
            want = vs.infer(model).log_z
            np.testing.assert_allclose(alone(model), want, rtol=1e-6)


@given(st.integers(0, 10**9))
@examples(300)
def test_scores_of_few_sizes(seed: int) -> None:
    """Only some of the largest are possible together, and what is left is far below them."""
    rng = np.random.default_rng(seed)
    n, k, scale = int(rng.integers(2, 9)), int(rng.integers(2, 6)), float(10 ** rng.uniform(1, 4))
    dtype = rng.choice([np.float64, np.float32])

    def draw(*shape: int) -> np.ndarray:
        sizes = rng.choice([-1.0, 0.0, 1.0, 10.0, -10.0], shape, p=[0.3, 0.3, 0.3, 0.05, 0.05])
        return np.where(rng.random(shape) < 0.15, -np.inf, scale * sizes).astype(dtype)

    unary, table = draw(n, k), draw(k, k)
    parent = [-1, *(int(rng.integers(0, i)) for i in range(1, n))]
    for model in (vs.Chain(unary, table), vs.Tree(np.arange(-1, n - 1), unary, table),
                  vs.Tree(parent, unary, table)):  # fmt: skip
        try:
            want = vs.infer(model).log_z
        except vs.InfeasibleError:
            continue
        tolerance = 1e-5 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(alone(model), want, rtol=tolerance, atol=tolerance * scale)


def test_infeasible_trees_name_the_place() -> None:
    unary = np.zeros((4, 2))
    unary[2] = -np.inf
    for parent in ([-1, 0, 0, 0], [-1, 0, 1, 2]):
        tree = vs.Tree(parent, unary, np.zeros((2, 2)))
        with refused(vs.InfeasibleError) as want:
            vs.infer(tree)
        with refused(vs.InfeasibleError) as got:
            vs.log_prob(tree, [0, 0, 0, 0])
        assert str(got.value) == str(want.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("ends", ["", "start", "end", "both"])
def test_scores_of_chains_of_every_length(ends: str, per_edge: bool, dtype: type) -> None:
    rng = np.random.default_rng(1)
    k, lengths = 3, np.arange(1, 14)
    n, edges = int(lengths.sum()), int((lengths - 1).sum())
    unary = 100 * rng.normal(size=(n, k)).astype(dtype)
    table = rng.normal(size=(edges, k, k) if per_edge else (k, k)).astype(dtype)
    start, end = rng.normal(size=(2, k)).astype(dtype)
    start, end = start * (ends in ("start", "both")), end * (ends in ("end", "both"))
    given = {"start": start if start.any() else None, "end": end if end.any() else None}
    states = rng.integers(0, k, n)
    got = _forest.score(vs.Chain(unary, table, lengths=lengths, **given), states, 1)
    at = edge = 0
    for b, size in enumerate(lengths):
        y = states[at : at + size]
        terms = [*unary[range(at, at + size), y].tolist(), float(start[y[0]]), float(end[y[-1]])]
        for left, right in itertools.pairwise(y):
            terms.append(float((table[edge] if per_edge else table)[left, right]))
            edge += 1
        assert abs(got[b] - math.fsum(terms)) <= 4e-16 * math.fsum(map(abs, terms))
        at += size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("per_edge", [False, True])
def test_scores_with_a_forbidden_term(per_edge: bool, dtype: type) -> None:
    for size in range(1, 14):
        for place in range(2 * size + 1):  # a position, an edge, an end; none
            unary = np.ones((size, 2), dtype)
            table = np.ones((size - 1, 2, 2) if per_edge else (2, 2), dtype)
            ends = np.zeros((2, 2), dtype)
            if place < size:
                unary[place, 1] = -np.inf
            elif place < 2 * size - 1:
                table[(place - size, 1, 1) if per_edge else (1, 1)] = -np.inf
            elif place < 2 * size:
                ends[size % 2, 1] = -np.inf
            for start, end in (ends, (None, ends[1] if ends[1].any() else None)):
                model = vs.Chain(unary, table, lengths=[size], start=start, end=end)
                forbidden = place < 2 * size - 1 or (
                    place < 2 * size and (end if size % 2 else start) is not None
                )
                want = -np.inf if forbidden else 2.0 * size - 1.0
                assert _forest.score(model, np.ones(size, np.int64), 1)[0] == want


@pytest.mark.parametrize("layout", ["contiguous", "strided", "big-endian", "int32"])
@pytest.mark.parametrize("wrong", ["below", "above", "least", "largest"])
def test_wrong_states_are_named(wrong: str, layout: str) -> None:
    model = vs.Chain(np.zeros((7, 3)), np.zeros((3, 3)), lengths=[4, 3])
    states = np.array([0, 1, 2, 2, 1, 0, 2])
    if layout == "strided":
        states = np.repeat(states, 2)[::2]
    elif layout != "contiguous":
        states = states.astype(">i8" if layout == "big-endian" else np.int32)
    assert np.isfinite(vs.log_prob(model, states)).all()
    held = np.iinfo(states.dtype)
    states[5] = {"below": -1, "above": 3, "least": held.min, "largest": held.max}[wrong]
    with pytest.raises(ValueError, match=rf"states\[5\] is {states[5]}; .* run from 0 to 2"):
        vs.log_prob(model, states)


LITTLE_ROOM = """
import resource, sys
import numpy as np
import valuesparse as vs
n, k = 200_000, 100
rng = np.random.default_rng(0)
unary, table = rng.normal(size=(n, k)), rng.normal(size=(k, k))
if sys.argv[1] == "chain":
    model = vs.Chain(unary, table)
else:
    model = vs.Tree((np.arange(n) - 1) // 2, unary, table)
states = np.zeros(n, int)
vs.infer(vs.Chain(unary[:1000], table), threads=2)
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + (96 << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, room))
for threads in (1, 2):
    print(np.isfinite(vs.log_prob(model, states, threads=threads)).all())
try:
    vs.infer(model)
except MemoryError:
    print("marginals do not fit")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
@pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers have allocators of their own")
@pytest.mark.parametrize("kind", ["chain", "tree"])
def test_log_prob_takes_no_memory_of_the_size_of_the_marginals(kind: str) -> None:
    done = run(LITTLE_ROOM, kind)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True", "True", "marginals do not fit"]
