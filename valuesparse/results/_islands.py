"""The base of results of chains and of trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_flag
from valuesparse.models import SparseTransition
from valuesparse.results._forest import ForestResult, Model
from valuesparse.results._listed import Listed

__all__ = ["IslandResult"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

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
                "gain from them, or islands that contradict one another, and are exact"
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

    def _edge_blocks(self, size: int, threads: int | None) -> Iterator[Array]:
        return self._engine.iter_edge_marginals(self._conditioned(), threads, size)

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
        if as_flag("sparse", sparse):
            return self._engine.listed_expectations(self._conditioned(), threads)
        return self._engine.expectations(self._conditioned(), threads)

    @staticmethod
    def _sparse_table(model: Any) -> SparseTransition | None:
        """Return the shared table, where it was given as one that lists pairs."""
        raise NotImplementedError

    def entropy(self, *, threads: int | None = None) -> Floats:
        """Return the entropy of each component's posterior in nats, (B,) or (n_trees,).

        Notes
        -----
        log Z less the expected score, in float64 where float32 would be felt. Where too many digits
        of that would cancel: label by label from the leaves to the root, in logarithms, without
        labels whose probability is below 1e-30.

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
        unseen = _UNSEEN[model.dtype]
        value = self._engine.entropies(model, threads, marginals, fill, unseen)
        return np.maximum(value, 0.0)

    def __repr__(self) -> str:
        n, k = self.islands.size, self._model.n_labels
        return (
            f"{type(self).__name__}(method={self.method!r}, converged={self.converged}, "
            f"{self._variables}={n}, labels={k}, islands={self.stats['islands']})"
        )
