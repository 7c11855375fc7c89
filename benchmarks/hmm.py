"""Fits of hidden Markov models against hmmlearn: equal starts, equal numbers of iterations.

Each side runs `fit`, or another call, as a whole, its checks included; medians of alternating runs
in one process. BLAS has as many threads as ours. hmmlearn has one thread; its modes are "scaling"
and "log".
"""

from __future__ import annotations

import argparse
import logging
import time
from statistics import median
from typing import Any

import hmmlearn.hmm
import numpy as np
from _machine import describe, require_quiet
from threadpoolctl import threadpool_limits

import valuesparse.hmm

#: Rows, states and sequences.
SIZES = (
    (500, 4, 1), (500, 8, 1), (2000, 4, 1), (20_000, 4, 1), (20_000, 4, 1000), (20_000, 8, 1),
    (20_000, 16, 1), (20_000, 16, 1000), (20_000, 64, 1), (100_000, 64, 1), (100_000, 64, 2000),
)  # fmt: skip
KINDS = ("categorical", "gaussian", "poisson", "full", "mixture")
CALLS = ("fit", "score", "predict", "predict_proba")


def model(module: Any, kind: str, n: int, k: int, **options: Any) -> tuple[Any, Any]:
    """Return a model with random parameters, and rows."""
    rng = np.random.default_rng(k)
    features, symbols = 4, 50
    names = {"categorical": "CategoricalHMM", "poisson": "PoissonHMM", "mixture": "GMMHMM"}
    covariance: dict[str, Any] = {
        "gaussian": {"covariance_type": "diag"}, "full": {"covariance_type": "full"},
        "mixture": {"n_mix": 2},
    }  # fmt: skip
    made = getattr(module, names.get(kind, "GaussianHMM"))(
        k, init_params="", tol=-np.inf, **covariance.get(kind, {}), **options
    )
    made.startprob_ = rng.dirichlet(np.ones(k))
    made.transmat_ = 0.5 * np.eye(k) + 0.5 * rng.dirichlet(np.ones(k), size=k)
    if kind == "categorical":
        made.emissionprob_ = rng.dirichlet(np.ones(symbols), size=k)
        return made, rng.integers(0, symbols, (n, 1))
    made.n_features = features
    if kind == "poisson":
        made.lambdas_ = rng.gamma(3.0, 2.0, size=(k, features))
        return made, rng.poisson(6.0, (n, features))
    if kind == "mixture":
        made.weights_ = np.full((k, 2), 0.5)
        made.means_ = rng.normal(scale=3.0, size=(k, 2, features))
        made.covars_ = np.ones((k, 2, features))
        return made, rng.normal(scale=3.0, size=(n, features))
    made.means_ = rng.normal(scale=3.0, size=(k, features))
    one = np.ones(features)
    made.covars_ = np.tile(
        np.diag(one) if kind == "full" else one, (k, *[1] * (1 + (kind == "full")))
    )
    return made, rng.normal(scale=3.0, size=(n, features))


def spent(kind: str, n: int, k: int, sequences: int, threads: int | None, options: Any) -> float:
    """Return the seconds of a call: of hmmlearn's where `threads` is None."""
    theirs = threads is None
    side = {"implementation": options.mode} if theirs else {"threads": threads}
    module: Any = hmmlearn.hmm if theirs else valuesparse.hmm
    made, X = model(module, kind, n, k, n_iter=options.iterations, **side)
    call, lengths = getattr(made, options.call), [n // sequences] * sequences
    with threadpool_limits(threads or 1, user_api="blas"):
        start = time.perf_counter()
        call(X, lengths=lengths)
        return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--call", default="fit", choices=CALLS)
    parser.add_argument("--mode", default="scaling", choices=("scaling", "log"))
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--states", type=int, nargs="+", help="those sizes alone")
    parser.add_argument("--rows", type=int, nargs="+", help="those sizes alone")
    options = parser.parse_args(arguments)
    require_quiet(options.allow_busy)
    logging.disable(logging.WARNING)  # of hmmlearn, about random data
    print(*describe(("hmmlearn", "scikit-learn")), sep="\n")
    print(f"hmmlearn's mode {options.mode!r}; {options.call}, {options.iterations} iterations")
    for kind in options.kinds:
        for n, k, sequences in SIZES:
            if options.states and k not in options.states:
                continue
            if options.rows and n not in options.rows:
                continue
            sides = [None, *options.threads]
            times: list[list[float]] = [[] for _ in sides]
            for turn in range(options.repeats + 1):
                for side, taken in zip(sides, times, strict=True):
                    one = spent(kind, n, k, sequences, side, options)
                    if turn:  # the first warms up
                        taken.append(one)
            theirs, *ours = map(median, times)
            print(
                f"{kind:12} {n:7} x {k:2} in {sequences:4}: {1e3 * theirs:9.2f} ms; "
                + "; ".join(
                    f"{t} thread{'s' * (t > 1)} {1e3 * own:8.2f} ms, {theirs / own:6.2f}x"
                    for t, own in zip(options.threads, ours, strict=True)
                ),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
