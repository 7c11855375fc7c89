"""Mean field: naive, and with the structure of a forest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _messages
from valuesparse.factors import Structured, Table
from valuesparse.inference._methods import BP, MeanField, StructuredMeanField
from valuesparse.inference._network import (
    Held,
    LoopyCall,
    MessageState,
    Network,
    network_of,
    of_factors,
    require_same_variables,
)
from valuesparse.inference._trw import best_forest
from valuesparse.inference._watch import NOBODY, Progress
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors
from valuesparse.results import GraphResult

__all__ = ["naive", "structured"]

Array = npt.NDArray[Any]

#: Messages before an ascent: enough to tell where it begins.
_PROBE = BP(damping=0.3, tolerance=1e-3, max_iterations=30)
#: Messages of a forest: up and down once.
_PASSES = BP(schedule="tree", max_iterations=1)


class NoForestError(ValueError):
    """No forest holds every structured factor."""


class ForestField(NamedTuple):
    """A distribution of structured mean field: its unnormalised logarithms, and its joints.

    Its factors stand one after the other: how many variables each has and how large its table is,
    all variables, all tables (of structured factors zeros), and these factors by position.
    """

    arity: Array
    size: Array
    scope: Array
    table: Array
    own: dict[int, Structured]
    node: Array
    joint: Array

    def factors(self) -> Iterator[tuple[tuple[int, ...], Array | Structured]]:
        """Yield the variables and the flat table of each factor."""
        scope = self.scope.tolist()
        v = x = 0
        for i, (k, size) in enumerate(zip(self.arity.tolist(), self.size.tolist(), strict=True)):
            yield tuple(scope[v : v + k]), self.own.get(i, self.table[x : x + size])
            v += k
            x += size

    def joints(self, model: FactorGraph) -> dict[int, Array]:
        """Return the joint of every factor of two and more variables, by its index."""
        return of_factors(model, network_of(model), self.joint)

    def incoming(self, model: FactorGraph) -> dict[int, Array]:
        """Return the messages (k, 2) to every structured factor of two variables and more."""
        own = self.graph(model)
        task = LoopyCall.of(own, {}, NOBODY)
        messages = np.zeros(task.network.native.entries)
        with Held(task.network) as native:
            native.weigh(None)
            task.run(native, messages, _PASSES)
        found = MessageState(task.network, task.local, messages, None).incoming(own)
        # In a forest two factors share one variable at most.
        index = {frozenset(f.scope): i for i, f in structured_factors(model).items()}
        scopes = {i: frozenset(own.factor(i).scope) for i in found}
        return {index[scopes[i]]: m for i, m in found.items() if len(scopes[i]) > 1}

    def graph(self, model: FactorGraph) -> FactorGraph:
        """Return the distribution itself: a graph without cycles."""
        other = model.derived()
        ends = np.cumsum(model.cardinalities).tolist()
        for v, (k, end) in enumerate(zip(model.cardinalities, ends, strict=True)):
            other.add(Table((v,), self.node[end - k : end]))
        for scope, table in self.factors():
            if isinstance(table, Structured):
                other.add(table)
            else:
                other.add(Table(scope, table.reshape([model.cardinalities[v] for v in scope])))
        return other


def _points(
    task: LoopyCall,
    native: _messages.Network,
    method: MeanField | StructuredMeanField,
    workers: int,
) -> Iterator[Array]:
    """Yield where naive mean field begins, a row each, and side by side.

    At `start`; if that has no bound, or is none, at beliefs, their mode and random points.
    """
    if method.start is not None:
        yield method.start.flat_marginals()[None].copy()
    rng = np.random.default_rng(method.seed)
    native.weigh(None)
    q = np.empty((2 + method.restarts, task.local.size))
    task.run(native, np.zeros(native.entries), _PROBE, q[0], workers=workers)
    rng.standard_exponential(out=q[2:])
    native.spread_starts(q)  # row 1: one configuration, which has a bound if it is possible
    yield q


def naive(
    task: LoopyCall,
    reason: str,
    method: MeanField | StructuredMeanField,
    workers: int,
    progress: Progress | None,
) -> GraphResult:
    """Ascend from `start`, or from beliefs and from random points; keep the best bound."""
    network, watch = task.network, task.watch
    best: tuple[Any, ...] | None = None
    if method.start is not None:
        require_same_variables(network, method.start)
    with Held(network, watch) as native:
        for q in _points(task, native, method, workers):
            row, bound, *rest = native.mean_field(
                task.local, q, method.max_iterations, method.tolerance, workers, watch.left(),
                progress, watch.late,
            )  # fmt: skip
            if best is None or bound > best[0]:
                best = (bound, *rest, q[row].copy())
            if bound > -np.inf:
                break
    assert best is not None
    bound, scale, converged, residuals, updates, q = best
    slack = task.slack(0, scale)
    if bound == -np.inf:
        reason += "; every point that was tried has mass where the graph forbids it: no bound"
    return GraphResult(
        task.model,
        task.evidence,
        None,
        bound + network.constant - slack if bound > -np.inf else -np.inf,
        "mean_field",
        reason,
        {"iterations": len(residuals), "messages": updates},
        converged=converged,
        residuals=residuals,
        flat=q,
    )


def structured(
    task: LoopyCall,
    reason: str,
    method: MeanField | StructuredMeanField,
    workers: int,
    progress: Progress | None,
) -> GraphResult:
    """Ascend among the distributions of a forest, from `start` or from naive mean field."""
    model, network, watch = task.model, task.network, task.watch
    if method.start is not None:
        forest, node, table = _first_field(model, network, method.start)
        starts = [(node, table)]
    else:
        forest = _strong_forest(task, workers)
        starts = [(task.local.copy(), _tables(network, forest))]
        if not network.structured():
            # The product of naive mean field, below which no step leads.
            product = naive(task, reason, method, workers, None)
            alone = _logs(product.flat_marginals())
            starts.insert(0, (alone, np.zeros(network.native.table_entries)))
    inside = set(forest.tolist())
    outside = [g for g in network.structured() if g not in inside]
    if outside and method.start is not None:
        factor = structured_of(model, network)[outside[0]]
        raise ValueError(f"start must have {factor!r} in its distribution, as the graph has it")
    if outside:
        raise _no_forest(model, network, outside[0])
    nodes, tables = (np.array(rows) for rows in zip(*starts, strict=True))
    with Held(network, watch) as native:
        best = native.structured(
            task.local, forest, nodes, tables, method.max_iterations, method.tolerance, workers,
            watch.left(), progress, watch.late,
        )  # fmt: skip
    if best is None:
        raise task.impossible()
    row, q, joints, forest, bound, scale, converged, residuals, updates = best
    if np.isnan(bound):
        raise _no_forest(model, network, network.structured()[0])
    for v, known in task.evidence.items():
        if isinstance(known, int):  # summed over a factor's states it may have lost a bit
            q[network.at[v] : network.at[v + 1]] = np.arange(network.cards[v]) == known
    node, table = nodes[row].copy(), tables[row].copy()
    if bound == -np.inf:
        reason += "; the distribution has mass where the graph forbids it: no bound"
    held = np.zeros(network.n_groups, dtype=bool)
    held[forest] = True
    arity, size = np.diff(native.ptr), np.diff(native.table_at)
    own = structured_of(model, network)
    field = ForestField(
        arity[held],
        size[held],
        native.scope[np.repeat(held, arity)],
        table[np.repeat(held, size)],
        {i: own[g] for i, g in enumerate(forest.tolist()) if g in own} if own else {},
        node,
        joints,
    )
    # Each factor outside the forest goes through a rounding for each table between its ends.
    slack = task.slack(0, scale) * (1 if len(forest) == network.n_groups else len(network.cards))
    return GraphResult(
        task.model,
        task.evidence,
        None,
        bound + network.constant - slack,
        "structured_mean_field",
        reason,
        {"iterations": len(residuals), "messages": updates},
        converged=converged,
        residuals=residuals,
        state=field,
        flat=q,
    )


def structured_of(model: FactorGraph, network: Network) -> dict[int, Any]:
    """Return the structured factors of a model by their group."""
    native = network.native
    return {g: model.factor(int(native.wide[native.group == g][0])) for g in network.structured()}


def _no_forest(model: FactorGraph, network: Network, group: int) -> NoForestError:
    index = int(network.native.wide[network.native.group == group][0])
    factor = structured_factors(model)[index]
    return NoForestError(
        "structured_mean_field needs a forest that holds every structured factor, and no table of "
        f"three variables and more that meets one twice: factor {index}, "
        f"{factor.described}, is on a cycle with others; method='bp' works"
    )


def _logs(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _tables(network: Network, groups: Array) -> Array:
    """Return the log-tables of some groups, one after the other with zeros for the others."""
    native = network.native
    some = np.isin(np.arange(network.n_groups), groups)
    return np.where(np.repeat(some, np.diff(native.table_at)), native.flat_tables(), 0.0)


def _strong_forest(task: LoopyCall, workers: int) -> Array:
    """Return the forest of the largest mutual information, by the beliefs of a few messages.

    The network keeps that of no evidence: it takes as long as a few steps of an ascent.
    """
    network = task.network
    if network.strongest is not None and not task.evidence:
        return network.strongest.copy()
    messages = np.zeros(network.native.entries)
    with Held(network, task.watch) as native:
        native.weigh(None)
        task.run(native, messages, _PROBE, workers=workers)
        forest = best_forest(task, *task.beliefs(native, messages, workers)[:2])
    if not task.evidence:
        network.strongest = forest.copy()
    return forest


def _first_field(
    model: FactorGraph, network: Network, start: GraphResult
) -> tuple[Array, Array, Array]:
    """Return a forest and the unnormalised logarithms of the distribution of `start`."""
    require_same_variables(network, start)
    state = start.state
    if isinstance(state, ForestField):
        node = state.node.copy()
        parts = list(state.factors())
    elif start.method == "mean_field":
        return (
            np.empty(0, dtype=np.int64),
            _logs(start.flat_marginals()),
            np.zeros(network.native.table_entries),
        )
    elif start.exact:
        other = network_of(start.part())
        fixed = structured_of(start.part(), other)
        parts = [
            (other.scope(g), fixed.get(g, other.native.table(g).ravel()))
            for g in range(other.n_groups)
        ]
        node = other.with_evidence(start.evidence)
    else:
        raise ValueError(
            "start must be a result of structured or naive mean field, or an exact one of a graph "
            f"without cycles, got one of method {start.method!r}"
        )
    known = structured_of(model, network)
    # Structured factors of other kinds are others, tables of the same variables are one factor.
    place: dict[tuple[tuple[int, ...], str], list[int]] = {}
    for g in reversed(range(network.n_groups)):  # alike ones are taken in their order
        place.setdefault((tuple(sorted(network.scope(g))), repr(known.get(g))), []).append(g)
    flat = np.zeros(network.native.table_entries)
    ends = network.native.table_at
    forest = []
    for scope, table in parts:
        kind = repr(table if isinstance(table, Structured) else None)
        groups = place.get((tuple(sorted(scope)), kind))
        if not groups:
            raise ValueError(
                f"start has a factor of the variables {list(scope)}, and the graph has none"
            )
        group = groups.pop()
        forest.append(group)
        if isinstance(table, Structured):
            continue
        own = network.scope(group)
        shaped = table.reshape([network.cards[v] for v in scope])
        flat[ends[group] : ends[group + 1]] = shaped.transpose(
            [scope.index(v) for v in own]
        ).ravel()
    chosen = np.array(forest, dtype=np.int64)
    if network.forest(chosen).size != chosen.size:
        raise ValueError("start must be a result of a graph without cycles")
    return chosen, node, flat
