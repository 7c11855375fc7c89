"""How weights follow from one example: the rules of online learning."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from valuesparse._validation import as_count, as_flag, is_real, require_room
from valuesparse.learning._state import Fields, vector
from valuesparse.learning.parts import (
    Array,
    Indices,
    PartModel,
    Together,
    loss_and_gradient,
    require_loss,
)

__all__ = ["Aggressive", "Arow", "PassiveAggressive", "Perceptron", "Rule", "Update"]


class Update(NamedTuple):
    """The answer to one example: its loss, and the change of weights `indices` (None: none)."""

    loss: float
    indices: Indices | None = None
    change: Array | None = None


class Rule(Protocol):
    """How weights follow from one example."""

    def update(self, model: PartModel, i: int, weights: Array) -> Update:
        """Return what example i says."""

    def fields(self) -> Fields:
        """Return what the rule's state consists of."""

    def state(self) -> dict[str, Array]:
        """Return what the rule remembers."""

    def restore(self, state: dict[str, Array]) -> None:
        """Remember it again; it is as :meth:`fields` says, and its own."""


class _Forgetful:
    """A rule that remembers nothing."""

    def fields(self) -> Fields:
        """Return nothing."""
        return {}

    def state(self) -> dict[str, Array]:
        """Return nothing."""
        return {}

    def restore(self, state: dict[str, Array]) -> None:
        """Do nothing."""


class Aggressive(_Forgetful):
    """Algorithm 1 of MSFXM10: the step is as long as the loss asks for, and no longer.

    ::

        θ ← θ − min(1 / (λ m), L / ‖∇L‖²) ∇L

    Parameters
    ----------
    beta, gamma : float
        The loss: see :func:`loss_and_gradient`.
    longest : float
        1 / (λ m), the longest step; inf never shortens one.
    """

    def __init__(self, beta: float = 1.0, gamma: float = 0.0, longest: float = math.inf) -> None:
        require_loss(beta, gamma)
        if not is_real(longest) or not longest > 0.0:
            raise ValueError(f"longest must be above 0, not {longest!r}")
        self.beta, self.gamma, self.longest = beta, gamma, longest

    def update(self, model: PartModel, i: int, weights: Array) -> Update:
        """Step against the gradient, as far as the loss asks for."""
        loss, indices, values = loss_and_gradient(model, i, weights, self.beta, self.gamma)
        square = float(values @ values)
        if square == 0.0 or loss == 0.0:
            return Update(loss)
        return Update(loss, indices, -min(self.longest, loss / square) * values)


class _Mistake(NamedTuple):
    """The best structure, where it is not the right one."""

    best: Array
    step: Array  #: Its parts less the right ones.
    lead: float  #: By how much it scores higher.
    wrong: float  #: Its cost.
    constant: float  #: The part of a cost that no structure changes.


def _mistake(model: PartModel, i: int, weights: Array) -> _Mistake | None:
    scores = model.scores(i, weights)
    mu = model.best(i, scores)
    p, q = model.cost(i)
    wrong = float(p @ mu) + q
    if wrong <= 0.0:
        return None
    step = mu - model.gold(i)
    return _Mistake(mu, step, float(scores @ step), wrong, q)


def _share(wrong: float, constant: float) -> float:
    """Return a cost as a share of that of a structure that is all wrong."""
    return 0.5 * wrong / constant if constant > 0.0 else wrong


def _shares(model: Together, structures: Array) -> float:
    """Return the sum of the shares of several structures."""
    total = 0.0
    for k, own in model.each(structures):
        p, q = model.model.cost(k)
        total += _share(float(p @ own) + q, q)
    return total


class Perceptron(_Forgetful):
    """The structured perceptron: the right structure in, the best one out, step 1.

    Its loss is a share of the cost of a structure that is all wrong, 2 q: wrong labels per label.
    The loss of a batch is the sum of these shares. Where no part is right, q is 0, and the loss is
    the cost.
    """

    def update(self, model: PartModel, i: int, weights: Array) -> Update:
        """Add the right structure and subtract the best, if they differ."""
        found = _mistake(model, i, weights)
        if found is None:
            return Update(0.0)
        indices, values = model.gradient(i, found.step)
        if isinstance(model, Together):
            return Update(_shares(model, found.best), indices, -values)
        return Update(_share(found.wrong, found.constant), indices, -values)


class PassiveAggressive(_Forgetful):
    """Passive-aggressive learning of Crammer et al. (JMLR 7, 2006), against the best structure.

    Parameters
    ----------
    kind : int
        0 without slack, 1 PA-I, 2 PA-II.
    c : float
        Aggressiveness.
    error_sensitive : bool
        Whether the margin is the root of the number of errors instead of 1.
    """

    def __init__(self, kind: int = 1, c: float = 1.0, error_sensitive: bool = True) -> None:
        if not is_real(kind) or kind not in (0, 1, 2):
            raise ValueError(f"kind is {kind!r}: CRFsuite's type must be 0, 1 or 2")
        if not is_real(c) or not c > 0.0:
            raise ValueError(f"c must be above 0, not {c!r}")
        self.kind, self.c = kind, c
        self.error_sensitive = as_flag("error_sensitive", error_sensitive)

    def update(self, model: PartModel, i: int, weights: Array) -> Update:
        """Step until the right structure beats the best by the margin."""
        found = _mistake(model, i, weights)
        if found is None:
            return Update(0.0)
        margin = math.sqrt(found.wrong) if self.error_sensitive else 1.0
        loss = found.lead + margin
        indices, values = model.gradient(i, found.step)
        square = float(values @ values)
        if square == 0.0:
            return Update(loss)
        if self.kind == 0:
            step = loss / square
        elif self.kind == 1:
            step = min(self.c, loss / square)
        else:
            step = loss / (square + 0.5 / self.c)
        return Update(loss, indices, -step * values)


class Arow:
    """Adaptive regularisation of weights of Crammer et al. (NIPS 2009), diagonal variances.

    Parameters
    ----------
    n_weights : int
        The number of weights.
    variance : float
        The variance of each weight at the beginning.
    gamma : float
        The larger, the more cautious.
    """

    def __init__(self, n_weights: int, variance: float = 1.0, gamma: float = 1.0) -> None:
        n_weights = as_count("n_weights", n_weights, at_least=0)
        require_room("n_weights", n_weights, 1)
        for name, value in (("variance", variance), ("gamma", gamma)):
            if not is_real(value) or not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, not {value!r}")
        self.gamma = gamma
        self.variance = np.full(n_weights, float(variance))
        self._first = float(variance)

    def update(self, model: PartModel, i: int, weights: Array) -> Update:
        """Step towards the margin, further for weights that vary more."""
        found = _mistake(model, i, weights)
        if found is None:
            return Update(0.0)
        loss = found.lead + found.wrong
        indices, values = model.gradient(i, found.step)
        variance = self.variance[indices]
        step = loss / (self.gamma + float(variance @ (values * values)))
        self.variance[indices] = 1.0 / (1.0 / variance + values * values / self.gamma)
        return Update(loss, indices, -step * variance * values)

    def fields(self) -> Fields:
        """Return that there are variances; they only become smaller."""
        return {"variance": vector(len(self.variance), least=0.0, most=self._first)}

    def state(self) -> dict[str, Array]:
        """Return a copy of the variances."""
        return {"variance": self.variance.copy()}

    def restore(self, state: dict[str, Array]) -> None:
        """Take up the variances."""
        self.variance = state["variance"].copy()
