"""`vs.parsing.marginals` and `best_trees`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from tests.tree_arcs import Enumerated, score, trees
from valuesparse import _parsing

Array = npt.NDArray[Any]
KINDS = pytest.mark.parametrize("projective", [False, True])
ROOTS = pytest.mark.parametrize("single_root", [False, True])


def batch(seed: int, count: int = 60, most: int = 30) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n + 1, n + 1)) * 3 for n in rng.integers(0, most, size=count)]


@pytest.mark.simd
@KINDS
@ROOTS
@settings(max_examples=150, deadline=None)
@given(n=st.integers(0, 5), seed=st.integers(0, 2**32), ties=st.booleans(), some=st.booleans())
def test_best_trees_agree_with_enumeration(
    projective: bool, single_root: bool, n: int, seed: int, ties: bool, some: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = (
        rng.integers(-2, 3, size=(n + 1, n + 1)) * 1.0 if ties else rng.normal(size=(n + 1,) * 2)
    )
    if some:
        scores[rng.random(scores.shape) < 0.5] = -np.inf
    np.fill_diagonal(scores, np.nan)
    scores[:, 0] = np.inf
    allowed = trees(n, projective, single_root)
    best = max((score(scores, t) for t in allowed), default=-np.inf)
    if best == -np.inf:
        with pytest.raises(vs.InfeasibleError, match=r"scores\[0\] allows no"):
            vs.parsing.best_trees([scores], projective, single_root)
        return
    found = vs.parsing.best_trees([scores], projective, single_root)
    heads = tuple(found.heads[0].tolist())
    assert heads in allowed
    assert abs(found.score[0] - best) < 1e-12
    assert abs(score(scores, heads) - best) < 1e-12


@pytest.mark.smoke
@KINDS
@ROOTS
def test_long_best_trees_have_the_limit_of_the_sum(projective: bool, single_root: bool) -> None:
    """The best tree has nearly all mass where scores are far apart."""
    rng = np.random.default_rng(2)
    scores = [rng.permutation(31 * 31).reshape(31, 31) * 60.0 for _ in range(5)]
    found = vs.parsing.best_trees(scores, projective, single_root)
    sums = vs.parsing.marginals(scores, projective, single_root)
    for heads, p in zip(found.heads, sums.marginals, strict=True):
        assert (p[heads, np.arange(1, 31)] > 0.99).all()
    assert np.abs(found.score - sums.log_z).max() < 1e-3


@KINDS
@ROOTS
def test_threads_do_not_show(projective: bool, single_root: bool) -> None:
    scores = [s for s in batch(1) if len(s) > 1]
    scores[3] = scores[3] * 3000  # in wide numbers
    first = vs.parsing.marginals(scores, projective, single_root, threads=1)
    trees_ = vs.parsing.best_trees(scores, projective, single_root, threads=1)
    for threads in (2, 3, 8):
        other = vs.parsing.marginals(scores, projective, single_root, threads=threads)
        assert first.log_z.tobytes() == other.log_z.tobytes()
        for a, b in zip(first.marginals, other.marginals, strict=True):
            assert a.tobytes() == b.tobytes()
        again = vs.parsing.best_trees(scores, projective, single_root, threads=threads)
        assert [h.tolist() for h in trees_.heads] == [h.tolist() for h in again.heads]


@pytest.mark.simd
@ROOTS
@pytest.mark.parametrize("words", [1, 2, 3, 5, 8, 13, 40])
def test_sentences_of_one_length_are_as_each_alone(single_root: bool, words: int) -> None:
    """Some of them of scores that only wide numbers hold, or of a root that few words know."""
    rng = np.random.default_rng(words)
    scores = [rng.normal(size=(words + 1, words + 1)) * 2 for _ in range(19)]
    for i, scale in ((3, 5000.0), (6, 1e13), (9, 300.0)):
        scores[i] *= scale
    scores[11][0, 2:] = -np.inf
    scores[12][rng.random(scores[12].shape) < 0.3] = -np.inf
    scores[12][0, 1:] = 0.0
    scores[14][1:, 1] = -np.inf
    r = vs.parsing.marginals(scores, False, single_root)
    for x, p, log_z in zip(scores, r.marginals, r.log_z, strict=True):
        exact, marginal, *_ = _parsing.arcs(x, False, single_root)
        assert log_z == pytest.approx(exact, rel=1e-14, abs=1e-12)
        np.testing.assert_allclose(p, marginal, rtol=1e-11, atol=1e-300)
    narrow = vs.parsing.marginals([s.astype(np.float32) for s in scores], False, single_root)
    for x, p in zip(scores, narrow.marginals, strict=True):
        exact, marginal, *_ = _parsing.arcs(
            x.astype(np.float32).astype(np.float64), False, single_root
        )
        np.testing.assert_allclose(p, marginal, rtol=1e-6, atol=1e-37)
    for threads in (1, 2, 3, 8):
        other = vs.parsing.marginals(scores, False, single_root, threads)
        assert other.log_z.tobytes() == r.log_z.tobytes()
        assert [p.tobytes() for p in other.marginals] == [p.tobytes() for p in r.marginals]


@KINDS
def test_the_first_sentence_that_is_wrong_is_named_in_groups(projective: bool) -> None:
    for wrong, first in (({5: "none", 6: "nan"}, 5), ({5: "nan", 4: "none"}, 4), ({17: "nan"}, 17)):
        scores = [np.zeros((3 + i % 2, 3 + i % 2)) for i in range(20)]
        for i, how in wrong.items():
            scores[i][:, 1] = np.nan if how == "nan" else -np.inf
        error = ValueError if wrong[first] == "nan" else vs.InfeasibleError
        for threads in (1, 3):
            with pytest.raises(error, match=rf"scores\[{first}\]"):
                vs.parsing.marginals(scores, projective, threads=threads)


def test_float32_stays() -> None:
    scores = [s.astype(np.float32) for s in batch(4, 5)]
    r = vs.parsing.marginals(scores)
    exact = vs.parsing.marginals([s.astype(np.float64) for s in scores])
    assert r.log_z.tolist() == exact.log_z.tolist()
    for a, b in zip(r.marginals, exact.marginals, strict=True):
        assert a.dtype == np.float32
        assert np.abs(a - b).max(initial=0.0) < 1e-7


def test_nothing_and_sentences_without_words() -> None:
    assert vs.parsing.marginals([]).marginals == []
    r = vs.parsing.marginals([np.zeros((1, 1))], single_root=True)
    assert r.log_z.tolist() == [0.0]
    assert r.marginals[0].tolist() == [[0.0]]
    assert vs.parsing.best_trees([np.zeros((1, 1))]).heads[0].tolist() == []


def test_what_is_wrong_is_named() -> None:
    fine = np.zeros((3, 3))
    for value, shown in ((np.nan, "NaN"), (np.inf, r"\+inf"), (1e15, r"\+1e\+15")):
        bad = fine.copy()
        bad[0, 2] = value
        for ask in (vs.parsing.marginals, vs.parsing.best_trees):
            with pytest.raises(ValueError, match=rf"scores\[1\]\[0, 2\] is {shown}"):
                ask([fine, bad])
    with pytest.raises(ValueError, match=r"scores\[0\] must be square"):
        vs.parsing.marginals([np.zeros((2, 3))])
    with pytest.raises(ValueError, match=r"wrap one sentence as \[scores\]"):
        vs.parsing.marginals(fine)
    with pytest.raises(TypeError, match=r"scores\[0\] must hold real numbers"):
        vs.parsing.marginals([fine.astype(complex)])
    with pytest.raises(TypeError, match="scores must be a list of arrays, got NoneType"):
        vs.parsing.marginals(None)
    none = fine.copy()
    none[:, 1] = -np.inf
    with pytest.raises(vs.InfeasibleError, match=r"scores\[1\] allows no tree") as caught:
        vs.parsing.marginals([fine, none, none])
    assert caught.value.sequence == 1


def test_marginals_agree_with_enumeration() -> None:
    scores = np.random.default_rng(8).normal(size=(5, 5))
    exact = Enumerated(scores, False, False)
    r = vs.parsing.marginals([scores])
    assert abs(r.marginals[0][2, 3] - exact.p(2, 3)) < 1e-15


def test_arrays_of_any_layout_are_read_alike() -> None:
    rng = np.random.default_rng(3)
    plain = [rng.normal(0.0, 2.0, (n + 1, n + 1)) for n in (0, 1, 4, 4, 7)]
    wanted = vs.parsing.marginals(plain)
    for other in (
        [np.asfortranarray(s) for s in plain],
        [s.astype(">f8") for s in plain],
        [np.pad(s, 2)[2:-2, 2:-2] for s in plain],
        [*plain[:2], plain[2].tolist(), *plain[3:]],
    ):
        found = vs.parsing.marginals(other)
        np.testing.assert_array_equal(found.log_z, wanted.log_z)
        for p, q in zip(found.marginals, wanted.marginals, strict=True):
            np.testing.assert_array_equal(p, q)
    for s in plain:
        s.setflags(write=False)
    np.testing.assert_array_equal(vs.parsing.marginals(plain).log_z, wanted.log_z)


def test_a_table_outlives_the_answer() -> None:
    table = vs.parsing.marginals([np.zeros((5, 5)), np.zeros((3, 3))]).marginals[1]
    np.testing.assert_allclose(table, [[0, 2 / 3, 2 / 3], [0, 0, 1 / 3], [0, 1 / 3, 0]], atol=1e-12)
    assert table.shape == (3, 3)
    assert table.flags.c_contiguous
    assert table.flags.writeable


@pytest.mark.parametrize("value", ["yes", "", None, 2, [True], 0.0])
def test_single_root_is_true_or_false(value: Any) -> None:
    text = "single_root must be True or False, not"
    with pytest.raises(ValueError, match=text):
        vs.parsing.best_trees([np.zeros((3, 3))], single_root=value)
    with pytest.raises(ValueError, match=text):
        vs.factors.Tree([(0, 1)], [0], single_root=value)
    with pytest.raises(ValueError, match="projective must be True or False, not"):
        vs.parsing.marginals([np.zeros((3, 3))], projective=value)
    arcs = [(0, 1)]
    assert vs.factors.Tree(arcs, [0], single_root=np.bool_(True)).single_root is True


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_the_first_sentence_at_fault_is_named(projective: bool, bad: float) -> None:
    """It is the first in the batch, not among those of a length that are done together."""
    scores = [np.zeros((n, n)) for n in (5, 9, 4, 9, 3, 3, 4, 6, 6, 3)]
    for faults in ([1, 2], [3, 5], [1, 6, 8], [9, 4]):
        some = [x.copy() for x in scores]
        for i in faults:
            some[i][:] = bad if i == min(faults) else -np.inf
        for ask in (vs.parsing.marginals, vs.parsing.best_trees):
            with pytest.raises(ValueError, match=rf"scores\[{min(faults)}\]"):
                ask(some, projective=projective)


def test_a_score_just_beyond_the_largest_is_told_with_all_digits() -> None:
    scores = np.zeros((2, 2), dtype=np.float32)
    scores[0, 1] = 1e14
    with pytest.raises(ValueError, match=r"is \+100000000376832\.0; .* at most 1e\+14 in"):
        vs.parsing.marginals([scores])
