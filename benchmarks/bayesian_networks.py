"""Bayesian networks: reading BIF beside pyAgrum, and many questions at once beside a loop.

    python benchmarks/bayesian_networks.py
    python benchmarks/bayesian_networks.py --only many --rows 10000

The networks are those that come with pgmpy, uncompressed. Both readers take turns, and the median
of each counts; pyAgrum cannot read one of them. `infer_many` runs on one thread; the loop calls
`JunctionTree.infer` on a part of the same rows, and its time is that of a row.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _machine import describe
from _wanted import named

import valuesparse as vs

MANY = ("asia", "alarm", "insurance", "hailfinder", "hepar2", "win95pts", "andes")


def networks() -> list[Path]:
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or spec.origin is None:
        raise SystemExit("pgmpy, which comes with the networks, is not installed")
    return sorted((Path(spec.origin).parent / "utils" / "example_models").glob("*.bif.gz"))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def reading(folder: Path, samples: int) -> None:
    import pyagrum as gum

    print("| network | KB | valuesparse ms | pyAgrum ms | ratio | largest difference |")
    print("|---|---:|---:|---:|---:|---:|")
    ratios = []
    for packed in networks():
        path = folder / packed.name.removesuffix(".gz")
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        name = path.stem
        ours = vs.read_bif(path)
        try:
            theirs = vs.from_pyagrum(gum.loadBN(str(path)))
        except Exception as error:  # whatever their parser raises
            reason = " ".join(str(error).split())[:40]
            own = 1e3 * statistics.median(
                seconds(lambda p=path: vs.read_bif(p)) for _ in range(samples)
            )
            print(f"| {name} | {path.stat().st_size / 1e3:.0f} | {own:.2f} | ({reason}) | | |")
            continue
        a, b = [], []
        small = path.stat().st_size < 100_000  # takes milliseconds
        for _ in range(10 * samples if small else samples):
            a.append(seconds(lambda p=path: vs.read_bif(p)))
            b.append(seconds(lambda p=path: gum.loadBN(str(p))))
        own, other = 1e3 * statistics.median(a), 1e3 * statistics.median(b)
        ratios.append(own / other)
        print(
            f"| {name} | {path.stat().st_size / 1e3:.0f} | {own:.2f} | {other:.2f} | "
            f"{own / other:.2f} | {difference(ours, theirs):.1e} |"
        )
    print(f"\nworst ratio {max(ratios):.2f}, geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


def difference(ours: vs.FactorGraph, theirs: vs.FactorGraph) -> float:
    """Largest difference of two probabilities; theirs are 32-bit numbers, not normalised."""
    tables = {theirs.names[f.scope[-1]]: f for f in theirs.factors}
    largest = 0.0
    for f in ours.factors:
        g = tables[ours.names[f.scope[-1]]]
        names = [theirs.names[v] for v in g.scope]
        table = np.exp(g.log_table).transpose([names.index(ours.names[v]) for v in f.scope])
        for axis, v in enumerate(f.scope):  # labels may stand in another order
            own, other = ours.states[v], theirs.states[theirs.variable(ours.names[v])]
            table = np.take(table, [other.index(state) for state in own], axis=axis)
        table = table / table.sum(axis=-1, keepdims=True)
        largest = max(largest, float(np.abs(np.exp(f.log_table) - table).max()))
    return largest


def many(names: list[str], rows: int, samples: int) -> None:
    print("| network | infer_many µs/row | loop µs/row | ratio | one by one | largest difference |")
    print("|---|---:|---:|---:|---:|---:|")
    files = {path.name.split(".")[0]: path for path in networks()}
    for name in names:
        graph = vs.read_bif(files[name])
        jt = vs.JunctionTree(graph)
        rng = np.random.default_rng(0)
        states = vs.sample(graph, rows, rng)
        codes = np.where(rng.random(states.shape) < 0.2, states, -1)
        frame = {
            v: [None if x < 0 else of[x] for x in codes[:, i].tolist()]
            for i, (v, of) in enumerate(zip(graph.names, graph.states, strict=True))
        }
        part = min(rows, 500)
        asked = [
            {graph.names[v]: graph.states[v][x] for v, x in enumerate(row) if x >= 0}
            for row in codes[:part].tolist()
        ]
        m = jt.infer_many(frame, threads=1)
        gap = 0.0
        a, b = [], []
        for sample in range(samples):
            a.append(seconds(lambda f=frame, j=jt: j.infer_many(f, threads=1)) / rows)
            start = time.perf_counter()
            found = [jt.infer(known, threads=1).flat_marginals() for known in asked]
            b.append((time.perf_counter() - start) / part)
            if sample == 0:
                flat = np.concatenate(m.marginals, axis=1)[:part]
                gap = float(np.abs(flat - np.stack(found)).max())
        own, other = 1e6 * statistics.median(a), 1e6 * statistics.median(b)
        print(
            f"| {name} | {own:.2f} | {other:.1f} | {other / own:.1f} | {m.stats['one_by_one']} | "
            f"{gap:.1e} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", choices=("bif", "many"))
    parser.add_argument("--networks", nargs="+", default=list(MANY), help="of infer_many")
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    if options.only != "bif":
        named(parser, "--networks", options.networks, [p.name.split(".")[0] for p in networks()])
    print(*describe(("pyagrum", "pgmpy")), "", sep="\n")
    if options.only != "many":
        with tempfile.TemporaryDirectory() as folder:
            reading(Path(folder), options.samples)
    if options.only != "bif":
        many(options.networks, options.rows, options.samples)


if __name__ == "__main__":
    main()
