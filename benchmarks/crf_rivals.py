"""Living CRF taggers side by side: training, tagging and marginals from the same lists of str.

    pip install python-crfsuite chaine crfsuite crfs     # or '.[bench]', which has them
    python benchmarks/crf_rivals.py [--sentences N] [--plot taggers.png]

Every package trains by L-BFGS with the same penalty, iterations and sentences, and tags the whole
test file, a sentence a call; each on one pinned thread, in turns, and medians of the runs count.
crfs cannot train: it tags with the file that python-crfsuite has written, as crfsuite does. chaine
takes dicts, which it is given ready-made. Marginals are those of every label of every token; "-" is
for what a package does not have. A package that is not installed is left out, and named.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _machine import describe, pinned, require_quiet
from _tagging import TEST, TRAIN, attributes, conll_file, read_conll

import valuesparse as vs

Lists = list[list[list[str]]]
C2, ITERATIONS = 1.0, 30


class Crfsuite:
    """python-crfsuite, and whatever has its interface."""

    package, module = "python-crfsuite", "pycrfsuite"

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{self.module}.model"
        self.library: Any = import_module(self.module)

    def train(self, rows: Lists, tags: list[list[str]]) -> None:
        """Train on sequences, and open the model."""
        trainer = self.library.Trainer("lbfgs", verbose=False)
        trainer.set_params({"c2": C2, "max_iterations": ITERATIONS})
        for row, tag in zip(rows, tags, strict=True):
            trainer.append(row, tag)
        trainer.train(str(self.path))
        self.open(self.path)

    def open(self, path: Path) -> None:
        """Open a model file."""
        self.tagger = self.library.Tagger()
        self.tagger.open(str(path))

    def tag(self, rows: Lists) -> list[list[str]]:
        """Return the labels of all sequences."""
        return [self.tagger.tag(row) for row in rows]

    def marginals(self, rows: Lists) -> None:
        """Compute all marginals of all sequences."""
        labels = self.tagger.labels()
        for row in rows:
            self.tagger.set(row)
            np.array([[self.tagger.marginal(y, i) for y in labels] for i in range(len(row))])


class Ours(Crfsuite):
    """valuesparse."""

    package, module = "valuesparse", "valuesparse.crf.crfsuite"

    def marginals(self, rows: Lists) -> None:
        """Compute all marginals of all sequences."""
        for row in rows:
            self.tagger.marginals(row)


class Rust(Crfsuite):
    """The binding of a port to Rust: its models tag by themselves, and have no marginals."""

    package, module = "crfsuite", "crfsuite"
    marginals = None  # type: ignore[assignment]

    def open(self, path: Path) -> None:
        """Open a model file."""
        self.tagger = self.library.Model(str(path))


class Crfs(Crfsuite):
    """Tags only, with attributes that are objects."""

    package, module = "crfs", "crfs"
    train = marginals = None  # type: ignore[assignment]

    def open(self, path: Path) -> None:
        """Open a model file."""
        self.model = self.library.Model.open(str(path))

    def tag(self, rows: Lists) -> list[list[str]]:
        """Return the labels of all sequences."""
        attribute, tag = self.library.Attribute, self.model.tag
        return [tag([[attribute(a, 1.0) for a in item] for item in row]) for row in rows]


class Chaine:
    """A binding of CRFsuite that takes dicts."""

    package, module = "chaine", "chaine"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "chaine.model"
        self.library: Any = import_module(self.module)
        self.ready: dict[int, list[list[dict[str, bool]]]] = {}

    def _dicts(self, rows: Lists) -> list[list[dict[str, bool]]]:
        if id(rows) not in self.ready:
            self.ready[id(rows)] = [[dict.fromkeys(item, True) for item in row] for row in rows]
        return self.ready[id(rows)]

    def train(self, rows: Lists, tags: list[list[str]]) -> None:
        """Train on sequences, and open the model."""
        self.model = self.library.train(
            self._dicts(rows), tags, model_filepath=str(self.path), verbose=0,
            algorithm="lbfgs", c1=0.0, c2=C2, max_iterations=ITERATIONS,
        )  # fmt: skip

    def tag(self, rows: Lists) -> list[list[str]]:
        """Return the labels of all sequences."""
        return list(self.model.predict(self._dicts(rows)))

    def marginals(self, rows: Lists) -> None:
        """Compute all marginals of all sequences."""
        for row in self._dicts(rows):
            self.model.predict_proba_single(row)


RIVALS = (Ours, Crfsuite, Chaine, Rust, Crfs)


def medians(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each, run in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(all_of) for name, all_of in seconds.items()}


def plot(table: dict[str, dict[str, float]], path: Path) -> None:
    """Draw how many times as long as ours each rival takes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [name for name in table if name != Ours.package]
    questions = list(next(iter(table.values())))
    figure, axes = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    for i, question in enumerate(questions):
        ratios = [table[n].get(question, np.nan) / table[Ours.package][question] for n in names]
        bars = axes.bar(np.arange(len(names)) + 0.26 * (i - 1), ratios, 0.26, label=question)
        axes.bar_label(bars, [f"{r:.1f}" if r == r else "" for r in ratios], fontsize=8)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(xticks=range(len(names)), xticklabels=names, ylabel="times as long as valuesparse")
    axes.set_yscale("log")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, default=TRAIN, help="CoNLL-U file")
    parser.add_argument("--test", type=Path, default=TEST, help="CoNLL-U file")
    parser.add_argument("--sentences", type=int, default=3000, help="to train on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="PNG to draw")
    parser.add_argument("--allow-busy", action="store_true", help="only warn on a busy machine")
    options = parser.parse_args()
    conll_file(options.train, "--train")
    conll_file(options.test, "--test")
    require_quiet(options.allow_busy)
    print(*describe(tuple(kind.package for kind in RIVALS)), sep="\n")
    vs.set_num_threads(1)
    with pinned(0):
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Print the table, and draw it when asked to."""
    lessons = list(read_conll(options.train, 1, 3))[: options.sentences]
    rows, tags = [attributes(w) for w, _ in lessons], [t for _, t in lessons]
    test = list(read_conll(options.test, 1, 3))
    asked, gold = [attributes(w) for w, _ in test], [t for _, t in test]
    tokens = sum(map(len, gold))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        there = [kind for kind in RIVALS if find_spec(kind.module.split(".")[0])]
        absent = sorted({kind.package for kind in RIVALS} - {kind.package for kind in there})
        if absent:
            print("not installed:", *absent)
        all_of = {kind.package: kind(folder) for kind in there}
        learn = {
            n: (lambda r=r: r.train(rows, tags)) for n, r in all_of.items() if r.train is not None
        }
        table: dict[str, dict[str, float]] = {n: {} for n in all_of}
        for n, seconds in medians(learn, max(3, options.repeats // 2)).items():
            table[n]["training"] = seconds
        if "crfs" in all_of:
            all_of["crfs"].open(all_of["python-crfsuite"].path)
        right = {
            n: sum(a == b for x, y in zip(r.tag(asked), gold, strict=True)
                   for a, b in zip(x, y, strict=True)) / tokens
            for n, r in all_of.items()
        }  # fmt: skip
        for n, seconds in medians(
            {n: (lambda r=r: r.tag(asked)) for n, r in all_of.items()}, options.repeats
        ).items():
            table[n]["tagging"] = seconds / tokens * 1e6
        for n, seconds in medians(
            {n: (lambda r=r: r.marginals(asked)) for n, r in all_of.items() if r.marginals},
            options.repeats,
        ).items():
            table[n]["marginals"] = seconds / tokens * 1e6
    ours = table[Ours.package]
    print(
        f"\n{len(rows)} sentences, {tokens} tokens to tag, {ITERATIONS} iterations, c2 = {C2:g}\n"
    )
    print("| package | training, s | tagging, µs a token | all marginals, µs a token | accuracy |")
    print("|---|--:|--:|--:|--:|")
    for n, row in table.items():
        cells = [
            f"{row[q]:.3g} ({row[q] / ours[q]:.1f}×)" if q in row else "–"
            for q in ("training", "tagging", "marginals")
        ]
        print(f"| {n} {version(n)} | " + " | ".join(cells) + f" | {100 * right[n]:.2f} |")
    if options.plot:
        plot(table, options.plot)


if __name__ == "__main__":
    main()
