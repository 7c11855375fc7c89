"""Proofs about marginals: two numbers a variable, and the bounds made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Certificate", "Proof"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

#: Odds beyond exp() of this are not told from certainty.
_LARGEST_RADIUS = 600.0


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

    __slots__ = (
        "_centre",
        "_sides",
        "error",
        "log_z_lower",
        "log_z_upper",
        "wrong",
    )

    error: Floats
    log_z_lower: Floats
    log_z_upper: Floats
    wrong: Floats
    #: The marginals (N, K) that the proof is about, or what makes them.
    _centre: Array | Callable[[], Array]
    #: The radius and the slack: of components where there is the component of each variable.
    _sides: tuple[Floats, Floats, Callable[[], npt.NDArray[np.int64]] | None]

    def __init__(
        self,
        centre: Array | Callable[[], Array],
        proof: Proof,
        error: Floats,
        wrong: Floats,
        owner: Callable[[], npt.NDArray[np.int64]] | None = None,
    ) -> None:
        fields = {
            "_centre": centre,
            "_sides": (proof.radius, proof.slack, owner if proof.alike else None),
            "error": error,
            "log_z_lower": proof.log_z_lower,
            "log_z_upper": proof.log_z_upper,
            "wrong": wrong,
        }
        self.__setstate__(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Certificate is a record; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Certificate is a record; {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        self._rows()
        self._by_variable()
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def _rows(self) -> Array:
        centre = self._centre
        if not isinstance(centre, np.ndarray):
            centre = centre()
            self.__setstate__({"_centre": centre})
        return centre

    def _by_variable(self) -> tuple[Floats, Floats]:
        """Return the radius and the slack of each variable."""
        radius, slack, owner = self._sides
        if owner is not None:
            at = owner()
            radius, slack = radius[at], slack[at]
            self.__setstate__({"_sides": (radius, slack, None)})
        radius.flags.writeable = slack.flags.writeable = False
        return radius, slack

    @property
    def radius(self) -> Floats:
        """The log-odds of each value are known to plus or minus this, (N,)."""
        return self._by_variable()[0]

    @property
    def slack(self) -> Floats:
        """The probability mass that the proof cannot place, (N,)."""
        return self._by_variable()[1]

    @property
    def lower(self) -> Floats:
        """At most the exact marginals, (N, K)."""
        return interval(self._rows(), *self._by_variable())[0]

    @property
    def upper(self) -> Floats:
        """At least the exact marginals, (N, K)."""
        return interval(self._rows(), *self._by_variable())[1]

    def __repr__(self) -> str:
        most = float(self.error.max(initial=0.0))
        return f"Certificate(variables={self.error.size}, error={most:.3g})"


def interval(m: Array, radius: Floats, slack: Floats) -> tuple[Floats, Floats]:
    """Return bounds (N, K) on the exact marginals, rounded outward.

    With G the radius and U the slack (CERTIFICATES, section 1, where the mass U may lie on either
    side of m)::

        lower = (m - U) e^(-G/2) / ((m - U) e^(-G/2) + (1 - m + U) e^(G/2))
        upper = (m + U) e^(G/2) / ((m + U) e^(G/2) + (1 - m - U) e^(-G/2))
    """
    k = m.shape[1]
    wide = m.astype(np.float64)
    wide /= np.maximum(wide.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    radius, slack = radius[:, None], slack[:, None]
    lost = (k + 8) * 2.0**-52  # of 1 - m
    known = np.isfinite(radius) & (radius < _LARGEST_RADIUS) & np.isfinite(slack)
    half = np.exp(np.where(known, radius, 0.0) / 2)
    u = np.where(known, slack, 1.0)
    above, below = wide + u, np.maximum(wide - u, 0.0)
    rest = 1.0 - wide + lost
    lower = below / half / (below / half + (rest + u) * half)
    rest = np.maximum(1.0 - wide - lost - u, 0.0)
    upper = above * half / np.maximum(above * half + rest / half, np.finfo(float).tiny)
    outward = 1.0 + 8 * (k + 8) * 2.0**-53
    lower, upper = lower / outward, np.minimum(upper * outward, 1.0)
    lower, upper = np.where(known, lower, 0.0), np.where(known, upper, 1.0)
    lower.flags.writeable = upper.flags.writeable = False
    return lower, upper
