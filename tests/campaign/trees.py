"""Forests of any shape: every answer of the exact engine, and what islands promise."""

from __future__ import annotations

import numpy as np
from campaign.chains import base_of, check_islands
from campaign.harness import Case, family
from campaign.oracle import (
    Joint,
    check_best,
    check_log_z,
    check_marginals,
    check_samples,
    largest,
    tolerance,
)
from graph_oracle import marginal
from oracles import LONG
from tree_oracles import (
    Forest,
    clamped_forest,
    conditioned_forest,
    first_dead_node,
    solve_forest,
    trees_of,
)

import valuesparse as vs


def draw(case: Case, scales: tuple[float, ...] = (0.1, 1.0, 3.0, 30.0, 300.0, 1e4)) -> Forest:
    """Return a forest: random, a star, a path or a caterpillar, nodes in any order."""
    rng = case.rng
    k = int(rng.integers(1, 5))
    n = int(rng.integers(1, {1: 8, 2: 10, 3: 7, 4: 6}[k]))
    shape = case.choice("random", "star", "path", "caterpillar")
    parent = np.full(n, -1, dtype=np.int64)
    for v in range(1, n):
        if case.chance(0.15):
            continue
        parent[v] = {"random": rng.integers(v), "star": 0, "path": v - 1}.get(shape, v // 2)
    order = rng.permutation(n)  # node v is called order[v]
    renamed = np.full(n, -1, dtype=np.int64)
    renamed[order] = np.where(parent >= 0, order[parent], -1)
    scale, zeros = float(case.choice(*scales)), float(case.choice(0.0, 0.0, 0.1, 0.3))

    def table(*shape: int) -> np.ndarray:
        a = rng.normal(size=shape) * scale
        return np.where(rng.random(shape) < zeros, -np.inf, a)

    kind = case.choice("shared", "typed", "edge")
    types = rng.integers(0, 3, n) if kind == "typed" else None
    pairwise = table(*{"shared": (), "typed": (3,), "edge": (n,)}[kind], k, k)
    allowed = rng.random((n, k)) > 0.15 if case.chance(0.3) else None
    dtype = case.choice(np.float64, np.float64, np.float32)
    return Forest(renamed, table(n, k), pairwise, types, allowed).astype(dtype)


def joint_of(model: Forest, root: int) -> tuple[Joint, list[int]]:
    """Return all configurations of one tree, and its nodes in the order of the axes."""
    nodes = np.flatnonzero(trees_of(model.parent) == root).tolist()
    number = {v: i for i, v in enumerate(nodes)}
    local = model.local()
    full, size = np.zeros([local.shape[1]] * len(nodes), dtype=LONG), 0.0
    for v, i in number.items():
        full = full + local[v].reshape([-1 if a == i else 1 for a in range(len(nodes))])
        size += largest(local[v])
        if model.parent[v] < 0:
            continue
        j = number[int(model.parent[v])]
        t = model.table(v)
        size += largest(t)
        shape = [len(t) if a in (i, j) else 1 for a in range(len(nodes))]
        full = full + (t if j < i else t.T).reshape(shape)
    return Joint(full, size), nodes


def refuses(case: Case, model: Forest, made: vs.Tree) -> bool:
    """Check what is said of a forest without a configuration; False where there is one."""
    dead = first_dead_node(model)
    if dead is None:
        return False
    case.infeasible += 1
    for ask in (vs.infer, vs.decode, lambda m: vs.infer(m, zeta=0.7)):
        try:
            ask(made)
        except vs.InfeasibleError as error:
            case.true("where it dies", (error.sequence, error.position) == dead, error, dead)
        else:
            case.true("a forest without configurations is refused", False, dead)
    return True


@family(share=11, seconds=2)
def forests(case: Case) -> None:
    """Marginals, pairwise, entropy, decode, samples, log_prob, bits of threads."""
    model = draw(case)
    made = vs.Tree(**model.kwargs())
    if refuses(case, model, made):
        return
    base, eps = base_of(model)
    r = vs.infer(made, threads=1)
    d, x = vs.decode(made), vs.sample(made, 3, case.rng)
    pairwise, entropy = r.pairwise(), r.entropy()
    log_prob = vs.log_prob(made, x[0])
    children = np.flatnonzero(model.parent >= 0).tolist()
    for tree in range(made.n_trees):
        joint, nodes = joint_of(model, tree)
        check_log_z(case, joint, r.log_z[tree], base, eps)
        check_marginals(case, joint, r.marginals[nodes], base, eps)
        check_best(case, joint, d.states[nodes], d.score[tree], eps)
        check_samples(case, joint, x[:, nodes], eps)
        score = joint.full[tuple(x[0, nodes])] - joint.log_z
        slack = base * max(1.0, abs(float(joint.log_z))) + 2 * joint.delta(eps)
        case.close("log_prob", log_prob[tree], float(score), slack)
        tol = tolerance(joint, base, eps)
        if tol is None:
            continue
        p = joint.probabilities()
        for v in nodes:
            if model.parent[v] >= 0:
                pair = [nodes.index(int(model.parent[v])), nodes.index(v)]
                want = marginal(p, pair).astype(float)
                case.close("pairwise", pairwise[children.index(v)], want, tol)
        case.close("entropy", entropy[tree], float(joint.entropy()), 30 * tol * p.size)
    if case.chance(0.2):
        again = vs.infer(made, threads=int(case.choice(2, 3, 8)))
        case.true("bits of threads", again.marginals.tobytes() == r.marginals.tobytes())


@family(share=6, seconds=2)
def forest_islands(case: Case) -> None:
    """Answers given the islands, for any zeta and revisit."""
    model = draw(case)
    made = vs.Tree(**model.kwargs())
    if refuses(case, model, made):
        return
    base, eps = base_of(model)
    zeta = float(case.choice(0.0, 0.3, 0.5, 0.7, 0.9, 0.99, case.rng.random()))
    revisit = case.choice(None, None, 0, 1, 2, 5)
    r = vs.infer(made, zeta=zeta, revisit=revisit, threads=1)
    check_islands(case, r, zeta, revisit is None, base)
    size = sum(largest(row) for row in model.unary)
    size += sum(largest(model.table(i)) for i in np.flatnonzero(model.parent >= 0))
    delta = 16 * eps * size
    if delta < 0.05:
        tol = base + 4 * delta
        answer = solve_forest(clamped_forest(model, r.islands))
        case.close("given the islands", r.marginals, conditioned_forest(model, r.islands), tol)
        case.close("log_z", r.log_z, answer.log_z, base * (1 + np.abs(answer.log_z)) + delta)
        case.close("pairwise", r.pairwise(), answer.pairwise, tol)
    if case.chance(0.2):
        again = vs.infer(made, zeta=zeta, revisit=revisit, threads=int(case.choice(2, 3, 8)))
        case.true("bits of threads", again.marginals.tobytes() == r.marginals.tobytes())
