"""The questions that results of chains and trees ask the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Certificate, Proof

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Queries"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Queries(Protocol):
    """The functions of the engine of chains and trees that a result calls."""

    def entropies(
        self, model: Chain | Tree, threads: int | None, marginals: Array, fill: bool, unseen: float
    ) -> Floats:
        """Return entropies (B,), moved by `unseen` at most; `fill`: marginals are computed."""

    def pairwise(
        self, model: Chain | Tree, threads: int | None, edges: tuple[int, int] | Integers
    ) -> Array:
        """Return the edge marginals of chains, edges (first, last), or of those above nodes."""

    def expectations(self, model: Chain | Tree, threads: int | None) -> Floats:
        """Return the sum of edge marginals, by type where edges have one."""

    def listed_expectations(self, model: Chain | Tree, threads: int | None) -> csr_array:
        """Return the same of the pairs that are listed."""

    def iter_edge_marginals(
        self, model: Chain | Tree, threads: int | None, block: int, edges: Integers | None = None
    ) -> Iterator[Array]:
        """Yield pairwise marginals, `block` at a time, of all edges or of some in their order."""

    def certified(
        self, model: Chain | Tree, marginals: Array, islands: npt.NDArray[np.int32], workers: int
    ) -> Certificate:
        """Return how far marginals may be off, and islands be wrong."""

    def proof_for(
        self, model: Chain | Tree, log_z: Floats, single: npt.NDArray[np.bool_] | bool
    ) -> Proof:
        """Return what passes prove, in float32 where `single` says so."""

    def ends(self, model: Chain | Tree) -> tuple[Integers, Integers]:
        """Return the variables before and after each edge."""

    def owner(self, model: Chain | Tree) -> Integers:
        """Return the component of each variable."""
