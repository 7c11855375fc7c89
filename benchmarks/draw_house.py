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
# (x, y, width, folder, what it does, colour): rings from the caller to the processor.
BOXES: list[tuple[float, float, float, str, str, str]] = [
    (0.02, 0.84, 0.22, "cli io crf torch", "commands, files,\ntaggers, layers", TOP),
    (0.27, 0.84, 0.22, "models  factors", "arrays and names,\nchecked once", TOP),
    (0.52, 0.84, 0.22, "results", "records; they ask the\nengine handed to them", TOP),
    (0.77, 0.84, 0.21, "relaxed  bounds", "which factors; log Z\nbetween two numbers", TOP),
    (0.02, 0.6, 0.22, "learning", "L-BFGS and online rules,\nfor any model", TOP),
    (0.27, 0.6, 0.47, "inference", "evidence split once,\nthe engine chosen", MIDDLE),
    (0.77, 0.6, 0.21, "schedule", "plans: shown, recorded,\nsimulated", TOP),
    (
        0.02,
        0.36,
        0.22,
        "crf  vectors  io",
        "attributes, gradients,\nlong sums, name tables",
        ENGINE,
    ),
    (0.27, 0.36, 0.22, "forest  islands", "passes up and down;\nislands in rounds", ENGINE),
    (0.52, 0.36, 0.22, "junction", "elimination, cliques,\nlayout, propagation", ENGINE),
    (
        0.77,
        0.36,
        0.21,
        "messages factors",
        "an update is a factor:\npair, table, structured",
        ENGINE,
    ),
    (0.02, 0.1, 0.22, "core", "input, scratch memory,\npolling, exact sums", BASE),
    (0.27, 0.1, 0.22, "rows", "rows of numbers,\ntiles of tables", BASE),
    (0.52, 0.1, 0.22, "simd", "vectors, and the one\nlist of SIMD levels", BASE),
    (0.77, 0.1, 0.21, "pool", "runs a plan: tasks, and\nwhat each waits for", BASE),
]
HEIGHT = 0.14
ARROWS = [
    ((0.24, 0.91), (0.27, 0.91), ""),
    ((0.13, 0.84), (0.13, 0.74), "losses"),
    ((0.38, 0.84), (0.38, 0.74), "a model, evidence, zeta"),
    ((0.63, 0.74), (0.63, 0.84), "answers"),
    ((0.83, 0.84), (0.74, 0.74), "questions"),
    ((0.74, 0.66), (0.77, 0.66), ""),
    ((0.13, 0.6), (0.13, 0.5), ""),
    ((0.38, 0.6), (0.38, 0.5), "pointers, a plan"),
    ((0.63, 0.6), (0.63, 0.5), ""),
    ((0.72, 0.6), (0.82, 0.5), ""),
    ((0.13, 0.36), (0.13, 0.24), ""),
    ((0.38, 0.36), (0.38, 0.24), "rows"),
    ((0.63, 0.36), (0.63, 0.24), "vectors"),
    ((0.80, 0.36), (0.71, 0.24), ""),
    ((0.90, 0.36), (0.90, 0.24), "tasks"),
    ((0.49, 0.17), (0.52, 0.17), ""),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("house.png"))
    options = parser.parse_args()
    figure, axes = plt.subplots(figsize=(9.6, 6.2), dpi=110)
    axes.set_xlim(-0.05, 1)
    axes.set_ylim(0.05, 1.02)
    axes.axis("off")
    for x, y, width, folder, what, colour in BOXES:
        axes.add_patch(
            FancyBboxPatch(
                (x, y), width, HEIGHT, boxstyle="round,pad=0.006", facecolor=colour, edgecolor=LINE
            )
        )
        middle = x + width / 2
        axes.text(
            middle, y + 0.105, folder, ha="center", va="center", color=INK,
            family="monospace", fontsize=9.5, weight="bold",
        )  # fmt: skip
        axes.text(middle, y + 0.045, what, ha="center", va="center", color=INK, fontsize=8.2)
    for y, home in ((0.79, "valuesparse/"), (0.3, "ext/")):
        axes.text(
            -0.015, y, home, rotation=90, ha="right", va="center", color=INK,
            family="monospace", fontsize=9.5,
        )  # fmt: skip
    for start, end, label in ARROWS:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": LINE, "lw": 1.3})
        if label:
            x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
            axes.text(
                x + 0.012, y, label, ha="left", va="center", color=INK, fontsize=8.2, style="italic"
            )
    figure.savefig(options.output, bbox_inches="tight")


if __name__ == "__main__":
    main()
