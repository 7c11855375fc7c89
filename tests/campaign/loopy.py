"""Loopy inference: exact without cycles, bounds with them, and what the messages prove."""

from __future__ import annotations

from typing import Any

import numpy as np
from campaign.graphs import draw, impossible
from campaign.harness import EPS, Case, family
from campaign.oracle import Joint, check_best, check_between, check_marginals, tolerance
from checks import method_of
from graph_oracle import Factors, graph_of

import valuesparse as vs
from valuesparse.inference import trw_dual_bound


def forest(case: Case) -> tuple[list[int], Factors]:
    """Return a graph whose factors form no cycle: each meets what is there in one variable."""
    rng = case.rng
    n = int(rng.integers(1, 7))
    cards = [int(k) for k in rng.integers(1, 5, n)]
    scale, zeros = float(case.choice(0.1, 1.0, 3.0, 30.0, 1e3)), float(case.choice(0.0, 0.0, 0.2))
    factors: Factors = []

    def add(scope: list[int]) -> None:
        table = rng.normal(0.0, scale, [cards[v] for v in scope])
        factors.append((tuple(scope), np.where(rng.random(table.shape) < zeros, -np.inf, table)))

    done = 0
    while done < n:
        size = int(rng.integers(1, 3))
        new = list(range(done, min(n, done + size)))
        if done and case.chance(0.85):
            new = [int(rng.integers(done)), *new]
        add([new[i] for i in rng.permutation(len(new))])
        done += min(n, done + size) - done
    for v in range(n):
        if case.chance(0.6):
            add([v])
    return cards, factors


def schedules() -> tuple[str, ...]:
    """Return the schedules that this build has."""
    from valuesparse.inference._methods import SCHEDULES as known

    return tuple(known)


@family(share=6, seconds=2)
def loopy_on_trees(case: Case) -> None:
    """Belief propagation and tree-reweighted messages are exact without cycles."""
    cards, factors = forest(case)
    joint = Joint.of(cards, factors, {})
    graph = graph_of(cards, factors)
    method = case.choice("bp", "bp", "trw")
    order, damping = case.choice(*schedules()), case.choice(0.0, 0.0, 0.3)
    asked = method_of(method, schedule=order, damping=damping, max_iterations=1000, tolerance=1e-13)
    if impossible(case, joint, lambda: vs.infer(graph, method=asked)):
        return
    r = vs.infer(graph, method=asked)
    case.true("numbers", all(np.isfinite(p).all() for p in r.marginals) and np.isfinite(r.log_z))
    if r.converged:
        check_marginals(case, joint, r.marginals, 1e-9)
        tol = 1e-9 * max(1.0, abs(float(joint.log_z))) + joint.delta()
        case.close("log_z", r.log_z, float(joint.log_z), tol)
    if case.chance(0.2):
        again = vs.infer(graph, threads=int(case.choice(2, 3, 8)), method=asked)
        same = all((p == q).all() for p, q in zip(r.marginals, again.marginals, strict=True))
        case.true("bits of threads", same and again.log_z == r.log_z)


@family(share=4, seconds=2)
def loopy_bounds(case: Case) -> None:
    """Mean fields are below log Z, converged tree-reweighted messages above; all are numbers."""
    cards, factors, evidence = draw(case, 6)
    joint = Joint.of(cards, factors, evidence)
    if not joint.feasible:
        return
    graph = graph_of(cards, factors)
    method = case.choice("bp", "trw", "mean_field", "structured_mean_field")
    options: dict[str, Any] = {"max_iterations": int(case.choice(1, 10, 100))}
    if method in ("bp", "trw"):
        options |= {"schedule": case.choice(*schedules()), "damping": case.choice(0.0, 0.5)}
    asked = method_of(method, **options)
    try:
        r = vs.infer(graph, method=asked, evidence=evidence)
    except vs.InfeasibleError:  # on loops, messages may leave a variable nothing
        case.true("messages may", method in ("bp", "trw"), method)
        case.refused += 1
        return
    case.true("numbers", all(np.isfinite(p).all() for p in r.marginals) and not np.isnan(r.log_z))
    for v, p in enumerate(r.marginals):
        case.close(f"marginal {v}: sum", p.sum(), 1.0, 1e-9)
    check_between(case, method, joint, r.log_z_lower, r.log_z_upper)
    if method.endswith("mean_field"):
        check_between(case, method, joint, float(r.log_z), np.inf)
    if method == "trw" and r.converged:
        slack = 1e-4 * (1.0 + abs(float(joint.log_z))) + joint.delta()
        check_between(case, "trw", joint, -np.inf, float(r.log_z) + slack)
    if case.chance(0.2):
        workers = int(case.choice(2, 3, 8))
        again = vs.infer(graph, threads=workers, method=asked, evidence=evidence)
        same = all((p == q).all() for p, q in zip(r.marginals, again.marginals, strict=True))
        case.true("bits of threads", same)


@family(share=2, seconds=1)
def trw_dual(case: Case) -> None:
    """The dual bound, however far messages have come."""
    cards, factors, evidence = draw(case, 6)
    joint = Joint.of(cards, factors, evidence)
    graph = graph_of(cards, factors)
    options = {"max_iterations": int(case.choice(1, 5, 50)), "optimise": int(case.choice(0, 0, 3))}
    try:
        method = vs.TRW(seed=int(case.rng.integers(9)), **options)
        bound = trw_dual_bound(graph, evidence=evidence, method=method)
    except vs.InfeasibleError:
        case.true("no configuration", not joint.feasible)
        case.infeasible += 1
        return
    case.true("a number", not np.isnan(bound.upper), bound.upper)
    if joint.feasible:
        check_between(case, "trw_dual_bound", joint, -np.inf, bound.upper)
        case.close("weights", sum(w for w, _ in bound.trees), 1.0, 64 * EPS)


@family(share=3, seconds=1)
def max_product(case: Case) -> None:
    """Configurations of max-product messages have the score that is said; `upper` holds."""
    loops = case.chance(0.5)
    cards, factors, evidence = draw(case, 6) if loops else (*forest(case), {})
    joint = Joint.of(cards, factors, evidence)
    if not joint.feasible:
        return
    graph = graph_of(cards, factors)
    method = case.choice("bp", "trw")
    try:
        d = vs.decode(graph, method=method, evidence=evidence)
    except vs.InfeasibleError:
        case.true("only where messages go round", loops)
        case.refused += 1
        return
    found = joint.full[tuple(d.states)]
    case.close("score", d.score, float(found), joint.delta())
    if d.upper is not None:
        case.true("upper", d.upper >= joint.top - np.abs(joint.top) * EPS / 64, d.upper, joint.top)
    if not loops and method == "bp" and tolerance(joint, 0.0) is not None:
        check_best(case, joint, d.states, d.score)
