"""Marginals of chains and trees as they are held: all of them, or a list; and what is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._buffers import empty
from valuesparse.models import Chain, Tree
from valuesparse.results._base import PairsResult, Result
from valuesparse.results._certificate import (
    Certificate,
    Proof,
    interval,
    lower_bounds,
    upper_bounds,
)
from valuesparse.results._listed import Listed
from valuesparse.results._queries import Queries
from valuesparse.threads import resolve

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ForestResult", "Model"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Model = TypeVar("Model", Chain, Tree)

#: Entries of tables whose bounds are made at once, in cache.
_BLOCK = 1 << 15


class ForestResult(PairsResult, Generic[Model]):
    """The common part of results of chains and trees; its arrays are read-only."""

    __slots__ = ("_certificate", "_dense", "_held", "_least", "_listed", "_proof")
    _derived = ("_certificate", "_held")

    log_z: npt.NDArray[np.float64]
    islands: npt.NDArray[np.int32]
    _model: Model
    _held: Model | None
    #: All marginals; where only those >= `_least` were written, None until they are asked for.
    _dense: Array | None
    _least: float | None
    _listed: Listed | None
    #: The proof, where that was asked for, and what is made from it. Where passes prove it
    #: all, which of them were in float32 (or whether all or none were), until somebody asks.
    _proof: Proof | npt.NDArray[np.bool_] | bool | None
    _certificate: Certificate | None
    #: The engine that answers the questions whose answers a result does not hold.
    _engine: ClassVar[Queries]

    @classmethod
    def ask(cls, engine: Queries) -> None:
        """Hand over the engine that answers; it lies above results, which cannot import it."""
        cls._engine = engine

    def _freeze(self) -> None:
        first = self._dense if self._listed is None else self._listed.unlisted
        assert first is not None
        _forest.freeze(first, self.log_z, self.islands)

    def __getstate__(self) -> dict[str, Any]:
        names = [name for name in Result.__slots__ if name != "marginals"]
        state = {name: getattr(self, name) for name in names}
        # Arrays that are made from the list are not kept.
        dense = self._dense if self._listed is None else None
        mine = {"_least": self._least, "_listed": self._listed, "_proof": self._proof}
        return {**state, **mine, "_dense": dense}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._freeze()

    @property
    def marginals(self) -> Array:
        """Probability of each label of each variable, (N, K); see the class."""
        if self._dense is None:
            assert self._listed is not None
            dense = self._listed.dense(self._model.n_labels)
            dense.flags.writeable = False
            self._fill(_dense=dense)
        assert self._dense is not None
        return self._dense

    def _proved(self) -> Certificate:
        if self._proof is None:
            raise AttributeError(
                "nothing was proved about this result: ask for infer(tol=) or infer(work=), or "
                "for certify()"
            )
        if self._certificate is None:
            proof = self._proof
            if not isinstance(proof, Proof):
                proof = self._engine.proof_for(self._model, self.log_z, proof)
            proof = proof.each(lambda: self._engine.owner(self._model))
            centre = np.empty((0, 0)) if self._dense is None else self._dense
            wrong = np.zeros(self.islands.size)
            self._fill(_certificate=Certificate(centre, proof, proof.error, wrong))
        assert self._certificate is not None
        return self._certificate

    @property
    def error(self) -> Floats:
        """The largest error proved of each variable's marginals, (N,); with `tol` or `work`.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))), tol=1e-3)
        >>> bool((r.error <= 1e-3).all())
        True
        """
        return self._proved().error

    @property
    def radius(self) -> Floats:
        """The log-odds of each value are known to plus or minus this, (N,)."""
        return self._proved().radius

    @property
    def slack(self) -> Floats:
        """The probability mass that the proof cannot place, (N,)."""
        return self._proved().slack

    @property
    def lower(self) -> Floats:
        """At most the exact marginals, (N, K); made when asked for."""
        if self._listed is None:
            proved = self._proved()
            return lower_bounds(self.marginals, proved.radius, proved.slack)
        return self._bounds()[0]

    @property
    def upper(self) -> Floats:
        """At least the exact marginals, (N, K); made when asked for.

        Labels that are not listed, with `keep`, have `unlisted`, and 0 in `lower`.
        """
        if self._listed is None:
            proved = self._proved()
            return upper_bounds(self.marginals, proved.radius, proved.slack)
        return self._bounds()[1]

    def _bounds(self, some: Integers | slice = slice(None)) -> tuple[Floats, Floats]:
        """Return the bounds on the marginals of some variables."""
        proved = self._proved()
        if self._listed is None:
            return interval(self.marginals[some], proved.radius[some], proved.slack[some])
        found = self._listed if isinstance(some, slice) else self._listed.chosen(some)
        marginals = found.dense(self._model.n_labels)
        hidden = np.ones(marginals.shape, dtype=bool)
        hidden[found.rows(), found.labels] = False
        # Labels that are not listed are missing in the sum, too: the others are between these.
        widest = np.minimum(proved.error[some], 1.0)[:, None]
        lower = np.where(hidden, 0.0, np.maximum(marginals - widest, 0.0))
        upper = np.where(hidden, found.unlisted[:, None], np.minimum(marginals + widest, 1.0))
        lower.flags.writeable = upper.flags.writeable = False
        return lower, upper

    @property
    def log_z_lower(self) -> Floats:
        """At most log Z of each sequence or tree, (B,)."""
        return self._proved().log_z_lower

    @property
    def log_z_upper(self) -> Floats:
        """At least log Z of each sequence or tree, (B,)."""
        return self._proved().log_z_upper

    def pairwise_bounds(self, edges: slice | None = None) -> tuple[Floats, Floats]:
        """Return bounds on pairwise marginals, from those of the two variables; no pass is made.

        Parameters
        ----------
        edges : slice, optional
            Which edges, as for `pairwise`.

        Returns
        -------
        lower, upper : ndarray of float64, shape (edges, K, K)
            ``lower <= exact <= upper``, however far apart.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> r = vs.infer(vs.Chain(np.log([[0.9, 0.1], [0.8, 0.2]]), np.zeros((2, 2))), tol=0.01)
        >>> low, high = r.pairwise_bounds()
        >>> low[0].round(3).tolist(), high[0].round(3).tolist()
        ([[0.7, 0.1], [0.0, 0.0]], [[0.8, 0.2], [0.1, 0.1]])
        """
        if edges is not None and not isinstance(edges, slice):
            raise TypeError(f"edges must be a slice, got {type(edges).__name__}")
        sides = [x[edges or slice(None)] for x in self._engine.ends(self._model)]
        some, at = np.unique(np.concatenate(sides), return_inverse=True)
        lower, upper = self._bounds(some)
        before, after = at[: sides[0].size], at[sides[0].size :]
        shape = (before.size, lower.shape[1], lower.shape[1])
        low, high = empty(shape, np.float64), empty(shape, np.float64)
        # No two events are farther apart, or closer, than their probabilities let them (Frechet).
        size = max(1, _BLOCK // max(1, lower.shape[1] ** 2))
        for first in range(0, before.size, size):
            edge = slice(first, first + size)
            one, other = before[edge], after[edge]
            part = np.add(lower[one, :, None], lower[other, None, :], out=low[edge])
            part -= 1.0
            part -= 2.0**-51
            np.maximum(part, 0.0, out=part)
            np.minimum(upper[one, :, None], upper[other, None, :], out=high[edge])
        return low, high

    def certify(self, *, threads: int | None = None) -> Certificate:
        """Return how wrong this result can be: with islands, too.

        Parameters
        ----------
        threads : int, optional
            At least 1.

        Returns
        -------
        Certificate
            Bounds on the exact marginals and log Z, and for each island on the probability that its
            value is wrong.

        Notes
        -----
        A result of `tol` or `work` has its proof already, and that of exact inference is known.
        Others cost a pass whose rounding is bounded: in float32 where that adds no more than 0.001
        to `error`, else in float64. Marginals of chains are not kept: `lower` and `upper` cost
        another pass.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> chain = vs.Chain(np.log([[0.9, 0.1], [0.5, 0.5]]), np.log([[0.8, 0.2], [0.2, 0.8]]))
        >>> vs.infer(chain, zeta=0.85).certify().wrong.round(3).tolist()
        [0.1, 0.0]
        """
        workers = resolve(threads)
        if self._proof is not None and self._listed is None:
            return self._proved()
        if self.method == "exact" and self._listed is None:
            single = bool(self._model.dtype == np.float32)
            proof = self._engine.proof_for(self._model, self.log_z, single)
            proof = proof.each(lambda: self._engine.owner(self._model))
            return Certificate(self.marginals, proof, proof.error, np.zeros(proof.error.size))
        return self._engine.certified(self._model, self.marginals, self.islands, workers)

    def with_proof(
        self, proof: Proof | npt.NDArray[np.bool_] | bool, method: str, reason: str
    ) -> Self:
        """Return this result, which nobody has seen yet, when it knows what was proved.

        `proof`: or which components went in float32 (or whether all or none did), where two passes
        prove all.
        """
        found = self._listed
        if found is not None:
            if not isinstance(proof, Proof):
                proof = self._engine.proof_for(self._model, self.log_z, proof)
            error = proof.each(lambda: self._engine.owner(self._model)).error
            most = np.minimum(found.unlisted + error, 1.0)
            most.flags.writeable = False
            values = found.values.astype(self._model.dtype, copy=False)
            self._fill(_listed=found._replace(unlisted=most, values=values))
        self._fill(_proof=proof, method=method, reason=reason)
        return self

    def _kept(self) -> Listed | None:
        return self._listed

    def _listing(self, least: float | None, workers: int) -> Listed:
        if self._listed is None:
            return super()._listing(least, workers)
        assert self._least is not None
        if least is None or least == self._least:
            return self._listed
        if least < self._least:
            raise ValueError(
                f"min={least:g} is below keep={self._least:g}, with which the marginals were "
                f"computed; compute them with keep={least:g}"
            )
        return self._listed.at_least(least)
