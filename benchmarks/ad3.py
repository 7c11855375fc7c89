"""The linear program of a parser (MSFXM10) by HiGHS and by AD3: time and optimum.

Sentences are drawn: the arcs of n words with a `Tree` factor, each word with its best heads, and
all pairs of siblings and grandparents. Scores are normal, and arcs and pairs of a hidden tree score
more, as those of a trained model do; --hidden 0 leaves that out, and the programs are then more
fractional than any parser's. `--parser MODEL --treebank FILE` takes the programs of a trained
parser instead, of sentences of so many words picked by chance. Both methods run in turn, the
network of the graph made before; times are wall seconds of the whole call of `decode`, and those of
HiGHS alone stand beside.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.optimize
from _machine import describe, pinned, require_quiet
from _wanted import wanted

import valuesparse as vs


def random_tree(n: int, rng: np.random.Generator) -> list[int]:
    """Return the heads of words 1..n of a random tree."""
    order = rng.permutation(n) + 1
    heads = np.zeros(n + 1, dtype=int)
    for i, word in enumerate(order.tolist()):
        heads[word] = 0 if i == 0 else order[rng.integers(i)]
    return heads.tolist()


def sentence(
    n: int, rng: np.random.Generator, heads: int, arc: float, pair: float, hidden: float
) -> vs.FactorGraph:
    """Return a sentence's graph; what is in a hidden tree scores `hidden` deviations more."""
    gold = random_tree(n, rng)
    arcs, scores = [], []
    for m in range(1, n + 1):
        possible = [h for h in range(n + 1) if h != m]
        own = rng.normal(0.0, arc, n)
        own[possible.index(gold[m])] += hidden * arc
        kept = np.union1d(np.argsort(-own)[: heads - 1], possible.index(0))
        arcs += [(possible[i], m) for i in kept.tolist()]
        scores += own[kept].tolist()
    graph = vs.FactorGraph([2] * len(arcs))
    for v, score in enumerate(scores):
        graph.add([v], [0.0, score])
    for (i, a), (j, b) in itertools.permutations(enumerate(arcs), 2):
        if (a[0] == b[0] and a[1] < b[1]) or (b[0] == a[1] and b[1] != a[0]):
            score = rng.normal(0.0, pair)
            score += hidden * pair * (gold[a[1]] == a[0] and gold[b[1]] == b[0])
            graph.add((i, j), [[0.0, 0.0], [0.0, score]])
    graph.add(vs.factors.Tree(arcs, range(len(arcs))))
    return graph


def drawn(options: argparse.Namespace) -> Iterator[tuple[int, vs.FactorGraph]]:
    """Yield the words and the graph of each drawn sentence."""
    for n, seed in itertools.product(options.words, range(options.sentences)):
        rng = np.random.default_rng([n, seed])
        heads = options.heads or n
        yield n, sentence(n, rng, heads, options.arc, options.pair, options.hidden)


def trained(options: argparse.Namespace) -> Iterator[tuple[int, vs.FactorGraph]]:
    """Yield the words and the graph of a parser's sentences: of each length in turn."""
    wanted(Path(options.parser), "--parser names the file of a trained parser")
    wanted(Path(options.treebank or "--treebank"), "--treebank names a CoNLL-U file")
    parser = vs.parsing.load(options.parser)
    read = list(vs.parsing.read_conll(options.treebank))
    for n in options.words:
        some = [s for s in read if len(s) == n]
        picked = np.random.default_rng(n).permutation(len(some))[: options.sentences]
        for i in picked.tolist():
            yield n, parser.graph(some[i])


class Solver:
    """Seconds that HiGHS itself took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.linprog = scipy.optimize.linprog

    def __call__(self, *given: object, **more: object) -> object:
        """Solve, and keep the time."""
        start = time.perf_counter()
        found = self.linprog(*given, **more)
        self.seconds = time.perf_counter() - start
        return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parser", help="a model of order 2, instead of drawn sentences")
    parser.add_argument("--treebank", help="its sentences")
    parser.add_argument("--words", type=int, nargs="+", default=[15, 17, 20, 22, 25])
    parser.add_argument("--sentences", type=int, default=4, help="of each length")
    parser.add_argument("--heads", type=int, default=10, help="of each word; 0: all")
    parser.add_argument("--arc", type=float, default=2.0, help="standard deviation of arcs")
    parser.add_argument("--pair", type=float, default=0.5, help="standard deviation of pairs")
    parser.add_argument("--hidden", type=float, default=1.0, help="deviations that gold adds")
    parser.add_argument("--tolerance", type=float, default=vs.AD3().tolerance)
    parser.add_argument("--samples", type=int, default=3, help="runs of ad3 per run of lp")
    parser.add_argument("--allow-busy", action="store_true")
    options = parser.parse_args(arguments)

    require_quiet(options.allow_busy)
    from valuesparse.inference import _lp

    solver = Solver()
    _lp.linprog = solver
    method = vs.AD3(tolerance=options.tolerance)
    print(*describe(("scipy",)), sep="\n")
    print(
        "    n  pairs  integral       lp s   HiGHS s      ad3 s    lp/ad3  HiGHS/ad3   difference"
    )
    ratios, alone, worst = [], [], 0.0
    with pinned(0):
        for n, graph in trained(options) if options.parser else drawn(options):
            vs.decode(graph, method=vs.AD3(max_iterations=1))  # lays the network out
            start = time.perf_counter()
            lp = vs.decode(graph, method="lp")
            slow = time.perf_counter() - start
            times = []
            for _ in range(options.samples):
                start = time.perf_counter()
                ad3 = vs.decode(graph, method=method, threads=1)
                times.append(time.perf_counter() - start)
            fast = statistics.median(times)
            difference = abs(ad3.upper - lp.upper) / max(1.0, abs(lp.upper))
            pairs = graph.n_factors - graph.n_variables - 1
            integral = f"{'yes' if lp.integral else 'no'}/{'yes' if ad3.integral else 'no'}"
            print(
                f"{n:5d}{pairs:7d}{integral:>10}{slow:11.3f}{solver.seconds:10.3f}{fast:11.4f}"
                f"{slow / fast:10.1f}{solver.seconds / fast:11.1f}{difference:13.1e}",
                flush=True,
            )
            ratios.append(slow / fast)
            alone.append(solver.seconds / fast)
            worst = max(worst, difference)
    print(
        f"lp/ad3: geometric mean {statistics.geometric_mean(ratios):.1f}, least {min(ratios):.1f}; "
        f"HiGHS alone {statistics.geometric_mean(alone):.1f}, {min(alone):.1f}; "
        f"largest difference {worst:.1e} of the optimum"
    )
    require_quiet(allow_busy=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
