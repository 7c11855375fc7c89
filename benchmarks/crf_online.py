"""A pass of each online algorithm over English-EWT: CRFsuite's and ours, one thread.

Both get the same items and parameters. Processor time from one pass to the next counts, so that
neighbours matter less; trainings take turns, medians of all passes after the first of each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pycrfsuite
from _machine import describe, require_quiet
from _tagging import TRAIN, conll_file
from crf_training import english, fill

from valuesparse.crf.crfsuite import Trainer

ALGORITHMS = ("ap", "pa", "arow", "l2sgd")


class Theirs(pycrfsuite.Trainer):
    """CRFsuite's trainer, noting the time at which each pass is told."""

    def message(self, message: str) -> None:
        """Note the time of a pass."""
        if message.startswith("***** "):
            self.stamps.append(time.process_time())


def passes(algorithm: str, params: dict[str, Any], data: Any, ours: bool) -> list[float]:
    """Train; return the seconds of each pass after the first."""
    trainer: Any
    if ours:
        trainer = Trainer(algorithm, params, verbose=False, threads=1)
    else:
        trainer = Theirs(algorithm, params, verbose=False)
    trainer.stamps = []
    fill(trainer, data)
    options = {}
    if ours:
        options["callback"] = lambda progress: trainer.stamps.append(time.process_time())
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"), **options)
    return [b - a for a, b in zip(trainer.stamps, trainer.stamps[1:], strict=False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("algorithms", nargs="*", default=ALGORITHMS)
    parser.add_argument("--train", type=Path, default=TRAIN, help="CoNLL-U file to train on")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--allow-busy", action="store_true", help="measure in spite of neighbours")
    options = parser.parse_args()
    lessons = conll_file(options.train, "--train")
    print(*describe(("python-crfsuite",)), sep="\n")
    require_quiet(options.allow_busy)
    data = english(lessons)
    for algorithm in options.algorithms:
        params: dict[str, Any] = {"max_iterations": options.passes}
        if algorithm == "l2sgd":
            params["calibration.max_trials"] = 2
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(options.repeats):
            for side, found in enumerate(times):
                found += passes(algorithm, params, data, bool(side))
        theirs, ours = map(statistics.median, times)
        print(
            f"{algorithm:6} CRFsuite {theirs:.3f} s, ours {ours:.3f} s a pass "
            f"({len(times[0])} of each): {theirs / ours:.2f}x"
        )


if __name__ == "__main__":
    sys.exit(main())
