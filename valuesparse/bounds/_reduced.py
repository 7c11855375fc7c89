"""A factor graph with its evidence worked in: what every bound starts from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._rounding import EPS
from valuesparse.inference._graphs import choose
from valuesparse.inference._memory import limit_of_tables
from valuesparse.inference._network import network_of
from valuesparse.inference._refusals import impossible
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors
from valuesparse.models._evidence import Evidence, Known, known_of
from valuesparse.models.factor_graph import Derived
from valuesparse.results._factors import EXACT

__all__ = ["FIRST", "THREE", "Reduced", "Tables", "graph_of", "largest", "plan_of", "reduce_graph"]

Floats = npt.NDArray[np.float64]
Tables = list[tuple[tuple[int, ...], Floats]]

#: Efforts of a search for an elimination order: the first rule's, or the smallest of the three
#: rules', without restarts.
FIRST, THREE = 0.0, 1e-9


@dataclass(frozen=True)
class Reduced:
    """The free variables, renumbered; tables of one scope are added up.

    Attributes
    ----------
    variables : list of int
        Number, in the graph, of each free variable.
    constant : float
        Log-potential of the factors that the evidence decides.
    unary : list of ndarray
        The log-potentials of every free variable.
    tables : list of (scope, ndarray)
        Tables of two or more free variables, each scope ascending and once.
    magnitude : float
        Sum of the largest finite absolute entries of everything: bounds every partial score.
    entries : int
        Entries of all tables.
    merged : float
        The most that adding up tables of one scope may have rounded away, in log Z.
    """

    variables: list[int]
    constant: float
    unary: list[Floats]
    tables: Tables
    magnitude: float
    entries: int
    merged: float

    @property
    def cards(self) -> list[int]:
        """Number of states of each free variable."""
        return [len(u) for u in self.unary]

    @property
    def has_zeros(self) -> bool:
        """Whether any table forbids anything."""
        arrays = [*self.unary, *(t for _, t in self.tables)]
        return not all(np.isfinite(a).all() for a in arrays)

    @property
    def pairwise(self) -> bool:
        """Whether no table has more than two free variables."""
        return all(len(scope) == 2 for scope, _ in self.tables)


def reduce_graph(
    graph: FactorGraph, evidence: Evidence | Known | None, limit: int | None = None
) -> Reduced:
    """Return the model of the variables that the evidence leaves open.

    `limit`: bytes of tables that may be made for it, where these are more than the default.

    Raises
    ------
    ValueError
        If a structured factor is too large for a table.
    """
    known = known_of(graph, evidence)
    for index, factor in structured_factors(graph).items():
        if not factor.has_table:
            raise ValueError(
                f"factor {index}, {factor.described}, has no table, which these bounds need; "
                f"{_instead(graph, known)}"
            )
    given = known.given
    held: dict[int, int] = {v: x for v, x in given.items() if isinstance(x, int)}
    free = [v for v in range(graph.n_variables) if v not in held]
    number = {v: i for i, v in enumerate(free)}
    unary = [np.zeros(graph.cardinalities[v]) for v in free]
    decided: list[float] = []
    magnitude, entries, rounding = 0.0, 0, 0.0
    merged: dict[tuple[int, ...], Floats] = {}
    snapshot = snapshot_of(graph, limit_of_tables(limit))
    for own, table in zip(snapshot.scopes, snapshot.arrays(), strict=True):
        part, scope = np.asarray(table), own
        if held:
            part = part[tuple(held.get(v, slice(None)) for v in own)]
            scope = tuple(number[v] for v in own if v not in held)
        magnitude += largest(part)
        entries += part.size
        if not scope:
            decided.append(float(part))
        elif len(scope) == 1:
            unary[scope[0]] = unary[scope[0]] + part
            rounding += EPS * largest(unary[scope[0]])
        else:
            key = tuple(sorted(scope))
            if key != scope:
                part = part.transpose(sorted(range(len(scope)), key=scope.__getitem__))
            if key in merged:
                merged[key] = merged[key] + part
                rounding += EPS * largest(merged[key])
            else:
                merged[key] = part.copy()
    for v, known in given.items():
        if not isinstance(known, int):
            unary[number[v]] = unary[number[v]] + known
            magnitude += largest(known)
            rounding += EPS * largest(unary[number[v]])
    constant = math.fsum(decided)
    magnitude += float(np.log([len(u) for u in unary]).sum()) if unary else 0.0
    if constant == -np.inf or any(u.max() == -np.inf for u in unary):
        raise impossible(graph, bool(given))
    tables = list(merged.items())
    return Reduced(free, constant, unary, tables, magnitude, entries, rounding)


def _instead(graph: FactorGraph, known: Known) -> str:
    """Say what finds or bounds log Z of a graph with a structured factor without a table."""
    exact = choose(graph, evidence=known).method in EXACT
    words = "infer(graph) has log Z exactly; " if exact else ""
    network = network_of(graph)
    own = network.structured()
    # Mean field needs them in one forest, and no table beside it that meets one of them twice.
    wide = np.flatnonzero(np.diff(network.native.ptr) > 2)
    whole = np.concatenate([own, wide[~np.isin(wide, own)]]).astype(np.int64)
    dual = "valuesparse.inference.trw_dual_bound"
    if network.forest(whole).size < whole.size:
        return f"{words}{dual} bounds log Z from above"
    field = "infer(method='structured_mean_field')"
    return f"{words}{field} bounds log Z from below, and {dual} from above"


def graph_of(unary: list[Floats], tables: Tables) -> FactorGraph:
    """Return these tables as a graph, for the exact engines."""
    graph = Derived([len(u) for u in unary])
    for v, u in enumerate(unary):
        graph.add((v,), u)
    for scope, table in tables:
        graph.add(scope, table)
    return graph


def plan_of(
    graph: FactorGraph, evidence: dict[int, int] | None = None, effort: float = THREE
) -> JunctionTree:
    """Return a junction tree after a short search: bounds plan a hundred of them."""
    return JunctionTree(graph, evidence=evidence, effort=effort)


def largest(table: Any) -> float:
    """Return the largest finite magnitude of a table without NaN and +inf."""
    return _forest.weigh(np.ascontiguousarray(table, dtype=np.float64))[1]
