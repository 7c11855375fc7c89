"""Bounds from a sparse approximation of the parameter matrix (RL05)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse
from scipy.sparse import csgraph

from valuesparse._forest import CARRIED_SUM
from valuesparse._rounding import EPS, down, engine_margin, up
from valuesparse._validation import ExcessiveError, as_choice, as_count
from valuesparse.bounds._quadratic import Quadratic, interaction, shift
from valuesparse.bounds._reduced import Reduced, Tables, graph_of, largest, plan_of, reduce_graph
from valuesparse.bounds._support_tree import gauge, schur, support_tree
from valuesparse.errors import InfeasibleError
from valuesparse.inference import JunctionTree
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors
from valuesparse.models._evidence import Evidence, Known, asked, known_of

__all__ = ["KINDS", "PreconditionerBounds", "preconditioner"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

KINDS = ("spanning_tree", "support_tree", "sparsifier")

_GRID = np.log([1 / 256, 1 / 32, 0.25, 0.7, 1.0, 1.4, 2.5, 5.0, 10.0, 20.0, 50.0])
# Above every bound that a model may have.
_WORST = 10.0 * CARRIED_SUM


class _Bounding(NamedTuple):
    """A solvable model that bounds: score >= (or <=) constant + unary + tables, margin aside."""

    constant: float
    unary: list[Floats]
    tables: Tables
    margin: float
    magnitude: float
    scale: float


@dataclass(frozen=True, eq=False)
class PreconditionerBounds:
    """The answer of :func:`preconditioner`.

    Attributes
    ----------
    lower, upper : float
        They hold: ``lower <= log Z <= upper``.
    kind : str
        "spanning_tree", "support_tree" or "sparsifier".
    edges : tuple of tuple
        Variables (names) of each edge that the preconditioner keeps; none for a support tree.
    scale_lower, scale_upper : float
        By how much the kept edges are multiplied in either bound (the lambda of RL05).
    steiner : int
        Number of Steiner nodes.
    """

    lower: float
    upper: float
    kind: str
    edges: tuple[tuple[Any, Any], ...]
    scale_lower: float
    scale_upper: float
    steiner: int
    _graph: FactorGraph = field(repr=False)
    _reduced: Reduced = field(repr=False)
    _given: dict[int, Any] = field(repr=False)
    _sides: tuple[_Bounding, _Bounding] = field(repr=False)

    def event(self, states: Mapping[Any, Any]) -> tuple[float, float]:
        """Return bounds on the probability that variables have the given states.

        Parameters
        ----------
        states : mapping
            Variable (name or number): state (name or number).

        Returns
        -------
        lower, upper : float
            RL05, eq. 7, and at least as tight: with A the event,
            ``p = Z(A) / (Z(A) + Z(not A))``, each of them bounded on its own.

        Raises
        ------
        ValueError
            For an unknown variable or state.
        """
        wanted = self._graph.resolve_evidence(states, argument="states")
        number = {v: i for i, v in enumerate(self._reduced.variables)}
        inside: dict[int, int] = {}
        for v, state in wanted.items():
            if not isinstance(state, int):
                raise ValueError(
                    f"states[{self._graph.names[v]!r}] must be one state, got a vector"
                )
            if v in number:
                inside[number[v]] = state
            elif self._given[v] != state:
                return 0.0, 0.0
        if not inside:
            return 1.0, 1.0
        low, high = (_event(model, inside) for model in self._sides)
        return (
            max(0.0, _share(low[0][0], high[1][1], -1)),
            min(1.0, _share(high[0][1], low[1][0], +1)),
        )

    def marginals(self) -> tuple[list[Floats], list[Floats]]:
        """Return lower and upper bounds on every marginal, in the order of the variables."""
        graph = self._graph
        lower = [np.zeros(k) for k in graph.cardinalities]
        upper = [np.zeros(k) for k in graph.cardinalities]
        for v, known in self._given.items():
            if isinstance(known, int):
                lower[v][known] = upper[v][known] = 1.0
        for v in self._reduced.variables:
            for x in range(graph.cardinalities[v]):
                named = graph.states[v]
                state = x if named is None else named[x]
                lower[v][x], upper[v][x] = self.event({graph.names[v]: state})
        return lower, upper


def preconditioner(
    graph: FactorGraph,
    kind: str = "spanning_tree",
    *,
    width: int = 6,
    evidence: Evidence | Known | None = None,
    likelihood: Evidence | None = None,
) -> PreconditionerBounds:
    r"""Return bounds on log Z and on event probabilities from a graph preconditioner (RL05).

    Parameters
    ----------
    graph : FactorGraph
        Tables of one or two variables, all entries finite.
    kind : {"spanning_tree", "support_tree", "sparsifier"}
        The approximation of the interactions: the maximum spanning tree (Vaidya); a tree of Steiner
        nodes over a recursive partition (Gremban), for variables of equal cardinality; or the
        maximum spanning tree and as many of the heaviest other edges as a junction tree of `width`
        takes, at least as tight as the tree alone.
    width : int, default 6
        Largest width of the junction tree of a sparsifier.
    evidence : mapping, optional
        Instead of the graph's own.
    likelihood : mapping, optional
        {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside the evidence.

    Returns
    -------
    PreconditionerBounds
        ``lower``, ``upper``, and bounds on event probabilities.

    Raises
    ------
    ValueError
        For an unknown `kind`, a factor of three variables or more, an entry of −inf (write it as a
        large negative number, or take :func:`valuesparse.bounds.log_z`), or a support tree over
        variables of different cardinalities.

    Notes
    -----
    Unary parts stay exact; of a pairwise table only the doubly centred interaction is
    approximated. With C the interactions of the kept edges, upper and lower parameter matrices are
    :math:`\lambda C` plus a block-diagonal matrix, which one-hot vectors turn into unary scores.
    The condition is that a matrix is positive semidefinite, so nothing is assumed about the
    potentials. λ is chosen by minimising the bound over λ and the sign of the Laplacian; the
    diagonal shift that each λ needs is an eigenvalue, moved outward by its rounding error, so the
    bound holds whatever λ is.

    A Steiner node has real values in the matrix and k states in the model: a minimum over its
    values is at most the mean over states, which costs ``log k`` for each of them.

    References
    ----------
    RL05: Ravikumar, Lafferty, "Preconditioner Approximations for Probabilistic Graphical Models".

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[0.5, 0.0], [0.0, 0.5]])
    >>> b = vs.bounds.preconditioner(graph)
    >>> b.lower <= float(vs.infer(graph).log_z) <= b.upper
    True
    >>> low, high = b.event({0: 1, 2: 1})
    >>> 0.0 <= low <= high <= 1.0
    True
    """
    if not isinstance(graph, FactorGraph):
        raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
    as_choice("kind", kind, KINDS)
    width = as_count("width", width, at_least=1)
    known = known_of(graph, asked(graph, evidence, likelihood))
    given = known.given
    reduced = reduce_graph(graph, known)
    _require_pairwise(graph, given)
    problem = _Preconditioning(reduced)
    if kind == "support_tree":
        cards = set(reduced.cards)
        if len(cards) > 1:
            raise ValueError(
                "a support tree needs variables of equal cardinality, got "
                f"{sorted(cards)}; take kind='spanning_tree'"
            )
        kept = np.zeros(len(problem.quadratic.edges), dtype=bool)
        sides = [problem.supported(sign) for sign in (-1, +1)]
    else:
        candidates = [_spanning(problem.quadratic)]
        if kind == "sparsifier":
            candidates.append(_within(problem.quadratic, candidates[0], width))
        kept = candidates[-1]
        sides = [
            min((problem.kept(c, sign) for c in candidates), key=lambda s: sign * s[0])
            for sign in (-1, +1)
        ]
    (lower, below), (upper, above) = sides
    names = [graph.names[v] for v in reduced.variables]
    edges = [problem.quadratic.edges[e] for e in np.flatnonzero(kept)]
    return PreconditionerBounds(
        lower,
        upper,
        kind,
        tuple((names[i], names[j]) for i, j in edges),
        below.scale,
        above.scale,
        len(above.unary) - len(reduced.unary),
        graph,
        reduced,
        dict(given),
        (below, above),
    )


class _Preconditioning:
    """The model, its interactions apart, and the search for the best scale."""

    def __init__(self, reduced: Reduced) -> None:
        self.reduced = reduced
        self.unary = [u.copy() for u in reduced.unary]
        edges, kernels = [], []
        self.rounded = 0.0  # where the parts of several edges are added up
        for (i, j), table in reduced.tables:
            kernel, rows, columns = interaction(table)
            for v, part in ((i, rows), (j, columns)):
                self.unary[v] += part
                self.rounded += EPS * largest(self.unary[v])
            if kernel.any():
                edges.append((i, j))
                kernels.append(kernel)
        self.kernels = kernels
        self.quadratic = Quadratic(reduced.cards, edges, kernels)
        every = np.ones(len(edges), dtype=bool)
        self.w, self.g = self.quadratic.matrices(every)

    def kept(self, which: Mask, sign: int) -> tuple[float, _Bounding]:
        """Return the best bound (sign +1: upper) that keeps these edges, multiplied by a scale."""
        q = self.quadratic
        wc, gc = q.matrices(which)
        d = q.diagonal(which)
        edges = np.flatnonzero(which)

        def build(scale: float, s: int) -> _Bounding:
            rest = s * (scale * gc - self.g)
            t, lack = shift(sign * self.w, [sign * scale * wc, rest], q.spread(d))
            tables: Tables = [(q.edges[e], scale * self.kernels[e]) for e in edges]
            return self._model(sign, rest, d, t, lack, self.unary, tables, 0.0, scale)

        return _search(build, (+1, -1), sign)

    def supported(self, sign: int) -> tuple[float, _Bounding]:
        """Return the best bound (sign +1: upper) from a support tree."""
        q = self.quadratic
        n = len(self.unary)
        k = len(self.unary[0]) if n else 1
        target = sign * self.w
        flips = gauge(target) if k == 2 else np.ones(n)
        weights = np.zeros((n, n))
        for (i, j), size in zip(q.edges, q.weight, strict=True):
            weights[i, j] = weights[j, i] = size / max(1, k - 1)
        parent, weight = support_tree(weights)
        laplacian = np.kron(schur(n, parent, weight), np.eye(k - 1))
        signs = np.repeat(flips, k - 1)
        laplacian = laplacian * signs[:, None] * signs[None, :]
        d = q.diagonal(np.zeros(len(q.edges), dtype=bool))
        differ = 1.0 - np.eye(k)
        extra = len(parent) - n
        unary = self.unary + [np.zeros(k)] * extra
        links: list[tuple[int, int, Floats]] = []
        for v, above in enumerate(parent):
            if above >= 0 and weight[v] > 0.0:
                # A flipped binary variable has its states exchanged.
                table = differ[::-1] if v < n and flips[v] < 0 else differ
                links.append((v, int(above), sign * weight[v] * table))

        def build(scale: float, s: int) -> _Bounding:
            rest = -self.g if s > 0 else np.zeros_like(self.g)
            t, lack = shift(
                target, [scale * laplacian, rest], q.spread(d), relative=8.0 * len(parent)
            )
            tables: Tables = [((v, above), scale * table) for v, above, table in links]
            constant = -extra * math.log(k)
            return self._model(sign, rest, d, t, lack, unary, tables, constant, scale)

        return _search(build, (+1, -1), sign)

    def _model(
        self,
        sign: int,
        rest: Floats,
        d: Floats,
        t: float,
        lack: float,
        unary: list[Floats],
        tables: Tables,
        constant: float,
        scale: float,
    ) -> _Bounding:
        q = self.quadratic
        price = q.price(d)
        shifted = list(unary)
        size = abs(t) * price + abs(constant) + self.reduced.magnitude
        for v in range(len(q.cards)):
            own = q.unary(v, rest)
            shifted[v] = unary[v] + sign * own
            size += float(np.abs(own).max(initial=0.0))
        size += sum(float(np.abs(table).max()) for _, table in tables)
        margin = lack * price + EPS * 64.0 * size + self.reduced.merged + self.rounded
        total = self.reduced.constant + constant + sign * t * price
        return _Bounding(total, shifted, tables, margin, size, scale)


def _search(
    build: Callable[[float, int], _Bounding], signs: tuple[int, ...], sign: int
) -> tuple[float, _Bounding]:
    """Return the best bound over scales and Laplacians of either sign."""
    best: tuple[float, _Bounding] | None = None

    def loss(log_scale: float, s: int) -> float:
        nonlocal best
        model = build(float(np.exp(log_scale)), s)
        try:
            value = _bound(model, sign)
        except ExcessiveError:  # the scale makes more of the scores than there may be
            return _WORST
        if best is None or sign * value < sign * best[0]:
            best = value, model
        return sign * value

    losses = {s: [loss(x, s) for x in _GRID] for s in signs}
    chosen = min(losses, key=lambda s: min(losses[s]))
    at = int(np.argmin(losses[chosen]))
    window = _GRID[max(0, at - 1)], _GRID[min(len(_GRID) - 1, at + 1)]
    optimize.minimize_scalar(
        loss, args=(chosen,), bounds=window, method="bounded", options={"maxiter": 8}
    )
    if best is None:
        raise ExcessiveError(
            "the scores of this graph are too large for preconditioner bounds, which make models "
            f"with scores up to {CARRIED_SUM:g} in sum: take valuesparse.bounds.log_z with other "
            "methods (to forbid, use -inf)"
        )
    return best


def _engine(model: _Bounding) -> JunctionTree:
    return plan_of(graph_of(model.unary, model.tables))


def _margin(model: _Bounding, value: float) -> float:
    entries = sum(u.size for u in model.unary) + sum(t.size for _, t in model.tables)
    return model.margin + engine_margin(value, entries, model.magnitude)


def _bound(model: _Bounding, sign: int) -> float:
    value = _engine(model).log_z()
    total = value + model.constant
    margin = _margin(model, value)
    return up(total, margin) if sign > 0 else down(total, margin)


def _event(
    model: _Bounding, inside: dict[int, int]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return log Z of a bounding model inside and outside an event, each rounded both ways."""
    engine = _engine(model)

    def mass(evidence: dict[int, Any]) -> float:
        try:
            return engine.log_z(evidence)
        except InfeasibleError:
            return -np.inf

    # Outside: the first variable differs, or it agrees and the second one differs, ...
    outside = -np.inf
    agreed: dict[int, Any] = {}
    for v, x in inside.items():
        k = len(model.unary[v])
        if k > 1:
            others = np.where(np.arange(k) == x, -np.inf, 0.0)
            outside = float(np.logaddexp(outside, mass({**agreed, v: others})))
        agreed[v] = x
    within = mass(dict(inside))
    return _both(model, within), _both(model, outside)


def _both(model: _Bounding, value: float) -> tuple[float, float]:
    total, margin = value + model.constant, _margin(model, value)
    return down(total, margin), up(total, margin)


def _share(inside: float, outside: float, direction: int) -> float:
    """Return exp(inside) / (exp(inside) + exp(outside)), rounded away."""
    if inside == -np.inf:
        return 0.0
    odds = outside - inside
    if odds > 700.0:  # where exp overflows
        return 1e-304 if direction > 0 else 0.0
    return (1.0 + direction * 16.0 * EPS) / (1.0 + math.exp(odds))


def _spanning(q: Quadratic) -> Mask:
    """Return which edges a spanning forest of the largest weight has."""
    n, m = len(q.cards), len(q.edges)
    which = np.zeros(m, dtype=bool)
    if not m:
        return which
    i, j = np.array(q.edges).T
    order = np.argsort(-q.weight, kind="stable")
    # Ranks, not weights: no ties, and no weight can be taken for a missing edge.
    rank = np.empty(m)
    rank[order] = np.arange(1, m + 1)
    tree = csgraph.minimum_spanning_tree(sparse.csr_array((rank, (i, j)), shape=(n, n)))
    which[order[tree.data.astype(np.int64) - 1]] = True
    return which


def _within(q: Quadratic, tree: Mask, width: int) -> Mask:
    """Return the tree with as many of the heaviest other edges as `width` takes."""
    rest = np.flatnonzero(~tree)
    rest = rest[np.argsort(-q.weight[rest], kind="stable")]
    chosen = tree.copy()
    for block in _blocks(rest):
        more = chosen.copy()
        more[block] = True
        if _width(q, more) <= width:
            chosen = more
    return chosen


def _blocks(rest: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield runs of edges: at most 64 attempts, however many edges there are."""
    yield from np.array_split(rest, min(64, len(rest))) if len(rest) else ()


def _width(q: Quadratic, which: Mask) -> int:
    graph = FactorGraph(q.cards)
    for e in np.flatnonzero(which):
        i, j = q.edges[e]
        graph.add((i, j), np.zeros((q.cards[i], q.cards[j])))
    return int(plan_of(graph).width)


def _require_pairwise(graph: FactorGraph, given: Mapping[int, Any]) -> None:
    """Refuse what evidence leaves of tables over three variables or more, or with zeros."""
    held = {v: x for v, x in given.items() if isinstance(x, int)}
    instead = "valuesparse.bounds.log_z has bounds for such models"
    described = {f: f", {x.described}," for f, x in structured_factors(graph).items()}
    snapshot = snapshot_of(graph)
    for f, (scope, table) in enumerate(zip(snapshot.scopes, snapshot.arrays(), strict=True)):
        free = sum(v not in held for v in scope)
        part = table[tuple(held.get(v, slice(None)) for v in scope)]
        if free > 2 or not np.isfinite(part).all():
            wrong = (
                f"{free} variables; preconditioner bounds take one or two"
                if free > 2
                else "an entry of -inf, which preconditioner bounds do not take"
            )
            raise ValueError(f"factor {f}{described.get(f, '')} has {wrong}: {instead}")
    for v, known in given.items():
        if not isinstance(known, int) and not np.isfinite(known).all():
            raise ValueError(
                f"evidence[{graph.names[v]!r}] has an entry of -inf, which preconditioner bounds "
                f"do not take: {instead}"
            )
