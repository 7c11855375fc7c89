"""Marginals of factor graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from valuesparse.models import FactorGraph
from valuesparse.results._base import Result

if TYPE_CHECKING:
    from valuesparse.relaxed.bounds import Bounds

__all__ = ["GraphResult"]

FloatArray = npt.NDArray[np.float64]

#: What exact engines promise.
_CONTRACT = 1e-10


class GraphResult(Result):
    """Marginals of a factor graph, and how they came about.

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
        What ran, and why.
    converged : bool
        False when `revisit` stopped the rounds of ``zeta`` before nothing changed.
    evidence : dict
        What was known: variable number to state number or log-likelihoods.
    factors : ndarray of int64
        Indices of the factors that were used: all, unless ``factors=`` or one of
        :func:`valuesparse.select` and :func:`valuesparse.relax` left some out.
    graph : FactorGraph
        The model: what was asked about, together with the factors that were left out.
    residuals : ndarray of float64
        Of loopy inference: the largest change of the log-ratio of two entries of a message in each
        iteration (mean field: of a marginal); empty for other methods.
    iterations : int
        How many there were.
    stats : dict
        ``cliques``, ``table_entries``, ``width``, ``orders_tried``, ``widened`` (1 when the
        numbers needed a wider range than float64's); under ``zeta`` ``islands``, ``segments``
        (components between them), ``released``, ``flipped``, ``rounds``, ``cliques`` (solved in
        all rounds).

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
        "_log_z_bounds",
        "_n_factors",
        "_solved",
        "_state",
        "evidence",
        "factors",
        "residuals",
    )
    _derived = ("_solved",)

    marginals: list[FloatArray]
    log_z: float
    evidence: dict[int, Any]
    factors: npt.NDArray[np.int64]
    #: Of the model when this was made: it may have grown since.
    _n_factors: int
    _bounds: Bounds | None
    _log_z_bounds: tuple[float, float] | None
    residuals: FloatArray
    _model: FactorGraph
    #: The part of the model that was solved; None where it has to be made again.
    _solved: FactorGraph | None
    _state: Any

    def __init__(
        self,
        model: FactorGraph,
        evidence: dict[int, Any],
        marginals: list[FloatArray],
        log_z: float,
        method: str,
        reason: str,
        stats: dict[str, int],
        *,
        islands: npt.NDArray[np.int32] | None = None,
        converged: bool = True,
        residuals: FloatArray | None = None,
        state: Any = None,
    ) -> None:
        self._fill(
            _model=model,
            evidence=evidence,
            marginals=marginals,
            log_z=log_z,
            islands=np.full(len(marginals), -1, dtype=np.int32) if islands is None else islands,
            method=method,
            reason=reason,
            converged=converged,
            stats=stats,
            factors=np.arange(model.n_factors),
            _n_factors=model.n_factors,
            _bounds=None,
            _log_z_bounds=None,
            _solved=None,
            residuals=np.empty(0) if residuals is None else residuals,
            _state=state,
        )

    def _of(self, model: FactorGraph, factors: npt.NDArray[np.int64]) -> GraphResult:
        """Return this result of a part as one of the whole `model`."""
        other = type(self).__new__(type(self))
        state = self.__getstate__()
        state.update(_model=model, factors=factors, _n_factors=model.n_factors, _bounds=None)
        other.__setstate__(state)
        other._fill(_solved=self._part())
        return other

    def _with(self, **fields: Any) -> GraphResult:
        """Return a copy with other fields."""
        other = type(self).__new__(type(self))
        other.__setstate__({**self.__getstate__(), **fields})
        other._fill(_solved=self._solved)
        return other

    @property
    def graph(self) -> FactorGraph:
        """The model, with the factors that were left out."""
        return self._model

    def _part(self) -> FactorGraph:
        """Return the graph that was solved."""
        model = self._model
        if self._solved is None and self.factors.size < model.n_factors:
            self._fill(_solved=model._part(self.factors))
        return self._solved or model

    @property
    def exact(self) -> bool:
        """Whether the marginals are those of the factors that were used, up to rounding."""
        return self.method in ("exact", "junction_tree") and not (self.islands >= 0).any()

    def expectations(self) -> FloatArray:
        """Return the probability that each feature of the graph fires, in order of addition.

        Returns
        -------
        ndarray of float64
            One number for each factor of `FactorGraph.add_feature` (and `add_features`), also for
            those that were left out. Of the joint where the engine has it: when a factor that was
            used has its variables, or when they are independent; else of the product of beliefs.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> edge = graph.add_feature([0, 1], lambda a, b: a == b, np.log(4))
        >>> vs.infer(graph).expectations().tolist()
        [0.8]
        """
        from valuesparse.relaxed._beliefs import Beliefs

        wanted = self._model._feature_indices(self._n_factors)
        return Beliefs(self).expectations(self._model, np.array(wanted, dtype=np.int64))

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
            from valuesparse.relaxed.bounds import bounds_of

            self._fill(_bounds=bounds_of(self))
        found = self._bounds
        assert found is not None
        return found

    @property
    def divergence_bound(self) -> float:
        """At least the KL divergence from these factors' distribution to the whole graph's."""
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
        """Whether these bounds are a proof: the solver was exact."""
        return self.bounds().rigorous

    @property
    def log_z_lower(self) -> float:
        """At most log Z of the factors that were used; −inf where nothing is proven.

        Exact methods are within 1e-10, relative above 1. Islands and mean field bound log Z from
        below. Loopy inference that "auto" chose has both sides where they are affordable;
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
        value = float(self.log_z)
        slack = _CONTRACT * max(1.0, abs(value))
        if self.method in ("exact", "junction_tree"):
            return value - slack, value + slack
        if self.method == "islands":
            return value - slack, np.inf
        return (value if self.method.endswith("mean_field") else -np.inf), np.inf

    @property
    def iterations(self) -> int:
        """Iterations of loopy inference; 0 for other methods."""
        return self.stats.get("iterations", 0)

    def __getitem__(self, variable: Any) -> FloatArray:
        """Return the marginal of a variable, by name (or number)."""
        return self.marginals[self._model.variable(variable)]

    def joint(self, variables: Iterable[Any], *, threads: int | None = None) -> FloatArray:
        """Return the joint marginal of a set of variables, one axis each.

        After loopy inference: the belief of the first factor that has them all in its scope;
        ValueError where there is none.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> _ = graph.add([0, 1], np.log([[4.0, 1.0], [1.0, 4.0]]))
        >>> vs.infer(graph).joint([1, 0]).tolist()
        [[0.4, 0.1], [0.1, 0.4]]
        """
        from valuesparse.inference.junction_tree import JunctionTree

        if self._state is not None:
            return self._belief([self._model.variable(v) for v in variables])
        named = {self._model.names[v]: value for v, value in self.evidence.items()}
        jt = JunctionTree(self._part(), evidence=_by_name(self._model, named))
        return jt.joint(variables, threads=threads)

    def factor_marginals(self) -> list[FloatArray]:
        """Return the marginal of the scope of every factor that was used, in their order.

        After loopy inference: the beliefs of the factors, which are the derivatives of the Bethe
        free energy with respect to their tables. A factor without variables has a 1.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> _ = graph.add((0, 1), np.log([[4.0, 1.0], [1.0, 4.0]]))
        >>> vs.infer(graph, method="bp").factor_marginals()[0].round(12).tolist()
        [[0.4, 0.1], [0.1, 0.4]]
        """
        part = self._part()
        factors = part.factors
        many: dict[int, FloatArray] = {}
        if self._state is not None:
            wide = [f for f, factor in enumerate(factors) if len(factor.scope) > 1]
            many = dict(zip(wide, self._state.joints(part), strict=True))
        found = []
        for f, factor in enumerate(factors):
            scope = factor.scope
            if len(scope) < 2:
                found.append(self.marginals[scope[0]].copy() if scope else np.ones(()))
            elif f in many:
                found.append(many[f])
            else:
                found.append(self.joint([self._model.names[v] for v in scope]))
        return found

    def _belief(self, wanted: list[int]) -> FloatArray:
        if len(set(wanted)) != len(wanted):
            raise ValueError("variables must not name one twice")
        if len(wanted) == 1:
            return self.marginals[wanted[0]].copy()
        for f, factor in enumerate(self._part().factors):
            if wanted and set(wanted) <= set(factor.scope):
                return marginal_of(self.factor_marginals()[f], factor.scope, wanted)
        names = [self._model.names[v] for v in wanted]
        raise ValueError(
            f"no factor has the variables {names} in its scope: method {self.method!r} knows the "
            "joint of a factor's variables only"
        )

    def __repr__(self) -> str:
        return (
            f"GraphResult(method={self.method!r}, converged={self.converged}, "
            f"variables={len(self.marginals)}, log_z={self.log_z:.6g})"
        )


def marginal_of(table: FloatArray, scope: Sequence[int], wanted: Sequence[int]) -> FloatArray:
    """Return the marginal of some variables of a table over `scope`, axes in the order wanted."""
    axes = [scope.index(v) for v in wanted]
    kept = sorted(axes)
    rest = tuple(a for a in range(table.ndim) if a not in axes)
    return np.asarray(np.transpose(table.sum(axis=rest), [kept.index(a) for a in axes]))


def _by_name(model: FactorGraph, evidence: dict[Any, Any]) -> dict[Any, Any]:
    """Evidence in the words of the model."""
    found = {}
    for name, value in evidence.items():
        states = model.states[model.variable(name)]
        found[name] = states[value] if isinstance(value, int) and states is not None else value
    return found
