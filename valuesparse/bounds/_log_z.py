"""The best bounds on log Z that there are."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from valuesparse._rounding import EPS, down, engine_margin, up
from valuesparse._validation import ExcessiveError, as_count, as_flag, as_items, is_choice
from valuesparse.bounds import _conditioned
from valuesparse.bounds._mini_bucket import Buckets
from valuesparse.bounds._preconditioner import PreconditionerBounds, preconditioner
from valuesparse.bounds._reduced import FIRST, THREE, Reduced, graph_of, reduce_graph
from valuesparse.errors import InfeasibleError, MemoryLimitError
from valuesparse.inference import (
    TRW,
    JunctionTree,
    MeanField,
    StructuredMeanField,
    infer,
    trw_dual_bound,
)
from valuesparse.inference._conditioning import NEVER
from valuesparse.inference._memory import as_limit
from valuesparse.inference._refusals import check_states, impossible
from valuesparse.inference._watch import NOBODY
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, Known, asked, known_of
from valuesparse.results import GraphResult

__all__ = ["METHODS", "LogZBounds", "MethodBounds", "log_z"]

METHODS = (
    "exact",
    "mini_bucket",
    "conditioned",
    "mean_field",
    "spanning_tree",
    "sparsifier",
    "structured_mean_field",
    "trw",
)

# Variables above which preconditioners are not among the defaults: eigenvalues cost n ** 3.
_DENSE = 1000

# Messages on loops may outgrow the range of a double, so this alone is not taken for a proof.
_VANISHED = "messages round the loops left a variable no state"


@dataclass(frozen=True)
class MethodBounds:
    """The bounds that one method found.

    Attributes
    ----------
    lower, upper : float
        −inf and +inf where it has nothing to say.
    seconds : float
        How long it took.
    note : str
        Why it did not run, or why a side is infinite; empty otherwise.
    """

    lower: float
    upper: float
    seconds: float
    note: str


@dataclass(frozen=True)
class LogZBounds:
    """The answer of :func:`log_z`: ``lower <= log Z <= upper``.

    Attributes
    ----------
    lower, upper : float
        The best of all methods; infinite where zeros forbid better, and then `methods` says why.
    lower_method, upper_method : str
        Which method gave each side; empty for an infinite side.
    methods : dict of str to MethodBounds
        The bounds of each method, in the order in which they ran.
    """

    lower: float
    upper: float
    lower_method: str
    upper_method: str
    methods: dict[str, MethodBounds] = field(hash=False)

    @property
    def gap(self) -> float:
        """``upper - lower``."""
        return self.upper - self.lower


def log_z(
    graph: FactorGraph,
    exact: bool = True,
    *,
    evidence: Evidence | None = None,
    likelihood: Evidence | None = None,
    methods: Sequence[str] | None = None,
    i_bound: int = 10,
    iterations: int = 100,
    memory_limit: int | None = None,
    seed: int = 0,
) -> LogZBounds:
    r"""Return the tightest lower and upper bounds on log Z that the methods here find.

    Parameters
    ----------
    graph : FactorGraph
        Any tables, zeros (−inf) included.
    exact : bool, default True
        Whether exact inference may answer, where it fits in `memory_limit`; then nothing else runs.
    evidence : mapping, optional
        Instead of the graph's own.
    likelihood : mapping, optional
        {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside the evidence.
    methods : sequence of str, optional
        Which to run: of "exact", "mini_bucket" (weighted mini-buckets), "conditioned" (exact mass
        of the configurations that agree with a good one on as few variables as that takes),
        "mean_field", "structured_mean_field" (over a forest; never below "mean_field", and started,
        too, where the spanning tree's lower bound is when that runs, so never below it either),
        "trw" (:func:`valuesparse.inference.trw_dual_bound`), all for any tables; "spanning_tree",
        "sparsifier" (:func:`preconditioner`). By default all that fit the model.
    i_bound : int, default 10
        Variables of the largest mini-bucket, minus one.
    iterations : int, default 100
        Iterations of methods that improve step by step; every step's bound is valid.
    memory_limit : int, optional
        Bytes that exact tables may take; by default half of what the machine has.
    seed : int, default 0
        Seed of random starts and forests.

    Returns
    -------
    LogZBounds
        The bounds, who gave them, and what every method found.

    Raises
    ------
    InfeasibleError
        When a method proves that no configuration agrees with the evidence.
    ValueError
        For an unknown method, ``exact=False`` with "exact" among `methods`, `i_bound` < 1 or
        `iterations` < 0.

    Notes
    -----
    All bounds are rounded outward: by the error of the sums and exponentials that they are made
    of, and by the whole tolerance of the exact engines (1e-10, relative above 1).

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> b = vs.bounds.log_z(graph)
    >>> b.upper_method, b.gap < 1e-6
    ('exact', True)
    >>> b = vs.bounds.log_z(graph, exact=False, i_bound=1)
    >>> b.lower <= float(vs.infer(graph).log_z) <= b.upper
    True
    """
    if not isinstance(graph, FactorGraph):
        raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
    i_bound = as_count("i_bound", i_bound, at_least=1)
    exact = as_flag("exact", exact)
    iterations = as_count("iterations", iterations, at_least=0)
    seed = as_count("seed", seed, at_least=0)
    if isinstance(methods, str):
        raise ValueError(
            f"methods must be a sequence of names, got {methods!r}; write [{methods!r}]"
        )
    wanted = METHODS if methods is None else tuple(as_items("methods", methods))
    for name in wanted:
        if not is_choice(name, METHODS):
            raise ValueError(f"methods must be among {', '.join(METHODS)}, got {name!r}")
    if methods is not None and "exact" in wanted and not exact:
        raise ValueError(
            "exact=False contradicts methods, which has 'exact': leave one of the two out"
        )
    limit = as_limit(memory_limit)
    check_states(graph, limit)
    known = known_of(graph, asked(graph, evidence, likelihood))  # once for all methods
    reduced = reduce_graph(graph, known, limit)
    search = _Methods(graph, reduced, known, i_bound, iterations, memory_limit, seed)
    found: dict[str, MethodBounds] = {}
    for name in METHODS:
        if name not in wanted or (name == "exact" and not exact):
            continue
        start = time.perf_counter()
        skipped = search.refusal(name, methods is not None)
        lower, upper, note = (-np.inf, np.inf, skipped) if skipped else search.run(name)
        found[name] = MethodBounds(lower, upper, time.perf_counter() - start, note)
        if upper == -np.inf:
            raise impossible(graph, bool(known.given))
        if name == "exact" and not note:
            break
    return _best(found)


def _best(found: dict[str, MethodBounds]) -> LogZBounds:
    lower = max(found, key=lambda m: found[m].lower, default="")
    upper = min(found, key=lambda m: found[m].upper, default="")
    low = found[lower].lower if lower else -np.inf
    high = found[upper].upper if upper else np.inf
    return LogZBounds(
        low,
        high,
        lower if low > -np.inf else "",
        upper if high < np.inf else "",
        found,
    )


class _Methods:
    """The methods, each with the answers of others that it needs."""

    def __init__(
        self,
        graph: FactorGraph,
        reduced: Reduced,
        known: Known,
        i_bound: int,
        iterations: int,
        memory_limit: int | None,
        seed: int,
    ) -> None:
        self.graph, self.reduced, self.known = graph, reduced, known
        self.i_bound, self.iterations = i_bound, iterations
        self.memory_limit, self.seed = memory_limit, seed
        self.tree: PreconditionerBounds | None = None
        self.buckets: list[Buckets] = []
        self.upper = np.inf  # of the mini-buckets
        self.open: FactorGraph | None = None
        self.runs: dict[str, Callable[[], tuple[float, float, str]]] = {
            "exact": self._exact,
            "mini_bucket": self._mini_bucket,
            "conditioned": self._conditioned,
            "mean_field": self._mean_field,
            "spanning_tree": self._spanning_tree,
            "sparsifier": self._sparsifier,
            "structured_mean_field": self._structured,
            "trw": self._trw,
        }

    def refusal(self, name: str, asked: bool) -> str:
        """Return why a method does not run; empty when it does."""
        reduced = self.reduced
        if name not in ("spanning_tree", "sparsifier"):
            return ""
        if not reduced.pairwise:
            return "a table has three variables or more"
        if reduced.has_zeros:
            return "a table has zeros"
        rows = sum(reduced.cards) - len(reduced.cards)
        if rows > _DENSE and not asked:
            return f"eigenvalues of {rows} rows take long; name it in methods to have it run"
        return ""

    def run(self, name: str) -> tuple[float, float, str]:
        """Return lower and upper bounds, and a note on infinite ones."""
        try:
            return self.runs[name]()
        except ExcessiveError as error:  # of a model that the method makes
            return -np.inf, np.inf, str(error)

    def _exact(self) -> tuple[float, float, str]:
        # Conditioning takes as long as it takes: other bounds are there.
        tree = JunctionTree._of_call(
            self.graph, self.known, self.memory_limit, NOBODY, budget=NEVER
        )
        try:
            value = tree.log_z()
        except MemoryLimitError as error:
            return -np.inf, np.inf, str(error)
        tree._keep()
        entries = tree.table_size + self.reduced.entries
        margin = engine_margin(value, entries, self.reduced.magnitude)
        return down(value, margin), up(value, margin), ""

    def _mini_bucket(self) -> tuple[float, float, str]:
        buckets = self._bucketed()
        if not buckets:
            return -np.inf, -np.inf, ""
        lower = max(b.lower(negative) for b in buckets for negative in (0.02, 0.2))
        note = "zeros: no lower bound" if lower == -np.inf else ""
        return lower, self.upper, note

    def _bucketed(self) -> list[Buckets]:
        """Return mini-buckets, eliminated for the upper bound; none without a configuration.

        In two orders, where these differ: neither is tighter on all models.
        """
        if not self.buckets:
            with contextlib.suppress(InfeasibleError):
                first, second = (Buckets(self.reduced, self.i_bound, e) for e in (THREE, FIRST))
                self.buckets = [first] if first.order == second.order else [first, second]
                self.upper = min(b.upper() for b in self.buckets)
        return self.buckets

    def _conditioned(self) -> tuple[float, float, str]:
        buckets = self._bucketed()
        if not buckets or self.upper == -np.inf:
            return -np.inf, -np.inf, ""
        guesses = (b.configuration(seed=self.seed) for b in buckets)
        states = next((found for found in guesses if found is not None), None)
        if states is None:
            return -np.inf, np.inf, "zeros: no configuration of positive weight was found"
        return _conditioned.lower(self.reduced, states, self.seed), np.inf, ""

    def _mean_field(self) -> tuple[float, float, str]:
        return self._lowest(self._field(MeanField))

    def _field(
        self, kind: type[MeanField | StructuredMeanField], start: GraphResult | None = None
    ) -> GraphResult | None:
        """Return a mean field of what evidence leaves open; None where messages vanished."""
        if self.open is None:
            # So that a tree of these variables can be a start.
            self.open = graph_of(self.reduced.unary, self.reduced.tables)
        steps = max(1, self.iterations)
        with contextlib.suppress(InfeasibleError):
            r = infer(self.open, method=kind(start=start, max_iterations=steps, seed=self.seed))
            assert isinstance(r, GraphResult)
            return r
        return None

    def _lowest(self, *found: GraphResult | None) -> tuple[float, float, str]:
        """Return the best lower bound of mean fields, rounded down."""
        some = [r for r in found if r is not None]
        if not some:
            return -np.inf, np.inf, _VANISHED
        value = max(float(r.log_z) for r in some)
        # Sums of tables of one scope round once for every factor, the engine counts the rest.
        margin = EPS * (self.graph.n_factors + 64.0) * self.reduced.magnitude
        note = "zeros: no distribution was found that avoids them" if value == -np.inf else ""
        return down(value + self.reduced.constant, margin), np.inf, note

    def _spanning_tree(self) -> tuple[float, float, str]:
        self.tree = preconditioner(self.graph, evidence=self.known)
        return self.tree.lower, self.tree.upper, ""

    def _sparsifier(self) -> tuple[float, float, str]:
        b = preconditioner(self.graph, "sparsifier", evidence=self.known)
        return b.lower, b.upper, ""

    def _structured(self) -> tuple[float, float, str]:
        # From naive mean field and the model's own tree it usually climbs higher; from the scaled
        # one it provably never ends below the preconditioner.
        found = [self._field(StructuredMeanField)]
        if self.tree is not None:
            scaled = self.tree._sides[0]
            start = infer(graph_of(scaled.unary, scaled.tables), method="exact")
            assert isinstance(start, GraphResult)
            found.append(self._field(StructuredMeanField, start))
        return self._lowest(*found)

    def _trw(self) -> tuple[float, float, str]:
        try:
            bound = trw_dual_bound(
                self.graph,
                evidence=self.known,
                method=TRW(
                    optimise=self.iterations // 4,
                    max_iterations=max(1, 2 * self.iterations),
                    seed=self.seed,
                ),
            )
        except InfeasibleError:
            return -np.inf, np.inf, _VANISHED
        return -np.inf, bound.upper, ""
