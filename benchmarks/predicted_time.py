"""How long `valuesparse info` says that inference takes, beside how long it takes.

    python benchmarks/predicted_time.py ../shared/data/uai/*.uai
    python benchmarks/predicted_time.py asia alarm barley link      # networks that pgmpy ships

One thread; the time is that of the first question to a compiled tree, the shortest of `repeats`.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from _machine import describe
from _wanted import named, wanted

import valuesparse as vs
from valuesparse.inference._snapshots import snapshot_of


def load(name: str) -> vs.FactorGraph:
    """Return an instance with its evidence, or one of pgmpy's networks."""
    if name.endswith(".uai"):
        return vs.read_uai(name, evidence=f"{name}.evid")
    return vs.read_bif(networks()[name])


def networks() -> dict[str, Path]:
    """Return the files of pgmpy's networks by their names."""
    import pgmpy

    folder = Path(pgmpy.__file__).parent / "utils" / "example_models"
    return {path.name.removesuffix(".bif.gz"): path for path in sorted(folder.glob("*.bif.gz"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    files = [name for name in options.models if name.endswith(".uai")]
    for name in (*files, *(f"{name}.evid" for name in files)):
        wanted(Path(name), "give UAI instances with their evidence, or names of pgmpy's networks")
    if names := [name for name in options.models if name not in files]:
        named(parser, "model", names, networks())
    print(*describe(()), sep="\n")
    print(f"{'model':22s} {'predicted ms':>12s} {'measured ms':>12s} {'ratio':>6s}")
    logs = []
    for name in options.models:
        graph = load(name)
        snapshot_of(graph)
        measured = math.inf
        for _ in range(options.repeats):
            jt = vs.JunctionTree(graph)
            began = time.perf_counter()
            jt.infer(threads=1)
            measured = min(measured, time.perf_counter() - began)
        seconds = jt.divide().seconds  # found already: it was asked
        ratio = seconds / measured
        logs.append(math.log(ratio))
        row = f"{1e3 * seconds:12.3f} {1e3 * measured:12.3f} {ratio:6.2f}"
        print(f"{Path(name).stem[:22]:22s} {row}", flush=True)
    mean = math.exp(sum(logs) / len(logs))
    worst = math.exp(max(map(abs, logs)))
    print(f"geometric mean of the ratios {mean:.2f}, worst factor {worst:.2f}")


if __name__ == "__main__":
    main()
