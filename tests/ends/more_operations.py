"""Operations of certificates, hidden Markov models, few labels, and loops on two threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from operations import BINARY, OPERATIONS, Act, grid, operation, questions
from operations import TREE as SMALL_TREE

import valuesparse as vs
from valuesparse import hmm
from valuesparse.factors import Table, Tree
from valuesparse.threads import get_num_threads, set_num_threads

own = np.random.default_rng(7)

CHAIN = vs.Chain(
    3 * own.normal(size=(300, 40)), 2 * own.normal(size=(40, 40)), lengths=[50, 100, 7, 143]
)
LARGE = vs.Chain(
    9 * own.normal(size=(400, 300)), own.normal(size=(300, 300)), lengths=[100, 250, 50]
)
LONG = vs.Chain(own.normal(size=(900, 20)), own.normal(size=(20, 20)))
FEW = vs.Chain(own.normal(size=(30_000, 4)), own.normal(size=(4, 4)), lengths=[10] * 3000)
PARENT = (np.arange(700) - 1) // 2
TREE = vs.Tree(PARENT[:300], 3 * own.normal(size=(300, 40)), own.normal(size=(40, 40)))
LARGE_TREE = vs.Tree(PARENT, 4 * own.normal(size=(700, 330)), own.normal(size=(330, 330)))
GRID = grid(12, 4)

WORDS = 5
ARCS = [(h, m) for h in range(WORDS + 1) for m in range(1, WORDS + 1) if h != m]


def arcs(pairs: int) -> vs.FactorGraph:
    """Return a graph with a tree over its variables, and so many pairs beside it."""
    graph = vs.FactorGraph([2] * len(ARCS))
    graph.add(Tree(ARCS, range(len(ARCS))))
    for v in range(len(ARCS)):
        graph.add([v], own.normal(size=2))
    for v in range(pairs):
        graph.add([v, v + 1], own.normal(size=(2, 2)))
    return graph


ARBORESCENCE, CROSSED = arcs(0), arcs(8)


@operation
def cores() -> Act:
    return lambda: (set_num_threads(None), get_num_threads())


def certified(name: str, model: Any, **how: Any) -> None:
    def prepare() -> Act:
        def act() -> Any:
            r = vs.infer(model, threads=2, **how)
            return r.marginals, r.log_z, r.error, r.lower, r.upper, r.log_z_upper

        return act

    OPERATIONS[name] = prepare


certified("chain_tol", CHAIN, tol=1e-3)
certified("chain_tol_supports", LARGE, tol=1e-2)
certified("tree_tol", TREE, tol=1e-3)
certified("tree_tol_supports", LARGE_TREE, tol=1e-1)
certified("chain_work", CHAIN, work=1e5)
certified("chain_work_supports", LARGE, work=1e7)
certified("chain_work_windows", LONG, work=1.2e5)
certified("tree_work", TREE, work=2e5)


def islands(name: str, model: Any, zeta: float) -> None:
    def prepare() -> Act:
        r = vs.infer(model, zeta=zeta)
        assert (r.islands >= 0).any()

        def act() -> Any:
            c = r.certify(threads=2)
            return c.error, c.lower, c.upper, c.wrong

        return act

    OPERATIONS[name] = prepare


islands("chain_certify", CHAIN, 0.6)
islands("chain_certify_few_labels", FEW, 0.6)
islands("tree_certify", SMALL_TREE, 0.6)

POINTS = np.concatenate([own.normal(size=(4000, 2)), own.normal(3, 1, size=(4000, 2))])
SYMBOLS = own.integers(0, 5, (8000, 1))
LENGTHS = [400] * 20


def gaussian() -> Any:
    model = hmm.GaussianHMM(3, "full", n_iter=3, random_state=0, init_params="stc", threads=2)
    model.means_ = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 3.0]])
    return model


def mixture() -> Any:
    model = hmm.GMMHMM(2, 2, n_iter=3, random_state=0, init_params="stw", threads=2)
    model.means_ = np.array([[[0.0, 0.0], [1.0, 2.0]], [[3.0, 3.0], [2.0, 2.0]]])
    model.covars_ = np.ones((2, 2, 2))
    return model


def hidden(make: Any, x: Any) -> Act:
    def act() -> Any:
        model = make().fit(x, lengths=LENGTHS)
        found = model.predict(x, lengths=LENGTHS), model.predict_proba(x, lengths=LENGTHS)
        return model.transmat_, list(model.monitor_.history), found

    return act


@operation
def hmm_gaussian() -> Act:
    return hidden(gaussian, POINTS)


@operation
def hmm_mixture() -> Act:
    return hidden(mixture, POINTS)


@operation
def hmm_categorical() -> Act:
    return hidden(lambda: hmm.CategoricalHMM(3, n_iter=3, random_state=0, threads=2), SYMBOLS)


@operation
def hmm_poisson() -> Act:
    return hidden(lambda: hmm.PoissonHMM(3, n_iter=3, random_state=0, threads=2), SYMBOLS)


def on_two_threads(name: str, graph: vs.FactorGraph, method: Any) -> None:
    def prepare() -> Act:
        def act() -> Any:
            r = vs.infer(graph, method=method, threads=2)
            return r.marginals, r.log_z

        return act

    OPERATIONS[name] = prepare


for schedule in ("residual", "rounds", "tree"):
    on_two_threads(f"two_bp_{schedule}", GRID, vs.BP(max_iterations=10, schedule=schedule))
on_two_threads("two_trw", GRID, vs.TRW(max_iterations=10))
on_two_threads("two_mean_field", GRID, vs.MeanField(max_iterations=10))
on_two_threads("two_structured_mean_field", GRID, vs.StructuredMeanField(max_iterations=5))
on_two_threads("two_structured_tree", CROSSED, vs.StructuredMeanField(max_iterations=10))
on_two_threads("two_bp_tree_factor", CROSSED, vs.BP(max_iterations=10))


@operation
def tree_factor() -> Act:
    """A tree alone: its best, what each arc costs, and the score of the best."""

    def act() -> Any:
        d = vs.decode(ARBORESCENCE, threads=2)
        found = vs.infer(ARBORESCENCE, threads=2).marginals
        return d.states, d.score, found, vs.log_prob(ARBORESCENCE, d.states)

    return act


@operation
def relax_candidates() -> Act:
    n = 9
    scores = np.random.default_rng(1).normal(size=(n, 2))

    def yielded(_: Any) -> Iterator[Table]:
        for i in range(n):
            for j in range(i):
                yield Table((j, i), np.diag([0.6, 0.3 * ((i + j) % 3)]))

    def act() -> Any:
        graph = vs.FactorGraph([2] * n)
        for v in range(n):
            graph.add([v], scores[v])
        r = vs.relax(graph, candidates=yielded, exhaustive=True, threshold=1e-2, max_rounds=3)
        return r.marginals, r.log_z, r.bounds().eta

    return act


questions("few_labels", FEW, best=3, samples=20)


def by_dual_decomposition(graph: vs.FactorGraph) -> Act:
    def act() -> Any:
        d = vs.decode(graph, method="ad3", threads=2)
        return d.states, d.score, d.upper

    return act


@operation
def decode_ad3() -> Act:
    return by_dual_decomposition(BINARY)


@operation
def decode_ad3_tree() -> Act:
    return by_dual_decomposition(CROSSED)
