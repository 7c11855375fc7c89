"""Draw a small calibrated tree with an island: the picture in docs/trees.md.

python benchmarks/draw_tree.py -o docs/images/tree.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import valuesparse as vs

PARENT = [-1, 0, 0, 1, 1, 2, 2, 2]
PLACE = [(0.5, 0.87), (0.25, 0.55), (0.71, 0.55)]
PLACE += [(0.11, 0.19), (0.35, 0.19), (0.55, 0.19), (0.73, 0.19), (0.91, 0.19)]
INK, BOX, BAR, HELD = "#22303c", "#eef3f7", "#2a7f9e", "#d9822b"
ZETA = 0.9


def example() -> vs.Tree:
    """Return a tree of eight nodes with three states, one of which is nearly certain by itself."""
    unary = np.random.default_rng(4).normal(0.0, 0.8, (len(PARENT), 3))
    unary[2] = [0.0, 4.5, 0.5]
    return vs.Tree(PARENT, unary, np.eye(3) * 1.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("tree.png"))
    options = parser.parse_args()
    r = vs.infer(example(), zeta=ZETA)

    figure, axes = plt.subplots(figsize=(8.8, 5.0), dpi=110)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.axis("off")
    width, height = 0.15, 0.2
    for i, p in enumerate(PARENT):
        if p < 0:
            continue
        (x0, y0), (x1, y1) = PLACE[i], PLACE[p]
        # An island sends its value, whatever messages it gets: the tree falls apart there.
        cut = r.islands[p] >= 0 or r.islands[i] >= 0
        style = {"color": HELD if cut else INK, "linestyle": "--" if cut else "-"}
        axes.plot([x0, x1], [y0, y1], lw=1.4, zorder=1, **style)
    for i, (x, y) in enumerate(PLACE):
        held = int(r.islands[i])
        edge = HELD if held >= 0 else INK
        axes.add_patch(
            plt.matplotlib.patches.FancyBboxPatch(
                (x - width / 2, y - height / 2), width, height,
                boxstyle="round,pad=0.006,rounding_size=0.015",
                fc=BOX, ec=edge, lw=2.2 if held >= 0 else 1.0, zorder=2,
            )
        )  # fmt: skip
        title = f"node {i}" + (f": island at {held}" if held >= 0 else "")
        top = y + height / 2 - 0.022
        axes.text(x, top, title, ha="center", va="center", fontsize=8, color=edge, zorder=4)
        for k, share in enumerate(r.marginals[i]):
            line = y + height / 2 - 0.07 - 0.052 * k
            left = x - width / 2 + 0.022
            long = (width - 0.065) * float(share)
            color = HELD if k == held else BAR
            axes.add_patch(plt.Rectangle((left, line - 0.016), long, 0.032, fc=color, zorder=3))
            axes.text(left - 0.005, line, str(k), ha="right", va="center", fontsize=7, zorder=4)
            axes.text(
                left + long + 0.004, line, f"{share:.2f}", ha="left", va="center", fontsize=7,
                color=INK, zorder=4,
            )  # fmt: skip
    figure.savefig(options.output, bbox_inches="tight")


if __name__ == "__main__":
    main()
