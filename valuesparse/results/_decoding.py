"""The record of the most probable configurations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.models import FactorGraph

__all__ = ["BoundedDecoding", "Decoding"]


@dataclass(frozen=True, eq=False)
class Decoding:
    """The best configurations of a model; all arrays are read-only.

    Attributes
    ----------
    states : ndarray of int64, shape (N,) or (k, N)
        Labels, best configuration first.
    score : ndarray of float64, shape (B,) or (k, B)
        Sum of the log-potentials of each sequence or tree; a scalar for a graph.
    converged : bool
        Whether messages that were asked for ("bp", "trw") came to rest, or "ad3" reached its
        tolerance; True for what is exact, and for "lp".
    upper : float or None
        With "trw", "lp" and "ad3": at least the best score there is, rounding included. With "lp"
        the dual value of the solver's multipliers, some 1e-7 above the optimum of the linear
        program at most; with "ad3" the least one of all iterates, also where it stopped early.
    conditioned : tuple
        Graphs: variables (names) that were conditioned on, since the junction tree did not fit in
        `memory_limit`; see `JunctionTree`.
    relaxed : list of ndarray of float64 or None
        With "lp" and "ad3": the point of the relaxation, P(y = 0) and P(y = 1) of each variable;
        one with another number of states, which has to be known, has a 1 at its state.
    integral : bool or None
        With "lp" and "ad3": whether that point is a configuration, which then is the best one.
    graph : FactorGraph or None
        The graph that was decoded; None for chains and trees. ``d["rain"]`` is the name of a
        variable's state (its number where states have no names), ``dict(d)`` has all of them.
    """

    states: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]
    converged: bool = True
    upper: float | None = None
    conditioned: tuple[Any, ...] = ()
    relaxed: list[npt.NDArray[np.float64]] | None = None
    integral: bool | None = None
    graph: FactorGraph | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for array in (self.states, self.score):
            if isinstance(array, np.ndarray):  # the score of a graph is a scalar
                array.flags.writeable = False

    def named(self, graph: FactorGraph) -> Decoding:
        """Return the same for a graph, whose names it knows then."""
        return replace(self, graph=graph)

    def _graph(self) -> FactorGraph:
        if self.graph is None:
            raise TypeError("variables of chains and trees have no names: read states")
        return self.graph

    def __getitem__(self, variable: Any) -> Any:
        """Return the state of a variable of a graph, by name (or number)."""
        graph = self._graph()
        v = graph.variable(variable)
        return graph.state_name(v, int(self.states[v]))

    def keys(self) -> Iterator[Any]:
        """Iterate over the names (or numbers) of the variables of a graph.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"a": ["no", "yes"], "b": 2})
        >>> graph.add(["a", "b"], [[0.0, 1.0], [2.0, 3.0]])
        0
        >>> dict(vs.decode(graph))
        {'a': 'yes', 'b': 1}
        """
        return iter(self._graph().names)

    def __iter__(self) -> Iterator[Any]:
        return self.keys()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickles and deep copies make arrays that can be written to


@dataclass(frozen=True, eq=False)
class BoundedDecoding(Decoding):
    """A configuration by "trw", "lp" or "ad3": no other one scores more than `upper`.

    Its other attributes are those of :class:`Decoding`.
    """

    upper: float = np.inf
