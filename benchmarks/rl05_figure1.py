"""Figure 1 of RL05: bounds on log Z of grids with edge weights Uniform(-2d, 0), spins of +-1.

Left and middle: relative errors (bound - log Z) / log Z, averaged over small grids, of lower bounds
(spanning tree and support tree preconditioners, structured and naive mean field) and upper bounds
(support tree, spanning tree, and the TRW dual), and beside them what came later: mean field started
at the beliefs of belief propagation, sparsifiers (width 3) and weighted mini-buckets (i-bound 4).
Naive mean field starts at random, the best of three. Right: lower bounds on grids of up to 900
nodes, and the mass of a part of the configurations, which small grids would make exact.

The weights multiply s_i s_j; there are no node potentials unless `--fields` gives their standard
deviation. "Paper" is the spanning tree scaled by generalised eigenvalues alone, as printed, without
the diagonal shift that `bounds.preconditioner` optimises beside the scale: log Z of
lambda_max C, for the signed Laplacians of grid and tree.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import matplotlib as mpl
import numpy as np
from _tables import write_csv
from scipy import linalg
from scipy.special import entr

import valuesparse as vs

mpl.use("Agg")
import matplotlib.pyplot as plt

COUPLINGS = (0.6, 0.8, 1.0, 1.4, 2.0)
SIDES = (10, 15, 20, 25, 30)
SPINS = np.array([[1.0, -1.0], [-1.0, 1.0]])

LOWER = ("naive mean field", "support tree", "paper", "spanning tree", "structured mean field")
LATER_LOWER = ("mean field from beliefs", "mini-bucket", "sparsifier")
UPPER = ("support tree", "spanning tree", "TRW")
LATER_UPPER = ("mini-bucket", "sparsifier")
STYLE = {
    "naive mean field": ("tab:gray", "o"),
    "support tree": ("tab:red", "s"),
    "paper": ("tab:olive", "x"),
    "spanning tree": ("tab:orange", "^"),
    "structured mean field": ("tab:blue", "D"),
    "TRW": ("tab:blue", "v"),
    "mean field from beliefs": ("tab:cyan", "h"),
    "conditioned": ("tab:brown", "X"),
    "mini-bucket": ("tab:green", "*"),
    "sparsifier": ("tab:purple", "P"),
}


@dataclass(frozen=True)
class Row:
    """A bound on one grid; `log_z` is NaN where it was not computed."""

    nodes: int
    coupling: float
    repetition: int
    side: str
    method: str
    bound: float
    log_z: float
    relative_error: float


def grid(side: int, coupling: float, fields: float, rng: np.random.Generator) -> vs.FactorGraph:
    """Return a grid of `side` squared spins."""
    n = side * side
    graph = vs.FactorGraph([2] * n)
    for i, j in edges(side):
        graph.add((i, j), rng.uniform(-2.0 * coupling, 0.0) * SPINS)
    if fields:
        for v in range(n):
            graph.add((v,), rng.normal(0.0, fields) * np.array([-1.0, 1.0]))
    return graph


def edges(side: int) -> Iterator[tuple[int, int]]:
    for v in range(side * side):
        if v % side < side - 1:
            yield v, v + 1
        if v + side < side * side:
            yield v, v + side


def as_printed(graph: vs.FactorGraph, kept: tuple[tuple[int, int], ...]) -> float:
    """Return the lower bound of a tree scaled by a generalised eigenvalue, nothing shifted."""
    n = graph.n_variables
    whole, tree = np.zeros((n, n)), np.zeros((n, n))
    total, scaled = 0.0, vs.FactorGraph(graph.cardinalities)
    pairs = {frozenset(pair) for pair in kept}
    inside = []
    for factor in graph.factors:
        if len(factor.scope) == 1:
            scaled.add(factor)
            continue
        i, j = factor.scope
        weight = -float(factor.table((2, 2))[0, 0])
        total += weight
        # weight (s_i + s_j)^2, for antiferromagnets the Laplacian that a lower bound scales up.
        block = weight * np.ones((2, 2))
        whole[np.ix_((i, j), (i, j))] += block
        if frozenset((i, j)) in pairs:
            tree[np.ix_((i, j), (i, j))] += block
            inside.append((i, j, weight))
    # Both vanish on one checkerboard only: ground one node, and neither does.
    largest = linalg.eigvalsh(whole[1:, 1:], tree[1:, 1:])[-1]
    for i, j, weight in inside:
        scaled.add((i, j), -largest * weight * SPINS)
        total -= largest * weight
    return total + float(vs.infer(scaled).log_z)


def naive(graph: vs.FactorGraph, starts: int = 3, sweeps: int = 500) -> float:
    """Return the bound of coordinate ascent on the means of spins, from random ones."""
    n = graph.n_variables
    weight, own = np.zeros((n, n)), np.zeros(n)
    for factor in graph.factors:
        value = float(factor.table((2,) * len(factor.scope)).flat[0])
        if len(factor.scope) == 1:
            own[factor.scope] += value
        else:
            i, j = factor.scope
            weight[i, j] += value
            weight[j, i] += value
    rng = np.random.default_rng(0)
    best = -np.inf
    for _ in range(starts):
        m = rng.uniform(-1.0, 1.0, n)
        for _ in range(sweeps):
            before = m.copy()
            for v in range(n):
                m[v] = np.tanh(own[v] + weight[v] @ m)
            if np.abs(m - before).max() < 1e-6:
                break
        p = 0.5 * (1.0 + m)
        entropy = float((entr(p) + entr(1.0 - p)).sum())
        best = max(best, float(own @ m + 0.5 * m @ weight @ m) + entropy)
    return best


def bounds(graph: vs.FactorGraph, *, small: bool) -> Iterator[tuple[str, str, float]]:
    """Yield side, method and bound."""
    names = ["mean_field", "spanning_tree", "structured_mean_field", "mini_bucket"]
    names += ["trw"] if small else ["conditioned"]
    yield "lower", "naive mean field", naive(graph)
    steps = 200 if small else 60
    best = vs.bounds.log_z(graph, exact=False, methods=names, i_bound=4, iterations=steps)
    shown = {
        "mean_field": "mean field from beliefs",
        "conditioned": "conditioned",
        "spanning_tree": "spanning tree",
        "structured_mean_field": "structured mean field",
        "trw": "TRW",
        "mini_bucket": "mini-bucket",
    }
    for name, found in best.methods.items():
        for side, value in (("lower", found.lower), ("upper", found.upper)):
            if np.isfinite(value):
                yield side, shown[name], value
    if small:
        tree = vs.bounds.preconditioner(graph, "spanning_tree")
        yield "lower", "paper", as_printed(graph, tree.edges)
        support = vs.bounds.preconditioner(graph, "support_tree")
        yield "lower", "support tree", support.lower
        yield "upper", "support tree", support.upper
        denser = vs.bounds.preconditioner(graph, "sparsifier", width=3)
        yield "lower", "sparsifier", denser.lower
        yield "upper", "sparsifier", denser.upper


def run(side: int, repetitions: int, sides: tuple[int, ...], fields: float, seed: int) -> list[Row]:
    rows = []
    rng = np.random.default_rng(seed)
    for coupling in COUPLINGS:
        for repetition in range(repetitions):
            graph = grid(side, coupling, fields, rng)
            exact = float(vs.infer(graph).log_z)
            for which, method, value in bounds(graph, small=True):
                sign = 1.0 if which == "upper" else -1.0
                if sign * (value - exact) < -1e-8 * abs(exact):
                    raise SystemExit(f"{method} is no {which} bound: {value} of {exact}")
                error = abs(value - exact) / abs(exact)
                rows.append(Row(side**2, coupling, repetition, which, method, value, exact, error))
    for large in sides:
        graph = grid(large, 1.0, fields, rng)
        for which, method, value in bounds(graph, small=False):
            rows.append(Row(large**2, 1.0, 0, which, method, value, np.nan, np.nan))
    return rows


def mean(rows: list[Row], side: str, method: str, coupling: float) -> float:
    chosen = [
        r.relative_error
        for r in rows
        if (r.side, r.method, r.coupling) == (side, method, coupling) and np.isfinite(r.log_z)
    ]
    return float(np.mean(chosen))


def earlier(path: Path) -> list[Row]:
    """Return the rows of a CSV."""
    kinds = {"int": int, "float": float, "str": str}
    with path.open(newline="") as file:
        return [
            Row(*(kinds[f.type](line[f.name]) for f in fields(Row)))
            for line in csv.DictReader(file)
        ]


def draw(rows: list[Row], path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), constrained_layout=True)
    panels = (("lower", LOWER + LATER_LOWER), ("upper", UPPER + LATER_UPPER))
    for axis, (side, methods) in zip(axes[:2], panels, strict=True):
        for method in methods:
            color, marker = STYLE[method]
            later = method in LATER_LOWER
            axis.plot(
                COUPLINGS,
                [mean(rows, side, method, d) for d in COUPLINGS],
                color=color,
                marker=marker,
                linestyle="--" if later else "-",
                label=method,
            )
        axis.set(xlabel="coupling strength d", ylabel="mean relative error")
        axis.set_title(f"{side} bounds")
        axis.legend(fontsize=8)
    large = [r for r in rows if np.isnan(r.log_z) and r.side == "lower"]
    for method in dict.fromkeys(r.method for r in large):
        color, marker = STYLE[method]
        points = sorted((r.nodes, r.bound) for r in large if r.method == method)
        axes[2].plot(*zip(*points, strict=True), color=color, marker=marker, label=method)
    axes[2].set(xlabel="nodes", ylabel="lower bound on log Z")
    axes[2].set_title("larger grids, d = 1")
    if large:
        axes[2].legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=7, help="of the small grids")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--sides", type=int, nargs="*", default=SIDES, help="of the larger grids")
    parser.add_argument("--fields", type=float, default=0.0, help="standard deviation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("rl05_figure1"))
    parser.add_argument("--append", action="store_true", help="keep what the CSV has of other runs")
    args = parser.parse_args()
    table = args.out.with_suffix(".csv")
    rows = earlier(table) if args.append and table.exists() else []
    rows += run(args.side, args.repetitions, tuple(args.sides), args.fields, args.seed)
    write_csv(rows, table)
    if not any(np.isfinite(r.log_z) for r in rows):
        return
    draw(rows, args.out.with_suffix(".png"))
    for side, methods in (("lower", LOWER + LATER_LOWER), ("upper", UPPER + LATER_UPPER)):
        print(f"{side} bounds: mean relative error at d = {', '.join(map(str, COUPLINGS))}")
        ordered = sorted(methods, key=lambda m: sum(mean(rows, side, m, d) for d in COUPLINGS))
        for method in ordered:
            values = "  ".join(f"{mean(rows, side, method, d):8.4f}" for d in COUPLINGS)
            print(f"  {method:24}{values}")
    for row in rows:
        if np.isnan(row.log_z) and row.side == "lower":
            print(f"  {row.nodes} nodes  {row.method:24}{row.bound:12.3f}")


if __name__ == "__main__":
    main()
