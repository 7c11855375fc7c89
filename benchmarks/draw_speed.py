"""Draw the plots of docs/benchmarks.md from the tables of RESULTS.md.

python benchmarks/draw_speed.py
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
NAMES = {
    "ours": "valuesparse",
    "crfsuite": "CRFsuite's C core",
    "hmmlearn_scaling": "hmmlearn, scaling",
    "hmmlearn_log": "hmmlearn, log",
    "torchcrf_autograd": "pytorch-crf, autograd",
    "torch_struct_chain": "torch-struct",
    "dynamax_smoother": "dynamax",
}


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, its second line left out."""
    text = (HERE / "RESULTS.md").read_text(encoding="utf-8")
    below = text[text.index(f"\n{heading}\n") :]
    lines = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert lines is not None, heading
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()]
    return [rows[0], *rows[2:]]


def number(cell: str) -> float:
    """Return the number that a cell begins with, NaN for a dash."""
    return float("nan") if cell.startswith("–") else float(cell.split()[0])


def chains() -> None:
    """Draw the time of a position for each number of labels."""
    header, *rows = table("### batch, float64, 1 thread")
    labels = [int(k) for k in header[1:]]
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, *cells in rows:
        style = {"linewidth": 2.5, "color": "black", "zorder": 3} if name == "ours" else {}
        axes.loglog(labels, [number(c) for c in cells], "o-", label=NAMES[name], **style)
    axes.set(xlabel="labels", ylabel="µs a position", title="Marginals of a batch of chains")
    axes.set_xticks(labels, [str(k) for k in labels], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.savefig(IMAGES / "speed-chains.png", dpi=100, bbox_inches="tight")


def junction_trees() -> None:
    """Draw the time to compile a network and ask for all its marginals."""
    _, *rows = table("## Junction trees")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    places = range(len(rows))
    for column, label, shift in ((2, "valuesparse", -0.27), (3, "pyAgrum", 0), (4, "libDAI", 0.27)):
        heights = [number(row[column]) for row in rows]
        color = "black" if label == "valuesparse" else None
        axes.bar([p + shift for p in places], heights, 0.27, label=label, color=color)
    axes.set(yscale="log", ylabel="ms", title="All marginals of a Bayesian network, one thread")
    axes.set_xticks(places, [row[0] for row in rows], rotation=60, ha="right")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(IMAGES / "speed-networks.png", dpi=100, bbox_inches="tight")


def rivals() -> None:
    """Draw how many times as long as valuesparse each living rival takes."""
    _, *rows = table("### Living rivals, in one table")
    rows = sorted(rows, key=lambda row: number(row[2]))
    figure, axes = pyplot.subplots(figsize=(7.5, 0.27 * len(rows) + 0.8), layout="constrained")
    times = [number(row[2]) for row in rows]
    colors = ["C1" if x < 1.0 else "C0" for x in times]
    axes.barh(range(len(rows)), [x - 1.0 for x in times], left=1.0, color=colors)
    for place, x in enumerate(times):
        axes.annotate(f" {x:g}", (max(x, 1.0), place), va="center", fontsize=7)
    axes.set(xscale="log", xlabel="times as long as valuesparse (below 1 the rival is faster)")
    axes.set_xlim(right=4.0 * max(times))
    axes.set_yticks(
        range(len(rows)), [f"{r[0]}: {r[1]}".replace("`", "") for r in rows], fontsize=7
    )
    axes.axvline(1.0, color="black", linewidth=1)
    figure.savefig(IMAGES / "speed-rivals.png", dpi=110)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    chains()
    junction_trees()
    rivals()
