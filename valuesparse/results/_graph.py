"""Marginals of factor graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, overload

import numpy as np
import numpy.typing as npt

from valuesparse._junction import freeze
from valuesparse._owned import ReadOnly
from valuesparse._rounding import down, engine_margin, up
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import feature_indices, wide_tables
from valuesparse.models._evidence import soft_sum
from valuesparse.results._base import PROVED
from valuesparse.results._bounds import Bounds
from valuesparse.results._factors import EXACT, FactorResult, frozen

if TYPE_CHECKING:
    import pandas

__all__ = ["GraphResult"]

FloatArray = npt.NDArray[np.float64]


class Selection(Protocol):
    """The questions that a result hands to those who know features and left-out factors."""

    def expectations(
        self, result: GraphResult, graph: FactorGraph, features: npt.NDArray[np.int64]
    ) -> FloatArray:
        """Return the probability that each feature of a graph fires."""

    def bounds_of(self, result: GraphResult) -> Bounds:
        """Return what is known of the distance to the whole graph."""


class SelectionFinder(Protocol):
    """Who knows whom to ask about features and left-out factors."""

    def __call__(self) -> Selection:
        """Return whom to ask."""


class GraphResult(FactorResult):
    """Marginals of a factor graph, and how they came about; all arrays are read-only.

    Attributes
    ----------
    marginals : list of ndarray of float64
        ``marginals[v]``, of shape (cardinality,): probabilities of the states of variable v given
        the evidence; variables with hard evidence are one-hot. Under ``zeta`` given the islands
        too, and at an island given the other islands.
    log_z : float
        Log-sum over the configurations that agree with the evidence (and, under ``zeta``, with
        the islands: a lower bound).
    islands : ndarray of int32, shape (n,)
        The value that an island holds, −1 elsewhere.
    method, reason : str
        The method that ran, and why.
    converged : bool
        False when `revisit` stopped the rounds of ``zeta`` before nothing changed.
    evidence : dict
        The evidence: variable number to state number or log-likelihoods.
    factors : ndarray of int64
        Indices of the factors that were used: all, unless ``factors=`` or one of
        :func:`valuesparse.select` and :func:`valuesparse.relax` left some out.
    graph : FactorGraph
        The model: what was asked about, together with the factors that were left out.
    residuals : ndarray of float64
        For loopy inference the largest change of the log-ratio of two entries of a message in each
        iteration, before damping (mean field: of a marginal); empty for other methods.
    iterations : int
        How many there were.
    stats : dict
        ``cliques``, ``table_entries``, ``width``, ``orders_tried``, ``widened`` (1 when the
        numbers needed a wider range than float64's), ``slices`` (of a tree that was conditioned
        on variables since it did not fit; entries are those of all slices); under ``zeta``
        ``islands``, ``segments`` (components between them), ``released``, ``flipped``,
        ``rounds``, ``cliques`` (solved in all rounds).

    Notes
    -----
    Joints, pairwise and factor marginals, expectations and entropy are those of one distribution:
    the posterior given all of `evidence`, or under ``zeta`` the model conditioned on its final
    islands, too. There an island has its value for certain; only ``marginals`` say what it would
    be given the other islands. They are computed when asked, in the memory that `infer` was
    allowed, or in the default ``memory_limit`` where that is more (or the result was unpickled):
    conditioned where a tree does not fit, with a `MemoryLimitError` where that does not help.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2], names=["a", "b"])
    >>> _ = graph.add(["a", "b"], np.log([[4.0, 1.0], [1.0, 4.0]]))
    >>> r = vs.infer(graph, evidence={"a": 1})
    >>> r["b"].tolist(), r.method
    ([0.2, 0.8], 'exact')
    """

    __slots__ = (
        "_bounds",
        "_flat",
        "_limit",
        "_log_z_bounds",
        "_marginals",
        "_solved",
        "evidence",
        "factors",
        "faithful",
        "n_factors",
        "residuals",
        "state",
    )
    _selection: ClassVar[SelectionFinder]
    _derived = ("_flat", "_limit", "_marginals", "_solved")

    log_z: float
    #: Number of factors when this was made: the model may have grown since.
    n_factors: int
    _bounds: Bounds | None
    _log_z_bounds: tuple[float, float] | None
    residuals: FloatArray
    #: Whether no marginal, however small, has lost digits (or all) to a double's range.
    faithful: bool

    def __init__(
        self,
        model: FactorGraph,
        evidence: dict[int, Any],
        marginals: list[FloatArray] | None,
        log_z: float,
        method: str,
        reason: str,
        stats: dict[str, int],
        *,
        islands: npt.NDArray[np.int32] | None = None,
        converged: bool = True,
        residuals: FloatArray | None = None,
        state: Any = None,
        flat: FloatArray | None = None,
        limit: int | None = None,
        faithful: bool = False,
    ) -> None:
        if marginals is not None:
            freeze(marginals)
        if islands is not None:
            self._fill(islands=islands)
        if residuals is not None:
            self._fill(residuals=residuals)
        self._fill(
            _model=model,
            evidence=evidence if isinstance(evidence, ReadOnly) else ReadOnly(evidence),
            _marginals=marginals,
            log_z=log_z,
            method=method,
            reason=reason,
            converged=converged,
            stats=stats,
            n_factors=model.n_factors,
            _bounds=None,
            faithful=faithful,
            _log_z_bounds=None,
            _flat=flat,
            _limit=limit,
            _solved=None,
            state=state,
        )
        freeze((flat, islands, residuals, *evidence.values()))

    if not TYPE_CHECKING:  # a name that is not there is an error to type checkers

        def __getattr__(self, name: str) -> Any:
            """Make what most results have alike, and few are asked for."""
            if name == "islands":
                value = np.array([-1], np.int32).repeat(self._model.n_variables)
            elif name == "factors":
                value = np.arange(self.n_factors)
            elif name == "residuals":
                value = np.empty(0)
            else:
                why = f"{type(self).__name__!r} object has no attribute {name!r}"
                if name in PROVED:
                    why += (
                        ": tol, work and certify() are for a Chain or a Tree; valuesparse.bounds "
                        "has proved bounds of graphs"
                    )
                raise AttributeError(why, name=name, obj=self)
            freeze((value,))
            self._fill(**{name: value})
            return value

    @classmethod
    def ask_of_factors(cls, selection: SelectionFinder) -> None:
        """Hand over who finds who knows features and left-out factors; it lies above results."""
        cls._selection = staticmethod(selection)

    def _freeze(self) -> None:
        freeze((self.islands, self.factors, self.residuals))
        freeze(self.evidence.values())

    def of_whole(self, model: FactorGraph, factors: npt.NDArray[np.int64]) -> GraphResult:
        """Return this result of a part as one of the whole `model`."""
        freeze((factors,))
        fields = {"_model": model, "factors": factors, "n_factors": model.n_factors}
        return self.replaced(**fields, _bounds=None, _solved=self.part())

    @property
    def graph(self) -> FactorGraph:
        """The model, with the factors that were left out."""
        return self._model

    @property
    def exact(self) -> bool:
        """Whether the marginals are those of the factors that were used, up to rounding."""
        return self.method in EXACT and not (self.islands >= 0).any()

    def expectations(self) -> FloatArray:
        """Return the probability that each feature of the graph fires, in order of addition.

        Returns
        -------
        ndarray of float64
            One number for each factor of `FactorGraph.add_feature` (and `add_features`), also for
            those that were left out. It comes from the joint where the engine has it: when a factor
            that was used has its variables, or when they are independent; else from the product
            of beliefs.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> edge = graph.add_feature([0, 1], lambda a, b: a == b, np.log(4))
        >>> vs.infer(graph).expectations().tolist()
        [0.8]
        """
        wanted = np.array(feature_indices(self._model, self.n_factors), dtype=np.int64)
        return frozen(self._selection().expectations(self._conditioned(), self._model, wanted))

    def bounds(self) -> Bounds:
        """Return what is known of the distance to the whole graph; computed once.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> edge = graph.add_feature([0, 1], [1, 1], 0.1)
        >>> b = vs.infer(graph, factors=[]).bounds()
        >>> round(b.divergence, 4), round(b.eta, 4), b.rigorous
        (0.001, 0.075, True)
        """
        if self._bounds is None:
            self._fill(_bounds=self._selection().bounds_of(self))
        found = self._bounds
        assert found is not None
        return found

    @property
    def divergence_bound(self) -> float:
        """At least the KL divergence from these factors' distribution to the whole graph's.

        An estimate unless `rigorous`; so are `marginal_lower` and `marginal_upper`.
        """
        return self.bounds().divergence

    @property
    def marginal_lower(self) -> list[FloatArray]:
        """At most the marginals of the whole graph, in the shape of `marginals`."""
        return self.bounds().lower

    @property
    def marginal_upper(self) -> list[FloatArray]:
        """At least the marginals of the whole graph, in the shape of `marginals`."""
        return self.bounds().upper

    @property
    def rigorous(self) -> bool:
        """Whether these bounds are a proof: the solver was exact, and had all joints they need.

        Elsewhere they are estimates. Two passes have the joints of variables that are independent,
        or that one factor holds; a product of beliefs takes the place of any other.
        """
        return self.bounds().rigorous

    @property
    def log_z_lower(self) -> float:
        """At most log Z of the factors that were used; −inf where nothing is proven.

        Exact methods are within 1e-10, relative above 1, plus 64 eps times the sum of the largest
        magnitudes of all factors, which is seen above 7,000, and 16 eps for each entry of tables.
        Islands and mean field bound log Z
        from below. Loopy inference that "auto" chose has both sides where they are affordable;
        :func:`valuesparse.bounds.log_z` has better ones.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2, 2])
        >>> for edge in [(0, 1), (1, 2), (0, 2)]:
        ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
        >>> r = vs.infer(graph, memory_limit=0)
        >>> r.method, r.log_z_lower <= vs.infer(graph).log_z <= r.log_z_upper
        ('bp', True)
        """
        return self._between()[0]

    @property
    def log_z_upper(self) -> float:
        """At least log Z of the factors that were used; ∞ where nothing is proven."""
        return self._between()[1]

    def _between(self) -> tuple[float, float]:
        if self._log_z_bounds is not None:
            return self._log_z_bounds
        value, model = float(self.log_z), self.part()
        magnitude = self._engine.magnitude(model) + soft_sum(self.evidence)
        magnitude += float(np.log(model.cards).sum())
        entries = float(model.cards.sum()) + self.stats.get("table_entries", 0.0)
        for scopes in wide_tables(model):
            entries += float(model.cards[scopes].prod(axis=1, dtype=np.float64).sum())
        margin = engine_margin(value, entries, magnitude)
        if self.method in EXACT:
            return down(value, margin), up(value, margin)
        if self.method == "islands":
            return down(value, margin), np.inf
        # The bound of a mean field has been rounded down already.
        return (value if self.method.endswith("mean_field") else -np.inf), np.inf

    @property
    def iterations(self) -> int:
        """Iterations of loopy inference; 0 for other methods."""
        return self.stats.get("iterations", 0)

    @overload
    def __getitem__(self, variable: str | int) -> FloatArray: ...
    @overload
    def __getitem__(self, variable: Any) -> Any: ...
    def __getitem__(self, variable: Any) -> Any:
        """Return the marginal of a variable, by name or number; ``r["rain", "yes"]`` of a state."""
        v, state = self._model.place(variable)
        table = self.marginals[v]
        return table if state is None else float(table[state])

    def most_likely(self, variable: Any) -> Any:
        """Return the most probable state of one variable: its name, or its number.

        The first of equal ones. :func:`valuesparse.decode` has the best states of all together,
        which may differ.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
        >>> _ = graph.add_cpt("rain", [], [0.8, 0.2])
        >>> _ = graph.add_cpt("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
        >>> vs.infer(graph, evidence={"wet": "yes"}).most_likely("rain")
        'yes'
        """
        v = self._model.variable(variable)
        return self._model.state_name(v, int(self.marginals[v].argmax()))

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the names (or numbers) of the variables, as a mapping does."""
        return iter(self._model.names)

    def __contains__(self, variable: object) -> bool:
        """Whether there is a variable of this name (or number)."""
        return self._model.has_name(variable)

    def __len__(self) -> int:
        """Return the number of variables."""
        return self._model.n_variables

    def __bool__(self) -> bool:
        return True

    def keys(self) -> Iterator[Any]:
        """Iterate over the names (or numbers) of the variables: ``dict(r)`` has all marginals.

        Examples
        --------
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.FactorGraph([2, 2], names=["a", "b"]))
        >>> {name: p.tolist() for name, p in dict(r).items()}
        {'a': [0.5, 0.5], 'b': [0.5, 0.5]}
        """
        return iter(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return the marginals as a pandas DataFrame indexed by (variable, state), by name.

        Its one column is ``marginal``: variables may differ in their number of states.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        flat = self.flat_marginals()
        return pandas.DataFrame({"marginal": flat}, index=states_index(self._model), copy=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._fill(**dict.fromkeys(self._derived), faithful=False)
        self._fill(_marginals=state["marginals"])
        self._fill(**{name: value for name, value in state.items() if name != "marginals"})
        freeze(state["marginals"])
        if self._bounds is not None:
            freeze([*self._bounds.lower, *self._bounds.upper])
        self._freeze()

    def flat_marginals(self) -> FloatArray:
        """Return the marginals of all variables, one after the other."""
        if self._flat is None:
            self._fill(_flat=frozen(np.concatenate([*self.marginals, np.empty(0)])))
        assert self._flat is not None
        return self._flat

    def __repr__(self) -> str:
        return (
            f"GraphResult(method={self.method!r}, converged={self.converged}, "
            f"variables={len(self._model.cards)}, log_z={self.log_z:.6g})"
        )


def states_index(model: FactorGraph) -> pandas.MultiIndex:
    """Return the index (variable, state) of all states, by name."""
    import pandas

    variable = np.empty(int(model.cards.sum()), dtype=object)
    state = np.empty(variable.size, dtype=object)
    at = 0
    for name, named, k in zip(model.names, model.states, model.cardinalities, strict=True):
        for value in range(k) if named is None else named:
            # One by one: a name may be a tuple, which an array would take apart.
            variable[at], state[at] = name, value
            at += 1
    words = ["variable", "state"]
    if not any(_uneven(x) for x in (variable, state)):
        arrays = [pandas.Index(x, tupleize_cols=False).infer_objects() for x in (variable, state)]
        return pandas.MultiIndex.from_arrays(arrays, names=words)
    levels, codes = [], []
    for column in (variable, state):  # which pandas cannot sort
        number = {value: i for i, value in enumerate(dict.fromkeys(column))}
        level = np.empty(len(number), dtype=object)
        for value, i in number.items():
            level[i] = value
        levels.append(pandas.Index(level, tupleize_cols=False).infer_objects())
        codes.append([number[value] for value in column])
    return pandas.MultiIndex(levels=levels, codes=codes, names=words)


def _uneven(column: npt.NDArray[np.object_]) -> bool:
    """Whether there are tuples beside other names, or of several lengths."""
    lengths = {len(x) if isinstance(x, tuple) else -1 for x in column}
    return len(lengths) > 1
