"""Fits of the estimator, by a trainer of ours or of others: sequences in, a model out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sized
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from valuesparse._validation import as_count, no_frame
from valuesparse.crf._lines import LinePerIterationTrainer
from valuesparse.crf.training.trainer import Trainer

__all__ = ["append", "as_dicts", "train", "trainer_of"]

#: The estimator's name of a parameter -> the trainer's.
NAMES = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "calibration_eta": "calibration.eta",
    "calibration_rate": "calibration.rate",
    "calibration_samples": "calibration.samples",
    "calibration_candidates": "calibration.candidates",
    "calibration_max_trials": "calibration.max_trials",
    "pa_type": "type",
    "unsupported": "feature.unsupported",
}
#: Those of which both have one name.
SAME = (
    "c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta", "linesearch",
    "max_linesearch", "c", "error_sensitive", "averaging", "variance", "gamma", "beta",
)  # fmt: skip


def trainer_of(estimator: Any) -> Any:
    """Return the trainer that the parameters of an estimator describe."""
    names = NAMES | {name: name for name in SAME}
    given = {theirs: getattr(estimator, ours) for ours, theirs in names.items()}
    params = {name: value for name, value in given.items() if value is not None}
    arguments: dict[str, Any] = {"algorithm": estimator.algorithm, "params": params}
    arguments["verbose"] = estimator.verbose
    kind = LinePerIterationTrainer if estimator.trainer_cls is None else estimator.trainer_cls
    constraints, forbidden = estimator.constraints, estimator.forbidden
    # A subclass with an __init__ of its own need not know these.
    ours = isinstance(kind, type) and issubclass(kind, Trainer)
    if ours and kind.__init__ is Trainer.__init__:
        seed = estimator.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31))
        seed = as_count("random_state", seed, at_least=0)
        arguments |= {"threads": estimator.threads, "seed": seed}
        arguments |= {"constraints": constraints, "forbidden": forbidden}
    elif constraints is not None or forbidden is not None:
        raise ValueError(
            f"constraints and forbidden need the package's own trainer; {kind.__name__} has "
            "an __init__ of its own, or is another's"
        )
    arguments |= {} if estimator.tol is None else {"tol": estimator.tol}
    return kind(**arguments)


def append(
    trainer: Any, x_name: str, X: Iterable[Any], y_name: str, y: Iterable[Any], group: int = 0
) -> int:
    """Give sequences to a trainer; return how many hold items. `X` and `y` must be equally long.

    With the `y_name` "allowed", `y` holds what is known of the labels of each sequence.
    """
    no_frame(x_name, X)
    end = object()
    ys = iter(y)
    count = items = 0
    for xseq in X:
        yseq = next(ys, end)
        if yseq is end:
            raise ValueError(f"{y_name} has {count} sequences, {x_name} has more")
        try:
            if y_name == "allowed":
                trainer.append(xseq, None, group, allowed=yseq)
            else:
                trainer.append(xseq, yseq, group)
        except (TypeError, ValueError) as error:
            if type(error) not in (TypeError, ValueError):  # such as UnicodeEncodeError
                raise
            raise type(error)(f"{x_name}[{count}], {y_name}[{count}]: {error}") from error
        count += 1
        items += bool(len(yseq)) if isinstance(yseq, Sized) else True
    if next(ys, end) is not end:
        raise ValueError(f"{x_name} has {count} sequences, {y_name} has more")
    return items


def train(trainer: Any, holdout: int, more: dict[str, Any]) -> bytes:
    """Train, and return the model's file."""
    if isinstance(trainer, Trainer) and type(trainer).train is Trainer.train:
        return trainer.train_inmemory(holdout, **more)
    with tempfile.TemporaryDirectory() as folder:  # other trainers write files only
        path = Path(folder, "model.crfsuite")
        trainer.train(str(path), holdout=holdout, **more)
        return path.read_bytes()


def as_dicts(labels: list[str], marginals: npt.NDArray[np.float64]) -> list[dict[str, float]]:
    """Return the probabilities of each item's labels, by label."""
    return [dict(zip(labels, row, strict=True)) for row in marginals.tolist()]
