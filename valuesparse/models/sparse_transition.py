"""Transitions of which most are one default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._validation import as_potentials, as_reals, as_sparse, as_vector

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "SparseTransition", "dense_table", "given_table", "limits", "native_table",
    "read_steps", "spelled", "weighed_list",
]  # fmt: skip

Array = npt.NDArray[Any]


class SparseTransition:
    """A shared table of which some pairs are listed, and all others have a default.

    Parameters
    ----------
    entries : scipy sparse array or matrix of shape (K, K)
        The log-potential ``[from, to]`` of each pair that is stored: an explicit zero counts, and
        −inf forbids.
    default : float, default 0.0
        The log-potential of every other pair; −inf forbids them.
    rows, columns : array_like of shape (K,), optional
        Added to the default: the pair (l, k) that is not stored has
        ``default + rows[l] + columns[k]``.

    Attributes
    ----------
    entries : scipy.sparse.csr_array of shape (K, K)
        The pairs stored, sorted; read-only.
    default : float
    rows, columns : ndarray of shape (K,) or None
        Read-only.
    n_labels, nnz : int
        K, and how many pairs are stored.
    dtype : numpy.dtype
        float32 when all arrays are float32, else float64.

    Raises
    ------
    ValueError
        For a shape that is not square, pairs outside of it, a pair stored twice, NaN, +inf, finite
        numbers beyond ±1e290 (float64) or ±1e28 (float32), sums of the default, a row and a column
        beyond that, and for `rows` or `columns` that are not finite or stand beside a default of
        −inf.
    TypeError
        When `entries` is no sparse array.

    Notes
    -----
    With exp(t) = D + R, D of rank one and R on the pairs stored, a message costs O(nnz + K)
    instead of O(K²). Where a pair lies far below the default, D + R cancels: such a column is
    summed again over the pairs that are not stored, without a subtraction.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> import valuesparse as vs
    >>> t = vs.SparseTransition(sp.csr_array(([2.0], ([0], [1])), shape=(3, 3)), default=-1.0)
    >>> t
    SparseTransition(n_labels=3, nnz=1, default=-1)
    >>> t.todense().tolist()
    [[-1.0, 2.0, -1.0], [-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]]
    >>> vs.infer(vs.Chain(np.zeros((2, 3)), t)).marginals.round(3).tolist()
    [[0.78, 0.11, 0.11], [0.11, 0.78, 0.11]]
    """

    __slots__ = ("columns", "default", "dtype", "entries", "n_labels", "rows")

    entries: csr_array
    default: float
    rows: Array | None
    columns: Array | None
    n_labels: int
    dtype: np.dtype[Any]

    def __init__(
        self,
        entries: Any,
        default: float = 0.0,
        rows: npt.ArrayLike | None = None,
        columns: npt.ArrayLike | None = None,
    ) -> None:
        from scipy import sparse

        if not sparse.issparse(entries):
            raise TypeError(
                f"entries must be a scipy sparse array, got {type(entries).__name__}; "
                "SparseTransition.of takes a dense one"
            )
        if entries.ndim != 2 or entries.shape[0] != entries.shape[1] or entries.shape[0] == 0:
            raise ValueError(f"entries must have shape (K, K), got {entries.shape}")
        k = int(entries.shape[0])
        coo = as_sparse("entries", entries).tocoo()
        scores = as_reals("entries", coo.data)
        dtype = scores.dtype
        for name, given in (("rows", rows), ("columns", columns)):
            if given is not None:
                dtype = np.promote_types(dtype, as_reals(name, given).dtype)
        table = _listed(sparse, coo, dtype)
        rest = as_reals("default", default)
        if rest.size != 1:
            raise ValueError(f"default must be a number, got {default!r}")
        value = float(as_potentials("default", rest.reshape(()), dtype))
        vectors = [_vector(name, x, k, dtype) for name, x in (("rows", rows), ("columns", columns))]
        if value == -np.inf and any(x is not None for x in vectors):
            raise ValueError("rows and columns must be None where default is -inf")
        _require_sums(value, vectors[0], vectors[1], dtype)
        assign = object.__setattr__
        assign(self, "entries", table)
        assign(self, "default", value)
        assign(self, "rows", vectors[0])
        assign(self, "columns", vectors[1])
        assign(self, "n_labels", k)
        assign(self, "dtype", dtype)

    @classmethod
    def of(cls, dense: npt.ArrayLike) -> SparseTransition:
        """Return a dense table (K, K) as its most frequent value and the others.

        The lowest is the default, if several values are as frequent.

        Examples
        --------
        >>> import valuesparse as vs
        >>> vs.SparseTransition.of([[0.5, 0.5], [2.0, 0.5]])
        SparseTransition(n_labels=2, nnz=1, default=0.5)
        """
        from scipy import sparse

        table = as_reals("dense", dense)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or table.size == 0:
            raise ValueError(f"dense must have shape (K, K), got {table.shape}")
        table = as_potentials("dense", table, table.dtype)
        values, counts = np.unique(table, return_counts=True)
        default = values[counts.argmax()]
        at = np.nonzero(table != default)
        return cls(sparse.csr_array((table[at], at), shape=table.shape), float(default))

    @property
    def nnz(self) -> int:
        """How many pairs are stored."""
        return int(self.entries.nnz)

    def todense(self) -> Array:
        """Return the table (K, K) with an entry for each pair."""
        return spelled(self, self.dtype).copy()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a SparseTransition is immutable; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a SparseTransition is immutable; {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseTransition, (self.entries, self.default, self.rows, self.columns)

    def __repr__(self) -> str:
        more = "".join(f", {x}" for x in ("rows", "columns") if getattr(self, x) is not None)
        return (
            f"SparseTransition(n_labels={self.n_labels}, nnz={self.nnz}, "
            f"default={self.default:g}{more})"
        )


def _listed(sparse: Any, coo: Any, dtype: np.dtype[Any]) -> csr_array:
    """Return the entries by row and column, checked; none is lost, and none summed."""
    row, column = (np.asarray(x, dtype=np.int64) for x in (coo.row, coo.col))
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    twice = np.flatnonzero((np.diff(row) == 0) & (np.diff(column) == 0))
    if twice.size:
        at = int(twice[0])
        raise ValueError(f"entries has the pair ({row[at]}, {column[at]}) twice; store it once")
    scores = as_reals("entries", coo.data)[order]
    try:
        scores = as_potentials("entries", scores, dtype)
    except ValueError:
        for at, to, x in zip(row, column, scores, strict=True):  # in the numbering of the caller
            as_potentials(f"entries[{at}, {to}]", x, dtype)
        raise
    start = np.zeros(coo.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=coo.shape[0]), out=start[1:])
    table = sparse.csr_array((scores, column, start), shape=coo.shape)
    for part in (table.data, table.indices, table.indptr):  # engines trust them
        part.flags.writeable = False
    return table


def _vector(name: str, value: Any, k: int, dtype: np.dtype[Any]) -> Array | None:
    if value is None:
        return None
    array = as_vector(name, value, k, dtype)[0].copy()
    bad = np.flatnonzero(np.isinf(array))
    if bad.size:
        raise ValueError(f"{name}[{bad[0]}] is -inf; list the pairs that are forbidden")
    array.flags.writeable = False
    return array


def _require_sums(default: float, rows: Array | None, columns: Array | None, dtype: Any) -> None:
    """Raise ValueError where a default, a row and a column add up to too much."""
    vectors = [(name, x) for name, x in (("rows", rows), ("columns", columns)) if x is not None]
    for furthest in (np.argmin, np.argmax) if vectors else ():
        at = [(name, x, int(furthest(x))) for name, x in vectors]
        total = sum((float(x[i]) for _, x, i in at), default)
        words = " + ".join(["default", *(f"{name}[{i}]" for name, _, i in at)])
        as_potentials(words, total, dtype)


def given_table(name: str, table: Any) -> Array | SparseTransition:
    """Return a table as it was given: with an entry for each pair, or with a list of some.

    A bare sparse array forbids the pairs that it does not store.
    """
    if not isinstance(table, np.ndarray) and type(table).__module__.startswith("scipy.sparse"):
        table = SparseTransition(table, -np.inf)
    return table if isinstance(table, SparseTransition) else as_reals(name, table)


def dense_table(name: str, table: Any) -> Array:
    """Return a table with an entry for each pair, however it was given."""
    given = given_table(name, table)
    return spelled(given, given.dtype) if isinstance(given, SparseTransition) else given


def spelled(table: SparseTransition, dtype: np.dtype[Any]) -> Array:
    """Return the table (K, K) of a type with an entry for each pair; read-only."""
    k = table.n_labels
    array = np.full((k, k), table.default, dtype=dtype)
    if table.rows is not None:
        array += table.rows[:, None].astype(dtype)
    if table.columns is not None:
        array += table.columns[None, :].astype(dtype)
    coo = table.entries.tocoo()
    array[coo.row, coo.col] = coo.data
    array.flags.writeable = False
    return array


def limits(table: SparseTransition) -> tuple[float, float]:
    """Return what no entry is below, and what none is above."""
    low = high = table.default
    for x in (table.rows, table.columns):
        low += 0.0 if x is None else float(x.min())
        high += 0.0 if x is None else float(x.max())
    scores = table.entries.data
    low = min(low, float(scores.min(initial=np.inf)))
    return low, max(high, float(scores.max(initial=-np.inf)))


def weighed_list(name: str, table: SparseTransition, k: int, dtype: np.dtype[Any]) -> float:
    """Return the largest finite magnitude of a table, whose labels must be k.

    Or what the magnitudes of a default, a row and a column sum up to: they may cancel.
    """
    if table.n_labels != k:
        raise ValueError(
            f"{name} must have shape {(k, k)} for {k} labels, got a SparseTransition of "
            f"{table.n_labels}"
        )
    scores = np.append(table.entries.data, limits(table)).astype(dtype)
    most = float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
    vectors = [x for x in (table.rows, table.columns) if x is not None]
    if not vectors:
        return most
    return max(most, abs(table.default) + sum(float(np.abs(x).max()) for x in vectors))


def read_steps(
    steps: Array | SparseTransition, unary: Array
) -> tuple[Any, Array | None, SparseTransition | None]:
    """Return what engines read of a table, with its entries where they are needed, and its list."""
    if not isinstance(steps, SparseTransition):
        return True, steps, None
    native = native_table(steps, unary)
    return native, spelled(steps, unary.dtype) if native is None else None, steps


def native_table(table: SparseTransition, like: Array) -> _forest.Table | None:
    """Return what engines read for the type of `like`; None where a list does not pay."""
    rows, columns = (
        None if x is None else x.astype(np.float64) for x in (table.rows, table.columns)
    )
    top = limits(table)[1]
    return _forest.Table.of(
        table.entries.indptr.astype(np.int64),
        table.entries.indices.astype(np.int32),
        table.entries.data.astype(np.float64),
        table.default,
        rows,
        columns,
        top if top > -np.inf else 0.0,
        like,
    )
