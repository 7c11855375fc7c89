"""L-BFGS training against CRFsuite's: time an iteration, time to the same loss, accuracy.

Both are given the same items, features and parameters, and take the same steps (the losses of each
iteration are compared), so that the time to a loss is the time of its iterations. One run trains
CRFsuite and ours with each number of threads in turn, `--repeats` times; the median of an
iteration's time counts, and that of the whole, features and file included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pycrfsuite
from _machine import cores, describe, require_quiet
from _tagging import TEST, TRAIN, attributes, conll_file, read_conll

from valuesparse.cli._corpus import load_hkcancor, split
from valuesparse.cli._features import cantonese_attributes
from valuesparse.crf.crfsuite import Tagger, Trainer

Data = list[tuple[list[list[str]], list[str]]]


def english(path: Path) -> Data:
    """Return items and tags of a CoNLL-U file."""
    return [(attributes(words), tags) for words, tags in read_conll(path, 1, 4)]


def cantonese() -> tuple[Data, Data]:
    """Return items and tags to train on and to test on."""
    parts = split(load_hkcancor(), seed=0)
    first, second = (
        [(cantonese_attributes(s.words), list(s.tags)) for s in part] for part in parts
    )
    return first, second


def fill(trainer: Any, data: Data) -> float:
    """Append everything; return the seconds that took."""
    began = time.perf_counter()
    for items, tags in data:
        trainer.append(items, tags)
    return time.perf_counter() - began


def train(trainer: Any, path: str) -> tuple[float, list[float], list[float]]:
    """Train; return the seconds of the whole, and those and the loss of each iteration."""
    began = time.perf_counter()
    trainer.train(path)
    seconds = time.perf_counter() - began
    log = trainer.logparser.iterations
    return seconds, [i["time"] for i in log], [i["loss"] for i in log]


def accuracy(path: str, data: Data) -> Iterator[float]:
    """Yield the accuracy of a model by python-crfsuite's tagger and by ours."""
    for tagger in (pycrfsuite.Tagger(), Tagger()):
        tagger.open(path)
        right = total = 0
        for items, tags in data:
            right += sum(map(str.__eq__, tagger.tag(items), tags))
            total += len(tags)
        yield right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=("english", "cantonese"), default="english")
    parser.add_argument("--train", type=Path, default=TRAIN, help="CoNLL-U file to train on")
    parser.add_argument("--test", type=Path, default=TEST, help="CoNLL-U file to tag")
    parser.add_argument("--c1", type=float, default=0.0)
    parser.add_argument("--c2", type=float, default=1.0)
    parser.add_argument("--iterations", type=int, default=0, help="at most; 0: as CRFsuite")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores()}))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--allow-busy", action="store_true", help="measure in spite of neighbours")
    options = parser.parse_args()
    if options.corpus == "english":
        conll_file(options.train, "--train")
        conll_file(options.test, "--test")
    print(*describe(), sep="\n")
    require_quiet(options.allow_busy)
    if options.corpus == "english":
        data, test = english(options.train), english(options.test)
    else:
        data, test = cantonese()
    params = {"c1": options.c1, "c2": options.c2}
    if options.iterations:
        params["max_iterations"] = options.iterations
    trainers: dict[str, Any] = {}
    if not options.ours_only:
        trainers["CRFsuite"] = pycrfsuite.Trainer("lbfgs", params, verbose=False)
    for threads in options.threads:
        trainers[f"ours, {threads} thread{'s' * (threads > 1)}"] = Trainer(
            "lbfgs", params, verbose=False, threads=threads
        )
    appended = {name: fill(trainer, data) for name, trainer in trainers.items()}
    runs: dict[str, list[tuple[float, list[float], list[float]]]] = {name: [] for name in trainers}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / str(i)) for i, name in enumerate(trainers)}
        for _ in range(options.repeats):
            for name, trainer in trainers.items():
                runs[name].append(train(trainer, paths[name]))
        correct = {name: list(accuracy(path, test)) for name, path in paths.items()}
    first = next(iter(runs))
    times = {n: statistics.median(t for r in rs for t in r[1][1:]) for n, rs in runs.items()}
    wholes = {n: statistics.median(r[0] for r in rs) for n, rs in runs.items()}
    losses = runs[first][0][2]
    for name, results in runs.items():
        mine = results[0][2]
        apart = max(abs(a - b) / b for a, b in zip(mine, losses, strict=False))
        print(
            f"{name:16} append {appended[name]:5.2f} s; {len(mine)} iterations of"
            f" {times[name]:.3f} s (ratio {times[first] / times[name]:.2f}); whole"
            f" {wholes[name]:.1f} s (ratio {wholes[first] / wholes[name]:.2f});"
            f" loss {mine[-1]:.2f}, largest difference of any iteration {apart:.1e}; accuracy"
            f" {correct[name][0]:.4%} (our tagger {correct[name][1]:.4%})"
        )


if __name__ == "__main__":
    sys.exit(main())
