"""Figure 1 of RS10: the time of a sentence by its length, in four configurations.

    python benchmarks/rs10_figure1.py TREEBANKS WORK

Danish, the parser of the tables of RS10. As many sentences of each range of lengths as --timed says
(by default 10), each in all configurations in turn; the processor's time, features included.
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib as mpl
import numpy as np
from _reproduction import Row, Run, alternating, main, publish
from rs10_tables import CONFIGURATIONS, cut, heads_of, parse

mpl.use("Agg")
import matplotlib.pyplot as plt

from valuesparse.parsing import Parser, Sentence

LANGUAGE, WIDTH, EACH = "Danish", 5, 10
LINES = {
    "BP": "o-",
    "Pruned 0.1": "^:",
    "Rel ∞, 0.0001, 50": "s--",
    "Rel 1, 0.0001, 50": "d-.",
}


def chosen(gold: list[Sentence], each: int) -> list[Sentence]:
    """Return the first sentences of each range of lengths."""
    found: dict[int, list[Sentence]] = {}
    for sentence in gold:
        own = found.setdefault((len(sentence) - 1) // WIDTH, [])
        if len(sentence) > 0 and len(own) < each:
            own.append(sentence)
    return [s for place in sorted(found) for s in found[place]]


def measure(parser: Parser, sentences: list[Sentence], samples: int) -> Row:
    """Return the milliseconds of each sentence, by configuration."""
    found: dict[str, list[float]] = {"words": [len(s) for s in sentences]}
    for sentence in sentences:
        calls: dict[str, Callable[[], object]] = {
            name: lambda name=name, s=sentence: parse(parser, [s], CONFIGURATIONS[name])
            for name in LINES
            if name in CONFIGURATIONS
        }
        calls["Pruned 0.1"] = lambda s=sentence: heads_of(parser, cut(parser, s, 0.1)[0])
        for name, seconds in alternating(calls, samples).items():
            found.setdefault(name, []).append(1e3 * seconds)
    return found


def make(run: Run) -> None:
    """Measure and draw."""
    sentences = chosen(run.gold(LANGUAGE), run.timed or EACH)
    took = run.row(
        "times", "rs10-figure1", LANGUAGE,
        lambda: measure(run.unpruned(LANGUAGE), sentences, run.samples),
    )  # fmt: skip
    if not took or "tables" not in run.steps:
        return
    words = np.array(took["words"])
    place = (words - 1) // WIDTH
    rows = []
    for k in np.unique(place):
        row: Row = {"words": float(words[place == k].mean()), "sentences": int((place == k).sum())}
        rows.append({**row, **{x: float(np.array(took[x])[place == k].mean()) for x in LINES}})
    publish(run, "rs10-figure1", rows)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8))
    for axis, scale in zip(axes, ("linear", "log"), strict=True):
        for name, style in LINES.items():
            axis.plot([r["words"] for r in rows], [r[name] for r in rows], style, label=name)
        axis.set(xlabel="words", ylabel="milliseconds a sentence", yscale=scale)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(run.out / "rs10-figure1.png", dpi=100)


if __name__ == "__main__":
    main(__doc__, make)
