"""Answers that list marginals: the same as those of the whole array, piece by piece or not."""

from __future__ import annotations

import functools
import pickle
import sys
import tracemalloc
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from checks import assert_same_bits, chain, refused
from children import SANITIZERS, run
from hypothesis import given
from strategies import chains, examples, random_chain

import valuesparse as vs
from valuesparse import _buffers
from valuesparse.inference import _forest
from valuesparse.results import _listed


def listed_by_hand(p: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which entries are listed, and the largest of the others."""
    mask = p >= least
    mask[np.arange(p.shape[0]), p.argmax(axis=1)] = True
    return mask, np.where(mask, 0, p).max(axis=1, initial=0)


def check(r: Any, dense: Any, keep: float, *, bits: bool = True) -> None:
    p = dense.marginals
    equal = np.array_equal if bits else functools.partial(np.allclose, rtol=1e-12, atol=0)
    mask, rest = listed_by_hand(p, keep)
    found = r.sparse()
    assert found.shape == p.shape
    assert found.dtype == p.dtype
    assert found.has_canonical_format
    assert np.array_equal(np.diff(found.indptr), mask.sum(axis=1))
    assert np.array_equal(found.indices, np.nonzero(mask)[1])
    assert equal(found.data, p[mask])
    assert equal(r.unlisted, rest)
    assert r.unlisted.dtype == np.float64
    assert equal(r.log_z, dense.log_z)
    assert np.array_equal(r.islands, dense.islands)
    assert (r.method, r.reason, r.stats) == (dense.method, dense.reason, dense.stats)
    assert equal(r.marginals, np.where(mask, p, 0))


def answer_or_error(ask: Any) -> Any:
    try:
        return ask()
    except vs.InfeasibleError as error:
        return error


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forest, "_LISTED_BYTES", 300)
    monkeypatch.setattr(_forest, "_LISTED_SIZE", 1)


@given(chains(), st.sampled_from([0.0, 1e-4, 0.2, 0.5, 1.0]), st.sampled_from([1.0, 0.8]))
@examples(60)
def test_lists_what_the_array_holds(model: Any, keep: float, zeta: float) -> None:
    kept = functools.partial(vs.infer, chain(model), zeta=zeta, keep=keep)
    dense: Any = answer_or_error(lambda: vs.infer(chain(model), zeta=zeta))
    if isinstance(dense, vs.InfeasibleError):
        assert str(answer_or_error(kept)) == str(dense)
    else:
        check(kept(), dense, keep)


@pytest.mark.simd
@pytest.mark.parametrize("zeta", [1.0, 0.8])
@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_chains_in_pieces(
    rng: np.random.Generator, small_pieces: None, dtype: type, zeta: float, per_edge: bool,
    threads: int,
) -> None:  # fmt: skip
    model = chain(random_chain(rng, [5, 0, 1, 30, 2, 2, 0, 9, 1], 4, dtype=dtype,
                               per_edge=per_edge, scale=3.0))  # fmt: skip
    check(vs.infer(model, keep=0.05, zeta=zeta, threads=threads), vs.infer(model, zeta=zeta), 0.05)


@pytest.mark.parametrize("kind", ["shared", "typed", "per edge"])
@pytest.mark.parametrize("zeta", [1.0, 0.8])
def test_forests_in_pieces(
    rng: np.random.Generator, small_pieces: None, dtype: type, kind: str, zeta: float
) -> None:
    n, k = 60, 3
    parent = np.array([-1 if i % 7 == 0 else rng.integers(i) for i in range(n)])
    order = rng.permutation(n)  # so that nodes of a tree are apart, children before parents
    number = np.argsort(order)
    parent = np.where(parent[order] < 0, -1, number[parent[order]])
    types = rng.integers(0, 2, n) if kind == "typed" else None
    shape = {"shared": (k, k), "typed": (2, k, k), "per edge": (n, k, k)}[kind]
    tree = vs.Tree(
        parent,
        rng.normal(size=(n, k)).astype(dtype),
        3 * rng.normal(size=shape).astype(dtype),
        edge_type=types,
        allowed=rng.random((n, k)) < 0.9,
    )
    r, dense = vs.infer(tree, keep=0.05, zeta=zeta), vs.infer(tree, zeta=zeta)
    # Whether tables are packed depends on how many nodes there are, and on the SIMD level.
    check(r, dense, 0.05, bits=kind == "per edge" or dtype != np.float64)


def test_the_infeasible_component_has_its_number(small_pieces: None) -> None:
    allowed = np.ones((90, 3), dtype=bool)
    allowed[77] = False
    model = vs.Chain(np.zeros((90, 3)), np.zeros((3, 3)), [10] * 9, allowed=allowed)
    with pytest.raises(vs.InfeasibleError) as info:
        vs.infer(model, keep=0.1)
    assert (info.value.sequence, info.value.position) == (7, 7)
    parent = np.arange(-1, 89)
    parent[::10] = -1
    tree = vs.Tree(parent, np.zeros((90, 3)), np.zeros((3, 3)), allowed=allowed)
    with pytest.raises(vs.InfeasibleError) as info:
        vs.infer(tree, keep=0.1)
    with pytest.raises(vs.InfeasibleError) as whole:
        vs.infer(tree)
    assert str(info.value) == str(whole.value)


@given(chains(forbidden=False), st.integers(1, 4), st.sampled_from([1e-6, 0.1, 0.4, 1.0]))
@examples(60)
def test_sparse_and_top_of_arrays(model: Any, k: int, least: float) -> None:
    r = vs.infer(chain(model))
    p = r.marginals
    mask, _ = listed_by_hand(p, least)
    found = r.sparse(min=least)
    assert np.array_equal(found.toarray(), np.where(mask, p, 0))
    assert found.nnz == mask.sum()
    assert r.sparse().nnz == np.count_nonzero(p)
    assert (r.unlisted == 0).all()
    k = min(k, p.shape[1])
    labels, values = r.top(k)
    order = np.argsort(-p, axis=1, kind="stable")[:, :k]
    assert labels.dtype == np.int64
    assert np.array_equal(labels, order)
    assert np.array_equal(values, np.take_along_axis(p, order, axis=1))
    kept = vs.infer(chain(model), keep=0.05)
    if least >= 0.05:
        again = kept.sparse(min=least)
        assert np.array_equal(again.toarray(), found.toarray())
        assert again.nnz == found.nnz
    labels, values = kept.top(k)
    seen = np.take_along_axis(kept.marginals, order, axis=1) > 0
    assert np.array_equal(labels, np.where(seen, order, -1))
    assert np.array_equal(values, np.where(seen, np.take_along_axis(p, order, axis=1), 0))


@pytest.mark.parametrize("block", [1, 13, 1 << 17])
@pytest.mark.parametrize("keep", [0.0, 0.1, 1.0])
def test_top_of_a_list_in_blocks(
    rng: np.random.Generator, dtype: type, keep: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_listed, "_BLOCK", block)
    unary = rng.integers(-2, 3, (40, 6)).astype(dtype)  # with ties
    unary[7] = [0.0, *[-np.inf] * 5]
    r = vs.infer(vs.Chain(unary, np.zeros((6, 6), dtype)), keep=keep)
    found = r.sparse()
    row = np.repeat(np.arange(40), np.diff(found.indptr))
    order = np.lexsort((found.indices, -found.data, row))
    place = np.arange(row.size) - found.indptr[row]
    for k in (1, 4, 6):
        labels, values = np.full((40, k), -1), np.zeros((40, k), dtype)
        some = place < k
        labels[row[some], place[some]] = found.indices[order[some]]
        values[row[some], place[some]] = found.data[order[some]]
        for threads in (1, 3):
            top = r.top(k, threads=threads)
            assert_same_bits(top[0], labels)
            assert_same_bits(top[1], values)


def test_ties_go_to_the_lower_label() -> None:
    r = vs.infer(vs.Chain(np.zeros((2, 5)), np.zeros((5, 5))))
    assert r.top(3)[0].tolist() == [[0, 1, 2]] * 2
    assert r.sparse(min=0.5).indices.tolist() == [0, 0]
    kept = vs.infer(vs.Chain(np.zeros((2, 5)), np.zeros((5, 5))), keep=0.5)
    assert kept.sparse().indices.tolist() == [0, 0]
    assert kept.unlisted.tolist() == pytest.approx([0.2, 0.2])
    assert kept.sparse(min=0.9).indices.tolist() == [0, 0]


def test_other_questions_have_their_answers(rng: np.random.Generator) -> None:
    model = chain(random_chain(rng, [5, 9, 1], 4))
    for zeta in (1.0, 0.6):
        dense, r = vs.infer(model, zeta=zeta), vs.infer(model, zeta=zeta, keep=0.2)
        assert np.array_equal(r.pairwise(), dense.pairwise())
        assert np.array_equal(r.expectations(), dense.expectations())
        np.testing.assert_allclose(r.entropy(), dense.entropy(), rtol=1e-12)
        assert repr(r) == repr(dense)


def test_pickles_keep_the_list_alone(rng: np.random.Generator) -> None:
    r = vs.infer(chain(random_chain(rng, [500] * 4, 20, scale=5.0)), keep=0.2)
    small = len(pickle.dumps(r)) - len(pickle.dumps(r._model))
    p = r.marginals
    assert len(pickle.dumps(r)) - len(pickle.dumps(r._model)) == small < p.nbytes // 2
    again = pickle.loads(pickle.dumps(r))
    assert np.array_equal(again.marginals, p)
    assert np.array_equal(again.unlisted, r.unlisted)
    assert (again.sparse() != r.sparse()).nnz == 0
    for array in (r.marginals, r.unlisted, again.marginals):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_no_array_of_all_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forest, "_LISTED_BYTES", 1 << 20)
    monkeypatch.setattr(_forest, "_LISTED_SIZE", 1)
    rng = np.random.default_rng(1)
    model = vs.Chain(20 * rng.normal(size=(20_000, 100)), np.zeros((100, 100)), [100] * 200)
    tracemalloc.start()
    try:
        r = vs.infer(model, keep=1e-2)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20  # of 16 MB
    finally:
        tracemalloc.stop()
    assert r.sparse().nnz < 40_000


def test_pieces_of_any_size_share_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece that is larger than all before it is made where these were."""
    monkeypatch.setattr(_forest, "_LISTED_BYTES", 1)
    monkeypatch.setattr(_forest, "_LISTED_SIZE", 20)
    made: list[int] = []

    def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if len(shape) == 2:  # no lists
            made.append(shape[0])
        return np.empty(shape, dtype)

    monkeypatch.setattr(_buffers, "empty", empty)
    rng = np.random.default_rng(1)
    lengths = [11, 12, 15, 16, 19, 20, 3]  # pieces of 11, 12, 15, 16, 19, 20 and 3
    vs.infer(vs.Chain(rng.normal(size=(96, 4)), np.zeros((4, 4)), lengths), keep=0.1, threads=1)
    assert [rows for rows in made if rows] == [20]


def test_progress_and_deadlines_count_the_whole(small_pieces: None) -> None:
    model = vs.Chain(np.zeros((90, 3)), np.zeros((3, 3)), [10] * 9)
    seen: list[tuple[int, int]] = []
    vs.infer(model, keep=0.1, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (90, 90)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    with pytest.raises(vs.DeadlineError):
        vs.infer(model, keep=0.1, deadline=1e-9)


def test_bad_arguments_are_named() -> None:
    model = vs.Chain(np.zeros((3, 4)), np.zeros((4, 4)))
    for bad in (-0.1, 1.1, float("nan"), "x", True):
        with refused(ValueError, "keep"):
            vs.infer(model, keep=bad)
    with refused(ValueError, "keep", "Chain", "Tree"):
        vs.infer(vs.FactorGraph([2]), keep=0.1)
    r = vs.infer(model, keep=0.1)
    with refused(ValueError, "min", "keep", "0.1"):
        r.sparse(min=0.01)
    with refused(ValueError, "min"):
        r.sparse(min=2)
    for k in (0, 5):
        with refused(ValueError, "k"):
            r.top(k)


@pytest.mark.parametrize("n", [0, 1])
def test_empty_models(n: int) -> None:
    for zeta in (1.0, 0.9):
        for model in (
            vs.Chain(np.zeros((n, 2)), np.zeros((2, 2)), [n, 0]),
            vs.Chain(np.zeros((n, 2)), np.zeros((2, 2)), [0] * (1 - n) + [n] * n),
            vs.Tree([-1] * n, np.zeros((n, 2)), np.zeros((2, 2))),
        ):
            check(vs.infer(model, zeta=zeta, keep=0.1), vs.infer(model, zeta=zeta), 0.1)
            assert vs.infer(model).top(2)[0].shape == (n, 2)


@pytest.mark.parametrize("asked", [{}, {"tol": 0.1}, {"zeta": 0.9}])
def test_entropy_is_not_made_of_a_list(asked: dict[str, float]) -> None:
    """Marginals that were read have zeros where nothing is listed."""
    rng = np.random.default_rng(4)
    model = vs.Chain(rng.normal(size=(7, 4)), rng.normal(size=(4, 4)), lengths=[1, 4, 2])
    expected = vs.infer(model, zeta=asked.get("zeta", 1.0)).entropy()
    r = vs.infer(model, keep=0.5, **asked)
    np.testing.assert_allclose(r.entropy(), expected, rtol=1e-9)
    assert (r.marginals == 0).any()
    np.testing.assert_allclose(r.entropy(), expected, rtol=1e-9)


def test_a_frame_has_a_name_for_each_label() -> None:
    r = vs.infer(vs.Chain(np.zeros((2, 3)), np.zeros((3, 3))))
    assert list(r.to_frame(labels=["a", "b", "c"])) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="labels must have a name for each of 3 labels, got 1"):
        r.to_frame(labels=["a"])


@pytest.mark.simd
@pytest.mark.parametrize(("dtype", "n"), [(np.float64, 45), (np.float32, 90)])
def test_messages_that_wait_in_rows_of_marginals(dtype: type, n: int) -> None:
    """Those of 16 sequences are too many to be kept beside each other: bits are those of one."""
    rng, k = np.random.default_rng(3), 400
    lengths = np.array([n - i % 3 for i in range(16)])
    unary = rng.normal(size=(lengths.sum(), k)).astype(dtype)
    table = rng.normal(size=(k, k)).astype(dtype)
    unary[5, 7] = table[3, 4] = -np.inf
    r = vs.infer(vs.Chain(unary, table, lengths), threads=1)
    ends = np.cumsum(lengths)
    for s in (0, 7, 15):
        rows = slice(ends[s] - lengths[s], ends[s])
        alone = vs.infer(vs.Chain(unary[rows], table))
        assert_same_bits(alone.marginals, r.marginals[rows])
        assert_same_bits(alone.log_z, r.log_z[s : s + 1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of memory")
@pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers keep memory")
def test_memory_is_the_table_twice_and_one_piece() -> None:
    """1,449 labels: 32 MB, and 23 MB for 2,048 positions."""
    code = """
import numpy as np, scipy.sparse, valuesparse as vs
def held(what):
    with open("/proc/self/status") as f:
        return next(int(l.split()[1]) for l in f if l.startswith(what)) / 1024
rng = np.random.default_rng(0)
k, lengths = 1449, [22] * 96
chain = vs.Chain(rng.normal(size=(sum(lengths), k)), rng.normal(size=(k, k)), lengths)
vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))), keep=0.1, threads=1).sparse()
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")
before = held("VmRSS")
vs.infer(chain, keep=1e-2, threads=1)
print(held("VmHWM") - before)
"""
    assert float(run(code, timeout=120).stdout) < 72
