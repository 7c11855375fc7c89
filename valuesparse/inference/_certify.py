"""How wrong a result of a chain or a tree is, beside passes whose rounding is bounded."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse.inference import _certified
from valuesparse.inference._asked import fitting, in_types, pays_single
from valuesparse.inference._pieces import owner_of
from valuesparse.inference._supports import Supports, may_pay
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Certificate, Proof

__all__ = ["certified"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

#: An error that may be added, so that passes can compute in float32.
_SINGLE_ERROR = 1e-3


def certified(
    model: Chain | Tree, marginals: Array, islands: npt.NDArray[np.int32], workers: int
) -> Certificate:
    """Return how far marginals may be off that came from anywhere, and islands be wrong.

    Those with a proof may be off by a thousandth. Of a chain they are compared row by row, as they
    are written, and not kept: they are made again where somebody asks for bounds.
    """
    n, _, count = model.forest.shape
    far, wrong = np.empty(n), np.empty(n)
    single = fitting(model, _SINGLE_ERROR)
    if model.dtype == np.float32 or not pays_single(model):
        single[:] = model.dtype == np.float32

    def compared(proof: Proof) -> native.Compared:
        # The most that not being v, of share `rest`, can be: section 1 of CERTIFICATES.
        with np.errstate(over="ignore"):
            growth = np.exp(np.minimum(proof.radius, 700.0))
            extra = 2 * proof.slack * growth + 2.0**-51
        return marginals, islands, proof.error, growth, extra, far, wrong

    if may_pay(model, _SINGLE_ERROR, single):
        supports = Supports.of(model, _SINGLE_ERROR, single)
        if supports is not None:
            found = supports.passes(n, workers, Watch(None, None))
            proof = supports.proof(found.log_z)
            native.compare(found.marginals, None, compared(proof), workers)
            return Certificate(found.marginals, proof, far, wrong)
    proof = _certified.proof_for(model, np.zeros(count), single)
    owner = functools.partial(owner_of, model)
    if isinstance(model, Tree):
        rows, log_z, _ = in_types(model, workers, Watch(None, None), single)
        native.compare(rows, owner(), compared(proof), workers)
        return Certificate(rows, _certified.about(proof, log_z), far, wrong, owner)
    asked = compared(proof)
    _, log_z, _ = in_types(model, workers, Watch(None, None), single, asked)
    again = functools.partial(_marginals, model, workers, single)
    return Certificate(again, _certified.about(proof, log_z), far, wrong, owner)


def _marginals(model: Chain, workers: int, single: npt.NDArray[np.bool_]) -> Array:
    return in_types(model, workers, Watch(None, None), single)[0]
