"""hmmlearn's scaling kernels (C++), called as its own models call them."""

from __future__ import annotations

import numpy as np
from hmmlearn import _hmmc

from . import Prepared, split


def _posteriors(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    n_labels = unary.shape[1]
    start = np.ones(n_labels)
    # The kernels rescale each step, so the matrix need not be stochastic; the shift guards range.
    matrix = np.exp(transition - transition.max())
    found = []
    for scores in split(unary, lengths):
        emission = np.exp(scores - scores.max(axis=1, keepdims=True))
        _, forward, scaling = _hmmc.forward_scaling(start, matrix, emission)
        backward = _hmmc.backward_scaling(start, matrix, emission, scaling)
        posterior = forward * backward
        posterior /= posterior.sum(axis=1, keepdims=True)
        found.append(posterior)
    return found


def prepare(
    unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray, threads: int = 1
) -> Prepared:
    """Return exponentials, both kernels and the normalised product, sequence by sequence."""
    return Prepared(lambda: _posteriors(unary, transition, lengths))


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    return np.concatenate(_posteriors(unary, transition, lengths))
