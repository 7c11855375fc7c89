"""Chains: every answer of the exact engine, and what islands promise."""

from __future__ import annotations

from typing import Any

import numpy as np
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
from checks import chain
from graph_oracle import marginal
from oracles import (
    Arrays,
    Sequence,
    clamped,
    conditioned,
    edge_slices_of,
    first_infeasible,
    largest_partial_score,
    sequences,
    slices_of,
    solve,
)
from strategies import random_chain

import valuesparse as vs

_LABELS, _LENGTH = {1: 5, 2: 8, 3: 6, 4: 5, 5: 4}, 3


def ends_of(model: Arrays) -> float:
    """Return what `start` and `end` add to partial scores, where they cancel the rest as well."""
    ends = [x for x in (model.start, model.end) if x is not None]
    return 2.0 * sum(largest(x) for x in ends)


def joint_of(seq: Sequence, model: Arrays) -> Joint:
    """Return all configurations of a sequence of a model."""
    full = seq.local[0]
    size = (
        ends_of(model) + sum(largest(row) for row in seq.local) + sum(largest(t) for t in seq.edges)
    )
    for i in range(1, len(seq.local)):
        full = full[..., None] + seq.edges[i - 1] + seq.local[i]
    return Joint(full, size)


def draw(case: Case, *, most: int = 3) -> Arrays:
    """Return a batch, of any dtype and with any of the optional arguments."""
    rng = case.rng
    k = int(rng.integers(1, 6))
    lengths = rng.integers(0, _LABELS[k] + 1, int(rng.integers(0, most + 1)))
    return random_chain(
        rng,
        lengths,
        k,
        scale=float(case.choice(0.1, 1.0, 3.0, 30.0, 300.0, 1e4)),
        forbidden=float(case.choice(0.0, 0.0, 0.1, 0.3)),
        extreme=float(case.choice(0.0, 0.0, 0.1)),
        per_edge=case.chance(0.4),
        ends=case.chance(0.5),
        masks=case.chance(0.3),
        dtype=case.choice(np.float64, np.float64, np.float32),
    )


def given(case: Case, model: Arrays) -> vs.Chain:
    """Return the chain, its arrays laid out in one of the ways that are accepted."""
    kwargs = model.kwargs()
    dice = case.rng.random()
    if dice < 0.1 and model.unary.size:
        kwargs["unary"] = np.asfortranarray(model.unary)
    elif dice < 0.2:
        kwargs["unary"] = np.repeat(model.unary, 2, axis=1)[:, ::2]
    elif dice < 0.3:
        kwargs["unary"] = model.unary.astype(model.unary.dtype.newbyteorder())
    elif dice < 0.4 and len(model.lengths):
        kwargs["unary"] = [model.unary[rows] for rows in slices_of(model)]
        del kwargs["lengths"]
    return vs.Chain(**kwargs)


def base_of(model: Any) -> tuple[float, float]:
    """Return the error that any probability may have, and eps."""
    single = np.asarray(model.unary).dtype == np.float32
    return (
        (1e-5, float(np.finfo(np.float32).eps)) if single else (1e-10, float(np.finfo(float).eps))
    )


def refuses(case: Case, model: Arrays, made: vs.Chain) -> bool:
    """Check what is said of a batch without a configuration; False where there is one."""
    dead = first_infeasible(model)
    if dead is None:
        return False
    case.infeasible += 1
    for ask in (vs.infer, vs.decode, lambda m: vs.infer(m, zeta=0.7)):
        try:
            ask(made)
        except vs.InfeasibleError as error:
            case.true("where it dies", (error.sequence, error.position) == dead, error, dead)
        else:
            case.true("a batch without configurations is refused", False, dead)
    return True


@family(share=20, seconds=3)
def chains(case: Case) -> None:
    """Marginals, pairwise, expectations, entropy, decode, n-best, samples, bits of threads."""
    model = draw(case)
    made = given(case, model)
    if refuses(case, model, made):
        return
    base, eps = base_of(model)
    r = vs.infer(made, threads=1)
    pairwise, entropy, expectations = r.pairwise(), r.entropy(), r.expectations()
    n_best = int(case.rng.integers(1, 31))
    d, top = vs.decode(made), vs.decode(made, n_best=n_best)
    x = vs.sample(made, 3, case.rng)
    states = x[0] if len(x) else np.zeros(0, int)
    log_prob = vs.log_prob(made, states)
    wanted, error = np.zeros_like(expectations), 0.0
    rows, cuts = slices_of(model), edge_slices_of(model)
    for b, seq in enumerate(sequences(model)):
        if not len(seq.local):
            case.close("log_z of nothing", r.log_z[b], 0.0, 0.0)
            continue
        joint = joint_of(seq, model)
        check_log_z(case, joint, r.log_z[b], base, eps)
        check_marginals(case, joint, r.marginals[rows[b]], base, eps)
        check_best(case, joint, d.states[rows[b]], d.score[b], eps)
        check_n_best(case, joint, top.states[:, rows[b]], top.score[:, b], eps)
        check_samples(case, joint, x[:, rows[b]], eps)
        score = joint.full[tuple(states[rows[b]])] - joint.log_z
        slack = base * max(1.0, abs(float(joint.log_z))) + 2 * joint.delta(eps)
        case.close("log_prob", log_prob[b], float(score), slack)
        p, tol = joint.probabilities(), tolerance(joint, base, eps)
        if tol is None:
            error = np.inf
            continue
        edges = [marginal(p, [i, i + 1]).astype(float) for i in range(p.ndim - 1)]
        for got, want in zip(pairwise[cuts[b]], edges, strict=True):
            case.close("pairwise", got, want, tol)
            wanted += want
            error += tol
        case.close("entropy", entropy[b], float(joint.entropy()), 30 * tol * p.size)
    if np.isfinite(error):
        case.close("expectations", expectations, wanted, error + 1e-15)
    if case.chance(0.2):
        again = vs.infer(made, threads=int(case.choice(2, 3, 8)))
        case.true("bits of threads", again.marginals.tobytes() == r.marginals.tobytes())


def check_n_best(
    case: Case, joint: Joint, states: np.ndarray, scores: np.ndarray, eps: float
) -> None:
    """Check that these are the best configurations, all different, the best first."""
    order = np.sort(joint.full.ravel())[::-1]
    order = order[order > -np.inf][: len(scores)]
    slack = joint.delta(eps)
    case.close("n best scores", scores[: len(order)], order.astype(float), slack)
    case.true("no more than there are", (scores[len(order) :] == -np.inf).all(), scores)
    some = states[: len(order)]
    found = joint.full[tuple(some.T)]
    case.close("scores of the n best", scores[: len(order)], found.astype(float), slack)
    flat = np.ravel_multi_index(tuple(some.T), joint.full.shape)
    case.true("all different", len(set(flat.tolist())) == len(order), some)


@family(share=10, seconds=2)
def chain_islands(case: Case) -> None:
    """Answers given the islands, for any zeta and revisit."""
    model = draw(case)
    made = chain(model)
    if refuses(case, model, made):
        return
    base, eps = base_of(model)
    zeta = float(case.choice(0.0, 0.3, 0.5, 0.7, 0.9, 0.99, case.rng.random()))
    revisit = case.choice(None, None, 0, 1, 2, 5)
    r = vs.infer(made, zeta=zeta, revisit=revisit, threads=1)
    check_islands(case, r, zeta, revisit is None, base)
    delta = 16 * eps * (largest_partial_score(model) + ends_of(model))
    if delta < 0.05:
        tol = base + 4 * delta
        held = clamped(model, r.islands)
        answer = solve(held)
        case.close("given the islands", r.marginals, conditioned(model, r.islands), tol)
        scale = 1 + np.abs(answer.log_z)
        case.close("log_z", r.log_z, answer.log_z, base * scale + delta)
        case.close("pairwise", r.pairwise(), answer.pairwise, tol)
        case.close("entropy", r.entropy(), answer.entropy, 100 * tol * (1 + len(model.unary)))
    if case.chance(0.2):
        again = vs.infer(made, zeta=zeta, revisit=revisit, threads=int(case.choice(2, 3, 8)))
        case.true("bits of threads", again.marginals.tobytes() == r.marginals.tobytes())
        case.true("islands of threads", (again.islands == r.islands).all())


def check_islands(case: Case, r: Any, zeta: float, settled: bool, base: float) -> None:
    """Check that islands are as sure as they have to be, and others are not."""
    p, islands = r.marginals, r.islands
    held = islands >= 0
    case.true("marginals are numbers", np.isfinite(p).all() and (p >= 0).all())
    case.close(
        "sums", p.sum(axis=1, dtype=np.float64), np.ones(len(p)), 1e-5 if base > 1e-6 else 1e-12
    )
    case.true("stats", r.stats["islands"] == held.sum(), r.stats)
    if not settled:
        return
    case.true("settled", r.converged)
    slack = 1e-6 if base > 1e-6 else 1e-12
    top = p.max(axis=1, initial=0)
    value = p[held, islands[held]]
    case.true("islands are modes", (value >= top[held] - slack).all(), value, top[held])
    case.true("islands are sure", (value >= zeta - slack).all(), value, zeta)
    others = ~held & (top >= zeta + slack)
    case.true("the others were released", others.sum() <= r.stats["released"], top, r.stats)
