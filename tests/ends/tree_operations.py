"""Operations of trees in every arithmetic, structured factors and what else asks the engines."""

from __future__ import annotations

from typing import Any

import numpy as np
from operations import BINARY, GRID, PARENT, TREE, Act, operation, rng
from structured_oracle import AnyOf

import valuesparse as vs
from valuesparse.factors import Features, Structured, Xor
from valuesparse.inference import trw_dual_bound

SIZE = len(PARENT)
UNARY, TABLE = rng.normal(size=(SIZE, 4)), rng.normal(size=(4, 4))
TYPES = rng.integers(0, 3, SIZE)
TREES = {
    "logs": vs.Tree(PARENT, 900 * UNARY, 900 * TABLE),
    "float32": vs.Tree(PARENT, UNARY.astype(np.float32), TABLE.astype(np.float32)),
    "typed": vs.Tree(PARENT, UNARY, rng.normal(size=(3, 4, 4)), edge_type=TYPES),
    "per_edge": vs.Tree(PARENT, UNARY, rng.normal(size=(SIZE, 4, 4))),
}
CHAIN = vs.Chain(
    rng.normal(size=(90, 5)),
    rng.normal(size=(5, 5)),
    lengths=[20, 30, 40],
    start=rng.normal(size=5),
    end=rng.normal(size=5),
    allowed=rng.random((90, 5)) < 0.8,
)


def hard(factor: Structured) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * 9)
    for v in range(9):
        graph.add([v], rng.normal(size=2))
        graph.add([v, (v + 4) % 9], rng.normal(size=(2, 2)))
    graph.add(factor)
    return graph


XOR, PYTHON = hard(Xor(0, 1, 2, 3)), hard(AnyOf(range(4)))
COLUMNS = vs.FactorGraph([2] * 6)
COLUMNS.add_features(
    Features(np.stack([np.arange(5), np.arange(1, 6)], axis=1), rng.normal(size=5))
)


def of_every_tree(ask: Any) -> Act:
    return lambda: [ask(tree) for tree in TREES.values()]


@operation
def trees_infer() -> Act:
    return of_every_tree(lambda tree: vs.infer(tree, threads=2).marginals)


@operation
def trees_islands() -> Act:
    return of_every_tree(lambda tree: vs.infer(tree, zeta=0.6, threads=2).marginals)


@operation
def trees_pairwise() -> Act:
    return of_every_tree(lambda tree: vs.infer(tree).pairwise(threads=2))


@operation
def trees_sums() -> Act:
    def ask(tree: vs.Tree) -> Any:
        r = vs.infer(tree)
        return r.expectations(threads=2), r.entropy(threads=2)

    return of_every_tree(ask)


@operation
def trees_decode_and_sample() -> Act:
    return of_every_tree(
        lambda tree: [vs.decode(tree, threads=2).states, vs.sample(tree, 2, 0, threads=2)]
    )


@operation
def trees_log_prob() -> Act:
    states = vs.decode(TREE).states
    return lambda: vs.log_prob(TREE, states)


@operation
def chain_with_everything() -> Act:
    def act() -> Any:
        r = vs.infer(CHAIN, threads=2)
        best = vs.decode(CHAIN, n_best=3, threads=2)
        islands = vs.infer(CHAIN, zeta=0.7, threads=2).marginals
        return r.marginals, r.pairwise(), best.states, islands, vs.sample(CHAIN, 2, 0)

    return act


@operation
def structured_messages() -> Act:
    def act() -> Any:
        records = [vs.BP(max_iterations=20), vs.TRW(max_iterations=20)]
        return [vs.infer(g, method=m).marginals for g in (XOR, PYTHON) for m in records]

    return act


@operation
def structured_mean_field() -> Act:
    return lambda: vs.infer(XOR, method=vs.StructuredMeanField(max_iterations=20)).marginals


@operation
def structured_decode() -> Act:
    return lambda: [vs.decode(g, method=vs.BP(max_iterations=20)).states for g in (XOR, PYTHON)]


@operation
def features_in_columns() -> Act:
    return lambda: [vs.infer(COLUMNS).marginals, vs.infer(COLUMNS, method="bp").marginals]


@operation
def dual_bound() -> Act:
    return lambda: trw_dual_bound(BINARY, trees=3).upper


@operation
def sparsifier() -> Act:
    return lambda: vs.bounds.preconditioner(BINARY, kind="sparsifier").upper


@operation
def check() -> Act:
    return lambda: [str(finding) for finding in GRID.check()]


@operation
def simulated() -> Act:
    def act() -> Any:
        return vs.schedule.simulate(vs.schedule.plan(TREE), 2, costs="messages").makespan

    return act
