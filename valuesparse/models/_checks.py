"""Checks of factors that are added to a graph, and the sum of its magnitudes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._owned import owned
from valuesparse._validation import as_array, as_reals, excessive, largest_entry, weighed
from valuesparse.factors import Factor, Feature, Features, Structured, Table
from valuesparse.factors._base import require_small
from valuesparse.models._names import Variables, in_order, listed

__all__ = [
    "Weighed",
    "as_scopes",
    "as_tables",
    "as_weight",
    "check_binary",
    "check_feature",
    "check_features",
    "check_scope",
    "check_table",
    "logs_of",
    "taken_over",
    "weigh_feature",
    "weigh_features",
    "where_it_fires",
]


class Weighed(Variables):
    """Variables, and how large the scores over them are."""

    __slots__ = ("_soft", "magnitude")

    #: The largest sum of magnitudes of a graph of this kind.
    _MOST: ClassVar[float] = _forest.LARGEST_SUM
    #: The sum of the largest finite magnitude of each factor whose table is known (of a part: of
    #: the whole), and of soft evidence.
    magnitude: float
    _soft: float

    def fits(self, more: float) -> bool:
        """Whether more magnitudes, of this sum, may be added."""
        return self.magnitude + self._soft + more <= self._MOST

    def _excessive(self, place: str, value: float, more: float) -> ValueError:
        """Return the error for an entry with which magnitudes sum to too much."""
        total = self.magnitude + self._soft + more
        return excessive(place, value, total, "of all factors and soft evidence", self._MOST)


def check_scope(graph: Variables, scope: Any, index: int) -> None:
    """Raise unless a scope holds numbers of different variables."""
    if not isinstance(scope, tuple) or not all(isinstance(v, (int, np.integer)) for v in scope):
        raise TypeError(
            f"factor {index} must have a tuple of variable numbers as its scope, got {scope!r}"
        )
    if len(set(scope)) != len(scope):
        twice = next(v for i, v in enumerate(scope) if v in scope[:i])
        raise ValueError(f"factor {index} has variable {graph.names[twice]!r} twice in its scope")
    for v in scope:
        if not 0 <= v < len(graph.cardinalities):
            raise ValueError(
                f"factor {index} has variable {v} in its scope: there are "
                f"{len(graph.cardinalities)}, numbered from 0"
            )


def check_feature(graph: Variables, feature: Feature, index: int) -> None:
    """Raise unless a feature fits its variables."""
    fires, shape = feature.fires, graph._shape(feature.scope)
    if isinstance(fires, tuple):
        fits = len(fires) == len(shape) and all(
            0 <= x < k for x, k in zip(fires, shape, strict=True)
        )
    else:
        fits = fires.shape == shape
    if not fits or not feature.weight < np.inf:
        raise ValueError(
            f"factor {index}, {feature!r}, does not fit variables of {shape} states, or its "
            f"weight, {feature.weight}, is neither finite nor -inf"
        )


def check_columns(graph: Variables, scopes: npt.NDArray[np.integer[Any]]) -> None:
    """Raise unless each row (m, k) holds numbers of different variables."""
    n = graph.n_variables
    for a in range(scopes.shape[1]):
        column = scopes[:, a]
        if column.size and not 0 <= column.min() <= column.max() < n:
            at = int(((column < 0) | (column >= n)).argmax())
            raise ValueError(
                f"scopes[{at}, {a}] is {column[at]}: there are {n} variables, numbered from 0"
            )
        for b in range(a):
            bad = column == scopes[:, b]
            if bad.any():
                at = int(bad.argmax())
                raise ValueError(f"scopes[{at}] has variable {graph.names[column[at]]!r} twice")


def as_scopes(graph: Variables, value: Any) -> npt.NDArray[np.int64]:
    """Return scopes of one length by numbers, (m, k), checked: a user's array or sequences."""
    if graph._number is not None or not isinstance(value, np.ndarray):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValueError(f"scopes must be a sequence of scopes, got {value!r}")
        rows = value.tolist() if isinstance(value, np.ndarray) else list(in_order("scopes", value))
        if graph._number is not None or not _are_numbers(rows):
            rows = [graph.variable_numbers(f"scopes[{i}]", s) for i, s in enumerate(rows)]
        k = len(rows[0]) if rows else 0
        for i, row in enumerate(rows):
            if len(row) != k:
                raise ValueError(
                    f"scopes[{i}] has {len(row)} variables, and scopes[0] has {k}: scopes of one "
                    "call have one length"
                )
        value = np.array(rows, dtype=np.int64).reshape(len(rows), k)
    if value.ndim != 2 or (value.size and value.dtype.kind not in "iu"):
        raise ValueError(
            "scopes must be integers of shape (m, k), a row for each factor, got "
            f"{value.dtype} of shape {value.shape}"
        )
    check_columns(graph, value)
    return np.array(value, dtype=np.int64, order="C")


def _are_numbers(rows: list[Any]) -> bool:
    """Whether scopes are lists or tuples of plain integers, to be checked in columns."""
    return all(type(s) in (list, tuple) for s in rows) and all(
        type(v) is int and abs(v) < 2**62 for v in itertools.chain.from_iterable(rows)
    )


def as_tables(
    graph: Weighed, scopes: npt.NDArray[np.int64], value: Any
) -> tuple[npt.NDArray[np.float64], float]:
    """Return tables (m, ...) of these scopes, and the sum of magnitudes with them."""
    array, _ = weighed("tables", value, np.dtype(np.float64), graph._MOST)
    (m, k), cards = scopes.shape, graph.cards[scopes]
    shape = tuple(cards[0].tolist())
    other = (cards != cards[0]).any(axis=1)
    if other.any():
        at = int(other.argmax())
        raise ValueError(
            f"scopes[{at}] has variables of {tuple(cards[at].tolist())} states, and scopes[0] of "
            f"{shape}: tables of one call have one shape"
        )
    if array.shape not in (shape, (m, *shape)):
        raise ValueError(
            f"tables must have shape {shape}, one for all, or {(m, *shape)}, one for each of "
            f"scopes, got {array.shape}"
        )
    shared = array.ndim == k
    array = owned(value, array)
    rows = array.reshape(1 if shared else m, -1)
    largest = np.where(rows > -np.inf, np.abs(rows), 0.0).max(axis=1)
    # One after the other, as `add` does: the same bits.
    sums = np.add.accumulate(np.concatenate([[graph.magnitude], np.broadcast_to(largest, m)]))
    over = sums[1:] + graph._soft > graph._MOST
    if over.any():
        at = int(over.argmax())
        where, entry = largest_entry(array if shared else array[at])
        place = f"tables[{', '.join(map(str, where if shared else (at, *where)))}]"
        most = float(sums[at + 1] - graph.magnitude)
        raise graph._excessive(f"{place} of scopes[{at}]", entry, most)
    return np.broadcast_to(array, (m, *shape)), float(sums[-1])


def check_features(graph: Variables, features: Features) -> None:
    """Raise unless a block of features fits its variables."""
    if not isinstance(features, Features):
        raise TypeError(
            "features must be a valuesparse.factors.Features, got "
            f"{type(features).__name__}; add_feature adds one"
        )
    scopes = features.scopes
    check_columns(graph, scopes)
    fewest = graph.cards.min(initial=np.iinfo(np.int64).max)
    for a in range(scopes.shape[1]):
        column = scopes[:, a]
        if features.assignments is not None and len(scopes):
            state = features.assignments[:, a]
            if 0 <= state.min() <= state.max() < fewest:  # mostly so, and sooner seen
                continue
        cards = graph.cards[column]
        if features.assignments is None:
            assert features.fires is not None
            bad = cards != features.fires.shape[a]
            if bad.any():
                at = int(bad.argmax())
                raise ValueError(
                    f"fires has {features.fires.shape[a]} states on axis {a}, but variable "
                    f"{column[at]} of scopes[{at}] has {cards[at]}"
                )
        else:
            state = features.assignments[:, a]
            bad = (state < 0) | (state >= cards)
            if bad.any():
                at = int(bad.argmax())
                raise ValueError(
                    f"assignments[{at}, {a}] is {state[at]}: variable {column[at]} has "
                    f"{cards[at]} states, numbered from 0"
                )


def check_table(
    graph: Weighed, scope: tuple[int, ...], table: Any, index: int, what: str = "log_table"
) -> tuple[Any, float]:
    """Return a table as one of float64, and its largest finite magnitude."""
    name = f"factor {index}: {what}"
    array, largest = weighed(name, table, np.dtype(np.float64), graph._MOST)
    shape = graph._shape(scope)
    if array.shape != shape:
        raise ValueError(
            f"{name} must have shape {shape} for variables "
            f"{listed([graph.names[v] for v in scope])}, got {array.shape}"
        )
    if graph.magnitude + graph._soft + largest > graph._MOST:
        at, value = largest_entry(array)
        raise graph._excessive(f"{name}[{', '.join(map(str, at))}]", value, largest)
    return owned(table, array), largest


def logs_of(index: int, probabilities: Any) -> npt.NDArray[np.float64]:
    """Return the logs of probabilities, or of other weights that are not negative: 0 forbids."""
    numbers = as_reals(f"factor {index}: probabilities", probabilities)
    wrong = ~((numbers >= 0.0) & (numbers < np.inf))
    if wrong.any():
        at = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"factor {index}: probabilities[{', '.join(map(str, at))}] is "
            f"{float(numbers[tuple(at)]):g}; probabilities are finite numbers >= 0 (log-potentials "
            "are given as log_table)"
        )
    with np.errstate(divide="ignore"):
        return np.log(numbers.astype(np.float64))


def as_weight(weight: Any, index: int) -> float:
    """Return the weight of a feature, checked."""
    number = as_array(f"weight of factor {index}", weight)
    if number.ndim or number.dtype.kind not in "fiub":
        raise TypeError(f"weight of factor {index} must be a real number, got {weight!r}")
    theta = float(weight)
    if not theta < np.inf:
        raise ValueError(f"weight of factor {index} is {theta}; it must be finite or -inf")
    return theta


def weigh_feature(graph: Weighed, weight: float, index: int) -> float:
    """Return the magnitude of a weight, checked."""
    largest = abs(weight) if weight > -np.inf else 0.0
    if not graph.fits(largest):
        raise graph._excessive(f"weight of factor {index}", weight, largest)
    return largest


def weigh_features(graph: Weighed, features: Features) -> float:
    """Return the magnitude of the weights of a block, checked."""
    weights = features.weights
    largest = float(np.abs(weights[weights > -np.inf]).sum())
    if not graph.fits(largest):
        (at,), value = largest_entry(weights)
        raise graph._excessive(f"weights[{at}]", value, largest)
    return largest


def taken_over(graph: Weighed, factor: Factor, index: int) -> tuple[Factor, float]:
    """Return a user's factor, checked and copied if shared, and its largest magnitude if known."""
    check_scope(graph, getattr(factor, "scope", None), index)
    if isinstance(factor, Feature):
        check_feature(graph, factor, index)
        largest = weigh_feature(graph, factor.weight, index)
        return factor._owned(), largest
    if isinstance(factor, Table):
        table, largest = check_table(graph, factor.scope, factor.log_table, index)
        return Table(factor.scope, table), largest
    if isinstance(factor, Structured):
        check_binary(graph, factor, index)
    return factor, 0.0


def check_binary(graph: Variables, factor: Structured, index: int) -> None:
    """Raise unless all variables of a structured factor have two states."""
    for v in factor.scope:
        if graph.cardinalities[v] != 2:
            raise ValueError(
                f"factor {index}: {type(factor).__name__} takes binary variables only, and "
                f"variable {graph.names[v]!r} has {graph.cardinalities[v]} states"
            )


def where_it_fires(
    graph: Variables, variables: tuple[int, ...], fires: Any, index: int
) -> npt.NDArray[np.bool_] | list[int]:
    """Return where a feature fires: a table, or the states of one assignment."""
    cards = graph._shape(variables)
    if callable(fires):
        require_small(f"the predicate of factor {index}", cards)
        values = [
            range(k) if (named := graph.states[v]) is None else named
            for v, k in zip(variables, cards, strict=True)
        ]
        truth = [_truth(fires, states, index) for states in itertools.product(*values)]
        return owned(truth, np.array(truth, dtype=np.bool_).reshape(cards))
    if isinstance(fires, (bool, np.bool_)):  # a table without axes becomes a bool
        fires = np.asarray(fires)
    if isinstance(fires, str) or not isinstance(fires, (Sequence, np.ndarray)):
        raise ValueError(
            f"fires of factor {index} must be a sequence of states or a callable, got {fires!r}"
        )
    flat = isinstance(fires, np.ndarray) and fires.ndim == 0
    if not flat and any(isinstance(row, list) for row in fires):  # which is the name of no state
        fires = as_array(f"fires of factor {index}", fires)
    if isinstance(fires, np.ndarray) and (fires.dtype == np.bool_ or fires.ndim != 1):
        all_named = all(graph.states[v] is not None for v in variables)
        if fires.shape != (len(variables),) or not all_named:
            if fires.dtype != np.bool_ or fires.shape != cards:
                raise ValueError(
                    f"fires of factor {index}, a table, must hold bools in shape {cards}, one "
                    f"for each assignment of its variables, got {fires.dtype} of shape "
                    f"{fires.shape}"
                )
            return owned(None, fires)
    if len(fires) != len(variables):
        raise ValueError(
            f"fires of factor {index} must have one state for each of {len(variables)} "
            f"variables, got {len(fires)}"
        )
    return [graph.state(v, s) for v, s in zip(variables, fires, strict=True)]


def _truth(predicate: Callable[..., Any], states: tuple[Any, ...], index: int) -> bool:
    """Return what a predicate says of an assignment, checked: users write it."""
    try:
        found = predicate(*states)
    except Exception as error:
        raise ValueError(
            f"fires of factor {index} failed for the states {states}: {error!r}; it must take "
            f"{len(states)} states, one for each variable, and return True or False"
        ) from error
    if not isinstance(found, (int, np.integer, np.bool_)) or found not in (0, 1):
        raise TypeError(
            f"fires of factor {index} must return True or False, got {found!r} for the states "
            f"{states}"
        )
    return bool(found)
