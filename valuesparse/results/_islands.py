"""The base of results of chains and of trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt

from valuesparse.models import SparseTransition
from valuesparse.results._forest import ForestResult, Model
from valuesparse.results._listed import Listed

__all__ = ["IslandResult", "plogp"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_CACHED_ENTRIES = 2**18  # of those that are read once
#: Rounding error that an entropy may have, by dtype of the model; relative where it is above one.
_UNSEEN = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 1e-5}


class IslandResult(ForestResult[Model], Generic[Model]):
    """Marginals of a chain or a tree, exact or with islands of SMM11, and questions about edges."""

    __slots__ = ()
    #: Why the method is exact, and how the variables are called.
    _solved: ClassVar[str]
    _variables: ClassVar[str]
    _components: ClassVar[str]

    def __init__(
        self,
        model: Model,
        marginals: Array | None,
        log_z: npt.NDArray[np.float64],
        islands: npt.NDArray[np.int32],
        zeta: float,
        counts: tuple[int, ...],
        keep: float | None = None,
        listed: Listed | None = None,
    ) -> None:
        n_islands, segments, full, sparse, released, flipped, rounds, unsettled = counts[:8]
        widened, without = counts[8:]
        stats = {
            "islands": n_islands,
            "segments": segments,
            "messages_full": full,
            "messages_sparse": sparse,
            "released": released,
            "flipped": flipped,
            "rounds": rounds,
            "sequences_widened": widened,
            "sequences_without_islands": without,
            "sequences_sparse": 0,
            "transition_entries": int(model.forest.entries),
        }
        exact = zeta >= 1.0 or 0 < without == log_z.size
        reason = self._solved if zeta >= 1.0 else f"zeta={zeta:g} was asked for"
        entries = model.forest.listed
        if exact and entries is not None:
            stats.update(sequences_sparse=log_z.size, transition_entries=entries)
            reason += f"; default plus sparse: {entries} of {model.n_labels**2} pairs are listed"
            reason += ", so that islands would gain nothing, and all is exact" * (without > 0)
        table = self._sparse_table(model)
        if table is not None and not stats["sequences_sparse"]:
            reason += "; all pairs are read, listed or not"
        if table is not None and table.default == -np.inf:
            reason += "; pairs that are not stored are forbidden"
        if without and not stats["sequences_sparse"]:
            reason += (
                f"; {without} of {log_z.size} {self._components} have too few likely islands to "
                "gain from them, and are exact"
            )
        self._fill(
            _model=model,
            _held=None,
            _dense=marginals,
            _least=keep,
            _listed=listed,
            _proof=None,
            _certificate=None,
            log_z=log_z,
            islands=islands,
            method="exact" if exact else "islands",
            reason=reason,
            converged=unsettled == 0,
            stats=stats,
        )
        self._freeze()  # what is computed when asked reads them

    def _conditioned(self) -> Model:
        if self.method == "exact" or not np.any(self.islands >= 0):
            return self._model
        held = self._held
        if held is None:
            held = self._model.conditioned(self.islands)
            self._fill(_held=held)
        return held

    def _edge_blocks(
        self, size: int, threads: int | None, edges: Integers | None = None
    ) -> Iterator[Array]:
        return self._engine.iter_edge_marginals(self._conditioned(), threads, size, edges)

    def expectations(self, *, sparse: bool = False, threads: int | None = None) -> Any:
        """Return the edge marginals summed over all edges, for training.

        Parameters
        ----------
        sparse : bool, default False
            Only those of the pairs that are listed, where a shared table has a default
            (`SparseTransition`, or an array that is found to have one); else of all pairs.
        threads : int, optional
            At least 1.

        Returns
        -------
        ndarray of float64, shape (K, K) or (types, K, K), or scipy.sparse.csr_array
            One sum for each type where the model is a tree with an `edge_type`; a sparse array of
            shape (K, K) with `sparse`.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Tree([-1, 0, 0], np.zeros((3, 2)), np.zeros((2, 2))))
        >>> r.expectations().tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        if sparse:
            return self._engine.listed_expectations(self._conditioned(), threads)
        return self._engine.expectations(self._conditioned(), threads)

    @staticmethod
    def _sparse_table(model: Any) -> SparseTransition | None:
        """Return the shared table, where it was given as one that lists pairs."""
        raise NotImplementedError

    def _incidence(self) -> tuple[Integers, Integers, Integers]:
        """Return how many edges each variable has, its component, and that of each edge."""
        raise NotImplementedError

    def entropy(self, *, threads: int | None = None) -> Floats:
        """Return the entropy of each component's posterior in nats, (B,) or (n_trees,).

        Notes
        -----
        log Z less the expected score; where too many digits of that would cancel, edge entropies
        less those of the variables that edges share.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))))
        >>> bool(np.isclose(r.entropy()[0], 3 * np.log(2)))
        True
        """
        model = self._conditioned()
        # Marginals with a tolerance, or zeros where none is listed, are not those it is made from;
        # a chain without islands has the bits that it has beside others.
        listed = self._listed is not None
        found = self.method in ("certified", "islands")
        fill = model is not self._model or listed or found
        shape = self.islands.size, model.n_labels
        marginals = np.empty(shape, model.dtype) if fill else self.marginals
        log_z, score, size = self._engine.expected_scores(model, threads, marginals, fill)
        with np.errstate(over="ignore", invalid="ignore"):
            value = log_z - score
            error = (np.abs(log_z) + size) * np.finfo(model.dtype).eps
            # NaN where an edge took logarithms: nothing would be right.
            lost = ~(error <= _UNSEEN[model.dtype] * np.maximum(value, 1.0))
        if lost.any():
            value[lost] = self._chain_rule(marginals, lost, threads)
        return np.maximum(value, 0.0)

    def _chain_rule(
        self,
        marginals: Array,
        wanted: npt.NDArray[np.bool_],
        threads: int | None,
    ) -> npt.NDArray[np.float64]:
        """Return edge entropies less those of the variables that edges share, of some components.

        Large scores do not cancel.
        """
        edges_at, component, owner = self._incidence()
        weights = plogp(marginals.astype(np.float64)).sum(axis=1) * (edges_at - 1)
        # A variable without edges has the weight -1: its own entropy counts.
        total = np.zeros(wanted.size)
        total += np.bincount(component, weights=weights, minlength=wanted.size)
        edges = np.flatnonzero(wanted[owner])
        block = max(1, _CACHED_ENTRIES // self._model.n_labels**2)
        parts = self._edge_blocks(block, threads, edges)
        entropies: list[Floats] = [plogp(x.astype(np.float64)).sum(axis=(1, 2)) for x in parts]
        # Added up once, so that a component's bits do not tell which edges shared a block with its.
        each = np.concatenate([np.zeros(0), *entropies])
        total -= np.bincount(owner[edges], weights=each, minlength=wanted.size)
        return total[wanted]

    def __repr__(self) -> str:
        n, k = self.islands.size, self._model.n_labels
        return (
            f"{type(self).__name__}(method={self.method!r}, converged={self.converged}, "
            f"{self._variables}={n}, labels={k}, islands={self.stats['islands']})"
        )


def plogp(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return p log p, 0 where p is 0."""
    return p * np.log(p, out=np.zeros_like(p), where=p > 0.0)
