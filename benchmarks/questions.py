"""The cost of every question, in multiples of `infer` on the same model; the worst come first.

    python benchmarks/questions.py
    python benchmarks/questions.py --models tree --sizes long extreme --labels 9
    python benchmarks/questions.py --models chain --sizes long --positions 200000 --only sample
    python benchmarks/questions.py --models graph sentence --only decode relax
    python benchmarks/questions.py --above 2.5

One thread, unless asked for more. A question and `infer(model).marginals` are timed in turn, and
the shortest of each counts. `score_samples` of a hidden Markov model stands for `infer`. Questions
to many rows count by the row. A call that takes more than a second is made once.

The columns `limit` and `output` say what a question takes beside what it has to. `limit`: its time
in multiples of the multiply-adds that its messages need at least, each as long as one of a float64
matrix product of this machine, on one thread and in cache; `_limits.py` counts them, and where no
honest count exists a dash stands. Small models take many times that, since a call in Python takes
microseconds. `output`: how many numbers it writes for each that marginals have.

Above 10 times `infer` a question has a reason, from `_reasons.py`. One without is a cliff that
nobody has looked at: it is marked with "?", and the script ends with status 1.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _limits import multiply_adds, rate
from _machine import describe
from _reasons import WORST, reason

import valuesparse as vs
import valuesparse.hmm
from valuesparse.inference import trw_dual_bound

Call = Callable[[], object]
Questions = Iterator[tuple[str, Call, float]]
SIZES = ("small", "batch", "long", "per-edge", "masked", "extreme", "decided")
#: Calls that take more seconds are made once.
SLOW = 1.0
#: Words of a sentence, and the deviation of its scores of siblings.
WORDS, SIBLINGS = 12, 0.1
#: Positions of one sequence or tree, and how many there are.
SHAPES = {"small": (10, 1), "batch": (20, 100), "per-edge": (20, 10), "decided": (20, 100)}
LONG = [2000]
#: What every question is asked with.
ONE: dict[str, Any] = {"threads": 1}


def extent(size: str) -> tuple[int, int]:
    return SHAPES.get(size, (LONG[0], 1))


def arrays(
    size: str, labels: int, dtype: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return lengths, unary scores, tables (one for each position if "per-edge"), and a mask."""
    rng = np.random.default_rng(0)
    length, count = extent(size)
    n = length * count
    shape = (n, labels, labels) if size == "per-edge" else (labels, labels)
    scale = 1e4 if size == "extreme" else 1.0
    unary, tables = scale * rng.normal(size=(n, labels)), scale * rng.normal(size=shape)
    mask = {}
    if size == "decided":  # nearly, and far from 0, as logarithms of densities are
        unary[np.arange(n), rng.integers(0, labels, n)] += 400.0
        unary -= 300.0
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


def second_order(size: str, labels: int, dtype: str) -> vs.SecondOrderChain:
    labels = min(labels, 9)
    lengths, unary, _, mask = arrays(size, labels, dtype)
    scale = 1e4 if size == "extreme" else 1.0
    tables = scale * np.random.default_rng(1).normal(size=(labels,) * 3)
    return vs.SecondOrderChain(unary, tables.astype(dtype), lengths=lengths, **mask)


def segments(size: str, labels: int, dtype: str) -> vs.SegmentChain:
    labels = min(labels, 9)
    lengths, unary, tables, mask = arrays(size, labels, dtype)
    tables = tables[0] if tables.ndim == 3 else tables
    return vs.SegmentChain(unary, tables, lengths=lengths, max_length=8, **mask)


def sentence(size: str, labels: int, dtype: str) -> vs.FactorGraph:
    """Return arcs between all words, one factor that makes them a tree, and all siblings."""
    rng = np.random.default_rng(0)
    pairs = [
        (h, m, s)
        for h in range(WORDS + 1)
        for m in range(1, WORDS + 1)
        for s in range(m + 1, WORDS + 1)
        if h not in (m, s)
    ]
    scores = rng.normal(size=(WORDS + 1, WORDS + 1))
    return vs.parsing.graph(scores, (np.array(pairs), SIBLINGS * rng.normal(size=len(pairs))))


class HiddenMarkovModel:
    """A categorical one with random parameters, and what it is asked about."""

    def __init__(self, size: str, labels: int) -> None:
        length, count = extent(size)
        rng = np.random.default_rng(0)
        # It has more parameters than there is data, and says so at every fit.
        logging.getLogger("valuesparse.hmm").setLevel(logging.ERROR)
        self.x, self.lengths = rng.integers(0, 50, (length * count, 1)), [length] * count
        self.model = valuesparse.hmm.CategoricalHMM(
            labels, init_params="", n_iter=1, tol=-np.inf, threads=1
        )
        self.model.startprob_ = rng.dirichlet(np.ones(labels))
        self.model.transmat_ = rng.dirichlet(np.ones(labels), size=labels)
        self.model.emissionprob_ = rng.dirichlet(np.ones(50), size=labels)

    def ask(self) -> object:
        """Ask what stands for `infer`."""
        return self.model.score_samples(self.x, self.lengths)


KINDS: dict[str, Callable[[str, int, str], Any]] = {
    "chain": chain, "tree": tree, "graph": graph, "order2": second_order, "segments": segments,
    "hmm": lambda size, labels, dtype: HiddenMarkovModel(size, labels), "sentence": sentence,
}  # fmt: skip
#: Sizes that a kind does not have.
WITHOUT = {
    "order2": {"per-edge", "decided"}, "segments": {"per-edge", "decided"}, "graph": {"decided"},
    "hmm": {"per-edge", "masked", "extreme", "decided"},
    "sentence": set(SIZES) - {"small"},
}  # fmt: skip
#: Questions that `infer_many` and `fit` are asked at once.
ROWS = 64


def asked(model: Any) -> Call:
    """Return the call whose multiples are counted."""
    if isinstance(model, HiddenMarkovModel):
        return model.ask
    return lambda: vs.infer(model, **ONE).marginals


def of_hidden(model: HiddenMarkovModel) -> Questions:
    hmm, x, lengths = model.model, model.x, model.lengths
    numbers = len(x) * hmm.n_components
    yield "score", lambda: hmm.score(x, lengths), 1 / numbers
    yield "decode", lambda: hmm.decode(x, lengths), 1 / hmm.n_components
    yield "sample", lambda: hmm.sample(len(x), random_state=0), 2 / hmm.n_components
    yield "fit, one iteration", lambda: hmm.fit(x, None, lengths), 1 / numbers


def of_factors(
    model: vs.FactorGraph, result: vs.Result, numbers: int, *, grid: bool = False
) -> Questions:
    """Yield what grids and sentences are asked alike."""
    one, n = ONE, model.n_variables
    pairs, tables = result.pairwise(**one), result.factor_marginals(**one)
    yield "pairwise", lambda: result.pairwise(**one), sum(map(np.size, pairs.values())) / numbers
    yield (
        "factor_marginals",
        lambda: result.factor_marginals(**one),
        sum(map(np.size, tables)) / numbers,
    )
    for method in ("bp", "structured_mean_field", "trw"):
        yield (
            f"infer, method={method!r}",
            lambda m=method: vs.infer(model, method=m, **one).marginals,
            1.0,
        )
    # AD3 and linear programs take binary variables; the factor of a sentence has no max-marginals.
    binary = max(model.cardinalities) == 2
    for method in (("bp", "trw") if grid else ()) + (("ad3", "lp") if binary else ()):
        yield (
            f"decode, method={method!r}",
            lambda m=method: vs.decode(model, method=m, **one),
            n / numbers,
        )
    yield "trw_dual_bound", lambda: trw_dual_bound(model, **one), 1 / numbers
    first = vs.select(model, min_divergence=0, **one)
    rest = np.setdiff1d(np.arange(model.n_factors), first.factors)
    yield "relax", lambda: vs.relax(model, **one).marginals, 1.0
    yield (
        "select, half of the factors",
        lambda: vs.select(model, min_divergence=rest.size // 2, **one).marginals,
        1.0,
    )
    yield "gain", lambda: vs.gain(model, rest, first), rest.size / numbers
    yield (
        "select, and bounds",
        lambda: vs.select(model, min_divergence=rest.size // 2, **one).bounds(),
        2.0,
    )


def of_graph(model: vs.FactorGraph, result: vs.Result, numbers: int) -> Questions:
    one = ONE
    names = list(range(2))
    yield "joint of two neighbours", lambda: result.joint(names, **one), 1 / numbers
    yield "bounds", lambda: vs.bounds.log_z(model), 1 / numbers
    rng = np.random.default_rng(0)
    likely = {v: rng.random(k) for v, k in enumerate(model.cardinalities[:3])}
    yield "infer, likelihood=", lambda: vs.infer(model, likelihood=likely, **one).marginals, 1.0
    yield (
        "infer, method='mean_field'",
        lambda: vs.infer(model, method="mean_field", **one).marginals,
        1.0,
    )
    tree = vs.JunctionTree(model)
    if numbers < 100:  # eigenvalues: a thousand numbers take minutes
        yield "preconditioner", lambda: vs.bounds.preconditioner(model), 1 / numbers
    yield "compile and ask", lambda: vs.JunctionTree(model).infer(**one).marginals, 1.0
    states = vs.sample(model, ROWS, rng)
    codes = np.where(rng.random(states.shape) < 0.2, states, -1)
    yield f"infer_many, {ROWS} rows, by the row", lambda: tree.infer_many(codes, **one), 1.0


def of_proofs(model: Any, result: vs.Result, numbers: int) -> Questions:
    """Yield what chains and trees are asked beside and after marginals that are proved."""
    one, k = ONE, model.n_labels
    yield "infer, tol=1e-3", lambda: vs.infer(model, tol=1e-3, **one), 1.0
    yield "infer, keep=1e-3", lambda: vs.infer(model, keep=1e-3, **one), 1.0
    half = float(len(model.unary) * k * k)  # of the multiply-adds of an exact pass
    yield "infer, work= half", lambda: vs.infer(model, work=half, **one), 1.0
    held = vs.infer(model, zeta=0.9, **one)
    yield "certify islands", lambda: held.certify(**one), 2.0
    proved = vs.infer(model, tol=1e-3, **one)
    yield "lower, upper", lambda: (proved.lower, proved.upper), 2.0
    yield "pairwise_bounds", lambda: proved.pairwise_bounds(), 2.0 * k
    entries = result.sparse(0.01, **one).nnz
    yield "sparse, min=0.01", lambda: result.sparse(0.01, **one), 2 * entries / numbers
    yield "top 3", lambda: result.top(min(3, k), **one), 2 * min(3, k) / k


def questions(kind: str, model: Any) -> Questions:
    """Yield names, calls, and how many numbers the answer has beside the marginals."""
    if isinstance(model, HiddenMarkovModel):
        yield from of_hidden(model)
        return
    result = vs.infer(model, threads=1)
    if kind == "sentence":
        yield from of_factors(model, result, sum(map(len, result.marginals)))
        return
    longer = kind in ("order2", "segments")
    best = vs.decode(model, threads=1).states
    n = len(best)
    numbers = sum(len(row) for row in result.marginals)
    one = ONE
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
    if not longer:
        yield "infer, zeta=0.9", lambda: vs.infer(model, zeta=0.9, **one), 1.0
    if kind == "graph":
        yield from of_graph(model, result, numbers)
        yield from of_factors(model, result, numbers, grid=True)
        return
    k = model.n_labels
    cells = k**3 if kind == "order2" else k * k
    yield "expectations", lambda: result.expectations(**one), cells / numbers
    if kind == "segments":
        yield "segments", lambda: result.segments(**one), float(model.max_length)
        return
    yield "pairwise", lambda: result.pairwise(**one), float(k)
    if kind in ("chain", "tree"):
        yield from of_proofs(model, result, numbers)
    if kind == "chain":
        for count in (2, 10):
            yield (
                f"decode {count}-best",
                lambda c=count: vs.decode(model, n_best=c, **one),
                (count * n / numbers),
            )


def ratio(call: Call, infer: Call, seconds: float) -> tuple[float, float]:
    """Return the shortest times of both, called in turn for some seconds; once where it is slow."""
    best = [float("inf")] * 2
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        for i, question in enumerate((call, infer)):
            if rounds and best[i] > SLOW:
                continue
            began = time.perf_counter()
            question()
            best[i] = min(best[i], time.perf_counter() - began)
        rounds += 1
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--labels", type=int, default=49)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--positions", type=int, default=LONG[0], help="of what is long")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="questions that have one of these"
    )
    parser.add_argument("--seconds", type=float, default=0.2, help="for each question")
    parser.add_argument("--above", type=float, default=0.0, help="leave out rows below this")
    options = parser.parse_args()
    LONG[0], ONE["threads"] = options.positions, options.threads
    print(*describe(()), sep="\n")
    print(f"{options.labels} labels (graphs: at most 5; order 2, segments: 9), {options.dtype}")
    speed = rate()
    print(f"limit: {speed / 1e9:.1f} multiply-adds a nanosecond, of a float64 matrix product")
    rows = []
    for kind in options.models:
        for size in options.sizes:
            if size in WITHOUT.get(kind, ()):
                continue
            model = KINDS[kind](size, options.labels, options.dtype)
            for name, call, output in questions(kind, model):
                if not any(word in name for word in options.only):
                    continue
                took, infer = ratio(call, asked(model), options.seconds)
                if "by the row" in name:
                    took /= ROWS
                needed = multiply_adds(kind, model, name)
                limit = "–" if needed is None else f"{took * speed / needed:.3g}"
                why = reason(kind, name, took / infer)
                rows.append((took / infer, f"{kind}, {size}", name, 1e3 * took, limit, output, why))
    print("| multiple of infer | model | question | ms | limit | output | reason |")
    print("|---:|---|---|---:|---:|---:|---|")
    for multiple, model_name, name, ms, limit, output, why in sorted(rows, reverse=True):
        if multiple >= options.above:
            print(
                f"| {multiple:.2f} | {model_name} | {name} | {ms:.3f} | {limit} | {output:.2g} "
                f"| {why} |"
            )
    unknown = [row for row in rows if row[-1] == "?"]
    if unknown:
        sys.exit(f"{len(unknown)} rows above {WORST:g} have no reason: see _reasons.py")


if __name__ == "__main__":
    main()
