r"""The quadratic form behind preconditioner bounds (RL05, section 3, with corrected definitions).

A pairwise table is a constant, two unary parts and an interaction K whose rows and columns sum to
zero. The unary parts are exact in every bound; what is approximated is

.. math:: Q(x) = \sum_{(i,j)} K_{ij}[x_i, x_j] = \tfrac12 z^T W z

where :math:`z_i = H_i^T e(x_i)` is the one-hot vector of :math:`x_i` in an orthonormal basis of the
complement of the ones vector: one number, :math:`\pm 1/\sqrt 2`, for a binary variable. A matrix R
that is block-diagonal contributes a unary term, exactly, and :math:`\|z_i\|^2 = 1 - 1/k_i` always.
So whatever the matrix B, the scalar t and the positive diagonal D,

.. math:: B + R + tD - W \succeq 0 \implies Q(x) \le \tfrac12 z^T B z + \text{unaries of } R + tD

for every x: no assumption on the potentials, t may be negative, and an error in t costs only
:math:`\tfrac12 \sum_i D_i (1 - 1/k_i)` times its size. That is how bounds stay rigorous: t is an
eigenvalue, and what its computation can have lost is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import linalg

from valuesparse._rounding import EPS

__all__ = ["Quadratic", "helmert", "interaction", "shift"]

Floats = npt.NDArray[np.float64]

#: Above this many rows the largest eigenvalue is replaced by Gershgorin's bound.
DENSE = 3000


def helmert(k: int) -> Floats:
    """Return (k, k - 1): an orthonormal basis of the vectors that sum to zero."""
    basis = np.zeros((k, k - 1))
    for j in range(1, k):
        basis[:j, j - 1] = 1.0 / np.sqrt(j * (j + 1))
        basis[j, j - 1] = -j / np.sqrt(j * (j + 1))
    return basis


def interaction(table: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a doubly centred table and the unary parts that were taken off it."""
    rows = table.mean(axis=1)
    columns = table.mean(axis=0) - table.mean()
    return table - rows[:, None] - columns[None, :], rows, columns


class Quadratic:
    """W of a model and of some of its edges, with the moduli that make Laplacians of them.

    `modulus` holds, for every edge, |K| seen from either end: with it on the diagonal,
    ``[[|K|, K], [K', |K|]]`` and the same with -K are positive semidefinite, as the Laplacian of
    an edge is.
    """

    def __init__(
        self, cards: Sequence[int], edges: Sequence[tuple[int, int]], kernels: Sequence[Floats]
    ) -> None:
        self.cards = list(cards)
        bases = {k: helmert(k) for k in set(cards)}
        self.bases = [bases[k] for k in cards]
        self.first = np.concatenate([[0], np.cumsum([k - 1 for k in cards])]).astype(np.int64)
        self.size = int(self.first[-1])
        self.edges = list(edges)
        self.blocks = [
            self.bases[i].T @ k @ self.bases[j] for (i, j), k in zip(edges, kernels, strict=True)
        ]
        self.moduli = [_moduli(b) for b in self.blocks]
        self.weight = np.array([float(np.linalg.norm(b, "nuc")) for b in self.blocks])

    def rows(self, v: int) -> slice:
        """Rows of variable v."""
        return slice(int(self.first[v]), int(self.first[v + 1]))

    def matrices(self, which: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return (W, G) of the chosen edges: interactions, and moduli on the diagonal."""
        w, g = np.zeros((self.size, self.size)), np.zeros((self.size, self.size))
        for e in np.flatnonzero(which):
            i, j = (self.rows(v) for v in self.edges[e])
            left, right = self.moduli[e]
            w[i, j] += self.blocks[e]
            w[j, i] += self.blocks[e].T
            g[i, i] += left
            g[j, j] += right
        return w, g

    def diagonal(self, which: npt.NDArray[np.bool_]) -> Floats:
        """Return D, one positive number per variable: the weight of the edges left out there."""
        d = np.zeros(len(self.cards))
        every = np.zeros(len(self.cards))
        for e, (i, j) in enumerate(self.edges):
            for v in (i, j):
                every[v] += self.weight[e]
                d[v] += 0.0 if which[e] else self.weight[e]
        return d + 0.05 * every.mean() + 1e-12 if len(d) else d

    def spread(self, d: Floats) -> Floats:
        """Return a number per variable as one per row."""
        return np.repeat(d, np.diff(self.first))

    def price(self, d: Floats) -> float:
        """Return what t = 1 costs: half the sum of D over the squared lengths of z."""
        return 0.5 * float((d * (1.0 - 1.0 / np.array(self.cards))).sum())

    def unary(self, v: int, r: Floats) -> Floats:
        """Return the unary scores of the block of R at variable v."""
        h, rows = self.bases[v], self.rows(v)
        values: Floats = 0.5 * np.einsum("xa,ab,xb->x", h, r[rows, rows], h)
        return values


def shift(
    target: Floats, parts: Sequence[Floats], d: Floats, relative: float = 0.0
) -> tuple[float, float]:
    """Return t with sum(parts) + t D - target positive semidefinite, and what t may lack.

    `relative` is the error of the entries of `parts` in units of eps.
    """
    n = len(d)
    if not n:
        return 0.0, 0.0
    s = 1.0 / np.sqrt(d)
    m = target.copy()
    size = float(np.linalg.norm(target * s[:, None] * s[None, :]))
    for part in parts:
        m -= part
        size += float(np.linalg.norm(part * s[:, None] * s[None, :]))
    m *= s[:, None]
    m *= s[None, :]
    if n > DENSE:
        t = _gershgorin(m)
    else:
        try:
            only = [n - 1, n - 1]
            t = float(linalg.eigvalsh(m, subset_by_index=only, driver="evx")[0])
        except linalg.LinAlgError:
            t = _gershgorin(m)
    return t, (16.0 * n + 64.0 + relative) * EPS * size


def _gershgorin(m: Floats) -> float:
    diagonal = m.diagonal()
    return float((np.abs(m).sum(axis=1) - np.abs(diagonal) + diagonal).max())


def _moduli(block: Floats) -> tuple[Floats, Floats]:
    u, s, vt = np.linalg.svd(block, full_matrices=False)
    return (u * s) @ u.T, (vt.T * s) @ vt
