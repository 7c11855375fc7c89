"""Samples from the posterior and probabilities of given configurations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _chain
from valuesparse._validation import as_count
from valuesparse.errors import InfeasibleError
from valuesparse.inference.marginals import infer
from valuesparse.models import Chain
from valuesparse.threads import resolve

__all__ = ["log_prob", "sample"]


def sample(
    model: Chain,
    size: int,
    rng: np.random.Generator | int | None = None,
    *,
    threads: int | None = None,
) -> npt.NDArray[np.int64]:
    """Draw exact samples from the posterior.

    Parameters
    ----------
    model : Chain
        The model.
    size : int
        Number of samples, at least 0.
    rng : numpy.random.Generator, int or None
        Source of randomness, or a seed for one.
    threads : int, optional
        At least 1; samples do not depend on it.

    Returns
    -------
    ndarray of int64, shape (size, N)
        One configuration per row.

    Raises
    ------
    InfeasibleError
        When a sequence has no possible configuration.
    ValueError
        For `size` < 0 or `threads` < 1.

    Notes
    -----
    Forward filtering, backward sampling: the last label is drawn from the forward message, then
    each label given the one after it.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((2, 2)), [[0.0, -np.inf], [-np.inf, 0.0]])
    >>> x = vs.sample(chain, 100, rng=0)
    >>> x.shape, bool((x[:, 0] == x[:, 1]).all())
    ((100, 2), True)
    """
    if not isinstance(model, Chain):
        raise TypeError(f"model must be a valuesparse.Chain, got {type(model).__name__}")
    count = as_count("size", size, at_least=0)
    workers = resolve(threads)
    try:
        generator = np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(f"rng must be a Generator, a seed or None: {error}") from None
    states = np.empty((count, model.n_positions), dtype=np.int64)
    # Blocks bound the memory of the uniforms; drawing them in order keeps samples reproducible.
    block = max(1, 1_000_000 // max(1, model.n_positions))
    for first in range(0, max(count, 1), block):
        rows = states[first : first + block]
        uniforms = generator.random(rows.shape)
        infeasible: Any = _chain.sample(model._batch, rows.shape[0], uniforms, rows, workers)
        if infeasible is not None:
            raise InfeasibleError(*infeasible)
    return states


def log_prob(
    model: Chain, states: npt.ArrayLike, *, threads: int | None = None
) -> npt.NDArray[np.float64]:
    """Return the log-probability of given labels, per sequence.

    Parameters
    ----------
    model : Chain
        The model.
    states : array_like of int, shape (N,)
        One label per position.
    threads : int, optional
        At least 1.

    Returns
    -------
    ndarray of float64, shape (B,)
        Score of the configuration minus ``log_z``; −inf where it is forbidden.

    Raises
    ------
    ValueError
        When `states` has the wrong shape, is not integer, or names no label.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((3, 2)), np.zeros((2, 2)))
    >>> float(np.exp(vs.log_prob(chain, [0, 1, 1])[0]).round(6))
    0.125
    """
    log_z = infer(model, threads=threads).log_z
    return score(model, states) - log_z


def score(model: Chain, states: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the sum of log-potentials of given labels, per sequence (B,)."""
    y = np.asarray(states)
    n = model.n_positions
    if y.shape != (n,):
        raise ValueError(f"states must have shape {(n,)}, got {y.shape}")
    if n and y.dtype.kind not in "iu":
        raise ValueError(f"states must be integers, got dtype {y.dtype}")
    y = y.astype(np.int64)
    bad = np.flatnonzero((y < 0) | (y >= model.n_labels))
    if bad.size:
        raise ValueError(
            f"states[{bad[0]}] is {y[bad[0]]}; labels run from 0 to {model.n_labels - 1}"
        )
    local = model.unary[np.arange(n), y].astype(np.float64)
    if model.allowed is not None:
        local[~model.allowed[np.arange(n), y]] = -np.inf
    full = np.flatnonzero(model.lengths)
    first, last = model._offset[full], model._offset[full + 1] - 1
    if model.start is not None:
        local[first] += model.start[y[first]]
    if model.end is not None:
        local[last] += model.end[y[last]]
    inner = np.ones(n, dtype=bool)
    inner[first] = False
    to = np.flatnonzero(inner)
    if model.transition.ndim == 3:
        steps = model.transition[np.arange(to.size), y[to - 1], y[to]]
    else:
        steps = model.transition[y[to - 1], y[to]]
    local[to] += steps
    total = np.zeros(model.n_sequences)
    if full.size:
        total[full] = np.add.reduceat(local, first)
    return total
