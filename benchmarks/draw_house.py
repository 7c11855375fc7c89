"""Draw how data flows through the code: the picture in docs/house.md.

python benchmarks/draw_house.py -o docs/images/house.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

INK, LINE = "#22303c", "#7b8a97"
TOP, MIDDLE, ENGINE, BASE = "#fdf3e7", "#e8f3f0", "#eef3f7", "#e9e6f2"
COLUMN = [0.02, 0.218, 0.416, 0.614, 0.812]  # where the boxes of a column begin
WIDTH, HEIGHT = 0.168, 0.115
# (column, y, columns, folders, what they do, colour): rings from the caller to the processor.
BOXES: list[tuple[int, float, int, str, str, str]] = [
    (0, 0.865, 1, "cli io torch", "commands, files,\nlayers", TOP),
    (1, 0.865, 1, "crf parsing hmm", "taggers, parsers,\nMarkov models", TOP),
    (2, 0.865, 1, "models factors", "arrays and names,\nchecked once", TOP),
    (3, 0.865, 1, "results", "records; ask the engine\nhanded to them", TOP),
    (4, 0.865, 1, "relaxed bounds", "which factors;\nlog Z from both sides", TOP),
    (0, 0.665, 1, "corpora", "shards of large files,\nkilled and resumed", TOP),
    (1, 0.665, 1, "learning", "L-BFGS, online rules,\nfor any model", TOP),
    (2, 0.665, 2, "inference", "evidence split once,\nthe engine chosen", MIDDLE),
    (4, 0.665, 1, "schedule", "plans: shown,\nrecorded, simulated", TOP),
    (0, 0.435, 1, "crf vectors io", "attributes, gradients,\nsums, name tables", ENGINE),
    (1, 0.435, 1, "parser parsing", "features and parts;\nmany sentences", ENGINE),
    (2, 0.435, 1, "forest islands", "passes up and down;\nislands in rounds", ENGINE),
    (3, 0.435, 1, "junction", "elimination, cliques,\nlayout, propagation", ENGINE),
    (4, 0.435, 1, "messages factors", "an update is a factor:\npair, table, structured", ENGINE),
    (0, 0.265, 1, "hmm", "passes of few states,\ndensities, M steps", ENGINE),
    (1, 0.265, 1, "dependency", "dependency trees\nof one sentence", ENGINE),
    (2, 0.265, 1, "higher", "chains of order 2,\nchains of segments", ENGINE),
    (3, 0.265, 1, "supports", "within a tolerance: few\nrows of large tables", ENGINE),
    (4, 0.265, 1, "dual", "decoding by dual\ndecomposition", ENGINE),
    (0, 0.04, 1, "core", "input, scratch, polling,\nexact sums", BASE),
    (1, 0.04, 1, "rows", "rows of numbers,\ntiles of tables", BASE),
    (2, 0.04, 2, "simd", "vectors, and the one list\nof SIMD levels", BASE),
    (4, 0.04, 1, "pool", "runs a plan: tasks,\nand their waits", BASE),
]
# (y, height): what stands round the engines, and round what all of them use.
ROUND = [(0.245, 0.325), (0.02, 0.155)]
ARROWS = [
    ((0.19, 0.93), (0.216, 0.93), ""),
    ((0.388, 0.93), (0.414, 0.93), ""),
    ((0.238, 0.865), (0.168, 0.782), "files"),
    ((0.302, 0.865), (0.302, 0.782), "losses"),
    ((0.5, 0.865), (0.5, 0.782), "model, evidence, zeta"),
    ((0.698, 0.782), (0.698, 0.865), "answers"),
    ((0.832, 0.865), (0.768, 0.782), "questions"),
    ((0.784, 0.72), (0.81, 0.72), ""),
    ((0.302, 0.665), (0.302, 0.572), "sums, gradients"),
    ((0.599, 0.665), (0.599, 0.572), "pointers, a plan"),
    ((0.302, 0.435), (0.302, 0.382), "arcs"),
    ((0.896, 0.435), (0.896, 0.382), ""),
    ((0.5, 0.245), (0.5, 0.177), "rows, vectors, tasks"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("house.png"))
    options = parser.parse_args()
    figure, axes = plt.subplots(figsize=(10.6, 7.4), dpi=110)
    axes.set_xlim(-0.05, 1.01)
    axes.set_ylim(0.0, 1.0)
    axes.axis("off")

    def box(x: float, y: float, width: float, height: float, colour: str) -> None:
        axes.add_patch(
            FancyBboxPatch(
                (x, y), width, height, boxstyle="round,pad=0.006", facecolor=colour, edgecolor=LINE
            )
        )

    for y, height in ROUND:
        box(0.004, y, 0.992, height, "white")
    for column, y, columns, folders, what, colour in BOXES:
        x, width = COLUMN[column], WIDTH + (columns - 1) * (COLUMN[1] - COLUMN[0])
        box(x, y, width, HEIGHT, colour)
        middle = x + width / 2
        axes.text(
            middle, y + 0.09, folders, ha="center", va="center", color=INK,
            family="monospace", fontsize=9.5, weight="bold",
        )  # fmt: skip
        axes.text(middle, y + 0.037, what, ha="center", va="center", color=INK, fontsize=8.0)
    for y, home in ((0.82, "valuesparse/"), (0.3, "ext/")):
        axes.text(
            -0.02, y, home, rotation=90, ha="right", va="center", color=INK,
            family="monospace", fontsize=9.5,
        )  # fmt: skip
    for start, end, label in ARROWS:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": LINE, "lw": 1.3})
        if label:
            x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
            axes.text(
                x + 0.018, y, label, ha="left", va="center", color=INK, fontsize=8.2, style="italic"
            )
    figure.savefig(options.output, bbox_inches="tight")


if __name__ == "__main__":
    main()
