"""The log of a training run: CRFsuite's lines, and a parser of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LabelScore", "TrainLogParser", "score_lines"]


class LabelScore(NamedTuple):
    """How well one label is predicted: counts, then shares (None where nothing is counted)."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


# No count has more digits; Python refuses to read thousands of them.
_COUNT = r"(\d{1,18})(?!\d)"
_HEAD = re.compile(rf"\*{{5}} (?:Iteration|Epoch) #{_COUNT} \*{{5}}\n")
_FEATURES = re.compile(rf"Number of features: {_COUNT}\s*$")
_SECONDS = re.compile(r"Seconds required: (\d+\.\d+)")
_REAL = r"(\d+\.\d+(?:e[+-]\d+)?)"
_NUMBERS: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = tuple(
    (key, re.compile(re.escape(text) + ": " + (_COUNT if kind is int else _REAL)), kind)
    for key, text, kind in (
        ("loss", "Loss", float),
        ("feature_norm", "Feature norm", float),
        ("error_norm", "Error norm", float),
        ("gradient_error", "Gradient error bound", float),
        ("active_features", "Active features", int),
        ("linesearch_trials", "Line search trials", int),
        ("linesearch_step", "Line search step", float),
        ("time", "Seconds required for this iteration", float),
    )
)
_MEANS = re.compile(r"Macro-average precision, recall, F1: \((\d+\.\d+), (\d+\.\d+), (\d+\.\d+)\)")
_ACCURACY = re.compile(rf"(Item|Instance) accuracy: {_COUNT} / {_COUNT}")
_SHARE = r"(\*{6}|\d\.\d{4})"
_LABEL = re.compile(
    rf"\s{{4}}(.+): \({_COUNT}, {_COUNT}, {_COUNT}\) \({_SHARE}, {_SHARE}, {_SHARE}\)"
)


class TrainLogParser:
    """Turns the lines of a training log into numbers, as they come.

    Attributes
    ----------
    iterations : list of dict
        Per iteration: ``num``, ``loss``, ``time`` and whatever else the algorithm tells; with
        held-out data also ``scores`` (:class:`LabelScore` by label) and averages.
    last_iteration : dict or None
        The last of them.
    log : list of str
        The lines.
    events : list of tuple
        Kind, first and last line (exclusive) of each part of the log.
    featgen_percent, featgen_num_features, featgen_seconds : int, int, float
        How far the generation of features is, and what came of it.
    training_seconds, storing_seconds : float
        How long it took.

    Notes
    -----
    Each line goes to the method ``handle_`` of the state that the log is in, which returns the
    event that the line completes, or None. Subclasses may override them, and add states.
    """

    def __init__(self) -> None:
        self.state: str | None = None
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []

    @property
    def last_log(self) -> str:
        """The lines of the last event."""
        _, first, last = self.events[-1]
        return "".join(self.log[first:last])

    def feed(self, line: str) -> str | None:
        """Take one message; return the event that it completes, or None."""
        self.log.append(line)
        if self.state is None:
            self.state = "STARTING"
            self.handle_STARTING(line)
            self.events.append(("start", 0, len(self.log)))
            return "start"
        event: str | None = getattr(self, f"handle_{self.state}")(line)
        if event is not None:
            # The line that tells that a part is over belongs to the next.
            ahead = event in ("prepared", "optimization_end")
            self.events.append((event, self.events[-1][2], len(self.log) - ahead))
        return event

    def handle_STARTING(self, line: str) -> str | None:
        """Take a line before features are generated."""
        if line.startswith("Feature generation"):
            self.state = "FEATGEN"
        return None

    def handle_FEATGEN(self, line: str) -> str | None:
        """Take a line of the generation of features."""
        if line in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "."):
            self.featgen_percent += 2
            return "featgen_progress"
        if found := _FEATURES.match(line):
            self.featgen_num_features = int(found[1])
        elif found := _SECONDS.match(line):
            self.featgen_seconds = float(found[1])
            self.state = "AFTER_FEATGEN"
            return "featgen_end"
        return None

    def handle_AFTER_FEATGEN(self, line: str) -> str | None:
        """Take a line between features and the first iteration, whose head is handed on."""
        if _HEAD.match(line):
            self.state = "ITERATION"
            self.handle_ITERATION(line)
            return "prepared"
        if "terminated with error" in line:
            self.state = "AFTER_ITERATION"
            return "prepare_error"
        return None

    def handle_ITERATION(self, line: str) -> str | None:
        """Take a line of an iteration: the first is its head, the last is empty."""
        if found := _HEAD.match(line):
            self.last_iteration = {"num": int(found[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
            return None
        if line == "\n":
            self.state = "AFTER_ITERATION"
            return "iteration"
        info = self.iterations[-1]
        for key, pattern, kind in _NUMBERS:
            if found := pattern.match(line):
                info[key] = kind(found[1])
        if found := _MEANS.match(line):
            for key, text in zip(("precision", "recall", "f1"), found.groups(), strict=True):
                info[f"avg_{key}"] = float(text)
        if found := _ACCURACY.match(line):
            share = Fraction(int(found[2]), max(int(found[3]), 1))
            info[f"{found[1].lower()}_accuracy"] = share
            info[f"{found[1].lower()}_accuracy_float"] = float(share)
        if found := _LABEL.match(line):
            counts = [int(n) for n in found.groups()[1:4]]
            shares = [None if "*" in n else float(n) for n in found.groups()[4:]]
            info["scores"][found[1]] = LabelScore(*counts, *shares)
        return None

    def handle_AFTER_ITERATION(self, line: str) -> str | None:
        """Take a line after an iteration; the head of the next is handed on."""
        if _HEAD.match(line):
            self.state = "ITERATION"
            return self.handle_ITERATION(line)
        if found := re.match(r"Total seconds required for training: (\d+\.\d+)", line):
            self.training_seconds = float(found[1])
        if line.startswith("Storing the model"):
            self.state = "STORING"
            return "optimization_end"
        return None

    def handle_STORING(self, line: str) -> str | None:
        """Take a line of the writing of the model."""
        if line == "\n":
            return "end"
        if found := _SECONDS.match(line):
            self.storing_seconds = float(found[1])
        return None


def score_lines(
    labels: Sequence[str],
    gold: npt.NDArray[Any],
    states: npt.NDArray[Any],
    offset: npt.NDArray[np.int64],
) -> Iterator[str]:
    """Yield the lines on how well held-out sequences are labelled."""
    k = len(labels)
    match = np.bincount(gold[gold == states], minlength=k)
    model, ref = np.bincount(states, minlength=k), np.bincount(gold, minlength=k)
    yield "Performance by label (#match, #model, #ref) (precision, recall, F1):\n"
    sums = np.zeros(3)
    for name, m, n, r in zip(labels, match.tolist(), model.tolist(), ref.tolist(), strict=True):
        if n == 0 and r == 0:
            yield f"    {name}: (0, 0, 0) (******, ******, ******)\n"
            continue
        precision, recall = m / n if n else 0.0, m / r if r else 0.0
        both = precision + recall
        scores = precision, recall, 2 * precision * recall / both if both else 0.0
        sums += scores
        text = ", ".join(f"{score:.4f}" for score in scores)
        yield f"    {name}: ({m}, {n}, {r}) ({text})\n"
    text = ", ".join(f"{mean:.6f}" for mean in sums / max(k, 1))
    yield f"Macro-average precision, recall, F1: ({text})\n"
    right = np.zeros(len(gold) + 1, np.int64)
    np.cumsum(gold == states, out=right[1:])
    whole = right[offset[1:]] - right[offset[:-1]] == np.diff(offset)
    for what, count, total in (
        ("Item", int(right[-1]), len(gold)),
        ("Instance", int(whole.sum()), len(whole)),
    ):
        yield f"{what} accuracy: {count} / {total} ({count / total if total else 0.0:.4f})\n"
