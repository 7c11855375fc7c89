"""The estimator's marginals against sklearn-crfsuite's, from lists of str to dicts and arrays.

Both have the same model, the one that benchmarks/crf_tagger.py trains, and get the same Python
lists of all sentences in one call; one pinned thread, medians of alternating runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import sklearn_crfsuite
from _machine import describe, require_quiet
from _tagging import CACHE, TEST, TRAIN, attributes, conll_file, read_conll
from crf_tagger import alternate, pinned, train

from valuesparse.crf import CRF


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    parser.add_argument("--model", type=Path, default=CACHE / "en-xpos-lbfgs.crfsuite")
    parser.add_argument("--train", type=Path, default=TRAIN, help="CoNLL-U file to train on")
    parser.add_argument("--test", type=Path, default=TEST, help="CoNLL-U file to tag")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(arguments)
    test = conll_file(options.test, "--test")
    if not options.model.exists():
        train(options.model, conll_file(options.train, "--train"))
    require_quiet(options.allow_busy)
    X = [attributes(words) for words, _ in read_conll(test, 1, 4)][: options.sentences]
    n = sum(map(len, X))
    ours = CRF(model_filename=options.model, threads=1)
    theirs = sklearn_crfsuite.CRF(model_filename=str(options.model))
    print(*describe(("sklearn-crfsuite", "python-crfsuite")), sep="\n")
    print(f"input     {len(X)} sentences, {n} tokens, {len(ours.classes_)} labels")

    def run() -> None:
        dicts, arrays, their = alternate(
            lambda: ours.predict_marginals(X),
            lambda: ours.predict_proba(X),
            lambda: theirs.predict_marginals(X),
            repeats=options.repeats,
        )
        tags, their_tags = alternate(
            lambda: ours.predict(X), lambda: theirs.predict(X), repeats=options.repeats
        )
        for what, a, b in (
            ("predict_marginals, dicts", their, dicts),
            ("predict_proba, arrays", their, arrays),
            ("predict", their_tags, tags),
        ):
            print(f"{what:26} {1e6 * a / n:7.2f} {1e6 * b / n:7.2f} us a token: {a / b:6.2f}x")

    pinned(run)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
