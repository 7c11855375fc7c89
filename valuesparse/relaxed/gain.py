"""The KL divergence that adding one factor brings: RS10, section 4.1."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Factor, Features
from valuesparse.models import FactorGraph
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed._candidates import as_parts
from valuesparse.relaxed._parts import FeaturePart, TablePart
from valuesparse.results import GraphResult

__all__ = ["feature_gain", "gain"]

Floats = npt.NDArray[np.float64]

_SMALL = 1e-4  # |θ| below which the series is exact to the last digits
_LARGE = 30.0  # |θ| from which 1 is nothing beside e^θ
_FAR = 600.0  # from here on e^z, summed up, may be no double
_NEAR = 0.25  # |z| below which e^z − 1 − z loses digits; _TERMS terms have them all
_TERMS = 13


def gain(
    graph: FactorGraph,
    factors: Iterable[int] | Factor | Iterable[Factor] | Features,
    result: GraphResult,
) -> Floats:
    r"""Return the gain of each factor: the KL divergence that adding it alone would bring.

    Parameters
    ----------
    graph : FactorGraph
        The full model.
    factors : iterable of int, Factor, iterable of Factor, or Features
        Candidates: factors of the graph by index, or others over its variables.
    result : GraphResult
        The result of inference in a part of the graph (``infer(graph, factors=...)``).

    Returns
    -------
    ndarray of float64
        One number >= 0 for each candidate; ∞ for one that forbids what `result` allows.

    Raises
    ------
    ValueError
        For an index or variable that does not exist.

    Notes
    -----
    For a feature (RS10, Proposition 1):
    :math:`g = \log(1 - \mu + \mu e^\theta) - \mu \theta`; for a general table Ψ
    :math:`g = \log E[\Psi] - E[\log \Psi]`. μ comes from the joint where the engine has it (the
    variables are independent, or a factor that was used holds them), else from the product of
    beliefs, and the gain is an approximation. Structured factors tell the joints of all pairs at
    once where tables differ by at most 4 within; such a gain errs by less than 1e-9.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> edge = graph.add_feature([0, 1], [1, 1], 2.0)
    >>> first = vs.infer(graph, factors=[])
    >>> vs.gain(graph, [edge], first).round(4).tolist()
    [0.4545]
    """
    if not isinstance(graph, FactorGraph):
        raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
    if not isinstance(result, GraphResult):
        raise TypeError(f"result must be that of a FactorGraph, got {type(result).__name__}")
    if result.graph.cards.tobytes() != graph.cards.tobytes():
        raise ValueError("result must be of a graph with the same variables")

    def indices(items: Any) -> npt.NDArray[np.int64]:
        if isinstance(items, range):
            found = np.arange(items.start, items.stop, items.step)
        elif isinstance(items, np.ndarray):
            found = items
        else:
            found = np.array([_index(i, at) for at, i in enumerate(items)], dtype=np.int64)
        if found.size == 0:
            return np.empty(0, dtype=np.int64)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ValueError(
                f"factors must be indices, got an array of {found.dtype} of shape {found.shape}"
            )
        bad = (found < 0) | (found >= graph.n_factors)
        if bad.any():
            at = int(bad.argmax())
            raise ValueError(
                f"factors[{at}] is {found[at]}: there are {graph.n_factors} factors, numbered "
                "from 0"
            )
        return found.astype(np.int64, copy=False)

    count, parts = as_parts(Beliefs(result), graph, factors, indices)
    return gains_of(count, parts)


def _index(item: Any, at: int) -> int:
    try:
        return operator.index(item)
    except TypeError:
        raise TypeError(
            f"factors[{at}] must be the index of a factor, like all others, got {item!r}"
        ) from None


def gains_of(count: int, parts: Iterable[FeaturePart | TablePart]) -> Floats:
    """Return the gains of `count` factors, told piece by piece."""
    out = np.empty(count)
    for part in parts:
        rows, log_p = part.tiny
        if isinstance(part, FeaturePart):
            found = feature_gain(part.mu, part.theta, part.off)
        else:
            found = table_gain(part.table, part.joint)
        if rows.size:
            table = (
                np.stack([np.zeros(rows.size), part.theta[rows]], axis=1)
                if isinstance(part, FeaturePart)
                else part.table[rows]
            )
            found[rows] = log_gain(log_p, table)
        out[part.at] = found
    return out


def feature_gain(
    mu: npt.ArrayLike, theta: npt.ArrayLike, complement: npt.ArrayLike | None = None
) -> Floats:
    r"""Return :math:`\log(1 - \mu + \mu e^\theta) - \mu \theta`, elementwise.

    Parameters
    ----------
    mu : array_like
        Probabilities that the features fire, in [0, 1].
    theta : array_like
        Weights; −inf gives ∞ where μ > 0, else 0.
    complement : array_like, optional
        Probabilities that they do not fire. Beside a μ near 1 they have digits that 1 − μ, which
        is taken by default, has not.

    Returns
    -------
    ndarray of float64
        Never negative, never NaN.

    Notes
    -----
    g(μ, θ) = g(1 − μ, −θ), so that μ <= 1/2 without loss of generality; for small θ a series
    replaces the difference, for large ones the logarithm of a sum of exponentials.

    Examples
    --------
    >>> from valuesparse.relaxed import feature_gain
    >>> feature_gain([0.0, 0.5, 0.5], [10_000.0, 10_000.0, 1e-9]).tolist()
    [0.0, 4999.306852819441, 1.25e-19]
    >>> feature_gain([1.0, 1.0], -100.0, [0.0, 1e-26]).round(6).tolist()
    [0.0, 40.132788]
    """
    on = np.asarray(mu, dtype=np.float64)
    off = 1.0 - on if complement is None else np.asarray(complement, dtype=np.float64)
    p, q, t = np.broadcast_arrays(on, off, np.asarray(theta, dtype=np.float64))
    for name, side in (("mu", p), ("complement", q)):
        if not ((side >= 0.0) & (side <= 1.0)).all():
            raise ValueError(f"{name} must lie in [0, 1]")
    if not (t < np.inf).all():
        raise ValueError("theta must be finite or -inf")
    shape = p.shape
    p, q, t = p.ravel(), q.ravel(), t.ravel()
    flip = p > 0.5
    m = np.where(flip, q, p)
    t = np.where(flip, -t, t)
    size = np.abs(t)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.expm1(t)
        out *= m
        np.log1p(out, out=out)
        out -= m * t
    if size.size and size.max() > _LARGE:
        far = np.flatnonzero(t > _LARGE)
        a, b = m[far], t[far]
        with np.errstate(divide="ignore", invalid="ignore"):
            out[far] = np.logaddexp(np.log1p(-a), np.log(a) + b) - a * b
        out[far[a == 0.0]] = 0.0
        forbids = np.flatnonzero(size == np.inf)
        out[forbids] = np.where(p[forbids] > 0.0, np.inf, 0.0)
    if size.size and size.min() < _SMALL:
        near = np.flatnonzero(size < _SMALL)
        a, b = m[near], t[near]
        third = (1.0 - 2.0 * a) * b / 3.0
        fourth = (1.0 - 6.0 * a * (1.0 - a)) * b * b / 12.0
        out[near] = 0.5 * a * (1.0 - a) * b * b * (1.0 + third + fourth)
    np.maximum(out, 0.0, out=out)
    return out.reshape(shape)


def table_gain(tables: Floats, joints: Floats) -> Floats:
    """Return log E[Ψ] − E[log Ψ] of each row, a log-table under the joint of its variables.

    With z = log Ψ − E[log Ψ] it is log(1 + E[e^z − 1 − z]): a sum of what is not negative.
    """
    p = joints / joints.sum(axis=1, keepdims=True)
    z, forbids = _centred(tables, p)
    far = (z > _FAR).any(axis=1)
    out = np.empty(len(z))
    near = ~far
    out[near] = np.log1p((p[near] * _excess(z[near])).sum(axis=1))
    if far.any():
        with np.errstate(divide="ignore"):
            out[far] = _log_mean(np.log(p[far]), z[far])
    out[forbids] = np.inf
    return out


def log_gain(log_p: Floats, tables: Floats) -> Floats:
    """Return what `table_gain` does, given the logarithms of the joints."""
    log_p = log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    z, forbids = _centred(tables, np.exp(log_p), log_p > -np.inf)
    out = _log_mean(log_p, z)
    out[forbids] = np.inf
    return out


def _centred(
    tables: Floats, p: Floats, live: npt.NDArray[np.bool_] | None = None
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return log-tables less their means, 0 where p is, and which forbid what is possible."""
    if live is None:
        live = p > 0.0
    never = tables == -np.inf
    forbids = (live & never).any(axis=1)
    # First exactly, by an entry that is there: where it is nearly all there is the rest is small.
    mode = np.where(never, -1.0, p).argmax(axis=1)[:, None]
    pivot = np.take_along_axis(tables, mode, axis=1)
    counts = live & ~never
    z = np.subtract(tables, pivot, out=np.zeros(tables.shape), where=counts)
    mean = (p * z).sum(axis=1, keepdims=True)
    return np.subtract(z, mean, out=z, where=counts), forbids


def _excess(z: Floats) -> Floats:
    """Return e^z − 1 − z with its digits, >= 0."""
    found = np.expm1(z) - z
    near = np.abs(z) < _NEAR
    a = z[near]
    total = np.zeros(a.shape)
    for k in range(_TERMS, 2, -1):
        total = (1.0 + total) * a / k
    found[near] = 0.5 * a * a * (1.0 + total)
    return found


def _log_excess(z: Floats) -> Floats:
    """Return log(e^z − 1 − z), also where e^z is no double."""
    with np.errstate(divide="ignore"):
        found = np.log(_excess(np.minimum(z, _LARGE)))
    far = z > _LARGE
    found[far] = z[far] + np.log1p(-(1.0 + z[far]) * np.exp(-z[far]))
    return found


def _log_mean(log_p: Floats, z: Floats) -> Floats:
    """Return log(1 + E[e^z − 1 − z]) of each row."""
    terms = np.where(log_p > -np.inf, log_p + _log_excess(z), -np.inf)
    return np.asarray(np.logaddexp(0.0, np.logaddexp.reduce(terms, axis=1)))
