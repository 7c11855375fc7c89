"""Questions to a `GraphResult`: joints, pairs, entropy, frames; by enumeration."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from checks import method_of
from graph_oracle import graph_of, log_joint, log_sum, marginal, models, probabilities
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr

import valuesparse as vs


def _model(seed: int = 0, n: int = 5, k: int = 3, scale: float = 1.0):
    """A cycle with a chord, a table of three variables and local ones, zeros here and there."""
    rng = np.random.default_rng(seed)
    scopes: list[tuple[int, ...]] = [(v, (v + 1) % n) for v in range(n)]
    scopes += [(2, 0), (1, 4, 3), (3, 1), (0,), (2,), ()]
    factors = []
    for scope in scopes:
        table = rng.normal(0.0, scale, [k] * len(scope))
        factors.append((scope, np.where(rng.random(table.shape) < 0.1, -np.inf, table)))
    factors[-1] = ((), np.array(0.3))
    return [k] * n, factors


def _agrees(r: vs.GraphResult, p: np.ndarray, factors: Any, tolerance: float = 1e-10) -> None:
    """Every query of `r` is about the distribution `p`."""
    close = {"rtol": 0, "atol": tolerance}
    assert r.entropy() == pytest.approx(entr(p).sum(), rel=1e-9, abs=1e-9)
    for (scope, _), table in zip(factors, r.factor_marginals(), strict=True):
        np.testing.assert_allclose(table, marginal(p, list(scope)), **close)
    pairs = r.pairwise()
    wanted = {frozenset(c) for scope, _ in factors for c in itertools.combinations(scope, 2)}
    assert {frozenset(pair) for pair in pairs} == wanted
    assert len(pairs) == len(wanted)
    for pair, table in pairs.items():
        np.testing.assert_allclose(table, marginal(p, list(pair)), **close)
    some = list(range(p.ndim))[::-2]
    np.testing.assert_allclose(r.joint(some), marginal(p, some), **close)


@settings(max_examples=150)
@given(model=models(most=7), data=st.data())
def test_all_queries_given_evidence_of_the_tree_and_of_the_call(model, data: st.DataObject) -> None:
    """States and likelihoods, of both, also on the same variable: they multiply."""
    cards, factors, first = model
    second: dict[int, Any] = {}
    for v, k in enumerate(cards):
        kind = data.draw(st.sampled_from(["none", "none", "soft", "hard"]))
        if kind == "soft":
            second[v] = data.draw(st.lists(st.floats(-3, 3), min_size=k, max_size=k))
        elif kind == "hard" and not isinstance(first.get(v), int):
            second[v] = data.draw(st.integers(0, k - 1))
    full = log_joint(cards, factors, first) + log_joint(cards, [], second)
    if full.max() == -np.inf:
        return
    jt = vs.JunctionTree(graph_of(cards, factors), evidence=first)
    r = jt.infer(second)
    assert r.log_z == pytest.approx(log_sum(full), rel=1e-10, abs=1e-10)
    p = probabilities(full)
    _agrees(r, p, factors)
    _agrees(pickle.loads(pickle.dumps(r)), p, factors)
    some = list(range(len(cards)))[:3]
    np.testing.assert_allclose(jt.joint(some, second), marginal(p, some), rtol=0, atol=1e-10)


@settings(max_examples=150)
@given(
    model=models(most=7),
    zeta=st.sampled_from([0.0, 0.3, 0.6, 0.9]),
    revisit=st.sampled_from([None, 0]),
    compiled=st.booleans(),
)
def test_under_zeta_all_queries_are_about_one_distribution(
    model, zeta: float, revisit: int | None, compiled: bool
) -> None:
    """The model conditioned on the final islands: marginals of free variables are its, too."""
    cards, factors, evidence = model
    if log_joint(cards, factors, evidence).max() == -np.inf:
        return
    graph = graph_of(cards, factors)
    if compiled:
        hard = {v: x for v, x in evidence.items() if isinstance(x, int)}
        soft = {v: x for v, x in evidence.items() if not isinstance(x, int)}
        soft |= {v: np.linspace(-1.0, 1.0, cards[v]) for v in hard}
        evidence = soft | hard
        r = vs.JunctionTree(graph, evidence=hard).infer(soft, zeta=zeta, revisit=revisit)
        full = log_joint(cards, factors, hard) + log_joint(cards, [], soft)
    else:
        r = vs.infer(graph, zeta=zeta, revisit=revisit, evidence=evidence)
        full = log_joint(cards, factors, evidence)
    held = {v: int(x) for v, x in enumerate(r.islands) if x >= 0}
    full = full + log_joint(cards, [], held)
    assert r.log_z == pytest.approx(log_sum(full), rel=1e-9, abs=1e-9)
    p = probabilities(full)
    _agrees(r, p, factors, 1e-9)
    for v in set(range(len(cards))) - set(held):
        np.testing.assert_allclose(r.joint([v]), r.marginals[v], rtol=0, atol=1e-9)


def test_expectations_under_zeta_are_those_of_the_pairs() -> None:
    rng = np.random.default_rng(3)
    graph = vs.FactorGraph([2] * 6)
    graph.add([0], [3.0, 0.0])
    features = []
    for a, b in itertools.combinations(range(6), 2):
        features.append((a, b))
        graph.add_feature((a, b), lambda x, y: x == y, float(rng.normal()))
    r = vs.infer(graph, zeta=0.9)
    assert (r.islands >= 0).any()
    pairs = r.pairwise()
    assert (r.islands < 0).sum() > 1
    wanted = [np.trace(pairs[pair]) for pair in features]
    np.testing.assert_allclose(r.expectations(), wanted, rtol=0, atol=1e-12)


def test_the_result_of_a_part_is_about_that_part() -> None:
    cards, factors = _model()
    kept = [0, 2, 6, 9]
    r = vs.infer(graph_of(cards, factors), factors=kept)
    some = [factors[f] for f in kept]
    _agrees(r, probabilities(log_joint(cards, some, {})), some)


def test_both_ways_to_the_entropy_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        cards, factors = _model(seed, n=6)
        r = vs.infer(graph_of(cards, factors), evidence={1: [0.0, 2.0, -1.0]})
        value = r.entropy()
        monkeypatch.setattr("valuesparse.inference._joints._UNSEEN", 0.0)
        assert r.entropy() == pytest.approx(value, rel=1e-12, abs=1e-13)
        monkeypatch.undo()


def test_entropy_of_large_scores_keeps_its_digits() -> None:
    """Not the difference of two numbers of the size of the scores."""
    graph = vs.FactorGraph([2, 2, 2, 2])
    for a, b in [(0, 1), (1, 2), (2, 3), (3, 0)]:
        graph.add([a, b], [[1e9, -1e9], [-1e9, 1e9]])
    assert vs.infer(graph).entropy() == pytest.approx(np.log(2), rel=1e-14)
    graph.add([0], [1e9, 0.0])
    assert vs.infer(graph).entropy() == 0.0


def test_entropy_needs_tables_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cards, factors = _model()
    r = vs.infer(graph_of(cards, factors))
    value = r.entropy()
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 500)
    monkeypatch.setattr("valuesparse.inference.junction_tree.default_memory_limit", lambda: 500)
    assert r.entropy() == value  # it has the memory that the answer had
    small = pickle.loads(pickle.dumps(r))
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 600)
    assert small.entropy() == pytest.approx(value, rel=1e-12)  # conditioned on variables
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 500)
    with pytest.raises(vs.MemoryLimitError, match="above memory_limit="):
        pickle.loads(pickle.dumps(r)).entropy()


def _expected_score(r: vs.GraphResult, graph: vs.FactorGraph, evidence: dict[int, Any]) -> float:
    total = 0.0
    for factor, table in zip(graph.factors, r.factor_marginals(), strict=True):
        total += float(np.where(table > 0, table * factor.log_table, 0.0).sum())
    for v, x in evidence.items():
        if not isinstance(x, int):
            total += float(r.marginals[v] @ x)
    return total


METHODS = ["bp", "trw", "mean_field", "structured_mean_field", "junction_tree"]


@pytest.mark.parametrize("method", METHODS)
def test_log_z_is_expected_score_plus_entropy(method: str) -> None:
    """For each free energy the entropy that it is made with."""
    cards, factors = _model(seed=5, scale=0.5)
    factors = [(s, np.where(np.isinf(t), -1.0, t)) for s, t in factors]
    evidence: dict[int, Any] = {1: np.array([0.5, 0.0, -0.5]), 3: 2}
    graph = graph_of(cards, factors)
    asked = method_of(method, tolerance=1e-12) if method != "junction_tree" else method
    r = vs.infer(graph, method=asked, evidence=evidence)
    assert r.converged
    energy = _expected_score(r, graph, evidence)
    assert energy + r.entropy() == pytest.approx(r.log_z, abs=1e-7)
    pairs = r.pairwise()
    assert pairs[2, 0].shape == (3, 3)
    for (a, b), table in pairs.items():
        np.testing.assert_allclose(table, r.joint([a, b]), rtol=0, atol=1e-12)
        np.testing.assert_allclose(table.sum(axis=1), r.marginals[a], rtol=0, atol=1e-7)


@pytest.mark.smoke
def test_loopy_entropy_is_exact_without_cycles() -> None:
    rng = np.random.default_rng(2)
    graph = vs.FactorGraph([2, 3, 2, 4])
    for scope in [(0, 1), (1, 2, 3), (0,)]:
        graph.add(scope, rng.normal(size=[graph.cardinalities[v] for v in scope]))
    exact = vs.infer(graph).entropy()
    assert vs.infer(graph, method="bp").entropy() == pytest.approx(exact, abs=1e-9)


def test_mean_field_knows_products_only() -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], [[0.3, 0.0], [0.0, 0.3]])
    r = vs.infer(graph, method="mean_field")
    np.testing.assert_array_equal(r.joint([0, 1]), np.outer(*r.marginals))
    np.testing.assert_array_equal(r.factor_marginals()[0], np.outer(*r.marginals))
    assert r.entropy() == pytest.approx(sum(entr(p).sum() for p in r.marginals), abs=1e-15)


def test_structured_mean_field_knows_the_joint_of_any_variables() -> None:
    rng = np.random.default_rng(4)
    graph = vs.FactorGraph([2, 3, 2, 2])
    for scope in [(0, 1), (1, 2), (2, 3)]:
        graph.add(scope, rng.normal(size=[graph.cardinalities[v] for v in scope]))
    exact = vs.infer(graph, evidence={2: 1})
    for r in (exact, pickle.loads(pickle.dumps(exact))):
        forest = vs.infer(graph, method="structured_mean_field", evidence={2: 1})
        for wanted in ([0, 3], [1], [3, 1, 0]):
            np.testing.assert_allclose(forest.joint(wanted), r.joint(wanted), rtol=0, atol=1e-9)
        assert forest.entropy() == pytest.approx(r.entropy(), abs=1e-9)


def test_pairs_go_by_name_and_come_once() -> None:
    graph = vs.FactorGraph([2, 2, 3], names=["a", ("b", 1), 7])
    graph.add([7, "a"], np.zeros((3, 2)))
    graph.add(["a", ("b", 1), 7], np.arange(12.0).reshape(2, 2, 3))
    r = vs.infer(graph)
    assert list(r.pairwise()) == [(7, "a"), ("a", ("b", 1)), (("b", 1), 7)]
    assert [pair for pair, _ in r.iter_pairwise(threads=1)] == list(r.pairwise())
    assert vs.infer(vs.FactorGraph([2, 2])).pairwise() == {}


def test_threads_never_show() -> None:
    cards, factors = _model(n=9)
    r = vs.infer(graph_of(cards, factors))
    for threads in (2, 3, 8):
        assert r.entropy(threads=threads) == r.entropy(threads=1)
        for a, b in zip(
            r.pairwise(threads=threads).values(), r.pairwise(threads=1).values(), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="threads must be"):
        r.entropy(threads=0)
    with pytest.raises(ValueError, match="threads must be"):
        r.pairwise(threads=0)


@pytest.mark.parametrize("method", ["exact", "bp", "mean_field", "structured_mean_field"])
def test_joint_refuses_a_variable_twice(method: str) -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="must not name one twice"):
        vs.infer(graph, method=method).joint([0, 0])


@pytest.mark.parametrize("variables", ["ab", "rain", 0])
def test_joint_tells_a_name_from_a_sequence_of_names(variables: object) -> None:
    graph = vs.FactorGraph([2, 2, 2], names=["a", "b", "rain"])
    graph.add(["a", "b"], np.zeros((2, 2)))
    for joint in (vs.infer(graph).joint, vs.JunctionTree(graph).joint):
        with pytest.raises(ValueError, match="variables must be a sequence of variables, got"):
            joint(variables)
    np.testing.assert_allclose(vs.infer(graph).joint(["a", "b"]), 0.25)


@pytest.mark.smoke
def test_to_frame() -> None:
    pandas = pytest.importorskip("pandas", reason="makes data frames of results")
    graph = vs.FactorGraph(
        [2, 3, 1], names=["rain", ("x", 1), 5], states=[["no", "yes"], None, [("s", 0)]]
    )
    graph.add(["rain"], np.log([0.25, 0.75]))
    r = vs.infer(graph)
    frame = r.to_frame()
    assert frame.index.names == ["variable", "state"]
    assert list(frame.columns) == ["marginal"]
    assert frame.index.tolist() == [
        ("rain", "no"), ("rain", "yes"),
        (("x", 1), 0), (("x", 1), 1), (("x", 1), 2), (5, ("s", 0)),
    ]  # fmt: skip
    assert frame.loc[("rain", "yes"), "marginal"] == r["rain"][1]
    assert frame["marginal"].dtype == np.float64
    frame.iloc[0, 0] = 9.0
    assert r["rain"][0] == pytest.approx(0.25)
    plain = vs.infer(vs.FactorGraph([2, 2])).to_frame()
    assert isinstance(plain.index, pandas.MultiIndex)
    assert plain.index.levels[0].dtype.kind == "i"
    assert len(vs.infer(vs.FactorGraph([])).to_frame()) == 0


@pytest.mark.smoke
def test_junction_trees_pickle() -> None:
    """By what they were built from: the same tree, the same bits, and the graph of then."""
    cards, factors = _model(n=8)
    graph = graph_of(cards, factors)
    graph.set_evidence({0: 1})
    jt = vs.JunctionTree(
        graph, evidence={1: [0.0, 1.0, 2.0], 4: 2}, memory_limit=10**9, effort=0.5, seed=3
    )
    graph.add([2], [9.0, 0.0, 0.0])
    other = pickle.loads(pickle.dumps(jt))
    assert (other.cliques, other.parent, other.width) == (jt.cliques, jt.parent, jt.width)
    assert (other.memory, other.memory_limit, other.seconds) == (jt.memory, 10**9, jt.seconds)
    for evidence in (None, {2: 1}, {3: [0.0, -1.0, 1.0]}):
        a, b = jt.infer(evidence), other.infer(evidence)
        assert a.log_z == b.log_z == other.infer(evidence).log_z
        for p, q in zip(a.marginals, b.marginals, strict=True):
            np.testing.assert_array_equal(p, q)
        np.testing.assert_array_equal(jt.decode(evidence).states, other.decode(evidence).states)
        drawn = [tree.sample(5, 1, evidence=evidence) for tree in (jt, other)]
        np.testing.assert_array_equal(*drawn)
        np.testing.assert_array_equal(jt.joint([2, 5], evidence), other.joint([2, 5], evidence))
    with pytest.raises(ValueError, match="contradicts"):
        other.infer({4: 0})


def test_a_default_limit_is_that_of_the_machine_that_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(vs.JunctionTree(vs.FactorGraph([2, 2])))
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 12345)
    assert pickle.loads(data).memory_limit == 12345


def test_arguments_of_zeta_are_checked() -> None:
    jt = vs.JunctionTree(vs.FactorGraph([2, 2]))
    for bad in (-0.1, 1.1, float("nan"), "x"):
        with pytest.raises(ValueError, match="zeta must lie in"):
            jt.infer(zeta=bad)
    with pytest.raises(ValueError, match="revisit must be"):
        jt.infer(zeta=0.5, revisit=-1)
    with pytest.raises(ValueError, match="deadline must be"):
        jt.infer(zeta=0.5, deadline=-1)
    with pytest.raises(vs.InfeasibleError):
        vs.JunctionTree(vs.FactorGraph([2, 2]), evidence={0: 1}).infer(
            {0: [0.0, -np.inf]}, zeta=0.5
        )


BIG = 2**30


@pytest.mark.parametrize(
    "call",
    [
        lambda g: vs.infer(g),
        lambda g: vs.infer(g, method="exact"),
        lambda g: vs.infer(g, method="junction_tree", memory_limit=10),
        lambda g: vs.infer(g, method="bp"),
        lambda g: vs.infer(g, method="trw"),
        lambda g: vs.infer(g, method="mean_field"),
        lambda g: vs.infer(g, method="structured_mean_field"),
        lambda g: vs.infer(g, zeta=0.5),
        lambda g: vs.decode(g),
        lambda g: vs.sample(g, 1),
        lambda g: vs.log_prob(g, [0] * g.n_variables),
        lambda g: vs.JunctionTree(g),
    ],
)
@pytest.mark.parametrize("cards", [[BIG], [2] + [2**31 - 1] * 50])
def test_too_many_states_are_refused_before_anything_is_allocated(call, cards, monkeypatch) -> None:
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 2**33)
    monkeypatch.setattr("valuesparse.inference.junction_tree.default_memory_limit", lambda: 2**33)
    with pytest.raises(vs.MemoryLimitError, match=r"marginals alone need \S+ bytes .* of variable"):
        call(vs.FactorGraph(cards))


def test_too_many_samples_are_refused() -> None:
    with pytest.raises(vs.MemoryLimitError, match="size=1000000000000 samples of 2 variables need"):
        vs.sample(vs.FactorGraph([2, 2]), 10**12)


def test_tables_are_made_in_little_room() -> None:
    """Configurations in blocks: all at once they take a number for each variable and entry."""

    class Count(vs.factors.Factor):
        def __init__(self, *scope: int) -> None:
            self.scope = scope

        def log_potential(self, states):
            return (states[:, :3] * [1.0, 10.0, 100.0]).sum(axis=1)

    cards = [41, 43, 67]
    a, b, c = np.indices(cards)
    np.testing.assert_array_equal(Count(0, 1, 2).table(cards), a + 10 * b + 100 * c)
    tracemalloc.start()
    try:
        table = Count(*range(20)).table([2] * 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.sum() == 111 * 2**19
    assert peak < 5 * table.nbytes


def test_tables_of_factors_that_do_not_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = vs.FactorGraph([2] * 10)
    for _ in range(5):
        graph.add_feature(range(10), [0] * 10, 1.0)
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 40_000)
    with pytest.raises(vs.MemoryLimitError, match=r"made of 5 factors need 4.1e\+04 bytes, .*\(4e"):
        vs.infer(graph)


def test_tables_of_factors_have_a_limit() -> None:
    class Wide(vs.factors.Factor):
        def __init__(self, *scope: int) -> None:
            self.scope = scope

        def log_potential(self, states):
            raise AssertionError("must not be asked")

    graph = vs.FactorGraph([2] * 40)
    with pytest.raises(vs.MemoryLimitError, match="predicate of factor 0 over 40 variables"):
        graph.add_feature(range(40), lambda *states: True, 1.0)
    graph.add(Wide(*range(40)))
    for method in ("auto", "bp"):
        with pytest.raises(vs.MemoryLimitError, match="that of a Wide over 40 variables"):
            vs.infer(graph, method=method)


def test_a_tree_answers_in_the_records_of_the_functions() -> None:
    cards, factors = _model(seed=2, scale=0.5)
    graph, evidence = graph_of(cards, factors), {1: 0, 3: [0.0, 1.0, -0.5]}
    jt = vs.JunctionTree(graph)
    d, other = jt.decode(evidence), vs.decode(graph, evidence=evidence)
    assert type(d) is vs.Decoding
    assert type(d.score) is type(other.score)
    assert d.score == pytest.approx(other.score, rel=1e-12)
    assert (d.converged, d.upper, d.conditioned) == (True, None, ())
    assert type(jt.log_z(evidence)) is type(vs.infer(graph).log_z)
    assert jt.log_z(evidence) == pytest.approx(vs.infer(graph, evidence=evidence).log_z, rel=1e-12)
    options = {"threads": 1, "deadline": 60.0, "evidence": evidence}
    mine, theirs = jt.sample(5, 1, **options), vs.sample(graph, 5, 1, **options)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    with pytest.raises(TypeError, match="positional"):
        jt.sample(5, 1, evidence)
    with pytest.raises(TypeError, match="rng must be a Generator, a seed or None"):
        jt.sample(5, "dice")


def test_joints_are_watched() -> None:
    cards, factors = _model(seed=2, scale=0.5)
    jt = vs.JunctionTree(graph_of(cards, factors))
    seen: list[tuple[int, int]] = []
    expected = jt.joint([2, 4])
    found = jt.joint([2, 4], deadline=60.0, progress=lambda *at: seen.append(at))
    assert (found == expected).all()
    assert seen[-1][0] == seen[-1][1] > 0
    with pytest.raises(ValueError, match="deadline must be a positive number"):
        jt.joint([2, 4], deadline=-1.0)
    with pytest.raises(vs.DeadlineError):
        jt.joint([2, 4], deadline=1e-9)

    def stop(*_: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        jt.joint([2, 4], progress=stop)


@pytest.mark.parametrize("limit", [-1, 1e9, True, "5", 1.5])
def test_a_memory_limit_is_checked_where_nothing_needs_memory(limit: object) -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add(vs.factors.Xor(0, 1))
    for ask in (vs.infer, vs.decode, vs.JunctionTree):
        with pytest.raises(ValueError, match="memory_limit must be an integer >= 0"):
            ask(graph, memory_limit=limit)


def test_two_passes_need_no_tables() -> None:
    graph = vs.FactorGraph([2] * 4)
    rng = np.random.default_rng(2)
    for a in range(3):
        graph.add([a, a + 1], rng.normal(size=(2, 2)))
    r = vs.infer(graph, memory_limit=0)
    expected = vs.infer(graph)
    assert (r.method, r.exact, r.reason) == ("exact", True, expected.reason)
    np.testing.assert_allclose(r.marginals, expected.marginals, atol=1e-12)
    assert r.log_z == pytest.approx(expected.log_z, abs=1e-12)
    graph.add([3, 0], rng.normal(size=(2, 2)))
    assert vs.infer(graph, memory_limit=0).method == "bp"
