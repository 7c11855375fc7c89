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
#: Labels up to which columns are added up, and not rows.
_FEW = 16


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

    @property
    def lower(self) -> Floats:
        """At most the exact marginals, (N, K)."""
        proof = self._whole()
        return lower_bounds(self._rows(), proof.radius, proof.slack)

    @property
    def upper(self) -> Floats:
        """At least the exact marginals, (N, K)."""
        proof = self._whole()
        return upper_bounds(self._rows(), proof.radius, proof.slack)

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
    lower, upper = _made(m, radius, slack, _lower, _upper)
    return lower, upper


def lower_bounds(m: Array, radius: Floats, slack: Floats) -> Floats:
    """Return the first of `interval` alone."""
    return _made(m, radius, slack, _lower)[0]


def upper_bounds(m: Array, radius: Floats, slack: Floats) -> Floats:
    """Return the second of `interval` alone."""
    return _made(m, radius, slack, _upper)[0]


def over_rows(operation: np.ufunc, x: Floats) -> Floats:
    """Return the sum or the maximum of each row (n,) of x (n, K)."""
    if not 0 < x.shape[1] <= _FEW:
        return np.asarray(operation.reduce(x, axis=1, initial=operation.identity))
    found = x[:, 0].copy()
    for column in x.T[1:]:  # NumPy's own way takes many times as long over short rows
        operation(found, column, out=found)
    return found


class _Rows(NamedTuple):
    """Marginals in float64 that sum to one, and their proof, (n, 1) each."""

    m: Array  # as they were written
    wide: Floats
    known: Mask
    half: Floats  # e^(G/2)
    u: Floats
    lost: float  # of 1 - m


#: Makes a side of the bounds of some rows; the last one may write to these.
_Side = Callable[[_Rows], Floats]


def _made(m: Array, radius: Floats, slack: Floats, *sides: _Side) -> list[Floats]:
    """Return sides of the bounds of all rows, made block by block."""
    if m.size <= _BLOCK:
        rows = _rows(m, radius, slack)
        made = [side(rows) for side in sides]
    else:
        made = [empty(m.shape, np.float64) for _ in sides]
        size = max(1, _BLOCK // m.shape[1])
        for first in range(0, len(m), size):
            some = slice(first, first + size)
            rows = _rows(m[some], radius[some], slack[some])
            for side, out in zip(sides, made, strict=True):
                out[some] = side(rows)
    for out in made:
        out.flags.writeable = False
    return made


def _rows(m: Array, radius: Floats, slack: Floats) -> _Rows:
    wide = m.astype(np.float64)
    wide /= np.maximum(over_rows(np.add, wide), np.finfo(float).tiny)[:, None]
    radius, slack = radius[:, None], slack[:, None]
    known = np.isfinite(radius) & (radius < _LARGEST_RADIUS) & np.isfinite(slack)
    half = np.exp(np.where(known, radius, 0.0) / 2)
    return _Rows(m, wide, known, half, np.where(known, slack, 1.0), (m.shape[1] + 8) * 2.0**-52)


def _outward(k: int) -> float:
    return float(1.0 + 8 * (k + 8) * 2.0**-53)


def _lower(rows: _Rows) -> Floats:
    inside = np.maximum(rows.wide - rows.u, 0.0)
    inside /= rows.half
    outside = 1.0 - rows.wide
    outside += rows.lost
    outside += rows.u
    outside *= rows.half
    outside += inside
    lower: Floats = np.divide(inside, outside, out=inside)
    lower /= _outward(lower.shape[1])
    lower[~rows.known[:, 0]] = 0.0
    # Written numbers are rounded, and may lie beyond where next to nothing is left to prove.
    return np.minimum(lower, rows.m, out=lower)


def _upper(rows: _Rows) -> Floats:
    rest = 1.0 - rows.wide
    above = np.add(rows.wide, rows.u, out=rows.wide)
    above *= rows.half
    rest -= rows.lost
    rest -= rows.u
    np.maximum(rest, 0.0, out=rest)
    rest /= rows.half
    rest += above
    np.maximum(rest, np.finfo(float).tiny, out=rest)
    upper: Floats = np.divide(above, rest, out=above)
    upper *= _outward(upper.shape[1])
    np.minimum(upper, 1.0, out=upper)
    upper[~rows.known[:, 0]] = 1.0
    return np.maximum(upper, rows.m, out=upper)
