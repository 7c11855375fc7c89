"""A batch of linear chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._validation import InitSignature, as_potentials, as_reals, weighed
from valuesparse.models._sequences import (
    Immutable,
    begins,
    frozen,
    held,
    join,
    laid_out,
    mask,
    vector,
)
from valuesparse.models.longer_chains import SecondOrderChain
from valuesparse.models.sparse_transition import (
    SparseTransition,
    given_table,
    native_table,
    read_steps,
    spelled,
    weighed_list,
)

__all__ = ["Chain", "rescored"]

Array = npt.NDArray[Any]


class Chain(Immutable):
    r"""A batch of linear-chain models, laid end to end.

    .. math::

        p(y) \propto \exp\Big(\sum_i u_i(y_i) + \sum_i t_i(y_{i-1}, y_i)
               + s(y_1) + e(y_n)\Big)

    for every sequence (SMM11, Eq. 1, in logarithms).

    Parameters
    ----------
    unary : array_like of shape (N, K), or sequence of arrays of shape (n_i, K)
        Log-potential of every label at every position; −inf forbids.
    transition : array_like of shape (K, K) or (edges, K, K), or SparseTransition
        Log-potential ``[from, to]``, shared by all edges or one matrix per edge; edges are
        numbered in order, ``edges = N - number of non-empty sequences``. Where most entries of a
        shared matrix are one value, messages read the others alone. A sparse array of scipy forbids
        the pairs that it does not store.
    lengths : array_like of int, shape (B,), optional
        Length of each sequence; zero is fine. By default all positions form one sequence.
        Not to be given when `unary` is a sequence of arrays.
    start, end : array_like of shape (K,), optional
        Added to the first and the last position of every sequence.
    allowed : array_like of bool, shape (N, K), optional
        Labels that each position may take (partial annotation, constrained decoding).
    order : {1, 2}, default 1
        With 2 a label depends on the two before it: `transition` has shape (K, K, K)
        ``[before, from, to]``, `first` (K, K) may have log-potentials of the first two labels, and
        this is a :class:`SecondOrderChain`, no Chain. Type checkers take it for one all the same:
        typed code calls :class:`SecondOrderChain` itself.

    Attributes
    ----------
    unary, transition, lengths, start, end, allowed : ndarray or None
        Read-only views of what was given (copies where a conversion was needed); the `transition`
        of a SparseTransition is made when asked for.
    sparse_transition : SparseTransition or None
        The transition, where it was given so.
    n_positions, n_labels, n_sequences : int
        N, K and B.
    dtype : numpy.dtype
        float32 when all arrays are float32, else float64.

    Raises
    ------
    ValueError
        For NaN, +inf, finite numbers beyond ±1e290 (float64) or ±1e28 (float32), wrong shapes,
        K = 0 or lengths that do not sum to N; the message names the argument and the index.
    TypeError
        For complex, text or object arrays.

    Notes
    -----
    Models are immutable and may be shared between threads. Arrays that already are contiguous
    and of the right dtype are not copied, so they must not be written to afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((5, 2)), np.zeros((2, 2)), lengths=[3, 2])
    >>> chain
    Chain(n_positions=5, n_labels=2, n_sequences=2, dtype=float64)
    >>> vs.infer(chain).log_z  # n log K
    array([2.07944154, 1.38629436])
    """

    __slots__ = (
        "allowed",
        "dtype",
        "edge",
        "end",
        "forest",
        "largest",
        "lengths",
        "n_labels",
        "n_positions",
        "n_sequences",
        "offset",
        "sparse_transition",
        "start",
        "table",
        "unary",
    )

    unary: Array
    sparse_transition: SparseTransition | None
    lengths: npt.NDArray[np.int64]
    start: Array | None
    end: Array | None
    allowed: npt.NDArray[np.bool_] | None
    dtype: np.dtype[Any]
    n_positions: int
    n_labels: int
    n_sequences: int
    # Engines read these: the first position and edge (B + 1,) of each sequence, and all arrays.
    offset: npt.NDArray[np.int64]
    edge: npt.NDArray[np.int64]
    # The transition; None where the list of its pairs suffices to them.
    table: Array | None
    # The largest finite magnitudes of a position's scores (a sum's bound) and of a transition.
    largest: tuple[float, float]
    # Kept here, not beside the engines: a look by model takes 0.15 µs, 3 % of a small call.
    forest: _forest.Forest

    __signature__: Any = InitSignature()

    def __new__(cls, *args: Any, order: int = 1, **kwargs: Any) -> Any:
        """Make a chain, or one of order 2, which is a class of its own."""
        integer = type(order) is int or isinstance(order, np.integer)  # True and 2.0 are none
        if not integer or order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {order!r}")
        if order == 1 and "first" in kwargs:
            raise TypeError("first= goes with order=2; start= has the scores of first labels")
        return object.__new__(cls) if order == 1 else SecondOrderChain(*args, **kwargs)

    def __init__(
        self,
        unary: npt.ArrayLike | Sequence[npt.ArrayLike],
        transition: npt.ArrayLike | SparseTransition,
        lengths: npt.ArrayLike | None = None,
        *,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
        allowed: npt.ArrayLike | None = None,
        order: int = 1,
    ) -> None:
        rows, given, parts = join(unary, lengths)
        steps = given_table("transition", transition)
        listed = steps if isinstance(steps, SparseTransition) else None
        dtype = np.promote_types(rows.dtype, steps.dtype)
        for name, value in (("start", start), ("end", end)):
            if value is not None:
                dtype = np.promote_types(dtype, as_reals(name, value).dtype)
        try:
            u, most_u = weighed("unary", rows, dtype)
        except ValueError:
            for i, part in enumerate(parts):  # in the numbering of the caller
                as_potentials(f"unary[{i}]", part, dtype)
            raise
        n, k = u.shape
        size, offset, edge = laid_out(given, n)

        t, native, edges = None, None, int(edge[-1])
        if isinstance(steps, SparseTransition):
            most_t = weighed_list("transition", steps, k, dtype)
            native = native_table(steps, u)
            t = spelled(steps, dtype) if native is None else None
        else:
            t, most_t = weighed("transition", steps, dtype)
        if t is not None and t.shape not in ((k, k), (edges, k, k)):
            raise ValueError(
                f"transition must have shape {(k, k)} (shared) or {(edges, k, k)} (one per edge) "
                f"for {k} labels and {edges} edges, got {t.shape}"
            )
        u, t = u.view(), None if t is None else t.view()
        _forest.freeze(u, u if t is None else t, u)
        first, most_first = vector("start", start, k, dtype)
        last, most_last = vector("end", end, k, dtype)
        self._fill(
            True if listed is None else native,
            unary=u,
            table=t,
            sparse_transition=listed,
            largest=(most_u + most_first + most_last, most_t),
            lengths=size,
            start=first,
            end=last,
            allowed=mask(allowed, u.shape),
            offset=offset,
            edge=edge,
            dtype=dtype,
            n_positions=n,
            n_labels=k,
            n_sequences=size.shape[0],
        )

    @classmethod
    def _trusted(
        cls,
        unary: Array,
        transition: Array,
        lengths: Array,
        allowed: Array | None,
        start: Array | None = None,
        end: Array | None = None,
    ) -> Chain:
        """Return the chain of arrays that have been checked, with one sequence or more."""
        self = object.__new__(cls)
        offset, edge = begins(lengths)
        self._fill(
            unary=frozen(np.ascontiguousarray(unary)),
            table=frozen(np.ascontiguousarray(transition)),
            sparse_transition=None,
            largest=(np.inf, np.inf),  # not weighed
            lengths=frozen(lengths),
            start=None if start is None else frozen(np.ascontiguousarray(start)),
            end=None if end is None else frozen(np.ascontiguousarray(end)),
            allowed=None if allowed is None else frozen(np.ascontiguousarray(allowed)),
            offset=frozen(offset),
            edge=frozen(edge),
            dtype=unary.dtype,
            n_positions=unary.shape[0],
            n_labels=unary.shape[1],
            n_sequences=lengths.shape[0],
        )
        return self

    def _fill(self, sparse: Any = True, **fields: Any) -> None:
        assign = object.__setattr__
        for name, value in fields.items():
            assign(self, name, value)
        mask = None if self.allowed is None else self.allowed.view(np.uint8)
        forest = _forest.Forest(
            self.unary, self.table, mask, self.start, self.end, self.offset, self.edge,
            sparse=sparse,
        )  # fmt: skip
        object.__setattr__(self, "forest", forest)

    @property
    def transition(self) -> Array:
        """Log-potentials of transitions, with an entry for each pair."""
        if self.table is not None:
            return self.table
        assert self.sparse_transition is not None
        return spelled(self.sparse_transition, self.dtype)

    def conditioned(self, states: npt.ArrayLike) -> Chain:
        """Return the model in which some positions are held at one label.

        Parameters
        ----------
        states : array_like of int, shape (N,)
            Label of each held position, −1 where the position stays free.

        Returns
        -------
        Chain
            The same arrays with a narrower `allowed`.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> chain = vs.Chain(np.zeros((2, 2)), np.log([[3.0, 1.0], [1.0, 3.0]]))
        >>> vs.infer(chain.conditioned([0, -1])).marginals
        array([[1.  , 0.  ],
               [0.75, 0.25]])
        """
        shape = (self.n_positions, self.n_labels)
        kept = held(states, shape, self.allowed, place="position", noun="labels")
        return self._replaced(self.forest.sparse, allowed=kept)

    def _replaced(self, sparse: Any, **changes: Any) -> Chain:
        other = object.__new__(Chain)
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "forest"}
        other._fill(sparse, **{**fields, **changes})
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        table = self.sparse_transition
        steps = self.transition if table is None else table
        return _rebuild, (self.unary, steps, self.lengths, self.start, self.end, self.allowed)

    def __repr__(self) -> str:
        return (
            f"Chain(n_positions={self.n_positions}, n_labels={self.n_labels}, "
            f"n_sequences={self.n_sequences}, dtype={self.dtype})"
        )


def rescored(
    chain: Chain,
    unary: Array,
    steps: Array | SparseTransition,
    start: Array | None,
    end: Array | None,
) -> Chain:
    """Return a chain of other scores, in float64 and known to be fit, with the same masks."""
    native, table, listed = read_steps(steps, unary)
    return chain._replaced(
        native, unary=unary, table=table, sparse_transition=listed, start=start, end=end,
        dtype=unary.dtype, largest=(np.inf, np.inf),
    )  # fmt: skip


def _rebuild(
    unary: Array, transition: Any, lengths: Array, start: Any, end: Any, allowed: Any
) -> Chain:
    return Chain(unary, transition, lengths, start=start, end=end, allowed=allowed)
