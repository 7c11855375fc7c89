"""The protocol of a structured factor: what a new kind over binary variables supplies."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse import _messages
from valuesparse._validation import as_array, as_reals, as_sparse, require_potentials
from valuesparse.factors._base import Factor

__all__ = ["NativeStructured", "Structured"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Polytope = tuple[Any, Any, Any, Any, int]

#: Variables up to which a structured factor is turned into a table without being asked.
_MOST_IN_TABLE = 26
#: Rounding that the active-set method of `project` takes for zero.
_NEAR = 1e-12
#: Rounding of probabilities that an entropy may have; steps of the difference quotient beyond it.
_LOST, _STEP = 1e-10, 1.0 / 64.0
#: How far P(y = 1) + P(y = 0) of a kind written in Python may be from 1.
_SUM_OFF = 1e-3
#: Characters that an error shows of what a verb returned.
_SHOWN = 60


class Structured(Factor):
    """A factor that is 0 or 1 over any number of binary variables, and needs no table.

    A kind of your own supplies :meth:`log_potential`, :meth:`sum_product` and :meth:`best`, and
    runs in every engine: serially, with the GIL. Everything else follows from these three or may
    stay away: `max_marginals`, `joint` or `polytope` that returns `NotImplemented`, or raises
    `NotImplementedError`, counts as one that is not there.

    Parameters
    ----------
    scope : sequence of int
        Its k variables; state 1 is on.

    Notes
    -----
    `messages` (k, 2) are log-numbers: what the rest of the model sends for state 0 and 1 of each
    variable. (−inf, x) and (x, −inf) are evidence. Nothing that is returned is NaN.

    Examples
    --------
    At least one of its variables is on:

    >>> import numpy as np
    >>> import valuesparse as vs
    >>> class AnyOf(vs.factors.Structured):
    ...     def log_potential(self, states):
    ...         return np.where(states.any(axis=1), 0.0, -np.inf)
    ...     def sum_product(self, messages):
    ...         p, c = np.exp(messages - np.logaddexp(*messages.T)[:, None]).T[::-1]
    ...         none = np.prod(c)
    ...         mass = np.logaddexp(*messages.T).sum() + np.log1p(-none)
    ...         rest = np.array([np.prod(np.delete(c, i)) for i in range(c.size)])
    ...         return mass, p / (1 - none), c * (1 - rest) / (1 - none)
    ...     def best(self, messages):
    ...         gain = messages[:, 1] - messages[:, 0]
    ...         states = (gain > 0).astype(int)
    ...         states[gain.argmax()] = 1
    ...         return messages[np.arange(gain.size), states].sum(), states
    >>> graph = vs.FactorGraph([2, 2])
    >>> _ = graph.add(AnyOf((0, 1)))
    >>> vs.infer(graph).marginals[0].round(3).tolist()
    [0.333, 0.667]
    """

    __slots__ = ("__dict__",)

    #: Whether max-product messages are sent where the graph has cycles.
    has_max_product: ClassVar[bool] = True
    #: Whether `max_marginals` is written: else each entry takes a run of `best`.
    _has_max_marginals: ClassVar[bool] = False

    def __init__(self, scope: Sequence[int]) -> None:
        kind, given = type(self).__name__, tuple(scope)
        try:
            self.scope = tuple(map(operator.index, given))
        except TypeError:
            raise TypeError(
                f"variables of {kind} are numbers, got {', '.join(map(repr, given))}; of a name, "
                "graph.variable(name) is the number"
            ) from None
        if not self.scope:
            raise ValueError(f"{kind} must have at least one variable")
        if len(set(self.scope)) != len(self.scope):
            twice = next(v for i, v in enumerate(self.scope) if v in self.scope[:i])
            raise ValueError(f"{kind} has variable {twice!r} twice")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._has_max_marginals = cls.max_marginals is not Structured.max_marginals

    @abstractmethod
    def log_potential(self, states: Indices) -> Floats:
        """Return 0 or −inf for each row of `states`, (m, k) -> (m,)."""

    @abstractmethod
    def sum_product(self, messages: Floats) -> tuple[float, Floats, Floats]:
        """Return the log mass, and P(y = 1) and P(y = 0) of each variable, each with its digits.

        The log mass is −inf, and the probabilities are zeros, where nothing is possible.
        """

    @abstractmethod
    def best(self, messages: Floats) -> tuple[float, Indices]:
        """Return the best score, −inf where nothing is possible, and states (k,) that have it."""

    def max_marginals(self, messages: Floats) -> Floats:
        """Return the best score with each state of each variable, (k, 2)."""
        raise NotImplementedError(f"{type(self).__name__} has no max_marginals")

    def joint(self, messages: Floats, pairs: npt.ArrayLike) -> Floats:
        """Return P(y_a = y_b = 1) for pairs of places in the scope, (m, 2) -> (m,)."""
        return self._native.joint(self._checked(messages), self._places(pairs))

    def polytope(self) -> Polytope:
        """Return ``(A_ub, b_ub, A_eq, b_eq, auxiliary)``: the hull of what is possible, sparse.

        Over the k variables, in [0, 1], and `auxiliary` more behind them, all >= 0.
        """
        raise NotImplementedError(f"{type(self).__name__} has no polytope")

    def table(self, cardinalities: Sequence[int]) -> Floats:
        """Return the log-table of a factor of at most 26 variables; ValueError for a larger one."""
        if not self.has_table:
            raise ValueError(
                f"{self.lacks_table()}; use an engine that passes messages, such as "
                "infer(method='bp')"
            )
        return super().table(cardinalities)

    def lacks_table(self) -> str:
        """Return, for an error, that a factor of so many variables has no table."""
        return (
            f"{type(self).__name__} over {len(self.scope)} variables has no table: at most "
            f"{_MOST_IN_TABLE} fit"
        )

    def entropy(self, messages: Floats) -> float:
        """Return the entropy in nats of what `sum_product` has the marginals of.

        It is 0 where nothing is possible.
        """
        messages = self._checked(messages)
        mass, p, c = self.checked_sum_product(messages)
        if mass == -np.inf:
            return 0.0
        weights = np.stack([c, p], axis=1)
        own = messages - messages.max(axis=1, keepdims=True)
        # Beside log-odds of a probability, large ones of messages round digits of it away.
        least = np.maximum(own.min(axis=1), -1e100)  # whose square is finite
        apart = np.multiply(p * c, least**2, out=np.zeros_like(p), where=p * c > 0.0)
        if np.finfo(float).eps * apart.sum() > _LOST:
            return max(self._log_mass(own) - self._slope(own), 0.0)
        expected = np.multiply(weights, messages, out=np.zeros_like(weights), where=weights > 0.0)
        return max(mass - float(expected.sum()), 0.0)

    def _log_mass(self, messages: Floats) -> float:
        return self.checked_sum_product(messages)[0]

    def _slope(self, messages: Floats) -> float:
        """Return the expected score, the slope of the log mass where all messages are scaled.

        Configurations that count score nearly the same, however large messages are, so that this
        has the digits that sums of probabilities and messages have lost.
        """
        ends = (
            weight * (self._log_mass((1.0 + x) * messages) - self._log_mass((1.0 - x) * messages))
            for weight, x in ((45.0, _STEP), (-9.0, 2.0 * _STEP), (1.0, 3.0 * _STEP))
        )
        return sum(ends) / (60.0 * _STEP)

    def project(self, point: npt.ArrayLike) -> Floats:
        """Return the nearest point of the hull of what is possible, (k,) -> (k,).

        Notes
        -----
        The nearest point to the affine hull of a few vertices, the active set. A vertex that `best`
        finds beyond it joins the set; one whose weight would turn negative leaves it.
        """
        target = self._point(point)
        vertices = self._vertex(target)[None]
        weights = np.ones(1)
        while True:
            point = weights @ vertices
            fresh = self._vertex(target - point)
            gain = (target - point) @ (fresh - point)
            if gain <= _NEAR * (1.0 + np.abs(target).sum()) or (vertices == fresh).all(1).any():
                return np.asarray(point)
            vertices, weights = np.vstack([vertices, fresh]), np.append(weights, 0.0)
            while True:
                # Least squares over the affine hull: the sum of the weights is one.
                base, spread = vertices[0], vertices[1:] - vertices[0]
                found = np.linalg.lstsq(spread.T, target - base, rcond=None)[0]
                wanted = np.append(1.0 - found.sum(), found)
                if wanted.min() >= -_NEAR:
                    weights = np.maximum(wanted, 0.0)
                    weights /= weights.sum()
                    break
                falling = wanted < -_NEAR
                ratio = weights[falling] / (weights[falling] - wanted[falling])
                weights = weights + ratio.min() * (wanted - weights)
                kept = weights > _NEAR
                kept[np.flatnonzero(falling)[ratio.argmin()]] = False
                vertices, weights = vertices[kept], weights[kept]
                weights /= weights.sum()

    def _point(self, point: npt.ArrayLike) -> Floats:
        target = as_array("point", point).astype(np.float64)
        if target.shape != (len(self.scope),) or not np.isfinite(target).all():
            raise ValueError(f"point must be {len(self.scope)} finite numbers, got {point!r}")
        return target

    def _rows(self, states: npt.ArrayLike) -> Indices:
        """Return states (..., k) as integers; ValueError unless all are 0 or 1."""
        rows, k = as_array("states", states), len(self.scope)
        if rows.ndim == 0 or rows.shape[-1] != k:
            raise ValueError(f"states must have shape ({k},) or (m, {k}), got {rows.shape}")
        if rows.size and (rows.dtype.kind not in "iub" or rows.min() < 0 or rows.max() > 1):
            raise ValueError(f"states must be integers, each 0 or 1, got {states!r}")
        return np.ascontiguousarray(rows, dtype=np.int64)

    def _vertex(self, gain: Floats) -> Floats:
        score, states = self._best(np.stack([np.zeros_like(gain), gain], axis=1))
        if score == -np.inf:
            raise ValueError(f"{self!r} allows nothing: its hull is empty")
        return states.astype(np.float64)

    @property
    def has_table(self) -> bool:
        """Whether its table may be made."""
        return len(self.scope) <= _MOST_IN_TABLE

    @property
    def described(self) -> str:
        """The factor's kind and size, for messages."""
        kind = type(self).__name__
        article = "an" if kind[0] in "AEIOU" else "a"
        return f"{article} {kind} over {len(self.scope)} variables"

    @property
    def _native(self) -> _messages.Structured:
        """The factor as the engines of C++ see it."""
        verbs = _Verbs(
            self._best, self._max_marginals, self.checked_sum_product, self.checked_log_potential
        )
        return _messages.Structured(verbs, len(self.scope))

    def checked_log_potential(self, states: Indices) -> npt.NDArray[Any]:
        """Return what users write, checked: without NaN and +inf."""
        values = super().checked_log_potential(states)
        good = values < np.inf
        if not good.all():
            at = int(np.argmin(good))
            raise ValueError(
                f"log_potential of {self!r} must return 0 or -inf, got {values[at]} for states "
                f"{states[at].tolist()}"
            )
        return values

    def _checked(self, messages: Any) -> Floats:
        """Return messages as an array (k, 2) of numbers whose sums are finite."""
        found = np.ascontiguousarray(as_reals("messages", messages), dtype=np.float64)
        if found.shape != (len(self.scope), 2):
            raise ValueError(
                f"messages must have shape {(len(self.scope), 2)}, a row for each variable, got "
                f"{found.shape}"
            )
        require_potentials("messages", found)
        return found

    def _places(self, pairs: npt.ArrayLike) -> Indices:
        """Return pairs of places in the scope, (m, 2)."""
        given = as_array("pairs", pairs)
        found = given.reshape(-1, 2) if given.size == 0 or given.shape == (2,) else given
        whole = found.dtype.kind in "iu" or not found.size
        if not whole or found.ndim != 2 or found.shape[1] != 2:
            raise ValueError(
                f"pairs must be integers of shape (m, 2), got {given.shape} of {given.dtype}"
            )
        bad = (found < 0) | (found >= len(self.scope))
        if bad.any():
            at = int(bad.any(axis=1).argmax())
            raise ValueError(
                f"pairs[{at}] is {tuple(found[at].tolist())}: {type(self).__name__} has "
                f"{len(self.scope)} variables, places from 0"
            )
        return np.ascontiguousarray(found, dtype=np.int64)

    def checked_sum_product(self, messages: Floats) -> tuple[float, Floats, Floats]:
        """Return what users write, checked."""
        given, *sides = self._parts("sum_product", self.sum_product(messages), 3)
        p, c = (self._numbers("sum_product", x, (len(self.scope),)) for x in sides)
        mass = self._single("sum_product", given, "one number as its log mass")
        if not mass < np.inf or p.min() < 0.0 or c.min() < 0.0:
            raise ValueError(f"sum_product of {self!r} must return a log mass and probabilities")
        off = np.abs(p + c - 1.0) if mass > -np.inf else np.zeros(1)
        if not off.max() <= _SUM_OFF:
            at = int(off.argmax())
            raise ValueError(
                f"sum_product of {self!r} must return P(y = 1) and P(y = 0), which sum to 1: for "
                f"variable {self.scope[at]} they are {p[at]:g} and {c[at]:g}"
            )
        return mass, p, c

    def checked_joint(self, messages: Floats, pairs: Indices) -> Floats:
        """Return `joint` of some pairs, which users may write, checked."""
        found = _unless_left_out(self.joint, messages, pairs)
        if found is NotImplemented:
            found = Structured.joint(self, messages, pairs)
        return self._numbers("joint", found, (len(pairs),))

    def checked_polytope(self) -> Polytope:
        """Return what users write, checked: with matrices in coordinates."""
        found = _unless_left_out(self.polytope)
        if found is NotImplemented:
            raise NotImplementedError(f"{type(self).__name__} has no polytope")
        upper, below, equal, right, more = self._parts("polytope", found, 5)
        try:
            auxiliary = operator.index(more)
        except TypeError:
            auxiliary = -1
        if auxiliary < 0:
            raise ValueError(
                f"polytope of {self!r} must return how many auxiliary columns there are, a whole "
                f"number >= 0, got {_shown(more)}"
            )
        return (
            *self._rows_of_polytope("ub", upper, below, auxiliary),
            *self._rows_of_polytope("eq", equal, right, auxiliary),
            auxiliary,
        )

    def _rows_of_polytope(
        self, end: str, matrix: Any, right: Any, auxiliary: int
    ) -> tuple[Any, Floats]:
        """Return a matrix, sparse, and its right side, which must fit each other."""
        from scipy import sparse

        k, verb = len(self.scope), f"polytope of {self!r} must return"
        numbers = self._reals("polytope", right, f"real numbers in b_{end}")
        try:
            if sparse.issparse(matrix):
                matrix = as_sparse(f"A_{end} of polytope of {self!r}", matrix)
            else:
                matrix = self._reals("polytope", matrix, f"real numbers in A_{end}")
            found = sparse.coo_array(matrix)
        except TypeError:
            found = None
        if found is None or found.ndim != 2 or found.dtype.kind not in "fiub":
            raise ValueError(f"{verb} a matrix of real numbers A_{end}, got {_shown(matrix)}")
        if numbers.ndim != 1 or found.shape != (numbers.size, k + auxiliary):
            raise ValueError(
                f"{verb} A_{end} with a row for each number of b_{end} and a column for each of "
                f"the {k} variables and {auxiliary} auxiliary ones, got shapes {found.shape} and "
                f"{numbers.shape}"
            )
        if not (np.isfinite(found.data).all() and np.isfinite(numbers).all()):
            raise ValueError(f"{verb} finite numbers in A_{end} and b_{end}")
        return found.astype(np.float64), numbers

    def _best(self, messages: Floats) -> tuple[float, Indices]:
        given, states = self._parts("best", self.best(messages), 2)
        found = self._numbers("best", states, (len(self.scope),))
        score = self._single("best", given, "one number as its score")
        if not score < np.inf or ((found != 0.0) & (found != 1.0)).any():
            raise ValueError(f"best of {self!r} must return a score and states 0 and 1")
        return score, found.astype(np.int64)

    def _max_marginals(self, messages: Floats) -> Floats | None:
        if not self._has_max_marginals:
            return None
        found = _unless_left_out(self.max_marginals, messages)
        if found is NotImplemented:
            return None
        return self._numbers("max_marginals", found, (len(self.scope), 2))

    def _parts(self, verb: str, value: Any, n: int) -> tuple[Any, ...]:
        if not isinstance(value, tuple) or len(value) != n:
            raise ValueError(f"{verb} of {self!r} must return a tuple of {n}, got {value!r}")
        return value

    def _reals(self, verb: str, value: Any, what: str) -> Floats:
        """Return what a verb of the user's gave as an array; ValueError unless it is of numbers."""
        try:
            found = np.asarray(value)
            if value is not None and found.dtype.kind in "fiubO":  # objects may be numbers, too
                return np.asarray(found, dtype=np.float64, order="C")
        except (TypeError, ValueError, OverflowError):
            pass
        raise ValueError(f"{verb} of {self!r} must return {what}, got {_shown(value)}")

    def _single(self, verb: str, value: Any, what: str) -> float:
        found = self._reals(verb, value, what)
        if found.ndim:
            raise ValueError(f"{verb} of {self!r} must return {what}, got {_shown(value)}")
        return float(found)

    def _numbers(self, verb: str, value: Any, shape: tuple[int, ...]) -> Floats:
        found = self._reals(verb, value, f"real numbers of shape {shape}")
        if found.shape != shape or np.isnan(found).any():
            raise ValueError(
                f"{verb} of {self!r} must return shape {shape} without NaN, got {found.shape}"
            )
        return found


class _Verbs:
    """The verbs of a kind written in Python as C++ asks for them: what they return is checked."""

    __slots__ = ("_best", "_max_marginals", "checked_sum_product", "log_potential")

    def __init__(self, best: Any, max_marginals: Any, sum_product: Any, log_potential: Any) -> None:
        self._best, self._max_marginals = best, max_marginals
        self.checked_sum_product, self.log_potential = sum_product, log_potential


def _unless_left_out(verb: Callable[..., Any], *given: Any) -> Any:
    """Return what a verb gives; NotImplemented, returned or raised, where its kind has none."""
    try:
        return verb(*given)
    except NotImplementedError:
        return NotImplemented


def _shown(value: Any) -> str:
    """Return a value for an error, in one short line."""
    return " ".join(repr(value).split())[:_SHOWN]


class NativeStructured(Structured):
    """A structured factor whose verbs are those of C++: no Python runs in an engine."""

    __slots__ = ()

    #: Its name in `ext/factors/kinds.h`.
    _kind: ClassVar[str]
    #: Numbers that the kind takes beside its variables.
    _given: tuple[int, ...] | Indices = ()

    @property
    def _native(self) -> _messages.Structured:
        return _messages.Structured(self._kind, len(self.scope), self._given)

    def log_potential(self, states: Indices) -> Floats:
        """Return 0 or −inf for `states` (k,), or for each row of (m, k)."""
        rows = self._rows(states)
        found = self._native.log_potential(rows.reshape(-1, rows.shape[-1]))
        return found.reshape(rows.shape[:-1])

    def sum_product(self, messages: Floats) -> tuple[float, Floats, Floats]:
        """Return the log mass, and P(y = 1) and P(y = 0) of each variable."""
        return self._native.sum_product(self._checked(messages))

    def best(self, messages: Floats) -> tuple[float, Indices]:
        """Return the best score, −inf where nothing is possible, and states (k,) that have it."""
        return self._native.best(self._checked(messages))

    def max_marginals(self, messages: Floats) -> Floats:
        """Return the best score with each state of each variable, (k, 2)."""
        return self._native.max_marginals(self._checked(messages))

    def project(self, point: npt.ArrayLike) -> Floats:
        """Return the nearest point of the hull of what is possible, (k,) -> (k,)."""
        found = self._native.project(self._point(point))
        return super().project(point) if found is None else found
