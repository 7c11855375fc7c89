"""Marginals of chains of order 2 and of chains of segments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse._validation import LARGEST_COUNT
from valuesparse.models import SecondOrderChain, SegmentChain
from valuesparse.results._base import PROVED, PairsResult, RowsResult, edges_at_once
from valuesparse.results._chain import places, sequences_of, within

__all__ = ["SecondOrderResult", "SegmentResult"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


class Joints(Protocol):
    """The questions that a result asks its engine."""

    def joint(self, model: Any, threads: int | None) -> Array:
        """Return the marginals of pairs of neighbours, or of segments."""

    def expected(self, model: Any, threads: int | None) -> npt.NDArray[np.float64]:
        """Return the expected counts of the transition's entries."""

    def entropy(self, model: Any, threads: int | None) -> npt.NDArray[np.float64]:
        """Return the entropy of each sequence."""


class _LongerResult(RowsResult):
    """The common part of both; the engine that answers is handed over."""

    __slots__ = ()

    _engine: ClassVar[Joints]

    def __init__(
        self, model: Any, marginals: Array, log_z: npt.NDArray[np.float64], widened: int
    ) -> None:
        islands = np.full(model.n_positions, -1, np.int32)
        reason = "two passes"
        if widened:
            reason += f", in logarithms for {widened} of {model.n_sequences} sequences"
        self._fill(
            _model=model, marginals=marginals, log_z=log_z, islands=islands, method="exact",
            reason=reason, converged=True, stats={"sequences_widened": widened},
        )  # fmt: skip
        self._freeze()

    def _freeze(self) -> None:
        for array in (self.marginals, self.log_z, self.islands):
            array.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._freeze()

    def __repr__(self) -> str:
        n, k = self.marginals.shape
        name = type(self).__name__
        return f"{name}(method={self.method!r}, positions={n}, labels={k})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            kind = type(self).__name__
            if name in PROVED:
                raise AttributeError(
                    f"a {kind} has no {name}: tol, work and certify() are for a Chain or a Tree; "
                    "these marginals are exact but for rounding, without a proof"
                )
            if name in ("pairwise", "iter_pairwise"):  # others than SegmentResult have them
                raise AttributeError(
                    f"a {kind} has no {name}: a transition stands between segments, not between "
                    "positions; ask segments() for the probability of each segment, or "
                    "expectations() for how many neighbours of each pair of labels are expected"
                )
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    def _index(self) -> dict[str, Integers]:
        return places(self._model)

    def expectations(self, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the expected counts of the transition's entries, summed over all sequences.

        They are the gradient of the sum of log Z by the transition, in its shape: (K, K, K)
        ``[before, from, to]`` of chains of order 2, (K, K) ``[from, to]`` of segments.
        """
        return self._engine.expected(self._model, threads)

    def entropy(self, *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """Return the entropy of each sequence's distribution in nats, (B,).

        It is that of labellings, or of cuts into labelled segments: log Z less the expected score.
        """
        return self._engine.entropy(self._model, threads)

    @classmethod
    def ask(cls, engine: Joints) -> None:
        """Hand over the engine that answers; it lies above results, which cannot import it."""
        cls._engine = engine


class SecondOrderResult(_LongerResult, PairsResult):
    """Marginals of a :class:`valuesparse.SecondOrderChain`.

    Attributes
    ----------
    marginals : ndarray of shape (N, K), dtype of the model
    log_z : ndarray of float64, shape (B,)
    """

    __slots__ = ()
    _model: SecondOrderChain

    def _n_edges(self) -> int:
        return int(self._model.edge[-1])

    def _pairwise(self, wanted: range, threads: int | None) -> Array:
        first, last = sequences_of(self._model, min(wanted), max(wanted) + 1)
        block = self._joint(first, last, threads)
        if block.shape[0] == len(wanted) and wanted.step == 1:
            return block
        return block[within(wanted, int(self._model.edge[first]))].copy()

    def _edge_blocks(self, size: int, threads: int | None) -> Iterator[Array]:
        model, first = self._model, 0
        edge, k, most = model.edge, model.n_labels, max(size, edges_at_once(model.n_labels))
        rest: Array = np.empty((0, k, k), model.dtype)
        while first < model.n_sequences:
            last = int(np.searchsorted(edge, edge[first] + most, side="right")) - 1
            last = max(last, first + 1)
            rest = np.concatenate([rest, self._joint(first, last, threads)])
            whole = rest.shape[0] // size * size
            for at in range(0, whole, size):
                yield rest[at : at + size]
            rest, first = rest[whole:], last
        if rest.shape[0]:
            yield rest

    def _joint(self, first: int, last: int, threads: int | None) -> Array:
        """Return the pairs of neighbours in sequences [first, last)."""
        model = self._model
        if first > 0 or last < model.n_sequences:
            rows = slice(int(model.offset[first]), int(model.offset[last]))
            model = SecondOrderChain(
                model.unary[rows], model.transition, model.lengths[first:last],
                start=model.start, end=model.end, first=model.first,
                allowed=None if model.allowed is None else model.allowed[rows],
            )  # fmt: skip
        return self._engine.joint(model, threads)


class SegmentResult(_LongerResult):
    """Marginals of a :class:`valuesparse.SegmentChain`.

    Attributes
    ----------
    marginals : ndarray of shape (N, K), dtype of the model
        The probability that a position lies in a segment of each label.
    log_z : ndarray of float64, shape (B,)
    """

    __slots__ = ()
    _model: SegmentChain

    def segments(self, *, threads: int | None = None) -> Array:
        """Return the probability of each segment, (N, L, K) ``[first, length - 1, label]``.

        L is the model's `max_length`, also where no sequence is so long. MemoryError where there is
        no room for so many.
        """
        model = self._model
        shape = (model.n_positions, model.max_length, model.n_labels)
        if math.prod(shape) <= LARGEST_COUNT // 8:
            with suppress(MemoryError):
                return self._engine.joint(model, threads)
        longest = int(model.lengths.max(initial=1))
        advice = f"; max_length={longest} is the same model" if longest < shape[1] else ""
        raise MemoryError(f"segments() has shape {shape}: there is no room for it{advice}")
