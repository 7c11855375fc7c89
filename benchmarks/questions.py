"""The cost of every question, in multiples of `infer` on the same model; the worst come first.

    python benchmarks/questions.py
    python benchmarks/questions.py --models tree --sizes long extreme --labels 9

One thread. A question and `infer(model).marginals` are timed in turn, and the shortest of each
counts. Where a question writes more than marginals, the column `output` has the ratio of the bytes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from _machine import describe

import valuesparse as vs

Call = Callable[[], object]
SIZES = ("small", "batch", "long", "per-edge", "masked", "extreme")
#: Positions of one sequence or tree, and how many there are.
SHAPES = {"small": (10, 1), "batch": (20, 100), "per-edge": (20, 10)}


def arrays(
    size: str, labels: int, dtype: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return lengths, unary scores, tables (one for each position if "per-edge"), and a mask."""
    rng = np.random.default_rng(0)
    length, count = SHAPES.get(size, (2000, 1))
    n = length * count
    shape = (n, labels, labels) if size == "per-edge" else (labels, labels)
    scale = 1e4 if size == "extreme" else 1.0
    unary, tables = scale * rng.normal(size=(n, labels)), scale * rng.normal(size=shape)
    mask = {}
    if size == "masked":
        allowed = rng.random((n, labels)) < 0.5
        allowed[:, 0] = True
        mask = {"allowed": allowed}
    return np.full(count, length), unary.astype(dtype), tables.astype(dtype), mask


def chain(size: str, labels: int, dtype: str) -> vs.Chain:
    lengths, unary, tables, mask = arrays(size, labels, dtype)
    if tables.ndim == 3:
        tables = np.delete(tables, np.cumsum(lengths) - 1, axis=0)
    return vs.Chain(unary, tables, lengths=lengths, **mask)


def tree(size: str, labels: int, dtype: str) -> vs.Tree:
    lengths, unary, tables, mask = arrays(size, labels, dtype)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    own = np.arange(len(unary)) - first
    parent = np.where(own == 0, -1, first + (own - 1) // 2)
    return vs.Tree(parent, unary, tables, **mask)


def graph(size: str, labels: int, dtype: str) -> vs.FactorGraph:
    """Return a grid of three rows, whose junction tree has cliques of four variables at most."""
    labels = min(labels, 5)
    _, unary, tables, mask = arrays(size, labels, "float64")
    columns = min(len(unary), 400) // 3
    g = vs.FactorGraph([labels] * (3 * columns))
    for v in range(3 * columns):
        g.add([v], np.where(mask["allowed"][v], unary[v], -np.inf) if mask else unary[v])
        for other in [v + 1] * (v % 3 < 2) + [v + 3] * (v + 3 < 3 * columns):
            g.add([v, other], tables[v] if tables.ndim == 3 else tables)
    return g


KINDS: dict[str, Callable[[str, int, str], vs.Chain | vs.Tree | vs.FactorGraph]] = {
    "chain": chain, "tree": tree, "graph": graph,
}  # fmt: skip


def questions(
    kind: str, model: vs.Chain | vs.Tree | vs.FactorGraph
) -> Iterator[tuple[str, Call, float]]:
    """Yield names, calls, and how many numbers the answer has beside the marginals."""
    result = vs.infer(model, threads=1)
    best = vs.decode(model, threads=1).states
    n = len(best)
    numbers = sum(len(row) for row in result.marginals)
    one = {"threads": 1}
    yield "decode", lambda: vs.decode(model, **one), n / numbers
    for size in (1, 10):
        rng = np.random.default_rng(0)
        yield (
            f"sample {size}",
            lambda s=size, r=rng: vs.sample(model, s, r, **one),
            (size * n / numbers),
        )
    yield "log_prob", lambda: vs.log_prob(model, best, **one), 1 / numbers
    yield "entropy", lambda: result.entropy(**one), 1 / numbers
    yield "infer, zeta=0.9", lambda: vs.infer(model, zeta=0.9, **one), 1.0
    if kind == "graph":
        names = list(range(2))
        yield "joint of two neighbours", lambda: result.joint(names, **one), 1 / numbers
        yield "bounds", lambda: vs.bounds.log_z(model), 1 / numbers
        return
    k = model.n_labels
    yield "expectations", lambda: result.expectations(**one), k * k / numbers
    yield "pairwise", lambda: result.pairwise(**one), float(k)
    if kind == "chain":
        for count in (2, 10):
            yield (
                f"decode {count}-best",
                lambda c=count: vs.decode(model, n_best=c, **one),
                (count * n / numbers),
            )


def ratio(call: Call, infer: Call, seconds: float) -> tuple[float, float]:
    """Return the shortest times of both, called in turn for some seconds."""
    best = [float("inf")] * 2
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        for i, asked in enumerate((call, infer)):
            began = time.perf_counter()
            asked()
            best[i] = min(best[i], time.perf_counter() - began)
        rounds += 1
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--labels", type=int, default=49)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each question")
    options = parser.parse_args()
    print(*describe(()), sep="\n")
    print(f"{options.labels} labels (graphs: at most 5), {options.dtype}")
    rows = []
    for kind in options.models:
        for size in options.sizes:
            model = KINDS[kind](size, options.labels, options.dtype)
            for name, call, output in questions(kind, model):
                asked, infer = ratio(
                    call, lambda m=model: vs.infer(m, threads=1).marginals, options.seconds
                )
                rows.append((asked / infer, f"{kind}, {size}", name, 1e3 * asked, output))
    print("| multiple of infer | model | question | ms | output |")
    print("|---:|---|---|---:|---:|")
    for multiple, model_name, name, ms, output in sorted(rows, reverse=True):
        print(f"| {multiple:.2f} | {model_name} | {name} | {ms:.3f} | {output:.2g} |")


if __name__ == "__main__":
    main()
