"""Results of chains of order 2 and of segments answer what other results of sequences do."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits

import valuesparse as vs
from valuesparse.inference import _longer as longer

LENGTHS = [4, 0, 1, 7, 2, 9]


def both(dtype: type = np.float64, k: int = 4) -> list[Any]:
    rng = np.random.default_rng(5)
    n = sum(LENGTHS)
    unary = (3 * rng.normal(size=(n, k))).astype(dtype)
    triples, pairs = rng.normal(size=(k, k, k)).astype(dtype), rng.normal(size=(k, k)).astype(dtype)
    return [
        vs.Chain(
            unary, triples, LENGTHS, order=2, first=pairs, start=pairs[0], end=pairs[1],
            allowed=np.arange(n * k).reshape(n, k) % 13 != 5,
        ),
        vs.SegmentChain(unary, pairs, LENGTHS, max_length=3),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_marginals(dtype: type) -> None:
    for model in both(dtype):
        r = vs.infer(model)
        labels, p = r.top(3)
        assert labels.dtype == np.int64
        assert p.dtype == dtype
        order = np.argsort(-r.marginals, axis=1, kind="stable")[:, :3]
        np.testing.assert_array_equal(labels, order)
        np.testing.assert_array_equal(p, np.take_along_axis(r.marginals, order, axis=1))
        np.testing.assert_array_equal(r.sparse().toarray(), r.marginals)
        best = r.marginals == r.marginals.max(axis=1, keepdims=True)
        some = np.where((r.marginals >= dtype(0.4)) | best, r.marginals, 0)
        np.testing.assert_array_equal(r.sparse(min=0.4).toarray(), some)
        assert r.unlisted.tolist() == [0.0] * sum(LENGTHS)
        with pytest.raises(ValueError, match="k=5: there are 4 labels"):
            r.top(5)
        with pytest.raises(ValueError, match="min must be a number in"):
            r.sparse(min=2.0)


def test_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas", reason="makes data frames of results")
    chain = vs.Chain(np.zeros((sum(LENGTHS), 4)), np.zeros((4, 4)), LENGTHS)
    index = vs.infer(chain).to_frame().index
    for model in both():
        r = vs.infer(model)
        frame = r.to_frame(labels=list("abcd"))
        pandas.testing.assert_index_equal(frame.index, index)
        assert list(frame.columns) == list("abcd")
        np.testing.assert_array_equal(frame.to_numpy(), r.marginals)
        with pytest.raises(ValueError, match="labels must have a name for each of 4 labels"):
            r.to_frame(labels=["a"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_some_pairs_of_neighbours_have_the_bits_of_all(dtype: type) -> None:
    r = vs.infer(both(dtype)[0])
    whole = r.pairwise()
    assert whole.shape == (18, 4, 4)
    assert whole.dtype == dtype
    for cut in (
        slice(None), slice(0, 0), slice(0, 1), slice(3, 10), slice(-4, None), slice(None, None, 3),
        slice(None, None, -1), slice(17, 2, -4), slice(9, 3),
    ):  # fmt: skip
        part = r.pairwise(edges=cut, threads=2)
        assert part.flags.c_contiguous
        np.testing.assert_array_equal(part, whole[cut])
    for block in (1, 2, 5, 18, 100):
        parts = list(r.iter_pairwise(block))
        assert [len(part) for part in parts[:-1]] == [block] * (len(parts) - 1)
        assert 0 < len(parts[-1]) <= block
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(np.concatenate(list(r.iter_pairwise())), whole)
    with pytest.raises(TypeError, match="edges must be a slice, got int"):
        r.pairwise(edges=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="block must be"):
        next(r.iter_pairwise(0))


def test_blocks_come_from_many_groups_of_sequences() -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 60, 100)
    model = vs.Chain(
        rng.normal(size=(lengths.sum(), 3)), rng.normal(size=(3, 3, 3)), lengths, order=2
    )
    r = vs.infer(model)
    parts = list(r.iter_pairwise())
    assert len(parts) > 2
    np.testing.assert_array_equal(np.concatenate(parts), r.pairwise())


def test_partial_sums_of_expected_counts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    k, n = 24, 16
    model = vs.Chain(
        rng.normal(size=(3 * n, k)), rng.normal(size=(k, k, k)), np.full(n, 3), order=2
    )
    r = vs.infer(model)
    whole = r.expectations()
    for numbers, most in ((3 * k**3, 3), (1, 1)):
        monkeypatch.setattr(longer, "_CHUNK_NUMBERS", numbers)
        tracemalloc.start()
        try:
            some = r.expectations(threads=3)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 8 * k**3 * (most + 1.5)
        np.testing.assert_allclose(some, whole, rtol=1e-13)
        assert_same_bits(some, r.expectations(threads=1))


@pytest.mark.parametrize("lengths", [[], [0, 0], [1, 1]])
def test_nothing_is_fine(lengths: list[int]) -> None:
    u = np.zeros((sum(lengths), 2))
    for model in (
        vs.Chain(u, np.zeros((2, 2, 2)), lengths, order=2),
        vs.SegmentChain(u, np.zeros((2, 2)), lengths, max_length=3),
    ):
        r = vs.infer(model)
        assert r.top(1)[0].shape == (len(u), 1)
        assert r.sparse().shape == (len(u), 2)
        if isinstance(model, vs.SecondOrderChain):
            assert r.pairwise().shape == r.pairwise(slice(1)).shape == (0, 2, 2)
            assert r.expectations().tolist() == np.zeros((2, 2, 2)).tolist()
            assert list(r.iter_pairwise()) == []


def test_what_segments_have_not_is_refused() -> None:
    r = vs.infer(both()[1])
    for name in ("pairwise", "iter_pairwise"):
        assert not hasattr(r, name)
        with pytest.raises(
            AttributeError, match=rf"SegmentResult has no {name}: .* ask segments\("
        ):
            getattr(r, name)


def test_graphs_have_bounds_elsewhere() -> None:
    r = vs.infer(vs.FactorGraph([2]))
    with pytest.raises(AttributeError, match=r"no attribute 'certify': .* valuesparse.bounds has"):
        r.certify()
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        r.nothing  # noqa: B018


def test_scores_of_segments_need_no_table_of_all() -> None:
    rng = np.random.default_rng(0)
    n, most, k = 2000, 100, 20
    chain = vs.SegmentChain(
        rng.normal(size=(n, k)), rng.normal(size=(k, k)), max_length=most,
        duration=rng.normal(size=(most, k)),
    )  # fmt: skip
    states = vs.decode(chain).states
    tracemalloc.start()
    try:
        chain.score(states)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * most * k / 10


def test_what_is_not_proved_is_refused() -> None:
    for model in both():
        r = vs.infer(model)
        for name in ("error", "lower", "upper", "radius", "slack", "log_z_lower", "log_z_upper",
                     "certify", "pairwise_bounds"):  # fmt: skip
            with pytest.raises(AttributeError, match=f"Result has no {name}: tol, work and"):
                getattr(r, name)
        with pytest.raises(AttributeError, match="Result' object has no attribute 'nothing'"):
            r.nothing  # noqa: B018
        for found in (pickle.loads(pickle.dumps(r)), copy.deepcopy(r)):
            np.testing.assert_array_equal(found.top(2)[0], r.top(2)[0])


@pytest.mark.parametrize("longest", [2**40, 2**62])
def test_segments_that_fit_nowhere(longest: int) -> None:
    chain = vs.SegmentChain(np.zeros((40, 3)), np.zeros((3, 3)), [30, 10], max_length=longest)
    words = rf"segments\(\) has shape \(40, {longest}, 3\): .*; max_length=30 is the same model"
    with pytest.raises(MemoryError, match=words):
        vs.infer(chain).segments()
    same = vs.SegmentChain(np.zeros((40, 3)), np.zeros((3, 3)), [30, 10], max_length=30)
    assert vs.infer(same).segments().shape == (40, 30, 3)
