"""Joints of many sets of variables, and the entropy, of graphs with their evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr

from valuesparse import _graph
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._conditioning import ASKED, WHOLE, Case, answer
from valuesparse.inference._fitting import longer, slices_of
from valuesparse.inference._loopy import two_passes
from valuesparse.inference._memory import as_limit
from valuesparse.inference._network import network_of
from valuesparse.inference._read_out import full_joint
from valuesparse.inference._refusals import ADVICE, check_memory, impossible
from valuesparse.inference._search import Search, within
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference._watch import NOBODY
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors
from valuesparse.models._evidence import split
from valuesparse.threads import resolve

__all__ = ["entropy", "iter_joints", "joint", "room"]

Array = npt.NDArray[Any]

#: Error of an entropy that may come from rounding, relative where it is above one.
_UNSEEN = 1e-12


def joint(
    graph: FactorGraph, variables: list[int], threads: int | None, limit: int | None
) -> npt.NDArray[np.float64]:
    """Return the joint of a set of variables given the graph's evidence."""
    tree = JunctionTree(graph, memory_limit=limit)
    return tree.joint([graph.names[v] for v in variables], threads=threads)


def room(limit: int | None) -> int:
    """Return the bytes that a question about a result may use; `limit`: what the answer might."""
    return max(as_limit(None), limit or 0)


def iter_joints(
    graph: FactorGraph,
    sets: list[tuple[int, ...]],
    threads: int | None,
    limit: int,
    *,
    logs: bool = False,
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the joint of each set of variables given the graph's evidence, from one tree.

    With `logs` their logarithms, which are never too small, in at most half of the memory.
    """
    joints, _, _ = _asked(graph, sets, threads, limit, logs)
    return joints


def log_marginals(graph: FactorGraph, threads: int | None, limit: int) -> npt.NDArray[np.float64]:
    """Return the logarithms of all marginals given the graph's evidence, flat."""
    _, _, marginals = _asked(graph, [], threads, limit, True)
    return np.concatenate([*marginals, np.empty(0)])


def entropy(graph: FactorGraph, threads: int | None, limit: int) -> float:
    """Return the entropy of the graph's distribution given its evidence, in nats.

    log Z less the expected score, unless so much of that cancels that it would be seen; then by the
    chain rule, the entropy of each clique given what it shares with its parent.
    """
    if structured_factors(graph):
        held = split(graph, graph.evidence).held
        if network_of(graph).is_forest(held):
            found = two_passes(graph, "", graph.evidence, resolve(threads), None, None)
            return found.entropy()
    snapshot = snapshot_of(graph)
    scopes, tables = snapshot.scopes, snapshot.arrays()
    wide = [scope for scope in scopes if len(scope) > 1]
    joints, log_z, marginals = _asked(graph, wide, threads, limit)
    known = [((v,), x) for v, x in graph.evidence.items() if not isinstance(x, int)]
    expected, scale = 0.0, abs(log_z)
    for scope, table in [*zip(scopes, tables, strict=True), *known]:
        if len(scope) > 1:
            p = next(joints)
        elif scope:
            p = marginals[scope[0]]
        else:
            p = np.ones(())
        part = np.multiply(p, table, out=np.zeros(p.shape), where=p > 0.0)
        expected += float(part.sum())
        scale += float(np.abs(part).sum())
    value = max(log_z - expected, 0.0)
    if np.finfo(float).eps * scale <= _UNSEEN * max(1.0, value):
        return value
    return _by_cliques(graph, threads, limit)


def _by_cliques(graph: FactorGraph, threads: int | None, limit: int) -> float:
    """Return the entropy by the chain rule over the cliques: nothing cancels."""
    cliques, parent = JunctionTree(graph, memory_limit=limit)._tree.cliques()
    # Filled in with these cliques, the graph has a perfect order, which is the first one found.
    question = _Question(graph, [tuple(clique) for clique in cliques], 0.0, limit)
    # Tables of whole cliques are larger than what conditioning is there to spare.
    check_memory(question.tree, graph, question.limit, question.more)
    question.ask(threads)
    total = 0.0
    for q, above in enumerate(parent):
        table, order = question.tree.joint(q)
        shared = set(cliques[above]) if above >= 0 else set()
        own = tuple(axis for axis, v in enumerate(order) if v not in shared)
        total -= float(rel_entr(table, table.sum(axis=own, keepdims=True)).sum())
    return max(total, 0.0)


class _Question:
    """A tree that can be asked for the joints of sets of variables given the graph's evidence."""

    def __init__(
        self, graph: FactorGraph, sets: list[tuple[int, ...]], effort: float, limit: int
    ) -> None:
        self.graph, self.limit = graph, limit
        _, self.held, pairs = split(graph, graph.evidence)
        self.soft = _graph.Soft(graph.n_variables, sorted(pairs)) if pairs else None
        self.sets = sets
        self.compile(within(self.limit, effort=effort))
        alive = [len(self.tree.alive(v)) for v in range(graph.n_variables)]
        # Each is summed up once, and once more while it is.
        self.more = 16.0 * sum(math.prod(alive[v] for v in s) for s in sets)
        self.flat = np.empty(int(graph._cards.sum()))

    def compile(self, search: Search) -> None:
        """Look for a tree."""
        self.search, self.tree = search, _graph.Tree(snapshot_of(self.graph), self.sets)
        if self.tree.prepare(self.held, self.soft, search) >= 0:
            raise impossible(self.graph, bool(self.graph.evidence))

    def ask(self, threads: int | None, logs: bool = False) -> float:
        """Return log Z; the tree has joints, and `flat` the marginals."""
        dead, log_z = self.tree.infer(
            self.soft, resolve(threads), self.flat, None, None, None, logs
        )
        if dead:
            raise impossible(self.graph, bool(self.graph.evidence))
        return log_z


def _asked(
    graph: FactorGraph,
    sets: list[tuple[int, ...]],
    threads: int | None,
    limit: int,
    logs: bool = False,
) -> tuple[Iterator[Array], float, list[Array]]:
    """Return the joint of each of these sets, log Z and all marginals; or logarithms of them."""
    # Numbers of any size take twice the memory.
    question = _Question(graph, sets, 1.0, limit // 2 if logs else limit)
    gone = -np.inf if logs else 0.0
    more = longer(question.tree, graph, question.search, question.limit, ASKED)
    if more is not None:
        question.compile(more)
    tree = question.tree
    case = Case(tree, question.held, question.soft, question.search, NOBODY)
    slices = slices_of(case, graph, question.limit, ASKED, question.more)
    if isinstance(slices, str):
        raise MemoryLimitError(f"{slices}: {ADVICE}")
    apart = snapshot_of(graph).split
    if slices is WHOLE:
        log_z = question.ask(threads, logs)
        joints = (full_joint(tree, q, wanted, graph, gone) for q, wanted in enumerate(sets))
        return joints, log_z, apart(question.flat)
    total = answer(
        case, slices, resolve(threads), question.flat,
        lambda: (full_joint(tree, q, wanted, graph, gone) for q, wanted in enumerate(sets)),
        logs,
    )  # fmt: skip
    if not total.arrays:
        raise impossible(graph, bool(graph.evidence))
    return iter(total.arrays[1:]), total.log_z, apart(total.arrays[0])
