"""Sums over dependency trees in numpy, a sentence at a time, and the best tree by others' packages.

Log-potentials (n + 1, n + 1) at [head, modifier] go in, marginals of arcs and log Z come out.
"""

from __future__ import annotations

import functools

import numpy as np


def matrix_tree(scores: np.ndarray) -> tuple[np.ndarray, float]:
    """Return marginals and log Z over all trees: the Laplacian inverted, and its determinant."""
    n = len(scores) - 1
    words = np.arange(n)
    weight = np.exp(scores[:, 1:])
    inner, root = weight[1:], weight[0]
    inner[words, words] = 0.0
    laplacian = -inner
    laplacian[words, words] = inner.sum(axis=0) + root
    inverse = np.linalg.inv(laplacian)
    _, log_z = np.linalg.slogdet(laplacian)
    own = inverse.diagonal()
    p = np.zeros_like(scores)
    p[0, 1:] = root * own
    p[1:, 1:] = inner * (own - inverse.T)
    return p, log_z


@functools.lru_cache
def _spans(n: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return, for each width, first words (m, 1), last words (m, 1), and 0 .. width - 1."""
    return [
        (np.arange(n + 1 - w)[:, None], np.arange(w, n + 1)[:, None], np.arange(w))
        for w in range(1, n + 1)
    ]


def inside_outside(scores: np.ndarray) -> tuple[np.ndarray, float]:
    """Return marginals and log Z over projective trees, all spans of one width at once (Eisner).

    In plain doubles, weights relative to each word's largest; spans [first, last] of both sides.
    """
    n = len(scores) - 1
    scores = scores.copy()
    scores[:, 0] = -np.inf
    np.fill_diagonal(scores, -np.inf)
    shift = scores[:, 1:].max(axis=0)
    w = np.zeros_like(scores)
    w[:, 1:] = np.exp(scores[:, 1:] - shift)
    right, left = np.eye(n + 1), np.eye(n + 1)
    arc_right, arc_left, between = (np.zeros((n + 1, n + 1)) for _ in range(3))
    for i, j, k in _spans(n):
        b = (right[i, i + k] * left[i + k + 1, j]).sum(axis=1, keepdims=True)
        between[i, j] = b
        arc_right[i, j], arc_left[i, j] = w[i, j] * b, w[j, i] * b
        right[i, j] = (arc_right[i, i + k + 1] * right[i + k + 1, j]).sum(axis=1, keepdims=True)
        left[i, j] = (left[i, i + k] * arc_left[i + k, j]).sum(axis=1, keepdims=True)
    of_right, of_left, of_arc_right, of_arc_left = (np.zeros((n + 1, n + 1)) for _ in range(4))
    of_right[0, n] = 1.0
    for i, j, k in reversed(_spans(n)):
        r, s = of_right[i, j], of_left[i, j]
        of_arc_right[i, i + k + 1] += r * right[i + k + 1, j]
        of_right[i + k + 1, j] += r * arc_right[i, i + k + 1]
        of_arc_left[i + k, j] += s * left[i, i + k]
        of_left[i, i + k] += s * arc_left[i + k, j]
        b = of_arc_right[i, j] * w[i, j] + of_arc_left[i, j] * w[j, i]
        of_right[i, i + k] += b * left[i + k + 1, j]
        of_left[i + k + 1, j] += b * right[i, i + k]
    z = right[0, n]
    upper = np.triu(between, 1)
    p = w * (of_arc_right * upper + (of_arc_left * upper).T) / z
    return p, float(np.log(z) + shift.sum())
