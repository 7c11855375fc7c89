"""Bounds on log Z, on events and on marginals: proofs, whatever the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from bound_models import pairwise_model
from campaign.graphs import draw
from campaign.harness import Case, family
from campaign.oracle import Joint, check_between
from graph_oracle import graph_of

import valuesparse as vs
from valuesparse.bounds._log_z import METHODS


@family(share=0.4, seconds=3)
def log_z_bounds(case: Case) -> None:
    """Each method of `vs.bounds.log_z`, alone."""
    if case.chance(0.5):
        cards, factors = pairwise_model(case.rng, 8, float(case.choice(0.0, 0.0, 0.1)), "mixed")
        evidence: dict[int, Any] = {}
    else:
        cards, factors, evidence = draw(case, 6)
    joint = Joint.of(cards, factors, evidence)
    graph = graph_of(cards, factors)
    method = case.choice(*METHODS)
    options = {"iterations": int(case.choice(0, 4, 20)), "i_bound": int(case.choice(1, 2, 10))}
    try:
        b = vs.bounds.log_z(graph, evidence=evidence, methods=[method], **options)
    except vs.InfeasibleError:
        case.true("no configuration", not joint.feasible, method)
        case.infeasible += 1
        return
    case.true("numbers", not np.isnan([b.lower, b.upper]).any(), b)
    case.true("in order", b.lower <= b.upper, b)
    if joint.feasible:
        check_between(case, method, joint, b.lower, b.upper)


@family(share=0.2, seconds=2)
def preconditioners(case: Case) -> None:
    """Bounds of RL05 on log Z, on events, and on every marginal."""
    cards, factors = pairwise_model(case.rng, 6, 0.0, str(case.choice("binary", "equal", "mixed")))
    joint = Joint.of(cards, factors, {})
    graph = graph_of(cards, factors)
    kind = case.choice("spanning_tree", "sparsifier", "support_tree")
    if kind == "support_tree" and len(set(cards)) > 1:
        kind = "spanning_tree"
    b = vs.bounds.preconditioner(graph, kind, width=int(case.choice(1, 2, 6)))
    check_between(case, kind, joint, b.lower, b.upper)
    p = joint.probabilities()
    slack = 16 * np.finfo(np.longdouble).eps * (joint.size + 1)
    for _ in range(2):
        some = case.rng.permutation(len(cards))[: case.rng.integers(1, 4)].tolist()
        states = {v: int(case.rng.integers(cards[v])) for v in some}
        at = tuple(states.get(v, slice(None)) for v in range(len(cards)))
        # A sum of all may be above one by rounding.
        truth = min(p[at].sum(), np.longdouble(1))
        low, high = b.event(states)
        case.true("event", low <= truth + slack and truth - slack <= high, low, truth, high)
    if case.chance(0.3):
        lower, upper = b.marginals()
        for v, m in enumerate(joint.marginals()):
            case.true("marginals", (lower[v] <= m + slack).all() and (upper[v] >= m - slack).all())
