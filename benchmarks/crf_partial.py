"""Learning from half of the labels: chunks of an English treebank, each label hidden or not.

Chunks are those of dependency trees: a noun with the determiners, adjectives and other nouns that
hang on it to its left, in one piece, is an NP; a verb with its auxiliaries to its left a VP; tags
are BIO. Trained are: all labels; half of them, hidden ones as None; and only the sentences of which
no label is hidden. Under the constraints and without; the accuracy of tags in the test set counts.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _machine import describe
from _wanted import wanted

from valuesparse.crf.crfsuite import Tagger, Trainer
from valuesparse.parsing import read_conll

Data = list[tuple[list[list[str]], list[str]]]
NOUNS, VERBS = {"NOUN", "PROPN", "PRON"}, {"VERB", "AUX"}
IN_NP = {"det", "amod", "compound", "nummod", "nmod:poss", "flat"}
IN_VP = {"aux", "aux:pass", "advmod"}


def chunks(tags: list[str], heads: list[int], labels: list[str]) -> list[str]:
    """Return the BIO tags of a sentence; heads are counted from 1."""
    out = ["O"] * len(tags)
    for i in range(len(tags) - 1, -1, -1):
        kind, inside = ("NP", IN_NP) if tags[i] in NOUNS else ("VP", IN_VP)
        if out[i] != "O" or not (tags[i] in NOUNS or tags[i] in VERBS):
            continue
        first = i
        while first and heads[first - 1] == i + 1 and labels[first - 1] in inside:
            first -= 1
        out[first : i + 1] = [f"B-{kind}", *[f"I-{kind}"] * (i - first)]
    return out


def items(words: list[str]) -> list[list[str]]:
    """Return attributes: the word, its neighbours, its ends and its shape."""
    low = ["", *(w.lower() for w in words), ""]
    return [
        [
            f"w={low[i]}", f"-1={low[i - 1]}", f"+1={low[i + 1]}", f"s3={low[i][-3:]}",
            f"s2={low[i][-2:]}", f"cap={w[:1].isupper()}", f"num={w[:1].isdigit()}", "bias",
        ]
        for i, w in enumerate(words, 1)
    ]  # fmt: skip


def load(path: Path) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Yield items and chunk tags."""
    for s in read_conll(path):
        heads, labels = [int(h) for h in s.heads], list(s.labels)
        yield items(list(s.forms)), chunks(list(s.upos), heads, labels)


def accuracy(trainer: Trainer, test: Data, constraints: str | None) -> float:
    """Train; return the share of right tags in the test set."""
    tagger = Tagger(constraints=constraints)
    tagger.open_inmemory(trainer.train_inmemory())
    tags = tagger.tag_batch([x for x, _ in test])
    found = [tag for y in tags for tag in y]
    gold = [tag for _, y in test for tag in y]
    return sum(a == b for a, b in zip(found, gold, strict=True)) / len(gold)


def learned(
    what: str, algorithm: str, constraints: str | None, train: Data, known: list[Any], args: Any
) -> Trainer:
    """Return a trainer with the sentences that `what` says."""
    params: dict[str, Any] = {"max_iterations": args.iterations}
    if algorithm in ("lbfgs", "l2sgd"):
        params["c2"] = 0.1
    if "states" in what:
        params["feature.possible_states"] = True
    trainer = Trainer(algorithm, params, verbose=False, constraints=constraints)
    for (x, y), sets in zip(train, known, strict=True):
        if what == "full" or (what == "dropped" and None not in sets):
            trainer.append(x, y)
        elif what != "dropped":
            trainer.append(x, allowed=sets)
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--sentences", type=int, default=8936, help="as many as CoNLL-2000 has")
    parser.add_argument("--algorithms", nargs="+", default=["lbfgs"])
    parser.add_argument("--constraints", nargs="+", default=["BIO", "none"])
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--hidden", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=1, help="ways to hide; the mean counts")
    args = parser.parse_args()
    train: Data = list(load(wanted(args.train, "give a CoNLL-U file as TRAIN")))[: args.sentences]
    test: Data = list(load(wanted(args.test, "give a CoNLL-U file as TEST")))
    print("\n".join(describe()))
    hidings = []
    for seed in range(args.seeds):
        rng = random.Random(seed)
        hidings.append([[None if rng.random() < args.hidden else k for k in y] for _, y in train])
    whole = [sum(None not in y for y in known) for known in hidings]
    print(f"{len(train)} sentences, {whole} without a hidden label; {len(test)} to test on")
    for algorithm in args.algorithms:
        for name in args.constraints:
            constraints = None if name == "none" else name
            for what in ("full", "partial", "partial, all states", "dropped"):
                if what == "dropped" and not all(whole):
                    print(f"{algorithm} {name} {what}: no sentence is without a hidden label")
                    continue
                started = time.perf_counter()
                scores = [
                    100.0 * accuracy(
                        learned(what, algorithm, constraints, train, known, args), test, constraints
                    )
                    for known in (hidings[:1] if what == "full" else hidings)
                ]  # fmt: skip
                seconds = time.perf_counter() - started
                mean = statistics.mean(scores)
                print(f"{algorithm} {name} {what}: {mean:.2f} % ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
