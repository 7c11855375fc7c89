"""How wrong a result of a chain or a tree is, beside passes whose rounding is bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse._buffers import empty
from valuesparse.inference import _certified
from valuesparse.inference._asked import compares_single, fitting, in_types, require_feasible, runs
from valuesparse.inference._pieces import owner_of
from valuesparse.inference._supports import Supports, may_pay
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Certificate, Proof

__all__ = ["certified"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

#: An error that may be added, so that passes can compute in float32.
_SINGLE_ERROR = 1e-3


def certified(
    model: Chain | Tree, marginals: Array, islands: npt.NDArray[np.int32], workers: int
) -> Certificate:
    """Return how far marginals may be off that came from anywhere, and islands be wrong.

    Those with a proof may be off by a thousandth. Marginals of a chain are compared row by
    row, as they are written, and not kept: they are made again where somebody asks for bounds.
    """
    n = model.forest.shape[0]
    far, wrong = empty((2, n), np.float64)
    single: npt.NDArray[np.bool_] | bool = bool(model.dtype == np.float32)
    if not single and compares_single(model):
        single = fitting(model, _SINGLE_ERROR)
    if may_pay(model, _SINGLE_ERROR, single):
        supports = Supports.of(model, _SINGLE_ERROR, single)
        if supports is not None:
            found = supports.passes(n, workers, Watch(None, None))
            proved = supports.proof(found.log_z)
            more = native.allowances(proved.radius, proved.slack, 0.0)
            asked = marginals, islands, proved.error, more[1], more[2], far, wrong
            native.compare(found.marginals, None, asked, workers)
            return Certificate(found.marginals, proved, far, wrong)
    asked = marginals, islands, *_certified.allowances(model, single), far, wrong

    def proof() -> Proof:
        return _certified.proof_for(model, log_z, single).each(lambda: owner_of(model))

    if isinstance(model, Tree):
        rows, log_z, _ = in_types(model, workers, Watch(None, None), single)
        native.compare(rows, owner_of(model), asked, workers)
        return Certificate(rows, proof, far, wrong)
    log_z = _compare(model, workers, single, asked)

    def again() -> Array:
        return in_types(model, workers, Watch(None, None), single)[0]

    return Certificate(again, proof, far, wrong)


def _compare(
    model: Chain, workers: int, single: npt.NDArray[np.bool_] | bool, asked: native.Compared
) -> Floats:
    """Return log Z (B,) of passes whose marginals are compared, in float32 where `single`."""
    log_z, wide = np.empty(model.n_sequences), model.dtype == np.float64
    for small, some in runs(single):
        infeasible, _ = native.infer(
            model.forest, workers, log_z, narrow=small and wide, components=some, compared=asked
        )
        require_feasible(model, infeasible)
    return log_z
