"""Pieces of chains and trees, asked one by one, in float32 and in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse.errors import InfeasibleError
from valuesparse.inference._memory import empty
from valuesparse.inference._pieces import Piece, sizes_of, some
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, Tree

__all__ = [
    "LEAST_LABELS",
    "NO_COUNTS",
    "add_counts",
    "ask_piece",
    "in_types",
    "pays_single",
    "require_feasible",
]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Fewer labels, or less work in all, gain less from float32 than changing the type costs.
LEAST_LABELS, _LEAST_WORK = 32, 2e6
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
#: Which counts of components sum up; of the others, the rounds, the largest counts.
_SUMMED = np.array([True] * 6 + [False] + [True] * 3)
#: Those of no component.
NO_COUNTS: Integers = np.zeros(_SUMMED.size, dtype=np.int64)


def require_feasible(model: Chain | Tree, infeasible: tuple[int, int] | None) -> None:
    if infeasible is None:
        return
    if isinstance(model, Chain):
        raise InfeasibleError(*infeasible)
    raise InfeasibleError(*infeasible, root=int(model.roots[infeasible[0]]))


def ask_piece(
    model: Chain | Tree, part: Piece, workers: int, log_z: Floats, marginals: Array, **wanted: Any
) -> tuple[int, ...]:
    """Fill the answers of a piece, and return its counts; errors are in the model's numbering."""
    infeasible, counts = native.infer(part.forest, workers, log_z, marginals, **wanted)
    if infeasible is not None:
        component, at = infeasible
        at = at if isinstance(model, Chain) else part.variable(at)
        require_feasible(model, (int(part.components[component]), at))
    return counts


def add_counts(counts: Integers, found: tuple[int, ...]) -> Integers:
    """Return the counts of some components with those of others."""
    return np.where(_SUMMED, counts + found, np.maximum(counts, found))


def pays_single(model: Chain | Tree) -> bool:
    """Return whether float32 is faster for a model of float64 than changing the type costs."""
    sizes = sizes_of(model)
    price = 2.0 * model.n_labels**2 * max(0, int(sizes.sum()) - sizes.size)
    wide = model.n_labels >= LEAST_LABELS and price >= _LEAST_WORK
    return wide and model.forest.listed is None


def in_types(
    model: Chain | Tree, workers: int, watch: Watch, single: npt.NDArray[np.bool_]
) -> tuple[Array, Floats, Integers]:
    """Return marginals, log Z and counts of exact passes, in float32 where `single` says so."""
    n, k, count = model.forest.shape
    marginals, log_z = empty((n, k), model.dtype), np.empty(count)
    counts, done = NO_COUNTS, 0
    for kind, chosen in ((_SINGLE, single), (_DOUBLE, ~single)):
        components = np.flatnonzero(chosen)
        if components.size == 0:
            continue
        part = some(model, components, kind)
        direct = part.forest is model.forest
        rows = marginals if direct else empty((part.size, k), kind)
        own = log_z if direct else np.empty(components.size)
        found = ask_piece(
            model, part, workers, own, rows, islands=np.full(part.size, -1, dtype=np.int32),
            deadline=watch.left(), progress=watch.part(done, done + part.size, n), late=watch.late,
        )  # fmt: skip
        if not direct:
            marginals[part.variables], log_z[components] = rows, own
        counts = add_counts(counts, found)
        done += part.size
    return marginals, log_z, counts
