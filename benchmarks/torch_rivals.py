"""pomegranate and torch-struct, which compute with PyTorch, beside the same in valuesparse.

    python benchmarks/torch_rivals.py
    python benchmarks/torch_rivals.py --only networks --networks asia.bif alarm.bif

Hidden Markov models: a `fit` of equal iterations from equal starts, and `predict_proba`; hmmlearn's
"scaling" stands beside. Networks: posteriors of all variables for rows of which a part is known;
pomegranate passes messages in rounds, which are right on trees alone, and its largest error is
shown. Chains: marginals of chains of order 1, by pairs of order 2, and of segments. One thread of
everything; medians of alternating runs.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _machine import describe
from _wanted import bench, wanted

try:
    import hmm
    import hmmlearn.hmm
    import torch
    from threadpoolctl import threadpool_limits
except ImportError as missing:
    raise bench(missing) from None

import valuesparse as vs
import valuesparse.hmm

#: Rows, states and sequences: pomegranate takes sequences of one length together.
SIZES = ((500, 4, 1), (20_000, 4, 1), (20_000, 4, 1000), (20_000, 16, 100), (20_000, 64, 100))


def medians(
    calls: list[Callable[..., object]], runs: int, before: list[Callable[[], Any]] | None = None
) -> list[float]:
    """Return the median milliseconds of functions, called in turn; the first round warms up.

    Each gets what its function of `before` returns, in time that does not count.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(runs + 1):
        for i, (call, taken) in enumerate(zip(calls, times, strict=True)):
            given = [before[i]()] if before else []
            start = time.perf_counter()
            call(*given)
            taken.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(taken[1:]) for taken in times]


def theirs_from(ours: Any, kind: str, iterations: int) -> Any:
    """Return pomegranate's model with the parameters of ours."""
    from pomegranate.distributions import Categorical, Normal
    from pomegranate.hmm import DenseHMM

    def single(array: Any) -> np.ndarray:
        return np.array(array, dtype=np.float32)

    if kind == "categorical":
        emissions = [Categorical(single(row[None])) for row in ours.emissionprob_]
    else:
        emissions = [
            Normal(single(mean), single(np.diag(matrix)), covariance_type="diag")
            for mean, matrix in zip(ours.means_, ours.covars_, strict=True)
        ]
    # Nothing ends: with chances that are too small to matter, since 0 has no logarithm.
    return DenseHMM(
        emissions, edges=single(ours.transmat_), starts=single(ours.startprob_),
        ends=single(np.full(len(emissions), 1e-12)), max_iter=iterations, tol=0.0,
    )  # fmt: skip


def markov(runs: int, iterations: int) -> None:
    print("| rows x states, sequences | emissions | call | ours ms | hmmlearn | pomegranate |")
    print("|---|---|---|---:|---:|---:|")
    for kind in ("categorical", "gaussian"):
        for n, k, count in SIZES:
            both(kind, n, k, count, runs, iterations)


def both(kind: str, n: int, k: int, count: int, runs: int, iterations: int) -> None:
    """Print the times of `fit` and `predict_proba`."""
    lengths = [n // count] * count
    X = hmm.model(valuesparse.hmm, kind, n, k)[1]
    cube = torch.from_numpy(X.reshape(count, n // count, -1))
    if kind == "gaussian":
        cube = cube.float()

    def own() -> Any:
        return hmm.model(valuesparse.hmm, kind, n, k, n_iter=iterations, threads=1)[0]

    def scaling() -> Any:
        return hmm.model(hmmlearn.hmm, kind, n, k, n_iter=iterations, implementation="scaling")[0]

    def dense() -> Any:
        ready = own()
        ready._check()
        return theirs_from(ready, kind, iterations)

    a, b, c = own(), scaling(), dense()
    proba = medians(
        [lambda: a.predict_proba(X, lengths), lambda: b.predict_proba(X, lengths),
         lambda: c.predict_proba(cube)], runs,
    )  # fmt: skip
    gap = np.abs(c.predict_proba(cube).numpy().reshape(n, k) - a.predict_proba(X, lengths))
    fits = medians(
        [lambda m: m.fit(X, lengths), lambda m: m.fit(X, lengths), lambda m: m.fit(cube)],
        max(1, runs // 2), [own, scaling, dense],
    )  # fmt: skip
    for call, (one, *rest) in (("fit", fits), ("predict_proba", proba)):
        others = " | ".join(f"{x:.1f} ({x / one:.1f}x)" for x in rest)
        print(f"| {n:,} x {k}, {count:,} | {kind} | {call} | {one:.2f} | {others} |", flush=True)
    print(f"largest difference of a probability from pomegranate's: {gap.max():.1e}")


def network_of(graph: vs.FactorGraph) -> Any:
    """Return pomegranate's network."""
    from pomegranate.bayesian_network import BayesianNetwork
    from pomegranate.distributions import Categorical, ConditionalCategorical

    nodes: dict[int, Any] = {}
    edges = []
    for f in graph.factors:  # a table's last variable is the child
        table = np.exp(f.log_table)
        child, parents = f.scope[-1], f.scope[:-1]
        nodes[child] = ConditionalCategorical([table]) if parents else Categorical(table[None])
        edges += [(p, child) for p in parents]
    order = [nodes[v] for v in range(graph.n_variables)]
    return BayesianNetwork(order, [(order[a], order[b]) for a, b in edges])


def networks(files: list[Path], rows: int, runs: int) -> None:
    print("| network | infer_many µs a row | pomegranate | its largest error |")
    print("|---|---:|---:|---:|")
    for path in files:
        graph = vs.read_bif(path)
        rng = np.random.default_rng(0)
        states = vs.sample(graph, rows, rng)
        known = rng.random(states.shape) < 0.2
        jt = vs.JunctionTree(graph)
        frame = {
            name: [of[x] if there else None for x, there in zip(column, seen, strict=True)]
            for name, of, column, seen in zip(
                graph.names, graph.states, states.T.tolist(), known.T.tolist(), strict=True
            )
        }
        try:
            network = network_of(graph)
            masked = torch.masked.MaskedTensor(torch.from_numpy(states), torch.from_numpy(known))
            found = network.predict_proba(masked)
        except Exception as error:  # whatever they raise
            print(f"| {path.stem} | | refused: {' '.join(str(error).split())[:60]} | |")
            continue
        exact = jt.infer_many(frame, threads=1)
        gap = max(
            float(np.abs(p.numpy() - q).max())
            for p, q in zip(found, exact.marginals, strict=True)
        )  # fmt: skip
        one, two = medians(
            [lambda j=jt, f=frame: j.infer_many(f, threads=1),
             lambda net=network, m=masked: net.predict_proba(m)], runs,
        )  # fmt: skip
        print(f"| {path.stem} | {1e3 * one / rows:.2f} | {1e3 * two / rows:.1f} "
              f"({two / one:.0f}x) | {gap:.1e} |", flush=True)  # fmt: skip


def chains(runs: int) -> None:
    import torch_struct

    for name in ("LinearChainCRF", "SemiMarkovCRF"):
        getattr(torch_struct, name).arg_constraints = {}
    print("| model | valuesparse ms | torch-struct |\n|---|---:|---:|")
    rng = np.random.default_rng(0)

    def row(what: str, ours: Callable[[], Any], kind: str, tables: torch.Tensor) -> None:
        made = getattr(torch_struct, kind)
        one, two = medians([ours, lambda: made(tables.clone()).marginals], runs)
        z = made(tables.clone()).partition.detach().numpy()
        assert np.allclose(ours().log_z, z, rtol=1e-9)
        print(f"| {what} | {one:.2f} | {two:.1f} ({two / one:.0f}x) |", flush=True)

    for k, count, n in ((9, 16, 25), (45, 4, 25)):
        u, t = rng.normal(size=(count, n, k)), rng.normal(size=(k, k))
        chain = vs.Chain(u.reshape(-1, k), t, [n] * count)
        tables = t.T + u[:, 1:, :, None]
        tables[:, 0] += u[:, 0, None, :]
        row(f"order 1, K = {k}, {count} of {n}", lambda c=chain: _pairs(c), "LinearChainCRF",
            torch.from_numpy(tables))  # fmt: skip
    for k, count, n in ((3, 16, 25), (5, 8, 25), (9, 2, 25)):
        u, t = rng.normal(size=(count, n, k)), rng.normal(size=(k, k, k))
        chain = vs.Chain(u.reshape(-1, k), t, [n] * count, order=2)
        tables = np.full((count, n - 2, k, k, k, k), -1e6)  # [.., y, z, x, y]
        for y in range(k):
            tables[:, :, y, :, :, y] = t[:, y].T + u[:, 2:, :, None]
        tables = tables.reshape(count, n - 2, k * k, k * k)
        tables[:, 0] += (u[:, 0, :, None] + u[:, 1, None, :]).reshape(count, 1, -1)
        row(f"order 2, K = {k}, {count} of {n}", lambda c=chain: _pairs(c), "LinearChainCRF",
            torch.from_numpy(tables))  # fmt: skip
    for k, count, n, longest in ((3, 16, 25, 4), (9, 4, 25, 4), (9, 2, 50, 8)):
        u, t = rng.normal(size=(count, n, k)), rng.normal(size=(k, k))
        model = vs.SegmentChain(u.reshape(-1, k), t, [n] * count, max_length=longest)
        tables = np.full((count, n, longest + 1, k, k), -1e6)
        for first in range(n):
            for d in range(1, min(longest, n - first) + 1):
                own = u[:, first : first + d].sum(axis=1)[:, None, :]
                if first + d < n:
                    tables[:, first, d] = own + t.T
                else:
                    tables[:, first, d, :1] = own
        row(f"segments, K = {k}, L = {longest}, {count} of {n}", lambda m=model: _parts(m),
            "SemiMarkovCRF", torch.from_numpy(tables))  # fmt: skip


def _pairs(model: Any) -> Any:
    """Ask for what torch-struct has: marginals of edges."""
    found = vs.infer(model, threads=1)
    found.pairwise()
    return found


def _parts(model: Any) -> Any:
    found = vs.infer(model, threads=1)
    found.segments()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=("hmm", "networks", "chains"))
    parser.add_argument("--networks", nargs="*", type=Path, default=[], help="BIF files")
    parser.add_argument("--rows", type=int, default=1000, help="of networks")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    for path in options.networks:
        wanted(path, "--networks names BIF files")
    warnings.simplefilter("ignore")  # of PyTorch, about names it has deprecated
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    print(*describe(("hmmlearn", "pomegranate", "torch", "torch-struct")), "", sep="\n")
    with threadpool_limits(1, user_api="blas"):
        if options.only in (None, "hmm"):
            markov(options.runs, options.iterations)
        if options.only in (None, "networks"):
            networks(options.networks, options.rows, options.runs)
        if options.only in (None, "chains"):
            chains(options.runs)


if __name__ == "__main__":
    main()
