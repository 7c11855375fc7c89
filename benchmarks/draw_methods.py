"""Draw the decision picture of docs/which-method.md.

python benchmarks/draw_methods.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "which-method.png"

# name: (x, y, text, kind)
BOXES = {
    "model": (5.0, 9.2, "Is your model a chain or a tree?", "question"),
    "exactness": (2.1, 7.4, "Is the exact answer fast enough?", "question"),
    "exact": (0.9, 5.4, "vs.infer(model)\nexact", "answer"),
    "clear": (3.4, 5.4, "Do you need a proof?", "question"),
    "tol": (2.3, 3.3, "tol=1e-3\nproved error", "proof"),
    "zeta": (4.4, 3.3, "zeta=0.95\nislands", "approximate"),
    "fits": (8.0, 7.4, "Does a junction tree fit in memory?", "question"),
    "junction": (6.4, 5.4, "vs.infer(graph)\nvs.JunctionTree(graph)\nexact", "answer"),
    "want": (9.7, 5.4, "Do you need a proof?", "question"),
    "bounds": (7.4, 3.0, "vs.bounds.log_z\nvs.bounds.preconditioner\nintervals", "proof"),
    "weak": (10.9, 3.3, "Are most factors weak?", "question"),
    "relax": (9.2, 1.0, "vs.relax(graph)\nbound on the divergence", "proof"),
    "bp": (12.5, 1.0, "vs.infer(graph)\nbelief propagation", "approximate"),
}
ARROWS = [
    ("model", "exactness", "yes"),
    ("model", "fits", "no"),
    ("exactness", "exact", "yes"),
    ("exactness", "clear", "no"),
    ("clear", "tol", "yes"),
    ("clear", "zeta", "no"),
    ("fits", "junction", "yes"),
    ("fits", "want", "no"),
    ("want", "bounds", "yes"),
    ("want", "weak", "no"),
    ("weak", "relax", "yes"),
    ("weak", "bp", "no"),
]
COLOURS = {
    "question": "white",
    "answer": "#b7e0c3",
    "proof": "#bcd5f0",
    "approximate": "#f6dcae",
}
KEY = [(0.4, "answer", "exact"), (1.9, "proof", "proved"), (3.6, "approximate", "approximate")]


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    figure, axes = pyplot.subplots(figsize=(12, 7))
    for start, end, label in ARROWS:
        x0, y0, x1, y1 = *BOXES[start][:2], *BOXES[end][:2]
        axes.annotate(
            "", (x1, y1 + 0.5), (x0, y0 - 0.3), arrowprops={"arrowstyle": "->", "lw": 1.2}
        )
        side = 0.25 if x1 > x0 else -0.25
        axes.text((x0 + x1) / 2 + side, (y0 + y1) / 2 + 0.2, label, ha="center")
    for x, y, text, kind in BOXES.values():
        box = {"boxstyle": "round,pad=0.5", "facecolor": COLOURS[kind], "edgecolor": "#444444"}
        family = "sans-serif" if kind == "question" else "monospace"
        axes.text(x, y, text, ha="center", va="center", fontsize=9, family=family, bbox=box)
    for x, kind, text in KEY:
        axes.text(x, 0.6, text, ha="center", bbox={"boxstyle": "round", "facecolor": COLOURS[kind]})
    axes.set(xlim=(-0.4, 13.9), ylim=(0.2, 9.8))
    axes.axis("off")
    figure.savefig(OUTPUT, dpi=90, bbox_inches="tight")


if __name__ == "__main__":
    main()
