"""How many multiply-adds the messages of a question take at least, and how fast this machine is.

A message along an edge reads every pair of states that are allowed, with one multiply-add each: for
a chain of n positions and K labels a pass takes n K² of them, of order 2 n K³, of segments of up to
L positions n K (K + L). In graphs it is one for each entry of the cliques' tables of the junction
tree that `infer` asks. A question is counted in passes and in numbers of states, as `NEEDS` says:

* log Z, a best configuration: a pass; the n best and samples: a number more for each of their
  states, K a variable;
* marginals: a pass up and a pass down; joints of pairs and their sums: a product more for each;
* the entropy: a product more, with the score, for each pair;
* bounds of pairs: two operations for each, and no pass; lists of marginals: one for each of them.

That is a count of arithmetic, not of what a call does: exponentials, divisions and memory are left
out, and a maximum counts as a sum. There is no such count of what goes on until it converges, of
bounds, of islands and tolerances, which skip as much as the scores let them, nor where a structured
factor or Python has its own arithmetic: a dash stands there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import valuesparse as vs

__all__ = ["multiply_adds", "rate"]

#: Three float64 matrices of this many rows and columns fit in the second cache of most machines.
SIZE = 128
_PRODUCTS = f"""
import time
import numpy as np
a = np.random.default_rng(0).normal(size=({SIZE}, {SIZE}))
out, best = np.empty_like(a), float("inf")
end = time.perf_counter() + 0.5
while time.perf_counter() < end:
    began = time.perf_counter()
    np.matmul(a, a, out=out)
    best = min(best, time.perf_counter() - began)
print(best)
"""


def rate() -> float:
    """Return the multiply-adds a second of a float64 matrix product in cache, on one thread."""
    # Libraries read how many threads they may have when they are loaded.
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    run = subprocess.run(
        [sys.executable, "-c", _PRODUCTS],
        env={**os.environ, **one},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(SIZE**3 / float(run.stdout))


class Work(NamedTuple):
    """The multiply-adds of a pass, the numbers of states, and the pairs of all edges."""

    message: float
    states: float
    pairs: float


#: What each question needs.
NEEDS: dict[str, Callable[[Work], float]] = {
    "infer, likelihood=": lambda w: 2 * w.message,
    "infer, keep=1e-3": lambda w: 2 * w.message,
    "infer, work= half": lambda w: w.message,
    "infer_many, 64 rows, by the row": lambda w: 2 * w.message,
    "compile and ask": lambda w: 2 * w.message,
    "decode": lambda w: w.message,
    "decode 2-best": lambda w: w.message + 2 * w.states,
    "decode 10-best": lambda w: w.message + 10 * w.states,
    "sample 1": lambda w: w.message + w.states,
    "sample 10": lambda w: w.message + 10 * w.states,
    "score": lambda w: w.message,
    "fit, one iteration": lambda w: 3 * w.message,
    "log_prob": lambda w: w.message,
    "entropy": lambda w: 4 * w.message,
    "expectations": lambda w: 3 * w.message,
    "pairwise": lambda w: 3 * w.message,
    "factor_marginals": lambda w: 3 * w.message,
    "joint of two neighbours": lambda w: w.message,
    "segments": lambda w: 3 * w.message,
    "pairwise_bounds": lambda w: 2 * w.pairs,
    "sparse, min=0.01": lambda w: w.states,
    "top 3": lambda w: w.states,
}


def multiply_adds(kind: str, model: Any, name: str) -> float | None:
    """Return how many multiply-adds a question of a kind of model needs; None where nobody knows.

    A question by the row counts a row.
    """
    need = NEEDS.get(name)
    if need is None or kind == "sentence":
        return None
    if kind == "graph":
        tree = vs.JunctionTree(model)
        return need(Work(float(tree.table_size), float(sum(model.cardinalities)), np.nan))
    return need(_sequences(kind, model))


def _sequences(kind: str, model: Any) -> Work:
    if kind == "hmm":
        n, k = len(model.x), model.model.n_components
        edges = n - len(model.lengths)
        return Work(float(edges * k * k), float(n * k), float(edges * k * k))
    n, k = model.unary.shape
    alive = np.full(n, k) if model.allowed is None else model.allowed.sum(axis=1)
    if kind == "tree":
        below = np.flatnonzero(model.parent >= 0)
        above = model.parent[below]
    else:
        below = np.delete(np.arange(n), model.offset[:-1][model.lengths > 0])
        above = below - 1
    message = (alive[above] * alive[below]).sum()
    if kind == "order2":
        third = np.isin(above, below)
        message = (alive[above] * alive[below] * alive[above - 1])[third].sum()
    if kind == "segments":
        message += model.max_length * alive.sum()
    return Work(float(message), float(alive.sum()), float(below.size * k * k))
