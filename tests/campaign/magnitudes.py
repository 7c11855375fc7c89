"""Scores from 1e-300 to 1e290: answered rightly, or refused by name when the model is built."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from campaign import chains as chain_family
from campaign import trees as tree_family
from campaign.harness import EPS, Case, family
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
from checks import method_of
from graph_oracle import graph_of, marginal
from oracles import Arrays, edge_slices_of, sequences, slices_of
from tree_oracles import Forest

import valuesparse as vs

_REFUSED = re.compile(r"(sum to|must lie between).*to forbid, use -inf")


def entries(case: Case, scale: float, shape: Any, zeros: float) -> np.ndarray:
    """Return scores of one magnitude, or of none: -S, 0, S, and now and then something else."""
    rng = case.rng
    values = rng.choice([0.0, 1.0, -1.0, 10.0, -10.0], shape, p=[0.4, 0.25, 0.25, 0.05, 0.05])
    if case.chance(0.4):
        values = rng.normal(size=shape)
    table = values * scale
    if case.chance(0.3):  # some of ordinary size among them
        table = np.where(rng.random(shape) < 0.3, rng.normal(size=shape), table)
    return np.where(rng.random(shape) < zeros, -np.inf, table)


def magnitude(case: Case, low: float, high: float) -> float:
    """Return a power of ten, often near where the number types and the limits end.

    As often one at which factors of probabilities underflow, and floors hold them.
    """
    if case.chance(0.3):
        return 10.0 ** float(case.rng.uniform(0.5, 4.0))
    if case.chance(0.3):
        near = [e for e in (-300, -150, 0, 2, 2.5, 3, 4, 8, 12, 15, 16, 17, 18, 19, 27, 289)]
        near = [e for e in near if low <= e <= high]
        return 10.0 ** float(case.choice(*near))
    return 10.0 ** float(case.rng.uniform(low, high))


def made(case: Case, make: Any) -> Any:
    """Return a model, or None where it is refused by name."""
    try:
        return make()
    except ValueError as error:
        case.true("refused by name", _REFUSED.search(str(error)), error)
        case.refused += 1
        return None


def check_huge_islands(
    case: Case, joint: Joint, z: Any, at: Any, part: int, base: float, eps: float
) -> None:
    """Check what is said of one sequence or tree given its islands."""
    islands = z.islands[at]
    check_given(case, joint, islands, z.marginals[at], base, eps)
    held = {v: int(x) for v, x in enumerate(islands) if x >= 0}
    check_log_z(case, joint.given(held), z.log_z[part], base, eps)


def check_log_prob(
    case: Case, joint: Joint, got: Any, states: Any, base: float, eps: float
) -> None:
    """Check the log-probability of a configuration."""
    score = joint.full[tuple(states)] - joint.log_z
    slack = base * max(1.0, abs(float(joint.log_z))) + 2 * joint.delta(eps)
    case.close("log_prob", got, float(score), slack)


def check_pairs(
    case: Case, joint: Joint, axes: list[int], got: Any, base: float, eps: float
) -> None:
    """Check the joint of two variables: numbers, and right where scores tell any."""
    case.true("pairs are numbers", np.isfinite(got).all() and (got >= 0).all(), got)
    case.close("pairs: sum", float(np.sum(got, dtype=float)), 1.0, 100 * base)
    tol = tolerance(joint, base, eps)
    if tol is not None:
        case.close("pairwise", got, marginal(joint.probabilities(), axes).astype(float), tol)


@family(share=5, seconds=1)
def huge_chains(case: Case) -> None:
    """Chains up to 1e289 (float32: 1e27)."""
    rng = case.rng
    dtype = case.choice(np.float64, np.float32)
    scale = magnitude(case, -30, 26) if dtype == np.float32 else magnitude(case, -300, 288)
    k = int(rng.integers(2, 4))
    lengths = rng.integers(1, 6, int(rng.integers(1, 3)))
    n, edges = int(lengths.sum()), int((lengths - 1).sum())
    zeros = float(case.choice(0.0, 0.0, 0.1))
    shape = (edges, k, k) if case.chance(0.5) else (k, k)
    with np.errstate(under="ignore"):
        unary, transition = (entries(case, scale, s, zeros).astype(dtype) for s in ((n, k), shape))
    model = Arrays(unary, transition, lengths)
    chain = vs.Chain(unary, transition, lengths=lengths)
    if chain_family.refuses(case, model, chain):
        return
    base, eps = chain_family.base_of(model)
    r, d, x = vs.infer(chain), vs.decode(chain), vs.sample(chain, 2, rng)
    log_prob, entropy = vs.log_prob(chain, x[0]), r.entropy()
    case.true("entropies are numbers", np.isfinite(entropy).all() and (entropy >= 0).all())
    pairs, cuts = r.pairwise(), edge_slices_of(model)
    for b, (rows, seq) in enumerate(zip(slices_of(model), sequences(model), strict=True)):
        joint = chain_family.joint_of(seq, model)
        check_log_z(case, joint, r.log_z[b], base, eps)
        check_marginals(case, joint, r.marginals[rows], base, eps)
        check_best(case, joint, d.states[rows], d.score[b], eps)
        check_samples(case, joint, x[:, rows], eps)
        check_log_prob(case, joint, log_prob[b], x[0, rows], base, eps)
        for i, pair in enumerate(pairs[cuts[b]]):
            check_pairs(case, joint, [i, i + 1], pair, base, eps)
    z = vs.infer(chain, zeta=float(case.choice(0.5, 0.9)))
    for b, (rows, seq) in enumerate(zip(slices_of(model), sequences(model), strict=True)):
        check_huge_islands(case, chain_family.joint_of(seq, model), z, rows, b, base, eps)


@family(share=5, seconds=1)
def huge_trees(case: Case) -> None:
    """Trees up to the limit, and beyond it."""
    scale = magnitude(case, -300, 288)
    model = tree_family.draw(case, (1.0,))
    zeros = float(case.choice(0.0, 0.0, 0.1))
    dtype = model.unary.dtype
    if dtype == np.float32:
        scale = 10.0 ** min(max(np.log10(scale), -30), 26)
    with np.errstate(under="ignore"):
        unary = entries(case, scale, model.unary.shape, zeros).astype(dtype)
        pairwise = entries(case, scale, model.pairwise.shape, zeros).astype(dtype)
    model = Forest(model.parent, unary, pairwise, model.edge_type, None)
    tree = made(case, lambda: vs.Tree(**model.kwargs()))
    if tree is None or tree_family.refuses(case, model, tree):
        return
    base, eps = chain_family.base_of(model)
    r, d, x = vs.infer(tree), vs.decode(tree), vs.sample(tree, 2, case.rng)
    z = vs.infer(tree, zeta=float(case.choice(0.5, 0.9)))
    children, pairs = np.flatnonzero(model.parent >= 0).tolist(), r.pairwise()
    entropy, log_prob = r.entropy(), vs.log_prob(tree, x[0])
    case.true("entropies are numbers", np.isfinite(entropy).all() and (entropy >= 0).all())
    for root in range(tree.n_trees):
        joint, nodes = tree_family.joint_of(model, root)
        check_log_z(case, joint, r.log_z[root], base, eps)
        check_marginals(case, joint, r.marginals[nodes], base, eps)
        check_best(case, joint, d.states[nodes], d.score[root], eps)
        check_samples(case, joint, x[:, nodes], eps)
        check_huge_islands(case, joint, z, nodes, root, base, eps)
        for v in set(nodes) & set(children):
            axes = [nodes.index(int(model.parent[v])), nodes.index(v)]
            check_pairs(case, joint, axes, pairs[children.index(v)], base, eps)
        check_log_prob(case, joint, log_prob[root], x[0, nodes], base, eps)


@family(share=6, seconds=2)
def huge_graphs(case: Case) -> None:
    """Graphs up to the limit, and beyond it: marginals, log Z and its bounds, whatever asks."""
    rng = case.rng
    scale = magnitude(case, -300, 288)
    n = int(rng.integers(1, 6))
    cards = [int(k) for k in rng.integers(1, 4, n)]
    zeros = float(case.choice(0.0, 0.0, 0.1))
    factors = []
    for _ in range(int(rng.integers(n, 2 * n + 2))):
        scope = tuple(int(v) for v in rng.permutation(n)[: rng.integers(1, min(n, 3) + 1)])
        factors.append((scope, entries(case, scale, [cards[v] for v in scope], zeros)))
    evidence = {0: entries(case, scale, [cards[0]], 0.0)} if case.chance(0.2) else {}

    def build() -> vs.FactorGraph:
        graph = graph_of(cards, factors)
        graph.set_evidence(evidence)
        return graph

    graph = made(case, build)
    if graph is None:
        return
    joint = Joint.of(cards, factors, evidence)
    if not joint.feasible:
        case.infeasible += 1
        try:
            vs.infer(graph)
        except vs.InfeasibleError:
            return
        case.true("refused", False)
    r = vs.infer(graph, method=case.choice("auto", "junction_tree"))
    check_log_z(case, joint, r.log_z)
    check_between(case, "log_z_lower, log_z_upper", joint, r.log_z_lower, r.log_z_upper)
    check_marginals(case, joint, r.marginals)
    d, x = vs.decode(graph), vs.sample(graph, 2, rng)
    check_best(case, joint, d.states, d.score)
    check_samples(case, joint, x)
    dice = rng.random()
    if dice < 0.2:
        tol = tolerance(joint, 1e-9)
        got = r.joint(list(range(n)))
        case.true("a joint", np.isfinite(got).all() and (got >= 0).all(), got)
        if tol is not None:
            case.close("joint", got, joint.probabilities().astype(float), tol)
        case.true("an entropy", np.isfinite(r.entropy()))
    elif dice < 0.4:
        z = vs.infer(graph, zeta=float(case.choice(0.5, 0.9)))
        check_given(case, joint, z.islands, z.marginals, 1e-9)
        check_between(case, "islands", joint, z.log_z_lower, z.log_z_upper)
    elif dice < 0.6:
        method = case.choice("bp", "trw", "mean_field", "structured_mean_field")
        try:
            z = vs.infer(graph, method=method_of(method, max_iterations=20))
        except vs.InfeasibleError:
            case.true("messages may", method in ("bp", "trw"), method)
            case.refused += 1
            return
        case.true("messages are numbers", all(np.isfinite(p).all() for p in z.marginals))
        check_between(case, method, joint, z.log_z_lower, z.log_z_upper)
    elif dice < 0.65:
        b = vs.bounds.log_z(graph, exact=False, iterations=4)
        case.true("bounds are numbers", not np.isnan([b.lower, b.upper]).any(), b)
        for name, m in b.methods.items():
            check_between(case, f"bounds: {name}", joint, m.lower, m.upper)
    elif dice < 0.75:
        b = vs.bounds.log_z(graph)
        check_between(case, "bounds", joint, b.lower, b.upper)
    check_log_prob(case, joint, vs.log_prob(graph, x[0]), x[0], 1e-10, EPS)
