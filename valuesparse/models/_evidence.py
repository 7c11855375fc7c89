"""Evidence on variables: states, or a log-likelihood for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest, _junction
from valuesparse._owned import ReadOnly, owned
from valuesparse._validation import as_array, as_reals, largest_entry, weighed
from valuesparse.models._checks import Weighed
from valuesparse.models._names import Variables

__all__ = ["Evidence", "Known", "Observed", "asked", "known_of", "soft_sum", "split"]

#: How far the sum of log-likelihoods that are no probabilities is from one, at least.
_ROUNDING = 1e-6

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

    def set_evidence(self, evidence: Evidence, *, likelihood: Evidence | None = None) -> None:
        """Replace the evidence that belongs to the graph.

        Parameters
        ----------
        evidence : mapping
            Variable (name or number): its state (name or number), or a log-likelihood for each
            of its states, an array of shape (cardinality,).
        likelihood : mapping, optional
            Variable: a likelihood for each of its states, numbers >= 0 (an array of the same
            shape). Those of one variable multiply.

        Raises
        ------
        ValueError
            For an unknown variable or state, a likelihood of another shape, a negative likelihood,
            log-likelihoods that look like probabilities (between 0 and 1, with sum 1), a
            likelihood of a variable whose state is known, or likelihoods with which the
            magnitudes of the graph sum to more than 1e17.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": 2})
        >>> graph.set_evidence({"wet": 1}, likelihood={"rain": [0.25, 0.75]})
        >>> vs.infer(graph)["rain"].tolist()
        [0.25, 0.75]
        """
        found = self.resolve_evidence(evidence)
        if likelihood is not None:
            found = self.resolve_likelihood(likelihood, found)
        self.know(found)

    def know(self, evidence: Evidence) -> None:
        """Replace the evidence by one that was checked."""
        self._evidence = evidence if isinstance(evidence, ReadOnly) else ReadOnly(evidence)
        self._soft = soft_sum(evidence)

    def resolve_evidence(
        self, evidence: Evidence, *, beside: float = 0.0, argument: str = "evidence"
    ) -> dict[int, int | npt.NDArray[np.float64]]:
        """Return `evidence` by numbers: of states, or vectors of log-likelihoods.

        `beside`: magnitudes of likelihoods that are known already; `argument`: its name.
        """
        if not isinstance(evidence, (dict, Mapping)):  # an abstract class is slow to ask
            raise ValueError(f"{argument} must be a mapping {{variable: state}}, got {evidence!r}")
        found: dict[int, int | npt.NDArray[np.float64]] = {}
        total = 0.0
        for name, value in evidence.items():
            try:
                v = self.variable(name)
                state = self.state(v, value) if isinstance(value, (str, int)) else None
            except ValueError as error:
                raise ValueError(f"{argument}[{name!r}]: {error}") from None
            if v in found:
                raise ValueError(f"{argument} names variable {name!r} twice")
            if state is not None:
                found[v] = state
                continue
            known = found[v] = _state_or_likelihood(self, v, value, f"{argument}[{name!r}]")
            if not isinstance(known, int):
                total += _forest.weigh(known)[1]
        self._require_in_range(argument, found, total, beside)
        return found

    def resolve_likelihood(
        self, likelihood: Evidence, given: Evidence, *, beside: float = 0.0
    ) -> dict[int, int | npt.NDArray[np.float64]]:
        """Return `given`, which is by numbers, with the logs of likelihoods added."""
        if not isinstance(likelihood, Mapping):
            raise ValueError(
                f"likelihood must be a mapping {{variable: numbers}}, got {likelihood!r}"
            )
        found = dict(given)
        for name, value in likelihood.items():
            label = f"likelihood[{name!r}]"
            try:
                v = self.variable(name)
            except ValueError as error:
                raise ValueError(f"{label}: {error}") from None
            logs = _log_likelihood(self, v, value, label)
            if v in found:
                if isinstance(found[v], int):
                    raise ValueError(
                        f"{label}: the state of the variable is known already, by evidence; leave "
                        "one of them out"
                    )
                logs = logs + found[v]
            logs.flags.writeable = False
            found[v] = logs
        self._require_in_range("likelihood", found, soft_sum(found), beside)
        return found

    def _require_in_range(self, name: str, found: Evidence, total: float, beside: float) -> None:
        """Raise where magnitudes of likelihoods, `total`, are too much for the arithmetic."""
        if total and self.magnitude + beside + total > self._MOST:
            soft = {v: largest_entry(x) for v, x in found.items() if not isinstance(x, int)}
            v, ((at,), value) = max(soft.items(), key=lambda item: abs(item[1][1]))
            place = f"{name}[{self.names[v]!r}][{at}]"
            raise self._excessive(place, value, beside + total - self._soft)


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


def asked(
    graph: Observed, evidence: Evidence | Known | None, likelihood: Evidence | None
) -> Evidence | Known | None:
    """Return what a question knows: its evidence (None: the graph's own), and likelihoods."""
    if likelihood is None:
        return evidence
    return split(graph, graph.resolve_likelihood(likelihood, known_of(graph, evidence).given))


def split(graph: Variables, given: dict[int, Any]) -> Known:
    """Return checked evidence as hard and soft."""
    return Known(given, *_junction.take_apart(len(graph.cardinalities), given))


def _state_or_likelihood(
    graph: Weighed, v: int, value: Any, label: str
) -> int | npt.NDArray[np.float64]:
    """Return the number of a state, or a vector of log-likelihoods, checked."""
    several = isinstance(value, (list, tuple)) or bool(getattr(value, "ndim", 0))
    # A tuple may be the name of a state.
    array = as_array(label, value) if several and not graph.has_state(v, value) else None
    if array is None or (array.dtype.kind not in "fiub" and graph.states[v] is not None):
        try:
            return graph.state(v, value)
        except ValueError as error:  # which says which states there are
            raise ValueError(f"{label}: {error}") from None
    soft, _ = weighed(label, array, np.dtype(np.float64), graph._MOST)
    if soft.shape != (graph.cardinalities[v],):
        raise ValueError(
            f"{label} must have shape {(graph.cardinalities[v],)}, a log-likelihood "
            f"for each state, got {soft.shape}"
        )
    if _looks_like_probabilities(soft):
        raise ValueError(
            f"{label} lies between 0 and 1 and sums to one, as probabilities do, but evidence "
            f"takes log-likelihoods: write likelihood={{{graph.names[v]!r}: ...}} instead, or "
            "the logarithms"
        )
    return owned(value, soft)


def _looks_like_probabilities(x: npt.NDArray[np.float64]) -> bool:
    """Whether numbers lie between 0 and 1, are not all equal, and sum to one."""
    if x.size < 2 or abs(float(x.sum()) - 1.0) > _ROUNDING:
        return False
    low, high = float(x.min()), float(x.max())
    return low >= 0.0 and high <= 1.0 and low < high


def _log_likelihood(graph: Variables, v: int, value: Any, label: str) -> npt.NDArray[np.float64]:
    """Return the logs of a likelihood for each state, checked: an array of its own."""
    numbers = as_reals(label, value)
    if numbers.shape != (graph.cardinalities[v],):
        raise ValueError(
            f"{label} must have shape {(graph.cardinalities[v],)}, a likelihood for each state, "
            f"got {numbers.shape}"
        )
    wrong = ~((numbers >= 0.0) & (numbers < np.inf))
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(
            f"{label}[{at}] is {float(numbers[at]):g}; likelihoods are finite numbers >= 0 "
            "(log-likelihoods are given as evidence)"
        )
    with np.errstate(divide="ignore"):
        return np.log(numbers.astype(np.float64))


def soft_sum(evidence: Mapping[int, int | npt.NDArray[np.float64]]) -> float:
    """Return the sum of the largest finite magnitudes of likelihoods."""
    return math.fsum([_forest.weigh(x)[1] for x in evidence.values() if not isinstance(x, int)])
