"""Operations on chains, trees and graphs that run native code, asked thousands of times.

An operation prepares what it needs and returns a function without arguments. That function may be
called again when it failed, and answers the same then.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import valuesparse as vs
from valuesparse.schedule import plan, record

Act = Callable[[], Any]

OPERATIONS: dict[str, Callable[[], Act]] = {}

rng = np.random.default_rng(0)


def operation(prepare: Callable[[], Act]) -> Callable[[], Act]:
    OPERATIONS[prepare.__name__] = prepare
    return prepare


def digest(x: Any) -> Any:
    """Return what tells two answers apart, bit by bit."""
    if isinstance(x, np.ndarray):
        return x.dtype.str, x.shape, x.tobytes()
    if isinstance(x, (list, tuple)):
        return [digest(y) for y in x]
    if isinstance(x, dict):
        return [(digest(k), digest(v)) for k, v in x.items()]
    return x.hex() if isinstance(x, float) else x


LENGTHS = rng.integers(0, 40, 30)
N = int(LENGTHS.sum())
CHAIN = vs.Chain(rng.normal(size=(N, 5)), rng.normal(size=(5, 5)), lengths=LENGTHS)
HARD = vs.Chain(900 * rng.normal(size=(300, 6)), 900 * rng.normal(size=(6, 6)))  # log domain
SINGLE = vs.Chain(
    rng.normal(size=(60, 4)).astype(np.float32), rng.normal(size=(59, 4, 4)).astype(np.float32)
)
PARENT = (np.arange(200) - 1) // 2
PARENT[[50, 120]] = -1
TREE = vs.Tree(PARENT, rng.normal(size=(200, 4)), rng.normal(size=(4, 4)))


def grid(side: int, k: int, scale: float = 1.0) -> vs.FactorGraph:
    graph = vs.FactorGraph([k] * side * side)
    for v in range(side * side):
        graph.add([v], scale * rng.normal(size=k))
        for u in [v - 1] * (v % side > 0) + [v - side] * (v >= side):
            graph.add([u, v], scale * rng.normal(size=(k, k)))
    return graph


GRID = grid(4, 3)
BINARY = grid(3, 2)
TRIPLES = vs.FactorGraph([2, 3, 2, 4, 2, 2])
for scope in ([0, 1, 2], [2, 3], [3, 4, 5], [1, 4], [0, 5], [2]):
    shape = [TRIPLES.cardinalities[v] for v in scope]
    TRIPLES.add(scope, np.where(rng.random(shape) < 0.1, -np.inf, rng.normal(size=shape)))

FOLDER = Path(tempfile.mkdtemp())


@operation
def chain_infer() -> Act:
    def act() -> Any:
        r = vs.infer(CHAIN, threads=2)
        return r.marginals, r.log_z

    return act


@operation
def chain_infer_log_domain() -> Act:
    return lambda: vs.infer(HARD, threads=2).marginals


@operation
def chain_infer_float32_per_edge() -> Act:
    return lambda: vs.infer(SINGLE, threads=2).marginals


# Of more rows than one thread lists or sorts at a time.
LISTED = vs.Chain(np.sin(np.arange(20_000.0)).reshape(-1, 5), np.eye(5), lengths=[20] * 200)


@operation
def chain_keep() -> Act:
    def act() -> Any:
        found = vs.infer(LISTED, keep=0.1, threads=2).sparse()
        return found.indices, found.data

    return act


@operation
def chain_top() -> Act:
    r = vs.infer(LISTED)
    return lambda: r.top(2, threads=2)


@operation
def chain_listed() -> Act:
    """A model of listed pairs, made and asked."""
    pairs = csr_array(np.where(np.arange(900).reshape(30, 30) % 11 == 0, 1.5, 0.0))

    def act() -> Any:
        table = vs.SparseTransition(pairs, default=-1.0)
        return vs.infer(vs.Chain(np.sin(np.arange(1500.0)).reshape(50, 30), table)).marginals

    return act


def cut_chain() -> vs.Chain:
    """Return a chain that is cut into chunks where its messages agree."""
    own = np.random.default_rng(0)
    return vs.Chain(3 * own.normal(size=(4200, 6)), own.normal(size=(6, 6)))


@operation
def chain_cut() -> Act:
    chain = cut_chain()
    return lambda: vs.infer(chain, threads=2).marginals


@operation
def chain_cut_sample() -> Act:
    chain = cut_chain()
    return lambda: vs.sample(chain, 2, np.random.default_rng(1), threads=2)


@operation
def chain_islands() -> Act:
    def act() -> Any:
        r = vs.infer(CHAIN, zeta=0.6, threads=2)
        return r.marginals, r.log_z, r.islands, r.stats

    return act


@operation
def chain_islands_log_domain() -> Act:
    return lambda: vs.infer(HARD, zeta=0.9, threads=2).marginals


def questions(name: str, model: Any, *, best: int, samples: int) -> None:
    """Add what is asked of a chain of any number of labels."""

    def pairwise() -> Act:
        r = vs.infer(model)
        return lambda: r.pairwise(threads=2).copy()

    def entropy() -> Act:
        r = vs.infer(model)
        return lambda: r.entropy(threads=2).copy()

    def n_best() -> Act:
        def act() -> Any:
            d = vs.decode(model, n_best=best, threads=2)
            return d.states, d.score

        return act

    def sample() -> Act:
        return lambda: vs.sample(model, samples, np.random.default_rng(1), threads=2)

    for prepare in (pairwise, entropy, n_best, sample):
        OPERATIONS[f"{name}_{prepare.__name__}"] = prepare


questions("chain", CHAIN, best=4, samples=3)


@operation
def chain_expectations() -> Act:
    r = vs.infer(CHAIN)
    return lambda: r.expectations(threads=2).copy()


@operation
def chain_decode() -> Act:
    def act() -> Any:
        d = vs.decode(CHAIN, threads=2)
        return d.states, d.score

    return act


@operation
def chain_log_prob() -> Act:
    states = vs.decode(CHAIN).states
    return lambda: vs.log_prob(CHAIN, states)


@operation
def chain_plan() -> Act:
    return lambda: plan(CHAIN, threads=2).succ


@operation
def chain_recorded() -> Act:
    def act() -> Any:
        with record() as run:
            r = vs.infer(CHAIN, threads=2)
        return r.marginals, [p.item for p in run]

    return act


@operation
def chain_build() -> Act:
    unary, transition = np.array(CHAIN.unary), np.array(CHAIN.transition)
    return lambda: vs.infer(vs.Chain(unary, transition, lengths=LENGTHS)).log_z


@operation
def chain_pickle() -> Act:
    r = vs.infer(CHAIN)

    def act() -> Any:
        model, result = pickle.loads(pickle.dumps((CHAIN, r)))
        return vs.infer(model).log_z, result.pairwise()

    return act


@operation
def tree_infer() -> Act:
    def act() -> Any:
        r = vs.infer(TREE, threads=2)
        return r.marginals, r.log_z

    return act


@operation
def tree_islands() -> Act:
    def act() -> Any:
        r = vs.infer(TREE, zeta=0.6, threads=2)
        return r.marginals, r.log_z, r.islands

    return act


@operation
def tree_build_and_ask() -> Act:
    unary, pairwise = np.array(TREE.unary), np.array(TREE.pairwise)

    def act() -> Any:
        r = vs.infer(vs.Tree(PARENT, unary, pairwise), threads=2)
        return r.log_z, r.pairwise(), r.expectations(), r.entropy()

    return act


@operation
def tree_decode_and_sample() -> Act:
    def act() -> Any:
        d = vs.decode(TREE, threads=2)
        states = vs.sample(TREE, 3, np.random.default_rng(1), threads=2)
        return d.states, d.score, states, vs.log_prob(TREE, d.states)

    return act


@operation
def tree_plan() -> Act:
    return lambda: plan(TREE, threads=2).succ


@operation
def graph_infer() -> Act:
    def act() -> Any:
        r = vs.infer(GRID, threads=2)
        return r.marginals, r.log_z

    return act


@operation
def graph_build() -> Act:
    tables = [(f.scope, np.array(f.table(GRID.cardinalities))) for f in GRID.factors]

    def act() -> Any:
        graph = vs.FactorGraph(GRID.cardinalities)
        for scope, table in tables:
            graph.add(scope, table)
        return vs.infer(graph, method="junction_tree").log_z

    return act


@operation
def junction_tree_compile() -> Act:
    def act() -> Any:
        tree = vs.JunctionTree(TRIPLES, evidence={3: 1})
        return tree.width, tree.table_size, tree.cliques, tree.parent, tree.memory

    return act


@operation
def junction_tree_infer() -> Act:
    tree = vs.JunctionTree(GRID)

    def act() -> Any:
        r = tree.infer({0: 1, 5: np.array([0.0, -1.0, 0.5])}, threads=2)
        again = tree.infer({0: 2}, threads=2)
        return r.marginals, r.log_z, again.marginals, again.log_z

    return act


@operation
def junction_tree_queries() -> Act:
    tree = vs.JunctionTree(TRIPLES)

    def act() -> Any:
        samples = tree.sample(3, np.random.default_rng(1))
        return tree.decode({0: 0}).states, samples, tree.joint([0, 3, 5]), tree.log_z({4: 1})

    return act


@operation
def junction_tree_conditioned() -> Act:
    tree = vs.JunctionTree(GRID, memory_limit=vs.JunctionTree(GRID).memory // 2)
    assert tree.divide().slices > 1

    def act() -> Any:
        r = tree.infer(threads=2)
        return r.marginals, r.log_z, tree.decode().states, tree.sample(2, np.random.default_rng(1))

    return act


@operation
def junction_tree_pickle() -> Act:
    tree = vs.JunctionTree(GRID)
    return lambda: pickle.loads(pickle.dumps(tree)).infer().log_z


@operation
def graph_result() -> Act:
    r = vs.infer(TRIPLES)
    return lambda: (r.joint([0, 2]), r.factor_marginals(), r.pairwise(), r.entropy())


@operation
def graph_islands() -> Act:
    def act() -> Any:
        r = vs.infer(GRID, zeta=0.7, threads=2)
        return r.marginals, r.log_z

    return act


@operation
def graph_decode_and_sample() -> Act:
    def act() -> Any:
        d = vs.decode(GRID, threads=2)
        states = vs.sample(GRID, 2, np.random.default_rng(1), threads=2)
        return d.states, d.score, states, vs.log_prob(GRID, d.states)

    return act


LOOPY = {m.name: m for m in (vs.BP, vs.TRW, vs.MeanField, vs.StructuredMeanField)}


def loopy(method: str, **more: Any) -> None:
    def prepare() -> Act:
        def act() -> Any:
            r = vs.infer(GRID, method=LOOPY[method](max_iterations=30, **more))
            return r.marginals, r.log_z

        return act

    OPERATIONS["_".join(["loopy", method, *more.values()])] = prepare


for schedule in ("residual", "rounds", "tree"):
    loopy("bp", schedule=schedule)
for method in ("trw", "mean_field", "structured_mean_field"):
    loopy(method)


@operation
def loopy_decode() -> Act:
    def act() -> Any:
        return [vs.decode(GRID, method=LOOPY[m](max_iterations=30)).states for m in ("bp", "trw")]

    return act


@operation
def bounds_log_z() -> Act:
    def act() -> Any:
        b = vs.bounds.log_z(BINARY)
        return b.lower, b.upper

    return act


@operation
def bounds_preconditioner() -> Act:
    def act() -> Any:
        found = [
            vs.bounds.preconditioner(BINARY, kind=k) for k in ("spanning_tree", "support_tree")
        ]
        return [(b.lower, b.upper) for b in found]

    return act


@operation
def relax() -> Act:
    def act() -> Any:
        r = vs.relax(GRID, threshold=1e-2)
        return r.marginals, r.log_z, r.bounds().lower

    return act


@operation
def select() -> Act:
    return lambda: vs.select(GRID, min_size=0.5).marginals


@operation
def gain() -> Act:
    seed = [i for i, f in enumerate(GRID.factors) if len(f.scope) == 1]
    r = vs.infer(GRID, factors=seed)
    return lambda: vs.gain(GRID, range(len(GRID.factors)), r)


@operation
def read_and_write() -> Act:
    path = FOLDER / "model.uai"

    def act() -> Any:
        vs.write_uai(TRIPLES, path)
        vs.write_fg(TRIPLES, path.with_suffix(".fg"))
        read = [vs.read_uai(path), vs.read_fg(path.with_suffix(".fg"))]
        return [vs.infer(graph).log_z for graph in read]

    return act
