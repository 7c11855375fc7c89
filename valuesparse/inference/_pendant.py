"""Graphs with structured factors in pendant trees: each part by its own engine.

A factor of which at most one variable has other factors is taken off the graph, again and again.
The rest is the core, with all cycles. The factors taken off form trees, each with at most one
variable v of the core: they are pendant. Exactly, and in sums as in maxima:

    mu_v(x) = sum over the trees at v, given v = x          messages, in time linear in the trees
    p(core) ~ core * prod_v mu_v                            a junction tree of the core
    p(trees at v) ~ trees * p(v) / mu_v(v)                  messages again

so that a factor of any size in a tree needs no table. log Z is that of the core with normalised mu,
plus that of the trees. The best configuration of the core fixes v, and then the trees have theirs.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from valuesparse.errors import InfeasibleError
from valuesparse.inference import _joints, _loopy
from valuesparse.inference._network import network_of
from valuesparse.inference._refusals import impossible
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import Stamp, scopes_of, structured_factors
from valuesparse.models._evidence import Known, split
from valuesparse.models.factor_graph import Derived
from valuesparse.results import GraphResult

__all__ = ["Pendant", "PendantMessages", "TakenApart", "TreesApart", "parts_of"]

Array = npt.NDArray[Any]
T = TypeVar("T")


class TakenApart(NamedTuple):
    """A graph taken apart: both parts have all of its variables, and some of its factors.

    Attributes
    ----------
    core, trees : FactorGraph
        The factors on cycles or between them, and those in pendant trees.
    of_core, of_trees : ndarray of int64
        Their indices in the graph.
    inside : ndarray of bool, shape (n,)
        Whether a variable belongs to the core.
    shared : ndarray of int64
        The variables of the core that have pendant trees.
    """

    core: FactorGraph
    trees: FactorGraph
    of_core: Array
    of_trees: Array
    inside: npt.NDArray[np.bool_]
    shared: Array


#: The parts of all graphs with the same factors, for the variables that were held last.
_PARTS: weakref.WeakKeyDictionary[Stamp, tuple[bytes, TakenApart | None]]
_PARTS = weakref.WeakKeyDictionary()


def parts_of(graph: FactorGraph, held: Array) -> TakenApart | None:
    """Return the parts of a graph given its hard evidence; None where none is pendant.

    The graph has to have a structured factor, and a cycle.
    """
    key = (held >= 0).tobytes()
    kept = _PARTS.get(graph.stamp)
    if kept is None or kept[0] != key:
        kept = _PARTS[graph.stamp] = key, _take_apart(graph, held)
    return kept[1]


def _take_apart(graph: FactorGraph, held: Array) -> TakenApart | None:
    network = network_of(graph)
    in_core = _on_cycles(network.native.ptr, network.native.scope, held)
    if in_core[network.structured()].all():
        return None
    inside = np.zeros(graph.n_variables, dtype=np.bool_)
    core, scopes = network.members(np.flatnonzero(in_core)), scopes_of(graph)
    wide = {i for i, scope in enumerate(scopes) if len(scope) > 1}
    pendant = (wide | structured_factors(graph).keys()) - set(core)
    for i in core:
        inside[list(scopes[i])] = True
    shared = np.zeros_like(inside)
    for i in pendant:
        shared[list(scopes[i])] = True
    # Tables of one variable, and of none, follow the variable.
    own = np.zeros(graph.n_factors, dtype=np.bool_)
    own[core] = True
    for i, scope in enumerate(scopes):
        if i not in pendant and len(scope) < 2:
            own[i] = inside[list(scope)].all()
    of_core, of_trees = np.flatnonzero(own), np.flatnonzero(~own)
    return TakenApart(
        graph.part(of_core, Derived),
        graph.part(of_trees, Derived),
        of_core,
        of_trees,
        inside,
        np.flatnonzero(shared & inside & (held < 0)),
    )


def _on_cycles(ptr: Array, scope: Array, held: Array) -> npt.NDArray[np.bool_]:
    """Return which groups are left once all that are pendant are taken off."""
    open_ = held[scope] < 0
    ends = np.concatenate([[0], np.cumsum(open_)])[ptr].tolist()
    variables = scope[open_].tolist()
    scopes = [variables[a:b] for a, b in itertools.pairwise(ends)]
    groups: list[list[int]] = [[] for _ in range(held.size)]
    for g, own in enumerate(scopes):
        for v in own:
            groups[v].append(g)
    # How many groups each variable has left; how many variables of each group have others.
    left = [len(found) for found in groups]
    tied = [sum(left[v] > 1 for v in own) for own in scopes]
    stays = np.ones(len(scopes), dtype=np.bool_)
    queue = [g for g, count in enumerate(tied) if count <= 1]
    stays[queue] = False
    while queue:
        for v in scopes[queue.pop()]:
            left[v] -= 1
            if left[v] != 1:
                continue
            for g in groups[v]:
                if stays[g]:  # v ties it to nothing any more
                    tied[g] -= 1
                    if tied[g] <= 1:
                        stays[g] = False
                        queue.append(g)
    return stays


class PendantMessages(NamedTuple):
    """Messages of the trees to the core: log-vectors, and log Z of the trees, which scales them."""

    mu: dict[int, Array]
    log_z: float


class Pendant:
    """One question to a graph that was taken apart: its evidence, and messages to the core."""

    def __init__(
        self,
        model: FactorGraph,
        parts: TakenApart,
        known: Known,
        workers: int,
        watch: Watch,
        *,
        best: bool = False,
    ) -> None:
        self.model, self.parts, self.known = model, parts, known
        self.workers, self.watch, self.best = workers, watch.uncounted(), best
        inside = parts.inside
        idle = inside.copy()  # they would each add the logarithm of their number of states
        idle[parts.shared] = False
        #: Evidence in the trees: that on a shared variable is the core's.
        self.outside: dict[int, Any] = dict.fromkeys(np.flatnonzero(idle).tolist(), 0)
        for v, x in known.given.items():
            if isinstance(x, int) or not inside[v]:
                self.outside[v] = x
        self.up = self._up()
        soft = {v: x for v, x in known.soft if inside[v]}
        for v, mu in self.up.mu.items():
            soft[v] = soft[v] + mu if v in soft else mu
        held = np.where(inside, known.held, 0)
        #: Evidence in the core, where variables of the trees have one state and no factor.
        self.within = Known(soft, held, list(soft.items()))

    @property
    def reason(self) -> str:
        """Why the graph is taken apart."""
        count = len(network_of(self.parts.trees).native.wide)
        what = (
            "factor of two and more variables is in a pendant tree, and eliminated"
            if count == 1
            else "factors of two and more variables are in pendant trees, and eliminated"
        )
        return f"{count} {what} by messages; of the rest "

    def _up(self) -> PendantMessages:
        trees, shared = self.parts.trees, self.parts.shared
        log_z, messages = _loopy.messages_up(
            trees, self.outside, self.workers, self.watch, best=self.best
        )
        native = network_of(trees).native
        total = {v: np.zeros(trees.cardinalities[v]) for v in shared.tolist()}
        for e in np.flatnonzero(np.isin(native.scope, shared)).tolist():
            total[int(native.scope[e])] += messages[native.edge_at[e] : native.edge_at[e + 1]]
        for v, row in total.items():
            top = row.max()
            if top == -np.inf:
                raise self.impossible(v)
            row -= top if self.best else np.logaddexp.reduce(row)
        return PendantMessages(total, log_z)

    def of_core(self, ask: Callable[[], T]) -> T:
        """Return an answer of the core; its errors are those of the whole graph."""
        try:
            return ask()
        except InfeasibleError as error:
            raise self.impossible(int(error.position)) from None

    def impossible(self, variable: int) -> InfeasibleError:
        """Return the error that no configuration is left."""
        return impossible(self.model, bool(self.known.given), variable)

    def down(self, marginals: list[Array]) -> GraphResult:
        """Return the result of the trees, given the marginals of the core."""
        given = dict(self.outside)
        for v, mu in self.up.mu.items():
            # A state whose marginal a double cannot hold has no mass in the trees, either.
            p = marginals[v]
            given[v] = np.full(p.shape, -np.inf)
            np.subtract(np.log(p, where=p > 0.0, out=given[v]), mu, where=p > 0.0, out=given[v])
        return _loopy.two_passes(self.parts.trees, "", given, self.workers, self.watch)

    def whole(self, core: GraphResult, method: str, reason: str, limit: int) -> GraphResult:
        """Return the result of the graph, given that of its core."""
        trees = self.down(core.marginals)
        own = np.repeat(self.parts.inside, self.model.cards)
        return GraphResult(
            self.model,
            self.known.given,
            None,
            core.log_z + self.up.log_z,
            method,
            reason,
            core.stats,
            state=TreesApart(self.known.given, limit, trees),
            flat=np.where(own, core.flat_marginals(), trees.flat_marginals()),
            limit=limit,
        )

    def decoded(self, states: Array, score: float) -> tuple[Array, float]:
        """Return the best configuration and its score, given those of the core."""
        given = dict(self.outside)
        for v, mu in self.up.mu.items():
            given[v] = int(states[v])
            score -= mu[given[v]]
        best = _loopy.decode_passes(self.parts.trees, given, self.workers, self.watch)
        return np.where(self.parts.inside, states, best.states), score + best.score


class TreesApart:
    """The evidence of a result, and the result of its trees: joints and the entropy need them."""

    __slots__ = ("_asked", "_trees", "given", "limit")

    def __init__(self, given: dict[int, Any], limit: int, trees: GraphResult | None) -> None:
        self.given, self.limit, self._trees = given, limit, trees
        self._asked: Pendant | None = None

    def __getstate__(self) -> tuple[Any, ...]:
        return self.given, self.limit

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state, None)  # type: ignore[misc]

    def joints(self, model: FactorGraph) -> dict[int, Array]:
        """Return the marginal of every factor of two variables and more, by its index."""
        parts, core, trees = self._apart(model)
        own = structured_factors(core)
        scopes = scopes_of(core)
        wide = [i for i, scope in enumerate(scopes) if len(scope) > 1 and i not in own]
        tables = _joints.iter_joints(core, [scopes[i] for i in wide], None, self.limit)
        found = {int(parts.of_core[i]): table for i, table in zip(wide, tables, strict=True)}
        for i, factor in own.items():
            on = [self.joint(model, [v]) for v in factor.scope]
            found[int(parts.of_core[i])] = np.array([p[1] for p in on if p is not None])
        inner = trees.state.joints(parts.trees)
        return found | {int(parts.of_trees[i]): table for i, table in inner.items()}

    def log_beliefs(self, model: FactorGraph) -> Array:
        """Return the logarithms of all marginals, flat."""
        parts, core, trees = self._apart(model)
        own = np.repeat(parts.inside, model.cards)
        inner = _joints.log_marginals(core, None, self.limit)
        return np.where(own, inner, trees.state.log_beliefs(parts.trees))

    def incoming(self, model: FactorGraph) -> dict[int, Array]:
        """Return the messages (k, 2) to every structured factor of the trees, by its index."""
        parts, _, trees = self._apart(model)
        found = trees.state.incoming(parts.trees)
        return {int(parts.of_trees[i]): messages for i, messages in found.items()}

    def joint(self, model: FactorGraph, variables: list[int]) -> Array | None:
        """Return the joint of any variables of the core; None where one lies outside of it."""
        parts, core, _ = self._apart(model)
        if not parts.inside[variables].all():
            return None
        return _joints.joint(core, variables, None, self.limit)

    def entropy(self, model: FactorGraph, marginals: list[Array]) -> float:
        """Return the entropy in nats: of the core, and of the trees given the core."""
        from scipy.special import entr

        parts, core, trees = self._apart(model)
        shared = sum(float(entr(marginals[v]).sum()) for v in parts.shared.tolist())
        return _joints.entropy(core, None, self.limit) + trees.entropy() - shared

    def _apart(self, model: FactorGraph) -> tuple[TakenApart, FactorGraph, GraphResult]:
        """Return the parts, the core with its evidence, and the result of the trees."""
        if self._asked is None:
            known = split(model, self.given)
            parts = parts_of(model, known.held)
            assert parts is not None
            self._asked = Pendant(model, parts, known, 1, NOBODY)
        asked = self._asked
        core = asked.parts.core.copy()
        known = asked.within
        fixed = np.flatnonzero(known.held >= 0).tolist()
        core.know({**{v: int(known.held[v]) for v in fixed}, **known.given})
        if self._trees is None:
            tree = JunctionTree._of_call(asked.parts.core, known, self.limit, NOBODY)
            self._trees = asked.down(tree._infer(None, 1, NOBODY).marginals)
            tree._keep()
        return asked.parts, core, self._trees
