"""The native kernels of trees, against enumeration, determinants and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree_arcs import Enumerated, determinant, projective_counts, projective_mass
from valuesparse import _parsing

Array = npt.NDArray[Any]
KINDS = pytest.mark.parametrize("projective", [False, True])
ROOTS = pytest.mark.parametrize("single_root", [False, True])

pytestmark = pytest.mark.simd


@st.composite
def sentences(draw: Callable[..., Any], most: int = 4) -> Array:
    """Scores of mixed size, of which some are forbidden; nonsense where nobody may look."""
    n = draw(st.integers(0, most))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 400.0, 10_000.0]))
    forbidden = draw(st.sampled_from([0.0, 0.3, 0.6]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = np.round(rng.normal(size=(n + 1, n + 1)).clip(-1, 1) * scale, 3)
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    np.fill_diagonal(scores, np.nan)
    scores[:, 0] = np.inf
    return scores


def close(found: float, exact: float, digits: float = 1e-9) -> bool:
    if not np.isfinite(exact) or exact == 0.0:
        return found == exact or (exact == 0.0 and abs(found) < 1e-8)
    return abs(found - exact) <= digits * abs(exact) + 1e-300


@KINDS
@ROOTS
@settings(max_examples=150, deadline=None)
@given(scores=sentences())
def test_sums_agree_with_enumeration(projective: bool, single_root: bool, scores: Array) -> None:
    n = len(scores) - 1
    exact = Enumerated(scores, projective, single_root)
    log_z, p, c, ratio = _parsing.arcs(scores, projective, single_root)
    assert log_z == exact.log_z or abs(log_z - exact.log_z) <= 1e-12 * (1 + abs(exact.log_z))
    for h in range(n + 1):
        for m in range(n + 1):
            if log_z == -np.inf or m in (0, h):
                assert p[h, m] == c[h, m] == ratio[h, m] == 0.0
                continue
            assert close(p[h, m], exact.p(h, m))
            assert close(c[h, m], exact.rest(h, m))
            told = exact.ratio(h, m)
            assert ratio[h, m] == told or abs(ratio[h, m] - told) <= 1e-9 + 1e-13 * abs(told)


@KINDS
@ROOTS
def test_sums_of_six_words(projective: bool, single_root: bool) -> None:
    scores = np.random.default_rng(3).normal(size=(7, 7)) * 3
    exact = Enumerated(scores, projective, single_root)
    log_z, p, c, _ = _parsing.arcs(scores, projective, single_root)
    assert close(log_z, exact.log_z, 1e-13)
    for h, m in [(0, 1), (3, 1), (6, 2), (2, 6), (5, 4)]:
        assert close(p[h, m], exact.p(h, m), 1e-12)
        assert close(c[h, m], exact.rest(h, m), 1e-12)


@ROOTS
@settings(max_examples=80, deadline=None)
@given(scores=sentences(4))
def test_joints_agree_with_enumeration(single_root: bool, scores: Array) -> None:
    n = len(scores) - 1
    exact = Enumerated(scores, False, single_root)
    places = [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    pairs = [(a, b) for a in places for b in places]
    found = np.asarray([(*a, *b) for a, b in pairs], dtype=np.int32).reshape(-1, 4)
    log_z, joint = _parsing.joints(scores, single_root, found)
    assert log_z == exact.log_z or abs(log_z - exact.log_z) <= 1e-12 * (1 + abs(exact.log_z))
    for (a, b), got in zip(pairs, joint, strict=True):
        want = exact.joint(a, b) if exact.z else 0.0
        assert abs(got - want) < 1e-9


def lists_of(n: int, choice: int, most: int = 10) -> list[tuple[int, Array]]:
    """Some heads, each with some modifiers."""
    rng = np.random.default_rng(choice)
    heads = sorted(rng.permutation(n + 1)[:most].tolist())
    others = [np.array([m for m in range(1, n + 1) if m != h], np.int32) for h in heads]
    kept = [o[rng.random(o.size) < rng.choice([0.5, 1.0])] for o in others]
    return [(h, k) for h, k in zip(heads, kept, strict=True) if k.size]


def joints_of(answers: Any, lists: Any) -> dict[tuple[int, int, int, int], float]:
    """By head, modifier, head, modifier."""
    found = {}
    for (h, modifiers), (two, up) in zip(lists, answers, strict=True):
        k = modifiers.size
        for i, m in enumerate(modifiers.tolist()):
            found.update({(h, m, h, int(modifiers[j])): two[i, j] for j in range(i + 1, k)})
            found.update({(g, h, h, m): up[g, i] for g in range(len(up)) if h and g not in (h, m)})
    return found


@KINDS
@ROOTS
@settings(max_examples=80, deadline=None)
@given(scores=sentences(4), choice=st.integers(0, 2**32))
def test_joints_of_heads_agree_with_enumeration(
    projective: bool, single_root: bool, scores: Array, choice: int
) -> None:
    exact = Enumerated(scores, projective, single_root)
    lists = lists_of(len(scores) - 1, choice)
    log_z, answers = _parsing.head_joints(scores, projective, single_root, lists)
    assert log_z == exact.log_z or abs(log_z - exact.log_z) <= 1e-12 * (1 + abs(exact.log_z))
    for (h, m, k, s), got in joints_of(answers, lists).items():
        want = exact.joint((h, m), (k, s)) if exact.z else 0.0
        if projective:
            assert close(got, want)
        else:
            assert got == -1.0 or abs(got - want) < 1e-9


@ROOTS
@pytest.mark.parametrize(("n", "scale"), [(9, 2.0), (18, 3.0), (33, 1.0), (33, 200.0), (110, 30.0)])
def test_joints_of_heads_agree_with_arcs_that_are_held(
    single_root: bool, n: int, scale: float
) -> None:
    """P(a and b) is P(a) times P(b) where the word of `a` has no other head."""
    scores = np.random.default_rng(n).normal(size=(n + 1, n + 1)) * scale
    mass, p, _, _ = _parsing.arcs(scores, True, single_root)
    busy = np.argsort(-p.sum(axis=1), kind="stable")[:3].tolist()
    lists = [(h, k) for h, k in lists_of(n, n, n + 1) if h in busy]
    log_z, answers = _parsing.head_joints(scores, True, single_root, lists)
    assert log_z == mass
    held: dict[tuple[int, int], Array] = {}
    for h, m in [(g, int(c)) for g, k in lists for c in k[np.argsort(-p[g, k])[:3]]]:
        alone = scores.copy()
        alone[np.arange(n + 1) != h, m] = -np.inf
        held[h, m] = _parsing.arcs(alone, True, single_root)[1]
    asked = 0
    for (h, m, k, s), got in joints_of(answers, lists).items():
        for a, b in (((h, m), (k, s)), ((k, s), (h, m))):
            if a in held:
                want = p[a] * held[a][b]
                assert abs(got - want) <= 1e-9 * want + 1e-150
                asked += got > 1e-12
    assert asked > 5


@ROOTS
def test_joints_of_heads_are_those_of_pairs(single_root: bool) -> None:
    scores = np.random.default_rng(2).normal(size=(26, 26)) * 2
    lists = lists_of(25, 5)
    _, answers = _parsing.head_joints(scores, False, single_root, lists)
    found = joints_of(answers, lists)
    _, joint = _parsing.joints(scores, single_root, np.array(list(found), np.int32))
    np.testing.assert_allclose(list(found.values()), joint, rtol=0.0, atol=1e-12)


@ROOTS
@settings(max_examples=100, deadline=None)
@given(scores=sentences())
def test_maxima_agree_with_enumeration(single_root: bool, scores: Array) -> None:
    n = len(scores) - 1
    exact = Enumerated(scores, True, single_root)
    score, ratio = _parsing.projective_max(scores, single_root)
    assert close(score, exact.best())
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h == m or score == -np.inf:
                assert ratio[h, m] == 0.0
            else:
                told = exact.ratio(h, m, best=True)
                assert ratio[h, m] == told or abs(ratio[h, m] - told) < 1e-6


@pytest.mark.parametrize("scale", [0.0, 5.0, 300.0])
@ROOTS
def test_long_sentences_agree_with_determinants(single_root: bool, scale: float) -> None:
    """p and 1 - p to 1e-9, from determinants without one arc and with it alone."""
    n = 12 if scale < 100 else 6
    scores = np.random.default_rng(5).uniform(-1, 1, size=(n + 1, n + 1)) * scale
    log_z, p, c, _ = _parsing.arcs(scores, False, single_root)
    with mpmath.workdps(60 + int(2 * n * scale)):
        places = [(0, 1), (2, 1), (5, 3)]
        z, _ = determinant(scores, single_root, mpmath.mp.dps)
        assert abs(log_z - float(mpmath.log(z))) <= 1e-12 * max(1.0, abs(log_z))
        for h, m in places:
            without, alone = scores.copy(), scores.copy()
            without[h, m] = -np.inf
            alone[np.arange(n + 1) != h, m] = -np.inf
            off, _ = determinant(without, single_root, mpmath.mp.dps)
            on, _ = determinant(alone, single_root, mpmath.mp.dps)
            assert close(p[h, m], float(on / z))
            assert close(c[h, m], float(off / z))


@pytest.mark.parametrize("n", [6, 7, 8, 9, 15, 16, 18, 25])
@ROOTS
def test_projective_trees_of_any_length(single_root: bool, n: int) -> None:
    """Sums and maxima, with and without an arc, beside spans one by one; vectors end anywhere."""
    rng = np.random.default_rng(n)
    scores = rng.normal(size=(n + 1, n + 1)) * 2.0
    scores[1:, 1:][rng.random((n, n)) < 0.2] = -np.inf
    log_z, p, c, _ = _parsing.arcs(scores, True, single_root)
    best, ratio = _parsing.projective_max(scores, single_root)
    assert abs(log_z - projective_mass(scores, single_root)) < 1e-12 * n
    assert abs(best - projective_mass(scores, single_root, best=True)) < 1e-12 * n
    np.testing.assert_allclose(p.sum(axis=0)[1:], 1.0, rtol=1e-12)
    surest = np.unravel_index(p.argmax(), p.shape)
    held = 0
    for h, m in (surest, (0, n), (0, 1), (n // 2, n), (n, n // 2), (n - 1, 1), (1, 2)):
        without = scores.copy()
        without[h, m] = -np.inf
        off = projective_mass(without, single_root)
        assert abs(c[h, m] - np.exp(off - log_z)) < 1e-12
        assert abs(p[h, m] - (1.0 - np.exp(off - log_z))) < 1e-12
        least = projective_mass(without, single_root, best=True)
        if least < best - 1e-9:  # the arc is in all of the best trees
            held += 1
            assert abs(ratio[h, m] - (best - scores[h, m] - least)) < 1e-9
    assert held


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_counts(n: int) -> None:
    flat = np.zeros((n + 1, n + 1))
    counts = {(False, False): (n + 1) ** (n - 1), (False, True): n ** (n - 1)}
    for single_root in (False, True):
        counts[True, single_root] = projective_counts(n, single_root)
    for (projective, single_root), count in counts.items():
        log_z = _parsing.arcs(flat, projective, single_root)[0]
        exact = float(mpmath.log(count))
        assert abs(log_z - exact) <= 1e-9 * max(exact, 1e-3)
    ternary = mpmath.binomial(3 * n + 1, n) / (3 * n + 1)
    assert mpmath.almosteq(counts[True, False], ternary)


def test_strong_cycles_have_all_digits() -> None:
    """Two words that hold each other at 10,000, and a root that hardly holds either."""
    scores = np.full((3, 3), 10_000.0)
    scores[0] = [0.0, -10_000.0, -10_003.0]
    log_z, p, c, _ = _parsing.arcs(scores, False, False)
    exact = 1 / (1 + np.exp(-3.0))
    assert close(p[0, 1], exact, 1e-14)
    assert close(c[0, 1], 1 - exact, 1e-13)
    assert abs(log_z - np.log1p(np.exp(-3.0))) < 1e-11


def test_a_word_whose_only_head_is_the_root() -> None:
    """With a single root that word is it; another such word leaves no tree."""
    scores = np.zeros((4, 4))
    scores[1:, 1] = -np.inf
    for projective in (False, True):
        log_z, p, _, _ = _parsing.arcs(scores, projective, True)
        assert abs(log_z - Enumerated(scores, projective, True).log_z) < 1e-14
        assert p[0, 1] == 1.0
    scores[1:, 3] = -np.inf
    assert _parsing.arcs(scores, False, True)[0] == -np.inf
    assert _parsing.arcs(scores, False, False)[0] > -np.inf


@KINDS
def test_long_sentences_do_not_overflow(projective: bool) -> None:
    n = 420
    log_z, p, c, _ = _parsing.arcs(np.zeros((n + 1, n + 1)), projective, False)
    count = projective_counts(n, False) if projective else (n + 1) ** (n - 1)
    assert abs(log_z - float(mpmath.log(count))) < 1e-9
    assert np.abs(p.sum(axis=0)[1:] - 1).max() < 1e-12
    assert np.isfinite(c).all()


def sparse_scores(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return scores of few arcs: some words are no heads, a few are children of the root."""
    scores = np.full((n + 1, n + 1), -np.inf)
    heads = rng.choice(np.arange(1, n + 1), size=max(2, n // 3), replace=False)
    for m in range(1, n + 1):
        own = rng.choice(heads, size=min(2, heads.size), replace=False)
        scores[own, m] = 3 * rng.normal(size=own.size)
    scores[0, rng.choice(heads, size=rng.integers(1, 4))] = rng.normal()
    np.fill_diagonal(scores, -np.inf)
    return scores


@pytest.mark.simd
@pytest.mark.parametrize("n", [9, 14, 21, 33])
@pytest.mark.parametrize("all_ratios", [False, True])
def test_a_single_root_of_few_arcs_is_a_sum_over_its_children(n: int, all_ratios: bool) -> None:
    """Where words that are no heads lie together, first-order terms have no pivot."""
    rng = np.random.default_rng(n)
    seen = 0
    for _ in range(40):
        scores = sparse_scores(rng, n)
        log_z, p, q, ratio = _parsing.arcs(scores, False, True, all_ratios)
        total, mass, rest = -np.inf, np.zeros_like(p), np.zeros_like(p)
        parts = []
        for child in np.flatnonzero(scores[0] > -np.inf):
            one = scores.copy()
            one[0] = -np.inf
            one[0, child] = scores[0, child]
            parts.append(_parsing.arcs(one, False, False)[:3])
            total = np.logaddexp(total, parts[-1][0])
        if total == -np.inf:
            assert log_z == -np.inf
            continue
        for found, own_p, own_q in parts:
            if found > -np.inf:
                mass += np.exp(found - total) * own_p
                rest += np.exp(found - total) * own_q
        seen += 1
        assert log_z == pytest.approx(total, rel=1e-11)
        np.testing.assert_allclose(p, mass, rtol=1e-9)
        np.testing.assert_allclose(q, rest, rtol=1e-9)
        inner = (scores > -np.inf) & (p > 0) & (q > 0)
        odds = np.log(p[inner]) - np.log(q[inner]) - scores[inner]
        np.testing.assert_allclose(ratio[inner], odds, atol=1e-9)
        arcs = np.argwhere(scores > -np.inf)
        chosen = arcs[rng.permutation(len(arcs))[:12]]
        pairs = np.array([[*a, *b] for a in chosen for b in chosen])
        both = _parsing.joints(scores, True, pairs)[1]
        expected = np.zeros(len(pairs))
        for child in np.flatnonzero(scores[0] > -np.inf):
            one = scores.copy()
            one[0] = -np.inf
            one[0, child] = scores[0, child]
            found = _parsing.arcs(one, False, False)[0]
            if found > -np.inf:
                expected += np.exp(found - total) * _parsing.joints(one, False, pairs)[1]
        np.testing.assert_allclose(both, expected, atol=1e-10)
    assert seen > 10


@pytest.mark.simd
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([0.0, 3.0, 60.0]))
def test_joints_under_a_single_root_where_some_words_cannot_be_attached_to_it(
    seed: int, scale: float
) -> None:
    """The first words have no heads but each other, and any word may be a child of the root."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    top = int(rng.integers(1, n))
    order = rng.permutation(np.arange(1, n + 1))
    scores = np.round(rng.normal(size=(n + 1, n + 1)) * scale, 3)
    scores[np.ix_(order[top:], order[:top])] = -np.inf
    exact = Enumerated(scores, False, True)
    lists = [(h, np.array([m for m in range(1, n + 1) if m != h], np.int32)) for h in range(n + 1)]
    log_z, answers = _parsing.head_joints(scores, False, True, lists)
    assert close(log_z, exact.log_z, 1e-12)
    for (h, m, k, s), got in joints_of(answers, lists).items():
        lost = scale > 3.0 and got == -1.0
        assert lost or abs(got - exact.joint((h, m), (k, s))) < 1e-10


@pytest.mark.simd
@pytest.mark.parametrize("n", [24, 39])
def test_many_children_of_a_single_root_are_no_reason_to_ask_again(n: int) -> None:
    """Each pair from minors of one inverse: none is asked for by a run of its own."""
    rng = np.random.default_rng(n)
    order = rng.permutation(np.arange(1, n + 1))
    scores = np.full((n + 1, n + 1), -np.inf)
    scores[0, 1:] = rng.normal(size=n)
    for i, m in enumerate(order[1:], 1):  # all descend from order[0], whose only head is the root
        scores[rng.choice(order[:i], min(i, 3), replace=False), m] = rng.normal(size=min(i, 3)) * 4
    for i, m in enumerate(order[1 : n // 2], 1):
        scores[order[i + 1], m] = 2.0
    lists = lists_of(n, n, n + 1)
    log_z, answers = _parsing.head_joints(scores, False, True, lists)
    assert log_z > -np.inf
    found = joints_of(answers, lists)
    _, joint = _parsing.joints(scores, True, np.array(list(found), np.int32))
    assert min(found.values()) >= 0.0
    np.testing.assert_allclose(list(found.values()), joint, rtol=0.0, atol=1e-12)
    p = _parsing.arcs(scores, False, True)[1]
    a = max(((h, m) for h, m, _, _ in found), key=lambda a: 0.5 - abs(p[a] - 0.5))
    held = scores.copy()
    held[np.arange(n + 1) != a[0], a[1]] = -np.inf
    alone = _parsing.arcs(held, False, True)[1]
    of_a = {key: got for key, got in found.items() if a == key[:2]}
    assert max(of_a.values()) > 0.01
    for (_, _, k, s), got in of_a.items():
        assert abs(got - p[a] * alone[k, s]) < 1e-10


@KINDS
@ROOTS
@settings(max_examples=60, deadline=None)
@given(scores=sentences())
def test_sums_are_kept_for_what_is_asked_later(
    projective: bool, single_root: bool, scores: Array
) -> None:
    log_z, *found = _parsing.arcs(scores, projective, single_root, False)
    again, *later = _parsing.arcs(scores, projective, single_root, False, True)
    assert again == log_z
    arcs = (np.isfinite(scores)) & (np.arange(len(scores)) > 0)
    for a, b in zip(found, later, strict=True):
        np.testing.assert_array_equal(a[arcs], b[arcs])
