"""Projective trees with grandparents, against enumeration."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import valuesparse as vs
from tests.tree_arcs import pair_triples, projective_counts, score, trees, with_pairs

Array = npt.NDArray[Any]
ROOTS = pytest.mark.parametrize("single_root", [False, True])

pytestmark = pytest.mark.simd


@st.composite
def sentences(draw: Any, most: int = 4) -> tuple[Array, tuple[Array, Array]]:
    """Return scores of mixed size and grandparents, of which some are forbidden."""
    n = draw(st.integers(0, most))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 400.0, 10_000.0]))
    forbidden = draw(st.sampled_from([0.0, 0.3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = np.round(rng.normal(size=(n + 1, n + 1)).clip(-1, 1) * scale, 3)
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    np.fill_diagonal(scores, np.nan)
    scores[:, 0] = np.inf
    _, triples = pair_triples(scores)
    triples = triples[rng.random(len(triples)) < 0.8]
    weights = np.round(rng.normal(size=len(triples)).clip(-1, 1) * scale, 3)
    weights[rng.random(len(triples)) < forbidden / 3] = -np.inf
    return scores, (triples, weights)


@ROOTS
@given(case=sentences())
@examples(150)
def test_sums_and_the_best_agree_with_enumeration(single_root: bool, case: Any) -> None:
    scores, parts = case
    n = len(scores) - 1
    found = trees(n, True, single_root)
    totals = [score(scores, t) + with_pairs(t, None, parts) for t in found]
    if max(totals, default=-np.inf) == -np.inf:
        for ask in (vs.parsing.marginals, vs.parsing.best_trees):
            with pytest.raises(vs.InfeasibleError, match=r"scores\[0\] allows no projective tree"):
                ask([scores], True, single_root, grandparents=[parts])
        return
    with mpmath.workdps(40):
        mass = [mpmath.exp(mpmath.mpf(x)) if x > -np.inf else mpmath.mpf(0) for x in totals]
        z = mpmath.fsum(mass)
        p = [[mpmath.mpf(0)] * (n + 1) for _ in range(n + 1)]
        both = [mpmath.mpf(0)] * len(parts[0])
        for heads, x in zip(found, mass, strict=True):
            for m, h in enumerate(heads, 1):
                p[h][m] += x / z
            for i, (g, h, m) in enumerate(parts[0].tolist()):
                both[i] += x / z if heads[m - 1] == h and heads[h - 1] == g else 0
        log_z = float(mpmath.log(z))
    r = vs.parsing.marginals([scores], True, single_root, grandparents=[parts])
    assert r.log_z[0] == pytest.approx(log_z, rel=1e-12, abs=1e-11)
    pairs = [*zip(r.grandparents[0], both, strict=True)]
    pairs += [*zip(r.marginals[0].ravel(), (x for row in p for x in row), strict=True)]
    for x, exact in pairs:
        assert abs(x - exact) <= 1e-9 * exact + 1e-300
    t = vs.parsing.best_trees([scores], True, single_root, grandparents=[parts])
    heads = tuple(t.heads[0].tolist())
    assert heads in found
    assert t.score[0] == pytest.approx(max(totals), rel=1e-12, abs=1e-12)
    assert totals[found.index(heads)] == pytest.approx(max(totals), rel=1e-12, abs=1e-12)


@ROOTS
def test_without_weights_they_are_those_of_arcs(single_root: bool) -> None:
    rng = np.random.default_rng(1)
    scores = [rng.normal(size=(n + 1, n + 1)) * 3 for n in (0, 1, 2, 7, 20, 33)]
    scores[3] = scores[3] * 1000  # in wide numbers
    none = [None, ([], []), *[None] * 4]
    a = vs.parsing.marginals(scores, True, single_root)
    b = vs.parsing.marginals(scores, True, single_root, grandparents=none)
    np.testing.assert_allclose(b.log_z, a.log_z, rtol=1e-12)
    for x, y in zip(a.marginals, b.marginals, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-300)
    s, t = (vs.parsing.best_trees(scores, True, single_root, grandparents=g) for g in (None, none))
    assert [h.tolist() for h in s.heads] == [h.tolist() for h in t.heads]


@ROOTS
def test_counts_of_forty_words(single_root: bool) -> None:
    n = 40
    r = vs.parsing.marginals([np.zeros((n + 1, n + 1))], True, single_root, grandparents=[None])
    count = projective_counts(n, single_root)
    assert r.log_z[0] == pytest.approx(float(mpmath.log(count)), rel=1e-12)


def test_differences_of_log_z_are_the_marginals_of_parts() -> None:
    """Long sentences, where nothing can be enumerated: d log Z / d weight."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(12, 12))
    _, triples = pair_triples(scores)
    weights = rng.normal(size=len(triples))

    def ask(w: Array) -> Any:
        return vs.parsing.marginals([scores], True, grandparents=[(triples, w)])

    r = ask(weights)
    for i in rng.choice(len(triples), 20, replace=False):
        more, less = weights.copy(), weights.copy()
        more[i] += 1e-4
        less[i] -= 1e-4
        slope = (ask(more).log_z[0] - ask(less).log_z[0]) / 2e-4
        assert r.grandparents[0][i] == pytest.approx(slope, abs=1e-8)


def test_threads_do_not_show_and_float32_stays() -> None:
    rng = np.random.default_rng(3)
    scores = [rng.normal(size=(n + 1, n + 1)).astype(np.float32) for n in (3, 9, 14, 5, 17)]
    parts = []
    for s in scores:
        _, triples = pair_triples(s)
        parts.append((triples, rng.normal(size=len(triples))))
    one, *others = (
        vs.parsing.marginals(scores, True, threads=t, grandparents=parts) for t in (1, 2, 3, 8)
    )
    assert {x.dtype for x in (*one.marginals, *one.grandparents)} == {np.dtype(np.float32)}
    for r in others:
        assert r.log_z.tobytes() == one.log_z.tobytes()
        for a, b in zip(one.grandparents, r.grandparents, strict=True):
            assert a.tobytes() == b.tobytes()


def test_what_is_wrong_is_named() -> None:
    scores = [np.zeros((4, 4)), np.zeros((4, 4))]
    scores[1][2, 3] = -np.inf
    for grandparents, words in [
        ([None], "an entry for each of 2 sentences, got 1"),
        ([None, ([(1, 2, 3)], [0.0])], r"grandparents\[1\]\[0\]\[0\] is \(1, 2, 3\): there is no"),
        ([([(1, 2, 3)], [np.nan]), None], r"grandparents\[0\]\[1\]\[0\] is NaN"),
        ([([(1, 2, 3), (1, 2, 3)], [0, 0]), None], r"\[0\]\[1\] is \(1, 2, 3\): the same pair"),
    ]:
        for ask in (vs.parsing.marginals, vs.parsing.best_trees):
            with pytest.raises(ValueError, match=words):
                ask(scores, True, grandparents=grandparents)
    with pytest.raises(ValueError, match="grandparents need projective=True"):
        vs.parsing.marginals(scores, grandparents=[None, None])
