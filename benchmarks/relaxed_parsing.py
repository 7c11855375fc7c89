"""Relaxed parsing beside full belief propagation: the columns of RS10, Table 1, and of RSM10's.

python benchmarks/relaxed_parsing.py FOLDER [--language en_ewt] [--train 2000] [--epochs 3]

FOLDER has the treebanks of Universal Dependencies. The model is trained without a pruner, so that
all arcs and pairs of arcs are looked at, and kept in a temporary folder; or it is `--model FILE`.
Times are those of all of parsing, from sentences to heads, of the processor, on one thread. Errors
are those of the marginals of arcs beside full belief propagation: the mean (RS10), and the mean
over sentences of the largest (RSM10).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _machine import describe

from valuesparse.parsing import Parser, Sentence, evaluate, load, read_conll, train
from valuesparse.parsing._encoding import encode
from valuesparse.parsing._parser import _choice

#: name, method and options of each row.
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("arcs alone", "relaxed", {"max_rounds": 0}),
    ("BP, 10 iterations", "bp", {}),
    ("relaxed, 1 round, 1e-4", "relaxed", {}),
    ("relaxed, 1 round, 1e-3", "relaxed", {"threshold": 1e-3}),
    ("relaxed, all rounds, 1e-4", "relaxed", {"max_rounds": None}),
    ("relaxed, all rounds of 50, 1e-4", "relaxed", {"max_rounds": None, "max_iterations": 50}),
    ("MinJoint, 1e-3", "relaxed", {"min_joint": 1e-3}),
    ("MinJoint, 1e-2", "relaxed", {"min_joint": 1e-2}),
    ("MinDivergence, 50", "relaxed", {"min_divergence": 50}),
    ("MinDivergence, 200", "relaxed", {"min_divergence": 200}),
    ("MinSize, 0.1", "relaxed", {"min_size": 0.1}),
    ("MinSize, 0.5", "relaxed", {"min_size": 0.5}),
]


def model(given: argparse.Namespace) -> Parser:
    """Return the parser, trained unless it is given or an earlier run has done so."""
    if given.model is not None:
        return load(given.model)
    name = f"valuesparse-{given.language}-{given.train}-{given.epochs}.parser"
    path = Path(tempfile.gettempdir(), name)
    if not path.exists():
        source = given.folder / f"{given.language}-train.conllu.gz"
        sentences = list(islice(read_conll(source, check="training"), given.train))
        parser = train(sentences, epochs=given.epochs, prune=False, progress=print)
        parser.save(path)
    return load(path)


def beliefs(parser: Parser, sentences: list[Sentence], method: str, options: Any) -> list[Any]:
    """Return the beliefs of all arcs of each sentence."""
    rounds = options.get("max_rounds", 1)
    objectives = {name: value for name, value in options.items() if name.startswith("min_")}
    choice = _choice(options.get("threshold", 1e-4), objectives) if method == "relaxed" else (0, 0)
    how = (
        *choice, -1 if rounds is None else rounds, options.get("max_iterations", 10), 1e-4, 0.0
    )  # fmt: skip
    trees = (parser.constraint == "projective", parser.single_root)
    found = []
    for sentence in sentences:
        words = encode([sentence], parser.ignore).words
        _, kinds, _, p, _, _ = parser._predictor.beliefs(words, how, False, trees)
        found.append(p[kinds == 0])
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--language", default="en_ewt")
    arguments.add_argument("--model", type=Path)
    arguments.add_argument("--train", type=int, default=2000)
    arguments.add_argument("--epochs", type=int, default=3)
    arguments.add_argument("--sentences", type=int, default=400)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    print(*describe(()), sep="\n")
    parser = model(given)
    source = given.folder / f"{given.language}-test.conllu.gz"
    gold = list(islice(read_conll(source), given.sentences))
    words = sum(map(len, gold))
    print(f"{given.language}, {parser}: {len(gold)} sentences, {words} words")
    exact = beliefs(parser, gold, *ROWS[1][1:])
    took: dict[str, list[float]] = {name: [] for name, *_ in ROWS}
    rows: dict[str, tuple[Any, Any, float, float]] = {}
    for i in range(given.rounds + 1):
        for name, method, options in ROWS:
            if method == "bp" and i > 1:
                continue
            begin = time.process_time()
            parses = parser.parse(gold, method, prune=False, threads=1, **options)
            system = list(parses)
            took[name].append(time.process_time() - begin)
            if i == 0:
                own = beliefs(parser, gold, method, options)
                error = [np.abs(a - b) for a, b in zip(own, exact, strict=True)]
                mean = float(np.concatenate(error).mean())
                largest = float(np.mean([e.max(initial=0.0) for e in error]))
                rows[name] = evaluate(gold, system), parses.summary, mean, largest
    full = min(took[ROWS[1][0]])
    print(f"{'':<34}{'UAS':>7}{'µs/word':>9}{'words/s':>9}{'ratio':>7}{'pairs %':>9}{'scored %':>9}"
          f"{'error':>10}{'largest':>9}{'conv. %':>8}")  # fmt: skip
    for name, (score, summary, error, largest) in rows.items():
        seconds = min(took[name]) if name == ROWS[1][0] else statistics.median(took[name][1:])
        pairs = max(1, summary.pairs)
        print(
            f"{name:<34}{100 * score.uas:7.2f}{1e6 * seconds / words:9.1f}{words / seconds:9.0f}"
            f"{full / seconds:7.1f}{100 * summary.used / pairs:9.2f}"
            f"{100 * summary.scored / pairs:9.2f}{error:10.2e}{largest:9.2e}"
            f"{100 * summary.converged / len(gold):8.1f}"
        )


if __name__ == "__main__":
    main()
