"""Online learning of structured models, one example at a time.

Written once for every model that can give marginals or a best structure: see :class:`PartModel`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse.learning._state import (
    ENDED,
    LARGEST,
    RANDOM,
    Field,
    Fields,
    StateError,
    checked,
    generator,
    random_state,
    restored_random,
    vector,
)

__all__ = [
    "Aggressive",
    "Arow",
    "Epoch",
    "Online",
    "PartModel",
    "PassiveAggressive",
    "Perceptron",
    "SweepingModel",
    "Update",
    "loss_and_gradient",
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
    ) -> tuple[float, int] | None:
        """Do to the arrays what :class:`Online` does with the examples `order`; None: it cannot.

        Return the summed loss and the number of updates. `late` gets time × change, where the
        first example is at `time` + 1.
        """


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
    """
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
    loss = max(0.0, top + gamma * q - float(scores @ z))
    indices, values = model.gradient(i, mu - z)
    return loss, indices, values


def supported(model: PartModel) -> npt.NDArray[np.bool_]:
    """Return which weights occur with some right structure (MSFXM10, section 5)."""
    found = np.zeros(model.n_weights, bool)
    for i in range(len(model)):
        indices, values = model.gradient(i, model.gold(i))
        found[indices[values != 0.0]] = True
    return found


class Update(NamedTuple):
    """What one example says: its loss, and what to add to which weights (None: nothing)."""

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
        if not beta > 0.0:
            raise ValueError(f"beta must be above 0 (inf for the best structure), not {beta}")
        if not 0.0 <= gamma < math.inf:
            raise ValueError(f"gamma must be at least 0 and finite, not {gamma}")
        if not longest > 0.0:
            raise ValueError(f"longest must be above 0, not {longest}")
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

    step: Array  #: Its parts less the right ones.
    lead: float  #: By how much it scores higher.
    wrong: float  #: Its cost.
    constant: float  #: What does not depend on the structure in a cost.


def _mistake(model: PartModel, i: int, weights: Array) -> _Mistake | None:
    scores = model.scores(i, weights)
    mu = model.best(i, scores)
    p, q = model.cost(i)
    wrong = float(p @ mu) + q
    if wrong <= 0.0:
        return None
    step = mu - model.gold(i)
    return _Mistake(step, float(scores @ step), wrong, q)


class Perceptron(_Forgetful):
    """The structured perceptron: the right structure in, the best one out, step 1.

    Its loss is a share of the cost of a structure that is all wrong, 2 q: wrong labels per label.
    """

    def update(self, model: PartModel, i: int, weights: Array) -> Update:
        """Add the right structure and subtract the best, if they differ."""
        found = _mistake(model, i, weights)
        if found is None:
            return Update(0.0)
        indices, values = model.gradient(i, found.step)
        return Update(0.5 * found.wrong / found.constant, indices, -values)


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
        if kind not in (0, 1, 2):
            raise ValueError(f"type must be 0, 1 or 2, not {kind}")
        if not c > 0.0:
            raise ValueError(f"c must be above 0, not {c}")
        self.kind, self.c, self.error_sensitive = kind, c, error_sensitive

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
        Of each weight at the beginning.
    gamma : float
        The larger, the more cautious.
    """

    def __init__(self, n_weights: int, variance: float = 1.0, gamma: float = 1.0) -> None:
        for name, value in (("variance", variance), ("gamma", gamma)):
            if not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, not {value}")
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
        """Return the variances."""
        return {"variance": self.variance}

    def restore(self, state: dict[str, Array]) -> None:
        """Take up the variances."""
        self.variance = state["variance"]


@dataclass(frozen=True)
class Epoch:
    """What one pass over the examples did.

    Attributes
    ----------
    number : int
        Counted from 1.
    loss : float
        Sum over the examples, each at the time it was met.
    updates : int
        Examples that changed weights.
    active : int
        Weights that have been updated so far: the active set of MSFXM10, section 5.
    """

    number: int
    loss: float
    updates: int
    active: int


class Online:
    """Learn weights by passing over examples in random order.

    Iterate over it: each step is an :class:`Epoch`.

    Parameters
    ----------
    model : PartModel
        The examples.
    rule : Rule
        :class:`Aggressive`, :class:`Perceptron`, :class:`PassiveAggressive`, :class:`Arow` or one
        of your own.
    epochs : int
        Passes at most.
    epsilon : float
        Stop after a pass whose loss per example is at most this.
    seed : int
        Of the order.
    average : bool
        Whether :meth:`result` is the mean of the weights before each update, or the last.
    strict : bool
        Whether to stop only where the loss per example is below `epsilon`.
    closing : bool
        Whether the mean counts the last weights, too.

    Attributes
    ----------
    weights : (n_weights,) float64
        The last weights.
    touched : (n_weights,) bool
        Which have been updated. Starting from no feature at all and adding those of parts that
        were predicted and should not have been, or the reverse, this is the active set F of
        MSFXM10 for β = ∞: with a model of the complete feature set, weights outside F are 0.
    reason : str or None
        ``"max_iterations"`` or ``"converged"``.

    Notes
    -----
    Examples are taken one after another: each needs the weights that the one before has left.
    A :class:`SweepingModel` may take a pass with a rule that it knows by itself.
    The mean is kept as Σ t δ_t beside Σ δ_t, so that an update costs what it changes.
    """

    def __init__(
        self,
        model: PartModel,
        rule: Rule,
        *,
        epochs: int = 10,
        epsilon: float = 0.0,
        seed: int = 0,
        average: bool = True,
        strict: bool = False,
        closing: bool = False,
    ) -> None:
        self.model, self.rule = model, rule
        self.epochs, self.epsilon, self.average = epochs, epsilon, average
        self.strict, self.closing = strict, closing
        self.weights = np.zeros(model.n_weights)
        self.touched = np.zeros(model.n_weights, bool)
        self.reason: str | None = None
        self.done = 0
        self._late = np.zeros(model.n_weights)  # Σ t δ_t
        self._time = 0
        self._random = generator(seed)

    def __iter__(self) -> Iterator[Epoch]:
        count = len(self.model)
        if self.reason == "max_iterations":  # there may be more now
            self.reason = None
        if count == 0:
            self.reason = "converged"
        while self.reason is None:
            if self.done >= self.epochs:
                self.reason = "max_iterations"
                return
            epoch = self._pass()
            mean = epoch.loss / count
            if mean < self.epsilon or (mean == self.epsilon and not self.strict):
                self.reason = "converged"
            yield epoch

    def result(self) -> Array:
        """Return the weights learnt: their mean over all updates, or the last."""
        if not self.average or self._time == 0:
            return self.weights.copy()
        return self.weights - self._late / (self._time + self.closing)

    def fields(self) -> Fields:
        """Return what a state of this learner consists of."""
        n = self.model.n_weights
        return {
            "weights": vector(n), "late": vector(n, least=-LARGEST**2, most=LARGEST**2),
            "touched": Field("?", (n,)), "done": Field("i8", least=0),
            "time": Field("i8", least=0), "random": RANDOM,
            "ended": Field("i8", least=0, most=len(ENDED) - 1),
            **{f"rule_{name}": field for name, field in self.rule.fields().items()},
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return all that the next pass depends on: numbers and arrays."""
        return {
            "weights": self.weights, "late": self._late, "touched": self.touched,
            "done": self.done, "time": self._time, "random": random_state(self._random),
            "ended": ENDED.index(self.reason) if self.reason in ENDED else 0,
            **{f"rule_{name}": value for name, value in self.rule.state().items()},
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned.

        Raises
        ------
        ValueError
            It is not the state of such a learner; nothing has changed then.
        """
        found = checked(state, self.fields())
        done, time = int(found["done"]), int(found["time"])
        if time != done * len(self.model):
            raise StateError(f"'time' must be {done} × {len(self.model)} examples, not {time}")
        self._random = restored_random(found["random"])
        self.weights, self._late, self.touched = found["weights"], found["late"], found["touched"]
        self.done, self._time = done, time
        self.reason = ENDED[int(found["ended"])]
        self.rule.restore({key[5:]: found[key] for key in found if key.startswith("rule_")})

    def _pass(self) -> Epoch:
        order = self._random.permutation(len(self.model))
        loss, updates = self._sweep(order) or self._walk(order)
        self.done += 1
        return Epoch(self.done, loss, updates, int(np.count_nonzero(self.touched)))

    def _sweep(self, order: Indices) -> tuple[float, int] | None:
        """Let the model take the pass, if it can."""
        sweep = getattr(self.model, "sweep", None)
        if sweep is None:
            return None
        found = sweep(self.rule, order, self.weights, self._late, self.touched, self._time)
        if found is not None:
            self._time += len(order)
        return found

    def _walk(self, order: Indices) -> tuple[float, int]:
        """Take the pass example by example, with any rule and any model."""
        loss, updates = 0.0, 0
        for i in order.tolist():
            self._time += 1
            said = self.rule.update(self.model, i, self.weights)
            loss += said.loss
            if said.indices is None or said.change is None:
                continue
            updates += 1
            self.weights[said.indices] += said.change
            self.touched[said.indices[said.change != 0.0]] = True
            # θ_t is the weights before update t: δ_t counts from t + 1 on.
            self._late[said.indices] += self._time * said.change
        return loss, updates
