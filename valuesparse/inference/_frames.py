"""Tables with names: states of variables as pandas frames, and back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from valuesparse.models import FactorGraph

if TYPE_CHECKING:
    import pandas

__all__ = ["codes_of", "frame_of"]

Rows = Sequence[int] | npt.NDArray[np.int64]

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
        if named is not None and any(map(_is_no_category, named)):
            values = np.empty(len(named), dtype=object)
            values[:] = named  # one by one: an array would take tuples apart
            column = values[column]
        elif named is not None:
            column = pandas.Categorical.from_codes(column, list(named))
        columns.append(column)
    frame = pandas.DataFrame(dict(enumerate(columns)), index=range(len(states)))
    frame.columns = pandas.Index(graph.names, tupleize_cols=False)
    return frame


def _is_no_category(name: Any) -> bool:
    """Say whether pandas takes a name apart, or for a missing one."""
    return isinstance(name, tuple) or name is None or name != name


def codes_of(graph: FactorGraph, frame: Any) -> npt.NDArray[np.int32]:
    """Return a user's frame as numbers of states, (rows, n), −1 where nothing is known.

    Parameters
    ----------
    graph : FactorGraph
        The graph whose variables the columns are.
    frame : pandas.DataFrame, mapping of columns, or ndarray of integers (rows, n)
        States by name or number; None, NaN, −1 or a masked entry is unknown. Variables without a
        column are unknown everywhere.

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
        single = isinstance(column, str) or getattr(column, "ndim", 1) == 0
        if single or not hasattr(column, "__len__"):
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
    if categories is not None:  # of pandas: a look-up for each category that occurs
        places = np.asarray(column.cat.codes)
        known = np.flatnonzero(places >= 0)
        there, first = _first_places(places[known], len(categories))
        numbers = np.full(len(categories) + 1, -1, dtype=np.int32)  # the last is that of -1
        numbers[there] = _looked_up(graph, v, list(categories[there]), label, known[first])
        return numbers[places]
    if isinstance(column, (list, tuple)):
        return _looked_up(graph, v, column, label, range(len(column)))
    values = column if isinstance(column, np.ma.MaskedArray) else np.asarray(column)
    if values.ndim != 1:
        raise ValueError(f"{label} must be a column, got an array of shape {values.shape}")
    if not isinstance(values, np.ma.MaskedArray):
        return _array_coded(graph, v, values, label, range(values.size))
    known = np.flatnonzero(~np.ma.getmaskarray(values))
    codes = np.full(values.size, -1, dtype=np.int32)
    codes[known] = _array_coded(graph, v, np.asarray(values)[known], label, known)
    return codes


def _array_coded(
    graph: FactorGraph, v: int, values: npt.NDArray[Any], label: str, rows: Rows
) -> npt.NDArray[np.int32]:
    """Return the states of an array, which stand in these rows."""
    if values.size and values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low < min(_SPAN, 16 * values.size + 64):
            # Modulo 2**64: neither end of the integers overflows.
            at = (values.astype(np.uint64) - np.uint64(low % 2**64)).astype(np.int64)
            there, first = _first_places(at, high - low + 1)
            numbers = np.full(high - low + 1, -1, dtype=np.int32)
            listed = [x + low for x in there.tolist()]
            places = [rows[i] for i in first.tolist()]
            numbers[there] = _looked_up(graph, v, listed, label, places)
            return numbers[at]
    return _looked_up(graph, v, values.tolist(), label, rows)


def _first_places(
    codes: npt.NDArray[Any], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the codes that occur, and where each does first; in the order of these places."""
    first = np.full(size, codes.size, dtype=np.int64)
    # Backwards: where a code occurs several times, the last assignment holds.
    first[codes[::-1]] = np.arange(codes.size)[::-1]
    there = np.flatnonzero(first < codes.size)
    there = there[np.argsort(first[there])]
    return there, first[there]


def _looked_up(
    graph: FactorGraph, v: int, values: Sequence[Any], label: str, rows: Rows
) -> npt.NDArray[np.int32]:
    """Return the states of any values, one by one; the first that is none is named by its row."""
    named = graph.states[v]
    known: dict[Any, int] = {} if named is None else {name: i for i, name in enumerate(named)}
    known.setdefault(None, -1)
    found: list[int | None]
    try:
        found = list(map(known.get, values))
    except TypeError:  # one of them has no hash
        found = [None] * len(values)
    for i in [i for i, number in enumerate(found) if number is None]:
        try:
            found[i] = _number(graph, v, values[i])
        except ValueError as error:
            raise ValueError(f"{label}[{rows[i]}]: {error}") from None
    return np.array(found, dtype=np.int32)


def _number(graph: FactorGraph, v: int, value: Any) -> int:
    """Return the number of a state, −1 for None, NaN, NA, a mask and −1 (if that is no name)."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
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
