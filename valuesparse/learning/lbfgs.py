"""Limited-memory BFGS for sums of a smooth function and c1·|x|, one iteration at a time.

scipy's minimisers run to their end in one call: they cannot be stopped and resumed to the same
bits, they know no L1 term, and their sums depend on the number of BLAS threads. This one can, does,
and they do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_choice, as_count, as_reals, as_threshold
from valuesparse._vectors import direction, dot
from valuesparse.learning._linesearch import FTOL, LinePoint, backtracking, more_thuente
from valuesparse.learning._state import (
    ENDED,
    ENDING,
    LARGEST,
    Field,
    Fields,
    StateError,
    as_numbers,
    as_threads,
    checked,
    ending,
    number,
    positive,
    require_finite,
    vector,
)

__all__ = ["LINE_SEARCHES", "Bounded", "Iteration", "Lbfgs"]

Array = npt.NDArray[np.float64]

#: Names of the line searches.
LINE_SEARCHES = ("MoreThuente", "Backtracking", "StrongBacktracking")

_TINY = math.ulp(0.0)


class Bounded(Protocol):
    """The error of a function that is not exact, as far as it is known, until it is refined.

    Attributes
    ----------
    exact : bool
        Whether it has been.
    loss_error, gradient_error : float
        The largest error of the last value, and of the last gradient in length.
    """

    exact: bool
    loss_error: float
    gradient_error: float

    def refine(self) -> None:
        """Be exact from now on."""


@dataclass(frozen=True)
class Iteration:
    """The report of one iteration.

    Attributes
    ----------
    number : int
        Counted from 1.
    loss : float
        The function, L1 term included.
    norm : float
        Length of the point.
    error : float
        Length of the gradient (with c1: of the pseudo-gradient).
    active : int
        Numbers other than 0 in the point.
    trials : int
        Evaluations of the function.
    step : float
        Along the direction.
    """

    number: int
    loss: float
    norm: float
    error: float
    active: int
    trials: int
    step: float


class Lbfgs:
    """Minimise f(x) + c1·|x| by L-BFGS, or OWL-QN where c1 > 0.

    Iterate over it: each step is an :class:`Iteration`, and `reason` says afterwards why the last
    was the last.

    Parameters
    ----------
    function : callable
        ``function(x, gradient)`` returns f(x) and fills the gradient; +inf says that x is too far
        out to be evaluated.
    x : (n,) float64
        Where to start; it is not changed.
    c1 : float
        Weight of the L1 norm.
    memory : int
        Pairs of steps and changes of the gradient to keep.
    epsilon : float
        Stop where ‖gradient‖ <= epsilon · max(1, ‖x‖).
    period, delta : int, float
        Stop where the loss of `period` iterations ago is less than (1 + delta) times this one;
        period 0 never does.
    max_iterations : int
        Stop after this many.
    linesearch : str
        ``"MoreThuente"``, ``"Backtracking"`` or ``"StrongBacktracking"``; with c1 > 0 a
        backtracking search of its own is used.
    max_linesearch : int
        Evaluations in one search.
    diagonal : (n,) float64, optional
        Guess at the inverse of the Hessian's diagonal, up to a factor.
    threads : int
        Threads for sums over vectors; they never show in the result.
    bounded : Bounded, optional
        The error of a function that is not exact: where it could decide a rule for stopping, or a
        line search fails, the function is refined, and the search goes on from where it is.

    Attributes
    ----------
    x : (n,) float64
        The point.
    iterations : int
        Done so far.
    reason : str or None
        ``"converged"``, ``"delta"``, ``"max_iterations"`` or ``"linesearch"``.

    Notes
    -----
    L-BFGS is the two-loop recursion of Liu and Nocedal [1]_; OWL-QN, which keeps to one orthant at
    a time, that of Andrew and Gao [2]_. Stopping rules are those of CRFsuite.

    References
    ----------
    .. [1] D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale optimization",
       Mathematical Programming 45, 1989, 503-528.
    .. [2] G. Andrew, J. Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.

    Examples
    --------
    >>> def bowl(x, gradient):
    ...     gradient[:] = 2 * (x - 3.0)
    ...     return float(((x - 3.0) ** 2).sum())
    >>> search = Lbfgs(bowl, np.zeros(4))
    >>> for iteration in search:
    ...     pass
    >>> search.x
    array([3., 3., 3., 3.])
    >>> search.reason
    'converged'
    """

    def __init__(
        self,
        function: Callable[[Array, Array], float],
        x: Array,
        *,
        c1: float = 0.0,
        memory: int = 6,
        epsilon: float = 1e-5,
        period: int = 10,
        delta: float = 1e-5,
        max_iterations: int = 2**31 - 1,
        linesearch: str = "MoreThuente",
        max_linesearch: int = 20,
        diagonal: Array | None = None,
        threads: int = 1,
        bounded: Bounded | None = None,
    ) -> None:
        as_choice("linesearch", linesearch, LINE_SEARCHES, "not")
        self.function = function
        self._x = np.array(as_reals("x", x), np.float64)
        if self._x.ndim != 1:
            raise ValueError(f"x must have one dimension, not {self._x.ndim}")
        self.c1, self.epsilon = as_threshold("c1", c1), as_threshold("epsilon", epsilon)
        if math.isinf(self.c1):
            raise ValueError("c1 must be finite")
        self.memory = as_count("memory", memory, at_least=0)
        self.period = as_count("period", period, at_least=0)
        self.delta = as_threshold("delta", delta)
        self.max_iterations = as_count("max_iterations", max_iterations, at_least=1)
        self.linesearch = linesearch
        self.max_linesearch = as_count("max_linesearch", max_linesearch, at_least=0)
        self.threads = as_threads(threads)
        self.bounded = bounded
        n = len(self.x)
        try:
            self._s, self._y = np.empty((memory, n)), np.empty((memory, n))
            self._sy = np.empty(memory)
        except (MemoryError, ValueError):  # a ValueError where the address space is too small
            raise MemoryError(
                f"memory = {memory}: so many pairs of {n} numbers each do not fit; keep fewer "
                "(trainers call it num_memories)"
            ) from None
        self.diagonal = diagonal
        self.iterations = 0
        self.reason: str | None = None
        self.loss = math.nan
        self._gradient = np.empty(n)
        self._pairs = 0  # made so far; the last `memory` are kept, pair i in row i % memory
        self._past: list[float] = []
        self._errors: list[float] = []  # how far each of them may be off
        self._started = False

    @property
    def x(self) -> Array:
        """The point, (n,)."""
        return self._x

    @x.setter
    def x(self, x: Array) -> None:
        self._x = as_numbers("x", x, len(self._x)).copy()

    @property
    def diagonal(self) -> Array | None:
        """The guess at the inverse of the Hessian's diagonal, (n,)."""
        return self._diagonal

    @diagonal.setter
    def diagonal(self, diagonal: Array | None) -> None:
        self._diagonal = None if diagonal is None else positive("diagonal", diagonal, len(self.x))

    def fields(self) -> Fields:
        """Return what a state of this search consists of."""
        n = len(self.x)
        pairs = range(self.memory + 1)
        bounded: Fields = {} if self.bounded is None else {
            "exact": Field("i8", least=0, most=1),
            "loss_errors": vector(range(1, max(self.period, 1) + 1), least=0.0, most=LARGEST**2),
        }  # fmt: skip
        return {
            "x": vector(n), "gradient": vector(n), "s": vector(pairs, n), "y": vector(pairs, n),
            "sy": vector(pairs, least=_TINY, most=LARGEST**2), "pairs": Field("i8", least=0),
            "past": vector(range(1, max(self.period, 1) + 1), least=-LARGEST**2, most=LARGEST**2),
            "iterations": Field("i8", least=0), "loss": number(),
            "ended": ENDING, **bounded,
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return all that the next iteration depends on: numbers, and copies of arrays."""
        kept = min(self._pairs, self.memory)
        bounded = {} if self.bounded is None else {
            "exact": int(self.bounded.exact), "loss_errors": np.array(self._errors)
        }  # fmt: skip
        return {
            "x": self.x.copy(), "gradient": self._gradient.copy(), "s": self._s[:kept].copy(),
            "y": self._y[:kept].copy(), "sy": self._sy[:kept].copy(), "pairs": self._pairs,
            "past": np.array(self._past),
            "iterations": self.iterations, "loss": self.loss,
            "ended": ending(self.reason), **bounded,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned.

        Raises
        ------
        ValueError
            It is not the state of such a search; nothing has changed then.
        """
        found = checked(state, self.fields())
        pairs = int(found["pairs"])
        kept = min(pairs, self.memory)
        for name in ("s", "y", "sy"):
            if len(found[name]) != kept:
                raise StateError(f"{name!r} must have {kept} rows, not {len(found[name])}")
        losses = len(found["past"])
        errors = found.get("loss_errors", np.zeros(losses))
        if len(errors) != losses:
            raise StateError(f"'loss_errors' must have {losses} numbers, not {len(errors)}")
        self._pairs, self.iterations = pairs, int(found["iterations"])
        self._x, self._gradient = found["x"].copy(), found["gradient"].copy()
        self.loss = float(found["loss"])
        self._s[:kept], self._y[:kept], self._sy[:kept] = found["s"], found["y"], found["sy"]
        self._past = found["past"].tolist()
        self._errors = errors.tolist()
        if self.bounded is not None and found["exact"]:
            self.bounded.refine()
        self._started = True
        self.reason = ENDED[int(found["ended"])]
        if self.reason is None and self._small(self._pseudo_gradient()):
            self.reason = "converged"  # no step leads on from here
        if self.reason is None and self.iterations >= self.max_iterations:
            self.reason = "max_iterations"

    def __iter__(self) -> Iterator[Iteration]:
        if not self._started:
            self._begin()
        while self.reason is None:
            iteration = self._step()
            if iteration is None:
                return
            yield iteration

    def _begin(self) -> None:
        """Evaluate the first point."""
        self.loss = self.function(self.x, self._gradient) + self._l1(self.x)
        if not math.isfinite(self.loss):
            raise ValueError("the function is not finite where the search begins")
        require_finite("gradient", self._gradient, " where the search begins")
        if self._in_doubt():
            self._refine()
        self._past, self._errors = [self.loss], [self._error()]
        if self._small(self._pseudo_gradient()):
            self.reason = "converged"
        self._started = True  # an evaluation that was cut off is begun again

    def _error(self) -> float:
        """Return how far the last loss may be off from the exact function's."""
        return 0.0 if self.bounded is None or self.bounded.exact else self.bounded.loss_error

    def _in_doubt(self) -> bool:
        """Whether the error of the function could decide a rule for stopping."""
        bound = self.bounded
        if bound is None or bound.exact:
            return False
        gradient = self._pseudo_gradient()  # which errs by no more than the gradient
        size = math.sqrt(self._dot(self.x, self.x))
        error = math.sqrt(self._dot(gradient, gradient))
        if error - bound.gradient_error <= self.epsilon * max(1.0, size):
            return True
        if not 0 < self.period <= len(self._past):
            return False
        fallen = self._past[-self.period] - self.loss
        error = self._errors[-self.period] + (1.0 + self.delta) * self._error()
        return fallen < self.delta * self.loss + error

    def _refine(self) -> None:
        """Make the function exact, and evaluate the point again."""
        assert self.bounded is not None
        self.bounded.refine()
        self.loss = self.function(self.x, self._gradient) + self._l1(self.x)

    def _step(self) -> Iteration | None:
        """Do one iteration; None when the line search found nothing."""
        gradient = self._pseudo_gradient()
        d = self._direction(gradient)
        slope = self._dot(d, gradient)
        if not slope < 0.0:  # the memory is of no use (or has lost its precision)
            self._pairs = 0
            d = self._direction(gradient)
            slope = self._dot(d, gradient)
        step = 1.0 if self._pairs else 1.0 / math.sqrt(self._dot(d, d))
        x, after = np.empty_like(self.x), np.empty_like(self.x)
        if self.c1 > 0.0:
            found = self._orthant_search(d, gradient, step, x, after)
        else:
            found = self._search(d, slope, step, x, after)
        if not found.ok and self.bounded is not None and not self.bounded.exact:
            self._refine()
            self._past[-1:], self._errors[-1:] = [self.loss], [0.0]
            if self._small(self._pseudo_gradient()):
                self.reason = "converged"
                return None
            return self._step()
        if not found.ok:
            self.reason = "linesearch"
            return None
        if not math.isfinite(found.value):
            raise ValueError(f"the function is {found.value} in iteration {self.iterations + 1}")
        self.iterations += 1
        if self.memory:
            # Neither the direction nor the old gradient is needed any more.
            s = np.subtract(x, self.x, out=d)
            y = np.subtract(after, self._gradient, out=self._gradient)
            sy = self._dot(s, y)
            if sy > 0.0:  # else the pair would spoil the model of the curvature
                row = self._pairs % self.memory
                self._s[row], self._y[row], self._sy[row] = s, y, sy
                self._pairs += 1
        self._x, self._gradient, self.loss = x, after, found.value
        if self._in_doubt():
            self._refine()
        gradient = self._pseudo_gradient()
        iteration = Iteration(
            number=self.iterations,
            loss=self.loss,
            norm=math.sqrt(self._dot(x, x)),
            error=math.sqrt(self._dot(gradient, gradient)),
            active=int(np.count_nonzero(x)),
            trials=found.trials,
            step=found.step,
        )
        self._decide(iteration)
        return iteration

    def _decide(self, iteration: Iteration) -> None:
        """Stop where a rule says so."""
        if iteration.error <= self.epsilon * max(1.0, iteration.norm):
            self.reason = "converged"
            return
        if self.period > 0:
            if len(self._past) >= self.period:
                earlier = self._past[-self.period] + self._errors[-self.period]  # at most
                if earlier - self.loss < self.delta * self.loss:
                    self.reason = "delta"
                    return
            self._past = [*self._past[-self.period + 1 :], self.loss][-self.period :]
            self._errors = [*self._errors[-self.period + 1 :], self._error()][-self.period :]
        if self.iterations >= self.max_iterations:
            self.reason = "max_iterations"

    def _direction(self, gradient: Array) -> Array:
        kept = min(self._pairs, self.memory)
        order = np.arange(self._pairs - kept, self._pairs, dtype=np.int64) % max(self.memory, 1)
        scale = 1.0
        d = np.empty_like(gradient)
        # A direction that is not finite is no descent: the memory is given up then.
        with np.errstate(all="ignore"):
            if kept:
                y = self._y[order[-1]]
                scaled = y if self.diagonal is None else y * self.diagonal
                scale = self._sy[order[-1]] / self._dot(y, scaled)
            direction(
                order, self._s, self._y, self._sy, scale, self.diagonal, gradient, d, self.threads
            )
            if self.c1 > 0.0 and kept:
                d[d * gradient >= 0.0] = 0.0  # not against the pseudo-gradient
        return d

    def _search(self, d: Array, slope: float, step: float, x: Array, after: Array) -> LinePoint:
        """Search along `d`; the point and its gradient end in `x` and `after`."""

        def along(step: float) -> tuple[float, float]:
            self._move(d, step, x)
            value = self.function(x, after)
            if not math.isfinite(value):
                return value, math.inf
            here = self._dot(after, d)
            if not math.isfinite(here) and value <= self.loss + FTOL * step * slope:
                require_finite("gradient", after, f" in iteration {self.iterations + 1}")
            return (value, here) if math.isfinite(here) else (math.inf, math.inf)  # too far

        start = (self.loss, slope)
        if self.linesearch == "MoreThuente":
            return more_thuente(along, start, step, self.max_linesearch)
        strong = self.linesearch == "StrongBacktracking"
        return backtracking(along, start, step, self.max_linesearch, strong)

    def _orthant_search(
        self, d: Array, gradient: Array, step: float, x: Array, after: Array
    ) -> LinePoint:
        """Halve the step until the loss falls enough, inside the orthant of the pseudo-gradient."""
        orthant = np.where(self.x == 0.0, -gradient, self.x)
        value = self.loss
        for trial in range(1, self.max_linesearch + 1):
            self._move(d, step, x, orthant)
            value = self.function(x, after) + self._l1(x)
            if value <= self.loss + FTOL * self._dot(x - self.x, gradient):
                require_finite("gradient", after, f" in iteration {self.iterations + 1}")
                return LinePoint(step, value, trial, True)
            step *= 0.5
        return LinePoint(step, value, self.max_linesearch, False)

    def _move(self, d: Array, step: float, x: Array, orthant: Array | None = None) -> None:
        """Fill `x` with the point after a step, within an orthant if there is one."""
        with np.errstate(all="ignore"):  # a point too far out has the value +inf
            np.multiply(d, step, out=x)
            np.add(x, self.x, out=x)
            if orthant is not None:
                x[x * orthant <= 0.0] = 0.0

    def _pseudo_gradient(self) -> Array:
        """Return the gradient, or with c1 > 0 the one-sided derivative of steepest descent."""
        if not self.c1 > 0.0:
            return self._gradient
        g, c = self._gradient, self.c1
        at_zero = np.where(g < -c, g + c, np.where(g > c, g - c, 0.0))
        return np.where(self.x == 0.0, at_zero, g + c * np.sign(self.x))

    def _small(self, gradient: Array) -> bool:
        norm = math.sqrt(self._dot(self.x, self.x))
        return math.sqrt(self._dot(gradient, gradient)) <= self.epsilon * max(1.0, norm)

    def _l1(self, x: Array) -> float:
        if not self.c1 > 0.0:
            return 0.0
        return self.c1 * self._dot(np.abs(x), np.ones_like(x))

    def _dot(self, x: Array, y: Array) -> float:
        return dot(x, y, self.threads)
