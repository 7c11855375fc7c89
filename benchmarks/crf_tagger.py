"""The tagger against python-crfsuite's, from lists of str to tags and arrays.

Both are given the same Python lists, one sentence a call, on one pinned thread; medians of
alternating runs. "Marginals" are, for python-crfsuite, one `set` and a `marginal` for each label of
each item, put in an array; for valuesparse one call of `marginals`. The model is python-crfsuite's
own (L-BFGS, c2 = 1, few iterations), trained on the file of --train unless --model is there.

Python threads share one tagger and tag sentences, and documents of --document tokens a call.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
from _machine import cores, describe, require_quiet
from _tagging import CACHE, TEST, TRAIN, attributes, conll_file, read_conll

from valuesparse.crf import crfsuite

Sentences = list[list[list[str]]]


def train(path: Path, corpus: Path) -> None:
    """Train the model and keep it in a file."""
    trainer = pycrfsuite.Trainer("lbfgs", {"c2": 1.0, "max_iterations": 25}, verbose=False)
    for words, tags in read_conll(corpus, 1, 4):
        trainer.append(attributes(words), tags)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    trainer.train(str(unfinished))
    unfinished.replace(path)


def alternate(*runs: Callable[[], object], repeats: int) -> list[float]:
    """Return the median seconds of each, run in turns after a warm-up."""
    seconds: list[list[float]] = [[] for _ in runs]
    for turn in range(repeats + 1):
        for i, run in enumerate(runs):
            began = time.perf_counter()
            run()
            if turn:
                seconds[i].append(time.perf_counter() - began)
    return [statistics.median(some) for some in seconds]


def their_marginals(tagger: Any, labels: list[str], xseq: Any) -> np.ndarray:
    tagger.set(xseq)
    marginal = tagger.marginal
    return np.array([[marginal(y, i) for y in labels] for i in range(len(xseq))])


def in_threads(run: Callable[[Any], object], sentences: Sentences, threads: int) -> None:
    """Run over all sentences, dealt out to Python threads that share what `run` shares."""
    parts = [sentences[t::threads] for t in range(threads)]

    def work(part: Sentences) -> None:
        for xseq in part:
            run(xseq)

    workers = [threading.Thread(target=work, args=(part,)) for part in parts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def pinned(run: Callable[[], None]) -> None:
    """Run on one core."""
    if not hasattr(os, "sched_setaffinity"):
        run()
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        run()
    finally:
        os.sched_setaffinity(0, before)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    parser.add_argument("--model", type=Path, default=CACHE / "en-xpos-lbfgs.crfsuite")
    parser.add_argument("--train", type=Path, default=TRAIN, help="CoNLL-U file to train on")
    parser.add_argument("--test", type=Path, default=TEST, help="CoNLL-U file to tag")
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--document", type=int, default=300, help="tokens")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(arguments)
    test = conll_file(options.test, "--test")
    if not options.model.exists():
        train(options.model, conll_file(options.train, "--train"))
    require_quiet(options.allow_busy)
    sentences = [attributes(words) for words, _ in read_conll(test, 1, 4)]
    sentences = sentences[: options.sentences]
    n = sum(map(len, sentences))
    theirs, ours = pycrfsuite.Tagger(), crfsuite.Tagger()
    theirs.open(str(options.model))
    ours.open(options.model)
    labels = theirs.labels()
    print(*describe(("python-crfsuite",)), sep="\n")
    print(f"input     {len(sentences)} sentences, {n} tokens, {len(labels)} labels, {ours.model}")
    for xseq in sentences[:50]:
        assert ours.tag(xseq) == theirs.tag(xseq)
        expected = their_marginals(theirs, labels, xseq)
        np.testing.assert_allclose(ours.marginals(xseq), expected, rtol=0, atol=1e-10)

    def report(what: str, their: Callable[[Any], object], our: Callable[[Any], object]) -> None:
        a, b = alternate(
            lambda: [their(xseq) for xseq in sentences],
            lambda: [our(xseq) for xseq in sentences],
            repeats=options.repeats,
        )
        print(f"{what:24} {1e6 * a / n:7.2f} {1e6 * b / n:7.2f} us a token: {a / b:6.2f}x")

    def single() -> None:
        report("set", theirs.set, ours.set)
        report("tag", theirs.tag, ours.tag)
        report("marginals", lambda x: their_marginals(theirs, labels, x), ours.marginals)

    pinned(single)
    everyone = cores()
    tokens = [item for xseq in sentences for item in xseq]
    documents = [tokens[i : i + options.document] for i in range(0, n, options.document)]
    for what, run, batch in (
        ("tag", ours.tag, ours.tag_batch),
        ("marginals", ours.marginals, ours.marginals_batch),
    ):
        for kind, calls in (("sentences", sentences), ("documents", documents)):
            one, eight = alternate(
                lambda run=run, calls=calls: in_threads(run, calls, 1),
                lambda run=run, calls=calls: in_threads(run, calls, 8),
                repeats=options.repeats,
            )
            print(
                f"{what} of {kind}: 1 Python thread {1e6 * one / n:.2f}, 8 on {everyone} cores "
                f"{1e6 * eight / n:.2f} us a token: {one / eight:.2f}x"
            )
        one, all_cores = alternate(
            lambda batch=batch: batch(sentences, threads=1),
            lambda batch=batch: batch(sentences),
            repeats=options.repeats,
        )
        print(
            f"{what}_batch: 1 thread {1e6 * one / n:.2f}, {everyone} threads "
            f"{1e6 * all_cores / n:.2f} us a token: {one / all_cores:.2f}x"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
