"""Pieces of chains and trees, asked one by one, in float32 and in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse._buffers import empty
from valuesparse.errors import InfeasibleError
from valuesparse.inference import _certified
from valuesparse.inference._pieces import Piece, sizes_of, some
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, Tree
from valuesparse.threads import simd_level

__all__ = [
    "NO_COUNTS",
    "add_counts",
    "ask_piece",
    "compares_single",
    "fitting",
    "in_types",
    "pays_single",
    "require_feasible",
    "runs",
]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Fewer labels, or less work in all, gain next to nothing from float32.
_LEAST_LABELS, _LEAST_IN_TREES, _LEAST_WORK = 6, 16, 1e6
#: So do those where there are not enough sequences for one in each lane of float32: by level.
_MANY, _LEAST_OF_FEW = 32, {"x86-64-v4": 32}
_LEAST_ELSEWHERE = 20
_DOUBLE = np.dtype(np.float64)
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


def add_counts(counts: Integers | tuple[int, ...], found: tuple[int, ...]) -> Integers:
    """Return the counts of some components with those of others."""
    return np.where(_SUMMED, np.add(counts, found), np.maximum(counts, found))


def pays_single(model: Chain | Tree) -> bool:
    """Return whether float32 is faster for a model of float64."""
    n, k, count = model.forest.shape
    price = 2.0 * k**2 * max(0, n - count)
    least = _LEAST_IN_TREES
    if isinstance(model, Chain):
        few = _LEAST_OF_FEW.get(simd_level(), _LEAST_ELSEWHERE)
        least = _LEAST_LABELS if _in_lanes(model) else few
    return k >= least and price >= _LEAST_WORK and model.forest.listed is None


def compares_single(model: Chain | Tree) -> bool:
    """Return the same where marginals are compared, and no wide ones are written."""
    return (isinstance(model, Chain) and _in_lanes(model)) or pays_single(model)


def _in_lanes(model: Chain) -> bool:
    """Return whether passes have a sequence in each lane, if there are few labels."""
    forest, k = model.forest, model.n_labels
    shared = forest.listed is None and forest.entries <= k * k
    return shared and model.n_sequences >= _MANY


def fitting(model: Chain | Tree, tol: float) -> npt.NDArray[np.bool_] | bool:
    """Return which components err by at most `tol` in float32, or whether all do, or none."""
    longest = _certified.longest_single(model, tol)
    if longest < 1 or longest >= model.forest.longest:
        return longest >= 1
    fits: npt.NDArray[np.bool_] = sizes_of(model) <= longest
    return fits


def runs(single: npt.NDArray[np.bool_] | bool) -> Iterator[tuple[bool, Integers | None]]:
    """Yield whether passes go in float32, and for which components; None: for all."""
    if isinstance(single, bool):
        yield single, None
        return
    for small, chosen in ((True, single), (False, ~single)):
        components = np.flatnonzero(chosen)
        if components.size:
            yield small, None if components.size == single.size else components


def in_types(
    model: Chain | Tree, workers: int, watch: Watch, single: npt.NDArray[np.bool_] | bool
) -> tuple[Array, Floats, Integers | tuple[int, ...]]:
    """Return marginals, log Z and counts of exact passes, in float32 where `single` says so.

    Scores in float64 are narrowed as they are read, and marginals widened as they are written.
    """
    n, k, count = model.forest.shape
    marginals, log_z = empty((n, k), model.dtype), np.empty(count)
    counts: Integers | tuple[int, ...] | None = None
    done = 0
    for small, components in runs(single):
        size = n if components is None else int(sizes_of(model)[components].sum())
        asked: dict[str, Any] = {
            "deadline": watch.left(), "progress": watch.part(done, done + size, n),
            "late": watch.late,
        }  # fmt: skip
        if small or model.dtype == _DOUBLE:
            infeasible, found = native.infer(
                model.forest, workers, log_z, marginals, narrow=small and model.dtype == _DOUBLE,
                components=components, **asked,
            )  # fmt: skip
            require_feasible(model, infeasible)
        else:
            chosen = np.arange(count) if components is None else components
            part = some(model, chosen, _DOUBLE)
            rows, own = empty((part.size, k), _DOUBLE), np.empty(chosen.size)
            found = ask_piece(model, part, workers, own, rows, **asked)
            marginals[part.variables], log_z[chosen] = rows, own
        counts = found if counts is None else add_counts(counts, found)
        done += size
    return marginals, log_z, NO_COUNTS if counts is None else counts
