"""Online learning of structured models, an example or a batch of them at a time.

Written once for every model that can give marginals or a best structure: see
:class:`valuesparse.learning.PartModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from valuesparse import _vectors
from valuesparse._validation import as_count, as_threshold
from valuesparse.learning._state import (
    ENDED,
    ENDING,
    LARGEST,
    RANDOM,
    Field,
    Fields,
    StateError,
    as_numbers,
    as_threads,
    checked,
    ending,
    generator,
    random_state,
    require_finite,
    restored_random,
    vector,
)
from valuesparse.learning.parts import Array, Indices, PartModel, Together
from valuesparse.learning.rules import Arow, Rule

__all__ = ["Epoch", "Online"]

_TELL_AFTER = 32  # batches: a second of linear programs


@dataclass(frozen=True)
class Epoch:
    """The report of one pass over the examples.

    Attributes
    ----------
    number : int
        Counted from 1.
    loss : float
        Sum over the examples, each at the time it was met.
    updates : int
        Batches that changed weights.
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
        Seed of the order.
    average : bool
        Whether :meth:`result` is the mean of the weights before each update, or the last.
    strict : bool
        Whether to stop only where the loss per example is below `epsilon`.
    closing : bool
        Whether the mean counts the last weights, too.
    average_after : int
        Passes whose weights do not count in the mean, where there are more than so many (suffix
        averaging).
    batch : int
        Examples whose gradients are taken at the same weights and added, in their order: the rule
        sees them as one example. 1 is Algorithm 1 of MSFXM10.
    progress : callable, optional
        Called within a pass, after every so many batches, with the pass, the share of it that is
        done, and the loss of an example so far. Weights are the same bits without it.

    Attributes
    ----------
    weights : (n_weights,) float64
        The last weights. Those that are assigned are where the next pass begins; passes change
        them in place.
    touched : (n_weights,) bool
        Which have been updated. Starting from no feature at all and adding those of parts that
        were predicted and should not have been, or the reverse, this is the active set F of
        MSFXM10 for β = ∞: with a model of the complete feature set, weights outside F are 0.
    reason : str or None
        ``"max_iterations"`` or ``"converged"``.

    Notes
    -----
    Batches are taken one after another: each needs the weights that the one before has left.
    A :class:`SweepingModel` may take a pass with a rule that it knows by itself.
    The mean is kept as Σ t δ_t beside Σ δ_t, so that an update costs what it changes.
    After an exception inside a pass, Ctrl-C too, `weights` have some of its steps. Restore a state
    of before then: the learner does not go on without, nor has it a state or a result.
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
        batch: int = 1,
        average_after: int = 0,
        progress: Callable[[int, float, float], object] | None = None,
    ) -> None:
        as_count("epochs", epochs, at_least=0)
        as_count("batch", batch, at_least=1)
        as_count("average_after", average_after, at_least=0)
        as_threshold("epsilon", epsilon)
        if isinstance(rule, Arow) and len(rule.variance) != model.n_weights:
            raise ValueError(
                f"rule: this Arow is for {len(rule.variance)} weights, but the model has "
                f"{model.n_weights}"
            )
        self.model, self.rule = model, rule
        self.epochs, self.epsilon, self.average = epochs, epsilon, average
        self.strict, self.closing, self.batch = strict, closing, batch
        self.average_after, self.progress = average_after, progress
        self._weights = np.zeros(model.n_weights)
        self.touched = np.zeros(model.n_weights, bool)
        self.reason: str | None = None
        self.done = 0
        self._late = np.zeros(model.n_weights)  # Σ (t - before) δ_t
        self._time = self._before = 0
        self._random = generator(seed)
        self._cut_off = False

    @property
    def weights(self) -> Array:
        """The last weights, (n_weights,). Passes change them in place, those that are set, too."""
        return self._weights

    @weights.setter
    def weights(self, weights: Array) -> None:
        array = as_numbers("weights", weights, self.model.n_weights)
        require_finite("weights", array, "; weights must be finite")
        self._weights = array if array.flags.writeable else array.copy()

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

    def result(self, threads: int = 1) -> Array:
        """Return the weights learnt: their mean over all updates, or the last.

        Parameters
        ----------
        threads : int
            Weights are spread over so many.

        Raises
        ------
        ValueError
            An exception has cut a pass off, and no state was restored.
        """
        self._require_whole()
        workers = as_threads(threads)
        if not self.average or self._time == 0:
            return self.weights.copy()
        mean = np.empty_like(self.weights)
        count = self._time - self._before + self.closing
        _vectors.mean(self.weights, self._late, float(count), mean, workers)
        return mean

    def fields(self) -> Fields:
        """Return what a state of this learner consists of."""
        n = self.model.n_weights
        return {
            "weights": vector(n), "late": vector(n, least=-LARGEST**2, most=LARGEST**2),
            "touched": Field("?", (n,)), "done": Field("i8", least=0),
            "time": Field("i8", least=0), "random": RANDOM,
            "ended": ENDING,
            **{f"rule_{name}": field for name, field in self.rule.fields().items()},
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return all that the next pass depends on: numbers, and copies of arrays.

        Raises
        ------
        ValueError
            An exception has cut a pass off, and no state was restored.
        """
        self._require_whole()
        return {
            "weights": self.weights.copy(), "late": self._late.copy(),
            "touched": self.touched.copy(),
            "done": self.done, "time": self._time, "random": random_state(self._random),
            "ended": ending(self.reason),
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
        each = self._batches(len(self.model))
        if time != done * each:
            raise StateError(f"'time' must be {done} × {each} batches, not {time}")
        self._random = restored_random(found["random"])
        self.weights, self._late = found["weights"].copy(), found["late"].copy()
        self.touched = found["touched"].copy()
        self.done, self._time = done, time
        self._before = self.average_after * each if done > self.average_after else 0
        self.reason = ENDED[int(found["ended"])]
        self.rule.restore({key[5:]: found[key] for key in found if key.startswith("rule_")})
        self._cut_off = False

    def _require_whole(self) -> None:
        """Raise StateError after a pass that an exception cut off."""
        if self._cut_off:
            raise StateError(
                f"pass {self.done + 1} was cut off by an exception, with some of its steps done: "
                "restore a state of before, or make a new learner"
            )

    def _pass(self) -> Epoch:
        self._require_whole()
        try:
            return self._all_examples()
        except BaseException:  # copies to go back to would cost small data a tenth of the time
            self._cut_off = True
            raise

    def _all_examples(self) -> Epoch:
        as_count("batch", self.batch, at_least=1)  # it may have been set since
        order = self._random.permutation(len(self.model))
        if self.average_after and self.done == self.average_after:
            self._late[:] = 0.0
            self._before = self._time
        step = max(1, len(order)) if self.progress is None else _TELL_AFTER * self.batch
        loss, updates = 0.0, 0
        for first in range(0, len(order), step):
            some = order[first : first + step]
            lost, changed = self._sweep(some) or self._walk(some)
            loss, updates = loss + lost, updates + changed
            seen = first + len(some)
            if self.progress is not None and seen < len(order):
                self.progress(self.done + 1, seen / len(order), loss / seen)
        self.done += 1
        return Epoch(self.done, loss, updates, int(np.count_nonzero(self.touched)))

    def _sweep(self, order: Indices) -> tuple[float, int] | None:
        """Let the model take these batches of the pass, if it can."""
        sweep = getattr(self.model, "sweep", None)
        if sweep is None:
            return None
        found = sweep(
            self.rule, order, self.weights, self._late, self.touched, self._time - self._before,
            self.batch,
        )  # fmt: skip
        if found is not None:
            self._time += self._batches(len(order))
        return found

    def _batches(self, examples: int) -> int:
        return -(-examples // self.batch)

    def _walk(self, order: Indices) -> tuple[float, int]:
        """Take these examples batch by batch, with any rule and any model."""
        loss, updates = 0.0, 0
        for first in range(0, len(order), self.batch):
            which = order[first : first + self.batch].tolist()
            self._time += 1
            if self.batch == 1:
                update = self.rule.update(self.model, which[0], self.weights)
            else:
                update = self.rule.update(Together(self.model, which), 0, self.weights)
            loss += update.loss
            if update.indices is None or update.change is None:
                continue
            updates += 1
            self.weights[update.indices] += update.change
            self.touched[update.indices[update.change != 0.0]] = True
            # θ_t is the weights before update t: δ_t counts from t + 1 on.
            self._late[update.indices] += (self._time - self._before) * update.change
        return loss, updates
