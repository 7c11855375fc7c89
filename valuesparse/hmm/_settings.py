"""The settings of a fit: priors and thresholds, checked before they reach a parameter."""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_array, as_reals, is_missing

__all__ = ["ROWS", "Setting", "as_doubles", "as_rows", "require_settings", "rows_within"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

#: Largest magnitude in X of normal distributions, and of counts: squares, and sums of them, stay
#: finite.
ROWS = 1e100


class Setting(NamedTuple):
    """The shape that a setting is spread to, the least number in it, and whether it may be None."""

    shape: tuple[int, ...] = ()
    least: float = -math.inf
    optional: bool = False


def require_settings(model: Any, settings: dict[str, Setting]) -> None:
    """Refuse settings that are not finite, too small, or of a shape that does not fit."""
    if not isinstance(model.tol, numbers.Real) or math.isnan(model.tol):
        raise ValueError(f"tol must be a number, got {model.tol!r}")
    for name in ("params", "init_params"):
        letters = getattr(model, name)
        try:
            _ = "s" in letters  # whatever can be asked will do
        except TypeError:
            raise ValueError(f"{name} must be a string of letters, got {letters!r}") from None
    for name, (shape, least, optional) in settings.items():
        value = getattr(model, name)
        if value is None:
            if optional:
                continue
            raise ValueError(f"{name} must be {_spread(shape)}, got None")
        array = as_reals(name, value)
        bad = ~(np.isfinite(array) & (array >= least))
        if bad.any():
            at = [int(i) for i in np.argwhere(bad)[0]]
            words = "finite" if math.isinf(least) else f"finite and at least {least:g}"
            raise ValueError(f"{name}{at or ''} is {array[bad][0]}; it must be {words}")
        try:
            np.broadcast_to(array, shape)
        except ValueError:
            raise ValueError(f"{name} must be {_spread(shape)}, got shape {array.shape}") from None


def _spread(shape: tuple[int, ...]) -> str:
    return f"an array that spreads to {shape}" if shape else "a number"


def plain(name: str, array: Array) -> Array:
    """Return an array of objects or of long doubles as one of doubles, others as they are."""
    if array.dtype != object and array.dtype.char != "g":
        return array
    try:
        with np.errstate(over="ignore"):  # what is too large becomes inf, and is refused
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        for index, value in np.ndenumerate(array):
            if is_missing(value):
                raise ValueError(
                    f"{name}{list(index)} is a missing value, {value}; {name} must be finite"
                ) from None
            try:
                float(value)
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(
                    f"{name}{list(index)} is {value!r}; {name} must hold real numbers"
                ) from None
        raise


def as_doubles(name: str, value: npt.ArrayLike) -> Floats:
    """Return parameters as C++ reads them: float64, in order C."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.carray:
        return value
    array = plain(name, as_array(name, value))
    return np.asarray(as_reals(name, array), dtype=np.float64, order="C")


def as_rows(X: npt.ArrayLike) -> Array:
    """Return X as an array of finite numbers (N, n_features)."""
    array = plain("X", as_array("X", X))
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"X must hold real numbers, got dtype {array.dtype}; names of symbols are numbered "
            "by numpy.unique(names, return_inverse=True)"
        )
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array: X must have shape (N, n_features), got {array.shape}; one "
            "feature is X.reshape(-1, 1)"
        )
    if 0 in array.shape:
        raise ValueError(f"X must have a row and a column at least, got shape {array.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        finite = array.dtype.kind != "f" or bool(np.isfinite(array.sum()))
    if not finite:
        bad = np.argwhere(~np.isfinite(array))
        if bad.size:
            at = tuple(int(i) for i in bad[0])
            raise ValueError(f"X{list(at)} is {array[at]}; X must be finite")
    return array


def rows_within(X: Array) -> Array:
    """Return X as it is; ValueError for numbers whose squares no double holds."""
    most = max(abs(float(X.max())), abs(float(X.min())))
    if most > ROWS:
        at = [int(i) for i in np.argwhere(abs(X.astype(np.float64)) > ROWS)[0]]
        raise ValueError(
            f"X{at} is {float(X[tuple(at)]):g}; normal distributions take numbers between "
            f"{-ROWS:g} and {ROWS:g}: divide X by a constant"
        )
    return X
