"""Structured hard factors: in trees, in tables, in messages, and in what these prove."""

from __future__ import annotations

import numpy as np
from campaign.graphs import check_exact, impossible
from campaign.harness import Case, family
from campaign.loopy import schedules
from campaign.oracle import Joint, check_best, check_between, check_marginals
from checks import method_of
from graph_oracle import Factors
from structured_oracle import ALLOWED, configurations, make

import valuesparse as vs
from valuesparse.factors import ProjectiveTree, Structured, Tree

KINDS = [*sorted(ALLOWED), "Tree", "ProjectiveTree"]


def hard(case: Case, scope: list[int]) -> Structured:
    """Return a factor of any kind over these variables."""
    kind = case.choice(*KINDS)
    if "Tree" in kind and len(scope) <= 4:
        arcs = [(0, 1), (0, 2), (1, 2), (2, 1)] if len(scope) != 2 else [(0, 1), (1, 2)]
        of = Tree if kind == "Tree" else ProjectiveTree
        return of(arcs[: len(scope)], scope, single_root=case.chance(0.5))
    if (len(scope) < 2 and kind in ("Imply", "OrOut", "XorOut")) or "Tree" in kind:
        kind = "Xor"
    negated = [i for i in range(len(scope)) if case.chance(0.3)]
    return make(kind, scope, negated, budget=int(case.rng.integers(0, len(scope) + 1)))


def allowed(factor: Structured) -> np.ndarray:
    """Return the table of a factor, by what its kind allows."""
    table = np.full([2] * len(factor.scope), -np.inf)
    table[tuple(configurations(factor).T)] = 0.0
    return table


def draw(case: Case, loops: bool) -> tuple[vs.FactorGraph, Joint]:
    """Return a graph of binary variables, with cycles or without, and its configurations."""
    rng = case.rng
    n = int(rng.integers(1, 9))
    scale, zeros = float(case.choice(0.1, 1.0, 3.0, 30.0, 1e3)), float(case.choice(0.0, 0.0, 0.1))
    graph = vs.FactorGraph([2] * n)
    factors: Factors = []
    met = {v: {v} for v in range(n)}  # the variables that paths lead to

    def closes(scope: list[int]) -> bool:
        return sum(any(u in met[v] for u in scope if u != v) for v in scope) > 0

    for _ in range(int(rng.integers(0, n + 2))):
        scope = rng.permutation(n)[: rng.integers(1, min(n, 5) + 1)].tolist()
        if len(scope) > 1 and not loops and closes(scope):
            continue
        together = set().union(*(met[v] for v in scope))
        for v in together:
            met[v] = together
        if case.chance(0.6):
            factor = hard(case, scope)
            graph.add(factor)
            factors.append((factor.scope, allowed(factor)))
        else:
            scope = scope[:3]
            table = rng.normal(0.0, scale, [2] * len(scope))
            table[rng.random(table.shape) < zeros] = -np.inf
            graph.add(scope, table)
            factors.append((tuple(scope), table))
    for v in range(n):
        table = rng.normal(0.0, scale, 2)
        graph.add([v], table)
        factors.append(((v,), table))
    return graph, Joint.of([2] * n, factors, {})


@family(share=4, seconds=2)
def structured_trees(case: Case) -> None:
    """Without cycles "auto" is exact, by messages; tables say the same."""
    graph, joint = draw(case, loops=False)
    if impossible(case, joint, lambda: vs.infer(graph), lambda: vs.decode(graph)):
        return
    method = case.choice("auto", "auto", "junction_tree")
    r = vs.infer(graph, method=method)
    case.true("exact", r.exact and r.converged, r.method)
    # Messages have joints within a factor only.
    check_exact(case, joint, r, joints=method == "junction_tree")
    d = vs.decode(graph)
    check_best(case, joint, d.states, d.score)


@family(share=4, seconds=2)
def structured_loops(case: Case) -> None:
    """With cycles a junction tree is exact; messages are numbers, and what they prove holds."""
    graph, joint = draw(case, loops=True)
    asks = (
        lambda: vs.JunctionTree(graph).infer(),
        lambda: vs.infer(graph),
        lambda: vs.decode(graph),
    )
    if impossible(case, joint, *asks):
        return
    check_exact(case, joint, asks[0]())
    d = vs.decode(graph)
    check_best(case, joint, d.states, d.score)
    method = case.choice("bp", "trw", "mean_field", "structured_mean_field")
    options = {"max_iterations": int(case.choice(1, 10, 100))}
    if method in ("bp", "trw"):
        options |= {"schedule": case.choice(*schedules()), "damping": case.choice(0.0, 0.5)}
    asked = method_of(method, **options)
    try:
        r = vs.infer(graph, method=asked)
    except vs.InfeasibleError:  # on loops, messages may leave a variable nothing
        case.true("messages may", method in ("bp", "trw"), method)
        case.refused += 1
        return
    except ValueError as error:  # a mean field needs forests that hold the hard factors
        named = any(kind in str(error) for kind in KINDS)
        case.true("a mean field may", method.endswith("mean_field") and named, error)
        case.refused += 1
        return
    case.true("numbers", all(np.isfinite(p).all() for p in r.marginals) and not np.isnan(r.log_z))
    for v, p in enumerate(r.marginals):
        case.close(f"marginal {v}: sum", p.sum(), 1.0, 1e-9)
    check_between(case, method, joint, r.log_z_lower, r.log_z_upper)
    if r.exact:
        check_marginals(case, joint, r.marginals, 1e-9)
    again = vs.infer(graph, threads=int(case.choice(2, 3, 8)), method=asked)
    same = all((p == q).all() for p, q in zip(r.marginals, again.marginals, strict=True))
    case.true("bits of threads", same)
