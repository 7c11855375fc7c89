"""Trees: what each public function does with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _tree
from valuesparse._validation import as_states
from valuesparse.errors import InfeasibleError
from valuesparse.inference._expected import expected
from valuesparse.inference._memory import empty
from valuesparse.inference._watch import Watch, too_late
from valuesparse.models import Tree
from valuesparse.results._tree import TreeResult
from valuesparse.threads import resolve

METHODS = ("auto", "exact", "islands")

Array = npt.NDArray[Any]


def infer(
    model: Tree,
    zeta: float,
    rounds: int,
    workers: int,
    method: str,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
) -> TreeResult:
    """See :func:`valuesparse.infer`."""
    marginals = empty((model.n_nodes, model.n_labels), model.dtype)
    log_z = np.zeros(model.n_trees)
    islands = np.full(model.n_nodes, -1, dtype=np.int32)
    late = too_late(deadline)
    infeasible, counts = _tree.infer(
        model.forest, workers, zeta, rounds, marginals, log_z, islands,
        None, None, None, deadline, progress, late,
    )  # fmt: skip
    _require_feasible(model, infeasible)
    return TreeResult(model, marginals, log_z, islands, zeta, counts)


def log_z(model: Tree, workers: int, memory_limit: int | None = None) -> npt.NDArray[np.float64]:
    """Return ``log_z`` (n_trees,) alone: upward messages, kept for a block of nodes at a time."""
    found: npt.NDArray[np.float64] = np.zeros(model.n_trees)
    infeasible, _ = _tree.infer(
        model.forest, workers, 1.0, 0, None, found, None,
        None, None, None, None, None, None,
    )  # fmt: skip
    _require_feasible(model, infeasible)
    return found


def _require_feasible(model: Tree, infeasible: tuple[int, int] | None) -> None:
    if infeasible is None:
        return
    tree, node = infeasible
    raise InfeasibleError(tree, node, root=int(model.roots[tree]))


def decode(
    model: Tree, k: int, workers: int, watch: Watch
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return states (1, n) and scores (1, n_trees)."""
    if k != 1:
        raise ValueError(f"n_best={k}: only chains have an n-best list; leave n_best out for trees")
    states = np.empty((1, model.n_nodes), dtype=np.int64)
    score = np.zeros((1, model.n_trees))
    n = model.n_nodes
    rest = watch.left(), watch.part(0, n, n), watch.late
    _require_feasible(model, _tree.decode(model.forest, workers, states[0], score[0], *rest))
    watch.finish(n)
    return states, score


def sample(
    model: Tree, count: int, generator: np.random.Generator, workers: int, watch: Watch
) -> npt.NDArray[np.int64]:
    """Return (count, n) samples."""
    n = model.n_nodes
    states = np.empty((count, n), dtype=np.int64)
    # Blocks bound the memory of the uniforms; drawing them in order keeps samples reproducible.
    block = max(1, 1_000_000 // max(1, model.n_nodes))
    for first in range(0, max(count, 1), block):
        rows = states[first : first + block]
        uniforms = generator.random(rows.shape)
        size = rows.shape[0]
        rest = (
            watch.left(), watch.part(first * n, (first + size) * n, count * n), watch.late,
        )  # fmt: skip
        _require_feasible(model, _tree.sample(model.forest, size, uniforms, rows, workers, *rest))
    watch.finish(count * n)
    return states


def score(model: Tree, states: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the sum of log-potentials of given states, per tree (n_trees,)."""
    total: npt.NDArray[np.float64] = np.empty(model.n_trees)
    _tree.score(model.forest, as_states(states, model.n_nodes, model.n_labels), total)
    return total


def table_of(model: Tree, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return which table of a 3-D `pairwise` the edges above `nodes` have."""
    return nodes if model.edge_type is None else model.edge_type[nodes]


def log_messages(model: Tree, threads: int | None) -> tuple[Array, Array, Array]:
    """Return what edge marginals are made of.

    ``exp(left[i, l] + t(l, k) + right[i, k] - mass[i])`` on the edge from the parent of i to i.
    """
    n, k = model.n_nodes, model.n_labels
    marginals = empty((n, k), model.dtype)
    left, right, mass = empty((n, k), float), empty((n, k), float), np.empty(n)
    infeasible, _ = _tree.infer(
        model.forest, resolve(threads), 1.0, 0, marginals, np.zeros(model.n_trees), None,
        left, right, mass, None, None, None,
    )  # fmt: skip
    _require_feasible(model, infeasible)
    return left, right, mass


def pairwise(model: Tree, threads: int | None, nodes: npt.NDArray[np.int64]) -> Array:
    """Return the edge marginals of the edges above `nodes`, (m, K, K)."""
    k = model.n_labels
    answer = empty((nodes.size, k, k), model.dtype)
    row = np.full(model.n_nodes, -1, dtype=np.int64)
    row[nodes] = np.arange(nodes.size)
    infeasible, _ = _tree.infer(
        model.forest, resolve(threads), 1.0, 0, None, np.zeros(model.n_trees), None,
        None, None, None, None, None, None, None, None, answer, row,
    )  # fmt: skip
    _require_feasible(model, infeasible)
    return answer


def expectations(model: Tree, threads: int | None) -> npt.NDArray[np.float64]:
    """Return the sum of edge marginals, (K, K), or of those of each type, (types, K, K)."""
    k = model.n_labels
    types = () if model.edge_type is None else (model.pairwise.shape[0],)
    sums: npt.NDArray[np.float64] = np.zeros((*types, k, k))
    infeasible, _ = _tree.infer(
        model.forest, resolve(threads), 1.0, 0, None, np.zeros(model.n_trees), None,
        None, None, None, None, None, None, sums,
    )  # fmt: skip
    _require_feasible(model, infeasible)
    return sums


def expected_scores(
    model: Tree, threads: int | None, marginals: Array, fill: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return ``log_z``, expected scores, and how far rounding is felt in these; (n_trees,) each.

    `fill`: the marginals are computed, too.
    """
    found, energies = np.zeros(model.n_trees), np.empty(model.n_nodes)
    infeasible, _ = _tree.infer(
        model.forest, resolve(threads), 1.0, 0, marginals if fill else None, found, None,
        None, None, None, None, None, None, None, energies,
    )  # fmt: skip
    _require_feasible(model, infeasible)
    return found, *expected(_tree, model.forest, marginals, energies, model.pairwise, model.n_trees)
