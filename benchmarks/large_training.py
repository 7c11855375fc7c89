"""Training with hundreds of labels beside python-crfsuite: the same sentences, features and loss.

python benchmarks/large_training.py [--corpus NAME] [--iterations N]

The sentences are few, since python-crfsuite reads K² numbers a token: each of a treebank, from its
beginning, that has a label which none before it has. Both trainers get the same attributes, L-BFGS
with c2 = 1, one thread, and take turns with nothing else; the time is of adding the sentences, the
dictionary of features, all iterations, and the model file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import pycrfsuite
from _counted import Sentences
from _machine import describe
from _tagging import attributes
from large_labels import CORPORA, train_and_test

from valuesparse.crf import Trainer


def with_all_labels(lessons: Sentences) -> Sentences:
    """Return the sentences that have a label which none before them has."""
    seen: set[str] = set()
    chosen: Sentences = []
    for words, tags in lessons:
        if not seen.issuperset(tags):
            seen.update(tags)
            chosen.append((words, tags))
    return chosen


def trained(trainer: Any, lessons: list[tuple[list[list[str]], list[str]]]) -> tuple[float, float]:
    """Return the seconds that a trainer takes, and the loss after its last iteration."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        for rows, tags in lessons:
            trainer.append(rows, tags)
        trainer.train(str(Path(folder) / "model"))
        took = time.process_time() - begin
    return took, float(trainer.logparser.last_iteration["loss"])


def main() -> None:
    """Train both, and print what each takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=CORPORA, default="pt_bosque UPOS|FEATS")
    parser.add_argument("--iterations", type=int, default=10)
    given = parser.parse_args()
    print(*describe(("python-crfsuite",)), sep="\n")
    chosen = with_all_labels(train_and_test(given.corpus, 0)[0])
    lessons = [(attributes(words), tags) for words, tags in chosen]
    labels = {tag for _, tags in chosen for tag in tags}
    print(f"{given.corpus}: {len(labels)} labels, {len(chosen)} sentences, "
          f"{sum(len(tags) for _, tags in chosen):,} tokens, {given.iterations} iterations")  # fmt: skip
    params = {"max_iterations": given.iterations, "c2": 1.0}
    found = {
        "valuesparse": trained(Trainer("lbfgs", params, verbose=False, threads=1), lessons),
        "python-crfsuite": trained(pycrfsuite.Trainer("lbfgs", params, verbose=False), lessons),
    }
    for name, (seconds, loss) in found.items():
        print(f"  {name:<16}{seconds:9.2f} s, loss {loss:.6f}")
    (ours, mine), (theirs, other) = found.values()
    print(f"  {theirs / ours:.1f} times as fast; losses apart {abs(mine / other - 1):.1e} of theirs")


if __name__ == "__main__":
    main()
