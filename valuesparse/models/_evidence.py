"""Evidence on variables: states, or a log-likelihood for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._owned import ReadOnly, owned
from valuesparse._validation import as_array, largest_entry, weighed
from valuesparse.models._checks import Weighed
from valuesparse.models._names import Variables

__all__ = ["Evidence", "Known", "Observed", "known_of", "soft_sum", "split"]

#: Hard evidence by state, soft evidence by a log-likelihood for each state.
Evidence = Mapping[Any, Any]


class Observed(Weighed):
    """Variables, and the evidence on them."""

    __slots__ = ("_evidence",)

    _evidence: ReadOnly

    @property
    def evidence(self) -> dict[int, int | npt.NDArray[np.float64]]:
        """The evidence, by numbers of variables, read-only: `set_evidence` replaces it."""
        return self._evidence

    def set_evidence(self, evidence: Evidence) -> None:
        """Replace the evidence that belongs to the graph.

        Parameters
        ----------
        evidence : mapping
            Variable (name or number): its state (name or number), or a log-likelihood for each
            of its states, an array of shape (cardinality,).

        Raises
        ------
        ValueError
            For an unknown variable or state, a likelihood of another shape, or likelihoods with
            which the magnitudes of the graph sum to more than 1e17.
        """
        self.know(self.resolve_evidence(evidence))

    def know(self, evidence: Evidence) -> None:
        """Replace the evidence by one that was checked."""
        self._evidence = evidence if isinstance(evidence, ReadOnly) else ReadOnly(evidence)
        self._soft = soft_sum(evidence)

    def resolve_evidence(
        self, evidence: Evidence, *, beside: float = 0.0
    ) -> dict[int, int | npt.NDArray[np.float64]]:
        """Return `evidence` by numbers: of states, or vectors of log-likelihoods.

        `beside`: magnitudes of likelihoods that are known already.
        """
        if not isinstance(evidence, Mapping):
            raise ValueError(f"evidence must be a mapping {{variable: state}}, got {evidence!r}")
        found: dict[int, int | npt.NDArray[np.float64]] = {}
        total = 0.0
        for name, value in evidence.items():
            try:
                v = self.variable(name)
            except ValueError as error:
                raise ValueError(f"evidence[{name!r}]: {error}") from None
            if v in found:
                raise ValueError(f"evidence names variable {name!r} twice")
            known = found[v] = _state_or_likelihood(self, v, value, f"evidence[{name!r}]")
            if not isinstance(known, int):
                total += _forest.weigh(known)[1]
        if total and self.magnitude + beside + total > self._MOST:
            soft = {v: largest_entry(x) for v, x in found.items() if not isinstance(x, int)}
            v, ((at,), value) = max(soft.items(), key=lambda item: abs(item[1][1]))
            place = f"evidence[{self.names[v]!r}][{at}]"
            raise self._excessive(place, value, beside + total - self._soft)
        return found


class Known(NamedTuple):
    """Evidence by numbers, checked and taken apart: what engines are handed.

    Attributes
    ----------
    given : dict
        Variable: its state, or a vector of log-likelihoods.
    held : ndarray of int64, shape (n,)
        The state of each variable with hard evidence, −1 elsewhere.
    soft : list of (variable, ndarray)
        Likelihoods, in the order they were given.
    """

    given: dict[int, Any]
    held: npt.NDArray[np.int64]
    soft: list[tuple[int, npt.NDArray[np.float64]]]


def known_of(graph: Observed, evidence: Evidence | Known | None) -> Known:
    """Return evidence (None: the graph's own) checked and taken apart, unless it is so already."""
    if isinstance(evidence, Known):
        return evidence
    return split(graph, graph.evidence if evidence is None else graph.resolve_evidence(evidence))


def split(graph: Variables, given: dict[int, Any]) -> Known:
    """Return checked evidence as hard and soft."""
    held = np.empty(graph.n_variables, dtype=np.int64)
    held.fill(-1)  # np.full takes longer than all of this
    soft = []
    for v, value in given.items():
        if isinstance(value, int):
            held[v] = value
        else:
            soft.append((v, value))
    return Known(given, held, soft)


def _state_or_likelihood(
    graph: Weighed, v: int, value: Any, label: str
) -> int | npt.NDArray[np.float64]:
    """Return the number of a state, or a vector of log-likelihoods, checked."""
    several = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim)
    if not several or graph._is_state(v, value):  # a tuple may be the name of a state
        return graph.state(v, value)
    array = as_array(label, value)
    if array.dtype.kind not in "fiub" and graph.states[v] is not None:
        return graph.state(v, value)  # says which states there are
    soft, _ = weighed(label, array, np.dtype(np.float64), graph._MOST)
    if soft.shape != (graph.cardinalities[v],):
        raise ValueError(
            f"{label} must have shape {(graph.cardinalities[v],)}, a log-likelihood "
            f"for each state, got {soft.shape}"
        )
    return owned(value, soft)


def soft_sum(evidence: Mapping[int, int | npt.NDArray[np.float64]]) -> float:
    """Return the sum of the largest finite magnitudes of likelihoods."""
    return math.fsum(_forest.weigh(x)[1] for x in evidence.values() if not isinstance(x, int))
