"""The fields of a learner's state, and the check of a state that comes from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count, as_reals

__all__ = [
    "ENDED",
    "ENDING",
    "LARGEST",
    "RANDOM",
    "Field",
    "Fields",
    "Resumable",
    "State",
    "StateError",
    "as_numbers",
    "as_threads",
    "checked",
    "ending",
    "generator",
    "number",
    "positive",
    "random_state",
    "require_finite",
    "restored_random",
    "vector",
]

State = dict[str, npt.NDArray[Any]]


class StateError(ValueError):
    """A state is not one that this learner can go on from."""


class Field(NamedTuple):
    """One array of a state.

    Attributes
    ----------
    dtype : str
        ``"f8"``, ``"i8"``, ``"u8"`` or ``"?"``.
    shape : tuple
        Lengths of the axes; the first may be a range: any of these.
    least, most : float
        Between which all numbers are, both included. No number is NaN or infinite.
    """

    dtype: str
    shape: tuple[int | range, ...] = ()
    least: float = -math.inf
    most: float = math.inf

    @property
    def size(self) -> int:
        """The most bytes that the array can take."""
        lengths = [s[-1] if isinstance(s, range) else s for s in self.shape]
        return math.prod(lengths) * np.dtype(self.dtype).itemsize

    def problem(self, array: npt.NDArray[Any]) -> str | None:
        """Return the problem of an array; None where there is none."""
        if array.dtype != np.dtype(self.dtype):
            return f"must be {np.dtype(self.dtype)}, not {array.dtype}"
        fits = array.ndim == len(self.shape) and all(
            found in wanted if isinstance(wanted, range) else found == wanted
            for found, wanted in zip(array.shape, self.shape, strict=True)
        )
        if not fits:
            lengths = ", ".join(
                f"{s[0]} to {s[-1]}" if isinstance(s, range) else str(s) for s in self.shape
            )
            return f"must have the shape ({lengths}), not {array.shape}"
        if self.dtype == "?":
            # A byte that is neither 0 nor 1 is no bool that C knows.
            return None if array.view(np.uint8).max(initial=0) <= 1 else "has bytes above 1"
        if self.dtype == "f8" and not np.isfinite(array).all():
            return "has numbers that are not finite"
        if array.size and not (array.min() >= self.least and array.max() <= self.most):
            return f"has numbers outside of {self.least:g} to {self.most:g}"
        return None


Fields = Mapping[str, Field]

#: The largest weight, or number of a gradient: products of two and their sums are finite.
LARGEST = 1e100


def vector(*shape: int | range, least: float = -LARGEST, most: float = LARGEST) -> Field:
    """Return the field of numbers that weights, gradients and the like are."""
    return Field("f8", shape, least, most)


def number(least: float = -(LARGEST**2), most: float = LARGEST**2) -> Field:
    """Return the field of one number, such as a loss."""
    return Field("f8", (), least, most)


#: Why the rules for stopping ended training, as a number in a state: 0 is that they did not.
ENDED = (None, "converged", "delta")
#: The field of that number.
ENDING = Field("i8", least=0, most=len(ENDED) - 1)
#: The state of a random generator: two halves each of state and increment, and half a number.
RANDOM = Field("u8", (6,))


class Resumable(Protocol):
    """A learner whose state can be kept."""

    def fields(self) -> Fields:
        """Return what a state of this learner consists of."""

    def state(self) -> dict[str, Any]:
        """Return all that the next iteration depends on."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned.

        Raises
        ------
        StateError
            It is no such state; nothing has changed then.
        """


def checked(state: Mapping[str, Any], fields: Fields) -> State:
    """Return a state as new arrays, each of the kind that `fields` declares.

    Raises
    ------
    StateError
        Something is missing, too many, or of another dtype, shape or range.
    """
    if state.keys() != fields.keys():
        missing, more = sorted(fields.keys() - state.keys()), sorted(state.keys() - fields.keys())
        raise StateError(
            f"{missing[0]!r} is missing" if missing else f"{more[0]!r} does not belong there"
        )
    found: State = {}
    for name, field in fields.items():
        array = np.array(state[name], order="C")
        if field.dtype == "i8" and array.dtype.kind == "i":  # the size is the platform's choice
            array = array.astype(np.int64, copy=False)
        problem = field.problem(array)
        if problem is not None:
            raise StateError(f"{name!r} {problem}")
        found[name] = array
    return found


def as_numbers(name: str, value: npt.ArrayLike, n: int) -> npt.NDArray[np.float64]:
    """Return n numbers as C++ reads them: of float64, side by side."""
    array = np.asarray(as_reals(name, value), np.float64, order="C")
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), not {array.shape}")
    return array


def as_threads(threads: int) -> int:
    """Return how many threads sums are spread over; at most as many as C++ takes."""
    return min(as_count("threads", threads, at_least=1), np.iinfo(np.int32).max)


def positive(name: str, value: npt.ArrayLike, n: int) -> npt.NDArray[np.float64]:
    """Return n positive, finite numbers as C++ reads them."""
    array = as_numbers(name, value, n)
    _require(name, array, (array > 0.0) & np.isfinite(array), "; it must be positive and finite")
    return array


def require_finite(name: str, array: npt.NDArray[np.float64], words: str) -> None:
    """Raise ValueError, which ends in `words`, for the first number that is not finite."""
    _require(name, array, np.isfinite(array), words)


def _require(
    name: str, array: npt.NDArray[np.float64], good: npt.NDArray[np.bool_], words: str
) -> None:
    if not good.all():
        at = int(good.argmin())
        raise ValueError(f"{name}[{at}] is {array[at]}{words}")


def ending(reason: str | None) -> int:
    """Return the number of a reason, 0 for those that are no rule for stopping."""
    return ENDED.index(reason) if reason in ENDED else 0


def generator(seed: int) -> np.random.Generator:
    """Return a generator whose state fits `RANDOM`, whatever NumPy's default becomes."""
    return np.random.Generator(np.random.PCG64(as_count("seed", seed, at_least=0)))


_HALF = 2**64


def random_state(random: np.random.Generator) -> npt.NDArray[np.uint64]:
    """Return the state of a generator as numbers."""
    found: Any = random.bit_generator.state
    numbers = [*divmod(found["state"]["state"], _HALF), *divmod(found["state"]["inc"], _HALF)]
    return np.array([*numbers, found["has_uint32"], found["uinteger"]], np.uint64)


def restored_random(numbers: npt.NDArray[np.uint64]) -> np.random.Generator:
    """Return the generator that `random_state` told of.

    Raises
    ------
    StateError
        No generator has such a state.
    """
    high, low, inc_high, inc_low, left_over, half = numbers.tolist()
    if left_over > 1 or half >= 2**32 or not inc_low % 2:
        raise StateError("'random' is not the state of a generator")
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": high * _HALF + low, "inc": inc_high * _HALF + inc_low},
        "has_uint32": left_over,
        "uinteger": half,
    }
    return np.random.Generator(bits)
