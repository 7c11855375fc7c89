"""The bases of results: of every engine's, and of those whose marginals are rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._junction import fill
from valuesparse._validation import LARGEST_COUNT, as_count, as_items, as_probability
from valuesparse.results._listed import Listed, listed
from valuesparse.threads import resolve

if TYPE_CHECKING:
    import pandas
    from scipy.sparse import csr_array

__all__ = ["PROVED", "PairsResult", "Result", "RowsResult", "edges_at_once"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

#: Bounds and proofs, which results of chains and trees have.
PROVED = frozenset({
    "certify", "error", "log_z_lower", "log_z_upper", "lower", "pairwise_bounds", "radius",
    "slack", "upper",
})  # fmt: skip
#: Pairwise marginals made at a time, unless a block is asked for or one sequence has more.
BLOCK_ENTRIES = 2**22


class Result:
    """Marginals of a model, and how they came about: what :func:`valuesparse.infer` returns.

    A record that cannot be changed; it pickles. Each kind of model has its own, with queries of
    its own: `ChainResult`, `TreeResult`, `SecondOrderResult`, `SegmentResult`, `GraphResult`.

    Attributes
    ----------
    marginals : ndarray, or list of ndarray for graphs
        Probability of each state of each variable.
    log_z : ndarray of float64, or float for graphs
        Log partition function.
    islands : ndarray of int32, shape (N,)
        The value that an island holds, −1 elsewhere.
    method : str
        The engine that ran.
    reason : str
        Why that ran.
    converged : bool
        False when a limit stopped it before nothing changed.
    stats : dict
        How much work it was.
    """

    __slots__ = (
        "_model",
        "converged",
        "islands",
        "log_z",
        "marginals",
        "method",
        "reason",
        "stats",
    )

    #: Fields that can be computed again: left out of pickles, None until then.
    _derived: ClassVar[tuple[str, ...]] = ()

    marginals: Any
    log_z: Any
    islands: Any
    method: str
    reason: str
    converged: bool
    stats: dict[str, int]
    _model: Any

    def _fill(self, **fields: Any) -> None:
        fill(self, fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Result is a record; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Result is a record; {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        names = [*Result.__slots__, *type(self).__slots__]
        return {name: getattr(self, name) for name in names if name not in self._derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._fill(**dict.fromkeys(self._derived), **state)


class RowsResult(Result):
    """The common part of results of chains and trees, whose marginals are an array (N, K)."""

    __slots__ = ()

    def _kept(self) -> Listed | None:
        """Return the marginals that `keep` has listed, None where all are there."""
        return None

    def _listing(self, least: float | None, workers: int) -> Listed:
        """Return the marginals >= `least`, and the largest of each row; None: all but zeros."""
        dense = self.marginals
        smallest = float(np.finfo(dense.dtype).smallest_subnormal)
        return listed(dense, smallest if least is None else least, workers)

    def _index(self) -> dict[str, Integers]:
        """Return the names and values of what a data frame is indexed by."""
        raise NotImplementedError

    @property
    def unlisted(self) -> npt.NDArray[np.float64]:
        """The most that a label left out by `sparse` can have, (N,); zeros without `keep`.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.log([[0.9, 0.07, 0.03]]), np.zeros((3, 3))), keep=0.05)
        >>> r.unlisted.round(3).tolist()
        [0.03]
        """
        kept = self._kept()
        if kept is not None:
            return kept.unlisted
        none = np.zeros(self.islands.size)
        none.flags.writeable = False
        return none

    def sparse(self, min: float | None = None, *, threads: int | None = None) -> csr_array:
        """Return the marginals that are not small, as a sparse array.

        Parameters
        ----------
        min : float, optional
            The least marginal to list, in [0, 1]; by default the `keep` of the call, and without
            one whatever is not zero. The largest of each row is listed in any case.
        threads : int, optional
            At least 1.

        Returns
        -------
        scipy.sparse.csr_array of shape (N, K), dtype of the model
            A copy; labels ascend in each row.

        Raises
        ------
        ValueError
            When `min` is below the `keep` of the call: what is smaller is not known.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.log([[0.9, 0.07, 0.03]]), np.zeros((3, 3))))
        >>> r.sparse(min=0.05).toarray().round(3).tolist()
        [[0.9, 0.07, 0.0]]
        """
        workers = resolve(threads)
        least = None if min is None else as_probability("min", min)
        return self._listing(least, workers).csr(self._model.n_labels)

    def top(self, k: int, *, threads: int | None = None) -> tuple[Integers, Array]:
        """Return the k most probable labels of each variable.

        Parameters
        ----------
        k : int
            How many, from 1 to the number of labels.
        threads : int, optional
            At least 1.

        Returns
        -------
        labels : ndarray of int64, shape (N, k)
            By probability, descending; labels that are as probable ascend.
        probabilities : ndarray of shape (N, k), dtype of the model
            Their marginals. Where `keep` has listed fewer than `k`, −1 and 0 fill the row.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.log([[0.03, 0.9, 0.07]]), np.zeros((3, 3))))
        >>> labels, p = r.top(2)
        >>> labels.tolist(), p.round(3).tolist()
        ([[1, 2]], [[0.9, 0.07]])
        """
        workers, count = resolve(threads), as_count("k", k, at_least=1)
        if count > self._model.n_labels:
            raise ValueError(f"k={count}: there are {self._model.n_labels} labels")
        kept = self._kept()
        if kept is not None:
            return kept.top(count, workers)
        return _forest.top(self.marginals, count, workers)

    def to_frame(self, labels: Any = None) -> pandas.DataFrame:
        """Return the marginals as a pandas DataFrame.

        Its rows are indexed by (sequence, position), those of a tree by (tree, node).

        Parameters
        ----------
        labels : sequence, optional
            Names of the K columns; numbers by default.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        index = self._index()
        rows = pandas.MultiIndex.from_arrays(list(index.values()), names=list(index))
        k = self._model.n_labels
        columns = range(k) if labels is None else as_items("labels", labels)
        if len(columns) != k:
            raise ValueError(f"labels must have a name for each of {k} labels, got {len(columns)}")
        return pandas.DataFrame(self.marginals, index=rows, columns=columns, copy=True)


class PairsResult(RowsResult):
    """The common part of those whose edges, in order, tie two variables each."""

    __slots__ = ()

    def _n_edges(self) -> int:
        raise NotImplementedError

    def _edge_blocks(self, size: int, threads: int | None) -> Iterator[Array]:
        """Yield pairwise marginals of all edges, `size` at a time."""
        raise NotImplementedError

    def _pairwise(self, wanted: range, threads: int | None) -> Array:
        """Return pairwise marginals of some edges, one or more."""
        raise NotImplementedError

    def pairwise(self, edges: slice | None = None, *, threads: int | None = None) -> Array:
        """Return pairwise marginals.

        Parameters
        ----------
        edges : slice, optional
            Which edges, in their numbering: neighbours in order, as in ``Chain.transition``, or by
            child in a tree; all by default.
        threads : int, optional
            At least 1.

        Returns
        -------
        ndarray of shape (edges, K, K), dtype of the model
            ``[e, l, k]``: probability of label l before edge e, or at the parent, and k after it.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))))
        >>> r.pairwise(edges=slice(1, 2)).tolist()
        [[[0.25, 0.25], [0.25, 0.25]]]
        """
        if edges is not None and not isinstance(edges, slice):
            raise TypeError(f"edges must be a slice, got {type(edges).__name__}")
        wanted = range(self._n_edges())[edges or slice(None)]
        if len(wanted) == 0:
            k = self._model.n_labels
            return np.empty((0, k, k), dtype=self._model.dtype)
        return self._pairwise(wanted, threads)

    def iter_pairwise(
        self, block: int | None = None, *, threads: int | None = None
    ) -> Iterator[Array]:
        """Yield pairwise marginals, `block` edges at a time, to spare memory.

        One pass computes messages, (N, K) twice; edges are then made block by block. A chain of
        order 2 makes all edges of a sequence at once, so that the longest one sets the memory.

        Parameters
        ----------
        block : int, optional
            Number of edges per array, at least 1; by default 1024, or as many as have 2²² entries.
        threads : int, optional
            At least 1.

        Yields
        ------
        ndarray of shape (at most `block`, K, K)
            Consecutive edges.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.zeros((6, 2)), np.zeros((2, 2))))
        >>> [part.shape[0] for part in r.iter_pairwise(2)]
        [2, 2, 1]
        """
        size = edges_at_once(self._model.n_labels)
        if block is not None:
            size = min(as_count("block", block, at_least=1), LARGEST_COUNT)
        for part in self._edge_blocks(size, threads):
            yield part.astype(self._model.dtype, copy=False)


def edges_at_once(k: int) -> int:
    """Return how many edges of k labels a block has, unless another number is asked for."""
    return max(1, min(1024, BLOCK_ENTRIES // k**2))
