"""Draw the calibrated junction tree of a small network: the picture in docs/junction-trees.md.

python benchmarks/draw_junction_tree.py -o docs/images/junction-tree.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import valuesparse as vs

# Lauritzen and Spiegelhalter's chest clinic: P(no), P(yes) of each variable given its parents.
NETWORK = {
    ("asia",): [0.99, 0.01],
    ("smoke",): [0.5, 0.5],
    ("asia", "tub"): [[0.99, 0.01], [0.95, 0.05]],
    ("smoke", "lung"): [[0.99, 0.01], [0.9, 0.1]],
    ("smoke", "bronc"): [[0.7, 0.3], [0.4, 0.6]],
    ("tub", "lung", "either"): [[[1, 0], [0, 1]], [[0, 1], [0, 1]]],
    ("either", "xray"): [[0.95, 0.05], [0.02, 0.98]],
    ("bronc", "either", "dysp"): [[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.1, 0.9]]],
}
INK, CLIQUE, SEPARATOR, BAR = "#22303c", "#eef3f7", "#ffffff", "#2a7f9e"


def clinic() -> vs.FactorGraph:
    """Return the network as a factor graph."""
    names = ["asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"]
    graph = vs.FactorGraph([2] * 8, names=names, states=[["no", "yes"]] * 8)
    with np.errstate(divide="ignore"):
        for scope, table in NETWORK.items():
            graph.add(scope, np.log(np.array(table, dtype=float)))
    return graph


def triangulated(graph: vs.FactorGraph) -> tuple[list[tuple[str, ...]], list[int]]:
    """Return maximal cliques and the parent of each: ours merges cliques as small as these."""
    cliques = [
        ("tub", "lung", "either"),
        ("asia", "tub"),
        ("lung", "either", "bronc"),
        ("smoke", "lung", "bronc"),
        ("either", "xray"),
        ("bronc", "either", "dysp"),
    ]
    return cliques, [-1, 0, 0, 2, 0, 2]


PLACE = [(0.42, 0.86), (0.11, 0.55), (0.70, 0.55), (0.56, 0.19), (0.37, 0.55), (0.87, 0.19)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("junction-tree.png"))
    options = parser.parse_args()
    graph = clinic()
    evidence = {"dysp": "yes", "asia": "yes"}
    r = vs.infer(graph, evidence=evidence)
    cliques, parent = triangulated(graph)

    figure, axes = plt.subplots(figsize=(9.6, 6.0), dpi=110)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.axis("off")
    for c, p in enumerate(parent):
        if p < 0:
            continue
        (x0, y0), (x1, y1) = PLACE[c], PLACE[p]
        axes.plot([x0, x1], [y0, y1], color=INK, lw=1.2, zorder=1)
        shared = [v for v in cliques[p] if v in cliques[c]]
        text = ", ".join(shared)
        axes.text(
            (x0 + x1) / 2,
            (y0 + y1) / 2,
            text,
            ha="center",
            va="center",
            fontsize=8.5,
            color=INK,
            bbox={"boxstyle": "square,pad=0.35", "fc": SEPARATOR, "ec": INK, "lw": 0.8},
            zorder=2,
        )
    for clique, (x, y) in zip(cliques, PLACE, strict=True):
        height, width = 0.045 * len(clique) + 0.035, 0.205
        axes.add_patch(
            plt.matplotlib.patches.FancyBboxPatch(
                (x - width / 2, y - height / 2),
                width,
                height,
                boxstyle="round,pad=0.006,rounding_size=0.012",
                fc=CLIQUE,
                ec=INK,
                lw=1.2,
                zorder=3,
            )
        )
        for i, v in enumerate(clique):
            top = y + height / 2 - 0.042 - 0.045 * i
            p = float(r[v][1])
            axes.text(x - 0.095, top, v, fontsize=9.5, color=INK, va="center", zorder=4)
            axes.barh(
                top, 0.075, 0.018, left=x - 0.032, color="white", ec="#9fb1bf", lw=0.6, zorder=4
            )
            axes.barh(top, 0.075 * p, 0.018, left=x - 0.032, color=BAR, zorder=5)
            bold = "bold" if v in evidence else "normal"
            axes.text(
                x + 0.096,
                top,
                f"{p:.3f}",
                fontsize=8.5,
                color=INK,
                va="center",
                ha="right",
                weight=bold,
                zorder=4,
            )
    axes.set_title(
        "The chest clinic, calibrated: P(yes) given asia = yes, dyspnoea = yes",
        fontsize=11.5,
        color=INK,
        loc="left",
    )
    axes.text(
        0.0,
        0.0,
        "rounded: cliques, with the marginal\nof each variable; square: separators\n"
        f"log P(evidence) = {r.log_z:.4f}",
        fontsize=8.5,
        color=INK,
        va="bottom",
    )
    figure.tight_layout()
    figure.savefig(options.output)
    print(options.output)


if __name__ == "__main__":
    main()
