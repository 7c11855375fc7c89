"""Structured factors by enumeration, in numbers of 60 digits; and a kind written in Python."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath
import numpy as np

from valuesparse.factors import Structured

mpmath.mp.dps = 60


def configurations(factor: Structured) -> np.ndarray:
    """Return what a factor allows, (m, k)."""
    rows = np.array(list(itertools.product(range(2), repeat=len(factor.scope))))
    return rows[factor.log_potential(rows) == 0.0]


def sum_product_of(factor: Structured, messages: np.ndarray) -> tuple[Any, list, list]:
    """Return the log mass (None: nothing is possible), P(y = 1) and P(y = 0)."""
    k = len(factor.scope)
    total, on, off = mpmath.mpf(0), [mpmath.mpf(0)] * k, [mpmath.mpf(0)] * k
    for row in configurations(factor).tolist():
        scores = [messages[i, x] for i, x in enumerate(row)]
        if -np.inf in scores:
            continue
        weight = mpmath.exp(mpmath.fsum(map(mpmath.mpf, scores)))
        total += weight
        for i, x in enumerate(row):
            (on if x else off)[i] += weight
    if total == 0:
        return None, on, off
    return mpmath.log(total), [x / total for x in on], [x / total for x in off]


def best_of(factor: Structured, messages: np.ndarray) -> np.ndarray:
    """Return the best score with each state of each variable, (k, 2)."""
    k = len(factor.scope)
    rows = configurations(factor)
    scores = messages[np.arange(k), rows].sum(axis=1)
    return np.array(
        [[scores[rows[:, i] == x].max(initial=-np.inf) for x in range(2)] for i in range(k)]
    )


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
