"""Chains within a tolerance, by messages that read a few rows and columns of a large table.

The labels whose share of a message is not small have their rows read, and those that matter where
it goes their columns; norms bound the rest (CERTIFICATES, sections 2 to 4). So the error is of
second order in what is left out, and radii of decided positions start anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _supports as native
from valuesparse.inference import _certified
from valuesparse.inference._asked import Answered
from valuesparse.inference._memory import empty
from valuesparse.inference._pieces import owner_of
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Proof

__all__ = ["Supported", "infer", "joined", "may_pay"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: With fewer labels, going over rows to choose from them takes as long as all of the table.
_LEAST_LABELS = 96
#: Longer chains are cut, and their chunks shared by all cores.
_LONGEST = 8192
#: Positions for each label, of all chains: making both tables and their norms takes time as well.
_LEAST_POSITIONS = 0.5
#: What a message of the whole table takes, in rows of it, of K: in float32, and in float64.
_PRICE_SINGLE, _PRICE_DOUBLE = 0.2, 0.4


class Supported(NamedTuple):
    """What this route has answered."""

    answered: Answered
    proof: Proof  # of all variables; it says nothing of those that were not answered
    counts: Integers  # (3,): rows, columns and repairs


def may_pay(model: Chain | Tree, tol: float) -> bool:
    """Return whether some chains of a model may be faster in this way."""
    n, k, _ = model.forest.shape
    return (
        isinstance(model, Chain)
        and k >= _LEAST_LABELS
        and n >= _LEAST_POSITIONS * k
        and model.forest.listed is None
        and model.forest.entries == k * k
        and tol >= 64 * (k / 8 + 64) * _certified.U32
    )


def infer(
    model: Chain, tol: float, single: npt.NDArray[np.bool_], workers: int, watch: Watch
) -> Supported | None:
    """Answer the chains that this pays for; `single`: which the other route has in float32.

    None where the entries of the table are too far apart for floats.
    """
    n, k, count = model.forest.shape
    table = native.Table(model.transition)
    if not table.fine:
        return None
    marginals, log_z = empty((n, k), model.dtype), np.zeros((2, count))
    radius, slack, error = np.full(n, np.inf), np.ones(n), np.ones(n)
    price = np.where(single, _PRICE_SINGLE, _PRICE_DOUBLE) * k
    chosen = np.flatnonzero((model.lengths > 0) & (model.lengths <= _LONGEST))
    mask = None if model.allowed is None else model.allowed.view(np.uint8)
    taken, counts = native.infer(
        table, model.unary, model.start, model.end, mask, model.offset, chosen, tol, price,
        workers, marginals, radius, slack, error, log_z, watch.left(), None, watch.late,
    )  # fmt: skip
    margin = 4 * _certified.U64 * (model.lengths + 2.0) * (2 * sum(_certified.largest_scores(model)) + 4)
    margin += 8 * _certified.U64 * np.abs(log_z).max(axis=0)
    low, high = log_z[0] - margin, log_z[1] + margin
    proof = Proof(radius, slack, error, low, high, alike=False)
    return Supported(Answered(marginals, (low + high) / 2, taken), proof, counts[taken].sum(axis=0))


def joined(found: Supported, other: Proof, model: Chain) -> Proof:
    """Return the proof of all chains: the other one of those that were not answered here."""
    taken = found.answered.components
    owner = owner_of(model)
    return found.proof.where(taken, other.each(lambda: owner), taken[owner])
