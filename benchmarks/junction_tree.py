"""Junction trees on the networks of the bnlearn repository, beside pyAgrum, pgmpy and libDAI.

    python benchmarks/junction_tree.py                     # all 15 networks, some minutes
    python benchmarks/junction_tree.py alarm barley --repeats 3 --no-rivals
    python benchmarks/junction_tree.py --pgmpy             # pgmpy alone, where it ends in a minute

The networks are those that pgmpy ships; both engines get the same tables, rows normalised.
Columns: compile and all posteriors without evidence, and with 20 % of the variables observed (a
sample of the network itself, so that it is possible); all messages again on the compiled tree; two
threads. libDAI (2012) has no build for today's Python: its time is taken as pyAgrum's of the same
run, times the ratio of the two that was measured once on one machine (``LIBDAI``). Times are the
best of `repeats`, in milliseconds.
"""

from __future__ import annotations

import argparse
import gzip
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _machine import cores, describe
from _wanted import named

import valuesparse as vs
from valuesparse.inference._snapshots import snapshot_of

#: Milliseconds on one thread, measured once: pyAgrum, libDAI, libDAI's propagation, then pyAgrum
#: and libDAI with 20 % evidence, and the floor: five passes over the tables of the best known tree.
LIBDAI = {
    "alarm": (1.75, 0.31, 0.045, 1.43, 0.31, 0.0004),
    "hailfinder": (2.69, 0.84, 0.19, 2.40, 0.64, 0.004),
    "insurance": (3.27, 1.03, 0.55, 1.57, 0.34, 0.02),
    "win95pts": (4.90, 1.74, 0.12, 3.78, 0.93, 0.001),
    "hepar2": (3.82, 1.87, 0.16, 3.18, 0.90, 0.001),
    "andes": (31.9, 21.6, 7.8, 14.5, 7.7, 0.16),
    "pigs": (43.7, 61, 31, 18.0, 11.4, 0.28),
    "pathfinder": (9.4, 10.3, 3.1, 5.8, 4.4, 0.07),
    "water": (417, 116, 68, 8.9, 10.4, 1.5),
    "mildew": (192, 112, 68, 17.1, 43, 4.3),
    "barley": (877, 818, 534, 18.2, 24, 15),
    "munin": (964, 736, 437, 137, 109, 12),
    "diabetes": (132, 261, 163, 69, 104, 8.9),
    "link": (math.nan, 1534, 1193, 475, 165, 32),
    "munin1": (36653, 41124, 22378, 9.1, 2.8, 157),
}
#: pyAgrum runs out of memory, or takes most of a minute: libDAI's time is used as it was measured.
TOO_MUCH = ("link", "munin1")
LARGE = 100_000
#: Pairs of one thread and two, alternating.
PAIRS = 20
#: Seconds after which pgmpy is stopped.
SECONDS = 60


def load(name: str):
    """Return pyAgrum's network, rows of its tables normalised."""
    import pgmpy
    import pyagrum as gum

    source = Path(pgmpy.__file__).parent / "utils" / "example_models" / f"{name}.bif.gz"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.bif"
        path.write_bytes(gzip.decompress(source.read_bytes()))
        network = gum.loadBN(str(path))
    for node in network.nodes():
        network.cpt(node).normalizeAsCPT()
    return network


def evidence_of(network, graph: vs.FactorGraph, share: float, seed: int) -> dict:
    """Observe a share of the variables at what one sample of the network says."""
    rng = np.random.default_rng(seed)
    x = vs.sample(graph, 1, rng)[0] if graph.n_variables < 200 else _forward(network, graph, rng)
    chosen = rng.permutation(graph.n_variables)[: int(share * graph.n_variables)]
    return {graph.names[v]: graph.states[v][x[v]] for v in chosen}


def _forward(network, graph: vs.FactorGraph, rng: np.random.Generator) -> np.ndarray:
    """Sample a network parents first: cheaper than a junction tree of its own."""
    number = {name: v for v, name in enumerate(graph.names)}
    table = {f.scope[-1]: f for f in graph.factors}
    x = np.zeros(graph.n_variables, dtype=int)
    for node in network.topologicalOrder():
        v = number[network.variable(node).name()]
        row = np.exp(table[v].log_table[tuple(x[list(table[v].scope[:-1])])])
        x[v] = rng.choice(row.size, p=row / row.sum())
    return x


def rival(network, evidence: dict, names: tuple) -> Callable[[], list]:
    """Return what asks the better of pyAgrum's two engines for all posteriors."""
    import pyagrum as gum

    ids = [network.idFromName(name) for name in names]

    def ask(engine):
        inference = engine(network)
        inference.setNumberOfThreads(1)
        if evidence:
            inference.setEvidence(evidence)
        inference.makeInference()
        return [inference.posterior(i) for i in ids]

    engines = (gum.LazyPropagation, gum.ShaferShenoyInference)
    return lambda: min(
        (_timed(lambda engine=engine: ask(engine)) for engine in engines), key=lambda t: t[0]
    )


def _timed(call: Callable[[], object]) -> tuple[float, object]:
    began = time.perf_counter()
    answer = call()
    return 1e3 * (time.perf_counter() - began), answer


def best(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of a call in milliseconds."""
    return min(_timed(call)[0] for _ in range(repeats))


def with_pgmpy(name: str, evidence: dict, answers) -> None:
    """Send the seconds of pgmpy's two engines, and the largest difference from ours."""
    import warnings

    warnings.simplefilter("ignore")
    from pgmpy.inference import BeliefPropagation, VariableElimination
    from pgmpy.readwrite import BIFReader

    network = BIFReader(string=gzip.decompress(_file_of(name).read_bytes()).decode()).get_model()
    for cpd in network.get_cpds():
        cpd.normalize()
    ours = vs.infer(vs.from_pgmpy(network), evidence=evidence)

    def propagation() -> dict:
        engine = BeliefPropagation(network)
        return {
            v: engine.query([v], evidence=evidence, show_progress=False)
            for v in network.nodes()
            if v not in evidence
        }

    def elimination() -> dict:
        engine = VariableElimination(network)
        return {
            v: engine.query([v], evidence=evidence, show_progress=False)
            for v in network.nodes()
            if v not in evidence
        }

    for engine in (elimination, propagation):
        try:
            took, found = _timed(engine)
        except MemoryError:
            continue
        error = 0.0
        for v, factor in found.items():
            states = factor.state_names[v]
            expected = [factor.values[states.index(s)] for s in ours._model.states[_at(ours, v)]]
            error = max(error, float(abs(ours[v] - np.array(expected)).max()))
        answers.put((engine.__name__, took / 1e3, error))


def _at(result: vs.Result, name: str) -> int:
    return result._model.variable(name)


def _file_of(name: str) -> Path:
    import pgmpy

    return Path(pgmpy.__file__).parent / "utils" / "example_models" / f"{name}.bif.gz"


def pgmpy_table(names: list[str], repeats: int) -> None:
    """Print pgmpy's times for all posteriors beside ours, in a process that can be stopped."""
    import multiprocessing
    import queue

    context = multiprocessing.get_context("spawn")
    print(f"{'network':11s} {'evidence':>8s} {'ours ms':>9s} {'pgmpy s':>9s} {'ratio':>8s} error")
    for name in names:
        network = load(name)
        graph = vs.from_pyagrum(network)
        for evidence in ({}, evidence_of(network, graph, 0.2, 1)):

            def ask(graph=graph, evidence=evidence):
                return vs.JunctionTree(graph, evidence=evidence).infer(threads=1).marginals

            ours = best(ask, repeats)
            answers = context.Queue()
            process = context.Process(target=with_pgmpy, args=(name, evidence, answers))
            process.start()
            found, end = [], time.monotonic() + SECONDS
            while len(found) < 2 and (left := end - time.monotonic()) > 0:
                if not process.is_alive() and answers.empty():
                    break
                try:
                    found.append(answers.get(timeout=min(left, 1.0)))
                except queue.Empty:
                    continue
            process.kill()
            process.join()
            row = f"{name:11s} {len(evidence):8d} {ours:9.2f}"
            if not found:
                print(f"{row} no answer within {SECONDS} s", flush=True)
                continue
            which, took, error = min(found, key=lambda answer: answer[1])
            print(f"{row} {took:9.3f} {1e3 * took / ours:8.0f} {error:.1e} {which}", flush=True)


def _geometric(x: list[float]) -> float:
    return math.exp(sum(map(math.log, x)) / len(x)) if x else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("networks", nargs="*", default=list(LIBDAI))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--pgmpy", action="store_true")
    options = parser.parse_args()
    named(parser, "network", options.networks, LIBDAI)
    print(*describe(("pyagrum", "pgmpy")), sep="\n")
    if options.pgmpy:
        pgmpy_table(options.networks, options.repeats)
        return
    print(
        f"{'network':11s} {'entries':>9s} {'ours':>8s} {'pyAgrum':>8s} {'libDAI~':>8s}"
        f" {'ratio':>6s}"
        f" | {'evid.':>7s} {'pyAgrum':>8s} {'libDAI~':>8s} {'ratio':>6s}"
        f" | {'again':>8s} {'libDAI':>6s} {'floor':>6s} | {'2 thr.':>6s} | {'MB':>5s} {'error':>7s}"
    )
    totals: dict[str, list[float]] = {"": [], "evidence": [], "again": [], "floor": [], "two": []}
    for name in options.networks:
        network = load(name)
        graph = vs.from_pyagrum(network)
        snapshot_of(graph)
        gum0, dai0, propagation, gum1, dai1, floor = LIBDAI[name]
        known = evidence_of(network, graph, 0.2, 1)
        ours, theirs, ratio, error = {}, {}, {}, 0.0
        for label, evidence, once, reference in (
            ("", {}, gum0, dai0),
            ("evidence", known, gum1, dai1),
        ):

            def ask(graph=graph, evidence=evidence):
                return vs.JunctionTree(graph, evidence=evidence).infer(threads=1).marginals

            ours[label] = best(ask, options.repeats)
            theirs[label] = (math.nan, reference)
            if not options.no_rivals and name not in TOO_MUCH:
                question = rival(network, evidence, graph.names)
                took, posteriors = min((question() for _ in range(3)), key=lambda t: t[0])
                theirs[label] = (took, took / once * reference)
                for p, q in zip(ask(), posteriors, strict=True):
                    error = max(error, float(abs(p - q.toarray()).max()))
            ratio[label] = min(x for x in theirs[label] if not math.isnan(x)) / ours[label]
            totals[label].append(ratio[label])
        jt = vs.JunctionTree(graph, evidence={})
        jt.infer(threads=1)

        def again(threads: int, jt=jt) -> None:
            jt._tree.forget()
            jt.infer(threads=threads)

        once = best(lambda: again(1), options.repeats)
        two = math.nan
        if cores() > 1:
            pairs: dict[int, list[float]] = {1: [], 2: []}
            for pair in range(PAIRS):
                for threads in (1, 2) if pair % 2 else (2, 1):  # what comes first is no help
                    pairs[threads].append(best(lambda t=threads: again(t), 1))
            two = float(np.median(np.divide(pairs[1], pairs[2])))
            if name in ("water", "barley", "mildew", "munin", "diabetes", "link"):
                totals["two"].append(two)
        if jt.table_size > LARGE:
            totals["again"].append(propagation / once)
            totals["floor"].append(once / floor)
        print(
            f"{name:11s} {jt.table_size:9.3g} {ours['']:8.2f} {theirs[''][0]:8.2f}"
            f" {theirs[''][1]:8.2f} {ratio['']:6.2f} | {ours['evidence']:7.2f}"
            f" {theirs['evidence'][0]:8.2f} {theirs['evidence'][1]:8.2f} {ratio['evidence']:6.2f}"
            f" | {once:8.2f} {propagation / once:6.1f} {once / floor:6.1f} | {two:6.2f}"
            f" | {jt.memory / 1e6:5.0f} {error:7.1e}",
            flush=True,
        )
    print(
        "geometric means, and worst: "
        + "; ".join(
            f"{what} {_geometric(x):.2f} ({worst(x):.2f})"
            for what, x, worst in (
                ("no evidence", totals[""], min),
                ("20 % evidence", totals["evidence"], min),
                ("again vs libDAI's propagation", totals["again"], min),
                ("again over the floor", totals["floor"], max),
                ("two threads", totals["two"], min),
            )
            if x
        )
    )


if __name__ == "__main__":
    main()
