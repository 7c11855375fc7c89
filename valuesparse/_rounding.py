"""Outward rounding: how far a computed log partition function may lie from the true one.

Every bound of log Z is a mathematical bound evaluated in float64, so its computed value is moved
outward by a bound on its rounding error:

* *sums of log-potentials*: each of m additions errs by at most eps times the largest partial sum,
  which the sum of the largest absolute entries of all tables bounds (`magnitude`);
* *log-sum-exp*: exp(x) of a score of size s errs by eps * s, a sum of k terms by k * eps, and all
  terms are positive, so these errors add up over the entries of the tables that are summed;
* *the exact engines*: Z is a sum of products of positive numbers. A product adds the relative
  errors of its factors and one more eps, a sum of positive terms never has more than the worst of
  them and one eps for each addition. So Z errs, relatively, by at most eps times what a
  configuration passes on its way to the root: 2 for each entry of a clique, summed over cliques
  (`entries`), and for each factor the error of its entry, eps * |score| from taking off the
  largest score and less than 4 eps from exp (`magnitude`, and entries again). Scales are powers of
  two, which are exact. The margin is 16 eps a clique entry and 64 eps a unit of score, and beside
  it, as a reserve, the 1e-10 that the engines are tested to;
* *eigenvalues* of a symmetric N x N matrix M: LAPACK's solvers are backward stable, each computed
  eigenvalue errs by at most p(N) * eps * ||M||. The polynomial p depends on the library and is
  *assumed* here, not proved: 16 * N, with the Frobenius norm. Bounds that rest on eigenvalues
  (`bounds.preconditioner` and what `bounds.log_z` takes from it) are proofs under that assumption.
"""

from __future__ import annotations

import math

__all__ = ["EPS", "down", "engine_margin", "up"]

#: The distance of 1 to the next float64. The sum of k numbers that rounding alone keeps from 1 is
#: no farther from it than k of these.
EPS = 2.0**-52

_CONTRACT = 1e-10


def engine_margin(log_z: float, entries: float, magnitude: float) -> float:
    """Return what a log partition function of an exact engine may be off by."""
    if not math.isfinite(log_z):
        return 0.0
    return _CONTRACT * max(1.0, abs(log_z)) + EPS * (16.0 * entries + 64.0 * magnitude)


def up(value: float, margin: float) -> float:
    """Return a number that is surely at least `value` + `margin`."""
    if not math.isfinite(value):
        return value
    return math.nextafter(value + margin + EPS * abs(value), math.inf)


def down(value: float, margin: float) -> float:
    """Return a number that is surely at most `value` - `margin`."""
    if not math.isfinite(value):
        return value
    return math.nextafter(value - margin - EPS * abs(value), -math.inf)
