"""The parameters of each training algorithm: names, kinds and defaults are CRFsuite's."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

__all__ = ["ALGORITHMS", "ALIASES", "Parameter", "parse", "require_apart", "whole_number"]


class Parameter(NamedTuple):
    """One setting of an algorithm; `kind` is int, float, bool or str."""

    kind: type
    default: Any
    help: str


_FEATURES = {
    "feature.minfreq": Parameter(float, 0.0, "Features less frequent than this are left out."),
    "feature.possible_states": Parameter(
        bool, False, "Pair every attribute with every label, seen together or not."
    ),
    "feature.possible_transitions": Parameter(
        bool, False, "Pair every label with every label, seen in succession or not."
    ),
}
_L2 = Parameter(float, 1.0, "Weight of the squared L2 norm: c2 times the sum of squares, no half.")


def _epochs(default: int) -> Parameter:
    return Parameter(int, default, "Passes over the data at most.")


def _stop(what: str) -> Parameter:
    return Parameter(float, 0.0, f"Stop after a pass in which {what} is no greater than this.")


#: Name of an algorithm -> its parameters, in CRFsuite's order.
ALGORITHMS: dict[str, dict[str, Parameter]] = {
    "lbfgs": {
        **_FEATURES,
        "c1": Parameter(float, 0.0, "Weight of the L1 norm; above 0, OWL-QN is used."),
        "c2": _L2,
        "max_iterations": Parameter(int, 2**31 - 1, "Iterations at most."),
        "num_memories": Parameter(int, 6, "Earlier steps that model the curvature."),
        "epsilon": Parameter(
            float, 1e-5, "Stop where the gradient's norm is at most epsilon * max(1, |weights|)."
        ),
        "period": Parameter(int, 10, "Iterations that `delta` looks back; 0 does not look."),
        "delta": Parameter(
            float, 1e-5, "Stop where `period` iterations improved the loss by a smaller share."
        ),
        "linesearch": Parameter(
            str, "MoreThuente", "Line search: MoreThuente, Backtracking or StrongBacktracking."
        ),
        "max_linesearch": Parameter(int, 20, "Evaluations in one line search at most."),
    },
    "l2sgd": {
        **_FEATURES,
        "c2": _L2,
        "max_iterations": _epochs(1000),
        "period": Parameter(int, 10, "Passes that `delta` looks back."),
        "delta": Parameter(
            float, 1e-6, "Stop where `period` passes improved the loss by a smaller share."
        ),
        "calibration.eta": Parameter(float, 0.1, "The first learning rate tried."),
        "calibration.rate": Parameter(float, 2.0, "Factor between learning rates tried."),
        "calibration.samples": Parameter(float, 1000.0, "Sequences to try learning rates on."),
        "calibration.candidates": Parameter(int, 10, "Learning rates that help, to choose from."),
        "calibration.max_trials": Parameter(int, 20, "Learning rates tried at most."),
    },
    "averaged-perceptron": {
        **_FEATURES,
        "max_iterations": _epochs(100),
        "epsilon": _stop("the share of wrong labels"),
    },
    "passive-aggressive": {
        **_FEATURES,
        "type": Parameter(int, 1, "0: no slack; 1: PA-I, steps at most c; 2: PA-II, steps damped."),
        "c": Parameter(float, 1.0, "Aggressiveness: the larger, the longer the steps."),
        "error_sensitive": Parameter(
            bool, True, "Ask for a margin that grows with the root of the number of wrong labels."
        ),
        "averaging": Parameter(bool, True, "Return the mean of the weights over all updates."),
        "max_iterations": _epochs(100),
        "epsilon": _stop("the mean loss"),
    },
    "arow": {
        **_FEATURES,
        "variance": Parameter(float, 1.0, "Variance of each weight at the beginning."),
        "gamma": Parameter(float, 1.0, "The larger, the more cautious the updates."),
        "max_iterations": _epochs(100),
        "epsilon": _stop("the mean loss"),
    },
    # Not in CRFsuite: MSFXM10 Algorithm 1.
    "aggressive": {
        **_FEATURES,
        "beta": Parameter(
            float, 1.0, "Inverse temperature of the loss: 1 for CRFs, inf for the best sequence."
        ),
        "gamma": Parameter(float, 0.0, "Weight of the number of wrong labels in the loss."),
        "c2": Parameter(float, 1.0, "As for lbfgs; steps are at most 1 / (2 c2)."),
        "feature.unsupported": Parameter(
            bool, False, "With beta = inf: add features that wrong predictions call for."
        ),
        "max_iterations": _epochs(10),
        "epsilon": _stop("the mean loss"),
    },
}
#: Other names for them.
ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}


def parse(name: str, parameter: Parameter, value: Any) -> Any:
    """Return a value as the kind that a parameter has; texts are accepted, as CRFsuite does."""
    if parameter.kind is str:
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, not {value!r}") from None
    if math.isnan(number) or (parameter.kind is not float and math.isinf(number)):
        raise ValueError(f"{name} must be a number, not {value!r}")
    return parameter.kind(number) if parameter.kind is not bool else bool(int(number))


def whole_number(name: str, value: Any) -> int:
    """Return a number as Cython's C integers take it: floats are cut, texts are refused."""
    if isinstance(value, (str, bytes, bytearray)) or not hasattr(value, "__int__"):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    return int(value)


def require_apart(
    checkpoint: str | bytes | os.PathLike[str] | None, model: str | os.PathLike[str]
) -> None:
    """Raise ValueError where the checkpoint is a file that training writes in the end."""
    if checkpoint is None:
        return
    checkpoint = os.fsdecode(checkpoint)
    one, other = (os.path.normcase(os.path.realpath(path)) for path in (checkpoint, model))
    if one == other:
        raise ValueError(f"checkpoint: {checkpoint} is where the model goes; name another file")
