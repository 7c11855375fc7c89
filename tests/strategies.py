"""Models to test with: hypothesis strategies and seeded generators of chains."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from oracles import Arrays


def examples(n: int) -> settings:
    """Return settings of n examples; ten times as many under HYPOTHESIS_PROFILE=explore."""
    return settings(max_examples=n * settings.default.max_examples // 100)


#: As many sequences as fill lanes, some more than that, and too few.
LANE_LENGTHS = [
    [7] * 8,
    [9, 9, 8, 8, 7, 7, 6, 5, 3, 2, 1, 0],
    [40, 12, 12, 11, 1],
    [33, 2, 1],
    [19] * 5 + [18] * 6 + [16, 9, 8, 1, 1, 1, 1],
    [13] * 12 + [12] * 5,
]
#: Scores at which exp() is about to lose float32 (87, 103) or float64 (708, 745), and far beyond.
EDGES = [87.0, 88.5, 95.0, 103.5, 700.0, 708.5, 720.0, 745.5, 760.0, 10_000.0]


def scores(*, extreme: bool = True, forbidden: bool = True) -> st.SearchStrategy[float]:
    """Return a strategy of log-potentials that are multiples of 1/8.

    Sums of a few of them are exact even in float32, so that the answer is well-conditioned however
    large they are.
    """
    kinds = [st.integers(-40, 40).map(lambda i: i / 8), st.integers(-1, 1).map(float)]
    if extreme:
        kinds.append(st.sampled_from([*EDGES, *(-x for x in EDGES)]))
    if forbidden:
        kinds.append(st.just(-np.inf))
    return st.one_of(kinds)


@st.composite
def chains(
    draw: st.DrawFn,
    *,
    extreme: bool = True,
    forbidden: bool = True,
    max_labels: int = 4,
    max_length: int = 5,
    max_sequences: int = 4,
    dtypes: tuple[type, ...] = (np.float64, np.float32),
) -> Arrays:
    """Draw a ragged batch, possibly infeasible, with any of the optional arguments."""
    dtype = draw(st.sampled_from(dtypes))
    k = draw(st.integers(1, max_labels))
    lengths = draw(st.lists(st.integers(0, max_length), min_size=0, max_size=max_sequences))
    n = sum(lengths)
    edges = sum(max(m - 1, 0) for m in lengths)
    element = scores(extreme=extreme, forbidden=forbidden)

    def table(*shape: int) -> Any:
        return hnp.arrays(dtype, shape, elements=element, fill=st.just(0.0))

    return Arrays(
        draw(table(n, k)),
        draw(table(edges, k, k) if draw(st.booleans()) else table(k, k)),
        np.array(lengths, dtype=np.int64),
        draw(st.none() | table(k)),
        draw(st.none() | table(k)),
        draw(st.none() | hnp.arrays(bool, (n, k), elements=st.booleans(), fill=st.just(True)))
        if forbidden
        else None,
    )


def random_chain(
    rng: np.random.Generator,
    lengths: Any,
    k: int,
    *,
    scale: float = 1.0,
    forbidden: float = 0.0,
    extreme: float = 0.0,
    per_edge: bool = False,
    ends: bool = True,
    masks: bool = False,
    dtype: Any = np.float64,
) -> Arrays:
    """Return normal scores; shares of them forbidden (-inf) and extreme (+-10,000)."""
    lengths = np.atleast_1d(np.asarray(lengths, dtype=np.int64))
    n = int(lengths.sum())
    edges = int(np.maximum(lengths - 1, 0).sum())

    def table(*shape: int) -> np.ndarray:
        a = rng.normal(size=shape) * scale
        if extreme:
            a = np.where(rng.random(shape) < extreme, rng.uniform(-10_000, 10_000, shape), a)
        if forbidden:
            a = np.where(rng.random(shape) < forbidden, -np.inf, a)
        return a.astype(dtype)

    return Arrays(
        table(n, k),
        table(edges, k, k) if per_edge else table(k, k),
        lengths,
        table(k) if ends else None,
        table(k) if ends else None,
        rng.random((n, k)) > 0.2 if masks else None,
    )


def peaked_chain(
    rng: np.random.Generator,
    lengths: Any,
    k: int,
    *,
    peak: float = 6.0,
    share: float = 0.7,
    scale: float = 1.0,
    dtype: Any = np.float64,
) -> Arrays:
    """Return a chain in which a share of the local factors is confident of one label."""
    model = random_chain(rng, lengths, k, scale=scale)
    confident = rng.random(len(model.unary)) < share
    model.unary[np.arange(len(model.unary)), rng.integers(0, k, len(model.unary))] += (
        peak * confident
    )
    return model.astype(dtype)


def bio_transitions(types: int, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Return (transition, start) of labels O, B-1, I-1, B-2, ...: I-t only after B-t or I-t."""
    k = 2 * types + 1
    transition = np.zeros((k, k), dtype=dtype)
    start = np.zeros(k, dtype=dtype)
    for t in range(types):
        begin, inside = 1 + 2 * t, 2 + 2 * t
        transition[:, inside] = -np.inf
        transition[[begin, inside], inside] = 0
        start[inside] = -np.inf
    return transition, start


def bio_chain(
    rng: np.random.Generator,
    lengths: Any,
    types: int,
    *,
    peak: float = 8.0,
    dtype: Any = np.float64,
) -> Arrays:
    """Return BIO-constrained sequences whose local factors are confident of labels at random."""
    transition, start = bio_transitions(types)
    lengths = np.atleast_1d(np.asarray(lengths, dtype=np.int64))
    n, k = int(lengths.sum()), len(start)
    unary = rng.normal(size=(n, k))
    unary[np.arange(n), rng.integers(0, k, n)] += rng.uniform(0, peak, n)
    return Arrays(unary, transition, lengths, start).astype(dtype)
