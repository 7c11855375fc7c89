"""Marginals of factor graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.models import FactorGraph
from valuesparse.results._base import Result

__all__ = ["GraphResult"]

FloatArray = npt.NDArray[np.float64]


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

    __slots__ = ("_state", "evidence", "residuals")

    marginals: list[FloatArray]
    log_z: float
    evidence: dict[int, Any]
    residuals: FloatArray
    _model: FactorGraph
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
            residuals=np.empty(0) if residuals is None else residuals,
            _state=state,
        )

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
        jt = JunctionTree(self._model, evidence=_by_name(self._model, named))
        return jt.joint(variables, threads=threads)

    def factor_marginals(self) -> list[FloatArray]:
        """Return the marginal of every factor's scope, in the order of the factors.

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
        factors = self._model.factors
        many: dict[int, FloatArray] = {}
        if self._state is not None:
            wide = [f for f, factor in enumerate(factors) if len(factor.scope) > 1]
            many = dict(zip(wide, self._state.joints(self._model), strict=True))
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
        for f, factor in enumerate(self._model.factors):
            if wanted and set(wanted) <= set(factor.scope):
                table = self.factor_marginals()[f]
                axes = [factor.scope.index(v) for v in wanted]
                rest = tuple(a for a in range(table.ndim) if a not in axes)
                kept = sorted(axes)
                return np.transpose(table.sum(axis=rest), [kept.index(a) for a in axes])
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


def _by_name(model: FactorGraph, evidence: dict[Any, Any]) -> dict[Any, Any]:
    """Evidence in the words of the model."""
    found = {}
    for name, value in evidence.items():
        states = model.states[model.variable(name)]
        found[name] = states[value] if isinstance(value, int) and states is not None else value
    return found
