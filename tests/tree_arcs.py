"""Dependency trees of a sentence by enumeration, and by determinants in arbitrary precision."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _reaches_root(heads: tuple[int, ...]) -> bool:
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def _crosses(heads: tuple[int, ...]) -> bool:
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, 1)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


@lru_cache
def trees(
    n: int, projective: bool = False, single_root: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Return the heads of words 1..n in every tree."""
    return tuple(
        heads
        for heads in itertools.product(range(n + 1), repeat=n)
        if all(h != m for m, h in enumerate(heads, 1))
        and _reaches_root(heads)
        and not (single_root and n and heads.count(0) != 1)
        and not (projective and _crosses(heads))
    )


def score(scores: Array, heads: tuple[int, ...]) -> float:
    return float(sum(scores[h, m] for m, h in enumerate(heads, 1)))


def pair_triples(scores: Array) -> tuple[Array, Array]:
    """Return all siblings (h, m, s), m < s, and all grandparents (g, h, m), of arcs that exist."""
    n = len(scores) - 1
    there = {(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m}
    there = {arc for arc in there if scores[arc] > -np.inf}
    siblings = [(h, m, s) for h, m in there for k, s in there if h == k and m < s]
    grandparents = [(g, h, m) for g, h in there for k, m in there if h == k and g != m]
    return tuple(
        np.array(sorted(x), dtype=np.int64).reshape(-1, 3) for x in (siblings, grandparents)
    )


def with_pairs(heads: tuple[int, ...], siblings: Any, grandparents: Any) -> float:
    """Return the scores of the pairs of arcs that a tree holds; each (triples, weights) or None."""
    arcs = {(h, m) for m, h in enumerate(heads, 1)}
    total = 0.0
    for given, arcs_of in (
        (siblings, lambda h, m, s: {(h, m), (h, s)}),
        (grandparents, lambda g, h, m: {(g, h), (h, m)}),
    ):
        for triple, weight in zip(*(given or ((), ())), strict=True):
            total += float(weight) if arcs_of(*map(int, triple)) <= arcs else 0.0
    return total


class Enumerated:
    """All that can be asked, in 60 digits: `log_z`, and of each arc `p`, `rest` and `ratio`."""

    def __init__(self, scores: Array, projective: bool, single_root: bool) -> None:
        n = len(scores) - 1
        self.all = trees(n, projective, single_root)
        self.scores = scores
        with mpmath.workdps(60):
            weight = [
                [mpmath.exp(mpmath.mpf(float(x))) if x > -np.inf else mpmath.mpf(0) for x in row]
                for row in scores
            ]
            self.mass = [mpmath.fprod(weight[h][m] for m, h in enumerate(t, 1)) for t in self.all]
            self.z = mpmath.fsum(self.mass)
            self.log_z = float(mpmath.log(self.z)) if self.z else -np.inf

    def p(self, h: int, m: int) -> float:
        with mpmath.workdps(60):
            on = mpmath.fsum(w for w, t in zip(self.mass, self.all, strict=True) if t[m - 1] == h)
            return float(on / self.z)

    def rest(self, h: int, m: int) -> float:
        with mpmath.workdps(60):
            off = mpmath.fsum(w for w, t in zip(self.mass, self.all, strict=True) if t[m - 1] != h)
            return float(off / self.z)

    def ratio(self, h: int, m: int, best: bool = False) -> float:
        """Log of what an arc is multiplied by, over what the trees without it sum up to."""
        flat = self.scores.copy()
        flat[h, m] = 0.0
        if best:
            on = max((score(flat, t) for t in self.all if t[m - 1] == h), default=-np.inf)
            off = max((score(flat, t) for t in self.all if t[m - 1] != h), default=-np.inf)
            return 0.0 if on == off == -np.inf else on - off
        with mpmath.workdps(60):
            sides = [mpmath.mpf(0), mpmath.mpf(0)]
            for t in self.all:
                x = score(flat, t)
                if x > -np.inf:
                    exact = mpmath.fsum(mpmath.mpf(float(flat[k, j])) for j, k in enumerate(t, 1))
                    sides[t[m - 1] == h] += mpmath.exp(exact)
            off, on = sides
            if not on:
                return 0.0 if not off else -np.inf
            return float(mpmath.log(on / off)) if off else np.inf

    def joint(self, a: tuple[int, int], b: tuple[int, int]) -> float:
        with mpmath.workdps(60):
            both = mpmath.fsum(
                w
                for w, t in zip(self.mass, self.all, strict=True)
                if t[a[1] - 1] == a[0] and t[b[1] - 1] == b[0]
            )
            return float(both / self.z)

    def best(self) -> float:
        return max((score(self.scores, t) for t in self.all), default=-np.inf)


def determinant(scores: Array, single_root: bool, digits: int = 60) -> tuple[Any, Any]:
    """Return Z and the inverse of the Laplacian (n, n), rows and columns by word (Koo et al.)."""
    n = len(scores) - 1
    with mpmath.workdps(digits):
        w = [
            [mpmath.exp(mpmath.mpf(float(x))) if x > -np.inf else mpmath.mpf(0) for x in row]
            for row in scores
        ]
        matrix = mpmath.zeros(n, n)
        for m in range(1, n + 1):
            for h in range(1, n + 1):
                if h != m:
                    matrix[h - 1, m - 1] -= w[h][m]
                    matrix[m - 1, m - 1] += w[h][m]
            if single_root:
                continue
            matrix[m - 1, m - 1] += w[0][m]
        if single_root:
            for m in range(1, n + 1):
                matrix[0, m - 1] = w[0][m]
        return mpmath.det(matrix), matrix


def projective_counts(n: int, single_root: bool) -> int:
    """Return how many projective trees there are: binom(3n + 1, n) / (3n + 1) with several roots.

    By the recurrence of complete spans alone, in integers.
    """
    complete, open_ = [1], [0]
    for width in range(1, n + 1):
        open_.append(sum(complete[k] * complete[width - 1 - k] for k in range(width)))
        complete.append(sum(open_[k] * complete[width - k] for k in range(1, width + 1)))
    if not single_root:
        return complete[n]
    return sum(complete[k - 1] * complete[n - k] for k in range(1, n + 1))


def projective_mass(scores: Array, single_root: bool, *, best: bool = False) -> float:
    """Return log Z of projective trees, or the best score: by spans, one number at a time."""
    n = len(scores) - 1
    plus = np.max if best else np.logaddexp.reduce

    def total(terms: list[float]) -> float:
        return float(plus(terms)) if terms else -np.inf

    right, left = ({(i, i): 0.0 for i in range(n + 1)} for _ in range(2))
    on, back = {}, {}
    for width in range(1, n + 1):
        for i in range(n + 1 - width):
            j = i + width
            between = total([right[i, k] + left[j, k + 1] for k in range(i, j)])
            on[i, j], back[j, i] = scores[i, j] + between, scores[j, i] + between if i else -np.inf
            right[i, j] = total([on[i, k] + right[k, j] for k in range(i + 1, j + 1)])
            left[j, i] = total([back[j, k] + left[k, i] for k in range(i, j)]) if i else -np.inf
    if single_root:
        return total([scores[0, m] + left[m, 1] + right[m, n] for m in range(1, n + 1)])
    return right[0, n]
