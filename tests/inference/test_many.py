"""`JunctionTree.infer_many` against one question at a time, and against enumeration."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs


def random_graph(rng: np.random.Generator, n: int, scale: float = 2.0) -> vs.FactorGraph:
    """A graph with loops, zeros, and variables of one state."""
    cards = rng.integers(1, 4, n)
    graph = vs.FactorGraph({f"v{i}": int(k) for i, k in enumerate(cards)})
    for _ in range(n + 2):
        scope = rng.permutation(n)[: int(rng.integers(1, min(n, 3) + 1))].tolist()
        table = rng.normal(0.0, scale, cards[scope])
        table[rng.random(table.shape) < 0.15] = -np.inf
        if not np.isfinite(table).any():
            continue
        graph.add(scope, table)
    return graph


def evidence_rows(
    rng: np.random.Generator, graph: vs.FactorGraph, rows: int, share: float
) -> np.ndarray:
    codes = np.stack([rng.integers(0, k, rows) for k in graph.cardinalities], axis=1)
    return np.where(rng.random(codes.shape) < share, codes, -1)


def assert_as_one_by_one(jt: vs.JunctionTree, codes: np.ndarray, m: Any) -> None:
    for row, given_states in enumerate(codes):
        known = {v: int(x) for v, x in enumerate(given_states) if x >= 0}
        try:
            r = jt.infer(known)
        except vs.InfeasibleError:
            assert not m.feasible[row]
            assert m.log_z[row] == -np.inf
            assert not any(p[row].any() for p in m.marginals)
            continue
        assert m.feasible[row]
        assert m.log_z[row] == pytest.approx(r.log_z, rel=1e-12, abs=1e-11)
        for p, q in zip(m.marginals, r.marginals, strict=True):
            np.testing.assert_allclose(p[row], q, rtol=0, atol=1e-12)


@pytest.mark.simd
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 7), rows=st.integers(0, 21))
def test_the_same_as_one_question_at_a_time(seed: int, n: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n)
    try:
        jt = vs.JunctionTree(graph)
    except vs.InfeasibleError:
        return
    codes = evidence_rows(rng, graph, rows, float(rng.random()))
    m = jt.infer_many(codes)
    assert m.n_rows == rows
    assert_as_one_by_one(jt, codes, m)


@pytest.mark.smoke
def test_against_enumeration() -> None:
    rng = np.random.default_rng(5)
    graph = vs.FactorGraph([2, 3, 2, 2])
    tables = []
    for scope in ((0, 1), (1, 2), (2, 3), (0, 3)):
        table = rng.random([graph.cardinalities[v] for v in scope])
        graph.add(scope, probabilities=table)
        tables.append((scope, table))
    codes = np.array(list(itertools.product(*(range(-1, k) for k in graph.cardinalities))))
    m = vs.JunctionTree(graph).infer_many(codes)
    for row, known in enumerate(codes):
        full = np.zeros(graph.cardinalities)
        for y in itertools.product(*map(range, graph.cardinalities)):
            if all(k in (-1, x) for k, x in zip(known, y, strict=True)):
                full[y] = np.prod([t[tuple(y[v] for v in scope)] for scope, t in tables])
        assert m.log_z[row] == pytest.approx(np.log(full.sum()), abs=1e-12)
        for v in range(4):
            axes = tuple(u for u in range(4) if u != v)
            np.testing.assert_allclose(m[v][row], full.sum(axis=axes) / full.sum(), atol=1e-12)


@pytest.mark.simd
def test_bits_do_not_depend_on_threads_order_or_company() -> None:
    rng = np.random.default_rng(1)
    graph = random_graph(rng, 12)
    jt = vs.JunctionTree(graph)
    codes = evidence_rows(rng, graph, 3000, 0.3)
    codes[1500:] = codes[:1500]
    m = jt.infer_many(codes, threads=1)
    for threads in (2, 3, 8):
        other = jt.infer_many(codes, threads=threads)
        assert_same_bits(m.log_z, other.log_z)
        for p, q in zip(m.marginals, other.marginals, strict=True):
            assert_same_bits(np.ascontiguousarray(p), np.ascontiguousarray(q))
    assert_same_bits(m.log_z[1500:].copy(), m.log_z[:1500].copy())
    backwards = jt.infer_many(codes[::-1])
    assert_same_bits(backwards.log_z[::-1].copy(), m.log_z)
    few = jt.infer_many(codes[:10])
    assert_same_bits(np.ascontiguousarray(few[3]), np.ascontiguousarray(m[3][:10]))


def test_frames() -> None:
    pandas = pytest.importorskip("pandas", reason="frames are those of pandas")
    graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"], "n": 3, 7: [10, 20]})
    graph.add_cpt("rain", [], [0.8, 0.2])
    graph.add_cpt("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
    graph.add_cpt("n", ["wet"], [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    graph.add_cpt(7, ["n"], [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]])
    jt = vs.JunctionTree(graph)
    codes = np.array([[1, -1, 0, -1], [-1, 0, -1, 1], [0, 1, 2, 0], [-1, -1, -1, -1]])
    m = jt.infer_many(codes)
    frames: list[Any] = [
        {"rain": ["yes", None, "no", None], "wet": [None, "no", "yes", None],
         "n": [0, None, 2, None], 7: [None, 20, 10, None]},
        {"rain": [1, -1, 0, -1], "wet": [np.nan, "no", "yes", float("nan")],
         "n": [0.0, np.nan, 2.0, np.nan], 7: np.array([-1, 1, 0, -1])},
    ]  # fmt: skip
    frames += [pandas.DataFrame(frame) for frame in list(frames)]
    frames[3]["rain"] = pandas.Categorical(["yes", None, "no", None])
    frames[3]["n"] = pandas.array([0, None, 2, None], dtype="Int64")
    frames[2]["wet"] = frames[2]["wet"].astype("string")
    for frame in frames:
        other = jt.infer_many(frame)
        assert_same_bits(m.log_z, other.log_z)
    assert m["rain"].shape == (4, 2)
    assert m["rain", "yes"].tolist() == m["rain"][:, 1].tolist()
    assert m["rain"][0].tolist() == [0.0, 1.0]
    assert list(m) == ["rain", "wet", "n", 7]
    assert len(m) == 4
    assert dict(m)[7].shape == (4, 2)
    assert m.most_likely("rain").tolist() == ["yes", "no", "no", "no"]
    assert m.most_likely("n").dtype == np.int64
    table = m.to_frame()
    assert table.shape == (4, 9)
    assert table[("rain", "yes")].tolist() == m["rain", "yes"].tolist()
    copy = pickle.loads(pickle.dumps(m))
    assert_same_bits(copy.log_z, m.log_z)
    assert not copy.log_z.flags.writeable
    assert not m["rain"].flags.writeable
    assert jt.infer_many(pandas.DataFrame(index=range(3))).n_rows == 3
    assert jt.infer_many({}).n_rows == 0
    assert jt.infer_many({"rain": []})["wet"].shape == (0, 2)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"snow": ["no"]}, r"frame\['snow'\]: there is no variable named 'snow'"),
        ({"rain": ["no", "maybe"]}, r"frame\['rain'\]\[1\]: variable 'rain' has no state 'maybe'"),
        ({"rain": [0, 2]}, r"frame\['rain'\]\[1\]: variable 'rain' has no state 2"),
        ({"rain": np.array([0, 1, -2])}, r"frame\['rain'\]\[2\]: variable 'rain' has no state -2"),
        ({"rain": [0.5]}, r"frame\['rain'\]\[0\]: variable 'rain' has no state 0.5"),
        ({"rain": [["no"]]}, r"frame\['rain'\]\[0\]: variable 'rain' has no state"),
        ({"rain": ["no"], "wet": [0, 1]}, r"frame\['wet'\] has 2 rows, and frame\['rain'\] has 1"),
        ({"rain": [0], 0: [1]}, "two columns of variable 'rain'"),
        ({"rain": "no"}, r"frame\['rain'\] must be a sequence of states"),
        (np.zeros((2, 3), dtype=int), r"shape \(rows, 2\)"),
        (np.zeros((2, 2)), r"integers in shape \(rows, 2\)"),
    ],
)
def test_frames_that_are_refused(frame: Any, words: str) -> None:
    graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": 2})
    with pytest.raises(ValueError, match=words):
        vs.JunctionTree(graph).infer_many(frame)
    with pytest.raises(TypeError, match="frame must be a pandas DataFrame"):
        vs.JunctionTree(graph).infer_many([{"rain": 0}])


@pytest.mark.simd
def test_infeasible_rows_are_zeros() -> None:
    graph = vs.FactorGraph({"a": 2, "b": 2, "c": 2})
    graph.add(["a", "b"], [[0.0, -np.inf], [-np.inf, 0.0]])
    graph.add(["b", "c"], [[0.0, 1.0], [-np.inf, -np.inf]])
    m = vs.JunctionTree(graph).infer_many({"a": [0, 1, 0, -1], "b": [0, -1, 1, 1]})
    assert m.feasible.tolist() == [True, False, False, False]
    assert np.isneginf(m.log_z).tolist() == [False, True, True, True]
    for p in m.marginals:
        assert np.isfinite(p).all()
        assert not p[1:].any()
    assert m.most_likely("a").tolist() == [0, -1, -1, -1]
    # Nothing can be told before the messages meet.
    loop = vs.FactorGraph([2, 2, 2])
    for pair in ((0, 1), (1, 2), (0, 2)):
        loop.add(pair, [[-np.inf, 0.0], [0.0, -np.inf]])
    loop.add([0], [0.0, 0.0])
    with pytest.raises(vs.InfeasibleError):
        vs.JunctionTree(loop).infer()
    assert not vs.JunctionTree(loop).infer_many({0: [0, 1, None]}).feasible.any()


def test_evidence_of_the_tree() -> None:
    rng = np.random.default_rng(8)
    graph = random_graph(rng, 8, 1.0)
    given_: dict[Any, Any] = {"v0": 0, "v3": np.linspace(-1, 1, graph.cardinalities[3])}
    jt = vs.JunctionTree(graph, evidence=given_)
    codes = evidence_rows(rng, graph, 40, 0.3)
    codes[:, 0] = rng.integers(-1, 1, 40)
    m = jt.infer_many(codes)
    for row in range(40):
        known = {v: int(x) for v, x in enumerate(codes[row]) if x >= 0}
        try:
            r = jt.infer(known)
        except vs.InfeasibleError:
            assert not m.feasible[row]
            continue
        assert m.log_z[row] == pytest.approx(r.log_z, abs=1e-11)
    jt.infer({"v5": 0})  # prepared for something else in between
    assert_same_bits(jt.infer_many(codes).log_z, m.log_z)
    if graph.cardinalities[0] > 1:
        codes[7, 0] = 1
        with pytest.raises(ValueError, match="row 7 of frame: evidence for 'v0' contradicts"):
            jt.infer_many(codes)


@pytest.mark.simd
@pytest.mark.parametrize("scale", [200.0, 2000.0, 1e6])
def test_numbers_of_any_size(scale: float) -> None:
    """Questions that plain numbers cannot hold are asked one by one."""
    rng = np.random.default_rng(3)
    graph = vs.FactorGraph([3] * 6)
    for v in range(5):
        graph.add([v, v + 1], scale * rng.normal(size=(3, 3)))
    graph.add([0, 5], scale * rng.normal(size=(3, 3)))
    jt = vs.JunctionTree(graph)
    codes = evidence_rows(rng, graph, 30, 0.3)
    m = jt.infer_many(codes)
    assert m.feasible.all()
    for row in range(30):
        r = jt.infer({v: int(x) for v, x in enumerate(codes[row]) if x >= 0})
        assert m.log_z[row] == pytest.approx(r.log_z, rel=1e-13)
        for p, q in zip(m.marginals, r.marginals, strict=True):
            np.testing.assert_allclose(p[row], q, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("low", "alone"), [(-np.inf, False), (-50.0, False), (-1e4, True)])
def test_rows_that_masks_ask_one_by_one_are_counted(low: float, alone: bool) -> None:
    graph = vs.FactorGraph([2] * 3)
    for v in range(2):
        graph.add([v, v + 1], [[0.0, low], [1.0, 0.0]])
    m = vs.JunctionTree(graph).infer_many({0: [0, None], 2: [None, 1]})
    assert m.stats == {"rows": 2, "one_by_one": 2 * alone}
    how = "one by one, since its scores are far apart" if alone else "several at once"
    assert m.reason.endswith(f"with 2 rows, {how}")


@pytest.mark.simd
def test_long_chains_of_small_numbers() -> None:
    """Messages are scaled: a thousand factors of 1e-30 are no underflow, and none is taken."""
    n = 1000
    graph = vs.FactorGraph([2] * n)
    for v in range(n - 1):
        graph.add([v, v + 1], [[-70.0, -69.0], [-69.5, -70.0]])
    m = vs.JunctionTree(graph).infer_many({0: [0, 1, None], n - 1: [None, 1, 0]})
    assert m.stats["one_by_one"] == 0
    for row, known in enumerate(({0: 0}, {0: 1, n - 1: 1}, {n - 1: 0})):
        assert m.log_z[row] == pytest.approx(vs.infer(graph, evidence=known).log_z, rel=1e-13)


def test_trees_too_large_for_several_at_once() -> None:
    rng = np.random.default_rng(4)
    graph = random_graph(rng, 9)
    small = vs.JunctionTree(graph)
    limit = small.memory + 200
    jt = vs.JunctionTree(graph, memory_limit=limit)
    codes = evidence_rows(rng, graph, 3, 0.3)
    m = jt.infer_many(codes)
    assert m.stats["one_by_one"] == 3
    assert m.reason.endswith("one by one, since its tables are large")
    assert_as_one_by_one(small, codes, m)
    with pytest.raises(vs.MemoryLimitError, match="ask for fewer rows at a time"):
        jt.infer_many(evidence_rows(rng, graph, 3000, 0.3))


def test_equal_rows_are_answered_once_one_by_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    graph = random_graph(rng, 9)
    jt = vs.JunctionTree(graph, memory_limit=vs.JunctionTree(graph).memory + 2000)
    codes = evidence_rows(rng, graph, 4, 0.3)[[0, 1, 1, 2, 0, 3]]
    asked: list[int] = []
    own = vs.JunctionTree._one
    monkeypatch.setattr(
        vs.JunctionTree, "_one", lambda self, *args: (asked.append(args[4]), own(self, *args))[1]
    )
    m = jt.infer_many(codes)
    assert (m.stats["one_by_one"], asked) == (6, [0, 1, 3, 5])
    assert_same_bits(m.log_z[[1, 0]], m.log_z[[2, 4]])
    assert_as_one_by_one(jt, codes, m)


def test_progress_deadlines_and_errors_of_callbacks() -> None:
    rng = np.random.default_rng(2)
    graph = random_graph(rng, 10)
    jt = vs.JunctionTree(graph)
    codes = evidence_rows(rng, graph, 500, 0.3)
    seen: list[tuple[int, int]] = []
    jt.infer_many(codes, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (500, 500)
    assert all(0 <= done <= total == 500 for done, total in seen)

    def refuse(done: int, total: int) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        jt.infer_many(codes, progress=refuse)
    with pytest.raises(vs.DeadlineError):
        jt.infer_many(codes, deadline=1e-9)
    assert jt.infer_many(codes).n_rows == 500


def test_a_network_as_pyagrum_answers() -> None:
    gum = pytest.importorskip("pyagrum", reason="pyAgrum is the oracle")
    bn = gum.fastBN("a[3]->b->c[4]<-d->e;b->e[3]->f;a->f")
    graph = vs.from_pyagrum(bn)
    rng = np.random.default_rng(6)
    codes = evidence_rows(rng, graph, 25, 0.3)
    m = vs.JunctionTree(graph).infer_many(codes)
    engine = gum.LazyPropagation(bn)
    for row in range(25):
        known = {graph.names[v]: int(x) for v, x in enumerate(codes[row]) if x >= 0}
        engine.setEvidence(known)
        assert float(np.exp(m.log_z[row])) == pytest.approx(engine.evidenceProbability(), rel=1e-5)
        for name in graph.names:
            np.testing.assert_allclose(m[name][row], engine.posterior(name).toarray(), atol=1e-5)


@pytest.mark.simd
def test_states_that_all_rows_side_by_side_rule_out() -> None:
    rng = np.random.default_rng(3)
    n, states = 6, 3
    graph = vs.FactorGraph([states] * n)
    graph.add(range(n), rng.normal(size=[states] * n))
    graph.add([0, 1], rng.normal(size=(states, states)))
    jt = vs.JunctionTree(graph)
    codes = np.full((24, n), -1)
    codes[:, :4] = np.repeat(rng.integers(0, states, (3, 4)), 8, axis=0)
    codes[::3, 0] = -1
    mixed = codes[rng.permutation(24)]
    m = jt.infer_many(mixed)
    assert_as_one_by_one(jt, mixed, m)
    for row in range(24):
        alone = jt.infer_many(mixed[row : row + 1])
        assert_same_bits(m.log_z[row : row + 1].copy(), alone.log_z)


def test_marginals_are_cut_once(rng: np.random.Generator) -> None:
    graph = random_graph(rng, 6)
    m = vs.JunctionTree(graph).infer_many(evidence_rows(rng, graph, 5, 0.0))
    before = len(pickle.dumps(m))
    cut = m.marginals
    assert m.marginals is cut
    assert len(pickle.dumps(m)) == before
    for again in (m, pickle.loads(pickle.dumps(m))):
        assert len(again.marginals) == len(again) == 6
        for v, table in enumerate(again.marginals):
            assert_same_bits(table, m[v])
            assert not table.flags.writeable
