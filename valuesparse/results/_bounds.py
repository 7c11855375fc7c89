"""Bounds on the whole graph, from inference in a part of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Bounds"]

Floats = npt.NDArray[np.float64]


class Bounds(NamedTuple):
    """Bounds on the whole graph, from inference in a part of it.

    With H the factors that were used and F all of them:

    Attributes
    ----------
    divergence : float
        D(p_H ‖ p_F) is at most this: RSM10, Proposition 2, the best bound that the expectations
        of the factors left out allow.
    eta : float
        D is at most this: RS10, Proposition 2. Never below `divergence`.
    lower, upper : list of ndarray of float64
        The marginals under F lie between them. One array for each variable.
    rigorous : bool
        Whether all this is a proof: the solver was exact, and so were the joints of the factors
        left out. Otherwise the numbers are what the formulas give on approximate marginals.

    Notes
    -----
    The ratio p_F / p_H is at most e^η everywhere, for each state and for its complement (RS10).
    Besides, D(p_H ‖ p_F) bounds the divergence between what the two say about any one state, and
    the ratio is bounded below; `lower` and `upper` are the best of all three. For general tables
    the bound of RSM10 becomes that of the comonotone coupling of the factors' values. Where
    factors left out forbid what is possible D is ∞ and every interval [0, 1]: there may be no p_F.
    All of it is rounded outward, and includes what rounding may have done to the marginals.
    """

    divergence: float
    eta: float
    lower: list[Floats]
    upper: list[Floats]
    rigorous: bool
