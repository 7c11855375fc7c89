"""The common part of the relaxations "lp" and "ad3"."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _messages
from valuesparse.errors import MemoryLimitError
from valuesparse.factors._base import FEWER
from valuesparse.inference import _memory
from valuesparse.inference._memory import show_bytes
from valuesparse.inference._network import LoopyCall
from valuesparse.inference._refusals import first_names
from valuesparse.models import FactorGraph
from valuesparse.models.factor_graph import Derived

__all__ = ["Binary", "RelaxedPoint", "dual_of", "require_memory", "sides"]

Array = npt.NDArray[Any]

#: Bytes of dual decomposition for each entry of all tables, and more for the one being read.
_DUAL_BYTES = 24
_READ_BYTES = 16


class RelaxedPoint(NamedTuple):
    """The answer of a relaxation: states that are possible, and the point that it ends at."""

    states: Array
    score: float
    upper: float
    relaxed: list[Array]
    integral: bool
    converged: bool


class Binary(NamedTuple):
    """A question of binary variables: those of the graph, where others whose state is known are 0.

    Attributes
    ----------
    model : FactorGraph
        The same variables and factors; tables are sliced at the states that are known.
    evidence : dict
        Variable: its state, or log-likelihoods.
    decided : dict
        The state of each variable that had another number of states than two.
    """

    model: FactorGraph
    evidence: dict[int, Any]
    decided: dict[int, int]

    @classmethod
    def of(cls, model: FactorGraph, evidence: dict[int, Any], method: str) -> Binary:
        """Return the question; ValueError for the first variable that is free and not binary."""
        decided: dict[int, int] = {}
        for v in np.flatnonzero(model.cards != 2).tolist():
            known = 0 if model.cards[v] == 1 else evidence.get(v)
            if not isinstance(known, int):
                raise ValueError(
                    f"method={method!r} takes binary variables only: variable {model.names[v]!r} "
                    f"has {model.cards[v]} states; method='trw' bounds the best score of any graph"
                )
            decided[v] = known
        if not decided:
            return cls(model, evidence, decided)
        graph, left = Derived([2] * model.n_variables, names=model.names), dict(evidence)
        for i, factor in enumerate(model.factors):
            if decided.keys().isdisjoint(factor.scope):
                graph.add(factor)
                continue
            at = tuple(decided.get(v, slice(None)) for v in factor.scope)
            graph.add([v for v in factor.scope if v not in decided], model.table_of(factor, i)[at])
        for v in decided:
            known = evidence.get(v)
            if known is None:  # errors do not speak of evidence where there is none
                graph.add([v], [0.0, -np.inf])
            else:
                left[v] = 0 if isinstance(known, int) else np.append(known, -np.inf)
        return cls(graph, left, decided)

    def answer(self, point: RelaxedPoint, cards: Array) -> RelaxedPoint:
        """Return a point of this question with the states that the variables had."""
        states, relaxed = point.states.copy(), list(point.relaxed)
        for v, state in self.decided.items():
            states[v] = state
            relaxed[v] = (np.arange(cards[v]) == state).astype(np.float64)
        return point._replace(states=states, relaxed=relaxed)


def require_memory(task: LoopyCall, method: str, size: float = 0.0) -> None:
    """Raise MemoryLimitError where `size` bytes, or dual decomposition, would not fit in memory."""
    limit, network = _memory.default_memory_limit(), task.network
    laid = network.native
    entries = np.diff(laid.table_at)
    entries[network.structured()] = 0  # these have no table
    dual = _DUAL_BYTES * float(laid.table_entries) + _READ_BYTES * float(entries.max(initial=0))
    if max(dual, size) <= limit:
        return
    group = int(entries.argmax())
    scope, index = network.scope(group), int(laid.wide[laid.group == group][0])
    ad3 = f"method='ad3' takes it, with {show_bytes(dual)}; or " if dual <= limit else ""
    raise MemoryLimitError(
        f"method={method!r} needs about {show_bytes(max(dual, size))} for the tables of this "
        f"graph, above half of what the machine has ({show_bytes(limit)}); the largest is that of "
        f"factor {index}, a {type(task.model.factor(index)).__name__} over {len(scope)} variables "
        f"({first_names(task.model, scope)}), with {entries[group]:,} entries; {ad3}{FEWER}"
    )


def dual_of(task: LoopyCall, native: _messages.Network) -> _messages.Dual:
    """Return the graph as dual decomposition sees it; InfeasibleError where tables forbid all."""
    dual = _messages.Dual(native, task.local, task.watch.left(), task.watch.late)
    if not dual.possible:
        raise task.impossible()
    return dual


def sides(on: Array) -> list[Array]:
    """Return P(y = 0) and P(y = 1) of each variable."""
    return list(np.stack([1.0 - on, on], axis=1))
