"""Marginals of one graph for many questions: what `JunctionTree.infer_many` returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from valuesparse._junction import freeze
from valuesparse.models import FactorGraph
from valuesparse.results._graph import states_index

if TYPE_CHECKING:
    import pandas

__all__ = ["ManyResult"]

Floats = npt.NDArray[np.float64]


class ManyResult:
    """Marginals of a factor graph for many rows of evidence; all arrays are read-only.

    Attributes
    ----------
    log_z : ndarray of float64, shape (rows,)
        Log-sum over the configurations that agree with each row and with what the tree was built
        with: for a Bayesian network log P(evidence). −inf where there is none.
    feasible : ndarray of bool, shape (rows,)
        Whether any configuration agrees with a row. Where none does, marginals are zeros.
    marginals : list of ndarray of float64
        ``marginals[v]``, of shape (rows, cardinality): see ``m["rain"]``.
    graph : FactorGraph
        The model.
    method, reason : str
        The method that ran, and why.
    stats : dict
        ``rows``; ``one_by_one``: those that were asked one after the other, since their numbers
        needed a wider range than float64's, or the tree more memory for several at once.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> _ = graph.add_cpt("rain", [], [0.8, 0.2])
    >>> _ = graph.add_cpt("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
    >>> m = vs.JunctionTree(graph).infer_many({"wet": ["yes", "no", None]})
    >>> m["rain", "yes"].round(3).tolist()
    [0.667, 0.053, 0.2]
    """

    __slots__ = ("_flat", "_marginals", "feasible", "graph", "log_z", "method", "reason", "stats")

    graph: FactorGraph
    log_z: Floats
    feasible: npt.NDArray[np.bool_]
    method: str
    reason: str
    stats: dict[str, int]
    _flat: Floats
    #: Views of `_flat`, one a variable; None until somebody asks.
    _marginals: list[Floats] | None

    def __init__(
        self,
        graph: FactorGraph,
        flat: Floats,
        log_z: Floats,
        feasible: npt.NDArray[np.bool_],
        method: str,
        reason: str,
        stats: dict[str, int],
    ) -> None:
        self.graph, self._flat, self.log_z, self.feasible = graph, flat, log_z, feasible
        self.method, self.reason, self.stats = method, reason, stats
        self._marginals = None
        freeze((flat, log_z, feasible))

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        kept = [name for name in self.__slots__ if name != "_marginals"]
        return None, {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: tuple[Any, dict[str, Any]]) -> None:
        for name, value in state[1].items():
            setattr(self, name, value)
        self._marginals = None
        freeze((self._flat, self.log_z, self.feasible))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.log_z.shape[0])

    @property
    def marginals(self) -> list[Floats]:
        """Marginals of each variable, by number."""
        if self._marginals is None:
            ends = np.cumsum(self.graph.cards)
            self._marginals = np.split(self._flat, ends[:-1], axis=1) if ends.size else []
        return self._marginals

    def __getitem__(self, variable: Any) -> Floats:
        """Return the marginals of a variable by name or number, (rows, states).

        ``m["rain", "yes"]`` are those of a state, (rows,).
        """
        v, state = self.graph.place(variable)
        first = int(self.graph.cards[:v].sum())
        if state is not None:
            return self._flat[:, first + state]
        return self._flat[:, first : first + self.graph.cardinalities[v]]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the names (or numbers) of the variables, as a mapping does."""
        return iter(self.graph.names)

    def keys(self) -> Iterator[Any]:
        """Iterate over the names (or numbers) of the variables."""
        return iter(self)

    def __len__(self) -> int:
        """Return the number of variables."""
        return self.graph.n_variables

    def most_likely(self, variable: Any) -> npt.NDArray[Any]:
        """Return the most probable state of a variable in each row: its name, or its number.

        The first of equal ones. None (−1 where states have no names) in rows that are infeasible.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": ["no", "yes"]})
        >>> _ = graph.add_cpt("rain", [], [0.8, 0.2])
        >>> vs.JunctionTree(graph).infer_many({"rain": [None, "yes"]}).most_likely("rain").tolist()
        ['no', 'yes']
        """
        v = self.graph.variable(variable)
        best = np.where(self.feasible, self[variable].argmax(axis=1), -1)
        named = self.graph.states[v]
        if named is None:
            return best
        names = np.empty(len(named) + 1, dtype=object)
        for i, name in enumerate(named):  # one by one: a name may be a tuple
            names[i] = name
        return names[best]

    def to_frame(self) -> pandas.DataFrame:
        """Return the marginals as a pandas DataFrame: a row each, columns (variable, state)."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame(self._flat, columns=states_index(self.graph), copy=True)

    def __repr__(self) -> str:
        return (
            f"ManyResult(rows={self.n_rows}, variables={len(self)}, "
            f"infeasible={int((~self.feasible).sum())})"
        )
