"""Best configurations from the pairs that are listed: no label that is left out changes a bit."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from checks import require_same_best
from hypothesis import given
from strategies import examples

import valuesparse as vs

pytestmark = pytest.mark.simd

K = 97
LENGTHS = [9, 1, 0, 14]
N = sum(LENGTHS)
#: Labels whose rows list many, and that are likely.
BUSY = [3, 40, 41]


def ends_of(rng: np.random.Generator, kind: str, size: float) -> np.ndarray | None:
    """Return what rows or columns have: a few numbers, or any."""
    if kind == "none":
        return None
    if kind == "few":
        return size * rng.integers(-1, 2, K) / 3
    return size * rng.normal(size=K)


def table_of(rng: np.random.Generator, rows: str, columns: str, lift: float, size: float) -> Any:
    """Return a list whose scores are `lift` above its default, about; some rows list half."""
    listed = rng.random((K, K)) < 0.03
    listed[BUSY] |= rng.random((len(BUSY), K)) < 0.5
    at = np.nonzero(listed)
    own, other = (ends_of(rng, kind, size) for kind in (rows, columns))
    scores = lift + size * rng.normal(size=at[0].size)
    for share, side in ((own, at[0]), (other, at[1])):
        if share is not None:
            scores += share[side]
    scores[rng.random(scores.size) < 0.05] = -np.inf
    return sp.csr_array((scores, at), shape=(K, K)), own, other


def unary_of(rng: np.random.Generator, kind: str, size: float, own: np.ndarray | None) -> Any:
    """Return scores: any, all alike, or such that labels with their share of the row are tied."""
    if kind == "flat":
        return np.zeros((N, K))
    if kind == "tied" and own is not None:
        return -own + rng.integers(0, 2, (N, K)) * 0.25 * size
    x = 2 * size * rng.normal(size=(N, K))
    x[:, BUSY] += 5 * size
    x[rng.random((N, K)) < 0.1] = -np.inf
    return x


@pytest.mark.parametrize("tree", [False, True], ids=["chain", "tree"])
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["none", "few", "any"]),
    st.sampled_from(["none", "few", "any"]), st.sampled_from(["any", "flat", "tied"]),
    st.sampled_from([-3.0, 0.0, 3.0]), st.sampled_from([0.3, 1.0, 30.0]),
    st.sampled_from([0.5, 0.5, -np.inf]), st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
@examples(120)
def test_the_best_have_the_bits_of_the_table(
    tree: bool,
    seed: int,
    rows: str,
    columns: str,
    scores: str,
    lift: float,
    size: float,
    default: float,
    dtype: Any,
) -> None:
    """States, ties and scores; listed pairs below the default, so that others serve their ends."""
    rng = np.random.default_rng(seed)
    if default == -np.inf:
        rows = columns = "none"  # nothing is added to what is forbidden
    entries, own, other = table_of(rng, rows, columns, lift, size)
    unary = unary_of(rng, scores, size, own).astype(dtype)
    if own is not None:
        own = own.astype(dtype)
    if other is not None:
        other = other.astype(dtype)
    t = vs.SparseTransition(entries.astype(dtype), default, own, other)
    if tree:
        parent = [-1, *(int(rng.integers(max(0, i - 4), i)) for i in range(1, N))]
        one, whole = (vs.Tree(parent, unary, x) for x in (t, t.todense()))
    else:
        one, whole = (vs.Chain(unary, x, LENGTHS) for x in (t, t.todense()))
    if size <= 1.0:
        assert one.table is None
    require_same_best(one, whole, 1 if tree else 3)
