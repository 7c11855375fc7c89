"""Proofs about marginals: two numbers a variable, and the bounds made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._buffers import empty
from valuesparse._junction import fill

__all__ = ["Certificate", "Proof"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Odds beyond exp() of this are not told from certainty.
_LARGEST_RADIUS = 600.0
#: Marginals whose bounds are made at once: two dozen arrays of them stay in cache.
_BLOCK = 1 << 13


class Proof(NamedTuple):
    """The proof of an engine about marginals m that it has computed.

    The exact p is in proportion to ``exp(d) (m + x)``: no d(k) is farther from 0 than half of the
    radius, and the magnitudes of x sum to at most `slack`. A radius of infinity says nothing.
    """

    radius: Floats  # (B,), where it is the same for all variables of a component, or (N,)
    slack: Floats  # likewise
    error: Floats  # likewise: no marginal is farther from the exact one
    log_z_lower: Floats  # (B,)
    log_z_upper: Floats  # (B,)
    alike: bool = True  # all variables of a component are

    def where(self, components: Mask, other: Proof, variables: Mask | None = None) -> Proof:
        """Return this of some components, and the other of the rest."""
        some = components if variables is None else variables
        return Proof(
            np.where(some, self.radius, other.radius),
            np.where(some, self.slack, other.slack),
            np.where(some, self.error, other.error),
            np.where(components, self.log_z_lower, other.log_z_lower),
            np.where(components, self.log_z_upper, other.log_z_upper),
            self.alike,
        )

    def each(self, owner: Callable[[], npt.NDArray[np.int64]]) -> Proof:
        """Return it with numbers for each variable; `owner` gives the component of each."""
        if not self.alike:
            return self
        at = owner()
        return self._replace(
            radius=self.radius[at], slack=self.slack[at], error=self.error[at], alike=False
        )


class Certificate:
    """Bounds on the marginals of a chain or a tree, which hold for sure.

    Attributes
    ----------
    error : ndarray of float64, shape (N,)
        No marginal of the variable is farther from the exact one.
    lower, upper : ndarray of float64, shape (N, K)
        ``lower <= exact <= upper``; made when asked for.
    log_z_lower, log_z_upper : ndarray of float64, shape (B,)
        The same for log Z of each sequence or tree.
    wrong : ndarray of float64, shape (N,)
        The probability that an island's value is not the variable's is at most this; 0 where the
        variable is no island.
    radius, slack : ndarray of float64, shape (N,)
        The bounds are made from these: the log-odds of each value are known to plus or minus the
        radius, up to a probability mass of `slack`.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.log([[0.9, 0.1], [0.5, 0.5]]), np.log([[0.8, 0.2], [0.2, 0.8]]))
    >>> c = vs.infer(chain, zeta=0.85).certify()
    >>> c.error.round(3).tolist(), c.wrong.round(3).tolist()
    ([0.0, 0.06], [0.1, 0.0])
    """

    __slots__ = ("_centre", "_proof", "error", "wrong")

    error: Floats
    wrong: Floats
    #: The marginals (N, K) that the proof is about, and the proof, or what makes them.
    _centre: Array | Callable[[], Array]
    _proof: Proof | Callable[[], Proof]

    def __init__(
        self,
        centre: Array | Callable[[], Array],
        proof: Proof | Callable[[], Proof],
        error: Floats,
        wrong: Floats,
    ) -> None:
        fields = {"_centre": centre, "_proof": proof, "error": error, "wrong": wrong}
        if isinstance(centre, np.ndarray) or isinstance(proof, Proof):
            self.__setstate__(fields)
            return
        _forest.freeze(error, wrong, wrong)
        fill(self, fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Certificate is a record; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Certificate is a record; {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        made = {"_centre": self._rows(), "_proof": self._whole()}
        return {**made, "error": self.error, "wrong": self.wrong}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            for array in value if isinstance(value, Proof) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
        fill(self, state)

    def _rows(self) -> Array:
        if not isinstance(self._centre, np.ndarray):
            self.__setstate__({"_centre": self._centre()})
        assert isinstance(self._centre, np.ndarray)
        return self._centre

    def _whole(self) -> Proof:
        """Return the proof, of each variable."""
        if not isinstance(self._proof, Proof):
            self.__setstate__({"_proof": self._proof()})
        assert isinstance(self._proof, Proof)
        return self._proof

    @property
    def radius(self) -> Floats:
        """The log-odds of each value are known to plus or minus this, (N,)."""
        return self._whole().radius

    @property
    def slack(self) -> Floats:
        """The probability mass that the proof cannot place, (N,)."""
        return self._whole().slack

    @property
    def log_z_lower(self) -> Floats:
        """At most log Z of each sequence or tree, (B,)."""
        return self._whole().log_z_lower

    @property
    def log_z_upper(self) -> Floats:
        """At least log Z of each sequence or tree, (B,)."""
        return self._whole().log_z_upper

    def _bounds(self) -> tuple[Floats, Floats]:
        proof = self._whole()
        return interval(self._rows(), proof.radius, proof.slack)

    @property
    def lower(self) -> Floats:
        """At most the exact marginals, (N, K)."""
        return self._bounds()[0]

    @property
    def upper(self) -> Floats:
        """At least the exact marginals, (N, K)."""
        return self._bounds()[1]

    def __repr__(self) -> str:
        most = float(self.error.max(initial=0.0))
        return f"Certificate(variables={self.error.size}, error={most:.3g})"


def interval(m: Array, radius: Floats, slack: Floats) -> tuple[Floats, Floats]:
    """Return bounds (N, K) on the exact marginals, and on m, rounded outward.

    With G the radius and U the slack (CERTIFICATES, section 1, where the mass U may lie on either
    side of m)::

        lower = (m - U) e^(-G/2) / ((m - U) e^(-G/2) + (1 - m + U) e^(G/2))
        upper = (m + U) e^(G/2) / ((m + U) e^(G/2) + (1 - m - U) e^(-G/2))
    """
    if m.size <= _BLOCK:
        lower, upper = _interval(m, radius, slack)
    else:
        lower, upper = empty(m.shape, np.float64), empty(m.shape, np.float64)
        size = max(1, _BLOCK // m.shape[1])
        for first in range(0, len(m), size):
            rows = slice(first, first + size)
            lower[rows], upper[rows] = _interval(m[rows], radius[rows], slack[rows])
    lower.flags.writeable = upper.flags.writeable = False
    return lower, upper


def _interval(m: Array, radius: Floats, slack: Floats) -> tuple[Floats, Floats]:
    k = m.shape[1]
    wide = m.astype(np.float64)
    wide /= np.maximum(wide.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    radius, slack = radius[:, None], slack[:, None]
    lost = (k + 8) * 2.0**-52  # of 1 - m
    known = np.isfinite(radius) & (radius < _LARGEST_RADIUS) & np.isfinite(slack)
    half = np.exp(np.where(known, radius, 0.0) / 2)
    u = np.where(known, slack, 1.0)
    rest = 1.0 - wide
    inside = np.maximum(wide - u, 0.0)
    inside /= half
    outside = rest + lost
    outside += u
    outside *= half
    outside += inside
    lower = np.divide(inside, outside, out=inside)
    above = np.add(wide, u, out=wide)
    above *= half
    rest -= lost
    rest -= u
    np.maximum(rest, 0.0, out=rest)
    rest /= half
    rest += above
    np.maximum(rest, np.finfo(float).tiny, out=rest)
    upper = np.divide(above, rest, out=above)
    outward = 1.0 + 8 * (k + 8) * 2.0**-53
    lower /= outward
    upper *= outward
    np.minimum(upper, 1.0, out=upper)
    lower[~known[:, 0]], upper[~known[:, 0]] = 0.0, 1.0
    # Written numbers are rounded, and may lie beyond where next to nothing is left to prove.
    np.minimum(lower, m, out=lower)
    np.maximum(upper, m, out=upper)
    return lower, upper
