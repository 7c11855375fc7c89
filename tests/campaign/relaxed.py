"""Factors left out: divergences and intervals that hold, and gains."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from campaign.harness import Case, family
from campaign.oracle import Joint, largest
from relaxed_oracle import divergence, random_graph, scores, tables

import valuesparse as vs


def joint_of(graph: vs.FactorGraph, factors: Any = None) -> Joint:
    """Return the joint of some factors of a graph, with its evidence."""
    every = tables(graph)
    some = every if factors is None else [every[int(i)] for i in factors]
    soft = [np.asarray(x) for x in graph.evidence.values() if np.ndim(x)]
    size = sum(largest(t) for t in [*(t for _, t in some), *soft])
    return (
        Joint.of(list(graph.cardinalities), some, graph.evidence)
        if size
        else Joint(scores(graph, factors).astype(np.longdouble), 0.0)
    )


@family(share=1.5, seconds=2)
def left_out(case: Case) -> None:
    """Rigorous results of `infer(factors=)`, `relax` and `select` against the whole graph."""
    graph, kept = random_graph(case.rng, zeros=case.chance(0.2))
    whole = joint_of(graph)
    if not whole.feasible:
        return
    dice = case.choice("factors", "relax", "select")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            if dice == "factors":
                r = vs.infer(graph, factors=kept)
            elif dice == "relax":
                r = vs.relax(graph, threshold=float(case.choice(1e-4, 0.01, 0.5)))
            else:
                r = vs.select(graph, min_size=float(case.choice(1e-3, 0.05, 0.5)))
        except vs.InfeasibleError:
            case.true("only what forbids", not joint_of(graph, kept).feasible)
            return
    part = joint_of(graph, r.factors)
    for v, p in enumerate(part.marginals()):
        case.close(f"marginal {v} of the part", r.marginals[v], p.astype(float), 1e-9)
    case.true("numbers", not np.isnan(r.divergence_bound))
    if not r.rigorous:
        return
    truth = divergence(part.full, whole.full)
    slack = 1e-12 * (1.0 + whole.size)
    case.true("divergence", r.divergence_bound >= truth - slack, r.divergence_bound, truth)
    for v, p in enumerate(whole.marginals()):
        low, high = r.marginal_lower[v], r.marginal_upper[v]
        inside = (low <= p + slack).all() and (high >= p - slack).all()
        case.true(f"interval of {v}", inside, low, p, high)


@family(share=2, seconds=1)
def gains(case: Case) -> None:
    """The gain of a factor that was left out is the divergence that adding it brings.

    Where the joint of its variables is known: they are one, or within a factor that was used.
    """
    graph, kept = random_graph(case.rng, zeros=False)
    rest = np.setdiff1d(np.arange(graph.n_factors), kept)
    used = [set(graph.factors[i].scope) for i in kept]
    scopes = {j: set(graph.factors[j].scope) for j in rest.tolist()}
    near = [j for j, s in scopes.items() if len(s) == 1 or any(s <= u for u in used)]
    rest = np.array(near, dtype=np.int64)
    if not rest.size:
        return
    base = joint_of(graph, kept)
    found = vs.gain(graph, rest.tolist(), vs.infer(graph, factors=kept))
    for j, got in zip(rest.tolist(), found, strict=True):
        one = joint_of(graph, [*kept.tolist(), j])
        want = divergence(base.full, one.full)
        case.close(f"gain of {j}", got, want, 1e-9 * want + 1e-13 * (1.0 + one.size))
