"""hmmlearn's log-domain kernels (C++), called as its own models call them."""

from __future__ import annotations

import numpy as np
from hmmlearn import _hmmc

from . import Prepared, split


def _posteriors(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    n_labels = unary.shape[1]
    start = np.ones(n_labels)
    # The kernels take the matrix as probabilities and its logarithm themselves.
    matrix = np.exp(transition - transition.max())
    found = []
    for scores in split(unary, lengths):
        _, forward = _hmmc.forward_log(start, matrix, scores)
        posterior = forward + _hmmc.backward_log(start, matrix, scores)
        posterior -= posterior.max(axis=1, keepdims=True)
        np.exp(posterior, out=posterior)
        posterior /= posterior.sum(axis=1, keepdims=True)
        found.append(posterior)
    return found


def prepare(
    unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray, threads: int = 1
) -> Prepared:
    """Return both kernels and the normalised product, sequence by sequence."""
    return Prepared(lambda: _posteriors(unary, transition, lengths))


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    return np.concatenate(_posteriors(unary, transition, lengths))
