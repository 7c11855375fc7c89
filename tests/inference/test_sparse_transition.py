"""Tables with a default: the answers are those of every pair read, where terms cancel, too."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from checks import refused
from hypothesis import given
from scipy.special import logsumexp
from strategies import examples

import valuesparse as vs
from valuesparse.inference import _forest

K = 100  # enough for listed pairs to pay


def table(
    rng: np.random.Generator, k: int, default: float, share: float, *, forbidden: float = 0.0,
    scale: float = 2.0,
) -> sp.csr_array:  # fmt: skip
    """Return scores of a share of the pairs."""
    at = np.nonzero(rng.random((k, k)) < share)
    scores = scale * rng.normal(size=at[0].size) + (default if np.isfinite(default) else 0.0)
    scores[rng.random(scores.size) < forbidden] = -np.inf
    return sp.csr_array((scores, at), shape=(k, k))


def logs(unary: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, float]:
    """Return marginals and log Z of one sequence, in logarithms."""
    n = unary.shape[0]
    with np.errstate(all="ignore"):
        f, b = [unary[0]], [np.zeros(unary.shape[1])]
        for i in range(1, n):
            f.append(unary[i] + logsumexp(f[-1][:, None] + t, axis=0))
            b.append(logsumexp(t + (unary[n - i] + b[-1])[None, :], axis=1))
        log_z = float(logsumexp(f[-1]))
        return np.exp(np.array(f) + np.array(b[::-1]) - log_z), log_z


def as_tree(chain: vs.Chain) -> vs.Tree:
    """Return one sequence as a path."""
    t = chain.transition if chain.sparse_transition is None else chain.sparse_transition
    return vs.Tree(np.arange(-1, chain.n_positions - 1), chain.unary, t, allowed=chain.allowed)


def check(unary: np.ndarray, t: Any, dense: np.ndarray, rtol: float = 1e-11) -> None:
    """Check the answers of a sequence against those in logarithms, small marginals too."""
    p, log_z = logs(unary.astype(float), dense.astype(float))
    for model in (vs.Chain(unary, t), as_tree(vs.Chain(unary, t))):
        r = vs.infer(model)
        assert "default plus sparse" in r.reason
        assert r.stats["sequences_sparse"] == 1
        np.testing.assert_allclose(r.marginals, p, rtol=rtol, atol=1e-300)
        np.testing.assert_allclose(r.log_z, log_z, rtol=rtol)
        assert np.array_equal(r.marginals == 0, p == 0)


@pytest.mark.simd
@pytest.mark.parametrize("default", [0.0, -3.5, 7.0, -np.inf])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("k", [96, K, 161])
def test_every_pair_read_or_not(default: float, forbidden: float, k: int) -> None:
    rng = np.random.default_rng(k)
    entries = table(rng, k, default, 0.04, forbidden=forbidden)
    if default == -np.inf:  # so that there is a way
        entries = sp.csr_array(entries + sp.eye_array(k))
    t = vs.SparseTransition(entries, default)
    dense = t.todense()
    unary = 3 * rng.normal(size=(30, k))
    check(unary, t, dense)
    check(unary, dense, dense)  # the default is found


@pytest.mark.simd
def test_a_sum_of_rows_and_columns() -> None:
    rng = np.random.default_rng(2)
    rows, columns = rng.normal(size=K), 2 * rng.normal(size=K)
    t = vs.SparseTransition(table(rng, K, -1.0, 0.05, forbidden=0.2), -1.0, rows, columns)
    check(3 * rng.normal(size=(30, K)), t, t.todense())


@pytest.mark.simd
@pytest.mark.parametrize("worth", [-40.0, -np.inf])
def test_what_lies_below_the_default_is_not_lost(worth: float) -> None:
    """The trap of a difference: all mass goes through pairs far below the default."""
    rng = np.random.default_rng(3)
    entries = sp.csr_array((np.full(K, worth), (np.arange(K), np.full(K, 7))), shape=(K, K))
    t = vs.SparseTransition(entries, 0.0)
    unary = rng.normal(size=(12, K))
    unary[::2, 7] += 40.0
    check(unary, t, t.todense())
    one = sp.csr_array((np.full(K - 1, worth), (np.full(K - 1, 3), np.arange(1, K))), shape=(K, K))
    t = vs.SparseTransition(one, 0.0)
    unary = rng.normal(size=(12, K))
    unary[::2, 3] += 60.0
    check(unary, t, t.todense())


@pytest.mark.simd
def test_float32() -> None:
    rng = np.random.default_rng(4)
    unary = rng.normal(size=(50, K)).astype(np.float32)
    entries = table(rng, K, 0.5, 0.05).astype(np.float32)
    t = vs.SparseTransition(entries, 0.5)
    assert t.dtype == np.float32
    chain = vs.Chain(unary, t)
    assert chain.dtype == np.float32
    r = vs.infer(chain)
    assert "default plus sparse" in r.reason
    p, log_z = logs(unary.astype(float), t.todense().astype(float))
    np.testing.assert_allclose(r.marginals, p, atol=1e-5)
    np.testing.assert_allclose(r.log_z, log_z, rtol=1e-6)


@pytest.mark.simd
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_show_neither_threads_nor_neighbours(dtype: type) -> None:
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 12, 45)
    unary = rng.normal(size=(lengths.sum(), K)).astype(dtype)
    dense = vs.SparseTransition(table(rng, K, -2.0, 0.05, forbidden=0.1).astype(dtype), -2.0)
    r = vs.infer(vs.Chain(unary, dense, lengths), threads=1)
    for threads in (2, 3, 8):
        other = vs.infer(vs.Chain(unary, dense, lengths), threads=threads)
        assert np.array_equal(other.marginals, r.marginals)
        assert np.array_equal(other.log_z, r.log_z)
    at = np.concatenate([[0], np.cumsum(lengths)])
    for s in np.flatnonzero(lengths):
        rows = slice(at[s], at[s + 1])
        alone = vs.infer(vs.Chain(unary[rows], dense))
        assert np.array_equal(alone.marginals, r.marginals[rows])
        assert alone.log_z[0] == r.log_z[s]
    kept = vs.infer(vs.Chain(unary, dense, lengths), keep=0.01)
    assert np.array_equal(kept.top(1)[1][:, 0], r.marginals.max(axis=1))


def test_other_questions(rng: np.random.Generator) -> None:
    lengths = [9, 0, 14, 1]
    t = vs.SparseTransition(table(rng, K, -1.0, 0.05), -1.0)
    unary = 2 * rng.normal(size=(sum(lengths), K))
    chain = vs.Chain(unary, t, lengths)
    r = vs.infer(chain)
    dense = t.todense()
    pairs = r.pairwise(edges=slice(0, 3))
    np.testing.assert_allclose(pairs.sum(axis=2), r.marginals[:3], rtol=1e-9)
    np.testing.assert_allclose(r.expectations(), r.pairwise().sum(axis=0), rtol=1e-9, atol=1e-14)
    assert (r.entropy() >= 0).all()
    d = vs.decode(chain)
    score = unary[np.arange(24), d.states].sum()
    edges = [i for i in range(23) if i != 8 and i != 22]
    score += dense[d.states[edges], d.states[np.array(edges) + 1]].sum()
    assert d.score.sum() == pytest.approx(score)
    np.testing.assert_allclose(vs.log_prob(chain, d.states), d.score - r.log_z, rtol=1e-9)
    held = chain.conditioned(np.where(np.arange(24) % 3 == 0, d.states, -1))
    assert held.sparse_transition is t
    assert "default plus sparse" in vs.infer(held).reason
    islands = vs.infer(chain, zeta=0.5)
    assert islands.stats["sequences_sparse"] == chain.n_sequences
    assert islands.stats["sequences_without_islands"] == chain.n_sequences
    assert "islands would gain nothing, and all is exact" in islands.reason
    assert islands.method == "exact"
    assert islands.marginals.tobytes() == r.marginals.tobytes()
    for again in (pickle.loads(pickle.dumps(chain)), copy.deepcopy(chain)):
        assert again.sparse_transition.nnz == t.nnz
        assert np.array_equal(vs.infer(again).marginals, r.marginals)


@pytest.mark.simd
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_expectations_of_the_pairs_listed(dtype: type, scale: float) -> None:
    """With unary scores of several hundred sequences are done in logarithms."""
    rng = np.random.default_rng(6)
    t = vs.SparseTransition(table(rng, K, -1.0, 0.05, forbidden=0.1).astype(dtype), -1.0)
    lengths = [9, 0, 14, 1, 30]
    unary = scale * rng.normal(size=(sum(lengths), K)).astype(dtype)
    for model in (vs.Chain(unary, t, lengths), as_tree(vs.Chain(unary, t))):
        r = vs.infer(model)
        found, whole = r.expectations(sparse=True), r.expectations()
        assert isinstance(found, sp.csr_array)
        assert found.shape == (K, K)
        assert found.nnz == t.nnz
        rows, columns = t.entries.tocoo().coords
        expected = whole[rows, columns]
        tolerance = {"rtol": 1e-9} if dtype == np.float64 else {"atol": 1e-4}
        np.testing.assert_allclose(found.data, expected, **tolerance)
        assert np.array_equal(r.expectations(sparse=True, threads=3).data, found.data)
    few = vs.SparseTransition(sp.csr_array([[0.0, 2.0, 0.0], [1.0, 0.0, -np.inf], [0.0] * 3]))
    for model in (vs.Chain(np.zeros((4, 3)), few), as_tree(vs.Chain(np.zeros((4, 3)), few))):
        r = vs.infer(model)  # with a few labels all pairs are read
        found = r.expectations(sparse=True)
        assert found.nnz == few.nnz == 3
        at = few.entries.tocoo().coords
        assert np.array_equal(found.tocoo().coords, at)
        assert np.array_equal(found.data, r.expectations()[at])
    plain = vs.infer(vs.Chain(np.zeros((4, 3)), rng.normal(size=(3, 3))))
    np.testing.assert_array_equal(plain.expectations(sparse=True).toarray(), plain.expectations())


def test_tables_that_would_not_gain_are_read_whole(rng: np.random.Generator) -> None:
    for t in (
        rng.normal(size=(K, K)),
        np.where(rng.random((K, K)) < 0.2, 1.0, 0.0),  # too many are listed
        np.zeros((40, 40)),  # too few labels
        vs.SparseTransition(table(rng, K, 0.0, 0.02, scale=400.0), 0.0),  # exp() needs floors
    ):
        k = t.n_labels if isinstance(t, vs.SparseTransition) else t.shape[0]
        r = vs.infer(vs.Chain(np.zeros((4, k)), t))
        assert "default" not in r.reason
        assert ("; all pairs are read" in r.reason) == isinstance(t, vs.SparseTransition)
        assert r.stats["sequences_sparse"] == 0
        assert r.stats["transition_entries"] == k * k


def test_a_bare_sparse_array_forbids_what_it_does_not_store(rng: np.random.Generator) -> None:
    entries = sp.csr_array(table(rng, 5, 0.0, 0.4) + sp.eye_array(5))
    dense = np.full((5, 5), -np.inf)
    coo = entries.tocoo()
    dense[coo.coords] = coo.data
    unary = rng.normal(size=(6, 5))
    for bare in (entries, sp.coo_matrix(entries)):
        for model in (vs.Chain(unary, bare), vs.Tree(np.arange(-1, 5), unary, bare)):
            r = vs.infer(model)
            assert "not stored are forbidden" in r.reason
            exact = vs.infer(vs.Chain(unary, dense))
            np.testing.assert_allclose(r.marginals, exact.marginals, rtol=1e-12)
            assert np.array_equal(vs.decode(model).states, vs.decode(vs.Chain(unary, dense)).states)


def test_infeasible_ones_are_found() -> None:
    t = vs.SparseTransition(sp.csr_array((K, K)), -np.inf)
    with pytest.raises(vs.InfeasibleError) as info:
        vs.infer(vs.Chain(np.zeros((5, K)), t, [1, 4]))
    assert (info.value.sequence, info.value.position) == (1, 1)


@st.composite
def sparse_tables(draw: st.DrawFn) -> vs.SparseTransition:
    k = draw(st.integers(1, 6))
    score = st.sampled_from([0.0, -0.0, 1.5, -2.0, 800.0, -1e4, -np.inf])
    pairs = draw(st.dictionaries(st.tuples(*[st.integers(0, k - 1)] * 2), score))
    finite = st.floats(-50, 50)
    default = draw(finite | st.just(-np.inf))
    vectors = st.none() | st.lists(finite, min_size=k, max_size=k)
    rows, columns = (None, None) if default == -np.inf else (draw(vectors), draw(vectors))
    at = np.array(list(pairs), dtype=int).reshape(-1, 2).T
    entries = sp.coo_array((list(pairs.values()), (at[0], at[1])), shape=(k, k))
    return vs.SparseTransition(entries, default, rows, columns)


@given(sparse_tables())
@examples(100)
def test_dense_and_back(t: vs.SparseTransition) -> None:
    k, dense = t.n_labels, t.todense()
    stored = t.entries.tocoo()
    triples = zip(stored.row, stored.col, stored.data, strict=True)
    seen = {(int(row), int(column)): x for row, column, x in triples}
    for row in range(k):
        for column in range(k):
            value = t.default
            value += 0 if t.rows is None else t.rows[row]
            value += 0 if t.columns is None else t.columns[column]
            assert dense[row, column] == seen.get((row, column), value)
    again = vs.SparseTransition.of(dense)
    assert np.array_equal(again.todense(), dense)
    assert np.sum(dense != again.default) == again.nnz
    other = pickle.loads(pickle.dumps(t))
    assert np.array_equal(other.todense(), dense)
    assert other.nnz == t.nnz == len(seen)
    small = vs.infer(vs.Chain(np.zeros((3, k)), t)) if np.isfinite(dense).all() else None
    if small is not None:
        assert np.array_equal(
            small.marginals, vs.infer(vs.Chain(np.zeros((3, k)), dense)).marginals
        )


def test_bad_arguments_are_named() -> None:
    eye = sp.eye_array(3)
    with refused(TypeError, "entries"):
        vs.SparseTransition(np.eye(3))
    with refused(ValueError, "entries"):
        vs.SparseTransition(sp.csr_array((2, 3)))
    twice = sp.coo_array(([1.0, 2.0], ([1, 1], [2, 2])), shape=(3, 3))
    with refused(ValueError, "entries", "1", "2"):
        vs.SparseTransition(twice)
    for bad in (np.nan, np.inf, 1e300):
        with refused(ValueError, "entries"):
            vs.SparseTransition(sp.coo_array(([bad], ([1], [2])), shape=(3, 3)))
        with refused(ValueError, "default"):
            vs.SparseTransition(eye, bad)
    with refused(ValueError, "rows"):
        vs.SparseTransition(eye, rows=[0.0, 1.0])
    with refused(ValueError, "columns"):
        vs.SparseTransition(eye, columns=[0.0, -np.inf, 0.0])
    with refused(ValueError, "rows", "columns", "default"):
        vs.SparseTransition(eye, -np.inf, rows=[0.0] * 3)
    with refused(ValueError, "transition"):
        vs.Chain(np.zeros((2, 4)), vs.SparseTransition(eye))
    t = vs.SparseTransition(eye)
    with pytest.raises(AttributeError):
        t.default = 1.0  # type: ignore[misc]


def test_a_price_counts_what_float32_loses_of_rows_and_columns() -> None:
    """A default, a row and a column are added in float32 where all pairs are read."""
    rows, columns = np.float32([10000.0]), np.float32([4291.7417])
    table = vs.SparseTransition(sp.csr_array((1, 1), dtype=np.float32), -2.0, rows, columns)
    model = vs.Chain(np.zeros((13, 1), dtype=np.float32), table)
    r = vs.infer(model, work=0)
    exact = 12 * (float(rows[0]) + float(columns[0]) - 2.0)
    assert r.log_z_lower[0] <= exact <= r.log_z_upper[0]


def test_errors_name_the_pair_and_the_default() -> None:
    with pytest.raises(ValueError, match=r"^entries\[0, 1\] is \+inf"):
        vs.SparseTransition(sp.csr_array(np.array([[0, np.inf], [1, 0]])))
    with pytest.raises(ValueError, match=r"^default is NaN"):
        vs.SparseTransition(sp.csr_array((2, 2)), np.nan)
    with pytest.raises(ValueError, match="default must be a number"):
        vs.SparseTransition(sp.csr_array((2, 2)), np.zeros(3))


@pytest.mark.parametrize(("kind", "most"), [(np.float64, 1e290), (np.float32, 1e28)])
def test_sums_that_are_too_large_are_refused_where_they_are_given(kind: type, most: float) -> None:
    def table(default: float, rows: object = None, columns: object = None) -> vs.SparseTransition:
        given = (None if x is None else np.array(x, kind) for x in (rows, columns))
        return vs.SparseTransition(sp.csr_array((2, 2), dtype=kind), default, *given)

    half, near = most / 2, most * 0.9
    for sign in (1, -1):
        with pytest.raises(ValueError, match=r"^default \+ rows\[1\] \+ columns\[0\] is -?1\.8e"):
            table(0.0, [0.0, sign * near], [sign * near, 0.0])
        with pytest.raises(ValueError, match=r"^default \+ columns\[1\] is -?1\.4e"):
            table(sign * half, None, [0.0, sign * near])
        with pytest.raises(ValueError, match=r"^default \+ rows\[0\] is -?1\.4e"):
            table(sign * half, [sign * near, 0.0])
        # What cancels is fine.
        chain = vs.Chain(np.zeros((2, 2), kind), table(-sign * near, [sign * near] * 2, [0.0] * 2))
        assert np.allclose(vs.infer(chain).marginals, 0.5)


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("ends", ["both", "rows", "columns"])
def test_entropy_makes_no_table_of_a_default_with_rows_and_columns(
    shape: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables have the rows and columns for the time of the call."""
    rng = np.random.default_rng(17)
    k, n = 110, 24
    entries = sp.random_array((k, k), density=0.02, rng=rng, format="csr")
    entries.data = 3 * rng.normal(size=entries.nnz)
    entries.data[:5] = -np.inf
    more = {name: rng.normal(size=k) for name in ("rows", "columns") if ends in ("both", name)}
    table, unary = vs.SparseTransition(entries, -0.5, **more), 2 * rng.normal(size=(n, k))
    allowed = rng.random((n, k)) < 0.9
    if shape == "chain":
        vectors = {name: rng.normal(size=k) for name in ("start", "end")}

        def model(t: Any) -> Any:
            return vs.Chain(unary, t, [10, 0, 1, 13], allowed=allowed, **vectors)
    else:
        parent = np.array([-1, *(int(rng.integers(i)) for i in range(1, n))])
        parent[7] = -1

        def model(t: Any) -> Any:
            return vs.Tree(parent, unary, t, allowed=allowed)

    given = model(table)
    assert given.table is None
    expected, r = vs.infer(model(table.todense())).entropy(), vs.infer(given)
    assert r.stats["sequences_sparse"] > 0
    asked, real = [], _forest._ask

    def ask(built: Any, workers: int, **wanted: Any) -> Any:
        asked.append((built, wanted))
        return real(built, workers, **wanted)

    monkeypatch.setattr(_forest, "_ask", ask)
    np.testing.assert_allclose(r.entropy(), expected, rtol=1e-10, atol=1e-10)
    ((built, wanted),) = asked
    assert "energies" in wanted
    assert built.table is None
    list_read = built.sparse_transition if shape == "chain" else built.sparse_pairwise
    assert list_read.rows is None
    assert list_read.columns is None


def test_arrays_that_contradict_themselves_are_refused() -> None:
    table = sp.csr_array(np.eye(3))
    table.indptr = np.array([0, 1, 10**6, 10**6], np.int32)
    with pytest.raises(ValueError, match="entries is no sound csr array"):
        vs.SparseTransition(table)
    with pytest.raises(ValueError, match="entries is no sound csr array"):
        vs.Chain(np.zeros((2, 3)), table)
    pairs = sp.coo_array(np.eye(3))
    pairs.row[1] = 7
    with pytest.raises(ValueError, match=r"entries has the entry \(7, 1\), outside of its shape"):
        vs.SparseTransition(pairs)


def test_room_beyond_the_last_row_is_not_read() -> None:
    table = sp.csr_array((3, 3))
    table.data, table.indices = np.array([1.0, 2.0]), np.array([0, 1], np.int32)
    table.indptr = np.array([0, 1, 1, 1], np.int32)
    assert vs.SparseTransition(table).todense().tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert table.data.size == 2  # it stays as it was


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_the_pairs_cannot_be_written_to(part: str) -> None:
    table = vs.SparseTransition(sp.csr_array(np.eye(3)))
    with pytest.raises(ValueError, match="read-only"):
        getattr(table.entries, part)[...] = 10**6
