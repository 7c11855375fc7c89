"""Binary log-linear factors exp(θ φ(y)), φ in {0, 1}: one, and millions in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._owned import owned
from valuesparse._validation import as_array
from valuesparse.factors._base import Factor, set_once, zeros

__all__ = ["Feature", "Features"]


class Feature(Factor):
    r"""The factor :math:`\exp(\theta \varphi(y))` with φ in {0, 1} (RS10, section 2.1).

    Parameters
    ----------
    scope : sequence of int
        Its variables.
    fires : ndarray of bool, or sequence of int
        Where φ is 1: a table with one axis per variable, or the one assignment (state numbers).
    weight : float
        θ; −inf forbids that φ is 1.

    Attributes
    ----------
    fires : ndarray of bool, or tuple of int
    weight : float

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.factors import Feature
    >>> Feature((0, 1), (1, 0), 0.5).table([2, 2]).tolist()
    [[0.0, 0.0], [0.5, 0.0]]
    """

    __slots__ = ("_table", "fires", "weight")

    fires: npt.NDArray[np.bool_] | tuple[int, ...]
    weight: float
    #: Its log-table where that was made together with others.
    _table: npt.NDArray[np.float64] | None
    _fixed = frozenset({"scope", "fires", "weight"})

    def __init__(
        self, scope: Sequence[int], fires: npt.NDArray[np.bool_] | Sequence[int], weight: float
    ) -> None:
        self.scope = tuple(scope)
        # A table without axes may have come down to a number.
        masked = isinstance(fires, (np.ndarray, np.bool_)) and fires.dtype == np.bool_
        self.fires = np.asarray(fires) if masked else tuple(int(s) for s in fires)
        self.weight = float(weight)
        self._table = None

    def _owned(self) -> Feature:
        """Return what a graph keeps: nobody else can change it."""
        if type(self) is not Feature:
            return self
        fires = self.fires
        return Feature(
            self.scope, fires if isinstance(fires, tuple) else owned(fires, fires), self.weight
        )

    def phi(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether the feature fires for each row of `states`, (m, len(scope)) -> (m,)."""
        if isinstance(self.fires, tuple):
            return np.asarray((states == np.array(self.fires, dtype=np.int64)).all(axis=-1))
        return np.asarray(np.broadcast_to(self.fires[tuple(states.T)], states.shape[:-1]))

    def log_potential(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return θ where the feature fires, else 0, (m, len(scope)) -> (m,)."""
        return np.where(self.phi(states), self.weight, 0.0)

    def table(self, cardinalities: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the log-table, of shape `cardinalities` (those of the scope).

        Raises
        ------
        MemoryLimitError
            When there is no memory for it.
        """
        if self._table is not None and self._table.shape == cardinalities:
            return self._table
        if not isinstance(self.fires, tuple):
            return np.where(self.fires, self.weight, 0.0)
        table = zeros(type(self).__name__, cardinalities)
        table[self.fires] = self.weight
        return table


class Features:
    """Many features of the same number of variables, in columns: no object for each.

    Parameters
    ----------
    scopes : array_like of int, shape (m, k)
        Variable numbers of each feature.
    weights : array_like, shape (m,) or ()
        θ of each feature, or of all; −inf forbids.
    assignments : array_like of int, shape (m, k) or (k,), optional
        State numbers for which each feature (or every one) fires; by default state 1 of every
        variable.
    fires : array_like of bool, optional
        Instead of `assignments`: where every one of them fires, one axis per variable.

    Attributes
    ----------
    scopes, weights, assignments, fires : ndarray
        As given, read-only, of arrays copies; one of the last two is None.

    Raises
    ------
    ValueError
        For shapes that do not agree, NaN or +inf.

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.factors import Features
    >>> edges = Features([[0, 1], [1, 2]], 1.0, fires=np.eye(2, dtype=bool))
    >>> len(edges), edges[1].table([2, 2]).tolist()
    (2, [[1.0, 0.0], [0.0, 1.0]])
    """

    __slots__ = ("assignments", "fires", "scopes", "weights")

    scopes: npt.NDArray[np.integer[Any]]
    weights: npt.NDArray[np.float64]
    assignments: npt.NDArray[np.integer[Any]] | None
    fires: npt.NDArray[np.bool_] | None

    def __init__(
        self,
        scopes: npt.ArrayLike,
        weights: npt.ArrayLike,
        *,
        assignments: npt.ArrayLike | None = None,
        fires: npt.ArrayLike | None = None,
    ) -> None:
        self.scopes = owned(scopes, _integers("scopes", scopes))
        if self.scopes.ndim != 2:
            raise ValueError(
                f"scopes must have shape (m, k), a row for each feature, got {self.scopes.shape}"
            )
        m, k = self.scopes.shape
        self.weights = as_weights("weights", weights, m)
        if fires is not None:
            if assignments is not None:
                raise ValueError("assignments and fires cannot both be given")
            where = owned(fires, as_array("fires", fires))
            if where.dtype != np.bool_ or where.ndim != k:
                raise ValueError(
                    f"fires must be an array of bool with {k} axes, one per variable of a scope, "
                    f"got {where.ndim} of {where.dtype}"
                )
            self.assignments, self.fires = None, where
            return
        states = np.ones(k, dtype=np.int8) if assignments is None else assignments
        found = owned(assignments, _integers("assignments", states))
        if found.shape not in ((m, k), (k,)):
            raise ValueError(f"assignments must have shape {(m, k)} or {(k,)}, got {found.shape}")
        self.assignments, self.fires = np.broadcast_to(found, (m, k)), None

    def __setattr__(self, name: str, value: object) -> None:
        set_once(self, name, value)

    def __len__(self) -> int:
        return len(self.scopes)

    def __getitem__(self, index: int) -> Feature:
        """Return one of them as an object."""
        fires = self.fires
        if fires is None:
            assert self.assignments is not None
            states = self.assignments[index].tolist()
            return Feature(self.scopes[index].tolist(), states, float(self.weights[index]))
        return Feature(self.scopes[index].tolist(), fires, float(self.weights[index]))

    def objects(self, cardinalities: npt.NDArray[np.int64]) -> list[Feature]:
        """Return all of them as objects, with their tables, at once."""
        m = len(self)
        if self.fires is not None:
            fires: list[Any] = [self.fires] * m
        else:
            assert self.assignments is not None
            fires = list(map(tuple, self.assignments.tolist()))
        scopes = map(tuple, self.scopes.tolist())
        found = []
        names, assign = ("scope", "fires", "weight", "_table"), object.__setattr__
        for scope, where, weight, table in zip(
            scopes, fires, self.weights.tolist(), self.tables(cardinalities), strict=True
        ):
            feature = Feature.__new__(Feature)
            for name, value in zip(names, (scope, where, weight, table), strict=True):
                assign(feature, name, value)
            found.append(feature)
        return found

    def take(self, index: npt.NDArray[Any] | slice) -> Features:
        """Return some of them: `index` is a slice, a mask or an array of positions."""
        other = Features.__new__(Features)
        other.scopes, other.weights = self.scopes[index], self.weights[index]
        other.assignments = None if self.assignments is None else self.assignments[index]
        other.fires = self.fires
        return other

    def stack(self, cardinalities: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
        """Return the log-tables in one array, (m, ...); None where they differ in shape."""
        m, k = self.scopes.shape
        if k == 0 or m == 0:
            return None
        if self.fires is not None:
            return np.where(self.fires, self.weights.reshape(m, *[1] * k), 0.0)
        shapes = cardinalities[self.scopes]
        if (shapes != shapes[0]).any():
            return None
        assert self.assignments is not None
        block = zeros("Feature", shapes[0].tolist(), m)
        block[(np.arange(m), *self.assignments.T)] = self.weights
        return block

    def tables(self, cardinalities: npt.NDArray[np.int64]) -> list[npt.NDArray[np.float64]]:
        """Return the log-table of each, given the cardinality of every variable of the graph."""
        m, k = self.scopes.shape
        if k == 0:
            off = self.fires is not None and not self.fires
            return [np.array(0.0 if off else w) for w in self.weights.tolist()]
        stack = self.stack(cardinalities)
        if stack is not None:
            return list(stack)
        found: list[npt.NDArray[np.float64]] = [np.empty(0)] * m
        # Features of one shape are made together.
        groups, which = np.unique(cardinalities[self.scopes], axis=0, return_inverse=True)
        for g in range(len(groups)):
            rows = np.flatnonzero(which.reshape(-1) == g)
            stack = self.take(rows).stack(cardinalities)
            assert stack is not None
            for row, table in zip(rows.tolist(), stack, strict=True):
                found[row] = table
        return found

    def __repr__(self) -> str:
        return f"Features({len(self)} of {self.scopes.shape[1]} variables)"


def as_weights(name: str, value: npt.ArrayLike, m: int) -> npt.NDArray[np.float64]:
    """Return m weights: real, below +inf, no NaN."""
    array = as_array(name, value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    if array.shape not in ((), (m,)):
        raise ValueError(f"{name} must have shape {(m,)}, got {array.shape}")
    array = np.broadcast_to(array.astype(np.float64), m)
    bad = ~(array < np.inf)
    if bad.any():
        at = int(bad.argmax())
        raise ValueError(
            f"{name}[{at}] is {array[at]}; weights must be finite or -inf (which forbids)"
        )
    return array


def _integers(name: str, value: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
    array = as_array(name, value)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, got dtype {array.dtype}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:  # beside int64 these become floats
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise ValueError(f"{name} must fit into 64 bits with a sign, got {array.max()}")
        array = array.astype(np.int64)
    return array
