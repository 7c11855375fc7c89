"""Figure 2 of RSM10: pairs added and time by the size of a graph, and accuracy by time.

    python benchmarks/rsm10_figure2.py TREEBANKS WORK

a and b are Italian with the parameters of table 1, c is English with all of them. Measured by
rsm10_table1.py, whose rows this reads or makes.
"""

from __future__ import annotations

import matplotlib as mpl
from _reproduction import Row, Run, main, publish
from rsm10_table1 import FULL, SCHEMES, best, mean_of, measured, name_of

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

BY_SIZE, BY_TIME = "Italian", "English"
STYLES = {FULL: "k+", "MinDivergence": "s", "MinSize": "o", "MinJoint": "^"}


def by_size(rows: Row, took: Row) -> list[Row]:
    """Return for each sentence its nodes, pairs that each scheme added, and milliseconds."""
    shown = {FULL: FULL, **{scheme: best(rows, took, scheme) for scheme in SCHEMES}}
    found = []
    for i, words in enumerate(took["words"]):
        row: Row = {"words": words, "nodes": words * words}
        for scheme, name in shown.items():
            if scheme != FULL:  # which has all of them
                row[f"{scheme} pairs"] = took[name]["added"][i]
            row[f"{scheme} ms"] = took[name]["ms"][i]
        found.append(row)
    return found


def by_time(rows: Row, took: Row) -> list[Row]:
    """Return for each configuration its time and its share of wrong heads."""
    names = [(FULL, FULL)] + [(s, name_of(s, x)) for s, (_, some) in SCHEMES.items() for x in some]
    return [
        {
            "scheme": scheme, "configuration": name, "ms": mean_of(took[name]),
            "wrong heads": 1.0 - rows[name]["A"],
        }
        for scheme, name in names
    ]  # fmt: skip


def make(run: Run) -> None:
    """Draw what is measured."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8))
    drawn = 0
    for language, axis in ((BY_SIZE, 0), (BY_TIME, 2)):
        rows, took = measured(run, language)
        if not rows or not took or "tables" not in run.steps:
            continue
        drawn += 1
        if axis == 0:
            points = by_size(rows, took)
            publish(run, "rsm10-figure2ab", points)
            for scheme, style in STYLES.items():
                nodes = [r["nodes"] for r in points]
                for k, what in enumerate(("pairs", "ms")):
                    if f"{scheme} {what}" in points[0]:
                        some = [r[f"{scheme} {what}"] for r in points]
                        axes[k].plot(nodes, some, style, ms=4, label=scheme)
            axes[0].set(xlabel="nodes", ylabel="pairs added", title=f"a, {language}")
            axes[1].set(xlabel="nodes", ylabel="milliseconds", title=f"b, {language}", yscale="log")
            axes[1].legend(fontsize=8)
        else:
            points = by_time(rows, took)
            publish(run, "rsm10-figure2c", points)
            for scheme, style in STYLES.items():
                some = [(r["ms"], r["wrong heads"]) for r in points if r["scheme"] == scheme]
                line = style if scheme == FULL else f"{style}-"
                axes[2].plot(*zip(*some, strict=True), line, label=scheme)
            axes[2].set(xlabel="milliseconds a sentence", ylabel="wrong heads", xscale="log",
                        title=f"c, {language}")  # fmt: skip
            axes[2].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes[2].xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes[2].xaxis.set_minor_formatter(NullFormatter())
            axes[2].legend(fontsize=8)
    if drawn:
        figure.tight_layout()
        figure.savefig(run.out / "rsm10-figure2.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main(__doc__, make)
