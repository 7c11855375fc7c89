"""Checks of arguments: one place for what is accepted and for the words of a refusal."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from valuesparse import _forest

__all__ = [
    "LARGEST_COUNT",
    "ExcessiveError",
    "InitSignature",
    "as_array",
    "as_choice",
    "as_count",
    "as_flag",
    "as_generator",
    "as_indices",
    "as_items",
    "as_iterator",
    "as_lengths",
    "as_potentials",
    "as_reals",
    "as_rounds",
    "as_sparse",
    "as_states",
    "excessive",
    "is_choice",
    "is_frame",
    "is_missing",
    "is_real",
    "largest_entry",
    "no_frame",
    "require_potentials",
    "require_progress",
    "require_room",
    "weighed",
]

Array = npt.NDArray[Any]

#: The largest count that C++ takes.
LARGEST_COUNT = 2**63 - 1


class InitSignature:
    """The `__signature__` of a class whose `__new__` takes anything: that of its `__init__`."""

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        if instance is not None:
            raise AttributeError(f"{owner.__name__!r} object has no attribute '__signature__'")
        from inspect import signature

        whole = signature(owner.__init__)
        return whole.replace(parameters=list(whole.parameters.values())[1:])  # without self


def as_array(name: str, value: npt.ArrayLike) -> Array:
    """Return `value` as an array; ValueError that names it when its rows differ in shape."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be one array, its rows all of one shape: {error}") from None
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name} has masked entries, which stand for nothing: fill them first")
    # Numbers inside of packed records stand where C++ may not read them.
    return array if array.flags.aligned else array.copy()


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none in a column of pandas: NaN, NA or NaT."""
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and value != value


def is_frame(value: Any) -> bool:
    """Return whether a value is a data frame, which iterates over its columns, not its rows."""
    return hasattr(value, "columns") and len(getattr(value, "shape", ())) == 2


def no_frame(name: str, value: Any) -> Any:
    """Return items as they are; TypeError where they are a data frame, which gives column names."""
    if type(value) is not list and is_frame(value):
        raise TypeError(
            f"{name} is a {type(value).__name__}, which gives the names of its columns; give a "
            "list of its rows, as df.to_dict('records') is"
        )
    return value


def as_reals(name: str, value: npt.ArrayLike) -> Array:
    """Return `value` as a real array; float32 stays, other reals become float64."""
    array = as_array(name, value)
    dtype = array.dtype
    if dtype.char in "fd" and dtype.isnative:
        return array
    if array.dtype.kind == "f" and array.dtype.itemsize == 4:  # the other byte order
        return array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        if array.ndim == 0 and array.dtype == object:  # what numpy cannot look into
            raise TypeError(
                f"{name} must hold real numbers, got a {type(value).__name__}; make it an array "
                "of float64 first"
            )
        raise TypeError(
            f"{name} must hold real numbers, got an array of dtype {array.dtype}; "
            "convert it to float64 first"
        )
    _require_copy(name, array, 8)
    with np.errstate(over="ignore"):  # a long double too large becomes inf, refused as such
        return array.astype(np.float64)


def _require_copy(name: str, array: Array, size: int) -> None:
    """Raise MemoryError where no machine has room for a copy of entries of `size` bytes."""
    if math.prod(array.shape) > LARGEST_COUNT // size:
        raise MemoryError(f"{name} has shape {array.shape}: a copy of so many numbers fits nowhere")


def require_potentials(
    name: str,
    array: Array,
    place_of: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None,
    most: float = math.inf,
) -> float:
    """Return the largest finite magnitude of log-potentials; ValueError for what is none.

    That is NaN, +inf and what is too large (−inf is a value: it forbids); `most` is the limit that
    the message names where it is lower. `place_of` turns an index of `array` into one that the
    caller knows.
    """
    bad, found = _forest.weigh(array)
    if bad >= 0:
        index = tuple(int(i) for i in np.unravel_index(bad, array.shape))
        value = float(array[index])
        shown = index if place_of is None else place_of(index)
        place = f"{name}[{', '.join(map(str, shown))}]" if shown else name
        if math.isfinite(value):
            largest = min(_forest.LARGEST[array.dtype.name], most)
            raise ValueError(
                f"{place} is {_beyond(value, largest)}; finite log-potentials must lie "
                f"between {-largest:g} and {largest:g} in {array.dtype.name}, so that sums stay "
                "finite (to forbid, use -inf)"
            )
        raise ValueError(
            f"{place} is {'NaN' if math.isnan(value) else '+inf'}; log-potentials must be finite "
            "or -inf (which forbids)"
        )
    return found


def as_potentials(name: str, value: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    """Return a C-contiguous array of `dtype` that holds log-potentials."""
    return weighed(name, value, dtype)[0]


def _is_fit(value: Any, dtype: np.dtype[Any]) -> TypeGuard[Array]:
    """Whether there is nothing to convert."""
    return type(value) is np.ndarray and value.dtype == dtype and value.flags.aligned


def weighed(
    name: str, value: npt.ArrayLike, dtype: np.dtype[Any], most: float = math.inf
) -> tuple[Array, float]:
    """Return what `as_potentials` does, and the largest finite magnitude."""
    array = value if _is_fit(value, dtype) else as_reals(name, value)
    if array.dtype != dtype or not array.flags.c_contiguous:
        _require_copy(name, array, dtype.itemsize)
        array = np.asarray(array, dtype=dtype, order="C")  # which leaves a number without axes
    return array, require_potentials(name, array, None, most)


def as_vector(name: str, value: Any, k: int, dtype: np.dtype[Any]) -> tuple[Array, float]:
    """Return k log-potentials, and the largest finite magnitude."""
    array, most = weighed(name, value, dtype)
    if array.shape != (k,):
        raise ValueError(f"{name} must have shape {(k,)}, got {array.shape}")
    return array, most


def _beyond(value: float, limit: float) -> str:
    """Return a number of a larger magnitude than a limit, with digits that show it."""
    short = f"{value:g}"
    return short if abs(float(short)) > limit else repr(value)


def largest_entry(array: Array) -> tuple[tuple[int, ...], float]:
    """Return the index of the finite entry of the largest magnitude, and the entry."""
    size = np.where(np.isfinite(array), np.abs(array), -1.0)
    index = tuple(int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
    return index, float(array[index])


class ExcessiveError(ValueError):
    """Scores of a tree or graph add up to more than its arithmetic carries."""


def excessive(place: str, value: float, total: float, what: str, limit: float) -> ExcessiveError:
    """Return the error for a model whose scores add up to more than its arithmetic carries."""
    # Added up in another order it may round to the limit itself.
    total = max(total, math.nextafter(limit, math.inf))
    return ExcessiveError(
        f"{place} is {value:g}: with it, the largest finite magnitudes {what} sum to "
        f"{_beyond(total, limit)}, above {limit:g}, up to which trees and graphs are exact (to "
        "forbid, use -inf)"
    )


def as_sparse(name: str, value: Any) -> Any:
    """Return a scipy sparse array without entries outside of it: scipy converts it unchecked."""
    from scipy import sparse

    try:
        if value.format in ("csr", "csc", "bsr"):  # a new one: the check may replace its arrays
            kind = getattr(sparse, f"{value.format}_array")
            parts = (value.data, value.indices, value.indptr)
            array = kind(parts, shape=value.shape)
            array.check_format(full_check=True)
            array.prune()  # what stands beyond the last row would be read with it
            return array
        coo = value.tocoo()
        places = [np.asarray(x) for x in getattr(coo, "coords", None) or (coo.row, coo.col)]
        if any(axis.shape != coo.data.shape for axis in places):
            raise ValueError("its coordinates and its data differ in length")
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"{name} is no sound {value.format} array: {error}") from None
    for axis, size in zip(places, coo.shape, strict=True):
        bad = np.flatnonzero((axis < 0) | (axis >= size))
        if bad.size:
            at = tuple(int(other[bad[0]]) for other in places)
            raise ValueError(f"{name} has the entry {at}, outside of its shape {coo.shape}")
    return coo


def as_lengths(value: npt.ArrayLike, n_positions: int) -> npt.NDArray[np.int64]:
    """Return the lengths of a batch, non-negative and summing to `n_positions`."""
    array = as_array("lengths", value)
    if array.ndim != 1:
        raise ValueError(f"lengths must have shape (B,), got {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"lengths must be integers, got dtype {array.dtype}")
    if array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"lengths[{int(array.argmax())}] is too large: {array.max()}")
    lengths = array.astype(np.int64)
    negative = np.flatnonzero(lengths < 0)
    if negative.size:
        at = int(negative[0])
        raise ValueError(f"lengths[{at}] is {lengths[at]}; a length cannot be negative")
    # Python integers: a sum of huge lengths must not wrap around.
    large = lengths.size > 0 and int(lengths.max()) > n_positions
    total = sum(lengths.tolist()) if large else int(lengths.sum())
    if total != n_positions:
        raise ValueError(
            f"lengths sum to {total} but unary has {n_positions} rows; they must agree"
        )
    return lengths


def as_count(name: str, value: Any, *, at_least: int, at_most: float = math.inf) -> int:
    """Return `value` as an int between `at_least` and `at_most`."""
    try:
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer >= {at_least}, got {value!r}") from None
    if isinstance(value, (bool, np.bool_)) or count < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, got {value!r}")
    if count > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {count}")
    return count


def as_rounds(revisit: Any) -> int:
    """Return the argument `revisit` as a number of rounds; -1 for None, without a bound."""
    if revisit is None:
        return -1
    return as_count("revisit", revisit, at_least=0, at_most=LARGEST_COUNT)


def require_room(name: str, count: int, width: int) -> None:
    """Raise MemoryError where no machine has room for `count` rows of `width` numbers."""
    if count * max(width, 1) > LARGEST_COUNT // 8:
        raise MemoryError(f"{name}={count}: so many rows of {width} numbers each fit nowhere")


def as_flag(name: str, value: Any) -> bool:
    """Return True or False; a word, or an array, would mean either."""
    if isinstance(value, (bool, np.bool_, int, np.integer)) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} must be True or False, not {value!r}")


def is_choice(value: Any, options: Collection[str]) -> TypeGuard[str]:
    """Return whether a value is one of some words; an array is none, whatever it holds."""
    return isinstance(value, str) and value in options


def as_choice(name: str, value: Any, options: Collection[str], verb: str = "got") -> str:
    """Return one of some words; ValueError that lists them for anything else."""
    if not is_choice(value, options):
        raise ValueError(f"{name} must be one of {', '.join(options)}, {verb} {value!r}")
    return value


def as_iterator(name: str, value: Any, what: str = "a sequence") -> Iterator[Any]:
    """Return an iterator over items; TypeError that names them where there are none."""
    try:
        return iter(value)
    except TypeError:
        raise TypeError(f"{name} must be {what}, not {type(value).__name__}") from None


def as_items(name: str, value: Any, what: str = "a sequence") -> list[Any]:
    """Return items as a list; TypeError that names them where there are none."""
    return list(as_iterator(name, value, what))


def as_generator(rng: Any) -> np.random.Generator:
    """Return a source of randomness; the error of what is none names `rng`."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(f"rng must be a Generator, a seed or None: {error}") from None


def as_indices(name: str, value: Any, n_factors: int) -> npt.NDArray[np.int64]:
    """Return indices of factors, sorted, without repetition."""
    if isinstance(value, (range, np.ndarray)):
        array = np.asarray(value)
    else:
        try:
            items = list(value)
            array = np.array([operator.index(i) for i in items], dtype=np.int64)
        except TypeError:
            raise ValueError(f"{name} must be indices of factors, got {value!r}") from None
        except OverflowError:
            at = next(i for i, x in enumerate(items) if abs(x) > LARGEST_COUNT)
            raise ValueError(
                f"{name}[{at}] is {items[at]}: there are {n_factors} factors, numbered from 0"
            ) from None
        if any(isinstance(i, bool) for i in items):
            raise ValueError(
                f"{name} must be indices of factors, got {items!r}: np.flatnonzero makes them of "
                "a mask"
            )
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be a sequence of integers, got an array of {array.dtype} of shape "
            f"{array.shape}"
        )
    bad = (array < 0) | (array >= n_factors)
    if bad.any():
        at = int(bad.argmax())
        raise ValueError(
            f"{name}[{at}] is {array[at]}: there are {n_factors} factors, numbered from 0"
        )
    array = array.astype(np.int64)
    if array.size > 1 and not (np.diff(array) > 0).all():
        array = np.sort(array)
        twice = np.flatnonzero(array[1:] == array[:-1])
        if twice.size:
            raise ValueError(f"{name} names factor {array[twice[0]]} twice")
    return array


def require_progress(progress: object) -> None:
    """Raise ValueError where `progress` is neither None nor something to call."""
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable, got {progress!r}")


def is_real(value: Any) -> TypeGuard[float]:
    """Return whether a value is one real number, no array of them."""
    return isinstance(value, numbers.Real)


def as_threshold(name: str, value: Any) -> float:
    """Return a number >= 0, no NaN."""
    if not is_real(value) or not _as_float(value) >= 0.0:
        raise ValueError(f"{name} must be a number >= 0, got {value!r}")
    return _as_float(value)


def as_zeta(value: Any) -> float:
    """Return the threshold of SMM11, in [0, 1]."""
    # float comes first: an abstract class takes ten times as long to ask.
    real = isinstance(value, (float, numbers.Real)) and not isinstance(value, bool)
    if not real or not 0.0 <= _as_float(value) <= 1.0:
        raise ValueError(f"zeta must lie in [0, 1] (1 is exact), got {value!r}")
    return float(value)


def as_probability(name: str, value: Any, interval: str = "[0, 1]") -> float:
    """Return a number in [0, 1]; `interval` is how the message calls that."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0.0 <= _as_float(value) <= 1.0:
        raise ValueError(f"{name} must be a number in {interval}, got {value!r}")
    return float(value)


def as_tol(value: Any) -> float:
    """Return the largest error that is allowed; 0 passes, and is below the floor of any model."""
    return as_probability("tol", value, "(0, 1]")


def as_work(value: Any) -> float:
    """Return a number of multiply-adds, at least 0."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not _as_float(value) >= 0.0:
        raise ValueError(f"work must be a number of multiply-adds, at least 0, got {value!r}")
    return _as_float(value)


def as_seconds(name: str, value: Any) -> float:
    """Return a positive, finite number of seconds; one beyond a double's range is at its end."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a positive number of seconds and finite, got {value!r}")
    return min(max(_as_float(value), sys.float_info.min), sys.float_info.max)


def _as_float(value: Any) -> float:
    """Return a real number as a float; one too large for that is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_states(
    states: Any, n: int, cards: Any, *, noun: str = "states", least: int = 0, hint: str = ""
) -> npt.NDArray[np.int64]:
    """Return the argument `states` (n,): integers from `least` to below `cards`, one or (n,)."""
    given = as_array("states", states)
    if given.shape != (n,):
        raise ValueError(f"states must have shape {(n,)}, got {given.shape}")
    if n and given.dtype.kind not in "iu":
        raise ValueError(f"states must be integers, got dtype {given.dtype}")
    if n and given.dtype == np.int64 and np.ndim(cards) == 0 and least == 0:
        # As unsigned numbers negative states are the largest: one sweep in place of two.
        wrong = bool(given.view(np.uint64).max() >= cards)
    else:
        above = given.max() >= cards if n and np.ndim(cards) == 0 else (given >= cards).any()
        wrong = bool(n and (above or given.min() < least))
    if wrong:
        i = int(np.flatnonzero((given < least) | (given >= cards))[0])
        last = int(np.broadcast_to(cards, (n,))[i]) - 1
        raise ValueError(f"states[{i}] is {given[i]}; {noun} run from 0 to {last}{hint}")
    return np.ascontiguousarray(given, dtype=np.int64)
