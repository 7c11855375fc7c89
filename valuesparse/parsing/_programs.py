"""The linear program of a sentence: parser #2 of MSFXM10."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.inference import AD3, decode
from valuesparse.models import FactorGraph
from valuesparse.parsing._graph import graph

__all__ = ["best_point", "parts_graph"]

Array = npt.NDArray[Any]

# Learning wants no more digits, and sees each sentence many times.
_EFFORT = AD3(tolerance=1e-4, max_iterations=1000)


def parts_graph(
    n: int, kinds: Array, nodes: Array, potentials: Array, constraint: Any, single_root: bool
) -> FactorGraph:
    """Return the factor graph of parts (P,), (P, 3), (P,) of a sentence of n words."""
    scores = np.full((n + 1, n + 1), -np.inf)
    arcs = kinds == 0
    scores[nodes[arcs, 0], nodes[arcs, 1]] = potentials[arcs]
    siblings, grandparents = ((nodes[kinds == k], potentials[kinds == k]) for k in (1, 2))
    return graph(scores, siblings, grandparents, constraint, single_root)


def best_point(
    n: int, kinds: Array, nodes: Array, potentials: Array, constraint: str, single_root: bool
) -> Array:
    """Return the parts (P,) of the point that scores best in the local polytope of a sentence.

    It is the best tree where it is integral. Pairs follow from their arcs: the most that these
    allow where their potential is above 0, and the least elsewhere.

    Raises
    ------
    InfeasibleError
        Potentials of −inf leave no tree.
    """
    if n == 0:
        return np.zeros(0)
    on = np.zeros((n + 1, n + 1))
    there = np.full((n + 1, n + 1), False)
    arcs = kinds == 0
    heads, modifiers = nodes[arcs, 0], nodes[arcs, 1]
    there[heads, modifiers] = potentials[arcs] > -np.inf
    pairs = np.flatnonzero(~arcs)
    # (h, m), (h, s) or (g, h), (h, m)
    one = nodes[pairs, 0], nodes[pairs, 1]
    other = np.where(kinds[pairs] == 1, nodes[pairs, 0], nodes[pairs, 1]), nodes[pairs, 2]
    said = there[one] & there[other] & (potentials[pairs] != 0.0)
    kept = np.concatenate([np.flatnonzero(arcs), pairs[said]])
    made = parts_graph(n, kinds[kept], nodes[kept], potentials[kept], constraint, single_root)
    found = decode(made, method=_EFFORT)
    assert found.relaxed is not None
    heads, modifiers = np.array(made.names).T
    on[heads, modifiers] = [p[1] for p in found.relaxed]
    point = np.zeros(len(kinds))
    point[arcs] = on[nodes[arcs, 0], nodes[arcs, 1]]
    most, least = np.minimum(on[one], on[other]), np.maximum(on[one] + on[other] - 1.0, 0.0)
    point[pairs] = np.where(potentials[pairs] > 0.0, most, least)
    return point
