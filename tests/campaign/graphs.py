"""Graphs: exact inference, trees asked again and again, conditioned ones, islands."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from campaign.harness import Case, family
from campaign.oracle import (
    Joint,
    check_best,
    check_between,
    check_given,
    check_log_z,
    check_marginals,
    check_samples,
    tolerance,
)
from graph_oracle import Factors, graph_of, log_joint, marginal, random_model

import valuesparse as vs

Model = tuple[list[int], Factors, dict[int, Any]]


def draw(case: Case, most: int = 7) -> Model:
    """Return a graph of up to `most` variables, at most some thousand configurations."""
    scale = float(case.choice(0.1, 1.0, 2.0, 2.0, 30.0, 1e3, 1e5))
    return random_model(case.rng, most, scale, 1500)


def impossible(case: Case, joint: Joint, *asks: Callable[[], Any]) -> bool:
    """Check that a graph without configurations is refused; False where there is one."""
    if joint.feasible:
        return False
    case.infeasible += 1
    for ask in asks:
        try:
            found = ask()
        except vs.InfeasibleError:
            case.checks += 1
        else:
            case.true("a graph without configurations is refused", False, found)
    return True


def check_exact(case: Case, joint: Joint, r: Any, *, joints: bool = True) -> None:
    """Check the marginals of a result, its log Z and what bounds that, joints and entropy."""
    check_log_z(case, joint, r.log_z)
    check_between(case, "log_z_lower, log_z_upper", joint, r.log_z_lower, r.log_z_upper)
    check_marginals(case, joint, r.marginals)
    tol = tolerance(joint, 1e-10)
    if tol is None:
        return
    if joints and case.chance(0.5):
        variables = case.rng.permutation(joint.full.ndim)[: case.rng.integers(1, 4)].tolist()
        want = marginal(joint.probabilities(), variables).astype(float)
        case.close(f"joint of {variables}", r.joint(variables), want, tol)
    if case.chance(0.5):
        case.close("entropy", r.entropy(), float(joint.entropy()), 30 * tol * joint.full.size)


@family(share=14, seconds=2)
def graphs(case: Case) -> None:
    """The answers of `infer`, `decode`, `sample` and `log_prob`, with evidence of both kinds."""
    cards, factors, evidence = draw(case)
    joint = Joint.of(cards, factors, evidence)
    graph = graph_of(cards, factors)
    if case.chance(0.2):
        graph.set_evidence(evidence)
        graph, evidence = case.choice(copy.deepcopy, _pickled, lambda g: g)(graph), None
    ask = {"evidence": evidence}
    if impossible(case, joint, lambda: vs.infer(graph, **ask), lambda: vs.decode(graph, **ask)):
        return
    method = case.choice(None, None, "junction_tree")
    r = vs.infer(graph, threads=int(case.choice(1, 1, 3)), method=method or "auto", **ask)
    case.true("exact", r.exact and r.converged, r.method)
    check_exact(case, joint, r)
    d = vs.decode(graph, **ask)
    check_best(case, joint, d.states, d.score)
    x = vs.sample(graph, 3, case.rng, **ask)
    check_samples(case, joint, x)
    score = joint.full[tuple(x[0])] - joint.log_z
    slack = 1e-10 * max(1.0, abs(float(joint.log_z))) + 2 * joint.delta()
    case.close("log_prob", vs.log_prob(graph, x[0], **ask), float(score), slack)


def _pickled(graph: vs.FactorGraph) -> vs.FactorGraph:
    return pickle.loads(pickle.dumps(graph))


def more_evidence(case: Case, cards: list[int], known: dict[int, Any]) -> dict[int, Any]:
    """Return evidence of both kinds that contradicts no state that is known."""
    found: dict[int, Any] = {}
    for v, k in enumerate(cards):
        dice = case.rng.random()
        if dice < 0.15 and not isinstance(known.get(v), int):
            found[v] = int(case.rng.integers(k))
        elif dice < 0.25:
            found[v] = case.rng.normal(size=k)
    return found


@family(share=8, seconds=2)
def junction_trees(case: Case) -> None:
    """One tree, asked again in any order, on top of what it was built with, and pickled."""
    cards, factors, base = draw(case)
    if not Joint.of(cards, factors, base).feasible:
        return graphs(case)
    jt = vs.JunctionTree(graph_of(cards, factors), evidence=base)
    for _ in range(int(case.rng.integers(2, 6))):
        if case.chance(0.1):
            jt = pickle.loads(pickle.dumps(jt))
        more = more_evidence(case, cards, base)
        full = log_joint(cards, [], more, np.longdouble)
        joint = Joint.of(cards, factors, base)
        size = joint.size + sum(float(np.abs(x).max()) for x in more.values() if np.ndim(x))
        joint = Joint(joint.full + full, size)

        def ask(jt: vs.JunctionTree = jt, more: dict[int, Any] = more) -> Any:
            return jt.infer(more, threads=int(case.choice(1, 2, 8)))

        def decode(jt: vs.JunctionTree = jt, more: dict[int, Any] = more) -> Any:
            return jt.decode(more)

        if impossible(case, joint, ask, decode):
            continue
        dice = case.rng.random()
        if dice < 0.7:
            check_exact(case, joint, ask())
        elif dice < 0.85:
            d = decode()
            check_best(case, joint, d.states, d.score)
        else:
            check_samples(case, joint, jt.sample(2, case.rng, evidence=more))
    return None


@family(share=0.6, seconds=2)
def conditioned_trees(case: Case) -> None:
    """Trees that do not fit in memory: conditioned on variables, or refused."""
    cards, factors, evidence = draw(case, 9)
    joint = Joint.of(cards, factors, evidence)
    if not joint.feasible:
        return
    graph = graph_of(cards, factors)
    whole = vs.JunctionTree(graph, evidence=evidence).memory
    limit = int(case.rng.uniform(0.1, 0.9) * whole)
    try:
        r = vs.infer(graph, method="exact", evidence=evidence, memory_limit=limit)
    except vs.MemoryLimitError as error:
        case.refused += 1
        case.true("said why", "memory_limit" in str(error), error)
        return
    case.true("exact", r.exact, r.method)
    check_log_z(case, joint, r.log_z)
    check_marginals(case, joint, r.marginals)
    try:
        d = vs.decode(graph, evidence=evidence, memory_limit=limit)
        check_best(case, joint, d.states, d.score)
        x = vs.sample(graph, 3, case.rng, evidence=evidence, memory_limit=limit)
        check_samples(case, joint, x)
    except vs.MemoryLimitError:
        case.refused += 1


@family(share=2, seconds=2)
def graph_islands(case: Case) -> None:
    """Answers given the islands of a graph."""
    cards, factors, evidence = draw(case)
    joint = Joint.of(cards, factors, evidence)
    graph = graph_of(cards, factors)
    zeta = float(case.choice(0.0, 0.3, 0.6, 0.8, 0.95, 0.999))
    ask = {"zeta": zeta, "revisit": case.choice(None, None, 0, 1), "evidence": evidence}
    if impossible(case, joint, lambda: vs.infer(graph, **ask)):
        return
    r = vs.infer(graph, **ask)
    held = {v: int(x) for v, x in enumerate(r.islands) if x >= 0}
    hard = {v for v, x in evidence.items() if isinstance(x, int)}
    case.true("evidence is no island", not set(held) & hard, held)
    check_log_z(case, joint.given(held), r.log_z)
    check_given(case, joint, r.islands, r.marginals, 1e-9)
    for v, x in held.items():
        found = r.marginals[v]
        if r.converged:
            case.true("islands are sure", found[x] == found.max() >= zeta, found, zeta)
