"""Marginals of chains of order 2 and of chains of segments."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse.models import SecondOrderChain, SegmentChain
from valuesparse.results._base import Result

__all__ = ["SecondOrderResult", "SegmentResult"]

Array = npt.NDArray[Any]


class Joints(Protocol):
    """The questions that a result asks its engine."""

    def joint(self, model: Any, threads: int | None) -> Array:
        """Return the marginals of pairs of neighbours, or of segments."""

    def expected(self, model: Any, threads: int | None) -> npt.NDArray[np.float64]:
        """Return the expected counts of the transition's entries."""

    def entropy(self, model: Any, threads: int | None) -> npt.NDArray[np.float64]:
        """Return the entropy of each sequence."""


class _LongerResult(Result):
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


class SecondOrderResult(_LongerResult):
    """Marginals of a :class:`valuesparse.SecondOrderChain`.

    Attributes
    ----------
    marginals : ndarray of shape (N, K), dtype of the model
    log_z : ndarray of float64, shape (B,)
    """

    __slots__ = ()
    _model: SecondOrderChain

    def pairwise(self, *, threads: int | None = None) -> Array:
        """Return the probability of each pair of neighbouring labels, (edges, K, K) [from, to]."""
        return self._engine.joint(self._model, threads)


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
        """Return the probability of each segment, (N, L, K) ``[first, length - 1, label]``."""
        return self._engine.joint(self._model, threads)
