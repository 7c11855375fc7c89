"""`valuesparse.sample` and `valuesparse.log_prob`."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from checks import Given, assert_same_bits, chain, refused
from hypothesis import given
from oracles import (
    Arrays,
    configuration_scores,
    enumerate_chain,
    first_infeasible,
    sequences,
    single,
    slices_of,
    solve,
    tolerance,
)
from scipy import stats
from strategies import chains, examples, random_chain

import valuesparse as vs
from valuesparse.inference import _forest

pytestmark = pytest.mark.simd

Array = npt.NDArray[Any]

# ------------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize("per_edge", [False, True])
def test_frequencies_are_the_probabilities(
    per_edge: bool, rng: np.random.Generator, dtype: type
) -> None:
    model = random_chain(rng, [3], 3, per_edge=per_edge, dtype=dtype)
    model.unary[1, 0] = -np.inf
    (seq,) = sequences(model)
    listing = enumerate_chain(seq)
    draws = vs.sample(chain(model), 20_000, 12345)
    assert draws.shape == (20_000, 3)
    assert draws.dtype == np.int64
    counts = np.bincount(draws @ [9, 3, 1], minlength=27)
    p = listing.probabilities.astype(float)
    assert (counts[p == 0] == 0).all()
    often = p * 20_000 > 5
    rest = 20_000 - counts[often].sum()
    expected = np.append(p[often], p[~often].sum()) * 20_000
    observed = np.append(counts[often], rest)
    if expected[-1] < 1e-9:
        expected, observed = expected[:-1], observed[:-1]
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


def test_marginals_of_a_ragged_batch(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [30, 0, 1, 12], 5, dtype=dtype)
    draws = vs.sample(chain(model), 4000, 7)
    answer = solve(model)
    freq = (draws[:, :, None] == np.arange(5)).mean(axis=0)
    spread = np.sqrt(answer.marginals * (1 - answer.marginals) / 4000) + 1e-4
    assert (np.abs(freq - answer.marginals) < 6 * spread).all()
    joint = ((draws[:, :-1] == 1) & (draws[:, 1:] == 2)).mean(axis=0)[:29]
    want = answer.pairwise[:29, 1, 2]
    assert (np.abs(joint - want) < 6 * np.sqrt(want / 4000) + 1e-3).all()


def test_draws_are_independent(rng: np.random.Generator) -> None:
    model = chain(Arrays(np.zeros((200, 2)), np.zeros((2, 2)), np.full(100, 2)))
    bits = vs.sample(model, 400, rng)
    # Neither neighbouring rows nor neighbouring sequences repeat one another's randomness.
    assert abs((bits[1:] == bits[:-1]).mean() - 0.5) < 0.02
    assert abs((bits[:, 2:] == bits[:, :-2]).mean() - 0.5) < 0.02
    assert abs((bits[:, 1:] == bits[:, :-1]).mean() - 0.5) < 0.02


@given(chains(max_labels=3, max_length=4))
@examples(100)
def test_never_draws_what_is_forbidden(model: Arrays) -> None:
    if first_infeasible(model) is not None:
        with refused(vs.InfeasibleError):
            vs.sample(chain(model), 3, 0)
        return
    draws = vs.sample(chain(model), 20, 0)
    assert draws.shape == (20, len(model.unary))
    for row in draws[:5]:
        assert (vs.log_prob(chain(model), row) > -np.inf).all()


@pytest.mark.smoke
def test_seeds_and_generators(rng: np.random.Generator) -> None:
    model = chain(random_chain(rng, [20, 3], 4))
    a = vs.sample(model, 5, 42)
    assert_same_bits(a, vs.sample(model, 5, 42))
    assert_same_bits(
        vs.sample(model, 5, np.random.default_rng(42)),
        vs.sample(model, 5, np.random.default_rng(42)),
    )
    assert (a != vs.sample(model, 5, 43)).any()
    gen = np.random.default_rng(42)
    assert (vs.sample(model, 5, gen) != vs.sample(model, 5, gen)).any()
    assert (vs.sample(model, 5) != vs.sample(model, 5)).any()


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_threads_never_show(size: int, rng: np.random.Generator, dtype: type) -> None:
    model = chain(random_chain(rng, [50, 0, 3, 1, 20], 5, dtype=dtype))
    a = vs.sample(model, size, 9, threads=1)
    for threads in (2, 3, 8, None):
        assert_same_bits(a, vs.sample(model, size, 9, threads=threads))


def test_size_zero_and_no_rows() -> None:
    model = vs.Chain(np.zeros((3, 2)), np.zeros((2, 2)))
    assert vs.sample(model, 0, 0).shape == (0, 3)
    nothing = vs.Chain(np.zeros((0, 2)), np.zeros((2, 2)), lengths=[0, 0])
    assert vs.sample(nothing, 4, 0).shape == (4, 0)


def drawn(unary: Array, transition: Array, uniforms: Array) -> Array:
    """Return the states of one sequence that uniforms (size, n) draw, from the last one back."""
    n = len(unary)
    forward = np.exp(unary - unary.max(axis=1, keepdims=True))
    table = np.exp(transition - transition.max())
    for i in range(1, n):
        forward[i] *= forward[i - 1] @ table
        forward[i] /= forward[i].max()
    states = np.empty(uniforms.shape, np.int64)
    for x, u in enumerate(uniforms):
        for i in range(n)[::-1]:
            weight = forward[i] * (table[:, states[x, i + 1]] if i + 1 < n else 1.0)
            until = np.cumsum(weight)
            states[x, i] = np.searchsorted(until, u[i] * until[-1], side="right")
    return states


@pytest.mark.parametrize("labels", [1, 2, 5, 8, 9, 12, 15, 16, 17, 24, 33])
@pytest.mark.parametrize("size", [1, 3, 10])
def test_each_state_follows_from_its_uniform(
    labels: int, size: int, rng: np.random.Generator, dtype: type
) -> None:
    """Whatever lanes draw: labels of one block of weights, of two that are looked up, of many."""
    lengths = [25] * 17 + [24, 1, 3]
    unary = (2.0 * rng.normal(size=(sum(lengths), labels))).astype(dtype)
    transition = rng.normal(size=(labels, labels)).astype(dtype)
    unary[rng.random(unary.shape) < 0.1] = -60.0
    found = vs.sample(vs.Chain(unary, transition, lengths=lengths), size, 11)
    uniforms = np.random.default_rng(11).random((size, len(unary)))
    wide = unary.astype(float), transition.astype(float)
    expected = np.concatenate(
        [
            drawn(wide[0][end - n : end], wide[1], uniforms[:, end - n : end])
            for n, end in zip(lengths, np.cumsum(lengths), strict=True)
        ],
        axis=1,
    )
    assert (found != expected).mean() <= (1e-3 if dtype == np.float32 else 0.0)


@pytest.mark.parametrize("bad", [-1, 1.5, "3", None, np.nan])
def test_bad_size(bad: object) -> None:
    with pytest.raises((ValueError, TypeError), match="size"):
        vs.sample(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))), bad, 0)


@pytest.mark.parametrize("bad", ["seed", 1.5, -3, object()])
def test_bad_rng(bad: object) -> None:
    with pytest.raises((ValueError, TypeError), match="rng"):
        vs.sample(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))), 1, bad)


# ------------------------------------------------------------------------------------- log_prob


@given(chains(max_labels=3, max_length=4, max_sequences=1))
@examples(150)
def test_log_prob_of_every_configuration(model: Arrays) -> None:
    if first_infeasible(model) is not None or not len(model.unary):
        return
    (seq,) = sequences(model)
    listing = enumerate_chain(seq)
    made = chain(model)
    got = np.array([vs.log_prob(made, y)[0] for y in listing.states])
    want = (listing.scores - listing.log_z).astype(float)
    assert got.dtype == np.float64
    tol = tolerance(model, 4) * (1 + np.abs(float(listing.log_z)))
    possible = want > -np.inf
    assert (got[~possible] == -np.inf).all()
    np.testing.assert_allclose(got[possible], want[possible], rtol=0, atol=tol)
    assert abs(np.exp(got).sum() - 1) < 10 * tol
    assert (got <= tol).all()


def test_log_prob_of_a_batch(rng: np.random.Generator, dtype: type) -> None:
    model = random_chain(rng, [4, 0, 1, 3], 4, per_edge=True, dtype=dtype)
    states = rng.integers(0, 4, 8)
    got = vs.log_prob(chain(model), states)
    assert got.shape == (4,)
    assert got[1] == 0
    for b, rows in enumerate(slices_of(model)):
        alone = vs.log_prob(chain(single(model, b)), states[rows])
        assert_same_bits(alone, got[b : b + 1])


def test_log_prob_takes_lists_and_small_integers(rng: np.random.Generator) -> None:
    model = chain(random_chain(rng, [4], 3))
    want = vs.log_prob(model, np.array([0, 1, 2, 0]))
    assert_same_bits(vs.log_prob(model, [0, 1, 2, 0]), want)
    assert_same_bits(vs.log_prob(model, np.array([0, 1, 2, 0], np.int8)), want)
    assert_same_bits(vs.log_prob(model, np.array([0, 1, 2, 0], np.uint64)), want)


def test_states_out_of_range_name_the_index() -> None:
    model = vs.Chain(np.zeros((5, 3)), np.zeros((3, 3)))
    with refused(ValueError, "states", 3):
        vs.log_prob(model, [0, 1, 2, 7, 0])
    with refused(ValueError, "states", 4):
        vs.log_prob(model, [0, 1, 2, 0, -1])


@pytest.mark.parametrize("bad", [[0, 1], [0] * 6, 0, "00000", [0.0] * 5, [None] * 5, [0j] * 5])
def test_bad_states(bad: object) -> None:
    with pytest.raises((ValueError, TypeError), match="states"):
        vs.log_prob(vs.Chain(np.zeros((5, 3)), np.zeros((3, 3))), bad)


def models(rng: np.random.Generator) -> dict[str, Any]:
    """A model of each kind, with seven positions where they are sequences."""
    unary, table = rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    table[0, 2] = -np.inf
    graph = vs.FactorGraph([2, 3, 2], names=["a", "b", "c"])
    for edge in (["a", "b"], ["b", "c"], ["c", "a"]):
        graph.add(edge, rng.normal(size=graph._shape(tuple(map(graph.variable, edge)))))
    structured = vs.FactorGraph([2] * 4)
    structured.add(vs.factors.Xor(0, 1, 2))
    structured.add([2, 3], rng.normal(size=(2, 2)))
    return {
        "chain": vs.Chain(unary, table, lengths=[4, 0, 3]),
        "tree": vs.Tree([-1, 0, 0, 1, -1, 4, 4], unary, table),
        "second order": vs.SecondOrderChain(unary, rng.normal(size=(3, 3, 3)), lengths=[4, 3]),
        "segments": vs.SegmentChain(unary, table, max_length=2, lengths=[4, 3]),
        "graph": graph,
        "structured": structured,
    }


@pytest.mark.parametrize("kind", models(np.random.default_rng(0)))
def test_log_prob_of_many_rows_is_that_of_each(
    kind: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models(rng)[kind]
    rows = vs.sample(model, 6, 0)
    if kind == "chain":
        rows = np.concatenate([rows, vs.decode(model, n_best=3).states])
        rows[0, :2] = 0, 2  # forbidden
    one_by_one = np.array([vs.log_prob(model, row) for row in rows])
    asked = []
    engine = vs.inference.posterior.engine_of(model)
    log_z = engine.log_z
    monkeypatch.setattr(engine, "log_z", lambda *given: asked.append(1) or log_z(*given))
    found = vs.log_prob(model, rows)
    assert asked == [1]
    assert_same_bits(found, one_by_one)
    assert found.shape == (len(rows), *np.shape(vs.infer(model).log_z))
    assert_same_bits(vs.log_prob(model, rows.tolist(), threads=3), found)
    assert vs.log_prob(model, rows[:0]).shape == (0, *found.shape[1:])
    bad = rows.copy()
    bad[4, 2] = 7
    with pytest.raises(ValueError, match=r"states\[4\]\[2\] is 7; (labels|states) run from 0 to"):
        vs.log_prob(model, bad)
    with pytest.raises(ValueError, match=r"states\[0\] must have shape \(\d,\), got"):
        vs.log_prob(model, rows[:, 1:])
    with pytest.raises(ValueError, match=r"states must have shape"):
        vs.log_prob(model, rows[None])


def test_log_prob_of_rows_given_evidence() -> None:
    graph = models(np.random.default_rng(1))["graph"]
    known = {"evidence": {"b": 2}, "likelihood": {"a": [0.2, 0.4]}}
    rows = vs.sample(graph, 5, 0, **known)
    found = vs.log_prob(graph, [*rows, [0, 1, 0]], **known)
    assert_same_bits(found[:5], np.array([vs.log_prob(graph, row, **known) for row in rows]))
    assert found[5] == -np.inf


def test_log_prob_of_an_infeasible_model() -> None:
    model = vs.Chain(np.full((2, 2), -np.inf), np.zeros((2, 2)))
    with refused(vs.InfeasibleError, 0):
        vs.log_prob(model, [0, 0])


@pytest.mark.parametrize("at", range(5))
def test_what_a_table_held_at_its_floor_is_all_there_is(at: int, dtype: type) -> None:
    """After a label whose every transition lies far below the others'."""
    length, table = 6, np.array([[-1000, -1003], [0, 0]], dtype)
    unary = np.zeros((length, 2), dtype)
    unary[at, 1] = -np.inf
    for model in (vs.Chain(unary, table), vs.Tree(np.arange(-1, length - 1), unary, table)):
        x = vs.sample(model, 4000, 1)
        assert not x[:, at].any()
        want = vs.infer(model).marginals
        for i in range(length):
            assert x[:, i].mean() == pytest.approx(want[i, 1], abs=0.04)


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("size", [1, 3, 9, 21])
@pytest.mark.parametrize("k", [2, 4, 9, 17])
def test_many_sequences_are_drawn_as_each_is(
    k: int, size: int, low: bool, rng: np.random.Generator, dtype: type
) -> None:
    """Sequences that are drawn from together, of any lengths, read their own uniforms.

    Low scores in place of -inf: forward messages to a label that none leads to are held at floors,
    and need messages both ways.
    """
    lengths = rng.integers(0, 9, 100)
    n = int(lengths.sum())
    unary, table = rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(k, k)).astype(dtype)
    if low:
        table[:, -1] = table[0, : k // 2] = -10_000.0
    # Far apart, so that some sequences need a wider arithmetic than others.
    unary[rng.random(n) < 0.05] *= dtype(400.0)
    uniforms = rng.random((size, n))
    uniforms[rng.random((size, n)) < 0.1] = np.nextafter(1.0, 0.0)  # beyond a sum that was rounded
    uniforms[rng.random((size, n)) < 0.1] = 0.0
    model = vs.Chain(unary, table, lengths=lengths)
    x = vs.sample(model, size, Given(uniforms), threads=1)
    for threads in (2, 3, 8):
        assert_same_bits(vs.sample(model, size, Given(uniforms), threads=threads), x)
    begin = 0
    for length in lengths.tolist():
        rows = slice(begin, begin + length)
        begin += length
        if length:
            one = vs.Chain(unary[rows], table)
            assert_same_bits(vs.sample(one, size, Given(uniforms[:, rows])), x[:, rows])
            # Of few samples each is drawn alone.
            few = vs.sample(one, 1, Given(uniforms[:1, rows]))
            assert_same_bits(few, x[:1, rows])


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("k", [2, 9, 30])
def test_tables_of_their_own_are_drawn_from_as_each_chain_is(
    k: int, size: int, rng: np.random.Generator, dtype: type
) -> None:
    """Some have entries that are held at a floor, which only their own sequences may feel."""
    lengths = [*rng.integers(0, 9, 60).tolist(), 40]
    n, edges = sum(lengths), sum(max(m - 1, 0) for m in lengths)
    unary = rng.normal(size=(n, k)).astype(dtype)
    tables = rng.normal(size=(edges, k, k)).astype(dtype)
    low = rng.random(edges) < 0.1
    tables[low, 0] -= dtype(500.0)
    tables[rng.random(tables.shape) < 0.02] = -np.inf
    tables[:, 0, 0] = 0.0
    uniforms = rng.random((size, n))
    model = vs.Chain(unary, tables, lengths=lengths)
    x = vs.sample(model, size, Given(uniforms), threads=1)
    assert_same_bits(vs.sample(model, size, Given(uniforms), threads=2), x)
    begin = edge = others = 0
    for length in lengths:
        rows, own = slice(begin, begin + length), slice(edge, edge + max(length - 1, 0))
        begin, edge = rows.stop, own.stop
        if length:
            one = vs.Chain(unary[rows], tables[own])
            assert_same_bits(vs.sample(one, size, Given(uniforms[:, rows])), x[:, rows])
            wide = vs.Chain(one.unary.astype(float), one.transition.astype(float))
            others += int((vs.sample(wide, size, Given(uniforms[:, rows])) != x[:, rows]).sum())
    assert others <= 0.002 * x.size  # rounding in float32


@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("forbidden", [0.0, 0.02])
def test_scores_of_given_labels(
    rng: np.random.Generator, dtype: type, per_edge: bool, forbidden: float
) -> None:
    """Sums of terms in turn, for all that a length may leave over."""
    for masks, ends in itertools.product([False, True], repeat=2):
        model = random_chain(
            rng, [*range(14), 300], 4, forbidden=forbidden, per_edge=per_edge, ends=ends,
            masks=masks and forbidden > 0, dtype=dtype,
        )  # fmt: skip
        states = rng.integers(0, 4, len(model.unary))
        got = _forest.score(chain(model), states, 1)
        for b, (seq, rows) in enumerate(zip(sequences(model), slices_of(model), strict=True)):
            want = configuration_scores(seq, states[None, rows])[0] if rows.stop > rows.start else 0
            assert got[b] == pytest.approx(float(want), rel=1e-14, abs=1e-13)
            alone = _forest.score(chain(single(model, b)), states[rows], 1)
            assert_same_bits(alone, got[b : b + 1])


def test_scores_of_trees_do_not_see_each_other(rng: np.random.Generator) -> None:
    owner = rng.integers(0, 3, 200)
    parent, unary = np.full(200, -1), rng.normal(size=(200, 3))
    for i in range(1, 200):
        before = np.flatnonzero(owner[:i] == owner[i])
        parent[i] = rng.choice(before) if before.size else -1
    table, states = rng.normal(size=(3, 3)), rng.integers(0, 3, 200)
    got = _forest.score(vs.Tree(parent, unary, table), states, 1)
    first = [int(np.flatnonzero(owner == c)[0]) for c in range(3)]
    for b, c in enumerate(np.argsort(first)):
        nodes = np.flatnonzero(owner == c)
        number = np.full(200, -1)
        number[nodes] = np.arange(nodes.size)
        above = np.where(parent[nodes] < 0, -1, number[parent[nodes]])
        alone = _forest.score(vs.Tree(above, unary[nodes], table), states[nodes], 1)
        assert_same_bits(alone, got[b : b + 1])
        child = nodes[parent[nodes] >= 0]
        terms = [*unary[nodes, states[nodes]], *table[states[parent[child]], states[child]]]
        assert alone[0] == pytest.approx(math.fsum(terms), rel=1e-14, abs=1e-13)


@pytest.mark.parametrize("size", [2**60, 2**63, 2**70])
def test_samples_that_fit_nowhere_are_refused_by_name(size: int) -> None:
    unary, table = np.zeros((3, 2)), np.zeros((2, 2))
    for model in (
        vs.Chain(unary, table),
        vs.Tree([-1, 0, 0], unary, table),
        vs.SecondOrderChain(unary, np.zeros((2, 2, 2))),
        vs.SegmentChain(unary, table, max_length=2),
    ):
        with pytest.raises(MemoryError, match=f"size={size}: so many rows"):
            vs.sample(model, size)
        if not isinstance(model, vs.Tree):
            with pytest.raises(MemoryError, match=f"n_best={size}: so many rows"):
                vs.decode(model, n_best=size)


def test_counts_beyond_what_c_takes_are_refused_by_name() -> None:
    words = "must be at most 9223372036854775807, got 9223372036854775808"
    with pytest.raises(ValueError, match=f"max_length {words}"):
        vs.SegmentChain(np.zeros((3, 2)), np.zeros((2, 2)), max_length=2**63)
    for kind in (vs.BP, vs.TRW, vs.MeanField, vs.AD3):
        with pytest.raises(ValueError, match=f"max_iterations {words}"):
            kind(max_iterations=2**63)
    with pytest.raises(ValueError, match=f"revisit {words}"):
        vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))), zeta=0.9, revisit=2**63)
    assert vs.BP(max_iterations=2**63 - 1).max_iterations == 2**63 - 1
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    with pytest.raises(ValueError, match=rf"first\[1\] is {2**70}: there are 1 factors"):
        vs.relax(graph, first=[0, 2**70])
