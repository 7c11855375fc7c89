"""Plans made by hand, and random ones."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from valuesparse.schedule import Plan


def plan_of(costs, edges):
    """Return a plan of anonymous tasks with the given dependencies."""
    n = len(costs)
    before, after = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    counts = np.bincount(before, minlength=n)
    return Plan(
        kind=np.zeros(n, dtype=np.int8),
        item=np.stack([np.arange(n), np.arange(n) + 1], axis=1),
        cost=np.asarray(costs, dtype=float),
        waits=np.bincount(after, minlength=n),
        succ_ptr=np.concatenate([[0], np.cumsum(counts)]),
        succ=after[np.lexsort((after, before))],
    )


def edges_of(plan):
    """Return the dependencies of a plan as (before, after) pairs."""
    source = np.repeat(np.arange(plan.n_tasks), np.diff(plan.succ_ptr))
    return list(zip(source.tolist(), plan.succ.tolist(), strict=True))


@st.composite
def plans(draw, max_tasks=25):
    """Random acyclic plans; costs are small integers, so sums are exact, and may be 0."""
    n = draw(st.integers(0, max_tasks))
    costs = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3 * n)) if pairs else []
    return plan_of(costs, edges)
