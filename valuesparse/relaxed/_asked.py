"""Joints of sets of variables, asked of the engine that gave a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._joints import iter_joints, log_marginals
from valuesparse.inference._questions import full_joints
from valuesparse.inference._search import Search
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import scopes_of, structured_factors
from valuesparse.models._evidence import split
from valuesparse.relaxed._solver import log_beliefs
from valuesparse.relaxed._within import MOST
from valuesparse.results import GraphResult
from valuesparse.results._factors import CONDITIONED, marginal_of
from valuesparse.threads import resolve

__all__ = ["AskedJoints", "log_of"]

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: Bytes that a tree for the joints of many factors may take, in any case.
_SMALL = 1 << 24
#: Probabilities above this have all their digits, and so have products of them; see `floor`.
_LEAST = 1e-290
#: The same after a pass that may have lost 2^-100 of the whole.
_LEAST_OF_LOSSY = 2.0**-60
#: Beliefs of engines that are not exact below it have lost digits, if they are there at all.
_NORMAL = float(np.finfo(np.float64).tiny)
#: Numbers of a tree's logarithms take this much more memory.
_WIDER = 2.0


class AskedJoints:
    """Joints of sets of variables by the engine of a result, in numbers and in logarithms.

    Attributes
    ----------
    floor : float
        Numbers above it have their digits; it falls with every pass that may have lost some.
    deeper : bool
        Whether logarithms tell more than numbers, which may have lost something.
    entries : int
        Clique entries of the largest tree that was needed: what rounding is bounded with.
    """

    def __init__(self, result: GraphResult, thorough: bool, linked: bool) -> None:
        self.result, self.thorough, self.exact = result, thorough, result.exact
        #: Whether a factor that was used has two variables.
        self._linked = linked
        self._loopy = result.state is not None
        self.entries = int(result.stats.get("table_entries", 0))
        self.deeper = self.exact and not result.faithful and not self._loopy
        # Without links beliefs are those of one variable each, which lose nothing before that.
        lossy = self.deeper and result.stats.get("widened") == 0
        self.floor = _LEAST_OF_LOSSY if lossy else _LEAST
        self._shallow = False  # logarithms did not fit in memory
        self._found: dict[tuple[int, ...], Floats | None] = {}
        self._found_logs: dict[tuple[int, ...], Floats | None] = {}
        self._tables: list[tuple[tuple[int, ...], Floats]] | None = None

    @property
    def sure(self) -> bool:
        """Whether a probability of zero is one, and no underflow."""
        return not self._shallow and (self.result.faithful or self.deeper)

    def logs_of(self, scopes: Sequence[tuple[int, ...]]) -> list[Floats | None]:
        """Return the logarithms of joints; of what plain numbers hold where nothing tells more."""
        if self.deeper:
            return self.of(scopes, logs=True)
        return [None if p is None else self.log_of(p) for p in self.of(scopes)]

    def log_of(self, p: Floats) -> Floats:
        """Return logarithms where nothing tells more: −inf of 0, and of beliefs with few digits."""
        return log_of(p if self.exact else np.where(p < _NORMAL, 0.0, p))

    def _with_evidence(self) -> FactorGraph:
        """Return the graph that was solved, with the evidence that it was solved for."""
        graph = self.result.part()
        return graph if self.result.evidence is graph.evidence else self.result.posterior()

    def log_beliefs(self) -> Floats:
        """Return the logarithms of all beliefs, flat; of the numbers where nothing tells more."""
        if self.exact and self._loopy:
            own = self.result.state.log_beliefs(self.result.part())
            return self.log_of(self.result.flat_marginals()) if own is None else own
        if self.deeper and not self._linked:
            return log_beliefs(self._with_evidence())
        if self.deeper:
            try:
                return log_marginals(self.result.posterior(), None, self.result.memory_allowed())
            except MemoryLimitError:
                self._give_up()
        return self.log_of(self.result.flat_marginals())

    def _give_up(self) -> None:
        """Note that logarithms do not fit in memory."""
        self.deeper, self._shallow = False, True

    def _factor_belief(self, scope: tuple[int, ...]) -> Floats | None:
        """Return the belief of the first factor that holds these variables."""
        if self._tables is None:
            every = scopes_of(self.result.part())
            beliefs = self.result.state.joints(self.result.part())
            tables = [(every[f], beliefs[f]) for f in sorted(beliefs)]
            self._tables = [(s, table) for s, table in tables if 1 < len(s) == table.ndim]
            self._holders: dict[int, list[int]] = {}
            for f, (other, _) in enumerate(self._tables):
                for v in other:
                    self._holders.setdefault(v, []).append(f)
        wanted = set(scope)
        # The first of them is in the list of each variable: a hub's is long.
        for f in min((self._holders.get(v, []) for v in scope), key=len):
            other, table = self._tables[f]
            if wanted <= set(other):
                return marginal_of(table, other, scope)
        most = MOST if self.exact else 2
        for factor in structured_factors(self.result.part()).values():
            if len(scope) <= most and wanted <= set(factor.scope):  # on a cycle, in a junction tree
                return self.result.joint([self.result.graph.names[v] for v in scope])
        return None

    def of(self, scopes: Sequence[tuple[int, ...]], *, logs: bool = False) -> list[Floats | None]:
        """Return joints, or their logarithms, each computed once; see `_compute`."""
        known = self._found_logs if logs else self._found
        new = [scope for scope in scopes if scope not in known]
        known.update(zip(new, self._compute(new, logs), strict=True))
        return [known[scope] for scope in scopes]

    def _compute(self, scopes: Sequence[tuple[int, ...]], logs: bool) -> list[Floats | None]:
        """Return joints; None where `thorough` finds no tree for one alone that fits in memory.

        One tree for all if that stays near the size of the tree that was solved; else the sets
        are halved until it does. Scopes of factors that were used never become products: what
        does not fit is conditioned, or refused. After loopy inference: beliefs of factors.
        """
        found: list[Floats | None] = [None] * len(scopes)
        if not scopes:
            return found
        if self._loopy:
            return [self._factor_belief(scope) for scope in scopes]
        graph = self.result.part()
        if self.result.method == CONDITIONED:
            try:
                return self._large(list(scopes), logs)
            except MemoryLimitError:
                if not self.thorough:  # these are scopes of factors that were used
                    raise
                return found
        own, soft, flat = self._own_tree([])
        most = self.result.memory_allowed()
        wider = _WIDER if logs else 1.0
        limit = min(most, max(_SMALL, 4.0 * wider * own.cost()[2]))
        stack, large = [range(len(scopes))], []
        while stack:
            these = stack.pop()
            tree, soft, flat = self._own_tree([scopes[i] for i in these])
            cost = tree.cost()
            if wider * cost[2] > (limit if len(these) > 1 else most):
                if len(these) > 1:
                    half = len(these) // 2
                    stack += [these[half:], these[:half]]
                elif not self.thorough:
                    large.append(these[0])
                continue
            self.entries = max(self.entries, int(cost[1]))
            tree.infer(soft, resolve(None), flat, None, None, None, logs)
            self._heed(widened=tree.widened(), faithful=tree.faithful())
            gone = -np.inf if logs else 0.0
            joints = full_joints(tree, [scopes[i] for i in these], graph, gone)
            for i, table in zip(these, joints, strict=True):
                found[i] = table
        for i, joint in zip(large, self._large([scopes[i] for i in large], logs), strict=True):
            found[i] = joint
        return found

    def _large(self, scopes: list[tuple[int, ...]], logs: bool) -> list[Floats | None]:
        """Return joints from one tree, conditioned if need be; MemoryLimitError if that fails.

        Logarithms are those of plain numbers where theirs do not fit.
        """
        if not scopes:
            return []
        try:
            allowed = self.result.memory_allowed()
            found = iter_joints(self.result.posterior(), scopes, None, allowed, logs=logs)
            if not logs:
                self._heed(widened=False, faithful=False)  # nobody has looked
            return list(found)
        except MemoryLimitError:
            if not logs:
                raise
            self._give_up()
            return [None if p is None else log_of(p) for p in self.of(scopes)]

    def _heed(self, *, widened: bool, faithful: bool) -> None:
        """Note what a pass of another tree than that of the result may have lost."""
        if widened or not faithful:
            self.deeper = self.exact
        if not faithful:
            self.floor = _LEAST_OF_LOSSY

    def _own_tree(
        self, scopes: list[tuple[int, ...]]
    ) -> tuple[_junction.CliqueTree, _junction.Soft | None, Floats]:
        """Return a tree for these joints given the evidence, ready, and a buffer for marginals."""
        graph = self.result.part()
        snapshot = snapshot_of(graph)
        known = split(graph, self.result.evidence)
        pairs = sorted(known.soft, key=lambda pair: pair[0])
        soft = _junction.Soft(graph.n_variables, pairs) if pairs else None
        tree = _junction.CliqueTree(snapshot, scopes)
        tree.prepare(known.held, soft, Search(effort=0.0))
        return tree, soft, np.empty(snapshot.entries)


def log_of(p: Floats) -> Floats:
    """Return the logarithms of probabilities: −inf of 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p))
