"""How far the whole graph can be from a part of it (RS10, RSM10: Proposition 2 of each)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._junction import freeze, split
from valuesparse._validation import as_indices
from valuesparse.factors import Feature, Structured
from valuesparse.inference._refusals import impossible
from valuesparse.models import FactorGraph
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed._parts import FeaturePart, TableGroup
from valuesparse.results import GraphResult
from valuesparse.results._bounds import Bounds

__all__ = ["Bounds", "ProxyTerms", "bounds_of", "expectations", "proxy_divergence"]

Floats = npt.NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
#: Where log-weights lie closer together than this, no zero of a marginal is an underflow.
_NARROW = 60.0
#: Probability that an underflow can hide: plain doubles are exact down to 2^-100 of the whole.
_HIDDEN = 2.0**-100
_ROUNDS = 60  # of bisection
_TOGETHER = 1 << 14  # entries of tables that are looked at together
_CONFIGURATIONS = 1 << 20


class ProxyTerms(NamedTuple):
    """RSM10, Proposition 1: divergence = isolated + correlation + interaction.

    Attributes
    ----------
    divergence : float
        D(p_H ‖ p_F), by enumeration.
    isolated : float
        Sum of the gains, under the first, of the factors left out: what selection minimises.
    correlation : float
        S: between the product of the factors added and that of the factors left out.
    interaction : float
        I: among the factors left out.
    """

    divergence: float
    isolated: float
    correlation: float
    interaction: float


class Remaining:
    """The factors left out, one piece after the other: what the bounds are made of."""

    def __init__(self) -> None:
        self.at: list[Floats] = []  # where, in (0, 1], the comonotone sum drops
        self.drop: list[Floats] = []  # by how much
        self.fall = 0.0  # E[X] − min X, summed over the factors
        self.count = 0
        self.exact = True
        self.forbidding = False

    def add(self, part: FeaturePart | TableGroup) -> None:
        """Take in one piece."""
        if isinstance(part, FeaturePart):
            self.count += part.theta.size
            self.exact &= bool(part.exact.all())
            best = np.where(part.theta > 0.0, part.mu, part.off)
            size = np.abs(part.theta)
            forbids = size == np.inf
            self.forbidding |= bool(forbids.any())
            on = part.mu > 0.0
            rows, log_p = part.tiny
            if rows.size:
                on[rows] = ~np.isneginf(log_p[:, 1])
            # A state that cannot be anyway may be forbidden for nothing.
            best = np.where(forbids & ~on, 2.0, best)
            self.at.append(best)
            self.drop.append(size)
            live = best < 2.0
            some = size[live]
            finite = some.size == 0 or float(some.max()) < np.inf
            self.fall += float((some * best[live]).sum()) if finite else np.inf
            return
        self.count += len(part.at)
        self.exact &= bool(part.exact.all())
        x, p = part.table, part.joint
        p = p / p.sum(axis=1, keepdims=True)
        never = x == -np.inf
        self.forbidding |= bool(never.any())
        possible = p > 0.0
        rows, log_p = part.tiny
        if rows.size:
            possible[rows] = log_p > -np.inf
        # Entries that are forbidden and cannot be anyway do not count.
        open_ = (never & possible).any(axis=1)
        gone = ~(possible & ~never).any(axis=1)
        # The bound falls by ∞ before its first step.
        self.at.append(np.zeros(np.count_nonzero(gone)))
        self.drop.append(np.full(np.count_nonzero(gone), np.inf))
        order = np.argsort(-x, axis=1, kind="stable")
        x, p = np.take_along_axis(x, order, axis=1), np.take_along_axis(p, order, axis=1)
        with np.errstate(invalid="ignore"):
            drop = x[:, :-1] - x[:, 1:]
        reach = np.cumsum(p, axis=1)[:, :-1]
        steps = (drop > 0.0) & ((x[:, 1:] > -np.inf) | open_[:, None])
        self.at.append(np.minimum(reach[steps], 1.0))
        self.drop.append(drop[steps])
        lowest = x.min(axis=1, where=x > -np.inf, initial=np.inf, keepdims=True)
        if open_.any():
            self.fall = np.inf
        else:
            self.fall += float((np.where(p > 0.0, x - lowest, 0.0) * p).sum())

    def bounds(self, slack: float) -> tuple[float, float, float]:
        """Return upper bounds on η, on RSM10's bound, and on E[X] − min X.

        `slack`: how wrong each probability may be.
        """
        if not self.count:
            return 0.0, 0.0, 0.0
        at = np.concatenate([*self.at, np.empty(0)])
        drop = np.concatenate([*self.drop, np.empty(0)])
        drop, at = drop[at < 2.0], at[at < 2.0]
        n = at.size
        grow = 1.0 + (n + 8.0) * _EPS
        with np.errstate(invalid="ignore"):
            missing = np.where(drop == np.inf, np.inf, drop * np.minimum(1.0, 1.0 - at + slack))
        eta = float(missing.sum()) * grow
        fall = (self.fall + slack * float(drop.sum())) * grow if n else 0.0
        if n == 0 or eta == np.inf:
            return eta, eta, fall
        order = np.argsort(at, kind="stable")
        # A step further right only raises the integral.
        right = np.minimum(at[order] + slack, 1.0)
        gone = np.concatenate([[0.0], np.cumsum(drop[order])]) * (1.0 - (n + 8.0) * _EPS)
        widths = np.diff(np.concatenate([[0.0], right, [1.0]]))
        total = float((widths * np.exp(-gone)).sum()) * grow
        c = min(0.0, math.log(total) + 8.0 * _EPS * (1.0 + abs(math.log(total))))
        return eta, min(eta, max(0.0, eta + c) + 4.0 * _EPS * eta), fall


def expectations(
    result: GraphResult, graph: FactorGraph, features: npt.NDArray[np.int64]
) -> Floats:
    """Return the probability that each feature of a graph fires."""
    return Beliefs(result).expectations(graph, features)


def bounds_of(result: GraphResult) -> Bounds:
    """Return the bounds of a result, against the factors of its graph that it left out."""
    model = result.graph
    left = np.ones(result.n_factors, dtype=np.bool_)
    left[result.factors] = False
    rest = np.flatnonzero(left)
    beliefs = Beliefs(result, thorough=True)
    remaining = Remaining()
    for part in beliefs.walk(model, rest):
        remaining.add(part)
    return finish(beliefs, remaining)


def finish(beliefs: Beliefs, remaining: Remaining) -> Bounds:
    """Return the bounds that follow from the factors left out."""
    spread, size = _spread(beliefs)
    slack = _EPS * (64.0 + 8.0 * size + 4.0 * beliefs.joints.entries)
    eta, divergence, fall = remaining.bounds(slack)
    rigorous = beliefs.exact and remaining.exact
    if (
        remaining.forbidding
        and divergence < np.inf
        and spread > _NARROW
        and not beliefs.joints.sure
    ):
        rigorous = False  # what has probability 0 may only have underflowed
    hidden = 0.0 if spread <= _NARROW else _HIDDEN
    low, high = _intervals(beliefs.flat, eta, divergence, fall, slack, hidden)
    for v, x in beliefs.result.evidence.items():
        if isinstance(x, int):
            start = int(beliefs.offset[v])
            row = slice(start, start + int(beliefs.cards[v]))
            low[row] = high[row] = 0.0
            low[start + x] = high[start + x] = 1.0
    if divergence == np.inf:  # together they may leave no distribution that bounds could hold for
        low[:], high[:] = 0.0, 1.0
    freeze((low, high))
    lower, upper = split(low, beliefs.cards), split(high, beliefs.cards)
    return Bounds(divergence, eta, lower, upper, rigorous)


def _spread(beliefs: Beliefs) -> tuple[float, float]:
    """Return how far log-weights can lie apart under what was used, and the sum of their sizes."""
    spread = float(np.log(beliefs.cards).sum()) if beliefs.cards.size else 0.0
    total = 0.0
    graph, result = beliefs.graph, beliefs.result
    tables = []
    for i in result.factors.tolist():
        factor = graph.factor(i)
        if isinstance(factor, Feature):
            tables.append(np.array([0.0, factor.weight]))
        elif isinstance(factor, Structured):
            tables.append(np.zeros(1))
        else:
            tables.append(factor.table([graph.cardinalities[v] for v in factor.scope]))
    tables += [x for x in result.evidence.values() if isinstance(x, np.ndarray)]
    for low, high in zip(*_ends(tables), strict=True):
        if low <= high:
            spread += high - low
            total += 1.0 + max(-low, high)
    return spread, total


def _ends(tables: list[Floats]) -> tuple[list[float], list[float]]:
    """Return the smallest and the largest number of each table above -inf; inf and -inf if none.

    Tables of one size go together: most graphs have thousands of small ones.
    """
    low, high = np.full(len(tables), np.inf), np.full(len(tables), -np.inf)
    sizes: dict[int, list[int]] = {}
    for i, table in enumerate(tables):
        sizes.setdefault(table.size, []).append(i)
    for size, at in sizes.items():
        step = max(1, _TOGETHER // size)
        for first in range(0, len(at), step):
            some = at[first : first + step]
            rows = np.concatenate([tables[i].reshape(-1) for i in some]).reshape(-1, size)
            low[some] = rows.min(axis=1, where=rows > -np.inf, initial=np.inf)
            high[some] = rows.max(axis=1)
    return low.tolist(), high.tolist()


def _intervals(
    mu: Floats, eta: float, divergence: float, fall: float, slack: float, hidden: float
) -> tuple[Floats, Floats]:
    """Return bounds on marginals of the whole graph, given those of a part."""
    high = np.minimum(1.0, mu * (1.0 + slack) + np.where(mu > 0.0, slack, hidden))
    low = np.maximum(0.0, mu * (1.0 - slack) - slack)
    above = np.minimum(1.0, 1.0 - low + _EPS)  # of the complement
    below = np.maximum(0.0, 1.0 - high)
    most = math.exp(min(eta, 700.0)) * (1.0 + 8.0 * _EPS * (1.0 + eta)) if eta < 700.0 else np.inf
    least = math.exp(-(divergence + fall)) * (1.0 - 1e-12) if divergence + fall < 700.0 else 0.0
    with np.errstate(invalid="ignore"):
        upper = np.where(high > 0.0, np.minimum(1.0, most * high), 0.0)
        lower = np.maximum(0.0, 1.0 - most * above * (1.0 + _EPS))
    lower = np.maximum(lower, least * low)
    upper = np.minimum(upper, (1.0 - least * below) * (1.0 + _EPS))
    if divergence < np.inf:
        d = divergence * (1.0 + 1e-12) + 1e-13
        # Both sides at once: in small graphs each round takes as long as its calls of numpy.
        ends = _furthest(np.concatenate([high, 1.0 - low]), d)
        upper = np.minimum(upper, ends[: high.size])
        lower = np.maximum(lower, 1.0 - ends[high.size :])
    lower = np.maximum(0.0, lower - 2.0 * _EPS)
    upper = np.where(high > 0.0, np.minimum(1.0, upper + 2.0 * _EPS), 0.0)
    return lower, upper


def _furthest(p: Floats, d: float) -> Floats:
    """Return at least the largest q >= p with kl(p ‖ q) <= d, by bisection."""
    inside, outside = p.copy(), np.ones_like(p)
    some, less, rest = p > 0.0, p < 1.0, 1.0 - p
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.log1p(-p)
        for _ in range(_ROUNDS):
            q = 0.5 * (inside + outside)
            first = np.where(some, p * np.log(p / q), 0.0)
            second = np.where(less, rest * (own - np.log1p(-q)), 0.0)
            near = first + second <= d
            inside = np.where(near, q, inside)
            outside = np.where(near, outside, q)
    return outside


def proxy_divergence(
    graph: FactorGraph, first: Iterable[int], factors: Iterable[int]
) -> ProxyTerms:
    r"""Take the divergence of a choice of factors apart (RSM10, Proposition 1), by enumeration.

    A diagnostic for small graphs: where `correlation` and `interaction` are small beside
    `isolated`, gains beside the first factors say what leaving factors out will cost.

    Parameters
    ----------
    graph : FactorGraph
        The full model F; at most 2**20 configurations.
    first : iterable of int
        The factors G under which gains are computed.
    factors : iterable of int
        The factors H that are kept, the first included.

    Returns
    -------
    ProxyTerms

    Raises
    ------
    ValueError
        When `first` is not part of `factors`, the graph is too large, or what is left out forbids
        what is kept: D is ∞ then, and has no terms.
    InfeasibleError
        When the graph has no possible configuration.

    Notes
    -----
    With N = H \\ G, R = F \\ H and expectations under p_G,

    .. math::

        D = \sum_{i \in R} g_i
          + \log \frac{E[\Psi_N \Psi_R]}{E[\Psi_N] E[\Psi_R]}
          - \frac{\mathrm{Cov}(\log \Psi_R, \Psi_N)}{E[\Psi_N]}
          + \log \frac{E[\Psi_R]}{\prod_{i \in R} E[\Psi_i]}.

    The third term stands as it must be; the paper misprints its denominator.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> for scope in ([0, 1], [0], [1]):
    ...     _ = graph.add_feature(scope, [1] * len(scope), 1.0)
    >>> terms = vs.relaxed.proxy_divergence(graph, [], [0])
    >>> [round(t, 4) for t in terms]
    [0.2338, 0.2402, -0.0064, 0.0]
    """
    if not isinstance(graph, FactorGraph):
        raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
    start = as_indices("first", first, graph.n_factors)
    kept = as_indices("factors", factors, graph.n_factors)
    if not np.isin(start, kept).all():
        raise ValueError("factors must contain those of first")
    if math.prod(graph.cardinalities) > _CONFIGURATIONS:
        raise ValueError(
            f"graph has {math.prod(graph.cardinalities):.3g} configurations; enumeration is for "
            f"at most {_CONFIGURATIONS}"
        )
    shape = graph.cardinalities
    states = np.indices(shape, dtype=np.int64).reshape(len(shape), -1).T
    scores = [
        graph.factor(i).checked_log_potential(states[:, list(graph.factor(i).scope)])
        for i in range(graph.n_factors)
    ]
    zero = np.zeros(len(states))
    left = np.ones(graph.n_factors, dtype=np.bool_)
    left[kept] = False
    rest = np.flatnonzero(left).tolist()
    base = sum((scores[i] for i in start.tolist()), zero)
    for v, x in graph.evidence.items():
        base = base + (np.where(states[:, v] == x, 0.0, -np.inf) if isinstance(x, int)
                       else x[states[:, v]])  # fmt: skip
    added = sum((scores[i] for i in kept.tolist() if i not in set(start.tolist())), zero)
    omitted = sum((scores[i] for i in rest), zero)
    live = base > -np.inf
    if not (base + added + omitted > -np.inf).any():
        raise impossible(graph, bool(graph.evidence))
    base, added, omitted = base[live], added[live], omitted[live]
    p = np.exp(base - base.max())
    p /= p.sum()

    def log_mean(x: Floats) -> float:
        top = float(x.max())
        return top + float(np.log((p * np.exp(x - top)).sum())) if top > -np.inf else -np.inf

    def mean(q: Floats, x: Floats) -> float:
        return float((q[q > 0.0] * x[q > 0.0]).sum())

    log_n, log_r, log_nr = log_mean(added), log_mean(omitted), log_mean(added + omitted)
    h = p * np.exp(added - log_n)
    if mean(h, omitted) == -np.inf:
        raise ValueError(
            "factors leaves out some that forbid what the others allow: the divergence is infinite "
            "and has no terms; add those with entries of -inf"
        )
    log_each = [log_mean(scores[i][live]) for i in rest]
    isolated = sum(e - mean(p, scores[i][live]) for i, e in zip(rest, log_each, strict=True))
    divergence = log_nr - log_n - mean(h, omitted)
    correlation = log_nr - log_n - log_r - (mean(h, omitted) - mean(p, omitted))
    interaction = log_r - sum(log_each)
    return ProxyTerms(divergence, float(isolated), correlation, interaction)
