"""The tree constraint by flows: MSFXM10, Fig. 3, with the conventions of Eqs. 15 to 19.

Each word k gets one unit of flow from the root. z_a says that arc a is on, f[a, k] that it carries
flow to k, and p[h, k] that k descends from h:

    exactly one of z[., m]                      each word has one head
    f[a, k] implies z[a]                        flow needs an arc
    p[m, k] = sum_h f[(h, m), k]                what enters m,
    p[h, k] = sum_m f[(h, m), k]   h != k       and leaves it again

p[0, k] = p[k, k] = 1 and f[(k, m), k] = 0 are known and have no variables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Imply, Or, Xor, XorOut
from valuesparse.models import FactorGraph

__all__ = ["add_flow", "add_nonprojective", "flow_names"]

Array = npt.NDArray[Any]


def _paths(n: int) -> list[tuple[int, int]]:
    return [(h, k) for k in range(1, n + 1) for h in range(1, n + 1) if h != k]


def _flows(arcs: Array, n: int) -> list[tuple[int, int]]:
    """Return (arc, word) of each flow."""
    heads = arcs[:, 0].tolist()
    return [(a, k) for k in range(1, n + 1) for a, h in enumerate(heads) if h != k]


def flow_names(arcs: Array, n: int) -> list[Any]:
    """Return the names of the variables behind those of the arcs: paths, then flows."""
    pairs = arcs.tolist()
    paths = [("path", h, k) for h, k in _paths(n)]
    return [*paths, *(("flow", *pairs[a], k) for a, k in _flows(arcs, n))]


def add_flow(graph: FactorGraph, arcs: Array, n: int, single_root: bool) -> None:
    """Add factors over arcs (A, 2) and the variables of `flow_names` that allow trees only."""
    paths, flows, words = _paths(n), _flows(arcs, n), range(1, n + 1)
    path = {pair: len(arcs) + i for i, pair in enumerate(paths)}
    first = len(arcs) + len(paths)
    heads, modifiers = arcs[:, 0].tolist(), arcs[:, 1].tolist()
    for word in words:
        graph.add(Xor(*np.flatnonzero(arcs[:, 1] == word).tolist()))
    if single_root and n:
        graph.add(Xor(*np.flatnonzero(arcs[:, 0] == 0).tolist()))
    into: dict[tuple[int, int], list[int]] = {(m, k): [] for m in words for k in words}
    out_of: dict[tuple[int, int], list[int]] = {(h, k): [] for h in (0, *words) for k in words}
    for variable, (a, k) in enumerate(flows, first):
        graph.add(Imply(variable, a))
        into[modifiers[a], k].append(variable)
        out_of[heads[a], k].append(variable)
    for (m, k), entering in into.items():
        graph.add(Xor(*entering) if m == k else XorOut(*entering, path[m, k]))
    for (h, k), leaving in out_of.items():
        if h == 0:
            graph.add(Xor(*leaving))
        elif h != k:
            graph.add(XorOut(*leaving, path[h, k]))


def add_nonprojective(graph: FactorGraph, arcs: Array, n: int, chosen: Array, first: int) -> None:
    """Add factors by which variables from `first` on say that arcs `chosen` are non-projective.

    That is an arc (h, m) that is on while some word k between h and m does not descend from h.
    """
    path = {pair: len(arcs) + i for i, pair in enumerate(_paths(n))}
    for variable, a in enumerate(chosen.tolist(), first):
        h, m = arcs[a].tolist()
        between = [path[h, k] for k in range(min(h, m) + 1, max(h, m))]
        graph.add(Imply(variable, a))
        graph.add(Or(variable, *between, negated=range(len(between) + 1)))
        for descends in between:
            graph.add(Or(a, descends, variable, negated=[0]))
