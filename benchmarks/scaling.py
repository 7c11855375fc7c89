"""How much faster each question is answered on more threads, as a table, a CSV file and a picture.

    python benchmarks/scaling.py --out scaling
    python benchmarks/scaling.py --threads 1 2 4 8 16 --only chain parsing

Numbers of threads take turns, the shortest of each counts, and answers of one kind lie in memory
that earlier ones gave back, as in a service. Beside the gains stands that of copying memory on as
many threads, which is the limit of what reads and writes more than it computes. Models are random;
parsers and taggers are trained on the English treebank where ``--treebanks`` has it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
import numpy as np
from _inputs import SENTENCE_LENGTHS
from _machine import cores, describe, require_quiet
from _tagging import DATA, attributes, read_conll
from _treebanks import ORIGIN, evaluation_file, first, lessons_file
from _wanted import wanted
from islands import scores, tree
from loopy import mixed
from roofline import bandwidth

import valuesparse as vs
from valuesparse.crf.crfsuite import Tagger, Trainer

matplotlib.use("Agg")
from matplotlib import pyplot

#: A question, to be answered on a number of threads.
Question = Callable[[int], object]
Named = Iterator[tuple[str, Question]]


def batch(n_labels: int, positions: int, peak: float, dtype: str = "float64") -> vs.Chain:
    """Return sentences of 5 to 40 words; four in five words have a label that stands out."""
    rng = np.random.default_rng(n_labels)
    lengths = rng.choice(SENTENCE_LENGTHS, positions // 22)
    unary, table = scores(int(lengths.sum()), n_labels, peak, rng, dtype)
    return vs.Chain(unary, table, lengths=lengths)


def long_chain(n_labels: int, positions: int) -> vs.Chain:
    """Return one chain, of the scores that the aim for a million positions names."""
    rng = np.random.default_rng(0)
    unary = 3.0 * rng.normal(size=(positions, n_labels))
    return vs.Chain(unary, rng.normal(size=(n_labels, n_labels)))


def chains() -> Named:
    for n_labels, positions in ((9, 1_000_000), (49, 200_000), (256, 20_000)):
        m = batch(n_labels, positions, 0.0)
        yield f"batch, {n_labels} labels: infer", lambda t, m=m: vs.infer(m, threads=t).marginals
    m, peaked = batch(49, 200_000, 0.0), batch(49, 200_000, 6.0)
    states = vs.decode(m).states
    result = vs.infer(m)
    yield "batch: infer, float32", _infer(batch(49, 400_000, 0.0, "float32"))
    yield "batch: decode", _decode(m)
    yield "batch: log_prob", lambda t: vs.log_prob(m, states, threads=t)
    yield "batch: sample", lambda t: vs.sample(m, 1, np.random.default_rng(0), threads=t)
    yield "batch: expectations", lambda t: result.expectations(threads=t)
    yield "batch: infer, keep=1e-4", lambda t: vs.infer(peaked, keep=1e-4, threads=t)
    yield "batch: infer, zeta=0.9", lambda t: vs.infer(peaked, zeta=0.9, threads=t).marginals
    yield "batch: infer, tol=1e-3", lambda t: vs.infer(peaked, tol=1e-3, threads=t).marginals
    for n_labels, positions in ((2, 4_000_000), (45, 1_000_000)):
        m = long_chain(n_labels, positions)
        name = f"one chain, {n_labels} labels"
        yield f"{name}: infer", _infer(m)
        yield f"{name}: decode", _decode(m)
        yield f"{name}: sample", lambda t, m=m: vs.sample(m, 1, np.random.default_rng(0), threads=t)
    yield "one chain, 45 labels: infer, zeta=0.9", lambda t: vs.infer(m, zeta=0.9, threads=t)


def _infer(model: vs.Chain | vs.Tree) -> Question:
    return lambda t: vs.infer(model, threads=t).marginals


def _decode(model: vs.Chain | vs.Tree) -> Question:
    return lambda t: vs.decode(model, threads=t)


def trees() -> Named:
    """Hang each node below any before it, and below one of the last 50: a deep tree."""
    for n_labels, nodes in ((9, 500_000), (49, 100_000)):
        rng = np.random.default_rng(n_labels)
        deep = tree(nodes, n_labels, 0.0, rng, "float64")
        parent = np.r_[-1, rng.integers(0, np.arange(1, nodes))]
        wide = vs.Tree(parent, deep.unary, deep.table)
        for shape, m in (("wide", wide), ("deep", deep)):
            yield f"one {shape} tree, {n_labels} labels: infer", _infer(m)
            yield f"one {shape} tree, {n_labels} labels: decode", _decode(m)


def grids() -> Named:
    rng = np.random.default_rng(0)
    small = vs.JunctionTree(mixed(16, 1.0, rng))
    yield "grid of 16 x 16: junction tree", lambda t: small.infer(threads=t).marginals
    large = mixed(400, 0.5, rng)
    for name in ("bp", "trw", "mean_field"):
        yield f"grid of 400 x 400: {name}", lambda t, n=name: _beliefs(large, n, t)
    middle = mixed(100, 0.5, rng)
    yield "grid of 100 x 100: structured", lambda t: _beliefs(middle, "structured_mean_field", t)


def _beliefs(graph: vs.FactorGraph, method: str, threads: int) -> object:
    return vs.infer(graph, method=method, threads=threads).marginals


def dependency_trees() -> Named:
    rng = np.random.default_rng(0)
    arcs = [rng.normal(0.0, 2.0, (n + 1, n + 1)) for n in rng.integers(5, 41, 4000)]
    yield "4,000 sentences: matrix tree", lambda t: vs.parsing.marginals(arcs, threads=t)
    yield "4,000 sentences: inside-outside", lambda t: vs.parsing.marginals(arcs, True, threads=t)
    yield "4,000 sentences: best trees", lambda t: vs.parsing.best_trees(arcs, threads=t)


def treebank(folder: Path) -> Named:
    """Questions about text: training, tagging, parsing."""
    english = wanted(lessons_file(folder, "English"), f"--treebanks names its folder; {ORIGIN}")
    lines = list(read_conll(english, 1, 4))
    data = [(attributes(words), tags) for words, tags in lines]
    path = Path(tempfile.mkdtemp()) / "tagger"

    def train_tagger(threads: int) -> None:
        trainer = Trainer("lbfgs", {"max_iterations": 10}, verbose=False, threads=threads)
        for items, tags in data:
            trainer.append(items, tags)
        trainer.train(str(path))

    yield "training a tagger, 10 iterations, files and features too", train_tagger
    train_tagger(cores())
    tagger = Tagger()
    tagger.open(str(path))
    items = [one for one, _ in data]
    yield "tagging, from attributes", lambda t: tagger.tag_batch(items, threads=t)
    lessons = first(lessons_file(folder, "English"), 1500, check="training")
    yield (
        "training a parser of order 2, an epoch",
        lambda t: vs.parsing.train(lessons, order=2, epochs=1, threads=t),
    )
    parser = vs.parsing.train(lessons, order=2, epochs=2)
    gold = first(evaluation_file(folder, "English"), None)
    for method in ("relaxed", "bp"):
        yield (
            f"parsing, {method}",
            lambda t, m=method: list(parser.parse(gold, method=m, threads=t)),
        )


def seconds(ask: Question, threads: list[int], rounds: int) -> list[float]:
    """Return the shortest time with each number of threads, asked in turn."""
    least = [np.inf] * len(threads)
    ask(threads[-1])
    for _ in range(rounds):
        for i, count in enumerate(threads):
            begin = time.perf_counter()
            ask(count)
            least[i] = min(least[i], time.perf_counter() - begin)
    return least


def draw(
    rows: list[tuple[str, list[float]]], threads: list[int], copied: list[float], path: Path
) -> None:
    """Draw the gains, a line for each question, the best first in the legend."""
    figure, axes = pyplot.subplots(figsize=(8, 6))
    limits = {"color": "black", "linewidth": 1.5, "zorder": 1}
    linear = [t / threads[0] for t in threads]
    axes.plot(threads, linear, "-.", label="linear", **limits)
    copying = [x / copied[0] for x in copied]
    axes.plot(threads, copying, marker="x", label="copying memory", **limits)
    gains = sorted(((t[0] / t[-1], name, t) for name, t in rows), reverse=True)
    for i, (_, name, taken) in enumerate(gains):
        style = ("-", "--", ":")[i // 10 % 3]
        axes.plot(threads, [taken[0] / t for t in taken], style, marker=".", label=name)
    axes.set(xscale="log", yscale="log", xlabel="threads", ylabel="times as fast as one thread")
    axes.set_xticks(threads, [str(t) for t in threads])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    ticks = [m * 10.0**e for e in range(-3, 4) for m in (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)]
    ticks = [tick for tick in ticks if low <= tick <= high]  # losses have some, too
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.savefig(path, dpi=100, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    powers = [2**i for i in range(cores().bit_length())]
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({*powers, cores()}))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of questions")
    parser.add_argument("--treebanks", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, help="write OUT.csv and OUT.png")
    parser.add_argument("--allow-busy", action="store_true")
    options = parser.parse_args()
    require_quiet(options.allow_busy)
    threads = options.threads
    print(*describe(()), sep="\n")
    copied = [bandwidth("copy", t) for t in threads]
    print("copying memory: " + ", ".join(f"{x / copied[0]:.2f}" for x in copied))
    print(f"\n| question | ms, {threads[0]} | {' | '.join(map(str, threads[1:]))} |")
    print("|---|" + "---:|" * len(threads))
    parts = [chains(), trees(), grids(), dependency_trees()]
    if options.treebanks.is_dir():
        parts.append(treebank(options.treebanks))
    else:
        print(f"no questions about text: {options.treebanks} is not there")
    rows: list[tuple[str, list[float]]] = []
    for name, ask in (one for part in parts for one in part):
        if not any(word in name for word in options.only):
            continue
        taken = seconds(ask, threads, options.rounds)
        rows.append((name, taken))
        gains = " | ".join(f"{taken[0] / t:.2f}" for t in taken[1:])
        print(f"| {name} | {1e3 * taken[0]:.1f} | {gains} |", flush=True)
    if options.out:
        lines = [",".join(["question", *(f"seconds_{t}" for t in threads)])]
        lines += [",".join([f'"{name}"', *(f"{t:.6g}" for t in taken)]) for name, taken in rows]
        options.out.with_suffix(".csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        draw(rows, threads, copied, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
