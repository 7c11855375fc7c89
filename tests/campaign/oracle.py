"""All configurations of a small model in long double, and what follows from the list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from campaign.harness import EPS, Case
from graph_oracle import Factors, log_joint, marginal
from oracles import LONG

Array = np.ndarray


class Joint:
    """The log-weight of every configuration, an axis per variable.

    size: sum of the largest finite magnitudes of all tables, which bounds every partial score.
    """

    def __init__(self, full: Array, size: float) -> None:
        self.full, self.size = full, size
        self.top = full.max(initial=-np.inf)

    @classmethod
    def of(cls, cards: Sequence[int], factors: Factors, evidence: dict[int, Any]) -> Joint:
        """Return that of tables over some variables each, and of evidence."""
        soft = [np.asarray(x) for x in evidence.values() if np.ndim(x)]
        size = sum(largest(t) for t in [*(t for _, t in factors), *soft])
        return cls(log_joint(list(cards), factors, evidence, LONG), size)

    @property
    def feasible(self) -> bool:
        """Whether there is a configuration."""
        return bool(self.top > -np.inf)

    def delta(self, eps: float = EPS) -> float:
        """Return what the score of a configuration may be off by, however it is added up."""
        return 16.0 * eps * self.size

    @cached_property
    def weight(self) -> Array:
        """Weights relative to the best configuration."""
        return np.exp(self.full - self.top)

    @cached_property
    def log_z(self) -> Any:
        """Log of the sum of all weights."""
        return self.top + np.log(self.weight.sum())

    @cached_property
    def _shares(self) -> Array:
        return self.weight / self.weight.sum()

    def probabilities(self) -> Array:
        """Return the probability of every configuration."""
        return self._shares

    def given(self, held: dict[int, int]) -> Joint:
        """Return that in which some variables have one state."""
        at = [np.arange(k) == held[v] if v in held else None for v, k in enumerate(self.full.shape)]
        full = self.full
        for v, mask in enumerate(at):
            if mask is not None:
                shape = [-1 if a == v else 1 for a in range(full.ndim)]
                full = np.where(mask.reshape(shape), full, -np.inf)
        return Joint(full, self.size)

    def entropy(self) -> Any:
        """Return the entropy in nats."""
        p = self.probabilities()
        p = p[p > 0]
        return -(p * np.log(p)).sum()

    def marginals(self) -> list[Array]:
        """Return those of all variables."""
        p = self.probabilities()
        return [marginal(p, [v]) for v in range(p.ndim)]

    def best(self, v: int) -> Array:
        """Return the best score of each state of a variable."""
        return self.full.max(axis=tuple(a for a in range(self.full.ndim) if a != v))


def largest(table: Array) -> float:
    """Return the largest finite magnitude."""
    t = np.abs(np.asarray(table, dtype=np.float64))
    return float(np.where(np.isinf(t), 0.0, t).max(initial=0.0))


def tolerance(joint: Joint, base: float, eps: float = EPS) -> float | None:
    """Return what a probability may be off by; None where rounding alone can decide it.

    Scores within delta of the true ones move a probability by a factor of exp(2 delta) at most.
    """
    delta = joint.delta(eps)
    return base + 4.0 * delta if delta < 0.05 else None


def check_given(
    case: Case,
    joint: Joint,
    islands: Iterable[int],
    got: Sequence[Array],
    base: float = 1e-10,
    eps: float = EPS,
) -> None:
    """Check marginals given the islands (-1: none), an island's own given all others."""
    held = {v: int(x) for v, x in enumerate(islands) if x >= 0}
    whole = joint.given(held)
    case.true("the islands have mass", whole.feasible, held)
    check_marginals(
        case, whole, got, base, eps, {v for v in range(joint.full.ndim) if v not in held}
    )
    for v in held:
        others = joint.given({u: x for u, x in held.items() if u != v})
        check_marginals(case, others, got, base, eps, {v})


def check_marginals(
    case: Case,
    joint: Joint,
    got: Iterable[Array],
    base: float = 1e-10,
    eps: float = EPS,
    only: set[int] | None = None,
) -> None:
    """Check marginals: by value where that is well-conditioned, by who wins everywhere.

    With scores within delta of the true ones, a state's share is at most the number of its
    configurations times exp(its best score + 2 delta) over that of the best one.
    """
    tol, delta = tolerance(joint, base, eps), joint.delta(eps)
    count = np.log(float(max(1, joint.full.size)))
    for v, p in enumerate(got):
        if only is not None and v not in only:
            continue
        case.true(f"marginal {v} is a distribution", (p >= 0).all(), p)
        case.close(
            f"marginal {v}: sum", p.sum(dtype=np.float64), 1.0, 1e-12 if base < 1e-6 else 1e-5
        )
        if tol is not None:
            want = marginal(joint.probabilities(), [v])
            case.close(f"marginal {v}", p, want.astype(np.float64), tol)
        score = joint.best(v)
        gap = (score - joint.top).astype(np.float64)
        most = np.exp(np.minimum(0.0, gap + count + 2.0 * delta))
        case.true(f"marginal {v} of what is forbidden", not p[score == -np.inf].any(), p)
        case.true(f"marginal {v} of what loses", (p <= most * (1 + base) + base).all(), p, most)
        rest = most.sum() - most
        case.true(f"marginal {v} of what wins", (p >= 1.0 - rest - base).all(), p, rest)


def check_log_z(case: Case, joint: Joint, got: Any, base: float = 1e-10, eps: float = EPS) -> None:
    """Check log Z, and that it is a number."""
    want = float(joint.log_z)
    case.close("log_z", float(got), want, base * max(1.0, abs(want)) + joint.delta(eps))


def check_best(case: Case, joint: Joint, states: Array, score: Any, eps: float = EPS) -> None:
    """Check a best configuration: its score is what is said, and none is better."""
    found = joint.full[tuple(int(x) for x in states)]
    slack = joint.delta(eps)
    case.close("score of the best", float(score), float(found), slack)
    case.true("the best is best", joint.top - found <= slack, joint.top, found)


def check_samples(case: Case, joint: Joint, states: Array, eps: float = EPS) -> None:
    """Check that samples are possible, and none as good as impossible."""
    scores = joint.full[tuple(np.asarray(states).T)]
    lowest = joint.top - 2.0 * joint.delta(eps) - np.log(float(joint.full.size)) - 40.0
    case.true("samples have weight", (scores >= lowest).all(), scores, joint.top)


def check_between(case: Case, what: str, joint: Joint, low: float, high: float) -> None:
    """Check bounds on log Z, up to what the long double of the oracle rounds."""
    truth, slack = joint.log_z, LONG(16.0) * np.finfo(LONG).eps * (LONG(joint.size) + 1)
    case.true(f"{what}: lower bound", low <= truth + slack, low, truth)
    case.true(f"{what}: upper bound", high >= truth - slack, high, truth)
