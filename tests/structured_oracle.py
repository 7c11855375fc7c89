"""Structured factors by enumeration, in numbers of 60 digits; and a kind written in Python."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse import factors
from valuesparse.factors import Structured

mpmath.mp.dps = 60

#: Log-messages with all that is hard about them.
SCORES = st.sampled_from([0.0, 1.0, -2.5, 10_000.0, -10_000.0, 9_999.5, -np.inf, 700.0, 1e-9])

#: Configurations that a kind allows: inputs that are on, as zeros and ones, and the factor.
ALLOWED = {
    "AtMostOne": lambda on, _: sum(on) <= 1,
    "Budget": lambda on, factor: sum(on) <= factor.budget,
    "Imply": lambda on, _: not (on[0] and not on[1]),
    "Nand": lambda on, _: not all(on),
    "Or": lambda on, _: any(on),
    "OrOut": lambda on, _: on[-1] == any(on[:-1]),
    "Xor": lambda on, _: sum(on) == 1,
    "XorOut": lambda on, _: sum(on[:-1]) == on[-1],
}


def make(kind: str, scope: Any, negated: Any = (), budget: int = 2) -> Structured:
    """Return a factor of this kind; Imply takes the first two variables."""
    scope = list(scope)[: 2 if kind == "Imply" else None]
    negated = [i for i in negated if i < len(scope)]
    more = {"budget": budget} if kind == "Budget" else {}
    return getattr(factors, kind)(*scope, negated=negated, **more)


@st.composite
def messages_of(draw: Any, factor: Structured) -> np.ndarray:
    """Draw messages (k, 2) to a factor."""
    k = len(factor.scope)
    return np.array(draw(st.lists(SCORES, min_size=2 * k, max_size=2 * k))).reshape(k, 2)


def near(found: np.ndarray, wanted: list) -> None:
    """Compare probabilities to a relative 1e-9; those that no double holds are zero."""
    for x, y in zip(found.tolist(), wanted, strict=True):
        assert abs(mpmath.mpf(x) - y) <= 1e-9 * y + mpmath.mpf("1e-300"), (x, y)


def check_sums(factor: Structured, messages: np.ndarray) -> None:
    """Hold log mass, probabilities, complements and entropy against enumeration."""
    mass, p, c = factor.sum_product(messages)
    log_mass, on, off = sum_product_of(factor, messages)
    assert not np.isnan([mass, *p, *c]).any()
    if log_mass is None:
        assert mass == -np.inf
        assert not p.any()
        assert not c.any()
        assert factor.entropy(messages) == 0.0
        return
    assert abs(mass - log_mass) <= 1e-9 * max(1, abs(log_mass))
    near(p, on)
    near(c, off)
    largest = np.abs(messages[np.isfinite(messages)]).max()
    entropy = entropy_of(factor, messages)
    assert abs(factor.entropy(messages) - entropy) <= 1e-8 + 1e-12 * largest


def check_joints(factor: Structured, messages: np.ndarray) -> None:
    """Hold P(both on) of every two variables, and of each with itself, against enumeration."""
    k = len(factor.scope)
    pairs = list(itertools.product(range(k), repeat=2))
    found = factor.joint(messages, pairs)
    assert found.shape == (len(pairs),)
    rows = configurations(factor)
    scores = messages[np.arange(k), rows].sum(axis=1)
    if scores.max(initial=-np.inf) == -np.inf:
        assert not found.any()
        return
    weights = np.exp(scores - scores.max())
    for (a, b), x in zip(pairs, found, strict=True):
        both = weights[(rows[:, a] == 1) & (rows[:, b] == 1)].sum() / weights.sum()
        assert x == pytest.approx(both, abs=1e-9)


def configurations(factor: Structured) -> np.ndarray:
    """Return what a factor allows, (m, k)."""
    if isinstance(factor, (factors.Tree, factors.ProjectiveTree)):
        return trees_of(factor)
    rows = np.array(list(itertools.product(range(2), repeat=len(factor.scope))))
    allows = ALLOWED.get(type(factor).__name__)
    if allows is None:
        return rows[factor.log_potential(rows) == 0.0]
    sides = rows.copy()
    sides[:, list(factor.negated)] ^= 1
    return rows[[bool(allows(on, factor)) for on in sides.tolist()]]


def trees_of(factor: Any) -> np.ndarray:
    """Return the trees that a factor allows, by all heads of each word, (m, k)."""
    place = {arc: i for i, arc in enumerate(factor.arcs)}
    words = range(1, factor.n_words + 1)
    options = [[h for h, m in factor.arcs if m == word] for word in words]
    found = []
    for chosen in itertools.product(*options):
        heads = dict(zip(words, chosen, strict=True))
        rooted = sum(h == 0 for h in chosen)
        if rooted == 0 or (factor.single_root and rooted != 1):
            continue
        if not all(0 in _ancestors(heads, m) for m in words):
            continue
        # Projective: a head is an ancestor of every word below its arc.
        if isinstance(factor, factors.ProjectiveTree) and not all(
            h in _ancestors(heads, between)
            for m, h in heads.items()
            for between in range(min(h, m) + 1, max(h, m))
        ):
            continue
        row = np.zeros(len(factor.scope), dtype=np.int64)
        row[[place[h, m] for m, h in heads.items()]] = 1
        found.append(row)
    return np.array(found, dtype=np.int64).reshape(-1, len(factor.scope))


def _ancestors(heads: dict[int, int], word: int) -> list[int]:
    """Return a word and those above it, as far as there is no cycle."""
    seen = [word]
    while seen[-1] and len(seen) <= len(heads) + 1:
        seen.append(heads[seen[-1]])
    return seen


def sum_product_of(factor: Structured, messages: np.ndarray) -> tuple[Any, list, list]:
    """Return the log mass (None: nothing is possible), P(y = 1) and P(y = 0)."""
    k = len(factor.scope)
    total, on, off = mpmath.mpf(0), [mpmath.mpf(0)] * k, [mpmath.mpf(0)] * k
    for row in configurations(factor).tolist():
        scores = [messages[i, x].item() for i, x in enumerate(row)]
        if -np.inf in scores:
            continue
        weight = mpmath.exp(mpmath.fsum(map(mpmath.mpf, scores)))
        total += weight
        for i, x in enumerate(row):
            (on if x else off)[i] += weight
    if total == 0:
        return None, on, off
    return mpmath.log(total), [x / total for x in on], [x / total for x in off]


def entropy_of(factor: Structured, messages: np.ndarray) -> Any:
    """Return the entropy in nats."""
    weights = [
        mpmath.exp(mpmath.fsum(mpmath.mpf(messages[i, x].item()) for i, x in enumerate(row)))
        for row in configurations(factor).tolist()
        if all(messages[i, x] > -np.inf for i, x in enumerate(row))
    ]
    total = mpmath.fsum(weights)
    return -mpmath.fsum(w / total * mpmath.log(w / total) for w in weights)


def best_of(factor: Structured, messages: np.ndarray) -> np.ndarray:
    """Return the best score with each state of each variable, (k, 2)."""
    k = len(factor.scope)
    rows = configurations(factor)
    scores = messages[np.arange(k), rows].sum(axis=1)
    return np.array(
        [[scores[rows[:, i] == x].max(initial=-np.inf) for x in range(2)] for i in range(k)]
    )


def enumerated(graph: vs.FactorGraph, evidence: dict | None = None):
    """Return log Z, marginals, entropy and the best score by enumeration."""
    cards = graph.cardinalities
    rows = np.array(list(itertools.product(*map(range, cards))))
    score = np.zeros(len(rows))
    for factor in graph.factors:
        score = score + factor.log_potential(rows[:, list(factor.scope)])
    for v, x in (evidence or {}).items():
        score = np.where(rows[:, v] == x, score, -np.inf)
    log_z = np.logaddexp.reduce(score)
    p = np.exp(score - (log_z if log_z > -np.inf else 0.0))
    marginals = [np.bincount(rows[:, v], p, k) for v, k in enumerate(cards)]
    some = p[p > 0.0]
    return log_z, marginals, -(some * np.log(some)).sum(), score.max()


def as_tables(graph: vs.FactorGraph) -> vs.FactorGraph:
    """Return the same graph with tables for its structured factors."""
    other = vs.FactorGraph(graph.cardinalities)
    for f in graph.factors:
        if isinstance(f, Structured):
            other.add(f.scope, f.table([2] * len(f.scope)))
        else:
            other.add(f)
    return other


class AnyOf(Structured):
    """At least one variable is on: the three methods that have to be written, and no more."""

    def log_potential(self, states: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(states).any(axis=1), 0.0, -np.inf)

    def sum_product(self, messages: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        k = len(messages)
        rows = configurations(self)
        scores = messages[np.arange(k), rows].sum(axis=1)
        top = scores.max()
        if top == -np.inf:
            return -np.inf, np.zeros(k), np.zeros(k)
        p = np.exp(scores - top)
        on = (p[:, None] * rows).sum(axis=0)
        off = (p[:, None] * (1 - rows)).sum(axis=0)
        return top + np.log(p.sum()), on / p.sum(), off / p.sum()

    def best(self, messages: np.ndarray) -> tuple[float, np.ndarray]:
        rows = configurations(self)
        scores = messages[np.arange(len(messages)), rows].sum(axis=1)
        return scores.max(), rows[scores.argmax()]
