"""The training algorithms, each an iteration over :class:`Progress`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse._vectors import dot
from valuesparse.crf.training._certified import CertifiedObjective
from valuesparse.crf.training._objective import Objective
from valuesparse.crf.training._parts import ChainParts
from valuesparse.crf.training._progress import Progress, line_of
from valuesparse.crf.training._sgd import Sgd
from valuesparse.learning import Aggressive, Arow, Online, PassiveAggressive, Perceptron
from valuesparse.learning._checkpoint import Checkpoint
from valuesparse.learning._state import LARGEST
from valuesparse.learning.lbfgs import LINE_SEARCHES, Lbfgs

__all__ = ["Progress", "Training", "check", "start"]

Weights = npt.NDArray[np.float64]
Tell = Callable[[str], None]


class Training(Protocol):
    """Training under way."""

    reason: str | None

    @property
    def done(self) -> int:
        """Iterations, with those before the checkpoint that it went on from."""

    def __iter__(self) -> Iterator[Progress]:
        """Yield after each iteration."""

    def ending(self, reason: str | None) -> list[str]:
        """Return the lines that say why training ended."""

    def result(self) -> Weights:
        """Return the weights."""


def check(algorithm: str, values: dict[str, Any], tol: float | None = None) -> None:
    """Raise ValueError for a parameter out of its range."""
    if tol is not None and algorithm != "lbfgs":
        raise ValueError(f"tol is for the algorithm 'lbfgs', not for {algorithm!r}: leave it out")
    for name in ("c1", "c2", "feature.minfreq", "epsilon", "delta", "max_iterations",
                 "num_memories", "period"):  # fmt: skip
        value = values.get(name, 0)
        if name != "feature.minfreq" and (value < 0 or math.isinf(value)):
            raise ValueError(f"{name} must be at least 0 and finite, not {value}")
    if values.get("max_linesearch", 1) < 1:
        raise ValueError(f"max_linesearch must be 1 or more, not {values['max_linesearch']}")
    if "linesearch" in values and values["linesearch"] not in LINE_SEARCHES:
        raise ValueError(
            f"linesearch must be one of {', '.join(LINE_SEARCHES)}, not {values['linesearch']!r}"
        )
    if values.get("feature.unsupported") and not math.isinf(values["beta"]):
        raise ValueError(
            "feature.unsupported needs beta = inf: only then is a prediction one sequence, whose "
            f"features can be added; beta is {values['beta']}"
        )
    if algorithm == "aggressive" and math.isinf(values["beta"]) and values["gamma"] == 0.0:
        raise ValueError(
            "beta = inf with gamma = 0 learns nothing: all sequences tie where it starts, so no "
            "loss is above 0; set gamma above 0, or take the algorithm 'ap'"
        )
    for name in ("calibration.eta", "calibration.samples"):
        if not values.get(name, 1.0) > 0.0:
            raise ValueError(f"{name} must be above 0, not {values[name]}")
    if not 1.0 / LARGEST <= values.get("calibration.eta", 1.0) <= LARGEST:
        raise ValueError(
            f"calibration.eta must be between {1 / LARGEST:g} and {LARGEST:g}, not "
            f"{values['calibration.eta']}"
        )
    if not values.get("calibration.rate", 2.0) > 1.0:
        raise ValueError(f"calibration.rate must be above 1, not {values['calibration.rate']}")


def start(
    algorithm: str,
    objective: Objective,
    values: dict[str, Any],
    seed: int,
    tell: Tell,
    checkpoint: Checkpoint | None,
    tol: float | None = None,
) -> Training:
    """Begin training, or take it up from a checkpoint."""
    if algorithm == "lbfgs":
        return _FullBatch(objective, values, tell, checkpoint, tol)
    if algorithm == "l2sgd":
        return Sgd(objective, values, seed, tell, checkpoint)
    return _OnlinePasses(algorithm, objective, values, seed, tell, checkpoint)


class _Iterations:
    """Iterations of a learner, the state of which a checkpoint keeps."""

    learner: Any
    reason: str | None = None

    @property
    def done(self) -> int:
        raise NotImplementedError

    def _begin(
        self, tell: Tell, title: str, lines: list[str], checkpoint: Checkpoint | None
    ) -> None:
        for line in (f"{title}\n", *lines, "\n"):
            tell(line)
        self.checkpoint = checkpoint
        if checkpoint is not None:
            checkpoint.resume(self.learner)

    def __iter__(self) -> Iterator[Progress]:
        for it in self.learner:
            if self.checkpoint:
                self.checkpoint.offer(it.number, self.learner)
            yield self._progress(it)
        self.reason = self.learner.reason

    def _progress(self, it: Any) -> Progress:
        raise NotImplementedError


class _FullBatch(_Iterations):
    """L-BFGS over all sequences at a time."""

    def __init__(
        self,
        objective: Objective,
        values: dict[str, Any],
        tell: Tell,
        checkpoint: Checkpoint | None,
        tol: float | None,
    ) -> None:
        c2, threads = values["c2"], objective.threads
        self.bounded = None if tol is None else CertifiedObjective(objective, tol)
        evaluate = self.bounded or objective

        def function(w: Weights, gradient: Weights) -> float:
            loss = evaluate(w, gradient)
            if c2 == 0.0 or not math.isfinite(loss):
                return loss
            gradient += (2.0 * c2) * w
            return loss + c2 * dot(w, w, threads)

        self.learner = Lbfgs(
            function,
            np.zeros(objective.n_weights),
            c1=values["c1"],
            memory=values["num_memories"],
            epsilon=values["epsilon"],
            period=values["period"],
            delta=values["delta"],
            max_iterations=values["max_iterations"] or 2**31 - 1,
            linesearch=values["linesearch"],
            max_linesearch=values["max_linesearch"],
            threads=threads,
            bounded=self.bounded,
        )
        names = ("c1", "c2", "num_memories", "max_iterations", "epsilon")
        lines = [line_of(name, values[name]) for name in names]
        lines += [
            line_of("stop", values["period"]),
            line_of("delta", values["delta"]),
            line_of("linesearch", values["linesearch"]),
            line_of("linesearch.max_iterations", values["max_linesearch"]),
        ]
        if tol is not None:
            lines.append(f"tol: {tol:g}\n")
        self._begin(tell, "L-BFGS optimization", lines, checkpoint)

    @property
    def done(self) -> int:
        return self.learner.iterations

    def _progress(self, it: Any) -> Progress:
        lines: tuple[str, ...] = (
            f"***** Iteration #{it.number} *****\n",
            f"Loss: {it.loss:f}\n",
            f"Feature norm: {it.norm:f}\n",
            f"Error norm: {it.error:f}\n",
            f"Active features: {it.active}\n",
            f"Line search trials: {it.trials}\n",
            f"Line search step: {it.step:f}\n",
        )
        info = {
            "feature_norm": it.norm,
            "error_norm": it.error,
            "active_features": float(it.active),
            "linesearch_trials": float(it.trials),
            "linesearch_step": it.step,
        }
        if self.bounded is not None:
            count = self.bounded.objective.corpus.n_sequences
            printed = self.bounded.gradient_error * (1 + 1e-6)  # seven digits never round below it
            lines += (
                f"Gradient error bound: {printed:.6e}\n",
                f"Sequences in float32: {self.bounded.narrow} of {count}\n",
            )
            info["gradient_error"] = self.bounded.gradient_error
        return Progress(it.number, it.loss, self.learner.x, info, lines)

    def ending(self, reason: str | None) -> list[str]:
        return {
            "converged": ["L-BFGS resulted in convergence\n"],
            "delta": ["L-BFGS terminated with the stopping criteria\n"],
            "max_iterations": ["L-BFGS terminated with the maximum number of iterations\n"],
            "linesearch": ["L-BFGS terminated: the line search found no better point\n"],
        }.get(str(reason), ["L-BFGS was stopped\n"])

    def result(self) -> Weights:
        return self.learner.x


_TITLES = {
    "averaged-perceptron": "Averaged perceptron",
    "passive-aggressive": "Passive Aggressive",
    "arow": "Adaptive Regularization of Weights (AROW)",
    "aggressive": "Aggressive online learning",
}


class _OnlinePasses(_Iterations):
    """An online algorithm."""

    def __init__(
        self,
        algorithm: str,
        objective: Objective,
        values: dict[str, Any],
        seed: int,
        tell: Tell,
        checkpoint: Checkpoint | None,
    ) -> None:
        rule: Any
        if algorithm == "averaged-perceptron":
            rule = Perceptron()
        elif algorithm == "passive-aggressive":
            rule = PassiveAggressive(values["type"], values["c"], values["error_sensitive"])
        elif algorithm == "arow":
            rule = Arow(objective.n_weights, values["variance"], values["gamma"])
        else:
            longest = 0.5 / values["c2"] if values["c2"] > 0.0 else math.inf
            rule = Aggressive(values["beta"], values["gamma"], longest)
        # CRFsuite's AROW alone stops at a loss of epsilon; its means count the last weights.
        averaged = algorithm in ("averaged-perceptron", "passive-aggressive")
        self.last_norm = algorithm == "passive-aggressive"  # CRFsuite logs the last weights' there
        self.learner = Online(
            ChainParts(objective),
            rule,
            epochs=values["max_iterations"],
            epsilon=values["epsilon"],
            seed=seed,
            average=values.get("averaging", algorithm != "arow"),
            strict=averaged,
            closing=averaged,
        )
        lines = [line_of(*item) for item in values.items() if not item[0].startswith("feature.")]
        self._begin(tell, _TITLES[algorithm], lines, checkpoint)

    @property
    def done(self) -> int:
        return self.learner.done

    def _progress(self, it: Any) -> Progress:
        weights = self.learner.result()
        measured = self.learner.weights if self.last_norm else weights
        norm = float(np.sqrt(dot(measured, measured, 1)))
        lines = (
            f"***** Iteration #{it.number} *****\n",
            f"Loss: {it.loss:f}\n",
            f"Feature norm: {norm:f}\n",
        )
        info = {
            "feature_norm": norm,
            "updates": float(it.updates),
            "active_set": float(it.active),
        }
        return Progress(it.number, it.loss, weights, info, lines)

    def ending(self, reason: str | None) -> list[str]:
        return ["Terminated with the stopping criterion\n"] if reason == "converged" else []

    def result(self) -> Weights:
        return self.learner.result()
