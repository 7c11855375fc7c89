"""What a question costs that asks for less, or a little more, than the usual one.

    python benchmarks/asked_for.py

One thread: `decode(n_best=2)` of one chain beside `decode`, and `log_prob` beside all marginals, of
a chain and of a tree. Both of a pair are timed in turn, and the shortest of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from _machine import describe

import valuesparse as vs

Call = Callable[[], object]


def pairs(n: int, labels: int, dtype: str) -> list[tuple[str, Call, Call]]:
    """Return names, the question, and what it is measured by."""
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(n, labels)).astype(dtype)
    table = rng.normal(size=(labels, labels)).astype(dtype)
    chain = vs.Chain(unary, table)
    tree = vs.Tree((np.arange(n) - 1) // 2, unary, table)
    states = np.zeros(n, int)
    return [
        (
            "decode(n_best=2) / decode",
            lambda: vs.decode(chain, n_best=2, threads=1),
            lambda: vs.decode(chain, threads=1),
        ),
        *(
            (
                f"log_prob / marginals, {kind}",
                lambda model=model: vs.log_prob(model, states, threads=1),
                lambda model=model: vs.infer(model, threads=1).marginals,
            )
            for kind, model in (("chain", chain), ("tree", tree))
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--labels", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=51)
    options = parser.parse_args()
    print(*describe(()), sep="\n")
    print(f"{options.positions} positions, {options.labels} labels")
    for dtype in ("float64", "float32"):
        for name, *calls in pairs(options.positions, options.labels, dtype):
            best = [float("inf")] * 2
            for _ in range(options.rounds):
                for i, call in enumerate(calls):
                    began = time.perf_counter()
                    call()
                    best[i] = min(best[i], time.perf_counter() - began)
            print(
                f"{dtype}  {name:28s} {1e3 * best[0]:8.3f} ms / {1e3 * best[1]:8.3f} ms"
                f" = {best[0] / best[1]:5.2f}"
            )


if __name__ == "__main__":
    main()
