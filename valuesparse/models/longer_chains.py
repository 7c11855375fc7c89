"""Chains whose labels depend on two labels before them, and chains of segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import (
    LARGEST_COUNT,
    as_array,
    as_count,
    as_reals,
    as_states,
    weighed,
)
from valuesparse.models._sequences import Immutable, frozen, join, laid_out, mask, vector
from valuesparse.models.sparse_transition import SparseTransition, dense_table, given_table

__all__ = ["SecondOrderChain", "SegmentChain"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


class _Sequences(Immutable):
    """Arrays of B sequences laid end to end, which cannot be changed."""

    __slots__ = (
        "allowed",
        "dtype",
        "edge",
        "end",
        "lengths",
        "n_labels",
        "n_positions",
        "n_sequences",
        "offset",
        "start",
        "transition",
        "unary",
    )

    unary: Array
    transition: Array
    lengths: Integers
    start: Array | None
    end: Array | None
    allowed: npt.NDArray[np.bool_] | None
    dtype: np.dtype[Any]
    n_positions: int
    n_labels: int
    n_sequences: int
    # Engines read these: the first position and edge (B + 1,) of each sequence.
    offset: Integers
    edge: Integers

    def _read(
        self,
        unary: Any,
        transition: Any,
        lengths: Any,
        start: Any,
        end: Any,
        allowed: Any,
        order: int,
        more: dict[str, Any],
    ) -> dict[str, Array | None]:
        """Read all arguments; return those of `more`, converted, whose shapes are to be checked."""
        rows, given, _ = join(unary, lengths)
        steps = given_table("transition", transition)
        if order > 1 and isinstance(steps, SparseTransition):
            k = rows.shape[1]
            raise TypeError(
                f"transition must be an array of shape {(k, k, k)} for order 2, got a "
                f"{type(transition).__name__}, which has no score of three labels; give "
                f"np.broadcast_to(table.todense(), {(k, k, k)}) of a SparseTransition"
            )
        real = {"transition": dense_table("transition", steps)}
        real |= {name: as_reals(name, x) for name, x in more.items() if x is not None}
        dtype = np.result_type(rows.dtype, *(x.dtype for x in real.values()))
        for name, value in (("start", start), ("end", end)):
            if value is not None:
                dtype = np.promote_types(dtype, as_reals(name, value).dtype)
        u, _ = weighed("unary", rows, dtype)
        n, k = u.shape
        size, offset, edge = laid_out(given, n)
        read = {name: weighed(name, x, dtype)[0] for name, x in real.items()}
        shape = (k,) * (order + 1)
        if read["transition"].shape != shape:
            raise ValueError(
                f"transition must have shape {shape} for {k} labels, got {read['transition'].shape}"
            )
        fields = {
            "unary": frozen(u), "transition": frozen(read.pop("transition")),
            "lengths": frozen(size), "start": vector("start", start, k, dtype)[0],
            "end": vector("end", end, k, dtype)[0], "allowed": mask(allowed, u.shape),
            "offset": frozen(offset), "edge": frozen(edge), "dtype": dtype, "n_positions": n,
            "n_labels": k, "n_sequences": size.shape[0],
        }  # fmt: skip
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        return {name: frozen(read[name]) if name in read else None for name in more}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_positions={self.n_positions}, n_labels={self.n_labels}, "
            f"n_sequences={self.n_sequences}, dtype={self.dtype})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._arguments())

    def _arguments(self) -> dict[str, Any]:
        names = ("unary", "transition", "lengths", "start", "end", "allowed")
        return {name: getattr(self, name) for name in names}

    def scores(self) -> Array:
        """Return the scores of labels (N, K) as float64, −inf where they are not allowed."""
        if self.allowed is None:
            return np.ascontiguousarray(self.unary, np.float64)
        return np.where(self.allowed, self.unary.astype(np.float64, copy=False), -np.inf)

    def _sums(self, at: Integers, terms: Array) -> Array:
        """Return the sum of terms of positions `at`, per sequence."""
        owner = np.searchsorted(self.offset, at, side="right") - 1
        # Multiples of one power of two add without rounding; what is left of terms is tiny.
        finite = np.where(np.isfinite(terms), terms, 0.0)
        exponents = np.frexp([np.abs(finite).max(initial=0.0), at.size])[1]
        unit = np.ldexp(1.0, min(int(exponents.sum()), 1020))
        whole = (finite + 1.5 * unit) - 1.5 * unit
        rest = np.bincount(owner, terms - whole, self.n_sequences)
        return np.bincount(owner, whole, self.n_sequences) + rest

    def _ends(self, states: Integers, first: Integers, last: Integers) -> Array:
        """Return the scores of the labels of each sequence's first and last position."""
        total = np.zeros(self.n_sequences)
        some = self.lengths > 0
        for table, labels in ((self.start, states[first]), (self.end, last)):
            if table is not None:
                total[some] += table[labels]
        return total


def _rebuild(kind: Any, arguments: dict[str, Any]) -> Any:
    return kind(**arguments)


class SecondOrderChain(_Sequences):
    """A batch of chains in which a label depends on the two before it: ``Chain(..., order=2)``.

    The weight of labels y is exp of Σ_i unary[i, y_i] + start[y_1] + first[y_1, y_2] +
    Σ_{i > 2} transition[y_{i-2}, y_{i-1}, y_i] + end[y_n].

    Parameters
    ----------
    unary, lengths, start, end, allowed
        As for :class:`valuesparse.Chain`.
    transition : array_like of shape (K, K, K)
        Log-potential ``[before, from, to]`` of three labels in a row; −inf forbids. A score of two
        labels in a row is added to all ``before``.
    first : array_like of shape (K, K), or SparseTransition, optional
        Log-potential ``[from, to]`` of the first two labels of every sequence; a sparse array of
        scipy forbids the pairs that it does not store.

    Raises
    ------
    ValueError, TypeError
        As for :class:`valuesparse.Chain`.

    Notes
    -----
    Messages go from pairs of labels to pairs, (K, K) to (K, K): K³ multiply-adds each and no table
    of K² × K². `infer`, `decode`, `sample` and `log_prob` take it; what else a chain can be asked
    (islands, tolerances) they refuse. A result has pairs, expected counts and entropy.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> table = np.zeros((2, 2, 2))
    >>> table[0, 0, 0] = table[1, 1, 1] = -np.inf  # no label three times in a row
    >>> chain = vs.Chain(np.zeros((4, 2)), table, order=2)
    >>> np.exp(vs.infer(chain).log_z).round(6)  # of 16
    array([10.])
    """

    __slots__ = ("first",)

    first: Array | None

    def __init__(
        self,
        unary: npt.ArrayLike | Sequence[npt.ArrayLike],
        transition: npt.ArrayLike,
        lengths: npt.ArrayLike | None = None,
        *,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
        allowed: npt.ArrayLike | None = None,
        first: npt.ArrayLike | SparseTransition | None = None,
    ) -> None:
        pairs = None if first is None else dense_table("first", first)
        read = self._read(unary, transition, lengths, start, end, allowed, 2, {"first": pairs})
        table, k = read["first"], self.n_labels
        if table is not None and table.shape != (k, k):
            raise ValueError(f"first must have shape {(k, k)}, got {table.shape}")
        object.__setattr__(self, "first", table)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "first": self.first}

    def score(self, states: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the sum of the log-potentials of labels (N,), per sequence."""
        y = as_states(states, self.n_positions, self.n_labels, noun="labels")
        some = self.lengths > 0
        at = np.arange(self.n_positions)
        place = at - np.repeat(self.offset[:-1], self.lengths)
        begin, end = self.offset[:-1][some], self.offset[1:][some] - 1
        total = self._sums(at, self.scores()[at, y]) + self._ends(y, begin, y[end])
        third = at[place > 1]
        total += self._sums(third, self.transition[y[third - 2], y[third - 1], y[third]])
        if self.first is not None:
            second = at[place == 1]
            total += self._sums(second, self.first[y[second - 1], y[second]])
        return total


class SegmentChain(_Sequences):
    """A batch of sequences that are cut into labelled segments (a semi-Markov chain).

    A cut into segments (first, length, label) has the weight exp of: the scores of the label at all
    positions of each segment, ``duration[length - 1, label]``, ``segment[first, length - 1,
    label]``, ``transition`` between the labels of neighbouring segments, ``start`` of the first and
    ``end`` of the last label.

    Parameters
    ----------
    unary, lengths, start, end, allowed
        As for :class:`valuesparse.Chain`; −inf forbids a label at a position.
    transition : array_like of shape (K, K), or SparseTransition
        Log-potential ``[from, to]`` of neighbouring segments. Two of one label are not one segment:
        −inf on the diagonal forbids them. A SparseTransition becomes an array with an entry for
        each pair: it saves no time here. A sparse array of scipy forbids the pairs that it does
        not store.
    max_length : int
        L, the most positions of a segment; at least 1.
    duration : array_like of shape (L, K), optional
        Log-potential of a segment of length l + 1 with label k.
    segment : array_like of shape (N, L, K), optional
        Log-potential ``[first, length - 1, label]`` of each segment; those that go past the end of
        a sequence are ignored, but are log-potentials, too: 0 or −inf, no NaN.

    Raises
    ------
    ValueError, TypeError
        As for :class:`valuesparse.Chain`.

    Notes
    -----
    A cut is written as torch-struct does: (N,) integers, at the first position of each segment its
    label and −1 at the others. :meth:`segments` and :meth:`labels` read that. Marginals cost
    N (L K + K²) steps.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.SegmentChain(np.zeros((3, 1)), np.zeros((1, 1)), max_length=2)
    >>> np.exp(vs.infer(chain).log_z).round(6)  # 1+1+1, 1+2, 2+1
    array([3.])
    >>> d = vs.decode(vs.SegmentChain([[1, 0], [1, 0], [0, 2]], [[-1, -1], [-1, -1]], max_length=3))
    >>> d.states, d.score
    (array([ 0, -1,  1]), array([3.]))
    """

    __slots__ = ("duration", "max_length", "segment")

    max_length: int
    duration: Array | None
    segment: Array | None

    def __init__(
        self,
        unary: npt.ArrayLike | Sequence[npt.ArrayLike],
        transition: npt.ArrayLike | SparseTransition,
        lengths: npt.ArrayLike | None = None,
        *,
        max_length: int,
        duration: npt.ArrayLike | None = None,
        segment: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        end: npt.ArrayLike | None = None,
        allowed: npt.ArrayLike | None = None,
    ) -> None:
        longest = as_count("max_length", max_length, at_least=1, at_most=LARGEST_COUNT)
        more = {"duration": duration, "segment": segment}
        read = self._read(unary, transition, lengths, start, end, allowed, 1, more)
        n, k = self.n_positions, self.n_labels
        for name, shape in (("duration", (longest, k)), ("segment", (n, longest, k))):
            table = read[name]
            if table is not None and table.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {table.shape}")
            object.__setattr__(self, name, table)
        object.__setattr__(self, "max_length", longest)

    def _arguments(self) -> dict[str, Any]:
        more = {name: getattr(self, name) for name in ("max_length", "duration", "segment")}
        return {**super()._arguments(), **more}

    def segments(self, states: npt.ArrayLike) -> list[list[tuple[int, int, int]]]:
        """Return the segments of a cut (N,), per sequence: (first, end, label), end excluded.

        Raises
        ------
        ValueError
            A sequence begins with −1, or a number is no label.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> chain = vs.SegmentChain(np.zeros((3, 2)), np.zeros((2, 2)), max_length=2)
        >>> chain.segments([0, -1, 1])
        [[(0, 2, 0), (2, 3, 1)]]
        """
        y = self._cut(states)
        found = []
        for begin, end in zip(self.offset[:-1].tolist(), self.offset[1:].tolist(), strict=True):
            first = np.flatnonzero(y[begin:end] >= 0)
            ends = np.append(first[1:], end - begin)
            columns = (first.tolist(), ends.tolist(), y[begin:end][first].tolist())
            found.append(list(zip(*columns, strict=True)) if end > begin else [])
        return found

    def labels(self, states: npt.ArrayLike) -> Integers:
        """Return the label of every position (..., N) of cuts (..., N)."""
        cuts = as_array("states", states)
        if cuts.ndim == 0 or cuts.shape[-1] != self.n_positions:
            raise ValueError(f"states must have shape (..., {self.n_positions}), got {cuts.shape}")
        if cuts.size == 0:
            return np.zeros(cuts.shape, np.int64)
        rows = [self._cut(cut) for cut in cuts.reshape(-1, self.n_positions)]
        at = np.arange(self.n_positions)
        filled = [y[np.maximum.accumulate(np.where(y >= 0, at, 0))] for y in rows]
        return np.array(filled, np.int64).reshape(cuts.shape)

    def _cut(self, states: npt.ArrayLike) -> Integers:
        hint = ", -1 goes on with a segment"
        y = as_states(states, self.n_positions, self.n_labels, noun="labels", least=-1, hint=hint)
        begin = self.offset[:-1][self.lengths > 0]
        wrong = begin[y[begin] < 0]
        if wrong.size:
            raise ValueError(f"states[{wrong[0]}] is -1, but a sequence begins there")
        return y

    def score(self, states: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the sum of the log-potentials of a cut (N,), per sequence."""
        y = self._cut(states)
        at = np.arange(self.n_positions)
        begin = self.offset[:-1][self.lengths > 0]
        end = self.offset[1:][self.lengths > 0] - 1
        filled = self.labels(y)
        total = self._sums(at, self.scores()[at, filled]) + self._ends(y, begin, filled[end])
        first = np.flatnonzero(y >= 0)
        size = np.diff(np.append(first, self.n_positions))
        terms = np.where(size <= self.max_length, 0.0, -np.inf)
        short = np.flatnonzero(size <= self.max_length)
        which = size[short] - 1, y[first[short]]
        if self.duration is not None:
            terms[short] += self.duration[which]
        if self.segment is not None:
            terms[short] += self.segment[(first[short], *which)]
        total += self._sums(first, terms)
        later = first[~np.isin(first, begin)]
        return total + self._sums(later, self.transition[filled[later - 1], y[later]])
