"""Proofs beside marginals: they hold, against enumeration and against logarithms in long double."""

from __future__ import annotations

import copy
import functools
import pickle
import tracemalloc
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from checks import chain, refused
from hypothesis import given
from oracles import solve
from strategies import chains, examples, random_chain

import valuesparse as vs

TOLERANCES = [1e-1, 1e-3, 1e-6, 1e-9]


def feasible(model: vs.Chain) -> bool:
    try:
        vs.infer(model)
    except vs.InfeasibleError:
        return False
    return True


def holds(r: Any, exact: Any, log_z: Any) -> None:
    """Check that a certificate contains the truth, which errs by 1e-13 or so itself."""
    assert (r.lower <= exact + 1e-12).all()
    assert (exact <= r.upper + 1e-12).all()
    assert (r.lower >= 0).all()
    assert (r.upper <= 1).all()
    assert (r.log_z_lower <= log_z + 1e-12 * np.abs(log_z)).all()
    assert (log_z <= r.log_z_upper + 1e-12 * np.abs(log_z)).all()
    for array in (r.error, r.radius, r.slack):
        assert array.shape == (exact.shape[0],)
        assert array.dtype == np.float64
        assert (array >= 0).all()


@given(chains(), st.sampled_from(TOLERANCES), st.sampled_from([None, 0.05]))
@examples(150)
def test_tolerance_against_enumeration(model: Any, tol: float, keep: float | None) -> None:
    built = chain(model)
    if not feasible(built):
        with pytest.raises(vs.InfeasibleError):
            vs.infer(built, tol=max(tol, 0.1), keep=keep)
        return
    truth = solve(model)
    if tol < 1e-6 and built.dtype == np.float32:
        return
    try:
        r = vs.infer(built, tol=tol, keep=keep)
    except ValueError as error:
        assert "tol" in str(error)  # noqa: PT017
        assert tol < 1e-8
        return
    assert (r.error <= tol).all()
    holds(r, truth.marginals, truth.log_z)
    if keep is None:
        assert (
            np.abs(r.marginals - truth.marginals).max(axis=1, initial=0) <= r.error + 1e-12
        ).all()
    else:
        shown = r.sparse().toarray() > 0
        hidden = np.where(shown, 0, truth.marginals).max(axis=1, initial=0)
        assert (hidden <= r.unlisted + 1e-12).all()


@pytest.mark.simd
@pytest.mark.parametrize("k", [33, 97])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("tree", [False, True])
def test_float32_is_proved(eager: None, k: int, scale: float, tree: bool) -> None:
    rng = np.random.default_rng(k)
    n = 120
    unary, t = scale * rng.normal(size=(n, k)), scale * rng.normal(size=(k, k))
    model: Any = vs.Chain(unary, t, [40, 1, 0, 60, 19])
    if tree:
        model = vs.Tree([-1, *(rng.integers(i) for i in range(1, n))], unary, t)
    exact = vs.infer(model)
    r = vs.infer(model, tol=0.01)
    assert r.method == "certified"
    assert "float32 arithmetic" in r.reason
    assert r.stats["sequences_float32"] == exact.log_z.size
    assert r.marginals.dtype == np.float64
    assert (r.error <= 0.01).all()
    assert (r.error > np.abs(r.marginals - exact.marginals).max(axis=1)).all()
    holds(r, exact.marginals, exact.log_z)
    fine = vs.infer(model, tol=1e-9)
    assert fine.method == "exact"
    assert "exact" in fine.reason
    assert np.array_equal(fine.marginals, exact.marginals)
    assert (fine.error <= 1e-9).all()
    holds(fine, exact.marginals, exact.log_z)


def test_large_float32_scores_are_in_the_radius() -> None:
    """Passes in logarithms add scores in float64: what that rounds grows with the scores."""
    unary = np.array([[3.0, -2.0], [0.0, 1.0]], dtype=np.float32)
    radius = []
    for size in (1.0, 1e12):
        table = np.array([[size, 0.0], [0.0, size]], dtype=np.float32)
        r = vs.infer(vs.Chain(unary, table), tol=0.1)
        assert (r.error <= 0.1).all()
        radius.append(float(r.radius.max()))
    assert radius[1] > radius[0] + 2 * 1e12 * 2.0**-53


def test_what_cancels_in_a_default_is_in_the_radius() -> None:
    """A default, a row and a column may be large where their sum is not."""
    rows, large = np.array([0.3, -0.3]), 2.0**40
    t = vs.SparseTransition(sp.csr_array((2, 2)), large, rows=rows, columns=[-large] * 2)
    for model in (vs.Chain(np.zeros((2, 2)), t), vs.Tree([-1, 0], np.zeros((2, 2)), t)):
        r = vs.infer(model, tol=0.1)
        p = np.exp(rows) / np.exp(rows).sum()
        assert np.abs(r.marginals[0] - p).max() > 1e-7
        assert (np.abs(r.marginals[0] - p) <= r.error[0]).all()
        assert (r.lower[0] <= p).all()
        assert (p <= r.upper[0]).all()
        with refused(ValueError, "tol", "below"):
            vs.infer(model, tol=1e-3)


def test_sequences_are_told_apart() -> None:
    """Long ones need float64 where float32 does for short ones; bits show no threads."""
    rng = np.random.default_rng(1)
    lengths = [30, 900, 0, 25, 1000, 1]
    unary, t = rng.normal(size=(sum(lengths), 40)), rng.normal(size=(40, 40))
    allowed = rng.random(unary.shape) < 0.9
    model = vs.Chain(unary, t, lengths, start=rng.normal(size=40), allowed=allowed)
    exact = vs.infer(model)
    r = vs.infer(model, tol=1e-3)
    assert r.stats["sequences_float32"] + r.stats["sequences_exact"] == 6
    assert 0 < r.stats["sequences_float32"] < 6
    assert "of 6 sequences" in r.reason
    assert (r.error <= 1e-3).all()
    holds(r, exact.marginals, exact.log_z)
    long = np.repeat(np.array(lengths) > 100, lengths)
    assert np.array_equal(r.marginals[long], exact.marginals[long])
    for threads in (1, 2, 3, 8):
        other = vs.infer(model, tol=1e-3, threads=threads)
        assert np.array_equal(other.marginals, r.marginals)
        assert np.array_equal(other.error, r.error)


@pytest.mark.parametrize("kind", ["shared", "typed", "per edge"])
@pytest.mark.parametrize("tol", [0.05, 1e-9])
def test_forests(eager: None, kind: str, tol: float) -> None:
    rng = np.random.default_rng(3)
    n, k = 80, 4
    parent = np.array([-1 if i % 9 == 0 else rng.integers(i) for i in range(n)])
    shape = {"shared": (k, k), "typed": (2, k, k), "per edge": (n, k, k)}[kind]
    types = rng.integers(0, 2, n) if kind == "typed" else None
    tree = vs.Tree(parent, rng.normal(size=(n, k)), rng.normal(size=shape), edge_type=types)
    exact, r = vs.infer(tree), vs.infer(tree, tol=tol)
    assert ("float32" in r.reason) == (tol > 0.01)
    holds(r, exact.marginals, exact.log_z)
    low, high = r.pairwise_bounds()
    pairs = exact.pairwise()
    assert (low <= pairs + 1e-12).all()
    assert (pairs <= high + 1e-12).all()


@given(chains(max_length=6), st.sampled_from([0.0, 10.0, 100.0, 1e9]))
@examples(100)
def test_any_price_buys_something_valid(model: Any, work: float) -> None:
    built = chain(model)
    if not feasible(built):
        return
    truth = solve(model)
    r = vs.infer(built, work=work)
    holds(r, truth.marginals, truth.log_z)
    assert r.stats["multiply_adds"] <= work
    single = built.dtype == np.float32
    gap = np.abs(r.marginals - truth.marginals).max(axis=1, initial=0)
    assert (gap <= r.error + (1e-6 if single else 1e-12)).all()
    more = vs.infer(built, work=1e12)
    assert more.error.max(initial=0) <= max(r.error.max(initial=0), 1e-4 if single else 1e-9)
    kept = vs.infer(built, work=work, keep=0.1)
    holds(kept, truth.marginals, truth.log_z)


def test_a_price_is_kept() -> None:
    rng = np.random.default_rng(4)
    lengths = [10, 40, 20]
    model = vs.Chain(0.1 * rng.normal(size=(70, 5)), 0.1 * rng.normal(size=(5, 5)), lengths)
    exact = vs.infer(model)
    errors = []
    for work in (0, 2 * 9 * 25, 2 * 28 * 25, 2 * 67 * 25):
        r = vs.infer(model, work=work)
        assert r.stats["multiply_adds"] == work
        assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= r.error).all()
        holds(r, exact.marginals, exact.log_z)
        errors.append(r.error.mean())
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < 0.9  # flat tables tell something by themselves
    assert errors[-1] < 1e-9


@given(chains(max_labels=3), st.sampled_from([0.5, 0.7, 0.9]), st.sampled_from([None, 0]))
@examples(150)
def test_islands_are_certified(model: Any, zeta: float, revisit: int | None) -> None:
    built = chain(model)
    if not feasible(built):
        return
    truth = solve(model)
    r = vs.infer(built, zeta=zeta, revisit=revisit)
    c = r.certify()
    holds(c, truth.marginals, truth.log_z)
    off = np.abs(r.marginals.astype(float) - truth.marginals).max(axis=1, initial=0)
    assert (off <= c.error + 1e-9).all()
    held = np.flatnonzero(r.islands >= 0)
    assert (1 - truth.marginals[held, r.islands[held]] <= c.wrong[held] + 1e-12).all()
    assert (c.wrong[r.islands < 0] == 0).all()


def test_six_binary_variables_with_a_wrong_island() -> None:
    """ERRATA's case: an island may be wrong however sure it looks."""
    t = np.array([[3.0, 0.0], [0.0, 3.0]])
    unary = np.zeros((6, 2))
    unary[0, 0], unary[-1, 1] = 2.2, 4.0
    model = vs.Chain(unary, t)
    exact, r = vs.infer(model), vs.infer(model, zeta=0.85, revisit=0)
    c = r.certify()
    assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= c.error).all()
    assert np.abs(r.marginals - exact.marginals).max() > 0.1
    for island in np.flatnonzero(r.islands >= 0):
        assert 1 - exact.marginals[island, r.islands[island]] <= c.wrong[island]


def test_a_radius_too_small_is_seen(eager: None) -> None:
    """The checks above can fail: with a thousandth of the radius the bounds miss the truth."""
    rng = np.random.default_rng(5)
    model = vs.Chain(3 * rng.normal(size=(200, 60)), 3 * rng.normal(size=(60, 60)))
    exact, r = vs.infer(model), vs.infer(model, tol=0.1)
    from valuesparse.results._certificate import interval

    lower, upper = interval(r.marginals, r.radius * 1e-5, r.slack * 1e-5)
    assert ((exact.marginals < lower) | (exact.marginals > upper)).any()


def test_records(rng: np.random.Generator) -> None:
    model = chain(random_chain(rng, [5, 9], 4))
    r = vs.infer(model, tol=1e-3)
    for other in (pickle.loads(pickle.dumps(r)), copy.deepcopy(r)):
        for name in ("error", "lower", "upper", "radius", "slack", "log_z_lower", "log_z_upper"):
            assert np.array_equal(getattr(other, name), getattr(r, name))
            with pytest.raises(ValueError, match="read-only"):
                getattr(other, name)[...] = 0
    c = r.certify()
    assert np.array_equal(c.error, r.error)
    again = pickle.loads(pickle.dumps(c))
    assert np.array_equal(again.lower, c.lower)
    assert repr(c).startswith("Certificate(variables=14, error=")
    with pytest.raises(AttributeError):
        c.error = 0  # type: ignore[misc]
    plain = vs.infer(model)
    for name in ("error", "lower", "log_z_upper"):
        with pytest.raises(AttributeError, match="tol"):
            getattr(plain, name)
    np.testing.assert_allclose(r.entropy(), plain.entropy())
    np.testing.assert_allclose(r.pairwise(), plain.pairwise())
    with refused(ValueError, "threads"):
        r.certify(threads=0)


@pytest.mark.parametrize("ask", [{"work": 0}, {"work": 0, "keep": 0.1}, {"tol": 0.9}])
def test_questions_about_pairs_are_answered_exactly(eager: None, ask: dict[str, float]) -> None:
    """However far the marginals of a result may be off."""
    rng = np.random.default_rng(6)
    unary, t = rng.normal(size=(30, 4)), rng.normal(size=(4, 4))
    for model in (
        vs.Chain(unary, t, [10, 0, 20]),
        vs.Tree([-1, *(rng.integers(i) for i in range(1, 30))], unary, t),
    ):
        exact, r = vs.infer(model), vs.infer(model, **ask)
        assert r.method == "certified"
        assert "work" not in ask or np.abs(r.marginals - exact.marginals).max() > 0.1
        np.testing.assert_allclose(r.entropy(), exact.entropy(), rtol=1e-12)
        np.testing.assert_allclose(r.pairwise(), exact.pairwise(), atol=1e-14)
        np.testing.assert_allclose(r.expectations(), exact.expectations(), rtol=1e-12)


@pytest.mark.parametrize("keep", [None, 0.2])
def test_bounds_of_some_pairs_take_little_memory(keep: float | None) -> None:
    rng = np.random.default_rng(7)
    k = 50
    model = vs.Chain(2 * rng.normal(size=(4000, k)), rng.normal(size=(k, k)), [1000] * 4)
    r = vs.infer(model, tol=0.01, keep=keep)
    r.error  # noqa: B018 - made once
    tracemalloc.start()
    try:
        low, high = r.pairwise_bounds(edges=slice(990, 1010))
        assert tracemalloc.get_traced_memory()[1] < 4000 * k * 8
    finally:
        tracemalloc.stop()
    whole = r.pairwise_bounds()
    assert np.array_equal(low, whole[0][990:1010])
    assert np.array_equal(high, whole[1][990:1010])
    # Edges 998 and 999 lie in two sequences.
    lower, upper = r.lower, r.upper
    for edge, (a, b) in {998: (998, 999), 999: (1000, 1001)}.items():
        most = np.minimum(upper[a][:, None], upper[b][None, :])
        assert np.array_equal(whole[1][edge], most)
        least = lower[a][:, None] + lower[b][None, :] - 1.0
        assert np.abs(whole[0][edge] - np.maximum(least, 0.0)).max() < 1e-15
    back = r.pairwise_bounds(edges=slice(1009, 989, -1))
    assert np.array_equal(back[0], low[::-1])


def test_bad_arguments_are_named() -> None:
    model = vs.Chain(np.zeros((3, 4)), np.zeros((4, 4)))
    for bad in (0, -1, 1.5, float("nan"), "x", True):
        with refused(ValueError, "tol", "(0, 1]" if bad != 0 else "is below 4.01e-12"):
            vs.infer(model, tol=bad)
    with refused(ValueError, "tol", "4.01e-12"):
        vs.infer(model, tol=1e-15)
    for bad in (-1, float("nan"), "x", True):
        with refused(ValueError, "work"):
            vs.infer(model, work=bad)
    with refused(ValueError, "tol", "work"):
        vs.infer(model, tol=0.1, work=10)
    for name in ("tol", "work"):
        with refused(ValueError, "zeta"):
            vs.infer(model, zeta=0.9, **{name: 0.1})
        with refused(ValueError, name, "Chain"):
            vs.infer(vs.FactorGraph([2]), **{name: 0.1})
        with refused(ValueError, "method"):
            vs.infer(model, method="islands", **{name: 0.1})


@pytest.mark.parametrize("ask", [{"tol": 1e-3}, {"work": 0}, {"work": 1e9}])
@pytest.mark.parametrize("n", [0, 1])
def test_empty_models(ask: dict[str, float], n: int) -> None:
    infer = functools.partial(vs.infer, **ask)
    for model in (
        vs.Chain(np.zeros((n, 2)), np.zeros((2, 2)), [n, 0]),
        vs.Tree([-1] * n, np.zeros((n, 2)), np.zeros((2, 2))),
        vs.Chain(np.zeros((n, 1)), np.zeros((1, 1))),
    ):
        r = infer(model)
        exact = vs.infer(model)
        holds(r, exact.marginals, exact.log_z)
        assert r.marginals.shape == (n, model.n_labels)
        assert r.certify().error.shape == (n,)


def widened(model: vs.Chain) -> vs.Chain:
    """The same chain in float64, whose sums of scores are exact to 1e-16."""
    wide = {
        name: None if x is None else x.astype(np.float64)
        for name, x in (("start", model.start), ("end", model.end))
    }
    given = model.sparse_transition
    table: Any = model.transition.astype(np.float64)
    if given is not None:
        more = {
            name: None if x is None else x.astype(np.float64)
            for name, x in (("rows", given.rows), ("columns", given.columns))
        }
        entries = given.entries.astype(np.float64)
        table = vs.SparseTransition(entries, given.default, **more)
    return vs.Chain(model.unary.astype(np.float64), table, model.lengths, **wide)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
def test_sums_of_scores_in_float32_are_in_the_radius(size: float, n: int, tol: float) -> None:
    """Those of the ends: 1e4 and 0.3 lose half of the digits of 0.3."""
    rng = np.random.default_rng(0)
    near = functools.partial(rng.normal, size, size=3)
    model = vs.Chain(
        rng.normal(size=(n, 3)).astype(np.float32),
        rng.normal(size=(3, 3)).astype(np.float32),
        start=near().astype(np.float32),
        end=-near().astype(np.float32),
    )
    exact = vs.infer(widened(model))
    found = [vs.infer(model, zeta=1 - 1e-9).certify()]
    if tol >= 1e-3 and size < 1e4:
        found.append(vs.infer(model, tol=tol))
    else:
        try:
            found.append(vs.infer(model, tol=tol))
        except ValueError as error:
            assert "below" in str(error)  # noqa: PT017
    for r in found:
        holds(r, exact.marginals, exact.log_z)


@pytest.mark.parametrize("size", [1.0, 50.0, 1e4])
@pytest.mark.parametrize("k", [3, 100])
@pytest.mark.parametrize("tree", [False, True])
def test_rows_and_columns_in_float32_are_in_the_radius(size: float, k: int, tree: bool) -> None:
    rng = np.random.default_rng(1)

    def single(*shape: int) -> Any:
        return (size * rng.normal(size=shape)).astype(np.float32)

    # More pairs than lists are read for: sums of a default, a row and a column are made once.
    entries = sp.csr_array(single(k, k) * (rng.random((k, k)) < 0.3), dtype=np.float32)
    given = vs.SparseTransition(entries, float(single(1)[0]), rows=single(k), columns=single(k))
    unary = rng.normal(size=(6, k)).astype(np.float32)
    path = vs.Chain(unary, given)
    exact = vs.infer(widened(path))
    model: Any = vs.Tree([-1, 0, 1, 2, 3, 4], unary, given) if tree else path
    for r in (vs.infer(model, tol=0.9), vs.infer(model, work=1e9), vs.infer(model).certify()):
        holds(r, exact.marginals, exact.log_z)
    assert "all pairs are read" in vs.infer(model, tol=0.9).reason


def test_a_price_never_hides_what_is_impossible() -> None:
    """The same error as without a price, whatever is bought."""
    possible, forbidden = np.zeros((2, 2)), np.full((2, 2), -np.inf)
    late = np.array([[0, -np.inf], [-np.inf, -np.inf]])
    for unary, table in (
        (np.zeros((5, 2)), forbidden),
        (np.array([[0, -np.inf], [-np.inf, 0], [0, 0], [0, 0], [0, 0]]), late),
        (np.array([[0, 0], [0, 0], [0, 0], [0, 0], [-np.inf, -np.inf]]), possible),
    ):
        model = vs.Chain(unary, table, lengths=[2, 3])
        with pytest.raises(vs.InfeasibleError) as expected:
            vs.infer(model)
        for work in (0, 9, 1e9):
            with pytest.raises(vs.InfeasibleError) as found:
                vs.infer(model, work=work)
            assert str(found.value) == str(expected.value)
    tree = vs.Tree([-1, 0, 0, -1], np.array([[0, 0.0], [0, 0], [0, 0], [-np.inf] * 2]), possible)
    with pytest.raises(vs.InfeasibleError) as expected:
        vs.infer(tree)
    with pytest.raises(vs.InfeasibleError) as found:
        vs.infer(tree, work=0)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("work", [0.0, 2e7])
def test_a_price_with_a_list_writes_no_dense_array(work: float) -> None:
    rng = np.random.default_rng(2)
    n, k = 20_000, 200
    model = vs.Chain(4 * rng.normal(size=(n, k)), rng.normal(size=(k, k)), lengths=[20] * (n // 20))
    dense = vs.infer(model, work=work)
    tracemalloc.start()
    r = vs.infer(model, work=work, keep=0.01)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * n * k * 8
    expected = np.where(dense.marginals >= 0.01, dense.marginals, 0.0)
    listed = r.sparse().toarray()
    np.testing.assert_array_equal(np.where(listed >= 0.01, listed, 0.0), expected)
    np.testing.assert_array_equal(r.error, dense.error)
    np.testing.assert_array_equal(r.log_z, dense.log_z)


def test_the_tolerance_that_an_error_tells_is_taken() -> None:
    rng = np.random.default_rng(11)
    for k in range(1, 30):
        model = vs.Chain(30 * rng.normal(size=(k + 2, k)), rng.normal(size=(k, k)))
        with pytest.raises(ValueError, match="ask for at least that") as error:
            vs.infer(model, tol=1e-300)
        told = float(str(error.value).split("is below ")[1].split(",")[0])
        assert (vs.infer(model, tol=told).error <= told).all()
    for tol in (1e-3, 1.0):  # where rounding leaves more than any tolerance
        with pytest.raises(ValueError, match=r"^tol=.* no tol can be proved: leave it out$"):
            vs.infer(vs.Chain(np.full((10, 5), 1e15), np.zeros((5, 5))), tol=tol)
