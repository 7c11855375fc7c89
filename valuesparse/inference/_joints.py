"""Joints of many sets of variables, and the entropy, of graphs with their evidence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._conditioning import (
    ASKED,
    WHOLE,
    Question,
    answer,
    longer,
    slices_of,
)
from valuesparse.inference._loopy import two_passes
from valuesparse.inference._memory import as_limit
from valuesparse.inference._network import network_of
from valuesparse.inference._questions import full_joints
from valuesparse.inference._refusals import JOINTS, check_memory, impossible
from valuesparse.inference._search import Search, within
from valuesparse.inference._snapshots import magnitude_made, snapshot_of
from valuesparse.inference._watch import NOBODY
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors
from valuesparse.models._evidence import split
from valuesparse.threads import resolve

__all__ = ["entropy", "iter_joints", "joint", "magnitude", "memory_allowed"]

Array = npt.NDArray[Any]

#: Rounding error that an entropy may have, relative where it is above one.
_UNSEEN = 1e-12


def joint(
    graph: FactorGraph, variables: list[int], threads: int | None, limit: int | None
) -> npt.NDArray[np.float64]:
    """Return the joint of a set of variables given the graph's evidence."""
    tree = JunctionTree._of_call(graph, None, limit, NOBODY)
    found = tree.joint([graph.names[v] for v in variables], threads=threads)
    tree._keep()
    return found


def memory_allowed(limit: int | None) -> int:
    """Return the bytes that a question about a result may use; `limit`: those its answer might."""
    return max(as_limit(None), limit or 0)


def magnitude(graph: FactorGraph) -> float:
    """Return the sum of the largest magnitudes of all factors, as far as their tables were made."""
    return graph.magnitude + magnitude_made(graph)


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

    H = log Z - E[score]. Where too many digits of that cancel, H = sum of H(C | S) over cliques C,
    S the variables that C shares with its parent.
    """
    if structured_factors(graph):
        held = split(graph, graph.evidence).held
        if network_of(graph).is_forest(held):
            found = two_passes(graph, "", graph.evidence, resolve(threads))
            return found.entropy()
    tree = JunctionTree._of_call(graph, None, limit, NOBODY)
    log_z, score, magnitude = tree._expected(resolve(threads), NOBODY)
    tree._keep()
    value = max(log_z - score, 0.0)
    if np.finfo(float).eps * (abs(log_z) + magnitude) <= _UNSEEN * max(1.0, value):
        return value
    return _by_cliques(graph, threads, limit)


def _by_cliques(graph: FactorGraph, threads: int | None, limit: int) -> float:
    """Return the entropy by the chain rule over the cliques: nothing cancels."""
    from scipy.special import rel_entr

    cliques, parent = JunctionTree(graph, memory_limit=limit)._tree.cliques()
    # Filled in with these cliques, the graph has a perfect order, which is the first one found.
    sets = [tuple(clique) for clique in cliques]
    question = _compile(graph, sets, within(limit, effort=0.0))
    tree = question.tree
    # Tables of whole cliques are larger than the memory that conditioning saves.
    check_memory(tree, graph, limit, _table_bytes(tree, sets))
    _require(graph, answer(question, WHOLE, resolve(threads), _flat(graph)).arrays)
    total = 0.0
    for q, above in enumerate(parent):
        table, order = tree.joint(q)
        shared = set(cliques[above]) if above >= 0 else set()
        own = tuple(axis for axis, v in enumerate(order) if v not in shared)
        total -= float(rel_entr(table, table.sum(axis=own, keepdims=True)).sum())
    return max(total, 0.0)


def _compile(graph: FactorGraph, sets: list[tuple[int, ...]], search: Search) -> Question:
    """Return a tree for the joints of these sets, prepared for the graph's evidence."""
    tree = _junction.CliqueTree(snapshot_of(graph), sets)
    _, held, pairs = split(graph, graph.evidence)
    soft = _junction.Soft(graph.n_variables, sorted(pairs)) if pairs else None
    _require(graph, tree.prepare(held, soft, search) < 0)
    return Question(tree, held, soft, search, NOBODY)


def _require(graph: FactorGraph, possible: object) -> None:
    if not possible:
        raise impossible(graph, bool(graph.evidence))


def _flat(graph: FactorGraph) -> Array:
    """Return memory for all marginals."""
    return np.empty(int(graph.cards.sum()))


def _table_bytes(tree: _junction.CliqueTree, sets: list[tuple[int, ...]]) -> float:
    """Return the bytes of the joints: each is summed up once, and once more while it is."""
    alive = {v: len(tree.alive(v)) for v in set(itertools.chain.from_iterable(sets))}
    return 16.0 * sum(math.prod([alive[v] for v in s]) for s in sets)


def _asked(
    graph: FactorGraph,
    sets: list[tuple[int, ...]],
    threads: int | None,
    limit: int,
    logs: bool = False,
) -> tuple[Iterator[Array], float, list[Array]]:
    """Return the joint of each of these sets, log Z and all marginals; or logarithms of them."""
    # Numbers of any size take twice the memory.
    limit = limit // 2 if logs else limit
    question = _compile(graph, sets, within(limit))
    more = longer(question.tree, graph, question.search, limit, ASKED)
    if more is not None:
        question = _compile(graph, sets, more)
    tree, gone = question.tree, -np.inf if logs else 0.0
    slices = slices_of(question, graph, limit, ASKED, _table_bytes(tree, sets))
    if isinstance(slices, str):
        raise MemoryLimitError(f"{slices}: {JOINTS}")

    def tables() -> Iterator[Array]:
        return full_joints(tree, sets, graph, gone)

    # With a single slice, each table is made when the caller takes it.
    kept = tuple if slices is WHOLE else tables
    total = answer(question, slices, resolve(threads), _flat(graph), kept, logs)
    _require(graph, total.arrays)
    joints = tables() if slices is WHOLE else iter(total.arrays[1:])
    return joints, total.log_z, _junction.split(total.arrays[0], graph.cards)
