"""valuesparse itself, behind the same functions as its rivals."""

from __future__ import annotations

import numpy as np

import valuesparse as vs

from . import Prepared


def prepare(
    unary: np.ndarray,
    transition: np.ndarray,
    lengths: np.ndarray,
    threads: int = 1,
    zeta: float = 1.0,
) -> Prepared:
    """Return a call that validates, plans, computes and hands over the marginals."""

    def call() -> np.ndarray:
        chain = vs.Chain(unary, transition, lengths=lengths)
        return vs.infer(chain, zeta=zeta, threads=threads).marginals

    return Prepared(call)


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    return vs.infer(vs.Chain(unary, transition, lengths=lengths)).marginals
