"""Factors left out: divergences and intervals that hold, and gains."""

from __future__ import annotations

from typing import Any

import numpy as np
from campaign.harness import Case, family
from campaign.oracle import Joint, check_marginals
from relaxed_oracle import divergence, random_graph, tables

import valuesparse as vs


def joint_of(graph: vs.FactorGraph, factors: Any = None) -> Joint:
    """Return the joint of some factors of a graph, with its evidence."""
    every = tables(graph)
    some = every if factors is None else [every[int(i)] for i in factors]
    return Joint.of(list(graph.cardinalities), some, graph.evidence)


def larger(case: Case, graph: vs.FactorGraph) -> vs.FactorGraph:
    """Return the graph with most of its scores so many times as large."""
    scale = 10.0 ** float(case.choice(1, 2, 3, 4, 8, 12, 15))
    other = vs.FactorGraph(graph.cardinalities, evidence=graph.evidence)
    for scope, t in tables(graph):
        other.add(scope, t * scale if case.chance(0.7) else t)
    return other


@family(share=1.5, seconds=2)
def left_out(case: Case) -> None:
    """Rigorous results of `infer(factors=)`, `relax` and `select` against the whole graph."""
    graph, kept = random_graph(case.rng, zeros=case.chance(0.2))
    if case.chance(0.4):
        graph = larger(case, graph)
    whole = joint_of(graph)
    if not whole.feasible:
        return
    dice = case.choice("factors", "relax", "select")
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
    check_marginals(case, part, r.marginals, 1e-9)
    case.true("numbers", not np.isnan(r.divergence_bound))
    if not r.rigorous:
        return
    truth = divergence(part.full, whole.full)
    slack = 1e-12 + 4.0 * whole.delta()
    case.true("divergence", r.divergence_bound >= truth - slack, r.divergence_bound, truth)
    for v, p in enumerate(whole.marginals()):
        low, high = r.marginal_lower[v], r.marginal_upper[v]
        case.true("intervals are numbers", not np.isnan([low, high]).any(), low, high)
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
