"""Figure 1 of RSM10: denoising with an Ising grid, and with a part of its edges.

p(y | x) ∝ exp(Σ_edges [y_i = y_j] + α Σ x_i y_i) on 64 × 64 pixels: four images (two from a folder,
two drawn here), pixels ±1, noise of deviation 0.5, 50 versions of each, x with mean 0. Every method
starts from the unary factors and gets one parameter for all images, which at α = 5 keeps half of
the edges. Inference is tree-reweighted belief propagation, in the seed, the part and the whole.

Size: share of the edges. Error: mean over pixels of |p − p of the whole graph|. Speed-up: time of
the whole graph over that of `select` (seed, gains, choice, part), graphs built anew for each, the
methods in turn, one thread; the ratio of sums over all images.

``python benchmarks/rsm10_figure1.py`` runs all of it; with ``--alphas`` some of it, and rows
for other α stay as they are in the CSV. ``--images`` names the folder of the two images.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import matplotlib as mpl
import numpy as np
from _machine import describe
from _tables import write_csv
from _wanted import wanted

import valuesparse as vs
from valuesparse.factors import Features

mpl.use("Agg")
import matplotlib.pyplot as plt

SIDE = 64
PIXELS = SIDE * SIDE
IMAGES = Path(__file__).resolve().parents[2] / "shared" / "data" / "denoise"
ALPHAS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
REFERENCE = 5.0
SAME = np.eye(2, dtype=bool)


@dataclass(frozen=True)
class Row:
    """One method at one α, over all images."""

    alpha: float
    method: str
    size: float
    error: float
    seed_error: float
    speed_up: float
    milliseconds: float
    converged: float


def drawn() -> list[np.ndarray]:
    """Return two images: rings, and bars beside a triangle."""
    y, x = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    rings = np.hypot(x, y) % 16 < 8
    shapes = ((x < 0) & ((y // 6) % 2 == 0)) | ((x > 4) & (y > -20) & (y < 2 * (x - 4) - 24))
    return [np.where(image, 1.0, -1.0) for image in (rings, shapes)]


def images(folder: Path) -> list[np.ndarray]:
    """Return the four images, pixels ±1."""
    files = [folder / name for name in ("pmtk_letterA_128x128_gray.npy", "ugm_X_32x32.npy")]
    grey, cross = (np.load(wanted(file, "--images names its folder")) for file in files)
    grey = grey.astype(float)
    small = grey.reshape(SIDE, 2, SIDE, 2).mean(axis=(1, 3))
    letter_a = np.where(small > small.mean(), 1.0, -1.0)
    letter_x = np.kron(2.0 * cross - 1.0, np.ones((2, 2)))
    return [letter_a, letter_x, *drawn()]


def noisy(clean: list[np.ndarray], versions: int) -> Iterator[np.ndarray]:
    """Yield the observations: noise, then a mean of 0."""
    for i, image in enumerate(clean):
        for j in range(versions):
            x = image + np.random.default_rng([i, j]).normal(0.0, 0.5, image.shape)
            yield (x - x.mean()).ravel()


def edges() -> np.ndarray:
    at = np.arange(PIXELS).reshape(SIDE, SIDE)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], 1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], 1)
    return np.concatenate([across, down])


EDGES = edges()


def model(x: np.ndarray, alpha: float) -> vs.FactorGraph:
    """Return the grid: unary factors, then the edges."""
    graph = vs.FactorGraph([2] * PIXELS)
    graph.add_features(Features(np.arange(PIXELS)[:, None], alpha * x.ravel()))
    graph.add_features(Features(EDGES, 1.0, fires=SAME))
    return graph


def fit(observed: list[np.ndarray]) -> dict[str, dict[str, float]]:
    """Return for each method the parameter that keeps half of the edges at α = 5."""
    gains = []
    for x in observed:
        p = 1.0 / (1.0 + np.exp(-REFERENCE * x))
        a, b = p[EDGES].T
        gains.append(np.sort(vs.relaxed.feature_gain(a * b + (1.0 - a) * (1.0 - b), 1.0)))
    low, high = 0.0, max(float(g.sum()) for g in gains)
    for _ in range(60):
        middle = 0.5 * (low + high)
        dropped = sum(vs.relaxed.smallest_within(g, middle) for g in gains)
        low, high = (middle, high) if dropped < len(gains) * len(EDGES) / 2 else (low, middle)
    return {
        "MinSize": {"min_size": low},
        "MinDivergence": {"min_divergence": len(EDGES) // 2},
        "MinJoint": {"min_joint": float(np.median(np.concatenate(gains)))},
    }


def timed(call: Callable[[], vs.Result]) -> tuple[vs.Result, float]:
    begin = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begin


def on(r: vs.Result) -> np.ndarray:
    return np.array([m[1] for m in r.marginals])


def measure(
    alpha: float, observed: list[np.ndarray], parameters: dict[str, dict[str, float]]
) -> list[Row]:
    """Return the rows of one α."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in parameters}
    whole, converged = 0.0, 0
    for x in observed:
        graph = model(x, alpha)
        r, seconds = timed(lambda g=graph: vs.infer(g, method="trw", threads=1))
        p = on(r)
        whole += seconds
        converged += r.converged
        seed = float(np.abs(1.0 / (1.0 + np.exp(-alpha * x)) - p).mean())
        for name, choice in parameters.items():
            graph = model(x, alpha)
            r, seconds = timed(lambda g=graph, c=choice: vs.select(g, solver="trw", threads=1, **c))
            size = (r.factors.size - PIXELS) / len(EDGES)
            error = float(np.abs(on(r) - p).mean())
            found[name].append((size, error, seed, seconds, float(r.converged)))
    rows = [Row(alpha, "whole graph", 1.0, 0.0, float("nan"), 1.0, 1e3 * whole / len(observed),
                converged / len(observed))]  # fmt: skip
    for name, numbers in found.items():
        size, error, seed, seconds, share = np.mean(numbers, axis=0).tolist()
        ratio = whole / (seconds * len(observed))
        rows.append(Row(alpha, name, size, error, seed, ratio, 1e3 * seconds, share))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4))
    styles = {"MinSize": "o-", "MinDivergence": "s--", "MinJoint": "^:"}
    for name, style in styles.items():
        some = [r for r in rows if r.method == name]
        alpha = [r.alpha for r in some]
        axes[0].plot(alpha, [r.size for r in some], style, label=name)
        axes[1].plot(alpha, [r.error for r in some], style, label=name)
        axes[2].plot(alpha, [r.speed_up for r in some], style, label=name)
    some = [r for r in rows if r.method == "MinJoint"]
    axes[1].plot([r.alpha for r in some], [r.seed_error for r in some], "k-", lw=0.8, label="seed")
    none = [r.alpha for r in some if r.error == 0]
    if none:  # it has no place on a logarithmic scale
        at = ", ".join(f"{alpha:g}" for alpha in none)
        axes[1].set_title(f"MinJoint at α = {at}: no error", fontsize=8)
    axes[0].set(xlabel="α", ylabel="share of edges kept", ylim=(0, 1.05))
    axes[1].set(xlabel="α", ylabel="mean marginal error", yscale="log")
    axes[2].set(xlabel="α", ylabel="speed-up over the whole graph")
    axes[2].axhline(1.0, color="grey", lw=0.8)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.legend(*axes[1].get_legend_handles_labels(), fontsize=8, loc="lower center", ncols=4)
    figure.savefig(path, dpi=110)


def earlier(path: Path) -> list[Row]:
    """Return the rows of a CSV, if there is one."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Row(*(r[f.name] if f.name == "method" else float(r[f.name]) for f in fields(Row)))
            for r in csv.DictReader(file)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=Path, default=IMAGES)
    parser.add_argument("--out", type=Path, default=Path("rsm10-figure1"))
    parser.add_argument("--versions", type=int, default=50, help="of each image")
    parser.add_argument("--alphas", type=float, nargs="*", default=ALPHAS)
    args = parser.parse_args()
    observed = list(noisy(images(args.images), args.versions))
    parameters = fit(observed)
    args.out.mkdir(parents=True, exist_ok=True)
    table = args.out / "rsm10-figure1.csv"
    rows = [r for r in earlier(table) if r.alpha not in args.alphas]
    sys.stdout.write("\n".join([*describe(), str(parameters)]) + "\n")
    for alpha in args.alphas:
        for r in measure(alpha, observed, parameters):
            rows.append(r)
            sys.stdout.write(
                f"α {r.alpha:4.1f} {r.method:14} size {r.size:.3f} error {r.error:.4f} seed "
                f"{r.seed_error:.4f} speed-up {r.speed_up:.2f} {r.milliseconds:.1f} ms converged "
                f"{r.converged:.3f}\n"
            )
            sys.stdout.flush()
    rows.sort(key=lambda r: r.alpha)
    write_csv(rows, table)
    draw(rows, args.out / "rsm10-figure1.png")


if __name__ == "__main__":
    main()
