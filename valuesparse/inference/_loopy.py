"""Loopy inference on factor graphs: messages that go round cycles.

A layout, made once per graph, numbers factors of two and more variables and their messages; tables
of one variable and evidence are summed into one log-vector per variable. See `ext/loopy/engine.h`
for the updates.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from valuesparse import _chain, _messages
from valuesparse._validation import as_count
from valuesparse.factors import Factor, Feature, Structured, Table
from valuesparse.inference import _forests
from valuesparse.inference._methods import (
    BP,
    SCHEDULES,
    TRW,
    Loopy,
    MeanField,
    StructuredMeanField,
    refuse,
)
from valuesparse.inference._refusals import impossible
from valuesparse.inference._snapshots import require_room
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import Stamp
from valuesparse.models._evidence import Evidence, soft_sum
from valuesparse.results import GraphResult
from valuesparse.threads import resolve

__all__ = ["DualBound", "decode", "infer", "trw_dual_bound"]

Array = npt.NDArray[Any]

# Of max-product "trw".
_DECODING_FORESTS = 8

# The log of a zero in messages that were computed for other evidence: it may not be one any more.
_DOUBTED = -30.0


class Network:
    """Numbers and native engine of one graph; made once, used by every call."""

    __slots__ = (
        "at", "cards", "constant", "engine", "local", "lock", "magnitude", "n_factors", "parts",
    )  # fmt: skip

    def __init__(self, graph: FactorGraph, watch: Watch = NOBODY) -> None:
        self.cards = graph._cards
        require_room(graph)
        self.n_factors = graph.n_factors
        # Of a graph without factors: one that kept its graph would wait for the garbage collector.
        empty = graph._part(np.empty(0, dtype=np.int64))
        made: dict[int, float] = {}

        def table_of(factor: Factor, index: int) -> Array | _messages.Structured:
            if isinstance(factor, Structured):
                return factor._native
            table: Array = empty._table_of(factor, index)
            if not isinstance(factor, Feature):
                made[index] = _chain.weigh(table)[1]
            return table

        self.parts = (self.cards, *graph._stacked(), Table, table_of)
        self.engine = _messages.Network(*self.parts, watch.left(), watch.late)
        self.at = self.engine.at
        self.local = self.engine.local
        self.constant = self.engine.constant
        #: Of all factors, before those of one scope are added up.
        self.magnitude = graph._sum + sum(made.values())
        self.lock = threading.Lock()

    @property
    def n_groups(self) -> int:
        """Number of tables that send messages: those of one set of variables are one."""
        return len(self.engine.ptr) - 1

    def scope(self, group: int) -> tuple[int, ...]:
        """Return the variables of a group, in the order of its axes."""
        engine = self.engine
        return tuple(engine.scope[engine.ptr[group] : engine.ptr[group + 1]].tolist())

    def forest(self, order: Array, watch: Watch = NOBODY) -> Array:
        """Return a maximal forest: groups taken greedily in this order."""
        engine = self.engine
        return _messages.forest(
            len(self.cards), engine.ptr, engine.scope, order, watch.left(), watch.late
        )

    def members(self, groups: Array) -> list[int]:
        """Return the factors of some groups."""
        return self.engine.wide[np.isin(self.engine.group, groups)].tolist()

    def with_evidence(self, evidence: dict[int, Any]) -> Array:
        """Return the log-vectors of all variables, evidence included."""
        local = self.local.copy()
        for v, known in evidence.items():
            row = local[self.at[v] : self.at[v + 1]]
            if isinstance(known, int):
                kept = row[known]
                row[:] = -np.inf
                row[known] = kept
            else:
                row += known
        return local


def layout_of(graph: FactorGraph, watch: Watch = NOBODY) -> Network:
    """Return the layout of `graph`, which is kept until a factor is added."""
    layout = _LAYOUTS.get(graph._stamp)
    if layout is None:
        layout = _LAYOUTS[graph._stamp] = Network(graph, watch)
    return layout


#: The layout of all graphs with the same factors.
_LAYOUTS: weakref.WeakKeyDictionary[Stamp, Network] = weakref.WeakKeyDictionary()


def _local_of(layout: Network, graph: FactorGraph, evidence: dict[int, Any]) -> Array:
    """Return what messages meet; InfeasibleError where a factor without variables forbids all."""
    if layout.constant == -np.inf:
        raise impossible(graph, bool(evidence))
    return layout.with_evidence(evidence)


class State:
    """Messages of a result: what a warm start begins from, and what beliefs are made of."""

    __slots__ = ("best", "layout", "local", "messages", "rho")

    def __init__(
        self, layout: Network | None, local: Array, messages: Array, rho: Array | None, best: bool
    ) -> None:
        self.layout = layout
        self.local = local
        self.messages = messages
        self.rho = rho
        self.best = best

    def __getstate__(self) -> tuple[Any, ...]:
        return self.local, self.messages, self.rho, self.best

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.local, self.messages, self.rho, self.best = state
        self.layout = None

    def groups(self, model: FactorGraph) -> Array:
        """Return, for every factor that sends messages, the one that it is part of."""
        found: Array = (self.layout or layout_of(model)).engine.group
        return found

    def joints(self, model: FactorGraph) -> list[Array]:
        """Return the belief of every factor that sends messages, by its place in the layout."""
        layout = self.layout or layout_of(model)
        flat = np.empty(layout.engine.table_entries)
        with _Engine(layout) as engine:
            engine.weigh(self.rho)
            engine.beliefs(
                self.local, self.messages, 1, np.empty(layout.local.shape), flat, None, None
            )
        return _of_factors(model, layout, flat)


def _of_factors(model: FactorGraph, layout: Network, flat: Array) -> list[Array]:
    """Return the tables of the groups in `flat` for each factor of two and more variables."""
    laid = layout.engine
    found = []
    for f, g in zip(laid.wide.tolist(), laid.group.tolist(), strict=True):
        own, scope = model._factor(f).scope, layout.scope(g)
        table = flat[laid.table_at[g] : laid.table_at[g + 1]]
        table = table.reshape([layout.cards[v] for v in scope])
        found.append(table if own == scope else table.transpose([scope.index(v) for v in own]))
    return found


class Field:
    """A distribution of structured mean field: what it is proportional to, and its joints."""

    __slots__ = ("forest", "joint", "node", "table")

    def __init__(
        self, forest: list[tuple[int, ...]], node: Array, table: list[Array], joint: Array
    ) -> None:
        self.forest = forest
        self.node = node
        self.table = table
        self.joint = joint

    def __getstate__(self) -> tuple[Any, ...]:
        return self.forest, self.node, self.table, self.joint

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.forest, self.node, self.table, self.joint = state

    def joints(self, model: FactorGraph) -> list[Array]:
        """Return the joint of every factor of two and more variables."""
        return _of_factors(model, layout_of(model), self.joint)

    def graph(self, model: FactorGraph) -> FactorGraph:
        """Return the distribution itself: a graph without cycles."""
        other = model._derived()
        ends = np.cumsum(model.cardinalities).tolist()
        for v, (k, end) in enumerate(zip(model.cardinalities, ends, strict=True)):
            other.add(Table((v,), self.node[end - k : end]))
        for scope, table in zip(self.forest, self.table, strict=True):
            other.add(Table(scope, table.reshape([model.cardinalities[v] for v in scope])))
        return other


class _Engine:
    """The engine of a layout for one call; another one where that is busy."""

    def __init__(self, layout: Network, watch: Watch = NOBODY) -> None:
        self._layout = layout
        self._watch = watch
        self._held = False

    def __enter__(self) -> _messages.Network:
        layout = self._layout
        self._held = layout.lock.acquire(blocking=False)
        if self._held:
            return layout.engine
        return _messages.Network(*layout.parts, self._watch.left(), self._watch.late)

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._layout.lock.release()


def infer(
    model: FactorGraph,
    method: Loopy,
    reason: str,
    evidence: dict[int, Any],
    workers: int,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
) -> GraphResult:
    """Return beliefs and the free energy that `method` gives."""
    watch = Watch(deadline, None)
    layout = layout_of(model, watch)
    local = _local_of(layout, model, evidence)
    if isinstance(method, MeanField):
        return _mean_field(model, layout, local, reason, method, evidence, watch, progress)
    if isinstance(method, StructuredMeanField):
        return _structured(model, layout, local, reason, method, evidence, watch, progress)
    assert isinstance(method, (BP, TRW))
    messages = _first_messages(layout, local, method.start)
    rho = _probabilities(layout, method, watch) if isinstance(method, TRW) else None
    steps = method.optimise if isinstance(method, TRW) else 0
    marginals = np.empty(local.shape)
    with _Engine(layout, watch) as engine:
        for step in range(steps + 1):
            engine.weigh(rho)
            dead, converged, residuals, updates, log_z = engine.run(
                local,
                messages,
                SCHEDULES[method.schedule],
                False,
                method.damping,
                method.tolerance,
                method.max_iterations,
                workers,
                watch.left(),
                progress,
                watch.late,
                marginals,
            )
            if dead >= 0:
                break
            if rho is not None and step < steps:
                tables = np.empty(layout.engine.table_entries)
                dead, log_z = engine.beliefs(
                    local, messages, workers, marginals, tables, watch.left(), watch.late
                )
                if dead >= 0:
                    break
                chosen = _best_forest(layout, marginals, tables, watch)
                rho += 2.0 / (step + 4.0) * (np.isin(np.arange(rho.size), chosen) - rho)
    if dead >= 0:
        raise impossible(model, bool(evidence))
    iterations = len(residuals)
    if not converged:
        reason += (
            f"; the messages still changed by {residuals[-1]:.2g} after {iterations} iterations, "
            "so beliefs and log_z are not those of a fixed point (damping= may help)"
        )
    return GraphResult(
        model,
        evidence,
        None,
        log_z + layout.constant,
        method.name,
        reason,
        {"iterations": iterations, "messages": updates},
        converged=converged,
        residuals=residuals,
        state=State(layout, local, messages, rho, False),
        flat=marginals,
    )


def _probabilities(layout: Network, method: TRW, watch: Watch) -> Array:
    """Return the weight of each group."""
    given = method.edge_probabilities
    engine = layout.engine
    if isinstance(given, str):
        if _forests.in_reach(layout):
            return _forests.spanning_tree_probabilities(layout)
        return _shares(layout.n_groups, _forests.cover(layout, 8, method.seed, watch))
    rho = np.asarray(given, dtype=np.float64)
    if rho.shape != (layout.n_factors,):
        raise ValueError(
            f"edge_probabilities must have shape {(layout.n_factors,)}, one for each factor of "
            f"the graph, got {rho.shape}"
        )
    rho = rho[engine.wide]
    bad = np.flatnonzero(~((rho > 0.0) & (rho <= 1.0)))
    if bad.size:
        f = engine.wide[bad[0]]
        raise ValueError(f"edge_probabilities[{f}] is {rho[bad[0]]}; it must lie in (0, 1]")
    # Of factors that are one here the largest: forests that hold one of them at a time hold their
    # group at least that often, and a smaller weight keeps the bound.
    weights = np.zeros(layout.n_groups)
    np.maximum.at(weights, engine.group, rho)
    return weights


def _shares(count: int, forests: list[Array], weights: Array | None = None) -> Array:
    """Return the total weight of the forests that hold each group."""
    rho = np.zeros(count)
    for t, tree in enumerate(forests):
        rho[tree] += 1.0 / len(forests) if weights is None else weights[t]
    return np.minimum(rho, 1.0)


def _best_forest(layout: Network, marginals: Array, tables: Array, watch: Watch) -> Array:
    """Return the forest of the largest mutual information: where the bound falls fastest."""
    engine = layout.engine
    if not layout.n_groups:
        return np.empty(0, dtype=np.int64)
    entropies = np.add.reduceat(entr(marginals), layout.at[:-1])
    own = np.add.reduceat(entr(tables), engine.table_at[:-1])
    information = np.add.reduceat(entropies[engine.scope], engine.ptr[:-1]) - own
    return layout.forest(np.argsort(-information, kind="stable"), watch)


class DualBound(NamedTuple):
    """An upper bound on log Z, and the forests that prove it.

    Attributes
    ----------
    upper : float
        At least log Z, rounding included.
    trees : list of (float, list of int)
        Weight of each forest, and its factors of two and more variables.
    """

    upper: float
    trees: list[tuple[float, list[int]]]


def trw_dual_bound(
    graph: FactorGraph,
    *,
    evidence: Evidence | None = None,
    trees: int = 8,
    method: TRW | None = None,
    threads: int | None = None,
    deadline: float | None = None,
) -> DualBound:
    r"""Return an upper bound on log Z that holds however far messages have come.

    Parameters
    ----------
    graph : FactorGraph
        Any tables, zeros included.
    evidence : mapping, optional
        Instead of the graph's own.
    trees : int, default 8
        Forests to begin with; more where it takes more to hold every factor.
    method : TRW, optional
        How messages are passed, by default ``vs.TRW(max_iterations=200)``. Each step of
        ``optimise`` adds the forest of the largest mutual information; ``seed`` is that of the
        forests, which take the place of ``edge_probabilities``.
    threads, deadline : optional
        As for :func:`valuesparse.infer`.

    Returns
    -------
    DualBound

    Raises
    ------
    InfeasibleError
        When messages prove that there is no configuration.

    Notes
    -----
    With :math:`\sum_T w_T \theta_T = \theta`, the model's tables, Hölder's inequality gives
    :math:`\log Z(\theta) \le \sum_T w_T \log Z(\theta_T)`. Tree-reweighted messages shift tables
    between the forests; any messages give a bound, a fixed point the best one for these weights.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> from valuesparse.inference import trw_dual_bound
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> trw_dual_bound(graph).upper >= vs.infer(graph).log_z
    True
    """
    as_count("trees", trees, at_least=1)
    given = graph.evidence if evidence is None else graph.resolve_evidence(evidence)
    if method is None:
        method = TRW(max_iterations=200)
    elif not isinstance(method, TRW):
        raise ValueError(f"method must be a valuesparse.TRW, got {method!r}")
    refuse(method, ("edge_probabilities",), "trw_dual_bound, whose forests give them")
    watch = Watch(deadline, None)
    workers = resolve(threads)
    layout = layout_of(graph, watch)
    local = _local_of(layout, graph, given)
    groups = layout.n_groups
    found = _forests.cover(layout, trees, method.seed, watch)
    weights = np.full(len(found), 1.0 / len(found))
    messages = _first_messages(layout, local, method.start)
    marginals = np.empty(local.shape)
    best = DualBound(np.inf, [])
    with _Engine(layout, watch) as engine:
        for step in range(method.optimise + 1):
            rho = _shares(groups, found, weights)
            engine.weigh(rho)
            dead, *_ = engine.run(
                local, messages, SCHEDULES[method.schedule], False, method.damping,
                method.tolerance, method.max_iterations, workers, watch.left(), None,
                watch.late, None,
            )  # fmt: skip
            if dead >= 0:
                raise impossible(graph, bool(given))
            ptr = np.cumsum([0] + [len(tree) for tree in found])
            flat = np.concatenate(found)
            dead, masses, scale = engine.forests(
                local, messages, ptr, flat, False, watch.left(), watch.late
            )
            if dead >= 0 or np.isneginf(masses).any():
                raise impossible(graph, bool(given))
            slack = _slack(layout, len(found), scale, given)
            upper = float(weights @ masses) + layout.constant + slack
            if upper < best.upper:
                named = [layout.members(tree) for tree in found]
                best = DualBound(upper, list(zip(weights.tolist(), named, strict=True)))
            if step < method.optimise:
                tables = np.empty(layout.engine.table_entries)
                dead, _ = engine.beliefs(
                    local, messages, workers, marginals, tables, watch.left(), watch.late
                )
                if dead >= 0:
                    raise impossible(graph, bool(given))
                found.append(_best_forest(layout, marginals, tables, watch))
                share = 2.0 / (step + 4.0)
                weights = np.append((1.0 - share) * weights, share)
    return best


class Best(NamedTuple):
    """What max-product messages come to: a configuration, and what bounds its score."""

    states: Array
    score: float
    converged: bool
    upper: float | None


def decode(
    model: FactorGraph,
    method: BP | TRW,
    evidence: dict[int, Any],
    workers: int,
    watch: Watch,
) -> Best:
    """Return a configuration of high score; with "trw" also a bound on the best one."""
    # Sum-product messages are none to begin from, and forests are drawn here.
    refuse(method, ("start", "edge_probabilities", "optimise"), "decode")
    layout = layout_of(model, watch)
    local = _local_of(layout, model, evidence)
    messages = np.zeros(layout.engine.entries)
    found = []
    if isinstance(method, TRW):
        found = _forests.cover(layout, _DECODING_FORESTS, method.seed, watch)
    upper = None
    with _Engine(layout, watch) as engine:
        engine.weigh(_shares(layout.n_groups, found) if found else None)
        dead, converged, *_ = engine.run(
            local, messages, SCHEDULES[method.schedule], True, method.damping,
            method.tolerance, method.max_iterations, workers, watch.left(), watch.progress,
            watch.late, None,
        )  # fmt: skip
        if dead < 0:
            dead, states, score = engine.assign(local, messages, workers, watch.left(), watch.late)
        if dead < 0 and found:
            ptr = np.cumsum([0] + [len(tree) for tree in found])
            dead, tops, scale = engine.forests(
                local, messages, ptr, np.concatenate(found), True, watch.left(), watch.late
            )
            slack = _slack(layout, len(found), scale, evidence)
            upper = float(tops.mean()) + layout.constant + slack
    if dead >= 0 or upper == -np.inf:
        raise impossible(model, bool(evidence))
    return Best(states, score + layout.constant, converged, upper)


def _slack(layout: Network, forests: int, scale: float, evidence: dict[int, Any]) -> float:
    """Return what rounding can add up to; `scale` bounds partial sums, each rounded a few times.

    What adding up the tables of one scope has rounded is not seen in their sums.
    """
    merged = layout.n_factors * (layout.magnitude + soft_sum(evidence))
    steps = 16.0 * (layout.n_groups + len(layout.cards) + forests + 64)
    steps += 4.0 * layout.engine.table_entries
    return float(np.finfo(float).eps * (steps * (scale + abs(layout.constant) + 1.0) + merged))


def _points(
    model: FactorGraph,
    layout: Network,
    local: Array,
    engine: _messages.Network,
    method: MeanField | StructuredMeanField,
    evidence: dict[int, Any],
    watch: Watch,
) -> Iterator[Array]:
    """Yield where naive mean field begins: at `start`, at beliefs, their mode, random points."""
    if method.start is not None:
        yield method.start._all_marginals().copy()
    rng = np.random.default_rng(method.seed)
    messages = np.zeros(layout.engine.entries)
    beliefs = np.empty(local.shape)
    engine.weigh(None)
    dead, *_ = engine.run(
        local, messages, 0, False, 0.3, 1e-3, 30, 1, watch.left(), None, watch.late, beliefs
    )
    if dead >= 0:
        raise impossible(model, bool(evidence))
    for i in range(2 + method.restarts):
        q = beliefs.copy()
        for v, p in enumerate(layout.engine.split(q)):
            if i == 1:  # one configuration: it is worth something whatever is forbidden
                p[:] = np.arange(p.size) == p.argmax()
            elif i > 1:
                p *= rng.exponential(size=p.size)
                p[:] = np.arange(p.size) == p.argmax() if v % 2 else p / p.sum()
        yield q


def _mean_field(
    model: FactorGraph,
    layout: Network,
    local: Array,
    reason: str,
    method: MeanField | StructuredMeanField,
    evidence: dict[int, Any],
    watch: Watch,
    progress: Callable[[int, int], object] | None,
) -> GraphResult:
    """Ascend from `start`, or from beliefs and from random points; keep the best bound."""
    best: tuple[Any, ...] | None = None
    if method.start is not None:
        _require_same_variables(layout, method.start)
    with _Engine(layout, watch) as engine:
        for q in _points(model, layout, local, engine, method, evidence, watch):
            bound, scale, converged, residuals, updates = engine.mean_field(
                local, q, method.max_iterations, method.tolerance, watch.left(), progress,
                watch.late,
            )  # fmt: skip
            if best is None or bound > best[0]:
                best = bound, scale, converged, residuals, updates, q
            if method.start is not None and bound > -np.inf:
                break
    assert best is not None
    bound, scale, converged, residuals, updates, q = best
    slack = _slack(layout, 0, scale, evidence)
    if bound == -np.inf:
        reason += "; every point that was tried has mass where the graph forbids it: no bound"
    return GraphResult(
        model,
        evidence,
        None,
        bound + layout.constant - slack if bound > -np.inf else -np.inf,
        "mean_field",
        reason,
        {"iterations": len(residuals), "messages": updates},
        converged=converged,
        residuals=residuals,
        flat=q,
    )


def _structured(
    model: FactorGraph,
    layout: Network,
    local: Array,
    reason: str,
    method: MeanField | StructuredMeanField,
    evidence: dict[int, Any],
    watch: Watch,
    progress: Callable[[int, int], object] | None,
) -> GraphResult:
    """Ascend among the distributions of a forest, from `start` or from naive mean field."""
    if method.start is None:
        naive = _mean_field(model, layout, local, reason, method, evidence, watch, None)
        forest = _strong_forest(model, layout, local, evidence, watch)
        # The product of naive mean field, below which no step leads; and the forest's own tables.
        first = np.zeros(layout.engine.table_entries)
        second = _tables(layout, forest)
        starts = [(_logs(naive._all_marginals()), first), (local.copy(), second)]
    else:
        forest, node, table = _first_field(layout, method.start)
        starts = [(node, table)]
    best: tuple[Any, ...] | None = None
    with _Engine(layout, watch) as engine:
        for node, table in starts:
            found = engine.structured(
                local, forest, node, table, method.max_iterations, method.tolerance,
                watch.left(), progress, watch.late,
            )  # fmt: skip
            if found is not None and (best is None or found[3] > best[0][3]):
                best = found, node, table
    if best is None:
        raise impossible(model, bool(evidence))
    (q, joints, forest, bound, scale, converged, residuals, updates), node, table = best
    if bound == -np.inf:
        reason += "; the distribution has mass where the graph forbids it: no bound"
    ends = layout.engine.table_at
    kept = [table[ends[g] : ends[g + 1]] for g in forest]
    scopes = [layout.scope(g) for g in forest]
    # Each factor outside the forest goes through a rounding for each table between its ends.
    slack = _slack(layout, 0, scale, evidence) * (
        1 if len(forest) == layout.n_groups else len(layout.cards)
    )
    return GraphResult(
        model,
        evidence,
        None,
        bound + layout.constant - slack,
        "structured_mean_field",
        reason,
        {"iterations": len(residuals), "messages": updates},
        converged=converged,
        residuals=residuals,
        state=Field(scopes, node, kept, joints),
        flat=q,
    )


def _logs(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(p)


def _tables(layout: Network, groups: Array) -> Array:
    """Return the log-tables of some groups, one after the other with zeros for the others."""
    flat = np.zeros(layout.engine.table_entries)
    ends = layout.engine.table_at
    for g in groups:
        flat[ends[g] : ends[g + 1]] = layout.engine.table(g).ravel()
    return flat


def _strong_forest(
    model: FactorGraph, layout: Network, local: Array, evidence: dict[int, Any], watch: Watch
) -> Array:
    """Return the forest of the largest mutual information that messages believe in."""
    marginals, tables = np.empty(local.shape), np.empty(layout.engine.table_entries)
    messages = np.zeros(layout.engine.entries)
    with _Engine(layout, watch) as engine:
        engine.weigh(None)
        dead, *_ = engine.run(
            local, messages, 0, False, 0.3, 1e-3, 30, 1, watch.left(), None, watch.late, None
        )
        if dead < 0:
            dead, _ = engine.beliefs(
                local, messages, 1, marginals, tables, watch.left(), watch.late
            )
    if dead >= 0:
        raise impossible(model, bool(evidence))
    return _best_forest(layout, marginals, tables, watch)


def _first_field(layout: Network, start: GraphResult) -> tuple[Array, Array, Array]:
    """Return a forest and what the distribution of `start` is proportional to."""
    _require_same_variables(layout, start)
    state = start._state
    if isinstance(state, Field):
        scopes, node, tables = state.forest, state.node.copy(), state.table
    elif start.method == "mean_field":
        return (
            np.empty(0, dtype=np.int64),
            _logs(start._all_marginals()),
            np.zeros(layout.engine.table_entries),
        )
    elif start.exact:
        other = layout_of(start._part())
        scopes = [other.scope(g) for g in range(other.n_groups)]
        tables = [other.engine.table(g).ravel() for g in range(other.n_groups)]
        node = other.with_evidence(start.evidence)
    else:
        raise ValueError(
            "start must be a result of structured or naive mean field, or an exact one of a graph "
            f"without cycles, got one of method {start.method!r}"
        )
    place = {tuple(sorted(layout.scope(g))): g for g in range(layout.n_groups)}
    flat = np.zeros(layout.engine.table_entries)
    ends = layout.engine.table_at
    forest = []
    for scope, table in zip(scopes, tables, strict=True):
        group = place.get(tuple(sorted(scope)))
        if group is None:
            raise ValueError(
                f"start has a factor of the variables {list(scope)}, and the graph has none"
            )
        own = layout.scope(group)
        shaped = table.reshape([layout.cards[v] for v in scope])
        flat[ends[group] : ends[group + 1]] = shaped.transpose(
            [scope.index(v) for v in own]
        ).ravel()
        forest.append(group)
    chosen = np.array(forest, dtype=np.int64)
    if layout.forest(chosen).size != chosen.size:
        raise ValueError("start must be a result of a graph without cycles")
    return chosen, node, flat


def _require_same_variables(layout: Network, start: GraphResult) -> None:
    if not np.array_equal(start._model._cards, layout.cards):
        raise ValueError("start must be a result of a graph with the same variables")


def _first_messages(layout: Network, local: Array, start: GraphResult | None) -> Array:
    """Return the messages to begin from: those of `start` for the factors that both have."""
    messages = np.zeros(layout.engine.entries)
    if start is None:
        return messages
    _require_same_variables(layout, start)
    state: State = start._state
    # Where pickling dropped the layout: that of the factors that were used, in the graph of then.
    old = state.layout or layout_of(start._part())
    if old is layout:
        messages[:] = state.messages
    else:
        place = {old.scope(g): g for g in range(old.n_groups)}
        new, before = layout.engine, old.engine
        for g in range(layout.n_groups):
            h = place.get(layout.scope(g))
            if h is None:
                continue
            a, b = new.edge_at[new.ptr[[g, g + 1]]]
            c, d = before.edge_at[before.ptr[[h, h + 1]]]
            if b - a == d - c:
                messages[a:b] = state.messages[c:d]
    if old is not layout or not np.array_equal(local, state.local):
        np.maximum(messages, _DOUBTED, out=messages)
    return messages
