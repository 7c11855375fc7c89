"""Marginals with a proof of how far they may be off: rounding is a radius.

A sum of m positive numbers errs relatively by at most m u, in any order, a product and a fused
multiply-add by u, and relative errors never grow in a product with a table: nothing is subtracted.
So every step of a pass adds what it rounds to the logarithm of a message, and no more
(CERTIFICATES, sections 2, 6 and 7). With n steps, K labels and the largest score R:

* float64: exp() errs by 4 u and by its argument, at most 700 u, and where a pass is done again in
  logarithms a score of size R by R u;
* float32: arguments of exp() are at most 86, those of a table 41. Scores in float64 are subtracted,
  and their arguments reduced, in float64: exp() errs by 3 u, whatever its argument. A sum of K
  numbers is made in blocks (ext/rows/tile.h): it errs by those of a block, and how many there are.
  Where a long chain is cut, messages agree to 2^-17 every 64 positions or more;
* the sum of a default and of what differs from it subtracts at most half of itself, and errs by 4
  times as much;
* a model in float32 adds its own scores in float32: those of the ends of a chain to a variable's,
  and a row's and a column's to the default where a list is read whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse.inference._pieces import sizes_of
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Proof

__all__ = [
    "allowances",
    "double_errors",
    "double_radius",
    "floor_of",
    "largest_scores",
    "least_single",
    "log_z_margin",
    "longest_single",
    "most_given",
    "proof_as_given",
    "proof_for",
    "proof_of",
    "roundings",
    "single_proof",
    "single_radius",
    "single_radius_errors",
    "table_loss",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Unit roundoff of each type.
U64, U32 = 2.0**-53, 2.0**-24
#: Mass that floors of messages may have added: float64 gives up long before, float32 at 1e-7.
SLACK64, SLACK32 = 1e-30, 2e-7
#: Roundings of a step in float32 beside its sum, with scores in float32, or narrowed from float64.
OTHER32, _NARROWED = 170, 24
#: Sums in float32: the most numbers in a block, the fewest.
_BLOCK, _LEAST_BLOCK = 128, 32


def largest_scores(model: Chain | Tree) -> tuple[float, float]:
    """Return the largest finite magnitudes of a variable's scores and of an edge's."""
    if math.isfinite(model.largest[0]):
        return model.largest
    tables = model.transition if isinstance(model, Chain) else model.pairwise
    more = (model.start, model.end) if isinstance(model, Chain) else ()
    node = sum(native.weigh(x)[1] for x in (model.unary, *more) if x is not None)
    return float(node), float(native.weigh(tables)[1])


def floor_of(model: Chain | Tree) -> float:
    """Return the least tolerance that can be proved."""
    n, r, single = model.forest.longest, max(largest_scores(model)), 0.0
    if model.dtype == np.float32:
        single = 2.0**-22 + math.expm1(min(2 * n * table_loss(model) * U32, 700.0))
    return 8 * n * (model.n_labels + 1500 + r) * U64 + single


def _errors(radius: Floats, slack: Floats | float, written: float) -> Floats:
    """Return what |p - m| <= m (1 - m) (e^G - 1) + U e^G comes to, and what writing m rounds."""
    return np.asarray(native.allowances(radius, 2 * slack, written)[0])


def _proof(
    model: Chain | Tree, log_z: Floats, radius: Floats, slack: Floats, written: float
) -> Proof:
    margin = log_z_margin(radius, slack, sizes_of(model), sum(largest_scores(model)), log_z)
    error = _errors(radius, slack, written)
    return Proof(
        radius=radius,
        slack=2 * slack,
        error=error,
        log_z_lower=log_z - margin,
        log_z_upper=log_z + margin,
    )


def log_z_margin(
    radius: Floats, slack: Floats | float, sizes: Integers, scores: float | Floats, log_z: Floats
) -> Floats:
    """Return how far log Z may be off; `scores`: the largest of a variable and of an edge."""
    # Scores are summed in float64, with one rounding each.
    margin = radius + slack + 4 * U64 * (sizes + 2.0) * (2 * scores + 4)
    return np.asarray(margin + 8 * U64 * np.abs(log_z))


def double_radius(sizes: Integers, labels: int, largest: float | Floats) -> Floats:
    """Return the radius of passes in float64; `largest`: the largest score."""
    return np.asarray(sizes * (8 * (labels + 1200 + 2 * largest) * U64))


def double_errors(radius: Floats) -> Floats:
    """Return the error that follows."""
    return _errors(radius, SLACK64, 0.0)


def single_radius(
    sizes: Integers, steps: float, given: float | Floats, once: float = 0.0
) -> Floats:
    """Return the radius of passes in float32: scores have lost `given`, those of ends `once`."""
    step = 2 * (steps + given) * U32
    return np.asarray(sizes * step + (step + 2 * once * U32))


def single_radius_errors(radius: Floats, labels: int) -> Floats:
    """Return the error that follows."""
    return _errors(radius, SLACK32, (labels + 4) * U32)


def most_given(sizes: Integers, labels: int, tol: float) -> Floats:
    """Return what scores may have lost so that the error in float32 is at most `tol`.

    Below 0 where the error is larger in any case.
    """
    most = _roundings_within(labels, tol) / (sizes + 1.0)
    return np.asarray(most - (roundings(labels) + OTHER32))


def _roundings_within(labels: int, tol: float) -> float:
    """Return how many roundings in float32 keep the error within `tol`; see `_errors`."""
    left = tol * (1 - 1e-9) - (labels + 4) * U32 - 2 * SLACK32
    radius = math.log1p(left / (0.25 + 2 * SLACK32)) if left > 0 else -math.inf
    return radius * (1 - 1e-9) / (2 * U32)


def least_single(model: Chain | Tree) -> float:
    """Return a tolerance that no pass in float32 proves, however short."""
    return (model.n_labels + 4) * U32 + 2 * SLACK32


def proof_of(model: Chain | Tree, log_z: Floats) -> Proof:
    """Return what an exact pass in float64 proves; marginals are rounded to the model's type."""
    return _double_terms(model).proof(model, log_z)


class _Terms(NamedTuple):
    """The terms of a proof: how passes may have changed the components of a model."""

    step: float  # the radius of each of their variables
    once: float  # and beside
    slack: float
    cut: float  # the slack beside, a variable of a path so long that it may have been cut
    written: float  # what writing marginals rounds

    def proof(self, model: Chain | Tree, log_z: Floats) -> Proof:
        sizes = sizes_of(model)
        radius = np.asarray(sizes * self.step + self.once, dtype=np.float64)
        slack = self.slack + np.where(sizes >= native.cut_from(), self.cut * sizes, 0.0)
        return _proof(model, log_z, radius, slack, self.written)


def _cut_slack(labels: int) -> float:
    """Return what states may have, a variable, that are left out where cuts are compared.

    path_cut.h has the bound for each; cuts are 16 variables or more apart, and compared both ways.
    """
    return min(2e-20 * float(labels) ** 5, 1e-12) / 8


def _double_terms(model: Chain | Tree) -> _Terms:
    """Return those of passes in float64."""
    step = 8 * (model.n_labels + 1200 + 2 * max(largest_scores(model))) * U64
    if model.dtype != np.float32:
        return _Terms(step, 0.0, SLACK64, _cut_slack(model.n_labels), 0.0)
    step += 2 * table_loss(model) * U32
    return _Terms(step, 4 * U32, SLACK64, _cut_slack(model.n_labels), U32)


def _single_terms(model: Chain | Tree) -> _Terms:
    """Return those of passes in float32."""
    steps, given, once = _single_step(model)
    step = 2 * (steps + given) * U32
    return _Terms(step, step + 2 * once * U32, SLACK32, 0.0, (model.n_labels + 4) * U32)


def allowances(model: Chain | Tree, single: Mask | bool) -> Floats:
    """Return the error of passes, in float32 where `single` says so, and a and b: (3, B).

    Labels whose share of what was computed is x have at most ``a x + b``.
    """
    if not isinstance(single, bool):
        return np.where(single, allowances(model, True), allowances(model, False))
    terms = _single_terms(model) if single else _double_terms(model)
    found = native.allowances_of(
        sizes_of(model), model.forest.longest, terms.step, terms.once, 2 * terms.slack,
        terms.written, 2 * terms.cut,
    )  # fmt: skip
    return np.asarray(found)


def roundings(labels: int, apart: bool = False) -> int:
    """Return the roundings of a sum in float32 over all labels, in blocks or (`apart`) not."""
    return labels if apart else min(labels, _BLOCK + labels // _LEAST_BLOCK)


def table_loss(model: Chain | Tree) -> float:
    """Return what the sums of a default, a row and a column lose, in units of U32, once an edge."""
    table = model.sparse_transition if isinstance(model, Chain) else model.sparse_pairwise
    if model.dtype != np.float32 or table is None or model.forest.listed is not None:
        return 0.0
    added = (table.rows is not None) + (table.columns is not None)
    return float(added * largest_scores(model)[1])


def _end_loss(model: Chain | Tree) -> float:
    """Return what adding scores of ends loses, in units of U32, once a component."""
    if model.dtype != np.float32 or not isinstance(model, Chain):
        return 0.0
    added = (model.start is not None) + (model.end is not None)
    return float(added * largest_scores(model)[0])


def _single_step(model: Chain | Tree) -> tuple[float, float, float]:
    """Return what a step in float32 rounds, what scores lose, and what those of the ends do."""
    k, (node, edge) = model.n_labels, largest_scores(model)
    listed = model.forest.listed is not None
    apart = listed or model.forest.entries > k * k
    other = OTHER32 if model.dtype == np.float32 else _NARROWED
    steps = (roundings(k, apart) + other) * (4 if listed else 1)
    # A pass that is done again in logarithms adds scores in float64, as do a row's own.
    return steps, 8 * (node + edge) * (U64 / U32) + table_loss(model), _end_loss(model)


def longest_single(model: Chain | Tree, tol: float) -> float:
    """Return the most variables of a component whose error in float32 is at most `tol`."""
    steps, given, once = _single_step(model)
    return (_roundings_within(model.n_labels, tol) - once) / (steps + given) - 1.0


def single_proof(model: Chain | Tree, log_z: Floats) -> Proof:
    """Return what a pass in float32 proves."""
    return _single_terms(model).proof(model, log_z)


def proof_for(model: Chain | Tree, log_z: Floats, single: Mask | bool) -> Proof:
    """Return what passes prove, in float32 where `single` says so."""
    if not isinstance(single, bool):
        some = int(np.count_nonzero(single))
        if 0 < some < single.size:
            return single_proof(model, log_z).where(single, proof_of(model, log_z))
        single = some > 0
    return single_proof(model, log_z) if single else proof_of(model, log_z)


def proof_as_given(model: Chain | Tree, log_z: Floats) -> Proof:
    """Return what a pass in the model's own type proves."""
    prove = single_proof if model.dtype == np.float32 else proof_of
    return prove(model, log_z)
