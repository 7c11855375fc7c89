"""Draw how data flows through the code: the picture in docs/house.md.

python benchmarks/draw_house.py -o docs/images/house.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

INK, LINE = "#22303c", "#7b8a97"
# (x, y, width, folder, what it does, colour): rings from the caller to the processor.
ROOMS = [
    (0.02, 0.84, 0.22, "io  crf  torch  cli", "files, taggers, layers,\ncommands", "#fdf3e7"),
    (0.27, 0.84, 0.22, "models  factors", "arrays and names,\nchecked once", "#fdf3e7"),
    (
        0.52,
        0.84,
        0.22,
        "results",
        "records; they ask the engine\nthat was handed to them",
        "#fdf3e7",
    ),
    (0.77, 0.84, 0.21, "relaxed  bounds", "which factors; log Z\nbetween two numbers", "#fdf3e7"),
    (
        0.27,
        0.6,
        0.47,
        "inference",
        "evidence split once,\nthe engine chosen",
        "#e8f3f0",
    ),
    (
        0.02,
        0.36,
        0.22,
        "ext/forest",
        "passes up and down;\nislands in rounds",
        "#eef3f7",
    ),
    (0.27, 0.36, 0.22, "ext/junction", "elimination, cliques,\nlayout, propagation", "#eef3f7"),
    (
        0.52,
        0.36,
        0.22,
        "ext/messages",
        "an update is a factor:\npairs, tables, structured",
        "#eef3f7",
    ),
    (0.77, 0.36, 0.21, "ext/crf  ext/io", "attributes, gradients,\nname tables", "#eef3f7"),
    (0.02, 0.1, 0.3, "ext/pool", "runs a plan: tasks, and what\neach waits for", "#e9e6f2"),
    (
        0.35,
        0.1,
        0.3,
        "ext/rows  ext/simd",
        "rows of numbers, tiles of tables,\none list of SIMD levels",
        "#e9e6f2",
    ),
    (0.68, 0.1, 0.3, "ext/core", "input, scratch memory, polling,\ncompensated sums", "#e9e6f2"),
]
HEIGHT = 0.14
ARROWS = [
    ((0.24, 0.91), (0.27, 0.91), ""),
    ((0.38, 0.84), (0.38, 0.74), "a model, evidence, zeta"),
    ((0.63, 0.74), (0.63, 0.84), "marginals, log Z, why"),
    ((0.77, 0.91), (0.74, 0.91), ""),
    ((0.38, 0.6), (0.13, 0.5), ""),
    ((0.43, 0.6), (0.38, 0.5), "pointers, a plan"),
    ((0.58, 0.6), (0.63, 0.5), ""),
    ((0.13, 0.36), (0.15, 0.24), "tasks"),
    ((0.38, 0.36), (0.46, 0.24), "rows"),
    ((0.63, 0.36), (0.55, 0.24), ""),
    ((0.87, 0.36), (0.85, 0.24), ""),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("house.png"))
    options = parser.parse_args()
    figure, axes = plt.subplots(figsize=(9.6, 6.2), dpi=110)
    axes.set_xlim(0, 1)
    axes.set_ylim(0.05, 1.02)
    axes.axis("off")
    for x, y, width, folder, what, colour in ROOMS:
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
