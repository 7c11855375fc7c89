"""A graph laid out for message passing: made once, used by every call, kept by results."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest, _messages
from valuesparse._buffers import zeros
from valuesparse.errors import InfeasibleError
from valuesparse.factors import Factor, Feature, Structured, Table
from valuesparse.inference._memory import limit_of_tables
from valuesparse.inference._methods import BP, SCHEDULES, TRW
from valuesparse.inference._refusals import impossible
from valuesparse.inference._snapshots import making, require_memory
from valuesparse.inference._watch import NOBODY, Progress, Watch
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import Stamp, scopes_of
from valuesparse.models._evidence import soft_sum
from valuesparse.results import GraphResult

__all__ = [
    "LIMIT",
    "Held",
    "LoopyCall",
    "MessageState",
    "Network",
    "first_messages",
    "network_of",
    "of_factors",
    "require_same_variables",
]

Array = npt.NDArray[Any]

#: The log of a zero in messages that were computed for other evidence: it may not be one any more.
_DOUBTED = -30.0
#: So much larger than all scores together no message of a fixed point is.
_FAR = 2.0**30
#: Where messages that grow end: `kFar` of `ext/messages/factor.h`, but for what damping leaves.
LIMIT = 1e200 * (1 - 1e-12)


class Network:
    """Numbers of one graph, and what C++ made of it.

    Factors of two and more variables, and structured ones, are numbered by group; tables of one
    variable are summed into one log-vector per variable, as evidence is by each call. See
    `ext/messages/network.h` for the updates.
    """

    __slots__ = (
        "at", "cards", "constant", "covers", "idle", "local", "magnitude", "n_factors", "native",
        "parts", "spanning", "strongest",
    )  # fmt: skip

    def __init__(self, graph: FactorGraph, watch: Watch = NOBODY, limit: int | None = None) -> None:
        self.cards = graph.cards
        require_memory(graph, limit=limit)
        self.n_factors = graph.n_factors
        # A closure over the graph itself would keep it until the garbage collector runs.
        empty = graph.part(np.empty(0, dtype=np.int64))
        made: dict[int, float] = {}

        def table_of(factor: Factor, index: int) -> Array | _messages.Structured:
            if isinstance(factor, Structured):
                return factor._native
            table: Array = empty.table_of(factor, index)
            if not isinstance(factor, Feature):
                made[index] = _forest.weigh(table)[1]
            return table

        with making(graph):
            self.parts = (self.cards, *graph.stacked(), Table, table_of)
            self.native = _messages.Network(*self.parts, watch.left(), watch.late)
        self.at = self.native.at
        self.local = self.native.local
        self.constant = self.native.constant
        #: The magnitude of all factors, before those of one scope are added up.
        self.magnitude = graph.magnitude + sum(made.values())
        #: Native networks that no call is using; the numbers of `native` anybody may read.
        self.idle = [self.native]
        #: How likely a uniform spanning tree is to hold each group, once somebody has asked.
        self.spanning: Array | None = None
        #: How many of a few forests hold each group, by the seed that they were last drawn with.
        self.covers: tuple[int, Array] | None = None
        #: The forest of the largest mutual information without evidence, likewise.
        self.strongest: Array | None = None

    @property
    def n_groups(self) -> int:
        """Number of factors that send messages: tables of one set of variables are one group."""
        return len(self.native.ptr) - 1

    def scope(self, group: int) -> tuple[int, ...]:
        """Return the variables of a group, in the order of its axes."""
        native = self.native
        return tuple(native.scope[native.ptr[group] : native.ptr[group + 1]].tolist())

    def structured(self) -> list[int]:
        """Return the groups that are structured factors."""
        found: list[int] = self.native.structured_groups
        return found

    def is_forest(self, held: Array) -> bool:
        """Say whether the factors form no cycle once the variables with a state are left out."""
        native = self.native
        open_ = held[native.scope] < 0
        ends = np.concatenate([[0], np.cumsum(open_)])[native.ptr]
        order = np.flatnonzero(np.diff(ends))
        scope = native.scope[open_]
        return order.size == _messages.forest(len(self.cards), ends, scope, order, None, None).size

    def forest(self, order: Array, watch: Watch = NOBODY) -> Array:
        """Return a maximal forest: groups taken greedily in this order."""
        native = self.native
        return _messages.forest(
            len(self.cards), native.ptr, native.scope, order, watch.left(), watch.late
        )

    def members(self, groups: Array) -> list[int]:
        """Return the factors of some groups."""
        chosen = np.zeros(self.n_groups, dtype=bool)
        chosen[groups] = True
        return self.native.wide[chosen[self.native.group]].tolist()

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


def network_of(graph: FactorGraph, watch: Watch = NOBODY, limit: int | None = None) -> Network:
    """Return the network of `graph`, which is kept until a factor is added.

    `limit`: bytes of tables that may be made for it, where these are more than the default.
    """
    network = _NETWORKS.get(graph.stamp)
    if network is None:
        network = _NETWORKS[graph.stamp] = Network(graph, watch, limit_of_tables(limit))
    return network


#: The network of all graphs with the same factors.
_NETWORKS: weakref.WeakKeyDictionary[Stamp, Network] = weakref.WeakKeyDictionary()


class Held:
    """A native network for one call: the idle one, another one where that is busy.

    A call takes it away. Where it is lost, to an interrupt or to a fork, the next call leaves its
    own.
    """

    def __init__(self, network: Network, watch: Watch = NOBODY) -> None:
        self._network = network
        self._watch = watch

    def __enter__(self) -> _messages.Network:
        network = self._network
        try:
            self._native = network.idle.pop()
        except IndexError:
            watch = self._watch
            self._native = _messages.Network(*network.parts, watch.left(), watch.late)
        return self._native

    def __exit__(self, *_: object) -> None:
        network = self._network
        if self._native is network.native or not network.idle:  # no second one beside its numbers
            network.idle[:] = [self._native]


class LoopyCall(NamedTuple):
    """One call: a graph, its log-vectors with the evidence, and what is left of the deadline."""

    model: FactorGraph
    network: Network
    local: Array
    evidence: dict[int, Any]
    watch: Watch

    @classmethod
    def of(cls, model: FactorGraph, evidence: dict[int, Any], watch: Watch) -> LoopyCall:
        """Return the task; InfeasibleError where a factor without variables forbids everything."""
        network = network_of(model, watch)
        task = cls(model, network, network.with_evidence(evidence), evidence, watch)
        if network.constant == -np.inf:
            raise task.impossible()
        return task

    def run(
        self,
        native: _messages.Network,
        messages: Array,
        method: BP | TRW,
        marginals: Array | None = None,
        *,
        best: bool = False,
        damping: float | None = None,
        iterations: int | None = None,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> tuple[bool, Array, int, float]:
        """Pass messages in place; return whether they converged, residuals, updates and log Z."""
        dead, converged, residuals, updates, log_z = native.run(
            self.local, messages, SCHEDULES[method.schedule], best,
            method.damping if damping is None else damping,
            method.tolerance, iterations or method.max_iterations, workers, self.watch.left(),
            progress, self.watch.late, marginals,
        )  # fmt: skip
        if dead >= 0:
            raise self.impossible()
        return converged, residuals, updates, log_z

    def far(self, messages: Array) -> float:
        """Return the size of the largest message where that is beyond all scores, else 0.

        Such a message goes round a cycle and grows. In the end sums with it no longer change, which
        is no convergence.
        """
        lowest = float(messages.min(initial=0.0))
        if lowest == -np.inf:
            lowest = float(messages.min(initial=0.0, where=messages > -np.inf))
        if lowest > -_FAR:
            return 0.0
        own = np.abs(self.local[self.local > -np.inf]).sum()
        return -lowest if lowest < -_FAR * (1.0 + self.network.magnitude + own) else 0.0

    def beliefs(
        self, native: _messages.Network, messages: Array, workers: int = 1
    ) -> tuple[Array, Array, float]:
        """Return the marginals of variables and of factors, flat, and log Z."""
        marginals, tables = np.empty(self.local.shape), np.empty(native.table_entries)
        dead, log_z = native.beliefs(
            self.local, messages, workers, marginals, tables, self.watch.left(), self.watch.late
        )
        if dead >= 0:
            raise self.impossible()
        return marginals, tables, log_z

    def forests(
        self, native: _messages.Network, messages: Array, found: list[Array], best: bool
    ) -> tuple[Array, float]:
        """Return log Z (or the best score) of each forest, and how far rounding may move it."""
        ptr = np.cumsum([0] + [len(tree) for tree in found])
        dead, values, scale = native.forests(
            self.local, messages, ptr, np.concatenate(found), best, self.watch.left(),
            self.watch.late,
        )  # fmt: skip
        if dead >= 0 or np.isneginf(values).any():
            raise self.impossible()
        return values, self.slack(len(found), scale)

    def slack(self, forests: int, scale: float) -> float:
        """Return a bound on all rounding; `scale` bounds partial sums, each rounded a few times.

        Rounding of the sums of tables of one scope depends on the tables, not on the sums.
        """
        network = self.network
        merged = network.n_factors * (network.magnitude + soft_sum(self.evidence))
        steps = 16.0 * (network.n_groups + len(network.cards) + forests + 64)
        steps += 4.0 * network.native.table_entries
        return float(np.finfo(float).eps * (steps * (scale + abs(network.constant) + 1.0) + merged))

    def impossible(self) -> InfeasibleError:
        """Return the error that says no configuration is left."""
        return impossible(self.model, bool(self.evidence))


class MessageState:
    """Messages of a result: warm starts begin from them, and beliefs are made of them."""

    __slots__ = ("local", "messages", "network", "rho")

    def __init__(
        self, network: Network | None, local: Array, messages: Array, rho: Array | None
    ) -> None:
        self.network = network
        self.local = local
        self.messages = messages
        self.rho = rho

    def __getstate__(self) -> tuple[Any, ...]:
        return self.local, self.messages, self.rho

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.local, self.messages, self.rho = state
        self.network = None

    def joint(self, model: FactorGraph, variables: list[int]) -> Array | None:
        """Return the joint of any variables: messages have those of factors only."""
        return None

    def joints(self, model: FactorGraph) -> dict[int, Array]:
        """Return the belief of every factor that sends messages, by its index."""
        return of_factors(model, *self._asked(model)[:2])

    def log_beliefs(self, model: FactorGraph) -> Array | None:
        """Return the logarithms of all beliefs, flat; None where edges have weights."""
        if self.rho is not None:
            return None
        native = (self.network or network_of(model)).native
        size, first = np.diff(native.edge_at), native.edge_at[:-1]
        entry = np.repeat(native.at[native.scope] - first, size) + np.arange(len(self.messages))
        belief = self.local + np.bincount(entry, self.messages, len(self.local))
        start = native.at[:-1]
        mass = np.logaddexp.reduceat(belief, start) if len(start) else start
        return np.asarray(belief - np.repeat(mass, np.diff(native.at)))

    def incoming(self, model: FactorGraph) -> dict[int, Array]:
        """Return the messages (k, 2) to every structured factor, by its index."""
        return self._asked(model)[2]

    def entropy(self, model: FactorGraph, marginals: list[Array]) -> float:
        """Return the entropy of the (reweighted) Bethe free energy in nats."""
        from scipy.special import entr

        single = np.array([entr(p).sum() for p in marginals])
        total = float(single.sum())
        network, flat, messages = self._asked(model)
        native, tables = network.native, of_factors(model, network, flat)
        # Tables of the same variables are one factor here.
        for g, at in zip(*np.unique(native.group, return_index=True), strict=True):
            index = int(native.wide[at])
            factor = model.factor(index)
            if isinstance(factor, Structured):
                own = factor.entropy(messages[index])
            else:
                own = entr(tables[index]).sum()
            shared = float(single[list(factor.scope)].sum() - own)
            total -= shared if self.rho is None else float(self.rho[g]) * shared
        return total

    def _asked(self, model: FactorGraph) -> tuple[Network, Array, dict[int, Array]]:
        """Return the network, beliefs of all factors, flat, and messages to structured ones."""
        network = self.network or network_of(model)
        flat = np.empty(network.native.table_entries)
        with Held(network) as native:
            native.weigh(self.rho)
            native.beliefs(
                self.local, self.messages, 1, np.empty(network.local.shape), flat, None, None
            )
            messages = {
                int(native.wide[i]): native.incoming(int(native.group[i]))
                for i in np.flatnonzero(np.isin(native.group, network.structured()))
            }
        return network, flat, messages


def of_factors(model: FactorGraph, network: Network, flat: Array) -> dict[int, Array]:
    """Return the marginals of the groups in `flat` for each factor that sends messages."""
    laid, scopes = network.native, scopes_of(model)
    found = {}
    for f, g in zip(laid.wide.tolist(), laid.group.tolist(), strict=True):
        own, scope = scopes[f], network.scope(g)
        table = flat[laid.table_at[g] : laid.table_at[g + 1]]
        if not laid.is_structured(g):
            table = table.reshape([network.cards[v] for v in scope])
            if own != scope:
                table = table.transpose([scope.index(v) for v in own])
        found[f] = table
    return found


def require_same_variables(network: Network, start: GraphResult) -> None:
    """Raise unless a result to begin from is one of a graph with the same variables."""
    if not np.array_equal(start.graph.cards, network.cards):
        raise ValueError("start must be a result of a graph with the same variables")


def first_messages(network: Network, local: Array, start: GraphResult | None) -> Array:
    """Return the messages to begin from: those of `start` for the factors that both have."""
    messages = zeros((network.native.entries,), np.float64)
    if start is None:
        return messages
    require_same_variables(network, start)
    state: MessageState = start.state
    # Where pickling dropped the network: that of the factors that were used, in the graph of then.
    old = state.network or network_of(start.part())
    if old is network:
        messages[:] = state.messages
    else:
        new, before = network.native, old.native
        place = {(old.scope(g), before.is_structured(g)): g for g in range(old.n_groups)}
        for g in range(network.n_groups):
            h = place.get((network.scope(g), new.is_structured(g)))
            if h is None:
                continue
            a, b = new.edge_at[new.ptr[[g, g + 1]]]
            c, d = before.edge_at[before.ptr[[h, h + 1]]]
            if b - a == d - c:
                messages[a:b] = state.messages[c:d]
    if old is not network or not np.array_equal(local, state.local):
        np.maximum(messages, _DOUBTED, out=messages)
    return messages
