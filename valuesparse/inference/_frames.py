"""Tables with names: states of variables as pandas frames, and back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from valuesparse.models import FactorGraph

if TYPE_CHECKING:
    import pandas

__all__ = ["codes_of", "frame_of"]

#: A column of integers is looked up in a table where they span no more than this.
_SPAN = 1 << 16


def frame_of(graph: FactorGraph, states: npt.NDArray[np.int64]) -> pandas.DataFrame:
    """Return states, (rows, n), as a DataFrame with a column for each variable, by name."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("frame=True needs pandas: pip install pandas") from error
    columns: list[Any] = []
    for v, named in enumerate(graph.states):
        column: Any = states[:, v]
        if named is not None and any(isinstance(name, tuple) for name in named):
            values = np.empty(len(named), dtype=object)
            values[:] = named  # one by one: an array would take tuples apart
            column = values[column]
        elif named is not None:
            column = pandas.Categorical.from_codes(column, list(named))
        columns.append(column)
    frame = pandas.DataFrame(dict(enumerate(columns)), index=range(len(states)))
    frame.columns = pandas.Index(graph.names, tupleize_cols=False)
    return frame


def codes_of(graph: FactorGraph, frame: Any) -> npt.NDArray[np.int32]:
    """Return a user's frame as numbers of states, (rows, n), −1 where nothing is known.

    Parameters
    ----------
    graph : FactorGraph
        The graph whose variables the columns are.
    frame : pandas.DataFrame, mapping of columns, or ndarray of integers (rows, n)
        States by name or number; None, NaN or −1 is unknown. Variables without a column are
        unknown everywhere.

    Raises
    ------
    ValueError
        For a column that is no variable or stands there twice, columns of different lengths, and a
        value that is no state: it is named with its row.
    TypeError
        For anything else than a frame, a mapping or an array.
    """
    n = graph.n_variables
    if isinstance(frame, np.ndarray) and frame.dtype.names is None:
        if frame.ndim != 2 or frame.shape[1] != n or frame.dtype.kind not in "iu":
            raise ValueError(
                f"frame, an array, must hold integers in shape (rows, {n}), a column for each "
                f"variable, got {frame.dtype} of shape {frame.shape}"
            )
        columns = [(v, v, frame[:, v]) for v in range(n)]
        rows = frame.shape[0]
    else:
        columns, rows = _columns(graph, frame)
    codes = np.full((rows, n), -1, dtype=np.int32)
    for name, v, column in columns:
        codes[:, v] = _coded(graph, v, column, f"frame[{name!r}]")
    return codes


def _columns(graph: FactorGraph, frame: Any) -> tuple[list[tuple[Any, int, Any]], int]:
    """Return name, variable and values of each column, and the number of rows."""
    if isinstance(frame, Mapping):
        items: Iterable[tuple[Any, Any]] = frame.items()
    elif hasattr(frame, "items") and hasattr(frame, "columns"):
        items = frame.items()  # of pandas
    else:
        raise TypeError(
            "frame must be a pandas DataFrame, a mapping {variable: values} or an array of "
            f"integers, got {type(frame).__name__}"
        )
    found: list[tuple[Any, int, Any]] = []
    seen: set[int] = set()
    rows = 0
    for name, column in items:
        try:
            v = graph.variable(name)
        except ValueError as error:
            raise ValueError(
                f"frame[{name!r}]: {error}; leave out columns that are no variables"
            ) from None
        if v in seen:
            raise ValueError(f"frame has two columns of variable {graph.names[v]!r}")
        seen.add(v)
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise ValueError(f"frame[{name!r}] must be a sequence of states, got {column!r}")
        if found and len(column) != rows:
            raise ValueError(
                f"frame[{name!r}] has {len(column)} rows, and frame[{found[0][0]!r}] has {rows}"
            )
        rows = len(column)
        found.append((name, v, column))
    if not found:
        rows = len(frame) if hasattr(frame, "columns") else 0
    return found, rows


def _coded(graph: FactorGraph, v: int, column: Any, label: str) -> npt.NDArray[np.int32]:
    """Return the numbers of the states in a column, −1 where there is none."""
    categories = getattr(getattr(column, "cat", None), "categories", None)
    if categories is not None:  # of pandas: a look-up for each category
        numbers = _looked_up(graph, v, list(categories), label)
        codes = np.asarray(column.cat.codes)
        return np.where(codes < 0, np.int32(-1), np.append(numbers, np.int32(-1))[codes])
    values = column if isinstance(column, (list, tuple)) else np.asarray(column)
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ValueError(f"{label} must be a column, got an array of shape {values.shape}")
    if isinstance(values, np.ndarray) and values.size and values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low < min(_SPAN, 16 * values.size + 64):
            return _integers(graph, v, values, low, high, label)
    return _looked_up(graph, v, values, label)


def _integers(
    graph: FactorGraph, v: int, values: npt.NDArray[Any], low: int, high: int, label: str
) -> npt.NDArray[np.int32]:
    """Return states of a column of integers, which lie in a small range."""
    at = values.astype(np.int64) - low
    there = np.flatnonzero(np.bincount(at, minlength=high - low + 1))
    numbers = np.full(high - low + 1, -1, dtype=np.int32)
    for x in there.tolist():
        try:
            numbers[x] = _number(graph, v, x + low)
        except ValueError as error:
            raise ValueError(f"{label}[{int((at == x).argmax())}]: {error}") from None
    return numbers[at]


def _looked_up(graph: FactorGraph, v: int, values: Any, label: str) -> npt.NDArray[np.int32]:
    """Return the states of any values, one by one."""
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    named = graph.states[v]
    known: dict[Any, int] = {} if named is None else {name: i for i, name in enumerate(named)}
    known.setdefault(None, -1)
    found: list[int | None]
    try:
        found = list(map(known.get, listed))
    except TypeError:  # one of them has no hash
        found = [None] * len(listed)
    for i in [i for i, number in enumerate(found) if number is None]:
        try:
            found[i] = _number(graph, v, listed[i])
        except ValueError as error:
            raise ValueError(f"{label}[{i}]: {error}") from None
    return np.array(found, dtype=np.int32)


def _number(graph: FactorGraph, v: int, value: Any) -> int:
    """Return the number of a state, −1 for None, NaN, pandas' NA and −1 (if that is no name)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return -1
    if isinstance(value, (float, np.floating)):
        if value != value:
            return -1
        # A column of integers with gaps is one of floats.
        if not graph.has_state(v, value) and float(value).is_integer():
            value = int(value)
    if not graph.has_state(v, value) and not isinstance(value, (bool, np.bool_)):
        try:
            if operator.index(value) == -1:
                return -1
        except TypeError:
            pass
    return graph.state(v, value)
