"""Gains of features and of tables, from probabilities and from their logarithms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_reals

__all__ = ["feature_gain", "log_gain", "table_gain"]

Floats = npt.NDArray[np.float64]

_SMALL = 1e-4  # |θ| below which the series is exact to the last digits
_LARGE = 30.0  # |θ| from which 1 is nothing beside e^θ
_FAR = 600.0  # from here on e^z, summed up, may be no double
_NEAR = 0.25  # |z| below which e^z − 1 − z loses digits; _TERMS terms have them all
_TERMS = 13


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
    on = np.asarray(as_reals("mu", mu), dtype=np.float64)
    given = 1.0 - on if complement is None else as_reals("complement", complement)
    off = np.asarray(given, dtype=np.float64)
    p, q, t = np.broadcast_arrays(on, off, np.asarray(as_reals("theta", theta), dtype=np.float64))
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
