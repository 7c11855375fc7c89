"""The four kinds of covariance, and log-densities of normal distributions.

``spherical``: a variance for each state, (K,); ``diag``: one for each feature, (K, F); ``full``: a
matrix for each state, (K, F, F); ``tied``: one matrix, (F, F).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _hmm
from valuesparse._validation import is_choice
from valuesparse.hmm._settings import as_doubles

__all__ = [
    "ROWS_AT_ONCE",
    "Fault",
    "as_covariances",
    "as_matrices",
    "from_template",
    "log_densities",
    "refuse_kind",
]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
#: Names a singular matrix by its number, for errors.
Fault = Callable[[int], str]

KINDS = ("spherical", "diag", "full", "tied")

#: Addend of the diagonal of a matrix without a Cholesky factor, as in hmmlearn.
_LIFT = 1e-7
#: The least log-density: what is less likely has underflowed by any measure.
_LEAST = -1e280
#: Rows whose numbers stay in cache.
ROWS_AT_ONCE = 1024


def refuse_kind(kind: Any) -> None:
    if not is_choice(kind, KINDS):
        raise ValueError(f"covariance_type must be one of {', '.join(KINDS)}, got {kind!r}")


def as_covariances(covars: npt.ArrayLike, kind: str, k: int) -> Floats:
    """Return covariances as they are kept: positive, of the shape of their kind."""
    array = np.array(as_doubles("covars_", covars))
    refuse_kind(kind)
    if not np.isfinite(array).all():
        raise ValueError("covars_ must be finite")
    if kind == "spherical":
        rows = array.reshape(k, -1) if array.size and array.size % k == 0 else array[:0]
        if not rows.size or len(array) != k or (rows != rows[:, :1]).any():
            raise ValueError(
                f"'spherical' covars_ must have shape (n_components,) = {(k,)}, got {array.shape}"
            )
        array = rows[:, 0].copy()
    shapes = {"spherical": (k,), "diag": (k, -1), "full": (k, -1, -1), "tied": (-1, -1)}
    wanted = shapes[kind]
    matrices = kind in ("full", "tied")
    square = not matrices or array.shape[-1:] == array.shape[-2:-1]
    if array.ndim != len(wanted) or not square or (kind != "tied" and len(array) != k):
        words = {"diag": "(n_components, n_features)", "tied": "(n_features, n_features)"}
        word = words.get(kind, "(n_components, n_features, n_features)")
        raise ValueError(f"{kind!r} covars_ must have shape {word}, got {array.shape}")
    if not matrices:
        if (array <= 0.0).any():
            at = tuple(int(i) for i in np.argwhere(array <= 0.0)[0])
            raise ValueError(f"covars_{list(at)} is {array[at]}; a variance is positive")
        return array
    for i, matrix in enumerate(array.reshape(-1, *array.shape[-2:])):
        if not np.allclose(matrix, matrix.T) or (np.linalg.eigvalsh(matrix) <= 0.0).any():
            name = "covars_" if kind == "tied" else f"covars_[{i}]"
            raise ValueError(f"{name} must be symmetric, positive-definite")
    return array


def as_matrices(covars: Floats, kind: str, k: int, n_features: int) -> Floats:
    """Return a matrix for each state, (K, F, F)."""
    if kind == "full":
        return covars
    if kind == "tied":
        return np.tile(covars, (k, 1, 1))
    diagonal = covars[:, None] if kind == "spherical" else covars
    return np.eye(n_features) * np.broadcast_to(diagonal, (k, n_features))[:, None, :]


def covariance(X: Floats) -> Floats:
    """Return the covariance matrix of rows (N, n); zeros where there is one row."""
    n = X.shape[1]
    return np.atleast_2d(np.cov(X.T)) if len(X) > 1 else np.zeros((n, n))


def from_template(matrix: Floats, kind: str, shape: tuple[int, ...]) -> Floats:
    """Return covariances of a kind made from one matrix; `shape` has what they are for, (K,)."""
    if kind == "spherical":
        return np.full(shape, matrix.mean())
    if kind == "tied":
        return np.tile(matrix, (*shape[:-1], 1, 1)) if shape[1:] else matrix.copy()
    entry = np.diag(matrix) if kind == "diag" else matrix
    return np.tile(entry, (*shape, *[1] * entry.ndim))


def log_densities(
    X: Floats, means: Floats, covars: Floats, kind: str, out: Floats, threads: int,
    fault: Fault = "state {} has become singular".format,
) -> None:  # fmt: skip
    """Fill `out` (N, K) with log-densities of rows (N, F) under normal distributions."""
    scale: Any = covars
    if kind in ("full", "tied"):
        factors = cholesky(covars if covars.ndim == 3 else covars[None], fault)
        identity = np.broadcast_to(np.eye(X.shape[1]), factors.shape)
        scale = np.linalg.solve(factors, identity)
        if X.shape[1] > _hmm.features:
            _whitened(X, means, factors, scale, out)
            return
        scale = np.broadcast_to(scale, (len(means), *scale.shape[1:]))
    _hmm.normal(
        np.ascontiguousarray(X), np.ascontiguousarray(means), np.ascontiguousarray(scale), _LEAST,
        out, threads,
    )  # fmt: skip


def require_factors(
    covars: Floats, kind: str, fault: Fault = "state {} has become singular".format
) -> None:
    """Raise ValueError where a matrix is singular: it would have no densities."""
    if kind in ("full", "tied"):
        cholesky(covars.reshape(-1, *covars.shape[-2:]), fault)


def cholesky(matrices: Floats, fault: Fault) -> Floats:
    """Return lower Cholesky factors; matrices without one are lifted a little first."""
    try:
        whole: Any = np.linalg.cholesky(matrices)
        return whole
    except np.linalg.LinAlgError:
        factors = np.empty_like(matrices)
    lift = _LIFT * np.eye(matrices.shape[-1])
    for i, matrix in enumerate(matrices):
        for lifted in (matrix, matrix + lift):
            try:
                factors[i] = np.linalg.cholesky(lifted)
                break
            except np.linalg.LinAlgError:
                continue
        else:
            raise ValueError(
                f"covars_ must be symmetric, positive-definite: that of {fault(i)}; a covars_prior "
                "of c * numpy.eye(n_features) prevents it, with c a small part of the variances "
                "of X"
            )
    return factors


def _whitened(X: Floats, means: Floats, factors: Floats, inverse: Floats, out: Floats) -> None:
    k, features = means.shape
    logs = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    constant = -0.5 * features * np.log(2.0 * np.pi) - logs
    with np.errstate(over="ignore"):
        for first in range(0, len(X), ROWS_AT_ONCE):
            rows = X[first : first + ROWS_AT_ONCE]
            for i in range(k):
                white = (rows - means[i]) @ inverse[i % len(inverse)].T
                out[first : first + ROWS_AT_ONCE, i] = np.einsum("nf,nf->n", white, white)
    out *= -0.5
    out += constant
    np.maximum(out, _LEAST, out=out)
