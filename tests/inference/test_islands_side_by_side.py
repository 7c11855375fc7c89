"""Islands of one sequence do not know of others: side by side in lanes, or in lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits, assert_same_result, chain
from hypothesis import given
from hypothesis import strategies as st
from island_rules import find
from oracles import Arrays, first_infeasible
from strategies import chains, examples, peaked_chain, random_chain

import valuesparse as vs

pytestmark = pytest.mark.simd

ZETAS = [0.3, 0.5, 0.7, 0.9, 0.99]
REVISITS = [None, 0, 1, 2]
ADDED = ("islands", "segments", "messages_full", "messages_sparse", "released", "flipped")
#: As many sequences as fill lanes, some more than that, and too few.
LENGTHS = [
    [7] * 16,
    [9, 9, 8, 8, 7, 7, 6, 5, 3, 2, 1, 0],
    [40, 39, 30, 12, 12, 11, 1, 33, 2, 1],
    [19] * 5 + [18] * 6 + [16, 9, 8, 1, 1, 1, 1],
    [27] * 6,
]


def assert_as_alone(model: Arrays, zeta: float, revisit: int | None) -> vs.Result:
    """Compare answers and counts of a batch with those of its sequences, one a call."""
    ask: dict[str, Any] = {"zeta": zeta, "revisit": revisit}
    alone = [vs.infer(chain(model.sequence(at)), **ask) for at in range(len(model.lengths))]
    r = vs.infer(chain(model), threads=1, **ask)
    assert_same_bits(r.islands, np.concatenate([a.islands for a in alone]))
    assert_same_bits(r.marginals, np.concatenate([a.marginals for a in alone]))
    assert_same_bits(r.log_z, np.concatenate([a.log_z for a in alone]))
    for name in ADDED:
        assert r.stats[name] == sum(a.stats[name] for a in alone), name
    assert r.stats["rounds"] == max(a.stats["rounds"] for a in alone)
    assert r.converged == all(a.converged for a in alone)
    return r


@pytest.mark.parametrize("revisit", REVISITS)
@pytest.mark.parametrize("k", [2, 3, 5, 9, 17, 20, 24, 31])
def test_a_batch_answers_as_each_alone(
    k: int, revisit: int | None, rng: np.random.Generator, dtype: type
) -> None:
    for lengths in LENGTHS:
        for zeta in ZETAS:
            peak, share = rng.choice([0.0, 3.0, 6.0, 10.0]), rng.random()
            scale = rng.choice([0.5, 1.0, 3.0])
            model = peaked_chain(rng, lengths, k, peak=peak, share=share, scale=scale, dtype=dtype)
            assert_as_alone(model, zeta, revisit)


@given(chains(), st.sampled_from([0.0, *ZETAS]), st.sampled_from(REVISITS))
@examples(300)
def test_any_batch_answers_as_each_alone(model: Arrays, zeta: float, revisit: int | None) -> None:
    if first_infeasible(model) is None and len(model.lengths):
        assert_as_alone(model, zeta, revisit)


@pytest.mark.parametrize("dead", [0.05, 0.3])
def test_forbidden_pairs_and_values(dead: float, rng: np.random.Generator, dtype: type) -> None:
    """Some sequences contradict themselves and are left to lists; others stay where they are."""
    for k in (3, 9, 21):
        for zeta in ZETAS:
            model = peaked_chain(rng, [11] * 10 + [6] * 9, k, peak=6.0, dtype=dtype)
            for scores in (model.transition, model.unary):
                scores[(rng.random(scores.shape) < dead) & (np.arange(k) > 0)] = -np.inf
            assert_as_alone(model, zeta, None)


def test_one_sequence_that_needs_another_arithmetic_changes_no_other(
    rng: np.random.Generator,
) -> None:
    model = peaked_chain(rng, [14] * 16, 6)
    calm = vs.infer(chain(model), zeta=0.9)
    for at, factor in ((3, 400.0), (9, 5_000.0)):
        model.unary[14 * at : 14 * (at + 1)] *= factor
    model.transition[:] *= 40.0
    wild = assert_as_alone(model, 0.9, None)
    assert wild.stats["sequences_widened"] > 0 == calm.stats["sequences_widened"]


def test_lists_of_pieces_end_anywhere() -> None:
    """What is decided beside a centre does not show on its other side.

    Tables of each edge keep these chains out of lanes. Pieces share lists of 16 messages; after one
    piece with an odd number of them, a list ends between the two sides of every eighth.
    """
    first = np.array(
        [
            [-0.6, -3.5, -0.5],
            [-0.1, 0.9, -0.2],
            [0.3, -0.6, 0.2],
            [-0.6, -1.4, -0.5],
            [0.1, 0.9, 1.4],
        ]
    )
    other = np.array([[0.3, -0.5, -0.3], [1.7, -3.0, 1.3], [1.0, -2.2, 1.1]])
    transition = np.array([[0.7, 1.6, 0.7], [-2.6, 1.8, 0.9], [-1.1, 1.2, 0.7]])
    first[0, 1] = -np.inf
    unary = np.concatenate([first, *[other] * 30])
    model = Arrays(unary, np.stack([transition] * 64), np.array([5] + [3] * 30))
    r = assert_as_alone(model, 0.6, 1)
    assert find(other, transition, 0.6, 1).held == {0: 0}
    assert (r.islands[5:].reshape(30, 3) == [0, -1, -1]).all()


@pytest.mark.parametrize("per_edge", [False, True])
def test_masks_and_tables_of_edges(per_edge: bool, rng: np.random.Generator, dtype: type) -> None:
    for k in (2, 4, 7):
        for zeta in ZETAS:
            model = random_chain(
                rng, [9] * 20, k, scale=2.0, per_edge=per_edge, masks=not per_edge, dtype=dtype
            )
            if model.allowed is not None:
                model.allowed[:, 0] = True
            assert_as_alone(model, zeta, None)


@pytest.mark.parametrize("revisit", REVISITS)
def test_the_rules_are_those_of_the_docs(revisit: int | None, rng: np.random.Generator) -> None:
    compared = 0
    for _ in range(60):
        k, n = int(rng.integers(2, 8)), int(rng.integers(1, 30))
        zeta = float(rng.choice(ZETAS))
        model = random_chain(rng, [n] * 16, k, scale=rng.choice([0.5, 1.0, 3.0]), ends=False)
        r = vs.infer(chain(model), zeta=zeta, revisit=revisit)
        unary = model.unary.reshape(16, n, k)
        expected = [find(u, model.transition, zeta, revisit) for u in unary]
        if min(c.nearest for c in expected) < 1e-9:
            continue
        for c, islands in zip(expected, r.islands.reshape(16, n), strict=True):
            assert {i: v for i, v in enumerate(islands) if v >= 0} == c.held
        assert r.stats["released"] == sum(len(c.released) for c in expected)
        assert r.stats["flipped"] == sum(len(c.flipped) for c in expected)
        assert r.stats["rounds"] == max(c.rounds for c in expected)
        compared += 1
    assert compared > 50


@pytest.mark.parametrize("k", [3, 9, 24])
def test_threads_and_order_do_not_show(k: int, rng: np.random.Generator, dtype: type) -> None:
    model = peaked_chain(rng, rng.integers(0, 40, 70), k, peak=4.0, dtype=dtype)
    r = vs.infer(chain(model), zeta=0.9, threads=1)
    for threads in (2, 3, 8):
        assert_same_result(vs.infer(chain(model), zeta=0.9, threads=threads), r)
    order = rng.permutation(70)
    ends = np.cumsum(model.lengths)
    rows = np.concatenate([np.arange(ends[at] - model.lengths[at], ends[at]) for at in order])
    turned = replace(model, unary=model.unary[rows], lengths=model.lengths[order])
    again = vs.infer(chain(turned), zeta=0.9, threads=1)
    assert_same_bits(again.marginals, r.marginals[rows])
    assert_same_bits(again.islands, r.islands[rows])
    assert_same_bits(again.log_z, r.log_z[order])
    assert again.stats == r.stats


def as_path(model: Arrays) -> vs.Tree:
    """Return one chain as a tree, which does not go side by side."""
    n = len(model.unary)
    unary = model.unary.copy()
    if model.start is not None:
        unary[0] += model.start
    if model.end is not None:
        unary[-1] += model.end
    return vs.Tree(np.arange(-1, n - 1), unary, model.transition, allowed=model.allowed)


@pytest.mark.parametrize("revisit", REVISITS)
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_a_long_chain_answers_in_stretches_as_a_whole(
    k: int, revisit: int | None, rng: np.random.Generator, dtype: type
) -> None:
    """A tree of one path, which is not cut, has the same islands."""
    islands = 0
    for zeta in ZETAS:
        # With few peaks, or tables that contest them, it is answered exactly.
        peak, scale = rng.choice([4.0, 6.0, 10.0]), rng.choice([0.3, 0.6, 1.0])
        n, share = int(rng.integers(4097, 6000)), rng.uniform(0.6, 1.0)
        model = peaked_chain(rng, [n], k, peak=peak, share=share, scale=scale, dtype=dtype)
        ask: dict[str, Any] = {"zeta": zeta, "revisit": revisit}
        r, tree = vs.infer(chain(model), **ask), vs.infer(as_path(model), **ask)
        assert_same_bits(r.islands, tree.islands)
        tolerance = 1e-12 if dtype is np.float64 else 2e-6
        np.testing.assert_allclose(r.marginals, tree.marginals, atol=tolerance)
        np.testing.assert_allclose(r.log_z, tree.log_z, rtol=tolerance)
        for name in ("islands", "segments", "released", "flipped", "rounds"):
            assert r.stats[name] == tree.stats[name], name
        assert r.converged == tree.converged
        islands += r.method == "islands"
    assert islands >= 2


@pytest.mark.parametrize("k", [2, 5, 9])
def test_stretches_know_of_no_others(k: int, rng: np.random.Generator, dtype: type) -> None:
    """Long chains in a batch, beside short ones, on any number of threads."""
    for zeta in (0.5, 0.9):
        model = peaked_chain(rng, [5000, 7, 4096, 4097, 0, 6500], k, share=0.7, dtype=dtype)
        model = replace(model, allowed=rng.random(model.unary.shape) < 0.9)
        model.allowed[:, 0] = True
        r = assert_as_alone(model, zeta, None)
        for threads in (2, 3, 8):
            assert_same_result(r, vs.infer(chain(model), zeta=zeta, threads=threads))


@pytest.mark.skipif(
    vs.simd_level() not in ("x86-64-v3", "x86-64-v4"), reason="needs vectors of four doubles"
)
def test_a_chain_is_cut_where_it_has_islands(rng: np.random.Generator) -> None:
    """What goes in stretches is one plan, beside that of the table; the machine has others."""
    for tail in (0, 8_000):
        scores = peaked_chain(rng, [20_000], 5, peak=9.0, share=0.9, scale=0.1)
        scores.unary[20_000 - tail :] = 0.0  # nothing there to cut it at
        with vs.schedule.record() as plans:
            r = vs.infer(chain(scores), zeta=0.9, threads=1)
        assert r.method == "islands"
        assert (len(plans) == 2) == (tail == 0)
