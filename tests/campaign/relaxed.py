"""Factors left out: divergences and intervals that hold, and gains."""

from __future__ import annotations

from typing import Any

import numpy as np
from campaign.harness import EPS, Case, family
from campaign.oracle import Joint, check_marginals, largest
from relaxed_oracle import random_graph, tables

import valuesparse as vs
from valuesparse.factors import Feature


def joint_of(graph: vs.FactorGraph, factors: Any = None) -> Joint:
    """Return the joint of some factors of a graph, with its evidence."""
    every = tables(graph)
    some = every if factors is None else [every[int(i)] for i in factors]
    return Joint.of(list(graph.cardinalities), some, graph.evidence)


def divergence(part: Joint, whole: Joint) -> Any:
    """Return the divergence of the whole from a part, in the long double of both."""
    p = part.weight / part.weight.sum()
    live = p > 0
    gap = (part.full[live] - whole.full[live]) - (part.log_z - whole.log_z)
    return (p[live] * gap).sum()


def larger(case: Case, graph: vs.FactorGraph, most: int = 15) -> vs.FactorGraph:
    """Return the graph with most of its scores multiplied."""
    scale = 10.0 ** float(case.choice(*(e for e in (1, 2, 3, 4, 8, 12, 15) if e <= most)))
    other = vs.FactorGraph(graph.cardinalities, evidence=graph.evidence)
    for factor, (scope, t) in zip(graph.factors, tables(graph), strict=True):
        by = scale if case.chance(0.7) else 1.0
        if isinstance(factor, Feature):
            other.add(Feature(scope, factor.fires, factor.weight * by))
        else:
            other.add(scope, t * by)
    return other


@family(share=1.5, seconds=2)
def left_out(case: Case) -> None:
    """Rigorous results of `infer(factors=)`, `relax` and `select` against the whole graph."""
    graph, kept = random_graph(case.rng, zeros=case.chance(0.2))
    if case.chance(0.4):
        graph = larger(case, graph)
    whole = joint_of(graph)
    dice = case.choice("factors", "relax", "select")
    try:
        if dice == "factors":
            r = vs.infer(graph, factors=kept)
        elif dice == "relax":
            r = vs.relax(graph, threshold=float(case.choice(1e-4, 0.01, 0.5)))
        else:
            r = vs.select(graph, min_size=float(case.choice(1e-3, 0.05, 0.5)))
    except vs.InfeasibleError:
        used = joint_of(graph, kept) if dice == "factors" else whole
        case.true("only what forbids", not used.feasible)
        return
    part = joint_of(graph, r.factors)
    check_marginals(case, part, r.marginals, 1e-9)
    case.true("numbers", not np.isnan(r.divergence_bound))
    if not whole.feasible:
        case.infeasible += 1
        case.true("all is possible", r.divergence_bound == np.inf, r.divergence_bound)
        for v in range(len(r.marginal_lower)):
            low, high = r.marginal_lower[v], r.marginal_upper[v]
            case.true(f"no interval of {v}", (low == 0).all() and (high == 1).all(), low, high)
        return
    if not r.rigorous:
        return
    truth = divergence(part, whole)
    slack = 1e-12 + 4.0 * whole.delta(float(np.finfo(np.longdouble).eps))
    case.true("divergence", r.divergence_bound >= truth - slack, r.divergence_bound, truth)
    for v, p in enumerate(whole.marginals()):
        low, high = r.marginal_lower[v], r.marginal_upper[v]
        case.true("intervals are numbers", not np.isnan([low, high]).any(), low, high)
        inside = (low <= p + slack).all() and (high >= p - slack).all()
        case.true(f"interval of {v}", inside, low, p, high)


def gain_of(base: Joint, feature: Feature) -> Any:
    """Return the gain of a feature, to many digits however sure it is to fire, or not to."""
    p = np.moveaxis(base.probabilities(), feature.scope, range(len(feature.scope)))
    fires = feature.table(p.shape[: len(feature.scope)]) != 0.0
    on, off, theta = p[fires].sum(), p[~fires].sum(), np.longdouble(feature.weight)
    if on <= off:
        return np.log1p(on * np.expm1(theta)) - theta * on
    return np.log1p(off * np.expm1(-theta)) + theta * off


@family(share=2, seconds=1)
def gains(case: Case) -> None:
    """The gain of a factor that was left out is the divergence that adding it brings.

    Where the joint of its variables is known: they are one, or within a factor that was used.
    """
    graph, kept = random_graph(case.rng, zeros=False)
    if case.chance(0.5):
        graph = larger(case, graph, 2)
    used = [set(graph.factors[i].scope) for i in kept]
    rest = []
    for j, factor in enumerate(graph.factors):
        scope = set(factor.scope)
        if j not in kept and (len(scope) == 1 or any(scope <= u for u in used)):
            rest.append(j)
    if not rest:
        return
    base = joint_of(graph, kept)
    found = vs.gain(graph, rest, vs.infer(graph, factors=kept))
    for j, got in zip(rest, found, strict=True):
        factor = graph.factors[j]
        size = base.size + largest(tables(graph)[j][1])
        if isinstance(factor, Feature):
            # Second differences of small weights: what is left of the oracle's own digits.
            want = float(gain_of(base, factor)) if factor.weight else 0.0
            tol = want * (1e-9 + 64.0 * EPS * size) + 1e-300
        else:
            want = divergence(base, joint_of(graph, [*kept.tolist(), j]))
            tol = 1e-9 * want + 1e-13 * (1.0 + size)
        case.close(f"gain of {j}", got, want, tol)
