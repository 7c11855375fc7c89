"""`valuesparse.Result`: every query agrees with every other."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from checks import STATS, assert_same_bits, chain, refused
from oracles import clamped, solve, tolerance
from strategies import peaked_chain, random_chain

import valuesparse as vs
from valuesparse import _forest
from valuesparse.inference import _forest as engine
from valuesparse.results import _chain as chains

ZETAS = [1.0, 0.8]


@pytest.fixture(params=ZETAS, ids=["exact", "islands"])
def zeta(request: pytest.FixtureRequest) -> float:
    return request.param


@pytest.fixture
def model(rng: np.random.Generator, dtype: type):
    return peaked_chain(rng, [9, 0, 1, 14, 2], 5, dtype=dtype)


def test_fields(model, zeta: float, dtype: type) -> None:
    r = vs.infer(chain(model), zeta=zeta)
    assert isinstance(r, vs.Result)
    assert r.marginals.flags.c_contiguous
    assert r.marginals.dtype == dtype
    assert r.log_z.dtype == np.float64
    assert r.log_z.shape == (5,)
    assert r.islands.dtype == np.int32
    assert r.method == ("exact" if zeta == 1 else "islands")
    assert r.reason
    assert set(r.stats) >= STATS
    assert all(isinstance(v, int) and v >= 0 for v in r.stats.values())


def test_pairwise_slices_and_blocks_agree_with_the_whole(model, zeta: float, dtype: type) -> None:
    r = vs.infer(chain(model), zeta=zeta)
    whole = r.pairwise()
    assert whole.dtype == dtype
    assert whole.shape == (22, 5, 5)
    for cut in (
        slice(None),
        slice(0, 0),
        slice(3, 11),
        slice(7, 9),
        slice(-4, None),
        slice(None, None, 3),
        slice(None, None, -1),
        slice(17, 2, -4),
        slice(9, 3),
        slice(5, 6, 7),
        slice(20, 400),
    ):
        assert_same_bits(r.pairwise(edges=cut), np.ascontiguousarray(whole[cut]))
    for block in (1, 4, 8, 22, 1000):
        parts = list(r.iter_pairwise(block=block))
        assert all(p.shape[0] <= block for p in parts)
        # Blocks come from stored messages: equal to the whole up to rounding.
        np.testing.assert_allclose(np.concatenate(parts), whole, atol=tolerance(model, 0))
        assert_same_bits(np.concatenate(parts), np.concatenate(list(r.iter_pairwise())))


def test_arrays_are_read_only(model, zeta: float) -> None:
    r = vs.infer(chain(model), zeta=zeta)
    for result in (r, pickle.loads(pickle.dumps(r)), copy.deepcopy(r)):
        for array in (result.marginals, result.log_z, result.islands):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    pandas = pytest.importorskip("pandas", reason="makes data frames of results")
    frame = r.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    frame.iloc[0, 0] = 7.0  # a copy
    assert r.marginals[0, 0] <= 1


GRAPH_METHODS = [
    *("auto", "junction_tree", "bp", "trw", "mean_field", "structured_mean_field"),
    *("zeta", "conditioned", "part", "relax", "select"),
]


def graph_result(method: str, cycle: bool = True) -> vs.results.GraphResult:
    graph = vs.FactorGraph([2, 3, 2], names=["a", "b", "c"])
    rng = np.random.default_rng(0)
    for v, k in enumerate((2, 3, 2)):
        graph.add([graph.names[v]], 3.0 * rng.normal(size=k))
    for a, b in [("a", "b"), ("b", "c"), ("c", "a")][: 3 if cycle else 2]:
        shape = (graph.cardinalities[graph.variable(a)], graph.cardinalities[graph.variable(b)])
        graph.add([a, b], rng.normal(size=shape))
    graph.add_feature(["a"], [1], 0.5)
    graph.set_evidence({"c": [0.0, 0.5]})
    if method == "zeta":
        return vs.infer(graph, zeta=0.6)
    if method == "part":
        return vs.infer(graph, factors=[0, 1, 3])
    if method == "relax":
        return vs.relax(graph, threshold=0.1)
    if method == "select":
        return vs.select(graph, min_divergence=1)
    if method == "conditioned":
        return vs.JunctionTree(graph).infer({"a": 1})
    return vs.infer(graph, method=method)


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_arrays_of_graphs_are_read_only(method: str) -> None:
    r = graph_result(method)
    for result in (r, pickle.loads(pickle.dumps(r)), copy.deepcopy(r)):
        arrays = [*result.marginals, result["b"], result.islands, result.factors, result.residuals,
                  *(x for x in result.evidence.values() if isinstance(x, np.ndarray)),
                  result.joint(["b"]), result.joint(["a", "b"]), *result.factor_marginals(),
                  *result.pairwise().values(), *(t for _, t in result.iter_pairwise()),
                  result.expectations(), *result.marginal_lower, *result.marginal_upper,
                  *result.bounds().lower, result.flat_marginals(), result.graph.cards]  # fmt: skip
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    frame = pytest.importorskip("pandas", reason="makes data frames of results") and r.to_frame()
    frame.iloc[0, 0] = 7.0  # a copy
    assert r.marginals[0][0] <= 1


def test_what_is_made_when_asked_for() -> None:
    for again in (lambda r: r, copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))):
        r = again(graph_result("junction_tree"))
        assert_same_bits(r.islands, np.full(3, -1, np.int32))
        assert_same_bits(r.factors, np.arange(r.n_factors))
        assert_same_bits(r.residuals, np.empty(0))
        assert r.islands is r.islands
        with pytest.raises(AttributeError, match="'GraphResult' object has no attribute 'island'"):
            r.island  # noqa: B018
    bp = graph_result("bp")
    assert bp.residuals.size == bp.stats["iterations"] > 0
    assert graph_result("zeta").islands.max() >= 0
    assert_same_bits(graph_result("part").factors, np.array([0, 1, 3]))


@pytest.mark.parametrize("kind", ["chain", "n best", "tree", "graph", "junction tree", "bp"])
def test_decodings_are_read_only(kind: str) -> None:
    rows, edge = [[0.0, 1.0], [0.5, 0.0], [0.0, 0.2]], np.eye(2)
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], edge)
    if kind in ("chain", "n best"):
        d = vs.decode(vs.Chain(rows, edge), n_best=None if kind == "chain" else 2)
    elif kind == "tree":
        d = vs.decode(vs.Tree([-1, 0, 0], rows, edge))
    elif kind == "junction tree":
        d = vs.JunctionTree(graph).decode()
    else:
        d = vs.decode(graph, method="auto" if kind == "graph" else kind)
    for decoding in (d, copy.copy(d), copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert isinstance(decoding.score, np.ndarray) == (kind in ("chain", "n best", "tree"))
        for array in (decoding.states, decoding.score):
            if isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 0


def test_a_result_of_a_graph_is_iterated_like_a_mapping() -> None:
    r = graph_result("auto")
    assert list(r) == ["a", "b", "c"]
    assert len(r) == 3
    assert "a" in r
    assert ["a"] not in [*r]
    assert "d" not in r
    assert 0 not in r  # it has names
    assert [] not in r
    assert {k: v.tolist() for k, v in dict(r).items()} == {k: r[k].tolist() for k in r}
    numbered = vs.infer(vs.FactorGraph([2, 2]))
    assert list(numbered) == [0, 1]
    assert 1 in numbered
    assert 2 not in numbered
    empty = vs.infer(vs.FactorGraph([]))
    assert list(empty) == []
    assert empty  # there is a result


def test_the_most_likely_state_is_no_part_of_the_best_configuration() -> None:
    graph = vs.FactorGraph({"a": ["x", "y"], "b": ["u", "v", "w"], 7: 2})
    graph.add(["a", "b"], probabilities=[[0.4, 0.0, 0.0], [0.2, 0.2, 0.2]])
    r = vs.infer(graph)
    assert (r.most_likely("a"), vs.decode(graph)["a"]) == ("y", "x")
    assert r.most_likely("b") == "u"
    assert r.most_likely(7) == 0  # the first of equal ones; it has no names
    assert vs.infer(graph, evidence={"b": "w", 7: 1}).most_likely(7) == 1
    row = vs.JunctionTree(graph).infer_many({"b": ["w"], "a": [None], 7: [None]})
    known = vs.infer(graph, evidence={"b": "w"})
    assert [known.most_likely(v) for v in graph.names] == [row.most_likely(v)[0] for v in row]
    with pytest.raises(ValueError, match="no variable named 'c'"):
        r.most_likely("c")


def test_blocks_of_edges_stay_small(rng: np.random.Generator) -> None:
    r = vs.infer(vs.Chain(rng.normal(size=(33, 700)), rng.normal(size=(700, 700))))
    tracemalloc.start()
    try:
        sizes = [part.shape[0] for part in r.iter_pairwise()]
        entropy = r.entropy()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 32
    assert max(sizes) == 2**22 // 700**2
    assert 0 < entropy[0] < 33 * np.log(700)
    assert peak < 6 * 2**22 * 8
    small = vs.infer(vs.Chain(np.zeros((3000, 2)), np.zeros((2, 2))))
    assert [part.shape[0] for part in small.iter_pairwise()] == [1024, 1024, 951]


@pytest.mark.parametrize("per_edge", [False, True])
def test_edges_far_apart_are_made_alone(
    rng: np.random.Generator, dtype: type, per_edge: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    k, lengths = 64, [1300, 0, 1, 1200]
    table: Any = rng.normal(size=(2498, k, k) if per_edge else (k, k)).astype(dtype)
    made = vs.Chain(2 * rng.normal(size=(2501, k)).astype(dtype), table, lengths)
    r = vs.infer(made)
    edges: list[int] = []

    def counted(shape: tuple[int, ...], kind: Any) -> np.ndarray:
        edges.append(shape[0] if len(shape) == 3 else 0)
        return np.empty(shape, kind)

    for module in (chains, engine):
        monkeypatch.setattr(module, "empty", counted)
    for cut in (slice(None, None, 2497), slice(-1, 5, -600), slice(3, None, 1200)):
        wanted = range(2498)[cut]
        edges.clear()
        found = r.pairwise(edges=cut)
        assert found.dtype == dtype
        assert max(edges) == len(wanted)
        alone = np.concatenate([r.pairwise(edges=slice(e, e + 1)) for e in wanted])
        np.testing.assert_allclose(found, alone, rtol=0, atol=tolerance(made, 0))


def test_expectations_are_the_summed_edges(model, zeta: float) -> None:
    r = vs.infer(chain(model), zeta=zeta)
    e = r.expectations()
    assert e.dtype == np.float64
    np.testing.assert_allclose(
        e, r.pairwise().astype(np.float64).sum(axis=0), atol=22 * tolerance(model, 0)
    )
    np.testing.assert_allclose(e.sum(), 22, rtol=1e-5)


def test_pairwise_sums_to_the_marginals(model, zeta: float) -> None:
    r = vs.infer(chain(model), zeta=zeta)
    given = solve(clamped(model, r.islands)).marginals
    pairwise = r.pairwise().astype(np.float64)
    edge = 0
    start = 0
    for n in model.lengths:
        for i in range(n - 1):
            tol = tolerance(model, 0)
            np.testing.assert_allclose(pairwise[edge].sum(1), given[start + i], atol=5 * tol)
            np.testing.assert_allclose(pairwise[edge].sum(0), given[start + i + 1], atol=5 * tol)
            edge += 1
        start += n


def test_entropy_is_between_nothing_and_everything(model, zeta: float) -> None:
    r = vs.infer(chain(model), zeta=zeta)
    h = r.entropy()
    assert h.shape == (5,)
    assert h[1] == 0
    assert (h >= -1e-6).all()
    assert (h <= model.lengths * np.log(5) + 1e-6).all()
    flat = vs.infer(vs.Chain(np.zeros((6, 4)), np.zeros((4, 4))))
    np.testing.assert_allclose(flat.entropy(), 6 * np.log(4), rtol=1e-12)


def test_entropy_does_not_notice_the_batch() -> None:
    """Edges go in blocks, and where a block ends depends on the sequences before."""
    rng = np.random.default_rng(1)
    k, lengths = 260, np.array([17, 16, 14, 19, 19, 10, 16, 12])
    unary = 10 * rng.normal(size=(123, k)).astype(np.float32)
    table = rng.normal(size=(k, k)).astype(np.float32)
    want = vs.infer(vs.Chain(unary, table, lengths)).entropy()
    turned = np.concatenate(np.split(unary, np.cumsum(lengths)[:-1])[::-1])
    found = vs.infer(vs.Chain(turned, table, lengths[::-1])).entropy()
    assert_same_bits(found[::-1], want)


def test_entropy_of_large_scores_keeps_its_digits() -> None:
    unary = np.array([[10_000.0, 10_000.0], [-10_000.0, -9_999.0]])
    r = vs.infer(vs.Chain(unary, np.zeros((2, 2))))
    p = 1 / (1 + np.e)
    want = np.log(2) - p * np.log(p) - (1 - p) * np.log(1 - p)
    np.testing.assert_allclose(r.entropy(), want, rtol=1e-11)


@pytest.mark.parametrize("zeta", [1.0, 0.9])
def test_queries_pass_over_a_chain_once_not_once_a_block(
    zeta: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    unary, transition = rng.normal(size=(300_000, 4)), rng.normal(size=(4, 4))
    r = vs.infer(vs.Chain(unary, transition), zeta=zeta)
    passes = []
    native = _forest.infer

    def counted(*arguments: Any, **options: Any) -> Any:
        passes.append(native)
        return native(*arguments, **options)

    monkeypatch.setattr(_forest, "infer", counted)
    r.entropy()
    r.expectations()
    assert len(passes) <= 3


def test_queries_twice_and_after_another_call(model, zeta: float) -> None:
    # Workspaces are reused between calls: nothing a result holds may live in one.
    made = chain(model)
    r = vs.infer(made, zeta=zeta)
    before = [r.marginals.copy(), r.pairwise(), r.entropy(), r.log_z.copy(), r.islands.copy()]
    vs.infer(vs.Chain(np.ones((50, 5)), np.ones((5, 5))), zeta=0.5)
    after = [r.marginals, r.pairwise(), r.entropy(), r.log_z, r.islands]
    for a, b in zip(before, after, strict=True):
        assert_same_bits(a, b)


@pytest.mark.smoke
def test_to_frame(model, zeta: float) -> None:
    pd = pytest.importorskip("pandas", reason="makes data frames of results")
    r = vs.infer(chain(model), zeta=zeta)
    frame = r.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 26


@pytest.mark.parametrize("bad", ["all", 3.5, [0.5], 4])
def test_bad_edges(rng: np.random.Generator, bad: object) -> None:
    r = vs.infer(chain(random_chain(rng, [23], 3)))
    with pytest.raises((ValueError, TypeError), match="edges"):
        r.pairwise(edges=bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2"])
def test_bad_block(rng: np.random.Generator, bad: object) -> None:
    r = vs.infer(chain(random_chain(rng, [5], 3)))
    with pytest.raises((ValueError, TypeError), match="block"):
        next(iter(r.iter_pairwise(block=bad)))


def test_repr_is_short() -> None:
    r = vs.infer(vs.Chain(np.zeros((3000, 2)), np.zeros((2, 2))))
    assert len(repr(r)) < 500


def test_sequence_names_in_errors_count_empty_sequences() -> None:
    unary = np.zeros((4, 2))
    unary[3] = -np.inf
    model = vs.Chain(unary, np.zeros((2, 2)), lengths=[0, 2, 0, 2])
    with refused(vs.InfeasibleError, 3, 1) as info:
        vs.infer(model)
    assert (info.value.sequence, info.value.position) == (3, 1)


def test_results_compare_by_identity_and_can_be_keys() -> None:
    model = vs.Chain(np.zeros((3, 2)), np.zeros((2, 2)))
    graph = vs.FactorGraph([2, 2])
    graph.add((0, 1), np.eye(2))
    for make in (
        lambda: vs.infer(model),
        lambda: vs.decode(model),
        lambda: vs.decode(graph, method="lp"),
        lambda: vs.bounds.preconditioner(graph),
        lambda: vs.parsing.marginals([np.zeros((3, 3))]),
        lambda: vs.parsing.best_trees([np.zeros((3, 3))]),
    ):
        one, other = make(), make()
        assert one == one
        assert one != other
        assert one not in [other]
        assert len({one, other}) == 2
    b = vs.bounds.log_z(graph)
    assert pickle.loads(pickle.dumps(b)) == b  # its fields are numbers and words
    assert hash(pickle.loads(pickle.dumps(b))) == hash(b)
