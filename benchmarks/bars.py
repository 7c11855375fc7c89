"""Bars that no other script measures: each claim, its bar, what is measured, met or MISSED.

    python benchmarks/bars.py
    python benchmarks/bars.py --only certify tol --rounds 41 --models FOLDER

One thread unless a claim says otherwise. Ratios are those of medians of calls made in turn, in at
least `--rounds` rounds; calls that are short have more.

add_many
    All 269,400 factors of a binary 300 x 300 grid, added by two calls to an empty graph of 90,000
    variables: one for the variables, one for the pairs of neighbours. Either one table serves all
    factors of a call, or an array has a table for each.
mean_field, structured_mean_field
    A binary 100 x 100 grid of normal tables, deviation 1 for variables and 0.5 or 1 for pairs,
    against `infer(graph, method="bp")`, and two threads against one.
per_edge
    Sentences of 5 to 45 positions with a table for each edge, 20 million entries in all (160 MB;
    float32: 80 MB), of 9 and 49 labels. Calls are held against the larger of two times: the
    exponentials of the tables, and the tables' bytes at the bandwidth measured in the same rounds.
    `np.exp` of the same arrays into a kept array stands in for the exponentials; other code may
    be faster, so that a ratio below 1 is possible. The bandwidth is the better one of a copy, which
    moves each byte twice, and a sum.
per_edge_questions
    Such sentences of 2, 9 and 49 labels, 20,000 positions at most: entropy, and one sample.
graph_questions
    The grids of `questions.py` with three rows and five states, 9 and 399 variables, asked before.
certify
    20,000 positions in random sentences of 5 to 45, unary scores of variance 9, normal transitions.
    `certify()` is timed alone, on a result of zeta=0.9 that is made anew before each call.
tol
    Test sentences of treebanks (20,000 tokens at most) under CRFs that our Trainer trains by
    `--iterations` of L-BFGS; the table has noise, so that nothing is a default
    (`large_labels.without_default`). The bar is 1.3 up to 49 labels and 1.7 from 95 on.
tol_unsuited
    Random sentences as for `certify`, flat ones (all normal scores times 0.1), and tol=1e-8, which
    float32 cannot prove.
long_chain
    One chain of 1,000,000 positions and 45 labels (`scaling.long_chain`). Simulated cores count
    messages: all of the plan, run-ins of its chunks too, or those of a pass that is not cut, over
    what the busiest core has. `scaling.py` asks with more real threads.

Other bars: `questions.py` has every question in multiples of `infer`, `scaling.py` the threads,
`islands.py` and `graph_islands.py` islands, `junction_tree.py` junction trees and their rivals,
`large_labels.py` large label sets against BLAS, `sparse_transitions.py` sparse tables,
`decoding.py` best states, `roofline.py` shares of the machine's peak, `paired.py` two sides of our
choice, `crf_training.py`, `crf_tagger.py` and `crf_rivals.py` taggers, `hmm.py` hidden Markov
models, `reproduce.py` parsing, and `interrupts.py` Ctrl-C and deadlines.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _machine import describe, require_quiet
from _tagging import attributes
from graph_islands import grid_edges
from islands import in_turn
from large_labels import train_and_test, trained, without_default
from questions import graph as grid_of_rows
from scaling import long_chain as one_long_chain

import valuesparse as vs

#: Rounds go on for so many seconds where calls are short, but there are at most so many of them.
SECONDS, MOST = 1.0, 101
#: Positions of random sentences, tokens of treebanks at most, and entries of tables of edges.
POSITIONS, TABLE_ENTRIES = 20_000, 20_000_000
#: Corpora of `large_labels.CORPORA` that models are trained on, by their numbers of labels.
TREEBANKS = (
    "en_ewt XPOS, 45",
    "en_ewt XPOS",
    "nl_alpino XPOS, 96",
    "nl_alpino XPOS",
    "it_partut UPOS|FEATS",
)


@dataclass(frozen=True)
class Bar:
    """The most that may be measured, or the least."""

    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}"

    def verdict(self, measured: float) -> str:
        """Return "met" or "MISSED"; what is no number misses."""
        met = measured <= self.limit if self.sign == "<=" else measured >= self.limit
        return "met" if met else "MISSED"


@dataclass(frozen=True)
class Given:
    """What the options say."""

    rounds: int
    seed: int
    iterations: int
    models: Path | None

    def rng(self) -> np.random.Generator:
        """Return a generator that each bar begins anew."""
        return np.random.default_rng(self.seed)

    def medians(
        self, calls: Sequence[Callable[..., object]], fresh: Callable[[], tuple] = tuple
    ) -> list[float]:
        """Return the median seconds of calls made in turn; short ones have more rounds."""
        once = sum(in_turn(calls, 1, fresh))
        return in_turn(calls, max(self.rounds, min(MOST, int(SECONDS / once))), fresh)


#: A claim, its bar and what is measured.
Rows = Iterator[tuple[str, Bar, float]]


def at_most(limit: float) -> Bar:
    return Bar("<=", limit)


def at_least(limit: float) -> Bar:
    return Bar(">=", limit)


def add_many(given: Given) -> Rows:
    rng, side = given.rng(), 300
    cells, edges = np.arange(side * side)[:, None], grid_edges(side)
    shared = (rng.normal(size=2), rng.normal(size=(2, 2)))
    arrays = (rng.normal(size=(len(cells), 2)), rng.normal(size=(len(edges), 2, 2)))

    def add(graph: vs.FactorGraph, unary: np.ndarray, pairs: np.ndarray) -> None:
        graph.add_many(cells, unary)
        graph.add_many(edges, pairs)

    calls = [lambda graph, tables=tables: add(graph, *tables) for tables in (shared, arrays)]
    taken = given.medians(calls, lambda: (vs.FactorGraph([2] * side**2),))
    for name, seconds in zip(("one table", "an array of tables"), taken, strict=True):
        yield f"{len(cells) + len(edges):,} factors, {name}: seconds", at_most(0.1), seconds


def fields(method: str, limit: float, given: Given) -> Rows:
    """Measure one kind of mean field."""
    side = 100
    for deviation in (0.5, 1.0):
        rng, edges = given.rng(), grid_edges(side)
        graph = vs.FactorGraph([2] * side**2)
        graph.add_many(np.arange(side**2)[:, None], rng.normal(size=(side**2, 2)))
        graph.add_many(edges, deviation * rng.normal(size=(len(edges), 2, 2)))
        asked = (("bp", 1), (method, 1), (method, 2))
        bp, one, two = given.medians(
            [lambda m=m, t=t, g=graph: vs.infer(g, method=m, threads=t).marginals for m, t in asked]
        )
        name = f"{method}, 100 x 100, deviation {deviation:g}"
        yield f"{name}: times bp", at_most(limit), one / bp
        yield f"{name}: two threads against one", at_least(1.7), one / two


def lengths_of(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return lengths of 5 to 45 whose sum is n; the last one may be shorter."""
    ends = np.cumsum(rng.integers(5, 46, size=n // 5 + 1))
    return np.diff(ends[ends < n], prepend=0, append=n)


def random_sentences(n_labels: int, rng: np.random.Generator, scale: float = 3.0) -> vs.Chain:
    """Return sentences whose unary scores have a deviation of `scale`, transitions one of 1."""
    unary = scale * rng.normal(size=(POSITIONS, n_labels))
    table = rng.normal(size=(n_labels, n_labels))
    return vs.Chain(unary, table, lengths=lengths_of(POSITIONS, rng))


def per_edge(given: Given) -> Rows:
    for dtype in ("float64", "float32"):
        for n_labels in (9, 49):
            rng = given.rng()
            lengths = lengths_of(TABLE_ENTRIES // n_labels**2, rng)
            n = int(lengths.sum())
            unary = rng.standard_normal((n, n_labels), dtype)
            tables = rng.standard_normal((n - lengths.size, n_labels, n_labels), dtype)
            kept = np.empty_like(tables)
            chain = vs.Chain(unary, tables, lengths=lengths)
            infer, decode, exponentials, copy, total = given.medians(
                [
                    functools.partial(vs.infer, chain),
                    functools.partial(vs.decode, chain),
                    functools.partial(np.exp, tables, out=kept),
                    functools.partial(np.copyto, kept, tables),
                    functools.partial(np.sum, tables),
                ]
            )
            moved = min(copy / 2, total)
            base = f"(exponentials {1e3 * exponentials:.1f} ms, bytes {1e3 * moved:.1f} ms)"
            for name, seconds in (("infer", infer), ("decode", decode)):
                claim = f"{n_labels} labels, {dtype}, a table for each edge: {name} {base}"
                yield claim, at_most(1.25), seconds / max(exponentials, moved)


def per_edge_questions(given: Given) -> Rows:
    for n_labels in (2, 9, 49):
        rng = given.rng()
        lengths = lengths_of(min(TABLE_ENTRIES // n_labels**2, POSITIONS), rng)
        n = int(lengths.sum())
        tables = rng.standard_normal((n - lengths.size, n_labels, n_labels))
        chain = vs.Chain(rng.standard_normal((n, n_labels)), tables, lengths=lengths)
        result = vs.infer(chain)
        infer, entropy, sample = given.medians(
            [
                functools.partial(vs.infer, chain),
                result.entropy,
                functools.partial(vs.sample, chain, 1, 0),
            ]
        )
        claim = f"{n_labels} labels, a table for each edge: times infer: "
        yield claim + "entropy", at_most(2.2), entropy / infer
        yield claim + "one sample", at_most(1.5), sample / infer


def graph_questions(given: Given) -> Rows:
    for size in ("small", "batch"):
        model = grid_of_rows(size, 5, "float64")
        result, states = vs.infer(model), vs.decode(model).states
        calls: dict[str, Callable[[], object]] = {
            "infer": lambda m=model: vs.infer(m).marginals,
            "decode": lambda m=model: vs.decode(m),
            "joint of neighbours": lambda r=result: r.joint([0, 1]),
            "log_prob": lambda m=model, s=states: vs.log_prob(m, s),
        }
        infer, *others = given.medians(list(calls.values()))
        for name, seconds in zip(list(calls)[1:], others, strict=True):
            claim = f"{name} of a graph of {model.n_variables} variables: times infer"
            yield claim, at_most(2), seconds / infer


def certify(given: Given) -> Rows:
    for n_labels in (2, 4, 9, 20, 45, 49, 96):
        model = random_sentences(n_labels, given.rng())
        share = float((vs.infer(model, zeta=0.9).islands >= 0).mean())
        exact, proof = given.medians(
            [lambda r, m=model: vs.infer(m), lambda r: r.certify()],
            lambda m=model: (vs.infer(m, zeta=0.9),),
        )
        claim = f"certify() of zeta=0.9, {n_labels} labels, {share:.0%} islands: times exact"
        yield claim, at_most(1.1), proof / exact


def against_exact(model: vs.Chain, tols: Sequence[float], given: Given) -> Iterator[float]:
    """Yield the time of each tolerance, in multiples of the exact pass."""
    calls = [functools.partial(vs.infer, model)]
    calls += [functools.partial(vs.infer, model, tol=tol) for tol in tols]
    exact, *others = given.medians(calls)
    yield from (seconds / exact for seconds in others)


def tol(given: Given) -> Rows:
    for name in TREEBANKS:
        crf = trained(name, given.iterations, None, given.models)
        _, test = train_and_test(name, POSITIONS)
        unary, lengths = crf.unary_batch([attributes(words) for words, _ in test])
        model = vs.Chain(unary, without_default(crf.transition), lengths)
        tols = (1e-1, 1e-2, 1e-3)
        for asked, times in zip(tols, against_exact(model, tols, given), strict=True):
            corpus = name.split(",")[0]
            claim = f"tol={asked:g}, {corpus}, {model.n_labels} labels: times as fast as exact"
            yield claim, at_least(1.3 if model.n_labels < 95 else 1.7), 1 / times


def tol_unsuited(given: Given) -> Rows:
    for n_labels in (9, 20, 49, 96, 205):
        random = random_sentences(n_labels, given.rng())
        flat = vs.Chain(random.unary / 30, random.transition / 10, lengths=random.lengths)
        for kind, model in (("flat", flat), ("random", random)):
            tols = (1e-1, 1e-3, 1e-8)
            for asked, times in zip(tols, against_exact(model, tols, given), strict=True):
                yield f"tol={asked:g}, {kind}, {n_labels} labels: times exact", at_most(1.05), times


def long_chain(given: Given) -> Rows:
    model = one_long_chain(45, 1_000_000)
    name = "one chain of 1,000,000 positions, 45 labels"
    for cores, least in ((8, 7.5), (16, 14.0)):
        plan = vs.schedule.plan(model, threads=cores)
        run = vs.schedule.simulate(plan, cores)
        uncut = 2 * (model.n_positions - 1)
        claim = f"{name}: {cores} simulated cores"
        yield f"{claim}, of all messages", at_least(least), run.speedup
        yield f"{claim}, of an uncut pass", at_least(least), uncut / run.makespan
    one, two = given.medians([functools.partial(vs.infer, model, threads=t) for t in (1, 2)])
    yield f"{name}: two threads against one", at_least(1.85), one / two


BARS: dict[str, Callable[[Given], Rows]] = {
    "add_many": add_many,
    "mean_field": functools.partial(fields, "mean_field", 10.0),
    "structured_mean_field": functools.partial(fields, "structured_mean_field", 60.0),
    "per_edge": per_edge,
    "per_edge_questions": per_edge_questions,
    "graph_questions": graph_questions,
    "certify": certify,
    "tol": tol,
    "tol_unsuited": tol_unsuited,
    "long_chain": long_chain,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=BARS, default=list(BARS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9, help="at least, for each row")
    parser.add_argument("--seed", type=int, default=0, help="of random models")
    parser.add_argument("--iterations", type=int, default=15, help="of training, for tol")
    parser.add_argument("--models", type=Path, help="where trained models are kept")
    parser.add_argument("--allow-busy", action="store_true", help="measure beside other work")
    options = parser.parse_args()
    require_quiet(options.allow_busy)
    if options.models is not None:
        options.models.mkdir(parents=True, exist_ok=True)
    vs.set_num_threads(1)
    print("\n".join(describe(())))
    given = Given(options.rounds, options.seed, options.iterations, options.models)
    lines = []
    for name in options.only:
        for claim, bar, measured in BARS[name](given):
            cells = (name, claim.replace("|", r"\|"), bar, f"{measured:.4g}", bar.verdict(measured))
            lines.append(f"| {' | '.join(map(str, cells))} |")
            print(lines[-1], flush=True)
    print("\n| name | claim | bar | measured | |\n|---|---|---:|---:|---|")
    print("\n".join(lines))
    print(f"\n{sum('MISSED' in line for line in lines)} of {len(lines)} bars are missed")


if __name__ == "__main__":
    main()
