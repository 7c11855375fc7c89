"""Float32 models whose scores float32 is not good enough for are answered as float64 models are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import valuesparse as vs

pytestmark = pytest.mark.simd

Models = tuple[vs.Chain, vs.Chain] | tuple[vs.Tree, vs.Tree]
#: What float32 cannot hold, and what it can: deviations of scores.
FAR, NEAR = 300.0, 1.0
TINY = float(np.finfo(np.float32).tiny)


def far_and_near(
    rng: np.random.Generator, lengths: list[int], labels: int
) -> npt.NDArray[np.float32]:
    """Return scores of sequences, every second of which float32 can hold."""
    size = np.repeat(np.resize([FAR, NEAR], len(lengths)), lengths)
    return (rng.normal(size=(sum(lengths), labels)) * size[:, None]).astype(np.float32)


def chains(rng: np.random.Generator, labels: int, kind: str) -> Models:
    """Return a batch in float32, and the same scores in float64."""
    lengths = [7, 3, 0, 12, 1, 9] if kind != "long" else [6000, 5]
    unary = far_and_near(rng, lengths, labels)
    shape = (
        (sum(max(n - 1, 0) for n in lengths), labels, labels)
        if kind == "per edge"
        else (labels, labels)
    )
    table = (30.0 * rng.normal(size=shape)).astype(np.float32)
    table[rng.random(shape) < 0.1] = -np.inf
    table[..., 0] = 1.0
    ends = {}
    if kind == "ends":
        ends = {at: rng.normal(size=labels).astype(np.float32) for at in ("start", "end")}
        ends["allowed"] = rng.random(unary.shape) < 0.9
        ends["allowed"][:, 0] = True
    single = vs.Chain(unary, table, lengths=lengths, **ends)
    # Sums of float32 scores are rounded to float32.
    total = np.where(ends.get("allowed", True), unary, -np.inf).astype(np.float32)
    begin = np.cumsum([0, *lengths])
    for s, n in enumerate(lengths):
        if n and ends:
            total[begin[s]] += ends["start"]
            total[begin[s + 1] - 1] += ends["end"]
    return single, vs.Chain(total.astype(np.float64), table.astype(np.float64), lengths=lengths)


def trees(rng: np.random.Generator, labels: int, kind: str) -> Models:
    """Return two trees in float32, the second of which it can hold, and the same in float64."""
    n = 40
    parent = np.array([-1, *(rng.integers(max(0, v - 3), v) for v in range(1, n))])
    parent = np.concatenate([parent, np.where(parent < 0, -1, parent + n)])
    unary = far_and_near(rng, [n, n], labels)
    shape = {"shared": (labels, labels), "typed": (3, labels, labels)}.get(
        kind, (2 * n, labels, labels)
    )
    table = (30.0 * rng.normal(size=shape)).astype(np.float32)
    more = {"edge_type": rng.integers(0, 3, size=2 * n)} if kind == "typed" else {}
    if kind == "allowed":
        more["allowed"] = rng.random(unary.shape) < 0.9
        more["allowed"][:, 0] = True
    double = unary.astype(np.float64), table.astype(np.float64)
    return vs.Tree(parent, unary, table, **more), vs.Tree(parent, *double, **more)


KINDS: list[tuple[Callable[..., Models], str]] = [
    *((chains, kind) for kind in ("batch", "per edge", "ends", "long")),
    *((trees, kind) for kind in ("shared", "typed", "per edge", "allowed")),
]


def as_single(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return probabilities in float32, those below its normal range as zeros."""
    q = p.astype(np.float32)
    return np.where(q < TINY, np.float32(0.0), q)


@pytest.mark.parametrize("labels", [2, 5, 33])
@pytest.mark.parametrize(("make", "kind"), KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_answers_of_the_model_in_float64(
    make: Callable[..., Models], kind: str, labels: int, threads: int
) -> None:
    single, double = make(np.random.default_rng(labels), labels, kind)
    r, s = (vs.infer(m, threads=threads) for m in (single, double))
    far = single.offset[1] if isinstance(single, vs.Chain) else 40  # the first component
    assert r.stats["sequences_widened"] > 0
    np.testing.assert_array_equal(r.marginals[:far], as_single(s.marginals[:far]))
    np.testing.assert_allclose(r.marginals, s.marginals, atol=1e-5)
    np.testing.assert_allclose(r.log_z, s.log_z, rtol=1e-6)
    edges = slice(0, 5)  # of the first component
    np.testing.assert_array_equal(r.pairwise(edges), as_single(s.pairwise(edges)))
    np.testing.assert_allclose(r.expectations(), s.expectations(), atol=1e-3)
    np.testing.assert_allclose(r.entropy(), s.entropy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(
        vs.sample(single, 3, 1)[:, :far], vs.sample(double, 3, 1)[:, :far]
    )


@pytest.mark.parametrize("zeta", [0.6, 0.95])
@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_islands_of_the_model_in_float64(
    make: Callable[..., Models], kind: str, zeta: float
) -> None:
    single, double = make(np.random.default_rng(3), 33, kind)
    r, s = (vs.infer(m, zeta=zeta) for m in (single, double))
    far = single.offset[1] if isinstance(single, vs.Chain) else 40
    assert r.stats["sequences_widened"] > 0
    np.testing.assert_array_equal(r.islands[:far], s.islands[:far])
    np.testing.assert_array_equal(r.marginals[:far], as_single(s.marginals[:far]))


def test_bits_do_not_depend_on_how_much_is_copied_at_a_time() -> None:
    # 200 MB in float64: several parts.
    rng = np.random.default_rng(5)
    labels, lengths = 40, [3000] * 100
    unary = far_and_near(rng, lengths[:2] * 2, labels)
    unary = np.concatenate([unary] * 25)
    table = (9.0 * rng.normal(size=(labels, labels))).astype(np.float32)
    whole = vs.infer(vs.Chain(unary, table, lengths=lengths), threads=2)
    few = vs.infer(vs.Chain(unary[:12_000], table, lengths=lengths[:4]), threads=1)
    assert whole.stats["sequences_widened"] == 25 * few.stats["sequences_widened"] > 0
    assert np.tile(few.marginals, (25, 1)).tobytes() == whole.marginals.tobytes()
    assert np.tile(few.log_z, 25).tobytes() == whole.log_z.tobytes()


def test_what_is_forbidden_is_found_in_the_wide_part() -> None:
    rng = np.random.default_rng(6)
    unary = far_and_near(rng, [5, 5, 5, 5], 3)
    unary[12] = -np.inf  # of the third sequence, whose other scores are far apart
    with pytest.raises(vs.InfeasibleError, match="sequence 2"):
        vs.infer(vs.Chain(unary, np.zeros((3, 3), np.float32), lengths=[5] * 4))
