"""Structures made of parts: what learning asks of a model, and the losses of MSFXM10."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse._validation import is_real

__all__ = [
    "Array",
    "Indices",
    "PartModel",
    "SweepingModel",
    "Together",
    "loss_and_gradient",
    "require_loss",
    "supported",
]

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class PartModel(Protocol):
    """Examples whose structures are made of parts: what a learner needs to know of them.

    Example i has P_i parts; a structure is a vector of (P_i,) numbers, how often it has each part,
    and scores ⟨potentials, structure⟩ where potentials = scores(i, weights) are linear in the
    weights. A chain has a part for each position and label and one for each transition; a
    dependency parser has one for each arc.

    Attributes
    ----------
    n_weights : int
        The number of weights.
    """

    n_weights: int

    def __len__(self) -> int:
        """Return the number of examples."""

    def scores(self, i: int, weights: Array) -> Array:
        """Return the potentials of the parts, F(x) θ in MSFXM10."""

    def gold(self, i: int) -> Array:
        """Return the right structure z."""

    def cost(self, i: int) -> tuple[Array, float]:
        """Return p and q: structure μ costs ⟨p, μ⟩ + q.

        The Hamming distance of MSFXM10 is p = 1 − 2z, q = Σ z; it counts an error twice, as a
        part that is missing and one that is too many.
        """

    def marginals(self, i: int, potentials: Array) -> tuple[float, Array]:
        """Return log Z and the expected structure under exp⟨potentials, ·⟩."""

    def best(self, i: int, potentials: Array) -> Array:
        """Return the structure that scores best."""

    def gradient(self, i: int, residual: Array) -> tuple[Indices, Array]:
        """Return F(x)ᵀ residual: weights, once each, and their values; others are 0."""


class SweepingModel(PartModel, Protocol):
    """A model that can take a whole pass by itself, faster than part by part."""

    def sweep(
        self,
        rule: Any,
        order: Indices,
        weights: Array,
        late: Array,
        touched: npt.NDArray[np.bool_],
        time: int,
        batch: int,
    ) -> tuple[float, int] | None:
        """Do to the arrays what :class:`Online` does with the examples `order`; None: it cannot.

        Return the summed loss and the number of updates. `late` gets time × change, where the
        first batch is at `time` + 1.
        """


class Together:
    """Some examples as one, whose parts are those of all, one example after the other.

    Parameters
    ----------
    model : PartModel
        The examples.
    which : sequence of int
        Those that are taken together.
    """

    def __init__(self, model: PartModel, which: Sequence[int]) -> None:
        self.model, self.which = model, which
        self.n_weights = model.n_weights
        self._ends = np.cumsum([len(model.gold(i)) for i in which])[:-1]

    def __len__(self) -> int:
        return 1

    def scores(self, i: int, weights: Array) -> Array:
        """Return the potentials of all parts."""
        return np.concatenate([self.model.scores(k, weights) for k in self.which])

    def gold(self, i: int) -> Array:
        """Return the right structures."""
        return np.concatenate([self.model.gold(k) for k in self.which])

    def cost(self, i: int) -> tuple[Array, float]:
        """Return p and q of the summed costs."""
        costs = [self.model.cost(k) for k in self.which]
        return np.concatenate([p for p, _ in costs]), sum(q for _, q in costs)

    def marginals(self, i: int, potentials: Array) -> tuple[float, Array]:
        """Return the summed log Z and the expected structures."""
        found = [self.model.marginals(k, own) for k, own in self.each(potentials)]
        return sum(log_z for log_z, _ in found), np.concatenate([mu for _, mu in found])

    def best(self, i: int, potentials: Array) -> Array:
        """Return the structures that score best."""
        return np.concatenate([self.model.best(k, own) for k, own in self.each(potentials)])

    def gradient(self, i: int, residual: Array) -> tuple[Indices, Array]:
        """Return the summed gradient."""
        found = [self.model.gradient(k, own) for k, own in self.each(residual)]
        indices, place = np.unique(np.concatenate([at for at, _ in found]), return_inverse=True)
        values = np.zeros(len(indices))
        np.add.at(values, place, np.concatenate([value for _, value in found]))
        return indices, values

    def each(self, parts: Array) -> list[tuple[int, Array]]:
        """Return the examples, each with its own of all parts."""
        return list(zip(self.which, np.split(parts, self._ends), strict=True))


def loss_and_gradient(
    model: PartModel, i: int, weights: Array, beta: float, gamma: float
) -> tuple[float, Indices, Array]:
    """Return the loss L_{β,γ} of example i and its gradient (MSFXM10, Fig. 4 and Eq. 24).

    ::

        L(θ; x, y) = 1/β log Σ_y' exp β [θ · (φ(x, y') − φ(x, y)) + γ ℓ(y', y)]

    (β, γ) = (1, 0) is the loss of CRFs, (1, 1) softmax-margin, (∞, 1) the structured SVM and
    (∞, 0) the structured perceptron.

    Parameters
    ----------
    model : PartModel
        The examples.
    i : int
        Which.
    weights : (n_weights,) float64
        θ.
    beta : float
        Above 0; inf takes the structure that is best for scores plus cost.
    gamma : float
        At least 0.

    Returns
    -------
    loss : float
        At least 0: what rounding or an approximate engine leaves below is 0.
    indices, values : arrays
        The gradient (a subgradient for β = ∞), weights once each.

    Raises
    ------
    ValueError
        `beta` or `gamma` is out of its range, or the loss is not finite.
    """
    require_loss(beta, gamma)
    z = model.gold(i)
    scores = model.scores(i, weights)
    augmented, q = scores, 0.0
    if gamma > 0.0:
        p, q = model.cost(i)
        augmented = scores + gamma * p
    if math.isinf(beta):
        mu = model.best(i, augmented)
        top = float(augmented @ mu)
    else:
        log_z, mu = model.marginals(i, beta * augmented if beta != 1.0 else augmented)
        top = log_z / beta
    loss = top + gamma * q - float(scores @ z)
    if not math.isfinite(loss):  # max would take NaN for 0
        which = f"examples {model.which}" if isinstance(model, Together) else f"example {i}"
        raise ValueError(
            f"{which}: the loss is {loss}; scores, cost, marginals and log Z of a model must be "
            "finite"
        )
    indices, values = model.gradient(i, mu - z)
    return max(0.0, loss), indices, values


def require_loss(beta: float, gamma: float) -> None:
    """Raise ValueError where there is no such loss."""
    if not is_real(beta) or not beta > 0.0:
        raise ValueError(f"beta must be above 0 (inf for the best structure), not {beta!r}")
    if not is_real(gamma) or not 0.0 <= gamma < math.inf:
        raise ValueError(f"gamma must be at least 0 and finite, not {gamma!r}")


def supported(model: PartModel) -> npt.NDArray[np.bool_]:
    """Return which weights occur with some right structure (MSFXM10, section 5)."""
    found = np.zeros(model.n_weights, bool)
    for i in range(len(model)):
        indices, values = model.gradient(i, model.gold(i))
        found[indices[values != 0.0]] = True
    return found
