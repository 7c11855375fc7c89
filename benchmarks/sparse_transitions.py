"""A transition of scipy with few pairs, others forbidden, against a full table of its size.

1,000 labels; 1 % of the pairs and the diagonal are kept. The full table forbids nothing, so that it
has no default. Medians of alternating runs, one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from _machine import describe
from scipy import sparse

import valuesparse as vs


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("\n".join(describe()))
    rng, k = np.random.default_rng(0), 1000
    pairs = sparse.random_array((k, k), density=0.01, rng=rng, format="csr").tolil()
    pairs.data = np.array([rng.normal(size=len(row)).tolist() for row in pairs.data], object)
    pairs.setdiag(rng.normal(size=k))
    table = sparse.csr_array(pairs)
    full = rng.normal(size=(k, k))
    for n, count in ((2000, 40), (2000, 1)):
        u, lengths = rng.normal(size=(n, k)), [n // count] * count
        chains = [vs.Chain(u, t, lengths) for t in (table, full)]
        times: list[list[float]] = [[], []]
        for _ in range(7):
            for chain, taken in zip(chains, times, strict=True):
                started = time.perf_counter()
                r = vs.infer(chain, threads=1)
                taken.append(time.perf_counter() - started)
        few, all_ = (statistics.median(taken) for taken in times)
        print(f"{count} sequences of {n // count}, {table.nnz} pairs: {1e3 * few:.1f} ms, full "
              f"{1e3 * all_:.1f} ms, {all_ / few:.1f} times", flush=True)  # fmt: skip
    print(vs.infer(vs.Chain(u, table, lengths)).reason, "|", r.reason)


if __name__ == "__main__":
    main()
