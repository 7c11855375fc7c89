"""Stochastic gradient descent for the L2-regularised loss of CRFs, with a calibrated rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.crf.training._objective import Objective
from valuesparse.crf.training._progress import Progress, line_of
from valuesparse.learning._checkpoint import Checkpoint
from valuesparse.learning._state import (
    ENDED,
    ENDING,
    LARGEST,
    RANDOM,
    Field,
    Fields,
    StateError,
    checked,
    ending,
    generator,
    number,
    random_state,
    restored_random,
    vector,
)

__all__ = ["Sgd"]

Weights = npt.NDArray[np.float64]

# With rates of 1e-100 and more, 1 / (λ · rate) is finite.
_LEAST_DECAY = 1e-200


class Sgd:
    """Passes with the rate 1 / (λ (t0 + t)), λ = 2 c2 / B, chosen by trials on a sample.

    Weights are kept as a factor times a vector: shrinking them all, as L2 does at every step, costs
    one multiplication. The weights with the best loss of any pass are the result.
    """

    def __init__(
        self,
        objective: Objective,
        values: dict[str, Any],
        seed: int,
        tell: Callable[[str], None],
        checkpoint: Checkpoint | None,
    ) -> None:
        self.objective, self.values, self.checkpoint = objective, values, checkpoint
        self.count = objective.corpus.n_sequences if objective.n_labels else 0
        self.decay = _decay(values["c2"], max(self.count, 1))
        self.random = generator(seed)
        self.reason: str | None = None
        self.vector, self.factor = np.zeros(objective.n_weights), 1.0
        self.best, self.best_loss = self.vector.copy(), math.inf
        self.past: list[float] = []
        self.done, self.time, self.eta = 0, 0, math.nan
        tell("Stochastic Gradient Descent (SGD)\n")
        for name in ("c2", "max_iterations", "period", "delta"):
            tell(line_of(name, values[name]))
        tell("\n")
        resumed = checkpoint is not None and checkpoint.resume(self)
        if self.count and not resumed:
            self._calibrate(tell)

    def __iter__(self) -> Iterator[Progress]:
        values = self.values
        while self.reason is None:
            if self.done >= values["max_iterations"] or not self.count:
                self.reason = "max_iterations"
                break
            loss = self._pass(self.random.permutation(self.count), self.eta)
            weights = self._weights()
            square = _square(weights)
            loss += values["c2"] * square
            if not math.isfinite(loss):
                raise ValueError(
                    f"pass {self.done + 1}: scores too large for float64; scale the attributes' "
                    "values down, or try a smaller calibration.eta"
                )
            self.done += 1
            if loss < self.best_loss:
                self.best, self.best_loss = weights, loss
            self._decide(loss)
            if self.checkpoint:
                self.checkpoint.offer(self.done, self)
            rate = 1.0 / (self._t0(self.eta) + self.time) / self.decay if self.decay else self.eta
            lines = (
                f"***** Epoch #{self.done} *****\n",
                f"Loss: {loss:f}\n",
                f"Feature L2-norm: {math.sqrt(square):f}\n",
                f"Learning rate (eta): {rate:f}\n",
                f"Total number of feature updates: {self.time}\n",
            )
            info = {"feature_norm": math.sqrt(square), "eta": rate}
            yield Progress(self.done, loss, weights, info, lines)

    def ending(self, reason: str | None) -> list[str]:
        text = {
            "delta": "SGD terminated with the stopping criteria\n",
            "max_iterations": "SGD terminated with the maximum number of iterations\n",
        }.get(str(reason), "SGD was stopped\n")
        return [text, f"Loss: {self.best_loss:f}\n"]

    def result(self) -> Weights:
        return self.best

    def _decide(self, loss: float) -> None:
        period = self.values["period"]
        full = period > 0 and len(self.past) >= period
        if full and self.past[-period] - loss < self.values["delta"] * loss:
            self.reason = "delta"
        self.past = [*self.past, loss][-max(period, 1) :]

    def _t0(self, eta: float) -> float:
        return 1.0 / (self.decay * eta) if self.decay else 0.0

    def _weights(self) -> Weights:
        return self.vector * self.factor

    def _pass(self, order: npt.NDArray[np.int64], eta: float) -> float:
        """Take the sequences of `order` one by one; return the sum of their losses."""
        loss, self.factor, self.time = self.objective.descend(
            order, self.vector, self.factor, self.time, self.decay, self._t0(eta), eta
        )
        return loss

    def _loss(self, order: npt.NDArray[np.int64], weights: Weights) -> float:
        """Return the sum of the losses of sequences, without a step."""
        return self.objective.descend(order, weights, step=False)[0]

    def _calibrate(self, tell: Callable[[str], None]) -> None:
        """Try rates on a sample, downwards and upwards; keep the one with the least loss."""
        v = self.values
        size = int(min(self.count, v["calibration.samples"]))
        sample = self.random.permutation(self.count)[:size]
        tell("Calibrating the learning rate (eta)\n")
        for name in ("calibration.eta", "calibration.rate"):
            tell(line_of(name, v[name]))
        tell(line_of("calibration.samples", size))
        for name in ("calibration.candidates", "calibration.max_trials"):
            tell(line_of(name, v[name]))
        whole, self.decay = self.decay, _decay(v["c2"], max(size, 1))
        zero = np.zeros_like(self.vector)
        first = self._loss(sample, zero)
        tell(f"Initial loss: {first:f}\n")
        eta, rate, falling = v["calibration.eta"], v["calibration.rate"], False
        best, least, good = eta, math.inf, 0
        # The first rate stays where there is no sequence to try it on, as in CRFsuite.
        for trial in range(1, v["calibration.max_trials"] * (size > 0) + 1):
            tell(f"Trial #{trial} (eta = {eta:f}): ")
            self.vector, self.factor, self.time = zero.copy(), 1.0, 0
            self._pass(sample, eta)
            w = self._weights()
            loss = self._loss(sample, w)
            if math.isfinite(loss):
                loss += v["c2"] * _square(w)
            better = loss < first
            tell(f"{loss:f}\n" if better else f"{loss:f} (worse)\n")
            if loss < least:
                best, least = eta, loss
            good += better
            if good >= v["calibration.candidates"]:
                break
            if not better and not falling:  # too fast: from here on slower than the first
                falling, eta = True, v["calibration.eta"]
            if not falling and eta * rate > LARGEST:
                falling, eta = True, v["calibration.eta"]
            eta = eta / rate if falling else eta * rate
            if eta < 1.0 / LARGEST:
                break
        self.eta, self.decay = best, whole
        self.vector, self.factor, self.time = zero, 1.0, 0
        tell(f"Best learning rate (eta): {best:f}\n")
        tell("Seconds required: 0.000\n")
        tell("\n")

    def fields(self) -> Fields:
        """Return what a state consists of."""
        n = self.objective.n_weights
        return {
            # The engine multiplies a factor out before it gets smaller.
            "vector": vector(n, least=-1e9 * LARGEST, most=1e9 * LARGEST),
            "factor": number(1e-9, 1.0), "best": vector(n), "best_loss": number(),
            "past": vector(range(1, max(self.values["period"], 1) + 1), least=-LARGEST**2,
                           most=LARGEST**2),
            "done": Field("i8", least=1), "time": Field("i8", least=0),
            "eta": number(1 / LARGEST, LARGEST), "random": RANDOM,
            "ended": ENDING,
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return all that the next pass depends on."""
        return {
            "vector": self.vector, "factor": self.factor, "best": self.best,
            "best_loss": self.best_loss, "past": np.array(self.past), "done": self.done,
            "time": self.time, "eta": self.eta, "random": random_state(self.random),
            "ended": ending(self.reason),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned; StateError where it is none."""
        found = checked(state, self.fields())
        done, time = int(found["done"]), int(found["time"])
        if time != done * self.count:
            raise StateError(f"'time' must be {done} × {self.count} sequences, not {time}")
        self.random = restored_random(found["random"])
        self.vector, self.factor = found["vector"], float(found["factor"])
        self.best, self.best_loss = found["best"], float(found["best_loss"])
        self.past, self.done, self.time = found["past"].tolist(), done, time
        self.eta = float(found["eta"])
        self.reason = ENDED[int(found["ended"])]


def _decay(c2: float, count: int) -> float:
    """Return λ, or 0 where no weight would be another for it."""
    decay = 2.0 * c2 / count
    return decay if decay >= _LEAST_DECAY else 0.0


def _square(weights: Weights) -> float:
    """Return the squared norm, which may be infinite."""
    with np.errstate(over="ignore"):
        return float(weights @ weights)
