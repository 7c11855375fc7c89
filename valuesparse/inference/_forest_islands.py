"""Islands on the components of a graph that are trees: those of :class:`valuesparse.Tree`.

Evidence is taken into the tables first; what is left of a component is a tree when its factors
have at most two free variables each and form no cycle. Such components are solved together as one
forest, whatever else the graph has. Variables of different cardinality are padded by states that
nothing allows. Where that is far more than the tables have, components with the most states are
left to the islands of graphs with cycles, which pad nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.errors import InfeasibleError, MemoryLimitError
from valuesparse.inference import _forest
from valuesparse.inference._memory import show_bytes
from valuesparse.inference._refusals import impossible
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph, Tree
from valuesparse.models._evidence import Known
from valuesparse.results._tree import TreeResult

__all__ = ["ForestPart", "forest_part"]

Array = npt.NDArray[Any]

#: Padding goes this far in any case: bytes, and times the entries that there are.
_BYTES, _TIMES = 64 << 20, 4
#: Islands of graphs read all factors of a free hub for each of its neighbours: at most so many
#: times the entries that a padded forest reads.
_HUB = 4


class ForestPart(NamedTuple):
    """The components that are trees.

    Attributes
    ----------
    variables : ndarray of int64, shape (n,)
        The variable of each node.
    tree : Tree
        Their model; unary of shape (n, K), K the largest cardinality among them.
    others : list of int
        The factors of the other components, and those whose variables are all known.
    """

    variables: npt.NDArray[np.int64]
    tree: Tree
    others: list[int]

    def infer(
        self, model: FactorGraph, zeta: float, rounds: int, workers: int, watch: Watch
    ) -> TreeResult:
        """Return the marginals given the islands of the forest."""
        try:
            r: TreeResult = _forest.infer(
                self.tree, zeta, rounds, workers, "islands", watch.left(), watch.progress
            )
            return r
        except InfeasibleError as error:
            v = int(self.variables[error.position])
            raise impossible(model, True, v) from None


def forest_part(model: FactorGraph, known: Known, limit: int, watch: Watch) -> ForestPart | None:
    """Return the components that are trees once the evidence is known; None when there are none."""
    from scipy import sparse
    from scipy.sparse import csgraph

    held, cards = known.held, model.cards
    snapshot = snapshot_of(model, limit)
    states = held.tolist()
    frees = [[v for v in scope if states[v] < 0] for scope in watch.each(snapshot.scopes)]
    wide = np.zeros(model.n_variables, dtype=bool)
    wide[[free[0] for free in watch.each(frees) if len(free) > 2]] = True
    edges = [(free[0], v) for free in watch.each(frees) for v in free[1:]]
    at = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    adjacency = sparse.csr_array((np.ones(at.shape[1]), (at[0], at[1])), shape=(held.size,) * 2)
    count, label = csgraph.connected_components(adjacency, directed=False)
    # A tree has one edge less than it has variables.
    nodes = np.bincount(label, minlength=count)
    pairs_of = {(min(free), max(free)) for free in watch.each(frees) if len(free) == 2}
    ends = [a for a, _ in pairs_of]
    loose = np.bincount(label[np.array(ends, dtype=np.int64)], minlength=count) >= nodes
    loose[label[wide]] = True
    free_variables = np.flatnonzero(held < 0)
    variables = free_variables[~loose[label[free_variables]]]
    if not variables.size:
        return None
    local = {v: np.zeros(cards[v]) for v in watch.each(variables.tolist())}
    for v, likelihood in watch.each(known.soft):
        if v in local:
            local[v] = local[v] + likelihood
    pairs: dict[tuple[int, int], Array] = {}
    for scope, free, table in watch.each(
        zip(snapshot.scopes, frees, snapshot.arrays(), strict=True)
    ):
        if not free or free[0] not in local:
            continue
        rest = table[tuple(states[v] if states[v] >= 0 else slice(None) for v in scope)]
        if len(free) == 1:
            local[free[0]] = local[free[0]] + rest
            continue
        a, b = free
        if a > b:
            a, b, rest = b, a, rest.T
        pairs[a, b] = pairs[a, b] + rest if (a, b) in pairs else rest
    widest = np.zeros(count, dtype=np.int64)
    np.maximum.at(widest, label[variables], cards[variables])
    degree = np.bincount(np.array(list(pairs), dtype=np.int64).ravel(), minlength=cards.size)
    while variables.size:
        rooted = _root(variables, pairs, cards.size, watch)
        k = int(cards[variables].max())
        most = widest[label[variables]] > k // 2
        reads = int((degree**2 * cards)[variables[most]].sum())
        if not rooted.spread(cards[variables], limit) or reads > _HUB * rooted.edges * k * k:
            tree = _padded(variables, rooted, local, cards, limit, watch)
            own = set(variables.tolist())
            places = enumerate(watch.each(frees))
            others = [f for f, free in places if not free or free[0] not in own]
            return ForestPart(variables, tree, others)
        variables = variables[~most]
    return None


class _Rooted(NamedTuple):
    """A forest: the parent of each node, its table with that, and the tables that differ."""

    parent: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    kept: list[Array]

    @property
    def edges(self) -> int:
        """Return how many nodes have a parent."""
        return int(np.count_nonzero(self.parent >= 0))

    def spread(self, cards: Array, limit: int) -> bool:
        """Return whether padding takes far more than the tables of nodes and pairs have."""
        k = int(cards.max())
        padded = k * (k * len(self.kept) + cards.size)
        entries = sum(table.size for table in self.kept) + int(cards.sum())
        return padded > _TIMES * entries and 8 * padded > min(_BYTES, limit)


def _root(
    variables: npt.NDArray[np.int64], pairs: dict[tuple[int, int], Array], size: int, watch: Watch
) -> _Rooted:
    n = variables.size
    node = np.full(size, -1, dtype=np.int64)
    node[variables] = np.arange(n)
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in watch.each(pairs):
        if node[a] >= 0:
            neighbours[node[a]].append(b)
            neighbours[node[b]].append(a)
    parent = np.full(n, -1, dtype=np.int64)
    kind = np.zeros(n, dtype=np.int64)
    kinds: dict[tuple[Any, ...], int] = {}
    kept: list[Array] = []
    seen = np.zeros(n, dtype=bool)
    for root in watch.each(range(n)):
        stack = [] if seen[root] else [root]
        seen[root] = True
        while stack:
            i = stack.pop()
            if not i % 4096:  # a path has one root
                watch.left()
            v = int(variables[i])
            for u in neighbours[i]:
                j = int(node[u])
                if seen[j]:
                    continue
                seen[j] = True
                parent[j] = i
                stack.append(j)
                table = pairs[v, u] if v < u else pairs[u, v].T
                key = (table.shape, table.tobytes())
                if key not in kinds:
                    kinds[key] = len(kinds)
                    kept.append(table)
                kind[j] = kinds[key]
    return _Rooted(parent, kind, kept)


def _padded(
    variables: npt.NDArray[np.int64],
    rooted: _Rooted,
    local: dict[int, Array],
    cards: Array,
    limit: int,
    watch: Watch,
) -> Tree:
    k, kept = int(cards[variables].max()), rooted.kept
    size = 8 * k * k * len(kept)
    if size > limit:
        raise MemoryLimitError(
            f"the tables of {len(kept)} pairs, padded to {k} states, need {show_bytes(size)}, "
            f"above memory_limit={show_bytes(limit)}: leave zeta at 1, or raise memory_limit"
        )
    unary = np.full((variables.size, k), -np.inf)
    for i, v in enumerate(watch.each(variables.tolist())):
        unary[i, : cards[v]] = local[v]
    tables = np.zeros((max(1, len(kept)), k, k))
    for i, table in enumerate(watch.each(kept)):
        tables[i, : table.shape[0], : table.shape[1]] = table
    if len(tables) == 1:
        return Tree(rooted.parent, unary, tables[0])
    return Tree(rooted.parent, unary, tables, edge_type=rooted.kind)
